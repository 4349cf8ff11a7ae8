"""Which model translates what: languages in any spelling."""

import gc
import threading
import weakref
from types import SimpleNamespace

import pytest

from nmt.config import DataConfig
from nmt.config.sections import DecodingConfig
from nmt.errors import ConfigError
from nmt.server import models as module
from nmt.server.errors import UnknownLanguageError
from nmt.server.models import Models, ServedModel
from tests.server.doubles import Model, serving, wait_for


@pytest.mark.parametrize(
    ("models", "asked", "found"),
    [
        ([Model("en", "de")], ("EN-GB", "de_AT"), ("en", "de")),
        ([Model("eng", "deu")], ("en", "DE"), ("en", "de")),
        ([Model("en", "zh_Hans")], ("en", "zh"), ("en", "zh-Hans")),
        ([Model("en", "zho_Hans")], ("EN", "zh-hans-CN"), ("en", "zh-Hans")),
        ([Model("en", "pt"), Model("en", "pt_BR")], ("en", "pt-br"), ("en", "pt-BR")),
        ([Model("en", "pt"), Model("en", "pt_BR")], ("en", "PT-PT"), ("en", "pt")),
        ([Model("en", "pt_BR"), Model("en", "pt_PT")], ("en", "pt-PT"), ("en", "pt-PT")),
        ([Model("en", "zh_Hans"), Model("en", "zh_Hant")], ("en", "zh-TW"), ("en", "zh-Hant")),
        ([Model("en", "deu", "fra")], ("en", "fr"), ("en", "fr")),
        ([Model("en", "de"), Model("fr", "de")], ("fr", "de"), ("fr", "de")),
    ],
)
def test_a_direction_is_found_by_any_spelling(models, asked, found):
    direction = Models(models).find(*asked)
    assert (direction.source, direction.target) == found
    assert direction.model in models


@pytest.mark.parametrize(
    ("asked", "found"),
    [(("en", "en"), "en"), (("en", "en-US"), "en-US"), (("en-GB", "en-US"), "en-US"), (("de", "de-AT"), "de")],
)
def test_a_language_is_translated_to_its_variants_as_it_is(asked, found):
    direction = Models([Model("en", "de"), Model("de", "en_US")]).find(*asked)
    assert (direction.source, direction.target, direction.is_identity) == (found, found, True)


@pytest.mark.parametrize(
    ("asked", "message", "of_target"),
    [
        (("xx", "de"), "xx is not supported", False),
        (("en", "xx"), "xx is not supported", True),
        (("de", "en"), "de to en is not supported; supported: en to de, fr to es", False),
        (("en", "es"), "en to es is not supported; supported: en to de, fr to es", True),
        (("en", "x" * 1_000), "x" * 40 + "… is not supported", True),
        (("", ""), " is not supported", False),
        (("en-US-x-y-z" * 100, "de"), "en-US-x-y-zen-US-x-y-zen-US-x-y-zen-US-x… is not supported", False),
    ],
)
def test_an_unknown_direction_is_named(asked, message, of_target):
    with pytest.raises(UnknownLanguageError) as refused:
        Models([Model("en", "de"), Model("fr", "es")]).find(*asked)
    assert (refused.value.message, refused.value.of_target) == (message, of_target)


@pytest.mark.parametrize("other", [Model("en", "de"), Model("eng", "ger"), Model("en", "fra", "deu")])
def test_two_models_of_a_pair_are_an_error(other):
    with pytest.raises(ConfigError, match="two models translate en to de: a server has one for each pair"):
        Models([Model("en", "de"), other])


@pytest.mark.parametrize("model", [Model("", "de"), Model("en", ""), Model("", "de", "fr")])
def test_a_model_without_languages_is_an_error(model):
    with pytest.raises(ConfigError, match="does not record its languages"):
        Models([model])


def test_a_model_of_several_languages_is_told_which():
    with serving([Model("en", "deu", "fra")]) as running:
        assert running.translate("hi", target="fr").json() == {"translatedText": "fra:HI"}
        assert running.translate("hi\n\n there", target="de").json() == {"translatedText": "deu:HI\n\n deu:THERE"}


DE_EN, EN_FR = Model("de", "en"), Model("en", "fr")


@pytest.mark.parametrize(
    ("models", "via", "directions"),
    [
        ([DE_EN, EN_FR], [], "de to en, en to fr"),
        ([DE_EN, EN_FR], ["eng"], "de to en, en to fr, de to fr via en"),
        ([DE_EN, EN_FR, Model("de", "fr")], ["en"], "de to en, en to fr, de to fr"),
        ([DE_EN, EN_FR, Model("en", "de_AT")], ["en"], "de to en, en to fr, en to de-AT, de to fr via en"),
        (
            [Model("de", "en_US"), Model("en_GB", "it"), EN_FR],
            ["en"],
            "de to en-US, en-GB to it, en to fr, de to fr via en-US",
        ),
        (
            [Model("de", "es"), DE_EN, Model("es", "fr"), EN_FR, Model("en", "it")],
            ["en", "es"],
            "de to es, de to en, es to fr, en to fr, en to it, de to fr via en, de to it via en",
        ),
        (
            [Model("de", "eng", "nld"), Model("en", "fra", "ita")],
            ["en"],
            "de to en, de to nl, en to fr, en to it, de to fr via en, de to it via en",
        ),
    ],
)
def test_models_that_meet_in_a_pivot_language_are_composed(models, via, directions):
    assert str(Models(models, via)) == directions


@pytest.mark.parametrize(
    ("fingerprint", "via", "directions"),
    [
        ("x", [], "de to en, en to fr"),
        ("x", ["en"], "de to en, en to fr, de to fr via en"),
        ("", [], "de to en, de to fr, en to fr"),  # imported: any of its languages
    ],
)
def test_a_model_serves_the_directions_that_it_was_trained_on(fingerprint, via, directions):
    other = {"name": "b", "fingerprint": fingerprint, "source_lang": "en", "target_lang": "fr"}
    data = DataConfig(source_lang="de", target_lang="en", fingerprint=fingerprint, mixed_with=(other,))
    served = ServedModel("model", SimpleNamespace(data=data), lambda: None, {})
    assert str(Models([served], via)) == directions


@pytest.mark.parametrize("models", [[DE_EN], [EN_FR], [Model("de", "en_US"), Model("en_GB", "fr")]])
def test_a_pivot_language_needs_a_model_on_either_side(models):
    with pytest.raises(ConfigError, match="--via en needs a model to en and one from en: name both"):
        Models(models, ["en"])


def test_what_is_composed_is_listed_and_translated_like_the_rest():
    first, second = models = Model("de", "nld", "eng"), Model("en", "fra", "ita")
    with serving(models, via=["en"]) as running:
        listed = {one["code"]: one["targets"] for one in running.client.get("/languages").json()}
        assert listed["de"] == ["nl", "en", "fr", "it"]
        targets = running.client.get("/v2/languages", params={"type": "target"}).json()
        assert {"NL", "EN", "FR", "IT"} == {one["language"] for one in targets}
        pairs = running.client.get("/listPairs").json()["responseData"]
        assert {"sourceLanguage": "de", "targetLanguage": "fr"} in pairs
        asked = {"source": "auto", "target": "it", "alternatives": 1}
        for _ in range(2):  # the second time from memory
            answer = running.translate(["ein wort. \n\n", "wrong de"], **asked).json()
            assert answer["translatedText"] == ["ita:ENG:EIN WORT. \n\n", "ita:ENG:WRONG DE"]
            assert answer["alternatives"] == [["ita:ENG:EIN WORT.' \n\n"], ["ita:ENG:WRONG DE'"]]
            assert [one["language"] for one in answer["detectedLanguage"]] == ["de"] * 2
            assert answer["warning"] == "Translation 2 looks wrong (number)."
        assert first.translator("de", "eng").batches == [["ein wort.", "wrong de"]]
        assert second.translator("en", "ita", 2).batches == [["eng:EIN WORT.", "eng:WRONG DE"]]
        streamed = running.client.post("/stream", json={"q": "a\nb", "source": "de", "target": "fr"}).text
        assert "fra:ENG:A" in streamed and "fra:ENG:B" in streamed


def test_translators_through_a_pivot_language_are_shared_and_do_not_outlive_their_models():
    direction = Models([Model("de", "en"), Model("en", "fr")], ["en"]).find("de", "fr")
    translator = direction.translator()
    assert direction.translator() is translator
    models = [weakref.ref(part.translator()) for part in direction.model.parts]
    for part in direction.model.parts:
        part.translators.clear()  # as where it is unloaded
    del translator, part
    gc.collect()
    assert [model() for model in models] == [None, None]


def test_several_models_answer_at_the_same_time():
    models = [Model("en", "de"), Model("en", "fr")]
    with serving(models, workers=2) as running:
        models[0].translator().gate.clear()
        waiting = threading.Thread(target=running.translate, args=("slow",))
        waiting.start()
        wait_for(lambda: models[0].translator().batches)
        assert running.translate("fast", target="fr").json() == {"translatedText": "FAST"}
        models[0].translator().gate.set()
        waiting.join()


def test_a_translator_is_made_once_and_all_have_one_searcher(monkeypatch):
    made, searchers, ended = [], [], []

    def translator(engine, options, searcher):
        made.append((options.target_lang, options.nbest, options.split_sentences))
        assert searchers[-1] is searcher
        return SimpleNamespace(worker_count=3, prepare=lambda lines: [lines], search=lambda segments: None)

    def searcher(options, workers, *, shared):
        assert (options.beam, workers, shared) == (5, 3, True)
        searchers.append(object())
        return searchers[-1]

    monkeypatch.setattr(module, "Translator", translator)
    data = DataConfig(source_lang="en", target_lang="de", fingerprint="x")
    config = SimpleNamespace(decoding=DecodingConfig(beam=5), data=data)
    process = SimpleNamespace(end=ended.append)
    engine = SimpleNamespace(config=config, searcher=searcher, process=process)
    served = ServedModel("model", config, lambda: engine, {}, workers=3)
    versions = {served.version}
    for _ in range(2):
        assert served.load() == 3
        for _ in range(2):
            served.translator("en", "de", 2, "never")
            served.translator("en", "fr")
        assert made == [("de", 1, "auto"), ("de", 2, "never"), ("fr", 1, "auto")] * len(searchers)
        versions.add(served.version)
        served.unload()
        assert len(ended) == len(searchers)
    assert (len(versions), served.max_candidates) == (3, 5)
