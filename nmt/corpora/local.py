"""The files of the user's own text, with their checksums. A pipe and standard input are read once."""

from __future__ import annotations

import functools
import hashlib
import stat
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from nmt.corpora.pair_file import PairFile
from nmt.corpora.schema import LocalCorpus, LocalFilesCorpus, PairFileCorpus, Recipe
from nmt.data.manifest import SourceRecord
from nmt.errors import DataError
from nmt.hashing import sha256_of
from nmt.input_files import InputFiles, State, state_of
from nmt.text import ARCHIVES, STANDARD_INPUT, STDIN, InvalidUtf8, open_bytes
from nmt.writing import open_to_write

_BLOCK = 1 << 20


@dataclass(frozen=True)
class LocalText:
    """The user's files of a recipe."""

    records: list[SourceRecord]
    """One per file; for a pipe or standard input, size and checksum of what was read."""
    copies: dict[str, Path]
    """The copy of what each pipe delivered, by the pipe's path; that of standard input by ``-``."""
    files: InputFiles
    """The files that are read, as they were before."""

    def check_unchanged(self) -> None:
        """Check that no file has changed since its checksum was computed.

        Raises:
            DataError: a file has changed, or is gone.
        """
        checksums = {record.file: record.sha256 for record in self.records}
        if changed := self.files.changed(checksums):
            raise self.files.error(changed, "Run the same command again once it is complete.")

    def path(self, corpus: LocalCorpus | LocalFilesCorpus, language: str) -> Path:
        """The file that holds one side of a corpus."""
        path = local_file(corpus, language)
        return self.copies.get(str(path), path)

    def pair_file(
        self, corpus: PairFileCorpus, recipe: Recipe, *, invalid: InvalidUtf8 = "error", scored: bool = False
    ) -> PairFile:
        """The file of a corpus that holds both sides, as its reader takes it."""
        return PairFile(
            path=self.copies.get(corpus.file, Path(corpus.file)),
            name=STANDARD_INPUT if corpus.file == STDIN else corpus.file,
            source_lang=recipe.source_lang,
            target_lang=recipe.target_lang,
            invalid=invalid,
            columns=None if corpus.columns is None else tuple(corpus.columns),
            header=corpus.header,
            scored=scored,
        )


def take_local_text(recipe: Recipe, folder: Path) -> LocalText:
    """Find the user's files of a recipe, with their checksums.

    A pipe, such as ``<(zcat corpus.gz)``, and standard input can be read only once, so their content is copied into a
    folder.

    Args:
        folder: for copies of pipes; the caller removes it.

    Raises:
        DataError: a file is missing.
    """
    records: dict[str, SourceRecord] = {}
    copies: dict[str, Path] = {}
    files = {str(path): path for path in _files(recipe)}
    inputs = InputFiles.of({name: path for name, path in files.items() if name != STDIN})
    for name, path in files.items():
        if name == STDIN:
            copies[name] = folder / STANDARD_INPUT
            records[name] = _copy_stream(sys.stdin.buffer, name, copies[name])
        elif path.is_file():
            records[name] = SourceRecord(file=name, sha256=sha256_of(path), bytes=path.stat().st_size)
        elif not path.is_fifo():
            raise DataError(f"{path}: is neither a file nor a pipe, so it may have no end. Name a file.")
        else:
            copies[name] = folder / name.strip("/").replace("/", "-")
            with open_bytes(path) as stream:
                records[name] = _copy_stream(stream, name, copies[name])
    return LocalText(list(records.values()), copies, inputs)


def kind_of(path: Path | str) -> Literal["", "file", "folder", "other"]:
    """What a path is, with links followed; empty if nothing is there, or nothing can be, as under a name too long."""
    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError):
        return ""
    return "file" if stat.S_ISREG(mode) else "folder" if stat.S_ISDIR(mode) else "other"


def local_file(corpus: LocalCorpus | LocalFilesCorpus, language: str) -> Path:
    """The file that holds one language of a corpus.

    Raises:
        DataError: no file exists, or several exist with different text.
    """
    if isinstance(corpus, LocalFilesCorpus):
        path = Path(corpus.files[language])
        kind = kind_of(path)
        if kind in ("file", "other"):
            return path
        found = "is a folder, not a text file" if kind == "folder" else "does not exist"
        raise DataError(f"{path}: {found}. --train-source, --train-target and the like take the files themselves.")
    candidates = [Path(f"{corpus.prefix}.{language}{ending}") for ending in ("", *ARCHIVES)]
    existing = [path for path in candidates if kind_of(path) == "file"]
    if not existing:
        *others, last = ARCHIVES
        raise DataError(f"there is no {candidates[0]} (nor {', '.join(others)} or {last}). {_advice(corpus.prefix)}")
    return the_one(existing, "or name both files (for --train: with --train-source and --train-target)")


def the_one(existing: Sequence[Path], otherwise: str = "or name the right one") -> Path:
    """The first of a file and its compressed copies.

    Args:
        existing: their paths.
        otherwise: what else to do than remove one.

    Raises:
        DataError: they hold different text.
    """
    if len(existing) > 1 and len({_text_digest(path, state_of(path)) for path in existing}) > 1:
        raise DataError(
            f"{' and '.join(map(str, existing))} hold different text, so it is unclear which one to read. "
            f"Remove or rename one, {otherwise}."
        )
    return existing[0]


def _advice(prefix: str) -> str:
    """What to give instead of a prefix without files."""
    path = Path(prefix)
    if prefix.endswith("."):  # The shell completes two file names up to this point.
        return f"--train, --valid and --test take prefixes: leave off the . at the end and write {prefix.rstrip('.')}."
    plain = path.with_suffix("") if path.suffix in ARCHIVES else path
    if kind_of(path) == "file" and plain.suffix:
        stem = str(plain.with_suffix(""))
        return (
            f"{prefix} is a file, but --train, --valid and --test take prefixes: leave off {prefix.removeprefix(stem)} "
            f"and write {stem}, or name both files (for --train: with --train-source and --train-target). The name of "
            "a file with both sides must end in .tsv, .tmx or .zip."
        )
    return (
        "--train, --valid and --test take prefixes: corpus/europarl reads corpus/europarl.en and corpus/europarl.de. "
        "They also take NAME.tsv, NAME.tmx, a zip from OPUS, a folder, and - for standard input."
    )


def _files(recipe: Recipe) -> Iterator[Path]:
    for _, corpus in recipe.corpora():
        if isinstance(corpus, LocalCorpus | LocalFilesCorpus):
            for language in (recipe.source_lang, recipe.target_lang):
                yield local_file(corpus, language)
        elif isinstance(corpus, PairFileCorpus):
            path = Path(corpus.file)
            kind = kind_of(path)
            if corpus.file != STDIN and kind not in ("file", "other"):
                raise DataError(f"{path}: {'is a folder, not a file' if kind == 'folder' else 'does not exist'}.")
            yield path


def _copy_stream(stream: BinaryIO, name: str, copy: Path) -> SourceRecord:
    """Copy all that a stream delivers into a file."""
    digest, size = hashlib.sha256(), 0
    copy.parent.mkdir(parents=True, exist_ok=True)
    with open_to_write(copy, "xb", follow=False) as out:
        while block := stream.read(_BLOCK):
            digest.update(block)
            size += len(block)
            out.write(block)
    return SourceRecord(file=name, sha256=digest.hexdigest(), bytes=size)


@functools.lru_cache(maxsize=32)
def _text_digest(path: Path, state: State) -> str:
    """sha256 of a file's unpacked text. Its state is part of the cache's key."""
    digest = hashlib.sha256()
    with open_bytes(path) as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
