"""The options of the search. Every field with an ``Option`` is an option of the command line and of the Python API.

:mod:`nmt.translation.options` adds those of lines.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Literal

from nmt.errors import NmtError
from nmt.option_fields import FORMAT, SAMPLING, Option

MAX_BEAM = 4_096
"""The maximum beam size, whatever the memory."""
BATCH_TOKENS = 2_048
"""Source pieces that a CPU searches at once."""

Normalization = Literal["paper", "length"]
"""What scores are divided by: the paper's length penalty, or the length to the power of alpha."""


class BeamTooWideError(NmtError):
    """A search whose beam needs more memory than there is, even for a single sentence."""


@dataclass(frozen=True)
class Sampling:
    """Sample outputs piece by piece from the model's distribution."""

    temperature: Annotated[
        float,
        # A lower temperature makes logits overflow.
        Option("Divides log-probabilities; below 1 is safer.", at_least=1e-6, at_most=1e6, group=SAMPLING),
    ] = 1.0
    top_k: Annotated[int | None, Option("Draw from the N likeliest pieces only.", at_least=1, group=SAMPLING)] = None
    top_p: Annotated[
        float | None,
        Option(
            "Nucleus sampling: smallest set of pieces with probability >= X.",
            in_python="Nucleus sampling (Holtzman et al. 2020): draw from the smallest set of pieces with this total "
            "probability.",
            above=0,
            at_most=1,
            group=SAMPLING,
        ),
    ] = None
    seed: Annotated[int, Option("The same seed draws the same.", at_least=0, group=SAMPLING)] = 1

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ConfigError: values are not allowed. The message names each, and the allowed range.
        """
        from nmt.config.option_values import check_options

        check_options(type(self), {field.name: getattr(self, field.name) for field in dataclasses.fields(self)})


@dataclass(frozen=True)
class SearchSettings:
    """The settings of one search."""

    beam: Annotated[
        int, Option("Beam size; 1 is greedy.", at_least=1, at_most=MAX_BEAM, unset="the model's", letter="b")
    ] = 4
    length_penalty: Annotated[
        float,
        # The upper bound keeps powers finite.
        Option("alpha of the length penalty.", at_least=0, at_most=100, unset="the model's", applies_to_scoring=True),
    ] = 0.6
    normalization: Annotated[
        Normalization,
        Option(
            "What scores are divided by: paper's penalty, length^alpha.", unset="the model's", applies_to_scoring=True
        ),
    ] = "paper"
    max_extra_length: Annotated[
        int,
        Option("Maximum pieces of an output beyond its source's.", at_least=0, at_most=1_000_000, unset="the model's"),
    ] = 50
    min_length: Annotated[int, Option("Minimum pieces of an output.", at_least=0)] = 0
    no_repeat_ngram: Annotated[int, Option("Allow no n-gram of N pieces twice; 0 is off.", at_least=0)] = 0
    diverse_groups: Annotated[int, Option("Diverse beam search with N groups, which divide {beam}.", at_least=1)] = 1
    diversity: Annotated[
        float,
        # A larger penalty outweighs every log-probability, and sums would lose the digits by which pieces differ.
        Option(
            "Penalty on pieces that earlier groups took.",
            in_python="Penalty in nats on a piece, per hypothesis of an earlier group that took it at the same step; "
            "only with ``diverse_groups``.",
            at_least=0,
            at_most=1_000,
        ),
    ] = 0.5
    sampling: Annotated[
        Sampling | None,
        Option(
            "Draw {beam} translations at random instead.",
            in_python="An ``nmt.Sampling``: draw {beam} translations at random instead of searching for the best.",
            group=SAMPLING,
            word="sample",
        ),
    ] = None
    nbest: Annotated[int, Option("Translations of each line, best first.", at_least=1, group=FORMAT)] = 1
    max_length: int | None = None
    """The maximum pieces of any output, for measurements; None for no such limit."""
