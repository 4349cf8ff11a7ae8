"""What a device is asked for, it can do."""

import pytest
import torch

from nmt.device import choose_hardware
from nmt.errors import ConfigError


def test_a_precision_that_the_device_lacks_is_refused(monkeypatch):
    ones = torch.ones

    def without_bf16(*sizes, dtype, device):
        if dtype is torch.bfloat16:
            raise TypeError("BFloat16 is not supported on this device")
        return ones(*sizes, dtype=dtype, device=device)

    monkeypatch.setattr(torch, "ones", without_bf16)
    with pytest.raises(ConfigError, match="--precision bf16 is not supported on cpu here: use --precision fp32"):
        choose_hardware("cpu", "bf16")
    assert choose_hardware("cpu", "fp32").precision == "fp32"
