"""What a user may ask of the search, checked and put with what the model brings along."""

from __future__ import annotations

import difflib
from numbers import Integral, Real
from typing import Any, Literal, TypedDict, Unpack

from nmt.config import DecodingConfig
from nmt.errors import ConfigError
from nmt.search.beam_search import SearchSettings
from nmt.search.extensions import Sampling
from nmt.search.option_checks import check_choice, check_kind

_MOST_DIVERSITY = 1_000
MAX_BEAM = 4_096
"""The maximum beam size, whatever memory there is."""
_MOST = {"length_penalty": 100.0, "max_extra_length": 1_000_000}
"""Powers stay finite, and no model has so many positions."""


_TYPES: dict[str, Any] = {
    "beam": Integral,
    "length_penalty": Real,
    "max_extra_length": Integral,
    "min_length": Integral,
    "nbest": Integral,
    "normalization": ("paper", "length"),
    "no_repeat_ngram": Integral,
    "sampling": Sampling,
    "diverse_groups": Integral,
    "diversity": Real,
}
_SAMPLING = "nmt.Sampling(temperature=…, top_k=…, top_p=…)"


class SearchOptions(TypedDict, total=False):
    """Settings of the search by name. What is left out, or None, is the model's own, or as SearchSettings has it."""

    beam: int | None
    length_penalty: float | None
    max_extra_length: int | None
    min_length: int | None
    nbest: int | None
    normalization: Literal["paper", "length"] | None
    no_repeat_ngram: int | None
    sampling: Sampling | None
    diverse_groups: int | None
    diversity: float | None


def search_settings(decoding: DecodingConfig, **options: Unpack[SearchOptions]) -> SearchSettings:
    """The settings of a search.

    Args:
        decoding: the model's own.

    Raises:
        ConfigError: an option is out of its range, or does not go with the others.
    """
    given = {name: value for name, value in options.items() if value is not None}
    for name, value in given.items():
        _check_type(name, value)
    settings = SearchSettings(**(decoding.model_dump() | given))
    for name, least in (("beam", 1), ("nbest", 1), ("min_length", 0), ("no_repeat_ngram", 0), ("diverse_groups", 1)):
        if getattr(settings, name) < least:
            raise ConfigError(f"{name} is {getattr(settings, name)}: give at least {least}.")
    if settings.beam > MAX_BEAM:
        raise ConfigError(f"beam is {settings.beam:,}: give at most {MAX_BEAM:,}.")
    if settings.nbest > settings.beam:
        raise ConfigError(
            f"{settings.nbest} translations of a line need a beam of at least {settings.nbest}, not {settings.beam}."
        )
    for name in ("length_penalty", "max_extra_length"):
        if not 0 <= getattr(settings, name) <= _MOST[name]:
            raise ConfigError(f"{name} is {getattr(settings, name)}: give a number from 0 to {_MOST[name]:g}.")
    _check_groups(settings, "diversity" in given)
    return settings


def _check_type(name: str, value: object) -> None:
    if name not in _TYPES:
        nearest = difflib.get_close_matches(name, _TYPES, n=1)
        hint = f" (did you mean {nearest[0]!r}?)" if nearest else ""
        raise ConfigError(f"there is no option {name!r}{hint}; search options: {', '.join(_TYPES)}.")
    allowed = _TYPES[name]
    if isinstance(allowed, tuple):
        check_choice(name, value, allowed)
    else:
        check_kind(name, value, allowed, _SAMPLING if allowed is Sampling else None)


def _check_groups(settings: SearchSettings, diversity_given: bool) -> None:
    groups, diversity = settings.diverse_groups, settings.diversity
    if groups == 1:
        if diversity_given:
            raise ConfigError(f"diversity {diversity:g} only goes with diverse groups: give at least 2 of them.")
        return
    if settings.sampling is not None:
        raise ConfigError("diverse groups do not go with sampling, whose outputs differ without them.")
    if settings.beam % groups:
        raise ConfigError(f"{groups} diverse groups need a beam that they divide evenly, not {settings.beam}.")
    # More than this no log-probability outweighs, and sums would lose the digits by which pieces differ.
    if not 0 <= diversity <= _MOST_DIVERSITY:
        raise ConfigError(f"diversity {diversity:g}: give a number from 0 to {_MOST_DIVERSITY}.")
