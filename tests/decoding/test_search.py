"""Beam search against exhaustive search, greedy search, and itself in other batches."""

import itertools
import math

import pytest
import torch

from nmt.config import ModelConfig
from nmt.decoding.search import BOS, EOS, SearchSettings, beam_search, length_penalty
from nmt.model.transformer import Transformer

TINY = ModelConfig(encoder_layers=1, decoder_layers=1, d_model=8, d_ff=8, heads=2, dropout=0.0, max_positions=40)


def build(seed: int, vocab: int, spread: float = 3.0) -> Transformer:
    torch.manual_seed(seed)
    model = Transformer(TINY, vocab).double().eval()
    torch.nn.init.normal_(model.embedding.weight, std=spread / 8**0.5)  # decided models: scores far apart
    return model


def exhaustive(model: Transformer, source: list[int], alpha: float, limit: int, vocab: int):
    """Every output of at most ``limit`` pieces, scored by full decoding; best first."""
    encoded = model.encode(torch.tensor([source]))
    found = []
    for length in range(limit + 1):
        for pieces in itertools.product(range(4, vocab), repeat=length):
            log_p = torch.log_softmax(model.decode(torch.tensor([[BOS, *pieces]]), encoded)[0], -1)
            total = sum(log_p[i, piece].item() for i, piece in enumerate([*pieces, EOS]))
            found.append((total / ((5 + length + 1) / 6) ** alpha, pieces))
    return sorted(found, reverse=True)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("nbest", [1, 5])
def test_equals_exhaustive_search(alpha, seed, nbest):
    vocab, limit = 7, 4
    model = build(seed, vocab)
    source = [4, 6, EOS]
    beam = 3**limit + 3 ** (limit - 1) + 9 + 3 + 1  # a place for every prefix
    settings = SearchSettings(beam=beam, length_penalty=alpha, max_extra_length=limit - 2, nbest=nbest)
    [found] = beam_search([model], torch.tensor([source]), settings)
    expected = exhaustive(model, source, alpha, limit, vocab)[:nbest]
    assert [h.pieces for h in found] == [pieces for _, pieces in expected]
    assert [h.score for h in found] == pytest.approx([score for score, _ in expected], abs=1e-4)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_beam_of_1_is_greedy(alpha):
    model = build(0, 30)
    source = torch.tensor([[5, 9, 11, 4, EOS]])
    [[found]] = beam_search([model], source, SearchSettings(beam=1, length_penalty=alpha))
    greedy, encoded = [], model.encode(source)
    while len(greedy) < 4 + 50 and len(greedy) < 39:
        logits = model.decode(torch.tensor([[BOS, *greedy]]), encoded)[0, -1]
        logits[:3] = -math.inf
        if (piece := logits.argmax().item()) == EOS:
            break
        greedy.append(piece)
    assert list(found.pieces) == greedy


def sources(count: int, vocab: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(5)
    batch = torch.zeros(count, 13, dtype=torch.long)
    for row in range(count):
        length = int(torch.randint(1, 12, (1,), generator=generator))
        batch[row, :length] = torch.randint(4, vocab, (length,), generator=generator)
        batch[row, length] = EOS
    return batch


@pytest.mark.parametrize("beam", [1, 4])
def test_a_batch_of_64_equals_batches_of_1(beam):
    model = build(1, 50).float()
    settings = SearchSettings(beam=beam, nbest=beam, max_extra_length=10)
    batch = sources(64, 50)
    together = beam_search([model], batch, settings)
    for row, expected in zip(batch, together, strict=True):
        [alone] = beam_search([model], row[row != 0][None], settings)
        assert [h.pieces for h in alone] == [h.pieces for h in expected]
        assert [h.score for h in alone] == pytest.approx([h.score for h in expected], abs=1e-4)


def test_never_emits_what_is_no_text_and_keeps_the_limit():
    model = build(3, 20, spread=0.5)
    model.embedding.weight.data[[0, 2]] *= 40  # pad and bos would win whenever their logit is positive
    model.embedding.weight.data[EOS] *= -5
    batch = sources(16, 20)
    for source, found in zip(
        batch, beam_search([model], batch, SearchSettings(max_extra_length=3, nbest=4)), strict=True
    ):
        for hypothesis in found:
            assert not {0, 1, 2, 3} & set(hypothesis.pieces)
            assert len(hypothesis.pieces) <= (source != 0).sum() - 1 + 3


def test_least_and_most_lengths_are_kept():
    model, batch = build(8, 20), sources(16, 20)
    for settings, lengths in (
        (SearchSettings(min_length=9, max_length=9), {9}),
        (SearchSettings(min_length=12, max_extra_length=20), set(range(12, 33))),
        (SearchSettings(max_length=2), {0, 1, 2}),
        (SearchSettings(min_length=30, max_length=3), {3}),  # the limit wins
    ):
        assert {len(found[0].pieces) for found in beam_search([model], batch, settings)} <= lengths


def test_unk_comes_only_when_allowed():
    model = build(4, 20)
    model.embedding.weight.data[1] = model.embedding.weight.data[7:11].sum(0) * 2  # wins often
    batch = sources(16, 20)
    allowed = beam_search([model], batch, SearchSettings(allow_unk=True))
    assert any(1 in found[0].pieces for found in allowed)
    assert not any(1 in found[0].pieces for found in beam_search([model], batch, SearchSettings()))


def test_positions_bound_the_output():
    model = build(5, 20)
    model.embedding.weight.data[EOS] *= 0
    source = torch.full((1, 30), 7)
    source[0, -1] = EOS
    [[found]] = beam_search([model], source, SearchSettings(beam=2))
    assert len(found.pieces) <= 39


def test_an_ensemble_of_twins_is_one_of_them_and_of_strangers_their_mean():
    one, other = build(6, 30), build(7, 30)
    batch = sources(4, 30)
    settings = SearchSettings()
    assert [f[0].pieces for f in beam_search([one, one], batch, settings)] == [
        f[0].pieces for f in beam_search([one], batch, settings)
    ]
    [[found]] = beam_search([one, other], batch[:1], settings)
    target = torch.tensor([[BOS, *found.pieces]])
    mean = sum(torch.softmax(model(batch[:1], target), -1) for model in (one, other)) / 2
    gold = torch.tensor([*found.pieces, EOS])
    expected = mean[0].log().gather(1, gold[:, None]).sum().item()
    assert found.log_probability == pytest.approx(expected, abs=1e-4)
    assert found.score == pytest.approx(expected / length_penalty(len(gold), 0.6), abs=1e-4)
