"""``nmt build-vocab``: from prepared text to vocabulary and shards."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nmt.data.aligning import MOST_ALIGNED
from nmt.data.data_folder import DataFolder
from nmt.data.data_set import DATA_SET
from nmt.data.encoded_text import examine_text
from nmt.data.made import Made
from nmt.data.manifest import read_manifest
from nmt.data.normalization import Changes, count_changes
from nmt.data.shard_index import ENCODED_SPLITS, SHARDS, SIDES, ShardIndex, Side, known_index
from nmt.data.shard_writing import Encoding, replacing_shards
from nmt.data.shards import is_current
from nmt.data.training_lines import language_samples, lines_to_train_on, training_lines
from nmt.data.vocab import SPECIAL_PIECES, TrainedVocabulary, Vocabulary, default_size, train_vocabulary
from nmt.data.vocab_pair import VocabularyPair
from nmt.data.vocab_record import (
    DataSetText,
    VocabularyRecord,
    VocabularySettings,
    known_record,
    save_vocabulary,
    steps_of_new,
    vocabulary_kinds,
)
from nmt.errors import ConfigError, DataError, VocabularyError
from nmt.io.files import LockedFolder, locked_folders, restoring
from nmt.io.ownership import check_replaceable
from nmt.record import Record, text_record
from nmt.text.steps import CHOICES, NO_STEPS, TextSteps, affixes, normalizer

_COUNTED_LINES = 500_000
"""Maximum number of lines per side in which the changes of a normaliser are counted."""
_FEWEST_PER_PIECE = 10
"""Minimum mean number of occurrences of a piece in the training text.

Gowda and May (2020, "Finding the Optimal Vocabulary Size for Neural Machine Translation") advise the largest vocabulary
of which 95% of the pieces occur at least 100 times. Small corpora do not allow that; this is a far weaker limit.
"""
_PAIRS_THAT_FILL = 5_000
"""From this number of pairs on, text has enough pieces for the default size of its vocabulary."""


@dataclass(frozen=True)
class BuiltVocabulary:
    """A data set's vocabulary and shards."""

    data: Path
    vocab: VocabularyPair
    record: VocabularyRecord
    index: ShardIndex
    changed: bool
    """False if everything was up to date."""
    trained: TrainedVocabulary | None = None
    """None if no vocabulary was trained."""
    edited: tuple[str, ...] = ()
    """Names of the files whose text has changed since it was last encoded."""
    sampled: Mapping[str, int] = field(default_factory=dict)
    """The number of lines of each language that a new joint vocabulary was trained on."""


def build_vocabulary(
    data: Sequence[Path],
    settings: VocabularySettings = VocabularySettings(),
    *,
    existing: Path | None = None,
    existing_steps: TextSteps | None = None,
    existing_origin: Callable[[str], Record | None] = lambda fingerprint: None,
    check_unused: Callable[[Path, bool], None] = lambda data, replaced: None,
    max_pieces: int = 256,
    aligns: bool | None = None,
    threads: int | None = None,
    notify: Callable[[str], object] = lambda message: None,
) -> list[BuiltVocabulary]:
    """Train one vocabulary on the text of data sets, or use an existing one, and encode train and valid of each.

    No vocabulary is trained if the data sets' was trained on this text with these settings. Vocabularies and shards of
    all data sets are replaced together, once the whole text is encoded; an error leaves all unchanged.

    Args:
        existing: a SentencePiece model to use; of the settings, only the source rule is then used.
        existing_steps: what its text goes through; as its data set records if not given.
        existing_origin: gives the record of its training, by its fingerprint; None if that is not known.
        check_unused: raises an error if a data set must not be changed now. It is told whether another vocabulary
            or maximum length replaces the data set's.
        max_pieces: pairs with a side of more pieces are left out and counted.
        aligns: align the pieces of the training pairs. None aligns those of all data sets if one is aligned: that took
            long, and runs may need it.
        threads: all usable cores if not given.
        notify: is told what was aligned.

    Returns:
        One for each data set, in the order of their names.

    Raises:
        ConfigError: pairs may have more pieces than can be aligned.
        DataError: a data set does not exist, cannot be read, is named twice, or its two sides are not parallel.
        VocabularyError: no vocabulary can be trained, or the existing one is unsuitable.
        OutputError: a data set's folder holds a vocabulary or shards that this program did not write.
        WriteError: the system refused to write; vocabularies and shards are unchanged.
    """
    texts = _texts(data)
    if aligns is None:
        aligns = any(text.index is not None and text.index.is_aligned for text in texts)
    if aligns and max_pieces > MOST_ALIGNED:
        raise ConfigError(f"--align takes pairs of at most {MOST_ALIGNED:,} pieces: lower --max-pieces, or --no-align.")
    trained = None
    sampled: dict[str, int] = {}
    if existing is not None:
        vocab = VocabularyPair.load(existing, may_be_pipe=True)
        given = existing_steps or _steps_of_data_set(existing.parent, vocab)
        steps = given.with_rule(settings.source_normalization)
        origin = existing_origin(vocab.fingerprint)
        record = VocabularyRecord.of_given(_file_records(vocab, existing) if origin is None else [origin], steps)
        _check_pieces(texts, steps)
        _check_replaceable(texts, vocab)
    else:
        steps = steps_of_new(texts, settings)
        settings = replace(settings, source_normalization=steps.rule)
        asked_size = settings.size or _default_size(texts)
        settings = replace(settings, size=settings.size or _lowered(asked_size, texts, settings, steps))
        record = VocabularyRecord.of_training(settings, texts)
        _check_replaceable(texts, None)
        before = next((text.data for text in texts if text.has_vocabulary(record)), None)
        if before is not None:
            vocab = VocabularyPair.load(DataFolder(before).vocab)
        else:
            for text in texts:
                check_unused(text.data, text.record is not None)
            trained = replace(_train(texts, settings, steps), asked_size=asked_size)
            vocab = VocabularyPair.shared(trained.vocab)
            sampled = language_samples(texts, settings.sampling_temperature) if len(texts) > 1 else {}
    encoding = Encoding(vocab, max_pieces, steps, threads or vocab.source.threads, aligns=aligns, notify=notify)
    built = _encode_all(texts, replace(record, files=_checksums(vocab)), encoding, check_unused)
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
        DataSetText(
            folder,
            manifest,
            examine_text(folder, manifest, ENCODED_SPLITS),
            known_record(folder),
            known_index(folder),
        )
        for folder, manifest in zip(data, manifests, strict=True)
    ]
    return sorted(texts, key=lambda text: (text.manifest.name, text.manifest.fingerprint))


def _check_pieces(texts: Sequence[DataSetText], steps: TextSteps) -> None:
    """Check that a given vocabulary has a piece for each tag, and for each language if no text can name one.

    Raises:
        VocabularyError: a tag or a language has no piece.
    """
    for text, by in itertools.product(texts, CHOICES):
        choices, known = text.manifest.choices, steps.codes(by)
        silent = [affix for affix in steps.affixes(by) if affix.is_silent]
        is_known = choices[by] in ("", *known) if by == "tag" else all(affix.piece(choices) for affix in silent)
        if not is_known:
            what = by if by == "tag" else f"{by} language"
            raise VocabularyError(
                f"{text.data}: the vocabulary has no piece for its {what} {choices[by]}; it has "
                f"{', '.join(known) or 'none'}. Leave --vocab out, and name all data sets with --data."
            )


def _check_replaceable(texts: Sequence[DataSetText], vocab: VocabularyPair | None) -> None:
    """Check that this program wrote the vocabularies and the shards that are to be replaced.

    Args:
        vocab: the vocabulary to be written, if it is known: files with its contents may be replaced.

    Raises:
        OutputError: a file or folder is the user's own.
    """
    for text in texts:
        same = {} if vocab is None else vocab.files(DataFolder(text.data).vocab)
        for path, kind in vocabulary_kinds(text.data).items():
            if not (path.is_file() and path.read_bytes() == same.get(path)):
                check_replaceable(path, kind, option=None)
        check_replaceable(DataFolder(text.data).shards, SHARDS, option=None)


def _encode_all(
    texts: Sequence[DataSetText],
    record: VocabularyRecord,
    encoding: Encoding,
    check_unused: Callable[[Path, bool], None],
) -> list[BuiltVocabulary]:
    """Encode the data sets that are not up to date; replace vocabulary and shards in all of these, or in none."""
    pending = [text for text in texts if not _is_up_to_date(text, record, encoding)]
    replaced = {
        text.data: bool(Made({}, record.files).edited(text.data))
        or (text.index is not None and text.index.max_pieces != encoding.max_pieces)
        for text in pending
    }
    for text in pending:
        check_unused(text.data, replaced[text.data])
    with (
        _locked(pending) as locked,  # first: what is restored is what no other process has replaced since
        restoring(*(path for text in pending for path in vocabulary_kinds(text.data))),
        replacing_shards({text.data: text.files for text in pending}, encoding, locked) as indices,
    ):
        for text in pending:
            check_unused(text.data, replaced[text.data])  # again, after what may have been hours
        # The vocabulary is saved before the shards: shards that do not match it are refused, which reveals a crash.
        for text in pending:
            if not text.has_vocabulary(record):
                save_vocabulary(text.data, encoding.vocab, record)
    written = {text.data: index for text, index in zip(pending, indices, strict=True)}
    built = []
    for text in texts:
        earlier, new = text.index, written.get(text.data)
        standing = text.record if text.has_vocabulary(record) else None
        index = new or earlier
        assert index is not None  # What is up to date has an index.
        built.append(
            BuiltVocabulary(
                text.data,
                encoding.vocab,
                standing or record,
                index,
                changed=new is not None,
                edited=tuple(earlier.edited_text(text.files)) if new and earlier else (),
            )
        )
    return built


@contextmanager
def _locked(texts: Sequence[DataSetText]) -> Iterator[list[LockedFolder]]:
    """Lock data sets, so that none is prepared meanwhile, and their shards. Yields the folders of the shards."""
    with ExitStack() as stack:
        for text in texts:
            # Where this process may not write beside the folder, prepare-data cannot replace it either.
            if os.access(text.data.resolve().parent, os.W_OK):
                stack.enter_context(LockedFolder.lock(text.data, DATA_SET))
        yield stack.enter_context(locked_folders([DataFolder(text.data).shards for text in texts], SHARDS))


def _is_up_to_date(text: DataSetText, record: VocabularyRecord, encoding: Encoding) -> bool:
    inputs = encoding.inputs(text.manifest, text.files)
    return text.has_vocabulary(record) and text.index is not None and is_current(text.data, text.index, inputs)


def _steps_of_data_set(folder: Path, vocab: VocabularyPair) -> TextSteps:
    """The steps that go with the vocabulary of the data set in a folder; none if that is another one."""
    record, index = known_record(folder), known_index(folder)
    if record is not None and record.files == _checksums(vocab):
        return record.steps
    # The record may be lost, as the shards may be.
    return index.steps if index and index.vocab_fingerprint == vocab.fingerprint else TextSteps()


def _checksums(vocab: VocabularyPair) -> dict[str, str]:
    """The sha256 of each file of a vocabulary in a data set, by its name."""
    files = vocab.files(Path("vocab.model"))
    return {path.name: hashlib.sha256(content).hexdigest() for path, content in files.items()}


def _file_records(vocab: VocabularyPair, path: Path) -> list[Record]:
    """The records of the files of a vocabulary. They are not read again: a pipe can be read only once."""
    contents = vocab.contents(path)
    return [
        text_record("file", str(file.absolute()), hashlib.sha256(content).hexdigest())
        for file, content in contents.items()
    ]


def _default_size(texts: Sequence[DataSetText]) -> int:
    chosen = _size_of_recipe(texts) or default_size(_pairs(texts))
    if not isinstance(chosen, int):
        raise VocabularyError(f"{texts[0].data}: the recipe's vocab_size must be a number, not {chosen!r}.")
    return chosen


def _size_of_recipe(texts: Sequence[DataSetText]) -> Any:
    return texts[0].manifest.recipe.get("vocab_size") if len(texts) == 1 else None


def _pairs(texts: Sequence[DataSetText]) -> int:
    return sum(text.lines("source") for text in texts)


def _lowered(size: int, texts: Sequence[DataSetText], settings: VocabularySettings, steps: TextSteps) -> int:
    """A default size, or the largest below it whose pieces occur often enough in a small text."""
    if _size_of_recipe(texts) or _pairs(texts) >= _PAIRS_THAT_FILL:
        return size
    trial = _train(texts, replace(settings, size=size), steps).vocab
    pieces = sum(map(len, trial.encode(list(lines_to_train_on(texts, steps, settings.sampling_temperature)))))
    return size if pieces >= _FEWEST_PER_PIECE * trial.size else _learnable_size(trial, pieces) or size


def _learnable_size(vocab: Vocabulary, pieces: int) -> int | None:
    """The vocabulary size, in hundreds, whose pieces occur often enough in a text that has so many pieces.

    None if it is too small for the characters of the text.
    """
    size = pieces // _FEWEST_PER_PIECE // 100 * 100
    characters = sum(len(piece) == 1 for piece in vocab.pieces(range(vocab.size)))
    return int(size) if size >= characters + len(SPECIAL_PIECES) else None


def _train(texts: Sequence[DataSetText], settings: VocabularySettings, steps: TextSteps) -> TrainedVocabulary:
    assert settings.size is not None
    return train_vocabulary(
        lines_to_train_on(texts, steps, settings.sampling_temperature),
        size=settings.size,
        model_type=settings.model_type,
        character_coverage=settings.character_coverage,
        normalization=settings.normalization,
        byte_fallback=settings.byte_fallback,
        silent=[piece for affix in affixes(steps.source) for piece in affix.pieces.values()],
    )


def normalization_changes(built: BuiltVocabulary) -> dict[Side, Changes]:
    """What the normalisation rules of a new vocabulary change in the training text, by side.

    The vocabulary's rule changes both sides; the source rule is applied to the source first. A side for which no rule
    was chosen is left out, unless a given vocabulary changes it.
    """
    text = DataSetText(built.data, read_manifest(built.data), {})
    vocab, steps = built.vocab, built.index.steps
    normalize = normalizer(steps.source)
    sides = [side for side in SIDES if vocab.of(side).is_normalizing or (side == "source" and normalize is not str)]
    normalizers: dict[Side, Callable[[str], str]] = {
        "source": lambda line: vocab.source.normalize(normalize(line)),
        "target": vocab.target.normalize,
    }
    found = {
        side: count_changes(training_lines(text, side, NO_STEPS, _COUNTED_LINES), normalizers[side]) for side in sides
    }
    return {side: changes for side, changes in found.items() if changes.changed or not built.record.is_given}


def size_warnings(built: Sequence[BuiltVocabulary]) -> list[str]:
    """A warning if the data sets' new vocabulary is too large for their text."""
    size = built[0].vocab.source.size
    found = sum(each.index.splits["train"].sides[side].pieces for each in built for side in SIDES)
    if built[0].record.is_given or found >= _FEWEST_PER_PIECE * size:
        return []
    smaller = _learnable_size(built[0].vocab.source, found)
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
        found.append(f"{train.too_long:,} of {total:,} training pairs are longer than {built.index.max_pieces} pieces.")
    return found
