"""The graphs for ONNX, run by torch, compute what our model computes."""

import pytest
import torch

from nmt.convert.onnx.graphs import DecoderGraph, DecoderWithPastGraph, EncoderGraph, graph_model, sample_inputs
from nmt.model.transformer import Transformer
from tests import on_padded

MODELS = [
    pytest.param({}, id="the paper's"),
    pytest.param(
        {"norm": "pre", "tied_embeddings": "decoder", "output_bias": True, "decoder_start": "zero", "is_foreign": True},
        id="pre-norm, a source matrix, an output bias, zeros first",
    ),
    pytest.param(
        {"attention": "dot_product", "d_k": 4, "source_neighbours": 2, "target_neighbours": 3, "attention_bias": False},
        id="other attentions",
    ),
    pytest.param({"attention": "additive", "positions": "learned"}, id="additive attention, learned positions"),
]
LENGTHS = (7, 4)
TARGET = torch.tensor([[2, 9, 7, 12, 5, 8], [2, 6, 11, 10, 4, 13]])


@pytest.fixture(params=MODELS)
def bundle(request, make_bundle):
    return make_bundle(**request.param)


@pytest.fixture
def model(bundle) -> Transformer:
    return bundle.build_model()


def source_and_mask() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    mask = (torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]).long()
    return torch.randint(4, 14, mask.shape) * mask, mask


@torch.no_grad()
def test_the_encoder(bundle, model):
    source, mask = source_and_mask()
    found = EncoderGraph(graph_model(bundle))(source, mask)
    for states, row, length in zip(found, source, LENGTHS, strict=True):
        assert torch.allclose(
            states[:length], on_padded.encoded(model, row[None, :length]).memory_MD[:length], atol=1e-5
        )


@torch.no_grad()
def test_the_decoder_with_and_without_a_past(bundle, model):
    source, mask = source_and_mask()
    expected = [
        on_padded.logits(model, row[None, :length], target[None])[0]
        for row, length, target in zip(source, LENGTHS, TARGET, strict=True)
    ]
    graphs = graph_model(bundle)
    states = EncoderGraph(graphs)(source, mask)
    whole = DecoderGraph(graphs)(TARGET, states, mask)
    assert torch.allclose(whole[0], torch.stack(expected), atol=1e-4)

    with_past = DecoderWithPastGraph(graphs)
    first, *present = DecoderGraph(graphs)(TARGET[:, :2], states, mask)
    names = list(DecoderGraph(graphs).outputs)[1:]
    past = dict(zip((name.replace("present", "past_key_values") for name in names), present, strict=True))
    logits = [first]
    for tokens in (TARGET[:, 2:3], TARGET[:, 3:]):
        following, *present = with_past(tokens, mask, *(past[name] for name in list(with_past.inputs)[2:]))
        past |= {
            name.replace("present", "past_key_values"): t
            for name, t in zip(with_past.outputs[1:], present, strict=True)
        }
        logits.append(following)
    assert torch.allclose(torch.cat(logits, dim=1), whole[0], atol=1e-5)
    assert all(torch.allclose(past[name.replace("present", "past_key_values")], t, atol=1e-5)
               for name, t in zip(names, whole[1:], strict=True))  # fmt: skip


def test_samples_have_the_shapes_that_the_graphs_name(bundle):
    graphs = graph_model(bundle)
    for graph in (EncoderGraph(graphs), DecoderGraph(graphs), DecoderWithPastGraph(graphs)):
        sample = sample_inputs(graph)
        assert [len(tensor.shape) for tensor in sample] == [len(shape) for shape in graph.inputs.values()]
        with torch.no_grad():
            outputs = graph(*sample)
        outputs = [outputs] if isinstance(outputs, torch.Tensor) else outputs
        assert len(outputs) == len(graph.outputs)
