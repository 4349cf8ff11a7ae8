"""``nmt import`` and ``nmt export``."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nmt.cli.console import notice, warn
from nmt.cli.options import model_to_use, option
from nmt.option_fields import SETTINGS, STREAMS
from nmt.text.lines import read_lines

if TYPE_CHECKING:
    from nmt.convert.certificate.record import Certificate

_MAX_LINES = 200

CheckText = Annotated[Path | None, option("Source text to compare both models on (first 200 lines).", group=STREAMS)]


def import_model(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="The other toolkit's folder, file or .zip archive.")],
    out: Annotated[Path | None, option("The bundle to write.  [models/NAME]", "-o", "--out", group=STREAMS)] = None,
    format: Annotated[
        str | None, option("The format, if its files do not tell.  [by the files]", metavar="NAME", group=SETTINGS)
    ] = None,
    source_spm: Annotated[
        Path | None, option("SentencePiece model of source text.  [beside it]", group=STREAMS)
    ] = None,
    target_spm: Annotated[
        Path | None, option("SentencePiece model of target text.  [beside it]", group=STREAMS)
    ] = None,
    source_lang: Annotated[str | None, option("Language of source text.", metavar="LANG", group=SETTINGS)] = None,
    target_lang: Annotated[str | None, option("Language of target text.", metavar="LANG", group=SETTINGS)] = None,
    check_text: CheckText = None,
) -> None:
    """Import a model of another toolkit as a bundle.

    The bundle is compared with the original: its tensors, vocabulary, scores and outputs. The comparison is written as
    parity.json into the bundle. If a check fails, no bundle is written.

    Example: nmt import opus-mt-en-de.zip --source-lang en --target-lang de
    """
    from nmt.convert.converting import default_bundle, import_model
    from nmt.convert.foreign import Given

    out = out or default_bundle(path)
    given = Given(source_spm, target_spm, source_lang, target_lang)
    notice(f"reading {path} and comparing it with the bundle")
    certificate = import_model(path, out, format=format, given=given, lines=lines_to_check(check_text))
    _report(certificate, out)
    notice(f"to translate, run: nmt translate -m {out} < input.txt")


def _formats(incomplete: str) -> list[str]:
    """The formats of exports whose names begin so: those of :mod:`nmt.convert.formats`, which is slow to import."""
    formats = ("marian", "ctranslate2", "huggingface", "argos")
    return [name for name in formats if name.startswith(incomplete.lower())]


def export_model(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Run or bundle.")],
    to: Annotated[
        str,
        option("marian, ctranslate2, huggingface or argos.", metavar="FORMAT", autocompletion=_formats, group=STREAMS),
    ],
    out: Annotated[
        Path | None, option("The folder to write.  [models/NAME-FORMAT]", "-o", "--out", group=STREAMS)
    ] = None,
    quantization: Annotated[
        str | None,
        option(
            "float32, float16, bfloat16, int8, int16, int8_float16 or int8_bfloat16, by format.  [float32]",
            metavar="TYPE",
            group=SETTINGS,
        ),
    ] = None,
    check_text: CheckText = None,
) -> None:
    """Export a model to the format of another toolkit.

    The folder holds all that its users need: weights, vocabularies, SentencePiece models, settings and a model card. It
    is compared with the bundle, by the other toolkit's own software where that is installed. The comparison is
    parity.json. If a check fails, nothing is written.

    Example: nmt export runs/toy-en-de-tiny --to ctranslate2 --quantization int8
    """
    from nmt.convert.converting import default_folder, export_model

    to = to.lower()
    out = out or default_folder(model, to, quantization)
    bundle = model_to_use(model)
    certificate = export_model(bundle, out, to=to, quantization=quantization, lines=lines_to_check(check_text))
    _report(certificate, out)


def lines_to_check(path: Path | None) -> list[str]:
    """The first lines of a text to compare models on; none if there is no text."""
    return [] if path is None else list(itertools.islice(read_lines(path), _MAX_LINES))


def _report(certificate: Certificate, out: Path) -> None:
    """Print each check, each remark and the path that was written."""
    oracle = None
    for check in certificate.checks:
        if check.oracle != oracle:
            oracle = check.oracle
            notice(f"compared with {oracle}:")
        notice(f"  {check.name}: {check.detail}")
    for remark in certificate.remarks:
        warn(remark)
    notice(f"written: {out}")
