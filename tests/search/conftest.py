"""Searches run with the kernels of other devices too."""

from tests.policies import policy_fixture

every_policy = policy_fixture("cpu")
