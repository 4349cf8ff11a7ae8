"""Checkpoints written in the background: training waits for a copy in memory, not for the disk."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
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
from nmt.training.ranks.exchange import NO_OTHERS, Ranks

SECONDS_UNTIL_TRIED = 60.0
"""How long after a checkpoint for which the disk had no room it is tried again."""
LONGEST_WAIT = 24 * 3600.0
"""How many seconds a run waits at its end for room for its last checkpoint."""


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
    """Writes the checkpoints of a run, one after the other, in a thread.

    Where the disk has no room, training goes on: the checkpoint, or a newer one, is tried again.
    """

    def __init__(
        self,
        run: Path,
        config: Config,
        vocab: VocabularyPair,
        training: Record | None,
        tell: Callable[[str], None] = lambda _: None,
        is_stopping: Callable[[], bool] = lambda: False,
        ranks: Ranks = NO_OTHERS,
    ) -> None:
        """Take what all checkpoints share.

        Args:
            tell: told that the disk has no room, and that it has room again.
            is_stopping: whether this rank was asked to stop: then no rank waits for room.
            ranks: those that wait for the one that saves.
        """
        self._run = run
        self._ranks = ranks
        self._tell = tell
        self._is_stopping = is_stopping
        self._training = training
        self._config = config
        self._vocab = vocab
        self._copies: dict[str, Tensor] = {}
        self._thread: threading.Thread | None = None
        self._write: Callable[[], None]
        self._error: Exception | None = None
        self._is_full = False
        self._tried = 0.0
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
        self._join()
        self._lacks_room()  # the older checkpoint is given up
        self._copy({f"model {name}": tensor for name, tensor in weights.items()})
        self._copy({f"training {name}": tensor for name, tensor in training.items()})
        self._write = partial(self._save, update, list(weights), list(training), dict(values), dict(scores))
        self._start()

    def check(self) -> None:
        """Raise the error of the last checkpoint, if there was one. If the disk had no room for it, try again.

        Raises:
            WriteError: the checkpoint could not be written for another reason.
        """
        if self._thread is not None and self._thread.is_alive():
            return
        if self._lacks_room():
            self._try_again()
        elif self._is_full:
            self._is_full = False
            self._tell("There is room again: the checkpoint is saved.")

    def finish(self) -> None:
        """Wait on all ranks until the checkpoint is on disk: for room at most :data:`LONGEST_WAIT`, or until a signal.

        Raises:
            WriteError: the checkpoint could not be written.
        """
        self._ranks.allow_long_waits(True)
        self._join()
        began = time.monotonic()
        if self._lacks_room() and not self._is_stopping():
            self._tell(
                f"The run waits up to {LONGEST_WAIT / 3600:.0f} hours for room. Ctrl-C ends it without the checkpoint."
            )
        while self._waits_for_room(began):
            time.sleep(min(0.5, SECONDS_UNTIL_TRIED))
            self._try_again()
        self.finish_now()

    def finish_now(self) -> None:
        """Wait until the checkpoint is on disk. If the disk has no room for it, try once more.

        Raises:
            WriteError: the checkpoint could not be written.
        """
        self._join()
        if self._lacks_room():
            self._start()
            self._join()
            if self._lacks_room():
                raise self._take_error()
        self.check()

    def _waits_for_room(self, began: float) -> bool:
        self._join()
        gives_up = self._is_stopping() or time.monotonic() - began >= LONGEST_WAIT
        # The others would wait in another exchange for half an hour only. A signal to one rank ends the wait of all.
        lack_room, give_up = zip(*self._ranks.gather((self._lacks_room(), gives_up)), strict=True)
        return any(lack_room) and not any(give_up)

    def _start(self) -> None:
        self._error, self._tried = None, time.monotonic()
        self._thread = threading.Thread(target=self._write, name="checkpoint")
        self._thread.start()

    def _try_again(self) -> None:
        if self._lacks_room() and time.monotonic() - self._tried >= SECONDS_UNTIL_TRIED:
            self._start()

    def _join(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _lacks_room(self) -> bool:
        """Whether the disk had no room for the checkpoint, which is told once.

        Raises:
            WriteError: the checkpoint could not be written for another reason.
        """
        if self._error is None:
            return False
        if not (isinstance(self._error, WriteError) and self._error.lacks_room):
            raise self._take_error()
        if not self._is_full:
            self._is_full = True
            self._error.advise(f"The checkpoint is tried again every {SECONDS_UNTIL_TRIED:.0f} seconds.")
            self._tell(str(self._error))
        return True

    def _take_error(self) -> Exception:
        error, self._error, self._is_full = self._error, None, False
        assert error is not None
        return error

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

    def _save(
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
