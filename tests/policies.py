"""The choices of kernels (nmt/kernels/policy.py): those for other devices compute on a CPU too, so tests run with each.

Tests of the model take the fixture ``kernels``. Tests of training and decoding make models in many places; their files
say ``pytestmark = EVERY_POLICY``.
"""

import pytest
import torch

from nmt.checkpoint import bundle
from nmt.kernels.policy import PLAIN, Kernels, choose_kernels
from nmt.model.transformer import Transformer
from nmt.training.start import beginning

POLICIES = {"plain": PLAIN} | {device: choose_kernels(torch.device(device)) for device in ("cpu", "cuda", "mps")}

# A training or a search with the other two meets no branch that these two do not meet.
_IN_SHORT = ("cpu", "cuda")

EVERY_POLICY = pytest.mark.usefixtures("every_policy")


@pytest.fixture(params=[pytest.param(name, marks=() if name in _IN_SHORT else pytest.mark.slow) for name in POLICIES])
def every_policy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every model that is made without a choice of kernels, or chooses them for its device, takes these."""
    name = request.param

    def choose(device: torch.device | None, products: torch.dtype | None = None) -> Kernels:
        return PLAIN if name == "plain" else choose_kernels(torch.device(name), products)

    monkeypatch.setattr(Transformer.__init__, "__defaults__", (POLICIES[name],))
    for chooser in (beginning, bundle):
        monkeypatch.setattr(chooser, "choose_kernels", choose)
