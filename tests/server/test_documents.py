"""Documents: what comes back, what is refused, and that other requests do not wait for them."""

from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from nmt.server import documents
from tests.server.doubles import Running, serving, wait_for


def sent(running: Running, content: bytes | str, name: str = "a.txt", **more: str):
    raw = content.encode() if isinstance(content, str) else content
    data = {"source": "en", "target": "de", **more}
    return running.client.post("/translate_file", files={"file": (name, raw)}, data=data)


def fetched(running: Running, answer):
    assert answer.status_code == 200, answer.text
    return running.client.get(answer.json()["translatedFileUrl"])


@pytest.mark.parametrize(
    ("name", "content", "translated"),
    [
        ("a.txt", "\ufeffone two\r\n\r\n  three \n", "\ufeffONE TWO\r\n\r\n  THREE \n"),
        ("a.TXT", b"\xff\xfec\x00a\x00t\x00", b"\xff\xfeC\x00A\x00T\x00"),
        ("a.txt", "", ""),
        ("a.html", '<html lang="en"><p>one <b>cat</b>', '<html lang="de"><p>ONE <b>CAT</b>'),
        ("a.srt", "1\n00:00:01,000 --> 00:00:02,000\none\n", "1\n00:00:01,000 --> 00:00:02,000\nONE\n"),
        ("a.json", '{"a": "one", "b": 2}', '{"a": "ONE", "b": 2}'),
    ],
)
@pytest.mark.parametrize("source", ["en", "auto"])
def test_a_document_comes_back_translated(server, source, name, content, translated):
    answer = fetched(server, sent(server, content, name, source=source))
    assert answer.content == (translated.encode() if isinstance(translated, str) else translated)


def test_a_browser_saves_a_document_and_may_fetch_it_again(server):
    answer = sent(server, "one", "my dög.txt")
    assert answer.json()["translatedFileUrl"].startswith(f"http://127.0.0.1:{server.port}/download_file/")
    for _ in range(2):
        found = fetched(server, answer)
        assert found.headers["Content-Disposition"] == "attachment; filename*=utf-8''my%20d%C3%B6g.de.txt"
        assert found.headers["Content-Type"] == documents.MEDIA_TYPE
        assert found.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    ("name", "content", "more", "status", "error"),
    [
        ("a.pdf", "x", {}, 400, "Invalid file: a.pdf: its file extension must be one of .arb, .htm"),
        ("", "x", {}, 400, "file: Expected a file"),
        ("a.xlf", "<xl", {}, 400, "a.xlf, line 1: this is not XML"),
        (
            "a.xlf", '<xliff><file source-language="en" target-language="fr"/></xliff>', {}, 400,
            "a.xlf, line 1: the translations are in fr, but the model translates to de. Take the file without "
            "translations.",
        ),
        ("a.txt", b"one\n\xff", {}, 400, "a.txt, line 2: byte 5 of the file (0xff) is not valid UTF-8"),
        ("a.txt", "x", {"target": "fr"}, 400, "fr is not supported"),
        ("a.txt", "x", {"source": "fr"}, 400, "fr is not supported"),
        ("a.txt", "x", {"source": "de"}, 400, "Source and target language are equal: German."),
        ("a.txt", "x\n" * 2_001, {}, 413, "request (2,001) exceeds text limit (2,000) in characters"),
        ("a.txt", "x" * 100_000, {}, 413, "more than 89,536 bytes"),
        ("a.txt", "fail", {}, 500, "An internal error"),
    ],
)  # fmt: skip
def test_what_cannot_be_translated_is_refused_in_words(small, capfd, name, content, more, status, error):
    answer = sent(small, content, name, **more)
    assert (answer.status_code, error in answer.json()["error"]) == (status, True), answer.text


def test_a_file_must_be_sent_as_one(small):
    for request in ({"json": {"file": "x"}}, {"files": {"file": (None, "x")}}, {"data": {"file": {"name": "a.txt"}}}):
        answer = small.client.post("/translate_file", params={"source": "en", "target": "de"}, **request)
        assert (answer.status_code, "Expected a file" in answer.json()["error"]) == (400, True)


def test_an_unknown_document_is_not_found(server):
    answer = server.client.get("/download_file/ABC.txt")
    assert (answer.status_code, answer.json()["error"][:10]) == (404, "Not found:")


def test_keys_are_needed_to_send_but_not_to_fetch():
    with serving(keys=["one"]) as running:
        assert sent(running, "one").status_code == 403
        assert fetched(running, sent(running, "one", api_key="one")).content == b"ONE"


def test_others_are_answered_while_a_document_waits_for_room(monkeypatch):
    """It takes turns, none of which is larger than the queue."""
    monkeypatch.setattr(documents, "_TURN", 10)
    monkeypatch.setattr(documents, "_LONGEST_WAIT", 0.01)
    with serving(max_waiting=8) as running, ThreadPoolExecutor() as threads:
        translator = running.models[0].translator()
        translator.gate.clear()
        document = threads.submit(sent, running, "\n".join(f"a {number}" for number in range(100)))
        wait_for(lambda: translator.batches)
        other = threads.submit(running.translate, "the cat")
        wait_for(lambda: running.service.pool.waiting)
        translator.gate.set()
        assert other.result().json() == {"translatedText": "THE CAT"}
        whole = fetched(running, document.result()).text
        assert whole.split("\n") == [f"A {number}" for number in range(100)]
        assert max(map(len, translator.batches)) <= 10


def sent_to_deepl(running: Running, content: str, name: str = "a.txt", **more: str):
    data = {"source_lang": "EN", "target_lang": "DE", **more}
    headers = {"Authorization": "DeepL-Auth-Key one"}
    return running.client.post("/v2/document", files={"file": (name, content)}, data=data, headers=headers)


def asked_of_deepl(running: Running, document, of: str = "", auth_key: str = "one"):
    headers = {"Authorization": f"DeepL-Auth-Key {auth_key}"}
    id, key = document["document_id"], document["document_key"]
    return running.client.post(f"/v2/document/{id}{of}", json={"document_key": key}, headers=headers)


def ended(running: Running, document) -> dict[str, object]:
    """The status of a document whose translation has ended."""
    wait_for(lambda: asked_of_deepl(running, document).json()["status"] in ("done", "error"))
    return asked_of_deepl(running, document).json()


def test_deepl_counts_a_document_and_gives_it_once(server):
    before = server.client.get("/v2/usage").json()["character_count"]
    document = sent_to_deepl(server, "one\n\nthe cat").json()
    status = {"document_id": document["document_id"], "status": "done", "billed_characters": 10}
    assert ended(server, document) == status
    assert server.client.get("/v2/usage").json()["character_count"] == before + 10
    answer = asked_of_deepl(server, document, "/result")
    assert (answer.content, answer.headers["Content-Type"]) == (b"ONE\n\nTHE CAT", documents.MEDIA_TYPE)
    for of in ("", "/result"):
        assert asked_of_deepl(server, document, of).status_code == 404


def test_deepl_says_how_far_a_document_is(monkeypatch):
    monkeypatch.setattr(documents, "_AT_ONCE", 1)
    monkeypatch.setattr(documents, "_TURN", 1)
    with serving() as running:
        translator = running.models[0].translator()
        translator.gate.clear()
        first = sent_to_deepl(running, "one\ntwo").json()
        wait_for(lambda: translator.batches)
        second = sent_to_deepl(running, "three").json()
        assert asked_of_deepl(running, second).json()["status"] == "queued"
        status = asked_of_deepl(running, first).json()
        assert (status["status"], status["seconds_remaining"] >= 1) == ("translating", True)
        answer = asked_of_deepl(running, first, "/result")
        assert (answer.status_code, answer.json()) == (503, {"message": "The document is not translated yet."})
        translator.gate.set()
        assert [ended(running, each)["status"] for each in (first, second)] == ["done", "done"]
        assert translator.batches == [["one"], ["three"], ["two"]]


def test_deepl_says_why_a_document_cannot_be_translated(server):
    document = sent_to_deepl(server, "<xl", "a.xlf").json()
    message = "a.xlf, line 1: this is not XML: unclosed token."
    status = {"document_id": document["document_id"], "status": "error", "error_message": message}
    assert ended(server, document) == status
    answer = asked_of_deepl(server, document, "/result")
    assert (answer.status_code, answer.json()) == (400, {"message": message})


@pytest.mark.parametrize(
    ("name", "more", "message"),
    [
        ("a.pdf", {}, "Invalid file: a.pdf"),
        ("a.pdf", {"filename": "a.txt"}, ""),
        ("a.txt", {"filename": "a.pdf"}, "Invalid file: a.pdf"),
        ("a.txt", {"output_format": "TXT"}, ""),
        ("a.txt", {"output_format": "pdf"}, "'output_format' must be that of the document, txt"),
        ("a.txt", {"target_lang": "XX"}, "Value for 'target_lang' not supported."),
        ("a.txt", {"source_lang": "XX"}, "Value for 'source_lang' not supported."),
        ("a.txt", {"target_lang": ""}, "Value for 'target_lang' not specified."),
        ("a.txt", {"formality": "more"}, "'formality' is not supported"),
        ("a.txt", {"style_id": "x"}, "'style_id' is not supported"),
    ],
)
def test_deepl_refuses_a_document_at_once(server, name, more, message):
    answer = sent_to_deepl(server, "one", name, **more)
    assert answer.status_code == (400 if message else 200)
    assert answer.json().get("message", "").startswith(message)


def test_a_document_is_that_of_its_key():
    with serving(keys=["one", "two"]) as running:
        document = sent_to_deepl(running, "one").json()
        assert ended(running, document)["status"] == "done"
        assert asked_of_deepl(running, document, auth_key="two").status_code == 404
        assert asked_of_deepl(running, {**document, "document_key": "x"}).status_code == 404
        answer = asked_of_deepl(running, {**document, "document_key": ""})
        assert answer.json() == {"message": "Value for 'document_key' not specified."}


def test_documents_have_limited_room_which_those_that_were_fetched_give_up(monkeypatch):
    monkeypatch.setattr(documents, "MAX_SIZE", 2_500)
    with serving(keys=["one", "two"]) as running:
        answers = [sent(running, "one", api_key="one") for _ in range(2)]
        refused = sent(running, "one", api_key="one")
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "60")
        assert sent(running, "one", api_key="two").status_code == 200
        assert fetched(running, answers[0]).content == b"ONE"
        assert sent(running, "one", api_key="one").status_code == 200
        assert [fetched(running, answer).status_code for answer in answers] == [404, 200]


def test_a_document_is_forgotten_after_a_while(monkeypatch):
    monkeypatch.setattr(documents, "KEPT_SECONDS", 0.01)
    with serving() as running:
        answer = sent(running, "one")
        wait_for(lambda: fetched(running, answer).status_code == 404)


def test_a_document_whose_client_goes_away_is_dropped():
    with serving() as running:
        translator = running.models[0].translator()
        translator.gate.clear()
        form = {"files": {"file": ("a.txt", "a\n" * 100)}, "data": {"source": "en", "target": "de"}}
        with pytest.raises(httpx.ReadTimeout), httpx.Client(base_url=running.client.base_url, timeout=0.3) as client:
            client.post("/translate_file", **form)
        wait_for(lambda: not running.service.pool.waiting)
        assert len(translator.batches) == 1
