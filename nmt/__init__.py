"""nmt: neural machine translation from raw text to BLEU, true to "Attention Is All You Need"."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nmt.api.adapting import Adapted, adapt
    from nmt.api.comparing import Compared, compare
    from nmt.api.data import PreparedData, build_vocab, prepare_data
    from nmt.api.files import WrittenFile, score_target, translate_file
    from nmt.api.model import Model, load
    from nmt.api.scoring import Scored, score
    from nmt.api.serving import serve
    from nmt.api.synthesizing import synthesize
    from nmt.api.training import Averaged, Training, average_checkpoints, train
    from nmt.data.build import BuiltVocabulary
    from nmt.errors import NmtError, NmtWarning
    from nmt.reporting import Reporter
    from nmt.search.settings import Sampling
    from nmt.training.listener import Listener
    from nmt.translation.guard import Finding
    from nmt.translation.results import TranslatedText, Translation
    from nmt.translation.target_scorer import ScoredTarget

__version__ = "0.1.0"

__all__ = [
    "Adapted", "Averaged", "BuiltVocabulary", "Compared", "Finding", "Listener", "Model", "NmtError", "NmtWarning",
    "PreparedData", "Reporter", "Sampling", "Scored", "ScoredTarget", "Training", "TranslatedText", "Translation",
    "WrittenFile", "adapt", "average_checkpoints", "build_vocab", "compare", "load", "prepare_data", "score",
    "score_target", "serve", "synthesize", "train", "translate_file",
]  # fmt: skip

_MODULES = {
    "nmt.api.adapting": "Adapted adapt",
    "nmt.api.comparing": "Compared compare",
    "nmt.api.data": "PreparedData build_vocab prepare_data",
    "nmt.api.files": "WrittenFile score_target translate_file",
    "nmt.api.model": "Model load",
    "nmt.api.scoring": "Scored score",
    "nmt.api.serving": "serve",
    "nmt.api.synthesizing": "synthesize",
    "nmt.api.training": "Averaged Training average_checkpoints train",
    "nmt.data.build": "BuiltVocabulary",
    "nmt.errors": "NmtError NmtWarning",
    "nmt.reporting": "Reporter",
    "nmt.search.settings": "Sampling",
    "nmt.training.listener": "Listener",
    "nmt.translation.guard": "Finding",
    "nmt.translation.results": "TranslatedText Translation",
    "nmt.translation.target_scorer": "ScoredTarget",
}
"""Where the public names stand."""


_HINTS = {
    "translate": "nmt.load(RUN).translate(lines) translates lines, and nmt.translate_file a file",
    "evaluate": "nmt.score scores translations",
}


def __getattr__(name: str) -> Any:
    """Import a name on first use, so that ``nmt --help`` need not import torch."""
    for module, names in _MODULES.items():
        if name in names.split():
            return getattr(importlib.import_module(module), name)
    hint = _HINTS.get(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}" + (f": {hint}" if hint else ""))


def __dir__() -> list[str]:
    return [*globals(), *__all__]
