"""Attention within packed sequences, compared with equation 1 for each sentence alone."""

import subprocess
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from nmt.config import ModelConfig
from nmt.kernels import policy, recording
from nmt.kernels.flash_attention import flash_attention, masked_attention, suits_packed_attention, try_attention
from nmt.kernels.policy import accelerate, choose_kernels, packed_attention_if_possible
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


SENTENCES, FLASH = "the kernel for sentences", "flash attention"


@pytest.mark.parametrize(
    ("changes", "up_to_512", "beyond", "deterministic"),
    [
        ({}, SENTENCES, FLASH, SENTENCES),
        ({"device": torch.device("mps")}, None, None, None),
        ({"products": None}, None, None, None),
        ({"products": torch.float32}, None, None, None),
        ({"is_available": False}, None, None, None),
        ({"capability": (7, 5)}, None, None, None),
        ({"has": [FLASH]}, FLASH, FLASH, None),
        ({"works": [FLASH]}, FLASH, FLASH, None),
        ({"has": [SENTENCES]}, SENTENCES, SENTENCES, SENTENCES),
        ({"works": [SENTENCES]}, SENTENCES, SENTENCES, SENTENCES),
        ({"works": []}, None, None, None),
        ({"has": []}, None, None, None),
    ],
    ids=str,
)
def test_attention_without_padding_is_chosen_by_length_among_what_a_gpu_can(
    monkeypatch, changes, up_to_512, beyond, deterministic
):
    given = {"device": GPU, "products": torch.float16, "is_available": True, "capability": (8, 0)}
    given |= {"has": [SENTENCES, FLASH], "works": [SENTENCES, FLASH]} | changes
    looked_for = []

    def attend(name):
        return lambda *arguments: name

    def find_flash_attention():
        looked_for.append(FLASH)
        return attend(FLASH) if FLASH in given["has"] else None

    ours = SimpleNamespace(sentence_attention=attend(SENTENCES)) if SENTENCES in given["has"] else None
    monkeypatch.setitem(sys.modules, "nmt.kernels.sentence_attention", ours)
    monkeypatch.setattr(policy, "flash_attention", find_flash_attention)
    monkeypatch.setattr(policy, "try_attention", lambda attend, device, dtype: given["works"].index(attend()))
    monkeypatch.setattr(recording, "_try_to_record", lambda device: None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: given["is_available"])
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: given["capability"])
    by_length, exact = (
        choose_kernels(given["device"], given["products"], deterministic=is_exact).packed_attention
        for is_exact in (False, True)
    )
    short, longer = rows_of(512), rows_of(513)
    if up_to_512 == SENTENCES:
        with monkeypatch.context() as tracing:  # a compiler cannot trace a trial
            tracing.setattr(torch.compiler, "is_compiling", lambda: True)
            assert by_length(None, None, None, longer, longer, True) == SENTENCES
        assert by_length(None, None, None, short, short, True) == SENTENCES
        assert not looked_for
    for queries, keys, expected in (
        (short, short, up_to_512), (short, longer, beyond), (longer, short, beyond), (short, short, up_to_512)
    ):  # fmt: skip
        assert (by_length and by_length(None, None, None, queries, keys, False)) == expected
    assert (exact and exact(None, None, None, longer, longer, True)) == deterministic
    assert len(looked_for) <= 1


@pytest.mark.parametrize("is_inference", [False, True])
def test_a_trial_computes_gradients_also_where_a_search_has_switched_them_off(is_inference):
    with torch.inference_mode(is_inference):
        try_attention(masked_attention, torch.device("cpu"), torch.float32)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("No available kernel"),
        subprocess.CalledProcessError(1, ["cc"]),
        torch.OutOfMemoryError("CUDA out of memory"),
    ],
    ids=str,
)
def test_a_trial_that_fails_is_no_error_unless_memory_ran_out(monkeypatch, error):
    def fail(attend, device, dtype):
        raise error

    monkeypatch.setattr(policy, "try_attention", fail)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    is_error = isinstance(error, torch.OutOfMemoryError)
    with pytest.raises(type(error)) if is_error else nullcontext():
        assert packed_attention_if_possible(GPU, torch.float16) is None


def test_attention_without_padding_takes_heads_of_certain_sizes():
    def suits(key: int, value: int) -> bool:
        return suits_packed_attention(ModelConfig(d_k=key, d_v=value))

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
