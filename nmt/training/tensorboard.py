"""The records of ``metrics.jsonl`` as curves for TensorBoard, in ``RUN/tensorboard/``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nmt.checkpoint.run_folder import RunFolder
from nmt.io.writing import writing
from nmt.machine.packages import require_package

# These numbers say when a record was made, so they are not drawn as curves.
_POSITIONS = ("update", "epoch", "seconds")


def check_tensorboard() -> None:
    """Check that TensorBoard is installed and works.

    Raises:
        NmtError: it is not, or does not.
    """
    _require("tensorboard")


def _require(module: str) -> Any:
    advice = (
        "Install it: `pip install tensorboard`, or leave the setting out. metrics.jsonl and `nmt report` do not need "
        "it."
    )
    return require_package(module, "TensorBoard", what="logging.tensorboard=true", advice=advice)


class TensorBoardFile:
    """Writes each number of a record as a point on the curve of that name."""

    def __init__(self, run: Path, update: int) -> None:
        """Continue after an update. Points of later updates, which will be repeated, are hidden.

        Raises:
            NmtError: TensorBoard is not installed, or does not work.
        """
        check_tensorboard()
        summary_writer = _require("torch.utils.tensorboard").SummaryWriter
        self._folder = RunFolder(run).tensorboard
        with writing(self._folder):
            self._writer = summary_writer(str(self._folder), purge_step=update + 1)

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
