"""What the programs share that build a model by a toolkit's own code.

They run in a process of their own, where the toolkit's packages lie on the path. Nothing here needs nmt.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import torch

D_MODEL, D_FF, HEADS = 16, 24, 2
ENCODER_LAYERS, DECODER_LAYERS = 2, 1
WORDS = ("the", "boat", "leaves", "at", "noon", "nobody", "heard", "bell", "two", "small", "lamps", "œuf", "x@@", "y")
SOURCE_WORDS, TARGET_WORDS = WORDS, WORDS[::-1]
CASES = (
    ("the boat leaves at noon", "noon at leaves boat the"),
    ("nobody heard the bell", "bell"),
    ("two small lamps œuf x@@ y", "y x@@ œuf œuf small two two the"),
    ("noon", "nobody heard heard the small boat at noon the bell"),
)
Score = Callable[[list[str], list[str]], Sequence[float]]


class _Absent(ModuleType):
    """A package that is not installed. Every name in it is a mock."""

    __path__ = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return MagicMock(name=f"{self.__name__}.{name}")


class _Absentees:
    """Finds the modules of packages that are not installed."""

    def __init__(self, packages: Sequence[str]) -> None:
        self._packages = packages

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if name.partition(".")[0] in self._packages else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Absent(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


def without(*packages: str) -> None:
    """Let a toolkit be imported without these packages, which it does not use for what is done here."""
    sys.meta_path.append(_Absentees(packages))  # type: ignore[arg-type]


def randomise(parameters: Iterator[torch.nn.Parameter]) -> None:
    """Add noise to all parameters, so that biases are not zeros and norms not ones."""
    with torch.no_grad():
        for parameter in parameters:
            parameter.add_(0.2 * torch.randn_like(parameter))


def write_models(variants: Mapping[str, Any], build: Callable[[Path, Any], Score], *, within: str = "") -> None:
    """Write models below the folder that the command line names, and beside each what the toolkit computes.

    ``oracle.json`` holds the toolkit's log-probability of each target piece and of the end.

    Args:
        variants: name -> options of a model.
        build: saves the model with some options in a folder; returns what scores the pieces of a target.
        within: where in the folder the model is.
    """
    for name, options in variants.items():
        folder = Path(sys.argv[1]) / name
        folder.mkdir(parents=True)
        torch.manual_seed(1)
        score, cases = build(folder, options), []
        for source, target in CASES:
            pieces = source.split(), target.split()
            with torch.no_grad():
                cases.append({"source": pieces[0], "target": pieces[1], "scores": list(map(float, score(*pieces)))})
        (folder / within / "oracle.json").write_text(json.dumps(cases, ensure_ascii=False), encoding="utf-8")


def scores_of(log_probabilities_TV: torch.Tensor, ids: Sequence[int]) -> list[float]:
    """The log-probability of each id, one per row."""
    assert len(log_probabilities_TV) == len(ids)
    found: list[float] = log_probabilities_TV.double().gather(1, torch.tensor(ids)[:, None])[:, 0].tolist()
    return found
