"""The variants of attention that the paper names: restricted (section 4), unscaled and additive (section 3.2.1)."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from nmt.config import ModelConfig
from nmt.kernels.policy import accelerate
from nmt.model.attention import attention, choose_attention
from nmt.model.masks import AdditiveMask, additive_mask
from nmt.model.transformer import Transformer
from nmt.model.variants import MIN_BLOCK, AdditiveAttention, neighbourhood, source_neighbourhood, target_neighbourhood
from tests import on_padded

LONG = 3 * MIN_BLOCK + 5


def tensors(length: int, key_size=4, value_size=3, sentences=2):
    torch.manual_seed(0)
    return [
        torch.randn(sentences, 3, length, size, dtype=torch.float64, requires_grad=True)
        for size in (key_size, key_size, value_size)
    ]


def padding(*lengths: int) -> torch.Tensor:
    return torch.arange(max(lengths)) >= torch.tensor(lengths)[:, None]


def band(padding_BS, before, after) -> AdditiveMask:
    """The mask written out, pair by pair."""
    length = padding_BS.shape[1]
    allowed = torch.zeros(len(padding_BS), length, length, dtype=torch.bool)
    for sentence, padded in enumerate(padding_BS.tolist()):
        for query in range(length):
            for key in range(length):
                allowed[sentence, query, key] = query == key or (-before <= key - query <= after and not padded[key])
    return AdditiveMask(additive_mask(~allowed, torch.float64)[:, None])


@pytest.mark.parametrize(("before", "after"), [(1, 1), (3, 0), (2, 7), (20, 20), (MIN_BLOCK + 9, 0)])
@pytest.mark.parametrize("length", [1, 5, MIN_BLOCK, MIN_BLOCK + 1, LONG])
def test_the_band_in_blocks_equals_the_mask_of_all_pairs(kernels, before, after, length):
    query, key, value = tensors(length)
    padding_BS = padding(length, max(1, length - 2 * MIN_BLOCK - 3))
    compute = kernels.attention or attention
    found = neighbourhood(padding_BS, before, after, torch.float64).attend(compute, query, key, value, 0.0)
    expected = band(padding_BS, before, after).attend(attention, query, key, value, 0.0)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)
    upstream = torch.randn_like(found)
    gradients = [torch.autograd.grad(mixed, (query, key, value), upstream) for mixed in (found, expected)]
    torch.testing.assert_close(*gradients, atol=1e-12, rtol=0)


@pytest.mark.parametrize("length", [7, LONG])
def test_a_neighbourhood_of_the_whole_sentence_is_full_attention(kernels, length):
    models = []
    for neighbours in (None, length):
        torch.manual_seed(0)
        settings = {"encoder_layers": 2, "decoder_layers": 2, "d_model": 16, "d_ff": 24, "heads": 2, "dropout": 0.0}
        config = ModelConfig(**settings, source_neighbours=neighbours, target_neighbours=neighbours)
        models.append(accelerate(Transformer(config, 30), kernels).double().eval())
    source, target = torch.randint(4, 30, (2, 3, length), generator=torch.Generator().manual_seed(1))
    source[1, length // 2 :], target[1, length // 3 :] = 0, 0
    full, restricted = (on_padded.logits(model, source, target) for model in models)
    real = target != 0
    torch.testing.assert_close(restricted[real], full[real], atol=1e-12, rtol=0)
    for logits in (full, restricted):
        logits[real].square().sum().backward()
    for one, other in zip(*(model.parameters() for model in models), strict=True):
        torch.testing.assert_close(other.grad, one.grad, atol=1e-9, rtol=1e-9)
    full_state, state = (model.start(on_padded.encoded(model, source), beam=1, room=12) for model in models)
    for position in range(min(length, 12)):
        expected = models[0].step(target[:, position, None], full_state, position)
        logits = models[1].step(target[:, position, None], state, position)
        torch.testing.assert_close(logits, expected, atol=1e-12, rtol=0)


def test_long_padded_batches_through_the_band_equal_masks_of_all_pairs(kernels, monkeypatch):
    torch.manual_seed(0)
    settings = {"encoder_layers": 2, "decoder_layers": 2, "d_model": 16, "d_ff": 24, "heads": 2, "dropout": 0.0}
    model = (
        accelerate(Transformer(ModelConfig(**settings, source_neighbours=3, target_neighbours=2), 30), kernels)
        .double()
        .train()
    )
    source, target = torch.randint(4, 30, (2, 3, LONG), generator=torch.Generator().manual_seed(1))
    source[1, MIN_BLOCK - 5 :], target[1, MIN_BLOCK + 3 :] = 0, 0
    source[2, 2 * MIN_BLOCK :], target[2, 1:] = 0, 0
    real = target != 0
    computed = []
    for by_pairs in (False, True):
        with monkeypatch.context() as patch:
            if by_pairs:
                patch.setattr("nmt.model.variants.neighbourhood", lambda padding, b, a, dtype: band(padding, b, a))
            model.zero_grad()
            logits = on_padded.logits(model, source, target)[real]
            logits.square().sum().backward()
            computed.append([logits.detach(), *(parameter.grad.clone() for parameter in model.parameters())])
    for found, expected in zip(*computed, strict=True):
        torch.testing.assert_close(found, expected, atol=1e-9, rtol=1e-9)


def test_long_neighbourhoods_compute_no_more_than_all_pairs():
    for length, neighbours in ((1_001, 500), (600, 256), (40, 16)):
        mask = source_neighbourhood(torch.zeros(1, 1, 1, length), neighbours)
        assert isinstance(mask, AdditiveMask)
        assert mask.mask.numel() == length**2


def test_a_long_restricted_target_is_the_same_step_by_step(kernels):
    torch.manual_seed(0)
    settings = {"encoder_layers": 2, "decoder_layers": 2, "d_model": 16, "d_ff": 24, "heads": 2, "dropout": 0.0}
    model = (
        accelerate(Transformer(ModelConfig(**settings, source_neighbours=3, target_neighbours=2), 30), kernels)
        .double()
        .eval()
    )
    source, target = torch.randint(4, 30, (2, 1, LONG), generator=torch.Generator().manual_seed(1))
    full = on_padded.logits(model, source, target)
    state = model.start(on_padded.encoded(model, source), beam=1, room=LONG)
    for position in range(LONG):
        logits = model.step(target[:, position, None], state, position)
        torch.testing.assert_close(logits, full[:, position], atol=1e-10, rtol=0)


@pytest.mark.parametrize("make", [source_neighbourhood, target_neighbourhood])
def test_restricted_attention_takes_linear_time_and_memory(make):
    """Counted as operations and as the numbers of the mask, the largest tensor that does not depend on d_model."""
    counts, sizes = [], []
    for length in (1_024, 2_048, 4_096, 8_192):
        mask = (
            source_neighbourhood(torch.zeros(1, 1, 1, length), 16)
            if make is source_neighbourhood
            else make(length, 16, torch.float32, torch.device("cpu"))
        )
        query = torch.empty(1, 2, length, 8, device="meta")
        on_meta = replace(mask, mask_BNCW=mask.mask_BNCW.to("meta"))
        with FlopCounterMode(display=False) as counter:
            on_meta.attend(attention, query, query, query, 0.0)
        counts.append(counter.get_total_flops())
        sizes.append(mask.mask_BNCW.numel())
    for numbers in (counts, sizes):
        assert [larger / smaller for smaller, larger in pairwise(numbers)] == [2, 2, 2]


def test_dropout_of_the_band_drops_the_share_that_is_asked_for(kernels):
    length = 8 * MIN_BLOCK
    query = torch.zeros(1, 1, length, 4, dtype=torch.float64)
    unit = torch.eye(length, dtype=torch.float64)[None, None]
    mask = neighbourhood(torch.zeros(1, length, dtype=torch.bool), 5, 5, torch.float64)
    torch.manual_seed(0)
    weights = mask.attend(kernels.attention or attention, query, query, unit, 0.5)[0, 0]
    inner = torch.stack([weights[row, row - 5 : row + 6] for row in range(5, length - 5)])
    kinds = Counter(round(weight, 6) for weight in inner.flatten().tolist())
    assert set(kinds) == {0.0, round(2 / 11, 6)}
    assert kinds[0.0] / inner.numel() == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("size", [4, 9])
def test_unscaled_attention_divides_by_nothing(kernels, size):
    query, key, value = tensors(6, key_size=size)
    found = choose_attention(ModelConfig(attention="dot_product"), kernels.attention or attention)(
        query, key, value, None, 0.0
    )
    expected = torch.softmax(query @ key.transpose(2, 3), dim=-1) @ value
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)


def test_additive_attention_is_that_of_bahdanau_and_others():
    query, key, value = tensors(5)
    additive = AdditiveAttention(3, 4).double()
    forbidden = padding(5, 3)
    found = additive(query, key, value, additive_mask(forbidden, torch.float64)[:, None, None], 0.0)
    for sentence in range(2):
        for head in range(3):
            for position in range(5):
                scores = [
                    sum(
                        additive.weight[head, k, 0] * torch.tanh(query[sentence, head, position, k] + each[k])
                        for k in range(4)
                    ).exp()
                    for each, hidden in zip(key[sentence, head], forbidden[sentence], strict=True)
                    if not hidden
                ]
                mixed = sum(score * value[sentence, head, at] for at, score in enumerate(scores)) / sum(scores)
                torch.testing.assert_close(found[sentence, head, position], mixed)


def test_the_vectors_of_additive_attention_begin_as_a_projection_to_one_number():
    """Glorot and Bengio (2010): uniform within the root of 6 / (inputs + outputs), here 6 / (d_k + 1)."""
    weight = AdditiveAttention(200, 24).weight
    bound = (6 / 25) ** 0.5
    assert 0.99 * bound < weight.abs().max().item() <= bound
    assert weight.var().item() == pytest.approx(bound**2 / 3, rel=0.1)


def test_additive_attention_drops_weights():
    query, key, value = tensors(5)
    additive = AdditiveAttention(3, 4).double()
    torch.manual_seed(1)
    assert not torch.allclose(additive(query, key, value, None, 0.5), additive(query, key, value, None, 0.0))
