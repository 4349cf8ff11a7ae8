"""Training pairs on their way through the filters, and the sentences that they are compared with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmt.corpora.hashes import Hashes, hash_lines, hash_set, no_hashes
from nmt.corpora.pair_file import Pair
from nmt.text import comparison_key

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class EvaluationSentences:
    """The sentences of valid and test, as sorted hashes of the keys by which training text is compared with them."""

    sources: Hashes = field(default_factory=no_hashes)
    targets: Hashes = field(default_factory=no_hashes)
    held_out: Hashes = field(default_factory=no_hashes)
    """Hashes of the cleaned pairs that were taken out of the training text."""
    held_out_sources: Hashes = field(default_factory=no_hashes)
    """Hashes of the keys of their sources."""

    @classmethod
    def of(cls, pairs: Iterable[Pair], key: Callable[[str], str] = comparison_key) -> EvaluationSentences:
        """The sentences of these pairs. Empty sentences are ignored."""
        sources, targets = [], []
        for source, target in pairs:
            sources.append(key(source))
            targets.append(key(target))
        return cls(hash_set([hash_lines(filter(None, sources))]), hash_set([hash_lines(filter(None, targets))]))

    def with_held_out(
        self, pairs: list[Pair], hashes: Hashes, key: Callable[[str], str] = comparison_key
    ) -> EvaluationSentences:
        """Add held-out pairs: their text as read, and the hashes of the cleaned pairs."""
        more = EvaluationSentences.of(pairs, key)
        return EvaluationSentences(
            hash_set([self.sources, more.sources]),
            hash_set([self.targets, more.targets]),
            hash_set([self.held_out, hashes]),
            hash_set([self.held_out_sources, more.sources]),
        )


@dataclass(frozen=True)
class Chunk:
    """Pairs of a corpus that passed the filters so far, with the values that the next filters need."""

    corpus: int
    """The number of the corpus."""
    pairs: list[Pair]
    """As cleaned."""
    originals: list[Pair]
    """As read."""
    pair_hashes: Hashes
    source_hashes: Hashes
    """Of the keys by which sentences are compared with valid and test; so are the target's."""
    target_hashes: Hashes
    found: Mapping[str, NDArray[Any]]
    """What later filters need of each pair, by their names: whether they find it, or the hash of a form of it."""

    def keep(self, mask: Mask) -> Chunk:
        """The pairs where the mask, shape (pairs,), is true."""
        if mask.all():
            return self
        kept = np.flatnonzero(mask)
        return Chunk(
            self.corpus,
            [self.pairs[index] for index in kept],
            [self.originals[index] for index in kept],
            self.pair_hashes[kept],
            self.source_hashes[kept],
            self.target_hashes[kept],
            {name: values[kept] for name, values in self.found.items()},
        )
