"""Learned metrics: COMET and BLEURT, each computed by a package and a model that the user installs.

Nothing is downloaded. Both give each segment a score; the score of a text is their mean. So sacreBLEU's tests of
significance apply to them as to its own metrics.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, assert_never

from nmt.errors import DataError, NmtError
from nmt.hashing import sha256_of

LearnedName = Literal["comet", "bleurt"]
LEARNED: tuple[LearnedName, ...] = ("comet", "bleurt")
SCALE = 100
"""Scores are printed times 100, as most papers do: two decimals of a score around 0.8 would say little."""
INSTALL = (
    "Run `pip install {}` in an environment of its own that also has nmt: it needs older versions of other packages "
    "(docs/scoring.md)."
)


class SegmentScorer(Protocol):
    """A model that gives a score to each segment."""

    name: str
    """``COMET`` or ``BLEURT``."""
    package: str
    """The package that computes the score, and its version: ``unbabel-comet-2.2.7``."""
    model: Path
    """The folder of the model."""
    weights: Path
    """The file whose checksum tells models apart."""

    def segment_scores(self, hypotheses: Sequence[str], reference: Sequence[str]) -> list[float]:
        """One score per segment, as the package gives it."""


def learned_metrics(
    names: Iterable[str],
    *,
    comet_model: Path | None = None,
    bleurt_model: Path | None = None,
    source: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Load the models of the learned metrics among these names.

    Args:
        comet_model, bleurt_model: the models, on disk.
        source: source lines, which COMET needs.

    Returns:
        By name, objects with the interface of sacreBLEU's metrics.

    Raises:
        NmtError: a package or a model is missing, or cannot be loaded.
    """
    return {name: _learned_metric(name, comet_model, bleurt_model, source) for name in LEARNED if name in set(names)}


def _learned_metric(
    name: LearnedName, comet_model: Path | None, bleurt_model: Path | None, source: Sequence[str] | None
) -> Any:
    from nmt.evaluation.segment_mean import SegmentMean

    scorer: SegmentScorer
    match name:
        case "comet":
            from nmt.evaluation.comet import Comet

            scorer = Comet(comet_model, source)
        case "bleurt":
            from nmt.evaluation.bleurt import Bleurt

            scorer = Bleurt(bleurt_model)
        case _:
            assert_never(name)
    checked = CheckedScores(scorer)
    signature = {
        "nrefs": 1,
        "model": model_name(scorer.model),
        "sha256": checked.sha256[:12],
        "scale": SCALE,
        "version": scorer.package,
    }
    return SegmentMean(scorer.name, signature, checked)


def check_one_reference(name: str, references: int) -> None:
    """Check the number of references of a learned metric, before its model is loaded.

    Args:
        name: of the metric, such as ``COMET``.

    Raises:
        DataError: there is more than one.
    """
    if references != 1:
        raise DataError(f"{name} compares with one reference, but {references} are given. Give one.")


def model_records(learned: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """The models of learned metrics, for the record of a score: by metric, ``path`` and ``sha256`` of the weights."""
    checked = {name: metric.segment_scores for name, metric in learned.items()}
    return {name: {"path": str(each.weights), "sha256": each.sha256} for name, each in checked.items()}


def model_name(folder: Path) -> str:
    """The name of a model by its folder, which may be a snapshot in the cache of Hugging Face."""
    folder = folder.absolute()
    if folder.parent.name == "snapshots":
        return folder.parent.parent.name.rpartition("--")[2]
    return folder.name


class CheckedScores:
    """The scores of a scorer times :data:`SCALE`, checked. Those of the same texts are computed once."""

    def __init__(self, scorer: SegmentScorer) -> None:
        self.weights = scorer.weights.absolute()
        """The file of the model's weights."""
        self.sha256 = sha256_of(scorer.weights)
        """Of that file, in hexadecimal."""
        self._scorer = scorer
        self._known: dict[tuple[tuple[str, ...], tuple[str, ...]], list[float]] = {}

    def __call__(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> list[float]:
        """One score per segment.

        Raises:
            DataError: there is more than one reference.
            NmtError: the model gave another number of scores, or one that is not finite.
        """
        check_one_reference(self._scorer.name, len(references))
        key = tuple(hypotheses), tuple(references[0])
        if key not in self._known:
            values = [float(value) for value in self._scorer.segment_scores(hypotheses, references[0])]
            if len(values) != len(hypotheses) or not all(map(math.isfinite, values)):
                raise NmtError(
                    f"{self._scorer.model}: {self._scorer.name} gave {len(values):,} scores for {len(hypotheses):,} "
                    "segments, or scores that are not finite. The model may be damaged: fetch it again."
                )
            self._known[key] = [SCALE * value for value in values]
        return self._known[key]


def refused_without_model(name: str, option: str, fetch: str) -> NmtError:
    """The error if no model is given."""
    return NmtError(f"--metric {name} needs a model on this machine: {option} PATH. {fetch}")


def metric_of(learned: Mapping[str, Any] | None, name: LearnedName) -> Any:
    """The metric among those that were loaded.

    Raises:
        NmtError: it is not among them.
    """
    if learned is None or name not in learned:
        raise NmtError(f"{name} needs its model: load it with nmt.evaluation.learned_metrics.")
    return learned[name]
