"""Translations run with the kernels of other devices too."""

from tests.policies import every_policy

every_policy = every_policy("cpu")
