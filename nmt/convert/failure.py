"""What a conversion leaves behind if a check fails: its certificate, and no model."""

from __future__ import annotations

from pathlib import Path

from nmt.checkpoint.kinds import read_json
from nmt.convert.certificate.record import Certificate
from nmt.errors import CheckpointError
from nmt.io.files import replacing

REPORT = "please report this as an error of nmt"


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
