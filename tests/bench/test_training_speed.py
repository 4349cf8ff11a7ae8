"""Training speed is measured on the batches of a run, as a run trains."""

import os
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import turns
from train_worker import ours, set_up
from training_speed import BenchLearner, bench_train, bench_updates, spare_rows
from turns import Contestant, measure_in_turn, started

from nmt.config import dump_config
from nmt.data.shards import ParallelShards
from nmt.errors import NmtError
from nmt.kernels import policy
from nmt.kernels.policy import accelerate
from nmt.machine.device import choose_hardware
from nmt.model.transformer import Transformer
from nmt.training.input.feed import Epochs
from nmt.training.learner import Learner
from nmt.training.ranks.exchange import NO_OTHERS, Ranks
from tests.policies import POLICIES


def bench_learner(config, monkeypatch, policy_name="cuda-16-bit", **changed):
    batching = config.batching.model_copy(update=changed)
    monkeypatch.setattr(policy, "choose_kernels", lambda device, products: POLICIES[policy_name])
    return BenchLearner(config.model_copy(update={"batching": batching}), choose_hardware("cpu", "fp32", 1))


def test_updates_are_those_of_a_run(data, config, monkeypatch):
    padded, filled = bench_updates(data, config, 3), bench_learner(config, monkeypatch).updates(data, 3)
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
    updates = bench_learner(config, monkeypatch, micro_batch_tokens="auto").updates(data, 3)
    assert [len(update.batches) for update in updates] == [1, 1, 1]


def test_spare_rows_are_those_that_hold_no_piece(data, config, monkeypatch):
    config = config.model_copy(update={"batching": config.batching.model_copy(update={"micro_batch_tokens": "auto"})})
    updates = bench_learner(config, monkeypatch).updates(data, 1_000)
    inputs = [(batch, side) for update in updates for batch in update.batches for side in ("source", "target")]
    real = sum(int(getattr(batch, f"{side}_lengths_B").sum()) for batch, side in inputs)
    made = sum(len(getattr(batch.inputs, side).tokens_N) for batch, side in inputs)
    assert spare_rows(data, config, 1) == pytest.approx(1 - real / made)


def test_a_model_without_padding_gets_batches_as_in_training(data, config, tmp_path, monkeypatch):
    """Where its policy takes sentences one after the other: pairs of all lengths, dealt as training deals them."""
    (tmp_path / "config.yaml").write_text(dump_config(config))
    trained = []
    done = SimpleNamespace(fitting_tokens=None)
    monkeypatch.setattr(Learner, "update", lambda self, batches, **options: trained.append(batches) or done)
    for kernels in (POLICIES["cuda-16-bit"], POLICIES["cpu"]):
        monkeypatch.setattr(policy, "choose_kernels", lambda device, products, kernels=kernels: kernels)
        set_up(ours, data, tmp_path / "config.yaml", 3, 3)
    shards = ParallelShards.open(data, "train")
    for kernels, made in ((POLICIES["cuda-16-bit"], trained[:3]), (POLICIES["cpu"], trained[3:])):
        epochs = Epochs(lambda *place: (shards, None), config.batching, config.training.seed)
        model = accelerate(Transformer(config.model, 30), kernels)
        batching = epochs.micro_batching(model, model.device, NO_OTHERS, 13)(50)
        run = epochs.updates(0, 0, batching=lambda batching=batching: batching, ranks=NO_OTHERS)
        for batches, planned in zip(made, run, strict=False):
            assert len(batches) == len(planned.batches)
            for one, other in zip(batches, planned.batches, strict=True):
                assert np.array_equal(one.source_M, other.source_M)
                assert np.array_equal(one.target_input_N, other.target_input_N)


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


def test_each_rank_gets_its_share_of_the_updates(data, config):
    whole = bench_updates(data, config, 3)
    cpu = choose_hardware("cpu", "fp32", 1)
    shares = [BenchLearner(config, cpu, Ranks(rank, 2)).updates(data, 3) for rank in range(2)]
    for number, update in enumerate(whole):
        batches = [batch for share in shares for batch in share[number].batches]
        assert sum(batch.pairs for batch in batches) == len(update.pairs)
        assert {share[number].target_tokens for share in shares} == {update.target_tokens}


def test_an_update_that_does_not_fit_is_made_again_and_its_size_is_kept(data, config, monkeypatch):
    learner, sizes = BenchLearner(config, choose_hardware("cpu", "fp32", 1)), []

    def update(batches, **options):
        sizes.append(max(batch.positions for batch in batches))
        return SimpleNamespace(fitting_tokens=sizes[-1] // 2 if sizes[-1] > 40 else None)

    monkeypatch.setattr(learner.learner, "update", update)
    updates = learner.updates(data, 2)
    for number, planned in enumerate(updates, start=1):
        learner.update(planned, number)
    assert [size > 40 for size in sizes] == [True] * (len(sizes) - 2) + [False] * 2
    assert len(sizes) > 2


def test_every_round_has_other_batches_until_there_are_no_more(data, config, tmp_path):
    (tmp_path / "config.yaml").write_text(dump_config(config))
    _, run = set_up(ours, data, tmp_path / "config.yaml", 2, 3)
    tokens = [update.target_tokens for update in bench_updates(data, config, 3)]
    assert run("run")["tokens"] == tokens[2] + tokens[0]  # the warm-up has taken the first two
    assert run("run")["tokens"] == tokens[1] + tokens[2]


@pytest.mark.parametrize(("policy_name", "compiled"), [("cuda-16-bit", True), ("cpu", False)])
def test_a_benchmark_compiles_one_graph_if_asked_and_says_whether(
    data, config, tmp_path, monkeypatch, policy_name, compiled
):
    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph.forward

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend))
    monkeypatch.setattr(policy, "choose_kernels", lambda device, products: POLICIES[policy_name])
    torch._dynamo.reset()
    asked = config.model_copy(update={"training": config.training.model_copy(update={"compile": True})})
    (tmp_path / "config.yaml").write_text(dump_config(asked))
    description, run = set_up(ours, data, tmp_path / "config.yaml", 2, 4)
    run("round")
    assert description["compiled"] is compiled
    assert len(graphs) == compiled
