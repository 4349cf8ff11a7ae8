"""What a run is made of: data, weights to begin with, schedules that land, and what it does when things go wrong."""

import errno
import itertools
import json
import os
import platform
import shutil
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import nmt
from nmt.checkpoint.bundle import load_bundle
from nmt.checkpoint.run_folder import checkpoints
from nmt.errors import CheckpointError, ConfigError, DataError, OutputError, TrainingError
from nmt.io.writing import WriteError
from nmt.machine import device
from nmt.machine.measured import forget_measurements
from nmt.reporting import Reporter
from nmt.training import updates
from nmt.training.input.data_sets import TrainingData
from nmt.training.learner import Learner
from nmt.training.listener import Listener
from nmt.training.loss_scale import LossScale
from nmt.training.progress import Ending
from nmt.training.run import train
from nmt.training.start.settings import resolve_config
from nmt.training.tensorboard import TensorBoardFile
from tests.data.one_data_set import build_vocabulary
from tests.training.conftest import SETTINGS, assert_same, complete, make_data_set, records, saved


@pytest.mark.parametrize(
    "changes",
    [
        ["training.ema_decay=0.9", "model.positions=learned", "model.norm=pre"],
        ["training.subword_sampling=0.3", "model.attention_dropout=0.1", "model.target_neighbours=2"],
        ["training.freeze=[encoder.*, embedding.weight]", "model.attention=additive", "model.attention_bias=false"],
        ["schedule.decay=cosine", "schedule.warmup=5", "schedule.decay_updates=20", "optimizer.clip_norm=1"],
        ["training.precision=fp16", "model.source_neighbours=2", "model.activation_dropout=0.1", "model.d_k=3"],
    ],
    ids=lambda changes: changes[0],
)
def test_every_way_of_training_resumes_bit_for_bit(run_training, tmp_path, changes):
    run_training(tmp_path / "straight", *changes)
    run_training(tmp_path / "run", *changes, "training.max_updates=10")
    run_training(tmp_path / "run", *changes)
    assert_same(saved(tmp_path / "straight", 20), saved(tmp_path / "run", 20))


def test_a_run_keeps_the_precision_that_auto_came_to_when_it_began(run_training, tmp_path, monkeypatch):
    auto = "training.precision=auto"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(device, "bf16_speedup", lambda d_model, d_ff: 2.0)
    run_training(tmp_path / "straight", auto)
    run_training(tmp_path / "run", auto, "training.max_updates=10")
    forget_measurements()
    monkeypatch.setattr(device, "bf16_speedup", lambda d_model, d_ff: 0.5)
    run_training(tmp_path / "run", auto)
    assert [record["hardware"].split(", ")[-1] for record in records(tmp_path / "run", "start")] == ["bf16", "bf16"]
    assert_same(saved(tmp_path / "straight", 20), saved(tmp_path / "run", 20))


def test_a_start_records_the_versions(run_training, tmp_path):
    run_training(tmp_path / "run", "training.max_updates=1", "validation.bleu=false")
    [start] = records(tmp_path / "run", "start")
    versions = {"nmt": nmt.__version__, "torch": torch.__version__, "python": platform.python_version()}
    assert (start["versions"], start["ranks"]) == (versions, 1)


@pytest.mark.slow
def test_each_epoch_cuts_words_anew_and_its_pieces_do_not_pile_up(run_training, tmp_path):
    run_training(tmp_path / "run", "training.subword_sampling=0.5", "training.max_updates=90")
    progress = json.loads((tmp_path / "run" / "last" / "training.json").read_text())
    assert progress["epoch"] >= 2
    assert len(list((tmp_path / "run" / "sampled").rglob("epoch-*"))) <= 3
    plain = run_training(tmp_path / "plain", "training.max_updates=90")
    assert plain.progress.update == 90
    tokens = [sum(r["target_tokens"] for r in records(tmp_path / name, "update")) for name in ("run", "plain")]
    assert tokens[0] != tokens[1]


@pytest.fixture
def run_mixture(tmp_path, settings_file, listener):
    def run(folder: Path, data, *changes: str):
        config, _ = resolve_config(data, config_file=settings_file, settings=changes)
        return train(TrainingData.open([path for path, _ in data], config), folder, listener)

    return run


def test_several_data_sets_are_mixed_by_weight_and_cut_anew_each_epoch(
    run_mixture, tmp_path, reversed_words, other_words
):
    """With other weights from an update on."""
    mixture = [(reversed_words, 1.0), (other_words, 3.0)]
    anew = "training.subword_sampling=0.2", "training.stages=[{after: 7, weights: [0, 5]}]"
    run_mixture(tmp_path / "straight", mixture, *anew)
    run_mixture(tmp_path / "run", mixture, *anew, "training.max_updates=10")
    run_mixture(tmp_path / "run", mixture, *anew)
    update = json.loads((tmp_path / "run" / "last" / "training.json").read_text())
    assert (update["epoch"], update["index"]) == (1, 13)
    assert_same(saved(tmp_path / "straight", 20), saved(tmp_path / "run", 20))
    run_mixture(tmp_path / "whole", mixture)
    with pytest.raises(AssertionError):
        assert_same(saved(tmp_path / "run", 20), saved(tmp_path / "whole", 20))
    data = load_bundle(tmp_path / "run" / "last").config.data
    assert [(part.name, part.weight) for part in data.mixed_with] == [("other", 3.0)]
    manifests = sorted(path.name for path in (tmp_path / "run" / "manifests").iterdir())
    assert manifests == ["1-reversed.json", "2-other.json"]
    with pytest.raises(ConfigError, match="mixed_with"):
        run_mixture(tmp_path / "whole", [(reversed_words, 1.0), (other_words, 2.0)], "training.max_updates=30")


def test_a_bundle_alone_is_enough_to_fine_tune_on_new_data(run_training, tmp_path, listener):
    run_training(tmp_path / "old")
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    for name in ("model.safetensors", "config.yaml", "vocab.model"):
        shutil.copy(tmp_path / "old" / "last" / name, bundle)
    new = make_data_set(tmp_path / "new", pairs=40, seed=5)
    build_vocabulary(new, size=25, threads=1)
    data = [(new, 1.0)]
    config, name = resolve_config(data, init_from=bundle, settings=["schedule.factor=1e-30", "training.max_updates=2"])
    with pytest.raises(CheckpointError, match="another vocabulary"):
        train(TrainingData.open([new], config), tmp_path / "tuned", listener, init_from=bundle)
    build_vocabulary(new, existing=bundle / "vocab.model", threads=1)
    config, name = resolve_config(data, init_from=bundle, settings=["schedule.factor=1e-30", "training.max_updates=2"])
    assert (name, config.model.d_model, config.data.name) == ("tuned", 16, "new")
    build_vocabulary(new, existing=bundle / "vocab.model", source_normalization="nfkc", threads=1)
    other = resolve_config(data, init_from=bundle, settings=["training.max_updates=2"])[0]
    assert other.data.steps.rule == "nfkc"
    with pytest.raises(CheckpointError, match="source text: Unicode NFC; of the data: Unicode NFC, nfkc"):
        train(TrainingData.open([new], other), tmp_path / "other", listener, init_from=bundle)
    build_vocabulary(new, existing=bundle / "vocab.model", threads=1)
    train(TrainingData.open([new], config), tmp_path / "tuned", listener, init_from=bundle)
    before, after = load_bundle(bundle).weights, load_bundle(tmp_path / "tuned" / "last").weights
    for key, tensor in before.items():
        torch.testing.assert_close(after[key], tensor)


@pytest.mark.parametrize("decay", ["linear", "wsd"])
def test_a_decay_lands_on_a_limit_of_time_also_when_the_run_was_interrupted(
    run_training, tmp_path, listener, monkeypatch, decay
):
    now = itertools.count(step=0.01)  # a clock that a busy machine does not hurry
    monkeypatch.setattr(updates.time, "perf_counter", lambda: next(now))
    settings = [
        f"schedule.decay={decay}", "schedule.warmup=1", "training.max_minutes=0.05", "training.max_updates=null",
        "training.patience=null", "validation.every_updates=1000000", "logging.every_updates=1",
        "checkpoints.every_updates=1000000",
    ]  # fmt: skip
    listener.at_update = lambda update: update == 20 and os.kill(os.getpid(), signal.SIGINT)
    assert run_training(tmp_path / "run", *settings).ending is Ending.INTERRUPTED
    outcome = run_training(tmp_path / "run", *settings)
    assert outcome.ending is Ending.MINUTES
    rates = [record["learning_rate"] for record in records(tmp_path / "run", "update")]
    assert len(rates) == outcome.progress.update > 20
    assert rates[-1] < max(rates) / 10


@pytest.mark.parametrize(
    ("minutes", "expected"), [(1, [3, 6, 9, 10]), (1.5, [5, 10]), (0.1, list(range(1, 11))), (30, [10])]
)
def test_a_checkpoint_is_saved_when_minutes_have_passed_since_the_last(
    run_training, tmp_path, listener, monkeypatch, minutes, expected
):
    """An update takes 20 seconds of this clock."""
    now = [0.0]
    monkeypatch.setattr(updates, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    advance = updates.Updates._step

    def step(self, *arguments):
        now[0] += 20.0
        return advance(self, *arguments)

    monkeypatch.setattr(updates.Updates, "_step", step)
    run_training(
        tmp_path / "run", f"checkpoints.every_minutes={minutes}", "checkpoints.every_updates=null",
        "checkpoints.keep_last=100", "training.max_updates=10", "validation.every_updates=100",
    )  # fmt: skip
    assert list(checkpoints(tmp_path / "run")) == expected


def poison(monkeypatch, updates: set[int]) -> None:
    """Let the gradients of some updates be NaN."""
    computed = Learner.compute_gradients

    def gradients(self, batches, *, update, **options):
        unfit = computed(self, batches, update=update, **options)
        if update in updates:
            next(iter(self.parameters.values())).grad.view(-1)[3] = float("nan")
        return unfit

    monkeypatch.setattr(Learner, "compute_gradients", gradients)


def test_a_skipped_update_is_told_with_its_batch_and_the_run_resumes_bit_for_bit(
    run_training, tmp_path, monkeypatch, listener
):
    poison(monkeypatch, {3, 12})
    outcome = run_training(tmp_path / "straight", "training.max_skipped=2")  # which two would be, in a row
    assert (outcome.progress.update, outcome.progress.skipped) == (20, 2)
    events = records(tmp_path / "straight", "event")
    assert [(e["event"], e["update"]) for e in events] == [("skipped", 3), ("skipped", 12)]
    assert all(e["pairs"] and e["index"] == e["update"] - 1 for e in events)
    skipped = [notice for notice in listener.notices if "was skipped" in notice]
    assert skipped == [
        f"Update {update} was skipped: its gradient is not finite (epoch 1, update {update} of it)."
        for update in (3, 12)
    ]
    assert all(torch.isfinite(tensor).all() for tensor in saved(tmp_path / "straight", 20).values())
    run_training(tmp_path / "run", "training.max_updates=10")
    assert run_training(tmp_path / "run").progress.skipped == 2
    assert_same(saved(tmp_path / "straight", 20), saved(tmp_path / "run", 20))


def test_the_first_update_in_fp16_may_overflow_until_its_scale_is_found(run_training, tmp_path, monkeypatch):
    poison(monkeypatch, {1})
    settings = ["training.precision=fp16", "training.max_skipped=1", "training.max_updates=2", "validation.bleu=false"]
    progress = run_training(tmp_path / "run", *settings).progress
    assert (progress.update, progress.skipped, progress.loss_scale) == (2, 1, LossScale(2.0**14, good_updates=1))
    assert records(tmp_path / "run", "event") == []


def test_too_many_skipped_in_a_row_end_the_run_saved_and_with_the_reason(run_training, tmp_path, monkeypatch):
    poison(monkeypatch, set(range(8, 100)))
    with pytest.raises(TrainingError, match="3 updates in a row had gradients that are not finite"):
        run_training(tmp_path / "run", "training.max_skipped=3")
    assert max(checkpoints(tmp_path / "run")) == 10
    monkeypatch.undo()
    run_training(tmp_path / "seven", "training.max_updates=7")
    assert_same(saved(tmp_path / "seven", 7), saved(tmp_path / "run", 10))
    assert run_training(tmp_path / "run").progress.update == 20


def test_the_largest_micro_batch_is_looked_for_and_kept_on_resume(run_training, tmp_path, listener):
    run_training(tmp_path / "run", "batching.micro_batch_tokens=auto", "training.max_updates=10")
    found = listener.preflight
    assert 9 <= found.micro_batch_tokens <= 4_096
    assert json.loads((tmp_path / "run" / "last" / "training.json").read_text())["micro_batch_tokens"] == (
        found.micro_batch_tokens
    )
    run_training(tmp_path / "run", "batching.micro_batch_tokens=auto")
    assert listener.preflight.micro_batch_tokens == found.micro_batch_tokens


def test_the_worst_batch_is_tried_before_the_first_update(run_training, tmp_path, listener, monkeypatch):
    tried = []
    computed = Learner.compute_gradients

    def too_small(self, batches, *, update, **options):
        tried.append((update, max((batch.positions for batch in batches), default=0)))
        if max(batch.positions for batch in batches) > 20:
            return max(batches, key=lambda batch: batch.positions)
        return computed(self, batches, update=update, **options)

    monkeypatch.setattr(Learner, "compute_gradients", too_small)
    outcome = run_training(tmp_path / "run")
    assert tried[0][0] == 0
    assert tried[0][1] >= max(positions for update, positions in tried if update > 0)
    assert outcome.progress.micro_batch_tokens <= 20
    assert sum(positions > 20 for update, positions in tried if update > 0) <= 1  # what did not fit is not tried again
    found = listener.preflight
    assert found.target_tokens_per_second > 0
    assert found.checkpoint_bytes < found.checkpoints_bytes < found.disk_free


def test_updates_after_memory_ended_are_dealt_in_the_learnt_size_and_a_resumed_run_deals_the_same(
    run_training, tmp_path, monkeypatch
):
    computed, dealt = Learner.compute_gradients, {}

    def too_small_once(self, batches, *, update, **options):
        dealt.setdefault(update, []).append([batch.positions for batch in batches])
        largest = max(batches, key=lambda batch: batch.positions)
        return largest if update == 6 and largest.positions > 25 else computed(self, batches, update=update, **options)

    monkeypatch.setattr(Learner, "compute_gradients", too_small_once)
    run_training(tmp_path / "straight")
    size = json.loads((tmp_path / "straight" / "last" / "training.json").read_text())["micro_batch_tokens"]
    assert 9 < size <= 25
    assert max(dealt[6][0]) > size >= max(dealt[6][1])
    assert all(len(dealt[number]) == 1 and max(dealt[number][0]) <= size for number in range(7, 21))
    straight = {number: tries for number, tries in dealt.items() if number}
    dealt.clear()
    run_training(tmp_path / "run", "training.max_updates=10")
    run_training(tmp_path / "run")
    assert {number: tries for number, tries in dealt.items() if number} == straight
    assert_same(saved(tmp_path / "straight", 20), saved(tmp_path / "run", 20))


@pytest.mark.parametrize(
    ("size", "smallest", "largest"),
    [(100_000_000, 9, 90), (1, 9, 9)],  # of updates of 60 target tokens; smaller than a pair
)
def test_no_micro_batch_is_tried_that_does_not_come(run_training, tmp_path, listener, size, smallest, largest):
    run_training(tmp_path / "run", f"batching.micro_batch_tokens={size}", "training.max_updates=1")
    assert smallest <= listener.preflight.worst_positions <= largest


def test_a_folder_that_cannot_be_written_is_an_error(run_training, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="is a file, but a run is a folder"):
        run_training(tmp_path / "file")
    for name in ("run", "runs/run"):
        with pytest.raises(CheckpointError, match=r"cannot be written \(.*/file is a file\)"):
            run_training(tmp_path / "file" / name)


@pytest.mark.parametrize("left", ["", '{"kind": "start", "upd'])
def test_the_same_command_starts_a_run_that_ended_at_its_first_record(run_training, tmp_path, left):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".nmt").touch()
    (tmp_path / "run" / "metrics.jsonl").write_text(left)
    run_training(tmp_path / "run", "training.max_updates=2")
    assert records(tmp_path / "run", "start")[0]["update"] == 0


def test_pieces_beyond_the_vocabulary_are_an_error(run_training, tmp_path, reversed_words):
    data = tmp_path / "damaged"
    shutil.copytree(reversed_words, data)
    tokens = data / "shards" / "train.target.tokens"
    tokens.write_bytes(b"\xff" * tokens.stat().st_size)
    with pytest.raises(DataError, match="is damaged: it holds the id 65,535, but the vocabulary has"):
        run_training(tmp_path / "run", data=data)


def test_preflight_changes_nothing_that_is_learnt(run_training, tmp_path, monkeypatch):
    from nmt.training import run as run_module

    run_training(tmp_path / "with")
    monkeypatch.setattr(run_module, "preflight", lambda *arguments: _no_preflight())
    run_training(tmp_path / "without")
    assert_same(saved(tmp_path / "with", 20), saved(tmp_path / "without", 20))


def _no_preflight():
    from nmt.training.start.trial import Preflight

    return Preflight(50, 50, 0, None, 1.0, 1.0, False, 0, 0, 1)


def test_metrics_tell_memory_waiting_and_norm(run_training, tmp_path, monkeypatch):
    from nmt.training import loop

    used = itertools.cycle([5_000, 7_000])  # two updates between two records
    monkeypatch.setattr(loop, "memory_in_use", lambda device: next(used))
    run_training(tmp_path / "run")
    for record in records(tmp_path / "run", "update"):
        assert record["peak_memory_bytes"] == 7_000
        assert 0 <= record["data_wait_share"] < 1
        assert record["gradient_norm"] > 0
        assert record["skipped_updates"] == 0


def test_tensorboard_gets_the_curves(run_training, tmp_path):
    event_files = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    run_training(tmp_path / "run", "logging.tensorboard=true", "training.max_updates=10")
    run_training(tmp_path / "run", "logging.tensorboard=true")
    curves = event_files.EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    curves.Reload()
    points = curves.Scalars("train/loss")
    assert [point.step for point in points] == list(range(2, 21, 2))
    assert [p.value for p in points] == pytest.approx([r["loss"] for r in records(tmp_path / "run", "update")])
    assert {"valid/bleu", "valid/loss", "train/learning_rate", "train/gradient_norm"} <= set(curves.Tags()["scalars"])


def test_a_full_disk_ends_only_the_curves_for_tensorboard(run_training, tmp_path, monkeypatch, listener):
    pytest.importorskip("tensorboard")

    def no_room(self, record):
        raise WriteError(tmp_path / "run/tensorboard", "no room", code=errno.ENOSPC)

    monkeypatch.setattr(TensorBoardFile, "append", no_room)
    assert run_training(tmp_path / "run", "logging.tensorboard=true").progress.update == 20
    [said] = [notice for notice in listener.notices if "curves end here" in notice]
    assert "run/tensorboard: cannot be written (no room). Free space" in said


GROWING = SETTINGS.replace("max_updates: 20", "max_updates: 100000").replace("update_tokens: 60", "update_tokens: 600")


@pytest.mark.slow
def test_memory_stays_flat_over_three_epochs(tmp_path, listener):
    data = make_data_set(tmp_path / "data", pairs=6_000)
    path = tmp_path / "settings.yaml"
    path.write_text(complete(GROWING))
    changes = ["logging.every_updates=10", "validation.every_updates=40", "training.patience=null"]
    config, _ = resolve_config([(data, 1.0)], config_file=path, settings=[*changes, "training.max_updates=240"])
    outcome = train(TrainingData.open([data], config), tmp_path / "run", listener)
    assert outcome.progress.epoch >= 3
    by_epoch: dict[int, int] = {}
    for record in records(tmp_path / "run", "update"):
        by_epoch[record["epoch"]] = max(by_epoch.get(record["epoch"], 0), record["peak_memory_bytes"])
    assert by_epoch[3] <= by_epoch[0] * 1.05 + 5_000_000, by_epoch


def test_from_python_notices_and_warnings_go_to_the_report_unless_there_is_a_listener(
    settings, reversed_words, tmp_path
):
    class Heard(Reporter):
        def __init__(self):
            self.notices, self.warnings = [], []

        def notice(self, message):
            self.notices.append(message)

        def warn(self, message):
            self.warnings.append(message)

    heard, unused = Heard(), Heard()
    how = {"config": settings("schedule.warmup=7", "training.max_updates=3"), "out": tmp_path / "run"}
    nmt.train(reversed_words, **how, report=heard)
    assert f"run: {tmp_path / 'run'}" in heard.notices
    [warning] = heard.warnings
    assert warning.startswith("the run ends at update 3")
    nmt.train(reversed_words, **how, report=unused, listener=Listener())
    assert unused.notices == unused.warnings == []
