"""Keys, rate limits, and pages that may ask."""

import pytest

from nmt.errors import ConfigError
from nmt.server.access import Access, check_origin, is_loopback, read_keys
from nmt.server.errors import RequestError


class Clock:
    """A clock that a test sets."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def status(access, key=None, address="1.2.3.4"):
    try:
        access.check(key, address)
    except RequestError as error:
        return error.status, error.retry_after
    return None


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_keys_are_read_without_comments(tmp_path, encoding):
    path = tmp_path / "keys"
    path.write_text("one \r\n# ours\n\ntwo\n  # three\n", encoding)
    assert read_keys(path) == ["one", "two"]


@pytest.mark.parametrize("content", [b"", b"# nothing\n", b"\xff\n", None, "one\nzwö\n".encode(), b"a\0b"])
def test_a_file_without_keys_is_an_error(tmp_path, content):
    path = tmp_path / "keys"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"--api-keys .*keys"):
        read_keys(path)


@pytest.mark.parametrize("key", [None, "", "on", "one ", "onee", "ONE", "ö", "two\0"])
def test_a_wrong_key_is_refused(key):
    assert status(Access(["one", "two"]), key) == (403, None)
    assert status(Access(), key) is None


def test_each_key_is_accepted():
    assert [status(Access(["one", "zwö"]), key) for key in ("one", "zwö")] == [None, None]


def test_keys_are_compared_in_constant_time(monkeypatch):
    compared = []
    monkeypatch.setattr("hmac.compare_digest", lambda one, other: compared.append((one, other)) or False)
    assert status(Access(["one", "two"]), "key") == (403, None)
    assert compared == [(b"key", b"one"), (b"key", b"two")]


def test_requests_are_limited_per_address_and_refused_ones_do_not_count():
    access = Access(requests_per_minute=3, clock=(clock := Clock()))
    assert [status(access) for _ in range(9)] == [None] * 3 + [(429, 20)] * 6
    assert status(access, address="5.6.7.8") is None
    clock.now += 20
    assert [status(access), status(access)] == [None, (429, 20)]
    clock.now += 1_000
    assert [status(access) for _ in range(4)] == [None, None, None, (429, 20)]


@pytest.mark.parametrize(
    ("keys", "requests", "expected"),
    [
        (["one", "two"], [("one", "a"), ("one", "b"), ("two", "b")], [None, (429, 60), None]),
        ([], [("one", "a"), ("two", "a")], [None, (429, 60)]),  # a key that nobody asked for
        (["one"], [("no", "a"), ("no", "a"), ("one", "a"), ("no", "b")], [(403, None), (429, 60), None, (403, None)]),
        (["one"], [(None, "a"), (None, "a"), ("one", "a")], [(403, None), (429, 60), None]),
    ],
)
def test_requests_are_limited_per_known_key_and_otherwise_per_address(keys, requests, expected):
    access = Access(keys, requests_per_minute=1, clock=Clock())
    assert [status(access, key, address) for key, address in requests] == expected


def test_the_memory_of_addresses_is_bounded(monkeypatch):
    monkeypatch.setattr("nmt.server.access._MAX_KNOWN", 3)
    access = Access(requests_per_minute=1, clock=Clock())
    for number in range(10):
        assert status(access, address=str(number)) is None
    assert len(access._free) == 3
    assert [status(access, address="5" * size) for size in (1_000, 2_000)] == [None, (429, 60)]
    assert max(map(len, access._free)) == 64
    assert status(access, address="9") == (429, 60)


ORIGINS = "* null https://example.org http://localhost:3000 http://[::1]:8080 moz-extension://a-b"
OTHERS = """https://example.org/ example.org https://Example.org https://example.org:443 http://a:80 https:// https://*
https://*.example.org https://example.org:* https://münchen.de https://a.org,https://b.org https://a.org; https://a\\b"""


def test_an_origin_is_written_as_browsers_send_it():
    for origin in ORIGINS.split():
        check_origin(origin)
    for origin in ["", *OTHERS.split()]:
        with pytest.raises(ConfigError, match=r"--allow-origin .*https://example\.org\."):
            check_origin(origin)


def test_loopback_is_open_without_a_key():
    assert all(map(is_loopback, ["127.0.0.1", "127.8.0.1", "::1", "localhost"]))
    assert not any(map(is_loopback, ["0.0.0.0", "::", "192.168.1.1", "example.org", ""]))


def page_status(access, **headers):
    try:
        access.check_page({name.replace("_", "-"): value for name, value in headers.items()})
    except RequestError as error:
        return error.status
    return None


def test_this_machine_is_asked_by_its_names_alone_where_anybody_on_it_may_ask():
    for host in ["127.0.0.1:5000", "localhost:5000", "localhost", "LOCALHOST", "[::1]:5000", "[::1]", ""]:
        assert page_status(Access(only_loopback=True), host=host) is None
    for host in ["evil.example", "evil.example:5000", "127.0.0.1.evil.example", "192.168.1.1:5000", "::"]:
        assert page_status(Access(only_loopback=True), host=host) == 403
        assert page_status(Access(), host=host) is None


@pytest.mark.parametrize(
    ("origins", "headers", "status"),
    [
        ([], {}, None),
        ([], {"sec_fetch_site": "same-origin"}, None),
        ([], {"sec_fetch_site": "none"}, None),
        ([], {"sec_fetch_site": "cross-site"}, 403),
        ([], {"sec_fetch_site": "cross-site", "origin": "https://a.org"}, 403),
        (["https://a.org"], {"sec_fetch_site": "cross-site", "origin": "https://a.org"}, None),
        (["https://a.org"], {"sec_fetch_site": "cross-site", "origin": "https://b.org"}, 403),
        (["https://a.org"], {"sec_fetch_site": "cross-site"}, 403),
        (["*"], {"sec_fetch_site": "cross-site"}, None),
        ([], {"origin": "http://b.org"}, 403),
        ([], {"origin": "http://b.org", "host": "10.0.0.1:5000"}, 403),
        ([], {"origin": "null", "host": "10.0.0.1:5000"}, 403),
        ([], {"origin": "http://10.0.0.1", "host": "10.0.0.1:5000"}, 403),
        ([], {"origin": "http://a.local:5000", "host": "A.local:5000"}, None),
        ([], {"origin": "https://a.org", "host": "127.0.0.1:5000", "sec_fetch_site": "same-origin"}, None),
        (["https://a.org"], {"origin": "https://a.org", "host": "10.0.0.1:5000"}, None),
        (["*"], {"origin": "https://a.org", "host": "10.0.0.1:5000"}, None),
    ],
)
def test_pages_of_other_sites_are_refused_unless_they_are_allowed(origins, headers, status):
    assert page_status(Access(origins=origins), **headers) == status
