"""The folder that CTranslate2 translates with: exported by the user, or converted once into the cache folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import nmt
from nmt.cache_folder import default_cache
from nmt.checkpoint.bundle_files import PARITY_NAME, model_checksums
from nmt.checkpoint.describing import models_to_use
from nmt.config.documents import parse_json
from nmt.convert.certificate.record import Certificate, certificate_from
from nmt.convert.ctranslate2.engine import TOOLKIT, CTranslate2Engine
from nmt.errors import CheckpointError, ConfigError
from nmt.hashing import sha256_of


def model_for_ctranslate2(named: Sequence[Path]) -> tuple[Path, list[str]]:
    """The exported folder that the user named, else the bundle that our own engine would use, with remarks.

    Raises:
        ConfigError: several models are named.
        CheckpointError: as :func:`~nmt.checkpoint.describing.models_to_use`.
    """
    if len(named) > 1:
        raise ConfigError(
            f"CTranslate2 has no ensembles, and {len(named)} models were given: give one, or use the engine torch."
        )
    if named and _certificate(named[0]) is not None:
        return named[0], []
    [bundle], remarks = models_to_use(named)
    return bundle, remarks


def exported_folder(model: Path, report: Callable[[str], None]) -> Path:
    """An intact exported folder of a model. A bundle is converted if the cache folder has no current conversion of it.

    Args:
        model: as from :func:`model_for_ctranslate2`.
        report: called with a message before a bundle is converted.

    Raises:
        CheckpointError: the folder or the bundle is damaged, or a check of the conversion failed.
        NmtError: CTranslate2 is not installed, or cannot express the model.
        WriteError: the cache folder cannot be written.
    """
    if (certificate := _certificate(model)) is not None:
        if (damage := _damage(model, certificate)) is not None:
            raise CheckpointError(f"{damage} Export the model again.")
        return model
    checksums = model_checksums(model)
    digest = hashlib.sha256(json.dumps(checksums, sort_keys=True).encode()).hexdigest()
    folder = default_cache() / CTranslate2Engine.name / digest[:16]
    converted = _certificate(folder)
    if converted is not None and _is_current(converted, checksums) and _damage(folder, converted) is None:
        return folder
    report(f"converting the model for CTranslate2, once, into {folder}")
    from nmt.convert.exporting import export_model

    export_model(model, folder, to=CTranslate2Engine.name)
    return folder


def _certificate(folder: Path) -> Certificate | None:
    """The certificate of a folder that was exported for CTranslate2; None for other folders."""
    try:
        certificate = certificate_from(parse_json((folder / PARITY_NAME).read_bytes()))
    except (OSError, ValueError, TypeError, KeyError):
        return None
    is_export = certificate.direction == "export" and certificate.toolkit == TOOLKIT
    return certificate if is_export else None


def _is_current(certificate: Certificate, checksums: dict[str, str]) -> bool:
    """Whether a conversion was made from a bundle with these checksums, by this version of the program."""
    return certificate.bundle == checksums and certificate.software.get("nmt") == nmt.__version__


def _damage(folder: Path, certificate: Certificate) -> str | None:
    """A message that names the first missing or damaged file; None if the folder is intact."""
    for name, expected in certificate.files.items():
        try:
            found = sha256_of(folder / name)
        except OSError as error:
            return f"{folder / name}: cannot be read ({error.strerror})."
        if found != expected:
            return f"{folder / name} is damaged: its sha256 differs from the one in {PARITY_NAME}."
    return None
