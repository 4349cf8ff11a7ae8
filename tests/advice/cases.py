"""Errors, the advice that they give, and what a user types who follows it.

The commands run in a copy of a small project (conftest.py): ``data/a`` and ``data/b``, prepared and encoded with
different vocabularies; ``runs/r``, a run of three updates on ``data/a``; ``quick.yaml``, its settings; ``corpus/c`` and
``corpus/d``, parallel text of one's own.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from sentencepiece import SentencePieceTrainer

from nmt.data.manifest import read_manifest, write_manifest

MARIAN = Path(__file__).parents[1] / "convert" / "data" / "marian-post"

AS_PRINTED = "what the message prints in backticks, then the same command"


@dataclass(frozen=True)
class Case:
    """A command that fails, and what is typed next."""

    command: str
    """Fails; typed in the project's folder."""
    then: str
    """The command with the advice followed; or :data:`AS_PRINTED`."""
    covers: tuple[str, ...]
    """Pieces of advice in the message, each with its module: ``training/run.py: --fresh``."""
    prepare: Callable[[Path], object] = lambda project: None
    """Changes the project first."""
    by_hand: Callable[[Path], object] = lambda project: None
    """What the advice says to move or remove."""
    first: str = ""
    """A command that the advice names with placeholders, typed before :attr:`then`."""
    fixed: str = ""
    """What the message must say where one piece of advice is given in several messages."""


def run(words: str) -> Callable[[Path], object]:
    """A preparation that types further commands."""

    def prepare(project: Path) -> None:
        from tests.advice.conftest import succeed

        for command in words.split(" && "):
            succeed(command)

    return prepare


def remove(name: str) -> Callable[[Path], object]:
    return lambda project: shutil.rmtree(project / name) if (project / name).is_dir() else (project / name).unlink()


def write(name: str, text: str) -> Callable[[Path], object]:
    return lambda project: (project / name).write_text(text)


def damage_checkpoints(project: Path) -> None:
    for path in (project / "runs" / "r" / "checkpoints").iterdir():
        (path / "model.safetensors").write_bytes(b"")


def forget_scores(project: Path) -> None:
    for path in (project / "runs" / "r" / "checkpoints").iterdir():
        (path / "checksums.json").unlink()
        values = json.loads((path / "training.json").read_text())
        (path / "training.json").write_text(json.dumps(values | {"scores": {}}))


def change_text(project: Path) -> None:
    manifest = read_manifest(project / "data" / "a")
    write_manifest(manifest.model_copy(update={"fingerprint": "of other text"}), project / "data" / "a")


def change_version(project: Path) -> None:
    path = project / "data" / "a" / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"of another version": 1}))


def cut_shards(project: Path) -> None:
    path = project / "data" / "a" / "shards" / "train.source.tokens"
    path.write_bytes(path.read_bytes()[:-4])


def spoil_shards(project: Path) -> None:
    """Pieces beyond the vocabulary."""
    tokens = project / "data" / "a" / "shards" / "train.target.tokens"
    tokens.write_bytes(b"\xff" * tokens.stat().st_size)


def lose_data(project: Path) -> None:
    (project / "data" / "a").rename(project / "data" / "b2")
    record = project / "runs" / "r" / "data.json"
    record.write_text(json.dumps([entry | {"absolute": "/nowhere"} for entry in json.loads(record.read_text())]))


def add_rare_character(project: Path) -> None:
    path = project / "data" / "a" / "train.en"
    path.write_text("漢 do\n" + path.read_text().split("\n", 1)[1])


def add_line(project: Path) -> None:
    with (project / "data" / "a" / "train.en").open("a") as stream:
        stream.write("one more\n")


def make_foreign_vocabulary(project: Path) -> None:
    SentencePieceTrainer.train(
        input=str(project / "corpus" / "c.en"), model_prefix=str(project / "foreign"), vocab_size=24, minloglevel=2
    )


def normalise_differently(project: Path) -> None:
    run("build-vocab --data data/b --vocab data/a/vocab.model --source-normalization nfkc")(project)


def write_tables(project: Path) -> None:
    rows = ["en\tde\tscore", *(f"ba {n}\tdo {n}\t0.9" for n in range(60))]
    (project / "corpus" / "scored.tsv").write_text("".join(f"{row}\n" for row in rows[1:]))
    (project / "corpus" / "table.tsv").write_text("".join(f"{row}\n" for row in rows))


def write_recipe(project: Path) -> None:
    """A recipe whose downloads a mirror has."""
    recipe = {
        "name": "served", "source_lang": "en", "target_lang": "de",
        "downloads": {side: {"url": f"http://nowhere.invalid/c.{side}"} for side in ("en", "de")},
        "train": [{"kind": "text", "name": "served", "files": {"en": "en", "de": "de"}}],
        "valid": [{"kind": "held-out"}], "test": [{"kind": "held-out"}],
    }  # fmt: skip
    (project / "served.yaml").write_text(json.dumps(recipe))


def needs_no_mecab(project: Path) -> None:
    if importlib.util.find_spec("MeCab") is not None:
        pytest.skip("the tokeniser for Japanese is installed here")


def needs_no_gpu(project: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")


TRAIN = "train --data data/a --config quick.yaml"
TO_RUN = f"{TRAIN} --out runs/r"
OWN = "prepare-data my-en-de --train corpus/c"
REMAKE = "prepare-data a --source-lang en --target-lang de --train corpus/c --out data/a"
SCORE = "score --reference corpus/c.de corpus/c.de"
SERVED = "prepare-data served.yaml --out served --offline"
TO_OUT = "translate --model runs/r --input corpus/c.en --output out"
COMPARE = "compare corpus/c.de corpus/c.en --reference corpus/c.de"


def marian_without_segmenters(project: Path) -> None:
    shutil.copytree(MARIAN, project / "opus")
    for side in ("source", "target"):
        (project / "opus" / f"{side}.spm").rename(project / f"{side}.spm")


CASES = [
    # import
    Case(
        "nmt import opus",
        "nmt import opus --source-spm source.spm --target-spm target.spm",
        ("convert/marian/reading.py: --source-spm", "convert/marian/reading.py: --target-spm"),
        prepare=marian_without_segmenters,
    ),
    Case(
        "nmt import runs/r --source-lang en --target-lang de --source-spm a.spm --target-spm b.spm --out models/r",
        "nmt import runs/r --out models/r",
        tuple(f"convert/converting.py: --{side}-{what}" for side in ("source", "target") for what in ("lang", "spm")),
    ),
    Case("nmt import runs/r --out runs/r", "nmt import runs/r --out models/r", ("convert/converting.py: --out",)),
    # Changed settings
    Case(
        f"{TO_RUN} --set model.d_model=32",
        f"{TO_RUN} --set model.d_model=32 --fresh",
        ("training/start/changes.py: --fresh", "training/start/changes.py: nmt train --resume {}"),
        fixed="leave model.d_model as before",
    ),
    Case(
        f"{TO_RUN} --set optimizer.beta1=0.5",
        f"{TO_RUN} --set optimizer.beta1=0.5 --accept-changes",
        ("training/start/changes.py: --accept-changes",),
    ),
    Case(
        f"{TO_RUN} --set optimizer.beta1=0.5",
        "train --resume runs/r",
        ("training/start/changes.py: nmt train --resume {}",),
    ),
    Case(
        TO_RUN,
        AS_PRINTED,
        ("training/start/changes.py: nmt build-vocab --data {} --vocab {}",),
        run("build-vocab --data data/a --size 32 --force"),
    ),
    Case(
        "train --data data/b --init-from runs/r --out runs/new",
        AS_PRINTED,
        ("training/start/changes.py: nmt build-vocab --data {} --vocab {}",),
    ),
    Case(
        TO_RUN,
        AS_PRINTED,
        ("training/start/changes.py: nmt build-vocab --data {} --vocab {}",),
        run("build-vocab --data data/a --vocab data/a/vocab.model --source-normalization nfkc"),
        fixed="data.source_normalization",
    ),
    Case(
        "train --data data/a --init-from runs/r --out runs/new",
        AS_PRINTED,
        ("training/start/changes.py: nmt build-vocab --data {} --vocab {}",),
        run("build-vocab --data data/a --vocab data/a/vocab.model --source-normalization nfkc"),
        fixed="normalises source text",
    ),
    *(
        Case(
            f"train --data data/a --init-from runs/r --out runs/new {options}",
            "train --data data/a --init-from runs/r --out runs/new",
            (f"training/start/beginning.py: {option}", "training/start/beginning.py: --init-from"),
            write("wide.yaml", "model: {d_model: 32}"),
        )
        for option, options in (
            ("--set", "--set model.d_model=32"),
            ("--config", "--config wide.yaml"),
            ("--preset", "--preset tiny"),
        )
    ),
    Case(TO_RUN, f"{TO_RUN} --fresh", ("checkpoint/run_folder.py: --fresh",), damage_checkpoints),
    # Folders and settings of a run
    *(
        Case(f"train --resume runs/r {words}", "train --resume runs/r", (f"cli/train.py: {option}",))
        for option, words in (
            ("--resume", "--fresh"),
            ("--fresh", "--fresh"),
            ("--preset", "--preset tiny"),
            ("--config", "--config quick.yaml"),
            ("--out", "--out runs/other"),
            ("--init-from", "--init-from runs/r"),
        )
    ),
    Case(
        "train --resume runs/r --preset tiny", "train --resume runs/r --set training.patience=3",
        ("cli/train.py: --set",),
    ),
    Case(
        "train --resume data/a",
        f"{TRAIN} --out runs/new",
        ("training/start/choose_settings.py: nmt train",),
    ),
    Case(
        "train --resume runs/r",
        "train --resume runs/r --data data/b2",
        ("training/start/recorded_data.py: --data",),
        lose_data,
    ),
    Case(
        "train --resume runs/r",
        "train --resume runs/r --data data/a",
        ("training/start/recorded_data.py: --data",),
        write("runs/r/data.json", "["),
        fixed="is damaged",
    ),
    Case(
        f"{TRAIN} --out taken", f"{TRAIN} --out free", ("ownership.py: --out",), write("taken", ""),
        fixed="a run is a folder",
    ),
    Case(f"{TRAIN} --out data/a", f"{TRAIN} --out free", ("ownership.py: --out",), fixed="and is not a run"),
    Case(
        f"{TRAIN} --out taken/run", f"{TRAIN} --out free/run", ("training/run.py: --out",), write("taken", ""),
        fixed="cannot be written",
    ),
    Case(
        f"{TRAIN} --fresh --out taken/run", f"{TRAIN} --fresh --out free/run", ("training/start/new_folder.py: --out",),
        write("taken", ""),
    ),
    Case(
        "train --data data/a --preset quick.yaml", "train --data data/a --config quick.yaml --out runs/new",
        ("config/reading.py: --config",),
    ),
    Case(f"{TO_RUN} --set model.heads", f"{TO_RUN} --set model.heads=2", ("config/reading.py: --set",)),
    Case(
        f"{TO_RUN} --set data.weight=2", f"{TRAIN} --out runs/new --data data/a:2",
        ("training/start/setup.py: --data",), fixed="--data DIR[:WEIGHT]",
    ),
    Case(
        f"{TRAIN} --out runs/new --set schedule.decay=linear --set schedule.decay_updates=40 --max-updates 50",
        f"{TRAIN} --out runs/new --set schedule.decay=linear --set schedule.decay_updates=40 --max-updates 40",
        ("config/sections.py: --max-updates",),
    ),
    *(
        Case(
            f"{TRAIN} --out runs/new --set schedule.decay=linear --set training.max_updates=null",
            f"{TRAIN} --out runs/new --set schedule.decay=linear {limit}", (f"config/sections.py: {limit.split()[0]}",),
        )
        for limit in ("--max-minutes 0.01", "--max-updates 3")
    ),
    *(
        Case(
            f"{TRAIN} --out runs/new --set model.d_model=1000000", f"{TRAIN} --out runs/new {option} {value}",
            (f"training/start/model_memory.py: {option}",),
        )
        for option, value in (("--set", "model.d_model=32"), ("--preset", "tiny"))
    ),
    # Data sets
    Case(f"{TRAIN} --out runs/new", AS_PRINTED, ("data/shards.py: nmt build-vocab --data {} --vocab {}",), cut_shards),
    Case(
        f"{TRAIN} --out runs/new", AS_PRINTED, ("data/shards.py: nmt build-vocab --data {} --vocab {}",),
        remove("data/a/shards"), fixed="has no shards yet",
    ),
    Case(
        f"{TRAIN} --out runs/new", AS_PRINTED, ("data/shards.py: nmt build-vocab --data {} --vocab {}",),
        write("data/a/shards/index.json", "{"), fixed="is damaged",
    ),
    Case(
        f"{TRAIN} --out runs/new", AS_PRINTED, ("training/input/data_sets.py: nmt build-vocab --data {}",),
        remove("data/a/vocab.model"),
    ),
    Case(
        f"{TRAIN} --out runs/new", AS_PRINTED, ("data/shards.py: nmt build-vocab --data {} --vocab {}",), change_text,
        fixed="its text has changed",
    ),
    Case(
        f"{TRAIN} --out runs/new", AS_PRINTED, ("data/shards.py: nmt build-vocab --data {} --vocab {}",),
        add_rare_character, fixed="train.en changed after the text was encoded",
    ),
    *(
        Case(
            command, f"{REMAKE} --force", ("data/encoded_text.py: --force", "data/encoded_text.py: nmt prepare-data"),
            add_line, fixed="must be parallel",
        )
        for command in (f"{TRAIN} --out runs/new", "build-vocab --data data/a")
    ),
    Case(
        f"{TRAIN} --data data/b --out runs/new", AS_PRINTED, ("data/shards.py: nmt build-vocab --data {} --vocab {}",),
        fixed="`nmt build-vocab --data data/b --vocab data/a/vocab.model`",
    ),
    Case(
        f"{TRAIN} --data data/b --out runs/new", AS_PRINTED, ("data/shards.py: nmt build-vocab --data {} --vocab {}",),
        remove("data/b/shards"), fixed="`nmt build-vocab --data data/b --vocab data/a/vocab.model`",
    ),
    Case(
        f"{TRAIN} --data data/b --out runs/new", AS_PRINTED,
        ("data/mixing.py: nmt build-vocab --data {} --vocab {} --source-normalization {}",), normalise_differently,
    ),
    Case(
        "train --data data/b --config quick.yaml --out runs/new --set model.max_positions=6", AS_PRINTED,
        ("training/input/data_sets.py: nmt build-vocab --data {} --vocab {} --max-pieces {}",),
    ),
    Case("build-vocab --data none", "build-vocab --data data/b", ("data/manifest.py: --data",)),
    Case(
        "build-vocab --data data/toy-en-de", AS_PRINTED, ("data/manifest.py: nmt prepare-data toy-en-de",),
        fixed="data/toy-en-de: does not exist",
    ),
    Case(
        f"{TRAIN} --out runs/new", f"{REMAKE} --force",
        ("data/manifest.py: --force", "data/manifest.py: nmt prepare-data"), change_version,
    ),
    *(
        Case(
            f"{TRAIN} --out runs/new", REMAKE, ("data/manifest.py: nmt prepare-data",),
            write("data/a/manifest.json", text), fixed="Move data/a away", by_hand=remove("data/a"),
        )
        for text in ("{", "{}")
    ),
    Case(
        f"{TRAIN} --out runs/new", AS_PRINTED, ("data/shards.py: nmt build-vocab --data {} --vocab {}",), spoil_shards,
    ),
    Case("build-vocab", AS_PRINTED, ("data/manifest.py: nmt prepare-data toy-en-de",), remove("data")),
    Case(
        "build-vocab --data data/b --size 5", "build-vocab --data data/b --size 40", ("data/vocab.py: --size",)
    ),
    Case(
        "build-vocab --data data/a --size 20 --force",
        "build-vocab --data data/a --size 20 --force --character-coverage 0.9995",
        ("data/vocab.py: --character-coverage",), add_rare_character,
    ),
    Case(
        "build-vocab --data data/a --vocab data/b/vocab.model --size 40", "build-vocab --data data/a --size 40",
        ("cli/build_vocab.py: --vocab", "cli/build_vocab.py: --size"),
    ),
    Case(
        "build-vocab --data data/a --data data/a --size 40",
        "build-vocab --data data/a --data data/b --size 40 --force",
        ("data/build.py: --data",),
    ),
    Case(
        "build-vocab --data data/a --size 40 --sampling-temperature 5",
        "build-vocab --data data/a --data data/b --size 40 --force --sampling-temperature 5",
        ("cli/build_vocab.py: --sampling-temperature", "cli/build_vocab.py: --data"),
    ),
    Case(
        "build-vocab --data data/b --vocab foreign.model", "build-vocab --data data/b",
        ("data/vocab.py: --vocab", "data/vocab.py: nmt build-vocab"), make_foreign_vocabulary,
    ),
    Case(
        f"{TRAIN} --out runs/new --device cuda", f"{TRAIN} --out runs/new --device auto",
        ("machine/device.py: --device",), needs_no_gpu,
    ),
    Case(
        "translate --model runs/r --max-source-length 5000", "translate --model runs/r --max-source-length 1023",
        ("translation/translator.py: --max-source-length",),
    ),
    Case("prepare-data", f"{OWN}", ("cli/prepare_data.py: --train",)),
    Case(
        "prepare-data toy-en-de --valid corpus/c --show-recipe", "prepare-data toy-en-de --show-recipe",
        ("cli/prepare_data.py: --show-recipe", "cli/prepare_data.py: --train", "cli/prepare_data.py: --valid"),
    ),
    *(
        Case(
            f"prepare-data mine-en-de {option}", f"prepare-data mine-en-de {option} --train corpus/table.tsv",
            (f"cli/prepare_data.py: {option.split()[0]}", "cli/prepare_data.py: --train"), write_tables,
        )
        for option in ("--columns en,de", "--header")
    ),
    *(
        Case(
            f"{OWN} {option}", f"prepare-data my-en-de --train corpus/table.tsv {option}",
            (f"corpora/recipe.py: {option.split()[0]}",), write_tables,
        )
        for option in ("--columns en,de", "--header")
    ),
    Case(
        "prepare-data my-en-de --train corpus/table.tsv --columns -,de",
        "prepare-data my-en-de --train corpus/table.tsv --columns en,de", ("corpora/tab_separated.py: --columns",),
        write_tables, fixed="none of the columns '-', 'de' hold en",
    ),
    *(
        Case(
            "prepare-data my-en-de --train corpus/scored.tsv --min-score 0.5", then,
            ("corpora/tab_separated.py: --columns", "corpora/tab_separated.py: --min-score"), write_tables,
            fixed="no columns are named score",
        )
        for then in (
            "prepare-data my-en-de --train corpus/scored.tsv --columns en,de,score --min-score 0.5",
            "prepare-data my-en-de --train corpus/scored.tsv",
        )
    ),
    *(
        Case(f"prepare-data mine-en-de {option} {value}", f"prepare-data mine-en-de {option} {value} --train corpus/c",
             (f"cli/prepare_data.py: {option}", "cli/prepare_data.py: --train"))
        for option, value in (
            ("--source-lang", "en"), ("--target-lang", "de"), ("--valid", "corpus/d"), ("--test", "corpus/d"),
            ("--valid-source", "corpus/d.en --valid-target corpus/d.de"),
            ("--test-source", "corpus/d.en --test-target corpus/d.de"),
        )
    ),
    Case("prepare-data mine", "prepare-data mine-en-de --train corpus/c", ("corpora/recipe.py: --train",)),
    Case(f"{OWN} --filter htlm", f"{OWN} --filter html", ("corpora/filters.py: --filter",)),
    Case(
        "prepare-data my-en-de --train corpus/scored.tsv --columns en,de,score --filter min_score",
        "prepare-data my-en-de --train corpus/scored.tsv --columns en,de,score --filter min_score=0.5",
        ("corpora/filters.py: --filter",), write_tables,
    ),
    Case(
        f"{OWN} --filter max_ratio=3 --max-ratio 4", f"{OWN} --filter max_ratio=3", ("cli/prepare_data.py: --filter",),
    ),
    Case(
        "prepare-data mine --train corpus/c",
        "prepare-data mine --train corpus/c --source-lang en --target-lang de",
        ("corpora/recipe.py: --source-lang", "corpora/recipe.py: --target-lang"),
    ),
    *(
        Case(f"{OWN} {option} corpus/d.en", f"{OWN} {option} corpus/d", (f"corpora/locations.py: {option}",))
        for option in ("--train", "--valid", "--test")
    ),
    *(
        Case(f"{OWN} {option} corpus/none", f"{OWN} {option} corpus/d", (f"corpora/locations.py: {option}",))
        for option in ("--train", "--valid", "--test")
    ),
    Case(
        f"{OWN} --train corpus/d.en", f"{OWN} --train-source corpus/d.en --train-target corpus/d.de",
        ("corpora/locations.py: --train-source", "corpora/locations.py: --train-target"),
    ),
    Case(
        OWN, "prepare-data my-en-de --train-source corpus/c.en --train-target corpus/c.de",
        ("corpora/locations.py: --train-source", "corpora/locations.py: --train-target"),
        lambda project: (project / "corpus" / "c.en.gz").write_bytes(gzip.compress(b"ba do\n")),
        fixed="hold different text",
    ),
    Case(
        "prepare-data my-en-de --train-source corpus/c --train-target corpus/c.de",
        "prepare-data my-en-de --train-source corpus/c.en --train-target corpus/c.de",
        ("corpora/locations.py: --train-source", "corpora/locations.py: --train-target"), fixed="does not exist",
    ),
    Case(
        f"{SERVED} --mirror corpus --cache taken/cache", f"{SERVED} --mirror corpus --cache free/cache",
        ("corpora/download.py: --cache",),
        lambda project: (write_recipe(project), write("taken", "")(project)),
    ),
    Case(
        f"{SERVED} --cache cache", f"{SERVED} --cache cache --mirror corpus", ("corpora/download.py: --mirror",),
        write_recipe,
    ),
    Case(f"{OWN} --out taken", f"{OWN} --out free", ("ownership.py: --out",), write("taken", "")),
    Case(f"{OWN} --out corpus", f"{OWN} --out free", ("ownership.py: --out",)),
    *(
        Case(
            f"{OWN} --out data/a", then, ("corpora/prepare.py: --out", "corpora/prepare.py: --force"),
            fixed="holds the data set a from en to de",
        )
        for then in (f"{OWN} --out data/c", f"{OWN} --out data/a --force")
    ),
    Case("build-vocab data/a --size 40", "build-vocab --data data/a --size 40", ("cli/app.py: --data",)),
    Case(REMAKE, f"{REMAKE} --force", ("data/data_set.py: --force",), add_line, fixed="train.en was edited"),
    # Models
    Case(
        "report", "report kept", ("checkpoint/run_folder.py: nmt train",),
        lambda project: (project / "runs" / "r").rename(project / "kept"),
    ),
    Case("translate", f"{TRAIN} --out runs/new", ("checkpoint/describing.py: nmt train",), remove("runs")),
    Case(
        "average-checkpoints", AS_PRINTED, ("checkpoint/describing.py: nmt train --resume {}",),
        remove("runs/r/checkpoints"),
    ),
    Case(
        f"{COMPARE} --json --out page.html", f"{COMPARE} --out page.html",
        ("cli/compare.py: --json", "cli/compare.py: --out"),
    ),
    Case(f"{COMPARE} --out corpus/c.en", f"{COMPARE} --out page.html", ("ownership.py: --out",)),
    Case("report data/a", "report runs/r", ("reports/run_history.py: nmt train",)),
    Case("attention ba --out page.pdf", "attention ba --out page.html", ("reports/attention_files.py: --out",)),
    Case(
        "attention ba --picture encoder", "attention ba --picture encoder --out picture.png",
        ("cli/attention.py: --out", "cli/attention.py: --picture"),
    ),
    Case("attention ba --input corpus/c.en", "attention ba", ("cli/attention.py: --input",)),
    Case("report runs/r --out data/a", "report runs/r --out page.html", ("ownership.py: --out",)),
    Case(
        "inspect --json --html p.html data/a", "inspect --json data/a",
        ("cli/inspect.py: --html", "cli/inspect.py: --json"),
    ),
    Case(
        "average-checkpoints runs/r --last 2 --best 2", "average-checkpoints runs/r --last 2",
        ("cli/average_checkpoints.py: --last", "cli/average_checkpoints.py: --best"),
    ),
    Case(
        "average-checkpoints runs/r --best 2", "average-checkpoints runs/r --last 2",
        ("checkpoint/averaging.py: --last", "checkpoint/averaging.py: --best"), forget_scores,
    ),
    Case(
        "average-checkpoints runs/r --last 2 --out runs/r/checkpoints/mean",
        "average-checkpoints runs/r --last 2 --out mean", ("checkpoint/averaging.py: --out",),
    ),
    Case(
        "average-checkpoints runs/r --last 2 --out data/a", "average-checkpoints runs/r --last 2 --out mean",
        ("ownership.py: --out",),
    ),
    # Scoring
    Case(
        "inspect runs/r --html taken", "inspect runs/r --html free", ("reports/lineage_page.py: --html",),
        write("taken", "mine"),
    ),
    Case("score corpus/c.de", "score --reference corpus/c.de corpus/c.de", ("cli/score.py: --reference",)),
    Case(
        "score --paper-bleu --reference reference corpus/c.de",
        "score --paper-bleu --reference reference corpus/c.de --target-lang de",
        ("cli/score.py: --target-lang", "cli/score.py: --paper-bleu"),
        lambda project: shutil.copy(project / "corpus" / "c.de", project / "reference"),
    ),
    Case(
        f"{SCORE} --metric chrf --tokenize char", f"{SCORE} --metric chrf --tokenize char --metric bleu",
        ("cli/score.py: --metric",),
    ),
    Case(
        f"{SCORE} --metric chrf --tokenize char", f"{SCORE} --metric chrf", ("cli/score.py: --tokenize",)
    ),
    Case(
        f"{SCORE} --sentence-scores", f"{SCORE} --sentence-scores --json",
        ("cli/score.py: --sentence-scores", "cli/score.py: --json"),
    ),
    Case(
        f"{SCORE} --sheet --metric chrf", f"{SCORE} --sheet",
        ("cli/score.py: --sheet", "cli/score.py: --paper-bleu", "cli/score.py: --sentence-scores"),
    ),
    Case(f"{SCORE} --json --format latex", f"{SCORE} --format latex", ("cli/score.py: --format",)),
    Case(
        f"{SCORE} --target-lang ja", f"{SCORE} --target-lang ja --tokenize char",
        ("evaluation/metrics.py: --tokenize",), needs_no_mecab,
    ),
    # Translating
    Case(
        "translate --model runs/r corpus/c.en --input corpus/c.en", "translate --model runs/r --input corpus/c.en",
        ("cli/translate.py: --input",),
    ),
    *(
        Case(
            f"{TO_OUT} --input-format paragraphs {words}", f"{TO_OUT} --input-format lines {words}",
            (f"cli/translate.py: {words.split()[0]}", "cli/translate.py: --input-format"),
        )
        for words in (
            "--prefix corpus/c.de", "--format tsv", "--alignment",
        )
    ),
    Case(
        f"{TO_OUT} --input-format paragraphs --nbest 2", f"{TO_OUT} --input-format paragraphs --nbest 2 --format jsonl",
        ("cli/translate.py: --nbest", "cli/translate.py: --format", "cli/translate.py: --input-format"),
    ),
    Case(
        "translate --model runs/r --fresh", f"{TO_OUT} --fresh",
        ("translation/streams.py: --fresh", "cli/line_streams.py: --output"),
    ),
    *(
        Case(words, f"{words} --fresh", ("translation/resuming.py: --fresh",), prepare)
        for words, prepare in (
            (TO_OUT, write("out", "x\n")),
            (TO_OUT, write("out.partial", "x\n")),
            (TO_OUT, write(".out.nmt.json", "x\n")),
            (f"{TO_OUT} --beam 2", run(f"{TO_OUT} --beam 3")),
            ("translate --model runs/r --output out", run("translate --model runs/r --output out")),
        )
    ),
]  # fmt: skip

WARNINGS = [
    *(
        Case(
            "score --reference reference reference", f"score --reference reference reference {words}",
            (f"evaluation/text_checks.py: {words.split()[0]}",), write("reference", f"{text}\n"),
        )
        for words, text in (
            ("--target-lang zh", "猫坐在垫子上"), ("--tokenize char", "猫がマットの上に座っている"),
            ("--tokenize char", "แมวนั่งบนเสื่อ"), ("--metric chrf", "แมวนั่งบนเสื่อ"),
        )
    ),
    *(
        Case(
            "compare reference other --reference reference", f"compare reference other --reference reference {words}",
            (f"cli/compare.py: {words.split()[0]}",),
            lambda project: (write("reference", "猫坐在垫子上\n")(project), write("other", "猫坐\n")(project)),
        )
        for words in ("--target-lang zh", "--tokenize char")
    ),
]  # fmt: skip
"""Commands that succeed with a warning, which names what to type."""
