"""The options of the search, in addition to those that a model's configuration has (``decoding``).

:mod:`nmt.translation.options` adds those of lines.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, InstanceOf

from nmt.config.section import StrictSection
from nmt.config.sections import DecodingConfig
from nmt.errors import NmtError
from nmt.option_fields import FORMAT, SAMPLING, Option

BATCH_TOKENS = 2_048
"""Source pieces that a CPU searches at once; pieces of the longer side that any device scores at once."""


class BeamTooWideError(NmtError):
    """A search whose beam needs more memory than there is, even for a single sentence."""


class Sampling(StrictSection):
    """Sample outputs piece by piece from the model's distribution."""

    # A lower temperature makes logits overflow.
    temperature: Annotated[float, Option(group=SAMPLING)] = Field(
        1.0, ge=1e-6, le=1e6, description="Divides log-probabilities; below 1 is safer."
    )
    top_k: Annotated[int | None, Option(group=SAMPLING)] = Field(
        None, ge=1, description="Draw from the N likeliest pieces only."
    )
    top_p: Annotated[
        float | None,
        Option(
            in_python="Nucleus sampling (Holtzman et al. 2020): draw from the smallest set of pieces with this total "
            "probability.",
            group=SAMPLING,
        ),
    ] = Field(None, gt=0, le=1, description="Nucleus sampling: smallest set of pieces with probability >= X.")
    seed: Annotated[int, Option(group=SAMPLING)] = Field(1, ge=0, description="Seed of the draws.")


class SearchSettings(StrictSection, DecodingConfig):
    """The settings of one search."""

    min_length: Annotated[int, Option()] = Field(0, ge=0, description="Minimum pieces of an output.")
    no_repeat_ngram: Annotated[int, Option()] = Field(
        0, ge=0, description="Allow no n-gram of N pieces twice; 0 is off."
    )
    sampling: Annotated[
        InstanceOf[Sampling] | None,
        Option(
            in_python="An ``nmt.Sampling``: draw {beam} translations at random instead of searching for the best.",
            group=SAMPLING,
            word="sample",
        ),
    ] = Field(None, description="Draw {beam} translations at random instead.")
    nbest: Annotated[int, Option(group=FORMAT)] = Field(1, ge=1, description="Translations of each line, best first.")
    max_length: int | None = None
    """The maximum pieces of any output, for measurements; None for no such limit."""

    @property
    def kept(self) -> int:
        """The number of extensions that a step keeps, those that end included.

        At most one extension of each hypothesis ends, so twice the beam has enough others to fill all places.
        """
        return 2 * self.beam if self.refill_beam and self.sampling is None else self.beam
