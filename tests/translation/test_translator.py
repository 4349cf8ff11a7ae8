"""Lines in, lines out, whatever the lines are and however they are batched."""

import dataclasses
import itertools
import json
import unicodedata

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.config import Config, DecodingConfig, ModelConfig
from nmt.config.data import LengthRatio, LineStatistics, PieceCounts, SideLines
from nmt.data.vocab import train_vocabulary
from nmt.data.vocab_pair import VocabularyPair
from nmt.errors import ConfigError, DataError
from nmt.kernels.policy import accelerate
from nmt.kernels.prepacking import prepack
from nmt.machine.device import choose_hardware
from nmt.model.transformer import Transformer
from nmt.search.hypotheses import Hypothesis, length_penalty
from nmt.search.settings import BeamTooWideError, Sampling, SearchSettings
from nmt.text.lines import encode_line, read_lines
from nmt.text.steps import Affix, MosesPunctuation, Nfc, SentencePieceRule
from nmt.translation.ensemble import Ensemble
from nmt.translation.formats import formatted
from nmt.translation.guard import Finding
from nmt.translation.minimum_bayes_risk import rerank
from nmt.translation.options import translate_options
from nmt.translation.segment import Line
from nmt.translation.target_scorer import TargetScorer
from nmt.translation.translator import Translator
from tests.policies import EVERY_POLICY, chosen

WORDS = ["ba", "do", "ki", "lu", "me", "no", "pa", "ru", "se", "ti"]
VOCAB = train_vocabulary([" ".join(words) for words in itertools.permutations(WORDS, 2)], size=50).vocab
PAIR = VocabularyPair.shared(VOCAB)
CONFIG = Config(model=ModelConfig(encoder_layers=1, decoder_layers=1, d_model=16, d_ff=16, heads=2, max_positions=64))


def model(seed: int = 0) -> Transformer:
    torch.manual_seed(seed)
    built = accelerate(Transformer(CONFIG.model, VOCAB.size), chosen()).eval()
    torch.nn.init.normal_(built.embedding.weight, std=0.7)
    return built


CPU = choose_hardware("cpu", "fp32", 1)


def translator(beam: int = 3, *, config: Config = CONFIG, **options):
    pace = {name: options.pop(name) for name in ("window", "workers") if name in options}
    chosen = translate_options(DecodingConfig(beam=beam, max_extra_length=5), **options)
    return Translator(Ensemble((model(),), PAIR, config, CPU), chosen, **pace)


def some_lines(count: int) -> list[str]:
    draw = torch.Generator().manual_seed(3)

    def number(below: int) -> int:
        return int(torch.randint(below, (1,), generator=draw))

    return [" ".join(WORDS[number(10)] for _ in range(number(12))) for _ in range(count)]


STRANGE = [
    "",
    "   ",
    "\t",
    "ba " * 5000,
    "ba\u2028do\u2029ki",
    "lu\u0085me",
    "no\x0bpa\x0cru",
    "😀 ba 👩‍👩‍👧",
    "\x00\x01\x1f",
    "<s> </s> <unk> <pad>",
    "\ufeffba",
    "▁▁",
    "漢字かな",
    "\u200b",
    "ti",
]


@EVERY_POLICY
def test_one_line_out_for_one_line_in_in_order():
    lines = some_lines(60)
    strange = list(itertools.chain.from_iterable(zip(STRANGE, lines, strict=False)))
    found = list(translator().translate(strange))
    assert [t.source for t in found] == strange
    alone = [next(iter(translator().translate([line]))).text for line in strange]
    assert [t.text for t in found] == alone
    assert all("\n" not in t.text for t in found)
    assert {t.text for t in found if not t.source.strip()} == {""}
    assert [t.source for t in found if t.parts > 1] == ["ba " * 5000]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=40), max_size=8))
def test_any_text_keeps_the_count(lines):
    found = list(translator(beam=1).translate(lines))
    assert len(found) == len(lines)
    assert all("\n" not in t.text for t in found)


@EVERY_POLICY
@pytest.mark.parametrize("options", [{"batch_tokens": 1}, {"batch_tokens": 37}, {"window": 1}, {"window": 7}])
def test_batch_and_window_change_nothing(options):
    lines = some_lines(40)
    expected = [t.text for t in translator().translate(lines)]
    assert [t.text for t in translator(**options).translate(lines)] == expected


@pytest.mark.skipif("fbgemm" not in torch.backends.quantized.supported_engines, reason="needs an x86 processor")
@pytest.mark.parametrize(
    "options", [{"batch_tokens": 1}, {"batch_tokens": 37}, {"window": 7}, {"workers": 2, "batch_tokens": 100}]
)
def test_batch_window_and_workers_change_nothing_in_int8_either(options):
    hardware = dataclasses.replace(choose_hardware("cpu", "int8", 1), threads=2)
    rounded = model()
    prepack(rounded, hardware.products_dtype)

    def translated(**options) -> list[str]:
        decoding = DecodingConfig(beam=3, max_extra_length=5)
        chosen = translate_options(decoding, batch_tokens=options.pop("batch_tokens", None))
        translator = Translator(Ensemble((rounded,), PAIR, CONFIG, hardware), chosen, **options)
        return [t.text for t in translator.translate(some_lines(40))]

    assert translated(**options) == translated(workers=1)


@pytest.mark.parametrize(("options", "window"), [({}, 2_048), ({"batch_tokens": 65_536}, 16_384)])
def test_a_window_holds_several_batches(options, window):
    assert translator(**options).window == window


def test_reads_no_further_than_a_window():
    read = []

    def lines():
        for line in some_lines(30):
            read.append(line)
            yield line

    found = translator(window=4).translate(lines())
    next(found)
    assert len(read) == 4
    interactive = translator(window=1).translate(lines())
    next(interactive)
    assert len(read) == 5


def test_the_lines_before_an_error_are_served():
    def lines():
        yield from ["ba do", "ki"]
        raise DataError("bad byte")

    served = []
    with pytest.raises(DataError, match="bad byte"):
        for translation in translator().translate(lines()):
            served.append(translation.source)
    assert served == ["ba do", "ki"]


@EVERY_POLICY
def test_nbest_are_different_and_in_order():
    [found] = translator(nbest=3).translate(["ba do ki lu"])
    scores = [candidate.score for candidate in found.candidates]
    assert scores == sorted(scores, reverse=True)
    assert len({candidate.pieces for candidate in found.candidates}) == 3
    assert found.text == found.candidates[0].text
    with pytest.raises(ConfigError, match="beam"):
        translator(beam=2, nbest=3)


COMPOSED = "b\u00e4 do \u1ec7 \ud55c \u00c5 \u03a9"
"""Two marks on a letter, a Korean syllable, and two letters that have signs of the same look."""


def test_source_text_is_normalised_as_in_training():
    composed, decomposed = COMPOSED, unicodedata.normalize("NFD", COMPOSED)
    vocab = train_vocabulary([composed, decomposed, "do ba"] * 3, size=30, normalization="identity").vocab
    torch.manual_seed(0)
    built = accelerate(Transformer(CONFIG.model, vocab.size), chosen()).eval()
    torch.nn.init.normal_(built.embedding.weight, std=0.7)

    def texts(config):
        ensemble = Ensemble((built,), VocabularyPair.shared(vocab), config, CPU)
        signs = composed.replace("\u00c5", "\u212b").replace("\u03a9", "\u2126")
        made = Translator(ensemble, translate_options(config.decoding)).translate([composed, decomposed, signs])
        first, second, third = (t.candidates[0] for t in made)
        assert first == third or not config.data.source_text
        return first, second

    first, second = texts(CONFIG)
    assert (first.pieces, first.score) != (second.pieces, second.score)
    for steps in (Nfc(),), (SentencePieceRule(rule="nfkc"),):
        data = CONFIG.data.model_copy(update={"source_text": steps})
        first, second = texts(CONFIG.model_copy(update={"data": data}))
        assert first.pieces == second.pieces
        assert first.score == pytest.approx(second.score, abs=1e-5)


def test_punctuation_is_that_of_the_source_language():
    """Moses turns English commas behind a quotation mark, and separates German decimals by a comma."""
    vocab = train_vocabulary(['ba "do," ki 3.5', 'ba 3,5 "do", ki'] * 3, size=30, normalization="identity").vocab
    built = accelerate(Transformer(CONFIG.model, vocab.size), chosen()).eval()
    for language, normalised in (("en", 'ba "do," ki'), ("de", 'ba "do", ki')):
        data = {"source_text": (MosesPunctuation(language=language),)}
        config = CONFIG.model_copy(update={"data": CONFIG.data.model_copy(update=data)})
        ensemble = Ensemble((built,), VocabularyPair.shared(vocab), config, CPU)
        [found] = Translator(ensemble, translate_options(config.decoding)).translate(["ba “do”, ki"])
        assert found.source_pieces == tuple(vocab.pieces(vocab.encode([normalised])[0]))
        scorer = TargetScorer(ensemble, translate_options(config.decoding, alignment=True))
        [[scored]] = scorer.score_windows([("ba “do”, ki", "ba “do”, ki")])
        assert scored.source_pieces == found.source_pieces
        assert scored.pieces == tuple(vocab.pieces(vocab.encode(["ba “do”, ki"])[0]))


def test_a_long_line_is_translated_in_parts_which_join_the_batch():
    made = translator(nbest=2, max_source_length=8, guard=False, split_sentences="never")
    line = "ba do ki. Lu me no! Pa ru se."
    [found] = made.translate([line])
    texts = ["ba do ki.", "Lu me no!", "Pa ru se."]
    parts = list(made.translate(texts))
    assert (found.parts, found.is_cut) == (3, True)
    assert found.source == line
    for rank, candidate in enumerate(found.candidates):
        alone = [part.candidates[rank] for part in parts]
        assert candidate.text == " ".join(part.text for part in alone if part.text)
        assert candidate.pieces == tuple(itertools.chain.from_iterable(part.pieces for part in alone))
        assert candidate.log_probability == pytest.approx(sum(part.log_probability for part in alone), abs=1e-4)
        assert candidate.score == pytest.approx(sum(part.score for part in alone), abs=1e-4)
    assert json.loads(formatted(found, 1, 2, "jsonl")[0])["parts"] == 3


def test_parts_are_joined_without_a_space_where_the_language_has_none():
    data = CONFIG.data.model_copy(update={"target_lang": "ja"})
    config = CONFIG.model_copy(update={"data": data})
    made = translator(beam=1, config=config, max_source_length=9, guard=False)
    [found] = made.translate(["ba do ki. Lu me no!"])
    assert found.parts == 2
    assert found.text == "".join(t.text for t in made.translate(["ba do ki.", "Lu me no!"]))


SIDE = SideLines(sentences=(990, 1), pieces=PieceCounts(p50=6, p90=8, p99=10, p999=12, max=20))
LINES = LineStatistics(
    max_pieces=30,
    source=SIDE,
    target=SIDE,
    target_per_source=LengthRatio(p1=0.6, p10=0.8, p50=1.0, p90=1.2, p99=1.6),
)


def described(source_lang: str = "en", target_lang: str = "de") -> Config:
    """Settings of a model that knows what its training lines were like."""
    data = {"source_lang": source_lang, "target_lang": target_lang, "lines": LINES}
    return CONFIG.model_copy(update={"data": CONFIG.data.model_copy(update=data)})


def test_a_line_of_more_sentences_than_the_training_lines_is_translated_sentence_by_sentence():
    made = translator(config=described(), guard=False)
    sentences = ["Ba do ki.", "Lu me!", "No pa ru se?"]
    alone = [found.text for found in made.translate(sentences)]
    for between in (" ", "  ", "\t"):
        [found] = made.translate([between.join(sentences)])
        assert (found.parts, found.is_cut, found.text) == (3, False, between.join(alone))
    [whole] = translator(config=described(), guard=False, split_sentences="never").translate([" ".join(sentences)])
    assert whole.parts == 1


def test_a_sentence_per_line_comes_out_as_if_nothing_were_split():
    lines = [*some_lines(40), "Ba do ki.", "ba do. ki lu.", "Dr. Ba do 3.5 ki"]
    found = [
        [translation.text for translation in translator(config=config, split_sentences=mode).translate(lines)]
        for config, mode in [(described(), "auto"), (described(), "always"), (LANGUAGES, "never")]
    ]
    # The one line of two sentences, all in lower case.
    assert [translation.parts for translation in translator(config=described()).translate(lines)] == [
        2 if line == "ba do. ki lu." else 1 for line in lines
    ]
    changed = [line for line, *texts in zip(lines, *found, strict=True) if len(set(texts)) > 1]
    assert changed == ["ba do. ki lu."]


def test_canonically_equal_lines_and_prefixes_have_equal_translations():
    forms = [unicodedata.normalize(form, COMPOSED) for form in ("NFC", "NFD")]
    data = CONFIG.data.model_copy(update={"source_text": (Nfc(),), "target_text": (Nfc(),)})
    config = CONFIG.model_copy(update={"data": data})
    made = translator(alignment=True, nbest=2, config=config)
    for prefixes in (None, ["ti \u00e9", "ti e\u0301"]):
        first, second = made.translate([f"{form} \u2603" for form in forms], prefixes)
        assert first.candidates == second.candidates
    scorer = TargetScorer(Ensemble((model(),), PAIR, config, CPU), translate_options(config.decoding))
    [[first, second]] = scorer.score_windows([(form, form) for form in forms])
    assert (first.score, first.pieces) == (second.score, second.pieces)


WORDLESS = [
    "-----",
    "===",
    "***",
    "...",
    "…",
    " 12345 ",
    "1.234,56 €",
    "3/4",
    "½",
    "50 %",
    "10:30",
    "2026-11-26",
    "+49 30 12",
]
OTHER_WORDLESS = [
    "(1)",
    "•",
    "。！？",
    "２０２６",
    "१२।",
    "١٢٣",
    "😀 👩\u200d👧",
    "\u200b",
    "\u0301",
    "☎ №",
    "=" * 900,
    "1 " * 900,
    "https://example.org/a (b@example.org)",
    "%s {name}: <br/>",
    "XIV",
]


def test_a_line_without_words_is_copied():
    lines = [*WORDLESS, *OTHER_WORDLESS]
    normalizing = CONFIG.data.model_copy(
        update={"source_text": (SentencePieceRule(rule="nfkc"),)}
    )  # which makes a word of №
    for options in (
        {}, {"nbest": 2, "alignment": True}, {"split_sentences": "always"}, {"copy_unknown": True},
        {"config": CONFIG.model_copy(update={"data": normalizing})},
    ):  # fmt: skip
        found = list(translator(**options).translate(lines))
        assert [[candidate.text for candidate in translation.candidates] for translation in found] == [
            [line] for line in lines
        ]
        assert all(translation.parts == 1 and translation.guard is None for translation in found)
    assert {candidate.alignment for candidate in next(translator(alignment=True).translate(["..."])).candidates} == {()}
    [left] = translator(copy_unknown=False).translate(["..."])
    assert left.source_pieces and left.candidates[0].log_probability < 0
    [prefixed] = translator().translate(["..."], ["ti"])
    assert prefixed.text.startswith("ti")


def test_a_line_with_a_prefix_is_translated_whole():
    [found] = translator(config=described()).translate(["Ba do. Ki lu. Me no."], prefixes=["ti"])
    assert found.parts == 1
    assert found.text.startswith("ti")


def test_a_prefix_is_segmented_as_target_text():
    """Its pieces have other ids in the source's vocabulary."""
    lines = [" ".join(words) for words in itertools.permutations(["xo", "ti", "wu", "se"])]
    target = train_vocabulary(lines, size=20).vocab
    vocab = VocabularyPair(VOCAB, target)
    config = CONFIG.model_copy(update={"model": CONFIG.model.model_copy(update={"tied_embeddings": "decoder"})})
    built = accelerate(
        Transformer(config.model, vocab.target.size, source_vocab_size=vocab.source.size), chosen()
    ).eval()
    [found] = Translator(Ensemble((built,), vocab, config, CPU), translate_options(config.decoding)).translate(
        ["ba do"], prefixes=["ti se"]
    )
    assert found.text.startswith("ti se")


def test_an_ensemble_has_the_positions_of_its_smallest_model():
    small = accelerate(Transformer(CONFIG.model.model_copy(update={"max_positions": 32}), VOCAB.size), chosen()).eval()
    for models in ((model(), small), (small, model())):
        assert (
            Translator(Ensemble(models, PAIR, CONFIG, CPU), translate_options(CONFIG.decoding)).max_source_length == 31
        )


def test_the_limit_is_what_training_lines_had_at_most():
    assert translator(config=described()).max_source_length == 30
    assert translator(config=described(), max_source_length=40).max_source_length == 40
    assert translator().max_source_length == 63
    assert "split_sentences" in translator().settings


def test_split_sentences_has_three_values():
    with pytest.raises(ConfigError, match="split_sentences: expected 'auto', 'always' or 'never'"):
        translator(split_sentences="sometimes")


def test_parts_need_positions():
    with pytest.raises(ConfigError, match="at most 63"):
        translator(max_source_length=64)


def test_a_character_with_more_pieces_than_the_model_has_positions_is_no_error():
    tiny = accelerate(Transformer(CONFIG.model.model_copy(update={"max_positions": 3}), VOCAB.size), chosen()).eval()
    made = Translator(Ensemble((tiny,), PAIR, CONFIG, CPU), translate_options(DecodingConfig(beam=1)))
    [found] = made.translate(["\ufdfa ba"])  # an honorific of 18 letters in one character
    assert found.parts == 2


def hypothesis(text: str, score: float) -> Hypothesis:
    return Hypothesis(tuple(VOCAB.encode([text])[0]), score, score)


SOURCE = "ba do ki lu me no pa ru se ti"
LOOP, COPY, SOUND, OTHER = "ba do " * 6, SOURCE, "ti se ru pa", "no me lu ki"


class Searches:
    """Stands in for beam search: gives what it is told to, and remembers what it was asked for."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked: list[SearchSettings] = []

    def __call__(self, models, source_BS, settings, with_others=False, **others):
        self.asked.append(settings)
        texts = self.answers.pop(0)[: None if with_others else settings.nbest]
        return [[hypothesis(text, -1.0 - rank) for rank, text in enumerate(texts)] for _ in source_BS]


LANGUAGES = CONFIG.model_copy(
    update={"data": CONFIG.data.model_copy(update={"source_lang": "en", "target_lang": "de"})}
)


def guarded(monkeypatch, *answers: list[str], **options):
    searches = Searches(*answers)
    monkeypatch.setattr("nmt.translation.searcher.beam_search", searches)
    [found] = translator(beam=4, config=LANGUAGES, **options).translate([SOURCE])
    return found, searches.asked


def test_what_is_sound_is_searched_for_once(monkeypatch):
    found, asked = guarded(monkeypatch, [SOUND])
    assert (found.text, found.guard, len(asked)) == (SOUND, None, 1)


def test_the_next_sound_candidate_takes_the_place_of_a_broken_one(monkeypatch):
    found, asked = guarded(monkeypatch, [LOOP, "", SOUND], nbest=3)
    assert [candidate.text for candidate in found.candidates] == [SOUND, LOOP.strip(), ""]
    assert found.guard == Finding(("looping",), repaired=True)
    assert len(asked) == 1


def test_what_the_search_has_finished_beside_the_best_is_tried_first(monkeypatch):
    """With one translation per line, too, and without a search."""
    found, asked = guarded(monkeypatch, [LOOP, "", SOUND])
    assert [candidate.text for candidate in found.candidates] == [SOUND]
    assert (found.guard, len(asked)) == (Finding(("looping",), repaired=True), 1)
    found, asked = guarded(monkeypatch, [COPY, LOOP, OTHER], sampling=Sampling())
    assert [candidate.text for candidate in found.candidates] == [OTHER]
    assert (found.guard, len(asked)) == (Finding(("copied",), repaired=True), 1)


def test_of_wrong_candidates_the_first_with_fewer_problems_is_taken(monkeypatch):
    """One that has another problem instead is not better."""
    longer = "ba do " * 40
    for answers in ([longer, LOOP], [""]), ([longer], ["", LOOP]):
        found, asked = guarded(monkeypatch, *answers)
        assert (found.text, len(asked)) == (LOOP.strip(), 2)
        assert found.guard == Finding(("looping", "too_long"), repaired=False)


def translated(monkeypatch, line: str, *answers: list[str], **options):
    monkeypatch.setattr("nmt.translation.searcher.beam_search", Searches(*answers))
    [found] = translator(beam=4, config=LANGUAGES, **options).translate([line])
    return found


def test_what_has_to_be_kept_is_kept_by_another_candidate(monkeypatch):
    line = "ba {0} ki lu 1998 me"
    vocab = train_vocabulary([f"{{0}} {{1}} 1998 {a} {b}" for a, b in itertools.permutations(WORDS, 2)], size=50).vocab
    for name, value in {"VOCAB": vocab, "PAIR": VocabularyPair.shared(vocab)}.items():
        monkeypatch.setitem(globals(), name, value)
    found = translated(monkeypatch, line, ["ti {0} se 1989", "ti {1} se 1998", "no {0} 1998 me"])
    assert (found.text, found.guard) == ("no {0} 1998 me", Finding(("number",), repaired=True))
    # An invented number is not replaced by another one.
    invented = translated(monkeypatch, "ba ki lu me", ["ti 1998 se", "ti 19 se", "ti no se"])
    assert (invented.text, invented.guard) == ("ti no se", Finding(("number",), repaired=True))
    # A repair of anything loses no number.
    looping = translated(monkeypatch, "ba do 1 ki", ["no 1 " + "me no " * 6, "ti se", "ti 1 se"])
    assert (looping.text, looping.guard) == ("ti 1 se", Finding(("looping",), repaired=True))
    # Nothing is worse for it.
    worse = translated(monkeypatch, line, ["ti {0} se 1989", "{0} 1998 " + "me no " * 6], [""])
    assert (worse.text, worse.guard) == ("ti {0} se 1989", Finding(("number",), repaired=False))
    # The number of a language tag is none of the source.
    monkeypatch.setattr(type(vocab), "split_tag", lambda self, line: ("", line.removeprefix("2019 ")))
    tagged = translated(monkeypatch, f"2019 {line}", ["ti {0} se 1989", "no {0} 1998 me"])
    assert (tagged.text, tagged.guard) == ("no {0} 1998 me", Finding(("number",), repaired=True))


def test_the_guard_forgets_what_the_search_has_finished(monkeypatch):
    monkeypatch.setattr("nmt.translation.searcher.beam_search", Searches([SOUND, LOOP], [LOOP, SOUND]))
    tried = translator(beam=4, config=LANGUAGES)
    for _ in range(2):
        [[segment]] = tried.prepare([Line(SOURCE)])
        [found] = tried.search([segment])
        assert (found.candidates[0].text, found.others) == (SOUND, ())


def test_what_was_copied_is_compared_as_it_is_put_back(monkeypatch):
    """The vocabulary has no braces: a placeholder is copied, other braces surround what the model wrote."""
    found = translated(monkeypatch, "ba do ki {lu}", ["ti se no"])
    assert (found.text.count("{lu}"), found.guard) == (1, None)
    found = translated(monkeypatch, "ba do {ki lu}", ["ti"])
    assert found.guard == Finding(("placeholder",), repaired=False)
    # A repair of something else does not help.
    found = translated(monkeypatch, "ba do {ki lu}", [LOOP, "ti"])
    assert found.guard == Finding(("looping", "placeholder"), repaired=False)
    found = translated(monkeypatch, "ba do 45 ki lu", ["ti se no"])
    assert "45" in found.text
    assert found.guard is None


@pytest.mark.parametrize(
    ("line", "answers", "searched", "expected", "finding"),
    [
        ("BA DO KI", [[LOOP], ["ti se"]], ["BA DO KI", "Ba do ki"], "TI SE", Finding(("looping",), repaired=True)),
        ("BA DO KI", [["Ti se no"]], ["BA DO KI"], "Ti se no", None),
        ("BA do KI", [[LOOP], ["ti se"]], ["BA do KI"] * 2, "ti se", Finding(("looping",), repaired=True)),
        # In lower case it is no better: then what helps other lines is tried.
        ("BA DO", [[LOOP], [LOOP], ["ti"]], ["BA DO", "Ba do", "BA DO"], "ti", Finding(("looping",), repaired=True)),
    ],
)
def test_a_wrong_line_in_capitals_is_searched_for_in_lower_case(
    monkeypatch, line, answers, searched, expected, finding
):
    sources, found = searched_as(monkeypatch, line, *answers)
    assert (sources, found.text, found.guard) == (searched, expected, finding)
    assert len(found.candidates[0].alignment) == len(found.candidates[0].pieces)


@pytest.mark.parametrize(
    ("line", "answers", "searched", "expected", "repaired"),
    [
        ("ba www.do.org ki", [["ti se"], ["no me"]], ["ba www.do.org ki", "ba ki"], {"no", "www.do.org", "me"}, True),
        ("ba {ki} do lu", [["ti se"], ["no me"]], ["ba {ki} do lu", "ba do lu"], {"no", "{ki}", "me"}, True),
        ("ba www.do.org ki", [["ti www.do.org se"]], ["ba www.do.org ki"], {"ti", "www.do.org", "se"}, None),
        # One that was invented cannot be put back.
        ("ba ki", [["ti www.do.org"], ["me"]], ["ba ki"] * 2, {"me"}, True),
        # What is found without it is worse: then what helps other lines is tried.
        ("ba www.do.org", [["ti"], [LOOP], ["me"]], ["ba www.do.org", "ba", "ba www.do.org"], {"ti"}, False),
    ],
)
def test_an_address_or_placeholder_that_is_lost_is_put_back(monkeypatch, line, answers, searched, expected, repaired):
    sources, found = searched_as(monkeypatch, line, *answers)
    assert (sources, set(found.text.split())) == (searched, expected)
    assert (found.guard and found.guard.repaired) == repaired


def searched_as(monkeypatch, line, *answers, config=LANGUAGES, **options):
    """The texts that were searched for a line, and its translation. The vocabulary has all characters."""
    pairs = [" ".join(words) for words in itertools.permutations(WORDS, 2)]
    others = [*map(str.upper, pairs), *map(str.capitalize, pairs), *(f"{{{word}}} www.{word}.org" for word in WORDS)]
    vocab = train_vocabulary([*pairs, *others], size=100).vocab
    for name, value in {"VOCAB": vocab, "PAIR": VocabularyPair.shared(vocab)}.items():
        monkeypatch.setitem(globals(), name, value)
    sources, answered = [], Searches(*answers)

    def search(models, source_BS, settings, **others):
        sources.extend(vocab.decode([[index for index in source_BS[0].tolist() if index != vocab.EOS]]))
        return answered(models, source_BS, settings, **others)

    monkeypatch.setattr("nmt.translation.searcher.beam_search", search)
    [found] = translator(beam=4, config=config, alignment=True, **options).translate([line])
    return sources, found


def test_without_one_a_wider_search_is_made_that_knows_no_empty_output(monkeypatch):
    found, [first, second] = guarded(monkeypatch, [COPY], [LOOP, OTHER])
    assert [candidate.text for candidate in found.candidates] == [OTHER]
    assert found.guard == Finding(("copied",), repaired=True)
    assert second.beam > first.beam
    assert second.nbest == second.beam
    assert second.min_length == 1


def test_the_second_search_keeps_the_minimum_length_and_scores_as_the_first(monkeypatch):
    found, [_, second] = guarded(monkeypatch, [COPY], [OTHER], min_length=7, length_penalty=0.6)
    assert second.min_length == 7
    [candidate] = found.candidates
    assert candidate.score == pytest.approx(
        candidate.log_probability / length_penalty(len(VOCAB.encode([OTHER])[0]) + 1, 0.6)
    )


@pytest.mark.parametrize(("beam", "second_beam"), [(3, 8), (6, 12)])
def test_the_second_search_is_twice_as_wide_and_at_least_8(monkeypatch, beam, second_beam):
    searches = Searches([COPY], [OTHER])
    monkeypatch.setattr("nmt.translation.searcher.beam_search", searches)
    list(translator(beam=beam, config=LANGUAGES).translate([SOURCE]))
    assert [search.beam for search in searches.asked] == [beam, second_beam]


@pytest.mark.parametrize(("given", "second_penalty"), [(0.6, 1.0), (1.5, 1.5)])
def test_the_second_search_has_a_length_penalty_of_at_least_1(monkeypatch, given, second_penalty):
    _, [first, second] = guarded(monkeypatch, [COPY], [OTHER], length_penalty=given)
    assert (first.length_penalty, second.length_penalty) == (given, second_penalty)


def test_a_batch_counts_the_end_of_each_source(monkeypatch):
    """Two lines of 4 pieces and their ends are 10 tokens."""
    widths = []

    def search(models, source_BS, settings, **others):
        widths.append(tuple(source_BS.shape))
        return [[hypothesis(SOUND, -1.0)] for _ in source_BS]

    monkeypatch.setattr("nmt.translation.searcher.beam_search", search)
    line = next(line for line in (SOURCE[:size] for size in range(len(SOURCE))) if len(VOCAB.encode([line])[0]) == 4)
    for batch_tokens in (9, 10):
        list(translator(guard=False, workers=1, batch_tokens=batch_tokens).translate([line] * 2))
    assert widths == [(1, 5), (1, 5), (2, 5)]


def test_a_beam_wider_than_4_searches_fewer_lines_at_once(monkeypatch):
    """Also that of the second search, where the first was narrow."""
    shapes = []

    def search(models, source_BS, settings, **others):
        shapes.append((settings.beam, len(source_BS)))
        return [[hypothesis(COPY, -1.0)] for _ in source_BS]

    monkeypatch.setattr("nmt.translation.searcher.beam_search", search)
    tokens = 4 * (len(VOCAB.encode([SOURCE])[0]) + 1)
    for beam in (4, 8):
        chosen = translator(beam=beam, config=LANGUAGES, workers=1, batch_tokens=tokens)
        assert chosen.batch_tokens == tokens * 4 // beam
        list(chosen.translate([SOURCE] * 4))
    assert shapes == [(4, 4), (8, 2), (8, 2), (8, 2), (8, 2), (16, 1), (16, 1), (16, 1), (16, 1)]


def test_where_nothing_better_is_found_the_first_stays(monkeypatch):
    found, _ = guarded(monkeypatch, [LOOP], [COPY, ""])
    assert (found.text, found.guard) == (LOOP.strip(), Finding(("looping",), repaired=False))
    record = json.loads(formatted(found, 1, 1, "jsonl")[0])
    assert record["guard"] == {"problems": ["looping"], "repaired": False}


TWO = "ba do ki no me lu. pa ru se ti ba do."
HALF, LONG_ENOUGH = "ti se ru pa", "ti se ru pa ba ki me lu no"


def test_an_incomplete_translation_is_searched_for_again_sentence_by_sentence(monkeypatch):
    searches = Searches([HALF, "lu"], [f"{SOUND} no", "ki"])
    monkeypatch.setattr("nmt.translation.searcher.beam_search", searches)
    # The vocabulary has no full stop, and it would be copied rather than read.
    made = translator(beam=4, nbest=2, config=described(), split_sentences="never", copy_unknown=False)
    [found] = made.translate([TWO])
    assert found.guard == Finding(("incomplete",), repaired=True)
    # The second search is of two sentences, in one batch.
    assert (found.text, found.parts, len(searches.asked)) == (f"{SOUND} no {SOUND} no", 2, 2)
    assert found.candidates[1].text == HALF


def test_sentences_in_capitals_that_were_repaired_are_not_searched_for_again(monkeypatch):
    options = {"config": described(), "split_sentences": "never", "copy_unknown": False}
    sources, found = searched_as(monkeypatch, TWO.upper(), [HALF], [LONG_ENOUGH], [SOUND], **options)
    assert (len(sources), found.text, found.parts) == (2, LONG_ENOUGH.upper(), 1)
    assert found.guard == Finding(("incomplete",), repaired=True)


def test_a_translation_is_short_if_hardly_any_training_pair_is_as_short(monkeypatch):
    """Of one in a hundred pairs the target is shorter; that it is shorter than in one of ten says nothing."""
    pieces = len(VOCAB.encode([TWO])[0])
    outputs = {len(VOCAB.encode([text])[0]): text for text in (" ".join(WORDS[:size]) for size in range(1, 11))}
    found = {}
    for length, text in outputs.items():
        monkeypatch.setattr("nmt.translation.searcher.beam_search", Searches([text]))
        made = translator(config=described(), split_sentences="never", copy_unknown=False, guard=False)
        [translation] = made.translate([TWO])
        found[length / pieces] = translation.guard is not None and "incomplete" in translation.guard.problems
    assert found == {ratio: ratio < 0.6 for ratio in found}
    assert any(0.6 < ratio < 0.8 for ratio in found)


def test_where_its_sentences_take_too_much_memory_the_first_stays(monkeypatch):
    searches = Searches([HALF], [""])
    numbers = []

    def search(*arguments, **options):
        numbers.append({number // 2**24 for number in options["numbers"]})
        if len(numbers) > 1:
            raise MemoryError
        return searches(*arguments, **options)

    monkeypatch.setattr("nmt.translation.searcher.beam_search", search)
    made = translator(beam=4, config=described(), split_sentences="never", copy_unknown=False)
    [[found]] = made.translate_windows([Line(TWO, number=6)])
    assert (found.text, found.guard) == (HALF, Finding(("incomplete",), repaired=False))
    assert all(of_search == {6} for of_search in numbers)


def test_where_its_sentences_do_not_help_the_search_is_widened(monkeypatch):
    searches = Searches([HALF], [""], [HALF, LONG_ENOUGH])
    monkeypatch.setattr("nmt.translation.searcher.beam_search", searches)
    made = translator(beam=4, config=described(), split_sentences="never", copy_unknown=False)
    [found] = made.translate([TWO])
    assert found.guard == Finding(("incomplete",), repaired=True)
    assert (found.text, found.parts, searches.asked[2].beam) == (LONG_ENOUGH, 1, 8)


def test_without_the_guard_problems_are_told_and_nothing_is_done(monkeypatch):
    found, asked = guarded(monkeypatch, [LOOP, SOUND], nbest=2, guard=False)
    assert (found.text, found.guard, len(asked)) == (LOOP.strip(), Finding(("looping",), repaired=False), 1)


def test_samples_are_never_replaced_by_what_a_search_finds(monkeypatch):
    found, asked = guarded(monkeypatch, [COPY, LOOP], nbest=2, sampling=Sampling())
    assert (found.text, found.guard, len(asked)) == (COPY, Finding(("copied",), repaired=False), 1)
    found, asked = guarded(monkeypatch, [COPY, SOUND, COPY], nbest=3, sampling=Sampling())
    assert [candidate.text for candidate in found.candidates] == [SOUND, COPY, COPY]


def test_minimum_bayes_risk_chooses_among_all_that_was_found(monkeypatch):
    answers = [SOUND, OTHER, f"{OTHER} ba", f"{OTHER} do"]
    found, [asked] = guarded(monkeypatch, answers, nbest=2, mbr=True, sampling=Sampling())
    choices = rerank(answers)
    assert [c.text for c in found.candidates] == [answers[choice.index] for choice in choices[:2]]
    assert [c.expected_utility for c in found.candidates] == [choice.expected_utility for choice in choices[:2]]
    assert found.text != SOUND
    assert asked.nbest == 4
    # The first is by far the likeliest of a beam, and so is most of what the others are compared with.
    monkeypatch.setattr(
        "nmt.translation.minimum_bayes_risk.pairwise_chrf", lambda texts: np.full((len(texts), len(texts)), 50.0)
    )
    found, _ = guarded(monkeypatch, answers, mbr=True)
    assert (found.text, len(found.candidates)) == (SOUND, 1)
    assert json.loads(formatted(found, 1, 1, "jsonl")[0])["candidates"][0]["expected_utility"] == 50


@EVERY_POLICY
def test_samples_depend_on_the_place_of_a_line_alone():
    lines = ["ba do ki. Lu me no!", *some_lines(20)[1:]] * 2
    options = {"nbest": 3, "guard": False, "max_source_length": 8}

    def texts(sampling=Sampling(seed=5), **others):
        found = translator(sampling=sampling, **options, **others).translate(lines)
        return [tuple(candidate.text for candidate in t.candidates) for t in found]

    expected = texts()
    assert texts(batch_tokens=40, window=7) == expected
    assert texts(Sampling(seed=6)) != expected
    assert expected[:20] != expected[20:]
    made = translator(sampling=Sampling(seed=5), **options)
    behind = [Line(line, number=number) for number, line in enumerate(lines)][9:]
    rest = itertools.chain.from_iterable(made.translate_windows(behind))
    assert [tuple(candidate.text for candidate in t.candidates) for t in rest] == expected[9:]


@EVERY_POLICY
def test_translations_begin_with_their_prefixes():
    lines = ["ba do", "", "ki lu me", "no. " * 40, "pa"]
    prefixes = ["se ti", "ru", "", "lu", "do"]
    found = list(translator(window=2, nbest=2).translate(lines, prefixes))
    plain = list(translator(window=2, nbest=2).translate(lines))
    for index in (0, 4):
        assert all(candidate.text.startswith(prefixes[index]) for candidate in found[index].candidates)
    for index in (1, 2, 3):  # blank, without a prefix, in parts
        assert found[index] == plain[index]
    with pytest.raises(DataError, match="more than 4 lines, but the list of prefixes has 4"):
        list(translator().translate(lines, prefixes[:4]))
    with pytest.raises(DataError, match="positions"):
        list(translator().translate(["ba"], ["ba " * 80]))


def test_every_part_of_a_line_begins_with_the_piece_of_its_language():
    affix = Affix(chosen_by="target", pieces={"de": "▁ti"})
    data = CONFIG.data.model_copy(update={"target_text": (affix,)})
    engine = Ensemble((model(),), PAIR, CONFIG.model_copy(update={"data": data}), CPU)
    made = Translator(engine, translate_options(CONFIG.decoding, target_lang="de"))
    found = list(made.translate(["ba", "no. " * 40], [""] * 2))
    assert [t.parts > 1 for t in found] == [False, True]
    assert all(t.text.startswith("ti") and t.text.count("ti") >= t.parts for t in found)


def test_every_part_of_a_line_is_read_with_the_piece_of_the_tag_that_is_asked_for():
    affix = Affix(chosen_by="tag", pieces={"BT": "▁ti"})
    data = CONFIG.data.model_copy(update={"source_text": (affix,)})
    engine = Ensemble((model(),), PAIR, CONFIG.model_copy(update={"data": data}), CPU)
    lines = ["ba", "no. " * 40]
    plain, tagged = (
        list(Translator(engine, translate_options(CONFIG.decoding, tag=tag)).translate(lines)) for tag in (None, "BT")
    )
    assert tagged[0].source_pieces == ("▁ti", *plain[0].source_pieces)
    assert tagged[1].parts == tagged[1].source_pieces.count("▁ti") > 1
    [[scored]] = TargetScorer(engine, translate_options(CONFIG.decoding, tag="BT")).score_windows([("ba", "do")])
    [[unasked]] = TargetScorer(engine, translate_options(CONFIG.decoding)).score_windows([("ba", "do")])
    assert scored.log_probability != unasked.log_probability


@EVERY_POLICY
def test_alignment_tells_of_each_piece_where_it_comes_from_and_how_likely_it_was():
    texts = ["ba do ki.", "Lu me no!"]
    made = translator(nbest=2, alignment=True, max_source_length=8, guard=False)
    first, blank, second, found = made.translate([texts[0], " ", texts[1], " ".join(texts)])
    assert [first.parts, second.parts, found.parts] == [1, 1, 2]
    for each in (first, blank, second, found):
        for candidate in each.candidates:
            assert sum(candidate.piece_log_probabilities) == pytest.approx(candidate.log_probability, abs=1e-4)
            assert len(candidate.piece_log_probabilities) == len(candidate.pieces) + (each.parts if each.text else 0)
            assert len(candidate.alignment) == len(candidate.pieces)
    assert found.source_pieces == first.source_pieces + second.source_pieces
    begin = len(first.source_pieces)
    behind = tuple(None if index is None else begin + index for index in second.candidates[0].alignment)
    assert found.candidates[0].alignment == first.candidates[0].alignment + behind
    record = json.loads(formatted(found, 1, 2, "jsonl")[0])
    assert record["source_pieces"] == list(found.source_pieces)
    assert record["candidates"][0]["alignment"] == list(found.candidates[0].alignment)
    [plain] = translator().translate(texts[:1])
    assert "alignment" not in json.loads(formatted(plain, 1, 1, "jsonl")[0])["candidates"][0]


def test_the_guard_changes_no_line_that_is_sound():
    lines = some_lines(60)
    with_guard, without = (list(translator(guard=guard).translate(lines)) for guard in (True, False))
    for repaired, plain in zip(with_guard, without, strict=True):
        if plain.guard is None or not repaired.guard.repaired:
            assert repaired == plain
        else:
            assert repaired.text != plain.text
    assert any(t.guard is not None for t in without)
    assert any(t.guard is None for t in without)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.binary(max_size=60), max_size=6))
def test_any_bytes_keep_the_count(tmp_path_factory, chunks):
    # The space keeps the bytes from beginning like a compressed file or a text in UTF-16.
    content = b" " + b"\n".join(chunks)
    path = tmp_path_factory.mktemp("bytes") / "in"
    path.write_bytes(content)
    found = list(translator(beam=1, max_source_length=8).translate(read_lines(path, invalid="replace")))
    assert len(found) == content.count(b"\n") + (not content.endswith(b"\n") and bool(content))
    assert all(encode_line(t.text).count(b"\n") == 1 for t in found)


def test_a_line_that_needs_too_much_memory_is_named_by_the_number_that_its_reader_gives(monkeypatch):
    def search(*arguments, **options):
        raise MemoryError

    monkeypatch.setattr("nmt.translation.searcher.beam_search", search)
    made = translator(workers=1)
    with pytest.raises(BeamTooWideError, match=r"^line 8: "):
        list(made.translate_windows([Line("ba", number=7)]))
    with pytest.raises(BeamTooWideError, match=r"^line 70: "):
        list(made.translate_windows([Line("ba", number=7, name=70)]))


@pytest.mark.parametrize(
    ("target_lang", "between"), [("de", " "), ("th", " "), ("khm", " "), ("zho_Hans", ""), ("yue", ""), ("jpn", "")]
)
def test_sentences_of_a_line_are_joined_as_their_language_is_written(target_lang, between):
    """Chinese and Japanese, by each code, without spaces; Thai has none between words, but between sentences."""
    made = translator(
        config=described(target_lang=target_lang), split_sentences="always", guard=False, copy_unknown=False
    )
    sentences = ["Ba do ki.", "Lu me no."]
    one, two, both = (found.text for found in made.translate([*sentences, " ".join(sentences)]))
    assert one and two
    assert both == one + between + two
