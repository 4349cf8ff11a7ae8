"""``nmt train --nproc``: ranks meet by a private file, listen on loopback alone, and exchange JSON."""

import ipaddress
import json
import math
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from typer.testing import CliRunner

import nmt
from nmt.cli.app import app
from nmt.errors import TrainingError
from nmt.training.ranks import launch as launch_module
from nmt.training.ranks.exchange import NO_OTHERS, Ranks
from nmt.training.ranks.launch import PrintedError, launch
from nmt.training.ranks.rendezvous import environment_of_rank, private_rendezvous
from nmt.training.start import summary
from nmt.training.start.folder import run_folder
from tests.commands import ForkedPython
from tests.training.rank_processes import SCRIPT

needs_proc = pytest.mark.skipif(not Path("/proc/net/tcp").is_file(), reason="looks for sockets in /proc")

_LISTENS = "0A"


def addresses_listened_on(pid: int) -> set[str]:
    """The addresses at which a process accepts TCP connections."""
    sockets = {link for link in map(_target, Path(f"/proc/{pid}/fd").iterdir()) if link.startswith("socket:")}
    found = set()
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        rows = [line.split() for line in table.read_text().splitlines()[1:]] if table.is_file() else []
        found |= {row[1].split(":")[0] for row in rows if row[3] == _LISTENS and f"socket:[{row[9]}]" in sockets}
    return set(map(_address, found))


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except FileNotFoundError:
        return ""


def _address(digits: str) -> str:
    """An address as /proc writes it: words of 32 bits, each in the order of the machine's bytes."""
    words = [digits[i : i + 8] for i in range(0, len(digits), 8)]
    return str(ipaddress.ip_address(b"".join(int(word, 16).to_bytes(4, sys.byteorder) for word in words)))


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def environment(pid: int) -> dict[str, str]:
    entries = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


@needs_proc
@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::1")])
def test_a_listening_socket_is_found_with_its_address(family, address):
    before = addresses_listened_on(os.getpid())
    with socket.socket(family) as listening:
        try:
            listening.bind((address, 0))
        except OSError:
            pytest.skip(f"no {address} here")
        listening.listen()
        assert addresses_listened_on(os.getpid()) == before | {address}


@pytest.mark.slow
@needs_proc
def test_ranks_listen_on_loopback_alone_and_meet_in_a_private_folder(settings, tmp_path, reversed_words):
    endless = settings("training.max_updates=100000", "training.patience=null", "logging.every_updates=1")
    (tmp_path / "torch.py").write_text("raise SystemExit('imported from the working directory')")
    command = [
        sys.executable, "-P", "-m", "nmt", "train", "--nproc", "2", "--data", str(reversed_words),
        "--config", str(endless), "--out", str(tmp_path / "run"),
    ]  # fmt: skip
    # What a user may have set for several machines.
    several_machines = {"GLOO_SOCKET_IFNAME": "no-such-interface", "NCCL_SOCKET_IFNAME": "no-such-interface"}
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=os.environ | several_machines
    ) as process:
        try:
            assert process.stderr is not None
            told = []
            for line in process.stderr:
                told.append(line)
                if line.startswith("update "):
                    break
            ranks = children(process.pid)
            assert len(ranks) == 2, "".join(told)
            job = [process.pid, *ranks, *(helper for rank in ranks for helper in children(rank))]
            addresses = {pid: addresses_listened_on(pid) for pid in job}
            assert all(map(is_loopback, set().union(*addresses.values()))), addresses
            [rendezvous] = {Path(environment(rank)["NMT_RENDEZVOUS"]) for rank in ranks}
            assert stat.S_IMODE(rendezvous.parent.stat().st_mode) == 0o700
        finally:
            process.terminate()
            rest = process.stderr.read()
    assert "Saved. Run the same command to resume." in rest
    assert not rendezvous.parent.exists()


def is_loopback(address: str) -> bool:
    found = ipaddress.ip_address(address)
    mapped = found.ipv4_mapped if found.version == 6 else None
    return (mapped or found).is_loopback


EXCHANGE = """
import json, math, sys
from pathlib import Path
import torch
from nmt.training.ranks.exchange import process_group, ranks_of_environment

ranks = ranks_of_environment()
rank = ranks.rank
values = [None, True, 2**70, 0.1 + rank, 5e-324, math.inf, "\\u00fc\\udcff" * (1 + 99 * rank), {"a": [rank]}]
with process_group(ranks, torch.device("cpu")):
    refused = []
    for exchange in (ranks.broadcast_object, ranks.gather):
        try:
            exchange({rank})
        except TypeError as error:
            refused.append(str(error))
    found = [ranks.broadcast_object(values), ranks.gather(values), refused]
    Path(sys.argv[1], f"{rank}.json").write_text(json.dumps(found))
"""


def test_ranks_exchange_json_and_nothing_else(tmp_path):
    with private_rendezvous() as rendezvous:
        processes = [
            ForkedPython(["-c", EXCHANGE, str(tmp_path)], str(tmp_path), environment_of_rank(rank, 2, rendezvous))
            for rank in range(2)
        ]
        assert [process.wait(300) for process in processes] == [0, 0]

    def values(rank: int) -> list:
        return [None, True, 2**70, 0.1 + rank, 5e-324, math.inf, "ü\udcff" * (1 + 99 * rank), {"a": [rank]}]

    for rank in range(2):
        told, gathered, refused = json.loads((tmp_path / f"{rank}.json").read_text())
        assert told == values(0)
        assert gathered == [values(0), values(1)]
        assert refused == ["Object of type set is not JSON serializable"] * 2


@pytest.fixture
def ranks_that(monkeypatch):
    """Let each rank run a program of the test's in place of a training."""

    def run(program: str) -> None:
        def start(module, arguments, *, environment):
            return subprocess.Popen([sys.executable, "-c", program], env=environment)

        monkeypatch.setattr(launch_module, "start_module", start)

    return run


BOTH = """
import os, signal, sys, time
rank = os.environ["RANK"]
"""


@pytest.mark.parametrize("code", [0, 143])
def test_a_rank_that_a_signal_stopped_decides_the_exit_code(ranks_that, code):
    ranks_that(f"{BOTH}\nif rank == '1': sys.exit({code})")
    assert launch([], 2) == code


@pytest.mark.parametrize("code", [1, 2])
def test_a_rank_that_printed_its_error_fails_the_call_and_the_command_adds_nothing(
    ranks_that, reversed_words, settings, tmp_path, code
):
    ranks_that(f"{BOTH}\nif rank == '1': sys.exit({code})\ntime.sleep(60)")
    with pytest.raises(TrainingError, match="rank 1 failed and printed its error"):
        nmt.train(reversed_words, config=settings(), out=tmp_path / "run", nproc=2)
    command = ["train", "--nproc", "2", "--data", str(reversed_words), "--config", str(settings())]
    ended = CliRunner().invoke(app, [*command, "--out", str(tmp_path / "run")])
    assert ended.exit_code == code
    assert "rank 1" not in ended.output


def test_a_killed_rank_is_named(ranks_that):
    ranks_that(f"{BOTH}\nif rank == '1': os.kill(os.getpid(), signal.SIGKILL)\ntime.sleep(60)")
    with pytest.raises(TrainingError, match=r"rank 1 was killed by SIGKILL .* Run the same command to resume"):
        launch([], 2)


def forked(monkeypatch, folder: Path, words: list[str] | None = None, disturb=lambda rank: None) -> Path:
    """Let ranks begin as copies of a process that has imported torch; returns the file of what they write to stderr.

    Args:
        words: what each runs in place of its command.
        disturb: called in a thread with rank 1.
    """
    errors = folder / "errors"

    def start(module, arguments, *, environment):
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
        with errors.open("ab") as stderr:
            rank = ForkedPython(words or ["-m", module, *arguments], str(folder), environment, stderr=stderr, **streams)
        if environment["RANK"] == "1":
            threading.Thread(target=disturb, args=(rank,)).start()
        return rank

    monkeypatch.setattr(launch_module, "start_module", start)
    return errors


@pytest.mark.parametrize(
    ("what", "code", "message"),
    [
        ("nothing", 0, "Finished at update 10"),
        ("kill", 2, "rank 1 was killed by SIGKILL"),
        ("stop", 128 + signal.SIGTERM, "Saved. Run the same command to resume."),
    ],
)
def test_the_command_says_once_how_its_ranks_ended(
    monkeypatch, settings, tmp_path, reversed_words, what, code, message
):
    run = tmp_path / "run"

    def disturb(rank):
        while what != "nothing" and not (run / "last").exists() and rank.poll() is None:
            time.sleep(0.05)
        if what == "kill":
            rank.send_signal(signal.SIGKILL)
        elif what == "stop" and rank.poll() is None:
            os.kill(os.getpid(), signal.SIGTERM)  # this process is the command

    errors = forked(monkeypatch, tmp_path, disturb=disturb)
    updates = 10 if what == "nothing" else 1_000_000
    last = settings(f"training.max_updates={updates}", "training.max_minutes=10", "training.patience=null")
    command = ["train", "--nproc", "2", "--data", str(reversed_words), "--config", str(last), "--out", str(run)]
    ended = CliRunner().invoke(app, command)
    said = ended.stderr + errors.read_text()
    assert ended.exit_code == code, said
    assert said.count(message) == 1
    assert "Traceback" not in said
    assert "torch/distributed" not in said


def test_an_error_of_one_rank_ends_the_job_and_names_rank_and_update(monkeypatch, settings, tmp_path, reversed_words):
    places = map(str, (SCRIPT, reversed_words, settings(), tmp_path / "run", tmp_path / "out"))
    errors = forked(monkeypatch, tmp_path, [*places, "raise", "1", "5"])
    with pytest.raises(PrintedError) as error:
        launch([], 2)
    assert error.value.exit_code == 1
    said = errors.read_text()
    assert "a mistake of this test" in said
    assert "It happened after update 4." in said
    assert "This was rank 1 of 2." in said
    assert said.count("Traceback") == 1  # the other rank lost touch, which is not the cause


@pytest.mark.parametrize(
    ("codes", "signals", "failed"),
    [([1, -9], [], 1), ([0, 2], [], 1), ([143, 130], [], None), ([-15, 0], [15], None), ([-15, 0], [], 0)],
)
def test_which_rank_failed_where_several_have_ended(codes, signals, failed):
    ended = [SimpleNamespace(returncode=code, poll=lambda code=code: code) for code in codes]
    job = launch_module._Job(signals, ended)
    job.watch()
    assert job.failed == failed


def test_a_rank_that_does_not_end_is_killed_and_named(ranks_that, monkeypatch):
    monkeypatch.setattr(launch_module, "_SECONDS_TO_END", 0.5)
    ranks_that(f"{BOTH}\nif rank == '1': sys.exit(143)\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(60)")
    with pytest.raises(TrainingError, match=r"rank 0 did not end within 0\.5 seconds .* was killed"):
        launch([], 2)


def test_without_a_temporary_folder_the_error_says_what_to_set(monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", "/no/such/folder")
    with pytest.raises(TrainingError, match="Set TMPDIR to a writable folder"):
        launch([], 2)


def test_a_fresh_start_names_the_folder_that_its_ranks_train_in(monkeypatch, reversed_words, settings, tmp_path):
    def start(module, arguments, *, environment):
        if environment["RANK"] == "0":
            with monkeypatch.context() as rank:
                rank.setattr(os, "environ", environment)
                with run_folder(tmp_path / "run", NO_OTHERS, fresh="--fresh" in arguments) as folder:
                    (folder / "trained").touch()
        return subprocess.Popen(["true"])

    monkeypatch.setattr(launch_module, "start_module", start)
    for name in ("run", "run-2"):
        training = nmt.train(reversed_words, config=settings(), out=tmp_path / "run", fresh=True, nproc=2)
        assert training.run == tmp_path / name
        assert (training.run / "trained").exists()


@pytest.mark.parametrize(
    ("has_gpu", "device", "looks"), [(False, "auto", True), (True, "cpu", True), (True, "auto", False)]
)
def test_who_starts_ranks_checks_what_they_need_together_and_leaves_gpus_alone(
    monkeypatch, reversed_words, settings, tmp_path, has_gpu, device, looks
):
    """Moments that the ranks divide fit where those of a single rank would not."""
    checked, started = [], []
    monkeypatch.setattr(summary, "check_memory", lambda config, hardware, ranks: checked.append(ranks))
    monkeypatch.setattr(launch_module, "launch", lambda arguments, ranks, claimed: started.append(ranks) or 7)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_gpu)
    command = ["train", "--nproc", "3", "--data", str(reversed_words), "--config", str(settings()), "--device", device]
    ended = CliRunner().invoke(app, [*command, "--out", str(tmp_path / "run")])
    assert (ended.exit_code, started) == (7, [3])
    assert checked == ([Ranks(0, 3, 0, 3)] if looks else [])
