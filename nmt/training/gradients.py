"""All gradients of a model in one buffer, which ranks sum in place together with a few figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

import torch
from torch import Tensor, nn

from nmt.training.ranks.exchange import Ranks


class GradientBuffer:
    """The gradients of the trained parameters one after the other, followed by a row of figures.

    Each parameter's ``grad`` is a view into the buffer. Backward passes add to it, and ranks sum it in place: as a
    whole, or in buckets during the last backward pass of an update. A bucket is sent when all of its gradients have
    arrived. If that pass fails, the rank sends the rest as it is, since the others wait for it. The update is then made
    again from the beginning, which is :meth:`clear`.
    """

    def __init__(
        self,
        parameters: Sequence[nn.Parameter],
        figures: int,
        ranks: Ranks,
        *,
        bucket_bytes: float | None = None,
    ) -> None:
        """Allocate the buffer, filled with zeros.

        Args:
            parameters: parameters on one device with one dtype.
            figures: the number of figures that are sent with the gradients.
            bucket_bytes: send buckets during the last backward pass; one of this size takes no more gradients.
        """
        sizes = [parameter.numel() for parameter in parameters]
        first = parameters[0]
        self._all = torch.zeros(sum(sizes) + figures, dtype=first.dtype, device=first.device)
        self._ranks = ranks
        self.gradients, self.figures = torch.split(self._all, [sum(sizes), figures])
        for parameter, part in zip(parameters, torch.split(self.gradients, sizes), strict=True):
            parameter.grad = part.view_as(parameter)
        self._buckets = [] if bucket_bytes is None else _buckets(parameters, bucket_bytes)
        for number, (_, members) in enumerate(self._buckets):
            for parameter in members:
                parameter.register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
                    lambda _, number=number: self._arrived(number)
                )
        self._missing: list[int] = []
        self._sent: list[Callable[[], None]] = []
        self._scale: float | None = None

    def clear(self) -> None:
        """Set all gradients and figures to zero."""
        self._all.zero_()
        self._scale = None
        self._missing = [len(members) for _, members in self._buckets]

    def send_in_next_backward(self, scale: float) -> None:
        """Allow the next backward pass, the update's last one, to send gradients as soon as they are complete.

        Args:
            scale: a factor for the gradients.
        """
        self._scale = scale

    def all_reduce(self, scale: float = 1.0) -> None:
        """Sum gradients and figures over all ranks, each rank's gradients multiplied by ``scale`` before."""
        if not self._buckets:
            if scale != 1.0:
                self.gradients.mul_(scale)
            self._ranks.all_reduce(self._all)
            return
        self.send_rest(scale)
        self._sent.append(self._ranks.begin_all_reduce(self.figures))
        for wait in self._sent:
            wait()
        self._sent.clear()

    def send_rest(self, scale: float) -> None:
        """Send the buckets that the last backward pass has not sent. Then all ranks have sent the same."""
        while len(self._sent) < len(self._buckets):
            self._send_next(scale)

    def finish_exchange(self) -> None:
        """End an exchange that may have begun. Its result is not used."""
        if self._buckets:
            self.all_reduce()

    @property
    def has_sent(self) -> bool:
        """Whether a part of this update's gradients was sent."""
        return bool(self._sent)

    def norm(self) -> Tensor:
        """The Euclidean norm of all gradients together; infinite or NaN if one of them is."""
        norm: Tensor = torch.linalg.vector_norm(self.gradients)
        return norm

    def _arrived(self, number: int) -> None:
        if self._scale is None:
            return
        self._missing[number] -= 1
        # All ranks send the buckets in the same order.
        while len(self._sent) < len(self._buckets) and self._missing[len(self._sent)] == 0:
            self._send_next(self._scale)

    def _send_next(self, scale: float) -> None:
        place, _ = self._buckets[len(self._sent)]
        if scale != 1.0:
            self.gradients[place].mul_(scale)
        self._sent.append(self._ranks.begin_all_reduce(self.gradients[place]))


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
