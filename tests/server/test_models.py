"""Which model translates what: languages in any spelling."""

import threading
from types import SimpleNamespace

import pytest

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
        ([Model("en", tags=[">>deu<<", ">>fra<<"])], ("en", "fr"), ("en", "fr")),
        ([Model("en", "de"), Model("fr", "de")], ("fr", "de"), ("fr", "de")),
    ],
)
def test_a_direction_is_found_by_any_spelling(models, asked, found):
    direction = Models(models).find(*asked)
    assert (direction.source, direction.target) == found
    assert direction.model in models


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


@pytest.mark.parametrize("other", [Model("en", "de"), Model("eng", "ger"), Model("en", tags=[">>fra<<", ">>deu<<"])])
def test_two_models_of_a_pair_are_an_error(other):
    with pytest.raises(ConfigError, match="two models translate en to de: a server has one for each pair"):
        Models([Model("en", "de"), other])


@pytest.mark.parametrize("model", [Model("", "de"), Model("en", ""), Model("", tags=[">>deu<<"])])
def test_a_model_without_languages_is_an_error(model):
    with pytest.raises(ConfigError, match="does not record its languages"):
        Models([model])


def test_a_model_of_several_languages_gets_its_tag():
    with serving([Model("en", tags=[">>deu<<", ">>fra<<"])]) as running:
        assert running.translate("hi", target="fr").json() == {"translatedText": ">>FRA<< HI"}
        assert running.translate("hi\n\n there", target="de").json() == {
            "translatedText": ">>DEU<< HI\n\n >>DEU<< THERE"
        }
        assert running.models[0].translator().targets == {"fr", "de"}


def test_of_two_tags_of_a_language_the_first_counts():
    assert Models([Model("en", tags=[">>zho<<", ">>cmn<<"])]).find("en", "zh").prefix == ">>zho<< "


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
    made, searchers = [], []

    def translator(engine, options, searcher):
        made.append((options.nbest, options.split_sentences))
        assert searchers == [searcher]

    def searcher(options, workers, *, shared):
        assert (options.beam, workers, shared) == (5, 3, True)
        searchers.append(object())
        return searchers[-1]

    monkeypatch.setattr(module, "Translator", translator)
    engine = SimpleNamespace(config=SimpleNamespace(decoding=DecodingConfig(beam=5)), searcher=searcher)
    served = ServedModel(engine, {}, workers=3)
    for _ in range(2):
        served.translator(2, "never")
        served.translator()
    assert made == [(2, "never"), (1, "auto")]
    assert served.max_candidates == 5
