"""Which target pieces translate which source pieces: IBM Model 1 (Brown et al. 1993), estimated from encoded pairs.

The model explains each target piece by one source piece of its pair, or by none. A link is a target piece and one of
its possible explanations.

Shapes: P pairs, T target pieces of several pairs, L their links, E entries: two pieces that some pair links.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nmt.data.arrays import gather_rows, starts_of
from nmt.data.shards import PairSource
from nmt.data.vocab import Vocabulary

MAX_LINKS = 50_000_000
"""About 50,000 pairs of 30 pieces a side. A link takes up to 30 bytes while entries are collected, then 4."""
_LINKS_AT_ONCE = 1_000_000
_PAIRS_AT_ONCE = 1_000_000
_ITERATIONS = 5
# The source piece of links to nothing. No sentence holds padding.
_NOTHING = Vocabulary.PAD


@dataclass(frozen=True)
class Lexicon:
    """The entries, ordered by source piece, then by target piece."""

    source_E: NDArray[np.int64]
    target_E: NDArray[np.int64]
    count_E: NDArray[np.float64]
    """How often the source piece is expected to be the explanation of the target piece in these pairs."""
    target_count_V: NDArray[np.float64]
    """How often each piece is in these pairs' targets."""
    pairs: int
    """The number of pairs that it was estimated from."""


@dataclass(frozen=True)
class _Links:
    """The links of several pairs, ordered by target piece."""

    key_L: NDArray[np.int64]
    """source piece x vocabulary + target piece."""
    links_T: NDArray[np.int64]
    """The number of links of each target piece."""


def estimate_lexicon(pairs: PairSource, vocab_size: int, *, max_links: int = MAX_LINKS) -> Lexicon:
    """Estimate the model, from as many pairs as have about so many links, spread evenly over the corpus.

    Pairs that alone have more links than are held at once are left out.
    """
    chosen_P = _evenly_spread(pairs, max_links)
    key_E = np.unique(np.concatenate([np.unique(links.key_L) for links in _linked(pairs, chosen_P, vocab_size)]))
    blocks = [
        (np.searchsorted(key_E, links.key_L).astype(np.int32), links.links_T)
        for links in _linked(pairs, chosen_P, vocab_size)
    ]
    source_E, target_E = key_E // vocab_size, key_E % vocab_size
    probability_E = np.ones(len(key_E))  # their sum does not matter
    for _ in range(_ITERATIONS):
        count_E = np.zeros(len(key_E))
        for entry_L, links_T in blocks:
            weight_L = probability_E[entry_L]
            weight_L /= np.repeat(np.add.reduceat(weight_L, starts_of(links_T)), links_T)
            count_E += np.bincount(entry_L, weight_L, len(key_E))
        probability_E = count_E / np.bincount(source_E, count_E, vocab_size)[source_E]
    is_explained_E = source_E != _NOTHING
    return Lexicon(
        source_E[is_explained_E],
        target_E[is_explained_E],
        count_E[is_explained_E],
        np.bincount(target_E, count_E, vocab_size).astype(np.float64),
        len(chosen_P),
    )


def _evenly_spread(pairs: PairSource, max_links: int) -> NDArray[np.int64]:
    everything = range(0, len(pairs), _PAIRS_AT_ONCE)
    links = sum(int(_links_of(pairs, slice(start, start + _PAIRS_AT_ONCE)).sum()) for start in everything)
    count = len(pairs) if links <= max_links else max(1, len(pairs) * max_links // links)
    chosen_P = np.arange(count, dtype=np.int64) * len(pairs) // max(count, 1)
    return chosen_P[_links_of(pairs, chosen_P) <= _LINKS_AT_ONCE]


def _links_of(pairs: PairSource, chosen: slice | NDArray[np.int64]) -> NDArray[np.int64]:
    return (pairs.source_lengths[chosen] + 1).astype(np.int64) * pairs.target_lengths[chosen]


def _linked(pairs: PairSource, chosen_P: NDArray[np.int64], vocab_size: int) -> Iterator[_Links]:
    """The links of the chosen pairs, in blocks."""
    block_P = np.cumsum(_links_of(pairs, chosen_P)) // _LINKS_AT_ONCE
    for block in np.split(chosen_P, np.flatnonzero(np.diff(block_P)) + 1):
        sources_P, targets_P = (
            lengths[block].astype(np.int64) for lengths in (pairs.source_lengths, pairs.target_lengths)
        )
        ends_P = np.cumsum(sources_P)
        # Every source is preceded by nothing, which explains target pieces too.
        source_S = np.insert(pairs.tokens("source", block).astype(np.int64), ends_P - sources_P, _NOTHING)
        links_T = np.repeat(sources_P + 1, targets_P)
        source_L = gather_rows(source_S, np.repeat(starts_of(sources_P + 1), targets_P), links_T)
        target_L = np.repeat(pairs.tokens("target", block).astype(np.int64), links_T)
        yield _Links(source_L * vocab_size + target_L, links_T)
