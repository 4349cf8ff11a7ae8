"""A double of mtdata 0.5.1: what is used of its index and its parsers, with the same names and results.

Its index is ``index.json`` in the folder ``$MTDATA``: data sets by identifier, with the fields of ``Entry``. So tests
need neither the package nor its addresses. Only plain text and tab-separated text are parsed.
"""

import logging
import os
from pathlib import Path

logging.basicConfig(level=logging.INFO, format="%(message)s")
cache_dir = Path(os.environ.get("MTDATA", "~/.mtdata")).expanduser()
