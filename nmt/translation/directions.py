"""The languages of a translation: those that the user names, or else the model's own.

A model for several languages has a piece for each (:class:`nmt.text.steps.Affix`), which the choice adds to the text.
"""

from __future__ import annotations

from collections.abc import Sequence

from nmt.config import DataConfig
from nmt.errors import ConfigError
from nmt.text.languages import fitting
from nmt.text.steps import Choice


def codes_of(data: DataConfig, side: Choice) -> list[str]:
    """The codes of the languages that a model has on a side; none if that is not known."""
    trained = (part.source_lang if side == "source" else part.target_lang for part in data.parts)
    return data.steps.codes(side) or list(dict.fromkeys(filter(None, trained)))


def chosen_languages(data: DataConfig, source: str | None, target: str | None) -> dict[Choice, str]:
    """The codes of both sides, as the model spells them.

    Args:
        data: the model's.
        source, target: what the user names; None for the model's own.

    Raises:
        ConfigError: the model does not have a language, or the name fits several.
    """
    given: tuple[tuple[Choice, str | None], ...] = (("source", source), ("target", target))
    return {side: _chosen(data, side, wanted, f"--{side}-lang") for side, wanted in given}


def _chosen(data: DataConfig, side: Choice, wanted: str | None, option: str) -> str:
    known, own = codes_of(data, side), data.languages[side]
    code = own if wanted is None else wanted
    if not known or code in known:
        return code
    found = fitting(known, code)
    if len(found) == 1:
        return found[0]
    if wanted is None and not _is_needed(data, side):
        return own
    if not code:
        if len(known) == 1:
            return known[0]
        raise ConfigError(f"{option}: the model has several languages, so name one of {_listed(known)}.")
    given = f"{option} {code}{' (the default)' * (wanted is None)}"
    if found:
        raise ConfigError(f"{given}: fits several languages of the model. Name one of {_listed(found)}.")
    raise ConfigError(f"{given}: the model has no such language. It has {_listed(known)}.")


def _is_needed(data: DataConfig, side: Choice) -> bool:
    """Whether a line cannot name the language itself, as it does by a tag."""
    return any(step.is_silent for step in data.steps.affixes(side))


def _listed(codes: Sequence[str]) -> str:
    return ", ".join(codes)
