"""Some files run with the kernels of other devices too."""

from tests.policies import every_policy  # noqa: F401
