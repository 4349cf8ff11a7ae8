"""Lines that were translated lately are not searched again."""

import pickle
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from nmt.server.cache import LineCache
from nmt.translation.results import TranslatedText
from nmt.translation.segment import Segment, TranslatedSegment
from tests.server.doubles import Model, serving, wait_for


def found(text, candidates=1, pieces=1):
    """The segments of a line, as they come from the process of a model: nothing in them is shared."""
    kept = tuple(TranslatedText(text, tuple(f"{text}{n}" for n in range(pieces)), 0.0, 0.0) for _ in range(candidates))
    segment = Segment(text, list(range(1_000, 1_000 + pieces)))
    return pickle.loads(pickle.dumps([TranslatedSegment(segment, kept)]))


def test_the_line_that_was_not_asked_for_longest_makes_room():
    cache = LineCache(max_size=5_000)
    lines = {line: found(line) for line in "abcd"}
    for line in "abbc":  # each counts once
        cache.put("narrow", line, lines[line])
    cache.get("narrow", "a")
    cache.put("narrow", "d", lines["d"])
    assert [cache.get("narrow", line) for line in "abcd"] == [lines["a"], None, lines["c"], lines["d"]]
    assert cache.get("wide", "a") is None
    cache.put("narrow", "e" * 900, found("e"))
    assert [cache.get("narrow", line) for line in "acd"] == [None, None, lines["d"]]


@pytest.mark.parametrize(
    ("candidates", "pieces", "lines"), [(1, 10, 1_000), (1, 30, 500), (5, 30, 300), (100, 30, 100), (1, 200, 200)]
)
def test_lines_take_as_much_memory_as_the_cache_may_hold(candidates, pieces, lines):
    """A wide beam has a hundred candidates, and more text than the line. The lines are more than the cache holds."""
    cache = LineCache(max_size=1_000_000)
    tracemalloc.start()
    for number in range(lines):
        cache.put("translator", f"line {number}", found("Ein Satz. " * 5, candidates, pieces))
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0.5e6 < taken < 1.5e6


def test_the_second_translation_through_a_pivot_language_counts():
    cache, [part] = LineCache(max_size=2_000), found("a")
    cache.put("translator", "a", [replace(part, onward=tuple(found("b", pieces=20)))])
    assert cache.get("translator", "a") is None


def test_long_lines_are_not_kept():
    cache = LineCache()
    cache.put("translator", "a" * 1_001, found("a"))
    assert cache.get("translator", "a" * 1_001) is None


@pytest.mark.parametrize(
    ("texts", "answer", "batches"),
    [
        (["one\ntwo", "one\ntwo\nthree\none"], "ONE\nTWO\nTHREE\nONE", [["one", "two"], ["three"]]),
        ([["one", "two\none", "one"], "one"], "ONE", [["one", "two"]]),
    ],
)
def test_only_new_lines_are_searched_and_counted_and_each_once(texts, answer, batches):
    model = Model("en", "de")
    with serving([model]) as running:
        answers = [running.translate(text).json()["translatedText"] for text in texts]
        assert running.metrics()["nmt_lines_total"] == sum(map(len, batches))
    assert answers[-1] == answer
    assert model.translator().batches == batches


def test_known_lines_are_answered_while_the_queue_is_full_and_others_are_not_prepared():
    with serving(max_waiting=1) as running, ThreadPoolExecutor(2) as executor:
        running.translate("known")
        translator = running.models[0].translator()
        translator.gate.clear()
        executor.submit(running.translate, "searched")
        wait_for(lambda: len(translator.batches) == 2)
        executor.submit(running.translate, "waits")
        wait_for(lambda: running.service.pool.waiting)
        assert running.translate("known").json() == {"translatedText": "KNOWN"}
        assert running.translate("fail early").status_code == 503  # it would fail while it is prepared
        translator.gate.set()


def test_a_line_with_other_spans_is_another_line():
    """The model may not have seen what stays of it. Markup alone makes no difference."""
    with serving() as running:
        translator = running.models[0].translator()
        asked = {"a b": 1, "<i>a</i> b": 1, "a <b>b</b>": 0, "a <code>b</code>": 1, "a <code x>b</code>": 0}
        for text, searched in asked.items():
            translator.batches.clear()
            running.translate(f"<p>{text}", format="html")
            assert len(translator.batches) == searched, text
