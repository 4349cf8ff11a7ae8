"""Characters without a piece are copied: what is taken out, and where it is put back."""

import itertools
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nmt.config import Config, DecodingConfig, ModelConfig
from nmt.config.data import LengthRatio, LineStatistics, PieceCounts, SideLines
from nmt.data.imported_vocab import ImportedVocabulary
from nmt.data.vocab import Vocabulary, train_vocabulary
from nmt.data.vocab_pair import VocabularyPair
from nmt.errors import ConfigError
from nmt.machine.device import choose_hardware
from nmt.model.transformer import Transformer
from nmt.search.settings import Sampling
from nmt.translation.ensemble import Ensemble
from nmt.translation.options import translate_options
from nmt.translation.putting_back import put_back
from nmt.translation.results import TranslatedText
from nmt.translation.segment import Line
from nmt.translation.taking_out import take_out
from nmt.translation.translator import Translator
from nmt.translation.unknown_characters import UnknownCharacters
from nmt.translation.word_alignment import pharaoh

KNOWN = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .,!?()-'王人")


LABELS = [
    "1.",
    "12)",
    "(3)",
    "[4]",
    "1. 2.",
    "a)",
    "a.",
    "A.",
    "(a)",
    "IV.",
    "(iv)",
    "Q:",
    "10:30.",
    "$5.",
    "*A.*",
    "-",
]
NO_LABELS = ["2 men go", "2024 is good", "M. Go is there", "i. e. he goes", "J. R. Go is there", "3.5 men go"]


def is_unknown(cluster):
    return not set(cluster) <= KNOWN


def taken_out(line):
    taken = take_out(line, is_unknown)
    return taken.text, taken.first, [run.text for run in taken.inner], taken.last


@pytest.mark.parametrize(
    ("line", "text", "first", "inner", "last"),
    [
        ("A man 😀 sleeps.", "A man sleeps.", "", [" 😀 "], ""),
        ("😀 A man sleeps.", "A man sleeps.", "😀 ", [], ""),
        ("A man sleeps. 😀 ", "A man sleeps.", "", [], " 😀 "),
        ("A man sees a 😀.", "A man sees a.", "", [" 😀"], ""),
        ("A man😀dog", "A man dog", "", ["😀"], ""),
        ("he says “go” now", "he says go now", "", [" “", "” "], ""),
        ("a 😀  🎉😀 b", "a b", "", [" 😀  🎉😀 "], ""),
        ("10\u00a0men sleep", "10 men sleep", "", ["\u00a0"], ""),
        ("王😀人", "王人", "", ["😀"], ""),
        # Signs that readers take for one stay together, though a part of them is known.
        ("a 1\ufe0f\u20e3 b", "a b", "", [" 1\ufe0f\u20e3 "], ""),
        ("a 👩🏽‍👧 b 🇩🇰 c", "a b c", "", [" 👩🏽‍👧 ", " 🇩🇰 "], ""),
        # A word with an unknown letter goes as a whole.
        ("in Łódź, he sleeps", "in, he sleeps", "", [" Łódź"], ""),
        ("the Anne-Zoé's dog", "the dog", "", [" Anne-Zoé's "], ""),
        ("a m² note", "a note", "", [" m² "], ""),
        ("Ana Łódź", "Ana", "", [], " Łódź"),
        # Where words are not separated, there is no whole word.
        ("王龘人", "王人", "", ["龘"], ""),
        ("he saw (Łódź), (Ana) and '😀'", "he saw, (Ana) and", "", [" (Łódź)"], " '😀'"),
        ("§ 3. he goes", "he goes", "§ 3. ", [], ""),
        ("④) he goes", "he goes", "④) ", [], ""),
        # So are labels, and what has no letters after the end.
        *((f"{label} He goes", "He goes", f"{label} ", [], "") for label in LABELS),
        *((f"He goes. {end}", "He goes.", "", [], f" {end}") for end in ("(2)", "1. 2. 3.", "– –", "-- …", "!!! ?")),
        *((line, "", line, [], "") for line in ("A.", "M.", "XIV.", "*b.*", "(iv)")),
        # Numbers, placeholders and addresses with an unknown character are, as a whole, and references to footnotes.
        ("a 20°C day, -5 °C now", "a day, now", "", [" 20°C ", " -5 °C "], ""),
        ("5€ or € 4.50 for 3–5 men", "or for men", "5€ ", [" € 4.50 ", " 3–5 "], ""),
        ("he goes\u202f, 3.50\u00a0€ go\u00a0!", "he goes, go!", "", [" 3.50\u00a0€ "], ""),
        ("he<br>goes to https://a.org/x", "he goes to", "", ["<br>"], " https://a.org/x"),
        ("the man¹ goes [12].²", "the man goes.", "", ["¹ ", " [12]"], "²"),
        # A line without a known letter is copied.
        ("😀", "", "😀", [], ""),
        (" Łódź! ", "", " Łódź! ", [], ""),
        ("Łódź 12", "", "Łódź 12", [], ""),
        # Invisible characters in words are left out.
        ("soft\u00adly he goes", "softly he goes", "", [], ""),
        ("\ufeffhe\u200d \u200cgo\ufe0fes 1\u20602", "he goes 12", "", [], ""),
        ("so\u00adft 😀", "soft", "", [], " 😀"),
        ("he ❤\ufe0f\u200d🔥", "he", "", [], " ❤\ufe0f\u200d🔥"),
    ],
)
def test_what_is_taken_out(line, text, first, inner, last):
    assert taken_out(line) == (text, first, inner, last)


@pytest.mark.parametrize("line", ["A man sleeps.", "a  b ", *NO_LABELS])
def test_a_line_without_unknown_characters_is_left_alone(line):
    assert take_out(line, is_unknown) is None


def words_aligned(line, translation, pairs):
    """Put back by an alignment of words: pieces are the words of both texts."""
    taken = take_out(line, is_unknown)
    aligned = dict(pairs)
    ends = [
        list(itertools.accumulate((len(word) + 1 for word in text.split(" ")), initial=-1))[1:]
        for text in (taken.text, translation)
    ]
    return put_back(taken, translation, *ends, [aligned.get(index) for index in range(len(ends[1]))])


@pytest.mark.parametrize(
    ("line", "translation", "pairs", "expected"),
    [
        # Pairs are target word, source word.
        ("A man 😀 sleeps", "Ein Mann schläft", [(0, 0), (1, 1), (2, 2)], "Ein Mann 😀 schläft"),
        ("A man sees 😀 dogs", "Hunde sieht ein Mann", [(0, 3), (1, 2), (2, 0), (3, 1)], "Hunde sieht 😀 ein Mann"),
        ("he has eaten 😀 now", "er hat jetzt gegessen", [(0, 0), (1, 1), (3, 2), (2, 3)], "er hat jetzt gegessen 😀"),
        ("he slept 😀 long", "er hat lange geschlafen", [(1, 1), (2, 2), (3, 1)], "er hat lange geschlafen 😀"),
        ("he sees 😀, then", "er sieht dann", [(0, 0), (1, 1), (2, 2)], "er sieht 😀 dann"),
        ("a dog 😀 is there", "ein Hund, der", [(0, 0), (1, 1)], "ein Hund 😀, der"),
        ("he says “go” now", "jetzt sagt er gehe", [(0, 3), (1, 1), (2, 0), (3, 2)], "jetzt sagt er “gehe”"),
        ("10\u00a0men sleep", "10 Männer", [(0, 0), (1, 1)], "10\u00a0Männer"),
        ("a 20°C day", "ein Tag", [(0, 0), (1, 1)], "ein 20°C Tag"),
        ("a man¹ sleeps", "ein Mann schläft", [(0, 0), (1, 1), (2, 2)], "ein Mann¹ schläft"),
        ("a man <br>sleeps", "ein Mann schläft", [(0, 0), (1, 1), (2, 2)], "ein Mann <br>schläft"),
        # Words stay apart at the beginning, at the end and beside punctuation; Han characters do not.
        ("the médecin sees", "sieht er", [(0, 1)], "médecin sieht er"),
        ("Łódź, he goes", "Er geht", [], "Łódź Er geht"),
        ("😀, he goes", "Er geht", [], "😀, Er geht"),
        ("he,Łódź", "er", [], "er Łódź"),
        ("he,Łódź goes", "er geht", [(0, 0), (1, 1)], "er Łódź geht"),
        ("he 龘 man", "人人", [(0, 0)], "人人龘"),
        ("龘, he", "人", [], "龘人"),
        ("he saw Łódź.", "人王.", [(0, 1)], "人王 Łódź."),
        ("王😀人 go", "er sieht geht", [(0, 0), (1, 0), (2, 1)], "er sieht 😀 geht"),
        ("王[é]人 go", "er geht", [(0, 0), (1, 1)], "er [é] geht"),
        ("😀王人{é}", "er geht", [], "😀 er geht {é}"),
        ("“王人”", "er geht", [], "“er geht”"),
        ("he “goes” now", "er (jetzt geht)", [(0, 0), (1, 2), (2, 1)], "er (jetzt “geht”)"),
        # Opening punctuation belongs to what follows.
        ("¿he goes", "Er geht", [], "¿Er geht"),
        ("„Łódź“, he goes", "Er geht", [], "„Łódź“ Er geht"),
        ("he said, „go“", "er sagte, geh", [(0, 0), (1, 1), (2, 2)], "er sagte, „geh“"),
        ("« he goes »", "Er geht", [], "« Er geht »"),
        # A copied mark replaces the model's own.
        ("he goes…", "Er geht.", [], "Er geht…"),
        ("he goes！", "Er geht.", [], "Er geht！"),
        ("he goes‼", "Er geht.", [], "Er geht‼"),
        ("he goes.…", "Er geht.", [], "Er geht.…"),
        ("he goes…”", "Er geht.", [], "Er geht…”"),
        ("wait… he goes", "warte. Er geht", [(0, 0), (1, 1), (2, 2)], "warte… Er geht"),
        ("wait， he goes", "warte, er geht", [(0, 0), (1, 1), (2, 2)], "warte， er geht"),
        ("wait 😀. he goes", "warte. Er geht", [(0, 0), (1, 1), (2, 2)], "warte 😀. Er geht"),
        # What is not aligned goes behind a word further ahead, or else before one that follows.
        ("he sees a 😀 dog", "er sieht Hund", [(0, 0), (1, 1), (2, 3)], "er sieht 😀 Hund"),
        ("he sees a 😀 dog", "viel Hund", [(1, 3)], "viel 😀 Hund"),
        ("he sees a 😀 dog", "alles anders", [], "alles anders 😀"),
        ("he sees a 😀 dog", "", [], "😀"),
    ],
)
def test_a_run_is_put_back_beside_the_aligned_word(line, translation, pairs, expected):
    assert words_aligned(line, translation, pairs) == expected


def test_beginning_and_end_need_no_alignment():
    assert put_back(take_out("😀  A man 🎉", is_unknown), "Ein Mann") == "😀  Ein Mann 🎉"
    assert put_back(take_out("😀 🎉", is_unknown), "") == "😀 🎉"


TEXT = st.text(st.sampled_from("ab C1.,-'(王 \t\u00a0Łé²…¿😀🎉“”\u200d\ufe0f🏽\u00ad🇩🇰☃"), max_size=25)


def visible(text):
    return "".join(re.sub("[\u00ad\u200d\ufe0f]", "", text).split())


def without_marks(text):
    return re.sub("[.,…]", "", "".join(text.split()))


@given(TEXT)
def test_what_is_left_and_what_is_taken_are_the_line(line):
    taken = take_out(line, is_unknown)
    if taken is None:
        assert not is_unknown(line)
        return
    assert is_unknown(line) or not any(map(str.isalpha, line))
    assert not is_unknown(taken.text)
    begins = [0, *(run.place for run in taken.inner), len(taken.text)]
    kept = [taken.text[begin:end] for begin, end in itertools.pairwise(begins)]
    runs = [taken.first, *(run.text for run in taken.inner)]
    rebuilt = "".join(itertools.chain.from_iterable(zip(runs, kept, strict=True))) + taken.last
    assert visible(rebuilt) == visible(line)


def test_runs_at_one_place_stay_whole_where_the_translation_has_two_spaces():
    taken = take_out("b..². ☃☃b", is_unknown)
    restored = put_back(taken, "a  a", range(1, len(taken.text) + 1), range(1, 5), [None, None, None, 5])
    assert restored == "a ² ☃☃a"


@given(TEXT, st.text(st.sampled_from("xy z.,王"), max_size=20).map(str.strip), st.data())
def test_every_run_survives_once_and_so_does_the_translation(line, translation, data):
    taken = take_out(line, is_unknown)
    if taken is None or not taken.text:
        return
    source, target = (list(range(1, len(text) + 1)) for text in (taken.text, translation))
    looks = st.none() | st.integers(0, len(source) - 1) if source else st.none()
    alignment = data.draw(st.lists(looks, min_size=len(target), max_size=len(target)))
    restored = put_back(taken, translation, source, target, alignment)
    taken_characters = taken.first + "".join(run.text for run in taken.inner) + taken.last
    assert sorted(without_marks(restored)) == sorted(without_marks(taken_characters + translation))
    for run in (taken.first, *(run.text for run in taken.inner), taken.last):
        assert run.strip() in restored
    # What was found is there in its order: nothing but runs came between, and no word is glued to another.
    remaining = iter(restored)
    assert all(character in remaining for character in without_marks(translation))
    assert not re.search("[xyz][abC1Łé²]|[abC1Łé²][xyz]", restored)


VOCAB = train_vocabulary(["ein hund und ein mann"] * 9, size=300, byte_fallback=True).vocab
PAIR = VocabularyPair.shared(VOCAB)


def statistics(byte_pieces):
    side = SideLines(sentences=(9,), pieces=PieceCounts(p50=8, p90=9, p99=9, p999=9, max=9), byte_pieces=byte_pieces)
    ratio = LengthRatio(p1=0.6, p10=0.8, p50=1.0, p90=1.2, p99=1.5)
    return LineStatistics(max_pieces=64, source=side, target=side, target_per_source=ratio)


@pytest.mark.parametrize(
    ("byte_pieces", "copy", "copies"),
    [
        (0.0, None, True),
        (1e-6, None, True),
        (0.005, None, False),
        (0.005, True, True),
        (0.0, False, False),
        (None, None, True),
    ],
)
def test_bytes_that_the_model_has_seen_are_left_to_it(byte_pieces, copy, copies):
    [ids] = VOCAB.encode(["ein ☃ hund"])
    assert UnknownCharacters(PAIR, statistics(byte_pieces), copy).are_in(ids) == copies


@pytest.mark.parametrize("known_bytes", [0.0, 0.005])
def test_unk_is_copied_whatever_the_model_has_seen(known_bytes):
    vocab = train_vocabulary(["ein hund und ein mann"] * 9, size=30, byte_fallback=False).vocab
    unknown = UnknownCharacters(VocabularyPair.shared(vocab), statistics(known_bytes), None)
    [ids] = vocab.encode(["ein ☃ hund"])
    assert unknown.are_in(ids)
    assert [taken.text for taken in unknown.take_out(["ein ☃ hund"])] == ["ein hund"]
    assert not UnknownCharacters(VocabularyPair.shared(vocab), None, False).are_in(ids)


@pytest.mark.parametrize("invisible", ["\u00ad", "\u200d", "\ufe0f"])  # two of them belong to the letter before
def test_a_word_is_read_without_invisible_characters(invisible):
    [taken] = UnknownCharacters(PAIR, None, None).take_out([f"ein hu{invisible}nd"])
    assert (taken.text, taken.first, taken.inner, taken.last) == ("ein hund", "", (), "")


def test_other_forms_of_known_characters_are_read_as_these():
    vocab = train_vocabulary(["ein hund テデス مرحبا 12, ٣"] * 9, size=40, byte_fallback=False).vocab
    unknown = UnknownCharacters(VocabularyPair.shared(vocab), None, None)
    lines = ["ｅin １２ ﾃﾞｽ，", "ﻣﺮﺣﺒﺎ ²٤", "ein ３３", "ein hund"]
    taken = [each and (each.source, each.last) for each in unknown.take_out(lines)]
    assert taken == [("ein 12 デス,", ""), ("مرحبا", " ²٤"), ("ein", " ３３"), None]


def test_no_line_changes_with_the_lines_beside_it():
    vocab = train_vocabulary(["ein cafe\u0301 2"] * 9, size=30, byte_fallback=False).vocab
    unknown = UnknownCharacters(VocabularyPair.shared(vocab), None, None)
    _, taken = unknown.take_out(["ein ２", "ein cafe\u0301"])
    assert taken is None


def test_pieces_are_counted_in_characters_of_the_text():
    unknown = UnknownCharacters(PAIR, None, None)
    line = "ein hund ☃ und ein mann"
    [taken] = unknown.take_out([line])
    [source] = VOCAB.encode([taken.text])
    # A translation that says the same, its pieces aligned one to one.
    found = TranslatedText(taken.text, tuple(VOCAB.pieces(source)), -1.0, -1.0, None, (), tuple(range(len(source))))
    assert unknown.put_back(taken, source, found).text == line


def tagged(*, has_angle_brackets: bool) -> Vocabulary:
    """A vocabulary with a language tag, and without bytes."""
    text = ["ein hund und ein mann", *(["<a>"] if has_angle_brackets else [])]
    vocab = train_vocabulary(text * 9, size=30, byte_fallback=False).vocab
    return ImportedVocabulary(vocab.model_bytes, [*vocab.pieces(range(vocab.size)), ">>deu<<"])


@pytest.mark.parametrize("has_angle_brackets", [False, True])
@pytest.mark.parametrize(
    ("line", "source", "first", "last"),
    [
        (">>deu<< ein ☃ hund", ">>deu<< ein hund", "", ""),
        (">>deu<<ein ☃ hund", ">>deu<< ein hund", "", ""),
        (">>deu<< ☃ ein hund ☃", ">>deu<< ein hund", "☃ ", " ☃"),
        (">>deu<< ☃☃", "", "☃☃", ""),
    ],
)
def test_a_language_tag_is_not_taken_out(has_angle_brackets, line, source, first, last):
    vocab = tagged(has_angle_brackets=has_angle_brackets)
    unknown = UnknownCharacters(VocabularyPair.shared(vocab), None, None)
    assert unknown.are_in(vocab.encode([line])[0])
    [taken] = unknown.take_out([line])
    assert (taken.source, taken.first, taken.last) == (source, first, last)


@pytest.mark.parametrize("line", [">>deu<< ein hund", ">>xxx<< ein hund"])
def test_a_line_in_which_only_the_tag_may_be_unknown_stays_whole(line):
    vocab = tagged(has_angle_brackets=False)
    assert UnknownCharacters(VocabularyPair.shared(vocab), None, None).take_out([line]) == [None]


def test_runs_of_a_line_with_a_tag_follow_the_alignment():
    vocab = tagged(has_angle_brackets=False)
    unknown = UnknownCharacters(VocabularyPair.shared(vocab), None, None)
    line = ">>deu<< ein hund ☃ und ein mann"
    [taken] = unknown.take_out([line])
    [source] = vocab.encode([taken.source])
    target = vocab.encode(["ein hund und ein mann"])[0]
    assert len(source) == len(target) + 1
    # Each target piece is aligned to the source piece that it copies, or all of them to the tag.
    for alignment, text in (
        (range(1, len(source)), "ein hund ☃ und ein mann"),
        ([0] * len(target), "ein hund und ein mann ☃"),
    ):
        pieces = tuple(vocab.pieces(target))
        found = TranslatedText("ein hund und ein mann", pieces, -1.0, -1.0, None, (), tuple(alignment))
        assert unknown.put_back(taken, source, found).text == text


def test_segmented_text_is_not_copied():
    vocab = ImportedVocabulary(VOCAB.model_bytes, VOCAB.pieces(range(VOCAB.size)), is_segmented=True)
    pair = VocabularyPair.shared(vocab)
    line = "hund Zanzibar"
    assert vocab.UNK in vocab.encode([line])[0]
    for copy in (None, False):
        assert not UnknownCharacters(pair, None, copy).are_in(vocab.encode([line])[0])
    with pytest.raises(ConfigError, match=r"copy_unknown: .* pieces separated by spaces"):
        UnknownCharacters(pair, None, True)


CONFIG = Config(model=ModelConfig(encoder_layers=1, decoder_layers=2, d_model=16, d_ff=16, heads=2, max_positions=64))
CPU = choose_hardware("cpu", "fp32", 1)
KNOWN_LINES = ["ein hund und ein mann", "", "hund"]
LINES = ["ein ☃ hund und ein mann", "☃☃", "☃ ein hund", *KNOWN_LINES, "ein hund und ☃ ein Łódź mann ☃"]


def model():
    torch.manual_seed(1)
    built = Transformer(CONFIG.model, VOCAB.size).eval()
    torch.nn.init.normal_(built.embedding.weight, std=0.7)
    return built


ENSEMBLE = Ensemble((model(),), PAIR, CONFIG, CPU)


def translated(lines, *, prefixes=None, sampling=None, **options):
    decoding = DecodingConfig(beam=3, max_extra_length=5)
    chosen = translate_options(decoding, nbest=3, sampling=sampling, **options)
    return list(Translator(ENSEMBLE, chosen).translate(lines, prefixes))


def test_the_model_reads_a_line_as_if_it_had_no_unknown_characters():
    found = translated(LINES)
    bare = translated(["ein hund und ein mann", "", "ein hund", *KNOWN_LINES, "ein hund und ein mann"])
    assert [t.source for t in found] == LINES
    for with_them, without in zip(found, bare, strict=True):
        assert with_them.source_pieces == without.source_pieces
        assert [c.pieces for c in with_them.candidates] == [c.pieces for c in without.candidates]
        assert [c.score for c in with_them.candidates] == [c.score for c in without.candidates]
    for index in (0, 2, 6):
        for candidate, other in zip(found[index].candidates, bare[index].candidates, strict=True):
            assert candidate.text.count("☃") == LINES[index].count("☃") + other.text.count("☃")
            assert candidate.text.count("Łódź") == LINES[index].count("Łódź")
            assert candidate.alignment is None
    assert found[2].text == "☃ " + bare[2].text
    assert found[1].text == "☃☃"
    assert found[3:6] == bare[3:6]


def test_it_can_be_switched_off():
    [found] = translated(LINES[:1], copy_unknown=False)
    assert found.source_pieces == tuple(VOCAB.pieces(VOCAB.encode(LINES[:1])[0]))
    assert found != translated(LINES[:1])[0]


def test_a_line_with_a_prefix_is_read_as_it_is():
    prefixes = ["ein ☃", *[""] * (len(LINES) - 1)]
    found, left, plain = (
        translated(LINES, prefixes=prefixes),
        translated(LINES, prefixes=prefixes, copy_unknown=False),
        translated(LINES),
    )
    assert found[0].source_pieces == left[0].source_pieces
    assert [c.text for c in found[0].candidates] == [c.text for c in left[0].candidates]
    assert [t.text for t in found[1:]] == [t.text for t in plain[1:]]


def test_the_alignment_describes_what_the_model_read_and_wrote():
    plain, aligned = translated(LINES), translated(LINES, alignment=True)
    for without, translation in zip(plain, aligned, strict=True):
        assert [c.text for c in translation.candidates] == [c.text for c in without.candidates]
        for candidate in translation.candidates:
            assert len(candidate.alignment) == len(candidate.pieces)
            assert all(i is None or 0 <= i < len(translation.source_pieces) for i in candidate.alignment)


def test_alignments_of_words_count_copied_words_too():
    pieces = VOCAB.pieces(VOCAB.encode(["ein hund"])[0])
    one_to_one = range(len(pieces))
    assert pharaoh("☃ ein ☃ hund", pieces, "☃ ein ☃ hund", pieces, one_to_one) == "1-1 3-3"


def test_samples_do_not_depend_on_the_lines_around_them():
    sampling = Sampling(seed=3)
    [alone], among_others = translated(LINES[:1], sampling=sampling), translated(LINES, sampling=sampling)[0]
    assert [(one.text, one.pieces) for one in alone.candidates] == [
        (one.text, one.pieces) for one in among_others.candidates
    ]
    assert all("☃" in candidate.text for candidate in alone.candidates)


def test_each_part_of_a_line_keeps_its_own():
    line = "ein hund. ☃ Ein mann 🎉. ☃"
    [found] = translated([line], split_sentences="always")
    assert found.parts > 1
    assert all(found.text.count(sign) >= line.count(sign) for sign in "☃🎉")


def test_an_output_records_whether_characters_are_copied():
    decoding = DecodingConfig(beam=1)
    options = [translate_options(decoding, copy_unknown=copies) for copies in (None, True, False)]
    recorded = [Translator(ENSEMBLE, chosen).settings["copy_unknown"] for chosen in options]
    assert recorded == ["auto", True, False]


def test_line_ends_are_not_copied():
    [found] = translated(["\r☃"])
    assert found.text == " ☃"


def test_all_segments_are_encoded_by_the_same_few_calls(monkeypatch):
    """A text may have tens of thousands of sentences with an unknown character each."""
    calls = []
    encode = Vocabulary.encode
    monkeypatch.setattr(Vocabulary, "encode", lambda self, lines, **more: calls.append(lines) or encode(self, lines))

    def count(sentences):
        calls.clear()
        chosen = translate_options(CONFIG.decoding, split_sentences="always", copy_unknown=True)
        [segments] = Translator(ENSEMBLE, chosen).prepare([Line("Der ☃ hund. " * sentences)])
        assert len(segments) == sentences
        assert all(segment.taken is not None for segment in segments)
        return len(calls)

    assert count(2) == count(20)
