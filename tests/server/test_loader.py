"""Models on demand: loaded for a request, unloaded when idle or to make room."""

import shutil
import threading
from contextlib import contextmanager

import pytest

from nmt.errors import CheckpointError, ConfigError
from nmt.machine.calls import ProcessLostError
from nmt.server.access import Access
from nmt.server.exchange import Limits
from nmt.server.models import Models
from nmt.server.running import bound, run
from tests.commands import run_command
from tests.server.conftest import BUNDLE
from tests.server.doubles import Model, serving, wait_for

TARGETS = ("de", "fr", "es")


@pytest.fixture
def models():
    return [Model("en", target) for target in TARGETS]


def loads(models):
    return [model.loads for model in models]


@contextmanager
def slow_request(running, translator):
    """A request that the first model works on until the block ends."""
    translator.gate.clear()
    batches = len(translator.batches)
    waiting = threading.Thread(target=running.translate, args=("slow",))
    waiting.start()
    wait_for(lambda: len(translator.batches) > batches)
    yield
    translator.gate.set()
    waiting.join()


def test_a_model_is_loaded_once_for_requests_that_need_it(models):
    with serving(models, workers=2, loading={"unload_after": None}) as running:
        assert len(running.client.get("/languages").json()) == 4
        assert running.client.get("/v2/languages").status_code == 200
        assert running.translate("same", target="en").json() == {"translatedText": "same"}
        assert running.translate(" \n").status_code == 200
        assert loads(models) == [[], [], []]
        models[1].gate.clear()
        asked = [threading.Thread(target=running.translate, args=("a",), kwargs={"target": "fr"}) for _ in range(3)]
        for each in asked:
            each.start()
        wait_for(lambda: models[1].loads)
        assert running.translate("b").json() == {"translatedText": "B"}  # meanwhile
        models[1].gate.set()
        for each in asked:
            each.join()
        assert loads(models) == [["load"], ["load"], []]
        assert running.metrics()["nmt_models"] == 2


def test_an_idle_model_is_unloaded_and_loaded_again(models):
    with serving(models, workers=2, loading={"unload_after": 0.05}) as running:
        translator = models[0].translator()
        with slow_request(running, translator):
            running.translate("fast", target="fr")
            wait_for(lambda: models[1].loads == ["load", "unload"])
            assert models[0].loads == ["load"]  # it is needed
        wait_for(lambda: models[0].loads == ["load", "unload"])
        assert running.translate("slow").status_code == 200
        assert models[0].loads[2:3] == ["load"]
        assert translator.batches == [["slow"], ["slow"]]  # another model may be in its folder


def test_the_model_that_was_idle_for_longest_makes_room(models):
    with serving(models, workers=2, loading={"max_loaded": 2}) as running:
        for target in ("de", "fr", "de", "es"):
            assert running.translate("a", target=target).status_code == 200
        assert loads(models) == [["load"], ["load", "unload"], ["load"]]
        with slow_request(running, models[0].translator()):
            assert running.translate("a", target="fr").status_code == 200
            assert loads(models) == [["load"], ["load", "unload", "load"], ["load", "unload"]]


def test_others_are_answered_while_a_model_is_unloaded(models):
    """Its room is free, and it is loaded again, only once its process has ended."""
    with serving(models, workers=2, loading={"max_loaded": 2}) as running:
        for target in ("de", "fr"):
            assert running.translate("a", target=target).status_code == 200
        models[0].unloading.clear()
        waiting = [threading.Thread(target=running.translate, args=("a",), kwargs={"target": "es"})]
        waiting[0].start()
        wait_for(lambda: models[0].loads[-1] == "unload")
        assert running.translate("b", target="fr").json() == {"translatedText": "B"}
        waiting.append(threading.Thread(target=running.translate, args=("a",)))  # makes room for itself: unloads fr
        waiting[1].start()
        wait_for(lambda: models[1].loads[-1] == "unload")
        assert loads(models) == [["load", "unload"], ["load", "unload"], []]
        models[0].unloading.set()
        for each in waiting:
            each.join()
        assert loads(models) == [["load", "unload", "load"], ["load", "unload"], ["load"]]


def test_a_request_waits_until_a_model_is_idle(models):
    with serving(models, workers=2, loading={"max_loaded": 1}) as running:
        second = threading.Thread(target=running.translate, args=("a",), kwargs={"target": "fr"})
        with slow_request(running, models[0].translator()):
            second.start()
            second.join(0.1)
            assert loads(models) == [["load"], [], []]
        second.join()
        assert loads(models) == [["load", "unload"], ["load"], []]


@pytest.mark.parametrize("error", [CheckpointError("model.safetensors is damaged"), ZeroDivisionError("oops")])
def test_a_model_that_cannot_be_loaded_is_named_and_tried_again(models, error):
    lines = []
    models[0].error = error
    with serving(models, workers=2, loading={"max_loaded": 1, "report": lines.append}) as running:
        for _ in range(2):
            answer = running.translate("a")
            message = "The model for en to de cannot be loaded; the server's log says why."
            assert (answer.status_code, answer.json()) == (503, {"error": message})
            assert lines.pop() == f"en to de cannot be loaded: {error}"
        assert running.translate("a", target="fr").status_code == 200
        models[0].error = None
        assert running.translate("a").json() == {"translatedText": "A"}
    assert [line.partition(" in ")[0] for line in lines] == [
        "loaded en to fr",
        "unloaded en to fr: another model needs the room",
        "loaded en to de",
    ]


def test_a_model_that_is_lost_is_loaded_again_for_the_next_request(models):
    lines = []
    loading = {"unload_after": 60, "max_loaded": 2, "report": lines.append}
    with serving(models, workers=2, loading=loading) as running:
        for target in ("de", "fr"):
            assert running.translate("a", target=target).status_code == 200
        lines.clear()
        first_loss = models[0].lost
        with slow_request(running, models[0].translator()):  # it is lost while a request needs it
            first_loss(ProcessLostError("en to de was killed."))
            wait_for(lambda: running.metrics()["nmt_models"] == 1)
        assert running.translate("b", target="fr").json() == {"translatedText": "B"}
        assert running.translate("b").json() == {"translatedText": "B"}
        assert loads(models) == [["load", "load"], ["load"], []]
        first_loss(ProcessLostError("this is about the process before."))
        assert running.translate("c").status_code == 200
        assert loads(models) == [["load", "load"], ["load"], []]
    assert [line.partition(" in ")[0] for line in lines] == [
        "en to de was killed. The next request for this model loads it again.",
        "loaded en to de",
    ]


def test_a_client_that_goes_away_does_not_end_the_loading(models):
    with serving(models, workers=2, loading={"unload_after": 0.05}) as running:
        models[0].gate.clear()
        with pytest.raises(Exception, match="timed out"):
            running.client.post("/translate", json={"q": "a", "source": "en", "target": "de"}, timeout=0.3)
        assert models[0].loads == ["load"]
        models[0].gate.set()
        wait_for(lambda: models[0].loads == ["load", "unload"])
        assert running.translate("a").status_code == 200


def test_models_through_a_pivot_language_are_in_memory_together():
    models = [Model("de", "en"), Model("en", "fr"), Model("en", "es")]
    with serving(models, via=["en"], loading={"max_loaded": 2}) as running:
        for target in ("fr", "es", "fr"):
            answer = running.translate("a", source="de", target=target)
            assert answer.json() == {"translatedText": "A"}
        assert loads(models) == [["load"], ["load", "unload", "load"], ["load", "unload"]]


def test_a_model_that_is_both_of_a_pivot_language_is_unloaded_as_others_are():
    model = Model("de", "en", "fr")
    model.directions = lambda: [("de", "en"), ("en", "fr")]
    with serving([model], via=["en"], loading={"unload_after": 0.05, "max_loaded": 1}) as running:
        assert running.translate("ein wort", source="de", target="fr").json() == {"translatedText": "fr:EN:EIN WORT"}
        wait_for(lambda: model.loads == ["load", "unload"])


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("config.yaml", b"damaged", "config.yaml"),
        ("vocab.model", None, "is not a complete bundle: vocab.model is missing."),
        ("model.safetensors", b"x" * 100, "model.safetensors is damaged: "),
    ],
)
def test_a_model_that_cannot_be_loaded_later_is_named_at_the_start(tmp_path, name, content, error):
    folder = tmp_path / "model"
    shutil.copytree(BUNDLE, folder)
    (folder / name).unlink() if content is None else (folder / name).write_bytes(content)
    result = run_command(["serve", BUNDLE, folder, "--max-loaded", "1", "--port", "0"], cwd=tmp_path)
    assert (result.returncode, error in result.stderr.decode()) == (2, True)
    assert str(folder) in result.stderr.decode()


def test_two_models_need_room_for_a_pivot_language_but_one_that_is_both_does_not():
    models, both = [Model("de", "en"), Model("en", "fr")], Model("de", "en", "fr")
    both.directions = lambda: [("de", "en"), ("en", "fr")]
    assert Models([both], ["en"]).most_at_once == 1
    with bound("127.0.0.1", 0) as listening, pytest.raises(ConfigError, match="give --max-loaded 2 or more"):
        run(models, listening, access=Access(), limits=Limits(), max_waiting=9, via=["en"], max_loaded=1)
    assert loads(models) == [[], []]
