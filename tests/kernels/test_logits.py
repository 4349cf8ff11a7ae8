"""The kernel for logits: in Triton's interpreter, or on a GPU where there is one."""

import dataclasses
import os

import pytest
import torch

from nmt.config import ModelConfig
from nmt.kernels.policy import accelerate, choose_kernels
from nmt.model.transformer import Transformer
from nmt.search.beam_search import beam_search
from nmt.search.next_pieces import BLOCK
from nmt.search.settings import Sampling, SearchSettings
from nmt.special_ids import EOS

pytest.importorskip("triton", reason="Triton is for Linux alone")
from nmt.kernels.logits import summarize_logits

DEVICE = torch.device("cpu" if "TRITON_INTERPRET" in os.environ else "cuda")
SOURCES = [[4, 6, 9, 7, 5, EOS], [5, EOS, 0, 0, 0, 0], [7, 8, 12, EOS, 0, 0]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(("rows", "vocabulary"), [(1, 30), (5, 64), (3, 4_097), (2, 9_003)])
def test_it_is_what_float64_gives(rows, vocabulary, dtype):
    generator = torch.Generator().manual_seed(vocabulary)
    logits = (20 * torch.randn(rows, vocabulary + 5, generator=generator)).to(DEVICE, dtype)[:, :vocabulary]
    logits[0, :70] = -torch.inf  # a block without a number, and the first of several
    logits[0, 29] = 3.0
    normalizer, largest = summarize_logits(logits, BLOCK)
    exact, blocks = logits.double(), vocabulary // BLOCK
    torch.testing.assert_close(normalizer.double(), exact.logsumexp(1, keepdim=True), rtol=1e-6, atol=1e-6)
    assert torch.equal(largest.double(), exact[:, : blocks * BLOCK].reshape(rows, blocks, BLOCK).amax(2))


def test_numbers_that_are_none_are_not_hidden():
    logits = torch.zeros(2, 200, device=DEVICE)
    logits[1, 150] = torch.nan
    assert summarize_logits(logits, BLOCK)[0].isnan().flatten().tolist() == [False, True]


@pytest.mark.parametrize(
    "options",
    [
        {"beam": 1}, {"beam": 4, "nbest": 4, "min_length": 5}, {"beam": 4, "no_repeat_ngram": 2},
        {"beam": 2, "nbest": 2, "sampling": Sampling(top_k=9)},
    ],
    ids=str,
)  # fmt: skip
def test_a_search_finds_what_it_finds_without_it(options):
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 16, "d_ff": 16, "heads": 2}
    found = []
    for summarize in (None, summarize_logits):
        torch.manual_seed(1)
        kernels = dataclasses.replace(choose_kernels(None), summarize_logits=summarize)
        model = accelerate(Transformer(ModelConfig(**sizes), 1_003), kernels).to(DEVICE).eval()
        torch.nn.init.normal_(model.embedding.weight, std=0.75)  # decided models: scores far apart
        settings = SearchSettings(max_extra_length=3, **options)
        prefixes = [[], [7, 9], []]
        found.append(beam_search([model], torch.tensor(SOURCES, device=DEVICE), settings, prefixes=prefixes))
    for without, with_it in zip(*found, strict=True):
        assert [each.pieces for each in with_it] == [each.pieces for each in without]
        assert [each.score for each in with_it] == pytest.approx([each.score for each in without], rel=1e-5)
