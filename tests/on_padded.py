"""The model on padded sentences, as tests write them down."""

from torch import Tensor

from nmt.model.observing import AttentionObserver
from nmt.model.state import Encoded
from nmt.model.transformer import Transformer


def encoded(model: Transformer, source_BS: Tensor, **options: AttentionObserver) -> Encoded:
    """The encoded sources."""
    return model.encode(model.packed(source_BS), **options)


def logits(model: Transformer, source_BS: Tensor, target_BT: Tensor) -> Tensor:
    """Logits (B, T, V) of each next piece; 0 at padding."""
    source, target = model.packed(source_BS), model.packed(target_BT)
    padded_BTV = target.slots.pad(model(source, target))
    found = padded_BTV.new_zeros(*target_BT.shape, padded_BTV.shape[2])
    found[:, : padded_BTV.shape[1]] = padded_BTV
    return found


def decoded(model: Transformer, target_BT: Tensor, encoded: Encoded, **options: AttentionObserver) -> Tensor:
    """Logits (B, T, V) of each next piece; 0 at padding."""
    target = model.packed(target_BT)
    found: Tensor = target.slots.pad(model.decode(target, encoded, **options))
    return found
