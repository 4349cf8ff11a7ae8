"""The log of a run: records for ``metrics.jsonl``, for TensorBoard and for the listener."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nmt.checkpoint.run_folder import RunFolder
from nmt.config import Config
from nmt.io.writing import WriteError
from nmt.training.listener import Listener
from nmt.training.metrics_file import MetricsFile
from nmt.training.progress import Progress
from nmt.training.tensorboard import TensorBoardFile


class RunLog:
    """Records what happens in a run and tells the listener. On ranks other than the main one it does nothing."""

    def __init__(self, run: Path, config: Config, listener: Listener, progress: Progress, *, is_main: bool) -> None:
        """Open the files.

        Raises:
            ConfigError: the settings ask for TensorBoard, which is not installed.
            WriteError: its folder could not be made.
        """
        self._listener = listener
        self._progress = progress
        self._is_main = is_main
        self._metrics = MetricsFile(RunFolder(run).metrics)
        self._tensorboard = TensorBoardFile(run, progress.update) if config.logging.tensorboard and is_main else None
        self._limits = (config.training.max_updates, config.training.max_minutes)

    @contextmanager
    def open(self) -> Iterator[None]:
        """Tell that the run starts; close the files when the body ends."""
        if self._is_main:
            self._listener.started(self._progress.update, *self._limits)
        try:
            yield
        finally:
            if self._tensorboard is not None:
                self._tensorboard.close()

    def progressed(self) -> None:
        """Tell that an update is done."""
        if self._is_main:
            self._listener.progressed(self._progress.update, self._progress.seconds)

    def record(self, record: dict[str, Any]) -> None:
        """Write a record of any kind.

        Raises:
            WriteError: the system refused to write it.
        """
        if self._is_main:
            self._metrics.append(record)
            self._draw(record)
            self._listener.recorded(record)

    def _draw(self, record: dict[str, Any]) -> None:
        if self._tensorboard is None:
            return
        try:
            self._tensorboard.append(record)
        except WriteError as error:
            if not error.lacks_room:
                raise
            self._tensorboard = None  # it writes nothing after an error
            error.advise("TensorBoard's curves end here; metrics.jsonl has all records.")
            self._listener.noticed(str(error))

    def flush(self) -> None:
        """Write the records for which the disk had no room.

        Raises:
            WriteError: it still has none.
        """
        self._metrics.flush()

    def event(self, event: str, message: str, **details: Any) -> None:
        """Record something out of the ordinary and tell it to people.

        Raises:
            WriteError: the system refused to write it.
        """
        record = {"kind": "event", "update": self._progress.update, "event": event, "message": message}
        self.record(record | details)
        if self._is_main:
            self._listener.noticed(message)
