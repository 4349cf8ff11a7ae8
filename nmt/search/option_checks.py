"""Checks of single options, for errors that name the option."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real

from nmt.errors import ConfigError

_CALLED: dict[type, str] = {Integral: "a whole number", Real: "a number"}


def check_kind(name: str, value: object, kind: type, called: str | None = None) -> None:
    """Refuse a value of another type.

    Args:
        called: what is expected, for people, where it is no number.

    Raises:
        ConfigError: names the option.
    """
    if isinstance(value, bool) or not isinstance(value, kind):
        raise ConfigError(f"{name} is {value!r}: give {called or _CALLED[kind]}.")


def check_count(name: str, value: int, *, most: int | None = None) -> None:
    """Refuse what is no whole number from 1.

    Args:
        most: the maximum, if there is one.

    Raises:
        ConfigError: names the option and the limit.
    """
    check_kind(name, value, Integral)
    if value < 1:
        raise ConfigError(f"{name} is {value}: give at least 1.")
    if most is not None and value > most:
        raise ConfigError(f"{name} is {value:,}: give at most {most:,}.")


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Refuse what is none of some names.

    Raises:
        ConfigError: names the option and the choices.
    """
    if value not in choices:
        raise ConfigError(f"{name} is {value!r}: give one of {', '.join(choices)}.")
