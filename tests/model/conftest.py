"""The model's tests run with each choice of kernels, those for other devices too: they compute on a CPU as well."""

import pytest

from tests.policies import POLICIES


@pytest.fixture(params=POLICIES.values(), ids=POLICIES)
def kernels(request):
    """A choice of kernels."""
    return request.param
