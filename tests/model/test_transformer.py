"""The model against torch.nn's own layers, against itself step by step, and against numerical gradients."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from nmt.config import ModelConfig
from nmt.kernels.policy import accelerate
from nmt.kernels.prepacking import prepack
from nmt.model.attention import MultiHeadAttention
from nmt.model.embeddings import ROWS_MULTIPLE
from nmt.model.masks import AdditiveMask, PaddedRows
from nmt.model.observing import AttentionObserver, ObservedMask
from nmt.model.state import narrow
from nmt.model.transformer import Transformer
from nmt.special_ids import PAD
from nmt.training.start.summary import parameter_counts
from tests import on_padded
from tests.policies import POLICIES

BOS, EOS = 2, 3
ACTIVATIONS = {
    "relu": F.relu,
    "swish": F.silu,
    "gelu": F.gelu,
    "quick_gelu": lambda x: x * (1 / (1 + torch.exp(-1.702 * x))),
}
VOCAB = 43  # no multiple of 8, so that rows are added


@pytest.fixture
def build(kernels):
    """Makes a model, with each choice of kernels."""

    def make(dtype=torch.float64, seed=0, source_vocab_size=None, **changes) -> Transformer:
        torch.manual_seed(seed)
        settings = {"encoder_layers": 2, "decoder_layers": 3, "d_model": 32, "d_ff": 48, "heads": 4, "dropout": 0.0}
        model = accelerate(
            Transformer(ModelConfig(**(settings | changes)), VOCAB, source_vocab_size=source_vocab_size), kernels
        ).to(dtype)
        for parameter in model.parameters():  # biases and norms away from 0 and 1, so that mixing them up shows
            nn.init.normal_(parameter, std=0.2) if parameter.dim() == 1 else None
        return model.eval()

    return make


def batch(seed=0, lengths=((7, 5), (3, 9), (1, 1))):
    generator = torch.Generator().manual_seed(seed)
    source = torch.full((len(lengths), max(s for s, _ in lengths)), PAD)
    target = torch.full((len(lengths), max(t for _, t in lengths)), PAD)
    for row, (s, t) in enumerate(lengths):
        source[row, :s] = torch.randint(4, VOCAB, (s,), generator=generator)
        target[row, :t] = torch.randint(4, VOCAB, (t,), generator=generator)
    return source, target


def load_attention(theirs: nn.MultiheadAttention, ours: MultiHeadAttention) -> None:
    theirs.in_proj_weight.data.copy_(ours.query_key_value.weight)
    theirs.in_proj_bias.data.copy_(ours.query_key_value.bias)
    theirs.out_proj.load_state_dict(ours.output.state_dict())


def torch_logits(model: Transformer, source, target):
    """The same weights in torch.nn's Transformer layers."""
    config = model.config
    options = dict(  # noqa: C408
        d_model=config.d_model, nhead=config.heads, dim_feedforward=config.d_ff, dropout=0.0, batch_first=True,
        norm_first=config.norm == "pre", layer_norm_eps=config.norm_epsilon, dtype=model.embedding.weight.dtype,
        activation=ACTIVATIONS[config.activation],
    )  # fmt: skip
    padding, forbidden = source == PAD, torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)

    weights = model.embedding.state_dict()

    def embed(tokens, positions, weight):
        is_zero = (tokens == BOS) & (config.decoder_start == "zero")
        vectors = F.embedding(tokens, weight) * config.d_model**0.5 * ~is_zero[..., None]
        return vectors + positions.weight[: tokens.shape[1]]

    def end(norm, x):
        # Written out: a model that lacks its final norms is no oracle for them.
        if config.norm == "post":
            return x
        return F.layer_norm(x, (config.d_model,), norm.weight, norm.bias, config.norm_epsilon)

    x = embed(source, model.source_positions, weights.get("source_weight", weights["weight"]))
    for ours in model.encoder:
        theirs = nn.TransformerEncoderLayer(**options).eval()
        load_attention(theirs.self_attn, ours.self_attention)
        theirs.linear1.load_state_dict(ours.feed_forward.inner.state_dict())
        theirs.linear2.load_state_dict(ours.feed_forward.output.state_dict())
        theirs.norm1.load_state_dict(ours.self_attention_norm.state_dict())
        theirs.norm2.load_state_dict(ours.feed_forward_norm.state_dict())
        theirs.train()  # the same mathematics without torch's inference fast path; dropout is 0
        x = theirs(x, src_key_padding_mask=padding)
    memory = end(model.encoder_norm, x)
    y = embed(target, model.target_positions, weights["weight"])
    for ours in model.decoder:
        theirs = nn.TransformerDecoderLayer(**options)
        load_attention(theirs.self_attn, ours.self_attention)
        load_attention(theirs.multihead_attn, ours.cross_attention)
        theirs.linear1.load_state_dict(ours.feed_forward.inner.state_dict())
        theirs.linear2.load_state_dict(ours.feed_forward.output.state_dict())
        theirs.norm1.load_state_dict(ours.self_attention_norm.state_dict())
        theirs.norm2.load_state_dict(ours.cross_attention_norm.state_dict())
        theirs.norm3.load_state_dict(ours.feed_forward_norm.state_dict())
        y = theirs(y, memory, tgt_mask=forbidden, memory_key_padding_mask=padding)
    bias = weights["output_bias"][:VOCAB] if config.output_bias else None
    return F.linear(end(model.decoder_norm, y), weights.get("output_weight", weights["weight"])[:VOCAB], bias)


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
def test_equals_torch_layers_with_the_same_weights(build, norm, positions, dtype, tolerance):
    model = build(dtype, norm=norm, positions=positions)
    source, target = batch()
    real = target != PAD
    difference = (on_padded.logits(model, source, target) - torch_logits(model, source, target))[real].abs().max()
    assert difference <= tolerance


@pytest.mark.parametrize(
    "changes",
    [
        {"activation": "swish"},
        {"activation": "gelu"},
        {"activation": "quick_gelu"},
        {"positions": "sinusoidal_halves"},
        {"positions": "tensor2tensor", "first_position": 2},
        {"tied_embeddings": "decoder", "source_vocab_size": 51},
        {"tied_embeddings": "none", "source_vocab_size": 24, "output_bias": True},
        {"output_bias": True, "decoder_start": "zero"},
    ],
)
def test_settings_of_other_toolkits_equal_torch_layers(build, changes):
    model = build(**changes)
    source, target = batch()
    source = source.clamp(max=changes.get("source_vocab_size", VOCAB) - 1)
    target[:, 0] = BOS
    ours = on_padded.logits(model, source, target)
    assert ours.shape[-1] == VOCAB
    assert (ours - torch_logits(model, source, target))[target != PAD].abs().max() <= 1e-10


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"tied_embeddings": "none", "output_bias": True, "decoder_start": "zero", "activation": "swish"},
        {"norm": "pre"},
        {"positions": "learned"},
        {"d_k": 5, "d_v": 3},
        {"attention_bias": False},
        {"attention": "dot_product"},
        {"attention": "additive", "d_v": 3},
        {"source_neighbours": 2, "target_neighbours": 3, "d_v": 3},
        {"source_eos": False},
    ],
)
def test_cached_steps_equal_full_decoding(build, changes):
    model = build(**changes)
    source, target = batch()
    full = on_padded.logits(model, source, target)
    state = model.start(on_padded.encoded(model, source), beam=1, room=target.shape[1])
    for position in range(target.shape[1]):
        logits = model.step(target[:, position, None], state, position)
        real = target[:, position] != PAD
        torch.testing.assert_close(logits[real], full[real, position], atol=1e-10, rtol=0)


@pytest.mark.parametrize("changes", [{}, {"source_neighbours": 2}])
def test_a_model_that_does_not_see_eos_computes_as_if_it_was_padding(build, changes):
    model, sees_all = build(source_eos=False, **changes), build(**changes)
    source, target = batch()
    ended = torch.cat([source, torch.full((len(source), 1), PAD)], dim=1)
    ended[torch.arange(len(source)), (source != PAD).sum(1)] = EOS
    torch.testing.assert_close(
        on_padded.logits(model, ended, target), on_padded.logits(sees_all, source, target), atol=1e-12, rtol=0
    )
    assert not torch.allclose(on_padded.logits(sees_all, ended, target), on_padded.logits(sees_all, source, target))
    empty = torch.tensor([[EOS]])
    torch.testing.assert_close(
        on_padded.logits(model, empty, target[:1]), on_padded.logits(sees_all, empty, target[:1]), atol=1e-12, rtol=0
    )


@pytest.mark.parametrize("changes", [{}, {"d_k": 5, "d_v": 3}, {"target_neighbours": 4}, {"attention": "additive"}])
@pytest.mark.parametrize("on_device", [False, True])
def test_hypotheses_of_a_sentence_follow_their_parents(build, changes, on_device):
    """The number of a step is on the host, or on the device."""
    model = build(**changes)
    source, _ = batch()
    generator = torch.Generator().manual_seed(1)
    state = model.start(on_padded.encoded(model, source), beam=3, room=30)
    sentences, histories = [0, 1, 2], [[[]] * 3] * 3

    def step_by(live: list[list[bool]] | None = None, *, compares: bool = True) -> None:
        nonlocal histories
        tokens = torch.randint(4, VOCAB, (len(sentences), 3), generator=generator)
        count = len(histories[0][0])
        histories = [
            [[*history, token] for history, token in zip(beams, new, strict=True)]
            for beams, new in zip(histories, tokens.tolist(), strict=True)
        ]
        live_BW = None if live is None else torch.tensor(live)
        logits = model.step(tokens, state, torch.tensor([count]) if on_device else count, live_BW)
        if not compares:
            return
        flat = [history for beams in histories for history in beams]
        rows = [sentence for sentence in sentences for _ in range(3)]
        expected = on_padded.logits(model, source[rows], torch.tensor(flat))[:, -1]
        if live_BW is not None:
            expected[~live_BW.flatten()] = 0
        torch.testing.assert_close(logits, expected, atol=1e-10, rtol=0)

    def follow(parents: list[list[int]]) -> None:
        nonlocal histories
        count = len(histories[0][0]) - 1
        state.follow(torch.tensor([count]) if on_device else count, torch.tensor(parents))
        histories = [[beams[p] for p in chosen] for beams, chosen in zip(histories, parents, strict=True)]

    if on_device:  # what is not written yet is masked, and finite
        state.past_BWX.fill_(-torch.inf)
        for layer in state.layers:
            for tensor in layer.written:
                tensor.zero_()
    step_by([[True, False, False]] * 3)
    follow([[0, 0, 0]] * 3)  # the beam opens
    step_by()
    follow([[2, 1, 1], [0, 0, 0], [1, 2, 0]])
    step_by([[False, True, True], [True, False, True], [True, True, False]])  # places are empty
    follow([[1, 2, 2], [0, 2, 2], [1, 0, 1]])
    step_by([[True, True, True], [True, False, False], [True, True, True]])
    follow([[1, 0, 1], [0, 0, 0], [0, 2, 2]])
    state = state.resized(narrow, 2, source.shape[1], 30)  # a sentence leaves
    sentences, histories = sentences[:2], histories[:2]
    for _ in range(24):
        step_by(compares=False)
    step_by()


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"tied_embeddings": "none", "output_bias": True, "decoder_start": "zero", "activation": "swish"},
        {"norm": "pre"},
        {"d_k": 5, "d_v": 3},
        {"attention_bias": False},
        {"positions": "learned"},
        {"attention": "additive", "source_neighbours": 2, "target_neighbours": 2},
    ],
)
def test_prepacked_weights_give_the_same(build, changes):
    source, target = batch()
    model = build(**changes).float().eval()
    with torch.inference_mode():
        expected = on_padded.logits(model, source, target)
        prepack(model, torch.float32)
        model.rows_per_octave = 8
        real = target != PAD
        torch.testing.assert_close(on_padded.logits(model, source, target)[real], expected[real], atol=1e-5, rtol=1e-5)
        model = build(**changes).float().eval()
        with torch.autocast("cpu", torch.bfloat16):
            expected = on_padded.logits(model, source, target)
            prepack(model, torch.bfloat16)
            model.rows_per_octave = 8
            assert on_padded.logits(model, source, target).dtype == expected.dtype == torch.bfloat16
            error = (on_padded.logits(model, source, target)[real].float() - expected[real].float()).norm() / expected[
                real
            ].float().norm()
    assert error < 0.02


@pytest.mark.parametrize("tied", ["all", "none"])
@pytest.mark.parametrize("dtype", [None, torch.float32, torch.bfloat16, torch.int8], ids=str)
def test_the_rows_that_an_embedding_adds_are_multiplied_and_never_emitted(build, dtype, tied):
    """A GPU multiplies a matrix of 43 rows several times as slowly as one of 48."""
    source, target = batch()
    model = build(tied_embeddings=tied, output_bias=True).float().eval()
    with torch.inference_mode():
        expected = on_padded.logits(model, source, target)
        model.embedding.projection[model.vocab_size :] = 1e3
        model.embedding.output_bias[model.vocab_size :] = 1e3
        if dtype is not None:
            prepack(model, dtype)
        multiply, widths = model.embedding.multiply, set()
        model.embedding.multiply = lambda x_ND: widths.add((found := multiply(x_ND)).shape[-1]) or found
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
            found = on_padded.logits(model, source, target)
    assert model.vocab_size % ROWS_MULTIPLE != 0
    assert widths == {len(model.embedding.projection)}
    assert found.shape == expected.shape
    torch.testing.assert_close(found[target != PAD].float(), expected[target != PAD], atol=0.2, rtol=0.1)


@pytest.mark.parametrize("changes", [{}, {"source_neighbours": 2, "target_neighbours": 2}])
def test_extra_padding_changes_nothing(build, changes):
    model = build(**changes)
    source, target = batch()
    expected = on_padded.logits(model, source, target)
    padded = on_padded.logits(model, F.pad(source, (0, 6)), F.pad(target, (0, 4)))
    torch.testing.assert_close(padded[:, : target.shape[1]], expected, atol=1e-12, rtol=0)
    assert torch.isfinite(padded).all()


def test_attention_that_is_looked_at_is_that_of_torch_and_changes_nothing(build):
    model = build()
    source, target = batch()
    attention = model.decoder[0].cross_attention
    theirs = nn.MultiheadAttention(32, 4, batch_first=True, dtype=torch.float64)
    load_attention(theirs, attention)
    queries, memories = model.packed(target), model.packed(source)
    query, memory = model.embedding.target(target), model.embedding.source(source)
    forbidden = source == PAD
    mask = torch.zeros(source.shape, dtype=torch.float64).masked_fill(forbidden, -torch.inf)[:, None, None, :]
    _, expected = theirs(query, memory, memory, key_padding_mask=forbidden, average_attn_weights=False)
    key, value = attention.project_memory(model.embedding.source(memories.tokens_N))
    found = []
    observed_mask = PaddedRows(queries.slots, memories.slots, ObservedMask(AdditiveMask(mask), found.append))
    attention(attention.project_query(model.embedding.target(queries.tokens_N)), key, value, observed_mask)
    real = target != PAD
    torch.testing.assert_close(found[0].transpose(1, 2)[real], expected.transpose(1, 2)[real], atol=1e-12, rtol=0)

    seen = {"encoder": {}, "decoder": {}, "memory": {}}
    observer = AttentionObserver(**{name: weights.__setitem__ for name, weights in seen.items()})
    logits = on_padded.decoded(model, target, on_padded.encoded(model, source, observer=observer), observer=observer)
    torch.testing.assert_close(logits, on_padded.logits(model, source, target), atol=1e-12, rtol=0)
    shapes = {"encoder": (3, 4, 7, 7), "decoder": (3, 4, 9, 9), "memory": (3, 4, 9, 7)}
    for name, layers in {"encoder": 2, "decoder": 3, "memory": 3}.items():
        assert [weights.shape for weights in seen[name].values()] == [shapes[name]] * layers
        for weights in seen[name].values():
            torch.testing.assert_close(weights.sum(3), torch.ones(shapes[name][:3], dtype=torch.float64))
    for weights in seen["decoder"].values():
        assert weights.triu(1).abs().max() == 0


GRADIENT_CHANGES = [
    {},
    {"norm": "pre"},
    {"attention": "dot_product"},
    {"attention": "additive"},
    {"source_neighbours": 1},
]


# The paper's model by the kernels of a CPU and of a GPU; all pairs of kernels and changes are slow.
@pytest.mark.parametrize(
    ("kernels", "changes"),
    [
        pytest.param(
            POLICIES[name],
            changes,
            id=f"{name}-{change}",
            marks=() if not changes and name in ("cpu", "cuda-16-bit") else pytest.mark.slow,
        )
        for name in POLICIES
        for change, changes in enumerate(GRADIENT_CHANGES)
    ],
    indirect=["kernels"],
)
def test_gradients_equal_finite_differences(build, changes):
    model = build(**changes, encoder_layers=1, decoder_layers=1, d_model=4, d_ff=4, heads=2)
    source, target = batch(lengths=((3, 2), (2, 3)))
    names, values = zip(*model.named_parameters(), strict=True)

    def loss(*parameters):
        logits = torch.func.functional_call(
            model, dict(zip(names, parameters, strict=True)), (model.packed(source), model.packed(target))
        )
        return torch.log_softmax(logits, -1).square().mean()

    assert torch.autograd.gradcheck(loss, values)


def test_later_pieces_do_not_change_earlier_logits(build):
    model = build()
    source, target = batch(lengths=((7, 5), (3, 9), (1, 4)))
    changed = target.clone()
    changed[:, 3:][changed[:, 3:] != PAD] = 7
    before, after = on_padded.logits(model, source, target), on_padded.logits(model, source, changed)
    torch.testing.assert_close(before[:, :3], after[:, :3], atol=1e-12, rtol=0)
    assert not torch.allclose(before[0, 3:], after[0, 3:])


def test_base_and_big_count_their_parameters():
    with torch.device("meta"):
        base = Transformer(ModelConfig(), 37_000)
        big = Transformer(ModelConfig(d_model=1024, d_ff=4096, heads=16), 37_000)
    assert sum(parameter_counts(base).values()) == sum(p.numel() for p in base.parameters())
    assert round(sum(parameter_counts(base).values()) / 1e6, 1) == 63.1
    assert round(sum(parameter_counts(big).values()) / 1e6, 1) == 214.2


def test_initial_weights_have_the_authors_spread():
    model = Transformer(ModelConfig(encoder_layers=1, decoder_layers=1), 1000)
    layer = model.decoder[0]
    assert model.embedding.weight.std().item() == pytest.approx(512**-0.5, rel=0.02)
    for weight, fan_sum in (
        (layer.self_attention.query_key_value.weight, 512 + 3 * 512),
        (layer.cross_attention.query_key_value.weight[:512], 512 + 512),
        (layer.cross_attention.query_key_value.weight[512:], 512 + 2 * 512),
        (layer.feed_forward.inner.weight, 512 + 2048),
    ):
        bound = (6 / fan_sum) ** 0.5
        assert weight.abs().max().item() == pytest.approx(bound, rel=0.01)
        assert weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.02)


def test_dropout_acts_in_training_alone(build):
    model = build(dropout=0.5, attention_dropout=0.5, activation_dropout=0.5)
    source, target = batch()
    assert torch.equal(on_padded.logits(model, source, target), on_padded.logits(model, source, target))
    model.train()
    assert not torch.allclose(on_padded.logits(model, source, target), on_padded.logits(model, source, target))
