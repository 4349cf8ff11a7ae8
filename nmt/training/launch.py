"""``nmt train --nproc N``: the same command once for each rank of this machine, by way of torchrun."""

from __future__ import annotations

import dataclasses
import logging
import signal
import sys
import uuid
from collections.abc import Sequence
from typing import Any

from nmt.errors import NmtError

# For the update under way and its checkpoint, after which ranks that still run are killed.
_SECONDS_TO_SAVE = 45


def launch(arguments: Sequence[str], ranks: int) -> int:
    """Run ``python -m nmt ARGUMENTS`` as so many ranks, and wait for them.

    Returns:
        The exit code: 0; 2 after a user's mistake, which its rank has told; 128 + n after signal n.

    Raises:
        NmtError: a rank failed; names it, and how it ended.
    """
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    # What torchrun logs beside it repeats what the rank that failed has said.
    for name in [name for name in logging.root.manager.loggerDict if name.startswith("torch.distributed")]:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    settings: dict[str, Any] = {
        "min_nodes": 1,
        "max_nodes": 1,
        "nproc_per_node": ranks,
        "run_id": uuid.uuid4().hex,
        "rdzv_backend": "c10d",
        "rdzv_endpoint": "localhost:0",
        "local_addr": "localhost",
        "max_restarts": 0,
        "monitor_interval": 0.1,
        "shutdown_timeout": _SECONDS_TO_SAVE,
    }
    known = {field.name for field in dataclasses.fields(LaunchConfig)}  # the last one is not in every torch
    config = LaunchConfig(**{name: value for name, value in settings.items() if name in known})
    try:
        elastic_launch(config, sys.executable)("-m", "nmt", *arguments)
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        if failure.exitcode in (1, 2) or failure.exitcode >= 128:
            return int(failure.exitcode)
        how = f"ended with exit code {failure.exitcode}"
        if failure.exitcode < 0:
            how = f"was killed by {signal.Signals(-failure.exitcode).name}"
            if -failure.exitcode == signal.SIGKILL:
                how += " (which is also what the system does when memory runs out)"
        again = "`nmt train --resume RUN`" if "--fresh" in arguments else "the same command"
        raise NmtError(
            f"rank {rank} {how}; the other ranks were ended. Run {again} to resume from the last checkpoint."
        ) from None
    except SignalException as error:
        return 128 + int(error.sigval)
    return 0
