"""The kernel for recorded steps: in Triton's interpreter, or on a GPU where there is one."""

import dataclasses
import math
import os

import pytest
import torch

from nmt.config import ModelConfig
from nmt.kernels.policy import accelerate, choose_kernels
from nmt.model.transformer import Transformer
from nmt.search.beam_search import beam_search
from nmt.search.settings import SearchSettings
from nmt.special_ids import EOS

pytest.importorskip("triton", reason="Triton is for Linux alone")
from nmt.kernels.step_attention import step_attention

IS_INTERPRETED = "TRITON_INTERPRET" in os.environ
DEVICE = torch.device("cpu" if IS_INTERPRETED else "cuda")
ALLOWED = {torch.float32: 2e-6, torch.float16: 1e-3, torch.bfloat16: 5e-3}
"""Differences from float64 relative to its norm."""
DTYPES = [dtype for dtype in ALLOWED if not (IS_INTERPRETED and dtype == torch.bfloat16)]  # it multiplies no bf16


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("beam", "length", "size"), [(1, 0, 64), (1, 70, 8), (4, 0, 64), (4, 39, 24), (5, 13, 136), (70, 2, 16)]
)
def test_it_is_equation_1_over_the_pieces_so_far(beam, length, size, dtype):
    generator = torch.Generator().manual_seed(beam + length)

    def drawn(*shape):
        return torch.randn(shape, generator=generator).to(DEVICE, dtype)

    used, slots = (length + 1) * beam, (length + 3) * beam
    query = drawn(3, beam, 2, size).transpose(1, 2)
    key, value = (drawn(4, 2, slots + 8, size)[:3, :, :slots] for _ in "KV")
    mask = torch.where(torch.rand(3, beam, slots + 8, generator=generator) < 0.4, 0.0, -torch.inf)
    mask[:, :, 64:128] = -torch.inf  # a block without a piece of any hypothesis' own past
    mask[:, torch.arange(beam), used - beam + torch.arange(beam)] = 0  # each sees itself
    mask = mask.to(DEVICE, dtype)[:, :, :slots]
    scores = query.double() @ key[:, :, :used].double().transpose(2, 3) / math.sqrt(size)
    expected = torch.softmax(scores + mask[:, None, :, :used].double(), dim=3) @ value[:, :, :used].double()
    for tensor in (key[:, :, used:], value[:, :, used:], mask[:, :, used:]):
        tensor.fill_(torch.nan)  # is not read
    mixed = step_attention(query, key, value, mask, torch.tensor([length], device=DEVICE))
    assert (mixed.double() - expected).norm() < ALLOWED[dtype] * expected.norm()


class NotRecorded:
    """A recorder of a device that cannot record: the work of recorded steps runs operation by operation."""

    failure = None

    def record(self, work):
        work()
        return work


def test_a_search_in_recorded_steps_finds_what_it_finds_without_it():
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 16, "d_ff": 16, "heads": 1}
    source = torch.tensor([[4, 6, 9, EOS], [5, EOS, 0, 0], [7, 8, EOS, 0]], device=DEVICE)
    found, calls = [], []

    def counted(*arguments):
        calls.append(len(arguments[0]))
        return step_attention(*arguments)

    for attend in (None, counted):
        torch.manual_seed(1)
        kernels = dataclasses.replace(
            choose_kernels(None), recorder=NotRecorded, steps_per_look=8, step_attention=attend
        )
        model = accelerate(Transformer(ModelConfig(**sizes), 40), kernels).to(DEVICE).eval()
        torch.nn.init.normal_(model.embedding.weight, std=0.75)  # decided models: scores far apart
        found.append(beam_search([model], source, SearchSettings(beam=3, nbest=3, max_extra_length=4)))
    assert calls
    for without, with_it in zip(*found, strict=True):
        assert [each.pieces for each in with_it] == [each.pieces for each in without]
        assert [each.score for each in with_it] == pytest.approx([each.score for each in without], rel=1e-5)
