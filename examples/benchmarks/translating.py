"""Which settings of other toolkits translate beside ours, and the models that they read."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

from marian import to_marian
from translating_speed import Setting, write_for_ctranslate2

from nmt.checkpoint.bundle import Bundle
from nmt.machine.packages import require_package
from nmt.option_fields import Precision

PEERS = ("ctranslate2", "transformers")
_PROGRAM = (str(Path(__file__).with_name("translating_peers.py")),)


def installed_peers() -> list[str]:
    """The toolkits that are installed."""
    return [name for name in PEERS if importlib.util.find_spec(name) is not None]


def peer_settings(peers: Sequence[str], precisions: Sequence[Precision], device: str, threads: int) -> list[Setting]:
    """The settings of other toolkits.

    CTranslate2 computes in fp32 and int8 (on a GPU also fp16), with one worker and on a CPU also with one per thread;
    transformers in fp32 and in those of our precisions that are floating point.

    Raises:
        NmtError: a toolkit is not installed.
    """
    for peer in peers:
        require_package(peer, peer, what=f"--against {peer}", advice=f"Install it: `pip install {peer}`.")
    settings = []
    if "ctranslate2" in peers and device == "cpu":
        for name in ("float32", "int8"):
            settings += [Setting("ctranslate2", name, workers, _PROGRAM) for workers in dict.fromkeys([1, threads])]
    elif "ctranslate2" in peers:
        settings += [Setting("ctranslate2", name, 1, _PROGRAM) for name in ("float32", "float16", "int8_float16")]
    if "transformers" in peers:
        taken = [precision for precision in dict.fromkeys(["fp32", *precisions]) if precision != "int8"]
        settings += [Setting("transformers", precision, 1, _PROGRAM) for precision in taken]
    return settings


def prepare(folder: Path, bundle: Bundle, peers: Sequence[str]) -> None:
    """Write the models that the other toolkits read.

    Raises:
        NmtError: a toolkit cannot express the model.
    """
    if "ctranslate2" in peers:
        for precision in ("float32", "int8"):
            write_for_ctranslate2(folder, bundle, precision)
    if "transformers" in peers:
        to_marian(bundle)  # raises before anything is measured if MarianMT cannot express the model
