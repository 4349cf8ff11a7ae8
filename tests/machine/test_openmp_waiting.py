"""OpenMP's threads spin on an idle machine, and sleep on a busy one."""

import itertools
import json
import os
import subprocess
import sys
import threading

import pytest
import torch  # loads OpenMP  # noqa: F401

from nmt.machine import openmp_waiting
from nmt.machine.openmp_waiting import adapt_waiting_to_load, seconds_without_core

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="another OpenMP library")


@pytest.fixture
def watchers(monkeypatch):
    """The watchers that would start. Other threads start: one may belong to a watcher of an earlier test."""
    started = []

    class Recorded(threading.Thread):
        def start(self):
            if self.name == "openmp-waiting":
                started.append(self.name)
            else:
                super().start()

    monkeypatch.setattr(openmp_waiting.threading, "Thread", Recorded)
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    adapt_waiting_to_load.cache_clear()
    yield started
    adapt_waiting_to_load.cache_clear()


def test_one_watcher_starts_for_a_process(watchers):
    adapt_waiting_to_load()
    adapt_waiting_to_load()
    assert watchers == ["openmp-waiting"]


@pytest.mark.parametrize("name", ["GOMP_SPINCOUNT", "OMP_WAIT_POLICY"])
def test_a_users_own_setting_of_openmp_wins(watchers, monkeypatch, name):
    monkeypatch.setenv(name, "7")
    adapt_waiting_to_load()
    assert watchers == []


def test_where_the_system_does_not_tell_nobody_watches(watchers, monkeypatch, tmp_path):
    monkeypatch.setattr(openmp_waiting, "_OWN_THREADS", tmp_path / "no-proc")
    adapt_waiting_to_load()
    (tmp_path / "tasks" / "1").mkdir(parents=True)
    monkeypatch.setattr(openmp_waiting, "_OWN_THREADS", tmp_path / "tasks")
    adapt_waiting_to_load.cache_clear()
    adapt_waiting_to_load()
    assert watchers == []


class SeenEnoughError(Exception):
    """Ends a watcher, which has no end."""


def test_surplus_threads_run_while_threads_wait_for_a_core(monkeypatch):
    """Checks a second apart: how long all threads had waited, and whether surplus threads run afterwards."""
    looks = [(0.0, False), (0.01, False), (0.7, True), (1.2, True), (1.21, False), (1.2, False), (1.9, True)]
    is_there, seen = False, []

    class Watched:
        def __init__(self):
            nonlocal is_there
            is_there = True

        def end(self):
            nonlocal is_there
            is_there = False

    waited = itertools.chain(looks[0][:1], (seconds for seconds, _ in looks))
    naps = itertools.count()

    def sleep(seconds):
        assert seconds == 1.0
        if next(naps) > 0:
            seen.append(is_there)
        if len(seen) == len(looks):
            raise SeenEnoughError

    monkeypatch.setattr(openmp_waiting, "SurplusThreads", Watched)
    monkeypatch.setattr(openmp_waiting, "seconds_without_core", lambda: next(waited))
    monkeypatch.setattr(openmp_waiting.time, "sleep", sleep)
    with pytest.raises(SeenEnoughError):
        openmp_waiting._watch()
    assert seen == [there for _, there in looks]


def in_own_process(script: str) -> object:
    """What a script prints as JSON, in a process that has its OpenMP library to itself."""
    environment = {name: value for name, value in os.environ.items() if "OMP_" not in name}
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False)
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout)


def test_openmp_keeps_surplus_threads_until_their_end():
    """More threads than cores, besides the earlier ones and the owner of the surplus threads."""
    before, during, after, cores = in_own_process("""
import json, os, time, torch
from nmt.machine.openmp_waiting import SurplusThreads
count = lambda: len(os.listdir("/proc/self/task"))
torch.ones(1_000_000).add_(1)
before = count(); surplus = SurplusThreads(); during = count(); surplus.end()
patience = time.monotonic() + 30
while count() > before and time.monotonic() < patience: time.sleep(0.01)
print(json.dumps([before, during, count(), len(os.sched_getaffinity(0))]))
""")
    assert during == before + cores + 1
    assert after == before


def test_a_wait_for_a_core_is_seen():
    """Two busy processes share one core: each waits for about half of the time."""
    waited = in_own_process("""
import json, os, subprocess, sys, time
from nmt.machine.openmp_waiting import seconds_without_core
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
try:
    time.sleep(0.2)
    before, end = seconds_without_core(), time.perf_counter() + 1.5
    while time.perf_counter() < end: pass
    print(json.dumps(seconds_without_core() - before))
finally:
    other.kill()
""")
    assert waited > 0.1


def test_threads_that_end_meanwhile_are_no_error():
    stop = threading.Event()

    def churn():
        while not stop.is_set():
            threads = [threading.Thread(target=int) for _ in range(20)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    churning = threading.Thread(target=churn)
    churning.start()
    try:
        assert None not in {seconds_without_core() for _ in range(200)}
    finally:
        stop.set()
        churning.join()
