"""Attention within packed sequences, compared with equation 1 for each sentence alone."""

import importlib
import itertools

import numpy as np
import pytest
import torch

from nmt.config import ModelConfig
from nmt.kernels import flash_attention as module
from nmt.kernels import recording
from nmt.kernels.flash_attention import (
    flash_attention,
    flash_attention_if_possible,
    masked_attention,
    suits_flash_attention,
)
from nmt.kernels.policy import accelerate, choose_kernels
from nmt.model.attention import attention
from nmt.model.packing import PackedSequences, PackedSize
from nmt.model.transformer import Transformer
from nmt.special_ids import PAD
from nmt.training.input.model_inputs import model_inputs
from nmt.training.loss import label_smoothed_loss
from tests.policies import POLICIES
from tests.training.test_learner import batch, pairs

GPU = torch.device("cuda")
needs_flash_attention = pytest.mark.skipif(flash_attention() is None, reason="needs torch 2.10")


def rows_of(*lengths: int, device: torch.device | str = "cpu") -> PackedSequences:
    return PackedSequences.of(np.ones(sum(lengths)), lengths, PackedSize.of(lengths)).to(torch.device(device))


def heads(rows: PackedSequences) -> torch.Tensor:
    return torch.randn(len(rows.tokens_N), 2, 8, dtype=torch.float64)


@pytest.mark.parametrize("is_causal", [False, True])
def test_each_query_attends_to_its_own_sentence(is_causal):
    queries = rows_of(3, 1, 5, 0)
    keys = queries if is_causal else rows_of(2, 4, 1, 0)
    query, key, value = heads(queries), heads(keys), heads(keys)
    found = masked_attention(query, key, value, queries, keys, is_causal)
    for sentence in range(3):
        q, k = (slice(*side.cu_seqlens[sentence : sentence + 2].tolist()) for side in (queries, keys))
        length = q.stop - q.start
        later = torch.zeros(length, length, dtype=torch.float64)
        later.masked_fill_(torch.ones(length, length, dtype=torch.bool).triu(1), -torch.inf)
        alone = (part.transpose(0, 1) for part in (query[q], key[k], value[k]))
        expected = attention(*alone, mask=later if is_causal else None).transpose(0, 1)
        torch.testing.assert_close(found[q], expected)


@needs_flash_attention
@pytest.mark.parametrize("is_causal", [False, True])
def test_flash_attention_is_called_as_this_torch_takes_it(is_causal):
    """Flash attention needs a GPU; on the device ``meta``, torch checks the call and gives the shape of the result."""
    queries, keys = rows_of(3, 1, 5), rows_of(2, 4, 1)
    query, key = (
        torch.randn(len(rows.tokens_N), 2, 8, device="meta", dtype=torch.bfloat16) for rows in (queries, keys)
    )
    assert flash_attention()(query, key, key, queries, keys, is_causal).shape == query.shape


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("is_causal", [False, True])
def test_flash_attention_is_the_masked_one(is_causal):
    queries = rows_of(3, 1, 50, 0)
    query, key, value = (heads(queries).to(GPU, torch.bfloat16).requires_grad_() for _ in "QKV")
    on_gpu = rows_of(3, 1, 50, 0, device=GPU)
    results = []
    for attend in (flash_attention(), masked_attention):
        mixed = attend(query, key, value, on_gpu, on_gpu, is_causal)
        results.append((mixed, *torch.autograd.grad(mixed.square().sum(), (query, key, value))))
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize(
    "changes",
    [{}, {"products": None}, {"products": torch.float32}, {"is_available": False}, {"attend": None}, {"fails": True}],
    ids=str,
)
def test_only_a_gpu_that_has_flash_attention_takes_it(monkeypatch, changes):
    given = {"products": torch.bfloat16, "is_available": True, "attend": object(), "fails": False} | changes
    expected = None if changes else given["attend"]

    def tried(attend, device, dtype):
        if given["fails"]:
            raise RuntimeError("No available kernel")

    monkeypatch.setattr(module, "flash_attention", lambda: given["attend"])
    monkeypatch.setattr(module, "_try", tried)
    monkeypatch.setattr(recording, "_try_to_record", lambda device: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: given["is_available"])
    assert flash_attention_if_possible(GPU, given["products"]) is expected
    assert choose_kernels(GPU, given["products"]).packed_attention is expected
    assert choose_kernels(GPU, given["products"], deterministic=True).packed_attention is None


def test_running_out_of_memory_in_the_trial_is_an_error(monkeypatch):
    def tried(attend, device, dtype):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(module, "_try", tried)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(torch.OutOfMemoryError):
        flash_attention_if_possible(GPU, torch.bfloat16)


@needs_flash_attention
def test_flash_attention_gives_what_masked_attention_gives(monkeypatch):
    """With a double of the GPU's kernel, which knows only the arguments that it gets."""

    def double(query, key, value, query_ends, key_ends, most_queries, most_keys, window_size=(-1, -1)):
        lengths = query_ends.diff().max(), key_ends.diff().max()
        assert lengths <= (most_queries, most_keys)
        parts = []
        for q, k in zip(itertools.pairwise(query_ends), itertools.pairwise(key_ends), strict=True):
            one, other, third = (x[slice(*ends)].transpose(0, 1) for x, ends in ((query, q), (key, k), (value, k)))
            mask = None if window_size == (-1, -1) else torch.ones(one.shape[1], one.shape[1]).triu(1) * -1e9
            parts.append(attention(one, other, third, mask).transpose(0, 1))
        return torch.cat(parts)

    monkeypatch.setattr(importlib.import_module("torch.nn.attention.varlen"), "varlen_attn", double)
    queries, keys = rows_of(3, 1, 5), rows_of(2, 4, 1)
    for rows, is_causal in ((queries, True), (queries, False), (keys, False)):
        query, key, value = heads(queries), heads(rows), heads(rows)
        arguments = query, key, value, queries, rows, is_causal
        torch.testing.assert_close(flash_attention()(*arguments), masked_attention(*arguments))


def test_flash_attention_takes_heads_of_certain_sizes():
    def suits(key: int, value: int) -> bool:
        return suits_flash_attention(ModelConfig(d_k=key, d_v=value))

    assert suits(64, 64)
    assert not any(suits(*sizes) for sizes in [(64, 32), (12, 12), (512, 512)])


SMALL = {"encoder_layers": 2, "decoder_layers": 2, "d_model": 16, "d_ff": 24, "heads": 2, "dropout": 0.0}


@pytest.mark.parametrize(
    "changes",
    [
        {"attention": "additive"}, {"attention": "dot_product"}, {"attention_dropout": 0.1}, {"source_neighbours": 2},
        {"source_eos": False},
        {"target_neighbours": 2}, {"d_k": 5, "d_v": 3},
    ],
    ids=str,
)  # fmt: skip
def test_models_with_another_attention_pad_their_sentences(changes):
    kernels = POLICIES["cuda-16-bit"]
    assert accelerate(Transformer(ModelConfig(**SMALL), 30), kernels).packed_attention is masked_attention
    assert accelerate(Transformer(ModelConfig(**SMALL), 30), POLICIES["cuda"]).packed_attention is None
    assert accelerate(Transformer(ModelConfig(**SMALL | changes), 30), kernels).packed_attention is None


@pytest.mark.parametrize("changes", [{}, {"norm": "pre"}, {"positions": "learned"}])
@pytest.mark.parametrize("count", [1, 2, 7])
def test_a_batch_is_learnt_as_with_padding(changes, count):
    made = batch(pairs(count))

    def learnt(kernels):
        torch.manual_seed(1)
        model = accelerate(Transformer(ModelConfig(**SMALL, **changes), 30), kernels).double().train()
        inputs = model_inputs(made, torch.device("cpu"), model.size_of)
        logits = model(inputs.source, inputs.target)
        real = logits[inputs.target_output_N != PAD].detach().clone()
        losses = label_smoothed_loss(logits, inputs.target_output_N, 0.1)
        losses.smoothed.backward()
        return real, losses, {name: p.grad for name, p in model.named_parameters()}

    for found, expected in zip(learnt(POLICIES["cuda-16-bit"]), learnt(POLICIES["cuda"]), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
