"""The table of filters: the fields of :class:`Filters`, in the order in which they are applied.

A filter looks at a line or a pair alone, in the processes that clean; or it looks for a form of a pair among those of
all pairs before it, or compares a pair with valid and test, in the main process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationError, field_validator

from nmt.config import Section, did_you_mean, mistakes
from nmt.config.documents import DocumentError, parse_yaml
from nmt.corpora import pair_filters, wrong_language
from nmt.corpora.chunks import EvaluationSentences, Mask, PairChunk
from nmt.corpora.formats import Pair
from nmt.corpora.hashes import contains
from nmt.corpora.pair_filters import LinePredicate, PairPredicate
from nmt.errors import ConfigError

KEPT = "_kept"
"""Ending of the name of a count of pairs that a filter counts but does not drop."""


@dataclass(frozen=True)
class Filter:
    """A filter of training pairs. One of its last four fields says what it finds."""

    name: str
    """The name of its count in the manifest."""
    usual: Any = True
    """The setting of a filter that is turned on by its name alone; None if there is none."""
    is_late: bool = False
    """Whether it is applied after repetitions and leaks are dropped, so that it counts what is left."""
    line: Callable[[Any, str], LinePredicate] | None = None
    """From its setting and a language: whether it finds a line of that side."""
    pair: Callable[[Any], PairPredicate] | None = None
    """From its setting: whether it finds a pair."""
    form: Callable[[Pair], str] | None = None
    """The form in which a repetition is equal to an earlier pair."""
    chunk: Callable[[PairChunk, EvaluationSentences], Mask] | None = None
    """Which pairs it finds, given valid and test."""

    def predicate(self, value: Any, languages: tuple[str, str]) -> PairPredicate | None:
        """Whether it finds a pair, for those that need nothing else; None for the others.

        Args:
            value: its setting.
            languages: the codes of source and target.
        """
        if self.line is None:
            return self.pair and self.pair(value)
        source_finds, target_finds = (self.line(value, language) for language in languages)
        return lambda pair: source_finds(pair[0]) or target_finds(pair[1])


def _line(finds: LinePredicate) -> Callable[[Any, str], LinePredicate]:
    """A filter of lines that is the same for all settings and languages."""
    return lambda value, language: finds


def _leaked(chunk: PairChunk, evaluation: EvaluationSentences) -> Mask:
    sources, targets = chunk.values["source"], chunk.values["target"]
    return contains(evaluation.sources, sources) | contains(evaluation.targets, targets)


def _held_out(chunk: PairChunk, evaluation: EvaluationSentences) -> Mask:
    sources = chunk.values["source"]
    return contains(evaluation.held_out, chunk.values["pair"]) | contains(evaluation.held_out_sources, sources)


class Filters(Section):
    """Which training pairs are dropped. A field is a filter; valid and test are never filtered."""

    min_score: Annotated[float | None, Filter("score", usual=None)] = Field(
        None, allow_inf_nan=False, description="minimum score of a pair, where its file has scores"
    )
    invalid_utf8: Annotated[
        Literal["error", "drop"],
        Filter("invalid_utf8", "drop", line=_line(pair_filters.has_replacement_character)),
    ] = Field("error", description="what to do with text that is not UTF-8")
    empty: ClassVar[Filter] = Filter("empty", line=_line(pair_filters.is_blank))
    max_words: Annotated[int | None, Filter("too_long", 250, line=pair_filters.too_long)] = Field(
        250, ge=1, description="words per side; in scripts without spaces, some characters count as one word"
    )
    max_ratio: Annotated[float | None, Filter("ratio", 4.0, pair=pair_filters.lengths_differ)] = Field(
        4.0, ge=1, description="words of the longer side over those of the shorter"
    )
    control: Annotated[bool, Filter("control", line=_line(pair_filters.has_control_characters))] = Field(
        False, description="pairs with control characters"
    )
    html: Annotated[bool, Filter("html", line=_line(pair_filters.has_markup))] = Field(
        False, description="pairs with tags or entities of HTML or XML"
    )
    long_words: Annotated[int | None, Filter("long_words", 40, line=pair_filters.long_words)] = Field(
        None, ge=1, description="characters of the longest word"
    )
    letters: Annotated[float | None, Filter("letters", 0.5, line=pair_filters.few_letters)] = Field(
        None, gt=0, le=1, description="minimum share of letters in each side"
    )
    script: Annotated[bool, Filter("script", line=wrong_language.other_script)] = Field(
        False, description="pairs with a side in a script that its language does not use"
    )
    # Of Multi30k, the identifier takes no sentence, nor its first words, for another language with a probability of
    # 0.8, and 99 % of the German sentences for German.
    language_id: Annotated[float | None, Filter("language_id", 0.8, line=wrong_language.other_language)] = Field(
        None, gt=0, le=1, description="pairs with a side in another language, with at least this probability"
    )
    numbers: Annotated[bool, Filter("numbers", pair=lambda value: pair_filters.numbers_differ)] = Field(
        False, description="pairs whose sides have different numbers"
    )
    urls: Annotated[bool, Filter("urls", pair=lambda value: pair_filters.web_addresses_differ)] = Field(
        False, description="pairs whose sides have different URLs or e-mail addresses"
    )
    dedup: Annotated[bool, Filter("duplicate", form=pair_filters.exactly)] = Field(
        True, description="exact repetitions of a pair"
    )
    near_duplicates: Annotated[bool, Filter("near_duplicates", form=pair_filters.nearly)] = Field(
        False, description="pairs that differ from an earlier one only in case, punctuation, digits or white space"
    )
    held_out: ClassVar[Filter] = Filter("held_out", chunk=_held_out)
    leakage: Annotated[Literal["drop", "near", "count"], Filter("leaked", "drop", chunk=_leaked)] = Field(
        "drop", description="pairs with a side that is also in valid or test; near: up to case, punctuation and digits"
    )
    copied: Annotated[Literal["drop", "count"], Filter("copied", "drop", is_late=True)] = Field(
        "count", description="pairs whose source equals their target"
    )
    invisible: Annotated[
        Literal["drop", "count"], Filter("invisible", "drop", is_late=True, line=pair_filters.invisible_characters)
    ] = Field("count", description="pairs with NUL or zero-width characters")
    repair_encoding: Annotated[bool, Filter("repaired", is_late=True)] = Field(
        False, description="repair UTF-8 that was read as Latin-1 or Windows-1252; such pairs are counted"
    )
    count_only: tuple[str, ...] = Field((), description="the filters that count pairs but keep them")

    @field_validator("count_only", mode="before")
    @classmethod
    def _split(cls, names: Any) -> Any:
        """On the command line, names stand between commas, and may have hyphens."""
        names = names.replace("-", "_").split(",") if isinstance(names, str) else names
        for name in names if isinstance(names, list | tuple) else ():
            if name not in SETTINGS:
                raise ValueError(f"unknown filter {name!r}{did_you_mean(str(name), SETTINGS)}")
        return names


def _table() -> dict[str, Filter]:
    fields = Filters.model_fields
    found = [
        (name, known)
        for name in Filters.__annotations__
        for known in (fields[name].metadata if name in fields else [getattr(Filters, name)])
    ]
    return {name: known for name, known in found if isinstance(known, Filter)}


FILTERS = _table()
"""All filters by the field of :class:`Filters` that sets them, in the order in which they are applied."""
SETTINGS = [name for name in FILTERS if name in Filters.model_fields]
"""The filters that a user can set."""


@dataclass(frozen=True)
class ChosenFilter:
    """A filter that is on."""

    filter: Filter
    value: Any
    """Its setting."""
    drops: bool
    """Whether it drops what it finds; otherwise it only counts."""

    @property
    def count(self) -> str:
        """The name of its count."""
        return self.filter.name if self.drops else f"{self.filter.name}{KEPT}"


def chosen_filters(filters: Filters) -> list[ChosenFilter]:
    """The filters that are on, in the order in which they are applied."""
    chosen = []
    for setting, each in FILTERS.items():
        value = getattr(filters, setting)
        if value is not None and value is not False and value != "error":
            counts = value == "count" or setting in (*filters.count_only, "repair_encoding")
            chosen.append(ChosenFilter(each, value, drops=not counts))
    return chosen


def filter_changes(given: Iterable[str]) -> dict[str, Any]:
    """The settings that the words of ``--filter``, ``NAME`` or ``NAME=VALUE``, stand for. A name may have hyphens.

    Raises:
        ConfigError: a filter is unknown, is given twice, needs a value, or has one that is invalid.
    """
    changes: dict[str, Any] = {}
    for words in given:
        name, equals, value = words.partition("=")
        name = name.replace("-", "_")
        if name not in Filters.model_fields:
            raise ConfigError(
                f"--filter {words}: unknown filter {name!r}{did_you_mean(name, Filters.model_fields)}; "
                f"filters: {', '.join(Filters.model_fields)}."
            )
        if name in changes:
            raise ConfigError(f"--filter {words}: the filter {name} is given twice. Give it once.")
        usual = FILTERS[name].usual if name in FILTERS else None
        if usual is None and not equals:
            raise ConfigError(f"--filter {words}: needs a value, as in --filter {name}=VALUE.")
        changes[name] = _valid(name, value, words) if equals else usual
    return changes


def _valid(name: str, value: str, words: str) -> Any:
    """The value of a filter, written as in YAML."""
    if not value:
        raise ConfigError(f"--filter {words}: the value is missing. Give one, or null for none.")
    try:
        changes = {name: parse_yaml(value)}
        Filters.model_validate(changes)
    except DocumentError as error:
        raise ConfigError(f"--filter {words}: {error}") from None
    except ValidationError as error:
        raise ConfigError("\n".join(mistakes(error.errors(), Filters, lambda _: f"--filter {words}"))) from None
    return changes[name]
