"""The record of a score, which lies in its JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nmt.checkpoint.lineage import bundle_record
from nmt.record import Fact, Record, file_record, option_words, text_record
from nmt.text.lines import STDIN

SCORE = "score"
"""The kind of the record."""


def score_record(
    hypotheses: Sequence[Path],
    references: Sequence[Path],
    options: Mapping[str, Any],
    *,
    checksums: Mapping[Path, str],
    source: Path | None = None,
    comet_model: tuple[str, str] | None = None,
    translated_by: Path | None = None,
    written_to: Path | None = None,
) -> Record:
    """The record of a score, with the records of the translations that nmt wrote.

    Args:
        hypotheses, references: files; ``-`` is standard input, of which nothing is known.
        options: those of the command that the scores depend on, but for the files.
        checksums: the sha256 of those files that can be read again, as they were when they were scored.
        source: the file of the source, if the score depends on it.
        comet_model: path and sha256 of COMET's weights, if the score depends on them.
        translated_by: the bundle that translated the variants of the source, if that was scored.
        written_to: the file that the record is written to; None if it is not known, as behind a pipe.
    """
    scored = [_text(path, "hypothesis", checksums) for path in hypotheses]
    sources = [] if source is None else [source]
    models = [] if comet_model is None else [text_record("file", *comet_model, role="model of COMET")]
    files = {"reference": references, "source": sources, "comet_model": [model.path for model in models]}
    if translated_by is not None:
        models.append(bundle_record(translated_by).as_found(translated_by))
        files["robustness"] = [models[-1].path]
    return Record(
        kind=SCORE,
        path=STDIN if written_to is None else str(written_to),
        command=("score", *option_words({**options, **files}), *(part.path for part in scored)),
        made_from=(
            *scored,
            *(_text(path, "reference", checksums) for path in references),
            *(_text(path, "source", checksums) for path in sources),
            *models,
        ),
    )


def _text(path: Path, role: str, checksums: Mapping[Path, str]) -> Record:
    return file_record("text", path, checksums.get(path), role=role)


def is_score(values: object) -> bool:
    """Whether JSON values are those of a score with its record."""
    match values:
        case {"lineage": {"kind": "score"}}:
            return True
    return False


def score_facts(values: Mapping[str, Any]) -> dict[str, Fact]:
    """The scores of each system, by the JSON of a score."""
    facts: dict[str, Fact] = {}
    for system in values["systems"]:
        name = system.get("hypothesis") or system.get("system")
        facts |= {f"{score['name']} of {name}": float(score["value"]) for score in system["scores"]}
    return facts
