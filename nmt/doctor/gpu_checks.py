"""Checks of a GPU: flash attention, equal results in every run, a host that rarely waits, and recorded searches."""

from __future__ import annotations

import math
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from nmt.checkpoint.bundle_files import BundleFolder
from nmt.checkpoint.run_folder import RunFolder
from nmt.device import Hardware
from nmt.doctor.checks import VOCAB_SIZE, Check, random_batch, small_config
from nmt.doctor.rank_checks import SECONDS_TO_START
from nmt.doctor.rank_processes import last_line
from nmt.kernels.policy import Kernels, choose_kernels
from nmt.kernels.recording import Recorder
from nmt.kernels.sentence_rows import SentenceRows, masked_attention
from nmt.model.transformer import Transformer
from nmt.search.beam_search import beam_search
from nmt.search.hypotheses import Hypothesis
from nmt.search.recorded_steps import RecordedSteps
from nmt.search.settings import SearchSettings
from nmt.training.learner import Learner

_UPDATES = 6
_STEPS_PER_LOOK = 8
_ALLOWED_IN_16_BITS = 1e-2
_SETTINGS = {
    "model.encoder_layers": 1, "model.decoder_layers": 1, "model.d_model": 32, "model.d_ff": 64, "model.heads": 2,
    "model.dropout": 0.1, "batching.update_tokens": 500, "batching.group_tokens": 500, "training.patience": "null",
    "validation.bleu": "false", "training.deterministic": "true",
}  # fmt: skip


def check_gpu(hardware: Hardware, data: Path, scratch: Path) -> list[Check]:
    """What can be checked of a GPU."""
    return [
        *check_sentence_attention(hardware),
        check_deterministic(hardware, data, scratch),
        *check_host_reads(hardware),
        *check_recorded_search(hardware),
    ]


def check_sentence_attention(hardware: Hardware) -> list[Check]:
    """Attention over sentences one after the other, compared with the masked form in float64; nothing if it pads."""
    attend = choose_kernels(hardware.device, hardware.autocast_dtype).sentence_attention
    if attend is None:
        return []
    torch.manual_seed(1)
    ends = torch.tensor([0, *torch.tensor([30, 1, 200, 7, 0]).cumsum(0)], dtype=torch.int32)
    places = torch.cat([torch.arange(length) for length in ends.diff().tolist()])
    query, key, value = (torch.randn(len(places), 8, 64, dtype=torch.float64) for _ in "QKV")
    checks = []
    for is_causal in (True, False):
        rows = SentenceRows(places, ends, longest=256)
        exact = masked_attention(query, key, value, rows, rows, is_causal)
        on_device = SentenceRows(places.to(hardware.device), ends.to(hardware.device), longest=256)
        q, k, v = (x.to(hardware.device, hardware.products_dtype) for x in (query, key, value))
        found = attend(q, k, v, on_device, on_device, is_causal).cpu().double()
        off = ((found - exact).norm() / exact.norm()).item()
        name = f"attention over sentences one after the other ({'causal' if is_causal else 'all pieces'})"
        detail = f"differs by {off:.1e} of its norm; allowed {_ALLOWED_IN_16_BITS:.0e}"
        checks.append(Check(name, off <= _ALLOWED_IN_16_BITS, detail))
    return checks


def check_deterministic(hardware: Hardware, data: Path, scratch: Path) -> Check:
    """With ``training.deterministic``, a run that stops and resumes ends with the same bits as one that does not."""
    name = f"resume bit for bit with training.deterministic ({hardware.device.type})"
    for run, updates in (("straight", _UPDATES), ("stopped", _UPDATES // 2), ("stopped", _UPDATES)):
        command = [
            sys.executable, "-P", "-m", "nmt", "train", "--preset", "tiny", "--data", str(data),
            "--out", str(scratch / f"deterministic-{run}"), "--device", hardware.device.type,
            "--max-updates", str(updates),
            *(word for key, value in _SETTINGS.items() for word in ("--set", f"{key}={value}")),
        ]  # fmt: skip
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS_TO_START)
        if ended.returncode:
            return Check(name, False, last_line(ended.stderr, ended.returncode))
    straight, stopped = (_tensors(scratch / f"deterministic-{run}") for run in ("straight", "stopped"))
    unequal = [tensor for tensor in straight if not torch.equal(straight[tensor], stopped[tensor])]
    found = f"{len(unequal)} of {len(straight)} tensors differ" if unequal else f"all {len(straight)} tensors are equal"
    return Check(name, not unequal, f"after {_UPDATES} updates, stopped in the middle: {found}")


def _tensors(run: Path) -> dict[str, Tensor]:
    checkpoint = BundleFolder(RunFolder(run).checkpoint(_UPDATES))
    return load_file(checkpoint.weights) | load_file(checkpoint.training_tensors)


def check_host_reads(hardware: Hardware) -> list[Check]:
    """The host waits for a GPU once in an update, and once in eight steps of a search."""
    config, batch = small_config(), random_batch(24, 20)
    torch.manual_seed(1)
    kernels = choose_kernels(hardware.device, hardware.autocast_dtype)
    model = Transformer(config.model, VOCAB_SIZE, kernels).to(hardware.device).train()
    learner = Learner(model, config.optimizer, hardware, label_smoothing=0.1, seed=1)

    def update(number: int) -> None:
        learner.update([batch], update=number, target_tokens=batch.target_tokens, learning_rate=1e-3)

    update(1)  # the first one prepares
    of_update = _waits(lambda: update(2))
    steps = 0

    def count(sentences: int, length: int) -> None:
        nonlocal steps
        steps += 1

    model.eval()
    source_BS = torch.as_tensor(batch.source_BS).to(hardware.device)

    recorded = RecordedSteps(model)

    def search() -> None:
        with torch.inference_mode(), hardware.autocast():
            beam_search([model], source_BS, SearchSettings(beam=4), before_step=count, recorded_steps=recorded)

    search()  # the first one records its steps
    steps = 0
    of_search = _waits(search)
    allowed = 1 + math.ceil(steps / _STEPS_PER_LOOK)
    return [
        Check("the host waits once in an update", of_update <= 1, f"{of_update} times; allowed 1"),
        Check(
            "the host waits once in eight steps of a search",
            of_search <= allowed,
            f"{of_search} times in {steps} steps; allowed {allowed}",
        ),
    ]


def check_recorded_search(hardware: Hardware) -> list[Check]:
    """A search whose steps are recorded finds what a search without recordings finds."""
    kernels = choose_kernels(hardware.device, hardware.autocast_dtype)
    if kernels.recorder is None:
        return [Check("steps of a search are recorded", False, "this GPU or its driver cannot record work")]
    make_recorder = kernels.recorder
    recorders: list[Recorder] = []

    def noted() -> Recorder:
        recorders.append(make_recorder())
        return recorders[-1]

    recorded, plain = replace(kernels, recorder=noted), replace(kernels, recorder=None)
    with hardware.autocast():
        _search_of(recorded, torch.float32, hardware.device)
    # In float64, hypotheses do not change places where kernels round differently.
    found, expected = (_search_of(chosen, torch.float64, hardware.device) for chosen in (recorded, plain))
    failures = [recorder.failure for recorder in recorders if recorder.failure is not None]
    pairs = [
        (one, other)
        for ones, others in zip(found, expected, strict=True)
        for one, other in zip(ones, others, strict=False)
    ]
    same = sum(one.pieces == other.pieces for one, other in pairs)
    return [
        Check("steps of a search are recorded", bool(recorders) and not failures, "; ".join(failures) or "all sizes"),
        Check(
            "a recorded search finds what one without recordings finds",
            same == len(pairs) and list(map(len, found)) == list(map(len, expected)),
            f"{same} of {len(pairs)} hypotheses are equal",
        ),
    ]


def _search_of(kernels: Kernels, dtype: torch.dtype, device: torch.device) -> list[list[Hypothesis]]:
    """Search with a model of random weights, scaled so that scores lie far apart."""
    torch.manual_seed(1)
    model = Transformer(small_config().model, VOCAB_SIZE, kernels)
    torch.nn.init.normal_(model.embedding.weight, std=6 * model.config.d_model**-0.5)
    model = model.to(device, dtype).eval()
    source_BS = torch.as_tensor(random_batch(40, 20).source_BS).to(device)
    return beam_search([model], source_BS, SearchSettings(beam=4, nbest=4, max_extra_length=40))


def _waits(compute: Callable[[], object]) -> int:
    """How often the host waits for a GPU, by torch's warnings."""
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            compute()
        finally:
            torch.cuda.set_sync_debug_mode(before)
    return sum("synchronizing CUDA operation" in str(warning.message) for warning in caught)
