"""The options of translating: those of the search (:mod:`nmt.search.settings`), and those of lines.

A new option is a field here or there, and a line in :class:`SearchOptions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, TypedDict, Unpack

from pydantic import Field

from nmt.config.sections import DecodingConfig, Normalization
from nmt.errors import ConfigError
from nmt.option_fields import FORMAT, HARDWARE, STREAMS, Option, OptionField, option_fields
from nmt.search.settings import Sampling, SearchSettings

Form = Literal["text", "jsonl", "tsv", "moses", "pharaoh"]
"""How translations are written."""
SplitSentences = Literal["auto", "always", "never"]
"""auto splits lines unlike the training lines, or like always if these are unknown; always splits every line of several
sentences; never does not split into sentences. Lines that are too long are split in any case."""


class TranslateOptions(SearchSettings):
    """The settings of translating lines."""

    source_lang: Annotated[
        str | None, Option(group=STREAMS, unset="the model's", metavar="CODE", applies_to_scoring=True)
    ] = Field(None, description="Source language, for models of several.")
    target_lang: Annotated[
        str | None, Option(group=STREAMS, unset="the model's", metavar="CODE", applies_to_scoring=True)
    ] = Field(None, description="Target language, for models of several.")
    tag: Annotated[str | None, Option(group=STREAMS, unset="none", metavar="TAG", applies_to_scoring=True)] = Field(
        None, description="Translate as the training data with this tag, such as BT."
    )
    mbr: Annotated[bool, Option()] = Field(False, description="Rerank candidates by minimum Bayes risk with chrF.")
    max_source_length: Annotated[int | None, Option(unset="maximum in training")] = Field(
        None, ge=1, description="Split lines of more source pieces."
    )
    guard: Annotated[
        bool,
        Option(
            in_python="Search again where a translation is empty, looping, copied, incomplete, of an odd length, or "
            "has other numbers, placeholders or web addresses. Findings are reported in any case."
        ),
    ] = Field(True, description="Search again where a translation looks wrong.")
    split_sentences: Annotated[
        SplitSentences,
        Option(
            in_python="Translate sentence by sentence: lines unlike the training lines (auto), every line of several "
            "sentences (always), or none (never)."
        ),
    ] = Field("auto", description="Split lines into sentences; auto: only lines unlike training's.")
    copy_unknown: Annotated[
        bool | None,
        Option(
            in_python="Copy characters without a piece in the vocabulary from the source; by default not those that "
            "the model has seen as byte pieces.",
            unset="on",
        ),
    ] = Field(None, description="Copy characters unseen in training from the source.")
    alignment: Annotated[
        bool,
        Option(
            in_python="Add the log-probability and the source piece of each piece to the candidates.",
            group=FORMAT,
            applies_to_scoring=True,
        ),
    ] = Field(False, description="Add alignments: pieces in jsonl, else words.")
    batch_tokens: Annotated[
        int | None,
        Option(
            in_python="Source pieces searched at once, padding included; fewer if the beam is wider than 4. By default "
            "2,048 on a CPU, and up to 65,536 on a GPU, if its memory has room for so many.",
            unset="2048; on a GPU more",
            group=HARDWARE,
            is_recorded=False,
            applies_to_scoring=True,
        ),
    ] = Field(None, ge=1, le=1_000_000, description="Source pieces per batch, padding included.")


class _SharedOptions(TypedDict, total=False):
    length_penalty: float | None
    length_normalization: Normalization | None
    batch_tokens: int | None


class ScoringOptions(_SharedOptions, total=False):
    """The types of the options that apply to scoring given targets, as keywords of the Python API."""

    source_lang: str | None
    target_lang: str | None
    tag: str | None
    alignment: bool | None


class SearchOptions(_SharedOptions, total=False):
    """The types of the options that apply to any search, whatever the languages and the form of its output."""

    beam: int | None
    max_extra_length: int | None
    refill_beam: bool | None
    min_length: int | None
    no_repeat_ngram: int | None
    sampling: Sampling | None
    nbest: int | None
    mbr: bool | None
    max_source_length: int | None
    guard: bool | None
    split_sentences: SplitSentences | None
    copy_unknown: bool | None


class Options(ScoringOptions, SearchOptions, total=False):
    """The types of all options as keywords of the Python API. None stands for the default."""


def translate_options(
    decoding: DecodingConfig, *, called: Callable[[str], str] = str, **options: Unpack[Options]
) -> TranslateOptions:
    """Merge options with the model's own settings.

    Args:
        decoding: the model's own settings.
        called: spells the name of an option in messages, as :func:`~nmt.option_fields.flag_of` does.

    Raises:
        ConfigError: an option is unknown or out of range, or options contradict each other.
    """
    given = {name: value for name, value in options.items() if value is not None}
    settings = TranslateOptions.checked(decoding.model_dump() | given)
    if settings.nbest > settings.beam:
        nbest, beam = settings.nbest, settings.beam
        raise ConfigError(f"{called('nbest')} {nbest} needs {called('beam')} of at least {nbest}, got {beam}.")
    if settings.mbr and settings.beam == 1:
        raise ConfigError(f"{called('mbr')} needs several candidates: give {called('beam')} of at least 2, got 1.")
    return settings


def recorded(options: TranslateOptions, *, scoring: bool = False) -> dict[str, Any]:
    """Option -> value, for the options that an output depends on.

    Args:
        scoring: given targets are scored, so only some options have an effect.
    """
    values = options.model_dump()
    if values["copy_unknown"] is None:
        values["copy_unknown"] = "auto"
    fields = option_fields(type(options))
    without = {field.name for field in fields if not field.option.is_recorded}
    if scoring:
        without |= {field.name for field in fields if not field.option.applies_to_scoring}
        without |= values.keys() - {field.name for field in fields}
    return {name: value for name, value in values.items() if name not in without}


def recorded_words(settings: Mapping[str, Any]) -> list[str]:
    """The words of a command for recorded settings: those that differ from the default, or whose default is the
    model's.

    Args:
        settings: as of :func:`recorded`, with the options of the command beside them.
    """
    from nmt.record import option_words

    usual = {"engine": "torch", "input_format": "lines", "invalid_utf8": "error"}
    names = {field.name for field in option_fields(TranslateOptions)}
    others = {name: value for name, value in settings.items() if name not in names and value != usual.get(name)}
    return [*_words(option_fields(TranslateOptions), settings), *option_words(others)]


def _words(fields: Iterable[OptionField], values: Mapping[str, Any]) -> Iterator[str]:
    for field in fields:
        value = values.get(field.name)
        if value is None or value == "auto" or (value == field.default and field.option.unset is None):
            continue
        if isinstance(value, bool):
            yield field.flag_for(value)
        elif isinstance(value, Mapping):
            yield field.flag
            yield from _words(field.parts, value)
        else:
            yield f"{field.flag}={value}"
