"""Pairs of lines in, scores out: the log-probabilities of given translations, without a search."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from nmt.text.steps import normalizer
from nmt.translation.directions import choices
from nmt.translation.engine import Engine
from nmt.translation.options import TranslateOptions, recorded
from nmt.translation.results import TranslatedText
from nmt.translation.windows import windows


@dataclass(frozen=True)
class ScoredTarget(TranslatedText):
    """A given text, scored as the translation of a line. If a side is longer than the models' positions, its
    log-probabilities are -inf and it has no alignment."""

    source: str = ""
    source_pieces: tuple[str, ...] | None = None
    """The source pieces to which the alignment refers; None if no alignment was requested."""

    def __repr__(self) -> str:
        return f"ScoredTarget({self.source!r} -> {self.text!r}, score={self.score:.3f})"


class TargetScorer:
    """Scores pairs of lines with one model, or several that share a vocabulary."""

    def __init__(
        self,
        engine: Engine,
        options: TranslateOptions,
        *,
        window: int | None = None,
    ) -> None:
        """Prepare to score.

        Args:
            options: those that apply to scoring have an effect. ``batch_tokens`` are here padded pieces of the longer
                side that are scored at once.
            window: the number of pairs that are read before their scores are returned; by default 2,048.
        """
        data = engine.config.data
        chosen = choices(data, options)
        self._engine = engine
        self._vocab = engine.vocab.prepared(data.steps, chosen)
        self._options = options
        self.window = window or 2_048
        self._normalize, self._normalize_target = normalizer(data.source_text), normalizer(data.target_text)

    @property
    def settings(self) -> dict[str, object]:
        """The settings that scores depend on."""
        return recorded(self._options, scoring=True) | {
            "engine": self._engine.name,
            "precision": self._engine.precision,
        }

    def score_windows(self, pairs: Iterable[tuple[str, str]]) -> Iterator[list[ScoredTarget]]:
        """Score pairs of source and target, in order. Yields the scores of one window at a time."""
        return map(self._score_window, windows(pairs, self.window, lambda pair: sum(map(len, pair))))

    def _score_window(self, pairs: list[tuple[str, str]]) -> list[ScoredTarget]:
        vocab, alignment = self._vocab, self._options.alignment
        sources = vocab.source.encode([self._normalize(source) for source, _ in pairs])
        targets = vocab.target.encode([self._normalize_target(target) for _, target in pairs])
        scores = self._engine.score(sources, targets, self._options, alignment=alignment)
        return [
            ScoredTarget(
                text=text,
                pieces=tuple(vocab.target.pieces(hypothesis.pieces)),
                log_probability=hypothesis.log_probability,
                score=hypothesis.score,
                piece_log_probabilities=hypothesis.piece_log_probabilities,
                alignment=hypothesis.alignment,
                source=line,
                source_pieces=tuple(vocab.source.pieces(source)) if alignment else None,
            )
            for (line, text), source, hypothesis in zip(pairs, sources, scores, strict=True)
        ]
