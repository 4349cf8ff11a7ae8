"""The checks of a model whose weights are stored in fewer bits: it differs from ours, so they report how much.

They fail only where the model is broken. Rounding changes a few outputs; a wrong order of pieces changes most of them.
That the stored weights are ours up to their rounding is a check of the exported files.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nmt.convert.certificate.checks import Comparison, as_far_as, decoded_text, segmentation
from nmt.convert.certificate.our_side import OurSide
from nmt.convert.certificate.probes import Probes
from nmt.convert.certificate.record import Check
from nmt.convert.certificate.side import Pieces, Side
from nmt.evaluation.metrics import make_metric, score

CHANGED_LIMIT = 0.5
"""The largest share of changed lines."""
MEAN_DIFFERENCE_LIMIT = 1.0
"""The largest mean difference of the log-probability of a piece."""
REMARKABLE_SHARE = 0.2
"""Where more lines change, users are told to score a test set first."""
OUTPUTS = "quantized outputs"
_MAX_EXTRA = 50


def quantized_scores(ours: OurSide, theirs: Side, probes: Probes) -> Check | None:
    """Compare the log-probability of every piece of given targets."""
    expected = theirs.score(probes.sources, probes.targets)
    if expected is None:
        return None
    found = ours.score(probes.sources, probes.targets)
    differences = np.abs(np.concatenate(found) - np.concatenate(expected))
    mean = float("inf") if np.isnan(differences).any() else float(differences.mean())
    detail = f"log-probabilities of {len(differences):,} pieces differ by {mean:.2g} on average"
    return Check("quantized scores", mean <= MEAN_DIFFERENCE_LIMIT, detail, theirs.name, mean, MEAN_DIFFERENCE_LIMIT)


def quantized_outputs(ours: OurSide, theirs: Side, probes: Probes) -> Check | None:
    """Report the share of lines whose greedy translation changes, and the BLEU of theirs with ours as the reference.

    Without text of the user, the share has no limit: the lines of the probes are like no text that the model was
    trained on.
    """
    longest = ours.bundle.config.model.max_positions - 1
    segmented = ours.segment(probes.given or probes.lines, "source")
    sources = [pieces for pieces in segmented if 0 < len(pieces) <= longest][: theirs.max_searches]
    if not sources:
        return None
    length = min(max(map(len, sources)) + _MAX_EXTRA, longest)
    expected = theirs.search(sources, 1, length)
    if expected is None:
        return None
    pairs = [(mine, other) for [mine], [other, *_] in zip(ours.search(sources, 1, length), expected, strict=True)]
    found = [_spaced(as_far_as(mine, other)) for mine, other in pairs]
    quantized = [_spaced(other.pieces) for _, other in pairs]
    changed = sum(a != b for a, b in zip(found, quantized, strict=True))
    share = changed / len(sources)
    bleu = score(make_metric("bleu", tokenize="none"), quantized, [found]).value
    detail = (
        f"{changed:,} of {len(sources):,} lines change ({share:.1%}); BLEU of the quantized model with ours as the "
        f"reference {bleu:.1f}, over pieces"
    )
    limit = CHANGED_LIMIT if probes.given else 1.0
    return Check(OUTPUTS, share <= limit, detail, theirs.name, share, limit)


QUANTIZED_COMPARISONS: tuple[Comparison, ...] = (segmentation, decoded_text, quantized_scores, quantized_outputs)
"""All comparisons of a quantized model, in order."""


def quantized_remarks(checks: Sequence[Check]) -> list[str]:
    """A warning where the outputs of a quantized model change more than a little."""
    return [
        f"The stored weights change outputs: {check.detail}. Score translations of a test set with both models first."
        for check in checks
        if check.name == OUTPUTS and check.figure is not None and check.figure > REMARKABLE_SHARE
    ][:1]


def _spaced(pieces: Pieces) -> str:
    return " ".join(pieces)
