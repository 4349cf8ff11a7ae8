"""The chain behind a translation and behind a score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nmt.checkpoint.kinds import read_json
from nmt.errors import DataError
from nmt.io.hashing import sha256_of
from nmt.lineage.facts import Fact
from nmt.lineage.link import Link, entries_of, mapping_of, state_of
from nmt.lineage.models import model_link
from nmt.text.lines import STDIN
from nmt.translation.options import recorded_defaults
from nmt.translation.resuming import OutputFile, recorded_output

SCORE = "nmt score"
"""What the JSON of a score is recognised by."""
_ALWAYS = ("beam", "length_penalty", "precision")
_USUAL = {"format": "text", "input_format": "lines", "invalid_utf8": "error"}
_ABOUT_FILES = ("model", "input", "prefix", "score_target")


def score_lineage(
    hypotheses: Sequence[Path],
    references: Sequence[Path],
    options: Mapping[str, Any] | None = None,
    *,
    source: Path | None = None,
    models: Mapping[str, Mapping[str, str]] | None = None,
) -> dict[str, Any]:
    """For the JSON of a score: checksums of its files, and the records of translations that nmt wrote.

    Args:
        hypotheses, references: files; ``-`` is standard input, of which nothing is known.
        options: those of the command that the scores depend on, but for the files.
        source: the file of the source, if the score depends on it.
        models: ``path`` and ``sha256`` of the weights of each learned metric, by its name.
    """
    return {
        "record": SCORE,
        "options": dict(options or {}),
        "hypotheses": [_file_record(path) | {"translation": recorded_output(path)} for path in hypotheses],
        "references": [_file_record(path) for path in references],
        "sources": [] if source is None else [_file_record(source)],
        "models": [{"metric": name, **model} for name, model in (models or {}).items()],
    }


def _file_record(path: Path) -> dict[str, Any]:
    return {"path": str(path), "sha256": sha256_of(path) if str(path) != STDIN and path.is_file() else None}


def is_score(record: object) -> bool:
    """Whether JSON values are those of a score with its lineage."""
    return isinstance(record, dict) and mapping_of(record.get("lineage")).get("record") == SCORE


def score_link(path: Path, record: Mapping[str, Any]) -> Link:
    """A score by its JSON."""
    lineage = mapping_of(record["lineage"])
    made_from = []
    for entry in entries_of(lineage.get("hypotheses")):
        translation = entry.get("translation")
        if isinstance(translation, dict):
            made_from.append(translation_link(Path(str(entry["path"])), translation))
        else:
            made_from.append(_text_link(entry, "hypothesis"))
    for role in ("reference", "source"):
        made_from += [_text_link(entry, role) for entry in entries_of(lineage.get(f"{role}s"))]
    made_from += map(_metric_link, entries_of(lineage.get("models")))
    facts: dict[str, str | Fact] = {}
    for system in entries_of(record.get("systems")):
        name = str(system.get("hypothesis") or system.get("system"))
        scores = entries_of(system.get("scores"))
        facts[name] = Fact(
            ", ".join(f"{score['name']} {score['value']:.2f}" for score in scores),
            {str(score["name"]): score["value"] for score in scores},
        )
    if record.get("test_set"):
        facts["test set"] = f"{record['test_set']}, {record.get('langpair')}"
    return Link("score", str(path), facts, "not checked", "", tuple(made_from), record)


def translation_link(path: Path, record: Mapping[str, Any] | None = None) -> Link:
    """A translation by its record; by the one beside it if not given."""
    record = record or mapping_of(read_json(OutputFile(path).record))
    if not isinstance(record.get("sha256"), str):
        raise DataError(f"{path}: its record {OutputFile(path).record} is damaged: it has no sha256.")
    made, origin = mapping_of(record.get("made_with")), mapping_of(record.get("origin"))
    state, change = state_of({path: str(record.get("sha256"))})
    defaults = recorded_defaults() | _USUAL
    settings = {
        name: value
        for name, value in made.items()
        if name in _ALWAYS or (name not in _ABOUT_FILES and value != defaults.get(name) and value is not None)
    }
    facts: dict[str, str | Fact] = {
        "sha256": str(record["sha256"]),
        "settings": Fact(", ".join(f"{name} {value}" for name, value in settings.items()), settings),
    }
    made_from = [model_link(model) for model in entries_of(origin.get("models"))]
    for name, file in mapping_of(origin.get("files")).items():
        made_from.append(_text_link({"path": file, "sha256": made.get(name)}, name))
    return Link("translation", str(path), facts, state, change, tuple(made_from), record)


def _metric_link(entry: Mapping[str, Any]) -> Link:
    """The weights of a learned metric."""
    path, sha256 = str(entry["path"]), str(entry["sha256"])
    state, change = state_of({Path(path): sha256})
    facts = {"role": f"model of {str(entry['metric']).upper()}", "sha256": sha256}
    return Link("file", path, facts, state, change, (), entry)


def _text_link(entry: Mapping[str, Any], role: str) -> Link:
    path, sha256 = str(entry.get("path")), entry.get("sha256")
    state, change = state_of({Path(path): sha256}) if isinstance(sha256, str) else ("not checked", "")
    facts = {"role": role, "sha256": sha256 if isinstance(sha256, str) else "unknown: it was read from a pipe"}
    return Link("text", path, facts, state, change, (), entry)
