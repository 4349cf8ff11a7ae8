"""The options of translating lines, apart from those of the search (:mod:`nmt.search.settings`)."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict, Unpack

from nmt.option_fields import FORMAT, HARDWARE, Option, option_fields
from nmt.search.settings import Sampling, SearchSettings

SplitSentences = Literal["auto", "always", "never"]
"""auto splits lines unlike the training lines; always splits every line of several sentences; never does not split into
sentences. Lines that are too long are split in any case."""

MbrMetric = Literal["chrf", "bleu"]
"""The metric of minimum Bayes risk."""


@dataclass(frozen=True)
class LineSettings:
    """The settings of translating lines, apart from the search."""

    mbr: Annotated[MbrMetric | None, Option("Rerank candidates by minimum Bayes risk with this metric.")] = None
    max_source_length: Annotated[
        int | None, Option("Split lines of more source pieces.", at_least=1, unset="maximum in training")
    ] = None
    guard: Annotated[
        bool,
        Option(
            "Search again where a translation looks wrong.",
            in_python="Search again where a translation is empty, looping, copied, incomplete or of an odd length. "
            "Findings are reported in any case.",
        ),
    ] = True
    split_sentences: Annotated[
        SplitSentences,
        Option(
            "Split lines into sentences; auto: lines unlike training's.",
            in_python="Translate sentence by sentence: lines unlike the training lines (auto), every line of several "
            "sentences (always), or none (never).",
        ),
    ] = "auto"
    copy_unknown: Annotated[
        bool | None,
        Option(
            "Copy characters unseen in training from the source.",
            in_python="Copy characters without a piece in the vocabulary from the source; by default not those that "
            "the model has seen as byte pieces.",
            unset="on",
        ),
    ] = None
    alignment: Annotated[
        bool,
        Option(
            "Add alignments: pieces in jsonl, else words.",
            in_python="Add the log-probability and the source piece of each piece to the candidates.",
            group=FORMAT,
            applies_to_scoring=True,
        ),
    ] = False
    batch_tokens: Annotated[
        int | None,
        Option(
            "Source pieces searched at once per worker.",
            in_python="Source pieces searched at once, padding included; fewer if the beam is wider than 4. By default "
            "2,048 on a CPU, and up to 32,768 on a GPU, if its memory has room for so many.",
            unset="2048; on a GPU more",
            at_least=1,
            at_most=1_000_000,
            group=HARDWARE,
            is_recorded=False,
            applies_to_scoring=True,
        ),
    ] = None


class LineOptions(TypedDict, total=False):
    """These options as keywords of the Python API. None stands for the default."""

    mbr: MbrMetric | None
    max_source_length: int | None
    guard: bool | None
    split_sentences: SplitSentences | None
    copy_unknown: bool | None
    alignment: bool | None
    batch_tokens: int | None


def line_settings(**options: Unpack[LineOptions]) -> LineSettings:
    """Settings from options.

    Raises:
        ConfigError: an option is unknown or out of range.
    """
    from nmt.config.option_values import check_options

    given = {name: value for name, value in options.items() if value is not None}
    return LineSettings(**check_options(LineSettings, given))


def recorded(search: SearchSettings, lines: LineSettings, *, scoring: bool = False) -> dict[str, Any]:
    """Option -> value, for the options that an output depends on.

    Args:
        scoring: given targets are scored, so only some options have an effect.
    """
    values = dataclasses.asdict(search) | dataclasses.asdict(lines)
    if values["copy_unknown"] is None:
        values["copy_unknown"] = "auto"
    kinds: tuple[type, ...] = (type(search), type(lines))
    fields = [field for kind in kinds for field in option_fields(kind)]
    without = {field.name for field in fields if not field.option.is_recorded}
    if scoring:
        without |= {field.name for field in fields if not field.option.applies_to_scoring}
        without |= values.keys() - {field.name for field in fields}
    return {name: value for name, value in values.items() if name not in without}


def recorded_defaults() -> dict[str, Any]:
    """The record of the defaults, including those of sampling."""
    return recorded(SearchSettings(sampling=Sampling()), LineSettings())
