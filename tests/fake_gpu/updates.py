"""Updates on a fake GPU: our code does there what it does on a CPU, and the host waits once."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from nmt.config import Config, ModelConfig, OptimizerConfig, TrainingConfig
from nmt.kernels.attention import fused_attention, two_product_attention
from nmt.kernels.policy import AttentionByLength, accelerate, choose_kernels
from nmt.kernels.sentence_attention import sentence_attention
from nmt.machine.device import Hardware, choose_hardware
from nmt.model.transformer import Transformer
from nmt.training.learner import Learner
from nmt.training.ranks.exchange import NO_OTHERS, Ranks
from nmt.training.ranks.message import UpdateOutcome, UpdateResult
from tests.fake_gpu.gpu import FakeGpu
from tests.fake_gpu.ranks import RanksAlone
from tests.training.test_learner import batch, pairs

# 16 bits take attention within packed sequences, fp32 attention over padded sentences.
OTHERS = ("fp32", "fp16", "fp64")
PRECISIONS = ["bf16", "fp32", *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS[1:])]
VOCAB = 30
ROUNDING = {"bf16": 0.05, "fp16": 0.05, "fp32": 1e-4, "fp64": 1e-9}
WHOLE = batch(pairs(8))
PARTS = [batch(pairs(5)), batch(pairs(3))]

VARIANTS: list[dict[str, Any]] = [
    {}, {"attention_dropout": 0.1}, {"attention": "additive"}, {"attention": "dot_product"}, {"source_neighbours": 2},
    {"target_neighbours": 2}, {"norm": "pre"}, {"positions": "learned"}, {"tied_embeddings": "decoder"},
    {"tied_embeddings": "none", "output_bias": True}, {"source_eos": False}, {"decoder_start": "zero"},
    {"d_k": 8, "d_v": 16}, {"d_k": 6, "d_v": 6}, {"attention_bias": False}, {"activation": "gelu"},
    {"activation": "quick_gelu"}, {"activation_dropout": 0.1},
]  # fmt: skip


def learner(
    hardware: Hardware,
    sizes: dict[str, Any] | None = None,
    *,
    clip_norm: float | None = None,
    ranks: Ranks = NO_OTHERS,
    overlaps_exchange: bool | None = None,
    **training: Any,
) -> Learner:
    small = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 16, "d_ff": 32, "heads": 2, "dropout": 0.0}
    config = Config(
        model=ModelConfig(**(small | (sizes or {}))),
        optimizer=OptimizerConfig(clip_norm=clip_norm),
        training=TrainingConfig(**training),
    )
    kernels = choose_kernels(hardware.device, hardware.autocast_dtype, deterministic=hardware.is_deterministic)
    torch.manual_seed(0)
    model = accelerate(Transformer(config.model, VOCAB), kernels).to(hardware.device, hardware.weights_dtype)
    return Learner(model, config, hardware, ranks, overlaps_exchange=overlaps_exchange)


def updated(made: Learner, batches: Any = (WHOLE,), gpu: FakeGpu | None = None) -> UpdateResult:
    tokens = sum(one.target_tokens for one in batches)
    for update in (1, 2):
        if gpu is not None:
            gpu.forget()
        result = made.update(batches, update=update, target_tokens=tokens, learning_rate=0.01)
        if gpu is not None:
            assert [wait.rpartition(":")[0] for wait in gpu.waits] == ["Event.synchronize at machine/device.py"]
            assert gpu.unpinned == []
    return result


def assert_equal(on_gpu: UpdateResult, on_cpu: UpdateResult, *, within: float) -> None:
    for figure in ("smoothed_loss", "cross_entropy", "gradient_norm", "target_tokens", "source_tokens"):
        assert getattr(on_gpu, figure) == pytest.approx(getattr(on_cpu, figure), rel=within), figure


@pytest.fixture
def deterministic() -> Iterator[None]:
    """torch's choice of kernels as it was before."""
    yield
    torch.use_deterministic_algorithms(False)


def test_a_gpu_gets_its_own_kernels(gpu, deterministic):
    hardware = choose_hardware("auto", "auto", 1)
    assert (hardware.device.type, hardware.precision) == ("cuda", "bf16")
    kernels = choose_kernels(hardware.device, torch.bfloat16)
    assert kernels.attention is fused_attention
    assert isinstance(kernels.packed_attention, AttentionByLength)
    assert choose_kernels(hardware.device, None).packed_attention is None
    exact = choose_kernels(hardware.device, torch.bfloat16, deterministic=True)
    assert (exact.attention, exact.packed_attention) == (two_product_attention, sentence_attention)


@pytest.mark.parametrize("precision", ["bf16", *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)])
@pytest.mark.parametrize("sizes", VARIANTS, ids=str)
def test_updates_are_those_of_a_cpu(gpu, precision, sizes):
    drops = any("dropout" in name for name in sizes)
    on_gpu = updated(learner(choose_hardware("cuda", precision, 1), sizes), gpu=gpu)
    if not drops:
        on_cpu = updated(learner(choose_hardware("cpu", precision, 1), sizes))
        assert_equal(on_gpu, on_cpu, within=ROUNDING[precision])


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(
    "options",
    [
        {"r_drop": 5.0}, {"ema_decay": 0.9}, {"clip_norm": 0.1}, {"ranks": RanksAlone(2)},
        {"ranks": RanksAlone(2), "overlaps_exchange": False},
    ],
    ids=lambda options: " ".join(options),
)  # fmt: skip
def test_each_option_of_the_learner(gpu, precision, options):
    on_gpu = learner(choose_hardware("cuda", precision, 1), **options)
    on_cpu = learner(choose_hardware("cpu", precision, 1), **options)
    assert_equal(updated(on_gpu, PARTS, gpu), updated(on_cpu, PARTS), within=ROUNDING[precision])


@pytest.mark.parametrize("precision", PRECISIONS)
def test_deterministic(gpu, deterministic, precision):
    on_gpu = learner(choose_hardware("cuda", precision, 1, deterministic=True))
    on_cpu = learner(choose_hardware("cpu", precision, 1))
    assert_equal(updated(on_gpu, gpu=gpu), updated(on_cpu), within=ROUNDING[precision])


@pytest.mark.parametrize("options", [{}, {"r_drop": 5.0}])
@pytest.mark.parametrize("precision", ["bf16", "fp32"])
def test_dropout(gpu, precision, options):
    without, dropped = (
        updated(learner(choose_hardware("cuda", precision, 1), {"dropout": rate}, **options), gpu=gpu)
        for rate in (0.0, 0.1)
    )
    assert dropped.cross_entropy != without.cross_entropy
    assert dropped.cross_entropy == pytest.approx(without.cross_entropy, rel=0.2)
    assert dropped.gradient_norm == pytest.approx(without.gradient_norm, rel=0.5)


@pytest.mark.parametrize("precision", ["bf16", "fp32"])
def test_an_update_that_does_not_fit_is_made_again_from_smaller_micro_batches(gpu, monkeypatch, precision):
    made = learner(choose_hardware("cuda", precision, 1))
    on_cpu = updated(learner(choose_hardware("cpu", precision, 1)), PARTS)
    forward = made.model.forward
    left = [1]

    def fail_once(*arguments: Any) -> Any:
        if left:
            left.pop()
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(*arguments)

    made.model.forward = fail_once
    settings = {"update": 1, "target_tokens": WHOLE.target_tokens, "learning_rate": 0.01}
    assert made.update([WHOLE], **settings).outcome is UpdateOutcome.AGAIN
    assert_equal(updated(made, PARTS, gpu=gpu), on_cpu, within=ROUNDING[precision])


@pytest.mark.parametrize("options", [{}, {"ema_decay": 0.9}])
def test_a_learner_resumes_from_its_tensors(gpu, options):
    hardware = choose_hardware("cuda", "bf16", 1)
    first, second = learner(hardware, **options), learner(hardware, **options)
    updated(first)
    weights = {name: tensor.cpu() for name, tensor in first.weights().items()}
    tensors = {name: tensor.cpu() for name, tensor in first.state_dict().items()}
    second.model.load_state_dict(weights)
    second.load_state_dict(tensors, 2)
    second.broadcast()
    assert_equal(updated(first), updated(second), within=0)
