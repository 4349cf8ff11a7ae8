"""Packed rows give what padded sentences give: values, logits and gradients."""

import pytest
import torch

from nmt.config import ModelConfig
from nmt.model.packing import PAD, Packing
from nmt.model.transformer import Transformer
from nmt.training.loss import label_smoothed_loss

LENGTHS = ((4, 2), (1, 5), (3, 3), (6, 1))


def tokens(lengths, width=None) -> torch.Tensor:
    made = torch.full((len(lengths), width or max(lengths)), PAD)
    for row, length in enumerate(lengths):
        made[row, :length] = torch.randint(4, 30, (length,))
    return made


def padded(tokens_BT: torch.Tensor) -> Packing:
    """As on a GPU: every position is a row."""
    return Packing(*tokens_BT.shape)


@pytest.mark.parametrize("lengths", [(4, 1, 3, 6), (1,), (3, 3), (1, 5, 5)])
@pytest.mark.parametrize("sizes", [(6,), (6, 6, 6), (6, 6, 4)])
def test_heads_of_rows_are_those_of_padded_sentences(lengths, sizes):
    torch.manual_seed(0)
    batch = tokens(lengths)
    real = batch != PAD
    packing, every = Packing.of(batch), padded(batch)
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
    packing = Packing.of(batch)
    x = torch.randn(3, 4, 5)
    back = packing.pad(packing.pack(x))
    assert torch.equal(back, x * (batch != PAD)[:, :, None])
    full = Packing.of(tokens((4, 4)))
    x = torch.randn(2, 4, 5)
    assert full.pad(full.pack(x)).data_ptr() == x.data_ptr()


def test_gradients_equal_finite_differences():
    torch.manual_seed(0)
    batch = tokens((3, 1, 2))
    packing = Packing.of(batch)
    rows = torch.randn(6, 12, dtype=torch.float64, requires_grad=True)

    def there_and_back(x):
        return tuple(packing.merge_heads(part.sin()) for part in packing.split_heads(x, 2, (4, 4, 4)))

    assert torch.autograd.gradcheck(there_and_back, (rows,))
    assert torch.autograd.gradcheck(packing.pad, (rows,))


@pytest.mark.parametrize("lengths", [LENGTHS, ((3, 3), (3, 3)), ((5, 4), (2, 4))])
@pytest.mark.parametrize("changes", [{}, {"norm": "pre"}, {"positions": "learned"}, {"d_k": 5, "d_v": 3}])
def test_a_packed_model_learns_what_a_padded_one_does(lengths, changes, monkeypatch):
    torch.manual_seed(0)
    config = ModelConfig(encoder_layers=2, decoder_layers=2, d_model=16, d_ff=24, heads=2, dropout=0.0, **changes)
    model = Transformer(config, 30).double().train()
    source, target = (tokens(side, 7) for side in zip(*lengths, strict=True))

    def learnt():
        model.zero_grad()
        logits = model(source, target)
        real = logits[target != PAD].detach().clone()
        losses = label_smoothed_loss(logits, target, 0.1)
        losses.smoothed.backward()
        return real, losses, {name: p.grad.clone() for name, p in model.named_parameters()}

    packed = learnt()
    monkeypatch.setattr(Packing, "of", staticmethod(padded))
    for mine, theirs in zip(packed, learnt(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-10)


def test_no_time_goes_into_padding():
    torch.manual_seed(0)
    config = ModelConfig(encoder_layers=1, decoder_layers=1, d_model=16, d_ff=24, heads=2)
    model, rows = Transformer(config, 30).train(), []
    for layer in (model.encoder[0], model.decoder[0]):
        layer.feed_forward.register_forward_hook(lambda module, inputs, output: rows.append(len(output)))
    source, target = (tokens(side) for side in zip(*LENGTHS, strict=True))
    model(source, target)
    assert rows == [14, 11]
