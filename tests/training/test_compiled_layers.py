"""Layers that are compiled for training: they learn the same, by few graphs, and their gradients come one by one."""

import dataclasses
import functools
import itertools
import shutil

import pytest
import torch
from torch._dynamo.exc import FailOnRecompileLimitHit

from nmt.config import ModelConfig
from nmt.kernels import private
from nmt.kernels.policy import choose_kernels
from nmt.model.transformer import Transformer
from nmt.training.input.model_inputs import model_inputs
from nmt.training.loss import label_smoothed_loss
from nmt.training.start.beginning import freeze
from tests.policies import EVERY_POLICY, POLICIES, chosen
from tests.training.test_gradients import SMALL_BUCKETS, Twice
from tests.training.test_learner import batch, gradient, learner, pairs, updated, weights

SLOW = pytest.mark.slow
SMALL = {"encoder_layers": 3, "decoder_layers": 2, "d_model": 16, "d_ff": 32, "heads": 2}
BATCHES = [batch(pairs(9)), batch(pairs(4)), batch(pairs(1))]


@pytest.fixture
def graphs(monkeypatch):
    """The graphs that are compiled, which compute as they are."""
    found = []

    def backend(graph, _):
        found.append(graph)
        return graph.forward

    monkeypatch.setattr(private.torch, "compile", functools.partial(torch.compile, backend=backend))
    return found


@pytest.mark.slow
@EVERY_POLICY
@pytest.mark.parametrize(
    "options",
    [{"dropout": 0.3}, pytest.param({"r_drop": 2.0}, marks=SLOW), pytest.param({"precision": "bf16"}, marks=SLOW)],
    ids=str,
)
def test_gradients_are_those_of_layers_that_are_not_compiled(graphs, options):
    if chosen().packs_pieces:  # each row, padding too, draws numbers if it is compiled
        options = options | {"dropout": 0.0}
    plain, compiled = learner(**options), learner(**options, compile=True)
    for made in (plain, compiled):
        assert made.compute_gradients(BATCHES, update=1, target_tokens=90) is None
    assert graphs
    tolerance = 1e-2 if "precision" in options else 1e-12
    assert (gradient(plain) - gradient(compiled)).norm() <= tolerance * gradient(plain).norm()


@SLOW
@pytest.mark.parametrize("policy", ["cpu", "cuda-16-bit"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_real_compiler_computes_the_same_gradients(policy, precision):
    pytest.importorskip("torch._inductor")
    if shutil.which("g++") is None:
        pytest.skip("torch.compile needs a C++ compiler here")

    def gradients(precision: str, *, is_compiled: bool):
        torch.manual_seed(1)
        model = Transformer(ModelConfig(**SMALL, dropout=0.0), 30, POLICIES[policy]).train()
        if is_compiled:
            model.compile_layers()
        for made in BATCHES:
            inputs = model_inputs(made, torch.device("cpu"), as_line=model.takes_sentence_rows)
            with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
                logits = model(inputs.source_BS, inputs.target_input_BT, inputs.source_places, inputs.target_places)
                losses = label_smoothed_loss(logits, inputs.target_output_BT, 0.1)
            losses.smoothed.backward()
        return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])

    plain, compiled = (gradients(precision, is_compiled=is_compiled) for is_compiled in (False, True))
    if precision == "fp32":
        assert (plain - compiled).norm() <= 1e-5 * plain.norm()
    else:  # compiled layers round less often
        exact = gradients("fp32", is_compiled=False)
        assert (compiled - exact).norm() <= 1.2 * (plain - exact).norm()


@SLOW
def test_all_layers_of_a_kind_share_few_graphs_whatever_shapes_batches_have(graphs):
    kernels = dataclasses.replace(choose_kernels(torch.device("cuda")), recorder=None)
    model = Transformer(ModelConfig(**SMALL), 40, kernels).train()
    model.compile_layers()
    # In the first batches all sizes are equal, or one is 1.
    shapes = [(1, 7, 7), (5, 5, 5), (2, 7, 7), (1, 5, 5), *itertools.product((1, 2, 8), (1, 3, 70), (1, 3, 70))]
    for sentences, source, target in shapes:
        source_BS, target_BT = (torch.randint(4, 40, (sentences, length)) for length in (source, target))
        model(source_BS, target_BT, [source] * sentences, [target] * sentences)
    assert len(graphs) <= 4 + 8  # for each combination of sizes that are 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"norm": "pre"}, {"attention": "additive"}, {"attention": "dot_product"}, {"attention_dropout": 0.1},
        {"activation": "quick_gelu", "activation_dropout": 0.1}, {"d_k": 4, "d_v": 12, "source_eos": False},
        {"source_neighbours": 2, "target_neighbours": 3},
    ],
    ids=str,
)  # fmt: skip
def test_layers_of_every_kind_are_one_graph(graphs, changes):
    model = Transformer(ModelConfig(**SMALL, **changes), 40, choose_kernels(torch.device("cpu"))).train()
    model.compile_layers()
    for sentences, source, target in [(2, 5, 5), (4, 7, 9), (9, 8, 8)]:
        model(torch.randint(4, 40, (sentences, source)), torch.randint(4, 40, (sentences, target))).sum().backward()
    assert len(graphs) == 2


@pytest.mark.slow
def test_layers_share_few_graphs_for_lines_of_sentences(graphs):
    model = Transformer(ModelConfig(**SMALL), 30, POLICIES["cuda-16-bit"]).train()
    model.compile_layers()
    shapes = set()
    for count in range(1, 90, 4):
        inputs = model_inputs(batch(pairs(count)), torch.device("cpu"), as_line=True)
        shapes.add((inputs.source_BS.shape, inputs.target_input_BT.shape))
        model(inputs.source_BS, inputs.target_input_BT, inputs.source_places, inputs.target_places)
    assert len(shapes) > 15
    assert len(graphs) == 2


@pytest.fixture
def two_graphs_at_most(monkeypatch):
    """Of the code of a function; by default there may be many."""
    monkeypatch.setattr(private, "_MAX_GRAPHS", 2)
    with torch._dynamo.config.patch(recompile_limit=1):
        yield


@SLOW
def test_every_model_has_graphs_of_its_own(graphs, two_graphs_at_most):
    """Several models may be trained by one process."""
    for d_model in (4, 6, 8, 10):
        model = Transformer(ModelConfig(**SMALL | {"d_model": d_model, "heads": 1}), 30).train()
        model.compile_layers()
        model(torch.randint(4, 30, (2, 3)), torch.randint(4, 30, (2, 4)))
    assert len(graphs) == 2 * 4


def test_too_many_graphs_are_an_error(graphs, two_graphs_at_most):
    """Otherwise training would go on without graphs, and be slow."""

    def double(x):
        return x + x

    compiled = private.compiled_for_any_shape(double)
    for shape in ((2,), (2, 2)):
        compiled(torch.ones(shape))
    with pytest.raises(FailOnRecompileLimitHit):
        compiled(torch.ones(2, 2, 2))


@SLOW
def test_frozen_layers_stay_and_the_others_learn(graphs):
    model = Transformer(ModelConfig(**SMALL), 30).train()
    freeze(model, ["encoder.0.*", "decoder.1.*"])
    model.compile_layers()
    model(torch.randint(4, 30, (2, 3)), torch.randint(4, 30, (2, 4))).sum().backward()
    for name, parameter in model.named_parameters():
        assert (parameter.grad is None) == name.startswith(("encoder.0.", "decoder.1.")), name
    assert len(graphs) == 4


def test_saved_weights_have_the_same_names_and_inference_is_not_compiled(graphs):
    plain, compiled = learner(), learner(compile=True)
    assert list(plain.weights()) == list(compiled.weights())
    source, target = (torch.randint(4, 30, (2, 5)) for _ in range(2))
    assert torch.equal(plain.model.eval()(source, target), compiled.model.eval()(source, target))
    assert not graphs


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp64", "bf16"])
def test_buckets_are_sent_while_layers_before_compute_theirs(graphs, precision):
    ranks = Twice()
    alone = learner(precision=precision, ranks=Twice(), overlaps_exchange=False)
    compiled = learner(precision=precision, ranks=ranks, compile=True, **SMALL_BUCKETS)
    sent = []  # when the gradients of the first encoder layer come
    weight = compiled.model.encoder[0].self_attention.query_key_value.weight
    weight.register_post_accumulate_grad_hook(lambda weight: sent.append(len(ranks.begun)))
    for made in (alone, compiled):
        made.update(BATCHES[:2], update=1, target_tokens=60, learning_rate=0.01)
    first, last = sent
    assert first == 0
    assert 1 < last < len(ranks.begun) - 1
    torch.testing.assert_close(weights(alone), weights(compiled), rtol=1e-9, atol=1e-12)


def test_updates_are_the_same(graphs):
    plain, compiled = (
        updated(BATCHES, updates=3, ema_decay=0.5, clip_norm=0.1, compile=compiled)[0] for compiled in (False, True)
    )
    assert (plain - compiled).norm() <= 1e-12 * plain.norm()
