"""The command as its users and their service managers meet it: it starts, answers, and ends as it should."""

import asyncio
import errno
import io
import json
import os
import re
import shutil
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from nmt.errors import ConfigError
from nmt.server.access import Access
from nmt.server.exchange import Limits
from nmt.server.running import bound, run
from tests.commands import run_command
from tests.processes import SECONDS
from tests.server.conftest import BUNDLE, serve_command
from tests.server.doubles import Model, serving, wait_for

NOTES = json.loads((BUNDLE / "notes.json").read_text("utf-8"))["translations"]
SLOW = "\n".join(f"{number} {line}" for number in range(20) for line in NOTES)  # equal lines are searched once
ENDLESS = "\n".join(f"{number} {line}" for number in range(400) for line in NOTES)
"""Nobody waits for its translation."""
SMALL_BATCHES = ("--threads", 1, "--batch-tokens", 50, "--timeout", SECONDS)


def translate(port, q, host="127.0.0.1", **more):
    body = {"q": q, "source": "en", "target": "de", **more}
    return httpx.post(f"http://{host}:{port}/translate", json=body, timeout=SECONDS)


def waiting(port, host="127.0.0.1"):
    """The source pieces that wait for a batch."""
    metrics = httpx.get(f"http://{host}:{port}/metrics", timeout=SECONDS).text
    return float(re.search(r"^nmt_waiting_pieces (\S+)$", metrics, re.MULTILINE)[1])


def wait_until_busy(port):
    """Wait until a batch is searched and others wait."""
    wait_for(lambda: waiting(port))


def test_a_model_translates_over_http(real):
    answer = real.post("/translate", json={"q": list(NOTES), "source": "en", "target": "de"})
    assert answer.json() == {"translatedText": list(NOTES.values())}
    text = "\n\n".join(NOTES)
    answer = real.post("/v2/translate", json={"text": [text], "target_lang": "DE", "source_lang": "EN"})
    assert answer.json()["translations"][0]["text"] == "\n\n".join(NOTES.values())


def test_the_language_is_identified(real):
    [first, *_] = real.post("/detect", data={"q": "The dog sees a cat and the woman reads a book."}).json()
    assert first["language"] == "en"
    answer = real.post("/translate", data={"q": "The man sleeps.", "source": "auto", "target": "de"}).json()
    assert answer["detectedLanguage"]["language"] == "en"


def test_alternatives_are_those_of_the_beam(real):
    answer = real.post("/translate", json={"q": next(iter(NOTES)), "source": "en", "target": "de", "alternatives": 9})
    assert answer.json()["translatedText"] == next(iter(NOTES.values()))
    assert len(answer.json()["alternatives"]) == 3  # a beam of 4


@pytest.mark.parametrize("text", ["\0", "\u200b", "\ufeff", "a\0", "字" * 40, "\U0001f600", "\x1b", "\u2028"], ids=repr)
def test_any_character_is_answered(real, text):
    answer = real.post("/translate", json={"q": [text, "The man sleeps."], "source": "en", "target": "de"})
    assert answer.status_code == 200
    assert answer.json()["translatedText"][1] == NOTES["The man sleeps."]
    assert "nmt_waiting_pieces 0.0" in real.get("/metrics").text


def test_unknown_characters_are_copied(real):
    texts = ["☃", "☃☃ ☃", "The ☃ man sleeps."]
    translated = real.post("/translate", json={"q": texts, "source": "en", "target": "de"}).json()["translatedText"]
    assert translated[:2] == texts[:2]
    assert translated[2].count("☃") == 1 and translated[2] != texts[2]


WORDS = "The man woman dog cat book sees reads a today They cannot help us sleeps"


def test_answers_under_load_equal_answers_alone(real):
    words = WORDS.split()
    texts = [" ".join(words[number % 7 : number % 7 + 2 + number % 9]) + "." for number in range(60)]

    def ask(text, split="1"):
        body = {"text": [text], "source_lang": "EN", "target_lang": "DE", "split_sentences": split}
        return real.post("/v2/translate", json=body).json()["translations"][0]["text"]

    alone = [ask(text, "0") for text in texts]  # with another translator: what was found is not remembered for this one
    with ThreadPoolExecutor(16) as executor:
        long = executor.submit(ask, "\n".join(texts))
        together = list(executor.map(ask, texts))
    assert together == alone
    assert long.result().split("\n") == alone


def has_ipv6():
    try:
        with bound("::1", 0):
            return True
    except ConfigError:
        return False


def test_sigterm_answers_what_was_accepted_and_waits_for_no_idle_connection():
    host, name = ("::1", "[::1]") if has_ipv6() else ("127.0.0.1", "127.0.0.1")
    with serve_command(BUNDLE, "--host", host, *SMALL_BATCHES) as command, ThreadPoolExecutor(2) as executor:
        assert f"http://{name}:{command.port}/" in command.notices
        idle = [socket.create_connection((host, command.port)) for _ in range(20)]
        idle[0].sendall(b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Le")
        answers = []
        for _ in range(2):
            waited = waiting(command.port, name)
            answers.append(executor.submit(translate, command.port, SLOW, host=name))
            wait_for(lambda: waiting(command.port, name) > waited)  # noqa: B023 - it falls until the request is there
        command.process.terminate()
        for answer in answers:
            assert answer.result().status_code == 200
            assert len(answer.result().json()["translatedText"].split("\n")) == len(SLOW.split("\n"))
        assert command.process.wait(SECONDS) == 0
        assert command.rest() == ""
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"http://{name}:{command.port}/health")
        for connection in idle:
            connection.close()


def test_a_second_ctrl_c_ends_each_request_as_if_its_client_had_gone(caplog):
    """Also when it comes while uvicorn looks whether all requests have ended."""
    model = Model("en", "de")
    model.translator().gate.clear()
    errors = []

    def ask(port, loop):
        with ThreadPoolExecutor(1) as executor:
            answer = executor.submit(translate, port, "the cat")
            wait_for(lambda: model.translator().batches)
            signal.raise_signal(signal.SIGINT)
            time.sleep(0.3)
            loop.call_soon_threadsafe(lambda: (time.sleep(0.2), signal.raise_signal(signal.SIGINT)))
            errors.append(answer.exception(SECONDS))
            model.translator().gate.set()

    with bound("127.0.0.1", 0) as listening, ThreadPoolExecutor(1) as executor:

        def started(_):
            executor.submit(ask, listening.getsockname()[1], asyncio.get_running_loop())

        run([model], listening, access=Access(), limits=Limits(), max_waiting=10, started=started)
    assert isinstance(errors[0], httpx.HTTPError)
    assert caplog.records == []


def test_a_request_that_outlasts_the_server_is_refused(caplog):
    with serving() as running, ThreadPoolExecutor(1) as executor:
        running.models[0].translator().gate.clear()
        running.server.config.timeout_graceful_shutdown = 1
        answer = executor.submit(running.translate, "the cat")
        wait_for(lambda: running.models[0].translator().batches)
        running.server.should_exit = True
        assert answer.result().status_code == 503
        assert answer.result().json() == {"error": "The server is shutting down."}
    assert [record for record in caplog.records if record.exc_info] == []


def test_a_second_ctrl_c_waits_for_no_request():
    with serve_command(BUNDLE, *SMALL_BATCHES) as command, ThreadPoolExecutor(1) as executor:
        answer = executor.submit(translate, command.port, ENDLESS)
        wait_until_busy(command.port)
        command.process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        assert command.process.poll() is None
        command.process.send_signal(signal.SIGINT)
        assert command.process.wait(SECONDS) == 0
        assert command.rest() == ""
        assert isinstance(answer.exception(), httpx.HTTPError)


def children_of(process):
    """The ids of the processes of its models."""
    threads = Path(f"/proc/{process.pid}/task").iterdir()  # any may have started it
    return list(map(int, " ".join((thread / "children").read_text() for thread in threads).split()))


def child_of(process):
    """The id of the process of its only model."""
    [child] = children_of(process)
    return child


@pytest.fixture
def other(tmp_path):
    """The model of the bundle as one for another language."""
    folder = tmp_path / "model"
    shutil.copytree(BUNDLE, folder)
    (folder / "checksums.json").unlink()
    settings = (folder / "config.yaml").read_text("utf-8")
    (folder / "config.yaml").write_text(settings.replace("target_lang: de", "target_lang: fr"), "utf-8")
    return folder


def test_models_on_demand_take_turns_in_memory(other):
    with serve_command(BUNDLE, other, "--max-loaded", 1, *SMALL_BATCHES) as command:
        first = child_of(command.process)
        for target in ("fr", "de"):
            answer = translate(command.port, list(NOTES), target=target)
            assert answer.json() == {"translatedText": list(NOTES.values())}
            assert child_of(command.process) != first
        command.process.terminate()
        assert command.process.wait(SECONDS) == 0
        lines = command.rest().splitlines()
    assert [line.partition(":")[0].partition(" in ")[0] for line in lines] == [
        f"{verb} {model}"
        for model, gone in ((other, BUNDLE), (BUNDLE, other))
        for verb, model in (("unloaded", gone), ("loaded", model))
    ]


def test_a_model_may_be_replaced_on_disk(tmp_path):
    copy = tmp_path / "model"
    shutil.copytree(BUNDLE, copy)
    with serve_command(copy, *SMALL_BATCHES) as command:
        shutil.rmtree(copy)
        copy.mkdir()
        (copy / "config.yaml").write_text("damaged", "utf-8")
        for alternatives in (0, 2):
            answer = translate(command.port, list(NOTES), alternatives=alternatives)
            assert answer.json()["translatedText"] == list(NOTES.values())
        characters = ["The ☃ man sleeps."] * 20  # unknown ones need a second look at the model
        assert translate(command.port, characters).status_code == 200


@pytest.mark.parametrize("loading", [[], ["--max-loaded", 2]])
def test_a_model_whose_process_is_killed_fails_its_requests_and_is_loaded_again(other, loading):
    with serve_command(BUNDLE, other, *loading, *SMALL_BATCHES) as command, ThreadPoolExecutor(1) as executor:
        assert translate(command.port, list(NOTES), target="fr").status_code == 200
        first, _ = sorted(children_of(command.process))  # in the order of loading
        answer = executor.submit(translate, command.port, ENDLESS)
        wait_until_busy(command.port)
        os.kill(first, signal.SIGKILL)
        message = "The process of the model was killed while it translated. Try again later."
        assert (answer.result().status_code, answer.result().json()) == (503, {"error": message})
        assert answer.result().headers["retry-after"]
        for target in ("fr", "de"):
            found = translate(command.port, list(NOTES), target=target)
            assert found.json() == {"translatedText": list(NOTES.values())}
        assert first not in children_of(command.process)
        command.process.terminate()
        assert command.process.wait(SECONDS) == 0
        lines = command.rest()
    assert f"{BUNDLE} was killed by SIGKILL (the system also does this when memory runs out). The next" in lines
    assert f"loaded {BUNDLE} in " in lines


def test_sigterm_ends_a_server_whose_model_hangs():
    with serve_command(BUNDLE, "--threads", 1, "--timeout", 1) as command:
        os.kill(child_of(command.process), signal.SIGSTOP)
        assert translate(command.port, "The man sleeps today.").status_code == 503
        command.process.terminate()
        assert command.process.wait(SECONDS) == 0
        assert command.rest() == ""


def test_a_log_that_cannot_be_written_harms_no_answer(monkeypatch):
    class Full(io.StringIO):
        """A log on a full disk."""

        def write(self, text):
            raise OSError(errno.ENOSPC, text)

    with serving() as running:
        monkeypatch.setattr("sys.stderr", Full())
        for text in ("fail", "fail early", "fail", "fine"):
            assert running.translate(text).status_code == (200 if text == "fine" else 500)


def test_a_server_that_is_faster_at_the_port_is_an_error():
    with bound("127.0.0.1", 0) as slow:
        port = slow.getsockname()[1]
        with bound("127.0.0.1", port) as fast:
            fast.listen()
            with pytest.raises(ConfigError, match=f"127.0.0.1, port {port}: Address already in use. Another program"):
                run([Model("en", "de")], slow, access=Access(), limits=Limits(), max_waiting=1)


@pytest.mark.parametrize(
    ("host", "error"),
    [
        ("no.such.host.invalid", "--host no.such.host.invalid: "),
        ("192.0.2.1", r"192\.0\.2\.1, port 0: .*Give an address of this machine as --host\."),
    ],
)
def test_an_address_that_is_not_ours_is_an_error(host, error):
    with pytest.raises(ConfigError, match=error):
        bound(host, 0).__enter__()


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ([BUNDLE, "--port", "PORT"], "Address already in use. Another program uses it"),
        (
            [BUNDLE, "--host", "0.0.0.0"],
            "--host 0.0.0.0: other machines can connect. Give --api-keys FILE, or --public",
        ),
        ([BUNDLE, "--api-keys", "missing"], "--api-keys missing: cannot be read"),
        ([BUNDLE, "--allow-origin", "https://a.org/"], "--allow-origin https://a.org/: no browser sends"),
        (["none"], "none"),
    ],
)
def test_a_mistake_ends_the_command_at_once(words, error, tmp_path):
    with bound("127.0.0.1", 0) as listening:
        listening.listen()
        port = str(listening.getsockname()[1])
        result = run_command(["serve", *(port if word == "PORT" else word for word in words)], cwd=tmp_path)
    assert result.returncode == 2
    assert error in result.stderr.decode()
