"""The micro-batch that is found fits, is not needlessly small, and is found in few tries."""

import dataclasses
import time
from functools import partial
from itertools import pairwise

import pytest
import torch

from nmt.cli.training_view import preflight_lines
from nmt.kernels.flash_attention import masked_attention
from nmt.machine.device import Hardware, choose_hardware
from nmt.model.transformer import Transformer
from nmt.training.input.data_sets import TrainingData
from nmt.training.learner import Learner
from nmt.training.progress import Progress
from nmt.training.ranks.exchange import NO_OTHERS, Ranks
from nmt.training.run import rehearse
from nmt.training.start import beginning
from nmt.training.start import preflight as module
from nmt.training.start.beginning import Beginning, make_learner
from nmt.training.start.preflight import worst_batch
from tests.policies import POLICIES

LONGEST = 64
ONCE = 300_000_000
"""Bytes taken by the first micro-batch alone, whatever its size: gradients, moments."""


class Machine:
    """A learner on a machine whose memory is known."""

    def __init__(
        self,
        monkeypatch,
        usable: int,
        bytes_a_position: int,
        breaks_at: float = float("inf"),
        *,
        saved: int = 0,
    ) -> None:
        self._saved = saved
        self.tried: list[int] = []
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
def found(settled):
    config = settled("batching.update_tokens=25000")

    def find(machine: Machine, ranks: Ranks = module.Ranks(), longest: int = LONGEST) -> int:
        hardware = choose_hardware("cpu", "fp32", 1)
        return module._largest_fitting(machine, module._LARGEST_ON_CPU, config, hardware, [longest], ranks)

    return find


def test_with_plenty_of_memory_small_tries_are_enough(found, monkeypatch):
    machine = Machine(monkeypatch, usable=16_000_000_000, bytes_a_position=500_000)
    assert found(machine) == module._LARGEST_ON_CPU
    assert machine.tried == [128, 256, 1_024]


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


def test_a_size_is_halved_until_sentences_of_every_length_fit(settled, reversed_words, tmp_path, monkeypatch):
    """Without padding, many short sentences need more memory than few long ones."""
    config, hardware = settled("batching.micro_batch_tokens=64"), choose_hardware("cpu", "fp32", 1)
    data = TrainingData.open([reversed_words], config)
    learner = make_learner(Beginning(Progress(), hardware), config, data.vocab, NO_OTHERS)
    learner.model.packed_attention = masked_attention
    monkeypatch.setattr(learner, "fits", lambda batch: batch.pairs <= 20 // data.short)
    found = module.preflight(learner, config, hardware, tmp_path, Progress(), data, NO_OTHERS)
    assert found.micro_batch_tokens == 16


def test_what_an_earlier_start_found_is_tried_again_on_a_cpu(settled, reversed_words, tmp_path, monkeypatch):
    """Its memory may be less now, and a try that does not fit would end the process."""
    config, hardware = settled("batching.micro_batch_tokens=4000"), choose_hardware("cpu", "fp32", 1)
    data = TrainingData.open([reversed_words], config)
    learner = make_learner(Beginning(Progress(), hardware), config, data.vocab, NO_OTHERS)
    limits = []
    monkeypatch.setattr(module, "_largest_fitting", lambda learner, limit, *others: limits.append(limit) or 8)
    found = module.preflight(learner, config, hardware, tmp_path, Progress(micro_batch_tokens=32), data, NO_OTHERS)
    assert (limits, found.micro_batch_tokens) == ([32], 8)


def test_all_ranks_take_the_smallest_size_of_any(settled, reversed_words, tmp_path):
    """Otherwise ranks would deal an update to micro-batches of different sizes, and not share its pairs out."""

    class One(Ranks):
        """One of two ranks; on the other one, less fits."""

        def gather(self, value):
            return [value, 11]

    config, hardware = settled(), choose_hardware("cpu", "fp32", 1)
    data = TrainingData.open([reversed_words], config)
    learner = make_learner(Beginning(Progress(), hardware), config, data.vocab, NO_OTHERS)
    found = [
        module.preflight(learner, config, hardware, tmp_path, Progress(micro_batch_tokens=size), data, One(0, 2))
        for size in (30, 10)
    ]
    assert [one.micro_batch_tokens for one in found] == [11, 10]


def test_ranks_are_as_many_times_as_fast_as_one(settled, reversed_words, tmp_path, monkeypatch):
    class Alike(Ranks):
        def gather(self, value):
            return [value] * self.size

    config, hardware = settled("batching.micro_batch_tokens=32"), choose_hardware("cpu", "fp32", 1)
    data = TrainingData.open([reversed_words], config)
    monkeypatch.setattr(module, "_seconds", lambda learner, batch, hardware: 30.0)
    rates = []
    for ranks in (NO_OTHERS, Alike(0, 2, 0, 2)):
        learner = make_learner(Beginning(Progress(), hardware), config, data.vocab, NO_OTHERS)
        measured = module.preflight(learner, config, hardware, tmp_path, Progress(), data, ranks)
        rates.append((measured.worst_positions, measured.target_tokens_per_second))
    (positions, one), (same_positions, two) = rates
    assert (same_positions, two) == (positions, 2 * one)


@pytest.mark.parametrize("size", ["auto", "512"])
def test_no_logits_of_an_apple_gpu_take_4_gib(settled, reversed_words, tmp_path, monkeypatch, size):
    """Larger ones end the process, whether the size was asked for or not."""
    config = settled(f"batching.micro_batch_tokens={size}")
    data = TrainingData.open([reversed_words], config)
    learner = make_learner(Beginning(Progress(), choose_hardware("cpu", "fp32", 1)), config, data.vocab, NO_OTHERS)
    monkeypatch.setattr(module, "_LARGEST_ON_MPS", 100 * config.data.target_pieces)
    for name, value in {"memory_in_use": 1, "memory_for_use": 10**12, "matrix_rate": 1.0}.items():
        monkeypatch.setattr(module, name, lambda *_, value=value: value)
    tried = []
    monkeypatch.setattr(module, "_seconds", lambda learner, batch, hardware: tried.append(batch.positions) or 1.0)
    apple = Hardware(torch.device("mps"), "fp32", 1, "as asked")
    measured = module.preflight(learner, config, apple, tmp_path, Progress(), data, NO_OTHERS)
    assert max(tried) <= 100
    assert measured.micro_batch_tokens <= 100
    assert size == "auto" or measured.micro_batch_tokens == 100


@pytest.mark.parametrize(
    ("asked", "device", "packed_attention", "seconds_left", "expected"),
    [
        ("auto", "cuda", masked_attention, 3_600, True),
        ("auto", "cuda", masked_attention, None, True),  # only patience ends the run
        ("auto", "cuda", masked_attention, 600, False),
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
    hardware = Hardware(torch.device(device), "bf16", 1, "as asked")
    assert module._is_to_compile(learner, config, hardware, Progress(), seconds_left) is expected
    exact = dataclasses.replace(hardware, is_deterministic=True)
    assert module._is_to_compile(learner, config, exact, Progress(), seconds_left) is (asked == "true")
    # As an earlier start chose, whatever speed is measured now.
    for chosen in (False, True):
        found = module._is_to_compile(learner, config, hardware, Progress(compiles=chosen), seconds_left)
        assert found is (chosen if asked == "auto" else expected)


@pytest.mark.parametrize("size", ["auto", 40])
def test_where_nothing_can_be_compiled_the_size_stays(settled, reversed_words, tmp_path, size):
    found = []
    for compiles in ("true", "false"):
        config = settled(f"training.compile={compiles}", f"batching.micro_batch_tokens={size}")
        data, hardware = TrainingData.open([reversed_words], config), choose_hardware("cpu", "fp32", 1)
        learner = make_learner(Beginning(Progress(), hardware), config, data.vocab, NO_OTHERS)
        found.append(module.preflight(learner, config, hardware, tmp_path, Progress(), data, NO_OTHERS))
    assert found[0].micro_batch_tokens == found[1].micro_batch_tokens
    assert "attention without padding" in found[0].not_compiled
    assert found[1].not_compiled is None


def test_the_time_of_a_compiler_that_fails_is_not_the_speed(settled, reversed_words, tmp_path, monkeypatch):
    def failing(graph, _):
        time.sleep(10)
        raise RuntimeError("no compiler")

    config = settled("training.compile=true", "batching.micro_batch_tokens=40")
    data, hardware = TrainingData.open([reversed_words], config), choose_hardware("cpu", "fp32", 1)
    monkeypatch.setattr(beginning, "choose_kernels", lambda *arguments, **options: POLICIES["cuda-16-bit"])
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=failing))
    torch._dynamo.reset()
    learner = make_learner(Beginning(Progress(), hardware), config, data.vocab, NO_OTHERS)
    found = module.preflight(learner, config, hardware, tmp_path, Progress(), data, NO_OTHERS)
    assert "no compiler" in found.not_compiled
    assert found.target_tokens_per_second > 40 / 9


def test_a_compiled_micro_batch_that_does_not_fit_is_halved(settled, reversed_words, tmp_path, monkeypatch):
    config = settled("training.compile=true", "batching.micro_batch_tokens=200")
    data, hardware = TrainingData.open([reversed_words], config), choose_hardware("cpu", "fp32", 1)
    monkeypatch.setattr(beginning, "choose_kernels", lambda *arguments, **options: POLICIES["cuda-16-bit"])
    learner = make_learner(Beginning(Progress(), hardware), config, data.vocab, NO_OTHERS)
    tried = []

    def seconds(learner, batch, hardware):
        if not learner.is_compiled:
            return 1.0
        tried.append(batch.longer_side_tokens)
        return None if batch.longer_side_tokens > 30 else 1.0

    monkeypatch.setattr(module, "_seconds", seconds)
    found = module.preflight(learner, config, hardware, tmp_path, Progress(), data, NO_OTHERS)
    assert tried[0] > 30 >= tried[-1]
    assert found.micro_batch_tokens < 30 + data.longest


@pytest.mark.parametrize("size", [1_000, 40, 20])
def test_all_micro_batches_of_a_compiled_run_have_one_size(settled, reversed_words, tmp_path, monkeypatch, size):
    config = settled("training.compile=true", f"batching.micro_batch_tokens={size}")
    data, hardware = TrainingData.open([reversed_words], config), choose_hardware("cpu", "fp32", 1)
    monkeypatch.setattr(beginning, "choose_kernels", lambda *arguments, **options: POLICIES["cuda-16-bit"])
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    learner = make_learner(Beginning(Progress(), hardware), config, data.vocab, NO_OTHERS)
    seconds = []
    monkeypatch.setattr(module, "_seconds", lambda learner, batch, hardware: seconds.append(30.0) or 30.0)
    found = module.preflight(learner, config, hardware, tmp_path, Progress(), data, NO_OTHERS)
    assert found.compiles
    assert found.not_compiled is None
    assert len(seconds) == 2 + 2  # two lengths without a compiler; then twice, since the first pass compiles
    sizes = set()
    with data.epochs(config, tmp_path, NO_OTHERS) as epochs:
        tokens = lambda: found.micro_batch_tokens  # noqa: E731
        for update in epochs.updates(0, 0, micro_batch_tokens=tokens, ranks=NO_OTHERS, pads=False):
            if update.epoch > 0:
                break
            sizes |= {learner._size_of(batch.target_lengths_B) for batch in update.batches}
            sizes |= {learner._size_of(batch.source_lengths_B) for batch in update.batches}
    assert len(sizes) == 1


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


def test_the_worst_batch_is_full_of_the_longest_pairs():
    batch = worst_batch(1_000, LONGEST, 50)
    assert batch.source_lengths_B.tolist() == batch.target_lengths_B.tolist() == [LONGEST] * 15
    assert batch.source_tokens == len(batch.target_input_N) == 15 * LONGEST
    assert batch.target_tokens == 15 * LONGEST
    assert worst_batch(10, LONGEST, 50).source_lengths_B.tolist() == [LONGEST]


@pytest.mark.parametrize(
    ("changes", "warned"),
    [
        (
            ["schedule.warmup=100"],
            "at update 60, and the learning rate grows until update 60, within",
        ),
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


def test_the_warning_of_the_warm_up_reaches_whoever_starts_or_rehearses_a_run(
    run_training, settled, reversed_words, tmp_path, listener
):
    short = "schedule.warmup=7", "training.max_updates=3"
    run_training(tmp_path / "run", *short)
    rehearsed = rehearse([reversed_words], tmp_path / "run", settled(*short))
    for found in (listener.preflight, rehearsed):
        [warning] = [line for line in preflight_lines(found) if line.startswith("warning: the run ends")]
        assert "at update 3, and the learning rate grows until update 3, within its warm-up of 7 updates" in warning
