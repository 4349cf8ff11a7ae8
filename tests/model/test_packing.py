"""Packed sequences give what padded sentences give: values, logits and gradients."""

import dataclasses
import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nmt.config import ModelConfig
from nmt.kernels.policy import Kernels, accelerate, choose_kernels
from nmt.kernels.prepacking import prepack
from nmt.machine.device import choose_hardware
from nmt.model.packing import SPARE_SENTENCES, PackedSequences, PackedSize, rounded_up
from nmt.model.slots import Slots
from nmt.model.transformer import Transformer
from nmt.special_ids import PAD
from nmt.training.loss import label_smoothed_loss
from tests import on_padded

LENGTHS = ((4, 2), (1, 5), (3, 3), (6, 1))
CPU = torch.device("cpu")
SMALL = {"encoder_layers": 2, "decoder_layers": 2, "d_model": 16, "d_ff": 24, "heads": 2, "dropout": 0.0}


def tokens(lengths, width=None) -> torch.Tensor:
    made = torch.full((len(lengths), width or max(lengths)), PAD)
    for row, length in enumerate(lengths):
        made[row, :length] = torch.randint(4, 30, (length,))
    return made


def slots(lengths) -> Slots:
    return Slots.of_lengths(np.array(lengths), CPU)


def spread_plainly(x_NHK: torch.Tensor, lengths) -> torch.Tensor:
    """Heads of padded sentences, zero at padding."""
    padded = torch.nn.utils.rnn.pad_sequence(torch.split(x_NHK[: sum(lengths)], list(lengths)), batch_first=True)
    return padded.transpose(1, 2)


@pytest.mark.parametrize("lengths", [(4, 1, 3, 6), (1,), (3, 3), (1, 5, 5)])
@pytest.mark.parametrize("sizes", [(3,), (3, 3, 3), (3, 3, 2)])
@pytest.mark.parametrize("spare_rows", [0, 5])
@pytest.mark.parametrize("learns", [False, True])
def test_heads_of_rows_are_those_of_padded_sentences(lengths, sizes, spare_rows, learns):
    torch.manual_seed(0)
    rows = sum(lengths) + spare_rows
    side_by_side = torch.randn(rows, 2 * sum(sizes)).split([2 * size for size in sizes], dim=1)
    heads = [part.view(rows, 2, -1) for part in side_by_side]
    made, real = slots(lengths), tokens(lengths) != PAD
    with torch.set_grad_enabled(learns):
        spread = made.spread(*heads)
        for mine, x in zip(spread, heads, strict=True):
            theirs = spread_plainly(x, lengths)
            assert mine.shape == theirs.shape
            assert torch.equal(mine.transpose(1, 2)[real], theirs.transpose(1, 2)[real])
            assert torch.isfinite(mine).all()
            collected = made.collect(mine, rows)
            assert torch.equal(collected[: sum(lengths)], x[: sum(lengths)])
            assert not collected[sum(lengths) :].any()


@pytest.mark.parametrize("lengths", [(4, 1, 3), (4, 4)])
def test_rows_come_back_as_padded_sentences_with_zeros(lengths):
    batch, made = tokens(lengths), slots(lengths)
    x = torch.randn(*batch.shape, 5)
    rows = made.pack(x, 3)
    assert torch.equal(rows[:-3], x[batch != PAD])
    assert not rows[-3:].any()
    assert torch.equal(made.pad(rows), x * (batch != PAD)[:, :, None])
    assert made.rows == sum(lengths)


@pytest.mark.parametrize("lengths", [(3, 1, 2), (3, 3)])
@pytest.mark.parametrize("spare_rows", [0, 2])
def test_gradients_equal_finite_differences(lengths, spare_rows):
    torch.manual_seed(0)
    made, rows = slots(lengths), sum(lengths) + spare_rows
    x = torch.randn(rows, 12, dtype=torch.float64, requires_grad=True)

    def there_and_back(x):
        heads = [part.view(rows, 2, 2) for part in x.split(4, dim=1)]
        # Padding holds any values: only what comes of pieces counts.
        return tuple(made.collect(part.sin(), rows) for part in made.spread(*heads))

    assert torch.autograd.gradcheck(there_and_back, (x,))
    assert torch.autograd.gradcheck(made.pad, (x,))


def test_hypotheses_that_are_not_live_have_no_row():
    live = torch.tensor([[False, True, True], [True, False, True]])
    made = Slots.of_live(live)
    x = torch.arange(6.0).view(2, 3, 1)
    assert made.rows == 4
    assert made.pack(x).flatten().tolist() == [1, 2, 3, 5]
    assert made.pad(made.pack(x, 2)).flatten().tolist() == [0, 1, 2, 3, 0, 5]


@given(st.lists(st.integers(1, 60), min_size=1, max_size=30), st.sampled_from([None, 8, 16]), st.booleans())
def test_sequences_hold_each_sentence_in_its_place(lengths, rows_per_octave, has_spare_sentences):
    spare = SPARE_SENTENCES if has_spare_sentences else 0
    size = PackedSize.of(lengths, rows_per_octave=rows_per_octave, spare_sentences=spare)
    pieces = np.arange(1, sum(lengths) + 1)
    made = PackedSequences.of(pieces, lengths, size)
    assert len(made.tokens_N) == len(made.positions_N) == size.rows
    assert size.rows <= (sum(lengths) + spare) * 9 / 8
    parts = [made.tokens_N[start:end].tolist() for start, end in itertools.pairwise(made.cu_seqlens.tolist())]
    places = [made.positions_N[start:end].tolist() for start, end in itertools.pairwise(made.cu_seqlens.tolist())]
    assert parts[: len(lengths)] == [part.tolist() for part in np.split(pieces, np.cumsum(lengths)[:-1])]
    assert places[: len(lengths)] == [list(range(length)) for length in lengths]
    assert max(map(len, parts)) <= made.max_seqlen
    assert made.cu_seqlens.dtype == torch.int32
    if rows_per_octave is None:
        assert len(parts) == len(lengths)
    elif has_spare_sentences:
        assert len(parts) == len(lengths) + SPARE_SENTENCES
        assert all(part and set(part) == {PAD} for part in parts[len(lengths) :])
        assert made.cu_seqlens[-1] == size.rows


def test_a_size_may_be_larger_than_its_sentences():
    made = PackedSequences.of(np.arange(1, 6), [2, 3], PackedSize(40, 20, 16, SPARE_SENTENCES))
    assert made.cu_seqlens.tolist() == [0, 2, 5, 10, 15, 20, 24, 28, 32, 36, 40, *[40] * 10]
    assert made.max_seqlen == 16
    assert made.lengths_B.tolist() == [2, 3]


def test_rows_are_rounded_up_to_few_numbers_by_little():
    rounded = [rounded_up(rows) for rows in range(1, 4097)]
    assert len(set(rounded)) <= 80
    assert all(rows <= more <= rows * 9 / 8 for rows, more in enumerate(rounded, start=1))


@pytest.mark.parametrize("changes", [{}, {"norm": "pre"}, {"d_k": 5, "d_v": 3}])
def test_a_prepacked_model_computes_few_numbers_of_rows(changes, monkeypatch):
    torch.manual_seed(0)
    config = ModelConfig(**SMALL, **changes)
    model, rows = accelerate(Transformer(config, 30), choose_kernels(CPU, torch.float32)).eval(), set()
    source, target = tokens((40, 3, 20)), tokens((30, 12, 7))
    with torch.inference_mode():
        plain = on_padded.logits(model, source, target)
        prepack(model, torch.float32)
        for layer in (model.encoder[0], model.decoder[0]):
            layer.feed_forward.register_forward_hook(lambda module, inputs, output: rows.add(len(output)))
        project = model.embedding.project
        monkeypatch.setattr(model.embedding, "project", lambda x: rows.add(len(x)) or project(x))
        torch.testing.assert_close(on_padded.logits(model, source, target), plain)
    assert rows == {rounded_up(63), rounded_up(49)} == {64, 52}


def test_with_lengths_nothing_is_counted_on_the_device():
    """The device ``meta`` has shapes without numbers: to count there is impossible."""
    model = Transformer(ModelConfig(**SMALL), 30).to("meta").train()
    source, target = (tokens(side).to("meta") for side in zip(*LENGTHS, strict=True))
    sides = [
        model.packed(side, lengths) for side, lengths in zip((source, target), zip(*LENGTHS, strict=True), strict=True)
    ]
    logits = model(*sides)
    logits.sum().backward()
    assert logits.shape == (11, 30)
    with pytest.raises(Exception, match="meta"):
        model.packed(source)


@pytest.mark.parametrize("lengths", [LENGTHS, ((3, 3), (3, 3)), ((5, 4), (2, 4))])
@pytest.mark.parametrize("changes", [{}, {"norm": "pre"}, {"positions": "learned"}, {"d_k": 5, "d_v": 3}])
def test_a_batch_is_learnt_as_its_sentences_are_alone(lengths, changes):
    torch.manual_seed(0)
    source, target = (tokens(side, 7) for side in zip(*lengths, strict=True))

    def learnt(kernels, parts):
        torch.manual_seed(1)
        model = accelerate(Transformer(ModelConfig(**SMALL, **changes), 30), kernels).double().train()
        total = 0.0
        for part in parts:
            sides = [model.packed(side[part]) for side in (source, target)]
            loss = label_smoothed_loss(model(*sides), sides[1].tokens_N, 0.1).smoothed
            loss.backward()
            total += loss.item()
        return total, {name: p.grad.clone() for name, p in model.named_parameters()}

    alone = learnt(Kernels(), [slice(row, row + 1) for row in range(len(lengths))])
    on_cpu = choose_kernels(CPU)
    for kernels in (Kernels(), on_cpu, dataclasses.replace(on_cpu, rows_per_octave=2)):
        torch.testing.assert_close(learnt(kernels, [slice(None)]), alone, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("changes", [{}, {"d_k": 5, "d_v": 3}])
def test_spare_rows_learn_nothing(changes):
    """Their numbers may be anything: they reach neither the losses nor a gradient."""
    torch.manual_seed(0)
    kernels = dataclasses.replace(choose_kernels(CPU), rows_per_octave=8)
    model = accelerate(Transformer(ModelConfig(**SMALL, **changes), 30), kernels).double().train()
    source, target = (model.packed(side) for side in (tokens((40, 3, 20)), tokens((30, 12, 7))))
    gradients = []
    for noise in (0.0, 1e3):
        hooks = [
            layer.feed_forward.register_forward_hook(
                lambda module, inputs, output, noise=noise: (
                    output + noise * (torch.arange(len(output)) >= (63 if len(output) == 64 else 49))[:, None]
                )
            )
            for layer in (*model.encoder, *model.decoder)
        ]
        model.zero_grad()
        label_smoothed_loss(model(source, target), target.tokens_N, 0.1).smoothed.backward()
        gradients.append([p.grad.clone() for p in model.parameters()])
        for hook in hooks:
            hook.remove()
    for some, other in zip(*gradients, strict=True):
        torch.testing.assert_close(some, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("precision", "expected"), [("fp32", [63, 49, 49]), ("bf16", [64, 52, 52])])
def test_no_time_goes_into_padding_and_bf16_computes_few_numbers_of_rows(precision, expected, monkeypatch):
    hardware = choose_hardware("cpu", precision, 1)
    model, rows = (
        accelerate(Transformer(ModelConfig(**SMALL), 30), choose_kernels(CPU, hardware.autocast_dtype)).train(),
        [],
    )
    for layer in (model.encoder[0], model.decoder[0]):
        layer.feed_forward.register_forward_hook(lambda module, inputs, output: rows.append(len(output)))
    project = model.embedding.project
    monkeypatch.setattr(model.embedding, "project", lambda x: rows.append(len(x)) or project(x))
    with hardware.autocast():
        model(model.packed(tokens((40, 3, 20))), model.packed(tokens((30, 12, 7))))
    assert rows == expected


@pytest.mark.parametrize(("products", "is_rounded"), [(None, False), (torch.float32, True), (torch.bfloat16, True)])
def test_rows_are_spare_only_where_products_are_compiled_for_their_number(products, is_rounded):
    assert (choose_kernels(CPU, products).rows_per_octave is not None) is is_rounded


@given(st.lists(st.integers(1, 60), max_size=60), st.integers(0, 3_000), st.integers(0, 80), st.integers(1, 9_000))
def test_one_size_holds_all_that_is_not_larger(lengths, more_rows, more_sentences, other_rows):
    rows = [sum(lengths) + more_rows, other_rows]
    size, other = PackedSize.for_all(rows, len(lengths) + more_sentences, 60)
    made = PackedSequences.of(np.ones(sum(lengths), np.int64), lengths, size)
    parts = made.cu_seqlens.diff().tolist()
    assert len(parts) == size.sentences
    assert sum(parts) == len(made.tokens_N) == size.rows
    assert max(parts) <= made.max_seqlen
    # Both sides have rows in all spare sentences, whatever they hold.
    assert min(parts[len(lengths) :][: size.spare_sentences]) > 0
    # A sentence of one side attends to that of its number on the other.
    assert (other.sentences, other.spare_sentences) == (size.sentences, size.spare_sentences)
