"""Completion in the shell: quick, since a person waits at each press of Tab."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from importlib import resources
from typing import Any

from nmt.cli.options import GroupedCommand


def presets(incomplete: str) -> list[str]:
    """The presets whose names begin so."""
    return _names("presets", incomplete)


def built_in_pairs(incomplete: str) -> list[str]:
    """The built-in data sets whose names begin so."""
    return _names("corpora/recipes", incomplete)


def _names(folder: str, incomplete: str) -> list[str]:
    files = [entry.name for entry in resources.files("nmt").joinpath(*folder.split("/")).iterdir()]
    return sorted(
        name.removesuffix(".yaml") for name in files if name.endswith(".yaml") and name.startswith(incomplete)
    )


class QuicklyCompleted(GroupedCommand):
    """A command whose options the shell completes without converting the values that were typed."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Read the words of the command line."""
        with leaving_values(self.get_params(ctx)) if ctx.resilient_parsing else nullcontext():
            return super().parse_args(ctx, args)


@contextmanager
def leaving_values(params: Iterable[Any]) -> Iterator[None]:
    """Read the words before the cursor, but neither convert their values nor act on them.

    Conversion imports pydantic, which takes longer than all else; and ``--version`` before the cursor would print.
    """
    params = list(params)
    for param in params:
        param.process_value = _as_typed
    try:
        yield
    finally:
        for param in params:
            del param.process_value  # which uncovers the method of its class


def _as_typed(ctx: Any, value: Any) -> Any:
    return value
