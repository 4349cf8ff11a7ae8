"""sacreBLEU's test sets: fetched by our downloader into sacreBLEU's cache, read by sacreBLEU itself.

sacreBLEU's own downloads are not atomic and end the process when they fail. Its list of test sets and its readers of
their formats are used unchanged, so that scores compare with published ones.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from nmt.config import did_you_mean
from nmt.corpora.archive import unpack
from nmt.corpora.download import Fetcher
from nmt.corpora.locations import Input
from nmt.corpora.transfer import RemoteFile
from nmt.errors import DataError
from nmt.io.writing import FAULTS, WriteError, writing
from nmt.text.languages import fitting
from nmt.text.lines import read_lines

_RAW = "raw"
_ARCHIVES = (".tgz", ".tar.gz", ".tar", ".zip")


class SourceAndReferences(NamedTuple):
    """Source lines and, for each reference, as many reference lines."""

    source: list[str]
    references: list[list[str]]


def langpair_of(name: str, source_lang: str, target_lang: str) -> str:
    """sacreBLEU's name of the languages of a test set, which may have other codes; those that were given if none fits.

    Raises:
        DataError: sacreBLEU has no such test set.
    """
    pairs = [pair.partition("-")[::2] for pair in _dataset(name).langpairs]
    fits = ((s, t) for s, t in pairs if fitting([s], source_lang) and fitting([t], target_lang))
    exact = (source_lang, target_lang)
    return "-".join(exact if exact in pairs else next(fits, exact))


def files_of_test_set(name: str, langpair: str, given: RemoteFile | None = None, folder: Path = Path()) -> list[Input]:
    """The files of a test set, in sacreBLEU's folder unless the user names a cache.

    Args:
        name: sacreBLEU's, for example ``wmt14/full``.
        langpair: for example ``en-de``.
        given: read the test set from this file instead of those that sacreBLEU lists.
        folder: in the cache, the folder that is laid out like sacreBLEU's.

    Raises:
        DataError: sacreBLEU has no such test set, or not for these languages.
    """
    dataset = _dataset(name, langpair)
    listed = listed_files(name)
    # Only files that sacreBLEU itself would download may be put into its folder.
    is_listed = given is None or given.md5 in [each.md5 for each in listed]
    return [
        Input(
            dataset._get_tarball_filename(remote.public_url),
            remote=remote,
            folder=folder / name / _RAW,
            shared_folder=Path(dataset._outdir) / _RAW if is_listed else None,
        )
        for remote in (listed if given is None else [given])
    ]


def fetch_test_set(name: str, langpair: str, fetcher: Fetcher, given: RemoteFile | None = None) -> SourceAndReferences:
    """A test set by sacreBLEU's name, downloaded if it is not in sacreBLEU's folder (or the cache, laid out like it).

    Args:
        name, langpair, given: as for :func:`files_of_test_set`.
        fetcher: fetches its files.

    Raises:
        DataError: sacreBLEU has no such test set, or not for these languages.
        DownloadError: a file could not be fetched.
    """
    files = [fetcher.fetch_input(part) for part in files_of_test_set(name, langpair, given)]
    return read_test_set(name, langpair, files)


def read_test_set(name: str, langpair: str, files: Sequence[Path]) -> SourceAndReferences:
    """The lines of a test set, from its files as they were fetched.

    Raises:
        DataError: sacreBLEU cannot read them, or source and references differ in their number of lines.
        DownloadError: an archive is damaged.
    """
    # Absolute, since sacreBLEU joins its folder to the same file's path twice.
    raw = files[0].parent.absolute()
    for path in files:
        if path.name.endswith(_ARCHIVES):
            unpack(path, None, raw)
    lines = _read(_dataset(name, langpair), langpair, raw.parent, raw)
    counts = {len(side) for side in (lines.source, *lines.references)}
    if len(counts) != 1 or not lines.references:
        raise DataError(f"{name}, {langpair}: source and references have {sorted(counts)} lines. Delete {raw.parent}.")
    return lines


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


def _read(original: Any, langpair: str, folder: Path, raw: Path) -> SourceAndReferences:
    """The lines of a test set, converted to text from its downloaded files.

    Text that is already in the cache is replaced: a process that was killed may have left it incomplete.
    """
    dataset = copy.copy(original)
    dataset._rawdir = str(raw)
    dataset.maybe_download = lambda: None
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
    return SourceAndReferences(source_lines, reference_lines)
