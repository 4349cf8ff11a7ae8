"""One rank of a run, which a test can see into and disturb.

``rank_program.py DATA SETTINGS RUN OUT [WHAT RANK UPDATE]`` leaves in ``OUT.RANK.npz`` its parameters, and in
``OUT.RANK.order`` a line for each update: its pairs, and a hash of the parameters after it. ``WHAT`` happens at an
update on one rank: ``raise``, ``kill``, ``terminate``, ``memory`` (a micro-batch does not fit), ``exchange`` and
``step`` (memory ends in the exchange of gradients, or in Adam's step), ``bucket-N`` (memory ends in the backward pass
when N buckets were sent), ``full`` (no file may grow any more), ``crowded`` (the
disk has no room for a checkpoint), ``stop`` (SIGSTOP), ``sleep`` (it takes long to save),
or, from that update on, ``poison`` (gradients are NaN). With ``SHORT_TIMEOUT`` in the environment, ranks on other
machines wait five seconds for an update. With ``LIKE_NCCL``, ranks exchange as between
GPUs, gradients in buckets of a few parameters, and read the figures of an update late. With ``GRAPHS_AS_THEY_ARE``, no
compiler translates graphs, and attention needs no padding, as on a GPU. With ``OWN_NAMES``, the device of each rank has
a name of its own.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import os
import resource
import signal
import sys
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))


def main() -> None:
    import numpy as np
    import torch

    from nmt.io.writing import WriteError
    from nmt.kernels.flash_attention import masked_attention
    from nmt.machine.device import Hardware
    from nmt.training import run as run_module
    from nmt.training import saving
    from nmt.training.input.data_sets import TrainingData
    from nmt.training.learner import Learner
    from nmt.training.listener import Listener
    from nmt.training.ranks import exchange
    from nmt.training.run import train
    from nmt.training.start import resume
    from nmt.training.start.settings import resolve_config
    from nmt.training.updates import Updates
    from tests.training.nccl_double import behave_like_nccl

    data, settings, run, out, *rest = sys.argv[1:]
    what, at_rank, at_update = (rest[0], int(rest[1]), int(rest[2])) if len(rest) == 3 else (None, -1, -1)
    rank = int(os.environ.get("RANK", "0"))
    learners: list[Learner] = []
    if "LIKE_NCCL" in os.environ:
        behave_like_nccl()
    if "GRAPHS_AS_THEY_ARE" in os.environ:
        torch.compile = functools.partial(torch.compile, backend="eager")
        packed = replace(resume.choose_kernels(torch.device("cpu")), packed_attention=masked_attention)
        resume.choose_kernels = lambda *arguments, **options: packed
    if "OWN_NAMES" in os.environ:
        Hardware.__str__ = lambda self: f"the device of rank {rank}"
    if "SHORT_TIMEOUT" in os.environ:
        exchange.UPDATE_TIMEOUT = timedelta(seconds=5)

    def no_memory(*arguments, **options):
        raise RuntimeError("NCCL error: Cuda failure 2 'out of memory'")

    def no_room(folder, *arguments, **options):
        raise WriteError(folder, "no room", code=errno.ENOSPC)

    class WatchedLearner(Learner):
        def __init__(self, *arguments, **options) -> None:
            if "LIKE_NCCL" in os.environ:
                options |= {"overlaps_exchange": True}
            super().__init__(*arguments, **options)
            learners.append(self)

        @property
        def reads_late(self) -> bool:
            return "LIKE_NCCL" in os.environ

        def begin(self, batches, *, update, **options):
            if rank == at_rank and update == at_update:
                if what == "raise":
                    raise ValueError("a mistake of this test")
                if what in ("kill", "terminate"):
                    os.kill(os.getpid(), signal.SIGKILL if what == "kill" else signal.SIGTERM)
                if what == "stop":
                    os.kill(os.getpid(), signal.SIGSTOP)
                if what == "memory" and not hasattr(self, "fails_once"):
                    self.fails_once = True
                if what == "exchange":
                    torch.distributed.all_reduce = no_memory
                if what.startswith("bucket-") and not hasattr(self, "fails_once"):
                    self.fails_once = False
                    send, buffer = self._buffer._send_next, self._buffer

                    def send_or_fail(scale: float) -> None:
                        if len(buffer._sent) == int(what.removeprefix("bucket-")):
                            buffer._send_next = send
                            no_memory()
                        send(scale)

                    buffer._send_next = send_or_fail
                if what == "step":
                    self.optimizer.step = no_memory
                if what == "crowded":
                    saving.save_bundle = no_room
                if what == "full":
                    while not (Path(run) / "last").exists():  # a checkpoint that is still being written
                        time.sleep(0.05)
                    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                    resource.setrlimit(resource.RLIMIT_FSIZE, (4_096, 4_096))
            return super().begin(batches, update=update, **options)

        def compute_gradients(self, batches, *, update, **options):
            if getattr(self, "fails_once", False) and batches:
                self.fails_once = False
                self._buffer.clear()
                self._buffer.send_rest(1.0)
                return max(batches, key=lambda batch: batch.positions)
            unfit = super().compute_gradients(batches, update=update, **options)
            if what == "poison" and rank == at_rank and update >= at_update:
                next(iter(self.parameters.values())).grad.view(-1)[0] = float("nan")
            return unfit

        def state_dict(self):
            if what == "sleep":
                time.sleep(8)
            return super().state_dict()

    def hash_of(learner: Learner) -> str:
        digest = hashlib.sha256()
        for parameter in learner.parameters.values():
            digest.update(parameter.detach().numpy().tobytes())
        return digest.hexdigest()

    class WatchedUpdates(Updates):
        def make(self):
            for number, made in enumerate(super().make(), start=self._progress.update + 1):
                with Path(f"{out}.{rank}.order").open("a") as stream:
                    stream.write(f"{number} {made.plan.pairs.tolist()} {hash_of(learners[0])}\n")
                yield made

    resume.Learner, run_module.Updates = WatchedLearner, WatchedUpdates
    small_buckets = ["training.bucket_megabytes=0.002"] if "LIKE_NCCL" in os.environ else []
    config, _ = resolve_config([(Path(data), 1.0)], config_file=Path(settings), settings=small_buckets)
    outcome = train(TrainingData.open([Path(data)], config), Path(run), Listener())
    parameters = torch.cat([p.detach().flatten() for p in learners[0].model.parameters()]).double()
    np.savez(
        f"{out}.{rank}.npz",
        parameters=parameters.numpy(),
        update=outcome.progress.update,
        ending=outcome.ending.name,
        micro_batch_tokens=outcome.progress.micro_batch_tokens,
    )


if __name__ == "__main__":
    main()
