"""A request from its bytes to its parameters: whatever it holds, an answer; and its client, who may go away."""

import contextlib
import json
import socket
import threading
import time
from urllib.parse import quote

import httpx
import pytest

from nmt.search.settings import BeamTooWideError
from nmt.server import exchange
from nmt.server.connection import Connection
from nmt.server.exchange import Limits
from tests.server.doubles import SECONDS, Capitals, serving, wait_for

ASKED = {"q": "the cat", "source": "en", "target": "de"}
MANY = "\n".join(f"word{number}" for number in range(100))
FORM = "application/x-www-form-urlencoded"
ROTTEN = "Invalid request: the body is not JSON, or has half of a surrogate pair."
NOT_UTF8 = "Invalid request: the body is not in UTF-8."
FIELDS = "Invalid request: the parameters are damaged, not in UTF-8, or more than 2,000."
JSON = "application/json"
MULTIPART = "multipart/form-data; boundary=x"


def send(server, body, kind="application/json", **headers):
    return server.client.post("/translate", content=body, headers={"Content-Type": kind, **headers})


def multipart(**fields):
    return {name: (None, value) for name, value in fields.items()}


def raw(server, data: bytes) -> socket.socket:
    """A connection on which some bytes were sent."""
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS)
    connection.sendall(data)
    return connection


def request_bytes(body: bytes, *headers: str, length: int | None = None) -> bytes:
    head = ["POST /translate HTTP/1.1", "Host: x", "Content-Type: application/json"]
    head += [f"Content-Length: {len(body) if length is None else length}", *headers, "", ""]
    return "\r\n".join(head).encode() + body


@pytest.mark.parametrize(
    "request_of",
    [
        {"json": ASKED},
        {"content": json.dumps(ASKED), "headers": {"Content-Type": "application/JSON; charset=utf-8"}},
        {"content": json.dumps(ASKED), "headers": {"Content-Type": "application/vnd.x+json"}},
        {"content": "\ufeff" + json.dumps(ASKED), "headers": {"Content-Type": "application/json"}},
        {"data": ASKED},
        {"content": "q=the+cat&source=en&target=de"},
        {"files": multipart(**ASKED)},
        {"params": ASKED},
        {"params": {"q": "the dog", "source": "en"}, "json": {"q": "the cat", "target": "de"}},
        {"params": {"q": "the dog", "source": "en"}, "data": {"q": "the cat", "target": "de"}},
        {"data": {**ASKED, "unknown": "x"}},
    ],
)
def test_parameters_come_from_the_address_a_form_or_json(server, request_of):
    answer = server.client.post("/translate", **request_of)
    assert (answer.status_code, answer.json()) == (200, {"translatedText": "THE CAT"})


@pytest.mark.parametrize(
    ("body", "kind", "error"),
    [
        (b"{", JSON, ROTTEN),
        (b"\xff", JSON, NOT_UTF8),
        (json.dumps(ASKED).encode("utf-16"), JSON, NOT_UTF8),
        (b"[" * 100_000, JSON, ROTTEN),
        (b"[" * 110_000, JSON, "Invalid request: more than 102,000 values in JSON, the maximum."),
        (b'{"a":' * 100_000, JSON, ROTTEN),
        (b'{"q": ' + b"1" * 100_000 + b"}", JSON, ROTTEN),
        (b"[]", JSON, "Invalid request: expected a JSON object."),
        (b'"q"', JSON, "Invalid request: expected a JSON object."),
        (b'{"q": "\\ud800", "source": "en", "target": "de"}', JSON, ROTTEN),
        (b'{"q": ["a", "\\udc00x"], "source": "en", "target": "de"}', JSON, ROTTEN),
        (b"q=%ff&source=en", FORM, FIELDS),
        (b"q=\xe9&source=en", FORM, NOT_UTF8),
        (b"&".join([b"a=1"] * 5_000), FORM, FIELDS),
        (b"x", "multipart/form-data", "Invalid request: Missing boundary in multipart."),
        (b"--x\r\nfoo", MULTIPART, "Invalid request: missing q parameter"),
        (b'--x\r\nContent-Disposition: form-data; name="q"; filename="a"\r\n\r\n', MULTIPART, "Too many files"),
        (b"", JSON, "Invalid request: missing q parameter"),
        (b'{"q": 5, "source": "en", "target": "de"}', JSON, "q: Input should be a valid string"),
        (b'{"q": [5], "source": "en", "target": "de"}', JSON, "q: Input should be a valid string"),
        (b'{"q": "a", "source": 5, "target": "de"}', JSON, "source: Input should be a valid string"),
    ],
)
def test_a_damaged_request_is_refused_in_words(server, body, kind, error):
    answer = send(server, body, kind)
    assert answer.status_code == (413 if "values" in error else 400)
    assert error in answer.json()["error"]


def test_text_of_any_kind_comes_back(server):
    for text in ("\0", "a\0b", "\x1b[31m", "\u2028", "😀 x", "\ufffe", "e\u0301", "\r", " "):
        assert server.translate(text).json() == {"translatedText": text.upper()}


def test_the_characters_of_a_request_are_limited(small):
    assert small.translate("ä" * 100).status_code == 200
    assert small.translate(["a" * 50, "b" * 50]).status_code == 200
    for texts in ("a" * 101, ["a" * 51, "b" * 50], [""] * 101):
        answer = small.translate(texts)
        assert answer.status_code == 413
        assert answer.json() == {"error": "Invalid request: request (101) exceeds text limit (100) in characters"}


def test_the_bytes_of_a_request_are_limited_however_they_are_announced(small):
    body = b" " * (Limits(100).max_bytes + 1)
    answer = send(small, iter([body[:1_000], body[1_000:]]))
    assert answer.status_code == 413
    assert "more than 66,736 bytes" in answer.json()["error"]
    with raw(small, request_bytes(b"", length=1 << 40)) as connection:
        assert connection.recv(100).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize("kind", ["application/json", FORM])
def test_the_longest_text_fits_however_it_is_written(small, kind):
    text = "\U0001f600" * 100  # 12 bytes each, in either
    body = json.dumps({**ASKED, "q": text}) if kind == "application/json" else f"q={quote(text)}&source=en&target=de"
    assert send(small, body, kind).status_code == 200


def test_a_slow_body_is_given_up_and_takes_no_room_from_another(small, monkeypatch):
    monkeypatch.setattr(exchange, "_SECONDS_TO_SEND", 0.1)
    monkeypatch.setattr(exchange, "_MAX_ARRIVING", 1)
    for _ in range(2):
        with raw(small, request_bytes(b"{" * 50_000, length=60_000)) as connection:
            assert connection.recv(100).startswith(b"HTTP/1.1 408")


def test_a_full_queue_says_when_to_come_back():
    with serving(max_waiting=4) as running:
        translator = running.models[0].translator()
        translator.gate.clear()
        with httpx.Client(base_url=running.client.base_url, timeout=SECONDS) as other:
            first = raw(running, request_bytes(json.dumps(ASKED).encode()))
            wait_for(lambda: translator.batches)
            second = raw(running, request_bytes(json.dumps(ASKED).encode()))
            wait_for(lambda: running.service.pool.waiting == 3)
            answer = other.post("/v2/translate", json={"text": ["two words"], "target_lang": "DE", "source_lang": "EN"})
        assert answer.status_code == 503
        assert int(answer.headers["Retry-After"]) >= 1
        assert "the queue is full" in answer.json()["message"]
        translator.gate.set()
        for connection in (first, second):
            with connection:
                assert connection.recv(100).startswith(b"HTTP/1.1 200")


def test_a_client_that_goes_away_is_forgotten():
    with serving() as running:
        translator = running.models[0].translator()
        translator.gate.clear()
        first = raw(running, request_bytes(json.dumps(ASKED).encode()))
        wait_for(lambda: translator.batches)
        waiting = raw(running, request_bytes(json.dumps({**ASKED, "q": "gone"}).encode()))
        wait_for(lambda: running.metrics()["nmt_waiting_pieces"] == 2)
        waiting.close()
        wait_for(lambda: running.metrics()["nmt_waiting_pieces"] == 0)
        translator.gate.set()
        with first:
            assert first.recv(100).startswith(b"HTTP/1.1 200")
        assert translator.batches == [["the cat"]]
        name = 'nmt_requests_total{dialect="libretranslate",status="499"}'
        wait_for(lambda: running.metrics().get(name) == 1)


class Steps:
    """A gate through which a number of searches may pass."""

    def __init__(self, count):
        self.left = threading.Semaphore(count)

    def wait(self, seconds):
        """Pass."""
        return self.left.acquire(timeout=seconds)

    def set(self):
        """Let all pass."""
        self.left.release(1_000)


@pytest.mark.parametrize("passing", [0, 2])
def test_a_reader_of_a_stream_who_goes_away_is_forgotten(passing):
    with serving() as running:
        translator = running.models[0].translator()
        translator.gate, translator.batch_tokens = Steps(passing), 2
        body = json.dumps({**ASKED, "q": MANY}).encode()
        with raw(running, request_bytes(body).replace(b"/translate", b"/stream")) as connection:
            received = b""
            while passing and b"WORD" not in received:
                received += connection.recv(1_000)
            wait_for(lambda: len(translator.batches) == passing + 1)
        wait_for(lambda: running.service.pool.waiting == 0)
        translator.gate.set()
        assert running.translate("a").status_code == 200
        assert len(translator.batches) == passing + 2


@pytest.mark.parametrize("method", ["prepare", "search"])
def test_a_lack_of_memory_is_answered_in_words_for_a_client(monkeypatch, method, capfd):
    def refuse(self, texts, **_):
        raise BeamTooWideError("line 1: the search needs more memory than there is. Lower --beam.")

    with serving() as running:
        monkeypatch.setattr(Capitals, method, refuse)
        answer = running.translate("a")
    assert answer.status_code == 503
    assert int(answer.headers["Retry-After"]) > 0
    assert answer.json()["error"].startswith("The server has too little memory for a sentence of this text.")
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("text", ["fail", "fail early"])
@pytest.mark.parametrize("path", ["/translate", "/v2/translate"])
def test_an_internal_error_is_answered_in_the_dialect_and_logged(server, path, text, capfd):
    body = {**ASKED, "q": text} if path == "/translate" else {"text": text, "source_lang": "EN", "target_lang": "DE"}
    answer = server.client.post(path, json=body)
    assert answer.status_code == 500
    assert answer.json() == {
        "error" if path == "/translate" else "message": "An internal error; the server's log has more."
    }
    assert "ZeroDivisionError" in capfd.readouterr().err
    assert server.translate("a").status_code == 200


@pytest.mark.parametrize(
    "sent", [b"", b"POST /translate HT", b"GET / HTTP/1.1\r\nX: ", request_bytes(b"{", length=100)], ids=len
)
def test_a_client_that_stalls_is_hung_up_on(server, sent, monkeypatch):
    monkeypatch.setattr(Connection, "seconds", 0.1)
    monkeypatch.setattr(exchange, "_SECONDS_TO_SEND", 0.1)
    with raw(server, sent) as connection, contextlib.suppress(ConnectionResetError):
        while connection.recv(10_000):
            pass


def test_a_client_that_trickles_is_hung_up_on(server, monkeypatch):
    monkeypatch.setattr(Connection, "seconds", 0.1)
    with raw(server, b"GET / HTTP/1.1\r\nX: ") as connection, pytest.raises(OSError):
        for _ in range(int(SECONDS / 0.02)):
            connection.sendall(b"x")
            time.sleep(0.02)


@pytest.mark.parametrize("path", ["/translate", "/stream"])
def test_a_client_that_does_not_read_is_hung_up_on(path, monkeypatch):
    monkeypatch.setattr(Connection, "seconds", 1.0)
    line = "x" * 10_000 + "\n"
    asked = {**ASKED, "q": line * 300, "alternatives": 2} if path == "/translate" else {**ASKED, "q": line * 900}
    with serving(limits=Limits(max_characters=20_000_000)) as running:
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.connect(("127.0.0.1", running.port))
        connection.sendall(request_bytes(json.dumps(asked).encode()).replace(b"/translate", path.encode()))
        wait_for(lambda: not running.connections())
        received = 0
        with connection, contextlib.suppress(ConnectionResetError):
            while chunk := connection.recv(65_536):
                received += len(chunk)
        assert 0 < received < 9_000_000


def test_a_client_that_waits_is_not_hung_up_on(monkeypatch):
    monkeypatch.setattr(Connection, "seconds", 0.5)
    with serving() as running:
        translator = running.models[0].translator()
        translator.gate.clear()
        with raw(running, request_bytes(json.dumps(ASKED).encode())) as connection:
            wait_for(lambda: translator.batches)
            monkeypatch.setattr(Connection, "seconds", 0.05)
            time.sleep(1.0)
            translator.gate.set()
            assert connection.recv(100).startswith(b"HTTP/1.1 200")


def test_what_is_not_http_is_refused_and_harms_nobody(server, caplog):
    for data in (b"\0" * 100, b"A" * 300_000, b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 60_000):
        with raw(server, data) as connection:
            assert connection.recv(100).startswith(b"HTTP/1.1 400")
    chunked = request_bytes(b"", "Transfer-Encoding: chunked").replace(b"Content-Length: 0\r\n", b"")
    with raw(server, chunked + b"zz\r\n") as connection:
        connection.recv(100)
    body = b"x" * 1_000_000
    with raw(server, chunked + b"%x\r\n%b\r\n" % (len(body), body)) as connection:
        assert connection.recv(100).startswith(b"HTTP/1.1 413")
        connection.sendall(b"not a chunk\r\n")
        connection.recv(100)
    assert server.translate("a").status_code == 200
    assert [record for record in caplog.records if record.exc_info] == []


def test_a_keep_alive_connection_answers_several_requests(server):
    with raw(server, request_bytes(json.dumps(ASKED).encode()) * 3) as connection:
        received = b""
        while received.count(b"THE CAT") < 3:
            chunk = connection.recv(10_000)
            assert chunk
            received += chunk
