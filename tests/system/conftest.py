"""The toy pair prepared, encoded and trained for a moment by the real commands, shared by all system tests."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import run_command, run_here


@pytest.fixture(scope="session")
def nmt():
    """Run a command in this process (see :func:`run_here`); check that it succeeds unless told otherwise."""

    def run(*arguments: str | Path, cwd: Path, check: bool = True, text: str = "", **environment: str):
        return _checked(run_here(arguments, cwd=cwd, text=text.encode(), **environment), check)

    return run


@pytest.fixture(scope="session")
def nmt_apart():
    """As ``nmt``, in a process of its own."""

    def run(
        *arguments: str | Path,
        cwd: Path,
        check: bool = True,
        text: str | None = None,
        redirected: str | None = None,
        **environment: str,
    ):
        file = None if redirected is None else cwd / redirected
        found = run_command(arguments, cwd=cwd, text=(text or "").encode(), environment=environment, redirected=file)
        return _checked(found, check)

    return run


def _checked(found: subprocess.CompletedProcess[bytes], check: bool) -> subprocess.CompletedProcess[str]:
    result = subprocess.CompletedProcess(found.args, found.returncode, found.stdout.decode(), found.stderr.decode())
    assert not check or result.returncode == 0, result.stderr
    return result


@pytest.fixture(scope="session")
def trained_once(made_once, nmt_apart) -> Path:
    """A folder where the bare commands ran in sequence, up to the average; training was short."""
    return made_once("trained", lambda folder: _train_once(nmt_apart, folder))


def _train_once(nmt, folder: Path) -> None:
    nmt("prepare-data", "toy-en-de", cwd=folder)
    nmt("build-vocab", cwd=folder)
    (folder / "tiny.yaml").write_text(
        "model: {encoder_layers: 1, decoder_layers: 1, d_model: 32, d_ff: 48, heads: 2}\n"
        "training: {max_updates: 60}\nschedule: {warmup: 60}\ncheckpoints: {every_updates: 20}\n"
        "validation: {bleu_sentences: 20}\n"
        "batching: {update_tokens: 250, group_tokens: 250, micro_batch_tokens: 256}\n"
    )
    nmt("train", "--config", "tiny.yaml", cwd=folder)
    nmt("average-checkpoints", cwd=folder)


@pytest.fixture
def trained(trained_once) -> Iterator[Path]:
    """The folder of :func:`trained_once`, to read alone: all tests share it, so none may leave a trace for the next."""
    before = _files(trained_once)
    yield trained_once
    after = _files(trained_once)
    assert {path for path in before | after if before.get(path) != after.get(path)} == set(), "copy what you change"


def _files(folder: Path) -> dict[Path, tuple[int, int]]:
    """Sizes and times of all that lies in a folder, without the folders themselves."""
    entries = [path for path in folder.rglob("*") if path.is_symlink() or path.is_file()]
    return {path: (path.lstat().st_size, path.lstat().st_mtime_ns) for path in entries}
