"""Forced decoding against the search, and against a computation piece by piece in float64."""

import copy
import math

import pytest
import torch

from nmt.config import ModelConfig
from nmt.kernels.policy import accelerate
from nmt.machine.device import choose_hardware
from nmt.model.observing import AttentionObserver
from nmt.model.transformer import Transformer
from nmt.search import given_targets
from nmt.search.beam_search import beam_search
from nmt.search.given_targets import score_targets
from nmt.search.settings import SearchSettings
from nmt.special_ids import BOS, EOS, PAD, UNK
from tests import on_padded
from tests.policies import EVERY_POLICY, chosen

pytestmark = EVERY_POLICY

VOCAB = 30
CPU = choose_hardware("cpu", "fp32", 1)


def build(seed: int, *, layers: int = 2, max_positions: int = 40, alignment_layer: int | None = None) -> Transformer:
    torch.manual_seed(seed)
    config = ModelConfig(
        encoder_layers=1, decoder_layers=layers, d_model=16, d_ff=16, heads=2, dropout=0.0, max_positions=max_positions,
        alignment_layer=alignment_layer,
    )  # fmt: skip
    model = accelerate(Transformer(config, VOCAB), chosen()).eval()
    torch.nn.init.normal_(model.embedding.weight, std=3 / 16**0.5)  # decided models: scores far apart
    return model


def sentences(count: int, seed: int = 5, longest: int = 12) -> list[list[int]]:
    draw = torch.Generator().manual_seed(seed)
    lengths = torch.randint(0, longest + 1, (count,), generator=draw).tolist()
    return [torch.randint(4, VOCAB, (length,), generator=draw).tolist() for length in lengths]


def padded(sources: list[list[int]]) -> torch.Tensor:
    width = max(map(len, sources)) + 1
    return torch.tensor([[*source, EOS, *[PAD] * (width - len(source) - 1)] for source in sources])


def step_by_step(models: list[Transformer], source: list[int], target: list[int]) -> list[float]:
    """log of the mean probability of each piece and eos, from cached steps in float64."""
    models = [copy.deepcopy(model).double() for model in models]
    encoded = [on_padded.encoded(model, torch.tensor([[*source, EOS]])) for model in models]
    room = len(target) + 1
    states = [model.start(memory, beam=1, room=room) for model, memory in zip(models, encoded, strict=True)]
    found, before = [], BOS
    for count, piece in enumerate([*target, EOS]):
        probability = 0.0
        for model, state in zip(models, states, strict=True):
            logits = model.step(torch.tensor([[before]]), state, count)
            probability += torch.softmax(logits[0], dim=0)[piece].item() / len(models)
        found.append(math.log(probability))
        before = piece
    return found


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_equals_the_search_on_what_it_found(beam, count, alpha):
    models = [build(seed) for seed in range(count)]
    sources = sentences(24)
    settings = SearchSettings(beam=beam, nbest=beam, length_penalty=alpha, max_extra_length=10)
    found = beam_search(models, padded(sources), settings)
    pairs = [(source, hypothesis) for source, beams in zip(sources, found, strict=True) for hypothesis in beams]
    assert any(len(hypothesis.pieces) == len(source) + 10 for source, hypothesis in pairs)  # ended by the limit too
    scores = score_targets(
        models, [source for source, _ in pairs], [list(hypothesis.pieces) for _, hypothesis in pairs], CPU, alpha=alpha
    )
    for score, (_, hypothesis) in zip(scores, pairs, strict=True):
        assert score.log_probability == pytest.approx(hypothesis.log_probability, abs=1e-4)
        assert score.score == pytest.approx(hypothesis.score, abs=1e-4)
        assert len(score.piece_log_probabilities) == len(hypothesis.pieces) + 1


@pytest.mark.parametrize("count", [1, 2])
def test_equals_steps_in_float64(count):
    models = [build(seed) for seed in range(count)]
    sources, targets = sentences(12), sentences(12, seed=6)
    precise = [copy.deepcopy(model).double() for model in models]
    in_double = score_targets(precise, sources, targets, CPU)
    in_single = score_targets(models, sources, targets, CPU)
    for source, target, double, single in zip(sources, targets, in_double, in_single, strict=True):
        expected = step_by_step(models, source, target)
        assert double.piece_log_probabilities == pytest.approx(expected, abs=1e-10)
        assert double.log_probability == pytest.approx(sum(expected), abs=1e-9)
        assert single.piece_log_probabilities == pytest.approx(expected, abs=1e-4)
        assert single.score == pytest.approx(sum(expected) / ((5 + len(expected)) / 6) ** 0.6, abs=1e-4)


@pytest.mark.parametrize(("free", "positions"), [(None, 400), (10**12, 400), (0, 10), (10**6, None)])
def test_no_more_is_scored_at_once_than_fits_into_the_memory(monkeypatch, free, positions):
    model, sizes = build(0), []
    encode = model.encode
    monkeypatch.setattr(model, "encode", lambda source: sizes.append(int(source.lengths_B.sum())) or encode(source))
    monkeypatch.setattr(given_targets, "free_memory", lambda device: free)
    pair = [9] * 9
    found = score_targets([model], [pair] * 40, [pair] * 40, CPU, batch_tokens=400)
    if free == 10**6:
        numbers = 3 * model.vocab_size + 4 * (model.config.d_ff + 4 * model.config.d_model)
        positions = int(0.5 * free) // (4 * numbers) // 10 * 10
        assert 10 < positions < 400
    assert max(sizes) == positions
    for score in found:
        assert score.log_probability == pytest.approx(found[0].log_probability, abs=1e-4)


@pytest.mark.parametrize("batch_tokens", [1, 40, 100_000])
def test_batches_change_nothing_and_order_is_kept(batch_tokens):
    models = [build(0), build(1)]
    sources, targets = sentences(40), sentences(40, seed=7, longest=20)
    expected = [score_targets(models, [s], [t], CPU, aligns=True)[0] for s, t in zip(sources, targets, strict=True)]
    found = score_targets(models, sources, targets, CPU, batch_tokens=batch_tokens, aligns=True)
    for score, alone in zip(found, expected, strict=True):
        assert score.piece_log_probabilities == pytest.approx(alone.piece_log_probabilities, abs=1e-5)
        assert score.alignment == alone.alignment


def test_what_no_search_returns_is_impossible():
    model, source = build(2), [5, 6, 7]
    targets = [[4, UNK, 5], [4, BOS, 5], [4, PAD, 5], [4, 9, 5]]
    unk, bos, pad, plain = score_targets([model], [source] * 4, targets, CPU)
    assert {bos.score, pad.score} == {-math.inf}
    assert plain.score > -math.inf
    assert [math.isinf(p) for p in bos.piece_log_probabilities] == [False, True, False, False]
    # Given texts may hold unk.
    assert unk.piece_log_probabilities == pytest.approx(step_by_step([model], source, targets[0]), abs=1e-4)


def test_pairs_up_to_the_positions_are_scored_and_longer_ones_impossible():
    models = [build(0), build(3, max_positions=12)]
    sources = [[5] * 11, [5] * 12, [5], [5], []]
    targets = [[6] * 11, [6], [6] * 12, [], []]
    fits, long_source, long_target, empty, nothing = score_targets(models, sources, targets, CPU, aligns=True)
    assert fits.piece_log_probabilities == pytest.approx(step_by_step(models, sources[0], targets[0]), abs=1e-4)
    assert long_source.piece_log_probabilities == (-math.inf,) * 2
    assert long_target.piece_log_probabilities == (-math.inf,) * 13
    assert (long_source.alignment, long_target.alignment) == (None, None)
    assert empty.piece_log_probabilities == pytest.approx(step_by_step(models, [5], []), abs=1e-4)
    assert nothing.alignment == ()
    assert score_targets(models, [], [], CPU) == []


def test_alignment_follows_the_attention_of_the_head_that_learnt_it_or_of_a_whole_layer():
    unguided, guided = ([build(seed, layers=3, alignment_layer=layer) for seed in (4, 5)] for layer in (None, 2))
    deep = [build(seed, layers=4) for seed in (4, 5)]
    sources, targets = sentences(8), sentences(8, seed=9)

    def looks(models: list[Transformer], layer: int, heads: int) -> list[list[int | None]]:
        found = []
        for source, target in zip(sources, targets, strict=True):
            weights = []
            for built in models:
                seen = {}
                encoded = on_padded.encoded(built, torch.tensor([[*source, EOS]]))
                on_padded.decoded(
                    built, torch.tensor([[BOS, *target]]), encoded, observer=AttentionObserver(memory=seen.__setitem__)
                )
                assert sorted(seen) == list(range(built.config.decoder_layers))
                assert torch.allclose(seen[layer].sum(-1), torch.ones(1))
                weights.append(seen[layer][0, :heads].mean(0))
            of_pieces = sum(weights)[:-1] / len(models)
            shares = (of_pieces[:, :-1] / of_pieces[:, :-1].sum(0)).argmax(-1).tolist()
            has_most = (of_pieces.argmax(-1) == len(source)).tolist()
            found.append([None if is_eos else index for is_eos, index in zip(has_most, shares, strict=True)])
        return found

    for models, layer, heads in ((unguided, 2, 2), (deep, 2, 2), (guided, 1, 1)):
        for some in (models[:1], models):
            scores = score_targets(some, sources, targets, CPU, aligns=True)
            assert [list(score.alignment) for score in scores] == looks(some, layer, heads)
    assert looks(unguided, 1, 2) != looks(unguided, 2, 1)
    assert score_targets(unguided, sources[:1], targets[:1], CPU)[0].alignment is None


def test_models_of_an_ensemble_may_have_other_numbers_of_rows():
    """On a GPU, a model whose attention pads its sentences has other spare rows."""
    models = [build(0), build(1)]
    sources, targets = sentences(20), sentences(20, seed=7)
    expected = score_targets(models, sources, targets, CPU)
    models[1].rows_per_octave = 2
    found = score_targets(models, sources, targets, CPU)
    for one, other in zip(found, expected, strict=True):
        assert one.piece_log_probabilities == pytest.approx(other.piece_log_probabilities, abs=1e-4)
