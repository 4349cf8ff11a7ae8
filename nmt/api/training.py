"""Training from Python: train a run, and average its checkpoints."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge, Gt

from nmt.api.arguments import THREADS, Assignments, Joined, Texts, checked
from nmt.errors import ConfigError, NmtError
from nmt.option_fields import (
    CHECKPOINTS,
    FORMAT,
    HARDWARE,
    SETTINGS,
    STREAMS,
    Argument,
    DeviceChoice,
    Option,
    TrainingPrecision,
)
from nmt.reporting import SILENT, Reporter

if TYPE_CHECKING:
    from nmt.checkpoint.bundle import Bundle
    from nmt.config import Config
    from nmt.training.input.data_sets import DataSets
    from nmt.training.listener import Listener
    from nmt.training.run import Outcome
    from nmt.training.start.settings import Choice
    from nmt.training.start.summary import Summary
    from nmt.training.start.trial import Preflight


@dataclass(frozen=True)
class Training:
    """A run that was trained, or what it would be."""

    run: Path
    """Its folder."""
    config: Config
    """All its settings."""
    summary: Summary | None = None
    """The figures of the run; None if only the settings were asked for."""
    measured: Preflight | None = None
    """What a dry run measured; else None."""
    outcome: Outcome | None = None
    """How the run ended; None if it was not trained, or by processes of its own."""
    exit_code: int = 0
    """0 unless the run was interrupted (128 and the signal's number)."""
    is_main: bool = True
    """Whether this process speaks for the run: neither a rank beside the main one, nor one that started the ranks."""


@checked
def train(
    data: Annotated[
        Texts,
        Option("A prepared data set; several are mixed.", STREAMS, unset="newest below data/", metavar="DIR[:WEIGHT]"),
    ] = (),
    *,
    preset: Annotated[
        str | None,
        Option("tiny, small, practice, base or big.", SETTINGS, unset="by corpus and device", metavar="NAME"),
    ] = None,
    config: Annotated[Path | None, Option("YAML with your settings, which override the preset's.", SETTINGS)] = None,
    set: Annotated[Assignments, Option("Change a setting: model.dropout=0.3.", SETTINGS, metavar="KEY=VALUE")] = (),
    out: Annotated[
        Path | None,
        Option("The run's folder.", STREAMS, unset="runs/NAME-PRESET, or runs/NAME-STEM of {config}", letter="o"),
    ] = None,
    resume: Annotated[
        Path | None, Option("Resume a run with its own settings and data.", STREAMS, metavar="RUN")
    ] = None,
    sampling_temperature: Annotated[
        float | None,
        Gt(0),
        Option("Balance the directions of several data sets; 1: by size.", STREAMS, unset="1", metavar="T"),
    ] = None,
    fresh: Annotated[bool, Option("Start over in the next free folder, such as RUN-2.", STREAMS)] = False,
    accept_changes: Annotated[bool, Option("Resume although settings changed.", SETTINGS)] = False,
    max_updates: Annotated[int | None, Ge(1), Option("End after N updates, resumes included.", SETTINGS)] = None,
    max_minutes: Annotated[
        float | None, Option("End after about X minutes, not after the preset's updates.", SETTINGS)
    ] = None,
    init_from: Annotated[Path | None, Option("Start from weights and settings of a bundle or run.", STREAMS)] = None,
    dry_run: Annotated[
        bool,
        Option(
            "Try the largest batch and print the run's cost.", FORMAT, in_python="Train nothing; try the largest batch."
        ),
    ] = False,
    show_settings: Annotated[
        bool,
        Option(
            "Print all settings as YAML (for {config}).",
            FORMAT,
            in_python="Train nothing; resolve the settings. With {dry_run}, both.",
        ),
    ] = False,
    nproc: Annotated[
        int | None, Ge(1), Option("Processes on this machine, such as one per GPU.", HARDWARE, unset="1")
    ] = None,
    device: Annotated[DeviceChoice | None, Option("Where to compute.", HARDWARE, unset="auto")] = None,
    precision: Annotated[TrainingPrecision | None, Option("auto: bf16 where faster.", HARDWARE, unset="auto")] = None,
    threads: Annotated[int | None, Ge(1), THREADS] = None,
    seed: Annotated[
        int | None, Ge(0), Option("Seed of initial weights, dropout and the order of the data.", SETTINGS, unset="1")
    ] = None,
    quiet: bool = True,
    report: Reporter = SILENT,
    listener: Listener | None = None,
) -> Training:
    """Train a Transformer, or resume a run.

    The same call again resumes the run. Under torchrun, every rank calls this. A signal to stop saves a checkpoint
    first, if this is the main thread.

    Args:
        own options: listed by ``help(nmt.train)``.
        quiet: whether processes of ``nproc``, which print what the command prints, print warnings and errors only.
        report: hears notices and warnings.
        listener: hears each event of the run, in place of ``report``.

    Raises:
        ConfigError: a setting is wrong, or differs from those of the run's start.
        CheckpointError: the run's checkpoints are all damaged, or the bundle does not fit.
        DataError: the data cannot be used, or is not that of the run.
        OutputError: the folder exists and is not a run.
        TrainingError: training cannot continue, or a process failed.
    """
    given = dict(locals())
    from nmt.config import TrainingConfig, option_layer, setting_layer
    from nmt.data.leaks import leaks
    from nmt.record import option_words
    from nmt.training.input.data_sets import DataSets, TrainingData
    from nmt.training.listener import Listener, Reported
    from nmt.training.progress import Ending
    from nmt.training.ranks.exchange import NO_OTHERS, is_launched, ranks_of_environment
    from nmt.training.run import check_run
    from nmt.training.run import dry_run as try_run
    from nmt.training.run import train as train_run
    from nmt.training.start.data_record import data_to_resume
    from nmt.training.start.folder import run_folder
    from nmt.training.start.settings import settings_of_run
    from nmt.training.start.summary import summarize

    only_settings = show_settings and not dry_run
    launches = nproc is not None and nproc > 1 and not is_launched() and not only_settings
    is_main = ranks_of_environment().is_main and not launches
    if not is_main:  # another process says the same
        listener = Listener()
    elif listener is None:
        listener = Reported(report)
    if resume is not None:
        for name in ("preset", "config", "out", "init_from", "fresh", "sampling_temperature"):
            if given[name]:
                raise ConfigError(
                    f"--{name.replace('_', '-')} does not go with --resume, which takes the run's own settings and "
                    "folder. Leave it out. --set changes single settings."
                )
        weighted: list[tuple[Path, float]] = []
        choice = settings_of_run(resume)
        if not only_settings:
            weighted = data_to_resume(resume, data or None)
            listener.noticed(f"data: {', '.join(str(folder) for folder, _ in weighted)} (of the run)")
    else:
        weighted, choice = _chosen(data, preset, config, init_from, listener, needs_data=not only_settings)
    layers = [setting_layer(setting) for setting in set]
    layers += [
        option_layer(f"training.{name}", given[name])
        for name in TrainingConfig.model_fields
        if given.get(name) is not None
    ]
    # Settings are resolved also before a data set has a vocabulary.
    sets = None if only_settings else DataSets.open(weighted)
    if sampling_temperature is not None:
        if len(weighted) < 2 or any(weight != 1 for _, weight in weighted):
            raise ConfigError(
                "--sampling-temperature balances several data sets by size: name each with --data, and no weight."
            )
        sets = None if sets is None else sets.balanced(sampling_temperature)
    resolved = choice.resolve(sets, layers)
    listener.settled(resolved)
    if choice.description is not None:
        listener.noticed(choice.description)
    run = resume or out or Path("runs") / f"{'+'.join(part.name for part in resolved.data.parts)}-{choice.name}"
    if sets is None:
        return Training(run, resolved, is_main=is_main)
    how: dict[str, Any] = {"fresh": fresh, "accept_changes": accept_changes, "init_from": init_from}
    if (is_main or launches) and not dry_run:
        check_run(run, resolved, sets, **how)
    if launches:
        without = {"report", "listener", "nproc"} | {name for name, value in given.items() if value is False}
        words = option_words({name: value for name, value in given.items() if name not in without})
        with run_folder(run, NO_OTHERS, fresh=fresh and not dry_run) as run:
            code = _launch(["train", *words], sets, resolved, nproc or 1, run if fresh else None)
        return Training(run, resolved, exit_code=code, is_main=False)
    training_data = TrainingData.of(sets, resolved)
    summary = summarize(training_data)
    if is_main and len(sets.folders) > 1:
        for leak in leaks(sets.folders):
            report.warn(leak)
    if is_main and resolved.model.alignment_layer is None and all(part.index.is_aligned for part in sets.parts):
        listener.noticed("The pairs are aligned, but no layer learns to align: set model.alignment_layer.")
    if dry_run:
        measured = try_run(training_data, run, init_from=init_from)
        return Training(run, resolved, summary, measured, is_main=is_main)
    listener.summarized(summary)
    outcome = train_run(training_data, run, listener, **how)
    code = 128 + (outcome.stopped_by or signal.SIGINT) if outcome.ending is Ending.INTERRUPTED else 0
    return Training(outcome.run, resolved, summary, None, outcome, code, is_main)


def _chosen(
    data: Texts,
    preset: str | None,
    config: Path | None,
    init_from: Path | None,
    listener: Listener,
    *,
    needs_data: bool,
) -> tuple[list[tuple[Path, float]], Choice]:
    """The data and the settings that are named, or chosen. Unless data is needed, there may be none."""
    from nmt.data.manifest import data_sets_below, newest_data_set, read_manifest
    from nmt.data.mixing import parse_weighted
    from nmt.training.start.settings import choose_settings

    weighted = [parse_weighted(text) for text in data]
    if not data and (needs_data or data_sets_below()):
        weighted = [(newest_data_set(), 1.0)]
        listener.noticed(f"data: {weighted[0][0]} (the newest)")
    manifests = [read_manifest(folder) for folder, _ in weighted]
    return weighted, choose_settings(manifests, preset=preset, config_file=config, init_from=init_from)


def _launch(words: list[str], sets: DataSets, resolved: Config, ranks: int, claimed: Path | None) -> int:
    """Start the processes of a run, and return their exit code; errors as of :func:`launch`."""
    import torch

    from nmt.training.input.data_sets import TrainingData
    from nmt.training.ranks.exchange import Ranks
    from nmt.training.ranks.launch import launch
    from nmt.training.start.summary import summarize

    # A look at a GPU would take memory there for as long as the ranks train.
    if not torch.cuda.is_available() or resolved.training.device == "cpu":
        summarize(TrainingData.of(sets, resolved), Ranks(0, ranks, 0, ranks))  # so that errors are reported once
    return launch(words, ranks, claimed)


@dataclass(frozen=True)
class Averaged:
    """The average of several checkpoints."""

    out: Path
    """Its bundle."""
    checkpoints: list[Path]
    """What it was made of."""
    score: str | None
    """Its validation score, in words; None if it was not validated."""
    is_used: bool
    """Whether ``nmt translate`` takes it for the run: it is the run's own average, and better than its best
    checkpoint."""


@checked
def average_checkpoints(
    run: Annotated[Path | None, Argument("The run's folder.", unset="newest below runs/", metavar="RUN")] = None,
    *,
    last: Annotated[int | None, Ge(1), Option("Average the last N checkpoints.", CHECKPOINTS, unset="5")] = None,
    best: Annotated[
        int | None, Ge(1), Option("Average the N best checkpoints by validation score.", CHECKPOINTS)
    ] = None,
    updates: Annotated[
        Joined | None, Option("Average the checkpoints of these updates.", CHECKPOINTS, metavar="N,N")
    ] = None,
    out: Annotated[Path | None, Option("The bundle to write.", STREAMS, unset="RUN/average", letter="o")] = None,
    data: Annotated[
        Texts, Option("The run's data, to validate.", STREAMS, unset="where the run found it", metavar="DIR")
    ] = (),
    report: Reporter = SILENT,
) -> Averaged:
    """Average the weights of several checkpoints of a run, and validate the average.

    Args:
        own options: listed by ``help(nmt.average_checkpoints)``.
        report: hears notices.

    Raises:
        ConfigError: more than one choice of checkpoints was given.
        CheckpointError: the run has no such checkpoints.
        DataError: the data that was given is not the run's.
    """
    from nmt.checkpoint.averaging import average, best_checkpoints, last_checkpoints, named_checkpoints
    from nmt.checkpoint.describing import has_checkpoints, newest_trained_run
    from nmt.checkpoint.run_folder import RunFolder, best_checkpoint, validation_score, why_not_better

    given = [name for name, value in (("--last", last), ("--best", best), ("--updates", updates)) if value is not None]
    if len(given) > 1:
        raise ConfigError(f"{' and '.join(given)} were both given: give one.")
    if run is None:
        run, remarks = newest_trained_run(usable=has_checkpoints)
        for line in (f"run: {run} (the newest)", *remarks):
            report.notice(line)
    if updates is not None:
        inputs = named_checkpoints(run, [update.strip() for update in updates.split(",")])
    else:
        inputs = best_checkpoints(run, best) if best is not None else last_checkpoints(run, last or 5)
    wanted, there = best or last or 0, len(inputs)
    if there < wanted:
        kind = "validated checkpoint" if best is not None else "checkpoint"
        report.notice(f"averaging {there} {kind}{'s' * (there > 1)}: the run has no more, and {wanted} were asked for")
    for folder in inputs:
        report.notice(f"averaged: {folder}")
    own_place = RunFolder(run).average
    out = out or own_place
    average(inputs, out, validate=partial(_validate, run, data, report))
    score, best_one = validation_score(out), best_checkpoint(run)
    report.notice(f"written: {out}" + (f" ({score})" if score is not None else ""))
    shown = None if score is None else str(score)
    if best_one is None or (score is None and out != own_place):
        return Averaged(out, inputs, shown, best_one is None and out == own_place)
    objection = why_not_better(out, best_one)
    judgement = objection or f"{score} is better than {validation_score(best_one)} of {best_one.name}"
    used = f": `nmt translate --model {run}` uses {best_one.name if objection else out}" if out == own_place else ""
    report.notice(f"{judgement}{used}")
    return Averaged(out, inputs, shown, out == own_place and not objection)


def _validate(run: Path, data: Texts, report: Reporter, mean: Bundle) -> dict[str, float | None] | None:
    """Validate an average on the run's data; None if that is not there or the memory does not suffice."""
    from nmt.machine.device import is_out_of_memory
    from nmt.training.averages import validate_average
    from nmt.training.start.data_record import data_to_resume

    try:
        folders = [folder for folder, _ in data_to_resume(run, data or None)]
        report.notice(f"validating on {', '.join(map(str, folders))}")
        validation = validate_average(mean, folders)
    except (NmtError, RuntimeError, MemoryError) as error:
        is_full = is_out_of_memory(error)
        if (data or not isinstance(error, NmtError)) and not is_full:
            raise
        report.notice(f"not validated: {'the memory does not suffice' if is_full else error}")
        return None
    return {"loss": validation.loss, "bleu": validation.bleu}
