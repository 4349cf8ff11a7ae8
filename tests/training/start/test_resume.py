"""Ranks begin alike, whatever their devices are called, and a resumed run has what its checkpoint holds."""

import dataclasses
import json
from typing import ClassVar

import pytest
import torch

from nmt.checkpoint.run_folder import latest_intact_checkpoint
from nmt.machine.device import Hardware
from nmt.training.input.data_sets import TrainingData
from nmt.training.loss_scale import LossScale
from nmt.training.ranks.exchange import Ranks
from nmt.training.start import resume
from nmt.training.start.resume import find_beginning

AUTO = ("batching.micro_batch_tokens=auto", "training.precision=auto")


class Broadcast(Ranks):
    """A rank of two, in one process: the main rank's messages are kept until the other rank reads them."""

    messages: ClassVar[list[str]] = []

    def broadcast_object(self, value):
        if self.is_main:
            self.messages.append(json.dumps(value))
        return json.loads(self.messages[-1] if self.is_main else self.messages.pop(0))


@pytest.fixture
def begin(run_training, reversed_words, settled, listener, tmp_path, monkeypatch):
    """Resume a run with other values of progress on two GPUs; the beginnings of the main rank and of the other."""
    data, run = TrainingData.open([reversed_words], settled(*AUTO)), tmp_path / "run"
    run_training(run, "training.max_updates=2", "checkpoints.every_updates=2", "validation.bleu=false")
    checkpoint, _ = latest_intact_checkpoint(run)
    state = resume.load_training_state(checkpoint)
    monkeypatch.setattr(Broadcast, "messages", [])

    def begin(precisions=("bf16", "bf16"), **values):
        changed = dataclasses.replace(state, values={**state.values, **values})
        monkeypatch.setattr(resume, "load_training_state", lambda checkpoint: changed)
        found = [
            find_beginning(
                run, data, Hardware(torch.device("cuda", rank), precision, 1, ""), listener,
                Broadcast(rank, 2, rank, 2), accept_changes=True, init_from=None,
            )
            for rank, precision in enumerate(precisions)
        ]  # fmt: skip
        assert not Broadcast.messages
        return found

    return begin


@pytest.mark.parametrize("machine", ["cuda:0, bf16, ranks: 2", "cuda:0, bf16, ranks: 8"])
def test_ranks_on_gpus_of_different_names_resume_with_the_same_progress(begin, machine, listener):
    size = {"micro_batch_tokens": 4096}
    main, other = begin(machine=machine, micro_batch_asked="auto", auto_precision=["cuda", "bf16"], **size)
    assert main.progress == other.progress
    is_known = machine.endswith("2")
    assert other.progress.micro_batch_tokens == (4096 if is_known else None)
    assert sum("hardware changed" in notice for notice in listener.notices) == (not is_known)


@pytest.mark.parametrize("begun", [["cuda", "fp16"], ["cpu", "fp32"], None])
def test_ranks_compute_in_one_precision(begin, begun):
    """That of the run's first start; if it was on another type of device, the main rank's choice."""
    main, other = begin(("bf16", "fp32"), auto_precision=begun)
    expected = "fp16" if begun == ["cuda", "fp16"] else "bf16"
    assert main.hardware.precision == other.hardware.precision == expected
    assert main.progress == other.progress


@pytest.mark.parametrize(
    ("precision", "saved", "expected"),
    [
        ("fp16", {"value": 8.0, "good_updates": 999}, LossScale(8.0, 999)),
        ("fp16", None, LossScale()),
        ("bf16", {"value": 8.0, "good_updates": 999}, None),
    ],
)
def test_a_run_in_fp16_keeps_its_loss_scale_and_others_have_none(begin, precision, saved, expected):
    main, other = begin((precision, precision), loss_scale=saved, auto_precision=["cuda", precision])
    assert main.progress.loss_scale == other.progress.loss_scale == expected
