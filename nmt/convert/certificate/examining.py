"""Compares a converted model with what it was made from, in a fresh process that reads both from disk."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nmt.checkpoint.bundle_files import BundleFolder
from nmt.checkpoint.kinds import read_json
from nmt.convert.certificate.checks import COMPARISONS, cached_steps
from nmt.convert.certificate.our_side import OurSide
from nmt.convert.certificate.probes import Probes, make_probes
from nmt.convert.certificate.quantized import quantized_checks, quantized_remarks
from nmt.convert.certificate.record import Certificate, Check, certificate_from, tensor_record
from nmt.convert.certificate.reference_side import ReferenceSide
from nmt.convert.certificate.side import Side
from nmt.convert.foreign import ForeignModel, Given
from nmt.convert.formats import Format, find_format, find_target
from nmt.convert.installed import not_usable
from nmt.convert.own_bundles import OWN
from nmt.errors import CheckpointError, NmtError
from nmt.io.files import replacing
from nmt.io.hashing import sha256_of

REPORT = "please report this as an error of nmt"


@dataclass(frozen=True)
class ImportJob:
    """Compare a bundle with the model that it was imported from."""

    bundle: Path
    origin: Path
    format: str
    given: Given
    lines: tuple[str, ...] = ()
    """Further lines to compare on."""

    @property
    def converted(self) -> Path:
        """What the user converts."""
        return self.origin


@dataclass(frozen=True)
class ExportJob:
    """Compare an exported folder with its bundle."""

    bundle: Path
    folder: Path
    to: str
    quantization: str
    lines: tuple[str, ...] = ()
    """Further lines to compare on."""

    @property
    def converted(self) -> Path:
        """What the user converts."""
        return self.bundle


def examine(job: ImportJob | ExportJob) -> Certificate:
    """The certificate of a conversion, made by another process.

    Raises:
        NmtError: a file cannot be read, or the process ended.
    """
    child = [sys.executable, "-P", "-c", f"from {__name__} import answer; answer()"]
    process = subprocess.run(child, input=pickle.dumps(job), capture_output=True, check=False)
    messages = process.stderr.decode(errors="replace").strip()
    if os.environ.get("NMT_DEBUG"):
        sys.stderr.write(f"{messages}\n")
    what = f"{job.converted}: the process that compares the models"
    if process.returncode < 0:
        raise NmtError(f"{what} was ended by signal {-process.returncode}; is there enough memory?")
    try:
        found = json.loads(process.stdout)
    except ValueError:
        last = messages.splitlines()[-1] if messages else "it wrote nothing"
        raise NmtError(f"{what} failed: {last}. Please report this with the output of NMT_DEBUG=1.") from None
    if "error" in found:
        raise NmtError(found["error"])
    return certificate_from(found)


def failed(path: Path, out: Path, certificate: Certificate, *, advice: str = REPORT) -> CheckpointError:
    """Write a failed certificate beside the place of the model, and say so.

    Args:
        path: what was converted.
        out: where the model would have been.
        advice: what to do, as the end of a sentence.
    """
    report = _free(out.with_name(f"{out.name}.parity.json"))
    with replacing(report) as stream:
        stream.write(certificate.as_json())
    first = certificate.failed[0]
    return CheckpointError(
        f"{path}: the {certificate.direction}ed model differs from it, so none was written. The check of {first.name} "
        f"failed: {first.detail}. All checks are in {report}: {advice}."
    )


def _free(report: Path) -> Path:
    """The path, unless a file that is no certificate lies there: then one with a number."""
    for number in range(1, 1_000):
        path = report if number == 1 else report.with_name(f"{report.stem}-{number}.json")
        values = read_json(path)
        if not path.exists() or (isinstance(values, dict) and "parity" in values):
            return path
    return report


def certify_import(job: ImportJob) -> Certificate:
    """Compare a bundle with the model that it was imported from.

    Raises:
        NmtError: a file cannot be read.
    """
    form = find_format(job.origin, job.format)
    assert form.read is not None
    model = form.read(job.origin, job.given)
    ours = OurSide(job.bundle)
    probes = _probes(ours, job.lines)
    toolkit, remark = _toolkit_itself(form, job.origin, model)
    sides = [ReferenceSide(model), *toolkit]
    checks = (cached_steps(ours, probes), *_compared(ours, sides, probes))
    return Certificate(
        direction="import",
        toolkit=model.toolkit,
        version=model.version,
        software=_took_part(ours, sides, checks),
        files={name: sha256_of(path) for name, path in model.files.items()},
        tensors=tensor_record(model.tensors),
        checks=checks,
        remarks=(*model.remarks, *remark),
        bundle=_bundle_files(job.bundle),
    )


def certify_copy(job: ImportJob) -> Certificate:
    """Compare a bundle with another one of ours that it was imported from.

    Raises:
        NmtError: a file cannot be read.
    """
    ours, theirs = OurSide(job.bundle), OurSide(job.origin)
    probes = _probes(ours, job.lines)
    return Certificate(
        direction="import",
        toolkit=OWN,
        version=None,
        software=ours.software,
        files=_bundle_files(job.origin),
        tensors=tensor_record({name: tensor.float().numpy() for name, tensor in theirs.bundle.weights.items()}),
        checks=(cached_steps(ours, probes), *_compared(ours, [theirs], probes)),
        bundle=_bundle_files(job.bundle),
    )


def certify_export(job: ExportJob) -> Certificate:
    """Compare an exported folder with its bundle.

    Raises:
        NmtError: a file cannot be read.
    """
    form, ours = find_target(job.to), OurSide(job.bundle)
    probes = _probes(ours, job.lines)
    sides = form.sides(job.folder, ours.bundle)
    is_exact = job.quantization == form.quantizations[0]
    compared = [*(_compared(ours, sides, probes) if is_exact else _compared_quantized(ours, sides, probes, job.lines))]
    checks = (
        *form.check_files(job.folder, ours.bundle, job.quantization),
        cached_steps(ours, probes),
        *compared,
    )
    software = _took_part(ours, sides, checks)
    unused = [] if form.package in software else [not_usable(form.package)]
    return Certificate(
        direction="export",
        quantization=job.quantization,
        toolkit=form.toolkit,
        version=None,
        software=software,
        files={path.name: sha256_of(path) for path in sorted(job.folder.iterdir())},
        tensors=tensor_record({name: tensor.numpy() for name, tensor in ours.bundle.weights.items()}),
        checks=checks,
        remarks=(*unused, *quantized_remarks(compared)),
        bundle=_bundle_files(job.bundle),
    )


def _bundle_files(folder: Path) -> dict[str, str]:
    return {path.name: sha256_of(path) for path in BundleFolder(folder).model}


def _probes(ours: OurSide, lines: Sequence[str]) -> Probes:
    return make_probes(ours.bundle.vocab, ours.bundle.config.model.max_positions - 1, lines)


def _compared(ours: OurSide, sides: Sequence[Side], probes: Probes) -> Iterator[Check]:
    for theirs in sides:
        for compare in COMPARISONS:
            if (check := compare(ours, theirs, probes)) is not None:
                yield check


def _compared_quantized(ours: OurSide, sides: Sequence[Side], probes: Probes, lines: Sequence[str]) -> Iterator[Check]:
    for theirs in sides:
        yield from quantized_checks(ours, theirs, probes, lines)


def _took_part(ours: OurSide, sides: Sequence[Side], checks: Sequence[Check]) -> dict[str, str]:
    """Package -> version of our side and of those sides that a check compared with."""
    compared = [side for side in sides if any(check.oracle == side.name for check in checks)]
    return {package: version for side in (ours, *compared) for package, version in side.software.items()}


def _toolkit_itself(form: Format, origin: Path, model: ForeignModel) -> tuple[list[Side], list[str]]:
    """The toolkit itself as a side, where it can be used; else a remark that says why not."""
    if form.side is None:
        return [], ["The model was not compared with the toolkit itself."]
    try:
        return [form.side(origin, model)], []
    except ImportError as error:
        return [], [not_usable(form.package, error)]


def _run(job: ImportJob | ExportJob) -> Certificate:
    if isinstance(job, ExportJob):
        return certify_export(job)
    return certify_copy(job) if job.format == OWN else certify_import(job)


def answer() -> None:
    """Read a pickled job from standard input, and write its certificate to standard output, in a process of its own."""
    answer_to = os.dup(1)
    os.dup2(2, 1)  # what libraries print must not get among the answer
    try:
        content = _run(pickle.loads(sys.stdin.buffer.read())).as_json()
    except NmtError as error:
        content = json.dumps({"error": str(error)}).encode()
    with os.fdopen(answer_to, "wb") as stream:
        stream.write(content)
