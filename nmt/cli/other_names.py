"""An unknown command or option is answered with ours, by a table of the names of other toolkits: that of docs/faq.md in
short, with nmt/config/other_names.yaml."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources

_FEW = 3
"""An option of more commands says nothing about what was meant."""


@cache
def other_names() -> dict[str, dict[str, str]]:
    """Names and what to type in their place: those of options by command, and those of ``commands``."""
    from nmt.config.documents import parse_yaml

    table = parse_yaml((resources.files("nmt.cli") / "other_names.yaml").read_text("utf-8"))
    return {"commands": table["commands"], **table["options"]}


def advice(
    typed: str, known: Iterable[str], command: str | None = None, elsewhere: Mapping[str, Iterable[str]] | None = None
) -> str:
    """What to type in place of an unknown name; empty if nothing is near.

    Args:
        typed: the name of a command, or of an option: ``--lr``.
        known: the names of that kind that exist.
        command: the command that the option was typed for; None for the name of a command.
        elsewhere: the options of each command.
    """
    typed, known = typed.lower().replace("_", "-"), list(known)
    if typed in known:
        return f"Did you mean {typed}?"
    for names, ours in other_names().get(command or "commands", {}).items():
        if typed.lstrip("-") in names.split():
            return ours if ours[0].isupper() else f"Use {ours}"
    *of_others, last = [f"nmt {name}" for name, options in (elsewhere or {}).items() if typed in options] or [""]
    if last and len(of_others) < _FEW:
        return f"It is an option of {' and '.join(filter(None, (', '.join(of_others), last)))}"
    if "--set" in known and (meant := _settings(typed.lstrip("-"))):
        return meant
    # Without the hyphens, in which all options are alike.
    names_of_known = {name.lstrip("-"): name for name in known}
    near = difflib.get_close_matches(typed.lstrip("-"), names_of_known, n=1, cutoff=0.7)
    return f"Did you mean {names_of_known[near[0]]}?" if near else ""


def _settings(typed: str) -> str:
    """How to set what an option is called."""
    from nmt.config import Config, settings_called

    found = settings_called(Config, typed)
    notes = "".join(f": {text}" for text in found.values() if text and len(found) == 1)
    return f"Use {' or '.join(f'--set {name}=VALUE' for name in found)}{notes}" if found else ""
