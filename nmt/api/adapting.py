"""Adapting a model to a user's own translations from Python: prepare, train, and say what was won and lost."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge, Gt

from nmt.api.arguments import THREADS, Assignments, Paths, Texts, checked
from nmt.errors import ConfigError, DataError, OutputError
from nmt.option_fields import HARDWARE, SCORES, SETTINGS, STREAMS, Argument, DeviceChoice, Option, flag_of
from nmt.reporting import SILENT, Reporter

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.evaluation.significance import SystemScore
    from nmt.training.input.data_sets import DataSets
    from nmt.training.listener import Listener

_HELD_OUT, _HELD_OUT_SHARE = 1_000, 0.15
"""Pairs of the memory that are kept for validation, and as many for the verdict."""
_PEAK = 1 / 3
"""Of the learning rate that the model was trained with, at the same size of updates."""
_ADAPTERS_PEAK = 3.0
"""The same of adapters."""
_WARMUP, _WARMUP_SHARE = 50, 0.25
"""Updates, and at most this share of all: the training of a small memory ends before 50."""
_EPOCHS = 20
_UPDATES_PER_EPOCH = 20
"""At least; a validation follows each."""
_FEWEST_TOKENS = 500
_PATIENCE = 3
_SIGNIFICANT = 0.05


@dataclass(frozen=True)
class Change:
    """How a model translates a test set before and after it was adapted."""

    name: str
    """Of the data set."""
    sentences: int
    before: SystemScore
    after: SystemScore

    @property
    def difference(self) -> float:
        """What was won, in BLEU; negative if it was lost."""
        return self.after.value - self.before.value

    @property
    def is_sure(self) -> bool:
        """Whether the difference is significant, by paired bootstrap resampling."""
        return self.after.p_bootstrap is not None and self.after.p_bootstrap < _SIGNIFICANT


@dataclass(frozen=True)
class Adapted:
    """A model that was adapted."""

    run: Path
    """Its run."""
    own: Change | None = None
    """On what was held out of the memory; None if training was interrupted."""
    general: tuple[Change, ...] = ()
    """On the test sets of the general data sets."""
    forgets: bool = False
    """Whether it lost more than allowed on one of these."""
    exit_code: int = 0
    """0 unless training was interrupted (128 and the signal's number)."""


@checked
def adapt(
    model: Annotated[Path, Argument("Run or bundle to adapt.", metavar="MODEL")],
    memory: Annotated[
        Texts, Argument("Your translations: .tmx, .po, .xlf, .tsv, .zip, or two files.", metavar="MEMORY")
    ],
    *,
    general: Annotated[
        Paths,
        Option("A data set of the model's: mixed in, and tested for what is forgotten.", STREAMS, metavar="DIR"),
    ] = (),
    out: Annotated[
        Path | None,
        Option(
            "Folder for the model, its data and the verdict.", STREAMS, unset="adapted/NAME of the memory", letter="o"
        ),
    ] = None,
    source_lang: Annotated[
        str | None, Option("Source language, for models of several.", STREAMS, unset="the model's", metavar="LANG")
    ] = None,
    target_lang: Annotated[
        str | None, Option("Target language, for models of several.", STREAMS, unset="the model's", metavar="LANG")
    ] = None,
    adapter_rank: Annotated[
        int | None, Ge(1), Option("Train low-rank adapters of this rank.", SETTINGS, unset="all weights", metavar="N")
    ] = None,
    max_minutes: Annotated[float, Gt(0), Option("End training after about X minutes.", SETTINGS)] = 20,
    max_loss: Annotated[float, Ge(0), Option("BLEU that general text may lose.", SCORES)] = 1.0,
    set: Annotated[Assignments, Option("Change a setting: schedule.factor=0.1.", SETTINGS, metavar="KEY=VALUE")] = (),
    accept_changes: Annotated[bool, Option("Resume although settings changed.", SETTINGS)] = False,
    fresh: Annotated[bool, Option("Start over in the next free folder, such as OUT-2.", STREAMS)] = False,
    device: Annotated[DeviceChoice, Option("Where to compute.", HARDWARE)] = "auto",
    threads: Annotated[int | None, Ge(1), THREADS] = None,
    report: Reporter = SILENT,
    listener: Listener | None = None,
) -> Adapted:
    """Fine-tune a model on a translation memory, and compare it with the model before.

    A part of the memory is held out: training ends when it translates that no better, and the verdict is on another
    part. The same call again resumes.

    Args:
        own options: listed by ``help(nmt.adapt)``.
        report: hears notices and warnings.
        listener: hears each event of the training, in place of ``report``.

    Raises:
        NmtError: as of :func:`nmt.prepare_data`, :func:`nmt.build_vocab`, :func:`nmt.train`,
            :func:`nmt.translate_file` and :func:`nmt.score`.
    """
    from nmt.api.data import build_vocab
    from nmt.api.training import train
    from nmt.checkpoint.bundle_files import BundleFolder
    from nmt.checkpoint.run_folder import bundle_to_use
    from nmt.config import read_config
    from nmt.data.data_folder import DataFolder
    from nmt.data.manifest import read_manifest
    from nmt.data.shard_index import build_command
    from nmt.io.files import free_name
    from nmt.training.input.data_sets import DataSets
    from nmt.translation.directions import choices
    from nmt.translation.options import translate_options

    config = read_config(BundleFolder(bundle_to_use(model)).config)
    named = translate_options(config.decoding, called=flag_of, source_lang=source_lang, target_lang=target_lang)
    chosen = choices(config.data, named)
    languages = chosen["source"], chosen["target"]
    directions = [languages]
    for folder in general:
        manifest = read_manifest(folder, "--general")
        directions.append((manifest.source_lang, manifest.target_lang))
        if not DataFolder(folder).vocab.is_file():
            raise DataError(f"{folder}: has no vocabulary yet. Run {build_command(folder, model)} first.")
    if not memory:
        raise ConfigError("memory: name your translations: a .tmx, .po, .xlf or .tsv file, two files or their prefix.")
    out = out or Path("adapted") / (Path(memory[0]).absolute().name.split(".")[0] or "memory")
    if fresh:
        out = free_name(out)
    run, data, verdict = (out / name for name in ("model", "data", "verdict"))
    _prepare(data, out.absolute().name, memory, languages, general, report)
    build_vocab((data,), vocab=model, align=config.guides_alignment, threads=threads, report=report)
    own, others = DataSets.open([(data, 1.0)]), [DataSets.open([(folder, 1.0)]) for folder in general]
    weights = [_weight(own, each) / len(others) for each in others]
    mixed = [f"{folder}:{weight:.6g}" for folder, weight in zip(general, weights, strict=True)]
    trained = train(
        (str(data), *mixed),
        init_from=model,
        out=run,
        set=(*_settings(config, own, others, weights, adapter_rank), *set),
        accept_changes=accept_changes,
        max_minutes=max_minutes,
        device=device,
        threads=threads,
        report=report,
        listener=listener,
    )
    if trained.exit_code:
        return Adapted(run, exit_code=trained.exit_code)
    changes = []
    # A resumed call may train on: what the model before it wrote has another name, and stays.
    models = {"before": model, f"after.{bundle_to_use(run).name}": run}
    try:
        for number, (folder, direction) in enumerate(zip((data, *general), directions, strict=True)):
            test, name = DataFolder(folder).text("test", direction[0]), f"general-{number}" if number else "memory"
            outputs = [verdict / f"{name}.{when}.{direction[1]}" for when in models]
            for output, path in zip(outputs, models.values(), strict=True):
                _translate(test, output, path, direction, device=device, threads=threads, report=report)
            changes.append(_change(folder, outputs, direction[1]))
    except KeyboardInterrupt:
        report.notice(f"The adapted model is {run}. Run the same command for the verdict.")
        raise
    lost = [change for change in changes[1:] if -change.difference > max_loss and change.is_sure]
    return Adapted(run, changes[0], tuple(changes[1:]), bool(lost))


def _prepare(
    folder: Path, name: str, memory: Texts, languages: tuple[str, str], general: Paths, report: Reporter
) -> None:
    """Prepare the memory as a data set, from whose training text the sentences of other test sets are left out."""
    from nmt.checkpoint.run_folder import is_run
    from nmt.corpora.corpus_kinds import HeldOut
    from nmt.corpora.prepare import prepare
    from nmt.corpora.recipe import kept_apart, own_recipe
    from nmt.corpora.summary import summary_lines
    from nmt.data.manifest import known_manifest

    source, target = (code or None for code in languages)
    recipe = own_recipe(name, train=list(memory), source_lang=source, target_lang=target, notify=report.notice)
    held_out = [HeldOut(kind="held-out", pairs=_HELD_OUT, max_share=_HELD_OUT_SHARE)]
    recipe = kept_apart(recipe.model_copy(update={"valid": held_out, "test": held_out}), general)
    standing = known_manifest(folder)
    is_used = is_run(folder.with_name("model"))
    if is_used and standing is not None and (standing.recipe != recipe.record() or standing.changed_sources()):
        raise OutputError(
            f"{folder.parent}: holds a model that was adapted to other text or beside other data. Name another folder "
            "with --out, or add --fresh for the next free one."
        )
    with report.progress() as display:
        prepared = prepare(
            recipe, folder, progress=display("bytes"), pairs_progress=display("pairs"), notify=report.notice
        )
    for line in summary_lines(prepared.manifest) if prepared.changed else ():
        report.notice(line)


def _settings(
    config: Config, own: DataSets, others: Sequence[DataSets], weights: Sequence[float], rank: int | None
) -> list[str]:
    """The settings of a short training at a low rate, in which validations are frequent."""
    tokens = _tokens(own) + sum(map(operator.mul, weights, map(_tokens, others)))
    update = round(min(config.batching.update_tokens, max(_FEWEST_TOKENS, tokens / _UPDATES_PER_EPOCH)))
    epoch = max(1, round(tokens / update))
    warmup = max(1, min(_WARMUP, round(_EPOCHS * epoch * _WARMUP_SHARE)))
    schedule, d_model = config.schedule, config.model.d_model
    old_peak = schedule.factor * (d_model * schedule.warmup) ** -0.5
    # Adam's steps are as noisy as its gradients are, so that smaller updates need a lower rate (Malladi et al. 2022).
    peak = (_PEAK if rank is None else _ADAPTERS_PEAK) * old_peak * math.sqrt(update / config.batching.update_tokens)
    values: dict[str, object] = {
        "batching.update_tokens": update,
        "batching.group_tokens": min(update, config.batching.group_tokens),
        "schedule.warmup": warmup,
        "schedule.factor": f"{peak * math.sqrt(d_model * warmup):.4g}",
        "schedule.decay": "inverse_sqrt",
        "schedule.decay_updates": "null",
        "training.adapter_rank": "null" if rank is None else rank,
        "training.max_updates": _EPOCHS * epoch,
        "training.patience": _PATIENCE,
        "validation.every_updates": epoch,
        "checkpoints.every_updates": epoch,
    }
    if config.guides_alignment and not all(part.index.is_aligned for each in others for part in each.parts):
        values["training.guided_alignment"] = 0
    return [f"{key}={value}" for key, value in values.items()]


def _tokens(sets: DataSets) -> int:
    """The target pieces of the training pairs, with eos."""
    return sum(int(part.target_lengths.sum()) + len(part) for part in sets.parts)


def _weight(own: DataSets, general: DataSets) -> float:
    """By how much the general pairs are thinned out, so that they are as many as those of the memory at most."""
    return min(1.0, sum(map(len, own.parts)) / sum(map(len, general.parts)))


def _translate(test: Path, output: Path, model: Path, languages: tuple[str, str], **how: Any) -> None:
    """Translate a test set; languages are named for models of several."""
    from nmt.api.files import translate_file

    output.parent.mkdir(parents=True, exist_ok=True)
    translate_file(test, output, model=(model,), source_lang=languages[0], target_lang=languages[1], **how)


def _change(folder: Path, outputs: Sequence[Path], language: str) -> Change:
    from nmt.data.data_folder import DataFolder
    from nmt.evaluation.metrics import make_metric
    from nmt.evaluation.significance import evaluate
    from nmt.text.lines import read_lines

    reference = list(read_lines(DataFolder(folder).text("test", language)))
    systems = {name: list(read_lines(path)) for name, path in zip(("before", "after"), outputs, strict=True)}
    found = evaluate(systems, [reference], [make_metric("bleu", target_lang=language)])
    return Change(folder.name, len(reference), found["before"][0], found["after"][0])
