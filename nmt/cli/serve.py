"""``nmt serve``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from nmt.cli.options import Batches, Device, Engine, Precision, Threads, option, with_options
from nmt.cli.progress_lines import CONSOLE
from nmt.option_fields import ACCESS, LIMITS, STREAMS
from nmt.translation.options import TranslateOptions


@with_options(TranslateOptions, only=("beam", "length_penalty", "batch_tokens"))
def serve(
    models: Annotated[
        list[Path] | None, typer.Argument(metavar="MODEL", help="Runs or bundles.  [newest run]", show_default=False)
    ] = None,
    via: Annotated[
        list[str] | None,
        option("Pivot language, to join models of other languages.", metavar="CODE", group=STREAMS),
    ] = None,
    host: Annotated[
        str, option("Address to listen at; 0.0.0.0: all of this machine.", metavar="ADDRESS", group=ACCESS)
    ] = "127.0.0.1",
    port: Annotated[int, option("Port to listen at; 0: any.", group=ACCESS, min=0, max=65_535)] = 5_000,
    api_keys: Annotated[Path | None, option("File of accepted keys, one per line.", group=ACCESS)] = None,
    public: Annotated[bool, option("Answer other machines without a key.", group=ACCESS)] = False,
    allow_origin: Annotated[
        list[str] | None,
        option("Site whose pages may ask: https://example.org; *: all.", metavar="ORIGIN", group=ACCESS),
    ] = None,
    requests_per_minute: Annotated[
        int | None, option("Maximum requests per minute per key, or per address.", group=LIMITS, min=1)
    ] = None,
    max_characters: Annotated[int, option("Maximum characters per request.", group=LIMITS, min=1)] = 50_000,
    max_waiting: Annotated[
        int, option("Maximum source pieces that wait; more get 503.", group=LIMITS, min=1)
    ] = 100_000,
    timeout: Annotated[float, option("Seconds until a request is given up.", group=LIMITS, min=0.1)] = 120.0,
    engine: Engine = "torch",
    device: Device = "auto",
    precision: Precision = "auto",
    threads: Threads = None,
    batches: Batches = None,
    *,
    options: dict[str, Any],
) -> None:
    """Translate over HTTP: a web page, and the interfaces of LibreTranslate, DeepL and Apertium.

    Each model serves its own languages. Clients of these services work unchanged with the address of this server.

    Example: nmt serve runs/toy-en-de-tiny
    """
    given = dict(locals())
    given |= given.pop("options")
    from nmt.api.serving import serve

    serve(**given, report=CONSOLE)
