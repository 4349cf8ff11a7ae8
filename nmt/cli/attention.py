"""``nmt attention``."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Annotated

from annotated_types import Ge

from nmt.api.arguments import DEVICE, THREADS
from nmt.cli.console import notice, write_stdout
from nmt.cli.options import MODEL, command, model_to_use
from nmt.errors import ConfigError, DataError
from nmt.option_fields import STREAMS, Argument, DeviceChoice, Option
from nmt.text.lines import STDIN, read_lines

MAX_SENTENCES = 50
"""A page holds every weight of every sentence, and a browser has to read them all."""


@command()
def attention(
    sentence: Annotated[
        list[str] | None,
        Argument("Sentences to translate, each in quotes.", unset="standard input", metavar="SENTENCE"),
    ] = None,
    model: Annotated[Path | None, MODEL] = None,
    input: Annotated[Path | None, Option("Text to translate, a sentence per line.", STREAMS, letter="i")] = None,
    target: Annotated[
        list[str] | None, Option("Translation to force, one per sentence.", STREAMS, metavar="SENTENCE")
    ] = None,
    out: Annotated[Path | None, Option("Page to write.", STREAMS, unset="attention.html", letter="o")] = None,
    as_json: Annotated[bool, Option("Print JSON instead of writing a page.", STREAMS, word="json")] = False,
    device: Annotated[DeviceChoice, DEVICE] = "auto",
    threads: Annotated[int | None, Ge(1), THREADS] = None,
) -> None:
    """Draw the attention weights of every layer and head, for sentences and their translations.

    The page shows the self-attention of the encoder and of the decoder, and the attention of the decoder over the
    encoder (memory).

    Example: nmt attention -m runs/toy-en-de-tiny "The man sleeps."
    """
    from nmt.reports.attention_page import ATTENTION, attention_page, json_lines

    if as_json and out is not None:
        raise ConfigError(f"--json prints, and --out {out} writes: give one.")
    page = out or Path("attention.html")
    if not as_json:
        ATTENTION.check(page)
    sentences = _sentences(sentence, input)
    folder = model_to_use(model)

    from nmt.machine.device import choose_hardware
    from nmt.translation.attention_maps import attention_maps
    from nmt.translation.ensemble import load_ensemble
    from nmt.translation.options import translate_options

    ensemble = load_ensemble([folder], choose_hardware(device, "fp32", threads))
    settings = translate_options(ensemble.config.decoding)
    maps = attention_maps(ensemble, sentences, target, settings, model=str(folder))
    if as_json:
        write_stdout(json_lines(maps))
        return
    ATTENTION.write(page, attention_page(maps))
    notice(f"written: {page}")


def _sentences(given: list[str] | None, path: Path | None) -> list[str]:
    if given and path is not None:
        raise ConfigError(f"the input was given twice, as a sentence and as --input {path}: give one.")
    if not given and path is None and sys.stdin.isatty():
        raise ConfigError('give a sentence: nmt attention "The man sleeps."')
    sentences = given or list(itertools.islice(read_lines(path or Path(STDIN)), MAX_SENTENCES + 1))
    if not sentences:
        raise DataError(f"{path or 'standard input'} has no lines.")
    if len(sentences) > MAX_SENTENCES:
        raise DataError(
            f"got more than {MAX_SENTENCES} sentences, but a page holds {MAX_SENTENCES} at most: choose among them."
        )
    return sentences
