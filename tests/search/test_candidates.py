"""Searches with short-lists, against a full search whose other pieces are forbidden."""

import math

import numpy as np
import pytest
import torch

from nmt.config import ModelConfig
from nmt.data.short_lists import ShortLists
from nmt.kernels.linear import prepack
from nmt.kernels.packing import rounded_up
from nmt.model.transformer import Transformer
from nmt.search.beam_search import beam_search
from nmt.search.settings import Sampling, SearchSettings
from nmt.special_ids import BOS, EOS, PAD
from tests.policies import EVERY_POLICY, chosen

pytestmark = EVERY_POLICY

TINY = ModelConfig(encoder_layers=1, decoder_layers=1, d_model=8, d_ff=8, heads=2, dropout=0.0, max_positions=40)
VOCAB = 60


def build(seed: int) -> Transformer:
    torch.manual_seed(seed)
    model = Transformer(TINY, VOCAB, chosen()).double().eval()
    torch.nn.init.normal_(model.embedding.weight, std=1.0)  # decided models: scores far apart
    return model


def make_lists(size: int) -> ShortLists:
    """Lists of ``size`` random pieces."""
    generator = np.random.default_rng(3)
    pieces = np.concatenate([generator.permutation(np.arange(4, VOCAB))[:size] for _ in range(VOCAB)])
    starts = np.arange(VOCAB + 1) * size
    return ShortLists(starts, pieces.astype(np.int32), np.array([50, 51], dtype=np.int32), "", "", 1)


def sources(count: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(5)
    batch = torch.zeros(count, 9, dtype=torch.long)
    for row in range(count):
        length = int(torch.randint(1, 8, (1,), generator=generator))
        batch[row, :length] = torch.randint(4, VOCAB, (length,), generator=generator)
        batch[row, length] = EOS
    return batch


def restricted(model: Transformer, allowed: np.ndarray) -> Transformer:
    """A model that gives no probability to other pieces."""
    project, forbidden = model.embedding.project, torch.ones(VOCAB, dtype=torch.bool)
    forbidden[allowed] = False
    model.embedding.project = lambda x: project(x).masked_fill(forbidden, -torch.inf)
    return model


SEARCHES = [
    SearchSettings(beam=1, max_extra_length=8),
    SearchSettings(beam=4, nbest=4, max_extra_length=8),
    SearchSettings(beam=4, nbest=4, max_extra_length=8, no_repeat_ngram=1),
    SearchSettings(beam=4, nbest=4, max_extra_length=8, diverse_groups=2),
    SearchSettings(beam=4, nbest=4, max_extra_length=8, sampling=Sampling(seed=3)),
    SearchSettings(beam=4, nbest=4, max_extra_length=8, sampling=Sampling(top_k=5, top_p=0.9)),
    SearchSettings(beam=3, nbest=3, max_extra_length=8, min_length=6, allow_unk=True),
    SearchSettings(beam=60, nbest=20, max_extra_length=3),  # a beam wider than a list
]


@pytest.mark.parametrize("settings", SEARCHES)
@pytest.mark.parametrize("size", [2, 9, VOCAB - 4])
def test_equals_a_full_search_whose_other_pieces_have_no_probability(settings, size):
    lists, batch = make_lists(size), sources(12)
    prefixes = [[7, 44] if row % 3 == 0 else [] for row in range(len(batch))]  # 7 and 44 need not be in the lists
    together = beam_search([build(1)], batch, settings, prefixes=prefixes, short_lists=lists)
    for row, (source, found) in enumerate(zip(batch, together, strict=True)):
        allowed = np.concatenate(
            [lists.of_sentence(source[source > EOS].numpy()), np.array(prefixes[row], dtype=np.int64)]
        )
        model = restricted(build(1), allowed)
        [expected] = beam_search([model], source[None], settings, prefixes=[prefixes[row]], numbers=[row])
        assert [h.pieces for h in found] == [h.pieces for h in expected]
        assert [h.score for h in found] == pytest.approx([h.score for h in expected], abs=1e-5)


def test_an_ensemble_equals_a_full_search_of_it():
    lists, batch, settings = make_lists(9), sources(12), SearchSettings(beam=4, nbest=4, max_extra_length=8)
    together = beam_search([build(1), build(2)], batch, settings, short_lists=lists)
    for source, found in zip(batch, together, strict=True):
        models = [restricted(build(seed), lists.of_sentence(source[source > EOS].numpy())) for seed in (1, 2)]
        [expected] = beam_search(models, source[None], settings)
        assert [h.pieces for h in found] == [h.pieces for h in expected]
        assert [h.score for h in found] == pytest.approx([h.score for h in expected], abs=1e-5)


def test_candidates_have_few_sizes():
    sizes = [rounded_up(count, 2) for count in range(1, 3_000)]
    assert all(size >= count for count, size in enumerate(sizes, start=1))
    assert len(set(sizes)) < 2 * math.log2(3_000) + 2


def test_a_sentence_without_any_allowed_piece_ends():
    lists = ShortLists(np.zeros(VOCAB + 1, dtype=np.int64), *[np.empty(0, dtype=np.int32)] * 2, "", "", 1)
    settings = SearchSettings(beam=2, min_length=3)
    [[found]] = beam_search([build(1)], torch.tensor([[EOS]]), settings, short_lists=lists)
    assert found.pieces == ()


@pytest.mark.parametrize("products", [torch.float32, torch.bfloat16, torch.int8])
def test_prepacked_weights_give_the_logits_of_the_whole_matrix(products):
    if products == torch.int8 and "fbgemm" not in torch.backends.quantized.supported_engines:
        pytest.skip("this torch has no int8 products")
    config = TINY.model_copy(update={"d_model": 64, "d_ff": 64})
    torch.manual_seed(0)
    model = Transformer(config, VOCAB).to(torch.bfloat16 if products == torch.bfloat16 else torch.float32).eval()
    prepack(model, products)
    batch, pieces = sources(12), torch.tensor([0, 1, 2, 3, 17, 40, 59, 0])
    with torch.inference_mode():
        encoded = model.encode(batch)
        full, _ = model.step(torch.full((12, 1), BOS), model.start(encoded))
        some, _ = model.step(torch.full((12, 1), BOS), model.start(encoded, pieces))
    assert some.shape == (12, len(pieces))
    torch.testing.assert_close(some.float(), full.float()[:, pieces], atol=1e-5, rtol=2e-2)


def test_padding_is_never_written_though_it_fills_up_the_candidates():
    found = beam_search([build(2)], sources(12), SearchSettings(beam=30, nbest=30), short_lists=make_lists(9))
    assert all(PAD not in hypothesis.pieces for beams in found for hypothesis in beams)
