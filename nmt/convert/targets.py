"""The formats that models can be exported to."""

from __future__ import annotations

from nmt.convert.argos.package import ARGOS
from nmt.convert.ctranslate2.target import CTRANSLATE2
from nmt.convert.huggingface.target import HUGGINGFACE
from nmt.convert.marian.writing import MARIAN
from nmt.convert.onnx.target import ONNX
from nmt.convert.target import Target
from nmt.errors import ConfigError

TARGETS: tuple[Target, ...] = (MARIAN, CTRANSLATE2, HUGGINGFACE, ONNX, ARGOS)


def find_target(name: str) -> Target:
    """The format of a name.

    Raises:
        ConfigError: there is none.
    """
    for target in TARGETS:
        if target.name == name.lower():
            return target
    raise ConfigError(f"--to {name}: models can be exported to {', '.join(target.name for target in TARGETS)}.")
