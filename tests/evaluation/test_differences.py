"""Each difference between two systems against counts made by hand, or by a slow program of its own."""

import itertools
import math
import random

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from nmt.errors import DataError
from nmt.evaluation.differences.changed_sentences import changed_sentences
from nmt.evaluation.differences.copying import MAX_EXAMPLES, copying, names
from nmt.evaluation.differences.finding import find_differences, totals
from nmt.evaluation.differences.lengths import LENGTHS, RATIOS, bleu_by_length, length_ratios
from nmt.evaluation.differences.ngrams import TOP, ngram_gains
from nmt.evaluation.differences.parallel_texts import parallel_texts
from nmt.evaluation.differences.tables import bucket_of, buckets
from nmt.evaluation.differences.word_diff import _WORDS, word_diff
from nmt.evaluation.differences.word_frequency import (
    FREQUENCIES,
    count_words,
    reference_frequencies,
    words_by_frequency,
    words_of,
)
from nmt.evaluation.metrics import make_metric, score
from tests.growth import assert_linear

SOURCE = [
    "In 1998 the Danube froze near Linz.",
    "Ask Mr Brown at 3.5 km. Then Ask Tea.",
    "The lamp costs 1,200 euros.",
    "Nobody came",
]
REFERENCE = [
    "Im Jahr 1998 fror die Donau bei Linz zu.",
    "Frag Mr Brown bei 3,5 km. Dann frag Tea.",
    "Die Lampe kostet 1.200 Euro.",
    "Niemand kam",
]
A = [
    "Im Jahr 1998 fror die Danube bei Linz zu.",
    "Frag Brown bei 35 km. Dann frag Tea.",
    "Die lamp kostet 1200 Euro.",
    "Niemand kam",
]
B = [
    "Im Jahr 1989 fror die Donau bei Lins zu.",
    "Frag Mr Brown bei 3.5 km.",
    "Die Lampe kostet 1 200 Euro.",
    "Niemand kam kam kam kam",
]


@pytest.fixture
def texts():
    return parallel_texts((A, B), REFERENCE, SOURCE, target_lang="de")


def random_texts(lines: int = 60, seed: int = 5):
    """Texts of few words, in which n-grams repeat; some lines are empty, some equal."""
    draw = random.Random(seed)

    def line() -> str:
        return " ".join(draw.choices("abcdefg", [8, 5, 3, 2, 1, 1, 1], k=draw.choice([0, 1, 5, 14, 25, 70])))

    def changed(text: str) -> str:
        words = [draw.choice("abcdz") if draw.random() < 0.3 else word for word in text.split()]
        return " ".join(words[: draw.randint(0, len(words) + 1)] + words[:1] * draw.randint(0, 2))

    reference = [line() for _ in range(lines)]
    return parallel_texts(([changed(text) for text in reference], [changed(text) for text in reference]), reference)


def test_totals_are_sacrebleus(texts):
    found = totals(texts)
    assert [metric["name"] for metric in found.metrics.records] == ["BLEU", "chrF2"]
    for metric, theirs in zip(found.metrics.records, (sacrebleu.corpus_bleu, sacrebleu.corpus_chrf), strict=True):
        assert metric["values"] == pytest.approx([theirs(system, [REFERENCE]).score for system in (A, B)])
        assert metric["signature"].startswith("nrefs:1|bs:1000|seed:12345|case:mixed|")
        assert 0 < metric["p_value"] <= 1
    assert (found.lines, found.differing_lines) == (4, 4)
    # Full stops are tokens, the points and commas of numbers are not split.
    assert found.reference_tokens == 10 + 11 + 6 + 2
    assert found.tokens == (10 + 10 + 6 + 2, 10 + 7 + 7 + 5)
    assert found.length_ratios == pytest.approx((28 / 29, 29 / 29))


def test_equal_systems_differ_in_nothing():
    found = find_differences(parallel_texts((A, A), REFERENCE, SOURCE))
    assert found.totals.differing_lines == 0
    for metric in found.totals.metrics.records:
        assert metric["values"][0] == metric["values"][1] and metric["p_value"] == 1
    assert [row[3] for row in found.totals.metrics.rows] == ["+0.00", "+0.00", "+0.000", "+0"]
    assert {name: table.rows for name, table in found.ngrams.items()} == {"a": [], "b": []}
    assert (found.sentences.a, found.sentences.b, found.sentences.lines_better) == ([], [], (0, 0))
    for kept in found.copying.records:
        assert kept["counts"][0] == kept["counts"][1] and kept["examples"] == [[], []]


def test_buckets_are_adjacent_and_labelled():
    made = buckets(0, 1, 2, 6, 1_001)
    assert [bucket.label for bucket in made] == ["0", "1", "2–5", "6–1,000", "1,001+"]
    assert [bucket_of(number, made) for number in (0, 1, 2, 5, 6, 1_000, 1_001, 10**9)] == [0, 1, 2, 2, 3, 3, 4, 4]
    assert [bucket.label for bucket in LENGTHS][1:] == ["1–10", "11–20", "21–30", "31–40", "41–50", "51–60", "61+"]
    labels = ["0", "1", "2–5", "6–20", "21–100", "101–1,000", "1,001+"]
    assert [bucket.label for bucket in FREQUENCIES] == labels


def limits(bucket) -> tuple[int, int]:
    return bucket.low, 10**9 if bucket.high is None else bucket.high


def test_bleu_by_length_is_that_of_the_lines():
    texts = random_texts()
    table = bleu_by_length(texts)
    assert sum(each["lines"] for each in table.records) == 60
    assert [row[0] for row in table.rows] == ["0", "1–10", "11–20", "21–30", "61+"]
    for each, row, gain in zip(table.records, table.rows, table.gains, strict=True):
        low, high = limits(each["bucket"])
        chosen = [i for i, line in enumerate(texts.reference.lines) if low <= len(line.split()) <= high]
        assert each["lines"] == len(chosen)
        for system, value in zip(texts.systems, each["bleu"], strict=True):
            lines = [system.lines[i] for i in chosen]
            assert value == score(make_metric("bleu"), lines, [[texts.reference.lines[i] for i in chosen]]).value
        a, b = each["bleu"]
        assert row[1:] == [str(len(chosen)), f"{a:.2f}", f"{b:.2f}", f"{b - a:+z.2f}"]
        assert gain == pytest.approx((b - a) / 100)


@pytest.mark.parametrize(
    ("hypothesis", "reference", "ratio"),
    [
        (79, 100, "< 0.8"), (80, 100, "0.8–0.95"), (94, 100, "0.8–0.95"), (95, 100, "0.95–1.05"), (19, 20, "0.95–1.05"),
        (21, 20, "0.95–1.05"), (105, 100, "0.95–1.05"), (106, 100, "1.05–1.2"), (6, 5, "1.05–1.2"), (121, 100, "> 1.2"),
        (0, 0, "0.95–1.05"), (1, 0, "> 1.2"), (0, 1, "< 0.8"),
    ],
)  # fmt: skip
def test_the_ends_of_length_ratios(hypothesis, reference, ratio):
    texts = parallel_texts((["a " * hypothesis, "b"], ["a " * reference, "b b b"]), ["a " * reference, "b"])
    table = length_ratios(texts)
    found = {each["ratio"]: each for each in table.records}
    assert tuple(found) == RATIOS
    expected = {name: (name == ratio) + (name == "0.95–1.05") for name in RATIOS}
    assert {name: each["lines"][0] for name, each in found.items()} == expected
    assert (found["> 1.2"]["lines"][1], found["> 1.2"]["shares"][1]) == (1, 0.5)
    assert [sum(shares) for shares in table.shares.values()] == [1, 1]
    assert table.rows[-1] == ["> 1.2", f"{table.shares[1][-1]:.1%}", "50.0%", str(expected["> 1.2"]), "1"]


def test_words_by_frequency_by_hand():
    texts = parallel_texts((["the the lamp", "a x"], ["the cat", "a a"]), ["the lamp lamp", "a cat"])
    table = words_by_frequency(texts, {"the": 50, "lamp": 3, "a": 1_001, "x": 1}, counted_in="a text")
    found = {each["bucket"].label: each for each in table.records}
    words = {name: each["reference_words"] for name, each in found.items()}
    assert words == {"0": 1, "2–5": 2, "21–100": 1, "1,001+": 1}
    assert table.rows[1] == ["2–5", "2", "66.7", "0.0", "-66.7", "100.0/50.0", "0.0/0.0"]
    assert table.gains[1] == pytest.approx(-2 / 3)
    assert table.note.startswith("Occurs: how often in a text.")
    frequent = found["21–100"]["systems"]
    assert (frequent[0]["right"], frequent[0]["hypothesis_words"]) == (1, 2)
    assert (frequent[0]["precision"], frequent[0]["recall"], frequent[0]["f1"]) == (0.5, 1, pytest.approx(2 / 3))
    assert (frequent[1]["precision"], frequent[1]["recall"], frequent[1]["f1"]) == (1, 1, 1)
    lamp = found["2–5"]["systems"]
    assert (lamp[0]["precision"], lamp[0]["recall"], lamp[0]["f1"]) == (1, 0.5, pytest.approx(2 / 3))
    assert (lamp[1]["right"], lamp[1]["hypothesis_words"], lamp[1]["f1"]) == (0, 0, 0)
    # "cat" is unknown to the counts. B has it in another line, where it is wrong.
    unknown = found["0"]["systems"][1]
    assert (unknown["hypothesis_words"], unknown["right"]) == (1, 0)


def test_words_by_frequency_as_a_slow_program_counts_them():
    texts = random_texts()
    frequencies = reference_frequencies(texts)
    for each in words_by_frequency(texts, frequencies).records:
        low, high = limits(each["bucket"])
        for system, found in zip(texts.systems, each["systems"], strict=True):
            right = written = 0
            for hypothesis, reference in zip(system.tokens, texts.reference.tokens, strict=True):
                rest = list(reference)
                for word in hypothesis:
                    if low <= frequencies[word] <= high:
                        written += 1
                        if word in rest:
                            rest.remove(word)
                            right += 1
            assert (found["right"], found["hypothesis_words"]) == (right, written)
            assert found["recall"] == right / each["reference_words"]


def test_only_wanted_words_are_counted():
    texts = parallel_texts((["the lamp"], ["a cat"]), ["the cat."])
    assert words_of(texts) == {"the", "lamp", "a", "cat", "."}
    lines = iter(["The cat, the cat.", "a lamp-post", ""])
    assert count_words(lines, texts) == {"the": 1, "cat": 2, "a": 1, ".": 1}


def test_what_begins_a_sentence_of_the_reference_is_no_name():
    source, reference = ["Then Anna left .", "Then Anna left ."], ["Anna ging .", "Dann ging Anna ."]
    found = copying(parallel_texts((reference, ["Sie ging ."] * 2), reference, source, target_lang="de"))
    [kept] = [kept for kept in found.records if kept["name"] == "names"]
    assert (kept["counts"], kept["totals"]) == ([1, 0], [1, 1])


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("The River Thames is in London .", ["River", "Thames", "London"]),
        ("Go ! Then Anna left . Why ? Tom", ["Anna"]),
        ('" Anna and Émile', ["Émile"]),
        ("12 Houses of Anna", ["Anna"]),
        ("", []),
    ],
)
def test_names_are_capitalised_within_a_sentence(line, expected):
    assert names(line.split()) == expected


def test_copying_by_hand(texts):
    table = copying(texts)
    found = {kept.pop("name"): kept for kept in table.records}
    kept = {"counts": [2, 3], "totals": [4, 4], "examples": [[1], [2]], "is_good": True}
    assert found["numbers of the reference"] == kept
    assert table.rows[0] == ["numbers of the reference", "2 of 4 (50.0%)", "3 of 4 (75.0%)"]
    first, *_, last = table.note.splitlines()
    assert first == "numbers of the reference: A has more in lines 1; B has more in lines 2"
    assert last == "copied source words: A has more in lines 1, 3"
    assert table.gains[0] == pytest.approx(1 / 4)
    assert found["numbers of the source"]["counts"] == [2, 3]
    # Linz; Mr, Brown and Tea, but not the second Ask.
    assert found["names"] == {"counts": [3, 2], "totals": [4, 4], "examples": [[1], []], "is_good": True}
    totals = [8 + 7 + 4 + 2, 8 + 5 + 4 + 5]
    copied = {"counts": [2, 0], "totals": totals, "examples": [[1, 3], []], "is_good": False}
    assert found["copied source words"] == copied
    without_source = parallel_texts((A, B), REFERENCE)
    assert [kept["name"] for kept in copying(without_source).records] == ["numbers of the reference"]


def test_what_occurs_nowhere_has_no_row():
    found = copying(parallel_texts((["a"], ["b"]), ["c"]))
    assert (found.rows, found.gains, found.records[0]["totals"]) == ([], [], [0, 0])


def test_examples_are_few():
    texts = parallel_texts((["7"] * 9, ["8"] * 9), ["8"] * 9)
    (kept,) = copying(texts).records
    assert kept["examples"] == [[], list(range(1, MAX_EXAMPLES + 1))]


def slow_gains(texts, system: int) -> list:
    """The n-grams that a system gets right more often, by counting each of them in each line."""

    def grams(tokens):
        return [tuple(tokens[i : i + n]) for n in (1, 2, 3, 4) for i in range(len(tokens) - n + 1)]

    reference = [grams(tokens) for tokens in texts.reference.tokens]
    written = [[grams(tokens) for tokens in each.tokens] for each in texts.systems]
    every = sorted({gram for line in reference for gram in line})

    def right(each, gram) -> int:
        return sum(min(h.count(gram), r.count(gram)) for h, r in zip(written[each], reference, strict=True))

    counts = {gram: (right(0, gram), right(1, gram), sum(r.count(gram) for r in reference)) for gram in every}
    counts = {gram: count for gram, count in counts.items() if count[0] != count[1]}
    rest = {
        gram: count
        for gram, count in counts.items()
        if not any(
            len(longer) == len(gram) + 1 and gram in (longer[1:], longer[:-1]) and counts[longer] == count
            for longer in counts
        )
    }
    better = {gram: count for gram, count in rest.items() if count[system] > count[1 - system]}

    def rank(gram):
        a, b = better[gram][system], better[gram][1 - system]
        return -(a - b) / math.sqrt(a + b), -len(gram), gram

    return [(gram, better[gram]) for gram in sorted(better, key=rank)]


def test_ngrams_as_a_slow_program_counts_them():
    texts = random_texts(lines=25)
    found = ngram_gains(texts)
    for system, side in enumerate((found["a"], found["b"])):
        counted = [(gram["tokens"], (*gram["right"], gram["in_references"])) for gram in side.records]
        assert counted == slow_gains(texts, system)[:TOP]
        assert side.rows == [[" ".join(tokens), *map(str, counts)] for tokens, counts in counted]
        assert len(side.rows) == TOP


def test_a_part_of_a_longer_ngram_is_left_out():
    texts = parallel_texts((["new york city is old"], ["city old"]), ["new york city is old"])
    found = ngram_gains(texts)
    assert [row[0] for row in found["a"].rows] == ["new york city is", "york city is old"]
    assert found["b"].rows == found["b"].records == []


def test_the_sentences_that_changed_most(texts):
    found = changed_sentences(texts, 1)
    scores = [
        (sacrebleu.sentence_chrf(a, [r]).score, sacrebleu.sentence_chrf(b, [r]).score)
        for a, b, r in zip(A, B, REFERENCE, strict=True)
    ]
    gains = [b - a for a, b in scores]
    (best_a,), (best_b,) = found.a, found.b
    assert best_a.line == gains.index(min(gains)) + 1
    assert best_b.line == gains.index(max(gains)) + 1
    assert best_a.chrf == pytest.approx(scores[best_a.line - 1])
    assert (best_b.source, best_b.reference) == (SOURCE[best_b.line - 1], REFERENCE[best_b.line - 1])
    assert best_b.hypotheses == (A[best_b.line - 1], B[best_b.line - 1])
    assert found.lines_better == (sum(gain < 0 for gain in gains), sum(gain > 0 for gain in gains))
    assert changed_sentences(texts, 0).a == []
    every = changed_sentences(texts, 99)
    order = [b - a for a, b in (sentence.chrf for sentence in every.a)]
    assert order == sorted(order) and len(order) == found.lines_better[0]


def test_changed_words_are_marked():
    a, b = word_diff("The old man, he sleeps.", "The young man sleeps well.", "The young man, he sleeps.")
    assert [(part.text, part.kind) for part in a] == [
        ("The ", "same"), ("old", "wrong"), (" man", "same"), (", he", "right"), (" sleeps.", "same"),
    ]  # fmt: skip
    assert [(part.text, part.kind) for part in b] == [
        ("The ", "same"), ("young", "right"), (" man sleeps ", "same"), ("well", "wrong"), (".", "same"),
    ]  # fmt: skip
    hindi, thai = word_diff("हिन्दी", "हिंदी", ""), word_diff("แมวดำ", "แมวขาว", "")
    assert [part.text for part in hindi[0]] == ["हिन्दी"]
    assert [part.text for part in thai[0]] == ["แมว", "ดำ"]
    chinese = word_diff("我喜欢猫", "我喜欢狗", "我喜欢狗")
    assert [[(part.text, part.kind) for part in parts] for parts in chinese] == [
        [("我喜欢", "same"), ("猫", "wrong")],
        [("我喜欢", "same"), ("狗", "right")],
    ]


LINES = st.text(st.sampled_from("ab .-é猫가\u3000_"), max_size=16)


@given(LINES, LINES, LINES)
def test_parts_are_the_line_and_between_words_that_are_the_same_none_is_equal(first, second, reference):
    a, b = word_diff(first, second, reference)
    assert ("".join(part.text for part in a), "".join(part.text for part in b)) == (first, second)
    assert all(x.kind != y.kind for parts in (a, b) for x, y in itertools.pairwise(parts))
    same, between = zip(*map(same_words, (a, b)), strict=True)
    assert same[0] == same[1]
    assert not any(set(of_a) & set(of_b) for of_a, of_b in zip(*between, strict=True))


def same_words(parts: list) -> tuple[list[str], list[list[str]]]:
    """The words of the parts that are the same, and the others before, between and behind them."""
    same, between = [], [[]]
    for part in parts:
        for word in _WORDS.findall(part.text):
            if part.kind != "same":
                between[-1] += [] if word.isspace() else [word]
            elif not word.isspace():
                same.append(word)
                between.append([])
    return same, between


@pytest.mark.parametrize("unit", ["a ", "1", "1.", "1,2 ", "A ", "A. ", "猫"])
def test_time_grows_with_the_length_of_a_line(unit):
    def work(line: str) -> None:
        texts = parallel_texts(([line], [f"{line} b"]), [line], [line])
        copying(texts)
        ngram_gains(texts)
        words_by_frequency(texts, reference_frequencies(texts))
        word_diff(line, f"x {line} y", line)

    assert_linear(work, unit, 2_000, begin="a ")


def test_empty_lines_count():
    found = find_differences(parallel_texts((["", "a"], ["x", ""]), ["", "a"], ["", "a"]))
    assert [row[:2] for row in found.by_length.rows] == [["0", "1"], ["1–10", "1"]]
    assert all(0 <= value <= 100.001 for each in found.by_length.records for value in each["bleu"])
    assert parallel_texts(([""], [""]), [""]).reference.tokens == ((),)
    assert find_differences(parallel_texts(([""], ["a"]), [""])).totals.length_ratios == (0, 0)


def test_unequal_counts_are_refused_by_name():
    with pytest.raises(DataError, match=r"^b\.de has 3 lines, but the reference has 4"):
        parallel_texts((A, B[:3]), REFERENCE, names=("a.de", "b.de"))
    with pytest.raises(DataError, match=r"^the source has 2 lines, but the reference has 4"):
        parallel_texts((A, B), REFERENCE, SOURCE[:2])
    with pytest.raises(DataError, match=r"^system A is empty"):
        parallel_texts(([], []), [])


def test_the_tokeniser_is_that_of_the_language():
    texts = parallel_texts((["我喜欢猫。"], ["我喜欢狗。"]), ["我喜欢猫。"], target_lang="zh")
    assert texts.reference.tokens == (("我", "喜", "欢", "猫", "。"),)
    assert "tok:zh" in totals(texts).metrics.note
    texts = parallel_texts((["ab c"], ["ab d"]), ["ab c"], tokenize="char")
    assert texts.reference.tokens == (("a", "b", "c"),)
    assert "tok:char" in totals(texts).metrics.note


def test_the_time_of_marking_words_grows_with_the_length_of_a_line():
    # As many of each word as may be without being ignored, in orders that have hardly a word in common.
    orders = [" ".join(f"w{number * step % 101}" for number in range(101)) + " " for step in (1, 7)]
    assert_linear(lambda line: word_diff(line, orders[1] * line.count("w7 "), ""), orders[0], 4_000)


def test_long_lines_are_compared_block_by_block():
    words = [f"w{number}" for number in range(3_000)]
    changed = [f"x{word}" if number % 1_000 == 999 else word for number, word in enumerate(words)]
    moved = ["new"] * 50 + changed
    a, b = (same_words(parts)[0] for parts in word_diff(" ".join(words), " ".join(moved), ""))
    assert a == b == [word for word in changed if word in set(words)]
