"""The vocabulary of one side: training a SentencePiece model, encoding and decoding."""

from __future__ import annotations

import copy
import functools
import io
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from sentencepiece import SentencePieceNormalizer, SentencePieceProcessor, SentencePieceTrainer

from nmt import special_ids
from nmt.data.arrays import Rows
from nmt.data.segmentation import SegmentationSampler
from nmt.errors import VocabularyError
from nmt.machine.cores import usable_cores
from nmt.text.lines import NormalizationRule
from nmt.text.steps import Choice, Steps, affixes, tokenizer

ModelType = Literal["bpe", "unigram"]

# SentencePiece silently skips longer training lines.
_LONGEST_TRAINING_LINE_BYTES = 4_192
_SMALLEST_COVERAGE = 0.98
"""The trainer accepts no less."""
_TOO_HIGH = re.compile(r"<= (\d+)")
_NEEDED = re.compile(r"smaller than required_chars\. \d+ vs (\d+)")
_LOG_ERRORS_ONLY = 2
_FEW = 64
"""Lines that are encoded one by one."""
SPECIAL_PIECES = ("<pad>", "<unk>", "<s>", "</s>")
_BYTES = 256
SMALLEST_WITH_BYTES = 4 * _BYTES
"""In a smaller vocabulary, byte pieces would be more than a quarter of the pieces."""
# SentencePiece's trainer reads U+2581 as a space, ends a line at a NUL, and skips lines with U+2585.
_AS_SPACES = str.maketrans(dict.fromkeys("\u2581\0\u2585", " "))


class Vocabulary:
    """A SentencePiece model. Ids 0 to 3 are padding, unknown, begin and end of sentence."""

    PAD, UNK, BOS, EOS = special_ids.PAD, special_ids.UNK, special_ids.BOS, special_ids.EOS
    is_segmented = False
    """Whether text comes as pieces separated by spaces: only in imported vocabularies."""
    pieces_json: bytes | None = None
    """The list of pieces beside the model, which gives pieces their ids: only in imported vocabularies."""
    language_tags: tuple[str, ...] = ()
    """The pieces by which a source line names its target language (``>>deu<<``): only in imported vocabularies."""
    silent: frozenset[str] = frozenset()
    """The pieces that are no text, such as those of languages: only in imported vocabularies."""

    def __init__(self, model_bytes: bytes, *, name: str = "vocabulary") -> None:
        """Read a serialised SentencePiece model.

        Raises:
            VocabularyError: the bytes are not a SentencePiece model, or its special pieces have other ids.
        """
        self.model_bytes = model_bytes
        self._tokenize, self._detokenize = tokenizer(())
        self._before, self._behind = list[int](), list[int]()
        self.threads = usable_cores()
        """The default number of threads for encoding and decoding."""
        try:
            self._processor = SentencePieceProcessor(model_proto=model_bytes)
            self._pieces: list[str] = self._processor.id_to_piece(list(range(self._processor.get_piece_size())))
        except (RuntimeError, ValueError):  # ValueError: the error message or the pieces are not UTF-8.
            raise VocabularyError(f"{name}: is not a SentencePiece model.") from None
        self._check_special_ids(name)

    def _check_special_ids(self, name: str) -> None:
        processor = self._processor
        ids = (processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id())
        if ids != (self.PAD, self.UNK, self.BOS, self.EOS):
            raise VocabularyError(
                f"{name}: has the ids {ids} for pad, unk, bos and eos, but 0, 1, 2, 3 are needed. Leave --vocab out, "
                "so that `nmt build-vocab` trains one, or train it with --pad_id=0 --unk_id=1 --bos_id=2 --eos_id=3."
            )

    @property
    def before(self) -> tuple[int, ...]:
        """The ids of the affixes before a line; on the target's side, every output begins with them."""
        return tuple(self._before)

    @property
    def affix_count(self) -> int:
        """The number of pieces that a line gets beside those of its text."""
        return len(self._before) + len(self._behind)

    @property
    def size(self) -> int:
        """Number of pieces, the four special ones included."""
        return len(self._pieces)

    def prepared(self, steps: Steps, choices: Mapping[Choice, str]) -> Self:
        """This vocabulary for lines that go through steps: it applies those that tokenise, and adds the affixes.

        Args:
            steps: those of its side; :func:`nmt.text.steps.normalizer` has the others.
            choices: the codes of both sides and the tag, which choose the affixes.

        Raises:
            VocabularyError: the vocabulary lacks the piece of an affix.
        """
        prepared = copy.copy(self)
        prepared._tokenize, prepared._detokenize = tokenizer(steps)
        chosen = [(step.place, piece) for step in affixes(steps) if (piece := step.piece(choices)) is not None]
        prepared._before, prepared._behind = (
            [self._affix(piece) for place, piece in chosen if place == wanted] for wanted in ("before", "behind")
        )
        return prepared

    def _affix(self, piece: str) -> int:
        [index] = self.ids([piece])
        if index == self.UNK:
            raise VocabularyError(f"the vocabulary has no piece {piece!r}, which the model's settings add to text.")
        return index

    def encode(self, lines: Sequence[str], *, threads: int | None = None) -> list[list[int]]:
        """The ids of each line's pieces, affixes included, without bos and eos.

        Args:
            threads: number of threads; :attr:`threads` if None.
        """
        return self._encoded(lines, lambda tokenized: self._segment(tokenized, threads or self.threads))

    def _encoded(self, lines: Sequence[str], segment: Callable[[Sequence[str]], list[list[int]]]) -> list[list[int]]:
        """The ids of lines whose tokens become SentencePiece's ids by ``segment``."""
        if self._tokenize is str:
            ids = self._ids_of(segment(lines))
        else:
            split = map(self.split_tag, lines)
            ids = self._ids_of(segment([" ".join(filter(None, (tag, self._tokenize(rest)))) for tag, rest in split]))
        if not (self._before or self._behind):
            return ids
        # A line that names its language itself gets no piece for it.
        return [
            [*([] if self.split_tag(line)[0] else self._before), *row, *self._behind]
            for line, row in zip(lines, ids, strict=True)
        ]

    def encode_rows(self, lines: Sequence[str]) -> Rows:
        """The same ids as :meth:`encode` gives, as int32 in one array, computed by one thread.

        SentencePiece lets other threads of Python run meanwhile, so several threads encode several times as fast.
        """
        if self._is_prepared:
            return Rows.of(self.encode(lines, threads=1))
        return Rows.of(self._processor.encode(without_reserved(lines), num_threads=1, return_type="numpy"))

    def encode_sampled(
        self, lines: Sequence[str], *, dropout: float, seed: int | Sequence[int], threads: int = 1
    ) -> list[list[int]]:
        """The ids of a random segmentation of each line, for subword regularisation: a pure function of its arguments.

        Args:
            dropout: 0 disables sampling, as :meth:`encode`. With a BPE model, the probability that a merge is dropped
                (BPE-dropout, Provilkov et al. 2020). With a unigram model, the α of Kudo (2018): values near 0 make
                all segmentations about equally likely.
            threads: number of threads.

        Raises:
            VocabularyError: ``dropout`` is not from 0 to 1.
        """
        if not 0 <= dropout <= 1:
            raise VocabularyError(f"the dropout of the segmentation is {dropout:g}: give a number from 0 to 1.")

        def segment(tokenized: Sequence[str]) -> list[list[int]]:
            encoded = self._segment(tokenized, threads)
            return self._sampler.sample(encoded, dropout, np.random.default_rng(seed)) if dropout else encoded

        return self._encoded(lines, segment)

    @property
    def _is_prepared(self) -> bool:
        return self._tokenize is not str or bool(self._before or self._behind)

    def _ids_of(self, segmented: list[list[int]]) -> list[list[int]]:
        """Our ids of SentencePiece's, which are the same."""
        return segmented

    def _segment(self, lines: Sequence[str], threads: int) -> list[list[int]]:
        """The pieces that SentencePiece makes of each line, by its own ids."""
        lines = without_reserved(lines)
        if len(lines) <= _FEW:  # for a list it starts threads, which takes ten times as long as to encode a line
            return list(map(self._processor.encode, lines))
        encoded: list[list[int]] = self._processor.encode(lines, num_threads=threads)
        return encoded

    def normalize(self, line: str) -> str:
        """A line after the model's own normaliser; spaces are left as they are."""
        normalized: str = self._normalizer.normalize(line)
        return normalized

    @property
    def is_normalizing(self) -> bool:
        """Whether the model's own normaliser may change characters."""
        try:
            return bool(self._normalizer.decompile())
        except RuntimeError as error:  # How SentencePiece says that the model has no rules.
            return "No precompiled charsmap" not in str(error)

    @property
    def byte_ids(self) -> frozenset[int]:
        """The ids of the pieces that stand for single bytes; empty without byte fallback."""
        return frozenset(filter(self._processor.is_byte, range(self.size)))

    def split_tag(self, line: str) -> tuple[str, str]:
        """The language tag that a source line begins with (or no text), and the rest of the line."""
        return "", line

    @functools.cached_property
    def _normalizer(self) -> SentencePieceNormalizer:
        return SentencePieceNormalizer(
            model_proto=self.model_bytes,
            add_dummy_prefix=False,
            escape_whitespaces=False,
            remove_extra_whitespaces=False,
        )

    @functools.cached_property
    def _sampler(self) -> SegmentationSampler:
        return SegmentationSampler(self._processor)

    def decode(self, sentences: Sequence[Sequence[int]]) -> list[str]:
        """The text of each row of ids, as one line: a line end among its bytes becomes a space."""
        return [self._detokenize(text) for text in self._decoded(sentences)]

    def _decoded(self, sentences: Sequence[Sequence[int]]) -> list[str]:
        """The text of each row of ids, in tokens if text is tokenised."""
        if not sentences:
            return []
        decoded: list[str] = self._processor.decode([list(ids) for ids in sentences], num_threads=self.threads)
        return [text.replace("\n", " ") for text in decoded]

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The pieces themselves, where ``▁`` stands for a space."""
        return [self._pieces[index] for index in ids]

    def ids(self, pieces: Iterable[str]) -> list[int]:
        """The ids of pieces; that of unk for strings that are not pieces."""
        ids: list[int] = self._processor.piece_to_id(list(pieces))
        return ids


@dataclass(frozen=True)
class TrainedVocabulary:
    """A new vocabulary, and facts about its training."""

    vocab: Vocabulary
    lines: int
    """The number of lines that the vocabulary was trained on."""
    skipped_lines: int
    """The number of lines that were too long for SentencePiece's trainer."""
    asked_size: int
    """The requested or default size; larger than ``vocab.size`` if the text could not fill it."""
    too_small_for_bytes: bool
    """Whether byte fallback was turned off because the size is below :data:`SMALLEST_WITH_BYTES`."""


def train_vocabulary(
    lines: Iterable[str],
    *,
    size: int,
    model_type: ModelType = "bpe",
    character_coverage: float = 1.0,
    normalization: NormalizationRule = "identity",
    byte_fallback: bool | None = None,
    silent: Sequence[str] = (),
) -> TrainedVocabulary:
    """Train a vocabulary; the same lines and settings give the same vocabulary.

    Args:
        lines: text of both languages; held in memory.
        size: number of pieces; lowered if the text cannot fill it.
        character_coverage: the share of character occurrences whose characters get pieces of their own. Other
            characters are spelt in bytes, or become unk without byte fallback.
        normalization: SentencePiece's rule; ``identity`` is lossless.
        byte_fallback: include a piece for each of the 256 bytes, which spell characters without a piece. By default,
            if the size is at least :data:`SMALLEST_WITH_BYTES`.
        silent: further pieces, which no text becomes and which become no text: those of affixes.

    Raises:
        VocabularyError: there is no text, the size is too small for the characters, or the coverage is out of range.
    """
    if not _SMALLEST_COVERAGE <= character_coverage <= 1:
        raise VocabularyError(
            f"the character coverage must be from {_SMALLEST_COVERAGE} to 1, got {character_coverage:g}."
        )
    kept, skipped = [], 0
    for line in lines:
        if len(line.encode()) > _LONGEST_TRAINING_LINE_BYTES:
            skipped += 1
        elif line.strip():
            kept.append(line.translate(_AS_SPACES))
    if not kept:
        raise VocabularyError("there is no text to train a vocabulary on: every line is blank or too long.")
    asked = size
    with_bytes = asked >= SMALLEST_WITH_BYTES if byte_fallback is None else byte_fallback
    while True:
        try:
            model = _train(kept, size, model_type, character_coverage, normalization, with_bytes, silent)
        except (RuntimeError, OSError) as error:
            match = _TOO_HIGH.search(str(error))
            if match is None or int(match[1]) >= size:
                raise _training_error(error, kept, size, with_bytes) from None
            size = int(match[1])
        else:
            return TrainedVocabulary(
                Vocabulary(model), len(kept), skipped, asked, byte_fallback is None and not with_bytes
            )


def _train(
    lines: list[str],
    size: int,
    model_type: str,
    coverage: float,
    normalization: str,
    byte_fallback: bool,
    silent: Sequence[str],
) -> bytes:
    out = io.BytesIO()
    # The trainer ignores text that looks like a special piece. Its characters are listed as required, so that they get
    # pieces.
    special = [piece for piece in (*SPECIAL_PIECES, *silent) if any(piece in line for line in lines)]
    SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=out,
        vocab_size=size,
        model_type=model_type,
        character_coverage=coverage,
        normalization_rule_name=normalization,
        pad_id=Vocabulary.PAD,
        unk_id=Vocabulary.UNK,
        bos_id=Vocabulary.BOS,
        eos_id=Vocabulary.EOS,
        max_sentence_length=_LONGEST_TRAINING_LINE_BYTES,
        required_chars="".join(sorted(set("".join(special)))),
        byte_fallback=byte_fallback,
        control_symbols=list(silent),
        minloglevel=_LOG_ERRORS_ONLY,
    )
    return out.getvalue()


def _training_error(error: Exception, lines: list[str], size: int, byte_fallback: bool) -> VocabularyError:
    text = str(error)
    if "insert_id" in text or "required_chars" in text or "smaller than" in text:
        what, rare = (
            ("every character of the text and 256 bytes", "be spelt in bytes")
            if byte_fallback
            else ("every character of the text", "become unk")
        )
        needed = _NEEDED.search(text)
        advice = f"Ask for a larger --size{f', of at least {needed[1]}' if needed else ''}"
        if len(SPECIAL_PIECES) + byte_fallback * _BYTES + _frequent_characters(lines, 0.9995) <= size:
            advice += f", or let rare characters {rare} with --character-coverage 0.9995"
        return VocabularyError(f"a vocabulary of {size:,} pieces cannot hold {what}. {advice}.")
    return VocabularyError(f"SentencePiece could not train the vocabulary: {text}")


def _frequent_characters(lines: list[str], coverage: float) -> int:
    """The number of most frequent characters that cover a share of the text."""
    counts = sorted(Counter(itertools.chain.from_iterable(lines)).values(), reverse=True)
    return 1 + sum(covered < coverage * sum(counts) for covered in itertools.accumulate(counts))


def without_reserved(lines: Iterable[str]) -> list[str]:
    """Lines with spaces in place of U+2581, which marks a space, and NUL, at which some versions end a string."""
    return [line.replace("\0", " ").replace("\u2581", " ") for line in lines]


def sample(lines: Iterator[str], count: int, limit: int) -> Iterator[str]:
    """At most ``limit`` of ``count`` lines, evenly spread."""
    step = max(1.0, count / limit)
    following = 0.0
    for index, line in enumerate(lines):
        if index >= following:
            following += step
            yield line


def default_size(pairs: int) -> int:
    """The default vocabulary size for a corpus with this number of pairs."""
    for enough, size in ((3_000_000, 37_000), (1_000_000, 32_000), (200_000, 16_000), (20_000, 8_000), (5_000, 4_000)):
        if pairs >= enough:
            return size
    return 2_000
