"""Clients that others wrote: the packages themselves where they are installed, and the requests of other programs."""

import http.client
import io
import json
import subprocess
import sys

import pytest

from tests.processes import SECONDS

CLIENTS = "pip install libretranslatepy deep-translator deepl schemathesis"


def installed(name):
    return pytest.importorskip(name, reason=f"{name} is not installed: {CLIENTS}")


@pytest.fixture
def address(server, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return f"http://127.0.0.1:{server.port}"


def test_weblate(server):
    """Both languages must be listed; the texts of a component come as a list."""
    languages = server.client.get("/languages", params={"api_key": ""}).json()
    assert {"en", "de"} <= {language["code"] for language in languages}
    body = {"api_key": "", "q": ["Save", "%d files"], "source": "en", "target": "de"}
    assert server.client.post("/translate", json=body).json() == {"translatedText": ["SAVE", "%D FILES"]}


def test_mastodon(server):
    """A post, its warning and the options of its poll come as HTML, in the language that the post names, or none."""
    languages = {one["code"]: one["targets"] for one in server.client.get("/languages").json()}
    assert languages == {"en": ["de"], "de": []}
    body = {"q": ["<p>The cat<br>sleeps.</p><p>Good night!</p>", "", "yes &amp; no"], "target": "de", "format": "html"}
    for source in ("en", "auto"):
        answer = server.client.post("/translate", json={**body, "source": source, "api_key": None}).json()
        assert answer["translatedText"] == ["<p>THE CAT<br>SLEEPS.</p><p>GOOD NIGHT!</p>", "", "YES &amp; NO"]
        assert [one["language"] for one in answer.get("detectedLanguage", [])] == (
            ["en"] * 3 if source == "auto" else []
        )


def test_omegat(server):
    """The connector for Apertium, with the address of a server of one's own. It does not encode the bar."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=SECONDS)
    asked = "q=The+cat+%3Cf0%3Esleeps%3C%2Ff0%3E.&markUnknown=no&langpair=en|de&key=bwux+V"
    connection.request("GET", f"/translate?{asked}")
    answer = json.loads(connection.getresponse().read())
    connection.close()
    assert (answer["responseStatus"], answer["responseData"]) == (200, {"translatedText": "THE CAT <F0>SLEEPS</F0>."})


def test_weblate_for_deepl(server):
    """Targets are asked for first; placeholders are tags."""
    targets = server.client.get("/v2/languages", params={"type": "target"}).json()
    assert [language["language"] for language in targets] == ["DE"]
    body = {"text": ['<x id="7"></x> files'], "source_lang": "EN", "target_lang": "DE", "tag_handling": "xml"}
    answer = server.client.post("/v2/translate", json={**body, "ignore_tags": ["x"], "formality": "prefer_less"})
    assert answer.json()["translations"][0]["text"] == '<x id="7"></x> FILES'


@pytest.mark.slow
def test_libretranslatepy(address):
    client = installed("libretranslatepy").LibreTranslateAPI(f"{address}/")
    assert client.translate("The cat sleeps.", "en", "de") == "THE CAT SLEEPS."
    assert client.detect("the cat")[0]["language"] == "en"
    assert [language["code"] for language in client.languages()] == ["en", "de"]


@pytest.mark.slow
def test_deep_translator(address):
    translator = installed("deep_translator").LibreTranslator
    for source in ("en", "auto"):
        client = translator(source=source, target="de", api_key="any", custom_url=f"{address}/")
        assert client.translate("The cat sleeps.") == "THE CAT SLEEPS."
        assert client.translate_batch(["one", "two"]) == ["ONE", "TWO"]


@pytest.mark.slow
def test_deepl(address):
    deepl = installed("deepl")
    client = deepl.DeepLClient("any", server_url=address)
    assert client.translate_text("The cat sleeps.", target_lang="DE").text == "THE CAT SLEEPS."
    found = client.translate_text(["one\ntwo", ""], source_lang="EN", target_lang="DE", split_sentences="nonewlines")
    assert [(one.text, one.detected_source_lang, one.billed_characters) for one in found] == [
        ("ONE TWO", "EN", 7),
        ("", "EN", 0),
    ]
    assert client.translate_text("<p>one</p>", target_lang="DE", tag_handling="html").text == "<p>ONE</p>"
    assert [language.code for language in client.get_source_languages()] == ["EN"]
    assert [(one.code, one.supports_formality) for one in client.get_target_languages()] == [("DE", False)]
    assert client.get_usage().character.count > 0
    glossary = client.create_glossary("animals", "EN", "DE", {"cat": "Katze"})
    assert client.get_glossary_entries(glossary) == {"cat": "Katze"}
    assert client.translate_text("the cat", source_lang="EN", target_lang="DE", glossary=glossary).text == "THE Katze"
    document, translated_document = io.BytesIO(b"the cat"), io.BytesIO()
    document.name = "a.txt"
    client.translate_document(document, translated_document, source_lang="EN", target_lang="DE", glossary=glossary)
    assert translated_document.getvalue() == b"THE Katze"
    for refused in (
        lambda: client.translate_text("a", target_lang="FR"),
        lambda: client.translate_text("a", source_lang="EN", target_lang="DE", glossary="x"),
        lambda: client.translate_text("a", target_lang="DE", formality="more"),
    ):
        with pytest.raises(deepl.DeepLException):
            refused()


@pytest.mark.slow
def test_schemathesis(address, tmp_path):
    """Requests that the description allows are answered as it says; those that it does not allow are refused."""
    installed("schemathesis")
    # It cannot know which language codes are served, and numbers in words are read as in forms.
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"{address}/spec", "--max-examples", "50"]
    command += ["--exclude-checks", "positive_data_acceptance,negative_data_rejection", "--seed", "1"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, cwd=tmp_path, check=False)
    assert run.returncode == 0, run.stdout[-5_000:]
