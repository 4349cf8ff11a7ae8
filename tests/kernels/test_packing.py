"""Packed rows give what padded sentences give: values, logits and gradients."""

import dataclasses

import pytest
import torch

from nmt.config import ModelConfig
from nmt.device import choose_hardware
from nmt.kernels.linear import prepack
from nmt.kernels.packing import Packing, PiecesOnly, rounded_up
from nmt.kernels.policy import PLAIN, Kernels, choose_kernels
from nmt.model.transformer import Transformer
from nmt.special_ids import PAD
from nmt.training.loss import label_smoothed_loss

LENGTHS = ((4, 2), (1, 5), (3, 3), (6, 1))


def tokens(lengths, width=None) -> torch.Tensor:
    made = torch.full((len(lengths), width or max(lengths)), PAD)
    for row, length in enumerate(lengths):
        made[row, :length] = torch.randint(4, 30, (length,))
    return made


def pieces(tokens_BT: torch.Tensor, *, has_spare_rows: bool = False) -> Packing:
    """As on a CPU: only pieces are rows."""
    return PiecesOnly(tokens_BT != PAD, has_spare_rows=has_spare_rows)


def padded(tokens_BT: torch.Tensor, *, has_spare_rows: bool = False) -> Packing:
    """As on a GPU: every position is a row."""
    return Packing(*tokens_BT.shape, has_spare_rows=has_spare_rows)


@pytest.mark.parametrize("lengths", [(4, 1, 3, 6), (1,), (3, 3), (1, 5, 5)])
@pytest.mark.parametrize("sizes", [(6,), (6, 6, 6), (6, 6, 4)])
def test_heads_of_rows_are_those_of_padded_sentences(lengths, sizes):
    torch.manual_seed(0)
    batch = tokens(lengths)
    real = batch != PAD
    packing, every = pieces(batch), padded(batch)
    x = torch.randn(*batch.shape, sum(sizes))
    rows = packing.pack(x)
    assert torch.equal(rows, x[real])
    for mine, theirs in zip(
        packing.split_heads(rows, 2, sizes), every.split_heads(every.pack(x), 2, sizes), strict=True
    ):
        assert mine.shape == theirs.shape
        assert torch.equal(mine.transpose(1, 2)[real], theirs.transpose(1, 2)[real])
        assert torch.isfinite(mine).all()
        assert torch.equal(packing.merge_heads(mine), every.merge_heads(theirs)[real.flatten()])


def test_padding_comes_back_as_zero_and_sentences_without_it_are_not_copied():
    batch = tokens((4, 1, 3))
    packing = pieces(batch)
    x = torch.randn(3, 4, 5)
    back = packing.pad(packing.pack(x))
    assert torch.equal(back, x * (batch != PAD)[:, :, None])
    full = pieces(tokens((4, 4)))
    x = torch.randn(2, 4, 5)
    assert full.pad(full.pack(x)).data_ptr() == x.data_ptr()


@pytest.mark.parametrize("lengths", [(41, 1, 30, 6), (37,), (21, 21, 21)])
@pytest.mark.parametrize("make", [pieces, padded])
def test_rows_to_spare_change_nothing_but_their_number(lengths, make):
    torch.manual_seed(0)
    batch = tokens(lengths)
    exact, roomy = make(batch), make(batch, has_spare_rows=True)
    x = torch.randn(*batch.shape, 12)
    rows, more = exact.pack(x), roomy.pack(x)
    assert len(more) == rounded_up(len(rows)) > len(rows)
    assert torch.equal(more[: len(rows)], rows)
    assert torch.equal(roomy.pad(more), exact.pad(rows))
    for sizes in ((4, 4, 4), (4, 4, 2, 2)):
        pairs = zip(exact.split_heads(rows, 2, sizes), roomy.split_heads(more, 2, sizes), strict=True)
        for theirs, mine in pairs:
            assert torch.equal(mine, theirs)
            merged = roomy.merge_heads(mine)
            assert torch.equal(merged[: len(rows)], exact.merge_heads(theirs))
            assert len(merged) == len(more)


def test_rows_are_rounded_up_to_few_numbers_by_little():
    rounded = [rounded_up(rows) for rows in range(1, 4097)]
    assert len(set(rounded)) <= 80
    assert all(rows <= more <= rows * 9 / 8 for rows, more in enumerate(rounded, start=1))


@pytest.mark.parametrize("changes", [{}, {"norm": "pre"}, {"d_k": 5, "d_v": 3}])
def test_a_prepacked_model_computes_few_numbers_of_rows(changes, monkeypatch):
    torch.manual_seed(0)
    config = ModelConfig(encoder_layers=1, decoder_layers=1, d_model=16, d_ff=24, heads=2, **changes)
    model, rows = Transformer(config, 30, choose_kernels(torch.device("cpu"), torch.float32)).eval(), set()
    source, target = tokens((40, 3, 20)), tokens((30, 12, 7))
    with torch.inference_mode():
        plain = model(source, target)[target != PAD]
        prepack(model, torch.float32)
        for layer in (model.encoder[0], model.decoder[0]):
            layer.feed_forward.register_forward_hook(lambda module, inputs, output: rows.add(len(output)))
        project = model.embedding.project
        monkeypatch.setattr(model.embedding, "project", lambda x: rows.add(x.flatten(0, -2).shape[0]) or project(x))
        torch.testing.assert_close(model(source, target)[target != PAD], plain)
    assert rows == {rounded_up(63), rounded_up(49)} == {64, 52}


@pytest.mark.parametrize("lengths", [(4, 1, 3, 6), (1,), (3, 3), (1, 5, 5)])
def test_rows_from_lengths_are_those_that_are_counted(lengths):
    torch.manual_seed(0)
    batch = tokens(lengths, 7)
    counted, known = pieces(batch), PiecesOnly.of_lengths(lengths, 7, batch.device)
    x = torch.randn(*batch.shape, 12)
    rows = counted.pack(x)
    assert known.rows == counted.rows == sum(lengths)
    assert torch.equal(known.pack(x), rows)
    assert torch.equal(known.pad(rows), counted.pad(rows))
    heads, expected = known.split_heads(rows, 2, (6, 6)), counted.split_heads(rows, 2, (6, 6))
    assert all(map(torch.equal, heads, expected))
    assert torch.equal(known.merge_heads(heads[0]), counted.merge_heads(expected[0]))


def test_with_lengths_nothing_is_counted_on_the_device():
    """The device ``meta`` has shapes without numbers: to count there is impossible."""
    config = ModelConfig(encoder_layers=1, decoder_layers=1, d_model=16, d_ff=24, heads=2)
    model = Transformer(config, 30, Kernels(packs_pieces=True)).to("meta").train()
    source, target = (tokens(side).to("meta") for side in zip(*LENGTHS, strict=True))
    logits = model(source, target, *zip(*LENGTHS, strict=True))
    logits.sum().backward()
    assert logits.shape == (*target.shape, 30)
    with pytest.raises(Exception, match="nonzero"):
        model(source, target)


def test_gradients_equal_finite_differences():
    torch.manual_seed(0)
    batch = tokens((3, 1, 2))
    packing = pieces(batch)
    rows = torch.randn(6, 12, dtype=torch.float64, requires_grad=True)

    def there_and_back(x):
        return tuple(packing.merge_heads(part.sin()) for part in packing.split_heads(x, 2, (4, 4, 4)))

    assert torch.autograd.gradcheck(there_and_back, (rows,))
    assert torch.autograd.gradcheck(packing.pad, (rows,))


@pytest.mark.parametrize("lengths", [LENGTHS, ((3, 3), (3, 3)), ((5, 4), (2, 4))])
@pytest.mark.parametrize("changes", [{}, {"norm": "pre"}, {"positions": "learned"}, {"d_k": 5, "d_v": 3}])
def test_a_packed_model_learns_what_a_padded_one_does(lengths, changes):
    torch.manual_seed(0)
    config = ModelConfig(encoder_layers=2, decoder_layers=2, d_model=16, d_ff=24, heads=2, dropout=0.0, **changes)
    source, target = (tokens(side, 7) for side in zip(*lengths, strict=True))

    def learnt(kernels, *known):
        torch.manual_seed(1)
        model = Transformer(config, 30, kernels).double().train()
        logits = model(source, target, *known)
        real = logits[target != PAD].detach().clone()
        losses = label_smoothed_loss(logits, target, 0.1)
        losses.smoothed.backward()
        return real, losses, {name: p.grad.clone() for name, p in model.named_parameters()}

    plain, on_cpu = learnt(PLAIN), choose_kernels(torch.device("cpu"))
    with_spare_rows = dataclasses.replace(on_cpu, has_spare_rows=True)
    known_lengths = list(zip(*lengths, strict=True))
    for packed in (learnt(on_cpu), learnt(on_cpu, *known_lengths), learnt(with_spare_rows, *known_lengths)):
        for mine, theirs in zip(packed, plain, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("changes", [{}, {"d_k": 5, "d_v": 3}])
def test_spare_rows_learn_nothing(changes):
    """Their numbers may be anything: they reach neither the losses nor a gradient."""
    torch.manual_seed(0)
    config = ModelConfig(encoder_layers=2, decoder_layers=2, d_model=16, d_ff=24, heads=2, dropout=0.0, **changes)
    kernels = dataclasses.replace(choose_kernels(torch.device("cpu")), has_spare_rows=True)
    model = Transformer(config, 30, kernels).double().train()
    source, target = tokens((40, 3, 20)), tokens((30, 12, 7))
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
        label_smoothed_loss(model(source, target), target, 0.1).smoothed.backward()
        gradients.append([p.grad.clone() for p in model.parameters()])
        for hook in hooks:
            hook.remove()
    for some, other in zip(*gradients, strict=True):
        torch.testing.assert_close(some, other, rtol=1e-10, atol=1e-10)


def test_training_in_bf16_computes_few_numbers_of_rows():
    config = ModelConfig(encoder_layers=1, decoder_layers=1, d_model=16, d_ff=24, heads=2)
    hardware = choose_hardware("cpu", "bf16", 1)
    model, rows = Transformer(config, 30, choose_kernels(hardware.device, hardware.autocast_dtype)).train(), []
    for layer in (model.encoder[0], model.decoder[0]):
        layer.feed_forward.register_forward_hook(lambda module, inputs, output: rows.append(len(output)))
    with hardware.autocast():
        model(tokens((40, 3, 20)), tokens((30, 12, 7)))
    assert rows == [rounded_up(63), rounded_up(49)] == [64, 52]


def test_no_time_goes_into_padding():
    torch.manual_seed(0)
    config = ModelConfig(encoder_layers=1, decoder_layers=1, d_model=16, d_ff=24, heads=2)
    model, rows = Transformer(config, 30, choose_kernels(torch.device("cpu"))).train(), []
    for layer in (model.encoder[0], model.decoder[0]):
        layer.feed_forward.register_forward_hook(lambda module, inputs, output: rows.append(len(output)))
    source, target = (tokens(side) for side in zip(*LENGTHS, strict=True))
    model(source, target)
    assert rows == [14, 11]


@pytest.mark.parametrize(("kernels", "rows"), [(Kernels(), 6), (Kernels(packs_pieces=True), 4)])
@pytest.mark.parametrize("lengths", [None, [3, 1]])
def test_padding_has_rows_unless_pieces_are_packed(kernels, rows, lengths):
    tokens_BT = torch.tensor([[5, 6, 3], [3, 0, 0]])
    assert kernels.packing(tokens_BT, lengths).rows == rows


def test_compiled_layers_have_a_row_for_every_position():
    kernels = Kernels(packs_pieces=True, has_spare_rows=True).for_compiled_layers()
    packing = kernels.packing(torch.tensor([[5, 6, 3], [3, 0, 0]]), [3, 1])
    assert len(packing.pack(torch.zeros(2, 3, 4))) == 6


@pytest.mark.parametrize(("products", "has_spare_rows"), [(None, False), (torch.float32, True), (torch.bfloat16, True)])
def test_rows_are_spare_only_where_products_are_compiled_for_their_number(products, has_spare_rows):
    assert choose_kernels(torch.device("cpu"), products).has_spare_rows is has_spare_rows
