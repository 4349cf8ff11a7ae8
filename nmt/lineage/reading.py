"""The lineage of anything that nmt wrote, found by what lies at a path."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from nmt.checkpoint.bundle_files import ORIGIN_NAME, BundleFolder, is_bundle
from nmt.checkpoint.fitting import weight_shapes
from nmt.checkpoint.kinds import read_json
from nmt.checkpoint.lineage import bundle_record
from nmt.checkpoint.run_folder import best_checkpoint, bundle_to_use, is_run, models_inside, similar, validation_score
from nmt.data.data_folder import DataFolder
from nmt.data.lineage import encoded_record
from nmt.data.manifest import data_sets_below, read_manifest
from nmt.errors import CheckpointError, DataError
from nmt.io.files import record_name
from nmt.lineage.comparing import Lineage, lineage_of
from nmt.lineage.scores import is_score, score_facts
from nmt.record import Fact, parse_record, recorded_output
from nmt.text.printable import listed


def read_lineage(path: Path) -> Lineage:
    """What lies at a path, and all that it was made from.

    Args:
        path: the JSON of a score, a translation, a run, a bundle, an exported model, a file of these two, a data set
            or its vocabulary.

    Raises:
        DataError: there is nothing, or nothing that nmt wrote; or a record is damaged.
    """
    try:
        return _read(path)
    except (
        AttributeError, LookupError, TypeError, ValueError, OverflowError, RecursionError, ValidationError,
    ) as error:  # fmt: skip
        raise DataError(f"{path}: its lineage is damaged ({type(error).__name__}: {error}).") from None


def _read(path: Path) -> Lineage:
    if not path.exists():
        raise DataError(f"{path}: there is no such file or folder{similar(path)}.")
    folder = path if path.is_dir() else path.parent
    if path.is_file() and record_name(path).is_file():
        return _translation(path)
    if (
        path in (folder, DataFolder(folder).vocab, DataFolder(folder).manifest)
        and DataFolder(folder).manifest.is_file()
    ):
        return _data_set(folder)
    if _is_exported(path, folder):  # before bundles: both may hold model.safetensors
        return _exported(folder)
    if is_bundle(folder):
        return _bundle(folder)
    if path.is_dir() and is_run(path):
        return _run(path)
    if path.is_file() and is_score(values := read_json(path)):
        record = parse_record(values["lineage"], str(path))
        return replace(lineage_of(record.as_found(path)), further=score_facts(values))
    others = (
        "Name the JSON of a score, an output file of nmt translate with its record (.NAME.nmt.json) beside it, a run, "
        "a bundle, an exported model, or a data set."
    )
    inside = data_sets_below(path)
    instead = f"Name one that it holds: {listed(inside)}." if inside else path.is_dir() and models_inside(path)
    raise DataError(f"{path}: has no lineage. {instead or others}")


def _translation(path: Path) -> Lineage:
    record = recorded_output(path)
    if record is None:
        raise DataError(f"{path}: its record {record_name(path)} is damaged: it is no record with a sha256.")
    return lineage_of(record.as_found(path))


def _data_set(folder: Path) -> Lineage:
    with suppress(DataError):
        return lineage_of(encoded_record(folder))
    return lineage_of(read_manifest(folder).record(folder))  # it has no vocabulary yet


def _bundle(folder: Path) -> Lineage:
    """A bundle on disk. It is compared with its own checksums, and with its certificate if it was imported."""
    files, record = BundleFolder(folder), bundle_record(folder).as_found(folder)
    checksums = read_json(files.checksums)
    is_known = isinstance(checksums, dict)
    compared = {str(name): str(sha256) for name, sha256 in checksums.items()} if is_known else {}
    lineage = lineage_of(record.model_copy(update={"files": compared}))
    further: dict[str, Fact] = {**_figures(folder)}
    if not is_known:
        further["checksums"] = f"{files.checksums} is missing or damaged, so its files cannot be checked"
    certificate = _certificate(folder)
    certified = certificate.get("bundle") or {}
    if certificate and any(certified.get(path.name) != record.files[path.name] for path in files.model):
        further["compared"] = f"{files.certificate} is not the certificate of these files"
        of_certificate = {path.name: str(certified.get(path.name, "none")) for path in files.model}
        other = lineage_of(record.model_copy(update={"files": of_certificate}))
        lineage = replace(lineage, state=other.state, change=lineage.change or other.change)
    else:
        further |= _comparison(certificate)
    return replace(lineage, further=further)


def _run(run: Path) -> Lineage:
    """The bundle of a run that is used, with the score of the run's best checkpoint."""
    lineage, best = _bundle(bundle_to_use(run)), best_checkpoint(run)
    score = None if best is None else validation_score(best)
    if best is None or score is None:
        return lineage
    return replace(lineage, further={"best checkpoint": f"{best.name}, {score}", **lineage.further})


def _figures(folder: Path) -> dict[str, Fact]:
    """How good and how large the model of a bundle is; what its files do not say is left out."""
    figures: dict[str, Fact] = {}
    if (score := validation_score(folder)) is not None:
        figures |= {"validation loss": score.loss} if score.bleu is None else {"validation BLEU": score.bleu}
    weights = BundleFolder(folder).weights
    with suppress(CheckpointError):  # damaged: the checksums say so
        figures["parameters"] = sum(math.prod(shape) for shape in weight_shapes(weights).values())
        figures["bytes of the weights"] = weights.stat().st_size
    return figures


def _certificate(folder: Path) -> Mapping[str, Any]:
    """The certificate in a folder; empty if there is none."""
    match read_json(BundleFolder(folder).certificate):
        case {"parity": dict(parity)}:
            return parity
    return {}


def _comparison(certificate: Mapping[str, Any]) -> dict[str, Fact]:
    checks: Sequence[Mapping[str, Any]] = certificate.get("checks") or []
    if not checks:
        return {}
    passed = sum(check.get("passed") is True for check in checks)
    oracles = "; ".join(dict.fromkeys(str(check.get("oracle")) for check in checks))
    software = ", ".join(f"{name} {version}" for name, version in certificate["software"].items())
    return {"compared": f"{passed} of {len(checks)} checks passed, with {oracles}", "compared by": software}


def _is_exported(path: Path, folder: Path) -> bool:
    """Whether ``nmt export`` wrote a folder, or the file in it; others may lie there too."""
    certificate = _certificate(folder)
    names = {BundleFolder(folder).certificate.name, ORIGIN_NAME, *(certificate.get("files") or {})}
    return certificate.get("direction") == "export" and (path == folder or path.name in names)


def _exported(folder: Path) -> Lineage:
    origin, certificate = folder / ORIGIN_NAME, _certificate(folder)
    if not isinstance(read_json(origin), dict):
        raise DataError(f"{origin}: is missing or damaged, so the exported bundle is not known.")
    record = bundle_record(folder)
    further: dict[str, Fact] = {"format": str(certificate.get("toolkit")), **_comparison(certificate)}
    return replace(lineage_of(record.as_found(folder)), further=further)
