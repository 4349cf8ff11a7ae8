"""The comparisons of a certificate. Each is a function of our side, the other side and the probes.

A check that the other side cannot take part in (it scores no given targets, say) is None, and left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from nmt.convert.certificate.our_side import OurSide
from nmt.convert.certificate.probes import Probes
from nmt.convert.certificate.record import Check
from nmt.convert.certificate.side import Floats, Hypothesis, Language, Pieces, Side

LOG_PROBABILITY_LIMIT = 1e-4
"""The largest difference of the log-probability of a piece, in fp32."""
STATE_LIMIT = 1e-3
"""The largest difference of a number of the encoder's states, in fp32."""
TIE = 1e-3
"""Two pieces whose log-probabilities differ by less are a tie: rounding decides which one a search takes."""
BEAM = 4
_FIRST_LINES = 4
_SEARCHED_SOURCES = 8
_MAX_SEARCHED = 55
_MAX_OUTPUT = 40

Comparison = Callable[[OurSide, Side, Probes], Check | None]


def prepared_text(ours: OurSide, theirs: Side, probes: Probes) -> Check | None:
    """Compare what each line becomes before it is segmented: the steps of the bundle with those that were read."""
    differing = _differing(ours.prepared, theirs.prepared, probes)
    if differing is None:
        return None
    return _of_cases("text steps", theirs, differing, f"{2 * len(probes.lines)} lines are prepared alike")


def _differing(
    ours: Callable[[Sequence[str], Language], Sequence[Sequence[str]]],
    theirs: Callable[[Sequence[str], Language], Sequence[Sequence[str]] | None],
    probes: Probes,
) -> list[str] | None:
    """The lines of either language that become something else; None if the other side says nothing."""
    languages: tuple[Language, ...] = ("source", "target")
    differing = []
    for language in languages:
        expected = theirs(probes.lines, language)
        if expected is None:
            return None
        differing += [
            f"{language} {line!r}: {_first_difference(a, b)}"
            for line, a, b in zip(probes.lines, ours(probes.lines, language), expected, strict=True)
            if a != b
        ]
    return differing


def segmentation(ours: OurSide, theirs: Side, probes: Probes) -> Check | None:
    """Compare the pieces of each line, for source and target text."""
    differing = _differing(ours.segment, theirs.segment, probes)
    if differing is None:
        return None
    detail = f"{2 * len(probes.lines)} lines are segmented alike"
    return _of_cases("segmentation", theirs, differing, detail)


def decoded_text(ours: OurSide, theirs: Side, probes: Probes) -> Check | None:
    """Compare the text of random target pieces, and of the segmented lines. Outputs never hold unk."""
    lines = [row for row in ours.segment(probes.lines, "target") if "<unk>" not in row]
    pieces = [*probes.targets, *lines]
    expected = theirs.text(pieces)
    if expected is None:
        return None
    found = ours.text(pieces)
    differing = [f"{a!r}, expected {b!r}" for a, b in zip(found, expected, strict=True) if _as_line(a) != _as_line(b)]
    return _of_cases("text", theirs, differing, f"{len(pieces)} outputs have the same text")


def encoder_states(ours: OurSide, theirs: Side, probes: Probes) -> Check | None:
    """Compare the encoder's states of sources of every length."""
    expected = theirs.states(probes.sources)
    if expected is None:
        return None
    worst = _largest_difference(ours.states(probes.sources), expected)
    detail = f"encoder states of {_lengths(probes.sources)} differ by at most {worst:.2g}"
    return Check("encoder states", worst <= STATE_LIMIT, detail, theirs.name, worst, STATE_LIMIT)


def forced_scores(ours: OurSide, theirs: Side, probes: Probes) -> Check | None:
    """Compare the log-probability of every piece of given targets of every length."""
    expected = theirs.score(probes.sources, probes.targets)
    if expected is None:
        return None
    worst = _largest_difference(ours.score(probes.sources, probes.targets), expected)
    detail = f"log-probabilities of {_lengths(probes.targets)} differ by at most {worst:.2g}"
    return Check("forced scores", worst <= LOG_PROBABILITY_LIMIT, detail, theirs.name, worst, LOG_PROBABILITY_LIMIT)


def greedy_outputs(ours: OurSide, theirs: Side, probes: Probes) -> Check | None:
    """Compare greedy outputs, but for ties."""
    sources = _searched(ours, probes)[: theirs.max_searches]
    expected = theirs.search(sources, 1, _max_output(ours))
    if expected is None:
        return None
    found = ours.search(sources, 1, _max_output(ours))
    ties, differing = 0, []
    for source, [mine, *_], [other, *_] in zip(sources, found, expected, strict=True):
        if as_far_as(mine, other) == other.pieces:
            continue
        if _is_tie(ours, source, mine.pieces, other.pieces):
            ties += 1
        else:
            differing.append(_first_difference(mine.pieces, other.pieces))
    detail = f"greedy outputs of {len(sources)} sources are equal" + (f", but for {ties} ties" if ties else "")
    return _of_cases("greedy outputs", theirs, differing, detail)


def beam_scores(ours: OurSide, theirs: Side, probes: Probes) -> Check | None:
    """Compare the log-probabilities of hypotheses that one side finds and the other scores."""
    sources = _searched(ours, probes)[: theirs.max_searches]
    found = _pairs(sources, ours.search(sources, BEAM, _max_output(ours)))
    scored = theirs.score([source for source, _ in found], [one.pieces for _, one in found])
    if scored is None:
        hypotheses = theirs.search(sources, BEAM, _max_output(ours))
        if hypotheses is None:
            return None
        found = [(source, one) for source, one in _pairs(sources, hypotheses) if one.is_complete]
        scored = list(ours.score([source for source, _ in found], [one.pieces for _, one in found]))
    worst = _worst_per_piece([one for _, one in found], scored)
    detail = f"the scores of {len(found)} hypotheses (beam {BEAM}) differ by at most {worst:.2g} per piece"
    return Check("beam scores", worst <= LOG_PROBABILITY_LIMIT, detail, theirs.name, worst, LOG_PROBABILITY_LIMIT)


def cached_steps(ours: OurSide, probes: Probes) -> Check:
    """Compare our search, which keeps keys and values of earlier steps, with whole targets decoded at once."""
    sources = _searched(ours, probes)
    found = _pairs(sources, ours.search(sources, BEAM, _max_output(ours)))
    scored = ours.score([source for source, _ in found], [one.pieces for _, one in found])
    worst = _worst_per_piece([one for _, one in found], scored)
    detail = f"{len(found)} hypotheses have the same scores with and without cached steps (at most {worst:.2g} apart)"
    return Check("cached steps", worst <= LOG_PROBABILITY_LIMIT, detail, ours.name, worst, LOG_PROBABILITY_LIMIT)


COMPARISONS: tuple[Comparison, ...] = (
    segmentation,
    decoded_text,
    encoder_states,
    forced_scores,
    greedy_outputs,
    beam_scores,
)
"""All comparisons of two sides, in order."""


def compared(
    ours: OurSide, theirs: Side, probes: Probes, comparisons: Iterable[Comparison] = COMPARISONS
) -> list[Check]:
    """The checks of those comparisons that the other side can take part in."""
    found = (compare(ours, theirs, probes) for compare in comparisons)
    return [check for check in found if check is not None]


def _searched(ours: OurSide, probes: Probes) -> list[Pieces]:
    """The sources of searches: the lines that the model has positions for, and random pieces that are not too long.

    A side that searches few sources gets the first lines and a few random pieces.
    """
    longest = ours.bundle.config.model.max_positions - 1
    lines = [
        pieces
        for pieces in ours.segment(probes.lines, "source")
        if 0 < len(pieces) <= longest and "<unk>" not in pieces
    ]
    random = [source for source in probes.sources if len(source) <= _MAX_SEARCHED]
    return [*lines[:_FIRST_LINES], *random[:_SEARCHED_SOURCES], *lines[_FIRST_LINES:]]


def _as_line(text: str) -> str:
    """Text as it is written: a line end among its bytes is a space, and spaces around it do not count."""
    return text.replace("\n", " ").strip()


def as_far_as(mine: Hypothesis, other: Hypothesis) -> tuple[str, ...]:
    """The pieces of our output to compare with another one, which its side may have cut off earlier."""
    return mine.pieces if other.is_complete else mine.pieces[: len(other.pieces)]


def _max_output(ours: OurSide) -> int:
    """The maximum length of outputs, without eos."""
    return min(_MAX_OUTPUT, ours.bundle.config.model.max_positions - 1)


def _pairs(sources: Sequence[Pieces], hypotheses: Sequence[Sequence[Hypothesis]]) -> list[tuple[Pieces, Hypothesis]]:
    return [(source, one) for source, found in zip(sources, hypotheses, strict=True) for one in found]


def _worst_per_piece(found: Sequence[Hypothesis], scored: Sequence[Floats]) -> float:
    """The largest difference between the score of a hypothesis and its forced score, per piece."""
    return _largest(
        abs(float(score.sum()) - one.log_probability) / len(score) for one, score in zip(found, scored, strict=True)
    )


def _is_tie(ours: OurSide, source: Pieces, a: Pieces, b: Pieces) -> bool:
    """Whether our model finds the two pieces where outputs part about equally likely."""
    place = next((index for index, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    scores = ours.score([source, source], [a[: place + 1], b[: place + 1]])
    return abs(float(scores[0][place] - scores[1][place])) < TIE


def _largest_difference(found: Sequence[Floats], expected: Sequence[Floats]) -> float:
    return _largest(
        float(np.abs(a - b).max()) if a.shape == b.shape else float("inf") for a, b in zip(found, expected, strict=True)
    )


def _largest(differences: Iterable[float]) -> float:
    """The largest difference; infinite if any is not a number, which ``max`` may pass over."""
    all_of_them = list(differences)
    return float("inf") if any(map(math.isnan, all_of_them)) else max(all_of_them, default=0.0)


def _first_difference(found: Pieces | str, expected: Pieces | str) -> str:
    if isinstance(found, str):
        return f"becomes {found!r}, expected {expected!r}"
    place = next((i for i, (a, b) in enumerate(zip(found, expected, strict=False)) if a != b), None)
    if place is None:
        return f"{len(found)} pieces, expected {len(expected)}"
    return f"piece {place + 1} is {found[place]!r}, expected {expected[place]!r}"


def _lengths(sequences: Sequence[Pieces]) -> str:
    return f"{len(sequences)} sentences of {len(sequences[0])} to {len(sequences[-1])} pieces"


def _of_cases(name: str, theirs: Side, differing: Sequence[str], detail: str) -> Check:
    if differing:
        detail = f"{len(differing)} differ, the first at {differing[0]}"
    return Check(name, not differing, detail, theirs.name, float(len(differing)), 0.0)
