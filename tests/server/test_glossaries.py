"""Glossaries: what clients create, and translations with them."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from nmt.server import glossaries
from nmt.spans.terms import Glossary
from tests.server.doubles import Model, Running, serving, wait_for

ANIMALS = {"name": "animals", "source_lang": "EN", "target_lang": "de", "entries": "cat\tKatze\n\ndog\tHund\r\n"}


def headers(auth_key: str) -> dict[str, str]:
    return {"Authorization": f"DeepL-Auth-Key {auth_key}"}


def created(running: Running, auth_key: str = "one", **more: str):
    return running.client.post("/v2/glossaries", json=ANIMALS | more, headers=headers(auth_key))


def translated(running: Running, text: str, glossary_id: str | None, auth_key: str = "one", **more: str):
    body = {"text": [text], "source_lang": "EN", "target_lang": "DE", "glossary_id": glossary_id, **more}
    return running.client.post("/v2/translate", json=body, headers=headers(auth_key))


def text_of(answer) -> str:
    return answer.json()["translations"][0]["text"]


@pytest.fixture
def running():
    with serving([Model("en", "de"), Model("de", "en")], keys=["one", "two"]) as running:
        running.client.headers.update(headers("one"))
        yield running


def test_a_glossary_is_created_described_read_and_deleted(running):
    answer = created(running)
    described = answer.json()
    assert (answer.status_code, described.pop("creation_time")[:2]) == (201, "20")
    assert described == {
        "glossary_id": described["glossary_id"],
        "name": "animals",
        "ready": True,
        "source_lang": "en",
        "target_lang": "de",
        "entry_count": 2,
    }
    path = f"/v2/glossaries/{described['glossary_id']}"
    assert running.client.get(path).json() == answer.json()
    assert running.client.get("/v2/glossaries").json() == {"glossaries": [answer.json()]}
    entries = running.client.get(f"{path}/entries")
    assert (entries.text, entries.headers["Content-Type"]) == (
        "cat\tKatze\ndog\tHund",
        "text/tab-separated-values; charset=utf-8",
    )
    deleted = running.client.delete(path)
    assert (deleted.status_code, deleted.content) == (204, b"")
    for method, of in (("GET", ""), ("GET", "/entries"), ("DELETE", "")):
        answer = running.client.request(method, path + of)
        assert (answer.status_code, answer.json()["message"][:10]) == (404, "Not found:")
    assert running.client.get("/v2/glossaries").json() == {"glossaries": []}


def test_the_languages_of_glossaries_are_listed(running):
    pairs = [{"source_lang": "en", "target_lang": "de"}, {"source_lang": "de", "target_lang": "en"}]
    assert running.client.get("/v2/glossary-language-pairs").json() == {"supported_languages": pairs}


def multilingual(running: Running, *dictionaries: dict[str, str], name: str = "animals"):
    given = dictionaries or (CATS, {"source_lang": "DE", "target_lang": "EN", "entries": "Hund\tdog"})
    return running.client.post("/v3/glossaries", json={"name": name, "dictionaries": given})


CATS = {"source_lang": "EN", "target_lang": "DE", "entries": "cat\tKatze"}


def counts(answer) -> dict[str, int]:
    return {f"{one['source_lang']}-{one['target_lang']}": one["entry_count"] for one in answer.json()["dictionaries"]}


def test_a_glossary_of_several_directions_is_created_changed_and_deleted(running):
    answer = multilingual(running)
    assert (answer.status_code, counts(answer)) == (201, {"en-de": 1, "de-en": 1})
    glossary = answer.json()["glossary_id"]
    path = f"/v3/glossaries/{glossary}"
    assert running.client.get("/v3/glossaries").json() == {"glossaries": [answer.json()]}
    assert running.client.get(path).json() == answer.json()
    added = running.client.patch(path, json={"dictionaries": [CATS | {"entries": "dog\tHund\ncat\tMieze"}]})
    assert added.json() == answer.json() | {"dictionaries": added.json()["dictionaries"]}
    assert counts(added) == {"en-de": 2, "de-en": 1}
    renamed = running.client.patch(path, json={"name": "pets"})
    assert renamed.json() == added.json() | {"name": "pets"}
    entries = running.client.get(f"{path}/entries", params={"source_lang": "en-GB", "target_lang": "DE"})
    of_cats = {"source_lang": "en", "target_lang": "de", "entries_format": "tsv"}
    assert entries.json() == {"dictionaries": [of_cats | {"entries": "cat\tMieze\ndog\tHund"}]}
    assert text_of(translated(running, "the cat", glossary)) == "THE Mieze"
    assert text_of(translated(running, "ein Hund", glossary, source_lang="DE", target_lang="EN")) == "EIN dog"

    replaced = running.client.put(f"{path}/dictionaries", json=CATS)
    assert replaced.json() == {"source_lang": "en", "target_lang": "de", "entry_count": 1}
    assert text_of(translated(running, "the cat dog", glossary)) == "THE Katze DOG"
    direction = {"source_lang": "DE", "target_lang": "EN"}
    for status in (204, 404):
        assert running.client.delete(f"{path}/dictionaries", params=direction).status_code == status
    assert running.client.get(f"{path}/entries", params=direction).status_code == 404
    assert counts(running.client.get(path)) == {"en-de": 1}
    assert running.client.delete(path).status_code == 204
    for method, of in (("GET", ""), ("PATCH", ""), ("DELETE", "")):
        assert running.client.request(method, path + of).status_code == 404


def test_both_versions_show_the_same_glossaries(running):
    single, several = created(running).json()["glossary_id"], multilingual(running).json()["glossary_id"]
    assert counts(running.client.get(f"/v3/glossaries/{single}")) == {"en-de": 2}
    listed = running.client.get("/v2/glossaries").json()["glossaries"]
    assert [one["glossary_id"] for one in listed] == [single]
    answer = running.client.get(f"/v2/glossaries/{several}")
    message = "The glossary has 2 dictionaries, not 1: use /v3/glossaries."
    assert (answer.status_code, answer.json()["message"]) == (400, message)
    assert running.client.delete(f"/v2/glossaries/{several}").status_code == 204
    assert len(running.client.get("/v3/glossaries").json()["glossaries"]) == 1


@pytest.mark.parametrize(
    ("dictionaries", "message"),
    [
        ([CATS, CATS | {"source_lang": "en-US"}], "Two dictionaries are from en-US to DE: join them."),
        ([CATS, CATS | {"target_lang": "XX"}], "Value for 'target_lang' not supported."),
        ([CATS, {"source_lang": "EN", "entries": "a\tb"}], "Value for 'target_lang' not specified."),
        ([CATS | {"entries": ""}], "Invalid glossary entries: entries: has no terms."),
        (["x"], "Invalid request: dictionaries: Input should be a valid dictionary"),
    ],
)
def test_dictionaries_that_cannot_be_read_are_refused_and_change_nothing(running, dictionaries, message):
    before = multilingual(running)
    changed = running.client.patch(
        f"/v3/glossaries/{before.json()['glossary_id']}", json={"dictionaries": dictionaries}
    )
    for answer in (multilingual(running, *dictionaries), changed):
        assert (answer.status_code, answer.json()["message"][: len(message)]) == (400, message)
    assert running.client.get("/v3/glossaries").json() == {"glossaries": [before.json()]}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"entries": "cat"}, "Invalid glossary entries: entries, line 1: expected a term, a tab"),
        ({"entries": "cat\tKatze\tx"}, "Invalid glossary entries: entries, line 1"),
        ({"entries": " \n"}, "Invalid glossary entries: entries: has no terms."),
        ({"entries": "cat\tKatze", "entries_format": "csv"}, "Invalid glossary entries: entries, line 1"),
        ({"entries": '"a,b', "entries_format": "csv"}, "Invalid glossary entries: unexpected end of data"),
        ({"entries": '"a\nb",c', "entries_format": "csv"}, "Invalid glossary entries: entries, line 1"),
        ({"entries_format": "xml"}, "Invalid request: entries_format: Input should be 'tsv' or 'csv'"),
        ({"target_lang": "XX"}, "Value for 'target_lang' not supported."),
        ({"target_lang": "EN"}, "Source and target language of a glossary must differ."),
        ({"name": ""}, "Value for 'name' not specified."),
    ],
)
def test_a_glossary_that_cannot_be_read_is_refused(running, more, message):
    answer = created(running, **more)
    assert (answer.status_code, answer.json()["message"][: len(message)]) == (400, message)


def test_entries_may_be_separated_by_commas(running):
    answer = created(running, entries='cat,Katze,en,de\r\n"a ""big"" dog","Hund, groß"', entries_format="csv")
    entries = running.client.get(f"/v2/glossaries/{answer.json()['glossary_id']}/entries")
    assert entries.text == 'cat\tKatze\na "big" dog\tHund, groß'


def test_translations_have_the_terms_and_others_have_not(running):
    """Whatever is remembered of the same line, and in the same batches."""
    one, other = (
        created(running, entries=entries).json()["glossary_id"] for entries in ("cat\tKatze", "cat\tMieze\nis\tsei")
    )
    for _ in range(2):
        for glossary, text in ((None, "THE CAT IS"), (one, "THE Katze IS"), (other, "THE Mieze sei")):
            assert text_of(translated(running, "the cat is", glossary)) == text
    assert text_of(translated(running, "<p>the <b>cat</b></p>", one, tag_handling="html")) == "<p>THE <b>Katze</b></p>"
    assert text_of(translated(running, "the cat is", one, target_lang="de-AT")) == "THE Katze IS"
    assert set(running.models[0].translators) == {("de", 1, None)}


def test_a_glossary_is_that_of_its_key_and_of_its_languages(running):
    glossary = created(running).json()["glossary_id"]
    assert translated(running, "cat", glossary, "two").status_code == 404
    assert running.client.get(f"/v2/glossaries/{glossary}", headers=headers("two")).status_code == 404
    assert running.client.get("/v2/glossaries", headers=headers("two")).json() == {"glossaries": []}
    answer = translated(running, "cat", glossary, source_lang="DE", target_lang="EN")
    message = "The glossary has no terms from de to en, but from EN to de."
    assert (answer.status_code, answer.json()["message"]) == (400, message)


def test_others_are_answered_while_a_glossary_is_indexed(running, monkeypatch):
    def indexed(entries):
        begun.set()
        assert answered.wait(10)
        return Glossary(entries)

    begun, answered = threading.Event(), threading.Event()
    monkeypatch.setattr(glossaries, "Glossary", indexed)
    glossary = created(running).json()["glossary_id"]
    with ThreadPoolExecutor(1) as other:
        waiting = other.submit(translated, running, "the cat", glossary)
        assert begun.wait(10)
        assert text_of(translated(running, "the cat", None)) == "THE CAT"
        answered.set()
        assert text_of(waiting.result()) == "THE Katze"


def test_a_document_has_the_terms(running):
    data = {"source_lang": "EN", "target_lang": "DE", "glossary_id": created(running).json()["glossary_id"]}
    answer = running.client.post("/v2/document", files={"file": ("a.txt", "the cat\nthe mouse")}, data=data).json()
    path, key = f"/v2/document/{answer['document_id']}", {"document_key": answer["document_key"]}
    wait_for(lambda: running.client.post(path, json=key).json()["status"] == "done")
    assert running.client.post(f"{path}/result", json=key).text == "THE Katze\nTHE MOUSE"


def test_glossaries_have_limited_room(running, monkeypatch):
    monkeypatch.setattr(glossaries, "MAX_SIZE", 2_500)
    glossary = created(running).json()["glossary_id"]
    assert created(running, "two").status_code == 201
    answer = created(running)
    assert (answer.status_code, "at most 2,500 characters" in answer.json()["message"]) == (413, True)
    terms = {"dictionaries": [CATS | {"entries": "\n".join(f"cat{number}\tKatze" for number in range(100))}]}
    assert running.client.patch(f"/v3/glossaries/{glossary}", json=terms).status_code == 413
    assert counts(running.client.get(f"/v3/glossaries/{glossary}")) == {"en-de": 2}
    running.client.delete(f"/v2/glossaries/{glossary}")
    assert created(running).status_code == 201
