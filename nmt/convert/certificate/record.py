"""The certificate as a record: ``parity.json`` beside the model. This module works without torch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from nmt.config.documents import parse_json

PARITY_NAME = "parity.json"


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


def read_certificate(folder: Path) -> Certificate | None:
    """The certificate of a model's folder; None if there is none, or it is damaged."""
    try:
        return certificate_from(parse_json((folder / PARITY_NAME).read_bytes()))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
