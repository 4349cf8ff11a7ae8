"""examples/wmt14-en-de/run.sh on miniature archives: from the download to the score sheet, interrupted twice."""

import contextlib
import hashlib
import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
import yaml

from nmt.checkpoint.kinds import averaged_checkpoints
from nmt.config import load_preset, parse_config
from nmt.corpora.recipe import builtin_text
from nmt.io.hashing import sha256_of
from tests.commands import nmt_for_scripts
from tests.corpora.test_big_recipes import miniatures

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPT = EXAMPLES / "wmt14-en-de" / "run.sh"
SMALL = [
    "model.d_model=16", "model.d_ff=32", "model.heads=2", "model.encoder_layers=1", "model.decoder_layers=1",
    "batching.update_tokens=120", "batching.micro_batch_tokens=200", "schedule.warmup=10", "logging.every_updates=1",
    "checkpoints.every_updates=5", "validation.every_updates=20", "training.device=cpu", "model.dropout=0",
]  # fmt: skip


@pytest.fixture
def recipe(file_server, tmp_path) -> Path:
    """The recipe with the addresses and checksums of what the server holds."""
    values = yaml.safe_load(builtin_text("wmt14-en-de"))
    archives = miniatures("de")
    for entry in values["downloads"].values():
        base = entry["url"].rsplit("/", 1)[1]
        file_server.files[base] = archives[base]
        checksums = {"size": len(archives[base]), "sha256": hashlib.sha256(archives[base]).hexdigest()}
        checksums["md5"] = hashlib.md5(archives[base]).hexdigest()
        entry |= {"url": f"{file_server.url}/{base}"} | {key: checksums[key] for key in checksums if key in entry}
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


def a_rank(run: Path) -> int | None:
    """The process of a rank that trains in a run's folder, once it has logged an update."""
    metrics = run / "metrics.jsonl"
    if not metrics.exists() or b'"kind": "update"' not in metrics.read_bytes():
        return None
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if b"RANK=1\0" in (entry / "environ").read_bytes() and (entry / "cwd").readlink() == run.parent.parent:
                return int(entry.name)
    return None


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
def test_the_whole_script_with_its_connection_cut_and_a_rank_killed(file_server, recipe, tmp_path):
    largest = max(file_server.files, key=lambda base: len(file_server.files[base]))
    file_server.cut_after[largest] = [100]
    work = tmp_path / "work"
    work.mkdir()
    run = work / "runs" / "wmt14-en-de-base"
    with nmt_for_scripts(tmp_path) as program:
        environment = os.environ | {
            "PATH": f"{program.parent}:{os.environ['PATH']}", "DATASET": str(recipe), "OMP_NUM_THREADS": "1",
            "XDG_CACHE_HOME": str(tmp_path / "cache"), "SACREBLEU": str(tmp_path / "sacrebleu"),
        }  # fmt: skip

        def start(updates: int) -> subprocess.Popen[str]:
            settings = [word for setting in SMALL for word in ("--set", setting)]
            command = ["sh", SCRIPT, "base", "2", "--max-updates", str(updates), *settings]
            return subprocess.Popen(
                command, cwd=work, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )

        with start(100_000) as first:
            deadline = time.monotonic() + 120
            while (rank := a_rank(run)) is None:
                assert first.poll() is None, first.communicate()
                assert time.monotonic() < deadline
                time.sleep(0.05)
            time.sleep(random.Random(1).random())
            os.kill(rank, signal.SIGKILL)
            _, errors = first.communicate(timeout=120)
        assert first.returncode != 0
        assert "to resume from the last checkpoint" in errors
        assert not (run / "average").exists()
        reached = max(int(folder.name.removeprefix("step-")) for folder in (run / "checkpoints").glob("step-*"))
        with start(reached + 30) as second:
            sheet, errors = second.communicate(timeout=240)
        assert second.returncode == 0, errors

    assert [wanted for base, wanted in file_server.requests if base == largest] == [None, "bytes=100-"]
    assert "tokenised BLEU" in sheet and "paper BLEU" in sheet
    assert len(averaged_checkpoints(run / "average")) == 5
    record = json.loads((run / "score.json").read_text())
    [score] = [each for each in record["systems"][0]["scores"] if each["name"] == "paper BLEU"]
    assert f"{score['value']:.2f}" in sheet
    lineage = sheet[sheet.index("score: ") :]
    for base in file_server.files:
        assert hashlib.sha256(file_server.files[base]).hexdigest() in lineage
    assert sha256_of(run / "newstest2014.de") in lineage
    assert "[CHANGED]" not in lineage


@pytest.mark.parametrize("pair", ["en-de", "en-fr"])
def test_a_size_that_is_not_the_papers_is_refused(tmp_path, pair):
    script = EXAMPLES / f"wmt14-{pair}" / "run.sh"
    result = subprocess.run(["sh", script, "huge"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "expected base or big, got huge" in result.stderr


@pytest.mark.parametrize(
    ("pair", "size", "averaged", "dropout"),
    [("en-de", "base", 5, 0.1), ("en-de", "big", 20, 0.3), ("en-fr", "base", 5, 0.1), ("en-fr", "big", 20, 0.1)],
)
def test_each_result_has_the_papers_settings(tmp_path, pair, size, averaged, dropout):
    """A double of nmt writes down the commands."""
    (tmp_path / "nmt").write_text('#!/bin/sh\necho "$@" >> "$COMMANDS"\n')
    (tmp_path / "nmt").chmod(0o755)
    (tmp_path / "runs" / f"wmt14-{pair}-{size}").mkdir(parents=True)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "COMMANDS": str(tmp_path / "commands")}
    subprocess.run(["sh", EXAMPLES / f"wmt14-{pair}" / "run.sh", size, "8"], cwd=tmp_path, env=environment, check=True)
    commands = dict(line.split(" ", 1) for line in (tmp_path / "commands").read_text().splitlines())
    assert commands["prepare-data"] == f"wmt14-{pair}"
    assert commands["average-checkpoints"] == f"runs/wmt14-{pair}-{size} --last {averaged}"
    assert "--split-sentences never --no-copy-unknown --no-guard --refill-beam" in commands["translate"]
    words = commands["train"].split()
    assert words[words.index("--nproc") + 1] == "8"
    config = parse_config(
        merged(load_preset(size), yaml.safe_load(Path(words[words.index("--config") + 1]).read_text())), name=size
    )
    assert (config.model.dropout, config.training.patience) == (dropout, None)
    assert (config.checkpoints.keep_last, config.checkpoints.every_minutes) == (averaged, None)
    assert config.training.max_updates == {"base": 100_000, "big": 300_000}[size]


def merged(below: dict, above: dict) -> dict:
    return {key: below.get(key, {}) | above.get(key, {}) for key in below | above}
