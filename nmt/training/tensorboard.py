"""The records of ``metrics.jsonl`` as curves for TensorBoard, in ``RUN/tensorboard/``."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from nmt.checkpoint.run_folder import RunFolder
from nmt.errors import ConfigError
from nmt.writing import writing

# These numbers say when a record was made, so they are not drawn as curves.
_POSITIONS = ("update", "epoch", "seconds")


def check_tensorboard() -> None:
    """Check that TensorBoard is installed.

    Raises:
        ConfigError: TensorBoard is not installed.
    """
    if importlib.util.find_spec("tensorboard") is None:
        raise ConfigError(
            "logging.tensorboard is true, but TensorBoard is not installed: `pip install tensorboard`, or leave the "
            "setting out. metrics.jsonl and `nmt report` do not need it."
        )


class TensorBoardFile:
    """Writes each number of a record as a point on the curve of that name."""

    def __init__(self, run: Path, update: int) -> None:
        """Continue after an update. Points of later updates, which will be repeated, are hidden.

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
            WriteError: this record, or an earlier one, could not be written.
        """
        kind = {"update": "train", "validation": "valid"}.get(record["kind"], record["kind"])
        with writing(self._folder):
            for name, value in record.items():
                if isinstance(value, int | float) and name not in _POSITIONS:
                    self._writer.add_scalar(f"{kind}/{name.removeprefix('valid_')}", value, record["update"])
            self._writer.flush()

    def close(self) -> None:
        """Close the file."""
        with writing(self._folder):
            self._writer.close()
