"""Searches on a real GPU: recorded steps find what steps that run kernel by kernel find, and what a CPU finds."""

import pytest
import torch

from nmt.config import ModelConfig
from nmt.kernels.policy import accelerate, choose_kernels
from nmt.kernels.prepacking import prepack
from nmt.machine.device import choose_hardware, is_out_of_memory
from nmt.model.transformer import Transformer
from nmt.search.beam_search import beam_search
from nmt.search.search_memory import SearchMemory
from nmt.search.settings import Sampling, SearchSettings
from nmt.special_ids import EOS

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

DEVICE = "cuda"
VOCAB = 30
SOURCES = [[4, 6, 9, 7, 5, EOS], [5, EOS, 0, 0, 0, 0], [7, 8, 12, EOS, 0, 0]]
SMALL = {"encoder_layers": 1, "decoder_layers": 2, "d_model": 64, "d_ff": 64, "heads": 2, "dropout": 0.0}


def model_on(device, precision, *, is_recorded=True, vocab=VOCAB, **sizes):
    hardware = choose_hardware(device, precision, 1)
    torch.manual_seed(1)
    kernels = choose_kernels(hardware.device, hardware.products_dtype)
    model = accelerate(Transformer(ModelConfig(**(SMALL | sizes)), vocab), kernels)
    torch.nn.init.normal_(model.embedding.weight, std=0.7)  # decided models: scores far apart
    model = model.to(hardware.device, hardware.weights_dtype).eval()
    prepack(model, hardware.products_dtype)
    if not is_recorded:
        model.recorder = None
    return model


class NotRecorded:
    """A recorder of a device that cannot record."""

    failure = None

    def record(self, work):
        work()
        return work


def searched(model, device, precision, settings, sources=SOURCES):
    with choose_hardware(device, precision, 1).autocast():
        return beam_search([model], torch.tensor(sources).to(device), settings)


def pieces(found):
    return [[hypothesis.pieces for hypothesis in of_sentence] for of_sentence in found]


@pytest.mark.parametrize("precision", ["bf16", "fp16", "fp32"])
@pytest.mark.parametrize(
    "options",
    [
        {"beam": 1}, {"beam": 4}, {"beam": 4, "nbest": 4, "min_length": 5}, {"beam": 4, "no_repeat_ngram": 2},
        {"beam": 3, "nbest": 3, "sampling": Sampling()}, {"beam": 2, "nbest": 2, "sampling": Sampling(top_p=0.9)},
        {"beam": 4, "nbest": 4, "refill_beam": True},
    ],
    ids=str,
)  # fmt: skip
def test_recorded_steps_find_what_others_find(precision, options):
    settings = SearchSettings(**({"max_extra_length": 10} | options))
    model = model_on(DEVICE, precision)
    recorded = searched(model, DEVICE, precision, settings)
    model.recorder = NotRecorded  # the same kernels, one by one: others round otherwise
    assert pieces(searched(model, DEVICE, precision, settings)) == pieces(recorded)
    if precision == "fp32" and "sampling" not in options:
        on_cpu = searched(model_on("cpu", precision), "cpu", precision, settings)
        for here, there in zip(recorded, on_cpu, strict=True):
            assert [h.score for h in here] == pytest.approx([h.score for h in there], rel=1e-2)


@pytest.mark.parametrize("is_recorded", [False, True])
@pytest.mark.parametrize(("sentences", "beam"), [(1, 4), (64, 4), (512, 1), (2_048, 4)])
def test_the_estimate_of_memory_holds_what_a_search_takes(sentences, beam, is_recorded):
    sizes = {"encoder_layers": 6, "decoder_layers": 6, "d_model": 512, "d_ff": 2048, "heads": 8}
    model = model_on(DEVICE, "bf16", is_recorded=is_recorded, vocab=37_000, **sizes)
    settings = SearchSettings(beam=beam, max_extra_length=8)
    memory = SearchMemory([model], torch.device(DEVICE), torch.bfloat16)
    if memory.free < memory.need(settings, sentences, 32, 40):
        pytest.skip("needs more memory")
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    searched(model, DEVICE, "bf16", settings, [[*range(4, 35), EOS]] * sentences)
    assert torch.cuda.max_memory_allocated() - before <= memory.need(settings, sentences, 32, 40)


def test_a_search_whose_memory_ends_says_so_and_the_next_one_works():
    model, settings = model_on(DEVICE, "bf16", vocab=37_000), SearchSettings(beam=4, max_extra_length=4)
    expected = pieces(searched(model, DEVICE, "bf16", settings))
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + (64 << 20)) / total)
    try:
        with pytest.raises(RuntimeError) as caught:
            searched(model, DEVICE, "bf16", settings, SOURCES * 2_000)
        assert is_out_of_memory(caught.value)
        assert pieces(searched(model, DEVICE, "bf16", settings)) == expected
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
