"""Every parameter of every dialect: given several times, empty, null; and requests that are as large as they may be."""

import asyncio
import json

import pytest

from nmt.server import exchange
from nmt.server.access import Access
from nmt.server.app import OPERATIONS, application
from nmt.server.exchange import Limits, Server
from nmt.server.loader import Loader
from nmt.server.metrics import Metrics
from nmt.server.models import Models
from nmt.server.pool import Pool
from nmt.server.service import Service
from tests.growth import assert_linear
from tests.server.doubles import KnownWords, Model, serving

ASKED = {"q": "the cat", "source": "en", "target": "de"}
DIRECTION = {"source_lang": "EN", "target_lang": "DE"}
BODIES = ("POST", "PUT", "PATCH")
EXAMPLES = {
    "POST /translate": ASKED,
    "GET /translate": {"q": "the cat", "langpair": "en|de"},
    "/stream": ASKED,
    "/detect": {"q": "the cat"},
    "POST /v2/glossaries": {"name": "x", **DIRECTION, "entries": "cat\tKatze"},
    "/v3/glossaries/{glossary_id}/entries": DIRECTION,
    "DELETE /v3/glossaries/{glossary_id}/dictionaries": DIRECTION,
    "PUT /v3/glossaries/{glossary_id}/dictionaries": {**DIRECTION, "entries": "cat\tKatze"},
    "/v2/translate": {"text": "the cat", **DIRECTION},
}
FIELDS = [
    pytest.param(method, one.path, field, example, name, id=f"{method} {one.path} {name}")
    for one in OPERATIONS
    for method in one.methods.split()[:1]
    for example in [EXAMPLES.get(f"{method} {one.path}", EXAMPLES.get(one.path, {}))]
    for name, field in one.parameters.model_fields.items()
    if not one.takes_file and f"{{{name}}}" not in one.path
]
KEYS = [("/v2/usage", "auth_key"), ("/v2/languages", "auth_key"), ("/detect", "api_key"), ("/translate", "key")]


@pytest.mark.parametrize(("method", "path", "field", "asked", "name"), FIELDS)
def test_a_repeated_parameter_is_a_list_or_refused(server, method, path, field, asked, name):
    given = {**asked, name: [asked.get(name, "x"), "y"]}
    answers = [server.client.request(method, path, params=given)]
    if method in BODIES:
        answers += [server.client.request(method, path, **{kind: given}) for kind in ("data", "json")]
        files = [(key, (None, each)) for key, values in given.items() for each in ([values] if key != name else values)]
        answers += [server.client.request(method, path, files=files)]
    for answer in answers:
        if "list" in str(field.annotation):
            assert answer.status_code == 200 or name not in asked
            assert name not in asked or "THE CAT" in answer.text
            assert name not in asked or '"Y"' in answer.text
        else:
            assert (answer.status_code, f"{name}: given 2 times; give it once." in answer.text) == (400, True)


@pytest.mark.parametrize(("path", "name"), KEYS)
def test_a_repeated_key_is_refused(path, name):
    with serving(keys=["one"]) as running:
        method = "GET" if name == "key" else "POST"
        answer = running.client.request(method, path, params={name: ["one", "two"]})
        assert (answer.status_code, f"{name}: given 2 times" in answer.text) == (400, True)


@pytest.mark.parametrize(("method", "path", "field", "asked", "name"), FIELDS)
def test_a_parameter_that_is_empty_or_null_counts_as_left_out(server, method, path, field, asked, name):
    asked = {key: value for key, value in asked.items() if key != name}
    is_text = name in ("q", "text")  # it may be empty
    given = [] if is_text else [{"params": {**asked, name: ""}}]
    if method in BODIES:
        given += [{"json": {**asked, name: None}}]
        given += [] if is_text else [{"data": {**asked, name: ""}}, {"json": {**asked, name: ""}}]
    expected = server.client.request(method, path, params=asked)
    assert (expected.status_code == 400) is field.is_required()
    for request in given:
        answer = server.client.request(method, path, **request)
        assert answer.status_code == expected.status_code
        assert answer.text == expected.text or answer.status_code == 201  # another glossary


@pytest.mark.parametrize("charset", ["punycode", "idna", "undefined", "us-ascii", "utf-7", "latin-1", "x" * 500])
@pytest.mark.parametrize("kind", ["multipart/form-data; boundary=x", "application/json", "application/x-y"])
def test_another_charset_is_refused(server, kind, charset, capfd):
    answer = server.client.post("/translate", content=b"a", headers={"Content-Type": f"{kind}; charset={charset}"})
    assert (answer.status_code, "charset" in answer.json()["error"]) == (400, True)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(("text", "status"), [(b"caf\xe9", 400), (b"caf\xc3\xa9", 200)])
@pytest.mark.parametrize("charset", ["", "; charset=UTF-8", '; charset="utf8"'])
def test_bytes_that_are_not_utf8_are_refused(server, charset, text, status):
    body = b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\n' + text + b"\r\n--x--\r\n"
    headers = {"Content-Type": f"multipart/form-data; boundary=x{charset}"}
    answer = server.client.post("/translate?source=en&target=de", content=body, headers=headers)
    assert (answer.status_code, "CAFÉ" in answer.text) == (status, status == 200)
    answer = server.client.get("/translate?langpair=en|de&q=" + "".join(f"%{byte:02x}" for byte in text))
    assert (answer.status_code, "CAFÉ" in answer.text) == (status, status == 200)


def test_a_key_is_checked_before_the_body_is_read(monkeypatch):
    async def body(request, server, max_bytes):
        raise AssertionError

    monkeypatch.setattr(exchange, "_body", body)
    with serving(keys=["one"]) as running:
        assert running.client.get("/metrics", headers={"Authorization": "Bearer wrong"}).status_code == 403
        assert running.client.post("/detect", params={"api_key": "wrong"}).status_code == 403
    with serving(requests_per_minute=1) as running:
        assert [running.client.post("/detect").status_code for _ in range(2)] == [500, 429]


def test_what_arrives_at_the_same_time_is_bounded(monkeypatch):
    monkeypatch.setattr(exchange, "_MAX_ARRIVING", 0)
    with serving() as running:
        answer = running.client.post("/translate", json=ASKED)
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "10")
        monkeypatch.setattr(exchange, "_MAX_ARRIVING", 1)
        assert [running.client.post("/translate", json=ASKED).status_code for _ in range(2)] == [200, 200]


JSON = (b"content-type", b"application/json")
PART = b'--x\r\nContent-Disposition: form-data; name="%d"\r\n\r\na\r\n'
FILE = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'


def named(form, size):
    """A form of as many distinct names as have room."""
    return b"".join(form % number for number in range(size // (len(form) + 3)))


# What a request of so many bytes is made of: method, path, query, headers, body.
LARGE = {
    "address": lambda size: ("GET", "/translate", named(b"p%d=1&", size), (), b""),
    "address without key": lambda size: ("GET", "/health/live", named(b"p%d=1&", size), (), b""),
    "form": lambda size: ("POST", "/translate", b"", (), named(b"p%d=1&", size)),
    "parts": lambda size: ("POST", "/detect", b"", MULTIPART, named(PART, size) + b"--x--"),
    "part": lambda size: ("POST", "/detect", b"", MULTIPART, PART % 1 + b"\r\n--" * (size // 4)),
    "file": lambda size: ("POST", "/translate_file", b"", MULTIPART, FILE + b"\r\n--" * (size // 4) + b"\r\n--x--"),
    "charset": lambda size: ("POST", "/detect", b"", PUNYCODE, PART % 1 + b"-a" * (size // 2) + b"\r\n--x--"),
    "wide": lambda size: ("POST", "/detect", b"", (JSON,), b"{" + named(b'"p%d":1,', size) + b'"q":1}'),
    "lists": lambda size: ("POST", "/detect", b"", (JSON,), b'{"q":[' + b"[]," * (size // 3) + b"1]}"),
    "deep": lambda size: ("POST", "/detect", b"", (JSON,), b'{"q":' * (size // 5)),
    "texts": lambda size: ("POST", "/translate", b"", (JSON,), encoded({**ASKED, "q": [""] * (size // 7)})),
    "lines": lambda size: ("POST", "/stream", b"", (JSON,), encoded({**ASKED, "q": "a\n" * (size // 14)})),
    "content type": lambda size: ("POST", "/detect", b"", [(b"content-type", b"a/b;" + b';"' * (size // 2))], b"{}"),
    "origin": lambda size: ("GET", "/metrics", b"", [(b"host", b"a:" * (size // 2)), (b"origin", b"[/:" * size)], b""),
}
MULTIPART = ((b"content-type", b"multipart/form-data; boundary=x"),)
PUNYCODE = ((b"content-type", b"multipart/form-data; boundary=x; charset=punycode"),)


def encoded(document):
    return json.dumps(document).encode()


@pytest.fixture(scope="module")
def app():
    """The application alone, and its pool."""
    models = Models([Model("en", "de")])
    pool = Pool(1, max_waiting=1_000_000)
    service = Service(models, pool, KnownWords(models.languages), Metrics(), Loader())
    yield application(Server(service, Access(), Limits()))
    pool.close()


async def ask(app, method, path, query, headers, body):
    """Send a request. Returns the status of its answer."""
    scope = {"type": "http", "method": method, "path": path, "query_string": query, "headers": list(headers)}
    scope |= {"http_version": "1.1", "scheme": "http", "client": ("1.2.3.4", 5), "server": ("x", 80), "root_path": ""}
    sent, statuses, whole = [{"type": "http.request", "body": body, "more_body": False}], [], asyncio.Event()

    async def receive():
        if sent:
            return sent.pop()
        await whole.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        statuses.append(message.get("status"))
        if message["type"] == "http.response.body" and not message.get("more_body"):
            whole.set()

    await app(scope, receive, send)
    return statuses[0]


@pytest.mark.parametrize("shape", LARGE)
def test_time_grows_with_the_size_of_a_request(app, shape):
    assert_linear(lambda text: asyncio.run(ask(app, *LARGE[shape](len(text)))), "x", 10_000)


@pytest.mark.parametrize("shape", ["texts", "lines"])
def test_a_large_request_lets_others_have_their_turns(app, shape):
    turns = 0

    async def count():
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async def both():
        counting = asyncio.ensure_future(count())
        status = await ask(app, *LARGE[shape](28_000))
        counting.cancel()
        return status

    assert asyncio.run(both()) == 200
    assert turns > 2_000 / 100
