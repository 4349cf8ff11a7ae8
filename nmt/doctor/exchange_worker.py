"""``python -m nmt.doctor.exchange_worker DEVICE``: one of several ranks that sum tensors of growing sizes.

The main rank prints JSON: a list of bytes and seconds.
"""

from __future__ import annotations

import json
import statistics
import sys
import time

import torch

from nmt.machine.device import choose_hardware, synchronize
from nmt.training.ranks.exchange import process_group, ranks_of_environment

_TRIALS = 5
# The gradients of base and big with 37,000 pieces are the last two.
_MEGABYTES = {"cpu": (8, 64), "cuda": (8, 64, 256, 900)}


def main() -> None:
    """Time sums over all ranks."""
    ranks = ranks_of_environment()
    device = choose_hardware(
        sys.argv[1],  # type: ignore[arg-type]
        "fp32",
        local_rank=ranks.local_rank,
        local_ranks=ranks.local_size,
    ).device
    found = []
    with process_group(ranks, device):
        for megabytes in _MEGABYTES[device.type]:
            tensor = torch.ones(megabytes * 250_000, device=device)
            seconds = []
            for _ in range(1 + _TRIALS):
                synchronize(device)
                begin = time.perf_counter()
                ranks.all_reduce(tensor)
                synchronize(device)
                seconds.append(time.perf_counter() - begin)
                tensor.fill_(1.0)
            found.append((megabytes * 1_000_000, statistics.median(seconds[1:])))
        if ranks.is_main:
            sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
