"""The other toolkit's model as one side of a comparison, computed independently of the toolkit and of us.

Its forward pass is in float64 with NumPy, from the toolkit's own tensors and ids. It shares no code with our model: it
is what the certificate compares with where the toolkit itself is not installed. No caches, no batches: each call
computes one pair of sentences.

Shapes: S source pieces, T target pieces, D d_model, H heads, K size of a head, V vocabulary, I pairs of features.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from nmt.convert.certificate.side import (
    SPACE,
    Floats,
    Hypothesis,
    Language,
    Pieces,
    Segmenter,
    Side,
    has_tags,
    log_softmax,
    split_tag,
)
from nmt.convert.foreign import (
    OUTPUT,
    OUTPUT_BIAS,
    POSITIONS,
    SOURCE_EMBEDDING,
    TARGET_EMBEDDING,
    ForeignModel,
    ForeignVocabulary,
)
from nmt.convert.vocabulary import piece_names
from nmt.data.byte_pair_codes import BytePairCodes, joined
from nmt.text.steps import Affix, Choice, Rewrite, affixes, normalizer, tokenizer

_ERROR_FUNCTION = np.vectorize(math.erf, otypes=[np.float64])
_ACTIVATIONS: dict[str, Callable[[Floats], Floats]] = {
    "relu": lambda x: np.maximum(x, 0),
    "swish": lambda x: x / (1 + np.exp(-x)),
    "quick_gelu": lambda x: x / (1 + np.exp(-1.702 * x)),
    "gelu": lambda x: x * (1 + _ERROR_FUNCTION(x / math.sqrt(2))) / 2,
}
_OTHER_SPACE = re.compile(r"[^\S ]")
"""White space that a piece may hold where spaces alone separate pieces."""
_MAX_OUTPUT = 20
"""Maximum pieces of a searched output: each step decodes the whole of it again."""
_UNKNOWN = "⁇"
"""How SentencePiece spells the unknown piece."""


class ReferenceSide(Side):
    """A foreign model in float64 with NumPy, segmented by its own SentencePiece models or codes as they are.

    The steps of its text that tokenise are those of the bundle.
    """

    max_searches = 6
    """Each step decodes the whole output again."""

    def __init__(self, model: ForeignModel, *, features_D: NDArray[np.int64] | None = None) -> None:
        """Prepare to compute.

        Args:
            features_D: for each of our features, its place in the model's states; None where the order is the same.
        """
        self.name = f"{model.toolkit}'s tensors in float64 with NumPy"
        self.software = {"numpy": np.__version__}
        self._features_D = slice(None) if features_D is None else features_D
        self._target, self._forward = model.target, _Forward(model)
        self._never = {model.target.unk, model.target.pad, model.start} - {model.target.eos}
        self._last: tuple[tuple[str, ...], Floats] | None = None
        self._vocabularies: dict[Language, ForeignVocabulary] = {"source": model.source, "target": model.target}
        self._names: dict[Language, dict[str, str]] = {}
        self._ids: dict[Language, dict[str, int]] = {}
        source, target = tokenizer(model.text.source), tokenizer(model.text.target)
        self._tokenizers: dict[Language, Rewrite] = {"source": source[0], "target": target[0]}
        self._join = target[1]
        self._normalizers: dict[Language, Rewrite] = {
            "source": normalizer(model.text.source),
            "target": normalizer(model.text.target),
        }
        self._languages: dict[Choice, str] = {"source": model.source_lang, "target": model.target_lang}
        self._affixes: dict[Language, list[Affix]] = {
            "source": affixes(model.text.without_tags.source),
            "target": affixes(model.text.target),
        }
        self._segmenters: dict[Language, Segmenter] = {}
        self._codes: dict[Language, BytePairCodes | None] = {}
        for language, vocabulary in self._vocabularies.items():
            names = self._names[language] = piece_names(vocabulary, model.start)
            self._ids[language] = {names[piece]: index for index, piece in enumerate(vocabulary.pieces)}
            listed = vocabulary.pieces if vocabulary.is_restricted else None
            self._codes[language] = None if vocabulary.codes is None else BytePairCodes(vocabulary.codes, pieces=listed)
            if vocabulary.segmenter is not None:
                self._segmenters[language] = Segmenter(vocabulary.segmenter, vocabulary.pieces)

    def prepared(self, lines: Sequence[str], language: Language) -> list[str]:
        """As :meth:`Side.prepared`."""
        return list(map(self._normalizers[language], lines))

    def segment(self, lines: Sequence[str], language: Language) -> list[list[str]]:
        """As :meth:`Side.segment`."""
        names, vocabulary = self._names[language], self._vocabularies[language]
        of_text = {piece: name for piece, name in names.items() if piece not in vocabulary.silent}
        tokenize, unknown = self._tokenizers[language], names[vocabulary.unk]
        before, behind = ([names[piece] for piece in self._affixed(language, place)] for place in ("before", "behind"))
        # A SentencePiece model is used as its users do: tags are split off there.
        is_tagged = language not in self._segmenters and has_tags(vocabulary.pieces)
        split = [split_tag(line) if is_tagged else ([], line) for line in lines]
        of_lines = ([*tag, *self._pieces(tokenize(rest), language)] for tag, rest in split)
        return [[*before, *(of_text.get(piece, unknown) for piece in pieces), *behind] for pieces in of_lines]

    def _affixed(self, language: Language, place: str) -> list[str]:
        """The pieces that stand before or behind those of every line."""
        chosen = [step.piece(self._languages) for step in self._affixes[language] if step.place == place]
        return list(filter(None, chosen))

    def _pieces(self, line: str, language: Language) -> list[str]:
        if (segmenter := self._segmenters.get(language)) is not None:
            return segmenter.pieces(line)
        if (codes := self._codes[language]) is not None:
            return [piece for word in line.split(" ") if word for piece in codes.split(word)]
        is_at_spaces = _OTHER_SPACE.search("".join(self._vocabularies[language].pieces)) is not None
        return [word for word in line.split(" " if is_at_spaces else None) if word]

    def text(self, pieces: Sequence[Pieces]) -> list[str]:
        """As :meth:`Side.text`."""
        silent = {self._names["target"][piece] for piece in self._target.silent}
        pieces = [[piece for piece in row if piece not in silent] for row in pieces] if silent else pieces
        if (segmenter := self._segmenters.get("target")) is not None:
            texts = [segmenter.text(row) for row in pieces]
        else:
            texts = [
                "".join(f" {_UNKNOWN} " if piece == "<unk>" else piece.replace(SPACE, " ") for piece in row)
                for row in pieces
            ]
        return [self._join(text if self._target.codes is None else joined(text)) for text in texts]

    def states(self, sources: Sequence[Pieces]) -> list[Floats]:
        """As :meth:`Side.states`."""
        return [self._encoded(tuple(source))[:, self._features_D] for source in sources]

    def score(self, sources: Sequence[Pieces], targets: Sequence[Pieces]) -> list[Floats]:
        """As :meth:`Side.score`."""
        scores = []
        for source, target in zip(sources, targets, strict=True):
            ids = [self._ids["target"][piece] for piece in target]
            table_TV = self._forward.decode(ids, self._encoded(tuple(source)))
            wanted_T = [*ids, self._target.pieces.index(self._target.eos)]
            scores.append(table_TV[np.arange(len(wanted_T)), wanted_T])
        return scores

    def search(self, sources: Sequence[Pieces], beam: int, max_length: int) -> list[list[Hypothesis]] | None:
        """As :meth:`Side.search`; greedy only, and cut off early."""
        limit = min(max_length, _MAX_OUTPUT)
        return [[self._greedy(source, limit)] for source in sources] if beam == 1 else None

    def _greedy(self, source: Pieces, max_length: int) -> Hypothesis:
        pieces, names = self._target.pieces, self._names["target"]
        never_V = np.array([piece in self._never for piece in pieces])
        memory_SD, written, total = self._encoded(tuple(source)), list[int](), 0.0
        is_complete = False
        while len(written) < max_length and not is_complete:
            next_V = np.where(never_V, -np.inf, self._forward.decode(written, memory_SD)[-1])
            best = int(next_V.argmax())
            total += float(next_V[best])
            is_complete = pieces[best] == self._target.eos
            written += [] if is_complete else [best]
        return Hypothesis(tuple(names[pieces[index]] for index in written), total, is_complete)

    def _encoded(self, source: tuple[str, ...]) -> Floats:
        """The encoder's states of a source; several hypotheses of it are scored one after the other."""
        if self._last is None or self._last[0] != source:
            self._last = source, self._forward.encode([self._ids["source"][piece] for piece in source])
        return self._last[1]


class _Forward:
    """The forward pass of one foreign model."""

    def __init__(self, model: ForeignModel) -> None:
        self._model, self._config = model, model.config

    def encode(self, ids: Sequence[int]) -> Floats:
        """The encoder's states (S, D) of a source, with eos if the model reads it."""
        source = self._model.source
        end = [source.pieces.index(source.eos)] if self._config.source_eos or not ids else []
        ids = [*ids, *end]
        x_SD = self._embed(SOURCE_EMBEDDING, ids) + self._positions(len(ids), POSITIONS[0])
        x_SD = self._norm(x_SD, "source_embedding_norm") if self._config.embedding_norm else x_SD
        for layer in range(self._config.encoder_layers):
            x_SD = self._attend(x_SD, None, f"encoder.{layer}.self_attention", is_causal=False)
            x_SD = self._feed_forward(x_SD, f"encoder.{layer}.feed_forward")
        return self._norm(x_SD, "encoder_norm") if self._is_pre else x_SD

    def decode(self, ids: Sequence[int], memory_SD: Floats) -> Floats:
        """The log-probabilities (T + 1, V) of each next piece, after the start and after each piece of a target."""
        start = None if self._config.decoder_start == "zero" else self._model.start
        read = [None if start is None else self._model.target.pieces.index(start), *ids]
        x_TD = self._embed(TARGET_EMBEDDING, read) + self._positions(len(read), POSITIONS[1])
        x_TD = self._norm(x_TD, "target_embedding_norm") if self._config.embedding_norm else x_TD
        for layer in range(self._config.decoder_layers):
            x_TD = self._attend(x_TD, None, f"decoder.{layer}.self_attention", is_causal=True)
            x_TD = self._attend(x_TD, memory_SD, f"decoder.{layer}.cross_attention", is_causal=False)
            x_TD = self._feed_forward(x_TD, f"decoder.{layer}.feed_forward")
        if self._is_pre:
            x_TD = self._norm(x_TD, "decoder_norm")
        logits_TV = x_TD @ self._output.T
        if (bias_V := self._parameter(OUTPUT_BIAS)) is not None:
            logits_TV = logits_TV + bias_V
        return log_softmax(logits_TV)

    @property
    def _is_pre(self) -> bool:
        return self._config.norm == "pre"

    @functools.cached_property
    def _output(self) -> Floats:
        return self._present(OUTPUT)

    def _parameter(self, name: str) -> Floats | None:
        array = self._model.parameter(name)
        return None if array is None else array.astype(np.float64)

    def _present(self, name: str) -> Floats:
        array = self._parameter(name)
        assert array is not None, name
        return array

    def _embed(self, matrix: str, ids: Sequence[int | None]) -> Floats:
        """The vectors of pieces (T, D), multiplied by sqrt(d_model); zeros for None."""
        rows_VD = self._model.parameter(matrix)
        assert rows_VD is not None
        known_T = np.array([index is not None for index in ids])
        vectors_TD = rows_VD[[index or 0 for index in ids]].astype(np.float64)
        found: Floats = vectors_TD * known_T[:, None] * math.sqrt(self._config.d_model)
        return found

    def _positions(self, length: int, table: str) -> Floats:
        width, kind = self._config.d_model, self._config.positions
        if kind == "learned":
            return self._present(table)[:length]
        pair_I = np.arange(width // 2)
        exponent_I = pair_I / (width / 2 - 1) if kind == "tensor2tensor" else 2 * pair_I / width
        angle_TI = (np.arange(length) + self._config.first_position)[:, None] / 10_000**exponent_I
        table_TD = np.empty((length, width))
        if kind == "sinusoidal":
            table_TD[:, ::2], table_TD[:, 1::2] = np.sin(angle_TI), np.cos(angle_TI)
        else:
            table_TD[:, : width // 2], table_TD[:, width // 2 :] = np.sin(angle_TI), np.cos(angle_TI)
        return table_TD

    def _attend(self, x_TD: Floats, memory_SD: Floats | None, module: str, *, is_causal: bool) -> Floats:
        """A sub-layer of attention to a memory, or to the sub-layer's own input."""
        normed_TD = self._norm(x_TD, f"{module}_norm") if self._is_pre else x_TD
        keys_SD = normed_TD if memory_SD is None else memory_SD
        query, key, value = (
            self._linear(rows, f"{module}.{name}").reshape(len(rows), self._config.heads, -1).transpose(1, 0, 2)
            for name, rows in (("query", normed_TD), ("key", keys_SD), ("value", keys_SD))
        )
        scores_HTS = query @ key.transpose(0, 2, 1) / math.sqrt(query.shape[-1])
        if is_causal:
            scores_HTS = np.where(np.tri(len(x_TD), dtype=bool), scores_HTS, -np.inf)
        weights_HTS = np.exp(scores_HTS - scores_HTS.max(axis=-1, keepdims=True))
        weights_HTS /= weights_HTS.sum(axis=-1, keepdims=True)
        mixed_TD = (weights_HTS @ value).transpose(1, 0, 2).reshape(len(x_TD), -1)
        sum_TD = x_TD + self._linear(mixed_TD, f"{module}.output")
        return sum_TD if self._is_pre else self._norm(sum_TD, f"{module}_norm")

    def _feed_forward(self, x_TD: Floats, module: str) -> Floats:
        normed_TD = self._norm(x_TD, f"{module}_norm") if self._is_pre else x_TD
        hidden_TF = _ACTIVATIONS[self._config.activation](self._linear(normed_TD, f"{module}.inner"))
        sum_TD = x_TD + self._linear(hidden_TF, f"{module}.output")
        return sum_TD if self._is_pre else self._norm(sum_TD, f"{module}_norm")

    def _linear(self, x: Floats, module: str) -> Floats:
        product: Floats = x @ self._present(f"{module}.weight").T
        bias = self._parameter(f"{module}.bias")
        return product if bias is None else product + bias

    def _norm(self, x: Floats, module: str) -> Floats:
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = (centred**2).mean(axis=-1, keepdims=True)
        normed: Floats = centred / np.sqrt(variance + self._config.norm_epsilon)
        scaled: Floats = normed * self._present(f"{module}.weight") + self._present(f"{module}.bias")
        return scaled
