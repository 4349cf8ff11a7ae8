"""One step of a search: every live hypothesis is extended by every piece, and the best extensions are kept.

A step reads and changes the tensors of a :class:`~nmt.search.beam.Beam`. It needs nothing of the host, so that a GPU
can record it.

Shapes: B sentences, W places of the beam, N = B · W rows, V vocabulary, K extensions per hypothesis, C extensions that
are kept of a sentence, X blocks of a vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from nmt.model.state import Length
from nmt.model.transformer import Transformer
from nmt.search.beam import Beam
from nmt.search.next_pieces import BLOCK, NEVER_EMITTED, largest, repeating_pieces, sample
from nmt.search.settings import SearchSettings
from nmt.special_ids import EOS


def step(
    models: Sequence[Transformer],
    beam: Beam,
    settings: SearchSettings,
    length: Length,
    *,
    live_BW: Tensor | None = None,
    may_force: bool = True,
) -> None:
    """Extend hypotheses by a piece.

    Args:
        length: the number of pieces so far.
        live_BW: the live places, if the models are to compute nothing for the empty ones.
        may_force: whether a sentence may have but one allowed piece in this step.
    """
    # 1. Find extensions of each hypothesis: the best ones, or a sampled one.
    logits_NV, normalizer_N1, largest_NX = _scores(models, beam, length, live_BW)
    forced_N1 = _at(beam.forced_BR, length).repeat_interleave(beam.tokens_BW.shape[1], dim=0) if may_force else None
    forced_value_N1 = None if forced_N1 is None else logits_NV.gather(1, forced_N1.clamp(min=0)).float()
    _forbid(logits_NV, beam, settings, length)
    if settings.sampling is not None:
        values_NK, pieces_NK = sample(logits_NV, settings.sampling, _at(beam.uniform_BRW, length).flatten())
    else:  # the K best extensions of each hypothesis suffice for the K best of all
        if settings.no_repeat_ngram:  # the largest of any block may be forbidden now
            largest_NX = None
        values_NK, pieces_NK = largest(logits_NV, settings.kept, largest_NX)
    values_NK = values_NK.float()
    if forced_N1 is not None and forced_value_N1 is not None:
        is_first_K = torch.arange(values_NK.shape[1], device=values_NK.device) == 0
        is_forced_N1, only_forced_NK = forced_N1 >= 0, torch.where(is_first_K, forced_value_N1, -torch.inf)
        values_NK = torch.where(is_forced_N1, only_forced_NK, values_NK)
        pieces_NK = torch.where(is_forced_N1, forced_N1, pieces_NK)

    # 2. Choose among those of all hypotheses of a sentence: one per place of its beam, or twice as many.
    (sentences, places), choices = beam.tokens_BW.shape, values_NK.shape[1]
    extended_BWK = beam.scores_BW[:, :, None] + (values_NK - normalizer_N1).view(sentences, places, choices)
    if settings.sampling is not None:
        best_BC, index_BC = extended_BWK[:, :, 0], torch.arange(places, device=logits_NV.device).expand(sentences, -1)
    else:
        best_BC, index_BC = _choose(extended_BWK, beam.places_B1, settings.kept)
    parents_BC, tokens_BC = index_BC // choices, pieces_NK.view(sentences, -1).gather(1, index_BC)

    # 3. Extensions that end in eos are finished; the others stay live. Places become empty, or the next best take them.
    ended_BC = (tokens_BC == EOS) & (best_BC > -torch.inf)
    live_BC = best_BC.masked_fill(ended_BC, -torch.inf)
    if settings.kept == places:
        beam.places_B1.sub_(ended_BC.sum(dim=1, keepdim=True))
        live_BW, parents_BW, tokens_BW = live_BC, parents_BC, tokens_BC
    else:
        live_BC, order_BC = live_BC.sort(dim=1, descending=True)
        best_BC, parents_BC, tokens_BC = (each.gather(1, order_BC) for each in (best_BC, parents_BC, tokens_BC))
        live_BW, parents_BW, tokens_BW = (each[:, :places] for each in (live_BC, parents_BC, tokens_BC))
    beam.scores_BW.copy_(live_BW)
    beam.tokens_BW.copy_(tokens_BW)
    for state in beam.states:
        state.follow(length, parents_BW)
    if settings.no_repeat_ngram:
        beam.written_BWR.copy_(beam.written_BWR.gather(1, parents_BW[:, :, None].expand_as(beam.written_BWR)))
        _set(tokens_BW[:, :, None], beam.written_BWR, 2, length)

    # 4. What the host looks at. The dtype of log-probabilities represents indices and ids exactly.
    chosen_3BC = torch.stack([best_BC, parents_BC.to(best_BC.dtype), tokens_BC.to(best_BC.dtype)])
    _set(chosen_3BC[None], beam.chosen_L3BC, 0, length % len(beam.chosen_L3BC))


def _scores(
    models: Sequence[Transformer], beam: Beam, length: Length, live_BW: Tensor | None
) -> tuple[Tensor, Tensor | float, Tensor | None]:
    """Logits (N, V) of all models together, what to subtract to get log-probabilities, and the largest logit of each
    block (N, X) if a kernel found it."""
    each = [
        model.step(beam.tokens_BW, state, length, live_BW) for model, state in zip(models, beam.states, strict=True)
    ]
    summarize = models[0].summarize_logits
    if len(each) == 1 and summarize is not None:
        return each[0], *summarize(each[0], BLOCK)
    # One pass over memory; logsumexp makes two copies.
    each = [torch.log_softmax(logits_NV, dim=1, dtype=torch.float32) for logits_NV in each]
    if len(each) == 1:
        return each[0], 0.0, None
    return torch.stack(each).logsumexp(dim=0), math.log(len(each)), None


def _forbid(logits_NV: Tensor, beam: Beam, settings: SearchSettings, length: Length) -> None:
    """Set to -inf the pieces that are never allowed, not allowed yet, or not allowed again."""
    eos_N = logits_NV[:, EOS].clone() if settings.no_repeat_ngram else None
    for piece in NEVER_EMITTED:
        logits_NV[:, piece].fill_(-torch.inf)
    if isinstance(length, int):
        if length < settings.min_length:
            logits_NV[:, EOS].fill_(-torch.inf)
    elif settings.min_length:
        logits_NV[:, EOS].masked_fill_(length < settings.min_length, -torch.inf)
    if eos_N is not None:
        pieces_NR = repeating_pieces(beam.written_BWR.flatten(0, 1), length, settings.no_repeat_ngram)
        logits_NV.scatter_(1, pieces_NR, -torch.inf)
        # A hypothesis without any allowed piece may end, even below the minimum length.
        ending_N = (logits_NV == -torch.inf).all(dim=1)
        logits_NV[:, EOS] = torch.where(ending_N, eos_N, logits_NV[:, EOS])


def _choose(extended_BWK: Tensor, places_B1: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The ``count`` best extensions of each sentence, best first.

    Args:
        extended_BWK: the log-probability of each hypothesis with each of its best extensions.
        places_B1: how many of them are kept.

    Returns:
        Log-probabilities, -inf if not kept; indices among all extensions of the sentence. Both (B, C).
    """
    best_BC, index_BC = extended_BWK.flatten(1).topk(count, dim=1)
    is_empty_BC = torch.arange(count, device=best_BC.device) >= places_B1
    return best_BC.masked_fill_(is_empty_BC, -torch.inf), index_BC


def _at(tensor: Tensor, length: Length) -> Tensor:
    """What a tensor (B, R, ...) holds for a step, (B, 1, ...)."""
    return tensor.narrow(1, length, 1) if isinstance(length, int) else tensor.index_select(1, length)


def _set(value: Tensor, tensor: Tensor, dim: int, length: Length) -> None:
    """Let a tensor hold a value for a step."""
    if isinstance(length, int):
        tensor.narrow(dim, length, 1).copy_(value)
    else:
        tensor.index_copy_(dim, length, value)
