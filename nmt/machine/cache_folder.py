"""Where files are kept that can be made again: downloads, and measurements of the machine."""

from __future__ import annotations

import os
from pathlib import Path


def default_cache() -> Path:
    """The folder if the user names no other: ``$XDG_CACHE_HOME/nmt``, else ``~/.cache/nmt``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "nmt"
