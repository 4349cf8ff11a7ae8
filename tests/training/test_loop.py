"""The loop: resumed runs continue bit for bit, limits end it, and nothing that was learnt is lost."""

import itertools
import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

from nmt.checkpoint.bundle import load_bundle
from nmt.checkpoint.lineage import training_of
from nmt.checkpoint.run_folder import RunFolder, checkpoints
from nmt.errors import CheckpointError, ConfigError
from nmt.machine.device import choose_hardware
from nmt.model.transformer import Transformer
from nmt.training import updates
from nmt.training.input.data_sets import TrainingData
from nmt.training.learner import Learner
from nmt.training.listener import Listener
from nmt.training.metrics_file import Meter
from nmt.training.optimizer import Adam
from nmt.training.progress import Ending
from nmt.training.validation import Validation, Validator
from tests.commands import start_python
from tests.processes import SECONDS, running
from tests.training.conftest import assert_same, records, saved


def weights(run, update):
    return load_file(RunFolder(run).checkpoint(update) / "model.safetensors")


def losses(run):
    return {record["update"]: record["loss"] for record in records(run, "update")}


def assert_same_checkpoint(one, other, update):
    assert_same(saved(one, update), saved(other, update))


@pytest.fixture(scope="module")
def straight(tmp_path_factory, reversed_words, settings_file):
    """A run of 20 updates that nothing disturbed."""
    from nmt.training.run import train
    from nmt.training.start.settings import resolve_config

    run = tmp_path_factory.mktemp("runs") / "straight"
    config, _ = resolve_config([(reversed_words, 1.0)], config_file=settings_file)
    train(TrainingData.open([reversed_words], config), run, Listener())
    return run


@pytest.fixture
def late(monkeypatch):
    """Figures of an update are read when the gradients of the next one were computed, as on a GPU."""
    monkeypatch.setattr(Learner, "reads_late", True)


@pytest.mark.usefixtures("late")
def test_figures_that_are_read_late_are_the_same(run_training, tmp_path, straight, listener):
    run_training(tmp_path / "run", "training.max_updates=10")
    listener.at_update = lambda update: os.kill(os.getpid(), signal.SIGTERM) if update == 13 else None
    assert run_training(tmp_path / "run").progress.update == 13
    listener.at_update = lambda update: None
    run_training(tmp_path / "run")
    assert_same_checkpoint(straight, tmp_path / "run", 20)
    one, other = (
        {record["update"]: record["valid_loss"] for record in records(folder, "validation")}
        for folder in (straight, tmp_path / "run")
    )
    assert one == other


@pytest.mark.usefixtures("late")
@pytest.mark.parametrize("at", [1, 6, 20])
def test_an_update_that_is_read_late_and_comes_again(run_training, tmp_path, monkeypatch, at):
    """The gradients of the next update, which were computed, are computed again as well."""
    exact = (
        "training.precision=fp64",
        "model.dropout=0",
        "batching.micro_batch_tokens=100000",
        "validation.bleu=false",
    )
    run_training(tmp_path / "straight", *exact)
    compute, begun, failed = Learner.compute_gradients, [], []

    def failing(self, batches, *, update, **options):
        if options.get("sends"):
            begun.append(update)
        if update == at and not failed:
            failed.append(update)
            self._buffer.clear()
            return max(batches, key=lambda batch: batch.positions)
        return compute(self, batches, update=update, **options)

    monkeypatch.setattr(Learner, "compute_gradients", failing)
    assert run_training(tmp_path / "run", *exact).progress.micro_batch_tokens < 100_000
    assert begun[at - 1 :][:4] == (
        [at, at + 1, at, at + 1] if at < 20 else [20, 20]
    )  # nothing comes after the last one
    one, other = (
        torch.cat([tensor.flatten() for name, tensor in saved(tmp_path / name, 20).items() if "learnt." in name])
        for name in ("straight", "run")
    )
    assert (one - other).norm() <= 1e-9 * one.norm()


@pytest.mark.usefixtures("late")
@pytest.mark.parametrize("updates", [5, 20])
def test_an_error_in_the_next_update_loses_nothing(run_training, tmp_path, straight, monkeypatch, updates):
    begin = Learner.begin

    def failing(self, batches, *, update, **options):
        if update == 6:
            raise ValueError("a mistake of this test")
        return begin(self, batches, update=update, **options)

    monkeypatch.setattr(Learner, "begin", failing)
    if updates == 5:  # the next one is not even begun
        assert run_training(tmp_path / "run", "training.max_updates=5").ending is Ending.UPDATES
    else:
        with pytest.raises(ValueError, match="a mistake of this test") as error:
            run_training(tmp_path / "run")
        assert error.value.__notes__ == ["It happened after update 5."]
    assert list(checkpoints(tmp_path / "run")) == [5]
    assert_same_checkpoint(straight, tmp_path / "run", 5)
    assert [record["update"] for record in records(tmp_path / "run", "validation")] == ([5] if updates == 5 else [])


def test_a_finished_run_says_so_and_does_nothing(run_training, straight, listener):
    outcome = run_training(straight)
    assert outcome.was_over
    assert outcome.ending is Ending.UPDATES
    assert listener.updates == []


KILLED = """
import os, signal, sys
from pathlib import Path
import nmt.checkpoint.bundle as bundle
from nmt.training.input.data_sets import TrainingData
from nmt.training import listener
from nmt.training.run import train
from nmt.training.start.settings import resolve_config

data, settings, run, moment, number = sys.argv[1:]
saves, save_file = [], bundle.save_file

class Listener(listener.Listener):
    def progressed(self, update, seconds):
        if moment == "update" and update == int(number):
            os.kill(os.getpid(), signal.SIGKILL)

def save_file_or_die(tensors, path, *rest):
    saves.append(path)
    if moment == "save" and len(saves) == int(number):
        Path(path).write_bytes(b"half of a fi")
        os.kill(os.getpid(), signal.SIGKILL)
    return save_file(tensors, path, *rest)

bundle.save_file = save_file_or_die
config, _ = resolve_config([(Path(data), 1.0)], config_file=Path(settings))
train(TrainingData.open([Path(data)], config), Path(run), Listener())
"""


@pytest.mark.parametrize(("moment", "number"), [("update", 10), ("save", 5)])
def test_a_killed_run_resumes_bit_for_bit(
    run_training, tmp_path, straight, reversed_words, settings_file, moment, number
):
    run = tmp_path / "run"
    words = ["-c", KILLED, reversed_words, settings_file, run, moment, number]
    process, errors = start_python(words, environment={"OMP_NUM_THREADS": "1"})
    with errors:
        assert process.wait(SECONDS) == -signal.SIGKILL, errors.read()
    assert max(checkpoints(run), default=0) < 20
    run_training(run)
    assert_same_checkpoint(straight, run, 20)
    assert not list((run / "checkpoints").glob(".*"))


@pytest.mark.slow
def test_two_threads_resume_bit_for_bit(run_training, tmp_path):
    """The model is large enough that products, gradients and the optimiser are shared between the threads."""
    settings = (
        "training.threads=2", "model.d_model=256", "model.d_ff=1024", "batching.update_tokens=2000",
        "batching.micro_batch_tokens=1000",
    )  # fmt: skip
    threads = torch.get_num_threads()
    try:
        run_training(tmp_path / "straight", *settings, "training.max_updates=10")
        for updates in (5, 10):
            run_training(tmp_path / "run", *settings, f"training.max_updates={updates}")
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    assert_same_checkpoint(tmp_path / "straight", tmp_path / "run", 10)


@pytest.mark.parametrize(
    ("rename", "reshape", "problem"),
    [
        (lambda name: name, lambda tensor: tensor[None], r"is \[1, .*\], expected \["),
        (lambda name: name, lambda tensor: tensor[:1], r"is \[1.*\], expected \["),  # which would be broadcast
        (lambda name: f"{name}.x", lambda tensor: tensor, "belongs to no weight of the model"),
        (lambda name: f"x{name}", lambda tensor: tensor, "belongs to no weight of the model"),
    ],
)
def test_training_tensors_that_do_not_fit_the_weights_are_refused(run_training, tmp_path, rename, reshape, problem):
    run = tmp_path / "run"
    run_training(run, "training.max_updates=5")
    checkpoint = RunFolder(run).checkpoint(5)
    file = checkpoint / "training.safetensors"
    tensors = load_file(file)
    name = min(tensors)
    save_file({**tensors, rename(name): reshape(tensors[name]).clone()}, file)
    (checkpoint / "checksums.json").unlink()
    damaged = rf"{re.escape(str(file))} is damaged: {re.escape(rename(name))} {problem}.* Remove {checkpoint}"
    with pytest.raises(CheckpointError, match=damaged):
        run_training(run)


def test_a_lost_terminal_saves_and_ends(run_training, tmp_path, straight, listener):
    listener.at_update = lambda update: os.kill(os.getpid(), signal.SIGHUP) if update == 7 else None
    outcome = run_training(tmp_path / "run")
    assert (outcome.ending, outcome.stopped_by, outcome.progress.update) == (Ending.INTERRUPTED, signal.SIGHUP, 7)
    listener.at_update = lambda update: None
    run_training(tmp_path / "run")
    assert_same_checkpoint(straight, tmp_path / "run", 20)


def test_a_lost_terminal_that_nohup_ignores_stays_ignored(run_training, tmp_path, listener):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        listener.at_update = lambda update: os.kill(os.getpid(), signal.SIGHUP)
        outcome = run_training(tmp_path / "run", "training.max_updates=3")
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    assert (outcome.ending, outcome.progress.update) == (Ending.UPDATES, 3)


def papers_rate(step: int) -> float:
    """Equation 3 for the settings of these tests."""
    return 16**-0.5 * min(step**-0.5, step * 20**-1.5)


def test_each_update_learns_at_the_rate_of_its_number_and_records_it(run_training, tmp_path, monkeypatch):
    rates = {}
    step, updates = Adam.step, itertools.count(1)

    def watched(self, norm, learning_rate):
        rates[next(updates)] = learning_rate
        step(self, norm, learning_rate)

    monkeypatch.setattr(Adam, "step", watched)
    every = ["logging.every_updates=1", "validation.bleu=false", "schedule.factor=1"]
    for last in (13, 25):  # past the end of the warm-up, with a resume before it
        run_training(tmp_path / "run", f"training.max_updates={last}", *every)
    assert rates == pytest.approx({update: papers_rate(update) for update in range(1, 26)}, rel=1e-12)
    recorded = {record["update"]: record["learning_rate"] for record in records(tmp_path / "run", "update")}
    assert recorded == rates


def test_the_moving_average_is_what_is_validated(run_training, tmp_path, reversed_words, settled):
    changes = ["training.ema_decay=0.9", "validation.bleu=false", "training.max_updates=10"]
    run_training(tmp_path / "run", *changes)
    [validation] = records(tmp_path / "run", "validation")
    config = settled(*changes)
    bundle = load_bundle(RunFolder(tmp_path / "run").checkpoint(10))
    model = Transformer(config.model, bundle.vocab.source.size).train()
    model.load_state_dict(bundle.weights)
    hardware = choose_hardware("cpu", "fp32", 1)
    validator = Validator([reversed_words], config, bundle.vocab, hardware)
    begin = time.perf_counter()
    validated = validator.validate(model)
    assert 0 < validated.seconds < time.perf_counter() - begin
    assert validated.loss == pytest.approx(validation["valid_loss"], rel=1e-6)
    learnt = saved(tmp_path / "run", 10)
    for name, parameter in model.named_parameters():
        parameter.data.copy_(learnt[f"learnt.{name}"])
    assert validator.validate(model).loss != pytest.approx(validation["valid_loss"], rel=1e-3)


def test_limits_may_change_on_resume_and_are_told(run_training, tmp_path, listener):
    run_training(tmp_path, "training.max_updates=5")
    assert run_training(tmp_path, "training.max_updates=8").progress.update == 8
    assert any("training.max_updates: 5 -> 8" in notice for notice in listener.notices)
    run_training(tmp_path, "training.max_updates=8", "logging.every_updates=1")
    run_training(tmp_path, "training.max_updates=9")
    trainings = [training_of(folder) for folder in checkpoints(tmp_path).values()]
    first, second, third = trainings[-3:]
    assert [part.kind for part in first.made_from] == ["vocabulary"]
    assert "--accept-changes" not in first.command
    for resumed, before, update in ((second, first, 5), (third, second, 8)):
        assert "--accept-changes" in resumed.command
        [earlier, vocabulary] = resumed.made_from
        assert earlier.command == (*before.command, f"--max-updates={update}")
        assert earlier.settings["training"]["max_updates"] == update
        assert (earlier.made_from, vocabulary) == (before.made_from, first.made_from[0])


def test_metrics_are_cut_back_to_the_checkpoint_and_in_order(run_training, tmp_path, straight):
    run = tmp_path / "run"
    run_training(run, "training.max_updates=10")
    with (run / "metrics.jsonl").open("a") as stream:
        stream.write('{"kind": "update", "update": 12, "loss": 1.0}\n{"kind": "upd')
    run_training(run)

    assert losses(run) == losses(straight)
    assert list(losses(run)) == list(range(2, 21, 2))
    assert len(records(run, "update")) == 10


def test_patience_compares_with_the_best_validation_not_with_the_last(run_training, tmp_path, monkeypatch):
    losses = [math.nan, 3.0, 1.0, 2.0, 1.0, 1.25, 1.2]  # one that is no number is not the best, nor is an equal one
    assert ended_by_patience(run_training, tmp_path, monkeypatch, [(loss, None) for loss in losses]) == 5


def test_patience_counts_a_better_loss_until_bleu_says_something(run_training, tmp_path, monkeypatch):
    scores = [(9.0, 0.2), (8.0, 0.0), (7.0, 0.0), (6.0, 0.1), (5.0, 3.0), (4.0, 3.0), (3.0, 2.9), (2.0, 2.9)]
    assert ended_by_patience(run_training, tmp_path, monkeypatch, scores) == 8


def ended_by_patience(run_training, tmp_path, monkeypatch, scores) -> int:
    """The update after which a run with these losses and BLEU scores ended, with a patience of 2."""
    figures = iter(scores)

    def validate(self, model, until):
        loss, bleu = next(figures)
        return Validation(loss, bleu, seconds=0.0, samples=[], directions={})

    monkeypatch.setattr(Validator, "validate", validate)
    outcome = run_training(
        tmp_path / "run", "training.max_updates=12", "validation.every_updates=1", "training.patience=2"
    )
    assert outcome.ending is Ending.PATIENCE
    return outcome.progress.update


def test_the_time_that_an_update_waited_is_its_own(run_training, tmp_path, monkeypatch):
    counted = []
    add, prefetched = Meter.add, updates.prefetched

    def slowly(planned, until):
        for update in prefetched(planned, until=until):
            time.sleep(0.01)
            yield update

    def noting(meter, result, seconds, waited, memory):
        counted.append((waited, seconds))
        add(meter, result, seconds, waited, memory)

    monkeypatch.setattr(updates, "prefetched", slowly)
    monkeypatch.setattr(Meter, "add", noting)
    run_training(tmp_path / "run", "training.max_updates=8")
    assert len(counted) == 8
    assert all(0.01 <= waited <= seconds for waited, seconds in counted)


def test_minutes_end_a_run_resumes_included(run_training, tmp_path):
    outcome = run_training(tmp_path / "run", "training.max_minutes=0.000001")
    assert (outcome.ending, outcome.progress.update) == (Ending.MINUTES, 1)
    assert run_training(tmp_path / "run", "training.max_minutes=0.000001").was_over


def test_validation_changes_nothing_that_is_learnt(run_training, tmp_path, straight):
    run_training(tmp_path / "run", "validation.every_updates=3", accept_changes=True)
    assert_same_checkpoint(straight, tmp_path / "run", 20)


def test_the_best_and_the_last_are_kept(run_training, tmp_path):
    run = tmp_path / "run"
    run_training(run, "checkpoints.keep_last=1", "checkpoints.every_updates=3", "validation.every_updates=4")
    scores = json.loads((run / "last" / "training.json").read_text())["scores"]
    best = min(scores, key=lambda update: (-max(scores[update]["bleu"] or 0, 1), scores[update]["loss"], int(update)))
    assert sorted(checkpoints(run)) == sorted({int(best), 20})
    assert (run / "best").resolve() == RunFolder(run).checkpoint(int(best)).resolve()


def test_a_new_run_may_begin_with_the_weights_of_a_bundle(run_training, tmp_path, straight):
    run_training(
        tmp_path / "tuned",
        "schedule.factor=1e-30",
        "training.max_updates=1",
        init_from=RunFolder(straight).checkpoint(20),
    )
    for name, tensor in weights(tmp_path / "tuned", 1).items():
        torch.testing.assert_close(tensor, weights(straight, 20)[name])


def test_adapters_alone_learn_and_a_run_of_them_resumes_exactly(run_training, tmp_path, straight):
    before, how = RunFolder(straight).checkpoint(20), ("training.adapter_rank=2", "checkpoints.every_updates=10")
    run_training(tmp_path / "one", *how, init_from=before)
    run_training(tmp_path / "other", *how, "training.max_updates=10", init_from=before)
    run_training(tmp_path / "other", *how)
    assert_same_checkpoint(tmp_path / "one", tmp_path / "other", 20)
    # Merged, the checkpoint is a plain model; what is no matrix of a sub-layer is as before.
    old, new = weights(straight, 20), weights(tmp_path / "one", 20)
    changed = {name for name, tensor in new.items() if not torch.equal(tensor, old[name])}
    matrices = ("query_key_value.weight", "output.weight", "inner.weight")
    assert changed == {name for name in old if name.endswith(matrices) and name.startswith(("encoder.", "decoder."))}
    state = load_file(RunFolder(tmp_path / "one").checkpoint(20) / "training.safetensors")
    assert {name.rpartition(".adapter.")[2] for name in state if name.startswith("exp_avg.")} == {"down", "up"}
    # Other adapters begin where these ended.
    run_training(tmp_path / "one", "training.adapter_rank=3", "training.max_updates=21", accept_changes=True)
    assert load_file(RunFolder(tmp_path / "one").checkpoint(21) / "training.safetensors").keys() == state.keys()


def test_adapters_need_a_trained_model_and_no_moving_average(run_training, tmp_path):
    with pytest.raises(ConfigError, match="adapter_rank changes a trained model: name it with --init-from"):
        run_training(tmp_path / "run", "training.adapter_rank=2")
    with pytest.raises(ConfigError, match="ema_decay does not go with adapter_rank"):
        run_training(tmp_path / "run", "training.adapter_rank=2", "training.ema_decay=0.9")


def test_bf16_learns_what_fp32_does_and_saves_fp32(run_training, tmp_path, straight):
    run_training(tmp_path / "bf16", "training.precision=bf16")
    assert losses(tmp_path / "bf16") == pytest.approx(losses(straight), rel=0.02)
    assert losses(tmp_path / "bf16") != losses(straight)
    assert {tensor.dtype for tensor in weights(tmp_path / "bf16", 20).values()} == {torch.float32}


def test_a_bundle_of_another_model_cannot_be_begun_with(run_training, tmp_path, straight):
    with pytest.raises(CheckpointError, match=r"model\.d_ff"):
        run_training(tmp_path / "tuned", "model.d_ff=64", init_from=RunFolder(straight).checkpoint(20))


@pytest.mark.slow
def test_a_run_killed_fifty_times_ends_with_the_same_parameters(reversed_words, settled, tmp_path):
    """The first time it is killed as soon as a checkpoint is there, so that at least one start resumes from one."""
    settings = tmp_path / "long.yaml"
    # Three updates a checkpoint: most of the time one is being written.
    changes = ["training.max_updates=900", "checkpoints.every_updates=3", "validation.bleu=false"]
    values = settled(*changes, "validation.every_updates=25", "training.patience=null").model_dump(mode="json")
    settings.write_text(yaml.safe_dump(values))

    def command(run: Path) -> list[str]:
        return [sys.executable, "-c", KILLED, str(reversed_words), str(settings), str(run), "never", "0"]

    assert subprocess.run(command(tmp_path / "quiet"), check=False).returncode == 0
    run, draw = tmp_path / "run", random.Random(50)
    for kill in range(50):
        before = max(checkpoints(run), default=0)
        with running(command(run)) as process:
            while process.poll() is None and max(checkpoints(run), default=0) == before:
                time.sleep(0.005)
            try:
                process.wait(draw.uniform(0, 0.7) if kill else 0)
            except subprocess.TimeoutExpired:
                process.kill()
        assert process.returncode in (0, -signal.SIGKILL)
    assert subprocess.run(command(run), check=False).returncode == 0
    assert_same_checkpoint(tmp_path / "quiet", run, 900)
    assert not list((run / "checkpoints").glob(".*"))
    starts = [record["update"] for record in records(run, "start")]
    assert starts[0] == 0 < max(starts)
