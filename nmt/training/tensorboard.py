"""The records of ``metrics.jsonl`` as curves for TensorBoard, in ``RUN/tensorboard/``."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from nmt.checkpoint.run_folder import RunFolder
from nmt.errors import ConfigError
from nmt.writing import writing

# Where a record stands says more than how far it is: these are its place, not a curve.
_PLACES = ("update", "epoch", "seconds")


def check_tensorboard() -> None:
    """See that TensorBoard can be written to.

    Raises:
        ConfigError: it is not installed.
    """
    if importlib.util.find_spec("tensorboard") is None:
        raise ConfigError(
            "logging.tensorboard is true, but TensorBoard is not installed: `pip install tensorboard`, or leave the "
            "setting out. metrics.jsonl and `nmt report` need nothing."
        )


class TensorBoardFile:
    """Writes every number of a record as a point of the curve of its name."""

    def __init__(self, run: Path, update: int) -> None:
        """Go on after an update; points behind it, which will be made again, are hidden.

        Raises:
            ConfigError: TensorBoard is not installed.
        """
        check_tensorboard()
        from torch.utils.tensorboard import SummaryWriter

        self._folder = RunFolder(run).tensorboard
        with writing(self._folder):
            self._writer = SummaryWriter(str(self._folder), purge_step=update + 1)

    def append(self, record: dict[str, Any]) -> None:
        """Write one record.

        Raises:
            WriteError: the system refused to write this record, or one before.
        """
        kind = {"update": "train", "validation": "valid"}.get(record["kind"], record["kind"])
        with writing(self._folder):
            for name, value in record.items():
                if isinstance(value, int | float) and name not in _PLACES:
                    self._writer.add_scalar(f"{kind}/{name.removeprefix('valid_')}", value, record["update"])
            self._writer.flush()

    def close(self) -> None:
        """End the file."""
        with writing(self._folder):
            self._writer.close()
