"""``nmt build-vocab``: from prepared text to vocabulary and shards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from nmt.data.data_folder import DataFolder
from nmt.data.derived import check_derived_replaceable, keep_given_vocabulary
from nmt.data.encoded_text import TextFile, differing_files, examine_text, is_same_text
from nmt.data.manifest import Manifest, read_manifest
from nmt.data.normalization import Changes, count_changes
from nmt.data.shard_writing import write_shards
from nmt.data.shards import ENCODED_SPLITS, SIDES, ShardIndex, Side, are_current, read_index
from nmt.data.vocab import ModelType, TrainedVocabulary, Vocabulary, default_size, sample, train_vocabulary
from nmt.errors import DataError, VocabularyError
from nmt.files import restoring
from nmt.text import NormalizationRule, normalizer, read_lines

SAMPLE_LINES = 2_000_000
"""Maximum number of lines per side to train a vocabulary on: more change little and cost memory."""
_COUNTED_LINES = 500_000
"""Maximum number of lines per side in which the changes of a normaliser are counted."""


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
class BuiltVocabulary:
    """A data set's vocabulary and shards."""

    vocab: Vocabulary
    index: ShardIndex
    trained: TrainedVocabulary | None
    """None if an existing vocabulary was used."""
    changed: bool
    """False if everything was up to date."""
    kept: Path | None = None
    """The file that keeps the replaced vocabulary, if that was a given one."""
    edited: tuple[str, ...] = ()
    """Names of the files whose text has changed since it was last encoded."""


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
    """Train a vocabulary on a data set's training text, or use an existing one, and encode train and valid with it.

    No vocabulary is trained if the data set's was trained on this text with these settings. A replaced vocabulary that
    had been given is kept as ``vocab.model.before``. Vocabulary and shards are replaced together, once the whole text
    is encoded; an error leaves both unchanged.

    Args:
        size: number of pieces; by default the recipe's, or chosen by the size of the corpus.
        existing: a SentencePiece model to use.
        normalization: the vocabulary's own rule, which changes both sides.
        source_normalization: the rule for source text, here and in translation. By default that of the data set whose
            folder holds ``existing``, or none.
        byte_fallback: see :func:`nmt.data.vocab.train_vocabulary`.
        threads: all usable cores if not given.

    Raises:
        DataError: the data set does not exist, cannot be read, or its two sides are not parallel.
        VocabularyError: no vocabulary can be trained, or the existing one is unsuitable.
        OutputError: the data set's folder holds a vocabulary or shards that this program did not write.
        WriteError: the system refused to write; vocabulary and shards are unchanged.
    """
    manifest = read_manifest(data)
    text = examine_text(data, manifest, ENCODED_SPLITS)
    trained = settings = None
    if existing is not None:
        vocab = Vocabulary.load(existing)
        check_derived_replaceable(data, vocab=vocab)
        rule = source_normalization or _rule_of_data_set(existing.parent, vocab)
    else:
        check_derived_replaceable(data)
        rule = source_normalization or "identity"
        settings = VocabularySettings(
            size or _chosen_size(data, manifest), model_type, character_coverage, normalization, rule, byte_fallback
        )
        trained_before = _trained_before(data, manifest, settings, text)
        if trained_before is None:
            trained = _train(data, manifest, settings)
            vocab = trained.vocab
        else:
            vocab = trained_before
    path = DataFolder(data).vocab
    is_same = path.is_file() and path.read_bytes() == vocab.model_bytes
    recorded = asdict(settings) if settings is not None else None
    if is_same and are_current(data, vocab, max_length, rule, text=text) and read_index(data).vocabulary == recorded:
        return BuiltVocabulary(vocab, read_index(data), trained, changed=False)
    edited = _edited(data, text)
    kept = None

    def save() -> None:
        # The vocabulary is saved before the shards: shards that do not match it are refused, which reveals a crash.
        nonlocal kept
        kept = None if is_same else keep_given_vocabulary(data)
        vocab.save(path)

    try:
        with restoring(path, DataFolder(data).pieces):
            index = write_shards(
                data,
                vocab,
                max_length=max_length,
                threads=threads,
                source_normalization=rule,
                vocabulary=recorded,
                text=text,
                once_complete=save,
            )
    except BaseException:
        if kept is not None:  # ``restoring`` has put the vocabulary back under its own name.
            kept.unlink(missing_ok=True)
        raise
    return BuiltVocabulary(vocab, index, trained, changed=True, kept=kept, edited=edited)


def _rule_of_data_set(folder: Path, vocab: Vocabulary) -> NormalizationRule:
    """The source rule of the data set in a folder; identity if it was not encoded with this vocabulary."""
    try:
        index = read_index(folder)
    except DataError:
        return "identity"
    return index.source_normalization if index.vocab_fingerprint == vocab.fingerprint else "identity"


def _chosen_size(data: Path, manifest: Manifest) -> int:
    chosen = manifest.recipe.get("vocab_size") or default_size(manifest.files[f"train.{manifest.source_lang}"].lines)
    if not isinstance(chosen, int):
        raise VocabularyError(f"{data}: the recipe's vocab_size must be a number, not {chosen!r}.")
    return chosen


def _edited(data: Path, text: Mapping[str, TextFile]) -> tuple[str, ...]:
    """Names of the files whose text has changed since the shards were encoded, if the shards recorded it."""
    try:
        index = read_index(data)
    except DataError:
        return ()
    return tuple(differing_files(index.text or {}, text))


def _trained_before(
    data: Path, manifest: Manifest, settings: VocabularySettings, text: Mapping[str, TextFile]
) -> Vocabulary | None:
    """The data set's vocabulary if it was trained on the current text with these settings; else None."""
    try:
        index, vocab = read_index(data), Vocabulary.load(DataFolder(data).vocab)
    except (DataError, VocabularyError):
        return None
    is_same = index.vocabulary == asdict(settings) and index.data_fingerprint == manifest.fingerprint
    # Shards of earlier versions do not record their text.
    is_same = is_same and (index.text is None or is_same_text(index.text, text))
    return vocab if is_same and index.vocab_fingerprint == vocab.fingerprint else None


def _train(data: Path, manifest: Manifest, settings: VocabularySettings) -> TrainedVocabulary:
    def lines() -> Iterator[str]:
        for side in SIDES:
            yield from _training_lines(data, manifest, side, settings.source_normalization, SAMPLE_LINES)

    return train_vocabulary(
        lines(),
        size=settings.size,
        model_type=settings.model_type,
        character_coverage=settings.character_coverage,
        normalization=settings.normalization,
        byte_fallback=settings.byte_fallback,
    )


def _training_lines(data: Path, manifest: Manifest, side: Side, rule: NormalizationRule, limit: int) -> Iterator[str]:
    """At most ``limit`` lines of one side of the training text, evenly spread; the rule is applied to the source."""
    name = f"train.{manifest.source_lang if side == 'source' else manifest.target_lang}"
    lines = sample(read_lines(data / name), manifest.files[name].lines, limit)
    return lines if side == "target" else map(_rule(rule), lines)


def _rule(rule: NormalizationRule) -> Callable[[str], str]:
    return normalizer(nfc=False, punctuation=False, language="", rule=rule)


def normalization_changes(data: Path, built: BuiltVocabulary) -> dict[Side, Changes]:
    """What the normalisation rules of a new vocabulary change in the training text, by side.

    The vocabulary's rule changes both sides; the source rule is applied to the source first. A side for which no rule
    was chosen is left out, unless a given vocabulary changes it.
    """
    manifest = read_manifest(data)
    vocab, rule, trained_with = built.vocab, built.index.source_normalization, built.index.vocabulary
    is_lossless = trained_with is not None and trained_with["normalization"] == "identity"
    sides = [side for side in SIDES if not is_lossless or (side == "source" and rule != "identity")]
    source_rule = _rule(rule)
    steps: dict[Side, Callable[[str], str]] = {
        "source": lambda line: vocab.normalize(source_rule(line)),
        "target": vocab.normalize,
    }
    found = {
        side: count_changes(_training_lines(data, manifest, side, "identity", _COUNTED_LINES), steps[side])
        for side in sides
    }
    return {side: changes for side, changes in found.items() if changes.changed or trained_with is not None}


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
