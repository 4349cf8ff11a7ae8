"""One update of the parameters (section 5.3).

The gradients are summed over micro-batches and ranks and divided once by the number of target tokens; then Adam makes
a step. An update that fails changes nothing: where a micro-batch does not fit into the memory of a rank, all ranks make
the update again from smaller ones; where a gradient is not finite, it is skipped.

:meth:`Learner.update` makes one update in three parts. :mod:`nmt.training.updates` calls these itself, since a GPU can
compute the gradients of an update (1) while the host reads the figures of the one before it (3).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from nmt.config import Config
from nmt.data.batching import Batch
from nmt.errors import NmtError, TrainingError
from nmt.machine.device import Hardware, is_out_of_memory, keep_memory, release_memory
from nmt.model.adapters import merged
from nmt.model.linear import Linear
from nmt.model.transformer import Transformer
from nmt.training.device_clock import start_clock
from nmt.training.gradients import GradientBuffer
from nmt.training.input.model_inputs import PreparedBatch, model_inputs
from nmt.training.model_loss import guided_losses, losses_of_inputs, losses_of_two_passes
from nmt.training.moving_average import MovingAverage
from nmt.training.optimizer import MOMENTS, Adam
from nmt.training.ranks.exchange import NO_OTHERS, Ranks
from nmt.training.ranks.message import Message, Report, UpdateOutcome, UpdateResult

KINDS_OF_TENSORS = (*MOMENTS, "learnt")
"""How the names of tensors begin that are saved beside the model, before the name of the parameter."""
WITHOUT_LONG_PAIRS = (
    "Leave such pairs out (`nmt build-vocab --data DATA --vocab DATA/vocab.model --max-pieces N`), or train a smaller "
    "model."
)


@dataclass(frozen=True)
class Gradients:
    """The gradients of this rank for an update, which were queued."""

    batches: Sequence[Batch]
    target_tokens: int
    loss_scale: float
    unfit: Batch | None
    """The micro-batch that did not fit into memory; the gradients are then incomplete."""
    busy_seconds: Callable[[], float | None]


@dataclass(frozen=True)
class Step:
    """A step of the optimiser that was queued, with the figures of its update."""

    target_tokens: int
    row_and_norm: Callable[[], Tensor]
    busy_seconds: Callable[[], float | None]


class Learner:
    """A model that learns, one update at a time."""

    def __init__(
        self,
        model: Transformer,
        config: Config,
        hardware: Hardware,
        ranks: Ranks = NO_OTHERS,
        *,
        overlaps_exchange: bool | None = None,
    ) -> None:
        """Take a model on its device; parameters that do not require gradients stay as they are.

        Args:
            overlaps_exchange: send gradients to other ranks while the backward pass computes others; by default between
                GPUs. Cores that compute have no time to exchange.
        """
        training = config.training
        if overlaps_exchange is None:
            overlaps_exchange = ranks.size > 1 and hardware.device.type == "cuda"
        self.model = model.train()
        self.parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
        trainable = list(self.parameters.values())
        self.average = MovingAverage(trainable, training.ema_decay) if training.ema_decay is not None else None
        self.optimizer = Adam(self.parameters, config.optimizer)
        self._clip_norm = config.optimizer.clip_norm
        self.hardware = hardware
        self._label_smoothing = training.label_smoothing
        losses = partial(losses_of_two_passes, weight=training.r_drop) if training.r_drop else losses_of_inputs
        self._is_guided = config.guides_alignment
        if config.guides_alignment:
            losses = partial(guided_losses, losses, weight=training.guided_alignment)
        self._losses = self._plain_losses = losses
        self._warning: str | None = None
        self._seed = training.seed
        self.ranks = ranks
        self._buffer = GradientBuffer(
            trainable,
            Message.length(ranks),
            ranks,
            bucket_bytes=training.bucket_megabytes * 1e6 if overlaps_exchange else None,
        )
        self._message = Message(self._buffer.figures, ranks)
        self._is_begun = False
        """Whether gradients were computed that no step has used."""
        self._busy_seconds = 0.0 if hardware.device.type == "cuda" else None
        """The time that a GPU worked on the previous update; None on other devices."""

    def update(
        self,
        batches: Sequence[Batch],
        *,
        update: int,
        target_tokens: int,
        learning_rate: float,
        loss_scale: float = 1.0,
        report: Callable[[], Report] = Report,
    ) -> UpdateResult:
        """Make one update of the parameters, or find that it must be made again from smaller micro-batches.

        Every random number of micro-batch i is drawn from (seed, update, rank, i), so an update that is done again,
        after a crash or from a checkpoint, draws the same.

        Args:
            batches: the micro-batches of this rank; there may be none.
            target_tokens: of the whole update, over all ranks.
            loss_scale: the factor of the loss in fp16. Gradients are divided by it before they are summed.
            report: asked when this rank's gradients are there.

        Raises:
            TrainingError: not even a single pair fits into memory.
            LostPeerError: another rank is gone.
        """
        gradients = self.begin(batches, update=update, target_tokens=target_tokens, loss_scale=loss_scale)
        return self.read(self.step(gradients, learning_rate, report()))

    def begin(self, batches: Sequence[Batch], *, update: int, target_tokens: int, loss_scale: float = 1.0) -> Gradients:
        """Compute this rank's gradients, the first part of an update; arguments and errors as of :meth:`update`."""
        stop_clock = start_clock(self.hardware.device)
        self._is_begun = True
        unfit = self.compute_gradients(
            batches, update=update, target_tokens=target_tokens, loss_scale=loss_scale, sends=True
        )
        return Gradients(batches, target_tokens, loss_scale, unfit, stop_clock())

    def drop(self) -> None:
        """Forget the gradients that were computed, if no step has used them. Every rank calls this."""
        if self._is_begun:
            self._buffer.finish_exchange()
        self._is_begun = False

    def step(self, gradients: Gradients, learning_rate: float, report: Report) -> Step:
        """Sum the gradients over all ranks and make a step of the optimiser, the second part of an update."""
        if self._busy_seconds is not None:  # this update is still queued
            report = replace(report, busy_seconds=self._busy_seconds)
        unfit = gradients.unfit
        fitting_tokens = None if unfit is None else _limited_tokens(unfit) // 2
        self._message.write(gradients.batches, report, fitting_tokens)
        self._buffer.all_reduce(1 / gradients.loss_scale)
        self._is_begun = False
        norm = self._message.infinite_if_again(self._buffer.norm())
        if self._clip_norm is not None:
            self._buffer.gradients.mul_((self._clip_norm / norm).clamp(max=1.0))
        self.optimizer.step(norm, learning_rate)
        return Step(gradients.target_tokens, self._message.begin_to_host(norm), gradients.busy_seconds)

    @property
    def reads_late(self) -> bool:
        """Whether the figures of an update are read after the gradients of the next one are queued.

        A GPU then need not wait for the host. fp16 reads at once: the figures decide the scale of the next loss.
        """
        return self.hardware.device.type == "cuda" and self.hardware.precision != "fp16"

    def read(self, step: Step) -> UpdateResult:
        """Read the figures of an update, its third part. Call this before the step of the next update.

        The host waits for the device here, and nowhere else.
        """
        result = Message.read(step.row_and_norm(), step.target_tokens)
        self._busy_seconds = step.busy_seconds()
        if self.average is not None and result.outcome is UpdateOutcome.DONE:
            self.average.update()
        return result

    def compile(self) -> bool:
        """Compute model and loss by one compiled graph, if that is possible: where attention needs no padding, so that
        all micro-batches have one size.

        On a GPU, a compiled graph is a CUDA graph. Where compiling fails, training goes on without, with a warning. All
        gradients come at the end of a compiled backward pass, so their exchange overlaps with nothing.
        """
        if (reason := self.why_not_compiled) is not None:
            self._stop_compiling(reason)
            return False
        # torch counts the graphs of a process, and keeps those of an earlier run with their memory.
        torch.compiler.reset()
        # Until a graph is recorded, torch takes no memory from its cache.
        release_memory(self.hardware.device)
        mode = "reduce-overhead" if self.hardware.device.type == "cuda" else None
        self._losses = torch.compile(self._plain_losses, dynamic=False, fullgraph=True, mode=mode)
        return True

    @property
    def why_not_compiled(self) -> str | None:
        """What rules out compiling; None if nothing does."""
        if self.model.packed_attention is None:
            return "that needs attention without padding, on a GPU from Ampere on in 16 bits"
        if self._is_guided:
            return "guided alignment pads sentences"
        if self.hardware.is_deterministic:  # the compiler chooses kernels by their speed, each time anew
            return "training.deterministic rules it out"
        return None

    @property
    def is_compiled(self) -> bool:
        """Whether a compiled graph computes."""
        return self._losses is not self._plain_losses

    def take_warning(self) -> str | None:
        """What has not worked since this was asked, but does not end training."""
        warning, self._warning = self._warning, None
        return warning

    def _stop_compiling(self, reason: str) -> None:
        self.close()
        self._warning = f"Model and loss are not compiled: {reason}."

    def close(self) -> None:
        """Release the graphs, which keep their memory from all else. From now on nothing is compiled."""
        if self.is_compiled:
            self._losses = self._plain_losses
            torch.compiler.reset()
            release_memory(self.hardware.device)

    def reserve_exchange(self) -> None:
        """Exchange all gradients once: the ranks' library then holds the memory that it needs for this."""
        self._buffer.clear()
        self._buffer.all_reduce()

    def fits(self, batch: Batch) -> bool:
        """Whether the forward and backward pass over a micro-batch fits into this rank's memory, by trying it.

        Raises:
            TrainingError: it is a single pair and does not fit.
        """
        return self.compute_gradients([batch], update=0, target_tokens=batch.target_tokens) is None

    def compute_gradients(
        self,
        batches: Sequence[Batch],
        *,
        update: int,
        target_tokens: int,
        loss_scale: float = 1.0,
        sends: bool = False,
    ) -> Batch | None:
        """Compute this rank's part of an update's gradients into the parameters' ``grad``, times the loss scale.

        Args:
            sends: the other ranks compute theirs, so gradients may be sent as soon as they are complete.

        Returns:
            The micro-batch that did not fit into memory, if one did not; the gradients are then incomplete.

        Raises:
            TrainingError: a single pair does not fit into memory.
        """
        self._buffer.clear()
        unfit = uncompiled = None
        for index, batch in enumerate(batches):
            torch.manual_seed(derived_seed(self._seed, update, self.ranks.rank, index))
            if sends and index == len(batches) - 1:
                self._buffer.send_in_next_backward(1 / loss_scale)
            try:
                self._pass(batch, loss_scale / target_tokens)
            except Exception as error:
                if is_out_of_memory(error):
                    unfit = batch
                    self._forget_graphs(error)
                elif self.is_compiled and not self._buffer.has_sent and not isinstance(error, NmtError):
                    uncompiled = _first_line(error)
                else:
                    raise
                break
        if uncompiled is not None:
            self._stop_compiling(uncompiled)
            return self.compute_gradients(
                batches, update=update, target_tokens=target_tokens, loss_scale=loss_scale, sends=sends
            )
        if sends:  # before anything that waits for the device, which may wait for other ranks
            self._buffer.send_rest(1 / loss_scale)
        if unfit is not None:
            release_memory(self.hardware.device)
            if unfit.pairs == 1 and unfit.longer_side_tokens > _limited_tokens(unfit) // 2:
                raise TrainingError(
                    f"update {update}: a single pair of {unfit.source_tokens} source and {unfit.target_tokens} target "
                    f"pieces does not fit into memory. {WITHOUT_LONG_PAIRS}"
                )
        return unfit

    def _forget_graphs(self, error: Exception) -> None:
        """After memory ran out: the next micro-batches have another size, and a graph may be recorded in part."""
        if self.is_compiled:
            torch.compiler.reset()
            if not isinstance(error, torch.OutOfMemoryError):  # but its context: a recording has failed
                keep_memory(self.hardware.device)

    def _pass(self, batch: Batch, factor: float) -> None:
        """Add the gradients, times a factor, and the losses of a micro-batch; nothing else that it computes outlives
        it."""
        inputs = model_inputs(batch, self.hardware.device, self.model.size_of)
        with self.hardware.autocast():
            losses = self._losses(self.model, inputs, self._label_smoothing)
        (losses.smoothed * factor).backward()  # type: ignore[no-untyped-call]
        self._message.add_losses(losses)

    def weights_in_use(self) -> AbstractContextManager[None]:
        """Let the model be the one that is validated and saved, while the body runs: the moving average if there is
        one."""
        return nullcontext() if self.average is None else self.average.in_use()

    def weights(self) -> dict[str, Tensor]:
        """The tensors that are saved as the model."""
        with self.weights_in_use():
            return merged(self.model.state_dict())

    def state_dict(self) -> dict[str, Tensor]:
        """The tensors that are saved beside the model: Adam's moments by parameter name; also the weights that learn,
        if the saved model is their average or is rounded from fp64, and adapters with the matrices that they change.
        """
        return self.optimizer.moments() | self._learnt()

    def checkpoint_numbers(self) -> int:
        """How many numbers a checkpoint holds."""
        moments = len(MOMENTS) * sum(parameter.numel() for parameter in self.parameters.values())
        return moments + sum(tensor.numel() for tensor in (*self.weights().values(), *self._learnt().values()))

    def _learnt(self) -> dict[str, Tensor]:
        is_exact = self.average is None and self.hardware.weights_dtype != torch.float64
        kept = {} if is_exact else dict(self.parameters)
        for name, module in self.model.named_modules():
            if isinstance(module, Linear) and module.adapter is not None:
                kept |= module.named_parameters(name)
        return {f"learnt.{name}": parameter.detach() for name, parameter in kept.items()}

    def load_state_dict(self, tensors: Mapping[str, Tensor], updates: int) -> None:
        """Resume from :meth:`state_dict`; the model already holds the tensors of :meth:`weights`.

        Args:
            updates: the number of updates made, without those that were skipped.
        """
        self.optimizer.load_moments(tensors, updates)
        if self.average is not None:
            self.average.restart()
        for name, parameter in self.model.named_parameters():
            if f"learnt.{name}" in tensors:
                parameter.data.copy_(tensors[f"learnt.{name}"])

    def broadcast(self) -> None:
        """Copy weights, their average and the moments from the main rank. Every rank calls this."""
        averages = self.average.tensors if self.average is not None else []
        for tensor in (*self.model.state_dict().values(), *averages, *self.optimizer.moments().values()):
            self.ranks.broadcast(tensor)


def _limited_tokens(batch: Batch) -> int:
    """The pieces of one side of a micro-batch that count towards the maximum."""
    return batch.tokens if isinstance(batch, PreparedBatch) else batch.positions


def _first_line(error: Exception) -> str:
    """What an error says first. Those of a compiler begin with the compiler's name."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and not line.endswith("raised:")]
    return (lines or [type(error).__name__])[0].rstrip(".")


def derived_seed(*parts: int) -> int:
    """A seed of 63 bits that depends on all of the parts, and on nothing else."""
    digest = hashlib.sha256(",".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1
