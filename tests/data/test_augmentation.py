"""Augmented pairs: each kind on its own, its share, and nothing but what it says."""

import difflib
from collections import Counter

import numpy as np
import pytest

from nmt.config import AugmentationConfig
from nmt.data import augmentation
from nmt.data.augmentation import augmented

PAIRS = [(f"The {word} sees {number} small dogs.", f"Der {word} sieht {number} kleine Hunde.")
         for number, word in enumerate(["Baker", "apple", "teacher", "ok"] * 500)]  # fmt: skip


def changed(pairs, languages=("en", "de"), seed=0, **shares) -> list[tuple[str, str]]:
    return augmented(pairs, AugmentationConfig(**shares), languages, np.random.default_rng(seed))


@pytest.mark.parametrize(
    ("kind", "pair", "languages", "expected"),
    [
        ("upper_case", ("a straße", "ein Fluß"), ("en", "de"), ("A STRASSE", "EIN FLUSS")),
        ("upper_case", ("evin ışığı", "house"), ("tr", "en"), ("EVİN IŞIĞI", "HOUSE")),
        ("upper_case", ("an island", "ένα νησί"), ("en", "el"), ("AN ISLAND", "ΕΝΑ ΝΗΣΙ")),
        ("title_case", ("iyi ev", "ένα νησί"), ("tr", "el"), ("İyi Ev", "Ένα Νησί")),
        ("title_case", ("the old  dog", "der alte Hund"), ("en", "de"), ("The Old  Dog", "Der Alte Hund")),
        ("no_end_mark", ("Go home.", "Geh heim."), ("en", "de"), ("Go home", "Geh heim")),
        ("no_end_mark", ("Go home .", "回家。"), ("en", "zh"), ("Go home", "回家")),
        ("no_end_mark", ("Go home.", "Geh heim!"), ("en", "de"), ("Go home.", "Geh heim!")),  # another mark
        ("no_end_mark", ("Go ...", "Geh ..."), ("en", "de"), ("Go ...", "Geh ...")),  # part of several
        ("no_end_mark", ("?", "?"), ("en", "de"), ("?", "?")),  # nothing would be left
        ("no_end_mark", ("Go", "Geh"), ("en", "de"), ("Go", "Geh")),
    ],
)
def test_a_kind_changes_a_pair(kind, pair, languages, expected):
    assert changed([pair], languages, **{kind: 1.0}) == [expected]


@pytest.mark.parametrize("kind", ["upper_case", "title_case", "no_end_mark"])
def test_a_share_of_the_pairs_is_changed(kind):
    after = changed(PAIRS, **{kind: 0.2})
    whole = changed(PAIRS, **{kind: 1.0})
    assert len(after) == len(PAIRS)
    is_changed = [new != old for new, old in zip(after, PAIRS, strict=True)]
    assert 0.16 < np.mean(is_changed) < 0.24  # four standard deviations
    assert all(
        new == (other if is_new else old)
        for new, old, other, is_new in zip(after, PAIRS, whole, is_changed, strict=True)
    )


def test_typing_errors_are_small_and_in_the_source_alone():
    after = changed(PAIRS, typos=1.0)
    assert [target for _, target in after] == [target for _, target in PAIRS]
    # Nine kinds, each with a probability of a tenth; a few find nothing to change.
    assert 0.5 < np.mean([new != old for (new, _), (old, _) in zip(after, PAIRS, strict=True)]) < 1 - 0.9**9 + 0.04
    for (new, _), (old, _) in zip(after, PAIRS, strict=True):
        edits = [block for block in difflib.SequenceMatcher(None, old, new, False).get_opcodes() if block[0] != "equal"]
        assert abs(len(new) - len(old)) <= 5
        assert sum(max(b - a, d - c) for _, a, b, c, d in edits) <= 12


@pytest.mark.parametrize("make", augmentation._TYPOS)
@pytest.mark.parametrize("text", ["The letters see 100 good dogs", "a", "", " ", "日本語", "aa", "Ä"])
def test_each_kind_of_typing_error_is_one_error(make, text):
    found = {make(text, np.random.default_rng(seed)) for seed in range(40)}
    for new in found:
        assert abs(len(new) - len(text)) <= 1
        assert sorted((Counter(new) - Counter(text)).values()) in ([], [1])
    assert len(text) < 9 or len(found) > 1


def test_noise_is_copied_and_stands_beside_the_text():
    after = changed(PAIRS, noise=0.1)
    noise = [pair for pair in after if pair not in set(PAIRS)]
    assert [pair for pair in after if pair in set(PAIRS)] == PAIRS
    assert 0.07 < len(noise) / len(PAIRS) < 0.13
    letters = set("".join(map("".join, PAIRS)))
    for source, target in noise:
        assert source == target
        assert 1 <= len(source.split()) <= 6
        assert all(2 <= len(word) <= 5 and set(word) <= letters for word in source.split())


def test_a_seed_makes_the_same_text():
    shares = {"upper_case": 0.2, "title_case": 0.2, "no_end_mark": 0.3, "typos": 0.5, "noise": 0.1}
    assert changed(PAIRS, seed=1, **shares) == changed(PAIRS, seed=1, **shares) != changed(PAIRS, seed=2, **shares)
    assert changed(PAIRS) == PAIRS


@pytest.mark.parametrize("pair", [("", ""), ("", "x."), ("x.", "")])
def test_a_side_without_text_stays(pair):
    shares = {"upper_case": 1, "title_case": 1, "no_end_mark": 1, "typos": 1, "noise": 1}
    assert changed([pair], **shares)[-1] == pair
