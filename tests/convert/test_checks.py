"""Each comparison of a certificate passes for two sides that agree, and fails where they differ in one thing."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest

from nmt.convert.certificate import checks
from nmt.convert.certificate.checks import BEAM, TIE
from nmt.convert.certificate.probes import LINES, Probes, make_probes
from nmt.convert.certificate.side import Hypothesis
from nmt.data.vocab_pair import VocabularyPair

PIECES = ("▁a", "▁b", "▁c")
PROBES = Probes(
    lines=("a b", "c"),
    sources=(("▁a",), ("▁b", "▁c"), ("▁c", "▁b", "▁a")),
    targets=(("▁b",), ("▁c", "▁a"), ("▁a", "▁b", "▁c")),
)


@dataclass(frozen=True)
class Double:
    """A side that segments at spaces, writes each source again, and gives every piece the same log-probability."""

    name: str = "a double"
    max_searches: int = 100
    segments: dict = field(default_factory=dict)
    """Line -> pieces, where they are others."""
    texts: dict = field(default_factory=dict)
    """Pieces -> text, where it is another."""
    outputs: dict = field(default_factory=dict)
    """Source -> greedy output, where it is another."""
    scores: dict = field(default_factory=dict)
    """Target -> log-probabilities, where they are others."""
    encoded: dict = field(default_factory=dict)
    """Source -> states, where they are others."""
    searched: dict = field(default_factory=dict)
    """Source -> what is added to the scores that a search tells."""
    scores_targets: bool = True
    max_positions: int = 24

    @property
    def bundle(self):
        return SimpleNamespace(config=SimpleNamespace(model=SimpleNamespace(max_positions=self.max_positions)))

    def prepared(self, lines, language):
        return list(lines)

    def segment(self, lines, language):
        return [list(self.segments.get(line, [f"▁{word}" for word in line.split()])) for line in lines]

    def text(self, pieces):
        return [self.texts.get(tuple(row), "".join(row).replace("▁", " ").strip()) for row in pieces]

    def states(self, sources):
        return [self.encoded.get(source, np.ones((len(source) + 1, 2))) for source in sources]

    def score(self, sources, targets):
        if not self.scores_targets:
            return None
        return [self.scores.get(tuple(target), np.full(len(target) + 1, -0.5)) for target in targets]

    def search(self, sources, beam, max_length):
        return [[self._found(tuple(source))] * beam for source in sources]

    def _found(self, source):
        output = self.outputs.get(source, Hypothesis(source, -0.5 * (len(source) + 1)))
        added = self.searched.get(source, 0.0)
        return dataclasses.replace(output, log_probability=output.log_probability + added)


ALL = (*checks.COMPARISONS, lambda ours, theirs, probes: checks.cached_steps(ours, probes))
CHANGED = np.array([-0.5, -0.5 - 2e-4])
"""Scores of a target of one piece, of which that of eos differs by twice the limit."""
NOT_A_NUMBER = np.array([-0.5, math.nan, -0.5])
"""Of the second target: the first sentence has good ones."""
DIFFERING = {
    "segmentation": [{"segments": {"c": ["▁", "c"]}}],
    "text": [{"texts": {PROBES.targets[1]: "c, a"}}, {"texts": {("▁c",): "C"}}],
    "encoder states": [
        {"encoded": {PROBES.sources[0]: np.full((2, 2), 1.002)}},
        {"encoded": {PROBES.sources[1]: np.array([[1, 1], [1, math.nan], [1, 1]])}},
        {"encoded": {PROBES.sources[1]: np.ones((2, 2))}},
    ],
    "forced scores": [
        {"scores": {PROBES.targets[0]: CHANGED}},
        {"scores": {PROBES.targets[1]: NOT_A_NUMBER}},
    ],
    "greedy outputs": [
        {"outputs": {PROBES.sources[1]: Hypothesis(("▁b", "▁a"), -1.5)}},
        {"outputs": {PROBES.sources[1]: Hypothesis(("▁b",), -1.0)}},
        {"outputs": {PROBES.sources[1]: Hypothesis(("▁a",), -1.0, is_complete=False)}},
    ],
    "beam scores": [
        {"scores": {PROBES.sources[0]: np.array([-0.5, -0.5 - 4e-4])}},
        {"scores": {PROBES.sources[1]: NOT_A_NUMBER}},
        {"scores_targets": False, "searched": {PROBES.sources[1]: 4e-4}},
        {"scores_targets": False, "searched": {PROBES.sources[1]: math.nan}},
    ],
}
"""Check -> in what the other side differs."""
SURE = Double(
    scores={("▁b", "▁a"): np.array([-0.5, -3, -0.5]), ("▁b",): np.array([-0.5, -3]), ("▁a",): np.array([-3, -0.5])}
)
"""Prefers its own piece or end clearly where the outputs part."""


@pytest.mark.parametrize("comparison", ALL)
def test_equal_sides_pass(comparison):
    assert comparison(Double(), Double(), PROBES).passed


@pytest.mark.parametrize(("name", "difference"), [(name, one) for name, ones in DIFFERING.items() for one in ones])
def test_one_difference_fails_its_check(name, difference):
    ours = SURE if name == "greedy outputs" else Double()
    found = {
        check.name: check for compare in checks.COMPARISONS if (check := compare(ours, Double(**difference), PROBES))
    }
    assert not found[name].passed
    assert found[name].figure > (found[name].limit or 0)


@pytest.mark.parametrize("added", [4e-4, -4e-4, math.nan])
def test_cached_steps_that_differ_fail(added):
    """Of the second source: the first one has good scores."""
    check = checks.cached_steps(Double(searched={PROBES.sources[1]: added}), PROBES)
    assert (check.name, check.passed) == ("cached steps", False)


@pytest.mark.parametrize(
    ("apart", "is_tie"), [(0.5 * TIE, True), (-0.5 * TIE, True), (2 * TIE, False), (math.nan, False)]
)
def test_outputs_that_part_at_a_tie_are_counted_and_pass(apart, is_tie):
    source, other = PROBES.sources[1], ("▁b", "▁a")
    ours = Double(scores={other: np.array([-0.5, -0.5 - apart, -0.5])})
    check = checks.greedy_outputs(ours, Double(outputs={source: Hypothesis(other, -1.5)}), PROBES)
    assert check.passed == is_tie
    assert check.figure == (0 if is_tie else 1)
    assert is_tie == ("but for 1 ties" in check.detail)


def test_an_output_that_one_side_cuts_off_is_compared_as_far_as_it_goes():
    cut = Double(outputs={PROBES.sources[2]: Hypothesis(("▁c", "▁b"), -1.0, is_complete=False)})
    check = checks.greedy_outputs(Double(), cut, PROBES)
    assert check.passed
    assert "ties" not in check.detail


def test_hypotheses_that_were_cut_off_have_no_scores_to_compare():
    cut = Hypothesis(PROBES.sources[2], 7.0, is_complete=False)
    check = checks.beam_scores(Double(), Double(scores_targets=False, outputs={PROBES.sources[2]: cut}), PROBES)
    assert check.passed
    assert f"{(len(PROBES.lines) + len(PROBES.sources) - 1) * BEAM} hypotheses" in check.detail


def test_lines_of_the_user_are_searched_by_a_side_that_searches_few(vocab):
    mine = tuple(f"ba do {number}" for number in range(9))
    probes = make_probes(VocabularyPair.shared(vocab), 12, mine)
    assert probes.lines == (*mine, *LINES)
    seen = []

    class Recording(Double):
        def search(self, sources, beam, max_length):
            seen.extend(map(tuple, sources))
            return super().search(sources, beam, max_length)

    checks.greedy_outputs(Double(), Recording(max_searches=6), probes)
    lines = [tuple(f"▁{word}" for word in line.split()) for line in mine]
    assert seen == [*lines[:4], *probes.sources[:2]]
