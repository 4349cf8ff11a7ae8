"""The filters, one by one and against a plain oracle."""

import itertools
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.corpora.chunks import EvaluationSentences
from nmt.corpora.cleaning import Rules, distinct, filter_names, unleaked
from nmt.corpora.filter_statistics import FilterStatistics
from nmt.corpora.filters import FILTERS, Filters
from nmt.corpora.hashes import hash_lines
from nmt.corpora.pair_filters import repair_encoding
from nmt.corpora.schema import Normalisation
from nmt.text.lines import comparison_key, length_in_words

LOOSE = {"max_words": None, "max_ratio": None, "dedup": False}


CHUNK = 20_000


def chunked(corpora):
    """Pairs as they are read: in chunks, each of one corpus."""
    for number, pairs in enumerate(corpora):
        rest = iter(pairs)
        while chunk := list(itertools.islice(rest, CHUNK)):
            yield number, chunk


def clean(corpora, rules, evaluation, statistics, **settings):
    return unleaked(distinct(chunked(corpora), rules, statistics, **settings), rules, evaluation, statistics)


def run(
    pairs, scratch, *, evaluation=(), held_out=(), languages=("en", "de"), normalisation=None, workers=1, **filters
):
    rules = Rules(*languages, Filters(**filters), normalisation or Normalisation())
    statistics = FilterStatistics(filter_names(rules.filters, held_out=bool(held_out)))
    sentences = EvaluationSentences.of(evaluation, rules.comparison_key)
    if held_out:
        sentences = sentences.with_held_out(held_out, hash_lines(["\n".join(held_out[0])]))
    chunks = clean([pairs], rules, sentences, statistics, scratch=scratch, workers=workers)
    kept = [pair for chunk in chunks for pair in chunk.pairs]
    return kept, statistics.totals()


def dropped(counts):
    return {name: count for name, count in counts.items() if count and not name.endswith("_kept")}


def test_empty_sides(tmp_path):
    pairs = [("a", "b"), ("", "b"), ("a", " \t\u00a0"), ("\u2028", "\u2028")]
    kept, counts = run(pairs, tmp_path, **LOOSE)
    assert kept == [("a", "b")]
    assert counts == {"empty": 3, "leaked": 0, "copied_kept": 0, "invisible_kept": 0}


@pytest.mark.parametrize(
    ("target_lang", "pairs", "kept"),
    [
        ("de", [("a b c", "x"), ("a b c d", "x"), ("x", "a b c d")], 1),
        ("zh", [("a b c", "一二三四"), ("a b c", "一二三四五")], 1),  # some characters are a word
    ],
)
def test_length_counts_words_and_is_inclusive(tmp_path, target_lang, pairs, kept):
    found, counts = run(pairs, tmp_path, languages=("en", target_lang), **LOOSE | {"max_words": 3})
    assert found == pairs[:kept]
    assert dropped(counts) == {"too_long": len(pairs) - kept}


TRANSLATIONS = {
    "de": "Wir haben gestern drei alte Bücher über die Geschichte der Stadt gekauft.",
    "fr": "Hier, nous avons acheté trois vieux livres sur l'histoire de la ville.",
    "es": "Ayer compramos tres libros antiguos sobre la historia de la ciudad.",
    "pt_BR": "Ontem compramos três livros antigos sobre a história da cidade.",
    "it": "Ieri abbiamo comprato tre vecchi libri sulla storia della città.",
    "ro": "Ieri am cumpărat trei cărți vechi despre istoria orașului.",
    "nl": "We hebben gisteren drie oude boeken over de geschiedenis van de stad gekocht.",
    "sv": "I går köpte vi tre gamla böcker om stadens historia.",
    "is": "Í gær keyptum við þrjár gamlar bækur um sögu borgarinnar.",
    "pl": "Wczoraj kupiliśmy trzy stare książki o historii miasta.",
    "cs": "Včera jsme koupili tři staré knihy o dějinách města.",
    "hr": "Jučer smo kupili tri stare knjige o povijesti grada.",
    "sr_Cyrl": "Јуче смо купили три старе књиге о историји града.",
    "bg": "Вчера купихме три стари книги за историята на града.",
    "ru": "Вчера мы купили три старые книги об истории города.",
    "uk": "Учора ми купили три старі книги про історію міста.",
    "kk": "Кеше біз қаланың тарихы туралы үш ескі кітап сатып алдық.",
    "mn": "Өчигдөр бид хотын түүхийн тухай гурван хуучин ном худалдаж авсан.",
    "el": "Χθες αγοράσαμε τρία παλιά βιβλία για την ιστορία της πόλης.",
    "lt": "Vakar nusipirkome tris senas knygas apie miesto istoriją.",
    "lv": "Vakar mēs nopirkām trīs vecas grāmatas par pilsētas vēsturi.",
    "et": "Ostsime eile kolm vana raamatut linna ajaloost.",
    "fi": "Ostimme eilen kolme vanhaa kirjaa kaupungin historiasta.",
    "hu": "Tegnap vettünk három régi könyvet a város történetéről.",
    "tr": "Dün şehrin tarihi hakkında üç eski kitap satın aldık.",
    "az": "Dünən şəhərin tarixi haqqında üç köhnə kitab aldıq.",
    "hy": "Երեկ մենք գնեցինք քաղաքի պատմության մասին երեք հին գիրք։",
    "ka": "გუშინ ქალაქის ისტორიის შესახებ სამი ძველი წიგნი ვიყიდეთ.",
    "he": "אתמול קנינו שלושה ספרים ישנים על תולדות העיר.",
    "ar": "اشترينا أمس ثلاثة كتب قديمة عن تاريخ المدينة.",
    "fa": "دیروز سه کتاب قدیمی درباره تاریخ شهر خریدیم.",
    "ur": "کل ہم نے شہر کی تاریخ کے بارے میں تین پرانی کتابیں خریدیں۔",
    "hi": "कल हमने शहर के इतिहास के बारे में तीन पुरानी किताबें खरीदीं।",
    "mr": "काल आम्ही शहराच्या इतिहासाबद्दल तीन जुनी पुस्तके विकत घेतली.",
    "ne": "हिजो हामीले सहरको इतिहासबारे तीनवटा पुराना किताब किन्यौं।",
    "bn": "গতকাল আমরা শহরের ইতিহাস নিয়ে তিনটি পুরোনো বই কিনেছি।",
    "pa": "ਕੱਲ੍ਹ ਅਸੀਂ ਸ਼ਹਿਰ ਦੇ ਇਤਿਹਾਸ ਬਾਰੇ ਤਿੰਨ ਪੁਰਾਣੀਆਂ ਕਿਤਾਬਾਂ ਖਰੀਦੀਆਂ।",
    "gu": "ગઈકાલે અમે શહેરના ઇતિહાસ વિશે ત્રણ જૂનાં પુસ્તકો ખરીદ્યાં.",
    "ta": "நேற்று நாங்கள் நகரத்தின் வரலாறு பற்றிய மூன்று பழைய புத்தகங்களை வாங்கினோம்.",
    "te": "నిన్న మేము నగర చరిత్ర గురించి మూడు పాత పుస్తకాలు కొన్నాము.",
    "kn": "ನಿನ್ನೆ ನಾವು ನಗರದ ಇತಿಹಾಸದ ಬಗ್ಗೆ ಮೂರು ಹಳೆಯ ಪುಸ್ತಕಗಳನ್ನು ಖರೀದಿಸಿದೆವು.",
    "ml": "ഇന്നലെ ഞങ്ങൾ നഗരത്തിന്റെ ചരിത്രത്തെക്കുറിച്ചുള്ള മൂന്ന് പഴയ പുസ്തകങ്ങൾ വാങ്ങി.",
    "si": "ඊයේ අපි නගරයේ ඉතිහාසය ගැන පැරණි පොත් තුනක් මිලදී ගත්තෙමු.",
    "am": "ትናንት ስለ ከተማው ታሪክ ሦስት የቆዩ መጻሕፍት ገዛን።",
    "id": "Kemarin kami membeli tiga buku lama tentang sejarah kota.",
    "tl": "Kahapon bumili kami ng tatlong lumang aklat tungkol sa kasaysayan ng lungsod.",
    "sw": "Jana tulinunua vitabu vitatu vya zamani kuhusu historia ya mji.",
    "vi": "Hôm qua chúng tôi đã mua ba cuốn sách cũ về lịch sử thành phố.",
    "ko": "우리는 어제 도시의 역사에 관한 오래된 책 세 권을 샀다.",
    "zh_Hans": "我们昨天买了三本关于这座城市历史的旧书。",
    "zh_TW": "我們昨天買了三本關於這座城市歷史的舊書。",
    "yue": "我哋尋日買咗三本講呢個城市歷史嘅舊書。",
    "ja": "私たちは昨日、その町の歴史についての古い本を三冊買いました。",
    "th": "เมื่อวานนี้เราซื้อหนังสือเก่าเกี่ยวกับประวัติศาสตร์ของเมืองนี้สามเล่ม",
    "lo": "ມື້ວານນີ້ພວກເຮົາຊື້ປຶ້ມເກົ່າກ່ຽວກັບປະຫວັດສາດຂອງເມືອງສາມຫົວ",
    "km": "ម្សិលមិញយើងបានទិញសៀវភៅចាស់បីក្បាលអំពីប្រវត្តិសាស្ត្រទីក្រុង",
    "my": "မနေ့ကကျွန်တော်တို့မြို့သမိုင်းအကြောင်းစာအုပ်ဟောင်းသုံးအုပ်ဝယ်ခဲ့ကြသည်",
    "bo": "ང་ཚོས་ཁ་སང་གྲོང་ཁྱེར་གྱི་ལོ་རྒྱུས་སྐོར་གྱི་དེབ་རྙིང་པ་གསུམ་ཉོས་པ་ཡིན།",
}
THREE_LETTERS = {
    "de": "ger", "fr": "fra", "ro": "rum", "nl": "dut", "is": "ice", "cs": "cze", "el": "ell", "et": "ekk", "lv": "lvs",
    "az": "azj", "hy": "hye", "ka": "kat", "ar": "arb", "fa": "pes", "ne": "npi", "ru": "rus", "hi": "hin_Deva",
    "bn": "ben", "tl": "fil", "sw": "swh", "mn": "khk_Cyrl", "ko": "kor", "zh_Hans": "cmn", "zh_TW": "zho_Hant",
    "ja": "jpn_Jpan", "th": "tha", "lo": "lao_Laoo", "km": "khm", "my": "mya", "bo": "bod",
}  # fmt: skip
CODES = [(code, language) for language in TRANSLATIONS for code in (language, THREE_LETTERS.get(language)) if code]


@pytest.mark.parametrize(("code", "language"), CODES, ids=[code for code, _ in CODES])
def test_by_default_no_translation_of_usual_length_is_dropped_in_any_language(tmp_path, code, language):
    english, target = "Yesterday we bought three old books about the history of the city.", TRANSLATIONS[language]
    long = " ".join([english] * 16), "".join([target + " " * (" " in target)] * 16)  # 192 English words
    pairs = [(english, target), long, ("Thank you.", target[: len(target) // 6])]
    exchanged = [(other, english) for english, other in pairs]
    for turned, languages in ((pairs, ("en", code)), (exchanged, (code, "eng"))):
        kept, counts = run(turned, tmp_path / languages[0], languages=languages, script=True)
        assert kept == turned
        assert dropped(counts) == {}
    long = [(english, f"{target} " * 8)]
    assert dropped(run(long, tmp_path / "long", languages=("en", code))[1]) == {"ratio": 1}
    foreign = [(english, "ⵜⴰⵎⴰⵣⵉⵖⵜ " * 10)]
    assert dropped(run(foreign, tmp_path / "x", languages=("en", code), script=True)[1]) == {"script": 1}
    assert 0.5 < length_in_words(target) / length_in_words(english) < 1.5


@pytest.mark.parametrize("languages", [("en", "de"), ("de", "en")])
def test_each_side_is_normalised_as_its_language_asks(tmp_path, languages):
    line = "„ja“, dann „nein“."
    normal = {"en": '"ja," then "nein."', "de": '"ja", then "nein".'}
    pairs = [(line, line)]
    [pair], _ = run(pairs, tmp_path, languages=languages, normalisation=Normalisation(punctuation=True), **LOOSE)
    assert pair == tuple(normal[language].replace("then", "dann") for language in languages)


def test_ratio_looks_both_ways_and_is_inclusive(tmp_path):
    pairs = [("a b c", "x y"), ("x y", "a b c"), ("a b c d", "x y"), ("x", "a b")]
    kept, counts = run(pairs, tmp_path, **LOOSE | {"max_ratio": 1.5})
    assert kept == pairs[:2]
    assert dropped(counts) == {"ratio": 2}


def test_repetitions_go_wherever_they_stand(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "CHUNK", 2)
    pairs = [("a", "b"), ("a", "b"), ("a", "c"), ("b", "a"), ("a", "b"), ("a b", ""), ("a", "b ")]
    kept, counts = run(pairs, tmp_path, **LOOSE | {"dedup": True})
    assert kept == [("a", "b"), ("a", "c"), ("b", "a"), ("a", "b ")]
    assert dropped(counts) == {"empty": 1, "duplicate": 2}


def test_repetitions_and_near_repetitions_are_found_in_later_chunks(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "CHUNK", 2)
    pairs = [("A dog.", "Hund"), ("cat", "Katze"), ("A dog.", "Hund"), ("a dog", "Hund"), ("Cat!", "Katze"), ("x", "y")]
    kept, counts = run(pairs, tmp_path, near_duplicates=True)
    assert kept == [pairs[0], pairs[1], pairs[5]]
    assert dropped(counts) == {"duplicate": 1, "near_duplicates": 2}


def test_leaks_are_found_on_either_side_whatever_their_spacing_and_composition(tmp_path):
    evaluation = [("Caf\u00e9 au lait .", "Milchkaffee."), ("", "")]
    pairs = [
        ("Cafe\u0301  au lait .", "etwas"),
        ("something", " Milchkaffee.\t"),
        ("Milchkaffee.", "Caf\u00e9 au lait ."),  # Each in the other language's place: no leak.
        ("cafe au lait .", "anderes"),
    ]
    kept, counts = run(pairs, tmp_path, evaluation=evaluation, **LOOSE)
    assert kept == pairs[2:]
    assert dropped(counts) == {"leaked": 2}
    kept, counts = run(pairs, tmp_path, evaluation=evaluation, leakage="count", **LOOSE)
    assert kept == pairs
    assert counts == {"empty": 0, "leaked_kept": 2, "copied_kept": 0, "invisible_kept": 0}


def test_leaks_may_be_found_up_to_case_punctuation_and_digits(tmp_path):
    evaluation = [("The 12 houses are old.", "Die 12 Häuser sind alt."), ("...", "!")]
    pairs = [
        ("the 34 houses are old", "etwas"),
        ("something", "DIE 12 HÄUSER: sind alt!"),
        ("The 1 houses are old.", "anderes"),
        ("Same 1", "same 2"),  # not copied: that is compared exactly
        ("?", "."),  # nothing but punctuation is no sentence
    ]
    kept, counts = run(pairs, tmp_path, evaluation=evaluation, leakage="near", copied="drop", **LOOSE)
    assert kept == pairs[2:]
    assert dropped(counts) == {"leaked": 2}


def test_both_sides_of_held_out_pairs_leak(tmp_path):
    """A held-out source under another target is a leak, and so is a held-out target under another source."""
    held_out = [("a red house", "ein rotes Haus"), ("", "")]
    pairs = [
        ("a red house", "ein rotes Haus"),
        ("a red house", "rotes Haus"),
        ("the house is red", " ein  rotes Haus"),
        ("one", "anderes"),
        ("other", "eins"),
        ("ein rotes Haus", "a red house"),  # Each in the other language's place: no leak.
    ]
    kept, counts = run(pairs, tmp_path, evaluation=[("one", "eins")], held_out=held_out, **LOOSE)
    assert kept == pairs[-1:]
    assert dropped(counts) == {"held_out": 1, "leaked": 4}


def test_no_held_out_source_stays_in_training_even_if_leaks_are_only_counted(tmp_path):
    held_out = [("a red house", "ein rotes Haus")]
    pairs = [
        ("a red house", "ein rotes Haus"),
        (" a red  house", "rotes Haus"),
        ("the house is red", "ein rotes Haus"),
        ("one", "anderes"),
    ]
    kept, counts = run(pairs, tmp_path, evaluation=[("one", "eins")], held_out=held_out, leakage="count", **LOOSE)
    assert kept == pairs[2:]
    assert (counts["held_out"], counts["leaked_kept"]) == (2, 2)


def test_leaks_are_found_in_text_as_read(tmp_path):
    """Punctuation is normalised in training text alone; a leaked sentence is no less leaked for it."""
    evaluation = [("\u201eHello\u201c", "\u201eHallo\u201c")]
    pairs = [("\u201eHello\u201c", "Guten Tag"), ("Good day", "\u201eHallo\u201c")]
    punctuation = Normalisation(punctuation=True)
    kept, counts = run(pairs, tmp_path, evaluation=evaluation, normalisation=punctuation, **LOOSE)
    assert kept == []
    assert dropped(counts) == {"leaked": 2}


def test_normalisation_changes_both_sides_before_the_filters(tmp_path):
    pairs = [("e\u0301 \u2019x\u2019", "e\u0301"), ("\u00e9 \u2019x\u2019", "\u00e9")]
    kept, counts = run(pairs, tmp_path, normalisation=Normalisation(nfc=True), **LOOSE | {"dedup": True})
    assert kept == [("\u00e9 \u2019x\u2019", "\u00e9")]
    assert dropped(counts) == {"duplicate": 1}
    kept, _ = run(pairs[1:], tmp_path / "2", normalisation=Normalisation(punctuation=True), **LOOSE)
    assert kept == [("\u00e9 'x'", "\u00e9")]


def test_raw_text_is_left_alone(tmp_path):
    pairs = [(" a\u2028b\x85c\x0bd\x0ce \u2019", "e\u0301  \x00 ")]
    assert run(pairs, tmp_path, **LOOSE)[0] == pairs


def test_copied_pairs_are_counted_as_normalised_and_without_repetitions(tmp_path):
    pairs = [("Caf\u00e9  Berlin", "Cafe\u0301 Berlin "), ("same", "same"), ("same", "same"), ("Same", "same")]
    kept, counts = run(pairs, tmp_path, **LOOSE | {"dedup": True})
    assert kept == [pairs[0], pairs[1], pairs[3]]
    assert (counts["duplicate"], counts["copied_kept"]) == (1, 2)


@pytest.mark.parametrize("character", ["\0", "\u200b", "\u2060", "\u2063", "\ufeff"])
def test_invisible_characters_are_found_on_either_side(tmp_path, character):
    pairs = [(f"a{character}b", "c"), ("a", f"{character}b"), ("می\u200cخواهم", "👩\u200d🚀"), ("a", "b")]
    kept, counts = run(pairs, tmp_path, invisible="drop", **LOOSE)
    assert kept == pairs[2:]
    assert dropped(counts) == {"invisible": 2}


def test_a_zero_width_space_separates_words_in_some_languages(tmp_path):
    pairs = [("a\u200bb", "ក\u200bខ"), ("a", "ក\u200bខ"), ("a", "ក\u2060ខ")]
    _, counts = run(pairs, tmp_path, languages=("en", "km"), **LOOSE)
    assert counts["invisible_kept"] == 2


PAIRS_BY_FILTER = {
    "control": ("a\x07 b", "c d"),
    "html": ("a <br> b", "c d"),
    "long_words": ("abcdefghijklmnopqrstu", "c"),
    "letters": ("12 34 56 a", "12 34 56 b"),
    "script": ("привет", "hallo"),
    "numbers": ("a hundred men", "100 Leute"),
    "urls": ("see www.example.org", "siehe unten"),
    "near_duplicates": ("CLEAN, text 2!", "sauberer Text: 2"),
}
NEW_FILTERS = {
    "control": True, "html": True, "long_words": 20, "letters": 0.5, "script": True, "numbers": True, "urls": True,
    "near_duplicates": True,
}  # fmt: skip
CLEAN = [("Clean text 1", "Sauberer Text 1"), ("other", "anderes")]


FOUND_BY_SETTING = {
    **{name: (NEW_FILTERS[name], pair) for name, pair in PAIRS_BY_FILTER.items()},
    "invalid_utf8": ("drop", ("a \ufffd", "b")),
    "max_words": (4, ("a b c d e", "a b c d")),
    "max_ratio": (2, ("a b c", "a")),
    "dedup": (True, CLEAN[0]),
    "leakage": ("drop", ("leak", "Leck")),
    "copied": ("drop", ("same", "same")),
    "invisible": ("drop", ("a\0", "b")),
}


def test_every_filter_of_pairs_is_tried():
    assert {*FOUND_BY_SETTING, "empty", "held_out", "min_score", "language_id", "repair_encoding"} == {*FILTERS}


@pytest.mark.parametrize("name", FOUND_BY_SETTING)
def test_every_filter_can_only_count(tmp_path, name):
    value, pair = FOUND_BY_SETTING[name]
    pairs = [*CLEAN, pair, ("clean too", "auch sauber")]
    off = {"leakage": "count"} if name == "leakage" else {}
    assert run(pairs, tmp_path / "off", evaluation=[("leak", "x")], **LOOSE | off)[0] == pairs
    on = LOOSE | {name: value}
    kept, counts = run(pairs, tmp_path / "dropped", evaluation=[("leak", "x")], **on)
    assert kept == [*CLEAN, pairs[-1]]
    assert dropped(counts) == {FILTERS[name].name: 1}
    kept, counts = run(pairs, tmp_path / "counted", evaluation=[("leak", "x")], count_only=[name], **on)
    assert kept == pairs
    assert dropped(counts) == {}
    assert counts[f"{FILTERS[name].name}_kept"] == 1


def test_a_pair_may_be_counted_by_several_filters_and_dropped_by_one(tmp_path):
    pairs = [*CLEAN, ("a <br> 1", "b"), ("a <br> \x07 1", "b")]
    on = LOOSE | {"html": True, "control": True, "numbers": True, "count_only": ["html", "numbers"]}
    kept, counts = run(pairs, tmp_path, **on)
    assert kept == pairs[:-1]
    assert (counts["control"], counts["html_kept"], counts["numbers_kept"]) == (1, 1, 1)


def test_all_new_filters_together_count_each_pair_once(tmp_path):
    pairs = [*CLEAN, *PAIRS_BY_FILTER.values()]
    kept, counts = run(pairs, tmp_path, **LOOSE | NEW_FILTERS)
    assert kept == CLEAN
    assert dropped(counts) == dict.fromkeys(NEW_FILTERS, 1)


def test_a_repair_changes_text_before_the_other_filters_and_is_counted(tmp_path):
    pairs = [("cafÃ©", "Kaffee"), ("caf\u00e9", "Kaffee"), ("a", "gr\u00fcn"), ("b", "â€žgrÃ¼nâ€œ"), ("c", "Ã¤ \u00e4")]
    kept, counts = run(pairs, tmp_path, repair_encoding=True, **LOOSE | {"dedup": True})
    assert kept == [("caf\u00e9", "Kaffee"), pairs[2], ("b", "„grün“"), pairs[4]]
    assert (counts["duplicate"], counts["repaired_kept"]) == (1, 2)
    kept, counts = run(pairs, tmp_path / "off", **LOOSE)
    assert kept == pairs
    assert "repaired_kept" not in counts


@pytest.mark.parametrize("evaluation", ["caf\u00e9", "cafÃ©"])
@pytest.mark.parametrize("train", ["caf\u00e9", "cafÃ©"])
def test_leaks_are_found_on_either_side_of_a_repair(tmp_path, evaluation, train):
    kept, counts = run([(train, "x")], tmp_path, evaluation=[(evaluation, "y")], repair_encoding=True, **LOOSE)
    assert (kept, counts["leaked"]) == ([], 1)


def test_statistics_are_by_corpus_with_the_first_pairs_as_samples(tmp_path, monkeypatch):
    """Samples are as read, in the order of the corpus, whatever the number of processes."""
    monkeypatch.setitem(globals(), "CHUNK", 3)
    first = [("", f"wort {n}") for n in range(5)] + [("e\u0301", "x" * 201)] * 3
    second = [(f"copy {n % 4}", f"copy {n % 4}") for n in range(8)] + [("one\x07", "eins")]
    rules = Rules("en", "de", Filters(control=True), Normalisation(nfc=True))
    by_workers = []
    for workers in (1, 2):
        statistics = FilterStatistics(filter_names(rules.filters, held_out=False))
        chunks = clean(
            [first, [], second],
            rules,
            EvaluationSentences(),
            statistics,
            scratch=tmp_path / str(workers),
            workers=workers,
        )
        kept = [pair for chunk in chunks for pair in chunk.pairs]
        by_workers.append((kept, [statistics.of_corpus(number) for number in range(3)], statistics.totals()))
    assert by_workers[0] == by_workers[1]
    kept, (of_first, of_second, of_third), totals = by_workers[0]
    assert len(kept) == 5
    assert {name: found.pairs for name, found in of_first.items()} == {"empty": 5, "duplicate": 2}
    assert of_first["empty"].samples == first[:3]
    assert of_first["duplicate"].samples == [("e\u0301", "x" * 199 + "…")] * 2
    assert of_second == {}
    assert {name: found.pairs for name, found in of_third.items()} == {"control": 1, "duplicate": 4, "copied_kept": 4}
    assert of_third["copied_kept"].samples == second[:3]
    assert of_third["control"].samples == second[-1:]
    assert totals == {
        "empty": 5, "too_long": 0, "ratio": 0, "control": 1, "duplicate": 6, "leaked": 0, "copied_kept": 4,
        "invisible_kept": 0,
    }  # fmt: skip


def test_the_filters_that_are_on_are_counted_in_their_order():
    always = ["empty", "too_long", "ratio", "duplicate"]
    names = filter_names(Filters(), held_out=True)
    assert names == [*always, "held_out", "leaked", "copied_kept", "invisible_kept"]
    everything = Filters(invalid_utf8="drop", leakage="count", copied="drop", invisible="drop")
    names = filter_names(everything, held_out=False)
    assert names == ["invalid_utf8", *always, "leaked_kept", "copied", "invisible"]
    names = filter_names(Filters(repair_encoding=True, **NEW_FILTERS), held_out=False)
    new = ["control", "html", "long_words", "letters", "script", "numbers", "urls", "duplicate", "near_duplicates"]
    assert names == [*always[:3], *new, "leaked", "copied_kept", "invisible_kept", "repaired_kept"]


def test_processes_give_what_one_gives(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "CHUNK", 50)
    pairs = [(f"word {n % 170}", "wort " * (n % 7)) for n in range(600)]
    settings = LOOSE | {"dedup": True, "max_words": 5}
    alone = run(pairs, tmp_path / "1", evaluation=[("word 3", "satz")], **settings)
    together = run(pairs, tmp_path / "2", evaluation=[("word 3", "satz")], workers=2, **settings)
    assert together == alone
    assert sum(dropped(together[1]).values()) + len(together[0]) == 600


def test_chunks_are_not_read_ahead_without_bound(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "CHUNK", 10)
    read = 0

    def pairs():
        nonlocal read
        for read in range(1, 5001):
            yield f"word {read}", "wort"

    rules = Rules("en", "de", Filters(**LOOSE), Normalisation())
    chunks = clean([pairs()], rules, EvaluationSentences(), FilterStatistics(), scratch=tmp_path, workers=2)
    next(chunks)
    assert read <= 100
    chunks.close()


WORDS = st.sampled_from(["a", "b", "é", "e\u0301", " ", "\u00a0", "\u2028", ""])
LINES = st.lists(WORDS, max_size=6).map("".join) | st.lists(st.sampled_from("ab"), max_size=6).map(" ".join)
PAIRS = st.lists(st.tuples(LINES, LINES), max_size=40)


def oracle(pairs, evaluation, filters):
    sources = {comparison_key(source) for source, _ in evaluation} - {""}
    targets = {comparison_key(target) for _, target in evaluation} - {""}
    seen, kept = set(), []
    for source, target in pairs:
        lengths = sorted((len(source.split()), len(target.split())))
        if lengths[0] == 0 or lengths[1] > filters["max_words"] or lengths[1] > filters["max_ratio"] * lengths[0]:
            continue
        if (source, target) in seen:
            continue
        seen.add((source, target))
        if comparison_key(source) in sources or comparison_key(target) in targets:
            continue
        kept.append((source, target))
    return kept


@settings(max_examples=100, deadline=None)
@given(pairs=PAIRS, evaluation=st.lists(st.tuples(LINES, LINES), max_size=4), nfc=st.booleans())
def test_what_is_kept_is_what_a_plain_loop_keeps(tmp_path_factory, pairs, evaluation, nfc):
    filters = {"max_words": 3, "max_ratio": 2.0}
    kept, counts = run(
        pairs,
        tmp_path_factory.mktemp("scratch"),
        evaluation=evaluation,
        normalisation=Normalisation(nfc=nfc),
        **filters,
    )
    if nfc:
        pairs = [tuple(unicodedata.normalize("NFC", side) for side in pair) for pair in pairs]
    assert kept == oracle(pairs, evaluation, filters)
    assert len(kept) + sum(dropped(counts).values()) == len(pairs)


SENTENCES = st.sampled_from(
    [
        "A dog",
        "Ein Hund",
        "le café",
        "собака",
        "犬",
        "12",
        "1,000",
        "<b>",
        "&amp;",
        "www.example.org",
        "\x07",
        "Ã¤",
        " ",
        "!",
    ]
)
SIDES = st.lists(SENTENCES, max_size=4).map(" ".join)


@settings(max_examples=60, deadline=None)
@given(pairs=st.lists(st.tuples(SIDES, SIDES), max_size=30))
def test_a_pair_is_kept_as_it_is_or_repaired(tmp_path_factory, pairs):
    """With every filter on, what is kept is in order, and only repairs change it. A second cleaning changes nothing."""
    on = LOOSE | NEW_FILTERS | {"repair_encoding": True}
    kept, counts = run(pairs, tmp_path_factory.mktemp("scratch"), **on)
    repaired = [(repair_encoding(source), repair_encoding(target)) for source, target in pairs]
    remaining = iter(repaired)
    assert all(pair in remaining for pair in kept)
    assert len(kept) + sum(dropped(counts).values()) == len(pairs)
    again, counts = run(kept, tmp_path_factory.mktemp("scratch"), **on)
    assert again == kept
    assert dropped(counts) == {}
