"""Three ranks that exchange as between GPUs: when one fails, all end or all do the update again."""

import signal
import time
from pathlib import Path

import numpy as np
import pytest

from nmt.checkpoint.run_folder import RunFolder, checkpoints
from tests.processes import SECONDS
from tests.training.rank_processes import Rank, start_ranks
from tests.training.ranks.test_exchange import EXACT, distance, hashes, order

RANKS = 3
# A launcher takes longer: torchrun 30 seconds, `nmt train --nproc` 45.
SECONDS_UNTIL_KILLED = 3


@pytest.fixture
def run_ranks(reversed_words, tmp_path):
    """Start ranks, of which one may be disturbed."""
    started: list[Rank] = []

    def run(settings: Path, *disturbance: object, count: int = RANKS) -> list[Rank]:
        arguments = (reversed_words, settings, tmp_path / f"run-{count}", tmp_path / f"out-{count}", *disturbance)
        started.extend(start_ranks(count, *arguments, environment={"LIKE_NCCL": "1"}))
        return started[-count:]

    yield run
    for rank in started:
        rank.process.kill()


def end_as_a_launcher(ranks: list[Rank]) -> list[str]:
    """Wait until a rank fails, then end the others; what they wrote to standard error."""
    processes = [rank.process for rank in ranks]
    deadline = time.monotonic() + SECONDS
    while not any(process.poll() for process in processes):
        assert time.monotonic() < deadline, "no rank has ended"
        time.sleep(0.05)
    for process in processes:
        if process.poll() is None:
            process.terminate()
    end = time.monotonic() + SECONDS_UNTIL_KILLED
    while any(process.poll() is None for process in processes) and time.monotonic() < end:
        time.sleep(0.05)
    for process in processes:
        if process.poll() is None:
            process.kill()
    return [rank.finish() for rank in ranks]


@pytest.mark.parametrize(
    ("what", "rank", "cause"),
    [
        ("raise", 1, "ValueError: a mistake of this test"),
        pytest.param("kill", 1, None, marks=pytest.mark.slow),
        pytest.param("exchange", 1, "the memory ended while ranks exchanged tensors", marks=pytest.mark.slow),
        pytest.param("step", 1, "out of memory", marks=pytest.mark.slow),
        pytest.param("full", 0, "cannot be written", marks=pytest.mark.slow),
    ],
)
def test_a_rank_that_fails_ends_though_the_others_wait_for_it(run_ranks, settings, tmp_path, what, rank, cause):
    ranks = run_ranks(settings(), what, rank, 7)
    errors = end_as_a_launcher(ranks)
    codes = [each.process.returncode for each in ranks]
    assert codes[rank] == (-signal.SIGKILL if what == "kill" else 1)
    if cause is not None:
        assert cause in errors[rank]
        assert not any(cause in error for error in errors[:rank] + errors[rank + 1 :])
    # The last checkpoint before the failure is whole, and nothing was saved after it.
    assert list(checkpoints(tmp_path / f"run-{RANKS}")) == [5]
    assert RunFolder(tmp_path / f"run-{RANKS}").checkpoint(5).is_dir()


@pytest.mark.parametrize(
    "what", ["memory", *(pytest.param(f"bucket-{sent}", marks=pytest.mark.slow) for sent in range(6))]
)
def test_when_a_rank_runs_out_of_memory_all_make_the_update_again(run_ranks, settings, tmp_path, what):
    exact = settings(*EXACT, "batching.micro_batch_tokens=1000", "training.max_updates=10")
    [one] = run_ranks(exact, count=1)
    assert one.finish() == ""
    ranks = run_ranks(exact, what, 1, 6)
    errors = [rank.finish() for rank in ranks]
    assert [rank.process.returncode for rank in ranks] == [0] * RANKS, errors
    alone = np.load(tmp_path / "out-1.0.npz")
    together = [np.load(tmp_path / f"out-{RANKS}.{rank}.npz") for rank in range(RANKS)]
    assert distance(together[0], alone) <= 1e-9
    [size] = {int(rank["micro_batch_tokens"]) for rank in together}
    assert size < 1_000  # it did run out of memory
    paths = [tmp_path / f"out-{RANKS}.{rank}.order" for rank in range(RANKS)]
    orders, digests = (list(map(what, paths)) for what in (order, hashes))
    assert all(each == order(tmp_path / "out-1.0.order") for each in orders)
    # One hash of the parameters on all ranks, after each of the updates.
    assert sorted(digests[0]) == list(range(1, 11))
    assert all(each == digests[0] for each in digests)
