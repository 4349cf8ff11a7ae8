"""A search in recorded steps finds what a search without recordings finds; it records few sizes, each once."""

import dataclasses
import itertools
import threading
from types import SimpleNamespace

import pytest
import torch

from nmt.config import ModelConfig
from nmt.kernels.policy import accelerate, choose_kernels
from nmt.model.transformer import Transformer
from nmt.search import recorded_steps as recorded_steps_module
from nmt.search.beam import Beam, Size
from nmt.search.beam_search import beam_search
from nmt.search.hypotheses import Hypotheses
from nmt.search.recorded_steps import RecordedSteps
from nmt.search.search_memory import SearchMemory
from nmt.search.settings import Sampling, SearchSettings
from nmt.special_ids import EOS
from tests import on_padded
from tests.recording_double import DoubleOfRecorder

VOCABULARY = 30
NOT_RECORDED = dataclasses.replace(choose_kernels(torch.device("cuda")), recorder=None)


@pytest.fixture
def recorders():
    """All recorders that were made."""
    return []


@pytest.fixture
def kernels(recorders):
    def made():
        recorders.append(DoubleOfRecorder())
        return recorders[-1]

    return dataclasses.replace(NOT_RECORDED, recorder=made)


def model_of(kernels, seed=1, dtype=torch.float64, **changes):
    sizes = {"encoder_layers": 1, "decoder_layers": 2, "d_model": 16, "d_ff": 16, "heads": 2, "max_positions": 150}
    torch.manual_seed(seed)
    model = accelerate(Transformer(ModelConfig(**(sizes | changes)), VOCABULARY), kernels).to(dtype).eval()
    torch.nn.init.normal_(model.embedding.weight, std=0.75)  # decided models: scores far apart
    return model


def sources(count, longest=12, seed=5):
    generator = torch.Generator().manual_seed(seed)
    batch = torch.zeros(count, longest + 1, dtype=torch.long)
    for row in range(count):
        length = int(torch.randint(1, longest, (1,), generator=generator))
        batch[row, :length] = torch.randint(4, VOCABULARY, (length,), generator=generator)
        batch[row, length] = EOS
    return batch


def recorded(recorders):
    """How often a step was recorded."""
    return sum(len(recorder.recordings) for recorder in recorders)


def both(kernels, source_BS, settings, prefixes=None, models=1, **changes):
    """What a search in recorded steps finds, and one that is not recorded."""
    return [
        beam_search(
            [model_of(chosen, seed=seed, **changes) for seed in range(1, models + 1)],
            source_BS, settings, prefixes=prefixes,
        )
        for chosen in (kernels, NOT_RECORDED)
    ]  # fmt: skip


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert [hypothesis.pieces for hypothesis in one] == [hypothesis.pieces for hypothesis in other]
        for found_one, expected_one in zip(one, other, strict=True):
            assert found_one.log_probability == pytest.approx(expected_one.log_probability, abs=1e-5)
            assert found_one.score == pytest.approx(expected_one.score, abs=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {"beam": 1}, {"beam": 4}, {"beam": 5, "nbest": 5}, {"beam": 3, "min_length": 7}, {"beam": 2, "max_length": 3},
        {"beam": 4, "length_penalty": 0.0}, {"beam": 4, "length_normalization": "length"},
        {"beam": 2, "max_length": 0}, {"beam": 3, "no_repeat_ngram": 1},
        {"beam": 3, "no_repeat_ngram": 3, "min_length": 9}, {"beam": 3, "nbest": 3, "sampling": Sampling()},
        {"beam": 3, "nbest": 3, "sampling": Sampling(top_k=4)}, {"beam": 2, "sampling": Sampling(top_p=0.8)},
        {"beam": 4, "nbest": 4, "refill_beam": True}, {"beam": 2, "no_repeat_ngram": 2, "refill_beam": True},
        pytest.param({"beam": 40}, marks=pytest.mark.slow),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("has_prefixes", [False, True])
def test_finds_what_a_search_without_recordings_finds(kernels, recorders, options, has_prefixes):
    prefixes = [(4,) * (row % 4) for row in range(24)] if has_prefixes else None
    settings = SearchSettings(**({"max_extra_length": 20} | options))
    assert_same(*both(kernels, sources(24), settings, prefixes))
    assert recorded(recorders)


@pytest.mark.parametrize(
    "changes",
    [
        {"norm": "pre"}, {"positions": "learned"}, {"positions": "tensor2tensor"}, {"attention": "additive"},
        {"attention": "dot_product"}, {"d_v": 5}, {"tied_embeddings": "none"}, {"output_bias": True},
        {"source_eos": False}, {"decoder_start": "zero"}, {"activation": "gelu"}, {"dtype": torch.float32},
        {"source_neighbours": 2, "target_neighbours": 3}, {"models": 3},
    ],
    ids=str,
)  # fmt: skip
def test_every_model_is_searched(kernels, recorders, changes):
    assert_same(*both(kernels, sources(9), SearchSettings(beam=4, nbest=4, max_extra_length=12), **changes))
    assert recorded(recorders)


def test_outputs_that_need_more_room_than_reserved(kernels, recorders):
    settings = SearchSettings(beam=3, nbest=3, max_extra_length=120, min_length=90)
    assert_same(*both(kernels, sources(3), settings))
    assert recorded(recorders) >= 3  # of 32, 64 and 128 steps


def test_the_batch_shrinks_as_its_sentences_end(kernels, recorders):
    settings = SearchSettings(beam=2, max_extra_length=30)
    source_BS, seen = sources(50), []
    model = model_of(kernels)
    found = beam_search([model], source_BS, settings, before_step=lambda *state: seen.append(state))
    assert_same(found, beam_search([model_of(NOT_RECORDED)], source_BS, settings))
    sentences = [count for count, _ in seen]
    assert sentences[1] == 64
    assert sentences[-1] < 64
    assert sentences[1:] == sorted(sentences[1:], reverse=True)
    assert [length for _, length in seen] == list(range(len(seen)))
    assert recorded(recorders) == len(
        {(count, length >= 32) for count, length in seen[1:]}
    )  # there is room for 32 steps


def test_large_searches_are_recorded_when_they_are_small(kernels, recorders, monkeypatch):
    settings, seen = SearchSettings(beam=2, max_extra_length=30), []
    source_BS = sources(50)
    monkeypatch.setattr("nmt.search.beam.MAX_RECORDED_ROWS", 90)
    found = beam_search([model_of(kernels)], source_BS, settings, before_step=lambda *state: seen.append(state[0]))
    assert_same(found, beam_search([model_of(NOT_RECORDED)], source_BS, settings))
    [recorder] = recorders
    assert 0 < recorder.replays + len(recorder.recordings) < len(seen) - 1


def test_the_next_steps_begin_before_the_host_looks_at_the_last(kernels, monkeypatch):
    looks, events = Hypotheses.look, []
    monkeypatch.setattr(Hypotheses, "look", lambda *given: events.append("look") or looks(*given))
    settings = SearchSettings(beam=2, min_length=20, max_extra_length=20)
    beam_search([model_of(kernels)], sources(3), settings, before_step=lambda *state: events.append("step"))
    assert events[:27] == [*["step"] * 16, "look", *["step"] * 8, "look", "step"]


def test_a_later_search_records_only_new_sizes(kernels, recorders):
    model, settings = model_of(kernels), SearchSettings(beam=4, max_extra_length=10)
    steps = RecordedSteps([model])
    first = [beam_search([model], sources(20, seed=seed), settings, recorded_steps=steps) for seed in (1, 2)]
    before = recorded(recorders)
    again = [beam_search([model], sources(20, seed=seed), settings, recorded_steps=steps) for seed in (1, 2)]
    assert again == first
    assert recorded(recorders) == before
    for change in ({"min_length": 3}, {"refill_beam": True}):
        before = recorded(recorders)
        beam_search([model], sources(20), settings.model_copy(update=change), recorded_steps=steps)
        assert recorded(recorders) > before


def test_weights_that_change_in_place_are_those_of_the_next_search(kernels):
    settings = SearchSettings(beam=2, max_extra_length=10)
    model, other = model_of(kernels), model_of(NOT_RECORDED, seed=2)
    steps = RecordedSteps([model])
    beam_search([model], sources(4), settings, recorded_steps=steps)
    model.load_state_dict(other.state_dict())
    assert_same(
        beam_search([model], sources(4), settings, recorded_steps=steps), beam_search([other], sources(4), settings)
    )


def test_the_oldest_recordings_are_dropped(kernels, recorders, monkeypatch):
    monkeypatch.setattr(recorded_steps_module, "_MAX_RECORDINGS", 2)
    model, settings = model_of(kernels), SearchSettings(beam=2, max_length=4)
    steps = RecordedSteps([model])

    def recordings(count):
        beam_search([model], sources(count), settings, recorded_steps=steps)
        return recorded(recorders)

    made = [recordings(count) for count in (24, 12, 24, 8, 24, 12)]
    assert [after - before for before, after in itertools.pairwise(made)] == [1, 0, 1, 0, 1]


def test_a_failed_search_releases_its_memory(kernels, recorders):
    model, settings = model_of(kernels), SearchSettings(beam=2, max_extra_length=30)
    steps = RecordedSteps([model])

    def fail(sentences, length):
        if length == 3:
            raise MemoryError

    expected = beam_search([model], sources(8), settings, recorded_steps=steps)
    with pytest.raises(MemoryError):
        beam_search([model], sources(8), settings, recorded_steps=steps, before_step=fail)
    assert steps._free == []
    assert beam_search([model], sources(8), settings, recorded_steps=steps) == expected


def test_settings_that_a_step_does_not_read_share_recordings(kernels, recorders):
    steps = RecordedSteps([model_of(kernels)])
    for seed in range(1, 4):
        settings = SearchSettings(beam=2, length_penalty=seed, max_length=5, sampling=Sampling(seed=seed))
        beam_search(steps._models, sources(4), settings, recorded_steps=steps)
    assert (len(recorders), recorded(recorders)) == (1, 1)


def test_few_recordings_are_kept(kernels):
    steps = RecordedSteps([model_of(kernels)])
    for beam in range(1, 7):
        beam_search(steps._models, sources(4), SearchSettings(beam=beam), recorded_steps=steps)
    assert len(steps._free) == 3


def test_long_and_wide_searches_do_not_take_the_memory_of_both(kernels):
    steps, settings, held = RecordedSteps([model_of(kernels)]), SearchSettings(beam=2, max_length=5), []
    for count, longest in ((60, 8), (3, 120), (60, 8)):
        beam_search(steps._models, sources(count, longest), settings, recorded_steps=steps)
        [(_, recordings)] = steps._free
        held.append(recordings._beam.size)
    assert [(size.sentences, size.source) for size in held] == [(64, 16), (8, 128), (64, 16)]


def test_numbers_that_are_not_finite_do_not_reach_a_later_search(kernels):
    steps, settings = RecordedSteps([model_of(kernels)]), SearchSettings(beam=2)
    expected = beam_search(steps._models, sources(8), settings, recorded_steps=steps)
    [(_, recordings)] = steps._free
    with torch.inference_mode():
        for layer in recordings._beam.states[0].layers:
            for tensor in (*layer.written, *layer.memory):
                tensor[5:] = torch.nan
    beam_search(steps._models, sources(2), settings, recorded_steps=steps)
    assert beam_search(steps._models, sources(8), settings, recorded_steps=steps) == expected


def test_searches_at_the_same_time_do_not_share_buffers(kernels, recorders):
    model, settings = model_of(kernels), SearchSettings(beam=2, max_extra_length=10)
    steps, other = RecordedSteps([model]), []

    def meanwhile(sentences, length):
        if length == 2 and not other:
            thread = threading.Thread(
                target=lambda: other.append(beam_search([model], sources(6, seed=9), settings, recorded_steps=steps))
            )
            thread.start()
            thread.join()

    found = beam_search([model], sources(6), settings, recorded_steps=steps, before_step=meanwhile)
    assert_same(found, beam_search([model_of(NOT_RECORDED)], sources(6), settings))
    assert_same(other[0], beam_search([model_of(NOT_RECORDED)], sources(6, seed=9), settings))


def test_a_number_that_is_not_finite_is_reported(kernels):
    model = model_of(kernels)
    with torch.no_grad():
        model.embedding.weight[7] = torch.nan
    with pytest.raises(Exception, match="outputs are not finite"):
        beam_search([model], sources(3), SearchSettings(beam=2))


def size_of(sentences, source, length=1, beam=1):
    """With kernels that record."""
    return Size.of(SimpleNamespace(recorder=DoubleOfRecorder), beam, sentences, source, length)


def test_sizes_are_few():
    """All recorded batches of sentences of 1 to 128 pieces."""
    sizes = {size_of(left, length) for length in range(1, 129) for left in range(1, 1_025)}
    assert len({size.sentences for size in sizes}) <= 16
    assert len({(size.source, size.room) for size in sizes}) == 8
    assert all(size.sentences <= 4 / 3 * 1_024 and size.is_recorded for size in sizes)
    assert len({size_of(left, 20).sentences for left in range(1, 16_385)}) <= 24
    assert size_of(4_096, 20, beam=4).is_recorded
    assert size_of(4_097, 21, beam=4) == Size(4_097, 21, 42)  # computed as it is
    # A wide beam takes memory by its square.
    assert size_of(1, 20, beam=180).is_recorded
    assert not size_of(1, 20, beam=200).is_recorded
    assert not size_of(600, 20, beam=24).is_recorded


def test_a_size_has_room_for_its_sentences():
    for sentences, source in itertools.product((1, 2, 3, 5, 31, 33, 100), (1, 16, 17, 100)):
        size = size_of(sentences, source)
        assert sentences <= size.sentences < max(9, 2 * sentences)
        assert source <= size.source < source + 16
        assert size.room >= max(size.source, 32)
        assert size_of(sentences, source, 200).room >= 200
        assert size_of(size.sentences, source) == size


@pytest.mark.parametrize(("sentences", "source", "length"), [(1, 5, 3), (8, 30, 31), (64, 16, 60), (30, 100, 129)])
def test_the_estimate_of_memory_holds(kernels, sentences, source, length):
    model, settings = model_of(kernels, dtype=torch.float32), SearchSettings(beam=4)
    start = model.start(on_padded.encoded(model, torch.full((sentences, source), 5)), beam=4, room=1)
    beam = Beam.begin([start], settings, 8).resized(torch.Tensor.new_zeros, size_of(sentences, source, length, beam=4))
    held = sum(tensor.nbytes for tensor in beam.tensors())
    estimate = SearchMemory([model], torch.device("cpu")).need(settings, sentences, source, length)
    assert held < estimate < 12 * held


def test_a_search_at_another_precision_has_recordings_of_its_own(kernels):
    """Keys and values have another dtype then."""
    settings = SearchSettings(beam=2, max_extra_length=10)
    model = model_of(kernels, dtype=torch.float32)
    steps = RecordedSteps([model])
    expected = beam_search([model], sources(5), settings, recorded_steps=steps)
    with torch.autocast("cpu", torch.bfloat16):
        alone = beam_search([model], sources(5), settings)
        assert beam_search([model], sources(5), settings, recorded_steps=steps) == alone
    assert alone != expected
    assert beam_search([model], sources(5), settings, recorded_steps=steps) == expected
