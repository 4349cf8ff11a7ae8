"""The data that a model is trained on: what ``nmt train`` records of it, and how text is made like it."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from nmt.config.section import Section
from nmt.text.languages import well_formed
from nmt.text.steps import Choice, Steps, TextSteps, well_formed_tag

LanguageCode = Annotated[str, AfterValidator(well_formed)]
"""The code of a language; empty if the language is not known."""
Tag = Annotated[str, AfterValidator(well_formed_tag)]
"""The tag of a data set, whose piece stands before its source lines; empty if it has none."""


class CorpusShare(Section):
    """A data set of a mixture."""

    name: str
    fingerprint: str
    weight: float = Field(1.0, gt=0, description="times that each of its pairs comes per epoch")
    source_lang: LanguageCode = ""
    target_lang: LanguageCode = ""
    tag: Tag = ""


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

    max_pieces: int = Field(ge=1, description="pieces; longer pairs were left out of training")
    source: SideLines
    target: SideLines
    target_per_source: LengthRatio


class DataConfig(Section):
    """The training data of a model. ``nmt train`` fills it in from the data's manifest and vocabulary."""

    name: str = ""
    source_lang: LanguageCode = ""
    target_lang: LanguageCode = ""
    tag: Tag = Field("", description="of the data set: its piece stands before each source line")
    fingerprint: str = Field("", description="of the prepared text, as in its manifest")
    vocab_fingerprint: str = ""
    vocab_size: int = Field(0, ge=0)
    target_vocab_size: int | None = Field(None, ge=1, description="if the target has a vocabulary of its own")
    source_text: Steps = Field((), description="what source text goes through before it becomes pieces")
    target_text: Steps = Field((), description="the same for given translations; undone in outputs")
    weight: float = Field(1.0, gt=0, description="times that each pair comes per epoch")
    mixed_with: tuple[CorpusShare, ...] = Field((), description="further data sets, if several were given")
    lines: LineStatistics | None = Field(None, description="statistics of training lines; unknown if unset")

    @property
    def steps(self) -> TextSteps:
        """The steps of both sides."""
        return TextSteps(self.source_text, self.target_text)

    @property
    def languages(self) -> dict[Choice, str]:
        """The codes of both sides. By default, text gets no tag."""
        return {"source": self.source_lang, "target": self.target_lang}

    @property
    def directions(self) -> list[tuple[str, str]]:
        """The codes of the directions that the model was trained on; none if that is not known, as of an import."""
        trained = [part for part in self.parts if part.fingerprint]
        return list(dict.fromkeys((part.source_lang, part.target_lang) for part in trained))

    @property
    def target_pieces(self) -> int:
        """Number of pieces of the target's vocabulary."""
        return self.target_vocab_size or self.vocab_size

    @property
    def parts(self) -> list[CorpusShare]:
        """All data sets, the first one among them."""
        first = {name: getattr(self, name) for name in CorpusShare.model_fields}
        return [CorpusShare(**first), *self.mixed_with]
