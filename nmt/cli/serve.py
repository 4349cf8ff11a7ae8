"""``nmt serve``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from nmt.cli.console import notice
from nmt.cli.options import Device, Engine, Threads, TranslationPrecision, Workers, option, print_models, with_options
from nmt.errors import ConfigError
from nmt.option_fields import ACCESS, LIMITS
from nmt.translation.options import TranslateOptions

_PACKAGES = {
    "starlette": "starlette",
    "uvicorn": "uvicorn",
    "prometheus_client": "prometheus-client",
    "python_multipart": "python-multipart",
    "py3langid": "py3langid",
}
"""The modules of the extra ``serve``, each with its package."""


@with_options(TranslateOptions, without=("nbest", "alignment", "sampling"))
def serve(
    models: Annotated[
        list[Path] | None, typer.Argument(metavar="MODEL", help="Runs or bundles.  [newest run]", show_default=False)
    ] = None,
    host: Annotated[
        str, option("Address to listen at; 0.0.0.0: all of this machine.", metavar="ADDRESS", group=ACCESS)
    ] = "127.0.0.1",
    port: Annotated[int, option("Port to listen at; 0: any.", group=ACCESS, min=0, max=65_535)] = 5_000,
    api_keys: Annotated[Path | None, option("File of accepted keys, one per line.", group=ACCESS)] = None,
    public: Annotated[bool, option("Answer other machines without a key.", group=ACCESS)] = False,
    origins: Annotated[
        list[str] | None,
        option(
            "Web pages that may ask: https://example.org; *: all.", "--allow-origin", metavar="ORIGIN", group=ACCESS
        ),
    ] = None,
    requests_per_minute: Annotated[
        int | None, option("Requests per minute and key, or address.", group=LIMITS, min=1)
    ] = None,
    max_characters: Annotated[int, option("Characters per request.", group=LIMITS, min=1)] = 50_000,
    max_waiting: Annotated[int, option("Source pieces that wait; then 503.", group=LIMITS, min=1)] = 100_000,
    timeout: Annotated[float, option("Seconds until a request is given up.", group=LIMITS, min=0.1)] = 120.0,
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

    for module, package in _PACKAGES.items():
        require_package(module, package, what="nmt serve", advice="Install it: `pip install 'nmt-toolkit[serve]'`.")

    from nmt.loading import NamedModels
    from nmt.serve.access import Access, check_origin
    from nmt.serve.engine_process import load_in_process
    from nmt.serve.exchange import Limits
    from nmt.serve.models import ServedModel
    from nmt.serve.running import bound, run

    for origin in origins or ():
        check_origin(origin)
    keys = _keys(api_keys, host, public)
    access = Access(keys, requests_per_minute, origins or (), only_loopback=not (keys or public))
    named = [NamedModels.of(each, engine) for each in ([[model] for model in models or ()] or [[]])]
    with bound(host, port) as listening:
        served = []
        for each in named:
            print_models(each.folders, each.remarks)
            loaded = load_in_process(each, device, precision, threads, report=notice)
            served.append(ServedModel(loaded, options, workers))
        address = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}/"
        run(
            served,
            listening,
            access=access,
            limits=Limits(max_characters, timeout),
            max_waiting=max_waiting,
            started=lambda found: notice(f"{found}: {address} (Ctrl-C to stop)"),
        )


def _keys(path: Path | None, host: str, public: bool) -> list[str]:
    """The keys that are accepted.

    Raises:
        ConfigError: other machines could connect without one, and that was not asked for.
    """
    from nmt.serve.access import is_loopback, read_keys

    keys = [] if path is None else read_keys(path)
    if not keys and not public and not is_loopback(host):
        raise ConfigError(
            f"--host {host}: other machines can connect. Give --api-keys FILE, or --public to answer without a key."
        )
    return keys
