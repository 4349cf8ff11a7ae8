"""Checks of a GPU: attention without padding, the kernels of searches, and recorded searches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from nmt.doctor.checks import VOCAB_SIZE, Check, random_batch, small_config
from nmt.errors import NmtError
from nmt.kernels.flash_attention import masked_attention
from nmt.kernels.policy import Kernels, accelerate, choose_kernels
from nmt.kernels.recording import CudaRecorder, Recorder
from nmt.machine.device import Hardware
from nmt.model.attention import attention
from nmt.model.packing import PackedAttention, PackedSequences, PackedSize
from nmt.model.transformer import Transformer
from nmt.search.beam_search import beam_search
from nmt.search.next_pieces import BLOCK
from nmt.search.settings import SearchSettings
from nmt.training.input.model_inputs import model_inputs

_ALLOWED_IN_16_BITS = 1e-2
# A kernel of ours computes the first, flash attention the second.
_SENTENCES = {"sentences": [30, 1, 200, 7, 0], "a long sequence": [3, 700]}


def check_sentence_attention(hardware: Hardware) -> list[Check]:
    """Attention over sentences one after the other, compared with the masked form in float64; nothing if it pads."""
    attend = choose_kernels(hardware.device, hardware.autocast_dtype).packed_attention
    if attend is None:
        return []
    torch.manual_seed(1)
    return [
        _check_attention(attend, hardware, subject, lengths, is_causal)
        for subject, lengths in _SENTENCES.items()
        for is_causal in (True, False)
    ]


def _check_attention(
    attend: PackedAttention, hardware: Hardware, subject: str, lengths: list[int], is_causal: bool
) -> Check:
    here, there = (
        PackedSequences.of(np.ones(sum(lengths), np.int64), lengths, PackedSize.of(lengths)).to(device)
        for device in (torch.device("cpu"), hardware.device)
    )
    query, key, value = (torch.randn(sum(lengths), 8, 64, dtype=torch.float64) for _ in "QKV")
    exact = masked_attention(query, key, value, here, here, is_causal)
    q, k, v = (x.to(hardware.device, hardware.products_dtype) for x in (query, key, value))
    name = f"attention without padding, {subject} ({'causal' if is_causal else 'all pieces'})"
    return _compared(name, attend(q, k, v, there, there, is_causal), exact)


def _compared(name: str, found: Tensor, exact: Tensor) -> Check:
    off = ((found.cpu().double() - exact).norm() / exact.norm()).item()
    detail = f"differs by {off:.1e} of its norm; allowed {_ALLOWED_IN_16_BITS:.0e}"
    return Check(name, off <= _ALLOWED_IN_16_BITS, detail)


def check_search_kernels(hardware: Hardware) -> list[Check]:
    """The kernels of steps of a search, compared with float64; nothing where torch's operations compute them."""
    kernels, checks = choose_kernels(hardware.device, hardware.autocast_dtype), list[Check]()
    torch.manual_seed(1)
    if kernels.step_attention is not None:
        query, key, value = (torch.randn(3, 8, count, 64, dtype=torch.float64) for count in (4, 160, 160))
        mask = torch.zeros(3, 4, 160, dtype=torch.float64).masked_fill_(torch.rand(3, 4, 160) < 0.5, -torch.inf)
        mask[:, :, :4] = 0
        exact = attention(query, key[:, :, :120], value[:, :, :120], mask[:, None, :, :120])
        q, k, v, m = (x.to(hardware.device, hardware.products_dtype) for x in (query, key, value, mask))
        before = torch.tensor([29], device=hardware.device)  # the 30th step of a beam of 4
        found = kernels.step_attention(q, k, v, m, before)
        checks.append(_compared("attention of recorded steps", found, exact))
    if kernels.summarize_logits is not None:
        logits = torch.randn(5, 1_000).to(hardware.device, hardware.products_dtype)
        normalizer, largest = kernels.summarize_logits(logits, BLOCK)
        exact, blocks = logits.cpu().double(), 1_000 // BLOCK
        checks.append(_compared("sums of exponentials of logits", normalizer, exact.logsumexp(1, keepdim=True)))
        of_blocks = exact[:, : blocks * BLOCK].view(5, blocks, BLOCK).amax(2)
        checks.append(_compared("largest logits", largest, of_blocks))
    return checks


def check_recorded_search(hardware: Hardware) -> list[Check]:
    """A search whose steps are recorded finds what a search without recordings finds."""
    kernels = choose_kernels(hardware.device, hardware.autocast_dtype)
    if kernels.recorder is None:
        why = CudaRecorder.failures.get(hardware.device, "this is no CUDA GPU")
        return [Check("steps of a search are recorded", False, why)]
    make_recorder = kernels.recorder
    recorders: list[Recorder] = []

    def noted() -> Recorder:
        recorders.append(make_recorder())
        return recorders[-1]

    # In float64, hypotheses do not change places where kernels round differently. Those in Triton have no float64.
    precise = replace(kernels, recorder=noted, step_attention=None, summarize_logits=None)
    expected = _search_of(replace(precise, recorder=None), torch.float64, hardware.device)
    try:
        with hardware.autocast():
            _search_of(replace(kernels, recorder=noted), torch.float32, hardware.device)
        found = _search_of(precise, torch.float64, hardware.device)
    except NmtError:  # it did not end
        found = []
    failures = [recorder.failure for recorder in recorders if recorder.failure is not None]
    same = sum(one == other for one, other in zip(found, expected, strict=False))
    return [
        Check("steps of a search are recorded", bool(recorders) and not failures, "; ".join(failures) or "all sizes"),
        Check(
            "a recorded search finds what one without recordings finds",
            same == len(expected),
            f"the hypotheses of {same} of {len(expected)} sentences are equal",
        ),
    ]


def _search_of(kernels: Kernels, dtype: torch.dtype, device: torch.device) -> list[list[Sequence[int]]]:
    """The hypotheses of each sentence, found with a model of random weights, scaled so that scores lie far apart."""
    torch.manual_seed(1)
    model = accelerate(Transformer(small_config().model, VOCAB_SIZE), kernels)
    torch.nn.init.normal_(model.embedding.weight, std=6 * model.config.d_model**-0.5)
    model = model.to(device, dtype).eval()
    source = model_inputs(random_batch(40, 20), device, model.size_of).source
    source_BS = source.slots.pad(source.tokens_N[:, None])[:, :, 0]
    found = beam_search([model], source_BS, SearchSettings(beam=4, nbest=4, max_extra_length=40))
    return [[hypothesis.pieces for hypothesis in of_sentence] for of_sentence in found]
