"""Keys and rate limits."""

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


def test_keys_are_read_without_comments(tmp_path):
    path = tmp_path / "keys"
    path.write_text("# ours\n\n one \r\ntwo\n  # three\n", "utf-8")
    assert read_keys(path) == ["one", "two"]


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path):
    path = tmp_path / "keys"
    path.write_text("one\n", "utf-8-sig")
    assert read_keys(path) == ["one"]


@pytest.mark.parametrize("content", [b"", b"# nothing\n", b"\xff\n", None, "one\nzwö\n".encode(), b"a\0b"])
def test_a_file_without_keys_is_an_error(tmp_path, content):
    path = tmp_path / "keys"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"--api-keys .*keys"):
        read_keys(path)


def test_without_keys_everybody_may_ask():
    assert status(Access()) is None
    assert status(Access(), "any") is None


@pytest.mark.parametrize("key", [None, "", "on", "one ", "onee", "ONE", "ö", "two\0"])
def test_a_wrong_key_is_refused(key):
    assert status(Access(["one", "two"]), key) == (403, None)


def test_each_key_is_accepted():
    assert [status(Access(["one", "zwö"]), key) for key in ("one", "zwö")] == [None, None]


def test_keys_are_compared_in_constant_time(monkeypatch):
    compared = []
    monkeypatch.setattr("hmac.compare_digest", lambda one, other: compared.append((one, other)) or False)
    assert status(Access(["one", "two"]), "key") == (403, None)
    assert compared == [(b"key", b"one"), (b"key", b"two")]


def test_requests_are_limited_per_address():
    access = Access(requests_per_minute=3, clock=(clock := Clock()))
    assert [status(access) for _ in range(4)] == [None, None, None, (429, 20)]
    assert status(access, address="5.6.7.8") is None
    clock.now += 20
    assert [status(access), status(access)] == [None, (429, 20)]
    clock.now += 1_000
    assert [status(access) for _ in range(4)] == [None, None, None, (429, 20)]


def test_requests_are_limited_per_key_where_keys_are_needed():
    access = Access(["one", "two"], requests_per_minute=1, clock=Clock())
    assert [status(access, key, address) for key, address in (("one", "a"), ("one", "b"), ("two", "b"))] == [
        None,
        (429, 60),
        None,
    ]


def test_a_key_that_nobody_asked_for_does_not_lift_the_limit():
    access = Access(requests_per_minute=1, clock=Clock())
    assert [status(access, key) for key in ("one", "two")] == [None, (429, 60)]


def test_refused_requests_do_not_count():
    access = Access(requests_per_minute=60, clock=(clock := Clock()))
    for _ in range(60):
        assert status(access) is None
    for _ in range(100):
        assert status(access) == (429, 1)
    clock.now += 1
    assert status(access) is None


@pytest.mark.parametrize("key", ["wrong", None])
def test_wrong_keys_are_limited_per_address(key):
    access = Access(["one"], requests_per_minute=1, clock=Clock())
    assert [status(access, key), status(access, key)] == [(403, None), (429, 60)]
    assert status(access, "one") is None
    assert status(access, key, address="5.6.7.8") == (403, None)


@pytest.mark.parametrize(
    "origin", ["*", "null", "https://example.org", "http://localhost:3000", "http://[::1]:8080", "moz-extension://a-b"]
)
def test_an_origin_as_browsers_send_it_is_accepted(origin):
    check_origin(origin)


@pytest.mark.parametrize(
    "origin",
    [
        "https://example.org/",
        "example.org",
        "https://Example.org",
        "https://example.org:443",
        "http://a:80",
        "",
        "https://",
        "https://*",
        "https://*.example.org",
        "https://example.org:*",
        "https://münchen.de",
        "https://a.org,https://b.org",
        "https://a.org;",
        "https://a\\b",
    ],
)
def test_an_origin_that_no_browser_sends_is_an_error(origin):
    with pytest.raises(ConfigError, match=r"--allow-origin .*https://example\.org\."):
        check_origin(origin)


def test_the_memory_of_addresses_is_bounded(monkeypatch):
    monkeypatch.setattr("nmt.server.access._MAX_KNOWN", 3)
    access = Access(requests_per_minute=1, clock=Clock())
    for number in range(10):
        assert status(access, address=str(number)) is None
    assert len(access._free) == 3
    assert [status(access, address="5" * size) for size in (1_000, 2_000)] == [None, (429, 60)]
    assert max(map(len, access._free)) == 64
    assert status(access, address="9") == (429, 60)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "::1", "localhost"])
def test_loopback_is_open_without_a_key(host):
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.1", "example.org", ""])
def test_other_addresses_are_not(host):
    assert not is_loopback(host)


def page_status(access, **headers):
    try:
        access.check_page({name.replace("_", "-"): value for name, value in headers.items()})
    except RequestError as error:
        return error.status
    return None


@pytest.mark.parametrize(
    "host", ["127.0.0.1:5000", "localhost:5000", "localhost", "LOCALHOST", "[::1]:5000", "[::1]", ""]
)
def test_this_machine_is_asked_by_its_names(host):
    assert page_status(Access(only_loopback=True), host=host) is None


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:5000", "127.0.0.1.evil.example", "192.168.1.1:5000", "::"]
)
def test_another_name_of_this_machine_is_refused_where_anybody_on_it_may_ask(host):
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
