"""Forced decoding: the log-probabilities and alignments of given targets.

Shapes: B pairs, S source pieces, T target pieces with eos, V vocabulary, H heads.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.config.sections import Normalization
from nmt.data.batching import micro_batches
from nmt.machine.device import Hardware, free_memory, to_device
from nmt.model.guiding import aligning_heads
from nmt.model.observing import NO_OBSERVER, AttentionObserver
from nmt.model.packing import PackedSequences
from nmt.model.transformer import Transformer
from nmt.search.hypotheses import Hypothesis
from nmt.special_ids import BOS, EOS, PAD

_SHARE_OF_MEMORY = 0.5


def score_targets(
    models: Sequence[Transformer],
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    hardware: Hardware,
    *,
    alpha: float = 0.6,
    normalization: Normalization = "paper",
    batch_tokens: int = 2_048,
    aligns: bool = False,
) -> list[Hypothesis]:
    """Score each target as the search scores its hypotheses.

    A target with pad or bos has log-probability -inf. unk is scored like any other piece, because given texts may
    contain it. As in the search, the probability of pieces that a search never returns is not redistributed to the
    others. If a side is longer than the models' positions, all log-probabilities of the pair are -inf and it has no
    alignment.

    Args:
        models: models in eval mode on the hardware's device. The probabilities of several are averaged at each piece.
        sources, targets: ids without bos and eos; one target per source.
        alpha, normalization: the length penalty. With an alpha of 0, the score is the log-probability.
        batch_tokens: maximum padded positions of the longer side that are scored at once; fewer if memory is short.
        aligns: also find the alignments, by the attention of :func:`~nmt.model.guiding.aligning_heads`, averaged over
            heads and models.

    Returns:
        One score per pair, in order.
    """
    source_lengths, target_lengths = (np.array([len(side) for side in sides]) for sides in (sources, targets))
    longest = min(model.config.max_positions for model in models) - 1
    # One position goes to the source's eos and to the target's bos.
    fitting = np.flatnonzero(np.maximum(source_lengths, target_lengths) <= longest)
    banned = to_device(torch.tensor([PAD, BOS]), hardware.device)
    scores = [Hypothesis.scored(target, [-math.inf] * (len(target) + 1), alpha, normalization) for target in targets]
    batch_tokens = min(batch_tokens, _positions_that_fit(models, hardware))
    for batch in micro_batches(fitting, batch_tokens, source_lengths, target_lengths):
        log_p_N, attention_BTS = _score_batch(
            models,
            [[*sources[pair], EOS] for pair in batch],
            [targets[pair] for pair in batch],
            banned,
            hardware,
            aligns=aligns,
        )
        end = 0
        for row, pair in enumerate(batch):
            start, end = end, end + len(targets[pair]) + 1
            seen = slice(len(targets[pair])), slice(len(sources[pair]) + 1)
            attention_TS = None if attention_BTS is None else attention_BTS[row][seen]
            scores[pair] = Hypothesis.scored(targets[pair], log_p_N[start:end], alpha, normalization, attention_TS)
    return scores


def _positions_that_fit(models: Sequence[Transformer], hardware: Hardware) -> int:
    """The positions that fit into the free memory at once, by an estimate: on a CPU, too many end the process."""
    free = free_memory(hardware.device)
    if free is None:
        return sys.maxsize
    # Of each position the logits, their copy in 32 bits and the one that logsumexp makes; a layer needs far less.
    numbers = max(3 * model.vocab_size + 4 * (model.config.d_ff + 4 * model.config.d_model) for model in models)
    return max(1, int(_SHARE_OF_MEMORY * free) // (4 * numbers))


def _score_batch(
    models: Sequence[Transformer],
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    banned: Tensor,
    hardware: Hardware,
    *,
    aligns: bool,
) -> tuple[list[float], NDArray[np.float32] | None]:
    """The log-probabilities of all pieces, pair after pair; and the attention of each piece of the padded targets to
    the padded sources."""
    target_N = to_device(torch.tensor([piece for target in targets for piece in (*target, EOS)]), hardware.device)
    log_p_by_model, attention_by_model = [], []
    for model in models:
        aligning, heads = aligning_heads(model.config)

        def keep(layer: int, weights_BHTS: Tensor, aligning: int = aligning, heads: int = heads) -> None:
            if layer == aligning:
                attention_by_model.append(weights_BHTS[:, :heads].mean(dim=1))

        with torch.inference_mode(), hardware.autocast():
            encoded = model.encode(_packed(sources, model))
            observer = AttentionObserver(memory=keep) if aligns else NO_OBSERVER
            logits_NV = model.decode(_packed([[BOS, *target] for target in targets], model), encoded, observer=observer)
        logits_NV = logits_NV[: len(target_N)]  # without spare rows
        logits_NV = logits_NV.to(torch.promote_types(logits_NV.dtype, torch.float32))
        gold_N = logits_NV.gather(1, target_N[:, None]).squeeze(1)
        log_p_by_model.append(gold_N - torch.logsumexp(logits_NV, dim=1))
    log_p_N = torch.logsumexp(torch.stack(log_p_by_model), dim=0) - math.log(len(models))
    log_p_N = log_p_N.masked_fill(torch.isin(target_N, banned), -torch.inf)
    attention_BTS = torch.stack(attention_by_model).mean(dim=0).numpy(force=True) if attention_by_model else None
    return log_p_N.tolist(), attention_BTS


def _packed(sentences: Sequence[Sequence[int]], model: Transformer) -> PackedSequences:
    """Sentences on the model's device."""
    lengths = [len(sentence) for sentence in sentences]
    pieces_N = np.array([piece for sentence in sentences for piece in sentence])
    return PackedSequences.of(pieces_N, lengths, model.size_of(lengths)).to(model.device)
