"""Doubts about swapped, shifted and wrong text, and none about correct text."""

import importlib.util
import itertools

import pytest

from nmt.corpora.recipe import own_recipe, parse_recipe
from nmt.corpora.sample_check import PairSample, doubts_about_names
from nmt.corpora.toy import generate


@pytest.fixture(scope="module")
def pairs():
    return generate(1, train=3_000).train


def doubts(pairs, source_lang="en", target_lang="de", **options):
    sample = PairSample()
    for number, pair in enumerate(pairs):
        sample.add(number, pair)
    return sample.doubts(source_lang, target_lang, **options)


def shifted(pairs, lines, begin=0):
    """The target comes so many lines earlier from a line on."""
    targets = [target for _, target in pairs]
    return [
        (source, target) for (source, _), target in zip(pairs, targets[:begin] + targets[begin + lines :], strict=False)
    ]


@pytest.mark.parametrize("count", [0, 1, 19, 20, 50, 300, 3000])
def test_correct_text_raises_no_doubt(pairs, count):
    assert doubts(pairs[:count]) == []
    assert doubts([(target, source) for source, target in pairs[:count]], "deu_Latn", "eng") == []


def test_exchanged_sides(pairs):
    [found] = doubts([(target, source) for source, target in pairs])
    assert "source and target seem to be exchanged: the source looks like de, the target like en." in found
    [found] = doubts([("Мы видим дом номер " + str(n), f"We see house number {n}") for n in range(40)], "en", "ru")
    assert "exchanged" in found


@pytest.mark.parametrize("other", ["en-US", "eng_Latn"])
def test_two_forms_of_one_language_cannot_be_told_apart(pairs, other):
    forms = [(source, source.replace("the ", "this ")) for source, _ in pairs]
    assert not any("exchanged" in doubt for doubt in doubts(forms, "en-GB", other))


def test_exchanged_scripts_are_found_without_the_language_identifier(pairs, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    lines = [("สวัสดี" * (1 + n % 7), "hello " * (1 + n % 7)) for n in range(40)]
    assert "exchanged" in doubts(lines, "eng", "tha")[0]
    assert doubts(lines, "tha_Thai", "eng") == []
    assert "the target is said to be ja, but looks different: 40 of 40" in doubts(lines, "th", "ja")[0]
    assert doubts([(target, source) for source, target in pairs]) == []
    [found] = doubts(pairs, "en", "sr-Cyrl")
    assert found.startswith("the target is said to be sr-Cyrl, but is in the script of en. Check")


def test_a_side_in_a_third_language(pairs):
    [found] = doubts(pairs, "fr", "de")
    assert found == "the source is said to be fr, but looks like en. Check the files and the languages."
    [found] = doubts(pairs, "en", "tr")
    assert "the target is said to be tr, but looks like de" in found
    assert doubts(pairs, "en", "tlh") == []


def test_markup_in_the_training_text(pairs):
    some = [
        (f"{source} &amp;", target) if n % 10 == 0 else (source, target) for n, (source, target) in enumerate(pairs)
    ]
    [found] = doubts(some)
    assert "10% of the sampled pairs have tags or entities of HTML" in found and "--filter html" in found
    assert doubts(some, drops_markup=True) == doubts(some, trains=False) == doubts([*some[:100], *pairs]) == []


@pytest.mark.parametrize(("lines", "direction"), [(1, "1 line earlier"), (3, "3 lines earlier")])
def test_shifted_sides(pairs, lines, direction):
    [found] = doubts(shifted(pairs, lines))
    assert f"the sides seem to be shifted: a source line fits the target {direction}." in found
    [found] = doubts([(target, source) for source, target in shifted(pairs, lines)], "de", "en")
    assert direction.replace("earlier", "later") in found


def test_a_shift_in_the_middle_says_where_it_begins(pairs):
    [found] = doubts(shifted(pairs, 1, begin=1800))
    line = int(found.removeprefix("from about line ").partition(", the sides")[0].replace(",", ""))
    assert 1400 <= line <= 2200


def test_unrelated_and_equal_sides(pairs):
    unrelated = [(source, target) for (source, _), (_, target) in zip(pairs, reversed(pairs), strict=True)]
    assert "do not vary together" in doubts(unrelated)[0]
    [found] = doubts([(source, source) for source, _ in pairs[:100]])
    assert found == "source and target are equal in 100 of 100 sampled pairs. Are both files the same?"


@pytest.mark.parametrize("count", [100, 2048, 2049, 5000, 100_000])
def test_a_sample_is_spread_evenly(count):
    sample = PairSample()
    for number in range(count):
        sample.add(number, (str(number), ""))
    numbers = [int(source) for block in sample.blocks.values() for source, _ in block]
    assert min(count, 1024) <= len(numbers) <= 2048
    assert list(sample.blocks) == numbers[::16]
    assert len({after - before for before, after in itertools.pairwise(sample.blocks)}) <= 1
    assert numbers[-1] > 0.98 * count - 16


@pytest.mark.parametrize(
    ("source", "target", "count"),
    [
        ("a.fr", "a.en", 1), ("a.en", "a.fr", 0), ("a.eng", "a.fra.gz", 0), ("a.es", "a.fr", 1), ("a.src", "a.en", 0),
        ("source", "target", 0), ("a.en-GB", "a.fr_CA", 0),
    ],
)  # fmt: skip
def test_names_that_contradict_the_languages(source, target, count):
    values = own_recipe("x-en-fr", source_lang=None, target_lang=None, train=["x"]).model_dump(mode="json")
    values["train"] = [{"kind": "text", "files": {"en": source, "fr": target}}]
    found = doubts_about_names(parse_recipe(values, name="x"))
    assert len(found) == count
    assert all(f"{source} is read as en" in doubt for doubt in found)


@pytest.mark.parametrize(("share", "is_said"), [(0.005, False), (0.02, True), (1.0, True)])
@pytest.mark.parametrize("sides", [(0,), (1,), (0, 1)])
def test_decomposed_text_is_found_on_each_side(pairs, share, is_said, sides):
    mixed = [list(pair) for pair in pairs[:1000]]
    for pair in mixed[: int(share * 1000)]:
        for side in sides:
            pair[side] += " a\u0308"
    found = [doubt for doubt in doubts(mixed) if "normal form C" in doubt]
    named = " and ".join(f"{share:.0%} of the {('source', 'target')[side]} lines" for side in sides)
    assert [doubt.startswith(f"{named} are not in") and "normalisation.nfc" in doubt for doubt in found] == [
        True
    ] * is_said


def test_text_that_is_composed_anyway_raises_no_doubt(pairs):
    sample = PairSample()
    for number, (source, target) in enumerate(pairs[:100]):
        sample.add(number, (source, f"{target} a\u0308"))
    assert sample.doubts("en", "de") != [] == sample.doubts("en", "de", composes=True)
    for composes in (False, True):
        assert "references" in " ".join(sample.doubts("en", "de", composes=composes, trains=False))
