"""``vocab.json``: what a data set's vocabulary was trained on, and the checksums of its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from nmt.data.data_folder import DataFolder
from nmt.data.encoded_text import TextFile
from nmt.data.made import Made, read_record
from nmt.data.manifest import Manifest
from nmt.data.shard_index import SIDES, ShardIndex, Side, build_command
from nmt.data.vocab import ModelType
from nmt.data.vocab_pair import VocabularyPair
from nmt.errors import DataError, VocabularyError
from nmt.io.files import replacing
from nmt.io.hashing import digest_of
from nmt.io.ownership import Kind
from nmt.record import Record
from nmt.text.languages import language_tag
from nmt.text.lines import NormalizationRule
from nmt.text.printable import writable
from nmt.text.steps import NO_STEPS, Affix, TextSteps

_TEMPERATURE = "sampling_temperature"
"""A setting of a joint vocabulary alone."""
_TEMPERATURES = 1.0, 100.0
_VERSION = 1


@dataclass(frozen=True)
class VocabularySettings:
    """How a vocabulary is trained; on the same text, the same settings give the same vocabulary."""

    size: int | None = None
    """Number of pieces. By default the recipe's, if there is one data set, or chosen by the size of the corpora."""
    model_type: ModelType = "bpe"
    character_coverage: float = 1.0
    normalization: NormalizationRule = "identity"
    """The vocabulary's own rule, which changes both sides."""
    source_normalization: NormalizationRule | None = None
    """The rule for source text, here and in translation. By default none, or that of a given vocabulary's data set."""
    byte_fallback: bool | None = None
    """See :func:`nmt.data.vocab.train_vocabulary`."""
    sampling_temperature: float = 5.0
    """Balances the languages of several data sets (:mod:`nmt.data.training_lines`)."""

    def __post_init__(self) -> None:
        """Check the temperature.

        Raises:
            VocabularyError: it is not from 1 to 100.
        """
        low, high = _TEMPERATURES
        if not low <= self.sampling_temperature <= high:
            raise VocabularyError(
                f"the sampling temperature is {self.sampling_temperature:g}: give a number from {low:g} (by size) to "
                f"{high:g} (nearly equal)."
            )


@dataclass(frozen=True)
class DataSetText:
    """A data set as it is now: its text, and what was made from it."""

    data: Path
    manifest: Manifest
    files: Mapping[str, TextFile]
    """The state of the encoded files, by name."""
    record: VocabularyRecord | None = None
    """That of its vocabulary; None if there is none that can be read."""
    index: ShardIndex | None = None
    """That of its shards; None if there is none that can be read."""

    def language(self, side: Side) -> str:
        """The language of a side."""
        return self.manifest.source_lang if side == "source" else self.manifest.target_lang

    def train(self, side: Side) -> Path:
        """The file of a side of the training text."""
        return DataFolder(self.data).text("train", self.language(side))

    def lines(self, side: Side) -> int:
        """The number of lines of that file when it was prepared."""
        return self.manifest.files[self.train(side).name].lines

    def has_vocabulary(self, wanted: VocabularyRecord) -> bool:
        """Whether its vocabulary was made as another record says, and is the one of that record if it names files.

        A vocabulary that was trained on the present text stays so where it is given again.
        """
        record, present = self.record, filter(Path.is_file, DataFolder(self.data).vocabulary)
        if record is None:
            return False
        is_given_again = wanted.is_given and TrainingText.of(self) in record.text
        return (
            all(path.name in record.files for path in present)  # others may be left of an earlier vocabulary
            and record.made.is_current(self.data, (record if is_given_again else wanted).made.inputs)
            and wanted.files in ({}, record.files)
            and wanted.steps == record.steps
        )


@dataclass(frozen=True)
class TrainingText:
    """The training text of a data set that a vocabulary was trained on."""

    name: str
    source_lang: str
    target_lang: str
    fingerprint: str
    """Of the whole data set."""
    sha256: dict[str, str]
    """The checksum of each file by name."""

    @staticmethod
    def of(text: DataSetText) -> TrainingText:
        """The training text of a data set as it is now."""
        manifest, names = text.manifest, [text.train(side).name for side in SIDES]
        return TrainingText(
            manifest.name,
            manifest.source_lang,
            manifest.target_lang,
            manifest.fingerprint,
            {name: text.files[name].sha256 for name in names},
        )


@dataclass(frozen=True)
class VocabularyRecord:
    """The content of ``vocab.json``: the inputs and outputs of a vocabulary."""

    version: int
    settings: dict[str, Any] | None
    """How it was trained; None if it was given."""
    text: list[TrainingText]
    """What it was trained on; empty if it was given."""
    files: dict[str, str] = field(default_factory=dict)
    """The sha256 of each of its files."""
    made_from: list[Record] = field(default_factory=list)
    """The records of all data sets that a joint vocabulary was trained on; of a given one, those of its files or of the
    vocabulary that they are. Empty if the vocabulary was trained on its own data set alone."""
    replaced: list[str] = field(default_factory=list)
    """The sha256 of the files that these replaced: an interrupted process may have left them in place."""
    steps: TextSteps = NO_STEPS
    """What text goes through before the vocabulary segments it, beside what a recipe does to it."""
    path: str = ""
    """The data set's folder. Like the paths in :attr:`made_from`, it is relative to the folder of the command."""

    @staticmethod
    def of_training(settings: VocabularySettings, texts: Sequence[DataSetText]) -> VocabularyRecord:
        """The record of a vocabulary that is trained on data sets, without its files."""
        values = asdict(settings)
        if len(texts) == 1:
            del values[_TEMPERATURE]
        data = [text.manifest.record(text.data) for text in texts] if len(texts) > 1 else []
        steps = steps_of_new(texts, settings)
        return VocabularyRecord(_VERSION, values, list(map(TrainingText.of, texts)), made_from=data, steps=steps)

    @staticmethod
    def of_given(made_from: Sequence[Record], steps: TextSteps = NO_STEPS) -> VocabularyRecord:
        """The record of a vocabulary that is given with its steps, without its files."""
        return VocabularyRecord(_VERSION, None, [], made_from=list(made_from), steps=steps)

    @property
    def is_given(self) -> bool:
        """Whether it was given, not trained on the data set."""
        return self.settings is None

    @property
    def made(self) -> Made:
        """The inputs and outputs of the vocabulary."""
        return Made({"settings": self.settings, "text": [asdict(text) for text in self.text]}, self.files)

    def is_of(self, manifest: Manifest) -> bool:
        """Whether it was trained on the text of a data set as it was prepared."""
        return any(
            (text.fingerprint, text.source_lang, text.target_lang)
            == (manifest.fingerprint, manifest.source_lang, manifest.target_lang)
            and all(name in manifest.files and manifest.files[name].sha256 == sha for name, sha in text.sha256.items())
            for text in self.text
        )


_RECORD = TypeAdapter(VocabularyRecord)


def steps_of_new(texts: Sequence[DataSetText], settings: VocabularySettings) -> TextSteps:
    """The steps that go with a new vocabulary for data sets.

    The piece of a data set's tag stands first. If the data sets are translated into several languages, a piece for the
    one to write stands before the text of each source line.
    """
    tags = sorted({text.manifest.tag for text in texts} - {""})
    codes: dict[str, str] = {}  # de and deu are one; pt and pt_BR are two, between which translate may choose
    for text in texts:
        codes.setdefault(language_tag(text.language("target")), text.language("target"))
    of_tag = Affix(chosen_by="tag", pieces={tag: f"<{tag}>" for tag in tags})
    of_language = Affix(chosen_by="target", pieces={code: f"<2{code}>" for code in codes.values() if len(codes) > 1})
    steps = tuple(affix for affix in (of_tag, of_language) if affix.pieces)
    return TextSteps(steps).with_rule(settings.source_normalization)


def read_vocabulary_record(data: Path) -> VocabularyRecord:
    """Read the record of a data set's vocabulary.

    Raises:
        DataError: there is none, or it is damaged or of another version.
    """
    folder = DataFolder(data)
    # Without its record, a vocabulary is taken for the user's own, which is used if it is named.
    command = build_command(data, folder.vocab if folder.vocab.is_file() else None)
    remedy = f"Run {command} again."
    try:
        record = read_record(folder.vocab_record, _RECORD, _VERSION, remedy)
    except FileNotFoundError:
        what = "no record of its vocabulary" if folder.vocab.is_file() else "no vocabulary yet"
        raise DataError(f"{data}: has {what}. Run {command} first.") from None
    return record


def known_record(data: Path) -> VocabularyRecord | None:
    """The record of a data set's vocabulary; None if there is none that this version can read."""
    try:
        return read_vocabulary_record(data)
    except DataError:
        return None


def vocabulary_kinds(data: Path) -> dict[Path, Kind]:
    """The files of a data set's vocabulary, each with its kind: our own are listed in the record."""
    folder, record = DataFolder(data), known_record(data)
    ours = {*record.files.values(), *record.replaced} if record else set()

    def is_ours(path: Path) -> bool:
        return digest_of(path) in ours

    kinds = {
        path: Kind("a vocabulary" if path.suffix == ".model" else "a list of pieces", is_ours)
        for path in folder.vocabulary
    }
    return kinds | {folder.vocab_record: Kind("the record of a vocabulary", lambda path: record is not None)}


def save_vocabulary(data: Path, vocab: VocabularyPair, record: VocabularyRecord) -> None:
    """Replace a data set's vocabulary and its record.

    Raises:
        WriteError: the system refused to write.
    """
    folder = DataFolder(data)
    replaced = [digest for path in folder.vocabulary if (digest := digest_of(path)) is not None]
    # The record is written first, so that a file of ours is listed at every moment.
    with replacing(folder.vocab_record) as stream:
        stream.write(_RECORD.dump_json(replace(record, replaced=replaced, path=writable(str(data))), indent=2) + b"\n")
    vocab.save(folder.vocab)
