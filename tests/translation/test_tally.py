"""What ``nmt translate`` says at its end."""

from nmt.translation.guard import Finding
from nmt.translation.results import BLANK, Translation
from nmt.translation.tally import Tally

LOOPING = Translation("source", (BLANK,), guard=Finding(("looping", "too_long"), repaired=False))
REPAIRED = Translation("source", (BLANK,), guard=Finding(("empty",), repaired=True))


def test_the_summary_names_the_first_lines_that_were_not_repaired():
    tally = Tally()
    for number in range(1, 21):
        tally.add(number, LOOPING if number % 2 else REPAIRED)
    [remark] = tally.warnings(256, guard=True, prefixed=False)
    assert "looked wrong: 20 (" in remark
    assert "repaired: 10. Not repaired: lines 1, 3, 5, 7, 9 and 5 more." in remark
    tally = Tally()
    tally.add(1_234, LOOPING)
    assert "Not repaired: line 1,234." in tally.warnings(256, guard=True, prefixed=False)[0]
    assert tally.warnings(256, guard=False, prefixed=False) == []


def test_problems_that_do_not_add_up_are_not_listed_as_if_they_did():
    tally = Tally()
    tally.add(1, LOOPING)
    [warning] = tally.warnings(256, guard=True, prefixed=False)
    assert "looked wrong: 1 (by problem: looping 1, too long 1; a line may have several); repaired: 0." in warning
    tally = Tally()
    tally.add(1, REPAIRED)
    tally.add(2, REPAIRED)
    [warning] = tally.warnings(256, guard=True, prefixed=False)
    assert "looked wrong: 2 (empty 2); repaired: 2." in warning


def test_the_summary_of_a_resumed_output_says_where_it_begins():
    tally = Tally(first_line=2_049)
    tally.add(2_050, LOOPING)
    tally.add(2_051, Translation("ba", (BLANK,), parts=2))
    tally.add(2_052, Translation("ba", (BLANK,), parts=2, is_cut=True))
    cut, wrong = tally.warnings(256, guard=True, prefixed=False)
    assert cut.startswith("lines cut into parts since line 2,049: 1. ")
    assert wrong.startswith("translations that looked wrong since line 2,049: 1 (")
    assert tally.notices(prefixed=False)[0].startswith("lines translated sentence by sentence since line 2,049: 1.")


def test_a_prefix_that_is_left_out_is_warned_about():
    tally = Tally()
    tally.add(1, Translation("ba", (BLANK,), parts=2))
    assert tally.notices(prefixed=True) == []
    [warning] = tally.warnings(256, guard=True, prefixed=True)
    assert warning.endswith("sentence by sentence: 1. Their prefixes were left out.")


def test_paragraphs_in_sentences_are_not_worth_a_word():
    tally = Tally("paragraphs")
    tally.add(1, Translation("ba", (BLANK,), parts=2))
    assert tally.notices(prefixed=False) == tally.warnings(256, guard=True, prefixed=False) == []
    tally.add(3, Translation("ba", (BLANK,), parts=2, is_cut=True))
    assert tally.warnings(256, guard=True, prefixed=False)[0].startswith("paragraphs cut into parts: 1. ")
