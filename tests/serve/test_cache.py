"""Lines that were translated lately are not searched again."""

from concurrent.futures import ThreadPoolExecutor

from nmt.server.cache import LineCache
from nmt.translation.results import TranslatedText
from nmt.translation.segment import Segment
from tests.serve.doubles import Model, serving


def segments(count: int) -> list[Segment]:
    """Each takes 100 of the cache's size."""
    candidates = tuple(TranslatedText("A", ("A",) * 15, 0, 0) for _ in range(2))
    return [Segment("a", [1] * 10, candidates=candidates) for _ in range(count)]


def test_lines_are_known_by_their_translator():
    cache = LineCache()
    cache.put("narrow", "a", kept := segments(1))
    assert cache.get("narrow", "a") is kept
    assert cache.get("wide", "a") is None
    assert cache.get("narrow", "b") is None


def test_the_line_that_was_not_asked_for_longest_makes_room():
    cache = LineCache(max_size=400)
    for line in "abc":
        cache.put("translator", line, segments(1))
    cache.get("translator", "a")
    cache.put("translator", "d", segments(2))
    assert [line for line in "abcd" if cache.get("translator", line) is not None] == ["a", "c", "d"]


def test_long_lines_are_not_kept():
    cache = LineCache()
    cache.put("translator", "a" * 1_001, segments(1))
    assert cache.get("translator", "a" * 1_001) is None


def test_a_line_that_was_put_twice_counts_once():
    cache = LineCache(max_size=200)
    cache.put("translator", "a", segments(1))
    cache.put("translator", "a", segments(1))
    cache.put("translator", "b", segments(1))
    assert cache.get("translator", "a") is not None


def test_who_asks_again_with_another_line_has_only_that_searched():
    model = Model("en", "de")
    with serving([model]) as running:
        running.translate("one\ntwo")
        found = running.translate("one\ntwo\nthree\none")
    assert found.json()["translatedText"] == "ONE\nTWO\nTHREE\nONE"
    assert model.translator().batches == [["one", "two"], ["three"]]
    assert model.translator().targets == {"de"}


def test_equal_lines_of_a_request_are_searched_and_counted_once():
    model = Model("en", "de")
    with serving([model]) as running:
        found = running.translate(["one", "two\none", "one"])
        again = running.translate("one")
        assert running.metrics()["nmt_lines_total"] == 2
    assert found.json()["translatedText"] == ["ONE", "TWO\nONE", "ONE"]
    assert again.json()["translatedText"] == "ONE"
    assert model.translator().batches == [["one", "two"]]


def test_known_lines_are_answered_while_the_queue_is_full_and_others_are_not_prepared():
    with serving(max_waiting=1) as running, ThreadPoolExecutor(2) as executor:
        running.translate("known")
        translator = running.models[0].translator()
        translator.gate.clear()
        executor.submit(running.translate, "searched")
        running.wait_for(lambda: len(translator.batches) == 2)
        executor.submit(running.translate, "waits")
        running.wait_for(lambda: running.service.pool.waiting)
        assert running.translate("known").json() == {"translatedText": "KNOWN"}
        assert running.translate("fail early").status_code == 503  # it would fail while it is prepared
        translator.gate.set()
