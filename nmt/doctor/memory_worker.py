"""``python -m nmt.doctor.memory_worker``: an update in a process that may not have enough memory for it.

Prints JSON: whether the system limits memory, what the micro-batch was halved to, and how far its gradients are from
those with enough memory.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

import torch

from nmt.device import choose_hardware
from nmt.doctor.checks import VOCAB_SIZE, joined_gradients, random_batch, small_config
from nmt.kernels.policy import choose_kernels
from nmt.model.transformer import Transformer
from nmt.training.learner import Learner

_PAIRS, _LONGEST = 512, 64
# Less than the update takes, more than an eighth of it.
_SPARE_BYTES = 150 << 20


def main() -> None:
    """Compute gradients with little memory, then with all of it, and compare them."""
    hardware = choose_hardware("cpu", "fp32", 1)
    config, batch = small_config(), random_batch(_PAIRS, _LONGEST)
    torch.manual_seed(1)
    model = Transformer(config.model, VOCAB_SIZE, choose_kernels(hardware.device, hardware.autocast_dtype)).train()
    learner = Learner(model, config.optimizer, hardware, label_smoothing=0.1, seed=1)
    # Whatever is loaded or started on first use is there before memory becomes scarce.
    learner.compute_gradients([random_batch(2, 8)], update=1, target_tokens=batch.target_tokens)

    def gradients() -> torch.Tensor:
        learner.compute_gradients([batch], update=1, target_tokens=batch.target_tokens)
        return joined_gradients(learner).double()

    used = _address_space()
    found: dict[str, object] = {
        "is_limited": used is not None, "positions": batch.positions, "halved_to": None, "off": 0.0
    }  # fmt: skip
    if used is not None:
        _, greatest = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (used + _SPARE_BYTES, greatest))
        halved = gradients()
        resource.setrlimit(resource.RLIMIT_AS, (greatest, greatest))
        found["halved_to"], learner.micro_batch_limit = learner.micro_batch_limit, None
        whole = gradients()
        found["off"] = ((halved - whole).norm() / whole.norm()).item()
    sys.stdout.write(json.dumps(found) + "\n")


def _address_space() -> int | None:
    """The bytes that this process has mapped; None if the system does not say, and so would not limit them."""
    try:
        return int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
    except (OSError, ValueError):
        return None


if __name__ == "__main__":
    main()
