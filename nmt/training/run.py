"""A run from its folder to its end: start or resume it, prepare all that the loop needs, and train."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

import nmt
from nmt.checkpoint.bundle_files import BundleFolder
from nmt.checkpoint.lineage import TRAINING, bundle_record, training_of
from nmt.checkpoint.run_folder import RUN, RunFolder, bundle_to_use, checkpoints
from nmt.config import Config, differences, dump_config, read_config
from nmt.data.data_folder import DataFolder
from nmt.data.lineage import encoded_record
from nmt.errors import CheckpointError
from nmt.io.files import file_in_path, replacing, why_not_made
from nmt.io.locking import exclusive, holder
from nmt.io.ownership import check_replaceable
from nmt.io.writing import write_file
from nmt.machine.device import Hardware, choose_hardware, is_under_torchrun
from nmt.record import SETTINGS, Fact, Record, option_words
from nmt.training.input.data_sets import TrainingData
from nmt.training.listener import Listener
from nmt.training.loop import Trainer
from nmt.training.metrics_file import MetricsFile
from nmt.training.progress import Ending, Progress
from nmt.training.ranks.exchange import (
    Ranks,
    process_group,
    ranks_of_environment,
    saving_when_orphaned,
)
from nmt.training.run_log import RunLog
from nmt.training.saving import CheckpointWriter, telling_where_to_resume, tidy
from nmt.training.start.beginning import Beginning, check_initial_weights, find_beginning, make_learner
from nmt.training.start.changes import refuse_changes
from nmt.training.start.model_memory import check_memory, out_of_memory_explained
from nmt.training.start.new_folder import run_folder
from nmt.training.start.preflight import Preflight, check_disk, preflight
from nmt.training.start.recorded_data import write_data_record
from nmt.training.stopping import Limits, StopRequest
from nmt.training.tensorboard import check_tensorboard
from nmt.training.updates import Updates
from nmt.training.validation import VALIDATION_BATCH_TOKENS, Validator

# Ranks whose launcher was killed, or whose machine another one replaces, save first.
_SECONDS_UNTIL_RELEASED = 150


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    run: Path
    ending: Ending
    was_over: bool
    """Whether the run had ended before, so that nothing was done."""
    progress: Progress
    stopped_by: int | None = None
    """The signal that interrupted the run."""


def train(
    data: Sequence[Path],
    run: Path,
    config: Config,
    listener: Listener,
    *,
    fresh: bool = False,
    accept_changes: bool = False,
    init_from: Path | None = None,
) -> Outcome:
    """Start a run, or resume the one in the folder. Under torchrun every rank calls this.

    Args:
        data: the data sets, in the order of the configuration. The valid set of the first one is used.
        fresh: start over, in the first free folder of ``RUN``, ``RUN-2``, ``RUN-3`` ….
        accept_changes: resume even if settings changed that affect learning.
        init_from: a bundle with the initial weights of a new run.

    Raises:
        ConfigError: the settings differ from those of the run's start.
        CheckpointError: the run's checkpoints are all damaged, or the bundle does not fit.
        WriteError: a file could not be written, for example because the disk is full.
        OutputError: ``run`` exists and is not a run.
        DataError: the data does not match the configuration.
        TrainingError: training cannot continue.
        LostPeerError: another rank is gone.
    """
    ranks = ranks_of_environment()
    hardware = hardware_of(config, ranks)
    if config.logging.tensorboard:
        check_tensorboard()
    stop = StopRequest()
    with (
        # Holds the signal handlers. They are set before the first update, and restored only when all ranks have saved
        # and the watch over the launcher has ended: a rank that has nothing to save must not be killed while another
        # still saves.
        ExitStack() as until_all_have_saved,
        saving_when_orphaned(lambda: bool(stop)),
        process_group(ranks, hardware.device, lambda: bool(stop)),
        run_folder(run, ranks, fresh=fresh) as folder,
        _locked(folder, ranks, listener),
    ):
        taken, run = run, folder
        if ranks.is_main:
            listener.noticed(f"run: {run}" + (f" ({taken} is taken)" if run != taken else ""))
        training_data = TrainingData.open(data, config)
        beginning = find_beginning(
            run, config, data, hardware, listener, ranks, accept_changes=accept_changes, init_from=init_from
        )
        progress, hardware = beginning.progress, beginning.hardware
        if ranks.is_main and (warning := tidy(run, progress.scores)):
            listener.noticed(warning)
        # A run that was stopped before its last validation has not ended: it still validates.
        if (ending := progress.ending(config)) is not None and progress.update in progress.scores:
            return Outcome(run, ending, True, progress)
        check_memory(config, hardware, ranks)
        with out_of_memory_explained(hardware):
            learner = make_learner(beginning, config, training_data.vocab, ranks)
        record = _record(run, data, config, beginning, ranks) if ranks.is_main else None
        # The learner has copied the moments, so their file need not stay mapped.
        del beginning
        batching = training_data.micro_batching(config, learner.model, hardware.device, ranks)
        found = preflight(learner, config, hardware, run, progress, training_data, ranks, batching)
        progress.micro_batch_tokens = found.micro_batch_tokens
        if config.training.compile == "auto":
            progress.compiles = found.compiles
        if ranks.is_main:
            record = None if record is None else _with_choices(record, config, progress)
            check_disk(found)
            listener.measured(found)
            if damaged := _write_run_folder(run, config, hardware, ranks, training_data, progress.update, found):
                lines = ", ".join(f"{number:,}" for number in damaged)
                listener.noticed(f"{RunFolder(run).metrics}: damaged lines were left out: {lines}.")
        validator = Validator(
            training_data.folders[0],
            config,
            training_data.vocab,
            hardware,
            ranks,
            batch_tokens=min(found.micro_batch_tokens, VALIDATION_BATCH_TOKENS),
        )
        log = RunLog(run, config, listener, progress, is_main=ranks.is_main)
        writer = CheckpointWriter(run, config, training_data.vocab, record)
        with training_data.epochs(config, run, ranks) as epochs, telling_where_to_resume(run):
            limits = Limits(config, progress)
            updates = Updates(config, progress, learner, epochs, batching, limits, stop, log)
            trainer = Trainer(config, progress, learner, updates, limits, validator, log, writer, stop)
            until_all_have_saved.enter_context(stop.listening())
            ending = trainer.train()
        return Outcome(run, ending, False, progress, stop.signal)


def check_run(
    run: Path,
    config: Config,
    data: Sequence[Path],
    *,
    fresh: bool = False,
    accept_changes: bool = False,
    init_from: Path | None = None,
) -> None:
    """Check early whether :func:`train` would refuse the folder, the settings or the initial weights.

    Raises:
        ConfigError: the settings differ from those of the run's start.
        OutputError: ``run`` exists and is not a run.
        CheckpointError: the folder cannot be made, because a file is in its path; or the bundle does not fit.
    """
    if init_from is not None and (fresh or not checkpoints(run)):
        check_initial_weights(init_from, config, data)
    if fresh:
        return
    check_replaceable(run, RUN, in_place=True)
    if (file := file_in_path(run)) is not None:
        raise CheckpointError(f"{run}: cannot be written ({file} is a file). Name another folder with --out.")
    # Without a checkpoint nothing has been learnt with the earlier settings.
    if checkpoints(run) and RunFolder(run).config.is_file():
        refuse_changes(run, config, data, accept_changes=accept_changes)


@contextmanager
def _locked(run: Path, ranks: Ranks, listener: Listener) -> Iterator[None]:
    """Lock the run's folder. Another process that trained in it would delete our checkpoints."""
    if not ranks.is_main:
        yield
        return
    check_replaceable(run, RUN, in_place=True)
    lock = RunFolder(run).lock
    with ExitStack() as stack:
        try:
            run.mkdir(parents=True, exist_ok=True)
            _lock(lock, stack, listener)
        except BlockingIOError:
            raise CheckpointError(
                f"{run}: another process is training in this folder (process {holder(lock)}). Wait until it has ended, "
                "or add --fresh to start another run in a new folder."
            ) from None
        except OSError as error:
            raise CheckpointError(
                f"{run}: cannot be written ({why_not_made(run, error)}). Name another folder with --out."
            ) from None
        yield


def _lock(path: Path, stack: ExitStack, listener: Listener) -> None:
    """Take the lock, and wait a while for it under torchrun: ranks of the launch before may still be saving.

    Raises:
        BlockingIOError: another process holds the lock.
    """
    is_told, deadline = False, time.monotonic() + (_SECONDS_UNTIL_RELEASED if is_under_torchrun() else 0)
    while True:
        try:
            stack.enter_context(exclusive(path, wait=False))
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
            if not is_told:
                listener.noticed(f"waiting until process {holder(path)} has saved this run")
                is_told = True
            time.sleep(0.5)


def rehearse(data: Sequence[Path], run: Path, config: Config, *, init_from: Path | None = None) -> Preflight:
    """Only the preflight of a run, for ``--dry-run``. Writes no file.

    Raises:
        NmtError: as :func:`train` would.
    """
    ranks = ranks_of_environment()
    hardware = hardware_of(config, ranks)
    with process_group(ranks, hardware.device):
        training_data = TrainingData.open(data, config)
        check_memory(config, hardware, ranks)
        beginning = Beginning(Progress(), hardware, init_from=init_from, data=tuple(data))
        with out_of_memory_explained(hardware):
            learner = make_learner(beginning, config, training_data.vocab, ranks)
        batching = training_data.micro_batching(config, learner.model, hardware.device, ranks)
        return preflight(learner, config, hardware, run, Progress(), training_data, ranks, batching)


def hardware_of(config: Config, ranks: Ranks) -> Hardware:
    """The hardware that this rank computes on."""
    training = config.training
    return choose_hardware(
        training.device,
        training.precision,
        training.threads,
        product=(config.model.d_model, config.model.d_ff),
        deterministic=training.deterministic,
        local_rank=ranks.local_rank,
        local_ranks=ranks.local_size,
    )


def _record(run: Path, data: Sequence[Path], config: Config, beginning: Beginning, ranks: Ranks) -> Record:
    """The record of this training. One that resumes with other settings was made from the one before."""
    before, init_from = None, beginning.init_from
    if beginning.checkpoint is not None:
        before = training_of(beginning.checkpoint)
        changes = differences(read_config(BundleFolder(beginning.checkpoint).config), config)
        if before is not None and all(key.startswith("logging.") for key, _, _ in changes):
            return before
    parts = [encoded_record(folder) for folder in data]
    hardware = beginning.hardware
    options = {
        "out": run,
        "precision": hardware.precision,
        "set": f"training.threads={hardware.threads}",
        "nproc": ranks.size if ranks.size > 1 else None,
    }
    command = [
        "train",
        f"--config={SETTINGS}",
        *(f"--data={part.path}:{share.weight}" for part, share in zip(parts, config.data.parts, strict=True)),
        *option_words(options),
    ]
    if before is not None:
        stop = f"--max-updates={beginning.progress.update}"
        parts.insert(0, before.model_copy(update={"command": (*before.command, stop)}))
        command.append("--accept-changes")
    elif init_from is not None:
        bundle = bundle_to_use(init_from)
        parts.insert(0, bundle_record(bundle).as_found(bundle))
        command.append(f"--init-from={parts[0].path}")
    versions = ", ".join(f"{name} {version}" for name, version in _versions().items())
    facts: dict[str, Fact] = {"hardware": str(hardware), "ranks": ranks.size, "versions": versions}
    return Record(kind=TRAINING, path=str(run), command=tuple(command), facts=facts, made_from=tuple(parts))


def _with_choices(record: Record, config: Config, progress: Progress) -> Record:
    """The record with what was chosen on this machine, unless it says so since an earlier start."""
    chosen = {}
    if config.batching.micro_batch_tokens == "auto":
        chosen["--set=batching.micro_batch_tokens"] = str(progress.micro_batch_tokens)
    if config.training.compile == "auto":
        chosen["--set=training.compile"] = str(progress.compiles).lower()
    named = {word.rpartition("=")[0] for word in record.command}
    words = [f"{name}={value}" for name, value in chosen.items() if name not in named]
    return record.model_copy(update={"command": (*record.command, *words)})


def _versions() -> Mapping[str, str]:
    return {"nmt": nmt.__version__, "torch": torch.__version__, "python": platform.python_version()}


def _write_run_folder(
    run: Path,
    config: Config,
    hardware: Hardware,
    ranks: Ranks,
    data: TrainingData,
    update: int,
    found: Preflight,
) -> list[int]:
    """Write the run's settings, the origin of its data, and its hardware and versions (in ``metrics.jsonl``).

    Returns:
        The numbers of damaged lines in ``metrics.jsonl``.
    """
    if not RunFolder(run).mark.exists():
        write_file(RunFolder(run).mark, b"")
    metrics = MetricsFile(RunFolder(run).metrics)
    damaged = metrics.begin(
        {
            "kind": "start",
            "update": update,
            "versions": _versions(),
            "hardware": str(hardware),
            "ranks": ranks.size,
            "compiled": found.compiles and found.not_compiled is None,
        }
    )
    for number, folder in enumerate(data.folders, start=1):
        with replacing(RunFolder(run).manifests / f"{number}-{folder.name}.json") as stream:
            stream.write(DataFolder(folder).manifest.read_bytes())
    write_data_record(run, data.folders, config)
    with replacing(RunFolder(run).config) as stream:
        stream.write(dump_config(config).encode())
    return damaged
