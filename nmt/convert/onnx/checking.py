"""The checks of an exported folder that need no other side: its files, and its graphs beside each other."""

from __future__ import annotations

from pathlib import Path

from nmt.checkpoint.bundle import Bundle
from nmt.convert.certificate.checks import LOG_PROBABILITY_LIMIT, largest
from nmt.convert.certificate.probes import make_probes
from nmt.convert.certificate.record import Check
from nmt.convert.onnx.files import check_onnx_files
from nmt.convert.onnx.software import onnx_sides

_LONGEST_SOURCE = 21
_LONGEST_OUTPUT = 40


def check_onnx(folder: Path, bundle: Bundle, quantization: str) -> list[Check]:
    """As :attr:`Format.check_files`."""
    checks = check_onnx_files(folder, bundle, quantization)
    # Activations of 8 bits are rounded by the largest of a whole target, so steps and whole targets differ.
    return [*checks, *_steps(folder, bundle)] if quantization == "float32" else checks


def _steps(folder: Path, bundle: Bundle) -> list[Check]:
    """Compare the graph that reads one piece at a time with the graph that reads whole targets."""
    sources = make_probes(bundle.vocab, _LONGEST_SOURCE).sources
    checks = []
    for side in onnx_sides(folder, bundle):
        outputs = [best for [best] in side.search(sources, 1, _LONGEST_OUTPUT) or []]
        scores = side.score(sources, [output.pieces for output in outputs]) or []
        worst = largest(
            abs(float(score.sum()) - output.log_probability) / len(score)
            for score, output in zip(scores, outputs, strict=True)
        )
        detail = f"{len(outputs)} outputs have the same scores with and without a past (at most {worst:.2g} apart)"
        passed = worst <= LOG_PROBABILITY_LIMIT
        checks.append(Check("steps with a past", passed, detail, side.name, worst, LOG_PROBABILITY_LIMIT))
    return checks
