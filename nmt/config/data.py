"""The data that a model is trained on: what ``nmt train`` records of it, and how text is made like it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from pydantic import AfterValidator, Field

from nmt.config.section import Section
from nmt.text.languages import well_formed
from nmt.text.lines import NormalizationRule, normalizer

LanguageCode = Annotated[str, AfterValidator(well_formed)]
"""The code of a language; empty if the language is not known."""


class CorpusShare(Section):
    """A data set of a mixture."""

    name: str
    fingerprint: str
    weight: float = Field(1.0, gt=0, description="times that each of its pairs comes per epoch")


class PieceCounts(Section):
    """Percentiles (50, 90, 99 and 99.9) and maximum of the number of pieces per line."""

    p50: int = Field(ge=0)
    p90: int = Field(ge=0)
    p99: int = Field(ge=0)
    p999: int = Field(ge=0)
    max: int = Field(ge=0)


class SideLines(Section):
    """The lines of one side of a training text."""

    sentences: tuple[Annotated[int, Field(ge=0)], ...] = Field(
        description="numbers of lines with 1, 2, 3 ... sentences; the last includes longer lines"
    )
    pieces: PieceCounts
    byte_pieces: float | None = Field(None, ge=0, le=1, description="share of pieces that are single bytes")
    decomposed: float = Field(0, ge=0, le=1, description="share not in NFC, of the lines that NFC or NFD changes")

    @property
    def are_composed(self) -> bool:
        """Whether most lines were in NFC, so that text is composed before it is encoded."""
        return self.decomposed < 0.5


class LengthRatio(Section):
    """Target pieces per source piece: percentiles over pairs."""

    p1: float = Field(ge=0)
    p10: float = Field(ge=0)
    p50: float = Field(ge=0)
    p90: float = Field(ge=0)
    p99: float = Field(ge=0)


class LineStatistics(Section):
    """Statistics of training lines, by which translate recognises lines that are unlike them."""

    max_length: int = Field(ge=1, description="pieces; longer pairs were left out of training")
    source: SideLines
    target: SideLines
    target_per_source: LengthRatio


class DataConfig(Section):
    """The training data of a model. ``nmt train`` fills it in from the data's manifest and vocabulary."""

    name: str = ""
    source_lang: LanguageCode = ""
    target_lang: LanguageCode = ""
    fingerprint: str = Field("", description="of the prepared text, as in its manifest")
    vocab_fingerprint: str = ""
    vocab_size: int = Field(0, ge=0)
    target_vocab_size: int | None = Field(None, ge=1, description="if the target has a vocabulary of its own")
    nfc: bool = Field(False, description="convert source text to Unicode NFC before it is encoded")
    punctuation: bool = Field(False, description="apply the Moses punctuation steps to source text")
    source_normalization: NormalizationRule = Field(
        "identity", description="SentencePiece's rule that is applied to source text before it is encoded"
    )
    weight: float = Field(1.0, gt=0, description="times that each pair comes per epoch")
    mixed_with: tuple[CorpusShare, ...] = Field((), description="further data sets, if several were given")
    lines: LineStatistics | None = Field(None, description="statistics of training lines; unknown if unset")

    @property
    def composes_source(self) -> bool:
        """Whether source text is converted to NFC before it is encoded: by the recipe, or like the training lines."""
        return self.nfc or self.lines is None or self.lines.source.are_composed

    @property
    def composes_target(self) -> bool:
        """Whether a given translation, or its beginning, is converted to NFC before it is encoded."""
        return self.lines is None or self.lines.target.are_composed

    @property
    def source_steps(self) -> list[str]:
        """What is done to source text before it is encoded, by names."""
        steps = {
            "Unicode NFC": self.composes_source,
            "Moses' punctuation normalisation": self.punctuation,
            self.source_normalization: self.source_normalization != "identity",
        }
        return [name for name, applies in steps.items() if applies]

    def source_normalizer(self) -> Callable[[str], str]:
        """What is done to a source line before it is encoded."""
        return normalizer(
            nfc=self.composes_source,
            punctuation=self.punctuation,
            language=self.source_lang,
            rule=self.source_normalization,
        )

    def target_normalizer(self) -> Callable[[str], str]:
        """What is done to a given translation, or its beginning, before it is encoded."""
        return normalizer(nfc=self.composes_target, punctuation=False, language="")

    @property
    def target_pieces(self) -> int:
        """Number of pieces of the target's vocabulary."""
        return self.target_vocab_size or self.vocab_size

    @property
    def parts(self) -> list[CorpusShare]:
        """All data sets, the first one among them."""
        return [CorpusShare(name=self.name, fingerprint=self.fingerprint, weight=self.weight), *self.mixed_with]
