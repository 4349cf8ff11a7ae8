"""Searches on a fake GPU: our code finds there what it finds on a CPU, and the host waits once in eight steps."""

import math
from typing import Any

import pytest
import torch

from nmt.config import ModelConfig
from nmt.kernels.policy import accelerate, choose_kernels
from nmt.kernels.prepacking import prepack
from nmt.machine.device import choose_hardware
from nmt.model.transformer import Transformer
from nmt.search.beam_search import beam_search
from nmt.search.given_targets import score_targets
from nmt.search.settings import Sampling, SearchSettings
from nmt.special_ids import EOS
from tests.fake_gpu.gpu import FakeGpu

VOCAB = 30
SOURCES = [[4, 6, 9, 7, 5, EOS], [5, EOS, 0, 0, 0, 0], [7, 8, 12, EOS, 0, 0]]
SHORT = {"encoder_layers": 1, "decoder_layers": 2, "d_model": 16, "d_ff": 32, "heads": 2}


def model_on(device: str, precision: str, sizes: dict[str, Any] | None = None, seed: int = 1) -> Transformer:
    hardware = choose_hardware(device, precision, 1)
    torch.manual_seed(seed)
    kernels = choose_kernels(hardware.device, hardware.products_dtype)
    model = accelerate(Transformer(ModelConfig(**(SHORT | (sizes or {}))), VOCAB), kernels)
    torch.nn.init.normal_(model.embedding.weight, std=0.7)  # decided models: scores far apart
    model = model.to(hardware.device, hardware.weights_dtype).eval()
    prepack(model, hardware.products_dtype)
    return model


def searched(device: str, precision: str, settings: SearchSettings, **options: Any) -> tuple[Any, int]:
    steps = 0

    def count(sentences: int, length: int) -> None:
        nonlocal steps
        steps += 1

    models = [model_on(device, precision, options.pop("sizes", None), seed) for seed in range(options.pop("models", 1))]
    source_BS = torch.tensor(SOURCES).to(device)
    if FakeGpu.current is not None:
        FakeGpu.current.forget()
    with choose_hardware(device, precision, 1).autocast():
        return beam_search(models, source_BS, settings, before_step=count, **options), steps


@pytest.mark.parametrize("precision", ["bf16", "fp32", pytest.param("fp16", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "options",
    [
        {"beam": 1}, {"beam": 4}, {"beam": 4, "nbest": 4}, {"beam": 4, "min_length": 5},
        {"beam": 3, "nbest": 3, "sampling": Sampling()}, {"beam": 3, "nbest": 3, "sampling": Sampling(top_k=5)},
        {"beam": 2, "nbest": 2, "sampling": Sampling(top_p=0.9)},
        {"beam": 4, "models": 2}, {"beam": 4, "prefixes": [[], [5, 6], [7, 8, 9, 10]]},
        {"beam": 4, "sizes": {"target_neighbours": 3, "source_neighbours": 2}}, {"beam": 4, "no_repeat_ngram": 2},
        {"beam": 4, "sizes": {"attention": "additive"}}, {"beam": 4, "sizes": {"attention": "dot_product"}},
        {"beam": 4, "sizes": {"norm": "pre", "positions": "learned"}}, {"beam": 4, "sizes": {"source_eos": False}},
        {"beam": 4, "sizes": {"tied_embeddings": "none", "output_bias": True}},
        {"beam": 4, "length_normalization": "length"},
    ],
    ids=lambda options: " ".join(f"{key}={str(value)[:20]}" for key, value in options.items()),
)  # fmt: skip
def test_searches_find_what_a_cpu_finds(gpu, precision, options):
    search = {key: options[key] for key in options if key in SearchSettings.model_fields}
    settings = SearchSettings(**({"max_extra_length": 10} | search))
    others = {key: options[key] for key in options if key not in search}
    on_cpu, _ = searched("cpu", precision, settings, **others)
    on_gpu, steps = searched("cuda", precision, settings, **others)
    # The lengths of the sources, then each look.
    assert len(gpu.waits) <= 1 + math.ceil(steps / 8), gpu.waits
    assert gpu.unpinned == []
    if precision == "fp32":
        assert [[h.pieces for h in found] for found in on_gpu] == [[h.pieces for h in found] for found in on_cpu]
        for here, there in zip(on_gpu, on_cpu, strict=True):
            assert [h.score for h in here] == pytest.approx([h.score for h in there], rel=1e-4)
    # Rounding may decide which hypotheses are found, but hardly how likely each of them is.
    best = [found[0] for found in on_gpu]
    models = [model_on("cpu", "fp32", others.get("sizes"), seed) for seed in range(others.get("models", 1))]
    sources = [[piece for piece in pieces if piece > EOS] for pieces in SOURCES]
    if not models[0].config.source_eos:
        sources = [[*pieces, EOS] for pieces in sources]
    scores = score_targets(models, sources, [h.pieces for h in best], choose_hardware("cpu", "fp32", 1))
    rel = 1e-4 if precision == "fp32" else 0.05
    assert [h.log_probability for h in best] == pytest.approx([score.log_probability for score in scores], rel=rel)


@pytest.mark.parametrize("precision", ["bf16", "fp32", pytest.param("fp16", marks=pytest.mark.slow)])
@pytest.mark.parametrize("layer", [None, -1])
@pytest.mark.parametrize("models", [1, 2])
def test_given_targets(gpu, precision, layer, models):
    sources, targets = [[4, 6, 9, 7], [5], [7, 8]], [[4, 5], [6, 7, 8], []]
    scores = []
    for device in ("cuda", "cpu"):
        made = [model_on(device, precision, seed=seed) for seed in range(models)]
        gpu.forget()
        hardware = choose_hardware(device, precision, 1)
        scores.append(score_targets(made, sources, targets, hardware, alignment_layer=layer))
        if device == "cuda":
            assert len(gpu.waits) == (1 if layer is None else 2), gpu.waits
            assert gpu.unpinned == []
    for here, there in zip(*scores, strict=True):
        assert here.score == pytest.approx(there.score, rel=1e-4 if precision == "fp32" else 0.1)
        assert precision != "fp32" or here.alignment == there.alignment
