"""The jobs of examples/slurm and examples/kubernetes, with stand-ins for the commands of a cluster."""

import os
import re
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from nmt.checkpoint.run_folder import checkpoints
from tests.commands import run_command
from tests.processes import SECONDS, running

EXAMPLES = Path(__file__).parents[2] / "examples"
# srun starts a step here, and scancel signals it.
COMMANDS = {
    "srun": 'shift 2\n"$@" &\necho $! > step\nwait $!',
    "scancel": 'echo "scancel $*" >> asked\nkill -TERM "$(cat step)"',
    "scontrol": 'if [ "$1" = show ]; then echo 127.0.0.1; else echo "scontrol $*" >> asked; fi',
    "torchrun": f'exec "{sys.executable}" -m torch.distributed.run --local-addr 127.0.0.1 "$@"',
    "nmt": f'exec "{sys.executable}" -m nmt "$@"',
}

SBATCH = {
    "job-name", "nodes", "ntasks-per-node", "gpus-per-node", "cpus-per-task", "time", "signal", "no-kill", "requeue",
    "open-mode", "array", "gpus",
}  # fmt: skip


@pytest.fixture
def cluster(tmp_path) -> dict[str, str]:
    """The environment of a job on one machine, whose commands leave what they were asked in ``asked``."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, script in COMMANDS.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(stat.S_IRWXU)
    return os.environ | {
        "PATH": f"{folder}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1", "SLURM_JOB_ID": "7",
        "SLURM_JOB_NODELIST": "here", "SLURM_JOB_NUM_NODES": "1", "SLURM_GPUS_ON_NODE": "2",
    }  # fmt: skip


@pytest.mark.slow
def test_a_slurm_job_whose_time_ends_saves_goes_back_into_the_queue_and_resumes(trained, tmp_path, cluster):
    options = ["--data", str(trained / "data" / "toy-en-de"), "--preset", "tiny", "--out", "run", "--device", "cpu"]
    options += ["--set", "logging.every_updates=1", "--set", "validation.bleu=false"]
    script = ["sh", str(EXAMPLES / "slurm" / "train.sh"), *options]
    metrics = tmp_path / "run" / "metrics.jsonl"
    with running([*script, "--max-updates", "100000"], cwd=tmp_path, env=cluster) as job:
        deadline = time.monotonic() + SECONDS
        while not metrics.exists() or '"update"' not in metrics.read_text():
            assert job.poll() is None and time.monotonic() < deadline
            time.sleep(0.1)
        job.send_signal(signal.SIGUSR1)
        assert job.wait(SECONDS) == 0
    assert (tmp_path / "asked").read_text() == "scancel --signal=TERM 7\nscontrol requeue 7\n"
    [saved] = checkpoints(tmp_path / "run")

    # In the queue again, it resumes; with this limit it ends after two more updates.
    (tmp_path / "asked").unlink()
    script += ["--max-updates", str(saved + 2)]
    again = subprocess.run(script, cwd=tmp_path, env=cluster, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert f"Resuming from run/checkpoints/step-{saved:08}" in again.stderr
    assert max(checkpoints(tmp_path / "run")) == saved + 2
    assert not (tmp_path / "asked").exists()


@pytest.mark.slow
def test_the_tasks_of_a_slurm_array_translate_a_file(trained, tmp_path, cluster):
    model, source = trained / "runs" / "toy-en-de-tiny" / "average", tmp_path / "in.txt"
    lines = (trained / "data" / "toy-en-de" / "test.en").read_bytes().splitlines(keepends=True)[:7]
    source.write_bytes(b"".join(lines))
    for task in ("2", "1", "3"):
        of_task = {"SLURM_ARRAY_TASK_ID": task, "SLURM_ARRAY_TASK_COUNT": "3"}
        subprocess.run(
            ["sh", EXAMPLES / "slurm" / "translate.sh", model, "in.txt", "out.txt"],
            cwd=tmp_path, env=cluster | of_task, check=True,
        )  # fmt: skip
    shares = sorted(tmp_path.glob("out.txt.????"))
    assert b"".join(share.with_name(f"{share.name}.source").read_bytes() for share in shares) == source.read_bytes()
    assert [share.read_bytes().count(b"\n") > 0 for share in shares] == [True] * 3
    assert sum(share.read_bytes().count(b"\n") for share in shares) == 7


def test_the_options_of_the_jobs_exist():
    """Every option of ``#SBATCH`` is on a line of its own, and every command of a manifest is one of ours."""
    for path in (EXAMPLES / "slurm").glob("*.sh"):
        subprocess.run(["sh", "-n", path], check=True)
        asked = [line for line in path.read_text().splitlines() if line.startswith("#SBATCH")]
        assert asked
        for line in asked:
            match = re.fullmatch(r"#SBATCH --([a-z-]+)(?:=\S+)?", line)
            assert match and match[1] in SBATCH, line
    training, translating = (
        yaml.safe_load((EXAMPLES / "kubernetes" / f"{name}.yaml").read_text()) for name in ("train", "translate")
    )
    worker = training["spec"]["pytorchReplicaSpecs"]["Worker"]
    assert worker["replicas"] == training["spec"]["elasticPolicy"]["maxReplicas"]
    [container] = worker["template"]["spec"]["containers"]
    assert container["command"] == ["torchrun", "-m", "nmt", "train"]
    _all_known("train", container["args"])
    [container] = translating["spec"]["template"]["spec"]["containers"]
    [command] = container["args"]
    subprocess.run(["sh", "-n", "-c", command], check=True)
    assert f'split -n "l/$((JOB_COMPLETION_INDEX + 1))/{translating["spec"]["completions"]}" input.en' in command
    _all_known("translate", command.rpartition("exec nmt translate ")[2].split())


def _all_known(command: str, words: list[str]) -> None:
    known = re.findall(r"--[a-z-]+", run_command([command, "--help"]).stdout.decode())
    assert {word for word in words if word.startswith("--")} <= set(known)
