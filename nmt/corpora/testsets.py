"""sacreBLEU's test sets: fetched by our downloader into sacreBLEU's cache, read by sacreBLEU itself.

sacreBLEU's own downloads are not atomic and end the process when they fail. Its list of test sets and its readers of
their formats are used unchanged, so that scores compare with published ones.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt.config import did_you_mean
from nmt.corpora.archive import unpack
from nmt.corpora.download import Notify, fetch
from nmt.corpora.transfer import Progress, RemoteFile
from nmt.errors import DataError
from nmt.text import encode_line, read_lines
from nmt.writing import FAULTS, WriteError, open_to_write, writing

_ARCHIVES = (".tgz", ".tar.gz", ".tar", ".zip")


@dataclass(frozen=True)
class TestSet:
    """Source lines and, for each reference, as many reference lines."""

    __test__ = False  # Not a test, whatever pytest makes of the name.

    name: str
    langpair: str
    source: list[str]
    references: list[list[str]]
    files: list[tuple[RemoteFile, Path]]
    """The files that it was read from: each with its address and its path in the cache."""


def fetch_test_set(
    name: str,
    langpair: str,
    *,
    file: RemoteFile | None = None,
    cache: Path | None = None,
    mirrors: Sequence[str] = (),
    offline: bool = False,
    progress: Progress | None = None,
    notify: Notify | None = None,
) -> TestSet:
    """A test set by sacreBLEU's name, downloaded if it is not in sacreBLEU's cache.

    Args:
        name: for example ``wmt14/full``.
        langpair: for example ``en-de``.
        file: read the test set from this file instead of those that sacreBLEU lists.
        cache: a folder laid out like sacreBLEU's; if unset, ``$SACREBLEU`` or ``~/.sacrebleu``.
        mirrors: as for :func:`nmt.corpora.download.fetch`.
        offline: do not use the network.
        progress: called for every downloaded block.
        notify: called with notices.

    Raises:
        DataError: sacreBLEU has no such test set, or not for these languages.
        DownloadError: a file could not be fetched.
    """
    dataset = _dataset(name, langpair)
    # Absolute, since sacreBLEU joins its folder to the same file's path twice.
    folder = (Path(dataset._outdir) if cache is None else cache / name).absolute()
    raw = folder / "raw"
    files = []
    for remote in listed_files(name) if file is None else [file]:
        path = fetch(
            remote,
            raw,
            mirrors=mirrors,
            offline=offline,
            progress=progress,
            notify=notify,
            name=dataset._get_tarball_filename(remote.public_url),
        )
        if path.name.endswith(_ARCHIVES):
            unpack(path, None, raw)
        files.append((remote, path))
    source, references = _read(dataset, langpair, folder, raw)
    counts = {len(side) for side in (source, *references)}
    if len(counts) != 1 or not references:
        raise DataError(f"{name}, {langpair}: source and references have {sorted(counts)} lines. Delete {folder}.")
    return TestSet(name, langpair, source, references, files)


def listed_files(name: str) -> list[RemoteFile]:
    """The files of a test set as sacreBLEU lists them.

    Raises:
        DataError: sacreBLEU has no such test set.
    """
    dataset = _dataset(name)
    checksums = dataset.md5 or [None] * len(dataset.data)
    return [RemoteFile(url, md5=md5) for url, md5 in zip(dataset.data, checksums, strict=True)]


def _dataset(name: str, langpair: str | None = None) -> Any:
    """sacreBLEU's object for a test set; an error if it lacks the language pair."""
    from sacrebleu.dataset import DATASETS

    if name not in DATASETS:
        raise DataError(
            f"sacreBLEU has no test set {name!r}{did_you_mean(name, DATASETS)}; `sacrebleu --list` shows all."
        )
    dataset = DATASETS[name]
    if langpair is not None and langpair not in dataset.langpairs:
        known = ", ".join(sorted(dataset.langpairs))
        raise DataError(f"the test set {name} has no {langpair!r}; it has {known}.")
    return dataset


def _convert_linearly(dataset: Any) -> None:
    """Make sacreBLEU's object for a test set extract segments by :func:`segments`.

    sacreBLEU's own pattern gives the same text, but takes cubic time on a long line without ``</seg>``.
    """
    from sacrebleu.dataset.fake_sgml import FakeSGMLDataset, WMTAdditionDataset

    if not isinstance(dataset, FakeSGMLDataset):
        return
    convert = dataset._convert_format

    def convert_linearly(raw: str, text: str) -> None:
        if isinstance(dataset, WMTAdditionDataset) and not raw.endswith(".sgm"):
            convert(raw, text)
            return
        with open_to_write(Path(text), "wb") as out:
            out.writelines(encode_line(dataset._clean(line)) for line in segments(read_lines(raw)))

    dataset._convert_format = convert_linearly


def segments(lines: Iterable[str]) -> Iterator[str]:
    """The text of each segment line of an SGML test set, without its opening tag and its last closing tag."""
    for line in lines:
        if line.startswith("<seg "):
            begin = line.find(">") + 1
            end = line.rfind("</seg>", begin)
            is_whole = begin > 0 and end >= 0
            yield line[begin:end] + line[end + len("</seg>") :] if is_whole else line


def _read(original: Any, langpair: str, folder: Path, raw: Path) -> tuple[list[str], list[list[str]]]:
    """The lines of a test set, converted to text from its downloaded files.

    Text that is already in the cache is replaced: a process that was killed may have left it incomplete.
    """
    dataset = copy.copy(original)
    dataset._rawdir = str(raw)
    dataset.maybe_download = lambda: None
    _convert_linearly(dataset)
    with writing(folder):
        temporary_folder = tempfile.TemporaryDirectory(prefix=".text-", dir=folder)
    with temporary_folder as temporary:
        dataset._outdir = temporary
        try:
            dataset.process_to_text(langpair)
            source = Path(dataset.get_source_file(langpair))
            references = [Path(file) for file in dataset.get_reference_files(langpair)]
        except (Exception, SystemExit) as error:
            if isinstance(error, OSError) and error.errno in FAULTS:
                raise WriteError.of(error, folder) from error
            raise DataError(
                f"sacreBLEU cannot read its test set {original.name} from {raw} ({error}). "
                f"Delete {folder} and try again."
            ) from None
        source_lines = list(read_lines(source))
        reference_lines = [list(read_lines(reference)) for reference in references]
        for file in Path(temporary).iterdir():
            with writing(folder / file.name):
                file.replace(folder / file.name)
    return source_lines, reference_lines
