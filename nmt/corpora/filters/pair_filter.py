"""What a filter of pairs is."""

from __future__ import annotations

from collections.abc import Callable

Pair = tuple[str, str]
Finder = Callable[[Pair], bool]
"""Whether a filter drops a pair of source and target."""
