"""The checks of quantized models report what changes, and fail where a model is broken."""

import dataclasses

import pytest

from nmt.convert.certificate.checks import compared
from nmt.convert.certificate.our_side import OurSide
from nmt.convert.certificate.quantized import (
    QUANTIZED_COMPARISONS,
    quantized_outputs,
    quantized_remarks,
    quantized_scores,
)
from tests.convert.conftest import probes_of

TEXT = tuple(f"{line} no pa ru se ti" for line in ("ba do ki", "lu me", "no", "ti ba", "ki ki do", "me lu"))


class Changed:
    """Our side as the other one, with changes."""

    name, max_searches = "changed", 1_000

    def __init__(self, ours: OurSide, *, by: float = 0.0, lines: int = 0) -> None:
        self._ours, self._by, self._lines = ours, by, lines

    def segment(self, lines, language):
        return self._ours.segment(lines, language)

    def text(self, pieces):
        return self._ours.text(pieces)

    def score(self, sources, targets):
        return [score + self._by for score in self._ours.score(sources, targets)]

    def search(self, sources, beam, max_length):
        found = self._ours.search(sources, beam, max_length)
        return [
            [dataclasses.replace(best, pieces=(*best.pieces, "▁ba")) if place < self._lines else best]
            for place, [best] in enumerate(found)
        ]


@pytest.fixture
def ours(make_bundle) -> OurSide:
    return OurSide(make_bundle().folder)


def test_equal_models_pass_with_a_bleu_of_100(ours):
    checks = compared(ours, Changed(ours), probes_of(ours.bundle, TEXT), QUANTIZED_COMPARISONS)
    assert [check.name for check in checks] == ["segmentation", "text", "quantized scores", "quantized outputs"]
    assert all(check.passed for check in checks)
    assert checks[-1].detail.startswith("0 of 6 lines change (0.0%)")
    assert "reference 100.0" in checks[-1].detail


@pytest.mark.parametrize(("changed", "passes"), [(1, True), (3, True), (4, False), (6, False)])
def test_more_than_half_of_the_lines_must_not_change(changed, passes, ours):
    check = quantized_outputs(ours, Changed(ours, lines=changed), probes_of(ours.bundle, TEXT))
    assert check.passed is passes
    assert check.figure == changed / 6
    assert check.detail.startswith(f"{changed} of 6 lines change")
    assert "reference 100.0" not in check.detail


def test_outputs_are_compared_as_far_as_a_side_searches(ours):
    """The reference computation cuts outputs off early."""

    class Cut(Changed):
        def search(self, sources, beam, max_length):
            return [
                [dataclasses.replace(best, pieces=best.pieces[:6], is_complete=len(best.pieces) <= 6)]
                for [best] in super().search(sources, beam, max_length)
            ]

    check = quantized_outputs(ours, Cut(ours), probes_of(ours.bundle, TEXT))
    assert check.figure == 0
    assert "reference 100.0" in check.detail


@pytest.mark.parametrize(("changed", "warns"), [(1, False), (2, True)])
def test_a_warning_says_that_outputs_change(changed, warns, ours):
    checks = compared(ours, Changed(ours, lines=changed), probes_of(ours.bundle, TEXT), QUANTIZED_COMPARISONS)
    assert any(f"{changed} of 6 lines change" in remark for remark in quantized_remarks(checks)) is warns


def test_without_text_nothing_is_required_of_the_lines(ours):
    check = quantized_outputs(ours, Changed(ours, lines=1_000), probes_of(ours.bundle))
    assert check.passed
    assert check.figure == 1


@pytest.mark.parametrize(("by", "passes"), [(0.1, True), (1.5, False), (float("nan"), False)])
def test_scores_must_be_close_on_average(by, passes, ours):
    check = quantized_scores(ours, Changed(ours, by=by), probes_of(ours.bundle))
    assert check.passed is passes


def test_blank_and_too_long_lines_are_left_out(ours):
    check = quantized_outputs(ours, Changed(ours), probes_of(ours.bundle, ("", "ba " * 100, "lu me")))
    assert check.detail.startswith("0 of 1 lines")
    assert quantized_outputs(ours, Changed(ours), probes_of(ours.bundle, ("",))) is None
