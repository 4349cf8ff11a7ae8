"""The record of a translation's output: its models, inputs and settings. It is stored in a file beside the output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nmt.checkpoint.lineage import bundle_record
from nmt.errors import DataError
from nmt.io.hashing import sha256_of
from nmt.record import ITSELF, Record, file_record
from nmt.text.lines import can_be_read_again
from nmt.translation.options import recorded_words

INPUTS = ("input", "prefix", "target", "glossary")
"""The roles of input files in a record."""
TRANSLATION = "translation"
"""The kind of the record of an output."""


def translation_record(
    output: Path, bundles: Sequence[Path], files: Mapping[str, Path], settings: Mapping[str, Any]
) -> Record:
    """The record of an output: its models, inputs and settings.

    Args:
        bundles: verified bundles.
        files: name (of :data:`INPUTS`) -> input file.
        settings: those that the output depends on, by the names of their options.

    Raises:
        DataError: a file cannot be read.
    """
    models = [bundle_record(folder).as_found(folder) for folder in bundles]
    named = [*(("model", model.path) for model in models), *((name, str(path)) for name, path in files.items())]
    return Record(
        kind=TRANSLATION,
        path=str(output),
        command=(
            "score-target" if "target" in files else "translate",
            *(f"--{name}={path}" for name, path in named),
            *recorded_words(settings),
            f"--output={output}",
        ),
        made_from=(
            *models,
            *(
                file_record("text", path, checksum(path) if can_be_read_again(path) else None, role=name)
                for name, path in files.items()
            ),
        ),
    )


def made_with(record: Record) -> dict[str, Any]:
    """What an output depends on, to compare: the sha256 of models and inputs (None for a pipe), and each option."""
    models = [part.files for part in record.made_from if "role" not in part.facts]
    inputs = {str(part.facts["role"]): part.files.get(ITSELF) for part in record.made_from if "role" in part.facts}
    options = dict(word.removeprefix("--").partition("=")[::2] for word in record.command[1:])
    others = {name.replace("-", "_"): value or "on" for name, value in options.items()}
    paths = {"model", "output", *INPUTS}
    return {"model": models, **inputs, **{name: value for name, value in others.items() if name not in paths}}


def has_pipe(record: Record) -> bool:
    """Whether an input was standard input or a pipe, so that nothing can be compared with it."""
    return any(part.facts.get("role") in INPUTS and ITSELF not in part.files for part in record.made_from)


def differences(before: Record, now: Record) -> str:
    """The models, inputs and settings in which two records differ, for a message; empty if there are none."""
    earlier, later = made_with(before), made_with(now)
    # No line had invalid bytes, so replacing them changes nothing.
    if "invalid_utf8" not in earlier:
        later.pop("invalid_utf8", None)
    return ", ".join(
        # Files are shown instead of checksums, which tell a reader nothing.
        _files_of(name, before)
        if name in ("model", *INPUTS)
        else f"{name} ({earlier.get(name, 'default')} then, {later.get(name, 'default')} now)"
        for name in dict.fromkeys([*earlier, *later])
        if earlier.get(name) != later.get(name)
    )


def _files_of(name: str, record: Record) -> str:
    """The name of a model or input, with the files that a record says it came from."""
    paths = [part.path for part in record.made_from if part.facts.get("role", "model") == name]
    return f"{name} (then {', '.join(paths)})" if paths else name


def with_content(record: Record, sha256: str) -> Record:
    """The record of a complete output."""
    return record.model_copy(update={"files": {ITSELF: sha256}})


def without_inputs(record: Record, names: Sequence[str]) -> Record:
    """A record in which the checksums of some inputs are those of no file, so that nothing is the same as it."""
    parts = [
        part.model_copy(update={"files": {ITSELF: ""}}) if part.facts.get("role") in names else part
        for part in record.made_from
    ]
    return record.model_copy(update={"made_from": tuple(parts)})


def checksum(path: Path) -> str:
    """The sha256 of an input or output.

    Raises:
        DataError: it cannot be read.
    """
    try:
        return sha256_of(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from None
