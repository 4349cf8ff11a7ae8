"""Numbers, web addresses and placeholders: what is one, and whether a translation has changed it."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.text.verbatim import numbers, numbers_changed, placeholders, web_addresses


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("none", []),
        ("1,000 or 1.000 or 1 000 or 1'000 or 1’000 or 1000", ["1000"] * 6),
        ("1\u00a0000\u202f000", ["0", "1000"]),
        ("1,234,567.89", ["1234567", "89"]),
        ("1.234.567,89", ["1234567", "89"]),
        ("3.5 and 3,5", ["3", "3", "5", "5"]),
        ("12,34,567 or १,००,०००, but 1,23,45", ["1234567", "100000", "1", "23", "45"]),
        ("１，２３４ and 1，234", ["1234", "1", "234"]),
        ("12.05.2019", ["12", "2019", "5"]),
        ("12/5/2019", ["12", "2019", "5"]),
        ("2019.123", ["123", "2019"]),
        ("007", ["7"]),
        ("0 00", ["0", "0"]),
        ("١٬٢٣٤", ["1234"]),
        ("१२ और १२", ["12", "12"]),
        ("１２３円", ["123"]),
        ("x²", []),
        ("1" * 5_000, ["1" * 5_000]),
    ],
)
def test_numbers_of_a_line(line, expected):
    assert sorted(numbers(line)) == sorted(expected)


@given(st.lists(st.integers(0, 10**9), max_size=5), st.sampled_from(".,'’"), st.sampled_from(".,'’"))
def test_separators_change_nothing(values, first, second):
    """Written in any style, the numbers of a line are the numbers."""
    sides = ["; ".join(f"{value:,}".replace(",", separator) for value in values) for separator in (first, second)]
    assert numbers(sides[0]) == numbers(sides[1]) == list(map(str, values))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("no address: www, http, @ or a@b", set()),
        ("See https://example.org/a?b=c#d.", {"https://example.org/a?b=c#d"}),
        ("(www.Example.org/)", {"www.example.org"}),
        ("It is the end.Start/stop it in St.Gallen/Zug, Sec.and/or.", set()),
        ("WWW.EXAMPLE.ORG!", {"www.example.org"}),
        ("访问http://example.org吧", {"http://example.org"}),
        ("Write to me.too+x@mail.example.org, please", {"me.too+x@mail.example.org"}),
        ("写信给a@example.org。", {"a@example.org"}),
        ("ftp://example.org and ftp://example.org/", {"ftp://example.org"}),
        ("<https://example.org>", {"https://example.org"}),
        ('"https://example.org"', {"https://example.org"}),
        ("см. http://пример.рф/путь, да", {"http://пример.рф/путь"}),
        (
            "https://example.org/שלום?q=ä؟ https://example.org/हिन्दी।",
            {"https://example.org/שלום?q=ä", "https://example.org/हिन्दी"},
        ),
        ("https://example.org/にhttps://example.org/中", {"https://example.org"}),
        ("https://example.org를", {"https://example.org"}),
    ],
)
def test_web_addresses_of_a_line(line, expected):
    assert web_addresses(line) == expected


PARTS = "http://1 www.1 WWW.a 1@2.3 a.ORG a.de/ {a} %s <br> &nbsp; $a1 [[a]] __A__ :ab: . / @ a 0 ä 中"


def test_no_line_is_passed_over():
    """What stands behind changes nothing, but makes the line one that is searched."""
    words = PARTS.split()
    for line in map("".join, itertools.product(words, ["", *words])):
        assert web_addresses(line) == web_addresses(f"{line} @") == web_addresses(f"{line} ://")
        assert placeholders(line) == placeholders(f"{line} _") == placeholders(f"{line} {{")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Hello {name}, {0} of {{ total }}, ${x} #{y} {}", ["{name}", "{0}", "{{ total }}", "${x}", "#{y}", "{}"]),
        (
            "%s of %1$d: %5.2f, 5 %(name)rs, %@, %-3ld日 and %user%",
            ["%s", "%1$d", "%5.2f", "%(name)r", "%@", "%-3ld", "%user%"],
        ),
        ("50 % des Preises, 100% des, 50 %, 7%s, 20\u00a0%d, %-Zeichen, 3 %ig", []),
        (
            "{{ name|upper }} {{#if a b}} {% include 'x.html' %} $t(two words) {{ {% x } {a b} t(x)",
            ["{{ name|upper }}", "{{#if a b}}", "{% include 'x.html' %}", "$t(two words)"],
        ),
        ("[[page]] __NAME__ :smile: $home", ["[[page]]", "__NAME__", ":smile:", "$home"]),
        ("[1] __init _x_ 10:30:00 a:b:c $5 US$a :-) 1:a:2", []),
        ('<a href="x.html">a</a> <br/> <0>b</0> <x1 />', ["<a", "</a", "<br", "<0", "</0", "<x1"]),
        ("a<br>b <b>c</b> <i><h1>", ["<br", "<b", "</b", "<i", "<h1"]),
        ("I <3 you, a <b and c> d, <file>, <unk>, <s>, 1 < 2 > 0, a < b > c", []),
        ("&nbsp;&lt;&#8217;", ["&nbsp;", "&lt;", "&#8217;"]),
        ("R&D; &amp; &quot;x&quot; it&#39;s", []),
        ("see https://example.org/?a=%s#{id}", ["{id}"]),
    ],
)
def test_placeholders_of_a_line(line, expected):
    assert list(placeholders(line).elements()) == expected


SAME = [
    ("two dogs", "2 Hunde"),
    ("1,00,000 or 12,34,567", "100.000 oder 1.234.567"),
    ("at 10:30 pm", "um 22.30 Uhr"),
    ("at 12 am", "um 0 Uhr"),
    ("12/31/2020", "31. Dezember 2020"),
    ("in the XIXth century", "im 19. Jahrhundert"),
    ("the 18th century", "1700-talet"),
    ("the 1980s", "die 80er"),
    ("1990-95", "1990–1995"),
    ("since 5/6/24", "seit dem 5. Juni 2024"),
    ("the class of ’98", "der Jahrgang 1998"),
    ("in the 1990s", "dans les années 90"),
    ("at 5 p.m.", "um 17 Uhr"),
    ("下午5点", "at 17:00"),
    ("since 2020", "ตั้งแต่ พ.ศ. ๒๕๖๓"),
    ("ในปี 2563", "in 2020"),
    ("2.5 million and 3 thousand", "2,500,000 und 3.000"),
    ("1億2000万人", "120 million people"),
    ("1万5千円", "15,000 yen"),
    ("二〇二〇年, 一百五十", "2020, 150"),
    ("አንቀጽ ፳፭", "Article 25"),
    ("٢٥ or २५ or ２５", "25 or 25 or 25"),
    ("½ of 2½", "1/2 von 2,5"),
    ("+49 (0)30 12 34 56", "+49 030 123456"),
    ("007 and -5 m²", "7 und minus 5 m2"),
    ("1.05 and 1.5", "1,5 und 1,05"),
    ("20 or 100 people", "zwanzig oder hundert Leute"),
    ("5.3.2021 and 5.3. or 8:00", "5 March 2021 and 5 March or eight"),
    ("2.00 Euros, 20,000 men", "2 Euros, zwanzigtausend"),
    ("%1$s of {0} on https://example.org/123", "{0} und %1$s"),
]
OTHER = [
    ("45 dogs", "54 Hunde"),
    ("7 dogs", "8 Hunde"),
    ("45 dogs", "Hunde"),
    ("20 dogs", "200 Hunde"),
    ("a man", "ein Mann 4711"),
    ("1.05", "1.5"),
    ("3.5 and 2.3", "5,3 und 3,2"),
    ("3.5", "35"),
    ("12345", "12346"),
    ("in 1984", "im Jahr 1948"),
    ("in 2020", "im Jahr 2563"),
    ("in 2020", "ในปี 2562"),
    ("number 2024", "Nummer 24"),
    ("24 doors", "1924 Türen"),
    ("13 dogs", "1 Hund"),
    ("21 dogs", "9 Hunde"),
    ("1800 dogs", "19 Hunde"),
    ("at 5 pm and 6 pm", "um 17 und 17 Uhr"),
    ("25 people", "二十六人"),
    ("Louis XVI and 17", "Louis XVI und 19"),
    ("2 and 25 and 25", "2 und 25"),
    ("13 dogs", "Hunde"),
    *((f"It is {number} today.", "Es ist heute.") for number in ("3.5", "v2.0.1", "-5 °C", "2,5", "10:30", "٣٫٥")),
    ("It costs 3.5. Buy it.", "Kauf es."),
]


@pytest.mark.parametrize(("source", "target"), [*SAME, *((b, a) for a, b in SAME)])
def test_numbers_in_another_form_are_the_same(source, target):
    assert not numbers_changed(source, target)


@pytest.mark.parametrize(("source", "target"), OTHER)
def test_other_numbers_are_found(source, target):
    assert numbers_changed(source, target)


def test_what_a_source_may_have_in_words_is_not_invented():
    assert not numbers_changed("thirty-five dogs", "35 Hunde")
    assert numbers_changed("35 dogs", "lange Hunde")
