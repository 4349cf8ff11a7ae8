"""Training speed is measured on the batches of a run, as a run trains."""

import os
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
import turns
from train_worker import one_by_one, ours, warmed_up
from training_speed import bench_train, bench_updates, spare_rows, trained
from turns import Contestant, measure_in_turn, started

from nmt.errors import NmtError
from nmt.kernels import policy
from nmt.machine.device import choose_hardware
from tests.policies import POLICIES


def planned(data, config, count, monkeypatch, policy_name="cuda-16-bit", **changed):
    """The first updates that are made with some settings of batching."""
    batching = config.batching.model_copy(update=changed)
    config = config.model_copy(update={"batching": batching})
    monkeypatch.setattr(policy, "choose_kernels", lambda device, products: POLICIES[policy_name])
    with trained(data, config, choose_hardware("cpu", "fp32", 1)) as (_, updates):
        return [update.plan for update in islice(updates, count)]


def test_updates_are_those_of_a_run(data, config, monkeypatch):
    padded, filled = bench_updates(data, config, 3), planned(data, config, 3, monkeypatch)
    assert len(padded) == len(filled) == 3
    for one, other in zip(padded, filled, strict=True):
        assert np.array_equal(one.pairs, other.pairs)
        for update in (one, other):
            assert sum(batch.target_tokens for batch in update.batches) == update.target_tokens
            assert sum(batch.pairs for batch in update.batches) == len(update.pairs)
        # The settings limit a micro-batch to 50 positions.
        assert all(batch.positions <= 50 for batch in one.batches)
        assert all(batch.tokens <= 50 for batch in other.batches)


def test_without_padding_an_update_is_one_micro_batch_unless_its_size_is_set(data, config, monkeypatch):
    updates = planned(data, config, 3, monkeypatch, micro_batch_tokens="auto")
    assert [len(update.batches) for update in updates] == [1, 1, 1]


def test_spare_rows_are_those_that_hold_no_piece(data, config, monkeypatch):
    config = config.model_copy(update={"batching": config.batching.model_copy(update={"micro_batch_tokens": "auto"})})
    updates = [update for update in planned(data, config, 60, monkeypatch) if update.epoch == 0]
    inputs = [(batch, side) for update in updates for batch in update.batches for side in ("source", "target")]
    real = sum(int(getattr(batch, f"{side}_lengths_B").sum()) for batch, side in inputs)
    made = sum(len(getattr(batch.inputs, side).tokens_N) for batch, side in inputs)
    assert spare_rows(data, config, 1) == pytest.approx(1 - real / made)


def test_a_benchmark_counts_tokens_and_rounds(data, config):
    reported = []
    result = bench_train(data, config, rounds=2, updates=2, report=reported.append)
    assert result["rounds"] == len(reported) == len(result["nmt"]["rounds"]) == 2
    assert result["nmt"]["target_tokens_per_second"] == pytest.approx(np.median(result["nmt"]["rounds"]))
    assert 40 < result["target_tokens_per_update"] < 80


WORKER = """
import sys
from turns import serve

def run(task):
    sys.stderr.write("a warning\\n" * 100_000)
    print("and a word on stdout")
    return {"seconds": 1.0, "tokens": 2}

def set_up():
    run("warm-up")
    if sys.argv[1:]:
        raise OSError("no device")
    return {}, run

serve(set_up)
"""


def test_a_worker_that_talks_much_is_understood_and_one_that_fails_says_why(tmp_path, monkeypatch):
    """A pipe that nobody reads holds 64 KiB."""
    (tmp_path / "worker.py").write_text(WORKER)
    monkeypatch.setenv("PYTHONPATH", str(Path(turns.__file__).parent), prepend=os.pathsep)
    with started({"noisy": [str(tmp_path / "worker.py")]}) as contestants:
        measured = measure_in_turn(contestants, 2, lambda words: None)
    assert measured == {"noisy": [{"seconds": 1.0, "tokens": 2}] * 2}
    with pytest.raises(NmtError, match="the benchmark of x failed: OSError: no device"):
        Contestant("x", [str(tmp_path / "worker.py"), "fail"])


def test_every_round_has_other_batches(data, config):
    tokens = [update.target_tokens for update in bench_updates(data, config, 6)]
    with ours(data, config, 0) as trainer:
        _, run = warmed_up(trainer, 2)
        assert run("run")["tokens"] == tokens[2] + tokens[3]  # the warm-up has taken the first two
        assert run("run")["tokens"] == tokens[4] + tokens[5]


def test_another_toolkit_gets_the_same_updates_again_and_again(data, config):
    made = []
    updates = one_by_one(made.append, data, config, 3)
    tokens = [update.target_tokens for update in bench_updates(data, config, 3)]
    assert [next(updates).target_tokens for _ in range(5)] == [*tokens, *tokens[:2]]
    assert len(made) == 5


@pytest.mark.parametrize(("policy_name", "compiled"), [("cuda-16-bit", True), ("cpu", False)])
def test_a_benchmark_compiles_one_graph_if_asked_and_says_whether(data, config, monkeypatch, policy_name, compiled):
    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph.forward

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend))
    monkeypatch.setattr(policy, "choose_kernels", lambda device, products: POLICIES[policy_name])
    asked = config.model_copy(update={"training": config.training.model_copy(update={"compile": True})})
    with ours(data, asked, 0) as trainer:
        description, run = warmed_up(trainer, 2)
        run("round")
    assert description["compiled"] is compiled
    assert len(graphs) == compiled
