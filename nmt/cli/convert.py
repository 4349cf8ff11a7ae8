"""``nmt import`` and ``nmt export``."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from nmt.cli.console import notice, warn
from nmt.cli.options import command, model_to_use
from nmt.option_fields import SETTINGS, STREAMS, Argument, Option
from nmt.text.lines import read_lines

if TYPE_CHECKING:
    from nmt.convert.certificate.record import Certificate

_MAX_LINES = 200

CHECK_TEXT = Option("Source text to compare both models on (first 200 lines).", STREAMS)


@command()
def import_model(
    path: Annotated[Path, Argument("The other toolkit's folder, file or archive.", metavar="PATH")],
    out: Annotated[Path | None, Option("The bundle to write.", STREAMS, unset="models/NAME", letter="o")] = None,
    format: Annotated[
        str | None, Option("The format, if its files do not tell.", SETTINGS, unset="by the files", metavar="NAME")
    ] = None,
    source_spm: Annotated[
        Path | None, Option("SentencePiece model of source text.", STREAMS, unset="beside it")
    ] = None,
    target_spm: Annotated[
        Path | None, Option("SentencePiece model of target text.", STREAMS, unset="beside it")
    ] = None,
    source_lang: Annotated[str | None, Option("Language of source text.", SETTINGS, metavar="LANG")] = None,
    target_lang: Annotated[str | None, Option("Language of target text.", SETTINGS, metavar="LANG")] = None,
    ignore_unknown_steps: Annotated[
        bool, Option("Import an OPUS-MT model whose scripts have commands that nmt does not know.", SETTINGS)
    ] = False,
    check_text: Annotated[Path | None, CHECK_TEXT] = None,
) -> None:
    """Import a model of another toolkit as a bundle.

    The bundle is compared with the original: its tensors, vocabulary, scores and outputs. The comparison is written as
    parity.json into the bundle. If a check fails, no bundle is written.

    Example: nmt import opus-mt-en-de.zip --source-lang en --target-lang de
    """
    from nmt.convert.converting import default_bundle, import_model
    from nmt.convert.foreign import Given

    out = out or default_bundle(path)
    given = Given(source_spm, target_spm, source_lang, target_lang, ignore_unknown_steps)
    notice(f"reading {path} and comparing it with the bundle")
    certificate = import_model(path, out, format=format, given=given, lines=lines_to_check(check_text))
    _report(certificate, out)
    notice(f"to translate, run: nmt translate -m {out} < input.txt")


@command()
def export_model(
    model: Annotated[Path, Argument("Run or bundle.", metavar="MODEL")],
    to: Annotated[str, Option("marian, ctranslate2, huggingface or argos.", STREAMS, metavar="FORMAT")],
    out: Annotated[Path | None, Option("The folder to write.", STREAMS, unset="models/NAME-FORMAT", letter="o")] = None,
    quantization: Annotated[
        str | None,
        Option(
            "float32, float16, bfloat16, int8, int16, int8_float16 or int8_bfloat16, by format.",
            SETTINGS,
            unset="float32",
            metavar="TYPE",
        ),
    ] = None,
    check_text: Annotated[Path | None, CHECK_TEXT] = None,
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
