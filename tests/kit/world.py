"""A small world of everything that nmt writes: a data set, a run, bundles, a report, a model of another toolkit."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import yaml

from nmt.checkpoint.bundle import load_bundle, save_bundle
from nmt.convert.converting import import_model
from tests.commands import run_here
from tests.convert.unexamined import examine_nothing
from tests.training.conftest import SETTINGS, make_data_set

MARIAN = Path(__file__).parent.parent / "convert" / "data" / "marian-post"


def run_nmt(*words: str | Path) -> None:
    """Run a command in this process."""
    result = run_here(words)
    assert result.returncode == 0, result.stderr.decode()


def write_settings(path: Path, updates: int, **checkpoints: int) -> None:
    """Settings of a run that takes a moment."""
    settings = yaml.safe_load(SETTINGS)
    settings["training"]["max_updates"] = updates
    settings["validation"] |= {"every_updates": max(1, updates // 2), "bleu": False}
    settings["checkpoints"] = {"every_updates": 1} | checkpoints
    path.write_text(yaml.safe_dump(settings))


def make_world(world: Path) -> None:
    """Make it in a folder that does not exist yet."""
    make_data_set(world / "sets" / "data", pairs=60)
    write_settings(world / "quick.yaml", 2)
    write_recipe(world)
    (world / "input.txt").write_text("ba do ki\nlu me\n\nno pa ru se ti\n" * 3)
    (world / "other.txt").write_text("ba do ki\nlu\n\nno ru pa se\n" * 3)
    before = Path.cwd()
    os.chdir(world)
    try:
        run_nmt("train", "--data", "sets/data", "--config", "quick.yaml", "--out", "runs/run")
        run_nmt("average-checkpoints", "runs/run", "--last", "2")
        run_nmt("report", "runs/run", "--out", "page.html")
        trained = load_bundle(Path("runs/run/average"))
        save_bundle(Path("bundle"), trained.weights, trained.config, trained.vocab)
    finally:
        os.chdir(before)
    shutil.copytree(MARIAN, world / "opus")
    with pytest.MonkeyPatch.context() as monkeypatch:
        examine_nothing(monkeypatch)
        import_model(world / "opus", world / "imported")


def write_recipe(world: Path, *, dedup: bool = True) -> None:
    """A recipe, ``mirrored.yaml``, whose downloads lie in a mirror."""
    languages = {"en": "en", "de": "de"}
    (world / "mirror").mkdir(exist_ok=True)
    for language in languages:
        lines = "".join(f"{language} {number}\n" for number in range(30))
        (world / "mirror" / f"text.{language}").write_text(lines)
    corpus = {"kind": "text", "name": "text", "files": languages}
    recipe = {
        "name": "mirrored", "source_lang": "en", "target_lang": "de",
        "downloads": {language: {"url": f"https://example.invalid/text.{language}"} for language in languages},
        "train": [corpus], "valid": [corpus], "test": [corpus], "filters": {"leakage": "count", "dedup": dedup},
    }  # fmt: skip
    (world / "mirrored.yaml").write_text(yaml.safe_dump(recipe))
