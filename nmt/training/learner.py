"""One update: gradients summed over micro-batches and ranks, divided once by the target tokens, and a step of Adam
(section 5.3).

An update that goes wrong changes nothing: where memory does not suffice, the micro-batch is halved and the gradients
are computed anew; where a gradient is not finite, parameters and moments stay as they are.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from nmt.config import OptimizerConfig
from nmt.data.batching import Batch, halves
from nmt.device import Hardware, is_out_of_memory, release_memory, synchronize
from nmt.errors import TrainingError
from nmt.kernels.private import move_towards
from nmt.model.transformer import Transformer
from nmt.training.gradients import GradientBuffer
from nmt.training.loss import Losses, label_smoothed_loss
from nmt.training.ranks.exchange import NO_OTHERS, Ranks

_FIRST_LOSS_SCALE = 2.0**15
_UPDATES_UNTIL_LARGER_SCALE = 1_000
# What travels with the gradients: two losses, source tokens, votes to stop, the run's seconds; then of each rank its
# tokens, its seconds and its limit of a micro-batch.
_SHARED_FIGURES, _RANK_FIGURES = 5, 3


@dataclass(frozen=True)
class Report:
    """What a rank tells the others with its gradients."""

    wants_to_stop: bool = False
    run_seconds: float = 0.0
    """Of the whole run; the main rank's counts."""
    busy_seconds: float = 0.0
    """Of this update, waiting for data included, waiting for other ranks not."""


@dataclass(frozen=True)
class UpdateResult:
    """What an update came to, over all ranks; losses are means over its target tokens, in nats."""

    smoothed_loss: float
    cross_entropy: float
    target_tokens: int
    source_tokens: int
    gradient_norm: float
    """Before clipping; not finite where the update was skipped."""
    rank_tokens_per_second: tuple[float, ...]
    """Target tokens of each rank's share, by its busy seconds."""
    wants_to_stop: bool
    """Whether any rank does."""
    run_seconds: float
    """The same on every rank, so that all come to the same decisions."""

    @property
    def is_skipped(self) -> bool:
        """Whether nothing was changed, since a gradient was not finite."""
        return not math.isfinite(self.gradient_norm)


@dataclass
class LossScale:
    """What an fp16 loss is multiplied by, so that small gradients do not vanish: doubled now and then, halved when a
    gradient overflows (Micikevicius et al. 2018, Mixed Precision Training, section 3.2). 1 in other precisions."""

    value: float
    good_updates: int = 0

    def adapt(self, *, overflowed: bool) -> None:
        """Learn from an update."""
        if overflowed:
            self.value, self.good_updates = max(1.0, self.value / 2), 0
            return
        self.good_updates += 1
        if self.good_updates == _UPDATES_UNTIL_LARGER_SCALE:
            self.value, self.good_updates = self.value * 2, 0


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
        compiled: bool = False,
    ) -> None:
        """Take a model on its device; parameters that do not require gradients stay as they are."""
        self.model = model
        self.parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self.optimizer = make_optimizer(list(self.parameters.values()), optimizer_settings)
        self.averaged = [p.detach().clone() for p in self.parameters.values()] if ema_decay is not None else None
        """The moving average of the weights, in the order of :attr:`parameters`."""
        self.micro_batch_limit: int | None = None
        """Padded positions that were found not to fit are more than this."""
        self.loss_scale = LossScale(_FIRST_LOSS_SCALE if hardware.precision == "fp16" else 1.0)
        self._settings = optimizer_settings
        self._ema_decay = ema_decay
        self._hardware = hardware
        self._label_smoothing = label_smoothing
        self._seed = seed
        self._ranks = ranks
        figures = _SHARED_FIGURES + _RANK_FIGURES * ranks.size
        self._buffer = GradientBuffer(list(self.parameters.values()), figures)
        # A graph for any shape, so that few are compiled however many shapes the batches have.
        self._forward: nn.Module = torch.compile(model, dynamic=True) if compiled else model  # type: ignore[assignment]

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

        Args:
            batches: the micro-batches of this rank; there may be none.
            target_tokens: of the whole update, over all ranks.
            report: asked when this rank's gradients are there.

        Raises:
            TrainingError: not even a single pair fits into memory.
            LostPeerError: another rank is gone.
        """
        self.compute_gradients(batches, update=update, target_tokens=target_tokens)
        if self._ranks.size > 1:
            # What a rank was busy with is known when its device is done; the exchange waits for that anyway.
            synchronize(self._hardware.device)
        self._write_figures(batches, report())
        self._buffer.sum_over(self._ranks)
        norm = self._buffer.norm()
        if self._settings.clip_norm is not None:
            self._buffer.gradients.mul_((self._settings.clip_norm / norm).clamp(max=1.0))
        self._step(norm, learning_rate)
        # All is under way on the device; only now does the host wait for it.
        result = self._result(target_tokens, norm)
        if self._hardware.precision == "fp16":
            self.loss_scale.adapt(overflowed=result.is_skipped)
        if self.averaged is not None and not result.is_skipped:
            learnt = [parameter.detach() for parameter in self.parameters.values()]
            move_towards(self.averaged, learnt, 1 - (self._ema_decay or 0.0))
        return result

    def compute_gradients(self, batches: Sequence[Batch], *, update: int, target_tokens: int) -> None:
        """Compute this rank's part of an update's gradients into the parameters' ``grad``.

        A micro-batch that does not fit into memory is halved, the limit for later ones lowered, and all is computed
        anew, since the pass that failed may have left some of its gradients behind.

        Raises:
            TrainingError: not even a single pair fits into memory.
        """
        batches = self._within_limit(batches)
        while (unfit := self._try_to_compute(batches, update, target_tokens)) is not None:
            if len(unfit.source_BS) == 1:
                raise TrainingError(
                    f"update {update}: a single pair of {unfit.source_BS.shape[1]} source and "
                    f"{unfit.target_input_BT.shape[1]} target pieces does not fit into memory. Leave such pairs out "
                    "(`nmt build-vocab --data DATA --vocab DATA/vocab.model --max-length N`), or train a smaller model."
                )
            self.micro_batch_limit = unfit.positions // 2
            release_memory(self._hardware.device)
            batches = self._within_limit(batches)

    def _within_limit(self, batches: Sequence[Batch]) -> list[Batch]:
        if self.micro_batch_limit is None:
            return list(batches)
        waiting, fitting = list(reversed(batches)), []
        while waiting:
            batch = waiting.pop()
            if batch.positions > self.micro_batch_limit and len(batch.source_BS) > 1:
                waiting.extend(reversed(halves(batch)))
            else:
                fitting.append(batch)
        return fitting

    def _try_to_compute(self, batches: Sequence[Batch], update: int, target_tokens: int) -> Batch | None:
        """Returns the micro-batch that did not fit into memory, if one did not."""
        self._buffer.clear()
        scale = self.loss_scale.value
        for index, batch in enumerate(batches):
            torch.manual_seed(derived_seed(self._seed, update, self._ranks.rank, index))
            try:
                losses = batch_losses(self._forward, batch, self._label_smoothing, self._hardware)
                (losses.smoothed * (scale / target_tokens)).backward()  # type: ignore[no-untyped-call]
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                return batch
            self._buffer.figures[0] += losses.smoothed.detach()
            self._buffer.figures[1] += losses.cross_entropy
        if scale != 1.0:
            self._buffer.gradients.mul_(1 / scale)
        return None

    def _write_figures(self, batches: Sequence[Batch], report: Report) -> None:
        tokens = sum(batch.target_tokens for batch in batches)
        source_tokens = sum(batch.source_tokens for batch in batches)
        run_seconds = report.run_seconds if self._ranks.is_main else 0.0
        own = torch.zeros(self._ranks.size, _RANK_FIGURES)
        own[self._ranks.rank] = torch.tensor([tokens, report.busy_seconds, self.micro_batch_limit or 0])
        rest = torch.cat([torch.tensor([source_tokens, report.wants_to_stop, run_seconds]), own.flatten()])
        self._buffer.figures[2:] = rest.to(self._buffer.figures, non_blocking=True)

    def _step(self, norm: Tensor, learning_rate: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        if self.optimizer.defaults["fused"]:
            # The kernel itself leaves everything as it is where this is 1, so the host need not wait for the norm.
            self.optimizer.found_inf = (~torch.isfinite(norm)).float()  # type: ignore[attr-defined]
            self.optimizer.step()
        elif math.isfinite(norm.item()):
            self.optimizer.step()

    def _result(self, target_tokens: int, norm: Tensor) -> UpdateResult:
        figures = [float(figure) for figure in torch.cat([self._buffer.figures.double(), norm.double()[None]]).cpu()]
        smoothed, cross_entropy, source_tokens, stops, run_seconds = figures[:_SHARED_FIGURES]
        tokens, seconds, limits = (figures[_SHARED_FIGURES + i : -1 : _RANK_FIGURES] for i in range(_RANK_FIGURES))
        # What does not fit on one rank is not tried on another, and a resumed run knows one limit for all.
        self.micro_batch_limit = min((round(limit) for limit in limits if limit), default=None)
        return UpdateResult(
            smoothed_loss=smoothed / target_tokens,
            cross_entropy=cross_entropy / target_tokens,
            target_tokens=target_tokens,
            source_tokens=round(source_tokens),
            gradient_norm=figures[-1],
            rank_tokens_per_second=tuple(t / s if s else 0.0 for t, s in zip(tokens, seconds, strict=True)),
            wants_to_stop=stops > 0,
            run_seconds=run_seconds,
        )

    @contextmanager
    def weights_in_use(self) -> Iterator[None]:
        """Let the model be what is validated and saved while the body runs: the moving average where there is one."""
        if self.averaged is None:
            yield
            return
        learnt = [parameter.data for parameter in self.parameters.values()]
        for parameter, averaged in zip(self.parameters.values(), self.averaged, strict=True):
            parameter.data = averaged
        try:
            yield
        finally:
            for parameter, data in zip(self.parameters.values(), learnt, strict=True):
                parameter.data = data

    def weights(self) -> dict[str, Tensor]:
        """What is saved as the model."""
        with self.weights_in_use():
            return dict(self.model.state_dict())

    def training_tensors(self) -> dict[str, Tensor]:
        """What is saved beside the model: Adam's moments by parameter name and, where the model is a moving average
        or fp64, the weights that learn, as they are."""
        tensors = self._moments()
        if self.averaged is not None or self._hardware.weights_dtype == torch.float64:
            tensors |= {f"learnt.{name}": parameter.detach() for name, parameter in self.parameters.items()}
        return tensors

    def restore(self, tensors: Mapping[str, Tensor], updates: int) -> None:
        """Go on from :meth:`training_tensors`, where the model holds what :meth:`weights` gave.

        Args:
            updates: that were made, without those that were skipped.
        """
        for name, tensor in self._moments().items():
            if name in tensors:  # not so where a parameter was frozen until now
                tensor.copy_(tensors[name])
        for index, (name, parameter) in enumerate(self.parameters.items()):
            self.optimizer.state[parameter]["step"].fill_(float(updates))
            if self.averaged is not None:
                self.averaged[index].copy_(parameter.detach())
            if f"learnt.{name}" in tensors:
                parameter.data.copy_(tensors[f"learnt.{name}"])

    def synchronize(self) -> None:
        """Take over all that the main rank has learnt."""
        for tensor in (*self.model.state_dict().values(), *self.training_tensors().values(), *(self.averaged or ())):
            self._ranks.copy_from_main(tensor)

    def _moments(self) -> dict[str, Tensor]:
        return {
            f"{moment}.{name}": self.optimizer.state[parameter][moment]
            for name, parameter in self.parameters.items()
            for moment in ("exp_avg", "exp_avg_sq")
        }


def make_optimizer(parameters: Sequence[nn.Parameter], settings: OptimizerConfig) -> torch.optim.Adam:
    """Adam with its moments in place, in one fused pass where the device has it."""
    device = parameters[0].device
    fused = device.type in ("cpu", "cuda")
    betas = (settings.beta1, settings.beta2)
    optimizer = torch.optim.Adam(parameters, lr=0.0, betas=betas, eps=settings.epsilon, fused=fused)
    for parameter in parameters:
        optimizer.state[parameter] = {
            "step": torch.zeros((), dtype=torch.float32, device=device if fused else "cpu"),
            "exp_avg": torch.zeros_like(parameter, memory_format=torch.preserve_format),
            "exp_avg_sq": torch.zeros_like(parameter, memory_format=torch.preserve_format),
        }
    return optimizer


def batch_losses(model: nn.Module, batch: Batch, label_smoothing: float, hardware: Hardware) -> Losses:
    """Run the model on a batch; the two sums of its loss."""
    source_BS, target_input_BT, target_output_BT = (
        torch.as_tensor(array).to(hardware.device, non_blocking=True)
        for array in (batch.source_BS, batch.target_input_BT, batch.target_output_BT)
    )
    with hardware.autocast():
        logits_BTV = model(source_BS, target_input_BT, batch.source_lengths_B, batch.target_lengths_B)
        return label_smoothed_loss(logits_BTV, target_output_BT, label_smoothing)


def derived_seed(*parts: int) -> int:
    """A seed of 63 bits that depends on all of the parts, and on nothing else."""
    digest = hashlib.sha256(",".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def perplexity(cross_entropy: float) -> float:
    """exp of a mean cross-entropy; infinite where that is too much for a float."""
    return math.exp(cross_entropy) if cross_entropy < 700 else math.inf
