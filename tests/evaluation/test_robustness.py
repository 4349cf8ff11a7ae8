"""What variants of a test set cost: nothing where a model copes, all where it does not, and never the change itself."""

import pytest

from nmt.evaluation.robustness import robustness_sheet

SOURCES = [
    f"the {word} sees {number} small dogs and more ." for number, word in enumerate(["man", "child", "cat", "dog"] * 6)
]
TARGETS = [line.translate(str.maketrans("aeiou", "eioua")) for line in SOURCES]
TABLE = str.maketrans("aeiouAEIOU", "eiouaEIOUA")


def shares(translate) -> dict[str, float]:
    sheet = robustness_sheet(
        lambda name, lines: [(translate(line), ()) for line in lines], SOURCES, TARGETS, ("en", "de")
    )
    assert sheet.scores[0].variant == "as it is"
    return {each.variant: each.share for each in sheet.scores}


def test_a_model_that_copes_loses_nothing():
    found = shares(lambda line: line.translate(TABLE))
    assert found.pop("typing errors") > 0.6  # the errors stay in its output
    assert len(found) == 8
    assert found.items() >= dict.fromkeys(found.keys() - {"a URL"}, pytest.approx(1)).items()


@pytest.mark.parametrize(
    ("variant", "translate"),
    [
        ("in capitals", lambda line: "x" if line.isupper() else line.translate(TABLE)),
        ("a number", lambda line: line.replace("(4711)", "").translate(TABLE)),
        ("an emoji", lambda line: "x" if "😀" in line else line.translate(TABLE)),
        ("a URL", lambda line: line.replace("https://example.org/a?b=1", "a site").translate(TABLE)),
        ("5 lines in one", lambda line: line[:50].translate(TABLE)),
        ("no full stop", lambda line: line.translate(TABLE) if line[-1] in ".)1😀" or line.isupper() else line),
    ],
)
def test_what_a_model_does_not_cope_with_costs(variant, translate):
    found = shares(translate)
    assert found[variant] < 0.9
    assert found["as it is"] == 1
    assert sum(share > 0.95 for name, share in found.items() if name not in ("typing errors", "a URL", variant)) >= 6


def test_problems_are_counted():
    def translate(name, lines):
        return [("x", ["number", "url"] if "4711" in line else ["number"]) for line in lines]

    sheet = robustness_sheet(translate, SOURCES[:5], TARGETS[:5], ("en", "de"), "chrf")
    assert sheet.metric == "chrF2"
    assert {each.variant: each.problems for each in sheet.scores}["a number"] == {"number": 5, "url": 5}
    assert sheet.scores[-1].lines == 1
    assert sheet.scores[-1].problems == {"number": 1}


def test_a_model_that_translates_nothing_keeps_nothing():
    sheet = robustness_sheet(lambda name, lines: [("", ()) for _ in lines], SOURCES, TARGETS, ("en", "de"))
    assert [each.value for each in sheet.scores] == [0] * 9
    assert [each.share for each in sheet.scores[1:]] == [0] * 8
