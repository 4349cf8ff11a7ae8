"""One update of the parameters (section 5.3).

The gradients are summed over micro-batches and ranks and divided once by the number of target tokens; then Adam makes
a step. A failed update changes nothing: a micro-batch that does not fit into memory is halved and all gradients are
computed again; if a gradient is not finite, parameters and moments stay as they are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from nmt.config import OptimizerConfig
from nmt.data.batching import Batch, halves
from nmt.device import Hardware, is_out_of_memory, release_memory
from nmt.errors import TrainingError
from nmt.kernels.working_weights import WorkingWeights
from nmt.model.transformer import Transformer
from nmt.training.device_clock import DeviceClock
from nmt.training.gradients import GradientBuffer, OverlappedGradientBuffer, ShardedGradientBuffer
from nmt.training.input.model_inputs import ModelInputs, model_inputs
from nmt.training.loss import Losses, label_smoothed_loss, r_drop_loss
from nmt.training.loss_scale import LossScale
from nmt.training.moving_average import MovingAverage
from nmt.training.optimizer import MOMENTS, Adam
from nmt.training.ranks.exchange import NO_OTHERS, Ranks
from nmt.training.ranks.message import Message, Report, UpdateResult
from nmt.training.recorded_passes import PASSES_UNTIL_RECORDED, RecordedPasses
from nmt.training.sharded_optimizer import ShardedAdam


class Learner:
    """A model that learns, one update at a time."""

    def __init__(
        self,
        model: Transformer,
        optimizer_settings: OptimizerConfig,
        hardware: Hardware,
        *,
        label_smoothing: float,
        seed: int,
        ranks: Ranks = NO_OTHERS,
        ema_decay: float | None = None,
        r_drop: float = 0.0,
        compiled: bool = False,
        records_passes: bool = False,
        overlaps_exchange: bool | None = None,
        bucket_bytes: float = 50e6,
        shards_optimizer: bool = False,
    ) -> None:
        """Take a model on its device; parameters that do not require gradients stay as they are.

        Args:
            compiled: compile the layers.
            records_passes: record passes by the kernels' recorder (:mod:`nmt.training.recorded_passes`). Gradients are
                then sent after the backward pass: a CUDA graph gives no signal when a gradient is complete.
            overlaps_exchange: send gradients to other ranks while the backward pass computes others; by default between
                GPUs. Cores that compute have no time to exchange.
            bucket_bytes: how many bytes of gradients are sent at once during the backward pass.
            shards_optimizer: divide Adam's moments among the ranks. Gradients are then sent after the backward pass.
        """
        shards_optimizer = shards_optimizer and ranks.size > 1
        if overlaps_exchange is None:
            overlaps_exchange = ranks.size > 1 and hardware.device.type == "cuda"
        self.model = model
        self.parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
        trainable = list(self.parameters.values())
        self.average = MovingAverage(trainable, ema_decay) if ema_decay is not None else None
        self.micro_batch_limit: int | None = None
        """Positions of the largest micro-batch, where a larger one did not fit into memory."""
        self.loss_scale = LossScale.initial(hardware.precision)
        self._settings = optimizer_settings
        self._hardware = hardware
        self._label_smoothing = label_smoothing
        self._losses = partial(losses_of_two_passes, weight=r_drop) if r_drop else losses_of_inputs
        self._seed = seed
        self._ranks = ranks
        self._working = WorkingWeights(model, hardware.autocast_dtype)
        figures = Message.length(ranks)
        self._buffer: GradientBuffer
        self.optimizer: Adam
        if shards_optimizer:
            self._buffer = sharded = ShardedGradientBuffer(trainable, figures, ranks)
            self.optimizer = ShardedAdam(self.parameters, optimizer_settings, ranks, sharded)
        else:
            self._buffer = (
                OverlappedGradientBuffer(
                    trainable, figures, ranks, bucket_bytes=bucket_bytes, sources=self._working.sources
                )
                if overlaps_exchange and not records_passes
                else GradientBuffer(trainable, figures, ranks)
            )
            self.optimizer = Adam(self.parameters, optimizer_settings, ranks)
        self._message = Message(self._buffer.figures, ranks)
        self._clock = DeviceClock(hardware.device)
        self._busy_seconds = self._clock.seconds()
        """The time that a GPU worked on the previous update; None on other devices."""
        # The loss scale over the target tokens of an update. A tensor, since recorded work repeats the host's numbers.
        self._loss_factor = torch.ones((), dtype=hardware.weights_dtype, device=hardware.device)
        self._recorded: RecordedPasses | None = None
        if records_passes:
            if model.kernels.recorder is None or not model.takes_sentence_rows:
                raise ValueError("passes can be recorded by a recorder alone, and over sentences without padding")
            self._recorded = RecordedPasses(model.kernels.recorder, self._pass)
        if compiled:
            model.compile_layers()

    def update(
        self,
        batches: Sequence[Batch],
        *,
        update: int,
        target_tokens: int,
        learning_rate: float,
        report: Callable[[], Report] = Report,
    ) -> UpdateResult:
        """Make one update of the parameters.

        Every random number of micro-batch i is drawn from (seed, update, rank, i), so an update that is done again,
        after a crash or from a checkpoint, draws the same.

        If a rank runs out of memory after it has sent some of its gradients, all ranks repeat the update.

        Args:
            batches: the micro-batches of this rank; there may be none.
            target_tokens: of the whole update, over all ranks.
            report: asked when this rank's gradients are there.

        Raises:
            TrainingError: not even a single pair fits into memory.
            LostPeerError: another rank is gone.
        """
        while True:
            self._clock.start()
            is_complete = self.compute_gradients(batches, update=update, target_tokens=target_tokens, sends=True)
            self._clock.stop()
            own_report = report()
            if self._busy_seconds is not None:  # this update is still queued
                own_report = replace(own_report, busy_seconds=self._busy_seconds)
            self._message.write(batches, own_report, self.micro_batch_limit, is_complete=is_complete)
            self._buffer.sum(1 / self.loss_scale.value)
            norm = self._message.infinite_unless_complete(self._buffer.norm())
            if self._settings.clip_norm is not None:
                self._buffer.sums.mul_((self._settings.clip_norm / norm).clamp(max=1.0))
            self.optimizer.step(norm, learning_rate)
            # The host waits for the device only here, after all work was queued.
            result = self._message.result(target_tokens, norm)
            self._busy_seconds = self._clock.seconds()
            # A micro-batch that does not fit on one rank is not tried on another; a resumed run knows one limit.
            self.micro_batch_limit = result.micro_batch_limit
            if result.is_complete:
                break
        if self._hardware.precision == "fp16":
            self.loss_scale.adapt(overflowed=result.is_skipped)
        if self.average is not None and not result.is_skipped:
            self.average.update()
        return result

    def reserve_exchange(self) -> None:
        """Exchange all gradients once: the ranks' library then holds the memory that it needs for this."""
        self._buffer.clear()
        self._buffer.sum()

    def compute_gradients(
        self, batches: Sequence[Batch], *, update: int, target_tokens: int, sends: bool = False
    ) -> bool:
        """Compute this rank's part of an update's gradients into the parameters' ``grad``.

        If a micro-batch does not fit into memory, recorded passes are dropped. If it still does not fit, it is halved,
        and the limit of later ones is lowered. Each time all gradients are computed again, since the failed pass may
        have added some of its own.

        Args:
            sends: the other ranks compute theirs, so gradients may be sent as soon as they are complete. In fp16 they
                are multiplied by the loss scale until they are summed.

        Returns:
            Whether the gradients are complete. They are not if the memory ended after some had been sent: all ranks
            must repeat the update.

        Raises:
            TrainingError: not even a single pair fits into memory.
        """
        self._working.refresh()
        batches = self._within_limit(batches)
        while (unfit := self._try_to_compute(batches, update, target_tokens, sends)) is not None:
            if self._recorded is not None and not self._recorded.is_stopped:
                # Recordings keep memory. Without them the same micro-batches may fit.
                self._recorded.stop()
                release_memory(self._hardware.device)
                continue
            if len(unfit.source_BS) == 1:
                raise TrainingError(
                    f"update {update}: a single pair of {unfit.source_BS.shape[1]} source and "
                    f"{unfit.target_input_BT.shape[1]} target pieces does not fit into memory. Leave such pairs out "
                    "(`nmt build-vocab --data DATA --vocab DATA/vocab.model --max-length N`), or train a smaller model."
                )
            self.micro_batch_limit = self._positions(unfit) // 2
            release_memory(self._hardware.device)
            if self._buffer.is_sending:
                return False
            batches = self._within_limit(batches)
        return True

    def _positions(self, batch: Batch) -> int:
        """The positions that a micro-batch computes: all, or only those that hold a piece."""
        return batch.longer_side_tokens if self.model.takes_sentence_rows else batch.positions

    def _within_limit(self, batches: Sequence[Batch]) -> list[Batch]:
        if self.micro_batch_limit is None:
            return list(batches)
        waiting, fitting = list(reversed(batches)), []
        while waiting:
            batch = waiting.pop()
            if self._positions(batch) > self.micro_batch_limit and len(batch.source_BS) > 1:
                waiting.extend(reversed(halves(batch, alternating=bool(self.model.takes_sentence_rows))))
            else:
                fitting.append(batch)
        return fitting

    def _try_to_compute(self, batches: Sequence[Batch], update: int, target_tokens: int, sends: bool) -> Batch | None:
        """Returns the micro-batch that did not fit into memory, if one did not."""
        self._buffer.clear()
        scale = self.loss_scale.value
        self._loss_factor.fill_(scale / target_tokens)
        for index, batch in enumerate(batches):
            torch.manual_seed(derived_seed(self._seed, update, self._ranks.rank, index))
            if sends and index == len(batches) - 1:
                self._buffer.send_in_next_backward(1 / scale)
            try:
                inputs = model_inputs(batch, self._hardware.device, as_line=bool(self.model.takes_sentence_rows))
                (self._pass if self._recorded is None else self._recorded.run)(inputs)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                return batch
        return None

    def _pass(self, inputs: ModelInputs) -> None:
        """Add the gradients and losses of a micro-batch; nothing else that it computes outlives it."""
        losses = self._losses(self.model, inputs, self._label_smoothing, self._hardware)
        (losses.smoothed * self._loss_factor).backward()  # type: ignore[no-untyped-call]
        self._message.add_losses(losses)

    @property
    def passes_until_recorded(self) -> int:
        """The number of passes over micro-batches of a size of which the last one is recorded; 1 if none is."""
        return 1 if self._recorded is None else PASSES_UNTIL_RECORDED

    @property
    def recording_failure(self) -> str | None:
        """Why passes are not recorded although they should be; None if nothing failed."""
        return None if self._recorded is None else self._recorded.failure

    def forget_recordings(self) -> None:
        """Drop recorded passes, if there are any, and release their memory."""
        if self._recorded is not None:
            self._recorded.forget()
            release_memory(self._hardware.device)

    def weights_in_use(self) -> AbstractContextManager[None]:
        """Let the model be the one that is validated and saved, while the body runs: the moving average if there is
        one."""
        return nullcontext() if self.average is None else self.average.in_use()

    def weights(self) -> dict[str, Tensor]:
        """The tensors that are saved as the model."""
        with self.weights_in_use():
            return dict(self.model.state_dict())

    def training_tensors(self) -> dict[str, Tensor]:
        """The tensors that are saved beside the model: Adam's moments by parameter name; also the weights that learn,
        if the saved model is their average or is rounded from fp64.

        Every rank calls this; the main rank has all of them.
        """
        return self.optimizer.moments() | self._learnt()

    def checkpoint_numbers(self) -> int:
        """How many numbers a checkpoint holds."""
        moments = len(MOMENTS) * sum(parameter.numel() for parameter in self.parameters.values())
        return moments + sum(tensor.numel() for tensor in (*self.weights().values(), *self._learnt().values()))

    def _learnt(self) -> dict[str, Tensor]:
        if self.average is None and self._hardware.weights_dtype != torch.float64:
            return {}
        return {f"learnt.{name}": parameter.detach() for name, parameter in self.parameters.items()}

    def restore(self, tensors: Mapping[str, Tensor], updates: int) -> None:
        """Resume from :meth:`training_tensors`; the model already holds the tensors of :meth:`weights`.

        Every rank calls this, and then :meth:`synchronize`; the main rank's tensors are those that count.

        Args:
            updates: the number of updates made, without those that were skipped.
        """
        self.optimizer.restore(tensors, updates)
        if self.average is not None:
            self.average.restart()
        for name, parameter in self.parameters.items():
            if f"learnt.{name}" in tensors:
                parameter.data.copy_(tensors[f"learnt.{name}"])

    def synchronize(self) -> None:
        """Copy weights from the main rank."""
        averages = self.average.tensors if self.average is not None else []
        for tensor in (*self.model.state_dict().values(), *averages):
            self._ranks.copy_from_main(tensor)


def batch_losses(model: Transformer, batch: Batch, label_smoothing: float, hardware: Hardware) -> Losses:
    """Run the model on a batch and compute the two sums of its loss."""
    inputs = model_inputs(batch, hardware.device, as_line=bool(model.takes_sentence_rows))
    return losses_of_inputs(model, inputs, label_smoothing, hardware)


def losses_of_inputs(model: Transformer, inputs: ModelInputs, label_smoothing: float, hardware: Hardware) -> Losses:
    """As :func:`batch_losses`, of a batch that is on the device."""
    with hardware.autocast():
        logits_BTV = model(inputs.source_BS, inputs.target_input_BT, inputs.source_places, inputs.target_places)
        return label_smoothed_loss(logits_BTV, inputs.target_output_BT, label_smoothing)


def losses_of_two_passes(
    model: Transformer, inputs: ModelInputs, label_smoothing: float, hardware: Hardware, *, weight: float
) -> Losses:
    """As :func:`losses_of_inputs`, with the loss of R-Drop: each sentence is in the batch twice, with different
    dropout."""
    both = inputs.twice()
    with hardware.autocast():
        logits_CTV = model(both.source_BS, both.target_input_BT, both.source_places, both.target_places)
        # A line of many sentences holds those of both passes.
        logits_2NV = logits_CTV.flatten(0, 1).unflatten(0, (2, -1))
        return r_drop_loss(logits_2NV, both.target_output_BT.view(2, -1), label_smoothing, weight)


def derived_seed(*parts: int) -> int:
    """A seed of 63 bits that depends on all of the parts, and on nothing else."""
    digest = hashlib.sha256(",".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1
