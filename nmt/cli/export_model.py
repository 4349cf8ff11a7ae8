"""``nmt export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nmt.cli.completion import export_formats
from nmt.cli.defaults import model_to_use
from nmt.cli.options import option
from nmt.cli.parity import CheckText, lines_to_check, print_certificate
from nmt.option_fields import STREAMS


def export_model(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Run or bundle.")],
    to: Annotated[
        str, option("marian, ctranslate2, huggingface, onnx or argos.", metavar="FORMAT", autocompletion=export_formats)
    ],
    out: Annotated[
        Path | None, option("The folder to write.  [models/NAME-FORMAT]", "-o", "--out", metavar="PATH", group=STREAMS)
    ] = None,
    quantization: Annotated[
        str | None,
        option(
            "float32, float16, bfloat16, int8, int16, int8_float16 or int8_bfloat16, by format.  [float32]",
            metavar="TYPE",
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
    print_certificate(certificate, out)
