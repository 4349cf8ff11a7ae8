"""``/stream``: a translation piece by piece."""

import json
import threading
import time
from collections.abc import Sequence

import pytest

from nmt.server.exchange import Limits
from nmt.translation.results import TranslatedText, Translation
from nmt.translation.segment import Segment
from tests.serve.doubles import Capitals, Model, serving


class Sentences(Capitals):
    """A segment for each sentence. Batches hold one."""

    def prepare(self, lines: Sequence[str]) -> list[list[Segment]]:
        """Sentences end at a full stop."""
        self.batch_tokens = 1
        return [[Segment(f"{text}.", [1]) for text in line.split(".") if text] for line in lines]

    def joined(self, line: str, segments: Sequence[Segment], target_lang: str = "") -> Translation:
        """All candidates of a rank, without spaces between them."""
        ranks = zip(*(segment.candidates for segment in segments), strict=True)
        return Translation(line, tuple(TranslatedText("".join(one.text for one in rank), (), 0, 0) for rank in ranks))


@pytest.fixture
def model() -> Model:
    found = Model("en", "de")
    for candidates in (1, 2):
        found.translators[candidates, None] = Sentences(candidates)
    return found


def parts(running, q, **more):
    with running.client.stream("POST", "/stream", json={"q": q, "source": "en", "target": "de", **more}) as answer:
        assert answer.headers["content-type"] == "application/x-ndjson"
        return [json.loads(line) for line in answer.iter_lines()]


def test_the_parts_are_the_whole_translation(model):
    with serving([model]) as running:
        first, *others = parts(running, "\n one.two.\n\nthree. ")
    assert first == {"source": "en"}
    assert "".join(part["text"] for part in others) == "\n ONE.TWO.\n\nTHREE. "


def test_the_first_comes_before_the_last_is_searched(model):
    translator = model.translators[1, None]
    turn = threading.Semaphore(1)
    translator.gate.wait = lambda seconds: turn.acquire(timeout=seconds)
    asked = {"q": "one.two.", "source": "en", "target": "de"}
    with serving([model]) as running, running.client.stream("POST", "/stream", json=asked) as answer:
        lines = answer.iter_lines()
        assert [next(lines), next(lines)] == ['{"source": "en"}', '{"text": "ONE."}']
        turn.release()
        assert list(lines) == ['{"text": "TWO."}']


def test_alternatives_come_last(model):
    with serving([model]) as running:
        found = parts(running, "one.\ntwo.", alternatives=1)
    assert found[-1] == {"alternatives": ["ONE.'\nTWO.'"]}
    assert "".join(part.get("text", "") for part in found) == "ONE.\nTWO."


def test_alternatives_are_those_of_translate(model):
    class Equal(Sentences):
        """The first two of its three candidates are written alike."""

        def search(self, segments: list[Segment]) -> None:
            super().search(segments)
            for segment in segments:
                first, _, third = segment.candidates
                segment.candidates = (first, first, third)

    model.translators[3, None] = Equal(3)
    asked = {"q": "one.\ntwo.", "source": "en", "target": "de", "alternatives": 2}
    with serving([model]) as running:
        assert parts(running, "one.\ntwo.", alternatives=2)[-1] == {"alternatives": ["ONE.''\nTWO.''"]}
        assert running.client.post("/translate", json=asked).json()["alternatives"] == ["ONE.''\nTWO.''"]


@pytest.mark.parametrize("blank", ["", " \n "])
def test_a_blank_text_stays(model, blank):
    with serving([model]) as running:
        assert parts(running, blank) == [{"source": "en", "text": blank}]


def test_the_source_is_sent_once_if_the_first_sentence_has_no_translation(model):
    class Empty(Sentences):
        """The first sentence has an empty translation."""

        def search(self, segments: list[Segment]) -> None:
            super().search(segments)
            for segment in segments:
                if segment.text == "one.":
                    segment.candidates = (TranslatedText("", (), 0.0, 0.0),)

    translator = model.translators[1, None] = Empty(1)
    translator.gate.wait = lambda seconds: not time.sleep(0.2)  # the sentences are answered one after the other
    with serving([model]) as running:
        found = parts(running, "one.two.")
    assert [part for part in found if "source" in part] == [{"source": "en"}]
    assert "".join(part.get("text", "") for part in found) == "TWO."


def test_a_language_that_is_not_there_is_refused(model):
    with serving([model]) as running:
        answer = running.client.post("/stream", json={"q": "a", "source": "en", "target": "zz"})
    assert (answer.status_code, answer.json()) == (400, {"error": "zz is not supported"})


def test_a_stream_ends_after_the_time_limit(model):
    translator = model.translators[1, None]
    turn = threading.Semaphore(1)
    translator.gate.wait = lambda seconds: turn.acquire(timeout=seconds)
    with serving([model], limits=Limits(seconds=2.5)) as running:
        found = parts(running, "one.two.")
        turn.release()
        assert found[1:] == [{"text": "ONE."}, {"error": "No translation within 2.5 s: the server is busy."}]
        running.wait_for(lambda: counted(running) == {"503": 1})


def counted(running):
    """Streams by their status."""
    samples = running.metrics().items()
    return {name.split('"')[3]: count for name, count in samples if name.startswith("nmt_requests_total")}


def test_a_stream_is_counted_at_its_end(model, capsys):
    translator = model.translators[1, None]
    asked = {"q": "one.two.", "source": "en", "target": "de"}
    with serving([model]) as running:
        parts(running, "one.")
        running.wait_for(lambda: counted(running) == {"200": 1})
        parts(running, "two.fail.")
        running.wait_for(lambda: counted(running) == {"200": 1, "500": 1})
        turn = threading.Semaphore(1)
        translator.gate.wait = lambda seconds: turn.acquire(timeout=seconds)
        with running.client.stream("POST", "/stream", json=asked) as answer:
            lines = answer.iter_lines()  # the connection is closed when it is dropped
            assert next(lines)
            assert counted(running) == {"200": 1, "500": 1}
        running.wait_for(lambda: counted(running) == {"200": 1, "500": 1, "499": 1})
        turn.release()


def test_what_fails_after_the_beginning_is_said_at_the_end(model, capsys):
    with serving([model]) as running:
        found = parts(running, "one.fail.")
        assert found[:2] == [{"source": "en"}, {"text": "ONE."}]
        assert "error" in found[-1]
