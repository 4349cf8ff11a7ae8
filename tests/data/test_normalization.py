"""What a normaliser changes is counted and shown."""

from nmt.data.normalization import count_changes
from nmt.text.steps import TextSteps, normalizer


def rule(name):
    return normalizer(TextSteps().with_rule(name).source)


def test_changes_are_counted_with_their_most_frequent_first():
    changes = count_changes(["5 m² + 3 m² = 8 m²", "½", "plain text"], rule("nmt_nfkc"))
    assert (changes.characters, changes.changed) == (18 + 1 + 10, 4)
    assert [str(example) for example in changes.examples] == ["²→2 (3 times)", "½→1⁄2 (1 time)"]


def test_a_letter_and_its_marks_count_together():
    [example] = count_changes(["sche\u0301"], rule("nfkc")).examples
    assert (example.before, example.after, example.count) == ("e\u0301", "\u00e9", 1)


def test_what_cannot_be_seen_is_shown_by_its_code_point():
    examples = count_changes(["a\xa0b", "a\u200bb", "a\u200bb"], rule("nmt_nfkc")).examples
    assert [str(example) for example in examples] == ["U+200B→space (2 times)", "U+00A0→space (1 time)"]


def test_identity_changes_nothing():
    assert count_changes(["m² ½ Ａ\u200b"], rule("identity")).changed == 0
