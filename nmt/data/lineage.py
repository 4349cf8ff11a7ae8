"""Where a data set and its vocabulary come from: their records, for all that is made from them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nmt.data.data_folder import DataFolder
from nmt.data.manifest import read_manifest
from nmt.data.shard_index import build_command, read_index
from nmt.data.vocab_record import VocabularyRecord, read_vocabulary_record
from nmt.errors import DataError
from nmt.io.hashing import digest_of
from nmt.record import Fact, Record, option_words, root_of

VOCABULARY = "vocabulary"
"""The kind of the record of an encoded data set."""


def encoded_record(folder: Path) -> Record:
    """The record of a data set's vocabulary, with which the data set is encoded.

    Raises:
        DataError: the folder is not an encoded data set.
    """
    index, vocabulary = read_index(folder), read_vocabulary_record(folder)
    model = DataFolder(folder).vocab
    if vocabulary.files.get(model.name) != digest_of(model):
        raise DataError(
            f"{model}: is not the vocabulary that {DataFolder(folder).vocab_record.name} records. Run "
            f"{build_command(folder)} again."
        )
    own, root = read_manifest(folder).record(folder), root_of(folder, vocabulary.path)
    others = [
        own if (each.kind, each.path) == (own.kind, vocabulary.path) else each.below(root)
        for each in vocabulary.made_from
    ]
    data = [own]
    if not vocabulary.is_given and others:  # a joint vocabulary: the others are all data sets, this one among them
        data, others = others, []
    options = vocabulary.settings or {"vocab": _given_file(others), "source_normalization": index.steps.rule}
    facts: dict[str, Fact] = {"fingerprint": index.vocab_fingerprint, "maximum pieces per side": index.max_pieces}
    return Record(
        kind=VOCABULARY,
        path=str(folder),
        command=(
            "build-vocab",
            *(f"--data={each.path}" for each in data),
            *option_words(options | {"max_pieces": index.max_pieces}),
        ),
        files=vocabulary.files,
        facts=facts | _training_facts(vocabulary),
        made_from=(*data, *others),
    )


def _given_file(made_from: Sequence[Record]) -> str | None:
    """The file of a given vocabulary; None if it is not recorded."""
    if not made_from:
        return None
    first = made_from[0]
    return str(DataFolder(Path(first.path)).vocab) if first.kind == VOCABULARY else first.path


def _training_facts(vocabulary: VocabularyRecord) -> dict[str, Fact]:
    if vocabulary.settings is None:
        return {"trained": "no: given"}
    names = {"model_type": "model type", "size": "pieces", "sampling_temperature": "sampling temperature"}
    settings = {name: vocabulary.settings.get(key) for key, name in names.items()}
    return {name: value for name, value in settings.items() if isinstance(value, Fact)}


def trained_vocabulary(record: Record, fingerprint: str) -> Record | None:
    """The record of a vocabulary that was trained, within the record of a data set or of a bundle; None if not known.

    Args:
        fingerprint: of the vocabulary.
    """
    vocabularies = (part for part in record.all() if part.kind == VOCABULARY)
    found = (part for part in vocabularies if part.facts.get("fingerprint") == fingerprint and "pieces" in part.facts)
    return next(found, None)
