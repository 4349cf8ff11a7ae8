"""Compares a converted model with what it was made from. Both are read again from their files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from nmt.checkpoint.bundle import Bundle
from nmt.checkpoint.bundle_files import BundleFolder
from nmt.convert.certificate.checks import COMPARISONS, cached_steps, compared, forced_scores, prepared_text
from nmt.convert.certificate.our_side import OurSide
from nmt.convert.certificate.probes import Probes, make_probes
from nmt.convert.certificate.quantized import QUANTIZED_COMPARISONS, quantized_remarks
from nmt.convert.certificate.record import Certificate, Check, tensor_record
from nmt.convert.certificate.reference_side import ReferenceSide
from nmt.convert.certificate.side import Side
from nmt.convert.foreign import Array, ForeignModel, Given
from nmt.convert.formats import OWN, Format, find_format, find_target
from nmt.errors import NmtError
from nmt.io.hashing import sha256_of
from nmt.machine.packages import discard_output, silence


@dataclass(frozen=True)
class Job:
    """A conversion to examine."""

    direction: Literal["import", "export"]
    path: Path
    """What was converted."""
    made: Path
    """The folder that was written."""
    format: str
    """The name of the other toolkit's format."""
    given: Given = field(default_factory=Given)
    quantization: str = ""
    """The type of the stored weights of an export."""
    lines: tuple[str, ...] = ()
    """Further lines of source text to compare on."""

    @property
    def bundle(self) -> Path:
        """The bundle that was made or exported."""
        return self.made if self.direction == "import" else self.path


def examine(job: Job) -> Certificate:
    """Compare a bundle with the model that it was imported from, or that it was exported to.

    What libraries print is discarded, but for debugging.

    Raises:
        NmtError: a file cannot be read, or a toolkit's software failed.
    """
    with ExitStack() as stack:
        if not os.environ.get("NMT_DEBUG"):
            stack.enter_context(discard_output())
            stack.enter_context(silence())
        try:
            return _certificate(job)
        except NmtError:
            raise
        except Exception as error:  # of any kind, from the software of any toolkit
            reason = f"{type(error).__name__}: {error}"
            raise NmtError(
                f"{job.path}: the models could not be compared: {reason}. Please report this with the output of "
                "NMT_DEBUG=1."
            ) from error


def _certificate(job: Job) -> Certificate:
    # In a folder that was exported, nmt adds the pieces of languages, and no toolkit does.
    # An epsilon that the format cannot express is not compared, so that the checks show any other difference.
    epsilon = find_target(job.format).norm_epsilon if job.direction == "export" else None
    ours = OurSide(job.bundle, adds_languages=job.direction == "import", norm_epsilon=epsilon)
    theirs = _exported(job, ours.bundle) if job.direction == "export" else _imported(job)
    probes = make_probes(ours.bundle.vocab, ours.bundle.config.model.max_positions - 1, job.lines)
    comparisons = QUANTIZED_COMPARISONS if theirs.is_quantized else COMPARISONS
    if job.direction == "import":  # the files of an export do not say what text goes through
        comparisons = (prepared_text, *comparisons)
    found = [check for side in theirs.sides for check in compared(ours, side, probes, comparisons)]
    checks = (*theirs.file_checks, cached_steps(ours, probes), *found)
    software = _took_part(ours, theirs.sides, checks)
    return Certificate(
        direction=job.direction,
        quantization=job.quantization,
        toolkit=theirs.toolkit,
        version=theirs.version,
        software=software,
        files={name: sha256_of(path) for name, path in theirs.files.items()},
        tensors=tensor_record(theirs.tensors),
        checks=checks,
        remarks=(*theirs.remarks, *_epsilon_remarks(job, ours, probes), *quantized_remarks(found)),
        bundle={path.name: sha256_of(path) for path in BundleFolder(job.bundle).model},
    )


def _epsilon_remarks(job: Job, compared_with: OurSide, probes: Probes) -> Iterator[str]:
    """What another epsilon of layer norms changes, if that is more than what two programs differ by."""
    ours = OurSide(job.bundle)
    own, other = (side.bundle.config.model.norm_epsilon for side in (ours, compared_with))
    if own != other and (change := forced_scores(ours, compared_with, probes)) is not None and not change.passed:
        yield (
            f"The layer norms of {find_target(job.format).toolkit} have an epsilon of {other:g}, those of the model "
            f"{own:g}: log-probabilities of pieces change by at most {change.figure:.2g}."
        )


@dataclass(frozen=True)
class _Theirs:
    """The model that a bundle is compared with."""

    toolkit: str
    sides: Sequence[Side]
    files: Mapping[str, Path]
    tensors: Mapping[str, Array]
    version: str | None = None
    is_quantized: bool = False
    file_checks: Sequence[Check] = ()
    remarks: Sequence[str] = ()


def _imported(job: Job) -> _Theirs:
    """The model that a bundle was imported from: another toolkit's, or a bundle of ours."""
    if job.format == OWN:
        side = OurSide(job.path)
        files = {path.name: path for path in BundleFolder(job.path).model}
        return _Theirs(OWN, [side], files, _arrays(side.bundle))
    form = find_format(job.path, job.format)
    assert form.read is not None
    model = form.read(job.path, job.given)
    sides, remarks = _opened(form, _sides(form, job.path, model))
    return _Theirs(
        model.toolkit, sides, model.files, model.tensors, version=model.version, remarks=(*model.remarks, *remarks)
    )


def _sides(form: Format, path: Path, model: ForeignModel) -> Iterator[Side]:
    yield ReferenceSide(model)
    if form.side is not None:
        yield form.side(path, model)


def _exported(job: Job, bundle: Bundle) -> _Theirs:
    """The folder that a bundle was exported to."""
    form = find_target(job.format)
    sides, remarks = _opened(form, form.sides(job.made, bundle))
    return _Theirs(
        form.toolkit,
        sides,
        {path.name: path for path in sorted(job.made.iterdir())},
        _arrays(bundle),
        is_quantized=job.quantization != form.quantizations[0],
        file_checks=form.check_files(job.made, bundle, job.quantization),
        remarks=remarks,
    )


def _arrays(bundle: Bundle) -> dict[str, Array]:
    return {name: tensor.float().numpy() for name, tensor in bundle.weights.items()}


def _opened(form: Format, sides: Iterable[Side]) -> tuple[list[Side], list[str]]:
    """The sides that can be opened here, and a remark if the toolkit itself is not one of them."""
    opened: list[Side] = []
    try:
        for side in sides:
            opened.append(side)
    except ImportError as error:
        is_missing = isinstance(error, ModuleNotFoundError) and error.name == form.package
        problem = "is not installed" if is_missing else f"cannot be used for this model ({error})"
        return opened, [f"The package {form.package} {problem}: the model was not compared with it."]
    return opened, [] if form.package else ["The model was not compared with the toolkit itself."]


def _took_part(ours: OurSide, sides: Sequence[Side], checks: Sequence[Check]) -> dict[str, str]:
    """Package -> version of our side and of those sides that a check compared with."""
    compared = [side for side in sides if any(check.oracle == side.name for check in checks)]
    return {package: version for side in (ours, *compared) for package, version in side.software.items()}
