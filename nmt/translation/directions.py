"""The languages and the tag of a translation: those that the user names, or else the model's own and no tag.

A model for several languages has a piece for each (:class:`nmt.text.steps.Affix`), which the choice adds to the text.
So it is with the tags of its data sets.
"""

from __future__ import annotations

from typing import Literal

from nmt.config import DataConfig
from nmt.errors import ConfigError
from nmt.text.languages import fitting
from nmt.text.steps import Choice
from nmt.translation.options import TranslateOptions

_Side = Literal["source", "target"]


def codes_of(data: DataConfig, side: _Side) -> list[str]:
    """The codes of the languages that a model has on a side; none if that is not known."""
    trained = (part.source_lang if side == "source" else part.target_lang for part in data.parts)
    return data.steps.codes(side) or list(dict.fromkeys(filter(None, trained)))


def choices(data: DataConfig, options: TranslateOptions) -> dict[Choice, str]:
    """The codes of both sides, as the model spells them, and the tag, which is empty for none.

    A language that is not named is that of the first trained direction with the named one. Both may be named that were
    not trained together.

    Args:
        data: the model's.
        options: what the user names.

    Raises:
        ConfigError: the model does not have a language or the tag, or the name fits several languages.
    """
    named = options.source_lang, options.target_lang
    fit = (each for each in data.directions if all(map(_fits, each, named)))
    own = next(fit, (data.source_lang, data.target_lang))
    return {
        "source": _chosen(data, "source", named[0], own[0]),
        "target": _chosen(data, "target", named[1], own[1]),
        "tag": _tag(data, options.tag or ""),
    }


def _fits(code: str, wanted: str | None) -> bool:
    return wanted is None or bool(fitting([code], wanted))


def _tag(data: DataConfig, wanted: str) -> str:
    known = data.steps.codes("tag")
    if wanted and wanted not in known:
        has = f"its tags are {', '.join(known)}." if known else "it has no tags; leave out --tag."
        raise ConfigError(f"--tag {wanted}: the model does not know this tag: {has}")
    return wanted


def _chosen(data: DataConfig, side: _Side, wanted: str | None, own: str) -> str:
    known, option = codes_of(data, side), f"--{side}-lang"
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
        raise ConfigError(f"{option}: the model has several languages, so name one of {', '.join(known)}.")
    given = f"{option} {code}{' (the default)' * (wanted is None)}"
    if found:
        raise ConfigError(f"{given}: fits several languages of the model. Name one of {', '.join(found)}.")
    raise ConfigError(f"{given}: the model has no such language. It has {', '.join(known)}.")


def _is_needed(data: DataConfig, side: _Side) -> bool:
    """Whether a line cannot name the language itself, as it does by a tag."""
    return any(step.is_silent for step in data.steps.affixes(side))
