"""Model and loss compiled as one graph: they learn the same, and where there is no compiler, training goes on."""

import dataclasses
import functools
import shutil

import pytest
import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd

from nmt.cli.training_view import preflight_lines
from nmt.config import Config, ModelConfig, TrainingConfig
from nmt.data.dealing import MicroBatchLimits
from nmt.errors import TrainingError
from nmt.kernels.policy import accelerate
from nmt.machine.device import choose_hardware
from nmt.model.transformer import Transformer
from nmt.training import learner as learner_module
from nmt.training.input.micro_batches import Filled
from nmt.training.input.model_inputs import model_inputs
from nmt.training.learner import Learner
from nmt.training.loss import label_smoothed_loss
from nmt.training.ranks.exchange import LostPeerError
from nmt.training.ranks.message import UpdateOutcome
from nmt.training.start import resume
from tests.policies import POLICIES
from tests.training.conftest import assert_same, records, saved
from tests.training.test_gradients import SMALL_BUCKETS, Twice
from tests.training.test_learner import batch, gradient, out_of_memory, pairs, weights

SLOW = pytest.mark.slow
BATCHES = [batch(pairs(9)), batch(pairs(4)), batch(pairs(1))]
CPU = torch.device("cpu")


def filled(tokens=60, pairs=12, longest=10) -> Filled:
    return Filled.within(MicroBatchLimits(tokens, tokens, pairs), longest, CPU)


@pytest.fixture
def graphs(monkeypatch):
    """The graphs that are compiled, which compute as they are."""
    found = []

    def backend(graph, _):
        found.append(graph)
        return graph.forward

    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend=backend))
    return found


@pytest.fixture
def broken_compiler(monkeypatch):
    def backend(graph, _):
        raise RuntimeError("no C++ compiler was found\nset CXX to one")

    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend=backend))


def learner(precision="fp64", *, policy="cuda-16-bit", sizes=None, **training) -> Learner:
    torch.manual_seed(0)
    small = {"encoder_layers": 2, "decoder_layers": 2, "d_model": 16, "d_ff": 32, "heads": 2, "dropout": 0.0}
    options = {name: training.pop(name) for name in ("ranks", "overlaps_exchange") if name in training}
    config = Config(model=ModelConfig(**small | (sizes or {})), training=TrainingConfig(**training))
    hardware = choose_hardware("cpu", precision, 1)
    model = accelerate(Transformer(config.model, 30), POLICIES[policy]).to(hardware.weights_dtype)
    return Learner(model, config, hardware, **options)


def updated(made: Learner, batches=BATCHES, *, update=1, size=None):
    if made.is_compiled or size is not None:
        batches = [(size or filled()).prepared(one) for one in batches]
    tokens = sum(one.target_tokens for one in batches)
    return made.update(batches, update=update, target_tokens=tokens, learning_rate=0.01)


@SLOW
@pytest.mark.parametrize(("precision", "within"), [("fp64", 1e-10), ("fp32", 1e-5), ("bf16", 2e-2)])
@pytest.mark.parametrize(
    ("sizes", "training"), [({}, {}), ({"norm": "pre", "positions": "learned"}, {"r_drop": 2.0})], ids=str
)
def test_a_real_compiler_computes_the_same(precision, within, sizes, training):
    pytest.importorskip("torch._inductor")
    if shutil.which("g++") is None:
        pytest.skip("torch.compile needs a C++ compiler here")
    plain, compiled = (learner(precision, sizes=sizes, **training) for _ in range(2))
    compiled.compile()
    expected, found = updated(plain), updated(compiled)
    assert compiled.take_warning() is None
    assert (gradient(plain) - gradient(compiled)).norm() <= within * gradient(plain).norm()
    for figure in ("smoothed_loss", "cross_entropy"):
        assert getattr(found, figure) == pytest.approx(getattr(expected, figure), rel=max(within, 1e-9))


@pytest.mark.parametrize(
    "sizes",
    [
        {},
        pytest.param({"norm": "pre", "activation": "quick_gelu", "activation_dropout": 0.0}, marks=SLOW),
        pytest.param({"positions": "learned", "tied_embeddings": "none", "output_bias": True}, marks=SLOW),
        pytest.param({"decoder_start": "zero", "attention_bias": False, "activation": "gelu"}, marks=SLOW),
    ],
    ids=str,
)
def test_micro_batches_of_all_sizes_are_one_graph_and_learn_the_same(graphs, sizes):
    plain, compiled = learner(sizes=sizes), learner(sizes=sizes)
    compiled.compile()
    for update in (1, 2):
        updated(plain, update=update)
        updated(compiled, update=update)
    assert len(graphs) == 1
    assert compiled.take_warning() is None
    assert (weights(plain) - weights(compiled)).norm() <= 1e-10 * weights(plain).norm()


@pytest.mark.parametrize("training", [{}, {"r_drop": 2.0}], ids=str)
def test_a_graph_makes_no_tensor_on_the_host(monkeypatch, training):
    """With one of these torch makes no CUDA graph. Weights do not move, so they are not copied before each run."""
    operations, copied = set(), []

    def compiler(graph, _):
        operations.update(str(node.target) for node in graph.graph.nodes)
        inputs = [node for node in graph.graph.nodes if node.op == "placeholder"]
        copied.append(len(inputs) - len(torch._guards.TracingContext.get().fw_metadata.static_input_indices))
        return make_boxed_func(graph.forward)

    backend = aot_autograd(fw_compiler=compiler)
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend=backend))
    made = learner("fp32", sizes={"dropout": 0.1, "decoder_start": "zero"}, **training)
    made.model.packed_attention = lambda query, key, value, *_: query + key.mean(0) + value.mean(0)  # a kernel's place
    made.compile()
    updated(made)
    assert made.is_compiled, made.take_warning()
    assert not operations & {"aten.scalar_tensor.default", "aten.lift_fresh_copy.default"}
    assert copied[0] == 2 * 2 + 1  # tokens and positions of both sides, and the targets of the loss


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_in_a_graph_is_that_outside(monkeypatch, smoothing):
    torch.manual_seed(0)
    logits, target = torch.randn(5, 11, dtype=torch.float64, requires_grad=True), torch.tensor([3, 0, 1, 10, 4])
    found = []
    for is_compiling in (False, True):
        monkeypatch.setattr(torch.compiler, "is_compiling", lambda is_compiling=is_compiling: is_compiling)
        losses = label_smoothed_loss(logits, target, smoothing)
        found.append((*losses, *torch.autograd.grad(losses.smoothed, logits)))
        assert not losses.cross_entropy.requires_grad
    torch.testing.assert_close(*found)


def test_without_a_compiler_the_same_is_learnt_and_one_line_says_why(broken_compiler):
    plain, compiled = (learner(sizes={"dropout": 0.3}, ema_decay=0.5) for _ in range(2))
    compiled.compile()
    for update in (1, 2):
        updated(plain, update=update, size=filled())
        updated(compiled, update=update, size=filled())
    assert torch.equal(weights(plain), weights(compiled))
    warning = compiled.take_warning()
    assert compiled.take_warning() is None
    assert warning.startswith("Model and loss are not compiled: ")
    assert "no C++ compiler was found" in warning
    assert "\n" not in warning
    assert not compiled.is_compiled


@pytest.mark.parametrize("policy", ["cpu", "cuda"])
def test_attention_that_pads_is_not_compiled(graphs, policy):
    made = learner(policy=policy)
    assert not made.compile()
    updated(made)
    assert not graphs
    assert "attention without padding" in made.take_warning()


def test_deterministic_training_is_not_compiled(graphs):
    made = learner()
    made.hardware = dataclasses.replace(made.hardware, is_deterministic=True)
    assert not made.compile()
    assert "training.deterministic" in made.take_warning()


def failing(made: Learner, times: int) -> None:
    """Let memory run out so many times."""
    compute, failures = made._losses, [out_of_memory() for _ in range(times)]

    def losses(*arguments):
        if failures:
            raise failures.pop()
        return compute(*arguments)

    made._losses = losses


@pytest.mark.parametrize("unfit", [batch(pairs(9)), batch(pairs(1))])
def test_memory_that_ends_is_not_taken_for_a_broken_compiler_but_for_a_size_that_is_too_large(graphs, unfit):
    """However few pieces a micro-batch holds."""
    made, plain = learner(), learner()
    made.compile()
    failing(made, times=2)
    for size, fitting in ((300, 150), (150, 75)):
        assert updated(made, [unfit], size=filled(size)).fitting_tokens == fitting
    assert made.is_compiled
    assert made.take_warning() is None
    assert updated(made, [unfit], size=filled(75)).outcome is UpdateOutcome.DONE
    updated(plain, [unfit])
    assert (weights(plain) - weights(made)).norm() <= 1e-10 * weights(plain).norm()


def test_a_pair_that_fills_a_graph_and_does_not_fit_is_an_error(graphs):
    made = learner()
    made.compile()
    failing(made, times=1)
    long = batch([(range(4, 140), range(4, 140))])
    with pytest.raises(TrainingError, match="a single pair of 137 source and 137 target pieces"):
        updated(made, [long], size=filled(200, 1, 140))


class Lost(Twice):
    """Another rank is gone when the third bucket is sent."""

    def begin_all_reduce(self, tensor):
        if len(self.begun) == 2:
            raise LostPeerError("rank 1 is gone")
        return super().begin_all_reduce(tensor)


def test_an_exchange_that_fails_is_not_taken_for_a_broken_compiler(graphs):
    made = learner(ranks=Lost(), **SMALL_BUCKETS)
    made.compile()
    with pytest.raises(LostPeerError):
        updated(made)
    assert made.is_compiled
    assert made.take_warning() is None


def test_gradients_in_buckets_are_those_of_a_whole(graphs):
    whole = learner(ranks=Twice(), overlaps_exchange=False)
    compiled = learner(ranks=Twice(), **SMALL_BUCKETS)
    compiled.compile()
    for made in (whole, compiled):
        updated(made)
    assert (weights(whole) - weights(compiled)).norm() <= 1e-9 * weights(whole).norm()


def test_saved_weights_have_the_same_names_and_validation_is_not_compiled(graphs):
    made = learner()
    made.compile()
    assert list(made.weights()) == list(learner().weights())
    made.model.eval()
    inputs = model_inputs(BATCHES[0], CPU, made.model.size_of)
    made.model(inputs.source, inputs.target)
    assert not graphs


@pytest.fixture
def packed_attention(monkeypatch):
    """Runs that compute as on a GPU whose attention needs no padding."""
    monkeypatch.setattr(resume, "choose_kernels", lambda *arguments, **options: POLICIES["cuda-16-bit"])


COMPILE = ("training.compile=true", "model.dropout=0", "training.precision=fp32", "logging.every_updates=1")


def resets(monkeypatch) -> list[str]:
    """What is done to the memory of graphs."""
    done = []
    monkeypatch.setattr(torch.compiler, "reset", lambda: done.append("graphs are gone"))
    monkeypatch.setattr(learner_module, "release_memory", lambda device: done.append("released"))
    monkeypatch.setattr(learner_module, "keep_memory", lambda device: done.append("kept"))
    return done


def test_graphs_release_their_memory_before_others_are_made_and_when_they_are_not_used_again(graphs, monkeypatch):
    done, made = resets(monkeypatch), learner()
    made.close()
    assert done == []
    made.compile()
    assert done == ["graphs are gone", "released"]
    made.close()
    assert done == ["graphs are gone", "released"] * 2
    assert not made.is_compiled
    assert updated(made, size=filled()).outcome is UpdateOutcome.DONE
    assert not graphs


@pytest.mark.parametrize(
    ("error", "then"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), ["graphs are gone", "released"]),
        # torch's cache must stay as it is after a recording that failed.
        (RuntimeError("capture failed"), ["graphs are gone", "kept", "released"]),
    ],
    ids=str,
)
def test_a_graph_that_is_recorded_in_part_is_not_used_again(graphs, monkeypatch, error, then):
    done, made = resets(monkeypatch), learner()
    made.compile()
    done.clear()
    error.__context__ = torch.OutOfMemoryError("CUDA out of memory")

    def losses(*arguments):
        raise error

    made._losses = losses
    assert updated(made).outcome is UpdateOutcome.AGAIN
    assert done == then


def test_an_update_in_smaller_micro_batches_is_a_graph_of_its_own(
    graphs, packed_attention, run_training, tmp_path, monkeypatch
):
    """The graph of the larger ones would keep its memory, on ranks where it fitted too."""
    compute, released = Learner.compute_gradients, []
    monkeypatch.setattr(torch.compiler, "reset", lambda reset=torch.compiler.reset: released.append(reset()))

    def failing(self, batches, *, update, **options):
        if update == 3 and batches[0].tokens > 40:
            self._buffer.clear()
            return batches[0]
        return compute(self, batches, update=update, **options)

    monkeypatch.setattr(Learner, "compute_gradients", failing)
    run_training(tmp_path / "run", *COMPILE, "batching.micro_batch_tokens=60")
    assert len(records(tmp_path / "run", "event")) == 1
    assert len(graphs) == 2
    assert len(released) == 3  # in preflight, for the smaller ones, and at the end


def test_an_epoch_of_a_run_is_one_graph(graphs, packed_attention, run_training, tmp_path):
    outcome = run_training(tmp_path / "compiled", *COMPILE)
    run_training(tmp_path / "eager", *COMPILE, "training.compile=false")
    assert outcome.progress.epoch >= 1
    assert len(graphs) == 1
    losses = [[record["loss"] for record in records(tmp_path / name, "update")] for name in ("compiled", "eager")]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert records(tmp_path / "compiled", "event") == []
    assert [record["compiled"] for record in records(tmp_path / "compiled", "start")] == [True]


def test_a_compiled_run_that_resumes_ends_as_one_that_does_not(graphs, packed_attention, run_training, tmp_path):
    changes = [*COMPILE, "model.dropout=0.1", "batching.micro_batch_tokens=auto", "training.max_updates=10"]
    straight = run_training(tmp_path / "straight", *changes)
    run_training(tmp_path / "stopped", *changes, "training.max_updates=4")
    resumed = run_training(tmp_path / "stopped", *changes)
    assert_same(saved(tmp_path / "stopped", 10), saved(tmp_path / "straight", 10))
    assert resumed.progress.micro_batch_tokens == straight.progress.micro_batch_tokens


def test_a_run_without_a_compiler_goes_on_and_says_why(
    broken_compiler, packed_attention, run_training, listener, monkeypatch, tmp_path
):
    measured = []
    monkeypatch.setattr(listener, "measured", measured.append)
    run_training(tmp_path / "run", *COMPILE)
    run_training(tmp_path / "eager", *COMPILE, "training.compile=false")
    assert [record["compiled"] for record in records(tmp_path / "run", "start")] == [False]
    assert "no C++ compiler was found" in measured[0].not_compiled
    assert any("no C++ compiler was found" in line for line in preflight_lines(measured[0]))
    losses = [[record["loss"] for record in records(tmp_path / name, "update")] for name in ("run", "eager")]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


def test_a_longest_pair_for_which_memory_is_too_small_ends_a_run(packed_attention, run_training, tmp_path, monkeypatch):
    compute = Learner.compute_gradients

    def failing(self, batches, *, update, **options):
        if update != 2:
            return compute(self, batches, update=update, **options)
        self._buffer.clear()
        return batches[0]

    monkeypatch.setattr(Learner, "compute_gradients", failing)
    with pytest.raises(TrainingError, match=r"^update 2: a micro-batch of \d+ pieces on a side, as the longest pair"):
        run_training(tmp_path / "run", "batching.micro_batch_tokens=auto")
    sizes = [event["micro_batch_tokens"] for event in records(tmp_path / "run", "event")]
    assert sizes == sorted(sizes, reverse=True)
    assert len(sizes) > 1
