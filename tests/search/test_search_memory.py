"""The memory that searches need, and what is searched with it."""

import itertools

import pytest
import torch

from nmt.config import ModelConfig
from nmt.model.transformer import Transformer
from nmt.search import beam_search as beam_search_module
from nmt.search import search_memory
from nmt.search.beam_search import beam_search
from nmt.search.search_memory import SearchMemory
from nmt.search.settings import BeamTooWideError, Sampling, SearchSettings

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def model() -> Transformer:
    torch.manual_seed(0)
    config = ModelConfig(encoder_layers=1, decoder_layers=2, d_model=16, d_ff=16, heads=2, max_positions=64)
    return Transformer(config, 100).eval()


def memory(model, free: int | None) -> SearchMemory:
    found = SearchMemory([model], CPU)
    found.free = free
    return found


def test_memory_that_was_in_use_once_is_free_again(model, monkeypatch):
    """On a GPU after training: of 100 bytes 20 are free, 70 are torch's, and 10 of these hold tensors."""
    figures = {"memory_reserved": 70, "memory_allocated": 10, "max_memory_allocated": 65}
    for name, value in figures.items():
        monkeypatch.setattr(torch.cuda, name, lambda device, value=value: value)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (20, 100))
    assert SearchMemory([model], torch.device("cuda", 0)).free == 80


def test_a_beam_that_no_memory_holds_is_refused_before_the_search(model):
    found = memory(model, 8_000_000_000)
    found.check_beam(SearchSettings(beam=1_000))
    with pytest.raises(BeamTooWideError, match=r"beam of 100,000 needs at least [\d,.]+ GB .*8\.0 GB"):
        found.check_beam(SearchSettings().model_copy(update={"beam": 100_000}))


@pytest.mark.parametrize("change", [{"beam": 8}, {"beam": 8, "source": 40}, {"beam": 8, "length": 30}])
def test_the_need_grows_with_all_that_it_depends_on(model, change):
    found = memory(model, None)

    def need(beam=4, source=20, length=10, sentences=2):
        return found.need(SearchSettings(beam=beam), sentences, source, length)

    assert need(**change) > need(**(change | {"beam": 4})) >= need()
    assert need(sentences=4) == 2 * need()


def test_sampling_considers_the_whole_vocabulary(model):
    best, sampled = (
        memory(model, None).need(SearchSettings(beam=1, sampling=sampling), 3, 20, 10)
        for sampling in (None, Sampling())
    )
    assert sampled - best == 3 * 7 * (100 - 64) * 4  # sentences, numbers per piece, further pieces, bytes


def test_a_refilled_beam_considers_twice_as_much(model):
    usual, refilled = (
        memory(model, None).need(SearchSettings(beam=1, refill_beam=is_set), 3, 20, 10) for is_set in (False, True)
    )
    assert refilled - usual == 3 * 7 * (100 - 64) * 4  # sentences, numbers per piece, further pieces, bytes


def test_keys_and_values_have_the_dtype_of_products(model):
    needs = {
        dtype: SearchMemory([model], CPU, dtype).need(SearchSettings(beam=4), 3, 20, 10)
        for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.int8)
    }
    slots = 4 * 40  # room for twice the source's pieces
    keys_and_values = 3 * (2 * 2 * 16 * (slots + 20) + 4 * slots)  # sentences, keys and values, layers, d_model; masks
    assert needs[torch.float32] - needs[torch.bfloat16] == 2 * keys_and_values
    assert needs[torch.float64] - needs[torch.float32] == 4 * keys_and_values
    assert needs[torch.int8] == needs[torch.float32]


def test_additive_attention_needs_a_vector_for_each_pair(model):
    additive = Transformer(model.config.model_copy(update={"attention": "additive"}), 100)
    for source, length, pairs in ((20, 2, 20 * 20), (3, 30, 4 * 4 * 30), (4, 1, 16)):
        plain, other = (
            memory(each, None).need(SearchSettings(beam=4), 2, source, length) for each in (model, additive)
        )
        assert other - plain == 2 * 2 * 8 * pairs * 4  # sentences, heads, d_k, bytes of a number


def test_a_restricted_search_needs_no_scores_of_pieces_that_are_too_far(model):
    restricted = Transformer(model.config.model_copy(update={"target_neighbours": 9}), 100)

    def needs(length: int) -> tuple[int, int]:
        full, less = (memory(each, None).need(SearchSettings(beam=4), 2, 6, length) for each in (model, restricted))
        return full, less

    assert len(set(needs(10))) == 1
    full, less = needs(30)
    assert full - less == 2 * (2 + 2 * 2) * 4 * 4 * (30 - 10) * 4  # sentences, numbers, beam twice, pieces, bytes


def test_memory_is_checked_before_the_encoder_runs(model, monkeypatch):
    monkeypatch.setattr(Transformer, "encode", lambda *arguments: pytest.fail("the encoder ran"))

    def full(sentences, length):
        raise MemoryError

    with pytest.raises(MemoryError):
        beam_search([model], torch.tensor([[5, 3]]), SearchSettings(), before_step=full)


def test_memory_is_checked_before_there_is_more_room(model, monkeypatch):
    events, resize = [], beam_search_module._narrowed_or_new
    monkeypatch.setattr(
        beam_search_module, "_narrowed_or_new", lambda *given: events.append("allocated") or resize(*given)
    )
    settings = SearchSettings(beam=2, min_length=9, max_extra_length=9)
    beam_search([model], torch.tensor([[5, 6, 3]]), settings, before_step=lambda _, length: events.append(length))
    assert events[: events.index("allocated")] == [0, *range(1, 7)]  # there is room for 6 pieces


def test_the_search_tells_how_many_sentences_are_left_and_how_far_it_is(model):
    seen = []
    settings = SearchSettings(beam=3, max_extra_length=4)
    source = torch.tensor([[5, 6, 7, 3], [8, 3, 0, 0]])
    beam_search([model], source, settings, before_step=lambda *state: seen.append(state))
    assert seen[0] == (2, 0)
    assert [length for _, length in seen] == list(range(len(seen)))
    assert all(before >= after for (before, _), (after, _) in itertools.pairwise(seen))


@pytest.mark.parametrize("settings", [SearchSettings(beam=300), SearchSettings(beam=100, length_penalty=0)])
def test_the_estimate_holds(model, settings, monkeypatch):
    """What a search really holds at a step, by adding up its tensors, is less than estimated, but not by far."""
    found, held = memory(model, None), []
    settings = settings.model_copy(update={"max_extra_length": 20, "min_length": 15})
    step = beam_search_module.step

    def noted(models, beam, settings, count, **options):
        held.append((count + 1, sum(tensor.nbytes for tensor in beam.tensors())))
        step(models, beam, settings, count, **options)

    monkeypatch.setattr(beam_search_module, "step", noted)
    beam_search([model], torch.tensor([[5, 6, 7, 8, 9, 3]]), settings)
    assert len(held) > 15
    for length, size in held:
        estimate = found.need(settings, 1, 6, length)
        assert size < estimate < 14 * size


@pytest.mark.parametrize(
    ("total", "beam", "searches", "expected"),
    [
        (None, 4, 1, 2_048), (80e9, 4, 1, 65_536), (16e9, 4, 1, 8_192), (16e9, 16, 1, 8_192), (16e9, 4, 4, 2_048),
        (1e6, 4, 1, 2_048),
    ],
)  # fmt: skip
def test_a_gpu_searches_as_many_sentences_at_once_as_fit_easily(monkeypatch, total, beam, searches, expected):
    monkeypatch.setattr(search_memory, "total_memory", lambda device: total)
    with torch.device("meta"):
        large = Transformer(ModelConfig(), 32_000)  # the paper's base
    found = SearchMemory([large], CPU)
    assert found.batch_tokens(SearchSettings(beam=beam), searches) == expected
    found.free = 1  # what else is in the memory changes nothing
    assert found.batch_tokens(SearchSettings(beam=beam), searches) == expected
    if expected > 2_048:
        assert found.need(SearchSettings(beam=4), expected // 32, 32, 64) <= total / 4 / searches
