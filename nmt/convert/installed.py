"""The packages of other toolkits: whether one is installed and new enough, and what users are told if it is not."""

from __future__ import annotations

import re
from importlib import metadata

_VERSION = re.compile(r"(\d+)\.(\d+)")
_OLDEST = {"transformers": (5, 3)}
"""Package -> the first version that is used. Older transformers run code from a model's settings (CVE-2026-4372)."""


def check_installed(package: str) -> None:
    """Check that a package is installed and new enough.

    Raises:
        ImportError: it is not. The message says which, as the beginning of a sentence.
    """
    try:
        version = metadata.version(package)
    except metadata.PackageNotFoundError:
        raise ImportError(f"The package {package} is not installed") from None
    oldest = _OLDEST.get(package, (0, 0))
    found = _VERSION.match(version)
    if found is not None and (int(found[1]), int(found[2])) < oldest:
        needed = ".".join(map(str, oldest))
        raise ImportError(f"{package} {version} is installed, but {needed} or newer is needed")


def not_usable(package: str, error: ImportError | None = None) -> str:
    """The remark that a package took no part in a comparison.

    Args:
        error: the one that it was imported with; None if it is not known.
    """
    try:
        check_installed(package)
    except ImportError as reason:
        return f"{reason}: the model was not compared with it."
    because = f" ({error})" if error is not None else ""
    return f"The package {package} cannot be used for this model{because}: the model was not compared with it."
