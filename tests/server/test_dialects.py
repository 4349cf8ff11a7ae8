"""What each dialect answers: shapes, errors, and who may ask from where."""

import itertools
import json
from http import HTTPStatus

import pytest

from nmt.server.exchange import Limits
from tests.server.doubles import KnownWords, Model, serving, wait_for


def deepl(server, text, target_lang="DE", source_lang="EN", **more):
    return server.client.post(
        "/v2/translate", json={"text": text, "target_lang": target_lang, "source_lang": source_lang, **more}
    )


def apertium(server, q="the cat", langpair="en|de", **more):
    return server.client.get("/translate", params={"q": q, "langpair": langpair, **more})


def stream(server, q, source="en", target="de"):
    answer = server.client.post("/stream", json={"q": q, "source": source, "target": target})
    return [json.loads(line) for line in answer.text.splitlines()]


@pytest.fixture(scope="module")
def several():
    """Models: one to a language with scripts, one of a region, one of several languages."""
    models = [Model("en", "de"), Model("de", "zh_Hans"), Model("pt_BR", "en"), Model("fr", "spa", "por")]
    with serving(models) as running:
        yield running


IN_ENGLISH = {"confidence": 50.0, "language": "en"}


@pytest.mark.parametrize(
    ("q", "more", "answer"),
    [
        ("the cat", {}, {"translatedText": "THE CAT"}),
        (["the cat", "", "a\n\nb "], {}, {"translatedText": ["THE CAT", "", "A\n\nB "]}),
        ([], {}, {"translatedText": []}),
        ("", {}, {"translatedText": ""}),
        ("a", {"source": "auto"}, {"translatedText": "A", "detectedLanguage": IN_ENGLISH}),
        (["a", "b"], {"source": "auto"}, {"translatedText": ["A", "B"], "detectedLanguage": [IN_ENGLISH] * 2}),
        ("a", {"alternatives": 1}, {"translatedText": "A", "alternatives": ["A'"]}),
        (["a", "b"], {"alternatives": 1}, {"translatedText": ["A", "B"], "alternatives": [["A'"], ["B'"]]}),
        ("a", {"alternatives": 10**30}, {"translatedText": "A", "alternatives": ["A'", "A''"]}),  # a beam of 3
        ("<p>a</p> <p>&amp;<br>b</p>", {"format": "html"}, {"translatedText": "<p>A</p> <p>&amp;<br>B</p>"}),
    ],
)
def test_libretranslate_keeps_the_shape_of_a_request(server, q, more, answer):
    assert server.translate(q, **more).json() == answer


def test_a_source_is_identified_for_each_text_among_those_that_have_the_target():
    with serving([Model("en", "de"), Model("fr", "de"), Model("de", "en")]) as running:
        texts = ["un fr", "one en", "das de", "deux fr"]
        for q in (texts, [f"<p>no</p>{text}" for text in texts]):
            answer = running.translate(q, source="auto", format="html" if "<" in q[0] else "text").json()
            assert [one["language"] for one in answer["detectedLanguage"]] == ["fr", "en", "en", "fr"]
        answer = running.client.post("/v2/translate", json={"text": texts, "target_lang": "DE"}).json()
        assert [list(one.values()) for one in answer["translations"]] == [
            ["FR", "UN FR"],
            ["EN", "ONE EN"],
            ["EN", "DAS DE"],
            ["FR", "DEUX FR"],
        ]
        assert stream(running, "das de", "auto") == [{"source": "en"}, {"text": "DAS DE"}]
        assert stream(running, "das de", "auto", "fr") == [{"error": "fr is not supported"}]
        assert not {"one en", "das de"} & {text for batch in running.models[1].translator().batches for text in batch}


class Sure(KnownWords):
    """A language that a text names is sure."""

    def ranked(self, text):
        return sorted(((tag, float(tag in text.split())) for tag in self._languages), key=lambda one: -one[1])


SAME = "das <ist>\n\n &amp; de "


@pytest.mark.parametrize("source", ["auto", "de", "DE-at"])
@pytest.mark.parametrize("markup", ["text", "html"])
def test_a_text_in_the_target_language_stays_as_it_is(monkeypatch, source, markup):
    monkeypatch.setattr("tests.server.doubles.KnownWords", Sure)
    with serving([Model("en", "de")]) as running:
        answer = running.translate(["one en", SAME], source=source, format=markup, alternatives=1).json()
        assert answer["translatedText"] == ["ONE EN" if source == "auto" else "one en", SAME]
        assert answer["alternatives"][1] == []
        if source == "auto":
            assert answer["detectedLanguage"][1] == {"confidence": 100.0, "language": "de"}
        answer = deepl(running, SAME, source_lang=None if source == "auto" else source).json()
        assert answer == {"translations": [{"detected_source_language": "DE", "text": SAME}]}
        assert stream(running, SAME, source) == [{"source": "de", "text": SAME}]
        assert apertium(running, SAME, "de|de-AT").json()["responseData"] == {"translatedText": SAME}


FRENCH = "The text looks like French (fr), not English (en)."
WRONG = "The translation looks wrong (number)."


@pytest.mark.parametrize(
    ("q", "warned"),
    [
        ("surely fr", FRENCH),
        ("surely ?", "The text is in another script than English (en)."),
        (["one", "surely fr"], "Text 2 looks like French (fr), not English (en)."),
        (["one", "surely en"], None),
        ("good\nwrong", WRONG),
        ("wrong but repaired", None),
        (
            ["wrong", "surely fr"],
            "Translation 1 looks wrong (number). Text 2 looks like French (fr), not English (en).",
        ),
        (["wrong"] * 22, " ".join(f"Translation {n} looks wrong (number)." for n in range(1, 21)) + " And 2 more."),
    ],
)
def test_a_text_in_another_language_and_what_the_guard_could_not_repair_are_told(server, q, warned):
    assert server.translate(q).json().get("warning") == warned
    assert server.translate(q, source="auto").json().get("warning") == warned


def test_each_dialect_warns(server):
    for q, warned in (("surely fr", FRENCH), ("wrong", WRONG)):
        assert deepl(server, q).json()["warning"] == warned
        assert apertium(server, q).json()["warning"] == warned
    assert stream(server, "surely fr wrong")[0] == {"source": "en", "warning": FRENCH}
    assert stream(server, "wrong")[-1] == {"warning": WRONG}


def test_each_key_has_its_own_memory():
    with serving(keys=["one", "two"]) as running:
        for key in ("one", "one", "two", "one"):
            assert running.translate("the cat", api_key=key).status_code == 200
        assert running.models[0].translator().batches == [["the cat"]] * 2


LONG = "Invalid request: request (50,001) exceeds text limit"
LEAVE_OUT = "is not supported by this server: leave it out."
MISTAKES = {
    "libretranslate": [
        ({"target": "zz"}, "zz is not supported"),
        ({"source": "zz"}, "zz is not supported"),
        ({"source": ""}, "Invalid request: missing source parameter"),
        ({"source": "x" * 500_000}, "x" * 40 + "… is not supported"),
        ({"source": "de", "target": "en"}, "de to en is not supported; supported: en to de"),
        ({"format": "pdf"}, "Invalid request: format: Input should be 'text' or 'html'"),
        ({"alternatives": -1}, "Invalid request: alternatives: Input should be greater than or equal to 0"),
        ({"alternatives": "x"}, "Invalid request: alternatives: Input should be a valid integer"),
    ],
    "deepl": [
        ({"target_lang": None}, "Value for 'target_lang' not specified."),
        ({"target_lang": "ZZ"}, "Value for 'target_lang' not supported."),
        ({"source_lang": "ZZ"}, "Value for 'source_lang' not supported."),
        ({"text": []}, "Invalid request: text: List should have at least 1 item"),
        ({"text": 5}, "Invalid request: text: Input should be a valid list"),
        ({"split_sentences": 2}, "Invalid request: split_sentences: Input should be '0', '1' or 'nonewlines'"),
        ({"tag_handling": "markdown"}, "Invalid request: tag_handling: Input should be 'xml' or 'html'"),
        ({"glossary_id": "x"}, "Not found: this glossary"),
        ({"glossary_id": "x", "source_lang": None}, "Value for 'source_lang' not specified."),
        ({"glossary_ids": ["x"]}, f"'glossary_ids' {LEAVE_OUT}"),
        ({"custom_instructions": ["x"]}, f"'custom_instructions' {LEAVE_OUT}"),
        ({"formality": "more"}, "'formality' is not supported for given 'target_lang'."),
        ({"text": "x" * 50_001}, LONG),
    ],
    "apertium": [
        ({"langpair": "en"}, "Invalid request: langpair: String should match pattern"),
        ({"langpair": "en|zz"}, "zz is not supported"),
        ({"format": "html"}, "Invalid request: format: Input should be 'txt' or 'text'"),
        ({"q": "x" * 50_001}, LONG),
    ],
}


@pytest.mark.parametrize(
    ("dialect", "more", "error"), [(name, *one) for name, some in MISTAKES.items() for one in some]
)
def test_each_dialect_says_what_is_wrong(server, dialect, more, error):
    if dialect == "libretranslate":
        field, answer = "error", server.translate(**{"q": "a", **more})
    elif dialect == "deepl":
        field, answer = "message", deepl(server, **{"text": "a", **more})
    else:
        field, answer = "explanation", apertium(server, **more)
    told = answer.json()
    assert answer.status_code == {LONG: 413, "Not found: this glossary": 404}.get(error, 400)
    assert told.pop(field).startswith(error)
    code = answer.status_code
    of_apertium = {"status": "error", "code": code, "message": HTTPStatus(code).phrase}
    assert told == (of_apertium if dialect == "apertium" else {})
    assert len(answer.content) < 300


def test_libretranslate_describes_itself(several):
    get = several.client.get
    assert get("/health").json() == {"status": "ok"}
    assert get("/languages").json() == [
        {"code": "en", "name": "English", "targets": ["de"]},
        {"code": "de", "name": "German", "targets": ["zh-Hans"]},
        {"code": "pt-BR", "name": "Portuguese", "targets": ["en"]},
        {"code": "fr", "name": "French", "targets": ["es", "pt"]},
        {"code": "zh-Hans", "name": "Chinese", "targets": []},
        {"code": "es", "name": "Spanish", "targets": []},
        {"code": "pt", "name": "Portuguese", "targets": []},
    ]
    settings = get("/frontend/settings").json()
    assert settings["charLimit"] == 50_000
    assert settings["keyRequired"] is settings["apiKeys"] is False
    assert settings["language"]["target"] == {"code": "de", "name": "German"}


def test_libretranslate_detects(several):
    found = several.client.post("/detect", data={"q": "das ist de"}).json()
    assert found[0] == {"confidence": 100.0, "language": "de"}
    assert {one["language"] for one in found} == {"en", "de", "pt-BR", "fr", "zh-Hans", "es", "pt"}


NOT_HERE = """
PUT /translate 405, GET /detect 405, POST /languages 405, POST /health 405, POST /spec 405, POST /metrics 405,
DELETE /frontend/settings 405, GET /translate_file 405, PUT /v2/translate 405, GET /v2/translate 405,
GET /v2/document 405, PUT /v2/glossaries 405,
POST /v2/document/x/y 404, GET /v3/style_rules 404, POST /v2/write/rephrase 404, GET /nothing 404
"""


@pytest.mark.parametrize(("method", "path", "status"), [each.split() for each in NOT_HERE.split(",")])
def test_a_wrong_method_or_path_is_refused_in_its_dialect(server, method, path, status):
    answer = server.client.request(method, path)
    assert answer.status_code == int(status)
    field = "message" if path.startswith(("/v2", "/v3")) else "error"
    assert answer.json() == {field: f"{'Not Found' if status == '404' else 'Method Not Allowed'}: {method} {path}"}
    assert ("Allow" in answer.headers) is (status == "405")


def test_what_libretranslate_has_and_we_do_not_is_refused_by_its_error(server):
    answer = server.client.post("/suggest", data={"source": "en"})
    assert answer.status_code == 403
    assert answer.json() == {"error": "Suggestions are not taken by this server: send the text to /translate."}


def test_an_unknown_path_is_not_found_in_few_words(server):
    answer = server.client.get("/" + "x" * 10_000)
    assert (answer.status_code, len(answer.content) < 200) == (404, True)


def test_deepl_translates_a_text_or_several(server):
    answer = deepl(server, ["the cat", ""], show_billed_characters=True).json()
    assert answer == {
        "translations": [
            {"detected_source_language": "EN", "text": "THE CAT", "billed_characters": 7},
            {"detected_source_language": "EN", "text": "", "billed_characters": 0},
        ]
    }
    assert deepl(server, "the cat").json()["translations"][0]["text"] == "THE CAT"
    answer = server.client.post("/v2/translate", data={"text": ["one", "two"], "target_lang": "de"})
    assert [one["text"] for one in answer.json()["translations"]] == ["ONE", "TWO"]


@pytest.mark.parametrize(
    ("split_sentences", "text", "translated", "split"),
    [
        (None, "nine\nten", "NINE\nTEN", None),
        ("1", "three\nfour", "THREE\nFOUR", "always"),
        (1, "five\nsix", "FIVE\nSIX", "always"),
        ("0", "one\ntwo\n\nthree", "ONE TWO\n\nTHREE", "never"),
        (0, "four\nfive", "FOUR FIVE", "never"),
        ("nonewlines", "seven\neight", "SEVEN EIGHT", "always"),
    ],
)
def test_deepl_splits_as_asked(server, split_sentences, text, translated, split):
    translator = server.models[0].translator(split=split)
    translator.batches.clear()
    assert deepl(server, text, split_sentences=split_sentences).json()["translations"][0]["text"] == translated
    assert translator.batches


@pytest.mark.parametrize("ignored", ["td,X", ["td", "x"], ["td, x"]])
@pytest.mark.parametrize("handling", ["xml", "html"])
def test_deepl_leaves_tags_alone_and_what_is_in_ignored_ones(server, handling, ignored):
    text = "<table><td>one</td></table><p>two</p><x>three</x>"
    answer = deepl(server, text, tag_handling=handling, ignore_tags=ignored).json()
    assert answer["translations"][0]["text"] == "<table><td>one</td></table><p>TWO</p><x>three</x>"
    answer = deepl(server, "see <x>Two</x> <b>cats</b>", tag_handling=handling, ignore_tags=ignored).json()
    assert answer["translations"][0]["text"] == "SEE <x>Two</x> <b>CATS</b>"


@pytest.mark.parametrize(
    ("more", "texts"),
    [
        ({}, ["one two", "three"]),
        ({"splitting_tags": "y,X"}, ["one", "two", "three"]),
        ({"splitting_tags": ["x"], "non_splitting_tags": ["p"]}, ["one", "two three"]),
        ({"outline_detection": "0"}, ["one two three"]),
        ({"outline_detection": False, "splitting_tags": ["p"], "ignore_tags": ["x"]}, ["one two", "three"]),
    ],
)
def test_deepl_divides_texts_at_the_tags_that_it_names(more, texts):
    with serving() as running:
        text = "<p><x>one</x> <i>two</i></p> <p>three</p>"
        answer = deepl(running, text, tag_handling="xml", **more).json()["translations"][0]["text"]
        kept = "<x>one</x>" if "ignore_tags" in more else "<x>ONE</x>"
        assert answer == f"<p>{kept} <i>TWO</i></p> <p>THREE</p>"
        searched = itertools.chain.from_iterable(running.models[0].translator().batches)
        assert sorted(searched) == sorted(texts)


@pytest.mark.parametrize(
    "more", [{"formality": "prefer_less"}, {"context": "b"}, {"glossary_id": None, "style_id": ""}]
)
def test_what_only_helps_a_translation_is_no_error(server, more):
    assert deepl(server, "a", **more).status_code == 200


def test_deepl_lists_languages(several):
    get = several.client.get
    assert get("/v2/languages").json()[2:] == [
        {"language": "PT-BR", "name": "Portuguese"},
        {"language": "FR", "name": "French"},
    ]
    assert get("/v2/languages", params={"type": "target"}).json()[:2] == [
        {"language": "DE", "name": "German", "supports_formality": False},
        {"language": "ZH-HANS", "name": "Chinese", "supports_formality": False},
    ]
    answer = get("/v2/languages", params={"type": "x"})
    assert (answer.status_code, list(answer.json())) == (400, ["message"])


def test_deepl_counts_characters():
    with serving() as running:
        deepl(running, ["abc", "ä"])
        deepl(running, "failed", "ZZ")
        assert running.client.get("/v2/usage").json()["character_count"] == 4


def test_apertium_translates_and_lists_pairs(several):
    expected = {"responseData": {"translatedText": "THE CAT"}, "responseDetails": None, "responseStatus": 200}
    assert apertium(several, markUnknown="no").json() == expected
    assert several.client.post("/translate?langpair=en|de", data={"q": "the cat"}).json() == expected
    pairs = several.client.get("/listPairs").json()["responseData"]
    assert {"sourceLanguage": "de", "targetLanguage": "zh-Hans"} in pairs
    assert len(pairs) == 5


IN_HEADER = {"Authorization": "DeepL-Auth-Key KEY"}


@pytest.mark.parametrize(
    ("path", "headers", "body"),
    [
        ("/translate", {}, {"q": "a", "source": "en", "target": "de", "api_key": "KEY"}),
        ("/translate?api_key=KEY", {}, {"q": "a", "source": "en", "target": "de"}),
        ("/stream", {}, {"q": "a", "source": "en", "target": "de", "api_key": "KEY"}),
        ("/detect", {}, {"q": "a", "api_key": "KEY"}),
        ("/v2/translate", IN_HEADER, {"text": "a", "target_lang": "DE"}),
        ("/v2/translate", {}, {"text": "a", "target_lang": "DE", "auth_key": "KEY"}),
        ("/v2/languages", IN_HEADER, None),
        ("/v2/usage", IN_HEADER, None),
        ("/translate?q=a&langpair=en|de&key=KEY", {}, None),
        ("/metrics", {"Authorization": "Bearer KEY"}, None),
    ],
)
def test_each_dialect_has_its_place_for_the_key(path, headers, body):
    def ask(key):
        method = "GET" if body is None else "POST"
        sent = None if body is None else {name: value.replace("KEY", key) for name, value in body.items()}
        with_key = {name: value.replace("KEY", key) for name, value in headers.items()}
        return running.client.request(method, path.replace("KEY", key), headers=with_key, json=sent)

    with serving(keys=["our-key"]) as running:
        assert [ask(key).status_code for key in ("our-key", "another")] == [200, 403]


def test_what_describes_the_server_needs_no_key():
    paths = ["/languages", "/frontend/settings", "/health", "/health/live", "/health/ready", "/spec", "/listPairs", "/"]
    with serving(keys=["our-key"]) as running:
        assert [running.client.get(path).status_code for path in paths] == [200] * len(paths)
        assert running.client.get("/frontend/settings").json()["keyRequired"] is True


def test_too_many_requests_are_refused_by_the_clients_address_behind_a_proxy_on_this_machine():
    with serving(requests_per_minute=1) as running:
        headers = [{"X-Forwarded-For": address} for address in ("1.1.1.1", "2.2.2.2", "1.1.1.1")]
        answers = [running.client.post("/detect", data={"q": "a"}, headers=each) for each in headers]
        assert [answer.status_code for answer in answers] == [200, 200, 429]
        assert int(answers[-1].headers["Retry-After"]) > 0
    with serving(requests_per_minute=1, keys=["one", "two"]) as running:
        statuses = [running.translate("a", api_key=key).status_code for key in ("one", "one", "two")]
        assert statuses == [200, 429, 200]


PREFLIGHT = {
    "Origin": "https://example.org",
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "content-type",
}


@pytest.mark.parametrize("path", ["/translate", "/v2/translate", "/stream"])
def test_only_web_pages_that_are_allowed_may_ask(server, path):
    answers = [server.client.options(path, headers=PREFLIGHT), server.translate("a")]
    assert [answer.status_code for answer in answers] == [405, 200]
    assert not [name for answer in answers for name in answer.headers if name.startswith("access-control")]
    with serving(origins=["https://example.org"], keys=["key"]) as running:
        answer = running.client.options(path, headers=PREFLIGHT)
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == "https://example.org"
        assert running.client.options(path, headers={**PREFLIGHT, "Origin": "https://other.org"}).status_code == 400
        answer = running.client.post(path, json={}, headers={"Origin": "https://example.org"})
        assert answer.status_code == 403
        assert answer.headers["access-control-allow-origin"] == "https://example.org"


CROSS_SITE = {"Sec-Fetch-Site": "cross-site", "Origin": "https://example.org", "Content-Type": "text/plain"}


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/translate?q=a&source=en&target=de", "error"),
        ("/stream?q=a&source=en&target=de", "error"),
        ("/v2/translate?text=a&target_lang=DE", "message"),
        ("/translate?q=a&langpair=en|de", "explanation"),
    ],
)
def test_pages_of_others_cannot_use_a_server_of_this_machine(path, field):
    with serving(only_loopback=True) as running:
        assert running.client.post(path).status_code == 200
        for headers in (CROSS_SITE, {"Host": "evil.example"}):
            answer = running.client.post(path, headers=headers)
            assert (answer.status_code, list(answer.json())[-1]) == (403, field)
        assert running.models[0].translators["de", 1, None].batches == [["a"]]


def test_operators_see_whether_the_server_takes_requests():
    is_ending = []
    with serving(is_ending=lambda: bool(is_ending)) as running:
        get = running.client.get
        assert [get(path).status_code for path in ("/health/live", "/health/ready")] == [200, 200]
        is_ending.append(True)
        assert [get(path).status_code for path in ("/health/live", "/health/ready")] == [200, 503]
        assert running.translate("a").headers["Connection"] == "close"


def test_a_server_whose_model_does_not_answer_is_not_ready():
    with serving(limits=Limits(seconds=0.1)) as running:
        gate = running.models[0].translator().gate
        gate.clear()
        answer = running.translate("a")
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "10")
        assert answer.json() == {"error": "No translation within 0.1 s: the server is busy."}
        wait_for(lambda: running.client.get("/health/ready").json() == {"error": "A model does not answer."})
        gate.set()
        wait_for(lambda: running.client.get("/health/ready").status_code == 200)


def test_no_path_redirects_to_the_host_that_a_request_names(server):
    for path in ("/metrics/", "/translate/", "/v2/usage/"):
        answer = server.client.get(path, headers={"Host": "evil.example"})
        assert (answer.status_code, answer.headers.get("location")) == (404, None)
