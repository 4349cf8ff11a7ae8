"""Forward and backward passes that a GPU records once per size of a micro-batch, and then runs whole (CUDA graphs).

A pass over few rows is a thousand small kernels, which a host launches more slowly than a GPU runs them. A recording is
launched at once. Only sentences that lie one after the other have sizes that come again.

Recordings are made during training, when a size comes for the second time: it is not known before which sizes are
frequent, and recording takes longer than running once. All recordings share one pool of memory. It holds the largest
pass, and more if a larger size is recorded after a smaller one. Passes that are not recorded need their memory beside
it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

import torch

from nmt.config import TrainingConfig
from nmt.device import Hardware
from nmt.errors import ConfigError
from nmt.kernels.recording import OLDEST_TORCH, Recorder, Work
from nmt.model.transformer import Transformer
from nmt.training.input.model_inputs import ModelInputs, Sizes

PASSES_UNTIL_RECORDED = 2
"""Of all passes over micro-batches of a size, the one with this number is recorded."""
MAX_RECORDINGS = 64
"""Sizes beyond this number are not recorded: each recording keeps its kernels' arguments on the GPU, and its inputs."""


class RecordedPasses:
    """Runs passes, and records them by the sizes of their inputs."""

    def __init__(
        self,
        make_recorder: Callable[[], Recorder],
        run: Callable[[ModelInputs], None],
        *,
        max_recordings: int = MAX_RECORDINGS,
    ) -> None:
        """Record ``run``, which leaves its results in tensors that stay where they are.

        Its random numbers must come from the device's generator, which is seeded before each pass.
        """
        self._make_recorder = make_recorder
        self._run = run
        self._max = max_recordings
        self._is_stopped = False
        self._recorder = make_recorder()
        self._passes: Counter[Sizes] = Counter()
        self._recordings: dict[Sizes, tuple[ModelInputs, Work]] = {}

    def __len__(self) -> int:
        """The number of recordings."""
        return len(self._recordings)

    @property
    def failure(self) -> str | None:
        """Why the device cannot record passes; None if it can."""
        return self._recorder.failure

    @property
    def is_stopped(self) -> bool:
        """Whether :meth:`stop` was called."""
        return self._is_stopped

    def run(self, inputs: ModelInputs) -> None:
        """Make a pass; it is recorded, or a recording of its sizes is run instead."""
        sizes = inputs.sizes
        if sizes in self._recordings:
            recorded, replay = self._recordings[sizes]
            recorded.overwrite(inputs)
            replay()
            return
        self._passes[sizes] += 1
        is_frequent = self._passes[sizes] >= PASSES_UNTIL_RECORDED
        if is_frequent and len(self) < self._max and not self._is_stopped and self.failure is None:
            self._recordings[sizes] = inputs, self._recorder.record(partial(self._run, inputs))
        else:
            self._run(inputs)

    def forget(self) -> None:
        """Drop all recordings, so that their memory can be released."""
        self._is_stopped = False
        self._passes.clear()
        self._recordings.clear()
        self._recorder = self._make_recorder()  # with memory of its own

    def stop(self) -> None:
        """Drop all recordings, and record no more until :meth:`forget`."""
        self.forget()
        self._is_stopped = True


def check_recording(model: Transformer, training: TrainingConfig, hardware: Hardware) -> None:
    """Check that passes can be recorded, if the settings ask for it.

    Raises:
        ConfigError: they cannot; the message names the reason.
    """
    if not training.cuda_graphs:
        return
    if model.kernels.recorder is None:
        reason = "this GPU or its driver cannot record CUDA graphs"
        if hardware.device.type != "cuda":
            reason = f"needs a CUDA GPU, but training runs on {hardware.device}"
        elif torch.__version__ < OLDEST_TORCH:
            reason = f"needs torch {OLDEST_TORCH} or newer, but this is {torch.__version__}"
        raise ConfigError(f"training.cuda_graphs: {reason}. Set training.cuda_graphs=false.")
    if not model.takes_sentence_rows:
        raise ConfigError(
            "training.cuda_graphs needs batches without padding, whose sizes come again: bf16 or fp16, "
            "training.deterministic=false, and a model with scaled_dot_product attention over the whole "
            "sentence and without attention_dropout. Set training.cuda_graphs=false, or change these settings."
        )
