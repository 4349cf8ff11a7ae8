"""The record of synthetic text: the command of ``nmt synthesize``, and the models and the text that it reads."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nmt.checkpoint.lineage import bundle_record
from nmt.data.manifest import SYNTHETIC, Manifest, known_manifest
from nmt.record import PATHS, Record, file_record, option_words
from nmt.translation.lineage import checksum
from nmt.translation.options import recorded_words


def synthesis_record(
    name: str,
    path: Path,
    models: Mapping[str, Sequence[Path]],
    files: Mapping[str, Path | None],
    own: Mapping[str, Any],
    options: Mapping[str, Any],
) -> Record:
    """The record of the pairs. It leaves out the files that are removed at the end.

    Args:
        name: of the data set.
        path: of the pairs.
        models, files: by option.
        own: options of this command.
        options: those of translating.
    """
    given = {name: file for name, file in files.items() if file is not None}
    records = {option: [bundle_record(each).as_found(each) for each in folders] for option, folders in models.items()}
    values = {key: value.model_dump() if hasattr(value, "model_dump") else value for key, value in options.items()}
    paths: dict[str, Any] = {option: [each.path for each in found] for option, found in records.items()}
    return Record(
        kind=SYNTHETIC,
        path=str(path),
        command=(
            "synthesize",
            name,
            *option_words({**paths, **given, **own}),
            *recorded_words({key: value for key, value in values.items() if key != "batch_tokens"}),
        ),
        made_from=(
            *itertools.chain.from_iterable(records.values()),
            *(file_record("text", file, checksum(file), role=name) for name, file in given.items()),
        ),
    )


def same_data_set(folder: Path, asked: Record) -> Manifest | None:
    """The manifest of a data set if the same command made it, and neither it nor what it was made from changed since.

    Args:
        asked: the record of the pairs that would be made.
    """
    manifest = known_manifest(folder)
    if manifest is None:
        return None
    made = {each.file: each.made_by for each in manifest.sources if each.made_by and each.made_by.kind == SYNTHETIC}
    is_same = (
        list(map(_content, made.values())) == [_content(asked)]
        and not manifest.changed_sources(without=made.keys())
        and manifest.made.is_current(folder, manifest.made.inputs)
    )
    return manifest if is_same else None


def _content(record: Record) -> tuple[object, ...]:
    """What pairs depend on: the content of files, wherever these lie, and options."""
    words = [word.partition("=")[0] if word.partition("=")[0] in PATHS else word for word in record.command]
    return words, [part.files for part in record.made_from]
