"""A batch on its way to the model: padded sentences, or rows without padding.

Shapes: B sentences, S source and T target positions; a batch without padding is a single line, B = 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.data.batching import Batch
from nmt.data.rows import Side, as_rows
from nmt.device import to_device
from nmt.kernels.packing import Lengths
from nmt.kernels.sentence_rows import SentenceRows


@dataclass(frozen=True)
class ModelInputs:
    """What the model and the loss take."""

    source_BS: Tensor
    target_input_BT: Tensor
    target_output_BT: Tensor
    source_places: Lengths | SentenceRows
    """The pieces of each source, or where the sources lie in the line."""
    target_places: Lengths | SentenceRows

    def twice(self) -> ModelInputs:
        """The same sentences, and once more after them."""
        is_line = isinstance(self.source_places, SentenceRows)
        source, target_input, target_output = (
            torch.cat([tensor, tensor], dim=1 if is_line else 0)
            for tensor in (self.source_BS, self.target_input_BT, self.target_output_BT)
        )
        source_places, target_places = _twice(self.source_places), _twice(self.target_places)
        return ModelInputs(source, target_input, target_output, source_places, target_places)


def model_inputs(batch: Batch, device: torch.device, *, as_line: bool) -> ModelInputs:
    """Bring a batch to a device. The host does not wait for it.

    Args:
        as_line: as a single line without padding; see :attr:`nmt.model.transformer.Transformer.takes_sentence_rows`.
    """
    if not as_line:
        return ModelInputs(
            _on(device, batch.source_BS),
            _on(device, batch.target_input_BT),
            _on(device, batch.target_output_BT),
            batch.source_lengths_B,
            batch.target_lengths_B,
        )
    rows = as_rows(batch)
    return ModelInputs(
        _on(device, rows.source_N)[None],
        _on(device, rows.target_input_N)[None],
        _on(device, rows.target_output_N)[None],
        _places(rows.source, device),
        _places(rows.target, device),
    )


def _places(side: Side, device: torch.device) -> SentenceRows:
    return SentenceRows(_on(device, side.places_N), _on(device, side.ends_X), side.longest)


def _on(device: torch.device, array: NDArray[np.int64] | NDArray[np.int32]) -> Tensor:
    return to_device(torch.as_tensor(array), device)


def _twice(places: Lengths | SentenceRows) -> Lengths | SentenceRows:
    return places.twice() if isinstance(places, SentenceRows) else np.tile(np.asarray(places), 2)
