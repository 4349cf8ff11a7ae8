"""A teacher, against a server on loopback that answers as servers do: also late, wrongly or not at all."""

import contextlib
import sqlite3
import threading
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from nmt.errors import ConfigError, DataError, DownloadError
from nmt.synthesis.answers import _APPLICATION, Answer, Answers
from nmt.synthesis.chat_server import KEY, ChatServer
from nmt.synthesis.teacher import ChatRequest, Teacher
from nmt.translation.guard import Languages
from nmt.translation.jobs import TranslationJob
from nmt.translation.resuming import Begun
from tests.kit.chat import DROP_BY_DROP, chat_server, completion, error

LANGUAGES = Languages("en", "de")
SOURCE = "the grey cat sleeps on the old chair"


def translated(text: str, times: int = 0):
    return completion(f"<{text}>")


@contextlib.contextmanager
def teacher_of(address, folder, *, concurrency=4, timeout=5.0, tries=4, request=None, languages=LANGUAGES):
    server = ChatServer(address, concurrency=concurrency, timeout=timeout, tries=tries, first_wait=0.01)
    asked = ChatRequest.read(request, "big")
    with Teacher.opened(server, asked, folder / "answers", languages) as teacher:
        yield teacher


def answers_to(answer, folder, lines=(SOURCE,), **options):
    """The translations of lines, and what the server was asked."""
    with chat_server(answer) as server, teacher_of(server.address, folder, **options) as teacher:
        return list(teacher.translate(lines)), server


def test_each_line_is_asked_for_once_and_all_at_the_same_time(tmp_path):
    together = threading.Barrier(4, timeout=20)

    def answer(text, times):
        together.wait()
        return translated(text)

    lines = [f"line {number}" for number in range(8)]
    found, server = answers_to(answer, tmp_path, [*lines, "", "  "])
    assert [each.text for each in found] == [*(f"<{line}>" for line in lines), "", ""]
    assert sorted(server.texts) == lines
    assert not any(each.guard for each in found)
    again, server = answers_to(answer, tmp_path, lines)
    assert ([each.text for each in again], server.requests) == ([f"<{line}>" for line in lines], [])


def test_a_slow_answer_does_not_hold_up_the_next_window(tmp_path):
    lines = [f"line {number}" for number in range(33)]  # a window of 32 for two threads
    last_asked = threading.Event()

    def answer(text, times):
        if text == lines[31]:
            assert last_asked.wait(20)
        elif text == lines[32]:
            last_asked.set()
        return translated(text)

    found, _ = answers_to(answer, tmp_path, lines, concurrency=2, timeout=30, tries=1)
    assert [each.text for each in found] == [f"<{line}>" for line in lines]


def test_the_request_holds_the_model_the_languages_and_the_line(tmp_path, monkeypatch):
    monkeypatch.setenv(KEY, "secret")
    (tmp_path / "request.yaml").write_text(
        "temperature: 0.3\nmessages:\n- {role: system, content: 'You translate {source}.'}\n"
        '- {role: user, content: "Into {target}, {not} more:\\n{text}"}\nextra: {top_k: 5}\n'
    )
    _, server = answers_to(translated, tmp_path, ["keep {source} as it is"], request=tmp_path / "request.yaml")
    assert server.requests == [
        {
            "model": "big",
            "temperature": 0.3,
            "messages": [
                {"role": "system", "content": "You translate English."},
                {"role": "user", "content": "Into German, {not} more:\nkeep {source} as it is"},
            ],
            "extra": {"top_k": 5},
        }
    ]
    assert server.keys == {"Bearer secret"}
    assert b"secret" not in (tmp_path / "answers").read_bytes()
    _, plain = answers_to(translated, tmp_path)
    [prompt] = [request["messages"][0]["content"] for request in plain.requests]
    assert prompt.startswith("Translate this sentence from English to German.")


@pytest.mark.parametrize(
    "first",
    [
        error(429, "slow down", Retry_After="0"),
        error(429, "slow down", Retry_After=format_datetime(datetime.now(UTC) - timedelta(seconds=9), usegmt=True)),
        error(429, Retry_After="soon"),
        error(500),
        error(503, "loading"),
        (200, {}, b"<html>busy</html>"),
        (200, {}, b'{"choices": []}'),
        (200, {}, b'{"choices": [{"message": "hello"}]}'),
        (200, {}, b"[" * 100_000),
        (200, {}, b'"' + b"x" * 5_000_000 + b'"'),
        (200, {"Content_Length": "900"}, b"cut"),
    ],
)
def test_a_failure_that_passes_costs_another_try(tmp_path, first):
    if first[1].get("Content_Length"):  # the connection ends too early
        first = (200, {"Content_Length": "900", "Connection": "close"}, b"cut")
    found, server = answers_to(lambda text, times: first if times == 0 else translated(text), tmp_path, timeout=1.0)
    assert ([each.text for each in found], len(server.requests)) == ([f"<{SOURCE}>"], 2)


def test_a_server_says_how_long_to_wait(tmp_path):
    begun = time.monotonic()
    first = error(429, Retry_After="1")
    _, server = answers_to(lambda text, times: first if times == 0 else translated(text), tmp_path)
    assert len(server.requests) == 2
    assert time.monotonic() - begun > 1


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (completion("I'm sorry, but I can't help with that."), "refused"),
        (completion("As an AI, I do not translate."), "refused"),
        (completion(None, refusal="No."), "refused"),
        (completion(None, "content_filter"), "refused"),
        (completion("die graue Katze schläft auf", "length"), "cut_off"),
        (completion(None, "length"), "cut_off"),
        (completion("Gern!\n\ndie graue Katze schläft"), "several_lines"),
        (completion(""), "empty"),
        (completion(" \n"), "empty"),
        (completion(SOURCE), "copied"),
        (completion("die Katze " * 40), "looping"),
        (completion("ja"), None),
        (completion(" ".join(f"w{number}" for number in range(40))), "too_long"),
        (completion("<think>Which cat?\nThe grey one.</think>\n\ndie graue Katze schläft auf dem Stuhl\n"), None),
        (error(400, "too long"), "rejected"),
        (error(422), "rejected"),
    ],
)
def test_an_answer_that_is_no_translation_is_marked(tmp_path, answer, problem):
    lines = [SOURCE, "another line"]
    found, server = answers_to(lambda text, times: answer if text == SOURCE else translated(text), tmp_path, lines)
    assert [each.guard and each.guard.problems for each in found] == [problem and (problem,), None]
    assert len(server.requests) == 2
    if problem is None:
        assert "\n" not in found[0].text
        assert not found[0].text.startswith("<")
    _, again = answers_to(translated, tmp_path, lines)
    assert len(again.requests) == (problem == "rejected")  # all else was paid for


@pytest.mark.parametrize(
    "refusal",
    [
        "Es tut mir leid, aber ich kann diesen Text nicht übersetzen.",
        "Als KI kann ich dazu nichts sagen.",
        "Je suis désolé, mais je ne peux pas vous aider.",
        "Lo siento, pero no puedo traducir este texto.",
        "Lamento, mas não posso ajudar com isso.",
        "Mi dispiace, ma non posso tradurre questa frase.",
        "Het spijt me, maar ik kan deze tekst niet vertalen.",
        "Przykro mi, ale nie mogę przetłumaczyć tego tekstu.",
        "Omlouvám se, nemohu tento text přeložit.",
        "Извините, но я не могу перевести этот текст.",
        "抱歉，我无法翻译这段内容。",
        "申し訳ありませんが、この文章は翻訳できません。",
        "죄송하지만 이 글은 번역해 드릴 수 없습니다.",
    ],
)
def test_a_refusal_is_recognised_in_other_languages(tmp_path, refusal):
    found, _ = answers_to(lambda text, times: completion(refusal), tmp_path, [SOURCE])
    assert [each.guard and each.guard.problems for each in found] == [("refused",)]
    source = "Er sagt: Tut mir leid, ich kann dir nicht helfen."  # its translation may say the same
    found, _ = answers_to(lambda text, times: completion(refusal), tmp_path, [source])
    assert found[0].guard is None or "refused" not in found[0].guard.problems


@pytest.mark.parametrize(
    ("source", "translation"),
    [
        ("The language model writes a line.", "Das Sprachmodell schreibt eine Zeile."),
        ("Große Sprachmodelle sind teuer.", "Large language models are expensive."),
        ("We train a language model.", "Nous entraînons un modèle de langage."),
        ("A language model is small.", "一个语言模型很小。"),
        ("He cannot help you.", "Er kann dir nicht helfen."),
        ("You can't translate it.", "Tu ne peux pas le traduire."),
        ("She cannot answer you.", "Zij kan je niet antwoorden."),
    ],
)
def test_a_text_that_is_like_a_refusal_is_none(tmp_path, source, translation):
    found, _ = answers_to(lambda text, times: completion(translation), tmp_path, [source])
    assert (found[0].text, found[0].guard) == (translation, None)


def test_a_line_that_the_server_rejects_ends_nothing_also_if_it_is_alone(tmp_path):
    found, _ = answers_to(lambda text, times: error(400, "too long"), tmp_path, [SOURCE])
    assert [each.guard and each.guard.problems for each in found] == [("rejected",)]


def test_the_words_of_a_refusal_may_be_a_translation(tmp_path):
    line = "Ich sagte: I can't help with that, as an AI."
    found, _ = answers_to(lambda text, times: completion("I said: I can't help with that."), tmp_path, [line])
    assert found[0].guard is None


def test_a_line_without_an_answer_in_time_is_given_up_and_asked_for_again_later(tmp_path):
    done = threading.Event()

    def answer(text, times):
        if text == "slow":
            done.wait(20)
        return translated(text)

    found, server = answers_to(answer, tmp_path, ["quick", "slow"], timeout=0.3, tries=2)
    done.set()
    assert [each.guard and each.guard.problems for each in found] == [None, ("no_answer",)]
    assert server.texts.count("slow") == 2
    found, server = answers_to(translated, tmp_path, ["quick", "slow"])
    assert (server.texts, found[1].text) == (["slow"], "<slow>")


def test_a_server_that_sends_drop_by_drop_is_too_late(tmp_path):
    def answer(text, times):
        return (200, DROP_BY_DROP, b" " * 200) if times == 0 else translated(text)

    begun = time.monotonic()
    found, server = answers_to(answer, tmp_path, timeout=0.5)
    assert time.monotonic() - begun < 15  # the bytes of the first response take 20 seconds
    assert (found[0].text, len(server.requests)) == (f"<{SOURCE}>", 2)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (error(401, "wrong key sk-12…34"), r"status 401 Unauthorized\. The key comes from NMT_TEACHER_KEY"),
        (error(404, "no model big"), "status 404 Not Found: no model big"),
        ((307, {"Location": "http://127.0.0.1/v2"}, b""), "status 307"),
        (error(400, "bad secret field"), r"none of the last \d+ requests \(status 400 Bad Request: bad … field\)"),
        (error(503), r"none of the last \d+ requests .status 503"),
    ],
)
def test_a_server_that_refuses_everything_is_an_error(tmp_path, answer, message, monkeypatch):
    monkeypatch.setenv(KEY, "secret")
    lines = [f"line {number}" for number in range(30)]
    with pytest.raises(DownloadError, match=message) as caught:
        answers_to(lambda text, times: answer, tmp_path, lines, tries=2)
    assert "secret" not in str(caught.value)


def test_few_lines_without_any_answer_are_an_error_too(tmp_path):
    with pytest.raises(DownloadError, match="none of the last 2 requests"):
        answers_to(lambda text, times: error(500), tmp_path, ["one", "two"], tries=2)


def test_text_in_another_language_is_noticed_at_the_first_window(tmp_path):
    pytest.importorskip("py3langid")
    lines = ["le petit chat gris dort sur la vieille chaise dans la cuisine"] * 200
    with (
        chat_server(lambda text, times: completion("die Katze schläft auf dem alten Stuhl")) as server,
        teacher_of(server.address, tmp_path) as teacher,
    ):
        job = TranslationJob(teacher, "jsonl")
        done, _ = next(iter(job.windows(((line, "") for line in lines), Begun())))
        assert done == teacher.window < len(lines)
        assert "looks like French (fr), but the model translates from English (en)." in job.doubt(at_end=False)


@pytest.mark.parametrize("count", [3, 40])
def test_lines_that_a_server_never_answers_are_left_out_while_it_answers_others(tmp_path, count):
    lines = [f"long {number}" for number in range(count)]  # all of the last window
    found, server = answers_to(
        lambda text, times: error(500) if text.startswith("long") else translated(text), tmp_path, lines, tries=2
    )
    assert {each.guard and each.guard.problems for each in found} == {("no_answer",)}
    assert "Hello." in server.texts
    assert {server.texts.count(line) for line in lines} == {2}


def test_a_server_that_is_not_there_is_an_error_at_once(tmp_path):
    with chat_server(translated) as server:
        pass
    with (
        teacher_of(server.address, tmp_path, tries=1000) as teacher,
        pytest.raises(DownloadError, match=r"127.0.0.1:\d+/v1: cannot be reached .*Start the server"),
    ):
        list(teacher.translate(["line"]))


def test_what_is_answered_while_another_line_fails_is_kept(tmp_path):
    failed = threading.Event()

    def answer(text, times):
        if text == "bad":
            failed.set()
            return error(404)
        failed.wait(20)
        time.sleep(0.2)
        return translated(text)

    with pytest.raises(DownloadError):
        answers_to(answer, tmp_path, ["good", "bad"], concurrency=2)
    _, server = answers_to(translated, tmp_path, ["good", "bad"])
    assert server.texts == ["bad"]


@pytest.mark.parametrize("address", ["localhost:8000/v1", "http://", "http://me:secret@host/v1", "ftp://host/v1", ""])
def test_what_is_no_address_of_a_server_is_refused(address):
    with pytest.raises(ConfigError, match="is not the address of a server") as caught:
        ChatServer(address, concurrency=1, timeout=1, tries=1)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["{}", "messages: []", "messages: [{role: user, content: translate}]", "messages: '{text}'", "a: [", "- 1"]
)
def test_a_file_that_is_no_request_is_refused(tmp_path, text):
    (tmp_path / "request.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"request\.yaml: "):
        ChatRequest.read(tmp_path / "request.yaml", "big")


def test_answers_are_known_when_the_file_is_opened_again(tmp_path):
    path = tmp_path / "answers"
    with Answers.opened(path) as answers:
        answers.keep("a", Answer("ein\n\0Wort", "cut_off"))
    with Answers.opened(path) as answers:
        assert answers.find("a") == Answer("ein\n\0Wort", "cut_off")
        assert answers.find("b") is None
    assert [each.name for each in tmp_path.iterdir()] == ["answers"]


@pytest.mark.parametrize("count", range(3))
def test_a_file_that_a_kill_left_half_made_is_completed(tmp_path, count):
    made = ["PRAGMA journal_mode = WAL", f"PRAGMA application_id = {_APPLICATION}"]
    with contextlib.closing(sqlite3.connect(tmp_path / "answers")) as begun:
        for statement in made[:count]:
            begun.execute(statement)
    with Answers.opened(tmp_path / "answers") as answers:
        answers.keep("a", Answer("ein Wort"))
        assert answers.find("a") == Answer("ein Wort")


def test_answers_that_another_process_uses_are_not_to_be_moved_away(tmp_path):
    other = Answers.opened(tmp_path / "answers")
    with Answers.opened(tmp_path / "answers"), pytest.raises(DataError, match="wait until that ends"), other:
        pass


@pytest.mark.parametrize("content", [b"mine", b"SQLite format 3\0" + bytes(84)])
def test_another_file_in_the_place_of_the_answers_is_left_alone(tmp_path, content):
    path = tmp_path / "answers"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"answers: "), Answers.opened(path):
        pass
    assert path.read_bytes() == content


def test_the_database_of_another_program_is_left_alone(tmp_path):
    with sqlite3.connect(tmp_path / "answers") as other:
        other.execute("CREATE TABLE answers (mine TEXT)")
    with pytest.raises(DataError, match="holds something else"), Answers.opened(tmp_path / "answers"):
        pass
