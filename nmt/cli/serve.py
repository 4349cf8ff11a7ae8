"""``nmt serve``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from nmt.cli.console import notice
from nmt.cli.options import Device, Engine, Threads, TranslationPrecision, Workers, option, with_options
from nmt.errors import ConfigError
from nmt.option_fields import ACCESS, LIMITS
from nmt.translation.options import TranslateOptions

ModelsArgument = Annotated[
    list[Path] | None, typer.Argument(metavar="MODEL", help="Runs or bundles.  [newest run]", show_default=False)
]
Host = Annotated[str, option("Address to listen at; 0.0.0.0: all of this machine.", metavar="ADDRESS", group=ACCESS)]
Port = Annotated[int, option("Port to listen at; 0: any.", metavar="N", group=ACCESS, min=0, max=65_535)]
ApiKeys = Annotated[Path | None, option("File of accepted keys, one per line.", metavar="PATH", group=ACCESS)]
Public = Annotated[bool, option("Answer other machines without a key.", "--public", group=ACCESS)]
Origins = Annotated[
    list[str] | None,
    option("Web pages that may ask: https://example.org; *: all.", "--allow-origin", metavar="ORIGIN", group=ACCESS),
]
Rate = Annotated[int | None, option("Requests per minute and key, or address.", metavar="N", group=LIMITS, min=1)]
MaxCharacters = Annotated[int, option("Characters per request.", metavar="N", group=LIMITS, min=1)]
MaxWaiting = Annotated[int, option("Source pieces that wait; then 503.", metavar="N", group=LIMITS, min=1)]
Timeout = Annotated[float, option("Seconds until a request is given up.", metavar="X", group=LIMITS, min=0.1)]


@with_options(TranslateOptions, without=("nbest", "alignment", "sampling"))
def serve(
    models: ModelsArgument = None,
    host: Host = "127.0.0.1",
    port: Port = 5_000,
    api_keys: ApiKeys = None,
    public: Public = False,
    origins: Origins = None,
    requests_per_minute: Rate = None,
    max_characters: MaxCharacters = 50_000,
    max_waiting: MaxWaiting = 100_000,
    timeout: Timeout = 120.0,
    engine: Engine = "torch",
    device: Device = "auto",
    precision: TranslationPrecision = "auto",
    threads: Threads = None,
    workers: Workers = None,
    *,
    options: dict[str, Any],
) -> None:
    """Translate over HTTP: a web page, and the interfaces of LibreTranslate, DeepL and Apertium.

    Each model serves its own languages. Clients of these services work unchanged with the address of this server.

    Example: nmt serve runs/toy-en-de-tiny
    """
    from nmt.machine.packages import require_package

    advice = "Install it: `pip install 'nmt-toolkit[serve]'`."
    for package in ("starlette", "uvicorn", "prometheus_client", "python_multipart"):
        require_package(package, package, what="nmt serve", advice=advice)
    from nmt.checkpoint.describing import describe_model
    from nmt.loading import NamedModels
    from nmt.serve.access import Access, read_keys
    from nmt.serve.exchange import Limits
    from nmt.serve.models import Models, ServedModel
    from nmt.serve.running import bound, is_loopback, run

    keys = [] if api_keys is None else read_keys(api_keys)
    if not keys and not public and not is_loopback(host):
        raise ConfigError(
            f"--host {host}: other machines can connect. Give --api-keys FILE, or --public to answer without a key."
        )
    named = [NamedModels.of(each, engine) for each in ([[model] for model in models or ()] or [[]])]
    with bound(host, port) as listening:
        served = []
        for each in named:
            for line in (f"model: {', '.join(map(describe_model, each.folders))}", *each.remarks):
                notice(line)
            loaded = each.load(device, precision, threads, report=notice)
            served.append(ServedModel(loaded, options, workers))

        def started(found: Models) -> None:
            pairs = ", ".join(f"{one} to {other}" for one, others in found.sources.items() for other in others)
            name = f"[{host}]" if ":" in host else host
            notice(f"{pairs}: http://{name}:{listening.getsockname()[1]}/ (Ctrl-C to stop)")

        run(
            served,
            listening,
            access=Access(keys, requests_per_minute),
            limits=Limits(max_characters, timeout),
            max_waiting=max_waiting,
            origins=origins or (),
            started=started,
        )
