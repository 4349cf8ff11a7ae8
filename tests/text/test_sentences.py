"""Sentences: where lines are cut in many languages, and that nothing of a line is lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.text.sentences import copied_ends, sentences

LINES = {
    "en": [
        ["Dr. Miller met Mr. Smith in St. Louis. ", "They had coffee at 3 p.m. on Monday."],
        ["It costs $3.14. ", "See No. 5 for details. ", "He paid twice."],
        ["She said No. ", "He left."],
        ['"Are you coming?" she asked. ', '"No," he said. ', '"I am tired."'],
        ["Wait... what is that? ", "I don't know... ", "Maybe a bird."],
        ["The U.S. Senate voted. ", "The U.K. did not."],
        ['A shirt that says "FROG!" hangs here. ', "Nobody wears it."],
        ["A shirt that says FROG! hangs here."],
        ["A horse runs.  ", "Two dogs sleep.\t", "A child laughs!"],
        ["i like dogs. ", "they bark. ", "cats don't."],
        ["A cat sits.² ", "A bird flies.[3] ", "A man sits.2 ", "He left. ", "eBay closed."],
        ["See Fig.2 Here it is. ", "We met at 10:30. ", "It was 2024. ", "He paid $5. ", "She left."],
        ["A man runs. ", ":-) A dog barks. ", "It sleeps (see Fig. 3). ", "Vol. 2 lies there."],
        ["A man runs.", "<br/>A dog barks.</b> ", "<i>It sleeps."],
        ['He said: "I run. ', 'You walk." ', "(A dog barks. ", "It sleeps.) ", "“Stop! ", "Thief!” he cried."],
        ["Call help(nmt.Model.translate) first."],
        ["No end at all"],
        ["..."],
    ],
    "de": [
        ["Das ist z.B. ein Test. ", "Dr. Huber kam am 3. Oktober an. ", "Er blieb."],
        ["Ein Haus des 19.\u00a0Jahrhunderts steht dort. ", "Daneben stehen zwei."],
        ["Er sagte: „Ich komme nicht.“ ", "Dann ging er."],
        ["Es kam („Dr. Huber kam. ", "Dann ging er."],
    ],
    "fr": [["M. Dupont est là. ", "Il a dit : « Bonjour. » ", "Puis il est parti !"]],
    "es": [["¿Qué hora es? ", "¡Ya es tarde! ", "El Sr. Gómez no vino."]],
    "ru": [["Это т.е. пример. ", "Он родился в 1990 г. в Москве. ", "Потом уехал."]],
    "zh": [["他来了。", "她走了！", "你呢？", "价格是3.14元。"]],
    "zh-TW": [["“你好。”他說。", "“再見。”", "門關了。"]],
    "ja": [["今日は晴れです。", "明日は雨でしょう。"]],
    "hi": [["यह एक किताब है। ", "वह घर गया। ", "क्या तुम आओगे?"]],
    "ar": [["هل أنت هنا؟ ", "نعم. ", "أنا هنا."]],
    "km": [["ថ្ងៃនេះល្អ។ ", "តើអ្នកមកទេ? ", "បាទ។", "ខ្ញុំទិញផ្លែឈើ បន្លែ។ល។ ", "ចប់៕"]],
    "my": [["ဒီနေ့ကောင်း၊ ပူတယ်။ ", "မင်းလာမလား။"]],
    "": [["One thing. ", "Another thing."]],
    "qq": [["One thing. ", "Another thing."]],
}


@pytest.mark.parametrize(("language", "expected"), [(key, line) for key, lines in LINES.items() for line in lines])
def test_lines_are_cut_between_sentences(language, expected):
    assert sentences("".join(expected), language) == expected


LABELS = "1. 1) (1) [1] a) a. A. (a) iv. IV. xii. 1.2. 1.2.3) §\u00a03. No.\u00a05. #4: • - * – Q: Q."
OTHER_LABELS = "А. а) α. ١. १. １． （一） ①"


@pytest.mark.parametrize("label", [*LABELS.split(" "), *OTHER_LABELS.split(" ")])
def test_the_label_of_an_item_stays_with_its_sentence(label):
    """At the beginning and after a sentence; a number at the end of a sentence still ends it."""
    language = {"А": "ru", "а": "ru", "α": "el", "١": "ar", "१": "hi"}.get(label[0], "en")
    items = [f"{label} Open the door. ", f"{label} Close it! ", f"{label} Go away."]
    assert sentences("".join(items), language) == items
    assert sentences(f"{label} I am 5. He is 6.", language) == [f"{label} I am 5. ", "He is 6."]


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("en", ["Do this: ", "1. Open the door. ", "2. Close it."]),
        ("en", ["See No. 5. ", "He left. ", "J. R. Smith came. ", "10:30. Lunch is ready. 50 %."]),
        ("de", ["Öffne die Tür. ", "2. Schließe sie. ", "Er wohnt im 2. Stock."]),
        ("en", ["See Fig. 3. ", "It shows p. 7. ", "Done."]),
        ("de", ["Siehe Abb. 3. Sie zeigt Bd. 2."]),
        ("zh", ["1. 开门。", "2. 关门。", "三、你好。"]),
        ("ja", ["１．ドアを開ける。", "２．閉める。"]),
    ],
)
def test_labels_in_the_middle_of_a_line(language, expected):
    assert sentences("".join(expected), language) == expected


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("en", ["He sings. ", "(The cook sleeps.) ", "[A bird flies!] ", "{She came?}” ", "We left."]),
        ("en", ["It rained… ", "Then it snowed… ", "(Who knows…) ", "He left."]),
        ("en", ["He waits… and (Mr.) Smith (in Oct.) sings."]),
        ("de", ["Er kam (mit Koffern, Taschen usw.) Montag an."]),
    ],
)
def test_a_sentence_ends_in_brackets_and_after_an_ellipsis(language, expected):
    assert sentences("".join(expected), language) == expected


FOLLOWING = ("と言った。", "って。", "という声。", "、と。", "などの声。", "だった。")


@pytest.mark.parametrize(
    ("language", "line"),
    [
        *(("ja", f"彼は「はい。」{following}") for following in FOLLOWING),
        ("zh", "“你好。”他大声说：“再见。”"),
        ("zh", "（真的吗？）的时候"),
        ("ko", "“그만.”이라고 말했다."),
        ("ko", '"네." 하고 그는 말했다.'),
        ("en", '"Stop." he said.'),
        ("fr", "« Non ! » dit-il."),
        ("de", "„Halt!“, Peter rief."),
    ],
)
def test_a_sentence_goes_on_after_a_quotation(language, line):
    assert sentences(line, language) == [line]


@pytest.mark.parametrize("line", ["「はい。」|とても寒い。", "「はい。」|でも寒い。", "「はい。」|彼は寝た。"])
def test_a_new_sentence_may_follow_a_quotation(line):
    assert sentences(line.replace("|", ""), "ja") == line.split("|")


@pytest.mark.parametrize(
    ("language", "before", "text", "behind"),
    [
        ("en", "2024. ", "They left. ", "10. !"),
        ("en", "", "See No. 5. ", "(3)"),
        ("en", "", "He asked: “Who?” ", "12"),
        ("en", "", "Who? : )", ""),
        ("en", "1. 2. ", "a man sits.", ""),
        ("en", "", "1. a man sits. Anna runs.", ""),
        ("en", "", "No. 5. Open the door.", ""),
        ("de", "", "1. Oktober ist morgen. II. ", ""),
        ("de", "1) ", "Oktober ist morgen.", ""),
        ("de", "", "II. Weltkrieg", ""),
        ("fr", "", "M. Dupont est là.", ""),
        ("fr", "", "« Bonjour ! »", ""),
        ("zh", "（1） ", "他来了。", "（3）"),
        ("en", "1. A.", "", ""),
        *(
            ("en", label, "A man runs. ", ":-)")
            for label in ["B2) ", "1.a) ", "(1a) ", "Q1. ", "1.- ", "12/ ", "3 – ", "§ 12 "]
        ),
        ("en", "", "3 men run (see Fig. 3).", ""),
        ("en", "", "`` A man runs . '' ", ""),
        ("de", "", "« Er rennt . »", ""),
    ],
)
def test_what_is_the_same_in_all_languages_at_the_ends_of_a_sentence(language, before, text, behind):
    begin, end = copied_ends(sentence := before + text + behind, language)
    assert (sentence[:begin], sentence[begin:end], sentence[end:]) == (before, text, behind)


def test_a_line_without_text_is_its_own_only_sentence():
    assert sentences("", "en") == [""]
    assert sentences(" \t ", "en") == [" \t "]


@given(
    st.text(st.sampled_from("aB1.)!?…。！？।\"'“”«»() \t\r\u00a0\u0085\u2028\u0301\u200d😀é中あ한")) | st.text(),
    st.sampled_from(["en", "de", "fr", "zh", "ja", "ko", "hi", "ar", "th", "bg", ""]),
)
def test_the_sentences_joined_are_the_line(line, language):
    found = sentences(line, language)
    assert "".join(found) == line
    assert all(found) or found == [""]
    assert len(found) == 1 or all(any(map(str.isalpha, sentence)) for sentence in found)


@pytest.mark.parametrize("space", ["\u00a0", "\u202f", "\u2009", "\u3000"])
def test_a_wide_space_before_the_full_stop_does_no_harm(space):
    """sentencex 1.0.32 cuts such a character in two, and fails."""
    line = f"Plan A{space}. Der Hund schläft. Die Katze auch."
    assert sentences(line, "de")[-1] == "Die Katze auch."
    assert "".join(sentences(line, "de")) == line
