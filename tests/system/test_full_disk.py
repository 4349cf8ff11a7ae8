"""A disk without room: an error that names file or folder, never a signal; and no file is mapped for writing."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

PRIVATE = ["unshare", "--user", "--map-root-user", "--mount"]
PAIRS = 20_000
"""The cleaning remembers 160 kB of them before it writes any text."""


def in_small_file_system(command: list[str], mount_point: Path, kilobytes: int) -> subprocess.CompletedProcess:
    """Run a command in a mount namespace of its own, where a folder is a file system of a few kilobytes."""
    script = f'mount -t tmpfs -o size={kilobytes}k tmpfs "$0" && exec "$@"'
    return subprocess.run(
        [*PRIVATE, "sh", "-c", script, str(mount_point), *command], capture_output=True, text=True, check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip


@pytest.fixture
def small(tmp_path) -> Path:
    """A folder that can be a file system of its own."""
    folder = tmp_path / "small"
    folder.mkdir()
    try:
        mounted = in_small_file_system(["true"], folder, 64).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("this machine lets no test mount a file system of its own")
    return folder


def prepare(text: Path, out: Path) -> list[str]:
    prefix = str(text / "own")
    splits = [part for split in ("train", "valid", "test") for part in (f"--{split}", prefix)]
    return [
        *(sys.executable, "-m", "nmt", "prepare-data", "own", "--source-lang", "en", "--target-lang", "de", *splits),
        *("--jobs", "1", "--out", str(out)),
    ]


def test_prepare_data_names_the_folder_for_which_there_is_no_room(small, tmp_path):
    for language in ("en", "de"):
        lines = "".join(f"{number} {language} {number % 7}\n" for number in range(PAIRS))
        (tmp_path / f"own.{language}").write_text(lines)
    result = in_small_file_system(prepare(tmp_path, small / "data"), small, kilobytes=100)
    assert result.returncode == 2, f"ended with {result.returncode}: {result.stderr[-500:]}"
    assert "Traceback" not in result.stderr
    message = " ".join(result.stderr.split())
    assert f"{small / 'data'}: cannot be written (No space left on device). Free space" in message
    assert "make room, or name a folder on another disk with --out" in message


def test_no_file_is_mapped_for_writing():
    """A page of a mapped file for which the disk has no room ends the process by SIGBUS when it is written."""
    import nmt

    mappings = []
    for path in sorted(Path(nmt.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("memmap", "mmap.mmap")):
                modes = {ast.unparse(word.value) for word in node.keywords if word.arg in ("mode", "access")}
                mappings.append((path.name, modes))
    assert {"hashes.py", "shard_checks.py"} <= {name for name, _ in mappings}
    assert [found for found in mappings if not found[1] <= {"'r'", "mmap.ACCESS_READ"} or not found[1]] == []
