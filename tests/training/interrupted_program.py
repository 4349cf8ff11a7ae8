"""One rank of runs that signals interrupt, at each moment and on each rank.

``interrupted_program.py DATA SETTINGS FOLDER`` trains in ``FOLDER/NAME`` for each case, sends itself the signal, and
trains again. It leaves in ``FOLDER/RANK.json`` for each case how the interrupted run ended, its update, and the updates
that were validated by then.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

SETTINGS = [
    "training.max_updates=6", "validation.every_updates=3", "checkpoints.every_updates=2", "logging.every_updates=100",
]  # fmt: skip
MOMENTS = {
    "update 1": ("INTERRUPTED", 1, []),
    "save 2": ("INTERRUPTED", 3, []),
    "validation 3": ("INTERRUPTED", 3, []),
    "validated 3": ("INTERRUPTED", 4, [3]),
    "update 6": ("INTERRUPTED", 6, [3]),
    "validation 6": ("INTERRUPTED", 6, [3]),
    "validated 6": ("UPDATES", 6, [3, 6]),
    "save 6": ("UPDATES", 6, [3, 6]),
}
"""When the signal comes: how the run ends, at which update, and what was validated by then."""


@dataclass(frozen=True)
class Case:
    """A signal to one rank at some moment."""

    moment: str
    number: signal.Signals
    rank: int

    @property
    def name(self) -> str:
        """The name of the run's folder."""
        return f"{self.moment}, {self.number.name} to rank {self.rank}"


def cases(ranks: int) -> list[Case]:
    """Each moment on each of so many ranks; each signal to each rank, and at each moment if there are two."""
    signals = signal.SIGINT, signal.SIGTERM
    return [
        Case(moment, signals[(number + rank) % 2], rank)
        for (number, moment), rank in itertools.product(enumerate(MOMENTS), range(ranks))
    ]


def main() -> None:
    from nmt.training import run as run_module
    from nmt.training.input.data_sets import TrainingData
    from nmt.training.learner import Learner
    from nmt.training.listener import Listener
    from nmt.training.loop import Trainer
    from nmt.training.run import Outcome, train
    from nmt.training.start.settings import resolve_config
    from nmt.training.validation import Validator

    data, settings, folder = map(Path, sys.argv[1:])
    rank = int(os.environ["RANK"])
    config, _ = resolve_config([(data, 1.0)], config_file=settings)
    starts = itertools.count()
    trainers: list[Trainer] = []
    current: Case | None = None

    def signal_if(moment: str) -> None:
        if current is not None and current.moment == moment and current.rank == rank:
            os.kill(os.getpid(), current.number)

    begin, save, validate = Learner.begin, Trainer._save, Validator.validate

    def begin_disturbed(self, batches, *, update, **options):
        signal_if(f"update {update}")
        return begin(self, batches, update=update, **options)

    def save_disturbed(self):
        save(self)  # which goes on in a thread
        signal_if(f"save {self.progress.update}")

    def validate_disturbed(self, *arguments, **options):
        signal_if(f"validation {trainers[-1].progress.update}")
        validation = validate(self, *arguments, **options)
        signal_if(f"validated {trainers[-1].progress.update}")
        return validation

    class Noted(Trainer):
        def train(self):
            trainers.append(self)
            return super().train()

    def run(name: str) -> Outcome:
        os.environ["NMT_RENDEZVOUS"] = str(folder / f"store-{next(starts)}")
        return train(TrainingData.open([data], config), folder / name, Listener())

    run_module.Trainer = Noted
    Learner.begin, Trainer._save, Validator.validate = begin_disturbed, save_disturbed, validate_disturbed
    run("straight")
    found = {}
    for case in cases(int(os.environ["WORLD_SIZE"])):
        current = case
        interrupted = run(case.name)
        found[case.name] = [interrupted.ending.name, interrupted.progress.update, sorted(interrupted.progress.scores)]
        current = None
        assert run(case.name).progress.update == 6
    (folder / f"{rank}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
