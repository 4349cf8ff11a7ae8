"""Pairs of lines in, scores out: the log-probabilities of given translations, without a search."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from nmt.text import normalizer
from nmt.translation.engine import Engine
from nmt.translation.options import TranslateOptions, recorded
from nmt.translation.windows import windows


@dataclass(frozen=True)
class ScoredTarget:
    """The score of a line as the translation of another."""

    source: str
    target: str
    pieces: tuple[str, ...]
    """The pieces of the target."""
    piece_log_probabilities: tuple[float, ...]
    """The log-probability of each piece given the pieces before it, then that of eos. All are -inf if a side is longer
    than the models' positions."""
    log_probability: float
    """The sum of the log-probabilities, in nats."""
    score: float
    """The log-probability divided by the length penalty."""
    source_pieces: tuple[str, ...] | None = None
    """The source pieces to which the alignment refers; None if no alignment was requested."""
    alignment: tuple[int | None, ...] | None = None
    """For each piece, the index of the source piece with the most attention; None stands for the source's eos. The
    attribute itself is None if not requested, or if a side is too long."""

    def __repr__(self) -> str:
        return f"ScoredTarget({self.source!r} -> {self.target!r}, score={self.score:.3f})"


class TargetScorer:
    """Scores pairs of lines with one model, or several that share a vocabulary."""

    def __init__(
        self,
        engine: Engine,
        options: TranslateOptions,
        *,
        window: int = 2_048,
    ) -> None:
        """Prepare to score.

        Args:
            options: those that apply to scoring have an effect. ``batch_tokens`` are here padded pieces of the longer
                side that are scored at once.
            window: the number of pairs that are read before their scores are returned.
        """
        self._engine = engine
        self._options = options
        self.window = window
        data = engine.config.data
        self._normalize = normalizer(
            nfc=data.nfc, punctuation=data.punctuation, language=data.source_lang, rule=data.source_normalization
        )

    @property
    def settings(self) -> dict[str, object]:
        """The settings that scores depend on."""
        return recorded(self._options, scoring=True) | {
            "engine": self._engine.name,
            "precision": self._engine.precision,
        }

    def score_windows(self, pairs: Iterable[tuple[str, str]]) -> Iterator[list[ScoredTarget]]:
        """Score pairs of source and target, in order. Yields the scores of one window at a time."""
        return map(self._score_window, windows(pairs, self.window))

    def _score_window(self, pairs: list[tuple[str, str]]) -> list[ScoredTarget]:
        vocab, alignment = self._engine.vocab, self._options.alignment
        sources = vocab.encode([self._normalize(source) for source, _ in pairs])
        targets = vocab.target.encode([target for _, target in pairs])
        scores = self._engine.score(sources, targets, self._options, alignment=alignment)
        return [
            ScoredTarget(
                *pair,
                pieces=tuple(vocab.target.pieces(target)),
                piece_log_probabilities=score.piece_log_probabilities,
                log_probability=score.log_probability,
                score=score.score,
                source_pieces=tuple(vocab.pieces(source)) if alignment else None,
                alignment=score.aligned_pieces(len(source)),
            )
            for pair, source, target, score in zip(pairs, sources, targets, scores, strict=True)
        ]
