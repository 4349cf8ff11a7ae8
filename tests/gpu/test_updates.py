"""Updates and runs on a real GPU: what a CPU learns, in one wait of the host per update, also where memory runs out."""

import os

import pytest
import torch
import torch.distributed as dist
from torch._dynamo.utils import counters

from nmt.config import Config, ModelConfig, TrainingConfig, parse_config
from nmt.config.reading import load_preset
from nmt.data.dealing import MicroBatchLimits
from nmt.kernels.policy import accelerate, choose_kernels
from nmt.machine.device import choose_hardware
from nmt.model.transformer import Transformer
from nmt.training.input.micro_batches import Filled
from nmt.training.learner import Learner
from nmt.training.ranks.exchange import NO_OTHERS, Ranks
from nmt.training.ranks.message import Report, UpdateOutcome
from nmt.training.start.model_memory import minimum_memory
from tests.training.conftest import (  # noqa: F401 - fixtures
    assert_same,
    listener,
    reversed_words,
    run_training,
    saved,
    settings_file,
    settled,
)
from tests.training.test_learner import batch, pairs

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

DEVICE = "cuda"
SMALL = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 64, "d_ff": 128, "heads": 2, "dropout": 0.0}
PARTS = [batch(pairs(5)), batch(pairs(3))]
ROUNDING = {"bf16": 0.05, "fp16": 0.05, "fp32": 1e-2}


def learner(device, precision, sizes=None, ranks=NO_OTHERS, overlaps_exchange=None, **training) -> Learner:
    hardware = choose_hardware(device, precision, 1)
    config = Config(model=ModelConfig(**(SMALL | (sizes or {}))), training=TrainingConfig(**training))
    torch.manual_seed(0)
    model = accelerate(Transformer(config.model, 30), choose_kernels(hardware.device, hardware.autocast_dtype))
    made = model.to(hardware.device, hardware.weights_dtype)
    return Learner(made, config, hardware, ranks, overlaps_exchange=overlaps_exchange)


def updated(made, batches=PARTS, updates=2):
    """The result of the last update, whose host waited for nothing but the figures."""
    tokens = sum(one.target_tokens for one in batches)
    for update in range(1, updates + 1):
        torch.cuda.set_sync_debug_mode("error" if update > 1 else "default")  # libraries begin in the first update
        try:
            gradients = made.begin(batches, update=update, target_tokens=tokens)
            step = made.step(gradients, 0.01, Report())
        finally:
            torch.cuda.set_sync_debug_mode("default")
        result = made.read(step)
    return result


def assert_equal(one, other, *, within):
    for figure in ("smoothed_loss", "cross_entropy", "gradient_norm", "target_tokens", "source_tokens"):
        assert getattr(one, figure) == pytest.approx(getattr(other, figure), rel=within), figure


@pytest.mark.parametrize("precision", ROUNDING)
@pytest.mark.parametrize(
    "options",
    [
        {}, {"sizes": {"attention_dropout": 0.1}}, {"sizes": {"norm": "pre"}}, {"sizes": {"positions": "learned"}},
        {"sizes": {"tied_embeddings": "none", "output_bias": True}}, {"sizes": {"d_k": 6, "d_v": 6}},
        {"sizes": {"source_eos": False, "activation": "gelu"}}, {"r_drop": 5.0}, {"ema_decay": 0.9},
    ],
    ids=str,
)  # fmt: skip
def test_updates_are_those_of_a_cpu(precision, options):
    on_gpu = updated(learner(DEVICE, precision, **options))
    if "attention_dropout" not in str(options):
        assert_equal(on_gpu, updated(learner("cpu", precision, **options)), within=ROUNDING[precision])


def prepared(*batches, rows=(150, 900), pairs=12):
    """Batches of one size, with more rows on one side than on the other."""
    filled = Filled.within(MicroBatchLimits(*rows, pairs), 10, torch.device(DEVICE))
    return [filled.prepared(one) for one in batches]


@pytest.fixture
def compiled():
    """Makes a learner that compiles."""
    made = []

    def make(*arguments, **options) -> Learner:
        made.append(learner(*arguments, **options))
        assert made[-1].compile(), made[-1].take_warning()
        counters.clear()
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.mark.parametrize("options", [{}, {"r_drop": 5.0}, {"ema_decay": 0.9}, {"sizes": {"norm": "pre"}}], ids=str)
def test_a_compiled_graph_has_the_gradients_of_the_kernels_one_by_one(compiled, options):
    made, batches = compiled(DEVICE, "bf16", **options), prepared(*PARTS)
    assert_equal(updated(made, batches), updated(learner(DEVICE, "bf16", **options), batches), within=0.05)
    assert made.is_compiled, made.take_warning()
    assert counters["inductor"]["cudagraph_skips"] == 0


def test_a_graph_draws_by_the_seed_of_its_update(compiled):
    made, [one, _] = compiled(DEVICE, "bf16", {"dropout": 0.3}), prepared(*PARTS)
    losses = [
        made.update([one], update=update, target_tokens=one.target_tokens, learning_rate=0.0).smoothed_loss
        for update in (1, 2, 3, 4, 5, 4)  # the first ones compile and record
    ]
    assert made.is_compiled, made.take_warning()
    assert losses[3] == losses[5] != losses[4]


def test_graphs_give_their_memory_back(compiled):
    made = compiled(DEVICE, "bf16", {"d_ff": 4096})
    updated(made, prepared(batch(pairs(2_000)), rows=(20_000, 20_000), pairs=2_000))
    assert made.is_compiled, made.take_warning()
    with_graphs = torch.cuda.memory_reserved()
    made.close()
    assert with_graphs - torch.cuda.memory_reserved() > 100 << 20


@pytest.fixture
def little_memory():
    """So much is free as a small update needs."""
    total = torch.cuda.get_device_properties(0).total_memory

    def limit() -> None:
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + (256 << 20)) / total)

    yield limit
    torch.cuda.set_per_process_memory_fraction(1.0)


def test_an_update_that_does_not_fit_is_made_again_from_smaller_micro_batches(little_memory):
    made, many = learner(DEVICE, "fp32", {"d_ff": 4096}), batch(pairs(20_000))
    little_memory()
    assert updated(made, [many], updates=1).outcome is UpdateOutcome.AGAIN
    assert_equal(updated(made), updated(learner("cpu", "fp32", {"d_ff": 4096})), within=0.01)


def test_a_graph_that_does_not_fit_is_followed_by_a_smaller_one(compiled, little_memory):
    made = compiled(DEVICE, "bf16", {"d_ff": 4096})
    little_memory()
    many = prepared(batch(pairs(20_000)), rows=(200_000, 200_000), pairs=20_000)
    assert updated(made, many, updates=1).outcome is UpdateOutcome.AGAIN
    assert_equal(updated(made, prepared(*PARTS)), updated(learner("cpu", "bf16", {"d_ff": 4096})), within=0.05)
    assert made.is_compiled, made.take_warning()


@pytest.mark.parametrize(("overlaps", "is_compiled"), [(False, False), (True, False), (True, True)])
def test_gradients_that_nccl_exchanges_are_those_of_one_rank(tmp_path, overlaps, is_compiled):
    """NCCL sums over the one rank that there is."""
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("cpu:gloo,cuda:nccl", store=store, rank=0, world_size=1)
    try:
        made = learner(DEVICE, "bf16", ranks=Ranks(0, 2), overlaps_exchange=overlaps, bucket_megabytes=0.01)
        if is_compiled:
            made.compile()
        exchanged = updated(made, prepared(*PARTS))
        assert made.is_compiled == is_compiled, made.take_warning()
        made.close()
    finally:
        dist.destroy_process_group()
    assert_equal(exchanged, updated(learner(DEVICE, "bf16")), within=0.05 if is_compiled else 1e-3)


@pytest.mark.parametrize("changes", [["training.deterministic=true"], ["training.compile=true"]], ids=str)
def test_a_run_that_resumes_ends_as_one_that_does_not(run_training, tmp_path, monkeypatch, changes):  # noqa: F811
    monkeypatch.setitem(os.environ, "CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    changes = [f"training.device={DEVICE}", "training.precision=bf16", "batching.micro_batch_tokens=auto", *changes]
    try:
        run_training(tmp_path / "straight", *changes, "training.max_updates=10")
        run_training(tmp_path / "stopped", *changes, "training.max_updates=5")
        run_training(tmp_path / "stopped", *changes, "training.max_updates=10")
    finally:
        torch.use_deterministic_algorithms(False)
    one, other = saved(tmp_path / "stopped", 10), saved(tmp_path / "straight", 10)
    if "deterministic" in str(changes):
        assert_same(one, other)
    else:
        for name, tensor in one.items():
            torch.testing.assert_close(tensor, other[name], rtol=0.05, atol=1e-3)


def test_the_estimate_of_memory_holds_what_is_kept_between_updates():
    config = parse_config(load_preset("base") | {"data": {"vocab_size": 37_000}}, name="base")
    hardware = choose_hardware(DEVICE, "bf16", 1)
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    kernels = choose_kernels(hardware.device, hardware.autocast_dtype)
    model = accelerate(Transformer(config.model, 37_000), kernels).to(hardware.device)
    made = Learner(model, config, hardware)
    updated(made)
    kept = torch.cuda.memory_allocated() - before
    assert kept <= minimum_memory(config, hardware, NO_OTHERS) <= 1.05 * kept
