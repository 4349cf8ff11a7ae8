"""Serving from Python."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge, Le

from nmt.api.arguments import BATCHES, DEVICE, ENGINE, PRECISION, THREADS, Paths, Texts, checked
from nmt.errors import ConfigError
from nmt.option_fields import ACCESS, LIMITS, STREAMS, Argument, DeviceChoice, EngineName, Option, TranslationPrecision
from nmt.reporting import SILENT, Reporter

_PACKAGES = {
    "starlette": "starlette",
    "uvicorn": "uvicorn",
    "prometheus_client": "prometheus-client",
    "python_multipart": "python-multipart",
    "py3langid": "py3langid",
}
"""The modules of the extra ``serve``, each with its package."""


@checked
def serve(
    models: Annotated[Paths, Argument("Runs or bundles.", unset="newest run", metavar="MODEL")] = (),
    *,
    via: Annotated[Texts, Option("Pivot language, to join models of other languages.", STREAMS, metavar="CODE")] = (),
    host: Annotated[
        str, Option("Address to listen at; 0.0.0.0: all of this machine.", ACCESS, metavar="ADDRESS")
    ] = "127.0.0.1",
    port: Annotated[int, Ge(0), Le(65_535), Option("Port to listen at; 0: any.", ACCESS)] = 5_000,
    api_keys: Annotated[Path | None, Option("File of accepted keys, one per line.", ACCESS)] = None,
    public: Annotated[bool, Option("Answer other machines without a key.", ACCESS)] = False,
    allow_origin: Annotated[
        Texts, Option("Site whose pages may ask: https://example.org; *: all.", ACCESS, metavar="ORIGIN")
    ] = (),
    requests_per_minute: Annotated[
        int | None, Ge(1), Option("Maximum requests per minute per key, or per address.", LIMITS)
    ] = None,
    max_characters: Annotated[int, Ge(1), Option("Maximum characters per request.", LIMITS)] = 50_000,
    max_waiting: Annotated[int, Ge(1), Option("Maximum source pieces that wait; more get 503.", LIMITS)] = 100_000,
    timeout: Annotated[float, Ge(0.1), Option("Seconds until a request is given up.", LIMITS)] = 120.0,
    unload_after: Annotated[
        float | None, Ge(0), Option("Load models on demand; unload them after so many idle seconds.", LIMITS)
    ] = None,
    max_loaded: Annotated[
        int | None, Ge(1), Option("Load models on demand; keep at most so many in memory.", LIMITS)
    ] = None,
    engine: Annotated[EngineName, ENGINE] = "torch",
    device: Annotated[DeviceChoice, DEVICE] = "auto",
    precision: Annotated[TranslationPrecision, PRECISION] = "auto",
    threads: Annotated[int | None, Ge(1), THREADS] = None,
    batches: Annotated[int | None, Ge(1), BATCHES] = None,
    beam: int | None = None,
    length_penalty: float | None = None,
    batch_tokens: int | None = None,
    report: Reporter = SILENT,
) -> None:
    """Translate over HTTP: a web page, and the interfaces of LibreTranslate, DeepL and Apertium.

    Call it in the main thread; it returns after SIGINT or SIGTERM.

    Args:
        own options: listed by ``help(nmt.serve)``.
        beam, length_penalty, batch_tokens: as of :meth:`nmt.Model.translate`.
        report: hears what is served, and where; and which models are loaded and unloaded.

    Raises:
        ConfigError: an argument is not allowed, the address cannot be used, two models serve the same languages, or a
            pivot language has no model into it or from it, or needs two models in memory.
        CheckpointError: a model does not exist or is damaged.
        NmtError: a package of the extra ``serve`` is missing, or a model cannot be loaded.
    """
    from nmt.machine.packages import require_package

    for module, package in _PACKAGES.items():
        require_package(module, package, what="nmt serve", advice="Install it: `pip install 'nmt-toolkit[serve]'`.")

    from nmt.loading import NamedModels
    from nmt.server.access import Access, check_origin
    from nmt.server.engine_process import load_in_process
    from nmt.server.exchange import Limits
    from nmt.server.models import ServedModel
    from nmt.server.running import bound, run
    from nmt.translation.options import TranslateOptions

    given = {"beam": beam, "length_penalty": length_penalty, "batch_tokens": batch_tokens}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    TranslateOptions.checked(options)
    for origin in allow_origin:
        check_origin(origin)
    keys = _keys(api_keys, host, public)
    access = Access(keys, requests_per_minute, allow_origin, only_loopback=not (keys or public))
    named = [NamedModels.of(each, engine) for each in ([[model] for model in models] or [[]])]
    with bound(host, port) as listening:
        served = []
        for each in named:
            for line in each.notices:
                report.notice(line)
            load = partial(load_in_process, each, device, precision, threads, report=report.notice)
            served.append(ServedModel(", ".join(map(str, each.folders)), each.check(), load, options, batches))
        address = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}/"
        run(
            served,
            listening,
            access=access,
            limits=Limits(max_characters, timeout),
            max_waiting=max_waiting,
            via=via,
            unload_after=unload_after,
            max_loaded=max_loaded,
            started=lambda found: report.notice(f"{found}: {address} (Ctrl-C to stop)"),
            report=report.notice,
        )


def _keys(path: Path | None, host: str, public: bool) -> list[str]:
    """The keys that are accepted.

    Raises:
        ConfigError: other machines could connect without one, and that was not asked for.
    """
    from nmt.server.access import is_loopback, read_keys

    keys = [] if path is None else read_keys(path)
    if not keys and not public and not is_loopback(host):
        raise ConfigError(
            f"--host {host}: other machines can connect. Give --api-keys FILE, or --public to answer without a key."
        )
    return keys
