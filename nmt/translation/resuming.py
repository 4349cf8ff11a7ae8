"""Output files that resume: a file is ``OUT.partial`` until it is complete, then it is renamed to ``OUT``.

A record beside it lists the models, inputs and settings of the output: ``OUT.partial.json`` until it is complete, then
``.OUT.nmt.json``. The record distinguishes our outputs from other files, which are never touched. It also keeps an
output from being resumed with different models, inputs or settings. Until the output is complete, the record is also a
journal: after each window it says how much is written, and from time to time what was found for the next window. Output
after that place is written again.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, get_args

from nmt.errors import DataError
from nmt.io.files import completing, parents_made, partial_name, record_name
from nmt.io.input_files import InputFiles
from nmt.io.locking import exclusive, holder
from nmt.io.writing import WriteError, flush_to_disk, temporary_paths
from nmt.option_fields import Precision
from nmt.record import ITSELF, Record, read_stored, write_stored
from nmt.translation.found_batches import FoundBatches, Stored
from nmt.translation.lineage import checksum, differences, has_pipe, made_with, with_content, without_inputs

_WRITTEN = "written"
_BLOCK = 1 << 20
_SECONDS_TO_LOSE = 5.0
"""What was found is saved so often, so that a process that is killed loses no more."""


@dataclass(frozen=True)
class Begun:
    """The finished part of an interrupted output."""

    lines: int = 0
    """The number of finished input lines."""
    entries: int = 0
    """The number of finished translations: of lines, or of paragraphs."""
    bytes: int = 0
    """The size of their output."""
    found: Stored = field(default_factory=dict)
    """The batches of the next lines that were searched."""

    @staticmethod
    def of(record: Mapping[str, Any]) -> Begun:
        """What a record says.

        Raises:
            ValueError: the record is damaged.
        """
        match record.get(_WRITTEN):
            case {
                "lines": int(lines),
                "entries": int(entries),
                "bytes": int(size),
                "found": dict(found),
            } if min(lines, entries, size) >= 0:
                return Begun(lines, entries, size, found)
        raise ValueError


_NOTHING = Begun()
Note = Callable[[int, int], None]
"""Notes in the journal that the output of so many input lines and of so many entries is written."""


@dataclass(frozen=True)
class OutputFile:
    """An output file, and the files beside it.

    Methods take ``made``, the record of what is to be written: :func:`nmt.translation.lineage.translation_record`.
    """

    path: Path

    @property
    def partial(self) -> Path:
        """The name of the output until it is complete."""
        return partial_name(self.path)

    @property
    def partial_record(self) -> Path:
        """The record of the partial output."""
        return self.partial.with_name(self.partial.name + ".json")

    @property
    def record(self) -> Path:
        """The record of the complete output, with its checksum."""
        return record_name(self.path)

    @property
    def lock(self) -> Path:
        """The lock file that exists while a process writes the output."""
        return self.path.with_name(f".{self.path.name}.lock")

    @property
    def names(self) -> tuple[Path, ...]:
        """The names of all files that are written for the output."""
        return self.path, self.partial, self.partial_record, self.record, self.lock

    @property
    def precision(self) -> Precision | None:
        """The recorded precision of the complete or partial output; None if there is no record."""
        pairs = (self.path, self.record), (self.partial, self.partial_record)
        stored = next((read_stored(record) for output, record in pairs if output.exists()), None)
        found = made_with(stored.record).get("precision") if stored else None
        return found if found in get_args(Precision) else None

    @property
    def is_taken(self) -> bool:
        """Whether the output or its partial form exists, or another file has the name of a record."""
        exists = any(path.exists() or path.is_symlink() for path in (self.path, self.partial))
        return exists or bool(self._foreign_records())

    def first_free(self) -> OutputFile:
        """The output itself, or the first numbered name (``OUT-2.txt``) that is not taken."""
        return next(self._free())

    def _free(self) -> Iterator[OutputFile]:
        numbered = (self.path.with_stem(f"{self.path.stem}-{number}") for number in itertools.count(2))
        candidates = map(OutputFile, itertools.chain([self.path], numbered))
        return (output for output in candidates if not output.is_taken)

    @contextmanager
    def claimed_free(self) -> Iterator[OutputFile]:
        """Like :meth:`claimed`, for the first free name that no other process has claimed. Yields that output."""
        with parents_made(self.path), contextlib.ExitStack() as stack:
            for output in self._free():
                try:
                    stack.enter_context(exclusive(output.lock, wait=False))
                except BlockingIOError:
                    continue
                except OSError as error:
                    raise DataError(f"{self.path.parent}: cannot be written to ({error.strerror}).") from None
                if not output.is_taken:  # another process may have been faster
                    yield output
                    return

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Lock the output against other processes.

        Raises:
            DataError: another process is writing the output, or an existing file is not our output or was changed.
            WriteError: the folder of the output cannot be made.
        """
        with parents_made(self.path), contextlib.ExitStack() as stack:
            try:
                stack.enter_context(exclusive(self.lock, wait=False))
            except BlockingIOError:
                raise DataError(
                    f"{self.path}: another process is writing it ({holder(self.lock)}). Wait until it ends, or name "
                    "another file."
                ) from None
            except OSError as error:
                raise DataError(f"{self.path.parent}: cannot be written to ({error.strerror}).") from None
            for leftover in (*temporary_paths(self.partial_record), *temporary_paths(self.record)):
                leftover.unlink(missing_ok=True)  # of a process that was killed: nobody else writes these now
            self._refuse_foreign()
            yield

    def is_up_to_date(self, made: Record) -> bool:
        """Whether the output is complete. Call it after :meth:`claimed`, which checks that the file is unchanged.

        Raises:
            DataError: the output is complete, but was made with other models, inputs or settings.
        """
        finished = self._finished(hashed=False)
        if finished is None:
            return False
        self._refuse_different(self.path, finished, made)
        if not self.partial.exists():
            self.partial_record.unlink(missing_ok=True)  # left if a process was killed just before its end
        return True

    def begun(self, made: Record) -> Begun:
        """The finished part of an interrupted output; empty if there is none. Call it after :meth:`claimed`.

        Raises:
            DataError: the interrupted output was made with other models, inputs or settings.
        """
        if not self.partial.exists():
            return Begun()
        before = read_stored(self.partial_record)
        assert before is not None  # claimed() has checked it
        begun = Begun.of(before.values)
        if self.partial.stat().st_size or begun.found:
            self._refuse_different(self.partial, before.record, made)
        return begun

    @contextmanager
    def growing(
        self,
        made: Record,
        *,
        after: Begun = _NOTHING,
        inputs: InputFiles | None = None,
        known: FoundBatches | None = None,
    ) -> Iterator[tuple[BinaryIO, Note]]:
        """Open the partial output. It is renamed when the body is done.

        Args:
            after: the finished part of an interrupted output to append to.
            inputs: the files that the body reads.
            known: what was found for lines that are not written yet, which the journal keeps.

        Yields:
            The file, and a function that notes in the journal what is written.

        Raises:
            DataError: an input changed, or another program created a file of the output's name in the meantime.
        """
        # Written before the file that it describes: a partial output without a record is not recognised as ours.
        digest = hashlib.sha256()
        _update(digest, self.partial, 0, after.bytes)
        begun = _journal(after, digest)
        write_stored(self.partial_record, made, begun)
        known = known or FoundBatches()
        written, due = after, time.monotonic() + _SECONDS_TO_LOSE

        def save() -> None:
            nonlocal due
            write_stored(self.partial_record, made, _journal(replace(written, found=known.stored), digest))
            due = time.monotonic() + _SECONDS_TO_LOSE

        known.listeners.append(lambda: save() if time.monotonic() >= due else None)
        try:
            with completing(self.path, keep=after.bytes) as stream:

                def note(lines: int, entries: int) -> None:
                    nonlocal written
                    flush_to_disk(stream, self.partial)  # before the journal says that it is there
                    noted, written = written.bytes, Begun(lines, entries, stream.tell())
                    _update(digest, self.partial, noted, written.bytes)
                    save()

                yield stream, note
                stream.flush()
                if inputs is not None and (changed := inputs.changed(made_with(made))):
                    # What was read belongs to no version of the input, so the output must never be resumed.
                    write_stored(self.partial_record, without_inputs(made, changed), begun)
                    raise inputs.error(
                        changed,
                        f"{self.path} was not completed; what was translated is in {self.partial}. To start over, "
                        f"add --fresh ({self.first_free().path}).",
                    )
                self._refuse_replacing()
                # Written before the output is renamed: a complete output without a record is not recognised as ours.
                size = self.partial.stat().st_size
                write_stored(self.record, with_content(made, checksum(self.partial)), {"bytes": size})
        except BaseException:
            if known.stored:
                with contextlib.suppress(WriteError):
                    save()
            # The partial output may not exist yet.
            elif not self.partial.exists() or not self.partial.stat().st_size:
                self.partial.unlink(missing_ok=True)
                self.partial_record.unlink(missing_ok=True)
            raise
        self.partial_record.unlink()

    def _refuse_foreign(self) -> None:
        if self.path.is_symlink() and not self.path.exists():
            raise DataError(f"{self.path}: is a link to nothing. Name another file, or remove the link.")
        if self.path.exists() and self._finished() is None:
            raise DataError(
                f"{self.path}: exists, but nmt translate did not write it, or it was changed since. It was left as "
                f"it is: {self._ways_out()}"
            )
        if self.partial.exists() and not self._has_journal():
            raise DataError(
                f"{self.partial}: exists, but its record {self.partial_record.name} is missing or damaged, or one of "
                f"the two was changed since. It was left as it is: {self._ways_out()}"
            )
        for path in self._foreign_records():
            raise DataError(
                f"{path}: exists, but nmt translate did not write it. It was left as it is: {self._ways_out()}"
            )

    def _has_journal(self) -> bool:
        """Whether the record of the partial output says how much of it is written, and neither was changed since."""
        stored = read_stored(self.partial_record)
        try:
            begun = Begun.of({} if stored is None else stored.values)
        except ValueError:
            return False
        digest = hashlib.sha256()
        _update(digest, self.partial, 0, begun.bytes)
        return stored is not None and stored.values[_WRITTEN] == _journal(begun, digest)[_WRITTEN]

    def _foreign_records(self) -> list[Path]:
        """The files that have the name of a record but are not records."""
        return [path for path in (self.record, self.partial_record) if path.exists() and read_stored(path) is None]

    def _refuse_different(self, path: Path, record: Record, made: Record) -> None:
        if has_pipe(record) or has_pipe(made):
            what = "is complete" if path == self.path else "holds the finished part of an interrupted translation"
            raise DataError(
                f"{path}: {what}. One of the two inputs is standard input or a pipe, so they cannot be compared. The "
                f"file was left as it is: {self._ways_out()}"
            )
        if different := differences(record, made):
            raise DataError(f"{path}: was made differently: {different}. Give the same values, {self._ways_out()}")

    def _refuse_replacing(self) -> None:
        if self.path.exists() or self.path.is_symlink():
            raise DataError(
                f"{self.path}: another program wrote it in the meantime; it was not replaced. The translation is in "
                f"{self.partial}. Move the other file, then run the same command."
            )

    def _ways_out(self) -> str:
        return f"name another file, or add --fresh to start over in {self.first_free().path}."

    def _finished(self, *, hashed: bool = True) -> Record | None:
        """The record of the complete output; None if the output does not exist or was not written by us.

        Args:
            hashed: compare the checksum as well as the size.
        """
        stored = read_stored(self.record)
        if stored is None or not self.path.is_file():
            return None
        # Computing the checksum takes time, so the size is compared first.
        if stored.values.get("bytes") != self.path.stat().st_size:
            return None
        return None if hashed and stored.record.files.get(ITSELF) != checksum(self.path) else stored.record


def _journal(begun: Begun, content: hashlib._Hash) -> dict[str, Any]:
    """What a journal says.

    Args:
        content: the sha256 of what is written; that of the journal covers the rest of it too.
    """
    sealed = content.copy()
    sealed.update(repr(vars(begun)).encode())
    return {_WRITTEN: {**vars(begun), "sha256": sealed.hexdigest()}}


def _update(digest: hashlib._Hash, path: Path, begin: int, end: int) -> None:
    """Add the bytes of a file between two places to a digest; those that it lacks are left out."""
    if begin == end:
        return  # the file may not exist yet
    with path.open("rb") as stream:
        stream.seek(begin)
        while block := stream.read(min(_BLOCK, end - stream.tell())):
            digest.update(block)
