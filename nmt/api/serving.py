"""Serving from Python."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from nmt.api.arguments import Paths, Texts, checked
from nmt.errors import ConfigError
from nmt.loading import NamedModels
from nmt.machine.packages import require_package
from nmt.option_fields import DeviceChoice, EngineName, PrecisionChoice
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
    models: Paths = (),
    *,
    via: Texts = (),
    host: str = "127.0.0.1",
    port: Annotated[int, Field(ge=0, le=65_535)] = 5_000,
    api_keys: Path | None = None,
    public: bool = False,
    allow_origin: Texts = (),
    requests_per_minute: Annotated[int, Field(ge=1)] | None = None,
    max_characters: Annotated[int, Field(ge=1)] = 50_000,
    max_waiting: Annotated[int, Field(ge=1)] = 100_000,
    timeout: Annotated[float, Field(ge=0.1)] = 120.0,
    engine: EngineName = "torch",
    device: DeviceChoice = "auto",
    precision: PrecisionChoice = "auto",
    threads: Annotated[int, Field(ge=1)] | None = None,
    batches: Annotated[int, Field(ge=1)] | None = None,
    beam: int | None = None,
    length_penalty: float | None = None,
    batch_tokens: int | None = None,
    report: Reporter = SILENT,
) -> None:
    """Translate over HTTP until SIGINT or SIGTERM: a web page, and the interfaces of LibreTranslate, DeepL, Apertium.

    Call it in the main thread.

    Args:
        models: runs or bundles, which serve their own languages each; the newest run if none is given.
        via: codes of pivot languages: what no model translates is translated by two that meet in one of them.
        host, port: where to listen; ``0.0.0.0`` is all addresses of this machine, and port 0 is any free port.
        api_keys: a file of accepted keys, one per line.
        public: answer other machines without a key.
        allow_origin: web pages of other sites that may ask: ``https://example.org``, or ``*`` for all.
        requests_per_minute: for each key, or for each address if no keys are needed.
        max_characters: characters per request.
        max_waiting: source pieces that wait; further requests are refused with 503.
        timeout: seconds until a request is given up.
        engine, device, precision, threads: as of :func:`nmt.load`.
        batches: batches that are searched at once; one per thread on a CPU, and 1 on a GPU, if not given.
        beam, length_penalty, batch_tokens: as of :meth:`nmt.Model.translate`.
        report: hears what is served, and where.

    Raises:
        ConfigError: an argument is not allowed, the address cannot be used, two models serve the same languages, or a
            pivot language has no model into it or from it.
        CheckpointError: a model does not exist or is damaged.
        NmtError: a package of the extra ``serve`` is missing, or the process of a model has ended by itself.
    """
    for module, package in _PACKAGES.items():
        require_package(module, package, what="nmt serve", advice="Install it: `pip install 'nmt-toolkit[serve]'`.")

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
            loaded = load_in_process(each, device, precision, threads, report=report.notice)
            served.append(ServedModel(loaded, options, batches))
        address = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}/"
        run(
            served,
            listening,
            access=access,
            limits=Limits(max_characters, timeout),
            max_waiting=max_waiting,
            via=via,
            started=lambda found: report.notice(f"{found}: {address} (Ctrl-C to stop)"),
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
