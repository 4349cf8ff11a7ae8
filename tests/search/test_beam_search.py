"""Beam search against exhaustive search, greedy search, and itself in other batches."""

import itertools
import math

import pytest
import torch

from nmt.config import ModelConfig
from nmt.errors import NmtError
from nmt.kernels.policy import accelerate
from nmt.model.transformer import Transformer
from nmt.search.beam_search import beam_search
from nmt.search.hypotheses import Hypotheses, length_penalty
from nmt.search.next_pieces import BLOCK, largest
from nmt.search.settings import Sampling, SearchSettings
from nmt.special_ids import BOS, EOS
from tests import on_padded
from tests.policies import EVERY_POLICY, chosen

pytestmark = EVERY_POLICY

TINY = ModelConfig(encoder_layers=1, decoder_layers=1, d_model=8, d_ff=8, heads=2, dropout=0.0, max_positions=40)


def build(seed: int, vocab: int, spread: float = 3.0, **settings) -> Transformer:
    torch.manual_seed(seed)
    model = accelerate(Transformer(TINY.model_copy(update=settings), vocab), chosen()).double().eval()
    torch.nn.init.normal_(model.embedding.weight, std=spread / 8**0.5)  # decided models: scores far apart
    return model


def exhaustive(model: Transformer, source: list[int], alpha: float, limit: int, vocab: int, normalization="paper"):
    """Every output of at most ``limit`` pieces, scored by full decoding; best first."""
    found = []
    for length in range(limit + 1):
        outputs = list(itertools.product(range(4, vocab), repeat=length))
        inputs = torch.tensor([[BOS, *pieces] for pieces in outputs])
        ended = torch.tensor([[*pieces, EOS] for pieces in outputs])
        logits = on_padded.logits(model, torch.tensor([source] * len(outputs)), inputs)
        totals = logits.log_softmax(-1).gather(-1, ended[..., None]).sum((1, 2))
        length_itself = length + 1 if normalization == "length" else (5 + length + 1) / 6
        found += zip((totals / length_itself**alpha).tolist(), outputs, strict=True)
    return sorted(found, reverse=True)


@pytest.mark.parametrize(
    "options",
    [
        {"beam": 1}, {"beam": 4}, {"beam": 4, "nbest": 4},
        {"beam": 3, "nbest": 3, "sampling": Sampling(seed=1)}, {"beam": 4, "no_repeat_ngram": 2},
        {"beam": 2, "max_length": 3}, {"beam": 4, "min_length": 5},
        {"beam": 3, "nbest": 3, "refill_beam": True},
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("prefixes", [None, [(), (4,), (5, 6), (), (7, 7, 7, 7)]])
def test_a_host_that_looks_every_few_steps_finds_the_same(options, prefixes):
    source_BS = torch.tensor([[4, 6, 9, EOS], [5, EOS, 0, 0], [7, 8, EOS, 0], [EOS, 0, 0, 0], [8, 8, EOS, 0]])
    settings = SearchSettings(**{"max_extra_length": 12} | options)
    found = []
    for steps in (1, 3, 8):
        model = build(1, 12)
        model.steps_per_look = steps
        found.append(beam_search([model], source_BS, settings, prefixes=prefixes))
    assert found[1] == found[0]
    assert found[2] == found[0]


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("seed", [0, 1, 2, 3, 23])  # at 23, a bound at the present length would end a search too early
@pytest.mark.parametrize("nbest", [1, 5])
@pytest.mark.parametrize("normalization", ["paper", "length"])
def test_equals_exhaustive_search(alpha, seed, nbest, normalization):
    vocab, limit = 7, 4
    model = build(seed, vocab)
    source = [4, 6, EOS]
    beam = 3**limit + 3 ** (limit - 1) + 9 + 3 + 1  # a place for every prefix
    settings = SearchSettings(
        beam=beam, length_penalty=alpha, max_extra_length=limit - 2, nbest=nbest, length_normalization=normalization
    )
    [found] = beam_search([model], torch.tensor([source]), settings)
    expected = exhaustive(model, source, alpha, limit, vocab, normalization)[:nbest]
    assert [h.pieces for h in found] == [pieces for _, pieces in expected]
    assert [h.score for h in found] == pytest.approx([score for score, _ in expected], abs=1e-4)


@pytest.mark.parametrize(
    ("log_probability", "nbest", "may_improve"),
    [(-1.4, 1, True), (-1.6, 1, False), (-math.inf, 1, False), (-1.6, 2, True), (-2.6, 2, False)],
)
def test_the_bound_of_a_live_hypothesis_counts_its_end_at_the_limit(log_probability, nbest, may_improve):
    """With at most 4 pieces and eos it may be divided by 5: -1.4 / 5 is better than -0.3, -1.4 / 4 is not."""
    settings = SearchSettings(beam=3, nbest=nbest, length_penalty=1.0, length_normalization="length")
    hypotheses = Hypotheses.begin(settings, [5], None, max_positions=5)
    hypotheses.scores[0] += [-0.5, -0.3]
    step = torch.tensor([[[log_probability]], [[0.0]], [[6.0]]]).double().numpy()
    assert hypotheses.look([step]) == ([0] if may_improve else [])


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_beam_of_1_is_greedy(alpha):
    model = build(0, 30)
    source = torch.tensor([[5, 9, 11, 4, EOS]])
    [[found]] = beam_search([model], source, SearchSettings(beam=1, length_penalty=alpha))
    greedy, encoded = [], on_padded.encoded(model, source)
    while len(greedy) < 4 + 50 and len(greedy) < 39:
        logits = on_padded.decoded(model, torch.tensor([[BOS, *greedy]]), encoded)[0, -1]
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


@pytest.mark.parametrize("sampling", [None, Sampling()])
def test_what_was_finished_besides_comes_after_the_best(sampling):
    """The search does not go on for it: the best are those without it."""
    model, batch = build(1, 50).float(), sources(8, 50)
    settings = SearchSettings(beam=6, nbest=2, max_extra_length=6, sampling=sampling)
    best, whole = (beam_search([model], batch, settings, with_others=others) for others in (False, True))
    assert [found[:2] for found in whole] == best
    assert {len(found) for found in best} == {2}
    assert max(len(found) for found in whole) > 2
    for found in whole:
        scores = [hypothesis.score for hypothesis in found]
        assert scores == sorted(scores, reverse=True)
        assert len(found) == 6 or not sampling


def searched_by_the_authors(model, source, settings, prefix, vocab):
    """Tensor2Tensor's search over lists: a list of live hypotheses, and one of the best finished ones.

    At the maximum length only eos is allowed, as in ours; theirs has no such rule.
    """
    encoded = on_padded.encoded(model, torch.tensor([source] * settings.beam))
    limit = len(source) - 1 + settings.max_extra_length

    def penalty(length: int) -> float:
        return ((5 + length) / 6) ** settings.length_penalty

    live, finished = [(0.0, [])], []
    for length in range(limit + 1):
        grown = []
        targets = [[BOS, *pieces] for _, pieces in live] + [[BOS] * (length + 1)] * (settings.beam - len(live))
        log_p_BV = torch.log_softmax(on_padded.decoded(model, torch.tensor(targets), encoded)[:, -1], -1).tolist()
        for (total, pieces), log_p in zip(live, log_p_BV, strict=False):
            allowed = range(EOS if length >= settings.min_length else EOS + 1, vocab)
            if settings.no_repeat_ngram:
                allowed = [piece for piece in allowed if not repeats((*pieces, piece), settings.no_repeat_ngram)]
            if length == limit:
                allowed = [EOS]
            if length < len(prefix):
                allowed = prefix[length : length + 1]
            grown += [(total + log_p[piece], [*pieces, piece]) for piece in allowed]
        grown = sorted(grown, reverse=True)[: 2 * settings.beam]
        ended = [(total / penalty(length + 1), pieces[:-1]) for total, pieces in grown if pieces[-1] == EOS]
        finished = sorted([*finished, *ended], reverse=True)[: settings.beam]
        live = [(total, pieces) for total, pieces in grown if pieces[-1] != EOS][: settings.beam]
        if not live or (len(finished) == settings.beam and finished[-1][0] > live[0][0] / penalty(limit + 1)):
            break
    return finished


@pytest.mark.parametrize(
    "options",
    [
        {"beam": 1, "length_penalty": 8.0}, {"beam": 2}, {"beam": 4}, {"beam": 4, "length_penalty": 0.0}, {"beam": 7},
        {"beam": 3, "min_length": 4}, {"beam": 3, "no_repeat_ngram": 2}, {"beam": 4, "max_extra_length": 0},
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("has_prefixes", [False, True])
@pytest.mark.parametrize("seed", [1, 2])
def test_places_that_are_taken_again_give_the_search_of_the_authors(options, has_prefixes, seed):
    vocab, model = 12, build(seed, 12, spread=0.7)
    batch = sources(6, vocab)[:, :8]
    batch[:, 7] = torch.where(batch[:, 7] == 0, 0, EOS)
    prefixes = [[4, 5, 6][:row] for row in (0, 1, 2, 3, 1, 0)] if has_prefixes else [[]] * 6
    settings = SearchSettings(**{"refill_beam": True, "max_extra_length": 4} | options)
    every = settings.model_copy(update={"nbest": settings.beam})
    best, together = (beam_search([model], batch, each, prefixes=prefixes) for each in (settings, every))
    assert best == [found[:1] for found in together]
    for row, prefix, found in zip(batch, prefixes, together, strict=True):
        expected = searched_by_the_authors(model, row[row != 0].tolist(), settings, prefix, vocab)
        assert [list(h.pieces) for h in found] == [pieces for _, pieces in expected]
        assert [h.score for h in found] == pytest.approx([score for score, _ in expected], abs=1e-4)


def test_places_are_taken_again_only_where_that_is_set_and_never_by_samples():
    model, batch = build(1, 12, spread=1.5), sources(24, 12)
    settings = SearchSettings(beam=4, nbest=4, max_extra_length=4)
    refilled = settings.model_copy(update={"refill_beam": True})
    empty, taken = (beam_search([model], batch, each) for each in (settings, refilled))
    assert empty != taken
    one, other = (
        beam_search([model], batch, each.model_copy(update={"sampling": Sampling()})) for each in (settings, refilled)
    )
    assert one == other


def test_leaving_empty_places_out_changes_nothing(monkeypatch):
    models, batch, steps = [build(1, 50), build(2, 50)], sources(24, 50), []
    for model in models:  # a GPU never leaves them out: counting them would make the host wait
        model.steps_per_look, model.recorder = 1, None
    step = Transformer.step

    def counted(self, tokens, state, count, live=None):
        steps.append(live is not None)
        return step(self, tokens, state, count, live)

    monkeypatch.setattr(Transformer, "step", counted)
    found = []
    for least in (0.01, 2.0):  # share of empty places from which on they are left out: soon, never
        monkeypatch.setattr("nmt.search.beam_search._WORTH_PACKING", least)
        found.append([])
        for settings in (SearchSettings(beam=5, nbest=5), SearchSettings(beam=6, nbest=6, sampling=Sampling(seed=3))):
            found[-1] += beam_search(models, batch, settings)
        assert any(steps) == (least < 1)
        steps.clear()
    for some, other in zip(*found, strict=True):
        assert [h.pieces for h in some] == [h.pieces for h in other]
        assert [h.score for h in some] == pytest.approx([h.score for h in other], abs=1e-9)


@pytest.mark.parametrize("beam", [1, 4, 50])
def test_never_emits_what_is_no_text_and_keeps_the_limit(beam):
    model = build(3, 20, spread=0.5)
    model.embedding.weight.data[[0, 1, 2]] *= 40  # pad, unk and bos would win whenever their logit is positive
    model.embedding.weight.data[EOS] *= -5
    batch = sources(16, 20)
    for source, found in zip(
        batch, beam_search([model], batch, SearchSettings(beam=beam, max_extra_length=3, nbest=beam)), strict=True
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


@pytest.mark.parametrize("positions", [[40], [40, 12]])
def test_the_fewest_positions_of_the_models_bound_the_output(positions):
    models = [build(5, 20, max_positions=count) for count in positions]
    for model in models:
        model.embedding.weight.data[EOS] *= 0
    [[found]] = beam_search(models, torch.tensor([[7] * 10 + [EOS]]), SearchSettings(beam=2))
    assert len(found.pieces) == min(positions) - 1


def test_an_ensemble_of_twins_is_one_of_them_and_of_strangers_their_mean():
    one, other = build(6, 30), build(7, 30)
    batch = sources(4, 30)
    settings = SearchSettings()
    assert [f[0].pieces for f in beam_search([one, one], batch, settings)] == [
        f[0].pieces for f in beam_search([one], batch, settings)
    ]
    [[found]] = beam_search([one, other], batch[:1], settings)
    target = torch.tensor([[BOS, *found.pieces]])
    mean = sum(torch.softmax(on_padded.logits(model, batch[:1], target), -1) for model in (one, other)) / 2
    gold = torch.tensor([*found.pieces, EOS])
    expected = mean[0].log().gather(1, gold[:, None]).sum().item()
    assert found.log_probability == pytest.approx(expected, abs=1e-4)
    assert found.score == pytest.approx(expected / length_penalty(len(gold), 0.6), abs=1e-4)


def test_no_ngram_comes_twice():
    model, batch = build(9, 12, spread=6.0), sources(8, 12)
    plain = beam_search([model], batch, SearchSettings(beam=2, max_extra_length=20))
    assert any(repeats(found[0].pieces, 2) for found in plain)
    for found in beam_search([model], batch, SearchSettings(beam=2, nbest=2, max_extra_length=20, no_repeat_ngram=2)):
        assert not any(repeats(hypothesis.pieces, 2) for hypothesis in found)


def test_an_ngram_may_be_longer_than_the_outputs_that_there_is_room_for():
    model, source = build(9, 12), torch.tensor([[5, EOS]])
    expected = beam_search([model], source, SearchSettings(beam=2, max_length=5))
    for size in (5, 33, 200):
        assert beam_search([model], source, SearchSettings(beam=2, max_length=5, no_repeat_ngram=size)) == expected


def repeats(pieces, size: int) -> bool:
    grams = [pieces[i : i + size] for i in range(len(pieces) - size + 1)]
    return len(set(grams)) < len(grams)


def test_a_hypothesis_that_has_used_up_all_pieces_ends():
    model = build(6, 8)  # four pieces that may come
    settings = SearchSettings(no_repeat_ngram=1, min_length=20, nbest=4)
    [found] = beam_search([model], torch.tensor([[5, 6, EOS]]), settings)
    assert found
    assert all(sorted(hypothesis.pieces) == [4, 5, 6, 7] for hypothesis in found)


def test_a_model_that_has_diverged_is_told():
    model = build(6, 8)
    model.decoder[0].feed_forward.output.bias.data[0] = math.nan
    with pytest.raises(NmtError, match="not finite"):
        beam_search([model], torch.tensor([[5, 6, EOS]]), SearchSettings())


def test_outputs_begin_with_their_prefix_and_are_scored_whole():
    model, batch = build(10, 20), sources(4, 20)
    prefixes = [[5, 6, 7], [], [1, 9], list(range(4, 19)) * 2]  # unk where it is asked for; more than the limit
    settings = SearchSettings(beam=3, nbest=3, max_extra_length=2)
    together = beam_search([model], batch, settings, prefixes=prefixes)
    for row, (prefix, found) in enumerate(zip(prefixes, together, strict=True)):
        assert len(found) == 3 or row == 3
        encoded = on_padded.encoded(model, batch[row : row + 1])
        for hypothesis in found:
            assert list(hypothesis.pieces[: len(prefix)]) == prefix
            log_p = torch.log_softmax(
                on_padded.decoded(model, torch.tensor([[BOS, *hypothesis.pieces]]), encoded)[0], -1
            )
            total = sum(log_p[i, piece].item() for i, piece in enumerate([*hypothesis.pieces, EOS]))
            assert hypothesis.log_probability == pytest.approx(total, abs=1e-4)
    without = beam_search([model], batch, settings)
    assert [h.pieces for h in together[1]] == [h.pieces for h in without[1]]


def test_samples_depend_on_seed_and_number_and_not_on_the_batch():
    model, batch = build(11, 40, spread=1.0), sources(6, 40)

    def samples(rows: list[int], seed: int = 1) -> list[set]:
        settings = SearchSettings(beam=4, nbest=4, max_extra_length=5, sampling=Sampling(seed=seed))
        found = beam_search([model], batch[rows], settings, numbers=rows)
        return [{(h.pieces, round(h.log_probability, 4)) for h in sentence} for sentence in found]

    together = samples([0, 1, 2, 3, 4, 5])
    assert [samples([row])[0] for row in range(6)] == together
    assert samples([5, 0, 2]) == [together[5], together[0], together[2]]
    assert samples([0, 1, 2, 3, 4, 5], seed=2) != together


def test_samples_that_go_on_are_still_those_of_their_sentence():
    """Rows of finished sentences are taken by others before numbers for further steps are drawn."""
    model, batch = build(11, 12, spread=1.0), torch.tensor([[4 + row % 8, EOS] for row in range(12)])
    settings = SearchSettings(beam=1, max_extra_length=12, sampling=Sampling(seed=1))
    together = beam_search([model], batch, settings)
    alone = [beam_search([model], batch[row][None], settings, numbers=[row])[0] for row in range(12)]
    assert [found.pieces for [found] in together] == [found.pieces for [found] in alone]


def test_samples_come_as_often_as_the_model_expects():
    model = build(12, 8, spread=1.0)
    source = torch.tensor([[4, 6, EOS]])
    expected = torch.softmax(
        on_padded.decoded(model, torch.tensor([[BOS]]), on_padded.encoded(model, source))[0, 0], -1
    )
    for temperature, top_k, top_p in ((1.0, None, None), (0.5, None, None), (1.0, 3, None), (1.0, None, 0.7)):
        sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p)
        count = 2_000
        settings = SearchSettings(beam=count, nbest=count, max_length=1, sampling=sampling)
        [found] = beam_search([model], source, settings)
        counts = torch.zeros(8)
        for hypothesis in found:
            counts[hypothesis.pieces[0] if hypothesis.pieces else EOS] += 1
        share = expected.clone()
        share[[0, 1, 2]] = 0
        share = share ** (1 / temperature)
        order = share.argsort(descending=True)
        if top_k is not None:
            share[order[top_k:]] = 0
        if top_p is not None:
            before = share[order].cumsum(0) / share.sum() - share[order] / share.sum()
            share[order[before >= top_p]] = 0
        share = share / share.sum()
        assert (counts[share == 0] == 0).all()
        assert (counts / count - share).abs().max() < 0.04
        for hypothesis in found[:20]:
            piece = hypothesis.pieces[0] if hypothesis.pieces else EOS
            assert hypothesis.log_probability <= expected[piece].log().item() + 1e-4


def test_drawing_the_likeliest_alone_is_greedy():
    model, batch = build(13, 30), sources(6, 30)
    greedy = beam_search([model], batch, SearchSettings(beam=1))
    for sampling in (Sampling(top_k=1), Sampling(top_p=1e-6), Sampling(temperature=1e-4)):
        drawn = beam_search([model], batch, SearchSettings(beam=2, nbest=2, sampling=sampling))
        for [best], found in zip(greedy, drawn, strict=True):
            assert [hypothesis.pieces for hypothesis in found] == [best.pieces] * 2


@pytest.mark.parametrize("count", [1, 4, 11])
def test_the_largest_by_blocks_are_the_largest(count):
    numbers = torch.randn(7, 3_001, generator=torch.Generator().manual_seed(1))
    numbers[:, 5:9] = -torch.inf
    values, places = largest(numbers, count)
    expected = numbers.topk(count, dim=1)
    assert torch.equal(values, expected.values)
    assert torch.equal(numbers.gather(1, places), values)


@pytest.mark.parametrize("count", [1, 4, 11])
def test_the_largest_by_known_blocks_are_the_largest_although_special_pieces_are_forbidden_later(count):
    numbers = torch.randn(7, 3_001, generator=torch.Generator().manual_seed(1))
    numbers[:, :4] += 9
    largest_NX = numbers[:, : 3_001 // BLOCK * BLOCK].unflatten(1, (-1, BLOCK)).amax(dim=2)
    numbers[:, :4] = -torch.inf
    values, places = largest(numbers, count, largest_NX)
    assert torch.equal(values, numbers.topk(count, dim=1).values)
    assert torch.equal(numbers.gather(1, places), values)
