"""Searches that do not fit into the memory are halved or refused, and find the same as those that fit."""

import pytest
import torch

from nmt.config import Config, ModelConfig
from nmt.model.transformer import Transformer
from nmt.search.hypotheses import Hypothesis
from nmt.search.settings import BeamTooWideError
from nmt.translation.ensemble import Ensemble
from nmt.translation.options import TranslateOptions
from nmt.translation.searcher import TorchSearcher
from nmt.translation.segment import Segment
from tests.translation.test_translator import CPU, PAIR, VOCAB

SETTINGS = TranslateOptions(beam=4)
LENGTHS = [9, 7, 5, 3, 2]
"""Pieces of each source with eos, in the order in which they are searched."""


@pytest.fixture
def searcher() -> TorchSearcher:
    torch.manual_seed(0)
    config = ModelConfig(encoder_layers=1, decoder_layers=2, d_model=16, d_ff=16, heads=2, max_positions=64)
    ensemble = Ensemble((Transformer(config, VOCAB.size).eval(),), PAIR, Config(model=config), CPU)
    found = ensemble.searcher(SETTINGS)
    found._memory.free = None
    return found


@pytest.fixture
def searches(monkeypatch):
    """Replaces the search by a function of the lengths of the sources and of the check before a step."""

    def replace(search):
        def stand_in(models, source_BS, settings, *, before_step, **others):
            lengths = (source_BS != 0).sum(1).tolist()
            search(lengths, before_step)
            return [[Hypothesis((4 + length,), -1.0, -1.0)] for length in lengths]

        monkeypatch.setattr("nmt.translation.searcher.beam_search", stand_in)

    return replace


def found_by(searcher: TorchSearcher) -> list[tuple[int, ...]]:
    segments = [Segment("", [4] * (length - 1), line=length) for length in LENGTHS]
    return [hypothesis.pieces for [hypothesis] in searcher.search(segments, SETTINGS)]


EXPECTED = [(4 + length,) for length in LENGTHS]


def test_a_batch_that_raises_is_halved_until_it_fits(searcher, searches):
    tried = []

    def search(lengths, before_step):
        tried.append(lengths)
        if len(lengths) > 2:
            raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate …")

    searches(search)
    assert found_by(searcher) == EXPECTED
    assert tried == [LENGTHS, LENGTHS[:2], LENGTHS[2:], LENGTHS[2:3], LENGTHS[3:]]


def test_other_errors_are_raised_as_they_are(searcher, searches):
    def search(lengths, before_step):
        raise RuntimeError("no such thing")

    searches(search)
    with pytest.raises(RuntimeError, match="no such thing"):
        found_by(searcher)


def test_a_sentence_that_does_not_fit_is_named(searcher, searches):
    def search(lengths, before_step):
        if 5 in lengths:
            raise MemoryError

    searches(search)
    with pytest.raises(BeamTooWideError, match=r"line 5: .*beam of 4 .*Lower --beam"):
        found_by(searcher)


def test_what_does_not_fit_its_share_is_searched_alone(searcher, searches, monkeypatch):
    need, searched = max(searcher._memory.need(SETTINGS, 1, length, 15) for length in LENGTHS), []

    def search(lengths, before_step):
        for length in range(15):
            before_step(len(lengths), length)
        searched.append(lengths)

    searches(search)
    monkeypatch.setattr(searcher._workers, "are_shared", True)
    monkeypatch.setattr(searcher._workers, "count", 2)
    searcher._memory.free = need
    assert found_by(searcher) == EXPECTED
    assert max(map(len, searched)) == 1
    searcher._memory.free = need // 4
    with pytest.raises(BeamTooWideError, match=r"line 9: .*GB were free"):
        found_by(searcher)


def test_memory_of_recordings_is_released_where_a_search_does_not_fit(searcher, searches, monkeypatch):
    events = []
    monkeypatch.setattr(searcher._ensemble.recorded_steps, "release", lambda: events.append("release"))

    def search(lengths, before_step):
        events.append(len(lengths))
        if len(events) == 1:
            raise MemoryError

    searches(search)
    assert found_by(searcher) == EXPECTED
    assert events == [5, "release", 2, 3]
