"""Translating through a pivot language: two models, each with its own vocabulary."""

import itertools
import json
from dataclasses import replace

import pytest
import torch

import nmt
from nmt.checkpoint.bundle import save_bundle
from nmt.config import Config, ModelConfig
from nmt.data.imported_vocab import ImportedVocabulary
from nmt.data.vocab import train_vocabulary
from nmt.data.vocab_pair import VocabularyPair
from nmt.errors import ConfigError, DataError, NmtError
from nmt.machine.device import choose_hardware
from nmt.model.transformer import Transformer
from nmt.search.settings import BeamTooWideError, Sampling
from nmt.text.steps import Affix
from nmt.translation.ensemble import Ensemble
from nmt.translation.guard import Finding
from nmt.translation.options import translate_options
from nmt.translation.pivot import PivotTranslator, line_translator
from nmt.translation.segment import Line
from nmt.translation.translator import Translator
from tests.translation.test_translator import STRANGE

LANGUAGES = {"de": "Ba Do ki lu me .", "en": "No Pa ru se ti .", "fr": "Xa Yo zi wu ve ."}
CPU = choose_hardware("cpu", "fp32", 1)


def vocabulary(source: str, target: str, tags: tuple[str, ...] = ()) -> VocabularyPair:
    words = f"{LANGUAGES[source]} {LANGUAGES[target]}".split()
    vocab = train_vocabulary([" ".join(pair) for pair in itertools.permutations(words, 2)], size=60).vocab
    return VocabularyPair.shared(
        ImportedVocabulary(vocab.model_bytes, [*vocab.pieces(range(vocab.size)), *tags]) if tags else vocab
    )


SMALL = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 16, "d_ff": 16, "heads": 2, "max_positions": 64}


def config(source: str, target: str, **decoding: object) -> Config:
    return Config.model_validate(
        {
            "model": SMALL,
            "data": {"source_lang": source, "target_lang": target},
            "decoding": {"beam": 2, "max_extra_length": 5, **decoding},
        }
    )


def model(size: int, settings: ModelConfig, seed: int = 0) -> Transformer:
    torch.manual_seed(seed)
    built = Transformer(settings, size).eval()
    torch.nn.init.normal_(built.embedding.weight, std=0.7)
    return built


def engine(source: str, target: str, tags: tuple[str, ...] = (), **decoding: object) -> Ensemble:
    vocab, settings = vocabulary(source, target, tags), config(source, target, **decoding)
    if tags:
        text = (Affix(chosen_by="target", pieces={tag[2:4]: tag for tag in tags}, is_silent=False),)
        settings = settings.model_copy(update={"data": settings.data.model_copy(update={"source_text": text})})
    return Ensemble((model(vocab.source.size, settings.model),), vocab, settings, CPU)


DE_EN, EN_FR = engine("de", "en"), engine("en", "fr")


def through(*, engines=(DE_EN, EN_FR), via="en", window=None, **options) -> PivotTranslator:
    return line_translator(engines, via, window=window, **options)[0]


def alone(of: Ensemble, **options) -> Translator:
    return Translator(of, translate_options(of.config.decoding, **options))


def test_a_line_is_translated_by_one_model_after_the_other():
    lines = ["Ba do ki .", *(line[:300] for line in STRANGE), "lu me", "Do 123 ☃ ki", "me me me me me me me me"]
    found = list(through(window=4, split_sentences="never").translate(lines))
    between = list(alone(DE_EN, split_sentences="never").translate(lines))
    expected = list(alone(EN_FR, split_sentences="never").translate([each.text for each in between]))
    assert [each.source for each in found] == lines
    assert [(each.via.text, each.source_pieces) for each in found] == [
        (each.text, each.source_pieces) for each in between
    ]
    one_part = [number for number, each in enumerate(between) if each.parts == 1]
    assert len(lines) - len(one_part) == 1
    assert [found[number].text for number in one_part] == [expected[number].text for number in one_part]
    assert {each.text for each in found if not each.source.strip()} == {""}
    assert all("\n" not in each.text for each in found)


def test_each_sentence_of_the_line_is_translated_on_with_the_space_before_it():
    line = "Ba do .  Lu ki ."
    [found] = through(split_sentences="always").translate([line])
    sentences = [each.text for each in through(split_sentences="never").translate(["Ba do .", "Lu ki ."])]
    assert found.text == "  ".join(sentences)
    assert found.parts >= found.via.parts == 2


def test_a_prefix_is_of_the_last_translation_and_keeps_the_line_whole():
    line = "Ba do . Lu ki ."
    [found] = through().translate([line], ["Xa Yo"])
    [between] = alone(DE_EN, split_sentences="never").translate([line])
    assert (found.via, found.parts) == (between, 1)
    assert found.text.startswith("Xa Yo")
    assert next(through().translate([line])).parts > 1


def test_a_prefix_is_left_out_of_a_line_in_parts():
    [found] = through(max_source_length=8).translate(["ba do ki lu me " * 4], ["Xa Yo"])
    assert found.is_cut and not found.text.startswith("Xa Yo")


def test_further_candidates_and_samples_are_of_the_last_model():
    lines = ["Ba do ki .", "lu me"]
    usual = [each.via for each in through().translate(lines)]
    several = list(through(beam=3, nbest=3).translate(lines))
    sampled = list(through(beam=5, nbest=4, mbr=True, sampling=Sampling(seed=1)).translate(lines))
    assert [(len(each.candidates), len(each.via.candidates)) for each in several] == [(3, 1)] * 2
    assert [(len(each.candidates), each.via) for each in sampled] == [(4, via) for via in usual]
    again = list(through(beam=5, nbest=4, mbr=True, sampling=Sampling(seed=2)).translate(lines))
    assert [each.candidates for each in again] != [each.candidates for each in sampled]


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({}, {"beam": None, "length_penalty": 0.6, "nbest": 1}),
        ({"beam": 3, "nbest": 2}, {"beam": 3, "nbest": 2}),
        ({"beam": 6, "sampling": Sampling()}, {"beam": 6}),
    ],
)
def test_settings_that_only_the_defaults_of_the_models_set_apart_are_not_recorded(options, kept):
    found = through(engines=(engine("de", "en", beam=4), EN_FR), **options).settings
    assert {name: found.get(name) for name in kept} == kept
    assert (found["via"], found["precision"], found["engine"]) == ("en", "fp32", "torch")


def test_what_either_guard_finds_is_said_of_the_line():
    made = through(guard=False)
    [segments] = made.prepare([Line("Ba do ki .")])
    [part] = made.search(segments)
    [onward] = part.onward
    one, two = Finding(("number",), repaired=True), Finding(("empty",), repaired=False)
    assert made.joined("", [replace(part, finding=one)]).guard == one
    found = made.joined("", [replace(part, finding=one, onward=(replace(onward, finding=two),))])
    assert found.guard == Finding(("number", "empty"), repaired=False)
    assert found.via.guard == one


def test_each_model_of_several_target_languages_gets_its_tag():
    first, second = engine("de", "en", (">>fra<<", ">>eng<<")), engine("en", "fr", (">>fra<<", ">>ita<<"))
    made = through(engines=(first, second), target_lang="it")
    [segments] = made.prepare([Line("ba do")])
    [part] = made.search(segments)
    [onward] = part.onward
    assert first.vocab.source.pieces(part.segment.pieces)[0] == ">>eng<<"
    assert second.vocab.source.pieces(onward.segment.pieces)[0] == ">>ita<<"
    [found] = made.translate([" >>fra<< ba do"])  # a line may name its language itself
    assert (found.source, found.via.source_pieces[0]) == (" >>fra<< ba do", ">>eng<<")
    assert found.source_pieces[0] == ">>eng<<"
    assert (made.source_lang, made.target_lang, made.language_tags) == ("de", "it", ())


@pytest.mark.parametrize(
    ("engines", "via", "options", "words"),
    [
        ((DE_EN, EN_FR), "fr", {}, "--via fr: the model from de translates to en."),
        (
            (engine("de", "en", (">>fr<<", ">>it<<")), EN_FR),
            "en",
            {},
            "--via en: the model from de translates to fr, it",
        ),
        ((DE_EN, EN_FR), "en", {"alignment": True}, "a word alignment is of one model's source and target: leave out"),
        ((DE_EN, EN_FR), "en", {"max_source_length": 70}, "de to en: max_source_length: got 70, but the model has"),
        ((DE_EN, EN_FR), "en", {"beam": 2, "nbest": 3}, "nbest 3 needs beam of at least 3, got 2"),
    ],
)
def test_what_cannot_be_composed_is_refused(engines, via, options, words):
    with pytest.raises(ConfigError, match=words):
        through(engines=engines, via=via, **options)


def test_an_error_names_the_languages_of_its_model(monkeypatch):
    with pytest.raises(DataError, match=r"^en to fr: line 2: the prefix has "):
        list(through().translate(["ba", "do"], ["Xa", "Xa Yo " * 50]))

    def search(*_: object) -> None:
        raise BeamTooWideError("too wide")

    made = through()
    monkeypatch.setattr(made._first._searcher, "search", search)
    with pytest.raises(BeamTooWideError, match=r"^de to en: too wide$"):
        list(made.translate(["ba"]))


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    """Bundles of models, by their languages; ``de-en-2`` has the vocabulary of ``de-en``."""
    folder = tmp_path_factory.mktemp("bundles")
    for source, target, seed in (("de", "en", 0), ("de", "en", 1), ("en", "fr", 0), ("", "", 0)):
        vocab = vocabulary(source or "de", target or "en")
        settings = config(source, target)
        weights = model(vocab.source.size, settings.model, seed).state_dict()
        save_bundle(folder / (f"{source}-{target}" + "-2" * seed), weights, settings, vocab)
    return folder


def test_models_find_their_places_by_their_languages(bundles):
    first, other, second = (bundles / name for name in ("de-en", "de-en-2", "en-fr"))
    models = [nmt.load(names, via="EN", device="cpu", threads=1) for names in ([first, second], [second, other, first])]
    direct = [nmt.load(names, device="cpu", threads=1) for names in (first, [other, first])]
    assert repr(models[0]) == f"Model('{first}' + '{second}', de-EN-fr, cpu, 1 thread, fp32)"
    for found, alone in zip(models, direct, strict=True):
        [translation] = found.translate(["Ba do ki ."])
        [between] = alone.translate(["Ba do ki ."])
        assert translation.via.text == between.text
        with pytest.raises(NmtError, match="score: a pivot language has no scores of given targets"):
            found.score(["ba"], ["xa"])


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["de-en"], "--via en needs a model to en and one from en: name one from en, too."),
        (["en-fr"], "--via en needs a model to en and one from en: name one to en, too."),
        (["de-en", "-"], "/-: does not record its languages. Import it again"),
        ([], "--via en needs a model to en and one from en"),
    ],
)
def test_a_hop_without_a_model_is_refused_before_anything_is_written(bundles, tmp_path, names, words):
    (tmp_path / "in").write_text("ba\n")
    with pytest.raises(ConfigError) as refused:
        nmt.translate_file(tmp_path / "in", tmp_path / "out", model=[bundles / name for name in names], via="en")
    assert words in refused.value.typed
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_a_file_resumes_with_the_same_models_alone(bundles, tmp_path):
    (tmp_path / "in").write_text("Ba do ki .\n\nlu me\n")
    first, other, second = (bundles / name for name in ("de-en", "de-en-2", "en-fr"))

    def translate(*models, **options):
        given = {"via": "en", "format": "jsonl", "device": "cpu", "threads": 1, **options}
        return nmt.translate_file(tmp_path / "in", tmp_path / "out", model=models, **given)

    assert translate(first, second).entries == 3
    written = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    [found, *_] = nmt.load([first, second], via="en", device="cpu", threads=1).translate(["Ba do ki ."])
    assert (written[0]["translation"], written[0]["via"]["translation"]) == (found.text, found.via.text)
    assert written[1]["via"]["translation"] == ""
    assert not translate(second, first, via="eng").changed
    for models, options in (((other, second), {}), ((first, second), {"beam": 3}), ((second,), {"via": None})):
        with pytest.raises(DataError, match="was made differently"):
            translate(*models, **options)
    record = json.loads((tmp_path / ".out.nmt.json").read_text())["record"]
    assert "--via=en" in record["command"]
    with pytest.raises(ConfigError, match="a word alignment is of one model's source and target"):
        translate(first, second, format="pharaoh")
