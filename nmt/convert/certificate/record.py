"""The certificate as a record: ``parity.json`` beside the model. This module works without torch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nmt.convert.foreign import Array


@dataclass(frozen=True)
class Check:
    """One comparison of two models."""

    name: str
    passed: bool
    detail: str
    """What was compared, and the result, as a sentence."""
    oracle: str = ""
    """What the model was compared with."""
    figure: float | None = None
    """The largest difference, or the number of cases that differ."""
    limit: float | None = None
    """The largest figure that passes."""


@dataclass(frozen=True)
class Certificate:
    """All comparisons of one conversion."""

    direction: str
    """``import`` or ``export``."""
    toolkit: str
    version: str | None
    """Of the toolkit that wrote the model, if its files tell."""
    software: Mapping[str, str]
    """Package -> version of everything that took part."""
    files: Mapping[str, str]
    """File of the other toolkit's model -> sha256."""
    tensors: Mapping[str, Mapping[str, Any]]
    """Tensor by the other toolkit's name -> shape and sha256."""
    checks: Sequence[Check] = ()
    remarks: Sequence[str] = field(default_factory=tuple)
    """Known differences between the toolkits that the conversion cannot remove."""
    quantization: str = ""
    """The type of the stored weights of an exported model."""
    bundle: Mapping[str, str] = field(default_factory=dict)
    """File of our bundle -> sha256. A certificate is one of these files only."""

    @property
    def failed(self) -> list[Check]:
        """The checks that failed."""
        return [check for check in self.checks if not check.passed]

    def as_json(self) -> bytes:
        """The content of ``parity.json``."""
        return (json.dumps({"parity": asdict(self)}, indent=2, ensure_ascii=False) + "\n").encode()


def certificate_from(values: Mapping[str, Any]) -> Certificate:
    """A certificate from its JSON values.

    Raises:
        TypeError, KeyError: the values are not those of a certificate.
    """
    parity = dict(values["parity"])
    checks = [Check(**check) for check in parity.pop("checks")]
    return Certificate(**parity, checks=checks)


def tensor_record(tensors: Mapping[str, Array]) -> dict[str, dict[str, Any]]:
    """Name -> shape and sha256 of each tensor."""
    return {
        name: {"shape": list(array.shape), "sha256": hashlib.sha256(array.tobytes()).hexdigest()}
        for name, array in sorted(tensors.items())
    }
