"""``nmt serve``."""

from __future__ import annotations

from typing import Any

from nmt.api import serving
from nmt.cli.options import command
from nmt.cli.progress_lines import CONSOLE
from nmt.translation.options import TranslateOptions


@command(serving.serve, TranslateOptions, only=("beam", "length_penalty", "batch_tokens"))
def serve(given: dict[str, Any]) -> None:
    """Each model serves its own languages. Clients of these services work unchanged with the address of this server.

    Example: nmt serve runs/toy-en-de-tiny
    """
    serving.serve(**given, report=CONSOLE)
