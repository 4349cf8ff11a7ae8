"""URLs and e-mail addresses of both sides."""

import pytest

from nmt.corpora.filters.web_addresses import web_addresses, web_addresses_differ


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("no address: www, http, @ or a@b", set()),
        ("See https://example.org/a?b=c#d.", {"https://example.org/a?b=c#d"}),
        ("(www.Example.org/)", {"www.example.org"}),
        ("WWW.EXAMPLE.ORG!", {"www.example.org"}),
        ("访问http://example.org吧", {"http://example.org"}),
        ("Write to me.too+x@mail.example.org, please", {"me.too+x@mail.example.org"}),
        ("写信给a@example.org。", {"a@example.org"}),
        ("ftp://example.org and ftp://example.org/", {"ftp://example.org"}),
        ("<https://example.org>", {"https://example.org"}),
        ('"https://example.org"', {"https://example.org"}),
    ],
)
def test_web_addresses_of_a_line(line, expected):
    assert web_addresses(line) == expected


def test_pairs_with_different_addresses_are_found():
    assert not web_addresses_differ(("See www.example.org.", "Siehe www.example.org"))
    assert not web_addresses_differ(("a b", "c d"))
    assert web_addresses_differ(("See www.example.org/en", "Siehe www.example.org/de"))
    assert web_addresses_differ(("Write to a@example.org", "Schreiben Sie uns"))
    assert web_addresses_differ(("a", "https://example.org"))
