"""``nmt import``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nmt.cli.console import notice
from nmt.cli.options import option
from nmt.cli.parity import CheckText, lines_to_check, print_certificate
from nmt.option_fields import STREAMS


def import_model(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="The other toolkit's folder, file or .zip archive.")],
    out: Annotated[
        Path | None, option("The bundle to write.  [models/NAME]", "-o", "--out", metavar="PATH", group=STREAMS)
    ] = None,
    format: Annotated[
        str | None, option("The format, if its files do not tell.  [by the files]", metavar="NAME")
    ] = None,
    source_spm: Annotated[
        Path | None, option("SentencePiece model of source text.  [beside it]", metavar="PATH", group=STREAMS)
    ] = None,
    target_spm: Annotated[
        Path | None, option("SentencePiece model of target text.  [beside it]", metavar="PATH", group=STREAMS)
    ] = None,
    source_lang: Annotated[str | None, option("Language of source text.", metavar="LANG")] = None,
    target_lang: Annotated[str | None, option("Language of target text.", metavar="LANG")] = None,
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
    print_certificate(certificate, out)
    notice(f"to translate, run: nmt translate -m {out} < input.txt")
