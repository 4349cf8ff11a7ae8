"""Attention over sentences that lie one after the other, compared with equation 1 for each sentence alone."""

import importlib
import itertools

import numpy as np
import pytest
import torch

from nmt.config import ModelConfig
from nmt.data.rows import as_rows
from nmt.kernels import recording, sentence_rows
from nmt.kernels.policy import choose_kernels
from nmt.kernels.sentence_rows import (
    SentenceRows,
    flash_attention,
    flash_attention_if_possible,
    masked_attention,
    suits_flash_attention,
)
from nmt.model.attention import attention
from nmt.model.transformer import Transformer
from nmt.special_ids import PAD
from nmt.training.input.model_inputs import model_inputs
from nmt.training.loss import label_smoothed_loss
from tests.policies import POLICIES
from tests.training.test_learner import batch, pairs

GPU = torch.device("cuda")
needs_flash_attention = pytest.mark.skipif(flash_attention() is None, reason="needs torch 2.10")


def rows_of(*lengths: int) -> SentenceRows:
    ends = torch.tensor([0, *np.cumsum(lengths)], dtype=torch.int32)
    return SentenceRows(torch.cat([torch.arange(length) for length in lengths]), ends, max(lengths))


def heads(rows: SentenceRows) -> torch.Tensor:
    return torch.randn(rows.rows, 2, 8, dtype=torch.float64)


@pytest.mark.parametrize("is_causal", [False, True])
def test_each_query_attends_to_its_own_sentence(is_causal):
    queries = rows_of(3, 1, 5, 0)
    keys = queries if is_causal else rows_of(2, 4, 1, 0)
    query, key, value = heads(queries), heads(keys), heads(keys)
    found = masked_attention(query, key, value, queries, keys, is_causal)
    for sentence in range(3):
        q, k = (slice(*side.ends_X[sentence : sentence + 2].tolist()) for side in (queries, keys))
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
    query, key = (torch.randn(rows.rows, 2, 8, device="meta", dtype=torch.bfloat16) for rows in (queries, keys))
    assert flash_attention()(query, key, key, queries, keys, is_causal).shape == query.shape


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("is_causal", [False, True])
def test_flash_attention_is_the_masked_one(is_causal):
    queries = rows_of(3, 1, 50, 0)
    query, key, value = (heads(queries).to(GPU, torch.bfloat16).requires_grad_() for _ in "QKV")
    on_gpu = SentenceRows(queries.positions.to(GPU), queries.ends_X.to(GPU), queries.longest)
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

    monkeypatch.setattr(sentence_rows, "flash_attention", lambda: given["attend"])
    monkeypatch.setattr(sentence_rows, "_try", tried)
    monkeypatch.setattr(recording, "_try_to_record", lambda device: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: given["is_available"])
    assert flash_attention_if_possible(GPU, given["products"]) is expected
    assert choose_kernels(GPU, given["products"]).sentence_attention is expected
    assert choose_kernels(GPU, given["products"], deterministic=True).sentence_attention is None


def test_running_out_of_memory_in_the_trial_is_an_error(monkeypatch):
    def tried(attend, device, dtype):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(sentence_rows, "_try", tried)
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
    assert suits_flash_attention(64, 64)
    assert not any(suits_flash_attention(*sizes) for sizes in [(64, 32), (12, 12), (512, 512)])


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
    assert Transformer(ModelConfig(**SMALL), 30, kernels).takes_sentence_rows
    assert not Transformer(ModelConfig(**SMALL), 30, POLICIES["cuda"]).takes_sentence_rows
    assert not Transformer(ModelConfig(**SMALL | changes), 30, kernels).takes_sentence_rows


@pytest.mark.parametrize("changes", [{}, {"norm": "pre"}, {"positions": "learned"}])
@pytest.mark.parametrize("count", [1, 2, 7])
def test_a_line_of_sentences_is_learnt_as_padded_sentences_are(changes, count):
    made = batch(pairs(count))

    def learnt(*, as_line: bool):
        torch.manual_seed(1)
        model = Transformer(ModelConfig(**SMALL, **changes), 30, POLICIES["cuda-16-bit"]).double().train()
        inputs = model_inputs(made, torch.device("cpu"), as_line=as_line)
        arguments = inputs.source_BS, inputs.target_input_BT, inputs.source_places, inputs.target_places
        logits = model(*arguments)
        real = logits[inputs.target_output_BT != PAD].detach().clone()
        losses = label_smoothed_loss(logits, inputs.target_output_BT, 0.1)
        losses.smoothed.backward()
        return real, losses, {name: p.grad for name, p in model.named_parameters()}

    for found, expected in zip(learnt(as_line=True), learnt(as_line=False), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


def test_rows_of_two_passes_are_those_of_one_twice():
    side = as_rows(batch(pairs(3))).source
    once = SentenceRows(torch.from_numpy(side.places_N), torch.from_numpy(side.ends_X), side.longest)
    twice = once.twice()
    lengths = once.ends_X.diff()
    assert torch.equal(twice.ends_X.diff(), torch.cat([lengths, lengths]))
    assert torch.equal(twice.positions, once.positions.repeat(2))
    assert twice.rows == 2 * once.rows
