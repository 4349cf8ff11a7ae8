"""Training on one rank and on several, as the doctor measures it on GPUs; here on the CPU."""

import os

import pytest
import torch

from nmt.device import choose_hardware
from nmt.doctor import examination, rank_processes, scaling
from nmt.doctor.examination import _scaling
from nmt.doctor.generated_text import generated_data_set
from nmt.doctor.scaling import numbers_of_gpus, scaling_speeds
from nmt.errors import NmtError


@pytest.fixture
def eight_gpus(monkeypatch):
    hardware = choose_hardware("cpu", "fp32", 1)
    object.__setattr__(hardware, "device", torch.device("cuda"))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    return hardware


@pytest.mark.parametrize(("gpus", "numbers"), [(0, []), (1, []), (2, [1, 2]), (6, [1, 2, 4, 6]), (8, [1, 2, 4, 8])])
def test_one_some_and_all_gpus_are_measured(eight_gpus, monkeypatch, gpus, numbers):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    assert numbers_of_gpus(eight_gpus) == numbers
    assert numbers_of_gpus(choose_hardware("cpu", "fp32", 1)) == []


@pytest.mark.slow
def test_ranks_train_together(tmp_path):
    data = generated_data_set(tmp_path / "text", 300)
    one, two = scaling_speeds(data, [1, 2], left_out := [], device="cpu", updates=2, tasks=[("tiny", 1_000)])
    assert left_out == []
    assert [(speed.preset, speed.update_tokens, speed.ranks) for speed in (one, two)] == [
        ("tiny", 1_000, 1),
        ("tiny", 1_000, 2),
    ]
    assert one.efficiency == 1.0
    assert two.efficiency == pytest.approx(two.tokens_per_second / one.tokens_per_second / 2)


def test_ranks_that_fail_are_left_out_with_the_reason(eight_gpus, monkeypatch, tmp_path):
    left_out, reported = [], []
    monkeypatch.setattr(rank_processes.sys, "executable", "false")
    assert _scaling(tmp_path, eight_gpus, reported.append, left_out) == []
    assert left_out == [f"training on {number}: exit code 1" for number in ("1 GPU", "2 GPUs", "4 GPUs", "8 GPUs")]
    assert reported == ["training on 1, 2, 4, 8 GPUs"]


@pytest.mark.parametrize(
    ("failing", "expected"),
    [(2, [(1, 1.0), (4, 0.5), (8, 0.25)]), (1, [(2, None), (4, None), (8, None)])],
)
def test_one_number_that_fails_leaves_the_others_in(monkeypatch, tmp_path, failing, expected):
    """Without the speed of one GPU there are speeds, but no efficiencies."""

    def output(arguments, ranks, *, seconds):
        if ranks == failing:
            raise NmtError("no NVLink")
        return f'[["base", 25000, {ranks * 100 * (1 if ranks == 1 else 2 / ranks)}]]'

    monkeypatch.setattr(scaling, "output_of_main_rank", output)
    speeds = scaling_speeds(tmp_path, [1, 2, 4, 8], left_out := [])
    assert [(speed.ranks, speed.efficiency) for speed in speeds] == expected
    assert left_out == [f"training on {'1 GPU' if failing == 1 else '2 GPUs'}: no NVLink"]


def test_ranks_that_print_much_end(tmp_path, monkeypatch):
    """A pipe holds 64 KiB."""
    (tmp_path / "talkative.py").write_text(
        "import sys\n"
        "sys.stderr.write('a warning of NCCL\\n' * 100_000)\n"
        "print('NCCL version\\n' * 100_000)\n"
        "print('[1]')\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    assert rank_processes.output_of_main_rank(["talkative"], 2, seconds=60) == "[1]"


def test_ranks_that_take_too_long_are_ended(monkeypatch):
    with pytest.raises(NmtError, match="no result within 0 s"):
        rank_processes.output_of_main_rank(["nmt", "doctor"], 2, seconds=0.2)


def test_a_quick_examination_measures_no_scaling(monkeypatch):
    from tests.doctor.conftest import measure_nothing

    measure_nothing(monkeypatch)
    monkeypatch.setattr(examination, "_scaling", lambda *arguments: pytest.fail("measured"))
    assert examination.examine(with_speeds=False).scaling == []
