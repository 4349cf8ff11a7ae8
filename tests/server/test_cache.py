"""Lines that were translated lately are not searched again."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from nmt.server.cache import LineCache
from tests.server.doubles import Model, serving, wait_for


def test_the_line_that_was_not_asked_for_longest_makes_room():
    cache = LineCache(max_size=360)
    for line in "abbc":  # each counts once
        cache.put("narrow", line, [line])
    cache.get("narrow", "a")
    cache.put("narrow", "d", ["d"])
    assert [cache.get("narrow", line) for line in "abcd"] == [["a"], None, ["c"], ["d"]]
    assert cache.get("wide", "a") is None
    cache.put("narrow", "e" * 150, ["e"])
    assert [cache.get("narrow", line) for line in "acd"] == [None, None, ["d"]]


def test_long_lines_are_not_kept():
    cache = LineCache()
    cache.put("translator", "a" * 1_001, ["a"])
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
    assert model.translator().targets == {"de"}


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
