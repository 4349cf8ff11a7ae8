"""What a user may ask of the search, checked and put with what the model brings along."""

from __future__ import annotations

from typing import Literal, TypedDict, Unpack

from nmt.config import DecodingConfig
from nmt.decoding.extensions import Sampling
from nmt.decoding.search import SearchSettings
from nmt.errors import ConfigError


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


def search_settings(decoding: DecodingConfig, **options: Unpack[SearchOptions]) -> SearchSettings:
    """The settings of a search.

    Args:
        decoding: the model's own.

    Raises:
        ConfigError: an option is out of its range, or the beam narrower than ``nbest``.
    """
    given = {name: value for name, value in options.items() if value is not None}
    settings = SearchSettings(**(decoding.model_dump() | given))
    if settings.nbest > settings.beam:
        raise ConfigError(
            f"{settings.nbest} translations of a line need a beam of at least {settings.nbest}, not {settings.beam}."
        )
    for name, least in (("beam", 1), ("nbest", 1), ("min_length", 0), ("no_repeat_ngram", 0)):
        if getattr(settings, name) < least:
            raise ConfigError(f"{name} is {getattr(settings, name)}: give at least {least}.")
    if settings.sampling is not None:
        _check_sampling(settings.sampling)
    return settings


def _check_sampling(sampling: Sampling) -> None:
    if sampling.temperature <= 0:
        raise ConfigError(f"temperature {sampling.temperature:g}: give a number above 0.")
    if sampling.seed < 0:
        raise ConfigError(f"seed {sampling.seed}: give 0 or more.")
    if sampling.top_k is not None and sampling.top_k < 1:
        raise ConfigError(f"top-k {sampling.top_k}: give at least 1 piece to draw from.")
    if sampling.top_p is not None and not 0 < sampling.top_p <= 1:
        raise ConfigError(f"top-p {sampling.top_p:g}: give a probability above 0, and at most 1.")
