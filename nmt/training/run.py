"""A run from its folder to its end: start or resume it, prepare all that the loop needs, and train."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import torch

import nmt
from nmt.checkpoint.lineage import TRAINING, bundle_record, training_of
from nmt.checkpoint.run_folder import RUN, RunFolder, checkpoints
from nmt.config import Config, differences, dump_config
from nmt.data.data_folder import DataFolder
from nmt.data.lineage import encoded_record
from nmt.errors import CheckpointError
from nmt.io.files import file_in_path, replacing
from nmt.io.ownership import check_replaceable
from nmt.io.writing import write_file
from nmt.machine.device import Hardware, choose_hardware
from nmt.record import SETTINGS, Fact, Record, option_words
from nmt.text.printable import counted
from nmt.training.input.data_sets import DataSets, TrainingData
from nmt.training.input.micro_batches import MicroBatching
from nmt.training.learner import Learner
from nmt.training.listener import Listener
from nmt.training.loop import Trainer
from nmt.training.metrics_file import MetricsFile
from nmt.training.progress import Ending, Progress
from nmt.training.ranks.exchange import Ranks, process_group, ranks_of_environment, saving_when_orphaned
from nmt.training.run_log import RunLog
from nmt.training.saving import CheckpointWriter, telling_where_to_resume, tidy
from nmt.training.start.data_record import write_data_record
from nmt.training.start.folder import locked, run_folder
from nmt.training.start.model_memory import check_memory, out_of_memory_explained
from nmt.training.start.resume import (
    Beginning,
    check_initial_weights,
    find_beginning,
    initial_bundle,
    make_learner,
    refuse_changes,
)  # fmt: skip
from nmt.training.start.trial import Preflight, check_disk, preflight
from nmt.training.stopping import Limits, StopRequest
from nmt.training.tensorboard import check_tensorboard
from nmt.training.updates import Updates
from nmt.training.validation import VALIDATION_BATCH_TOKENS, Validator


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
    data: TrainingData,
    run: Path,
    listener: Listener,
    *,
    fresh: bool = False,
    accept_changes: bool = False,
    init_from: Path | None = None,
) -> Outcome:
    """Start a run, or resume the one in the folder. Under torchrun every rank calls this.

    Args:
        data: of the first data set, the valid set is used, too.
        fresh: start over, in the first free folder of ``RUN``, ``RUN-2``, ``RUN-3`` ….
        accept_changes: resume even if settings changed that affect learning.
        init_from: a bundle with the initial weights of a new run.

    Raises:
        ConfigError: the settings differ from those of the run's start.
        CheckpointError: the run's checkpoints are all damaged, or the bundle does not fit.
        WriteError: a file could not be written, for example because the disk is full.
        OutputError: ``run`` exists and is not a run.
        DataError: the valid set is empty, or pieces are damaged.
        TrainingError: training cannot continue.
        LostPeerError: another rank is gone.
    """
    config, ranks = data.config, ranks_of_environment()
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
        locked(folder, ranks, listener),
    ):
        taken, run = run, folder
        if ranks.is_main:
            listener.noticed(f"run: {run}" + (f" ({taken} is taken)" if run != taken else ""))
        beginning = find_beginning(
            run, data, hardware, listener, ranks, accept_changes=accept_changes, init_from=init_from
        )
        progress = beginning.progress
        if ranks.is_main and (warning := tidy(run, progress.scores)):
            listener.noticed(warning)
        # A run that was stopped before its last validation has not ended: it still validates.
        if (ending := progress.ending(config)) is not None and progress.update in progress.scores:
            return Outcome(run, ending, True, progress)
        learner, batching = _prepare(beginning, data, ranks)
        record = _record(run, data, beginning, ranks) if ranks.is_main else None
        # The learner has copied weights and moments, so their files need not stay mapped.
        del beginning
        until_all_have_saved.enter_context(closing(learner))
        found = preflight(learner, data, run, progress, batching)
        progress.micro_batch_tokens = found.micro_batch_tokens
        if config.training.compile == "auto":
            progress.compiles = found.compiles
        if ranks.is_main:
            record = None if record is None else _with_choices(record, config, progress)
            check_disk(found)
            listener.measured(found)
            if damaged := _write_run_folder(run, data, learner, progress.update, found):
                listener.noticed(f"{RunFolder(run).metrics}: left out {counted(damaged, 'damaged line')}.")
        batch_tokens = min(found.micro_batch_tokens, VALIDATION_BATCH_TOKENS)
        vocab = data.sets.vocab
        validator = Validator(data.sets.folders, config, vocab, learner.hardware, ranks, batch_tokens=batch_tokens)
        log = RunLog(run, config, listener, progress, is_main=ranks.is_main)
        writer = CheckpointWriter(run, config, vocab, record, listener.noticed, lambda: bool(stop), ranks)
        with data.epochs(run, ranks) as epochs, telling_where_to_resume(run):
            limits = Limits(config, progress)
            updates = Updates(config, progress, learner, epochs, batching, limits, stop, log)
            trainer = Trainer(config, progress, learner, updates, limits, validator, log, writer, stop)
            until_all_have_saved.enter_context(stop.listening())
            ending = trainer.train()
        return Outcome(run, ending, False, progress, stop.signal)


def dry_run(data: TrainingData, run: Path, *, init_from: Path | None = None) -> Preflight:
    """Only the preflight of a run. Writes no file.

    Raises:
        NmtError: as :func:`train` would.
    """
    ranks = ranks_of_environment()
    hardware = hardware_of(data.config, ranks)
    with process_group(ranks, hardware.device):
        beginning = Beginning(Progress(), hardware, initial_bundle(init_from, data))
        learner, batching = _prepare(beginning, data, ranks)
        with closing(learner):
            return preflight(learner, data, run, Progress(), batching)


def _prepare(beginning: Beginning, data: TrainingData, ranks: Ranks) -> tuple[Learner, Callable[[int], MicroBatching]]:
    """The learner, and how its updates are divided into micro-batches of a size."""
    hardware = beginning.hardware
    check_memory(data.config, hardware, ranks)
    with out_of_memory_explained(hardware):
        learner = make_learner(beginning, data, ranks)
    return learner, data.micro_batching(learner.model, hardware.device, ranks)


def check_run(
    run: Path,
    config: Config,
    data: DataSets,
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


def _record(run: Path, data: TrainingData, beginning: Beginning, ranks: Ranks) -> Record:
    """The record of this training. One that resumes with other settings was made from the one before."""
    config, bundle, is_resumed, before = data.config, beginning.bundle, beginning.state is not None, None
    if bundle is not None and is_resumed:
        before = training_of(bundle.folder)
        changes = differences(bundle.config, config)
        if before is not None and all(key.startswith("logging.") for key, _, _ in changes):
            return before
    parts = [encoded_record(folder) for folder in data.sets.folders]
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
    elif bundle is not None and not is_resumed:
        parts.insert(0, bundle_record(bundle.folder).as_found(bundle.folder))
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


def _write_run_folder(run: Path, data: TrainingData, learner: Learner, update: int, found: Preflight) -> int:
    """Write the run's settings, the origin of its data, and its hardware and versions (in ``metrics.jsonl``).

    Returns:
        The number of damaged lines in ``metrics.jsonl``.
    """
    if not RunFolder(run).mark.exists():
        write_file(RunFolder(run).mark, b"")
    metrics = MetricsFile(RunFolder(run).metrics)
    damaged = metrics.begin(
        {
            "kind": "start",
            "update": update,
            "versions": _versions(),
            "hardware": str(learner.hardware),
            "ranks": learner.ranks.size,
            "compiled": found.compiles and found.not_compiled is None,
        }
    )
    for number, folder in enumerate(data.sets.folders, start=1):
        with replacing(RunFolder(run).manifests / f"{number}-{folder.name}.json") as stream:
            stream.write(DataFolder(folder).manifest.read_bytes())
    write_data_record(run, data.sets.folders, data.config)
    with replacing(RunFolder(run).config) as stream:
        stream.write(dump_config(data.config).encode())
    return damaged
