"""Files of translations that resume: while one grows it is ``OUT.partial``, and it takes its name when it is complete.

A record says what each is made with: ``OUT.partial.json`` while it grows, ``.OUT.nmt.json`` once it is complete. The
record tells our outputs from other files, which are never touched, and keeps a file from becoming two halves that were
made with different models, inputs or settings.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, get_args

from nmt.checkpoint.bundle_files import CONFIG_FILE, MODEL_FILE, VOCAB_FILE, recorded_checksums
from nmt.config import flatten
from nmt.config.documents import parse_json
from nmt.device import Precision
from nmt.errors import DataError
from nmt.files import completing, partial_name, replacing
from nmt.hashing import sha256_of
from nmt.locking import exclusive, holder
from nmt.translation.line_settings import recorded_defaults
from nmt.translation.windows import whole_windows

INPUTS = ("input", "prefix", "score_target")
"""What files may be read, as they are called in a record."""

_VERSION = 1


@dataclass(frozen=True)
class Begun:
    """How far an output had come."""

    lines: int = 0
    """Of the input that are done."""
    bytes: int = 0
    """Of the output that stand for them."""


def made_with(bundles: Sequence[Path], files: Mapping[str, Path | None], settings: Mapping[str, Any]) -> dict[str, Any]:
    """All that an output depends on, by name; as it comes back from JSON.

    Args:
        bundles: that were verified before.
        files: that are read, by what they are; None for one that cannot be read again, such as a pipe.

    Raises:
        DataError: a file cannot be read.
    """
    models = [_model_made_with(folder) for folder in bundles]
    hashes = {name: None if path is None else _sha256(path) for name, path in files.items()}
    return dict(json.loads(json.dumps({"model": models, **hashes, **settings})))


@dataclass(frozen=True)
class OutputFile:
    """An output and the names beside it."""

    path: Path

    @property
    def partial(self) -> Path:
        """The output until it is complete."""
        return partial_name(self.path)

    @property
    def partial_record(self) -> Path:
        """What the partial output is made with."""
        return self.partial.with_name(self.partial.name + ".json")

    @property
    def record(self) -> Path:
        """What the complete output is made with, and its checksum."""
        return self.path.with_name(f".{self.path.name}.nmt.json")

    @property
    def lock(self) -> Path:
        """Present while a process writes the output."""
        return self.path.with_name(f".{self.path.name}.lock")

    @property
    def names(self) -> tuple[Path, ...]:
        """All files that are written for the output."""
        return self.path, self.partial, self.partial_record, self.record, self.lock

    @property
    def precision(self) -> Precision | None:
        """The precision that the output was made in, complete or partial; None where none is recorded."""
        pairs = (self.path, self.record), (self.partial, self.partial_record)
        record = next((_read_record(record) for output, record in pairs if output.exists()), None)
        made = record["made_with"].get("precision") if record else None
        return made if made in get_args(Precision) else None

    @property
    def is_taken(self) -> bool:
        """Whether something stands under its name or that of its partial form, or what is not a record under those."""
        return any(path.exists() or path.is_symlink() for path in (self.path, self.partial)) or bool(self._no_records())

    def free_one(self) -> OutputFile:
        """The output itself, or the next one beside it (``OUT-2.txt``) whose name is not taken."""
        return next(self._free())

    def _free(self) -> Iterator[OutputFile]:
        numbered = (self.path.with_stem(f"{self.path.stem}-{number}") for number in itertools.count(2))
        candidates = map(OutputFile, itertools.chain([self.path], numbered))
        return (output for output in candidates if not output.is_taken)

    @contextmanager
    def claimed_free(self) -> Iterator[OutputFile]:
        """As :meth:`claimed`, for the first free one that no other process has claimed; serves it."""
        with contextlib.ExitStack() as stack:
            for output in self._free():
                try:
                    stack.enter_context(exclusive(output.lock, wait=False))
                except BlockingIOError:
                    continue
                except OSError as error:
                    raise DataError(f"{self.path.parent}: cannot be written to ({error.strerror}).") from None
                if not output.is_taken:  # by one that was faster
                    yield output
                    return

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Keep other processes from the output meanwhile.

        Raises:
            DataError: another process is writing it; or what is there is not an output of ours, or was changed since.
        """
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(exclusive(self.lock, wait=False))
            except BlockingIOError:
                raise DataError(
                    f"{self.path}: another process is writing it ({holder(self.lock)}). Wait until it ends, or name "
                    "another file."
                ) from None
            except OSError as error:
                raise DataError(f"{self.path.parent}: cannot be written to ({error.strerror}).") from None
            self._refuse_foreign()
            yield

    def is_up_to_date(self, made: Mapping[str, Any]) -> bool:
        """Whether the output is complete. That nobody changed it was found when it was claimed.

        Args:
            made: as :func:`made_with` gives it.

        Raises:
            DataError: it is complete, but was made with something else.
        """
        finished = self._finished(hashed=False)
        if finished is None:
            return False
        self._refuse_different(self.path, finished["made_with"], made)
        if not self.partial.exists():
            self.partial_record.unlink(missing_ok=True)  # left by a process killed at its very end
        return True

    def begun(
        self,
        made: Mapping[str, Any],
        lines: Iterable[Sequence[str]],
        *,
        window: int,
        output_lines: int = 1,
        entry_of: Callable[[int, bytes], int] | None = None,
    ) -> Begun:
        """How far an earlier try had come; nowhere where there was none.

        Counts whole windows alone, so that what follows is translated in the same batches as it would have been.

        Args:
            made: as :func:`made_with` gives it.
            lines: of the input, or of parallel files, from the first on; read only where there is something to resume.
            window: lines that are read before they are translated.
            output_lines: for each line of the input, at most.
            entry_of: tells from the index and the bytes of a line of the output which line of the input it stands for,
                from 0, or raises ValueError. Needed where there may be fewer than ``output_lines`` for one.

        Raises:
            DataError: the earlier try was made with something else.
        """
        if not self.partial.exists() or not self.partial.stat().st_size:
            return Begun()
        before = _read_record(self.partial_record)
        assert before is not None  # or it was not claimed
        self._refuse_different(self.partial, before["made_with"], made)
        entry_of = entry_of or (lambda index, _: index // output_lines)
        with self.partial.open("rb") as stream:
            done = whole_windows(lines, window, _whole_entries(stream, entry_of, output_lines))
            stream.seek(0)
            kept = itertools.takewhile(lambda numbered: numbered[0] < done, _numbered(stream, entry_of))
            return Begun(done, sum(len(line) for _, line in kept))

    @contextmanager
    def growing(self, made: Mapping[str, Any], *, keep: int = 0) -> Iterator[BinaryIO]:
        """Open the output, which takes its name when the body is done.

        Args:
            made: as :func:`made_with` gives it.
            keep: bytes of an earlier try to append to.

        Raises:
            DataError: meanwhile something else took its name.
        """
        # Before the file that it describes: a partial output without a record would be nobody's.
        _write_record(self.partial_record, {"version": _VERSION, "made_with": made})
        try:
            with completing(self.path, keep=keep) as stream:
                yield stream
                stream.flush()
                self._refuse_replacing()
                # Before the output takes its name: a complete output without a record would be nobody's.
                _write_record(self.record, {"version": _VERSION, "made_with": made, **_content(self.partial)})
        except BaseException:
            # It may not have been opened at all.
            if not self.partial.exists() or not self.partial.stat().st_size:
                self.partial.unlink(missing_ok=True)
                self.partial_record.unlink(missing_ok=True)
            raise
        self.partial_record.unlink()

    def _refuse_foreign(self) -> None:
        if self.path.is_symlink() and not self.path.exists():
            raise DataError(f"{self.path}: is a link to nothing. Name another file, or remove the link.")
        if self.path.exists() and self._finished() is None:
            raise DataError(
                f"{self.path}: exists, and nmt translate did not write it, or it was changed since. It was left as it "
                f"is: {self._ways_out()}"
            )
        if self.partial.exists() and _read_record(self.partial_record) is None:
            raise DataError(
                f"{self.partial}: exists, and {self.partial_record.name}, which would say what it was made with, is "
                f"missing or damaged. It was left as it is: {self._ways_out()}"
            )
        for path in self._no_records():
            raise DataError(
                f"{path}: exists, and nmt translate did not write it. It was left as it is: {self._ways_out()}"
            )

    def _no_records(self) -> list[Path]:
        """What stands in the places of records and is none."""
        return [path for path in (self.record, self.partial_record) if path.exists() and _read_record(path) is None]

    def _refuse_different(self, path: Path, before: Mapping[str, Any], made: Mapping[str, Any]) -> None:
        if any(record.get(name, "") is None for record in (before, made) for name in INPUTS):
            what = "is complete" if path == self.path else "holds the finished part of an interrupted translation"
            raise DataError(
                f"{path}: {what}. Whether its input was the same cannot be checked, since one of the two was standard "
                f"input or a pipe. It was left as it is: {self._ways_out()}"
            )
        if different := _differences(before, made):
            raise DataError(f"{path}: was made differently: {different}. Give the same, {self._ways_out()}")

    def _refuse_replacing(self) -> None:
        if self.path.exists() or self.path.is_symlink():
            raise DataError(
                f"{self.path}: another program wrote it meanwhile, and it was left as it is. The translation is in "
                f"{self.partial}. Move the other file, then run the same command."
            )

    def _ways_out(self) -> str:
        return f"name another file, or add --fresh to start over in {self.free_one().path}."

    def _finished(self, *, hashed: bool = True) -> dict[str, Any] | None:
        """The record of the complete output; None where there is no such output, or it is not what we wrote.

        Args:
            hashed: compare checksums, too, and not sizes alone.
        """
        record = _read_record(self.record)
        if record is None or not self.path.is_file():
            return None
        # The size is known at once; the checksum is computed only where it fits.
        if record.get("bytes") != self.path.stat().st_size:
            return None
        return None if hashed and record.get("sha256") != _sha256(self.path) else record


def _whole_entries(stream: BinaryIO, entry_of: Callable[[int, bytes], int], most_lines: int) -> int:
    """How many lines of input all lines of output are there for.

    The last one counts only with the most lines that there may be, since others might have followed.
    """
    entry = lines = 0
    for number, _ in _numbered(stream, entry_of):
        if number not in (entry, entry + 1):
            break
        lines = lines + 1 if number == entry else 1
        entry = number
    return entry + (lines >= most_lines)


def _numbered(stream: BinaryIO, entry_of: Callable[[int, bytes], int]) -> Iterator[tuple[int, bytes]]:
    """The lines of an output with the line of input that each stands for, up to the first that does not say."""
    for index, line in enumerate(stream):
        try:
            number = entry_of(index, line) if line.endswith(b"\n") else -1
        except ValueError:
            return
        if number < 0:
            return
        yield number, line


def _content(path: Path) -> dict[str, Any]:
    return {"bytes": path.stat().st_size, "sha256": _sha256(path)}


def _read_record(path: Path) -> dict[str, Any] | None:
    try:
        record = parse_json(path.read_bytes())
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) and isinstance(record.get("made_with"), dict) else None


def _write_record(path: Path, record: Mapping[str, Any]) -> None:
    with replacing(path) as stream:
        stream.write(json.dumps(record, indent=2).encode() + b"\n")


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    old, new = dict(flatten(dict(before))), dict(flatten(dict(now)))
    # A version that did not have an option yet wrote what its default gives.
    for name, value in flatten(recorded_defaults()):
        part_of = name.rpartition(".")[0]
        if name in new and (not part_of or any(known.startswith(f"{part_of}.") for known in old)):
            old.setdefault(name, value)
    if old.get("invalid_utf8") == "error":  # then no line had invalid bytes, and none would have been replaced
        new["invalid_utf8"] = "error"
    return ", ".join(
        # Checksums mean nothing to a reader.
        name if name in ("model", *INPUTS) else f"{name} ({old.get(name)} then, {new.get(name)} now)"
        for name in dict.fromkeys([*old, *new])
        if old.get(name) != new.get(name)
    )


def _model_made_with(bundle: Path) -> dict[str, str]:
    # What was verified need not be hashed again.
    recorded = recorded_checksums(bundle)
    return {name: recorded.get(name) or _sha256(bundle / name) for name in (MODEL_FILE, VOCAB_FILE, CONFIG_FILE)}


def _sha256(path: Path) -> str:
    try:
        return sha256_of(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from None
