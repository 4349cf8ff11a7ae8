"""Training pairs on their way through the filters, and the sentences that they are compared with."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmt.corpora.formats import Pair
from nmt.corpora.hashes import Hashes, hash_lines, hash_set, no_hashes
from nmt.io.writing import open_to_write
from nmt.text.lines import comparison_key

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
class PairChunk:
    """Pairs of a corpus that passed the filters so far, with the values that the next filters need."""

    corpus: int
    """The number of the corpus."""
    pairs: list[Pair]
    """As cleaned."""
    originals: list[Pair]
    """As read."""
    values: Mapping[str, NDArray[Any]]
    """What the next filters need of each pair.

    ``pair`` is the hash of the pair as cleaned; ``source`` and ``target`` are those of the keys by which sentences are
    compared with valid and test. Under the name of a filter: whether it finds the pair, or the hash of the form of the
    pair that it looks for.
    """

    def keep(self, mask: Mask) -> PairChunk:
        """The pairs where the mask, shape (pairs,), is true."""
        if mask.all():
            return self
        kept = np.flatnonzero(mask)
        pairs, originals = ([side[index] for index in kept] for side in (self.pairs, self.originals))
        return PairChunk(self.corpus, pairs, originals, {name: values[kept] for name, values in self.values.items()})


def store(chunks: Iterable[PairChunk], path: Path) -> None:
    """Write chunks to a new file: per chunk a line of JSON, then its lines and its arrays.

    Raises:
        WriteError: the system refused to write it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open_to_write(path, "xb", follow=False) as stream:
        for chunk in chunks:
            texts = [_joined(chunk.pairs)] + [_joined(chunk.originals)] * (chunk.originals != chunk.pairs)
            types = {name: values.dtype.str for name, values in chunk.values.items()}
            header = [chunk.corpus, len(chunk.pairs), list(map(len, texts)), types]
            arrays = [values.tobytes() for values in chunk.values.values()]
            stream.writelines([json.dumps(header).encode(), b"\n", *texts, *arrays])


def stored(path: Path) -> Iterator[PairChunk]:
    """Yield the chunks of a file of :func:`store`."""
    with path.open("rb") as stream:
        for line in iter(stream.readline, b""):
            corpus, count, lengths, types = json.loads(line)
            sides = [_pairs_of(stream.read(length)) for length in lengths]
            sizes = {name: count * np.dtype(kind).itemsize for name, kind in types.items()}
            values = {name: np.frombuffer(stream.read(sizes[name]), kind) for name, kind in types.items()}
            yield PairChunk(corpus, sides[0], sides[-1], values)


def _joined(pairs: list[Pair]) -> bytes:
    # A line break inside a line, and half a character, become what they become where text is written.
    return "\n".join(line.replace("\n", " ") for pair in pairs for line in pair).encode("utf-8", "replace")


def _pairs_of(joined: bytes) -> list[Pair]:
    lines = joined.decode().split("\n")
    return list(zip(lines[::2], lines[1::2], strict=False))
