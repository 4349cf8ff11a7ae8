"""The repair of UTF-8 that was read in an encoding of 8 bits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.corpora.filters.encoding import repair_encoding

PROPER = [
    "Ein Käse, größer als „üblich“ – 5 €", "L’été à Noël…", "Привет, мир", "犬が走る。", "Zażółć gęślą jaźń",
    "😀 ok", "naïve", "Ærø", "\u00a0", "¿Qué?",
]  # fmt: skip


def misread(line, encoding):
    """What a program shows that takes UTF-8 for an encoding of 8 bits; undefined bytes of cp1252 stay as they are."""
    undefined = () if encoding == "latin-1" else (0x81, 0x8D, 0x8F, 0x90, 0x9D)
    return "".join(chr(byte) if byte in undefined else bytes([byte]).decode(encoding) for byte in line.encode())


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252"])
@pytest.mark.parametrize("line", PROPER)
def test_misread_text_is_repaired_and_proper_text_is_left_alone(line, encoding):
    assert repair_encoding(line) == line
    assert misread(line, encoding) != line
    assert repair_encoding(misread(line, encoding)) == line
    assert repair_encoding(misread(misread(line, encoding), encoding)) == line


@pytest.mark.parametrize(
    "line",
    [
        "Ã¤ and ☃",  # Not all of it was misread.
        "ä and Ã¤",
        "IRMÃ»", "«MANHÃ»", "VOILÂ’ X", "MANHÃ\u00a0",  # The end of a word in capitals.
        "NÃO", "SÃO PAULO", "Ã", "Ââ", "à la", "Â", "£ 5", "ÄÖÜ äöü",
        "Â\u0080",  # It would become a control character.
        "ï¿½",  # It would become U+FFFD.
        "Ã¤\ufffd",
        "plain", "",
    ],
)  # fmt: skip
def test_text_that_is_not_certain_is_left_alone(line):
    assert repair_encoding(line) == line


@given(st.text(st.sampled_from("aZ ÃÂâ€™¤»äöüÀÿß“”…\u00a0\u0080\u009d\ufffd犬")))
def test_a_repair_is_final_and_exact(line):
    repaired = repair_encoding(line)
    assert repair_encoding(repaired) == repaired
    readings = {repaired}
    for _ in range(5):
        readings |= {misread(reading, encoding) for reading in readings for encoding in ("latin-1", "cp1252")}
    assert line in readings


@given(st.text(st.characters(min_codepoint=0x100, exclude_categories=["Cs"]), min_size=1))
def test_text_in_other_scripts_is_never_changed(line):
    if not set(line) & set("€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ"):
        assert repair_encoding(line) == line


@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x24F, exclude_categories=["Cc"])))
def test_misread_latin_is_repaired_or_left_as_it_is(line):
    """Whatever was misread is never made into a third thing."""
    if repair_encoding(line) == line:
        for encoding in ("latin-1", "cp1252"):
            wrong = misread(line, encoding)
            assert repair_encoding(wrong) in (wrong, line)
