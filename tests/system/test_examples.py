"""The scripts under examples/ run, at reduced size."""

import shutil
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_tutorial_from_python(trained, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    for language in ("en", "de"):
        lines = (trained / "data" / "toy-en-de" / f"test.{language}").read_text("utf-8").splitlines(keepends=True)
        (data / f"test.{language}").write_text("".join(lines[:6]), "utf-8")
    run = trained / "runs" / "toy-en-de-tiny"
    copy = tmp_path / "copy"
    shutil.copytree(run / "last", copy)
    result = subprocess.run(
        [sys.executable, EXAMPLES / "python-api" / "tutorial.py", data, run, copy],
        capture_output=True, text=True, encoding="utf-8", check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("BLEU = ") == 4
    assert result.stdout.count("p = ") == 2  # the second run, and both together
    assert "Least likely references:" in result.stdout
