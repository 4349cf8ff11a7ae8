"""What translating needs of an engine: a loaded model that searches and scores. It is torch's, or CTranslate2's.

This module, and all of the pipeline above it, works without torch: importing torch takes longer than a translation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from nmt.config import Config
from nmt.data.vocab import Vocabulary
from nmt.data.vocab_pair import VocabularyPair
from nmt.option_fields import EngineName, Precision
from nmt.search.hypotheses import Hypothesis
from nmt.search.settings import SearchSettings
from nmt.text.lines import one_line
from nmt.translation.at_once import in_groups
from nmt.translation.found_batches import FoundBatches
from nmt.translation.options import TranslateOptions
from nmt.translation.results import TranslatedText
from nmt.translation.segment import Segment


class Searcher(Protocol):
    """Finds translations of segments: in batches of similar length, by several workers."""

    @property
    def worker_count(self) -> int:
        """The number of batches that are searched at the same time."""
        ...

    @property
    def batch_tokens(self) -> int:
        """The maximum source pieces per batch, padding included; a beam wider than 4 takes fewer."""
        ...

    @property
    def may_fork(self) -> bool:
        """Whether copies of the process, one for each worker, may search in place of worker threads, and are faster."""
        ...

    def search(
        self, segments: Sequence[Segment], settings: SearchSettings, known: FoundBatches | None = None
    ) -> list[list[Hypothesis]]:
        """Find all that a search of each segment finishes, best first.

        Args:
            known: batches that need no search; what is found of the others is added.

        Raises:
            BeamTooWideError: a single sentence does not fit into the memory.
        """
        ...


class Engine(Protocol):
    """A model, or an ensemble of several, ready to translate."""

    @property
    def name(self) -> EngineName:
        """As ``--engine`` names it."""
        ...

    @property
    def description(self) -> str:
        """Where it computes and how precisely, for messages."""
        ...

    @property
    def vocab(self) -> VocabularyPair:
        """The vocabularies of source and target, which all models share."""
        ...

    @property
    def config(self) -> Config:
        """The settings of the (first) model."""
        ...

    @property
    def positions(self) -> int:
        """The maximum pieces of a source or a target."""
        ...

    @property
    def precision(self) -> Precision:
        """The precision of matrix products."""
        ...

    def remarks(self, options: TranslateOptions) -> list[str]:
        """What the engine does in another way than the options say, as sentences for the user."""
        ...

    def searcher(self, options: TranslateOptions, workers: int | None = None, *, shared: bool = False) -> Searcher:
        """Prepare to search.

        Args:
            options: those of the usual search, and ``batch_tokens``.
            workers: the number of batches that are searched at the same time.
            shared: whether several threads search at the same time; they share the workers and the memory.

        Raises:
            BeamTooWideError: the beam needs more memory than there is, as far as the engine can tell.
            ConfigError: the engine lacks an option.
        """
        ...

    def score(
        self,
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
        options: TranslateOptions,
        *,
        alignment: bool,
    ) -> list[Hypothesis]:
        """Score each target as the translation of its source.

        Args:
            sources, targets: ids without bos and eos; one target per source.
            options: those that apply to scoring.
            alignment: align the pieces of each target.
        """
        ...


def decoded(vocab: Vocabulary, found: Sequence[Sequence[Hypothesis]]) -> list[tuple[TranslatedText, ...]]:
    """The candidates of segments from their hypotheses.

    Args:
        vocab: the target's.
    """
    texts = in_groups([[hypothesis.pieces for hypothesis in beams] for beams in found], vocab.decode)
    return [
        tuple(
            TranslatedText(
                one_line(text), tuple(vocab.pieces(hypothesis.pieces)), hypothesis.log_probability, hypothesis.score
            )
            for text, hypothesis in zip(of_beams, beams, strict=True)
        )
        for of_beams, beams in zip(texts, found, strict=True)
    ]
