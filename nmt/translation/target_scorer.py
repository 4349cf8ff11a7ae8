"""Pairs of lines in, scores out: how likely models find given translations, without a search."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Unpack

from nmt.device import Hardware
from nmt.search.given_targets import alignment_layer, score_targets
from nmt.search.settings import SearchSettings
from nmt.text import normalizer
from nmt.translation.ensemble import Ensemble
from nmt.translation.line_settings import LineOptions, line_settings, recorded
from nmt.translation.windows import windows


@dataclass(frozen=True)
class ScoredTarget:
    """How likely a line is as the translation of another."""

    source: str
    target: str
    pieces: tuple[str, ...]
    """Of the target."""
    piece_log_probabilities: tuple[float, ...]
    """Of each piece given those before it, and of the end; -inf throughout if a side is longer than the models have
    positions for."""
    log_probability: float
    """Their sum, in nats."""
    score: float
    """The log-probability over the length penalty."""
    source_pieces: tuple[str, ...] | None = None
    """What the alignment counts; None where it was not asked for."""
    alignment: tuple[int | None, ...] | None = None
    """For each piece the index of the source piece that it looks at most, None for the end of the source; None where
    it was not asked for, or a side is too long."""

    def __repr__(self) -> str:
        return f"ScoredTarget({self.source!r} -> {self.target!r}, score={self.score:.3f})"


class TargetScorer:
    """Scores pairs of lines with one model, or several that share a vocabulary."""

    def __init__(
        self,
        ensemble: Ensemble,
        search: SearchSettings,
        hardware: Hardware,
        *,
        window: int = 2_048,
        **options: Unpack[LineOptions],
    ) -> None:
        """Prepare to score.

        Args:
            ensemble: on the hardware's device.
            search: the settings of the length penalty; the others have no effect.
            window: pairs that are read before their scores are returned.
            options: ``batch_tokens``, here padded pieces of the longer side that are scored at once, and ``alignment``.

        Raises:
            ConfigError: an option is out of its range.
        """
        settings = line_settings(**options)
        self._ensemble = ensemble
        self._search_settings = search
        self._hardware = hardware
        self._batch_tokens = settings.batch_tokens
        self.window = window
        self._alignment = settings.alignment
        self._recorded = recorded(search, settings, scoring=True)
        data = ensemble.config.data
        self._normalize = normalizer(
            nfc=data.nfc, punctuation=data.punctuation, language=data.source_lang, rule=data.source_normalization
        )

    @property
    def settings(self) -> dict[str, object]:
        """What a score depends on, apart from models and lines."""
        return self._recorded | {"precision": self._hardware.precision}

    def score_windows(self, pairs: Iterable[tuple[str, str]]) -> Iterator[list[ScoredTarget]]:
        """Score pairs of source and target, in their order; a window is returned as a whole."""
        return map(self._score_window, windows(pairs, self.window))

    def _score_window(self, pairs: list[tuple[str, str]]) -> list[ScoredTarget]:
        models, vocab = self._ensemble.models, self._ensemble.vocab
        sources = vocab.encode([self._normalize(source) for source, _ in pairs])
        targets = vocab.encode([target for _, target in pairs])
        scores = score_targets(
            models,
            sources,
            targets,
            self._hardware,
            alpha=self._search_settings.length_penalty,
            normalization=self._search_settings.normalization,
            allow_unk=True,
            batch_tokens=self._batch_tokens,
            alignment_layer=alignment_layer(models) if self._alignment else None,
        )
        return [
            ScoredTarget(
                *pair,
                pieces=tuple(vocab.pieces(target)),
                piece_log_probabilities=score.piece_log_probabilities,
                log_probability=score.log_probability,
                score=score.score,
                source_pieces=tuple(vocab.pieces(source)) if self._alignment else None,
                alignment=score.aligned_pieces(len(source)),
            )
            for pair, source, target, score in zip(pairs, sources, targets, scores, strict=True)
        ]
