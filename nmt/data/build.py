"""``nmt build-vocab``: from prepared text to vocabulary and shards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nmt.data.data_folder import DataFolder, vocabulary_files, vocabulary_fingerprint
from nmt.data.derived import check_derived_replaceable, keep_given_vocabulary
from nmt.data.encoded_text import differing_files, examine_text, is_same_text
from nmt.data.language_sampling import DEFAULT_TEMPERATURE, check_temperature
from nmt.data.manifest import read_manifest
from nmt.data.normalization import Changes, count_changes
from nmt.data.shard_writing import write_shards_together
from nmt.data.shards import ENCODED_SPLITS, SIDES, ShardIndex, Side, are_current, read_index
from nmt.data.training_lines import language_samples, lines_to_train_on, source_normalizer, training_lines
from nmt.data.vocab import ModelType, TrainedVocabulary, default_size, train_vocabulary
from nmt.data.vocab_pair import VocabularyPair
from nmt.data.vocab_record import DataSetText, VocabularySettings, is_same_training, recorded_training
from nmt.errors import DataError, VocabularyError
from nmt.files import restoring
from nmt.text import NormalizationRule

_COUNTED_LINES = 500_000
"""Maximum number of lines per side in which the changes of a normaliser are counted."""
_FEWEST_PER_PIECE = 10
"""Minimum mean number of occurrences of a piece in the training text.

Gowda and May (2020, "Finding the Optimal Vocabulary Size for Neural Machine Translation") advise the largest vocabulary
of which 95% of the pieces occur at least 100 times. Small corpora do not allow that; this is a far weaker limit.
"""


@dataclass(frozen=True)
class BuiltVocabulary:
    """A data set's vocabulary and shards."""

    data: Path
    vocab: VocabularyPair
    index: ShardIndex
    changed: bool
    """False if everything was up to date."""
    trained: TrainedVocabulary | None = None
    """None if no vocabulary was trained."""
    kept: Path | None = None
    """The file that keeps the replaced vocabulary, if that was a given one."""
    edited: tuple[str, ...] = ()
    """Names of the files whose text has changed since it was last encoded."""
    sampled: Mapping[str, int] = field(default_factory=dict)
    """The number of lines of each language that a new joint vocabulary was trained on."""


def build_vocabulary(
    data: Path,
    *,
    size: int | None = None,
    model_type: ModelType = "bpe",
    existing: Path | None = None,
    character_coverage: float = 1.0,
    normalization: NormalizationRule = "identity",
    source_normalization: NormalizationRule | None = None,
    byte_fallback: bool | None = None,
    max_length: int = 256,
    threads: int | None = None,
) -> BuiltVocabulary:
    """Build the vocabulary of one data set: :func:`build_joint_vocabulary`."""
    [built] = build_joint_vocabulary(
        [data],
        size=size,
        model_type=model_type,
        existing=existing,
        character_coverage=character_coverage,
        normalization=normalization,
        source_normalization=source_normalization,
        byte_fallback=byte_fallback,
        max_length=max_length,
        threads=threads,
    )
    return built


def build_joint_vocabulary(
    data: Sequence[Path],
    *,
    size: int | None = None,
    model_type: ModelType = "bpe",
    existing: Path | None = None,
    existing_origin: Callable[[str], dict[str, Any] | None] = lambda fingerprint: None,
    check_unused: Callable[[Path], None] = lambda data: None,
    character_coverage: float = 1.0,
    normalization: NormalizationRule = "identity",
    source_normalization: NormalizationRule | None = None,
    byte_fallback: bool | None = None,
    sampling_temperature: float = DEFAULT_TEMPERATURE,
    max_length: int = 256,
    threads: int | None = None,
) -> list[BuiltVocabulary]:
    """Train one vocabulary on the text of data sets, or use an existing one, and encode train and valid of each.

    No vocabulary is trained if the data sets' was trained on this text with these settings. A replaced vocabulary that
    had been given is kept as ``vocab.model.before``. Vocabularies and shards of all data sets are replaced together,
    once the whole text is encoded; an error leaves all unchanged.

    Args:
        size: number of pieces; by default the recipe's, if there is one data set, or chosen by the size of the corpora.
        existing: a SentencePiece model to use.
        existing_origin: gives the lineage of the data set that it was trained on, by its fingerprint, for the index;
            None if it is not known.
        check_unused: raises an error if a data set must not be changed now.
        normalization: the vocabulary's own rule, which changes both sides.
        source_normalization: the rule for source text, here and in translation. By default that of the data set whose
            folder holds ``existing``, or none.
        byte_fallback: see :func:`nmt.data.vocab.train_vocabulary`.
        sampling_temperature: balances the languages of several data sets (:mod:`nmt.data.language_sampling`).
        threads: all usable cores if not given.

    Returns:
        One for each data set, in the order of their names.

    Raises:
        DataError: a data set does not exist, cannot be read, is named twice, or its two sides are not parallel.
        VocabularyError: no vocabulary can be trained, or the existing one is unsuitable.
        OutputError: a data set's folder holds a vocabulary or shards that this program did not write.
        WriteError: the system refused to write; vocabularies and shards are unchanged.
    """
    check_temperature(sampling_temperature)
    texts = _texts(data)
    trained = recorded = origin = None
    sampled: dict[str, int] = {}
    if existing is not None:
        vocab = VocabularyPair.load(existing)
        origin = existing_origin(vocab.fingerprint)
        for text in texts:
            check_derived_replaceable(text.data, vocab=vocab)
        rule = source_normalization or _rule_of_data_set(existing.parent, vocab)
    else:
        for text in texts:
            check_derived_replaceable(text.data)
        rule = source_normalization or "identity"
        settings = VocabularySettings(
            size or _chosen_size(texts), model_type, character_coverage, normalization, rule, byte_fallback
        )
        recorded = recorded_training(settings, texts, sampling_temperature)
        trained_before = _trained_before(texts, recorded)
        if trained_before is None:
            for text in texts:
                check_unused(text.data)
            trained = _train(texts, settings, sampling_temperature)
            vocab = VocabularyPair.shared(trained.vocab)
            sampled = language_samples(texts, sampling_temperature) if len(texts) > 1 else {}
        else:
            vocab = trained_before
    built = _encode_all(texts, vocab, recorded, origin, rule, max_length, threads, check_unused)
    return [replace(each, trained=trained, sampled=sampled) for each in built]


def _texts(data: Sequence[Path]) -> list[DataSetText]:
    """Read the manifests and the text of data sets. Their order does not depend on that of the folders."""
    seen: dict[Path, Path] = {}
    for folder in data:
        if (place := folder.resolve()) in seen:
            raise DataError(f"{folder}: was given twice (as {seen[place]}). Name each data set once with --data.")
        seen[place] = folder
    manifests = [read_manifest(folder) for folder in data]
    texts = [
        DataSetText(folder, manifest, examine_text(folder, manifest, ENCODED_SPLITS))
        for folder, manifest in zip(data, manifests, strict=True)
    ]
    return sorted(texts, key=lambda text: (text.manifest.name, text.manifest.fingerprint))


def _encode_all(
    texts: Sequence[DataSetText],
    vocab: VocabularyPair,
    recorded: dict[str, Any] | None,
    origin: dict[str, Any] | None,
    rule: NormalizationRule,
    max_length: int,
    threads: int | None,
    check_unused: Callable[[Path], None],
) -> list[BuiltVocabulary]:
    """Encode the data sets that are not up to date; replace vocabulary and shards in all of these, or in none."""
    pending = [text for text in texts if not _is_up_to_date(text, vocab, recorded, origin, rule, max_length)]
    for text in pending:
        check_unused(text.data)
    edited = {text.data: _edited(text) for text in pending}
    kept: dict[Path, Path] = {}

    def save() -> None:
        # The vocabulary is saved before the shards: shards that do not match it are refused, which reveals a crash.
        for text in pending:
            check_unused(text.data)  # again, after what may have been hours
        for text in pending:
            if not _has_vocabulary(text.data, vocab):
                before = keep_given_vocabulary(text.data)
                if before is not None:
                    kept[text.data] = before
            vocab.save(DataFolder(text.data).vocab)

    folders = [DataFolder(text.data) for text in pending]
    try:
        with restoring(*(path for folder in folders for path in folder.vocabulary)):
            indices = write_shards_together(
                {text.data: text.files for text in pending},
                vocab,
                max_length=max_length,
                threads=threads,
                source_normalization=rule,
                vocabulary=recorded,
                vocabulary_origin=origin,
                once_complete=save,
            )
    except BaseException:
        for before in kept.values():  # ``restoring`` has put the vocabularies back under their own names.
            for path in vocabulary_files(before):
                path.unlink(missing_ok=True)
        raise
    written = {text.data: index for text, index in zip(pending, indices, strict=True)}
    return [
        BuiltVocabulary(
            text.data,
            vocab,
            written[text.data] if text.data in written else read_index(text.data),
            changed=text.data in written,
            kept=kept.get(text.data),
            edited=edited.get(text.data, ()),
        )
        for text in texts
    ]


def _has_vocabulary(data: Path, vocab: VocabularyPair) -> bool:
    path = DataFolder(data).vocab
    return path.is_file() and vocabulary_fingerprint(path) == vocab.fingerprint


def _is_up_to_date(
    text: DataSetText,
    vocab: VocabularyPair,
    recorded: dict[str, Any] | None,
    origin: dict[str, Any] | None,
    rule: NormalizationRule,
    max_length: int,
) -> bool:
    if not _has_vocabulary(text.data, vocab) or not are_current(text.data, vocab, max_length, rule, text=text.files):
        return False
    index = read_index(text.data)
    return is_same_training(index.vocabulary, recorded) and (origin is None or index.vocabulary_origin is not None)


def _rule_of_data_set(folder: Path, vocab: VocabularyPair) -> NormalizationRule:
    """The source rule of the data set in a folder; identity if it was not encoded with this vocabulary."""
    try:
        index = read_index(folder)
    except DataError:
        return "identity"
    return index.source_normalization if index.vocab_fingerprint == vocab.fingerprint else "identity"


def _chosen_size(texts: Sequence[DataSetText]) -> int:
    chosen = texts[0].manifest.recipe.get("vocab_size") if len(texts) == 1 else None
    chosen = chosen or default_size(sum(text.lines("source") for text in texts))
    if not isinstance(chosen, int):
        raise VocabularyError(f"{texts[0].data}: the recipe's vocab_size must be a number, not {chosen!r}.")
    return chosen


def _edited(text: DataSetText) -> tuple[str, ...]:
    """Names of the files whose text has changed since the shards were encoded, if the shards recorded it."""
    try:
        index = read_index(text.data)
    except DataError:
        return ()
    return tuple(differing_files(index.text or {}, text.files))


def _trained_before(texts: Sequence[DataSetText], recorded: Mapping[str, Any]) -> VocabularyPair | None:
    """The vocabulary of one of the data sets if it was trained on the current text with these settings; else None."""
    for text in texts:
        try:
            index, vocab = read_index(text.data), VocabularyPair.load(DataFolder(text.data).vocab)
        except (DataError, VocabularyError):
            continue
        is_same = is_same_training(index.vocabulary, recorded) and index.data_fingerprint == text.manifest.fingerprint
        # Shards of earlier versions do not record their text.
        is_same = is_same and (index.text is None or is_same_text(index.text, text.files))
        if is_same and index.vocab_fingerprint == vocab.fingerprint:
            return vocab
    return None


def _train(texts: Sequence[DataSetText], settings: VocabularySettings, temperature: float) -> TrainedVocabulary:
    return train_vocabulary(
        lines_to_train_on(texts, settings.source_normalization, temperature),
        size=settings.size,
        model_type=settings.model_type,
        character_coverage=settings.character_coverage,
        normalization=settings.normalization,
        byte_fallback=settings.byte_fallback,
    )


def normalization_changes(built: BuiltVocabulary) -> dict[Side, Changes]:
    """What the normalisation rules of a new vocabulary change in the training text, by side.

    The vocabulary's rule changes both sides; the source rule is applied to the source first. A side for which no rule
    was chosen is left out, unless a given vocabulary changes it.
    """
    text = DataSetText(built.data, read_manifest(built.data), {})
    vocab, rule, trained_with = built.vocab, built.index.source_normalization, built.index.vocabulary
    sides = [side for side in SIDES if vocab.of(side).is_normalizing or (side == "source" and rule != "identity")]
    source_rule = source_normalizer(rule)
    steps: dict[Side, Callable[[str], str]] = {
        "source": lambda line: vocab.source.normalize(source_rule(line)),
        "target": vocab.target.normalize,
    }
    found = {side: count_changes(training_lines(text, side, "identity", _COUNTED_LINES), steps[side]) for side in sides}
    return {side: changes for side, changes in found.items() if changes.changed or trained_with is not None}


def size_warnings(built: Sequence[BuiltVocabulary]) -> list[str]:
    """A warning if the data sets' new vocabulary is too large for their text."""
    size = built[0].vocab.source.size
    found = sum(each.index.splits["train"].sides[side].pieces for each in built for side in SIDES)
    if built[0].index.vocabulary is None or found >= _FEWEST_PER_PIECE * size:
        return []
    smaller = int(found / _FEWEST_PER_PIECE) // 100 * 100
    advice = f"Choose a smaller vocabulary, such as --size {smaller}, or add text." if smaller else "Add text."
    occurs = f"each of the {size:,} pieces occurs {found / size:.1f} times on average"
    return [f"{occurs}, too rarely to be learnt. {advice}"]


def warnings(built: BuiltVocabulary) -> list[str]:
    """Warnings about a vocabulary's statistics."""
    found = []
    train = built.index.splits["train"]
    for side in SIDES:
        statistics = train.sides[side]
        if statistics.pieces and statistics.unknown / statistics.pieces > 0.001:
            share = statistics.unknown / statistics.pieces
            found.append(f"{share:.2%} of the {side} pieces are unknown: is this the vocabulary of this text?")
        if statistics.pieces and statistics.byte_pieces / statistics.pieces > 0.02:
            share = statistics.byte_pieces / statistics.pieces
            found.append(f"{share:.2%} of the {side} pieces are single bytes: is this the vocabulary of this text?")
        if statistics.words and statistics.pieces / statistics.words > 3:
            found.append(
                f"{statistics.pieces / statistics.words:.1f} pieces per {side} word: the vocabulary is small for this "
                "text, or of another language."
            )
    total = train.pairs + train.too_long + train.empty
    if total and train.too_long / total > 0.01:
        found.append(f"{train.too_long:,} of {total:,} training pairs are longer than {built.index.max_length} pieces.")
    return found
