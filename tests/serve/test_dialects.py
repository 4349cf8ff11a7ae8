"""What each dialect answers: shapes, errors, and who may ask from where."""

import json

import pytest

from nmt.server.exchange import Limits
from tests.serve.doubles import KnownWords, Model, serving


def deepl(server, text, target_lang="DE", source_lang="EN", **more):
    return server.client.post(
        "/v2/translate", json={"text": text, "target_lang": target_lang, "source_lang": source_lang, **more}
    )


@pytest.fixture(scope="module")
def several():
    """Three models: one to a language with scripts, one of a region, one of several languages."""
    models = [Model("en", "de"), Model("de", "zh_Hans"), Model("pt_BR", "en"), Model("fr", tags=[">>spa<<", ">>por<<"])]
    with serving(models) as running:
        yield running


def test_libretranslate_keeps_the_shape_of_a_request(server):
    assert server.translate("the cat").json() == {"translatedText": "THE CAT"}
    assert server.translate(["the cat", "", "a\n\nb "]).json() == {"translatedText": ["THE CAT", "", "A\n\nB "]}
    assert server.translate([]).json() == {"translatedText": []}
    assert server.translate("").json() == {"translatedText": ""}


def test_libretranslate_detects_and_offers_alternatives(server):
    answer = server.translate("the cat", source="auto", alternatives=1).json()
    assert answer == {
        "translatedText": "THE CAT",
        "detectedLanguage": {"confidence": 50.0, "language": "en"},
        "alternatives": ["THE CAT'"],
    }
    answer = server.translate(["a", "b"], source="auto", alternatives=1).json()
    assert answer == {
        "translatedText": ["A", "B"],
        "detectedLanguage": [{"confidence": 50.0, "language": "en"}] * 2,
        "alternatives": [["A'"], ["B'"]],
    }


TO_GERMAN_AND_BACK = [Model("en", "de"), Model("fr", "de"), Model("de", "en")]


@pytest.mark.parametrize("path", ["/translate", "/stream"])
def test_a_source_is_identified_among_those_that_have_the_target(path):
    with serving(TO_GERMAN_AND_BACK) as running:
        asked = {"q": "Hotel de", "source": "auto", "target": "de"}
        answer = running.client.post(path, json=asked)
        assert (answer.status_code, "HOTEL DE" in answer.text) == (200, True)
        refused = running.client.post(path, json={**asked, "target": "fr"})
        assert (refused.status_code, refused.json()) == (400, {"error": "fr is not supported"})


def test_deepl_identifies_the_language_of_each_text():
    with serving(TO_GERMAN_AND_BACK) as running:
        texts = ["un fr", "one en", "deux fr", "Hotel de"]
        answer = running.client.post("/v2/translate", json={"text": texts, "target_lang": "DE"}).json()
    assert answer["translations"] == [
        {"detected_source_language": language, "text": text.upper()}
        for language, text in zip(["FR", "EN", "FR", "EN"], texts, strict=True)
    ]


def test_libretranslate_identifies_the_language_of_each_text():
    with serving(TO_GERMAN_AND_BACK) as running:
        texts = ["un fr", "one en", "das de", "deux fr"]
        for q in (texts, [f"<p>no</p>{text}" for text in texts]):
            asked = {"q": q, "source": "auto", "target": "de", "format": "html" if "<" in q[0] else "text"}
            answer = running.client.post("/translate", json=asked).json()
            assert [one["language"] for one in answer["detectedLanguage"]] == ["fr", "en", "en", "fr"]


class Sure(KnownWords):
    """A language that a text names is sure."""

    def ranked(self, text):
        return sorted(((tag, float(tag in text.split())) for tag in self._languages), key=lambda one: -one[1])


SAME = "das <ist>\n\n &amp; de "


@pytest.mark.parametrize("source", ["auto", "de", "DE-at", None])
@pytest.mark.parametrize("markup", ["text", "html"])
def test_a_text_in_the_target_language_stays_as_it_is(monkeypatch, source, markup):
    monkeypatch.setattr("tests.serve.doubles.KnownWords", Sure)
    is_auto = source in ("auto", None)
    with serving([Model("en", "de")]) as running:
        asked = {"q": ["one en", SAME], "source": source or "auto", "target": "de", "format": markup, "alternatives": 1}
        answer = running.client.post("/translate", json=asked).json()
        assert answer["translatedText"] == ["ONE EN" if is_auto else "one en", SAME]
        assert answer["alternatives"][1] == []
        if is_auto:
            assert answer["detectedLanguage"][1] == {"confidence": 100.0, "language": "de"}
        body = {"text": [SAME], "target_lang": "DE", "source_lang": source if source != "auto" else None}
        answer = running.client.post("/v2/translate", json=body).json()
        assert answer == {"translations": [{"detected_source_language": "DE", "text": SAME}]}
        answer = running.client.post("/stream", json={"q": SAME, "source": source or "auto", "target": "de"})
        assert json.loads(answer.text) == {"source": "de", "text": SAME}
        answer = running.client.get("/translate", params={"q": SAME, "langpair": "de|de-AT"}).json()
        assert answer["responseData"] == {"translatedText": SAME}


def test_a_text_that_is_surely_in_another_language_is_told(server):
    warned = "The text looks like French (fr), not English (en)."
    assert server.translate("surely fr").json() == {"translatedText": "SURELY FR", "warning": warned}
    assert server.translate("surely fr", source="auto").json()["warning"] == warned
    several = ["one", "surely fr"]
    assert server.translate(several).json()["warning"] == "Text 2 looks like French (fr), not English (en)."
    in_script = "The text is in another script than English (en)."
    assert server.translate("surely ?").json()["warning"] == in_script
    assert server.translate(["one", "surely en"]).json() == {"translatedText": ["ONE", "SURELY EN"]}
    assert deepl(server, "surely fr").json()["warning"] == warned
    assert server.client.get("/translate?langpair=en|de&q=surely+fr").json()["warning"] == warned
    first = server.client.post("/stream", json={"q": "surely fr", "source": "en", "target": "de"}).text.splitlines()[0]
    assert json.loads(first) == {"source": "en", "warning": warned}


def test_what_the_guard_could_not_repair_is_told(server):
    warned = "The translation looks wrong (number)."
    assert server.translate("good\nwrong").json() == {"translatedText": "GOOD\nWRONG", "warning": warned}
    assert "warning" not in server.translate("wrong but repaired").json()
    assert server.translate(["one", "wrong"]).json()["warning"] == "Translation 2 looks wrong (number)."
    both = "Translation 1 looks wrong (number). Text 2 looks like French (fr), not English (en)."
    assert server.translate(["wrong", "surely fr"]).json()["warning"] == both
    assert (
        server.translate(["wrong"] * 22).json()["warning"].endswith("Translation 20 looks wrong (number). And 2 more.")
    )
    assert deepl(server, "wrong").json()["warning"] == warned
    assert server.client.get("/translate?langpair=en|de&q=wrong").json()["warning"] == warned
    last = server.client.post("/stream", json={"q": "wrong", "source": "en", "target": "de"}).text.splitlines()[-1]
    assert json.loads(last) == {"warning": warned}


def test_each_key_has_its_own_memory():
    with serving(keys=["one", "two"]) as running:
        for key in ("one", "one", "two", "one"):
            assert running.translate("the cat", api_key=key).status_code == 200
        assert running.models[0].translator().batches == [["the cat"]] * 2


def test_alternatives_are_limited_by_the_beam(server):
    assert server.translate("a", alternatives=10**30).json() == {"translatedText": "A", "alternatives": ["A'", "A''"]}


def test_libretranslate_translates_html(server):
    answer = server.translate("<p>The cat</p> <p>&amp; I<br>sleep.</p>", format="html")
    assert answer.json() == {"translatedText": "<p>THE CAT</p> <p>&amp; I<br>SLEEP.</p>"}
    answer = server.translate("<p>The <b>cat</b></p>", format="html")
    assert (answer.status_code, answer.json()["error"][:4]) == (400, "<b> ")


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"target": "zz"}, "zz is not supported"),
        ({"source": "zz"}, "zz is not supported"),
        ({"source": ""}, "Invalid request: missing source parameter"),
        ({"source": "x" * 500_000}, "x" * 40 + "… is not supported"),
        ({"source": "de", "target": "en"}, "de to en is not supported; supported: en to de"),
        ({"format": "pdf"}, "Invalid request: format: Input should be 'text' or 'html'"),
        ({"alternatives": -1}, "Invalid request: alternatives: Input should be greater than or equal to 0"),
        ({"alternatives": "x"}, "Invalid request: alternatives: Input should be a valid integer"),
    ],
)
def test_libretranslate_says_what_is_wrong(server, more, error):
    answer = server.translate("a", **more)
    assert answer.status_code == 400
    assert answer.json()["error"].startswith(error)
    assert len(answer.content) < 200


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
    assert several.client.post("/detect").json() == {"error": "Invalid request: missing q parameter"}


WRONG_METHODS = """
PUT /translate, GET /detect, POST /languages, POST /health, POST /spec, POST /metrics,
DELETE /frontend/settings, GET /translate_file
"""


@pytest.mark.parametrize(("method", "path"), [each.split() for each in WRONG_METHODS.split(",")])
def test_a_wrong_method_is_refused(server, method, path):
    answer = server.client.request(method, path)
    assert answer.status_code == 405
    assert answer.json() == {"error": f"Method Not Allowed: {method} {path}"}
    assert answer.headers["Allow"]


def test_what_libretranslate_has_and_we_do_not_is_refused_by_its_error(server):
    answer = server.client.post(
        "/translate_file", files={"file": ("a.txt", b"hello" * 1_000_000)}, data={"source": "en"}
    )
    assert answer.status_code == 403
    assert answer.json() == {"error": "Files cannot be translated by this server: send the text to /translate."}
    assert server.client.post("/suggest", data={"q": "a"}).status_code == 403


def test_an_unknown_path_is_not_found_in_few_words(server):
    answer = server.client.get("/" + "x" * 10_000)
    assert answer.status_code == 404
    assert answer.json()["error"].startswith("Not Found: GET /xxx")
    assert len(answer.content) < 200


def test_deepl_translates_a_text_or_several(server):
    answer = deepl(server, ["the cat", ""], show_billed_characters=True).json()
    assert answer == {
        "translations": [
            {"detected_source_language": "EN", "text": "THE CAT", "billed_characters": 7},
            {"detected_source_language": "EN", "text": "", "billed_characters": 0},
        ]
    }
    assert deepl(server, "the cat").json()["translations"][0]["text"] == "THE CAT"
    form = {"text": ["one", "two"], "target_lang": "de"}
    answer = server.client.post("/v2/translate", data=form)
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
    more = {} if split_sentences is None else {"split_sentences": split_sentences}
    translator = server.models[0].translator(1, split)
    translator.batches.clear()
    assert deepl(server, text, **more).json()["translations"][0]["text"] == translated
    assert translator.batches


@pytest.mark.parametrize("handling", ["xml", "html"])
def test_deepl_leaves_tags_alone(server, handling):
    answer = deepl(server, "<p>one</p><p>two</p>", tag_handling=handling)
    assert answer.json()["translations"][0]["text"] == "<p>ONE</p><p>TWO</p>"


@pytest.mark.parametrize(
    ("more", "status", "message"),
    [
        ({"target_lang": None}, 400, "Value for 'target_lang' not specified."),
        ({"target_lang": "ZZ"}, 400, "Value for 'target_lang' not supported."),
        ({"source_lang": "ZZ"}, 400, "Value for 'source_lang' not supported."),
        ({"text": []}, 400, "Invalid request: text: List should have at least 1 item"),
        ({"text": 5}, 400, "Invalid request: text: Input should be a valid list"),
        ({"split_sentences": 2}, 400, "Invalid request: split_sentences: Input should be '0', '1' or 'nonewlines'"),
        ({"tag_handling": "markdown"}, 400, "Invalid request: tag_handling: Input should be 'xml' or 'html'"),
        ({"glossary_id": "x"}, 400, "'glossary_id' is not supported by this server: leave it out."),
        ({"custom_instructions": ["x"]}, 400, "'custom_instructions' is not supported by this server: leave it out."),
        ({"splitting_tags": ["x"]}, 400, "'splitting_tags' is not supported by this server: leave it out."),
        ({"non_splitting_tags": "x"}, 400, "'non_splitting_tags' is not supported by this server: leave it out."),
        ({"outline_detection": "0"}, 400, "'outline_detection' is not supported by this server: leave it out."),
        ({"formality": "more"}, 400, "'formality' is not supported for given 'target_lang'."),
        ({"text": "a <b>b</b>", "tag_handling": "xml"}, 400, "<b> stands inside a sentence"),
        ({"text": "x" * 50_001}, 413, "Invalid request: request (50,001) exceeds text limit"),
    ],
)
def test_deepl_says_what_is_wrong(server, more, status, message):
    answer = server.client.post("/v2/translate", json={"text": "a", "target_lang": "DE", "source_lang": "EN", **more})
    assert answer.status_code == status
    assert answer.json()["message"].startswith(message)


def test_deepl_names_a_missing_parameter(server):
    answer = server.client.post("/v2/translate", json={"text": "a"})
    assert (answer.status_code, answer.json()) == (400, {"message": "Value for 'target_lang' not specified."})


@pytest.mark.parametrize("ignored", ["td,X", ["td", "x"], ["td, x"]])
def test_deepl_ignores_tags(server, ignored):
    text = "<table><td>one</td></table><p>two</p><x>three</x>"
    answer = deepl(server, text, tag_handling="xml", ignore_tags=ignored).json()
    assert answer["translations"][0]["text"] == "<table><td>one</td></table><p>TWO</p><x>three</x>"
    assert deepl(server, "two <x/>", tag_handling="xml", ignore_tags=ignored).status_code == 400


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


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/v2/document", 404),
        ("POST", "/v2/glossaries", 404),
        ("GET", "/v3/glossaries", 404),
        ("POST", "/v2/write/rephrase", 404),
        ("PUT", "/v2/translate", 405),
        ("GET", "/v2/translate", 405),
    ],
)
def test_what_deepl_has_and_we_do_not_is_refused_by_its_error(server, method, path, status):
    answer = server.client.request(method, path)
    assert answer.status_code == status
    assert list(answer.json()) == ["message"]
    assert path in answer.json()["message"]


def test_apertium_translates(server):
    asked = {"q": "the cat", "langpair": "en|de", "markUnknown": "no"}
    expected = {"responseData": {"translatedText": "THE CAT"}, "responseDetails": None, "responseStatus": 200}
    assert server.client.get("/translate", params=asked).json() == expected
    assert server.client.post("/translate", params={"langpair": "en|de"}, data={"q": "the cat"}).json() == expected


@pytest.mark.parametrize(
    ("more", "explanation"),
    [
        ({"q": None}, "Invalid request: missing q parameter"),
        ({"langpair": None}, "Invalid request: missing langpair parameter"),
        ({"langpair": "en"}, "Invalid request: langpair: String should match pattern"),
        ({"langpair": "en|zz"}, "zz is not supported"),
        ({"format": "html"}, "Invalid request: format: Input should be 'txt' or 'text'"),
        ({"q": "x" * 50_001}, "Invalid request: request (50,001) exceeds text limit"),
    ],
)
def test_apertium_says_what_is_wrong(server, more, explanation):
    asked = {name: value for name, value in {"q": "a", "langpair": "en|de", **more}.items() if value is not None}
    answer = server.client.get("/translate", params=asked)
    assert answer.status_code in (400, 413)
    assert answer.json().keys() == {"status", "code", "message", "explanation"}
    assert answer.json()["status"] == "error"
    assert answer.json()["code"] == answer.status_code
    assert answer.json()["explanation"].startswith(explanation)


def test_apertium_lists_pairs(several):
    pairs = several.client.get("/listPairs").json()["responseData"]
    assert {"sourceLanguage": "de", "targetLanguage": "zh-Hans"} in pairs
    assert len(pairs) == 5


@pytest.mark.parametrize(
    ("path", "headers", "body"),
    [
        ("/translate", {}, {"q": "a", "source": "en", "target": "de", "api_key": "KEY"}),
        ("/translate?api_key=KEY", {}, {"q": "a", "source": "en", "target": "de"}),
        ("/stream", {}, {"q": "a", "source": "en", "target": "de", "api_key": "KEY"}),
        ("/detect", {}, {"q": "a", "api_key": "KEY"}),
        ("/v2/translate", {"Authorization": "DeepL-Auth-Key KEY"}, {"text": "a", "target_lang": "DE"}),
        ("/v2/translate", {}, {"text": "a", "target_lang": "DE", "auth_key": "KEY"}),
        ("/v2/languages", {"Authorization": "DeepL-Auth-Key KEY"}, None),
        ("/v2/usage", {"Authorization": "DeepL-Auth-Key KEY"}, None),
        ("/translate?q=a&langpair=en|de&key=KEY", {}, None),
        ("/metrics", {"Authorization": "Bearer KEY"}, None),
    ],
)
def test_each_dialect_has_its_place_for_the_key(path, headers, body):
    def ask(key):
        method = "GET" if body is None else "POST"
        sent = None if body is None else {name: str(value).replace("KEY", key) for name, value in body.items()}
        with_key = {name: value.replace("KEY", key) for name, value in headers.items()}
        return running.client.request(method, path.replace("KEY", key), headers=with_key, json=sent)

    with serving(keys=["our-key"]) as running:
        assert [ask(key).status_code for key in ("our-key", "another")] == [200, 403]


def test_what_describes_the_server_needs_no_key():
    with serving(keys=["our-key"]) as running:
        paths = [
            "/languages",
            "/frontend/settings",
            "/health",
            "/health/live",
            "/health/ready",
            "/spec",
            "/listPairs",
            "/",
        ]
        assert [running.client.get(path).status_code for path in paths] == [200] * len(paths)
        assert running.client.get("/frontend/settings").json()["keyRequired"] is True


def test_too_many_requests_are_refused_by_address_or_key():
    with serving(requests_per_minute=2) as running:
        assert [running.translate("a").status_code for _ in range(3)] == [200, 200, 429]
        answer = running.client.get("/v2/usage")
        assert answer.status_code == 429
        assert int(answer.headers["Retry-After"]) > 0
    with serving(requests_per_minute=1, keys=["one", "two"]) as running:
        statuses = [running.translate("a", api_key=key).status_code for key in ("one", "one", "two")]
        assert statuses == [200, 429, 200]


def test_behind_a_proxy_on_this_machine_the_clients_address_counts():
    with serving(requests_per_minute=1) as running:
        headers = [{"X-Forwarded-For": address} for address in ("1.1.1.1", "2.2.2.2", "1.1.1.1")]
        statuses = [running.client.post("/detect", data={"q": "a"}, headers=each).status_code for each in headers]
        assert statuses == [200, 200, 429]


PREFLIGHT = {
    "Origin": "https://example.org",
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "content-type",
}


@pytest.mark.parametrize("path", ["/translate", "/v2/translate", "/stream"])
def test_no_other_web_page_may_ask_by_default(server, path):
    answer = server.client.options(path, headers=PREFLIGHT)
    assert answer.status_code == 405
    assert not [name for name in answer.headers if name.startswith("access-control")]
    answer = server.translate("a")
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("path", ["/translate", "/v2/translate", "/stream"])
def test_web_pages_that_are_allowed_may_ask(path):
    with serving(origins=["https://example.org"], keys=["key"]) as running:
        answer = running.client.options(path, headers=PREFLIGHT)
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == "https://example.org"
        assert running.client.options(path, headers={**PREFLIGHT, "Origin": "https://other.org"}).status_code == 400
        answer = running.client.post(path, json={}, headers={"Origin": "https://example.org"})
        assert answer.status_code == 403
        assert answer.headers["access-control-allow-origin"] == "https://example.org"


CROSS_SITE = {"Sec-Fetch-Site": "cross-site", "Origin": "https://example.org", "Content-Type": "text/plain"}


@pytest.mark.parametrize("headers", [CROSS_SITE, {"Host": "evil.example"}])
@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/translate?q=a&source=en&target=de", "error"),
        ("/stream?q=a&source=en&target=de", "error"),
        ("/v2/translate?text=a&target_lang=DE", "message"),
        ("/translate?q=a&langpair=en|de", "explanation"),
    ],
)
def test_pages_of_others_cannot_use_a_server_of_this_machine(path, field, headers):
    with serving(only_loopback=True) as running:
        assert running.client.post(path).status_code == 200
        answer = running.client.post(path, headers=headers)
        assert (answer.status_code, list(answer.json())[-1]) == (403, field)
        assert running.models[0].translators[1, None].batches == [["a"]]


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
        assert running.translate("a").status_code == 503
        running.wait_for(lambda: running.client.get("/health/ready").json() == {"error": "A model does not answer."})
        gate.set()
        running.wait_for(lambda: running.client.get("/health/ready").status_code == 200)


def test_no_path_redirects_to_the_host_that_a_request_names(server):
    for path in ("/metrics/", "/translate/", "/v2/usage/"):
        answer = server.client.get(path, headers={"Host": "evil.example"})
        assert (answer.status_code, answer.headers.get("location")) == (404, None)


def test_the_page_runs_its_own_scripts_alone(server):
    answer = server.client.get("/")
    assert answer.headers["Content-Type"].startswith("text/html")
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_a_stream_gives_each_line_as_it_is_there(server):
    answer = server.client.post("/stream", json={"q": "one\ntwo", "source": "auto", "target": "de", "alternatives": 1})
    assert answer.headers["Content-Type"] == "application/x-ndjson"
    assert [line for line in answer.text.splitlines() if line]
    assert "ONE" in answer.text
    assert "TWO" in answer.text
    assert server.client.post("/stream", json={"q": "a", "source": "en", "target": "zz"}).status_code == 400
