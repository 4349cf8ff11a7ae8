"""The folder that CTranslate2 translates with: exported by the user, or converted once into the cache folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import nmt
from nmt.checkpoint.bundle_files import PARITY_NAME, damaged_file, model_checksums, verify
from nmt.checkpoint.describing import models_to_use
from nmt.convert.certificate.record import Certificate, certificate_from
from nmt.convert.ctranslate2.engine import TOOLKIT, CTranslate2Engine
from nmt.convert.files import read_json
from nmt.errors import CheckpointError, ConfigError
from nmt.io.locking import exclusive
from nmt.io.writing import WriteError, writing
from nmt.machine.cache_folder import default_cache
from nmt.option_fields import Precision

_STORED: dict[str, Precision] = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "int8": "int8"}


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
    if named and (named[0] / "model.bin").is_file():
        raise CheckpointError(
            f"{named[0]}: is a model of CTranslate2 that nmt did not export. Import it (`nmt import`), or name a "
            "run, a bundle, or a folder that `nmt export --to ctranslate2` wrote."
        )
    [bundle], remarks = models_to_use(named)
    return bundle, remarks


def exported_folder(model: Path, report: Callable[[str], None]) -> Path:
    """An intact exported folder of a model. A bundle is converted if the cache folder has no current conversion of it.

    Only what is read is verified: the exported folder, and a bundle when it is converted.

    Args:
        model: as from :func:`model_for_ctranslate2`.
        report: called with a message before a bundle is converted.

    Raises:
        CheckpointError: the folder or the bundle is damaged, or a check of the conversion failed.
        NmtError: CTranslate2 cannot express the model.
        WriteError: the cache folder cannot be written.
    """
    if (certificate := _certificate(model)) is not None:
        if (damage := damaged_file(model, certificate.files, PARITY_NAME)) is not None:
            raise CheckpointError(f"{damage} Export the model again.")
        return model
    try:
        checksums = model_checksums(model)
    except (OSError, ValueError):
        verify(model)  # says what is wrong
        raise
    digest = hashlib.sha256(json.dumps(checksums, sort_keys=True).encode()).hexdigest()
    folder = default_cache() / CTranslate2Engine.name / digest[:16]
    if not _is_current(folder, checksums):
        try:
            _convert(model, folder, checksums, report)
        except WriteError as error:
            then = "Set XDG_CACHE_HOME to another folder, or run `nmt export --to ctranslate2` and give its folder."
            error.advise(then)
            raise
    return folder


def stored_precision(model: Path) -> Precision | None:
    """The precision of the weights in a folder that the user exported; None for a bundle."""
    certificate = _certificate(model)
    return None if certificate is None else _STORED.get(certificate.quantization)


def _convert(model: Path, folder: Path, checksums: dict[str, str], report: Callable[[str], None]) -> None:
    with ExitStack() as stack:
        with writing(folder):
            folder.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(exclusive(folder.with_name(f".{folder.name}.converting")))
        if _is_current(folder, checksums):  # another process was faster
            return
        report(f"converting the model for CTranslate2, once, into {folder}")
        from nmt.convert.converting import export_model

        export_model(model, folder, to=CTranslate2Engine.name)


def _certificate(folder: Path) -> Certificate | None:
    """The certificate of a folder that was exported for CTranslate2; None for other folders."""
    try:
        certificate = certificate_from(read_json(folder / PARITY_NAME))
    except (CheckpointError, ValueError, TypeError, KeyError):
        return None
    is_export = certificate.direction == "export" and certificate.toolkit == TOOLKIT
    return certificate if is_export else None


def _is_current(folder: Path, checksums: dict[str, str]) -> bool:
    """Whether a folder is an intact conversion of a bundle with these checksums by this version of the program."""
    certificate = _certificate(folder)
    if certificate is None or certificate.bundle != checksums or certificate.software.get("nmt") != nmt.__version__:
        return False
    return damaged_file(folder, certificate.files, PARITY_NAME) is None
