"""Forward and backward passes that a GPU records once per size of a micro-batch, and then runs whole (CUDA graphs).

A pass over few rows is a thousand small kernels, which a host launches more slowly than a GPU runs them. A recording is
launched at once. Sentences that lie one after the other have few sizes, so most micro-batches find a recording.

Recordings are made while training, when a size comes for the second time: which sizes are frequent is not known before,
and to record takes longer than to run once. All recordings share memory, which is that of the largest; passes that are
not recorded need theirs beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from nmt.config import TrainingConfig
from nmt.device import Hardware
from nmt.errors import ConfigError
from nmt.kernels.recording import Recorder, Work
from nmt.model.transformer import Transformer
from nmt.training.input.model_inputs import ModelInputs, Sizes

MEETINGS = 2
"""A micro-batch is recorded when this many of its size have come."""
MOST_RECORDINGS = 64
"""Sizes beyond this number are not recorded: each recording keeps its kernels' arguments on the GPU, and its inputs."""


class RecordedPasses:
    """Runs passes, and records them by the sizes of their inputs."""

    def __init__(
        self,
        make_recorder: Callable[[], Recorder],
        run: Callable[[ModelInputs], None],
        *,
        most_recordings: int = MOST_RECORDINGS,
    ) -> None:
        """Record ``run``, which leaves its results in tensors that stay where they are.

        Its random numbers must come from the device's generator, which is seeded before each pass.
        """
        self._make_recorder = make_recorder
        self._run = run
        self._most = most_recordings
        self._recorder = make_recorder()
        self._met: set[Sizes] = set()
        self._recordings: dict[Sizes, tuple[ModelInputs, Work]] = {}

    def __len__(self) -> int:
        """The number of recordings."""
        return len(self._recordings)

    def run(self, inputs: ModelInputs) -> None:
        """Make a pass; it is recorded, or a recording of its sizes is run instead."""
        sizes = inputs.sizes
        if sizes in self._recordings:
            recorded, replay = self._recordings[sizes]
            recorded.overwrite(inputs)
            replay()
        elif sizes in self._met and len(self) < self._most:
            self._recordings[sizes] = inputs, self._recorder.record(partial(self._run, inputs))
        else:
            self._met.add(sizes)
            self._run(inputs)

    def forget(self) -> None:
        """Drop all recordings, so that their memory can be released."""
        self._met.clear()
        self._recordings.clear()
        # Another one, since the memory of a recording that failed belongs to its recorder.
        self._recorder = self._make_recorder()


def check_recording(model: Transformer, training: TrainingConfig, hardware: Hardware) -> None:
    """Check that passes can be recorded, if the settings ask for it.

    Raises:
        ConfigError: they cannot; the message names the reason.
    """
    if not training.cuda_graphs:
        return
    if model.kernels.recorder is None:
        raise ConfigError(
            f"training.cuda_graphs needs a CUDA GPU that records, but training runs on {hardware.device}: "
            "set training.cuda_graphs=false"
        )
    if not model.takes_sentence_rows:
        raise ConfigError(
            "training.cuda_graphs needs batches without padding, whose sizes come again: bf16 or fp16, torch 2.10 or "
            "newer, training.deterministic=false, and a model with scaled_dot_product attention over the whole "
            "sentence and without attention_dropout. Set training.cuda_graphs=false, or change these settings"
        )
