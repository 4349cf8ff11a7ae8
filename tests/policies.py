"""The choices of kernels (nmt/kernels/policy.py): those for other devices compute on a CPU too, so tests run with each.

Tests of the model take the fixture ``kernels``. Tests of training, search and translation make models in many places;
files of them say ``pytestmark = EVERY_POLICY``, and the models that they make themselves take ``chosen()``.
"""

import dataclasses
from typing import Any

import pytest
import torch

from nmt.checkpoint import bundle
from nmt.kernels.flash_attention import masked_attention
from nmt.kernels.policy import Kernels, choose_kernels
from nmt.training.start import resume
from tests.recording_double import DoubleOfRecorder

# Where there is a GPU, its recorder would be chosen, but these tests compute on the CPU.
POLICIES = {"plain": Kernels()} | {
    device: dataclasses.replace(choose_kernels(torch.device(device)), recorder=None)
    for device in ("cpu", "cuda", "mps")
}
# A GPU's flash attention and its recorder (CUDA graphs) are those of a GPU alone; here doubles stand in for them.
POLICIES["cuda-16-bit"] = dataclasses.replace(
    POLICIES["cuda"], packed_attention=masked_attention, recorder=DoubleOfRecorder
)

_CURRENT = {"kernels": Kernels()}

EVERY_POLICY = pytest.mark.usefixtures("every_policy")


def policy_fixture(*in_short: str) -> Any:
    """A fixture: every model that takes ``chosen()``, or that chooses kernels for its device, takes these.

    Args:
        in_short: names of the policies that ``make test`` takes too; the others are slow tests.
    """

    @pytest.fixture(
        params=[pytest.param(name, marks=() if name in in_short else pytest.mark.slow) for name in POLICIES]
    )
    def every_policy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
        name = request.param

        def choose(device: torch.device | None, products: torch.dtype | None = None, **options: bool) -> Kernels:
            if name == "cuda-16-bit":
                return POLICIES[name]
            if name == "plain":
                return Kernels()
            return dataclasses.replace(choose_kernels(torch.device(name), products, **options), recorder=None)

        monkeypatch.setitem(_CURRENT, "kernels", POLICIES[name])
        for chooser in (resume, bundle):
            monkeypatch.setattr(chooser, "choose_kernels", choose)

    return every_policy


def chosen() -> Kernels:
    """The kernels of the test that runs."""
    return _CURRENT["kernels"]
