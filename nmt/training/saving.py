"""Checkpoints written in the background: training waits for a copy in memory, not for the disk."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nmt.checkpoint.bundle import TrainingState, save_bundle
from nmt.checkpoint.lineage import CHECKPOINT
from nmt.checkpoint.run_folder import RunFolder, checkpoints, prune, update_links
from nmt.checkpoint.scores import Score
from nmt.config import CheckpointsConfig, Config
from nmt.data.vocab_pair import VocabularyPair
from nmt.io.writing import WriteError
from nmt.record import RECORD, Record


@contextmanager
def telling_where_to_resume(run: Path) -> Iterator[None]:
    """Add to a write error the checkpoint from which the run can be resumed.

    Raises:
        WriteError: the error of the body.
    """
    try:
        yield
    except WriteError as error:
        newest = max(checkpoints(run), default=None)
        place = "its beginning" if newest is None else f"update {newest:,}"
        error.advise(f"Then run `nmt train --resume {run}`, which resumes from {place}.")
        raise


def tidy(run: Path, scores: Mapping[int, Score], settings: CheckpointsConfig | None = None) -> str | None:
    """Update the links to the newest and the best checkpoint, then delete checkpoints that need not be kept.

    Args:
        settings: which checkpoints to keep; None deletes nothing.

    Returns:
        A warning if something failed. The run can continue, because its checkpoints are safe; the next start tries
        again.
    """
    try:
        update_links(run, scores)
        if settings is not None:
            prune(run, scores, settings)
    except (OSError, WriteError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.filename is None else error
        return f"{run}: links or old checkpoints could not be updated ({reason})."
    return None


class CheckpointWriter:
    """Writes the checkpoints of a run, one after the other, in a thread."""

    def __init__(self, run: Path, config: Config, vocab: VocabularyPair, training: Record | None) -> None:
        self._run = run
        self._training = training
        self._config = config
        self._vocab = vocab
        self._copies: dict[str, Tensor] = {}
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None
        self.warnings: list[str] = []
        """Problems other than with the checkpoints themselves. The loop reports and removes them."""

    def save(
        self,
        update: int,
        weights: Mapping[str, Tensor],
        training: Mapping[str, Tensor],
        values: Mapping[str, Any],
        scores: Mapping[int, Score],
    ) -> None:
        """Copy the tensors and start to write a checkpoint. Waits first if the previous one is still being written.

        Raises:
            WriteError: the previous checkpoint could not be written.
        """
        self.finish()
        self._copy({f"model {name}": tensor for name, tensor in weights.items()})
        self._copy({f"training {name}": tensor for name, tensor in training.items()})
        arguments = (update, list(weights), list(training), dict(values), dict(scores))
        self._thread = threading.Thread(target=self._write, args=arguments, name="checkpoint")
        self._thread.start()

    def check(self) -> None:
        """Raise the error of the last checkpoint, if there was one.

        Raises:
            WriteError: the checkpoint could not be written.
        """
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def finish(self) -> None:
        """Wait until the checkpoint is on disk.

        Raises:
            WriteError: the checkpoint could not be written.
        """
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.check()

    def _copy(self, tensors: Mapping[str, Tensor]) -> None:
        # Memory is reused, because allocating new pages takes longer than the copy.
        for name, tensor in tensors.items():
            if name not in self._copies:
                self._copies[name] = torch.empty(tensor.shape, dtype=tensor.dtype)
            self._copies[name].copy_(tensor.detach())

    def _record(self, folder: Path, update: int) -> Record:
        # The settings lie beside it, in config.yaml.
        training = [] if self._training is None else [self._training.model_copy(update={"settings": {}})]
        return Record(kind=CHECKPOINT, path=str(folder), facts={"update": update}, made_from=tuple(training))

    def _write(
        self,
        update: int,
        weight_names: list[str],
        training_names: list[str],
        values: dict[str, Any],
        scores: dict[int, Score],
    ) -> None:
        """Write a checkpoint, then update the links, then delete old checkpoints.

        In this order, a crash at any moment leaves complete checkpoints and valid links.
        """
        try:
            weights = {name: self._copies[f"model {name}"] for name in weight_names}
            state = TrainingState({name: self._copies[f"training {name}"] for name in training_names}, values)
            folder = RunFolder(self._run).checkpoint(update)
            notes = {RECORD: self._record(folder, update).stored()}
            save_bundle(folder, weights, self._config, self._vocab, training=state, notes=notes)
        except Exception as error:  # check() or finish() raises it in the loop's thread
            self._error = error
            return
        if warning := tidy(self._run, scores, self._config.checkpoints):
            self.warnings.append(warning)
