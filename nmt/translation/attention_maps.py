"""The attention weights of a model for a sentence and its translation, of every layer and head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.data.vocab import Vocabulary
from nmt.errors import ConfigError, DataError
from nmt.model.observing import AttentionObserver, OnWeights
from nmt.search.beam_search import beam_search
from nmt.search.settings import SearchSettings
from nmt.text.printable import counted
from nmt.text.steps import normalizer
from nmt.translation.ensemble import Ensemble

MAX_WEIGHTS = 20_000_000
"""The maximum number of weights of all sentences together: more fit into no browser."""


@dataclass(frozen=True)
class AttentionMaps:
    """The attention weights of every layer and head for one sentence.

    Shapes: L layers, H heads, S source pieces with eos, T target pieces with bos. Each row sums to 1.
    """

    source_pieces: tuple[str, ...]
    """S pieces, eos included."""
    input_pieces: tuple[str, ...]
    """T pieces that the decoder reads: bos, then those of the target."""
    output_pieces: tuple[str, ...]
    """T pieces that it predicts from them: those of the target, then eos."""
    encoder: NDArray[np.float32]
    """Self-attention of the encoder (L, H, S, S): of each piece, to each piece."""
    decoder: NDArray[np.float32]
    """Self-attention of the decoder (L, H, T, T); 0 above the diagonal."""
    memory: NDArray[np.float32]
    """Attention of the decoder over the encoder (L, H, T, S)."""
    source: str
    target: str
    """The translation, or the target that was given."""
    model: str
    """The name of the model."""


def attention_maps(
    ensemble: Ensemble,
    sources: Sequence[str],
    targets: Sequence[str] | None,
    settings: SearchSettings,
    *,
    model: str,
) -> list[AttentionMaps]:
    """The attention in sentences and their translations.

    A sentence is translated as a whole: it is neither split nor checked by the guard.

    Args:
        ensemble: a single model.
        targets: the translations to force, one per sentence; None searches for them.
        model: the name of the model, to be kept beside the weights.

    Raises:
        ConfigError: there are several models.
        DataError: a sentence is empty, it or its target is longer than the model's positions, there are more than
            :data:`MAX_WEIGHTS` weights, or there are more or fewer targets than sentences.
    """
    if len(ensemble.models) != 1:
        raise ConfigError(f"the attention of one model can be shown at a time, got {len(ensemble.models)} models.")
    if targets is not None and len(targets) != len(sources):
        raise DataError(
            f"got {counted(len(sources), 'sentence')}, but {counted(len(targets), 'target')}: give one target "
            "per sentence."
        )
    vocab, data = ensemble.vocab, ensemble.config.data
    normalize, normalize_target = normalizer(data.source_text), normalizer(data.target_text)
    config = ensemble.models[0].config
    longest = config.max_positions - 1
    maps, count = [], 0
    for number, source in enumerate(sources):
        source_ids = [*vocab.source.encode([normalize(source)])[0], Vocabulary.EOS]
        if len(source_ids) == 1:
            raise DataError(f"sentence {number + 1} is empty: there is nothing to attend to.")
        _check_length(len(source_ids) - 1, longest, f"sentence {number + 1}")
        if targets is None:
            target_ids = _translated(ensemble, source_ids, settings)
            target = vocab.target.decode([target_ids])[0]
        else:
            target = targets[number]
            [target_ids] = vocab.target.encode([normalize_target(target)])
            _check_length(len(target_ids), longest, f"target {number + 1}")
        source_length, target_length = len(source_ids), len(target_ids) + 1
        of_decoder = config.decoder_layers * target_length * (target_length + source_length)
        count += config.heads * (config.encoder_layers * source_length**2 + of_decoder)
        if count > MAX_WEIGHTS:
            raise DataError(
                f"sentence {number + 1}: all sentences up to this one have {count:,} attention weights, but at most "
                f"{MAX_WEIGHTS:,} can be shown. Give fewer or shorter sentences."
            )
        encoder, decoder, memory = _weights(ensemble, source_ids, [Vocabulary.BOS, *target_ids])
        maps.append(
            AttentionMaps(
                source_pieces=tuple(vocab.source.pieces(source_ids)),
                input_pieces=tuple(vocab.target.pieces([Vocabulary.BOS, *target_ids])),
                output_pieces=tuple(vocab.target.pieces([*target_ids, Vocabulary.EOS])),
                encoder=encoder,
                decoder=decoder,
                memory=memory,
                source=source,
                target=target,
                model=model,
            )
        )
    return maps


def _check_length(pieces: int, longest: int, name: str) -> None:
    if pieces > longest:
        raise DataError(f"{name} has {pieces:,} pieces, but the model has positions for {longest:,}: shorten it.")


def _translated(ensemble: Ensemble, source_ids: list[int], settings: SearchSettings) -> list[int]:
    with ensemble.hardware.autocast():
        source_BS = torch.tensor([source_ids], device=ensemble.hardware.device)
        [[best, *_]] = beam_search(ensemble.models, source_BS, settings, recorded_steps=ensemble.recorded_steps)
    return list(best.pieces)


def _weights(
    ensemble: Ensemble, source_ids: list[int], input_ids: list[int]
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """The weights of the encoder, of the decoder, and of the decoder over the encoder, each (L, H, T, S)."""
    [model], hardware = ensemble.models, ensemble.hardware
    seen: tuple[list[Tensor], list[Tensor], list[Tensor]] = ([], [], [])
    observer = AttentionObserver(*map(_keep, seen))
    source_BS, target_BT = (torch.tensor([ids], device=hardware.device) for ids in (source_ids, input_ids))
    with torch.inference_mode(), hardware.autocast():
        model.decode(
            model.packed(target_BT), model.encode(model.packed(source_BS), observer=observer), observer=observer
        )
    encoder, decoder, memory = (torch.cat(weights).float().cpu().numpy() for weights in seen)
    return encoder, decoder, memory


def _keep(weights: list[Tensor]) -> OnWeights:
    def keep(_layer: int, weights_1HTS: Tensor) -> None:
        weights.append(weights_1HTS)

    return keep
