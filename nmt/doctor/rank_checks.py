"""Ranks, processes that train together: whether they learn what one learns."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from nmt.checkpoint.bundle_files import BundleFolder
from nmt.checkpoint.run_folder import RunFolder
from nmt.corpora.prepare import prepare
from nmt.corpora.recipe import load_recipe
from nmt.data.build import build_vocabulary
from nmt.data.vocab_record import VocabularySettings
from nmt.doctor.checks import Check
from nmt.io.writing import scratch_folder
from nmt.machine.device import Hardware

_UPDATES = 6
_ALLOWED = 1e-9
# A hang is a failure. On a quiet machine, training takes some seconds.
_SECONDS = 300.0
_SETTINGS = {
    "model.encoder_layers": 1, "model.decoder_layers": 1, "model.d_model": 32, "model.d_ff": 64, "model.heads": 2,
    "model.dropout": 0, "batching.update_tokens": 500, "batching.group_tokens": 500, "training.precision": "fp64",
    "training.patience": "null", "validation.bleu": "false", "logging.every_updates": 1,
    "training.bucket_megabytes": 0.02,  # several buckets, as a larger model has
}  # fmt: skip


def _ranks_and_device(hardware: Hardware) -> tuple[int, str]:
    gpus = torch.cuda.device_count() if hardware.device.type == "cuda" else 0
    return (gpus, "cuda") if gpus > 1 else (2, "cpu")


def check_ranks(hardware: Hardware) -> list[Check]:
    """Train with a rank on each GPU, or with two ranks where there is one GPU or none, and compare with one rank."""
    ranks, device = _ranks_and_device(hardware)
    name = f"{ranks} ranks learn what one learns ({device})"
    weights = []
    with scratch_folder() as scratch:
        prepare(load_recipe("toy-en-de"), scratch / "data")
        build_vocabulary([scratch / "data"], VocabularySettings(size=500))
        for count in (1, ranks):
            run = scratch / f"ranks-{count}"
            if failure := _failure(_command(count, device, scratch / "data", run)):
                return [Check(name, False, f"ranks: {count}: {failure}")]
            weights.append(_learnt(run))
    one, several = weights
    off = ((several - one).norm() / one.norm()).item()
    detail = f"after {_UPDATES} updates in fp64, weights differ by {off:.1e}; allowed {_ALLOWED:.0e}"
    return [Check(name, off <= _ALLOWED, detail)]


def _failure(command: Sequence[str]) -> str:
    """Run a command; the last line that it wrote to stderr if it failed, else empty."""
    try:
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        return f"not finished within {_SECONDS:.0f} s"
    last = (ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"])[-1]
    return last if ended.returncode else ""


def _command(ranks: int, device: str, data: Path, run: Path) -> Sequence[str]:
    return [
        sys.executable, "-P", "-m", "nmt", "train", "--preset", "tiny", "--data", str(data), "--out", str(run),
        "--nproc", str(ranks), "--device", device, "--max-updates", str(_UPDATES),
        *(word for key, value in _SETTINGS.items() for word in ("--set", f"{key}={value}")),
    ]  # fmt: skip


def _learnt(run: Path) -> Tensor:
    """All weights in fp64, joined."""
    tensors = load_file(BundleFolder(RunFolder(run).checkpoint(_UPDATES)).training_tensors)
    learnt = [tensors[name].flatten() for name in sorted(tensors) if name.startswith("learnt.")]
    return torch.cat(learnt)
