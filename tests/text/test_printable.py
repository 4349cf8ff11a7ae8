"""What reaches a terminal steers nothing."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.text.printable import counted, has_control_characters, printable, writable

STEERING = ["\0", "\x07", "\b", "\r", "\x1b", "\x7f", "\x85", "\x9b", "\u202e", "\u2066", "\u2069", "\u2028", "\udc80"]


@pytest.mark.parametrize("character", STEERING)
def test_what_steers_a_terminal_is_spelt_out(character):
    assert printable(f"a{character}b") == f"a\\u{ord(character):04x}b"
    assert has_control_characters(f"a{character}b")


@given(st.text(st.characters()))
def test_all_else_stays(text):
    shown = printable(text)
    for character in shown:
        assert unicodedata.category(character) not in ("Cc", "Cs") or character in "\t\n"
    if not has_control_characters(text):
        assert shown == text
    writable(text).encode()


def test_ordinary_text_of_any_language_stays():
    text = "tab\there\nپیام می\u200cخواهم 👩\u200d🚀 é [red]x[/red] \u200f"
    assert printable(text) == text


@given(st.text(st.characters()))
def test_json_means_the_same(text):
    assert json.loads(printable(json.dumps([text], ensure_ascii=False))) == [text]


def test_one_thing_is_counted_in_the_singular():
    assert [counted(count, "pair") for count in (0, 1, 2_000)] == ["0 pairs", "1 pair", "2,000 pairs"]
