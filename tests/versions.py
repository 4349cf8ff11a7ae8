"""``make test-versions``: the wheel, installed beside the oldest and the newest supported versions, runs the toy pair.

Oldest are the lower bounds of pyproject.toml, newest those of constraints.txt; each with every supported Python that is
found. Where pip would fetch a torch for GPUs, gigabytes of it, the combination is skipped. If only the oldest torch is
such a one, the oldest of all else are tried with the newest torch.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

PROJECT = Path(__file__).parents[1]
PYTHONS = ("python3.11", "python3.12", "python3.13")
STEPS = (
    "prepare-data toy-en-de",
    "build-vocab",
    "train --preset tiny --max-updates 20 --set validation.bleu_sentences=5",
    "average-checkpoints --last 1",
    "translate --input few.en --output few.hypothesis --no-guard",
    "score --reference few.de few.hypothesis",
    "inspect few.hypothesis",
)


def main() -> int:
    """Try every combination; the exit code is 1 if one fails."""
    with tempfile.TemporaryDirectory(prefix="nmt-versions-") as folder:
        scratch = Path(folder)
        pip(Path(sys.executable), "wheel", "--no-deps", "--no-build-isolation", "-w", scratch, PROJECT)
        [wheel] = scratch.glob("*.whl")
        newest = PROJECT / "constraints.txt"
        pins = {
            "oldest": oldest(scratch / "oldest.txt"),
            "oldest (but torch)": oldest(scratch / "oldest-but-torch.txt", torch_of=newest),
            "newest": newest,
        }
        failed = False
        for name in PYTHONS:
            for which, constraints in pins.items():
                outcome = tried(name, wheel, constraints, scratch / f"{name}-{which}")
                report(f"{name}, {which} versions: {outcome}")
                failed |= outcome.startswith("FAILED")
    return int(failed)


def oldest(path: Path, *, torch_of: Path | None = None) -> Path:
    """Constraints to the lower bounds of what the program needs; with torch as in other constraints, if given."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]
    lines = []
    for requirement in map(Requirement, project["dependencies"]):
        [bound] = [each.version for each in requirement.specifier if each.operator == ">="]
        lines.append(f"{requirement.name}=={bound}")
    if torch_of is not None:
        lines = [line for line in lines if not line.startswith("torch==")]
        lines += [line for line in torch_of.read_text("utf-8").splitlines() if line.startswith("torch==")]
    path.write_text("\n".join(lines) + "\n")
    return path


def tried(name: str, wheel: Path, constraints: Path, folder: Path) -> str:
    """What came of one combination."""
    found = shutil.which(name)
    if found is None or subprocess.run([found, "-c", "import venv"], capture_output=True, check=False).returncode:
        return "skipped, since there is no such Python"
    subprocess.run([found, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    url = torch_address(python, constraints, folder)
    if url is None:
        return "skipped, since pip finds no torch of this version for this Python"
    if sys.platform.startswith("linux") and not (url.startswith("file:") or "cpu" in url):
        return f"skipped, since pip would fetch a torch for GPUs ({url})"
    try:
        pip(python, "install", "-c", constraints, wheel)
        run_steps(folder)
    except subprocess.CalledProcessError as error:
        words = (error.stderr or error.stdout or "").strip().splitlines()
        return f"FAILED: {' '.join(map(str, error.cmd[1:6]))}: {words[-1] if words else error.returncode}"
    return "passed"


def torch_address(python: Path, constraints: Path, folder: Path) -> str | None:
    """Where pip would take torch from."""
    path = folder / "torch.json"
    arguments = ["--dry-run", "--no-deps", "--ignore-installed", "--report", path, "-c", constraints, "torch"]
    try:
        pip(python, "install", *arguments)
    except subprocess.CalledProcessError:
        return None
    url: str = json.loads(path.read_text("utf-8"))["install"][0]["download_info"]["url"]
    return url


def run_steps(folder: Path) -> None:
    """Prepare, train, translate and score in the folder."""
    work = folder / "work"
    work.mkdir()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    for step in STEPS:
        if step.startswith("translate"):
            for language in ("en", "de"):
                text = (work / "data/toy-en-de" / f"test.{language}").read_text("utf-8").splitlines(keepends=True)
                (work / f"few.{language}").write_text("".join(text[:5]), "utf-8")
        command = [folder / "bin" / "nmt", *step.split()]
        subprocess.run(command, cwd=work, env=environment, check=True, capture_output=True, text=True)


def pip(python: Path, *arguments: object) -> None:
    """Run pip quietly."""
    command = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", *map(str, arguments)]
    subprocess.run(command, check=True, capture_output=True, text=True)


def report(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
