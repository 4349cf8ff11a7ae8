"""The micro-batch that is found fits, is not needlessly small, and is found in few tries."""

import dataclasses
import re
import time
from functools import partial
from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch
import yaml
from typer.testing import CliRunner

import nmt
from nmt.cli.app import app
from nmt.cli.training_view import preflight_lines
from nmt.data.shards import ParallelShards
from nmt.errors import TrainingError
from nmt.kernels.flash_attention import masked_attention
from nmt.machine.device import Hardware, choose_hardware
from nmt.model.transformer import Transformer
from nmt.training.input.data_sets import TrainingData
from nmt.training.input.micro_batches import Padded
from nmt.training.learner import Learner
from nmt.training.progress import Progress
from nmt.training.ranks.exchange import NO_OTHERS, Ranks
from nmt.training.run import dry_run
from nmt.training.start import trial as module
from nmt.training.start.resume import Beginning, make_learner
from tests.training.conftest import make_data_set

LONGEST = 64
ONCE = 300_000_000
"""Bytes taken by the first micro-batch alone, whatever its size: gradients, moments."""


class Machine:
    """A learner on a machine whose memory is known."""

    def __init__(
        self, monkeypatch, usable: int, bytes_a_position: int, breaks_at: float = float("inf"), *, saved: int = 0
    ) -> None:
        self._saved = saved
        self.tried: list[int] = []
        self.is_compiled = False
        self._bytes, self._breaks_at, self._used = bytes_a_position, breaks_at, 50_000_000
        monkeypatch.setattr(module, "memory_in_use", lambda device: self._used)
        monkeypatch.setattr(module, "memory_for_use", lambda device: usable)

    def checkpoint_numbers(self) -> int:
        return self._saved // 4

    def fits(self, batch):
        self.tried.append(batch.positions)
        if batch.positions > self._breaks_at:
            return False
        self._used = 50_000_000 + ONCE + self._bytes * batch.positions
        return True


@pytest.fixture
def found(settled, reversed_words):
    """The size that is found on a machine."""

    def find(machine: Machine, ranks: Ranks = NO_OTHERS, longest: int = LONGEST) -> int:
        machine.hardware, machine.ranks = choose_hardware("cpu", "fp32", 1), ranks
        data = TrainingData.open([reversed_words], settled("batching.update_tokens=25000"))
        trial = module._Trial(machine, dataclasses.replace(data, longest=longest), Padded)
        return trial.fitting(trial._estimate(module._LARGEST_ON_CPU)).size

    return find


def test_with_plenty_of_memory_small_tries_are_enough(found, monkeypatch):
    machine = Machine(monkeypatch, usable=16_000_000_000, bytes_a_position=500_000)
    assert found(machine) == module._LARGEST_ON_CPU
    assert machine.tried == [128, 256, 1_024, 4_096, 4_096]  # the last one is timed


@pytest.mark.parametrize(("longest", "row"), [(LONGEST, LONGEST), (257, 257), (600, 600)])
@pytest.mark.parametrize("usable", [1_200_000_000, 1_700_000_000, 2_600_000_000])
def test_the_largest_that_fits_is_found(found, monkeypatch, usable, longest, row):
    """Micro-batches are whole rows, so their positions are fewer than their size: 771 of 1,024 in rows of 257."""
    machine = Machine(monkeypatch, usable=usable, bytes_a_position=500_000)
    size = found(machine, longest=longest)
    budget = 0.85 * usable - 50_000_000 - ONCE
    assert 500_000 * max(machine.tried) <= budget
    assert 500_000 * (size // row * row) <= budget
    assert 500_000 * 2 * size > budget or size == module._LARGEST_ON_CPU


def test_no_try_is_many_times_as_large_as_the_one_before(found, monkeypatch):
    """A small batch may need less for each position than a large one: an estimate is trusted for two doublings."""
    machine = Machine(monkeypatch, usable=16_000_000_000, bytes_a_position=1)
    monkeypatch.setattr(module, "_LARGEST_ON_CPU", 100_000)
    found(machine)
    assert max(after / before for before, after in pairwise(machine.tried)) == 4


def test_the_memory_of_the_first_checkpoint_is_kept_free(found, monkeypatch):
    alone = found(Machine(monkeypatch, usable=2_600_000_000, bytes_a_position=500_000))
    saved = 1_000_000_000
    size = found(Machine(monkeypatch, usable=2_600_000_000, bytes_a_position=500_000, saved=saved))
    assert size == alone // 2
    assert 50_000_000 + ONCE + saved + 500_000 * size <= 0.85 * 2_600_000_000


def test_ranks_of_one_machine_share_its_memory(found, monkeypatch):
    alone = found(Machine(monkeypatch, usable=3_000_000_000, bytes_a_position=500_000))
    monkeypatch.setattr(Ranks, "gather", lambda self, value: [value] * self.size)
    shared = found(Machine(monkeypatch, usable=3_000_000_000, bytes_a_position=500_000), Ranks(0, 4, 0, 4))
    assert shared < alone


@pytest.mark.parametrize(("breaks_at", "size"), [(1_000, 512), (200, 128), (100, 64)])
def test_one_that_breaks_nevertheless_is_halved(found, monkeypatch, breaks_at, size):
    machine = Machine(monkeypatch, usable=16_000_000_000, bytes_a_position=500_000, breaks_at=breaks_at)
    assert found(machine) == size


@pytest.fixture
def measured(settled, reversed_words, tmp_path):
    """The preflight of a run with some settings, and how it would divide updates."""

    def measure(*settings, ranks=NO_OTHERS, progress=None, hardware=None, attention=None, prepare=lambda learner: None):
        config = settled(*settings)
        data = TrainingData.open([reversed_words], config)
        learner = make_learner(Beginning(Progress(), choose_hardware("cpu", "fp32", 1)), data, NO_OTHERS)
        learner.ranks, learner.hardware = ranks, hardware or learner.hardware
        if attention is not None:
            learner.model.packed_attention = attention
        prepare(learner)
        batching = data.micro_batching(learner.model, torch.device("cpu"), ranks)
        found = module.preflight(learner, data, tmp_path, progress or Progress(), batching)
        return found, batching

    return measure


@pytest.mark.parametrize("size", ["auto", 1_000, 40])
def test_a_size_is_halved_until_it_fits_where_all_micro_batches_have_one(measured, monkeypatch, size):
    tried = []

    def fits(batch):
        tried.append((batch.tokens, len(batch.inputs.target.tokens_N)))
        return batch.tokens <= 30

    found, batching = measured(
        f"batching.micro_batch_tokens={size}",
        attention=masked_attention,
        prepare=lambda learner: monkeypatch.setattr(learner, "fits", fits),
    )
    assert batching(found.micro_batch_tokens).tokens <= 30 < tried[0][0]
    assert [tokens for tokens, _ in tried] == sorted((tokens for tokens, _ in tried), reverse=True)
    assert all(rows >= tokens for tokens, rows in tried)


def test_what_an_earlier_start_found_is_tried_again_on_a_cpu(measured, monkeypatch):
    """Its memory may be less now, and a try that does not fit would end the process."""
    limits = []
    monkeypatch.setattr(module._Trial, "_estimate", lambda trial, limit: limits.append(limit) or 8)
    found, _ = measured("batching.micro_batch_tokens=4000", progress=Progress(micro_batch_tokens=32))
    assert (limits, found.micro_batch_tokens) == ([32], 8)


def test_all_ranks_take_the_smallest_size_of_any(measured):
    """Otherwise ranks would deal an update to micro-batches of different sizes, and not share its pairs out."""

    class One(Ranks):
        """One of two ranks; on the other one, less fits."""

        def gather(self, value):
            return [value, 11]

    found = [measured(ranks=One(0, 2), progress=Progress(micro_batch_tokens=size))[0] for size in (30, 10)]
    assert [one.micro_batch_tokens for one in found] == [11, 10]


def test_ranks_are_as_many_times_as_fast_as_one(measured, monkeypatch):
    class Alike(Ranks):
        def gather(self, value):
            return [value] * self.size

    monkeypatch.setattr(module._Trial, "_seconds", lambda trial, batch: 30.0)
    rates = []
    for ranks in (NO_OTHERS, Alike(0, 2, 0, 2)):
        found, _ = measured("batching.micro_batch_tokens=32", ranks=ranks)
        rates.append((found.worst_positions, found.target_tokens_per_second))
    (positions, one), (same_positions, two) = rates
    assert (same_positions, two) == (positions, 2 * one)


@pytest.mark.parametrize("size", ["auto", "512"])
def test_no_logits_of_an_apple_gpu_take_4_gib(measured, settled, monkeypatch, size):
    """Larger ones end the process, whether the size was asked for or not."""
    monkeypatch.setattr(module, "_LARGEST_ON_MPS", 100 * settled().data.target_pieces)
    for name, value in {"memory_in_use": 1, "memory_for_use": 10**12}.items():
        monkeypatch.setattr(module, name, lambda *_, value=value: value)
    tried = []
    monkeypatch.setattr(module._Trial, "_seconds", lambda trial, batch: tried.append(batch.positions) or 1.0)
    apple = Hardware(torch.device("mps"), "fp32", 1, "as asked")
    found, _ = measured(f"batching.micro_batch_tokens={size}", hardware=apple)
    assert max(tried) <= 100
    assert found.micro_batch_tokens <= 100
    assert size == "auto" or found.micro_batch_tokens == 100


def test_logits_of_a_gpu_are_not_too_many(measured, settled, monkeypatch):
    monkeypatch.setattr(module, "MOST_LOGITS", 30 * settled().data.target_pieces)
    tried = []
    monkeypatch.setattr(module._Trial, "_seconds", lambda trial, batch: tried.append(batch.tokens) or 30.0)
    found, _ = measured("batching.micro_batch_tokens=auto", attention=masked_attention)
    assert found.micro_batch_tokens == 30
    assert max(tried) < 40  # dealing needs a little more


@pytest.mark.parametrize(
    ("asked", "device", "packed_attention", "seconds_left", "expected"),
    [
        ("auto", "cuda", masked_attention, 3_600, True),
        ("auto", "cuda", masked_attention, None, True),  # only patience ends the run
        ("auto", "cuda", masked_attention, 60, False),
        ("auto", "cuda", None, 3_600, False),
        ("auto", "cpu", masked_attention, 3_600, False),
        ("true", "cpu", None, 1, True),
        ("false", "cuda", masked_attention, 3_600, False),
    ],
)
def test_a_run_is_compiled_where_that_pays(settled, asked, device, packed_attention, seconds_left, expected):
    config, cpu = settled(f"training.compile={asked}"), choose_hardware("cpu", "fp32", 1)
    learner = Learner(Transformer(config.model, 30), config, cpu)
    learner.model.packed_attention = packed_attention
    learner.hardware = Hardware(torch.device(device), "bf16", 1, "as asked")
    assert module._is_to_compile(learner, config, Progress(), seconds_left) is expected
    # As an earlier start chose, whatever speed is measured now.
    for chosen in (False, True):
        found = module._is_to_compile(learner, config, Progress(compiles=chosen), seconds_left)
        assert found is (chosen if asked == "auto" else expected)
    learner.hardware = dataclasses.replace(learner.hardware, is_deterministic=True)
    assert module._is_to_compile(learner, config, Progress(), seconds_left) is (asked == "true")


@pytest.mark.parametrize("size", ["auto", 40])
def test_where_nothing_can_be_compiled_the_size_stays(measured, size):
    found = [
        measured(f"training.compile={compiles}", f"batching.micro_batch_tokens={size}")[0]
        for compiles in ("true", "false")
    ]
    assert found[0].micro_batch_tokens == found[1].micro_batch_tokens
    assert "attention without padding" in found[0].not_compiled
    assert found[1].not_compiled is None


def test_the_time_of_a_compiler_that_fails_is_not_the_speed(measured, monkeypatch):
    hours = []

    def failing(graph, _):
        hours.append(3_600.0)
        raise RuntimeError("no compiler")

    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: time.perf_counter() + sum(hours)))
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=failing))
    found, _ = measured("training.compile=true", "batching.micro_batch_tokens=40", attention=masked_attention)
    assert "no compiler" in found.not_compiled
    assert hours
    assert found.target_tokens_per_second > 40 / 3_600


def test_a_compiled_micro_batch_that_does_not_fit_is_halved(measured, monkeypatch):
    tried = []

    def seconds(trial, batch):
        if not trial._learner.is_compiled:
            return 1.0
        tried.append(batch.tokens)
        return None if batch.tokens > 30 else 1.0

    monkeypatch.setattr(module._Trial, "_seconds", seconds)
    found, batching = measured("training.compile=true", "batching.micro_batch_tokens=200", attention=masked_attention)
    assert tried[0] > 30 >= tried[-1] == batching(found.micro_batch_tokens).tokens


def test_a_graph_leaves_the_memory_that_validation_needs(measured, monkeypatch):
    """It keeps its own, so validation would fail after hours."""
    validated, sizes = [], []

    def losses(model, batch, smoothing, hardware):
        validated.append(torch.is_inference_mode_enabled())
        if sizes[-1] > 30:
            raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(module, "batch_losses", losses)
    monkeypatch.setattr(module._Trial, "_seconds", lambda trial, batch: sizes.append(batch.tokens) or 1.0)
    found, batching = measured("training.compile=true", "batching.micro_batch_tokens=200", attention=masked_attention)
    assert batching(found.micro_batch_tokens).tokens <= 30
    assert len(validated) > 1
    assert all(validated)
    count = len(validated)
    measured("training.compile=false", "batching.micro_batch_tokens=200", attention=masked_attention)
    assert len(validated) == count


def test_the_memory_of_a_graph_counts_after_it_was_recorded(measured, monkeypatch):
    """When it runs again, it allocates nothing."""
    done = []
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    monkeypatch.setattr(module, "forget_peak_memory", lambda device: done.append("forgotten"))
    monkeypatch.setattr(module._Trial, "_seconds", lambda trial, batch: done.append("pass") or 30.0)
    measured("training.compile=true", "batching.micro_batch_tokens=32", attention=masked_attention)
    assert done == ["forgotten", "pass", "forgotten", "pass", "pass", "pass"]


def test_ranks_try_together_though_one_cannot_compile(measured, monkeypatch):
    """Each waits for what the others have found."""
    gathered = []

    class One(Ranks):
        def gather(self, value):
            gathered.append(value)
            return [value, True] if isinstance(value, bool) else [value] * self.size

    monkeypatch.setattr(module._Trial, "_seconds", lambda trial, batch: 1.0)
    counts = []
    for attention in (masked_attention, None):
        measured("training.compile=true", "batching.micro_batch_tokens=32", ranks=One(0, 2), attention=attention)
        counts.append(len(gathered))
    assert counts[1] == 2 * counts[0]


@pytest.mark.parametrize("size", [1_000, 40, 20])
def test_all_micro_batches_of_a_compiled_run_have_one_size(
    measured, settled, reversed_words, tmp_path, monkeypatch, size
):
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    seconds = []
    monkeypatch.setattr(module._Trial, "_seconds", lambda trial, batch: seconds.append(30.0) or 30.0)
    settings = "training.compile=true", f"batching.micro_batch_tokens={size}"
    found, batching = measured(*settings, attention=masked_attention)
    assert found.compiles
    assert found.not_compiled is None
    # Once without a compiler; then three times: the first pass compiles, the second records a graph.
    assert len(seconds) == 1 + 3
    config, sizes = settled(*settings), set()
    divided = batching(found.micro_batch_tokens)
    with TrainingData.open([reversed_words], config).epochs(tmp_path, NO_OTHERS) as epochs:
        for update in epochs.updates(0, 0, batching=lambda: divided, ranks=NO_OTHERS):
            if update.epoch > 0:
                break
            inputs = [batch.inputs for batch in update.batches]
            sizes |= {(len(one.source.tokens_N), len(one.target.tokens_N)) for one in inputs}
            sizes |= {(len(one.source.cu_seqlens), one.source.max_seqlen) for one in inputs}
    assert len(sizes) == 2


@pytest.mark.parametrize(
    ("limits", "seconds", "by_minutes"),
    [
        ((50, None), 20 * 400 / 16, False),
        ((None, 11), 11 * 60 - 250, True),
        ((50, 11), 11 * 60 - 250, True),
        ((50, 20), 20 * 400 / 16, False),
        ((30, None), 0, False),
        ((20, 4), 0, False),
        ((None, None), None, False),
    ],
)
def test_a_resumed_run_takes_what_is_left_to_the_first_of_its_limits(settled, limits, seconds, by_minutes):
    """30 updates of 400 tokens in 250 seconds are done; 16 tokens per second are measured."""
    config = settled("batching.update_tokens=400")
    training = config.training.model_copy(update=dict(zip(("max_updates", "max_minutes"), limits, strict=True)))
    config = config.model_copy(update={"training": training})
    assert module._seconds_left(config, Progress(update=30, seconds=250.0), 16.0) == (seconds, by_minutes)


@pytest.mark.parametrize(("keep_every", "updates", "expected"), [("null", 100, 6), ("40", 100, 8), ("40", "null", 6)])
def test_all_checkpoints_that_are_kept_and_the_one_that_is_written_are_counted(settled, keep_every, updates, expected):
    changes = ["checkpoints.keep_last=2", "checkpoints.keep_best=3", f"checkpoints.keep_every={keep_every}"]
    assert module._checkpoints_at_once(settled(*changes, f"training.max_updates={updates}")) == expected


@pytest.mark.parametrize(
    ("changes", "warned"),
    [
        (["schedule.warmup=100"], "at update 60, and the learning rate grows until update 60, within"),
        (
            ["schedule.warmup=100", "schedule.decay=cosine"],
            "at update 60, and the learning rate grows until update 30,",
        ),
        (["schedule.warmup=31", "schedule.decay=linear"], "at update 60, and the learning rate grows until update 30,"),
        (["schedule.warmup=30", "schedule.decay=linear"], None),
        (["schedule.warmup=60"], None),
        (["schedule.warmup=100", "training.max_updates=null"], None),
        # By the rate of 300 tokens a second, five updates of 60 tokens: 300 in the minute, 180 more after 24 s of it.
        (["schedule.warmup=500", "training.max_updates=null", "training.max_minutes=1"], "at about update 300, and"),
        (["schedule.warmup=300", "training.max_updates=null", "training.max_minutes=1"], None),
        (["schedule.warmup=200", "training.max_minutes=1"], "at update 60, and"),
        (["schedule.warmup=500", "training.max_updates=400", "training.max_minutes=1"], "at about update 300, and"),
    ],
)
@pytest.mark.parametrize("progress", [Progress(), Progress(update=120, seconds=24)], ids=["new", "resumed"])
def test_a_run_that_ends_within_its_warm_up_is_warned_of(settled, changes, warned, progress):
    config = settled("training.max_updates=60", *changes)
    if progress.update and config.training.max_updates == 60:
        pytest.skip("over")
    left, ends_by_minutes = module._seconds_left(config, progress, 300.0)
    found = module._within_warm_up(config, progress, 300.0, left if ends_by_minutes else None)
    assert found is None if warned is None else warned in found
    if found is not None:  # the advice can be copied, and helps
        advised = settled("training.max_updates=60", *changes, *re.findall(r"--set (\S+)", found))
        assert module._within_warm_up(advised, progress, 300.0, left if ends_by_minutes else None) is None
        peaks = [each.schedule.factor * each.schedule.warmup**-0.5 for each in (config, advised)]
        assert peaks[1] == pytest.approx(peaks[0], rel=0.01)


def test_the_warning_of_the_warm_up_reaches_whoever_starts_or_tries_a_run(
    run_training, settled, reversed_words, tmp_path, listener
):
    short = "schedule.warmup=7", "training.max_updates=3"
    run_training(tmp_path / "run", *short)
    tried = dry_run(TrainingData.open([reversed_words], settled(*short)), tmp_path / "run")
    for found in (listener.preflight, tried):
        [warning] = [line for line in preflight_lines(found) if line.startswith("warning: the run ends")]
        assert "at update 3, and the learning rate grows until update 3, within its warm-up of 7 updates" in warning


def test_the_settings_are_printed_before_a_dry_run_that_fails(monkeypatch, reversed_words, settings_file):
    def fail(*arguments, **options):
        raise TrainingError("no pair fits into memory")

    monkeypatch.setattr("nmt.training.run.dry_run", fail)
    command = ["train", "--data", str(reversed_words), "--config", str(settings_file)]
    ended = CliRunner().invoke(app, [*command, "--dry-run", "--show-settings"])
    assert "no pair fits into memory" in ended.stderr
    assert yaml.safe_load(ended.stdout)["model"]["d_model"] == 16


def test_the_training_pairs_are_opened_once(monkeypatch, reversed_words, settings_file):
    """At 20 million pairs this takes most of a second, on each rank."""
    opened, of = [], ParallelShards.of.__func__

    def noted(cls, folder, index, split, *remedy):
        opened.append(split)
        return of(cls, folder, index, split, *remedy)

    monkeypatch.setattr(ParallelShards, "of", classmethod(noted))
    assert nmt.train(reversed_words, config=settings_file, dry_run=True).measured is not None
    assert opened == ["train"]


def test_alignments_that_no_layer_learns_are_named(tmp_path, settings_file):
    aligned = make_data_set(tmp_path / "aligned")
    nmt.build_vocab(aligned, align=True, size=40, force=True)
    command = ["train", "--data", str(aligned), "--config", str(settings_file), "--dry-run"]
    assert "aligned, but no layer learns to align" in CliRunner().invoke(app, command).stderr
    learning = CliRunner().invoke(app, [*command, "--set", "model.alignment_layer=1"])
    assert learning.exit_code == 0 and "no layer learns to align" not in learning.stderr
