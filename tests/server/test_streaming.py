"""``/stream``: a translation piece by piece."""

import json
import threading
import time
from collections.abc import Sequence

import pytest

from nmt.server.exchange import Limits
from nmt.translation.results import TranslatedText, Translation
from nmt.translation.segment import Line, Segment, TranslatedSegment
from tests.server.doubles import Capitals, Model, serving, wait_for

ASKED = {"q": "one.two.", "source": "en", "target": "de"}


class Sentences(Capitals):
    """A segment for each sentence. Batches hold one."""

    batch_tokens = 1
    written: tuple[str, ...] | None = None
    """The candidates of ``one.`` where they are others."""

    def prepare(self, lines: Sequence[Line]) -> list[list[Segment]]:
        """Sentences end at a full stop."""
        self.batch_tokens = 1
        return [[Segment(f"{text}.", [1]) for text in line.text.split(".") if text] for line in lines]

    def _translated(self, segment: Segment) -> TranslatedSegment:
        if self.written is None or segment.text != "one.":
            return super()._translated(segment)
        return TranslatedSegment(segment, tuple(TranslatedText(text, (), 0.0, 0.0) for text in self.written))

    def joined(self, line: str, parts: Sequence[TranslatedSegment], target_lang: str = "") -> Translation:
        """All candidates of a rank, without spaces between them."""
        ranks = zip(*(part.candidates for part in parts), strict=True)
        return Translation(line, tuple(TranslatedText("".join(one.text for one in rank), (), 0, 0) for rank in ranks))


@pytest.fixture
def model() -> Model:
    found = Model("en", "de")
    for candidates in (1, 2, 3):
        found.translators["de", candidates, None] = Sentences(candidates)
    return found


@pytest.fixture
def turn(model) -> threading.Semaphore:
    """Lets one sentence be searched, and another whenever it is released."""
    turn = threading.Semaphore(1)
    model.translators["de", 1, None].gate.wait = lambda seconds: turn.acquire(timeout=seconds)
    return turn


def parts(running, q, **more):
    with running.client.stream("POST", "/stream", json={**ASKED, "q": q, **more}) as answer:
        assert answer.headers["content-type"] == "application/x-ndjson"
        return [json.loads(line) for line in answer.iter_lines()]


def test_the_parts_are_the_whole_translation(model):
    with serving([model]) as running:
        first, *others = parts(running, "\n one.two.\n\nthree. ")
    assert first == {"source": "en"}
    assert "".join(part["text"] for part in others) == "\n ONE.TWO.\n\nTHREE. "


def test_the_first_comes_before_the_last_is_searched(model, turn):
    with serving([model]) as running, running.client.stream("POST", "/stream", json=ASKED) as answer:
        lines = answer.iter_lines()
        assert [next(lines), next(lines)] == ['{"source": "en"}', '{"text": "ONE."}']
        turn.release()
        assert list(lines) == ['{"text": "TWO."}']


def test_alternatives_come_last_and_are_those_of_translate(model):
    model.translators["de", 3, None].written = ("ONE.", "ONE.", "ONE.''")
    asked = {**ASKED, "q": "one.\none.", "alternatives": 2}
    with serving([model]) as running:
        found = parts(running, "one.\none.", alternatives=2)
        assert found[-1] == {"alternatives": ["ONE.''\nONE.''"]}
        assert "".join(part.get("text", "") for part in found) == "ONE.\nONE."
        assert running.client.post("/translate", json=asked).json()["alternatives"] == ["ONE.''\nONE.''"]


@pytest.mark.parametrize("blank", ["", " \n "])
def test_a_blank_text_stays(model, blank):
    with serving([model]) as running:
        assert parts(running, blank) == [{"source": "en", "text": blank}]


def test_the_source_is_sent_once_if_the_first_sentence_has_no_translation(model):
    translator = model.translators["de", 1, None]
    translator.written = ("",)
    translator.gate.wait = lambda seconds: not time.sleep(0.2)  # the sentences are answered one after the other
    with serving([model]) as running:
        found = parts(running, "one.two.")
    assert [part for part in found if "source" in part] == [{"source": "en"}]
    assert "".join(part.get("text", "") for part in found) == "TWO."


def counted(running):
    """Streams by their status."""
    samples = running.metrics().items()
    return {name.split('"')[3]: count for name, count in samples if name.startswith("nmt_requests_total")}


def test_a_stream_ends_after_the_time_limit(model, turn):
    with serving([model], limits=Limits(seconds=1.5)) as running:
        found = parts(running, "one.two.")
        turn.release()
        assert found[1:] == [{"text": "ONE."}, {"error": "No translation within 1.5 s: the server is busy."}]
        wait_for(lambda: counted(running) == {"503": 1})


def test_a_stream_is_counted_at_its_end_by_how_it_ends(model, turn, capsys):
    with serving([model]) as running:
        parts(running, "one.")
        wait_for(lambda: counted(running) == {"200": 1})
        turn.release(2)
        found = parts(running, "two.fail.")
        assert found == [{"source": "en"}, {"text": "TWO."}, {"error": "An internal error; the server's log has more."}]
        wait_for(lambda: counted(running) == {"200": 1, "500": 1})
        turn.release()
        with running.client.stream("POST", "/stream", json={**ASKED, "q": "three.four."}) as answer:
            lines = answer.iter_lines()  # the connection is closed when it is dropped
            assert next(lines)
            assert counted(running) == {"200": 1, "500": 1}
        wait_for(lambda: counted(running) == {"200": 1, "500": 1, "499": 1})
        turn.release()
