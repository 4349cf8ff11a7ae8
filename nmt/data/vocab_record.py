"""What a vocabulary was trained on, and how: recorded in the index of shards, compared before training again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nmt.data.data_folder import DataFolder
from nmt.data.encoded_text import TextFile
from nmt.data.manifest import Manifest, without_samples
from nmt.data.shards import SIDES, Side
from nmt.data.vocab import ModelType
from nmt.text import NormalizationRule

JOINT = "trained_on"
TEMPERATURE = "sampling_temperature"
"""Names in the record of a joint vocabulary, beside the settings."""


@dataclass(frozen=True)
class VocabularySettings:
    """The settings of a vocabulary; on the same text, the same settings give the same vocabulary."""

    size: int
    model_type: ModelType
    character_coverage: float
    normalization: NormalizationRule
    source_normalization: NormalizationRule
    byte_fallback: bool | None


@dataclass(frozen=True)
class DataSetText:
    """A data set's text, as it is now."""

    data: Path
    manifest: Manifest
    files: Mapping[str, TextFile]
    """The state of the encoded files, by name."""

    def language(self, side: Side) -> str:
        """The language of a side."""
        return self.manifest.source_lang if side == "source" else self.manifest.target_lang

    def train(self, side: Side) -> Path:
        """The file of a side of the training text."""
        return DataFolder(self.data).text("train", self.language(side))

    def lines(self, side: Side) -> int:
        """The number of lines of that file when it was prepared."""
        return self.manifest.files[self.train(side).name].lines


def recorded_training(settings: VocabularySettings, texts: Sequence[DataSetText], temperature: float) -> dict[str, Any]:
    """The record of a vocabulary's training: its settings; of a joint one also the temperature and the data sets.

    A data set is recorded by its manifest, so that each of several data sets knows how to make the others again.
    """
    record = asdict(settings)
    if len(texts) > 1:
        record[TEMPERATURE] = float(temperature)
        record[JOINT] = [
            {
                "manifest": without_samples(text.manifest),
                "sha256": {text.train(side).name: text.files[text.train(side).name].sha256 for side in SIDES},
            }
            for text in texts
        ]
    return record


def is_same_training(recorded: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> bool:
    """Whether two records are of the same training: the same settings, on the same text in the same order."""
    return bool(_essence(recorded) == _essence(other))


def joint_entries(record: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """The data sets in the record of a joint vocabulary; none in that of another, or in a damaged one."""
    entries = (record or {}).get(JOINT)
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _essence(record: Mapping[str, Any] | None) -> Any:
    """A record without those parts of manifests that do not change the text."""
    if record is None or JOINT not in record:
        return record
    return {
        **record,
        JOINT: [(_text_of(entry.get("manifest")), entry.get("sha256")) for entry in joint_entries(record)],
    }


def _text_of(manifest: Any) -> Any:
    names = ("name", "source_lang", "target_lang", "fingerprint")
    return [manifest.get(name) for name in names] if isinstance(manifest, dict) else None
