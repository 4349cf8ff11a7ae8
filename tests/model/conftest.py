"""The model's tests run with each choice of kernels, those for other devices too: they compute on a CPU as well."""

import pytest
import torch

from nmt.kernels.policy import PLAIN, choose_kernels

POLICIES = {"plain": PLAIN} | {device: choose_kernels(torch.device(device)) for device in ("cpu", "cuda", "mps")}


@pytest.fixture(params=POLICIES.values(), ids=POLICIES)
def kernels(request):
    """A choice of kernels."""
    return request.param
