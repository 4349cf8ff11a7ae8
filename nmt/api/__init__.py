"""The Python API: what ``nmt`` exports, and what its commands call."""
