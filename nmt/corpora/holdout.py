"""Valid and test sets taken out of the training text, for users who have none."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from nmt.corpora.chunks import PairChunk
from nmt.corpora.corpus_kinds import HeldOut
from nmt.corpora.formats import Pair
from nmt.corpora.hashes import Hashes


@dataclass(frozen=True)
class HeldOutPairs:
    """Pairs that are taken out of the training text."""

    pairs: list[Pair]
    """As read: valid and test are never changed."""
    pair_hashes: Hashes
    """Hashes of the same pairs as cleaned, by which cleaning recognises them."""


@dataclass(frozen=True)
class _Candidate:
    position: int
    pair: Pair
    pair_hash: np.uint64


def hold_out(chunks: Iterable[PairChunk], wanted: Mapping[str, HeldOut]) -> dict[str, HeldOutPairs]:
    """Choose the held-out pairs of each split; no source sentence is in two splits.

    The sources with the smallest hashes are taken. They are the same in every run, spread over the whole corpus, and
    hardly change when the corpus grows. Pairs keep the order of the corpus.

    Args:
        chunks: training pairs that passed the filters.
        wanted: how many pairs to hold out for each split.
    """
    room = sum(share.pairs for share in wanted.values())
    candidates: dict[int, _Candidate] = {}
    limit = np.uint64(np.iinfo(np.uint64).max)
    survivors = 0
    for chunk in chunks:
        hashes = chunk.values["source"]
        for index in np.flatnonzero(hashes <= limit):
            candidate = _Candidate(survivors + int(index), chunk.originals[index], chunk.values["pair"][index])
            candidates.setdefault(int(hashes[index]), candidate)
        survivors += len(chunk.pairs)
        if len(candidates) > 2 * room:
            smallest = sorted(candidates)[:room]
            candidates = {source_hash: candidates[source_hash] for source_hash in smallest}
            limit = np.uint64(smallest[-1])

    ordered = iter(sorted(candidates))
    held = {}
    for split, share in wanted.items():
        count = min(share.pairs, math.ceil(share.max_share * survivors))
        chosen = sorted(
            (candidates[source_hash] for source_hash in itertools.islice(ordered, count)),
            key=lambda candidate: candidate.position,
        )
        held[split] = HeldOutPairs(
            [candidate.pair for candidate in chosen],
            np.array([candidate.pair_hash for candidate in chosen], dtype=np.uint64),
        )
    return held
