"""nmt: neural machine translation from raw text to BLEU, true to "Attention Is All You Need"."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nmt.api import Model, load
    from nmt.errors import NmtError
    from nmt.search.settings import Sampling
    from nmt.translation.guard import Finding
    from nmt.translation.results import TranslatedText, Translation
    from nmt.translation.target_scorer import ScoredTarget

__version__ = "0.1.0"

__all__ = ["Finding", "Model", "NmtError", "Sampling", "ScoredTarget", "TranslatedText", "Translation", "load"]

_MODULES = {
    "load": "nmt.api",
    "Model": "nmt.api",
    "Translation": "nmt.translation.results",
    "TranslatedText": "nmt.translation.results",
    "Finding": "nmt.translation.guard",
    "Sampling": "nmt.search.settings",
    "ScoredTarget": "nmt.translation.target_scorer",
    "NmtError": "nmt.errors",
}


def __getattr__(name: str) -> Any:
    """Import a name on first use, so that ``nmt --help`` need not import torch."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
