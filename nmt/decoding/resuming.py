"""A file of translations that grows under a name of its own, and goes on where it was when its process died.

Beside ``OUT.partial`` lies ``OUT.partial.json``, which says what it is made with: to go on with another model, input or
setting would make a file of two halves, and is refused.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from nmt.checkpoint.files import CONFIG_FILE, MODEL_FILE, VOCAB_FILE, recorded_checksums
from nmt.config import flatten
from nmt.decoding.windows import whole_windows
from nmt.errors import DataError
from nmt.files import completing, partial_name, replacing

INPUTS = ("input", "prefix", "score_target")
"""What files may be read, as they are called in a record."""


@dataclass(frozen=True)
class Begun:
    """How far an output had come."""

    lines: int = 0
    """Of the input that are done."""
    bytes: int = 0
    """Of the output that stand for them."""


def made_with(bundles: Sequence[Path], files: Mapping[str, Path], settings: Mapping[str, Any]) -> dict[str, Any]:
    """All that an output depends on, by name; as it comes back from JSON.

    Args:
        bundles: that were verified before.
        files: that are read, by what they are.

    Raises:
        DataError: a file cannot be read.
    """
    models = [_model_made_with(folder) for folder in bundles]
    values = {"model": models, **{name: _sha256(path) for name, path in files.items()}, **settings}
    return dict(json.loads(json.dumps(values)))


def begun(
    output: Path, record: Mapping[str, Any], lines: Iterable[Sequence[str]], *, window: int, output_lines: int = 1
) -> Begun:
    """How far an output had come when an earlier try ended; nowhere where there was none.

    Counts whole windows alone, so that what follows is translated in the same batches as it would have been.

    Args:
        lines: of the input, or of parallel files, from the first on.
        window: lines that are read before they are translated.
        output_lines: for each line of the input.

    Raises:
        DataError: the earlier try was made with something else than ``record`` says.
    """
    partial = partial_name(output)
    if not partial.exists():
        return Begun()
    _check_record(output, record)
    with partial.open("rb") as stream:
        whole = sum(line.endswith(b"\n") for line in stream)
        done = whole_windows(lines, window, whole // output_lines)
        stream.seek(0)
        return Begun(done, sum(map(len, itertools.islice(stream, done * output_lines))))


def _check_record(output: Path, record: Mapping[str, Any]) -> None:
    partial, name = partial_name(output), _record_name(output)
    try:
        before = json.loads(name.read_text("utf-8"))
    except (OSError, ValueError):
        raise DataError(
            f"{partial}: there is no telling what it was made with, since {name.name} is missing or damaged. Leave "
            "--resume out to begin anew."
        ) from None
    if different := _differences(before, record):
        raise DataError(f"{partial}: was made otherwise: {different}. Give the same, or begin anew without --resume.")


def written_for(output: Path) -> tuple[Path, ...]:
    """All files that :func:`growing` writes, or writes over, for an output."""
    return output, partial_name(output), _record_name(output)


@contextmanager
def growing(output: Path, record: Mapping[str, Any] | None, *, keep: int = 0) -> Iterator[BinaryIO]:
    """Open an output that is ``OUT.partial`` until it is complete, and says beside it what it is made with.

    Args:
        record: as :func:`made_with` gives it; None for what cannot be gone on with.
        keep: bytes of an earlier try to go on behind.
    """
    with completing(output, keep=keep) as stream:
        # By now nothing is left in the file that an earlier record would be needed for.
        _record_name(output).unlink(missing_ok=True)
        if record is not None:
            with replacing(_record_name(output)) as described:
                described.write(json.dumps(record, indent=2).encode() + b"\n")
        yield stream
    _record_name(output).unlink(missing_ok=True)


def _record_name(output: Path) -> Path:
    partial = partial_name(output)
    return partial.with_name(partial.name + ".json")


def _differences(before: Any, now: Mapping[str, Any]) -> str:
    if not isinstance(before, dict):
        return "its record is none of ours"
    old, new = dict(flatten(before)), dict(flatten(now))
    return ", ".join(
        # Of checksums nobody learns anything.
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
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from None
