"""The screen of ``nmt`` alone in a terminal: the data sets and runs of this folder, and the command to type next.

It reads small files only and never imports torch, so that it appears at once.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nmt
from nmt.checkpoint.bundle_files import BundleFolder
from nmt.checkpoint.describing import holds_model, model_facts
from nmt.checkpoint.kinds import read_json
from nmt.checkpoint.run_folder import RunFolder, bundle_to_use, checkpoints, runs_below
from nmt.config import load_yaml
from nmt.data.data_folder import DataFolder
from nmt.data.manifest import data_sets_below, read_manifest
from nmt.errors import NmtError
from nmt.locking import is_held

_MOST_SHOWN = 4
"""Data sets, and runs, on the screen; the newest come first."""

Command = tuple[str, str]
"""What to type, and its purpose."""


@dataclass(frozen=True)
class Found:
    """A data set or a run in this folder."""

    path: Path
    state: str
    """In a few words: ``en-de, 7,200 training pairs; no vocabulary yet``."""
    changed: float
    """When it was last worked on, in seconds since 1970."""
    next: tuple[Command, ...]
    """The commands that follow."""


@dataclass(frozen=True)
class FirstScreen:
    """All that the screen shows."""

    found: tuple[Found, ...]
    left_out: int
    """Older data sets and runs that are not shown."""
    next: tuple[Command, ...]


_BEGINNING = (
    ("nmt prepare-data toy-en-de", "a built-in toy pair, to try everything in minutes"),
    ("nmt prepare-data mine-en-de --train-source FILE --train-target FILE", "two files of your own"),
    ("nmt prepare-data --list", "data sets to download"),
)


def first_screen(folder: Path = Path()) -> FirstScreen:
    """Look at the data sets below ``data/`` and the runs below ``runs/`` of a folder."""
    data_sets = data_sets_below(folder / "data")
    runs = runs_below(folder / "runs")
    shown = [_Run(path) for path in runs[:_MOST_SHOWN]]
    trained = {run.data("name") for run in shown}
    found = (
        *(_data_set(path, newest=data_sets[0], trained=trained) for path in data_sets[:_MOST_SHOWN]),
        *(run.found(newest=runs[0], data_sets=data_sets) for run in shown),
    )
    with_next = [each for each in found if each.next]
    return FirstScreen(
        found,
        len(data_sets) + len(runs) - len(found),
        max(with_next, key=lambda each: each.changed).next if with_next else _BEGINNING,
    )


def screen_lines(screen: FirstScreen) -> Iterator[tuple[str, str]]:
    """The lines of the screen, each as its left part, which stands out in a terminal, and the rest."""
    yield f"nmt {nmt.__version__}", "  neural machine translation, from raw parallel text to a scored translator"
    yield "", ""
    yield "In this folder", ""
    yield from _columns((str(each.path), each.state) for each in screen.found)
    if not screen.found:
        yield "", "  no data set and no run yet"
    if screen.left_out:
        yield "", f"  and {screen.left_out:,} older"
    yield "", ""
    yield "Next", ""
    yield from _columns(screen.next)
    yield "", ""
    yield "", "All commands: nmt --help. Options of one: nmt train --help."


def _columns(pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Two columns; where the left one is wide, its explanation stands on a line of its own."""
    rows = list(pairs)
    width = max((len(left) for left, _ in rows if len(left) <= 40), default=0)
    for left, right in rows:
        if len(left) <= width:
            yield f"  {left:<{width}}", f"  {right}"
        else:
            yield f"  {left}", ""
            yield "", f"  {'':<{width}}  {right}"


def _data_set(path: Path, *, newest: Path, trained: set[str]) -> Found:
    option = "" if path == newest else f" --data {shlex.quote(str(path))}"
    folder = DataFolder(path)
    changed = max(_modified(folder.manifest), _modified(folder.vocab))
    try:
        manifest = read_manifest(path)
        pairs = manifest.files[f"train.{manifest.source_lang}"].lines
    except (NmtError, KeyError):
        return Found(path, f"{folder.manifest.name} cannot be read", changed, ())
    state = f"{manifest.source_lang}-{manifest.target_lang}, {pairs:,} training pairs"
    if not folder.vocab.is_file():
        build = (f"nmt build-vocab{option}", "train a vocabulary, and encode the text")
        return Found(path, f"{state}; no vocabulary yet", changed, (build,))
    if manifest.name not in trained:
        return Found(path, f"{state}; encoded, no run yet", changed, ((f"nmt train{option}", "train a Transformer"),))
    return Found(path, f"{state}; encoded", changed, ())


class _Run:
    """A run, with its settings read once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.settings: Mapping[str, Any] = load_yaml(RunFolder(path).config)
        except (NmtError, OSError):
            self.settings = {}
        self.updates = list(checkpoints(path))

    @property
    def is_training(self) -> bool:
        """Whether a process of this machine trains in its folder."""
        return is_held(RunFolder(self.path).lock)

    @property
    def is_over(self) -> bool:
        """Whether its newest checkpoint reached one of its limits."""
        newest = checkpoints(self.path)[self.updates[-1]] if self.updates else None
        state = read_json(BundleFolder(newest).training_state) if newest else None
        limits = _mapping(self.settings.get("training"))
        if not isinstance(state, dict):
            return False
        return (
            _reached(state.get("update"), limits.get("max_updates"))
            or _reached(state.get("seconds"), limits.get("max_minutes"), factor=60.0)
            or _reached(state.get("validations_without_gain"), limits.get("patience"))
        )

    def data(self, key: str) -> str:
        """What it records of its data set: ``name``, ``source_lang`` or ``target_lang``."""
        return str(_mapping(self.settings.get("data")).get(key, ""))

    def found(self, *, newest: Path, data_sets: list[Path]) -> Found:
        """Its state, and the commands that follow."""
        path = shlex.quote(str(self.path))
        named = "" if self.path == newest else f" {path}"
        run = RunFolder(self.path)
        changed = max(map(_modified, (self.path, run.config, run.average)))
        resume = (f"nmt train --resume {path}", "resume the run")
        if self.is_training:
            state = f"training now, last checkpoint at update {self.updates[-1]:,}" if self.updates else "training now"
            return Found(self.path, state, changed, ((f"nmt report{named}", "draw its curves so far"),))
        if not holds_model(self.path):
            return Found(self.path, "no checkpoint yet", changed, (resume,))
        bundle = bundle_to_use(self.path)
        facts = str(model_facts(bundle))
        if bundle != run.average and self.updates and not self.is_over:
            state = f"stopped at update {self.updates[-1]:,}; best: {facts}"
            return Found(self.path, state, changed, (resume,))
        state = "averaged" if bundle == run.average else "finished; best"
        return Found(self.path, f"{state}: {facts}", changed, self._use(named, data_sets))

    def _use(self, named: str, data_sets: list[Path]) -> tuple[Command, ...]:
        """The commands for a model that is ready."""
        translate = f"nmt translate --model{named}" if named else "nmt translate"
        talk = (translate, "type sentences and read their translations")
        home = next((path for path in data_sets if path.name == self.data("name")), None)
        source_lang, target_lang = self.data("source_lang"), self.data("target_lang")
        if home is None or not DataFolder(home).text("test", source_lang).is_file():
            return (talk,)
        source, target = (shlex.quote(str(DataFolder(home).text("test", code))) for code in (source_lang, target_lang))
        return (
            talk,
            (f"{translate} < {source} > hypothesis.{target_lang}", "translate the test set"),
            (f"nmt score --reference {target} hypothesis.{target_lang}", "score the translation"),
        )


def _reached(value: object, limit: object, *, factor: float = 1.0) -> bool:
    return isinstance(value, int | float) and isinstance(limit, int | float) and value >= limit * factor


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
