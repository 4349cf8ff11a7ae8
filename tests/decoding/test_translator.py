"""Lines in, lines out, whatever the lines are and however they are batched."""

import itertools
import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.config import Config, DecodingConfig, ModelConfig
from nmt.data.vocab import train_vocabulary
from nmt.decoding.output import formatted
from nmt.decoding.translator import Translator
from nmt.device import choose_hardware
from nmt.errors import ConfigError, DataError
from nmt.model.transformer import Transformer

WORDS = ["ba", "do", "ki", "lu", "me", "no", "pa", "ru", "se", "ti"]
VOCAB = train_vocabulary([" ".join(words) for words in itertools.permutations(WORDS, 2)], size=50).vocab
CONFIG = Config(model=ModelConfig(encoder_layers=1, decoder_layers=1, d_model=16, d_ff=16, heads=2, max_positions=64))


def model(seed: int = 0) -> Transformer:
    torch.manual_seed(seed)
    built = Transformer(CONFIG.model, VOCAB.size).eval()
    torch.nn.init.normal_(built.embedding.weight, std=0.7)
    return built


MODEL = model()


def translator(beam: int = 3, **options) -> Translator:
    decoding = DecodingConfig(beam=beam, max_extra_length=5)
    return Translator([MODEL], VOCAB, CONFIG, decoding, choose_hardware("cpu", "fp32", 1), **options)


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


@pytest.mark.parametrize("options", [{"batch_tokens": 1}, {"batch_tokens": 37}, {"window": 1}, {"window": 7}])
def test_batch_and_window_change_nothing(options):
    lines = some_lines(40)
    expected = [t.text for t in translator().translate(lines)]
    assert [t.text for t in translator(**options).translate(lines)] == expected


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


def test_nbest_are_different_and_in_order():
    [found] = translator(nbest=3).translate(["ba do ki lu"])
    scores = [candidate.score for candidate in found.candidates]
    assert scores == sorted(scores, reverse=True)
    assert len({candidate.pieces for candidate in found.candidates}) == 3
    assert found.text == found.candidates[0].text
    with pytest.raises(ConfigError, match="beam"):
        translator(beam=2, nbest=3)


def test_source_text_is_normalised_as_in_training():
    composed, decomposed = "b\u00e4 do", "ba\u0308 do"
    vocab = train_vocabulary([composed, decomposed, "do ba"] * 3, size=30, normalization="identity").vocab
    torch.manual_seed(0)
    built = Transformer(CONFIG.model, vocab.size).eval()
    torch.nn.init.normal_(built.embedding.weight, std=0.7)
    hardware = choose_hardware("cpu", "fp32", 1)

    def texts(config):
        made = Translator([built], vocab, config, config.decoding, hardware).translate([composed, decomposed])
        return [(t.candidates[0].pieces, t.candidates[0].score) for t in made]

    first, second = texts(CONFIG)
    assert first != second
    normalising = CONFIG.model_copy(update={"data": CONFIG.data.model_copy(update={"nfc": True})})
    first, second = texts(normalising)
    assert first == second


def test_text_has_n_lines_a_line_and_jsonl_one():
    blank, full = translator(nbest=2).translate(["", "ba do"])
    assert formatted(blank, 1, 2, "text") == ["", ""]
    assert formatted(full, 2, 2, "text") == [candidate.text for candidate in full.candidates]
    [line] = formatted(full, 2, 2, "jsonl")
    record = json.loads(line)
    assert (record["line"], record["source"], record["translation"]) == (2, "ba do", full.text)
    assert [c["text"] for c in record["candidates"]] == [c.text for c in full.candidates]
    assert record["candidates"][0]["score"] == full.candidates[0].score
