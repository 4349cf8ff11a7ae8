"""Diverse beam search against plain Python over full log-probabilities, beam search, and itself in other batches."""

import math

import pytest
import torch

from nmt.config import ModelConfig
from nmt.kernels.policy import accelerate
from nmt.machine.device import choose_hardware
from nmt.model.transformer import Transformer
from nmt.search.beam_search import beam_search
from nmt.search.diverse import choose_by_group
from nmt.search.given_targets import score_targets
from nmt.search.hypotheses import length_penalty
from nmt.search.settings import SearchSettings
from nmt.special_ids import BOS, EOS
from tests import on_padded
from tests.policies import EVERY_POLICY, chosen

pytestmark = EVERY_POLICY

TINY = ModelConfig(encoder_layers=1, decoder_layers=1, d_model=8, d_ff=8, heads=2, dropout=0.0, max_positions=40)


def build(seed: int, vocab: int) -> Transformer:
    torch.manual_seed(seed)
    model = accelerate(Transformer(TINY, vocab), chosen()).double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.7)  # decided models, some of which end early
    return model


def sources(count: int, vocab: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(5)
    batch = torch.zeros(count, 9, dtype=torch.long)
    for row in range(count):
        length = int(torch.randint(1, 8, (1,), generator=generator))
        batch[row, :length] = torch.randint(4, vocab, (length,), generator=generator)
        batch[row, length] = EOS
    return batch


def allowed(pieces: tuple[int, ...], vocab: int, settings: SearchSettings, limit: int) -> list[int]:
    """What may come after these pieces: no pad, unk and bos, and what the settings leave."""
    if len(pieces) == limit:
        return [EOS]
    begin = EOS + 1 if len(pieces) < settings.min_length else EOS
    size = settings.no_repeat_ngram
    grams = [pieces[i : i + size] for i in range(len(pieces) - size + 1)] if size else []
    return [piece for piece in range(begin, vocab) if (*pieces, piece)[-size:] not in grams]


def slow_search(models, source: list[int], settings: SearchSettings) -> list[tuple[float, tuple[int, ...]]]:
    """Group after group over the whole vocabulary, by full decoding, until no hypothesis is left; best first."""
    groups = settings.diverse_groups
    encoded = [on_padded.encoded(model, torch.tensor([source])) for model in models]

    def log_probabilities(pieces: tuple[int, ...]) -> list[float]:
        target = torch.tensor([[BOS, *pieces]])
        each = [
            torch.softmax(on_padded.decoded(model, target, own)[0, -1], -1)
            for model, own in zip(models, encoded, strict=True)
        ]
        return (sum(each) / len(each)).log().tolist()

    live = [[((), 0.0, 0.0)] for _ in range(groups)]
    places = [settings.beam // groups] * groups
    limit = len(source) - 1 + settings.max_extra_length
    found = {}
    for _ in range(limit + 1):
        taken = []
        for group in range(groups):
            extensions = []
            for pieces, total, paid in live[group]:
                log_p = log_probabilities(pieces)
                for piece in allowed(pieces, len(log_p), settings, limit):
                    cost = paid + settings.diversity * taken.count(piece)
                    extensions.append((total + log_p[piece] - cost, (*pieces, piece), total + log_p[piece], cost))
            chosen = sorted(extensions, reverse=True)[: places[group]]
            taken += [pieces[-1] for _, pieces, _, _ in chosen]
            live[group] = [(pieces, total, cost) for _, pieces, total, cost in chosen if pieces[-1] != EOS]
            for _, pieces, total, _ in chosen:
                if pieces[-1] == EOS:
                    places[group] -= 1
                    found[pieces[:-1]] = total / length_penalty(len(pieces), settings.length_penalty)
    return sorted(((score, pieces) for pieces, score in found.items()), reverse=True)


@pytest.mark.parametrize("strength", [0.0, 0.2, 0.5, 3.0, 100.0])
@pytest.mark.parametrize(("beam", "groups"), [(4, 4), (4, 2), (6, 3), (6, 2)])
@pytest.mark.parametrize("seed", [7, 35, 47])
def test_equals_plain_python_over_full_log_probabilities(strength, beam, groups, seed):
    model, batch = build(seed, 8), sources(4, 8)
    settings = SearchSettings(beam=beam, diverse_groups=groups, diversity=strength, max_extra_length=2)
    expected = [slow_search([model], source[source != 0].tolist(), settings) for source in batch]
    for nbest in (1, 3, beam):
        together = beam_search([model], batch, settings.model_copy(update={"nbest": nbest}))
        for found, slowly in zip(together, expected, strict=True):
            assert [h.pieces for h in found] == [pieces for _, pieces in slowly[:nbest]]
            assert [h.score for h in found] == pytest.approx([score for score, _ in slowly[:nbest]], abs=1e-4)


@pytest.mark.parametrize("options", [{"min_length": 4}, {"no_repeat_ngram": 2}, {"length_penalty": 0.0}])
def test_bounds_of_the_search_hold_in_every_group_and_ensemble(options):
    models, batch = [build(7, 8), build(47, 8)], sources(6, 8)
    plain = SearchSettings(beam=4, diverse_groups=2, nbest=4, max_extra_length=4)
    settings = plain.model_copy(update=options)
    together = beam_search(models, batch, settings)
    for source, found in zip(batch, together, strict=True):
        expected = slow_search(models, source[source != 0].tolist(), settings)
        assert [h.pieces for h in found] == [pieces for _, pieces in expected]
        for hypothesis in found:
            grams = list(zip(hypothesis.pieces, hypothesis.pieces[1:], strict=False))
            assert len(hypothesis.pieces) >= settings.min_length
            assert not settings.no_repeat_ngram or len(set(grams)) == len(grams)
    assert together != beam_search(models, batch, plain)


def test_one_group_is_beam_search():
    model, batch = build(45, 30), sources(16, 30)
    one = beam_search([model], batch, SearchSettings(beam=4, nbest=4, diverse_groups=1, diversity=7.0))
    assert one == beam_search([model], batch, SearchSettings(beam=4, nbest=4))


@pytest.mark.parametrize(("beam", "groups"), [(4, 4), (6, 2), (6, 3)])
def test_without_strength_every_group_is_a_narrower_beam(beam, groups):
    model, batch = build(45, 30), sources(16, 30)
    narrow = SearchSettings(beam=beam // groups, nbest=beam // groups)
    wide = SearchSettings(beam=beam, nbest=beam, diverse_groups=groups, diversity=0.0)
    for expected, found in zip(beam_search([model], batch, narrow), beam_search([model], batch, wide), strict=True):
        # All groups find the same, which is returned once.
        assert [h.pieces for h in found] == [h.pieces for h in expected]
        assert [h.score for h in found] == pytest.approx([h.score for h in expected], abs=1e-4)


def test_groups_begin_differently_when_that_is_worth_all():
    model, batch = build(45, 30), sources(16, 30)
    settings = SearchSettings(beam=6, nbest=6, diverse_groups=6, diversity=100.0, min_length=1)
    plain = beam_search([model], batch, SearchSettings(beam=6, nbest=6, min_length=1))
    beginnings = [[h.pieces[0] for h in found] for found in beam_search([model], batch, settings)]
    assert all(len(set(pieces)) == 6 for pieces in beginnings)
    assert any(len({h.pieces[0] for h in found}) < 6 for found in plain)


def test_the_first_group_is_a_narrower_beam_whatever_the_others_do():
    model, batch = build(45, 30), sources(16, 30)
    narrow = beam_search([model], batch, SearchSettings(beam=2, nbest=2))
    for strength in (0.5, 100.0):
        diverse = beam_search([model], batch, SearchSettings(beam=6, nbest=6, diverse_groups=3, diversity=strength))
        for expected, found in zip(narrow, diverse, strict=True):
            assert {h.pieces for h in expected} <= {h.pieces for h in found}
            assert len({h.pieces for h in found}) == len(found) <= 6


@pytest.mark.parametrize(("beam", "groups"), [(4, 4), (6, 2)])
def test_a_batch_equals_batches_of_1(beam, groups):
    model, batch = build(7, 50).float(), sources(32, 50)
    settings = SearchSettings(beam=beam, nbest=beam, diverse_groups=groups, max_extra_length=10)
    for row, expected in zip(batch, beam_search([model], batch, settings), strict=True):
        [alone] = beam_search([model], row[row != 0][None], settings)
        assert [h.pieces for h in alone] == [h.pieces for h in expected]
        assert [h.score for h in alone] == pytest.approx([h.score for h in expected], abs=1e-4)


def test_prefixes_are_kept_by_every_group():
    model, batch = build(8, 20), sources(4, 20)
    prefixes = [[5, 6], [], [1, 9], [7]]
    settings = SearchSettings(beam=4, nbest=4, diverse_groups=4, diversity=100.0, max_extra_length=6)
    for prefix, found in zip(prefixes, beam_search([model], batch, settings, prefixes=prefixes), strict=True):
        assert all(list(h.pieces[: len(prefix)]) == prefix for h in found)
        assert len({h.pieces[len(prefix)] if len(h.pieces) > len(prefix) else EOS for h in found}) == len(found) == 4


def test_scores_are_those_of_the_model_alone():
    model, batch = build(45, 30).float(), sources(8, 30)
    settings = SearchSettings(beam=6, nbest=6, diverse_groups=3, diversity=5.0)
    for source, found in zip(batch, beam_search([model], batch, settings), strict=True):
        assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)
        scores = score_targets(
            [model],
            [source[source > EOS].tolist()] * len(found),
            [h.pieces for h in found],
            choose_hardware("cpu", "fp32", 1),
        )
        assert [h.log_probability for h in found] == pytest.approx([s.log_probability for s in scores], abs=1e-4)
        assert [h.score for h in found] == pytest.approx([s.score for s in scores], abs=1e-4)


def test_a_vocabulary_smaller_than_a_group():
    model = build(10, 5)
    settings = SearchSettings(beam=12, nbest=12, diverse_groups=2, diversity=0.3, max_extra_length=2)
    source = [4, 4, EOS]
    [found] = beam_search([model], torch.tensor([source]), settings)
    assert [h.pieces for h in found] == [pieces for _, pieces in slow_search([model], source, settings)]


def test_an_empty_place_takes_no_piece():
    # The first group has one place left: its second choice costs the second group nothing.
    extended_BWK = torch.tensor([[[-1.0, -2.0], [-9.0, -9.0], [-3.0, -3.1], [-9.0, -9.0]]])
    pieces_BWK = torch.tensor([[[5, 6], [5, 6], [6, 7], [5, 6]]])
    best, index, paid = choose_by_group(
        extended_BWK, pieces_BWK, torch.zeros(1, 4), torch.tensor([[1, 2]]), strength=0.5
    )
    assert best[0].tolist() == pytest.approx([-1.0, -math.inf, -3.0, -3.1])
    assert index[0, [0, 2, 3]].tolist() == [0, 4, 5]
    assert paid[0, 2:].tolist() == [0.0, 0.0]
