"""Errors, the advice that they give, and what a user types who follows it. A new piece of advice gets a line here.

The commands run in a copy of a small project (conftest.py): ``data/a`` and ``data/b``, prepared and encoded with
different vocabularies; ``runs/r``, a run of three updates on ``data/a``; ``quick.yaml``, its settings; ``corpus/c`` and
``corpus/d``, parallel text of one's own.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from sentencepiece import SentencePieceTrainer

from nmt.data.manifest import read_manifest, write_manifest

AS_PRINTED = "what the message prints in backticks, then the same command"


@dataclass(frozen=True)
class Case:
    """A command that fails, and what is typed next."""

    command: str
    """Fails; typed in the project's folder."""
    then: str
    """The command with the advice followed; or :data:`AS_PRINTED`."""
    covers: tuple[str, ...]
    """Pieces of advice in the message, as the scan names them, each with its module: ``training/run.py: --fresh``."""
    prepare: Callable[[Path], object] = lambda project: None
    """Changes the project first."""
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


def cut_shards(project: Path) -> None:
    path = project / "data" / "a" / "shards" / "train.source.tokens"
    path.write_bytes(path.read_bytes()[:-4])


def spoil_shards(project: Path) -> None:
    """Pieces beyond the vocabulary; as the advice says, the folder is removed before it is made again."""
    tokens = project / "data" / "a" / "shards" / "train.target.tokens"
    tokens.write_bytes(b"\xff" * tokens.stat().st_size)


def lose_data(project: Path) -> None:
    (project / "data" / "a").rename(project / "data" / "b2")
    record = project / "runs" / "r" / "data.json"
    record.write_text(json.dumps([entry | {"absolute": "/nowhere"} for entry in json.loads(record.read_text())]))


def add_rare_character(project: Path) -> None:
    path = project / "data" / "a" / "train.en"
    path.write_text("漢 do\n" + path.read_text().split("\n", 1)[1])


def make_foreign_vocabulary(project: Path) -> None:
    SentencePieceTrainer.train(
        input=str(project / "corpus" / "c.en"), model_prefix=str(project / "foreign"), vocab_size=24, minloglevel=2
    )


def needs_no_gpu(project: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")


TRAIN = "train --data data/a --config quick.yaml"
TO_RUN = f"{TRAIN} --out runs/r"
OWN = "prepare-data my-en-de --train corpus/c"

CASES = [
    # Changed settings
    Case(
        f"{TO_RUN} --set model.d_model=32",
        f"{TO_RUN} --set model.d_model=32 --fresh",
        ("training/changes.py: --fresh", "training/changes.py: nmt train --resume {}"),
        fixed="leave model.d_model as before",
    ),
    Case(
        f"{TO_RUN} --set optimizer.beta1=0.5",
        f"{TO_RUN} --set optimizer.beta1=0.5 --accept-changes",
        ("training/changes.py: --accept-changes",),
    ),
    Case(
        f"{TO_RUN} --set optimizer.beta1=0.5",
        "train --resume runs/r",
        ("training/changes.py: nmt train --resume {}",),
    ),
    Case(
        TO_RUN,
        AS_PRINTED,
        ("training/changes.py: nmt build-vocab --data {} --vocab {}",),
        run("build-vocab --data data/a --size 32"),
    ),
    Case(
        "train --data data/b --init-from runs/r --out runs/new",
        AS_PRINTED,
        ("training/changes.py: nmt build-vocab --data {} --vocab {}",),
    ),
    *(
        Case(
            f"train --data data/a --init-from runs/r --out runs/new {options}",
            "train --data data/a --init-from runs/r --out runs/new",
            (f"training/beginning.py: {option}", "training/beginning.py: --init-from"),
            write("wide.yaml", "model: {d_model: 32}"),
        )
        for option, options in (
            ("--set", "--set model.d_model=32"),
            ("--config", "--config wide.yaml"),
            ("--preset", "--preset tiny"),
        )
    ),
    Case(TO_RUN, f"{TO_RUN} --fresh", ("checkpoint/run.py: --fresh",), damage_checkpoints),
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
        ("training/settings.py: nmt train",),
    ),
    Case(
        "train --resume runs/r",
        "train --resume runs/r --data data/b2",
        ("training/recorded_data.py: --data",),
        lose_data,
    ),
    Case(
        "train --resume runs/r",
        "train --resume runs/r --data data/a",
        ("training/recorded_data.py: --data",),
        write("runs/r/data.json", "["),
        fixed="is damaged",
    ),
    Case(
        f"{TRAIN} --out taken", f"{TRAIN} --out free", ("training/run.py: --out",), write("taken", ""),
        fixed="cannot be written",
    ),
    Case(
        f"{TRAIN} --fresh --out taken/run", f"{TRAIN} --fresh --out free/run", ("training/folder.py: --out",),
        write("taken", ""),
    ),
    Case(
        "train --data data/a --preset quick.yaml", "train --data data/a --config quick.yaml --out runs/new",
        ("config/reading.py: --config",),
    ),
    Case(f"{TO_RUN} --set model.heads", f"{TO_RUN} --set model.heads=2", ("config/reading.py: --set",)),
    Case(
        f"{TO_RUN} --set data.weight=2", f"{TRAIN} --out runs/new --data data/a:2", ("training/setup.py: --data",),
        fixed="--data DIR[:WEIGHT]",
    ),
    Case(
        f"{TRAIN} --out runs/new --set schedule.decay=linear --set schedule.decay_updates=40 --max-updates 50",
        f"{TRAIN} --out runs/new --set schedule.decay=linear --set schedule.decay_updates=40 --max-updates 40",
        ("config/sections.py: --max-updates",),
    ),
    *(
        Case(
            f"{TRAIN} --out runs/new --set model.d_model=1000000", f"{TRAIN} --out runs/new {option} {value}",
            (f"training/memory.py: {option}",),
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
        f"{TRAIN} --out runs/new", AS_PRINTED, ("training/data.py: nmt build-vocab --data {}",),
        remove("data/a/vocab.model"),
    ),
    Case(
        f"{TRAIN} --out runs/new", AS_PRINTED, ("data/shards.py: nmt build-vocab --data {} --vocab {}",), change_text,
        fixed="its text has changed",
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
        f"{TRAIN} --out runs/new --set model.max_positions=6", AS_PRINTED,
        ("training/data.py: nmt build-vocab --data {} --vocab {} --max-length {}",),
    ),
    Case("build-vocab --data none", "build-vocab --data data/a", ("data/manifest.py: --data",)),
    Case(
        "build-vocab --data data/toy-en-de", AS_PRINTED, ("data/manifest.py: nmt prepare-data toy-en-de",),
        fixed="is not a prepared data set",
    ),
    Case(
        f"{TRAIN} --out runs/new",
        "prepare-data a --source-lang en --target-lang de --train corpus/c --out data/a --force",
        ("data/manifest.py: --force", "data/manifest.py: nmt prepare-data"), write("data/a/manifest.json", "{"),
    ),
    Case(
        f"{TRAIN} --out runs/new", f"{TRAIN} --out runs/new",
        ("training/feed.py: nmt build-vocab --data DATA --vocab DATA/vocab.model",), spoil_shards,
        first="build-vocab --data data/a --vocab data/a/vocab.model",
    ),
    Case("build-vocab", AS_PRINTED, ("data/manifest.py: nmt prepare-data toy-en-de",), remove("data")),
    Case(
        "build-vocab --data data/a --size 5", "build-vocab --data data/a --size 40", ("data/vocab.py: --size",)
    ),
    Case(
        "build-vocab --data data/a --size 20", "build-vocab --data data/a --size 20 --character-coverage 0.9995",
        ("data/vocab.py: --character-coverage",), add_rare_character,
    ),
    Case(
        "build-vocab --data data/a --vocab data/b/vocab.model --size 40", "build-vocab --data data/a --size 40",
        ("cli/build_vocab.py: --vocab", "cli/build_vocab.py: --size"),
    ),
    Case(
        "build-vocab --data data/a --vocab foreign.model", "build-vocab --data data/a",
        ("data/vocab.py: --vocab", "data/vocab.py: nmt build-vocab"), make_foreign_vocabulary,
    ),
    Case(
        f"{TRAIN} --out runs/new --device cuda", f"{TRAIN} --out runs/new --device auto", ("device.py: --device",),
        needs_no_gpu,
    ),
    Case(
        "translate --model runs/r --max-source-length 5000", "translate --model runs/r --max-source-length 1023",
        ("decoding/translator.py: --max-source-length",),
    ),
    Case(
        "translate --model runs/r --alignment", "translate --model runs/r --alignment --format jsonl",
        ("cli/translate.py: --alignment", "cli/translate.py: --format"),
    ),
    Case(
        "translate --model runs/r --input corpus/c.en --output out --resume",
        "translate --model runs/r --input corpus/c.en --output out",
        ("decoding/resuming.py: --resume",), write("out.partial", "x\n"),
    ),
    Case("prepare-data", f"{OWN}", ("cli/prepare_data.py: --train",)),
    Case(
        "prepare-data toy-en-de --valid corpus/c --show-recipe", "prepare-data toy-en-de --show-recipe",
        ("cli/prepare_data.py: --show-recipe", "cli/prepare_data.py: --train", "cli/prepare_data.py: --valid"),
    ),
    *(
        Case(f"prepare-data mine-en-de {option} {value}", f"prepare-data mine-en-de {option} {value} --train corpus/c",
             (f"cli/prepare_data.py: {option}", "cli/prepare_data.py: --train"))
        for option, value in (
            ("--source-lang", "en"), ("--target-lang", "de"), ("--valid", "corpus/d"), ("--test", "corpus/d"),
        )
    ),
    Case("prepare-data mine", "prepare-data mine-en-de --train corpus/c", ("corpora/recipe.py: --train",)),
    Case(
        "prepare-data mine --train corpus/c",
        "prepare-data mine --train corpus/c --source-lang en --target-lang de",
        ("corpora/recipe.py: --source-lang", "corpora/recipe.py: --target-lang"),
    ),
    *(
        Case(f"{OWN} {option} corpus/d.en", f"{OWN} {option} corpus/d", (f"corpora/sources.py: {option}",))
        for option in ("--train", "--valid", "--test")
    ),
    Case(f"{OWN} --out taken", f"{OWN} --out free", ("corpora/prepare.py: --out",), write("taken", "")),
    Case(f"{OWN} --out corpus", f"{OWN} --out free", ("corpora/prepare.py: --out",)),
    # Models
    Case(
        "report", "report kept", ("checkpoint/run.py: nmt train",),
        lambda project: (project / "runs" / "r").rename(project / "kept"),
    ),
    Case("translate", f"{TRAIN} --out runs/new", ("checkpoint/describing.py: nmt train",), remove("runs")),
    Case(
        "average-checkpoints", AS_PRINTED, ("checkpoint/describing.py: nmt train --resume {}",),
        remove("runs/r/checkpoints"),
    ),
    Case("report data/a", "report runs/r", ("reports/run_history.py: nmt train",)),
    Case("report runs/r --out data/a", "report runs/r --out page.html", ("reports/run_report.py: --out",)),
    Case(
        "average-checkpoints runs/r --last 2 --best 2", "average-checkpoints runs/r --last 2",
        ("cli/average_checkpoints.py: --last", "cli/average_checkpoints.py: --best"),
    ),
    Case(
        "average-checkpoints runs/r --best 2", "average-checkpoints runs/r --last 2",
        ("checkpoint/averaging.py: --last", "checkpoint/averaging.py: --best"), forget_scores,
    ),
    # Scoring
    Case("score corpus/c.de", "score --reference corpus/c.de corpus/c.de", ("cli/score.py: --reference",)),
    Case(
        "score --paper-bleu --reference reference corpus/c.de",
        "score --paper-bleu --reference reference corpus/c.de --target-lang de",
        ("cli/score.py: --target-lang", "cli/score.py: --paper-bleu"),
        lambda project: shutil.copy(project / "corpus" / "c.de", project / "reference"),
    ),
    # Translating
    *(
        Case(
            f"translate {words}", f"translate {words} --sample",
            ("cli/translate.py: --sample", f"cli/translate.py: {words.split()[0]}"),
        )
        for words in ("--temperature 1", "--top-k 3", "--top-p 0.9", "--seed 2")
    ),
]  # fmt: skip

_NOTICE = "a notice, not an error"
_OTHER_MACHINE = "needs hardware that tests cannot count on"
_BESIDE_SCORE_TARGET = "named as what does not go with --score-target; tests/system/test_translate.py leaves it out"
_BENCH = "the bench takes minutes; tests/bench checks its errors"
_SENTENCEPIECE = "SentencePiece's own option"

EXCEPTIONS: dict[str, str] = {
    "bench/train.py: --against": _BENCH,
    "bench/translate.py: --against": _BENCH,
    "bench/translate.py: --length": _BENCH,
    "cli/bench.py: --model": _BENCH,
    "cli/bench.py: --preset": _BENCH,
    "cli/bench.py: --set": _BENCH,
    "cli/app.py: --help": "follows every mistyped command; tests/system/test_chain.py asks for each command's help",
    "cli/line_output.py: --input": "needs closed streams: tests/system/test_translate.py",
    "cli/line_output.py: --output": "needs closed streams: tests/system/test_translate.py",
    "cli/line_output.py: --resume": "needs an interrupted output: tests/system/test_translate.py",
    "cli/prepare_data.py: --force": _NOTICE,
    "cli/score.py: --langpair": "needs a test set from the network; tests/corpora/test_testsets.py serves one",
    "cli/score.py: --test-set": "needs a test set from the network; tests/corpora/test_testsets.py serves one",
    "cli/train.py: nmt train --resume {}": _NOTICE + "; tests/system/test_resume.py types it",
    "cli/training_view.py: --nproc": _NOTICE,
    "cli/training_view.py: --precision": _NOTICE,
    "training/run.py: --device": _OTHER_MACHINE,
    **{
        f"cli/translate.py: {option}": _BESIDE_SCORE_TARGET
        for option in (
            "--beam", "--diverse-groups", "--max-extra-length", "--max-source-length", "--mbr", "--min-length",
            "--nbest", "--no-guard", "--no-repeat-ngram", "--prefix", "--score-target", "--workers",
        )
    },
    "corpora/download.py: --mirror": "needs the network; tests/corpora/test_download.py serves mirrors",
    "corpora/prepare.py: nmt build-vocab": _NOTICE,
    "corpora/schema.py: --size": "a description in a recipe, not an error",
    "corpora/testsets.py: --list": "sacreBLEU's own option",
    "data/shards.py: nmt build-vocab --data {}": "for programs that name no vocabulary; the commands all do",
    "data/vocab.py: --bos": _SENTENCEPIECE,
    "data/vocab.py: --eos": _SENTENCEPIECE,
    "data/vocab.py: --pad": _SENTENCEPIECE,
    "data/vocab.py: --unk": _SENTENCEPIECE,
    "decoding/search.py: --precision": "needs a model that has diverged; tests/decoding/test_search.py",
    "decoding/tally.py: --format": _NOTICE,
    "cli/line_output.py: --invalid-utf8": "tests/system/test_translate.py adds it",
    "decoding/tally.py: --no-guard": _NOTICE,
    "decoding/tally.py: --split-sentences": _NOTICE,
    "device.py: --precision": _OTHER_MACHINE,
    "evaluation/metrics.py: --test-set": _NOTICE,
    "training/launch.py: --fresh": "looked for among the arguments, not recommended",
    "training/launch.py: nmt train --resume RUN": "needs a rank that is killed: tests/training/test_distributed.py",
    "training/preflight.py: --out": "needs a full disk: tests/training/test_preflight.py",
    "training/run.py: --fresh": "needs a second process that trains: tests/training/test_trainer.py",
    "training/settings.py: --preset": _NOTICE,
    "training/step.py: nmt build-vocab --data DATA --vocab DATA/vocab.model --max-length N": _OTHER_MACHINE,
    "training/tensorboard.py: nmt report": "says what works without the extra",
    "training/trainer.py: --precision": "needs a run that diverges: tests/training/test_run.py",
    "training/validation.py: --valid": "prepare-data refuses an empty valid set, so only other programs come here",
}  # fmt: skip
"""Advice that no case covers, and why."""
