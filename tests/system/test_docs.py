"""The commands of README and docs do what they say, at reduced size.

A block ``sh`` or ``python`` is run in a folder where the toy pair is prepared, encoded and trained for a moment; a
block ``sh no-test`` is left out: it sets a machine up, downloads, or speaks of files that only its reader has. So is
``python no-test``, which quotes the code (tests/test_the_paper.py).
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import ForkedPython, nmt_for_scripts

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
WALK = ROOT / "docs" / "tutorial.md"
"""Its blocks continue each other."""
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks() -> list:
    found = []
    for page in PAGES:
        if page == WALK:
            continue
        for number, match in enumerate(BLOCK.finditer(page.read_text("utf-8")), start=1):
            # cli/test_documented_commands.py parses the commands of all. The first of the FAQ trains four models.
            is_quick = page.name == "README.md" or (number == 1 and page.name != "faq.md")
            marks = () if is_quick else pytest.mark.slow
            found.append(pytest.param(*match.groups(), id=f"{page.name}-{number}", marks=marks))
    return found


def reduced(script: str) -> str:
    """Fewer updates, and a fresh folder for each training."""
    script = re.sub(
        r"\bnmt train\b(?! --resume)", "nmt train --fresh --max-updates 2 --set validation.bleu=false", script
    )
    script = re.sub(r"(\bnmt train --resume \S+).*", r"\1 --max-updates 62", script)
    return re.sub(
        r"(<|--source) (\S+test\.en)",
        r"\1 short.en",
        re.sub(r"--reference \S+test\.de", "--reference short.de", script),
    )


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> Iterator[Path]:
    """What the scripts call ``nmt``."""
    with nmt_for_scripts(tmp_path_factory.mktemp("bin")) as path:
        yield path


@pytest.mark.parametrize(("kind", "script"), blocks())
def test_commands_run(kind, script, trained, tmp_path, program):
    shutil.copytree(trained / "data", tmp_path / "data")
    shutil.copytree(trained / "runs", tmp_path / "runs", symlinks=True)
    data = tmp_path / "data" / "toy-en-de"
    for language in ("en", "de"):
        (tmp_path / f"short.{language}").write_text("".join((data / f"test.{language}").open().readlines()[:5]))
    shutil.copy(tmp_path / "short.en", tmp_path / "input.txt")
    shutil.copy(tmp_path / "short.de", tmp_path / "hypothesis.de")
    run_block(kind, reduced(script), tmp_path, program)


def run_block(kind: str, script: str, folder: Path, program: Path) -> None:
    """Run a block in a folder, with the nmt of this very environment, whatever else is on the path."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if kind == "sh":
        process = subprocess.Popen(["sh", "-eu", "-c", script], cwd=folder, env=environment, **pipes)
    else:
        process = ForkedPython(["-c", script], str(folder), environment, **pipes)
    output, errors = process.communicate()
    assert process.returncode == 0, f"{script}\n{output.decode()}\n{errors.decode()}"


@pytest.mark.slow
def test_the_tutorial_works_from_its_first_command_to_its_last(tmp_path, program):
    """From an empty folder, block after block, with a twentieth of the text and 4 updates."""
    for kind, script in BLOCK.findall(WALK.read_text("utf-8")):
        script = re.sub(r"--max-updates \d+", "--max-updates 4 --set checkpoints.every_updates=2", script)
        script = re.sub(r"-n (\d+000)\b", lambda match: f"-n {int(match[1]) // 20}", script)
        run_block(kind, script, tmp_path, program)
    texts = {path.name: path.read_text("utf-8").count("\n") for path in tmp_path.glob("*.de")}
    assert texts == dict.fromkeys(("first.de", "average.de", "more.de", "longer.de", "greedy.de"), 10)
    assert (tmp_path / "comparison.html").is_file()
