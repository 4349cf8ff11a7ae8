"""All checks of ``nmt doctor`` on a real GPU."""

import pytest
import torch

from nmt.doctor.examination import examine

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def test_the_doctor_finds_nothing_wrong():
    assert examine().failed == []
