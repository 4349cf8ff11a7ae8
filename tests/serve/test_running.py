"""The command as its users and their service managers meet it: it starts, answers, and ends as it should."""

import errno
import io
import json
import os
import shutil
import signal
import socket
import threading
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
from tests.serve.conftest import BUNDLE, serve_command
from tests.serve.doubles import Model, serving

NOTES = json.loads((BUNDLE / "notes.json").read_text("utf-8"))["translations"]
SLOW = "\n".join(f"{number} {line}" for number in range(40) for line in NOTES)  # equal lines are searched once
ENDLESS = "\n".join(f"{number} {line}" for number in range(400) for line in NOTES)
"""Nobody waits for its translation."""
SMALL_BATCHES = ("--threads", 1, "--batch-tokens", 50)


def translate(port, q, **more):
    body = {"q": q, "source": "en", "target": "de", **more}
    return httpx.post(f"http://127.0.0.1:{port}/translate", json=body, timeout=SECONDS)


def wait_until_busy(port):
    """Wait until a batch is searched and others wait."""
    end = time.monotonic() + SECONDS
    while "nmt_waiting_pieces 0.0" in httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=SECONDS).text:
        assert time.monotonic() < end
        time.sleep(0.01)


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


def test_unknown_characters_are_copied_as_the_command_copies_them(real):
    texts = ["☃", "☃☃ ☃", "The ☃ man sleeps."]
    translated = real.post("/translate", json={"q": texts, "source": "en", "target": "de"}).json()["translatedText"]
    run = run_command(["translate", "--model", BUNDLE, "--precision", "fp32", "-q"], text="\n".join(texts).encode())
    assert translated == run.stdout.decode().splitlines()
    assert translated[:2] == texts[:2]


def test_answers_under_load_equal_answers_alone(real):
    words = [
        "The",
        "man",
        "woman",
        "dog",
        "cat",
        "book",
        "sees",
        "reads",
        "a",
        "today",
        "They",
        "cannot",
        "help",
        "us",
        "sleeps",
    ]
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


def test_sigterm_answers_what_was_accepted_and_ends_well():
    with serve_command(BUNDLE, *SMALL_BATCHES) as command, ThreadPoolExecutor(2) as executor:
        answers = [executor.submit(translate, command.port, SLOW) for _ in range(2)]
        wait_until_busy(command.port)
        command.process.terminate()
        for answer in answers:
            assert answer.result().status_code == 200
            assert len(answer.result().json()["translatedText"].split("\n")) == len(SLOW.split("\n"))
        assert command.process.wait(SECONDS) == 0
        assert command.rest() == ""
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"http://127.0.0.1:{command.port}/health")


@pytest.mark.parametrize("count", [1, 2])
def test_ctrl_c_waits_once(count):
    with serve_command(BUNDLE, *SMALL_BATCHES) as command, ThreadPoolExecutor(1) as executor:
        answer = executor.submit(translate, command.port, SLOW if count == 1 else ENDLESS)
        wait_until_busy(command.port)
        for _ in range(count):
            command.process.send_signal(signal.SIGINT)
            time.sleep(0.3)
        assert command.process.wait(SECONDS) == 0
        assert command.rest() == ""
        if count == 1:
            assert answer.result().status_code == 200
        else:
            assert isinstance(answer.exception(), httpx.HTTPError)


@pytest.mark.parametrize("is_busy", [False, True])
def test_a_model_whose_process_is_killed_ends_the_server(is_busy):
    with serve_command(BUNDLE, *SMALL_BATCHES) as command, ThreadPoolExecutor(1) as executor:
        if is_busy:
            answer = executor.submit(translate, command.port, ENDLESS)
            wait_until_busy(command.port)
        [child] = Path(f"/proc/{command.process.pid}/task/{command.process.pid}/children").read_text().split()
        os.kill(int(child), signal.SIGKILL)
        assert command.process.wait(SECONDS) == 2
        assert f"{BUNDLE} was killed by SIGKILL (the system also does this when memory runs out)." in command.rest()
        if is_busy:
            assert answer.result().status_code == 503
            assert answer.result().json() == {"error": "The server is shutting down."}


def test_sigterm_ends_a_server_whose_model_hangs():
    with serve_command(BUNDLE, "--threads", 1, "--timeout", 1) as command:
        [child] = Path(f"/proc/{command.process.pid}/task/{command.process.pid}/children").read_text().split()
        os.kill(int(child), signal.SIGSTOP)
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


def test_the_model_may_be_replaced_while_it_serves(tmp_path):
    copy = tmp_path / "model"
    shutil.copytree(BUNDLE, copy)
    with serve_command(copy, "--threads", 1) as command:
        shutil.rmtree(copy)
        copy.mkdir()
        (copy / "config.yaml").write_text("damaged", "utf-8")
        for alternatives in (0, 2):
            answer = translate(command.port, list(NOTES), alternatives=alternatives)
            assert answer.json()["translatedText"] == list(NOTES.values())
        characters = ["The ☃ man sleeps."] * 20  # unknown ones need a second look at the model
        assert translate(command.port, characters).status_code == 200


def test_a_second_server_at_a_port_is_an_error_at_once():
    with bound("127.0.0.1", 0) as listening:
        listening.listen()
        port = listening.getsockname()[1]
        result = run_command(["serve", BUNDLE, "--port", port])
    assert result.returncode == 2
    assert f"127.0.0.1, port {port}: Address already in use. Another program uses it" in result.stderr.decode()


def test_a_server_that_is_faster_at_the_port_is_an_error():
    with bound("127.0.0.1", 0) as slow:
        port = slow.getsockname()[1]
        with bound("127.0.0.1", port) as fast:
            fast.listen()
            with pytest.raises(ConfigError, match=f"127.0.0.1, port {port}: Address already in use. Another program"):
                run([Model("en", "de")], slow, access=Access(), limits=Limits(), max_waiting=1)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--host", "no.such.host.invalid"], "--host no.such.host.invalid: "),
        (["--host", "0.0.0.0"], "--host 0.0.0.0: other machines can connect. Give --api-keys FILE, or --public"),
        (["--host", "::"], "--host ::: other machines can connect"),
        (["--api-keys", "missing"], "--api-keys missing: cannot be read"),
        (["--port", "99999"], "--port"),
        (["--allow-origin", "https://example.org/"], "--allow-origin https://example.org/: no browser sends"),
        (["--beam", "0"], "--beam"),
        (["--max-characters", "0"], "--max-characters"),
    ],
)
def test_a_mistake_ends_the_command_at_once(words, error, tmp_path):
    result = run_command(["serve", BUNDLE, *words], cwd=tmp_path)
    assert result.returncode == 2
    assert error in result.stderr.decode()


def test_a_model_that_is_not_there_is_an_error(tmp_path):
    result = run_command(["serve", tmp_path / "none"])
    assert result.returncode == 2
    assert "none" in result.stderr.decode()


def test_two_models_of_a_pair_are_an_error():
    result = run_command(["serve", BUNDLE, BUNDLE, "--port", "0", "--threads", "1"])
    assert result.returncode == 2
    assert "two models translate en to de: a server has one for each pair. Leave one out." in result.stderr.decode()


def test_an_address_that_is_not_ours_is_an_error():
    with pytest.raises(ConfigError, match=r"192\.0\.2\.1, port 0: .*Give an address of this machine as --host\."):
        bound("192.0.2.1", 0).__enter__()


def test_the_address_of_ipv6_is_one_that_can_be_opened():
    try:
        with bound("::1", 0):
            pass
    except ConfigError:
        pytest.skip("this machine has no IPv6")
    with serve_command(BUNDLE, "--host", "::1", "--threads", 1) as command:
        assert f"http://[::1]:{command.port}/" in command.notices
        assert httpx.get(f"http://[::1]:{command.port}/health", timeout=SECONDS).json() == {"status": "ok"}


def test_connections_that_do_nothing_do_not_keep_it_from_ending():
    with serve_command(BUNDLE, "--threads", 1) as command:
        idle = [socket.create_connection(("127.0.0.1", command.port)) for _ in range(20)]
        idle[0].sendall(b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Le")
        threading.Event().wait(0.3)
        command.process.terminate()
        assert command.process.wait(SECONDS) == 0
        for connection in idle:
            connection.close()
