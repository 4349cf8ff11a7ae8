"""Addresses: names that lead nowhere else, and secrets that are not written."""

import pytest

from nmt.text.addresses import (
    beside,
    check_address,
    file_name,
    folder_parts,
    public_address,
    without_secrets,
    without_user,
)


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("https://host/a/b%20c.tgz?version=2", "b c.tgz"),
        ("http://host:8080/d%C3%A9j%C3%A0.gz", "déjà.gz"),
        ("http://u:p@host/%2e%2e/a..tgz#part", "a..tgz"),
    ],
)
def test_a_name_is_the_decoded_last_part(address, name):
    check_address(address)
    assert file_name(address) == name


@pytest.mark.parametrize(
    "end",
    [
        "", ".", "..", "%2e", "%2E%2e", "%2Fhome%2Fu%2F.bashrc", "..%2F..%2Fevil", "a%5Cb", "a%00b", "a%0Ab", "a%1b[2J",
        "a%7F", "a%C2%9B", "a%E2%80%AE", "%FF", "a" * 201, "a.tgz.part", "a.tgz.sha256",
    ],
)  # fmt: skip
def test_other_names_are_refused(end):
    with pytest.raises(ValueError, match="name"):
        check_address(f"http://host/x/{end}")


@pytest.mark.parametrize(
    "address",
    [
        "ftp://host/a", "/etc/passwd", "http:///x/a", "http://./x/a", "http://../x/a", "http://u:secret@../a",
        "http://host:port/a", "http://u:sec/ret@host/a", "http://[::1/a", "http://h\u2100st/a", "http://host/\ud800/a",
        "http://host/x\n/a", "http://a\\b/c", "http://host:0/a",
    ],
)  # fmt: skip
def test_other_addresses_are_refused_without_being_quoted(address):
    with pytest.raises(ValueError, match=r"must|contains|names|has|is not") as error:
        check_address(address)
    assert "sec" not in str(error.value)
    assert "ret@" not in str(error.value)


@pytest.mark.parametrize(
    ("address", "folders"),
    [
        ("http://host/a.tgz", ["host"]),
        ("http://u:p@host:80/x/../y//z/a.tgz?q=/w/", ["host_80", "x", "y", "z"]),
        ("http://host/%2e%2e/%2Fetc/a", ["host", "%2e%2e", "%2Fetc"]),
        ("http://[::1]:8/a", ["[__1]_8"]),
    ],
)
def test_folders_stay_below_the_cache_and_hold_no_secret(address, folders):
    assert folder_parts(address) == folders


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("https://user:pa:ss@host:8/x/a.tgz?X-Signature=abc&b=1#f", "https://host:8/x/a.tgz"),
        ("https://u@v:p@host/a@b/c", "https://host/a@b/c"),
        ("http:/u:p@host/a", "http:/host/a"),
        ("/folder/with?/a@b", "/folder/with?/a@b"),
    ],
)
def test_what_may_be_written_of_an_address(address, public):
    assert public_address(address) == public


def test_what_is_asked_for_keeps_its_query():
    assert without_user("https://u:p@host/a?sig=1") == "https://host/a?sig=1"
    assert beside("https://u:p@host/m/?sig=1", "a b?.tgz") == "https://u:p@host/m/a%20b%3F.tgz?sig=1"


def test_text_that_quotes_an_address_loses_its_secrets():
    quoted = without_secrets("got 'ftp://u:p/w@host/a?sig=abc'")
    assert "p/w" not in quoted
    assert "abc" not in quoted
    assert "ftp://host/a" in quoted
    assert without_secrets("text? yes, a@b") == "text? yes, a@b"
