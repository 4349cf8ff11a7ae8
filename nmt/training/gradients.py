"""All gradients of a model in one buffer, which ranks sum together with a few figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

import torch
from torch import Tensor, nn

from nmt.training.ranks.exchange import Ranks


class GradientBuffer:
    """The gradients of the trained parameters one after the other, followed by a row of figures.

    Backward passes add to the buffer in place, because each parameter's ``grad`` is a view into it.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], figures: int, ranks: Ranks, *, spare: int = 0) -> None:
        """Allocate the buffer, filled with zeros.

        Args:
            parameters: parameters on one device with one dtype.
            figures: the number of figures that are sent with the gradients.
            spare: the number of zeros between gradients and figures.
        """
        sizes = [parameter.numel() for parameter in parameters]
        first = parameters[0]
        self._all = torch.zeros(sum(sizes) + spare + figures, dtype=first.dtype, device=first.device)
        self._ranks = ranks
        self.gradients, _, self.figures = torch.split(self._all, [sum(sizes), spare, figures])
        self._parameters = parameters
        self._sizes = sizes
        self._let_grads_be(self.gradients)

    @property
    def sums(self) -> Tensor:
        """The gradients that this rank has the sums of, after :meth:`sum`."""
        return self.gradients

    @property
    def is_sending(self) -> bool:
        """Whether gradients were sent to other ranks since :meth:`clear`."""
        return False

    def clear(self) -> None:
        """Set all gradients and figures to zero."""
        self._all.zero_()

    def send_in_next_backward(self, scale: float) -> None:
        """Allow the next backward pass, the update's last one, to send gradients as soon as they are complete.

        Args:
            scale: a factor for the gradients.
        """

    def sum(self, scale: float = 1.0) -> None:
        """Sum gradients and figures over all ranks, each rank's gradients multiplied by ``scale`` before."""
        if scale != 1.0:
            self.gradients.mul_(scale)
        self._ranks.sum(self._all)

    def norm(self) -> Tensor:
        """The Euclidean norm of all gradients together; infinite or NaN if one of them is."""
        norm: Tensor = torch.linalg.vector_norm(self.gradients)
        return norm

    def _let_grads_be(self, gradients: Tensor) -> None:
        for parameter, part in zip(self._parameters, torch.split(gradients, self._sizes), strict=True):
            parameter.grad = part.view_as(parameter)


class ShardedGradientBuffer(GradientBuffer):
    """Gives each rank the sums of its slice of the gradients alone. All slices have the same size."""

    def __init__(self, parameters: Sequence[nn.Parameter], figures: int, ranks: Ranks) -> None:
        """As :class:`GradientBuffer`."""
        numbers = sum(parameter.numel() for parameter in parameters)
        self._size = -(-numbers // ranks.size)
        padded = self._size * ranks.size
        super().__init__(parameters, figures + ranks.size, ranks, spare=padded - numbers)
        self.whole = self._all[:padded]
        """The gradients and the zeros that fill the last slices."""
        self._exchanged = self.figures
        self.figures, self._norms = torch.split(self.figures, [figures, ranks.size])

    @property
    def sums(self) -> Tensor:
        """As :attr:`GradientBuffer.sums`: those of this rank's slice."""
        return self.own_slice(self.whole)

    def own_slice(self, whole: Tensor) -> Tensor:
        """This rank's slice of a tensor as large as :attr:`whole`."""
        return whole[self._ranks.rank * self._size :][: self._size]

    def sum(self, scale: float = 1.0) -> None:
        """As :meth:`GradientBuffer.sum`, for the gradients of this rank's slice."""
        if scale != 1.0:
            self.gradients.mul_(scale)
        self._ranks.sum_slices(self.whole, self.sums)
        self._norms[self._ranks.rank] = torch.linalg.vector_norm(self.sums)
        self._ranks.sum(self._exchanged)

    def norm(self) -> Tensor:
        """As :meth:`GradientBuffer.norm`, of the gradients of all slices."""
        norm: Tensor = torch.linalg.vector_norm(self._norms)
        return norm


class OverlappedGradientBuffer(GradientBuffer):
    """Sends gradients in buckets while the last backward pass computes others.

    A bucket is copied before it is sent. So if that pass fails, the rank still sends what the others wait for, and all
    ranks can repeat the update.
    """

    def __init__(
        self,
        parameters: Sequence[nn.Parameter],
        figures: int,
        ranks: Ranks,
        *,
        bucket_bytes: float,
        sources: Callable[[Tensor], Sequence[Tensor]] = lambda parameter: [parameter],
    ) -> None:
        """As :class:`GradientBuffer`, with a second buffer of its size.

        Args:
            bucket_bytes: the size from which on a bucket takes no more gradients.
            sources: the leaves whose gradients make up that of a parameter, each once per backward pass.
        """
        super().__init__(parameters, figures, ranks)
        # Backward passes add to ``_own``; ``gradients`` and ``figures`` hold what is sent, and then the sums.
        self._own = torch.zeros_like(self.gradients)
        self._buckets = _buckets(parameters, bucket_bytes)
        self._missing: list[int] = []
        self._sent: list[Callable[[], None]] = []
        self._scale: float | None = None
        self._leaves = [[leaf for parameter in members for leaf in sources(parameter)] for _, members in self._buckets]
        for number, leaves in enumerate(self._leaves):
            for leaf in leaves:
                leaf.register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
                    lambda _, number=number: self._arrived(number)
                )
        self.clear()

    @property
    def is_sending(self) -> bool:
        """As :attr:`GradientBuffer.is_sending`."""
        return bool(self._sent)

    def clear(self) -> None:
        """As :meth:`GradientBuffer.clear`."""
        self._own.zero_()
        self.figures.zero_()
        self._scale = None
        self._missing = [len(leaves) for leaves in self._leaves]
        self._let_grads_be(self._own)

    def send_in_next_backward(self, scale: float) -> None:
        """As :meth:`GradientBuffer.send_in_next_backward`."""
        self._scale = scale

    def sum(self, scale: float = 1.0) -> None:
        """As :meth:`GradientBuffer.sum`; afterwards the parameters' ``grad`` are the sums."""
        while len(self._sent) < len(self._buckets):
            self._send_next(scale)
        self._sent.append(self._ranks.begin_sum(self.figures))
        for wait in self._sent:
            wait()
        self._sent.clear()
        self._let_grads_be(self.gradients)

    def _arrived(self, number: int) -> None:
        if self._scale is None:
            return
        self._missing[number] -= 1
        # All ranks send the buckets in the same order.
        while len(self._sent) < len(self._buckets) and self._missing[len(self._sent)] == 0:
            self._send_next(self._scale)

    def _send_next(self, scale: float) -> None:
        place, _ = self._buckets[len(self._sent)]
        torch.mul(self._own[place], scale, out=self.gradients[place])
        self._sent.append(self._ranks.begin_sum(self.gradients[place]))


def _buckets(parameters: Sequence[nn.Parameter], bucket_bytes: float) -> list[tuple[slice, list[nn.Parameter]]]:
    """The places of buckets in the buffer, with their parameters: the last parameters first, as in a backward pass."""
    starts = accumulate((parameter.numel() for parameter in parameters), initial=0)
    buckets: list[tuple[slice, list[nn.Parameter]]] = []
    for start, parameter in reversed(list(zip(starts, parameters, strict=False))):
        end = start + parameter.numel()
        size = parameter.numel() * parameter.element_size()
        if buckets and size < bucket_bytes:  # a large one alone: the tied embedding, whose gradient is complete last
            place, members = buckets[-1]
            if (place.stop - place.start) * parameter.element_size() < bucket_bytes:
                buckets[-1] = slice(start, place.stop), [*members, parameter]
                continue
        buckets.append((slice(start, end), [parameter]))
    return buckets
