"""The folder of a run: the named folder or, for a fresh start, the next free name."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nmt.checkpoint.run_folder import RunFolder
from nmt.errors import CheckpointError
from nmt.io.files import why_not_made
from nmt.io.writing import WriteError, write_file
from nmt.training.ranks.exchange import Ranks
from nmt.training.ranks.launch import CLAIMED_VARIABLE


@contextmanager
def run_folder(run: Path, ranks: Ranks, *, fresh: bool) -> Iterator[Path]:
    """The run's folder, the same on every rank.

    With ``fresh`` it is the first free name of ``RUN``, ``RUN-2``, ``RUN-3`` …. The main rank creates it and sends the
    name to the others, because ranks that searched on their own would find different names. A folder that is new and
    still empty when the body fails is removed, so that its name is free again.

    Raises:
        CheckpointError: the folder cannot be created.
        WriteError: the folder is not writable.
    """
    new = [folder for folder in (run, *run.parents) if not folder.exists()]
    if fresh:
        run = Path(ranks.broadcast_object(str(_claimed(run) if ranks.is_main else run)))
        new = [run, *(folder for folder in new if folder in run.parents)]
    try:
        yield run
    finally:
        if ranks.is_main:
            for folder in new:
                _remove_empty(folder)


def _claimed(run: Path) -> Path:
    """Create the folder of the first free name, so that no other process can take it."""
    if of_launcher := os.environ.get(CLAIMED_VARIABLE):
        return Path(of_launcher)
    if _is_restarted() and (own := _claimed_before(run)) is not None:
        return own
    try:
        run.parent.mkdir(parents=True, exist_ok=True)
        for number in range(1, 1_000_000):
            folder = _numbered(run, number)
            if not folder.is_symlink():  # a broken link is a taken name, too
                with contextlib.suppress(FileExistsError):
                    folder.mkdir()
                    try:
                        if launch := _launch():
                            write_file(RunFolder(folder).mark, launch.encode())
                    except WriteError:
                        shutil.rmtree(folder, ignore_errors=True)
                        raise
                    return folder
    except OSError as error:
        raise CheckpointError(
            f"{run}: cannot be written ({why_not_made(run.parent, error)}). Name another folder with --out."
        ) from None
    raise CheckpointError(f"{run}: no numbered name is free. Name another folder with --out.")


def _claimed_before(run: Path) -> Path | None:
    """The newest folder that an earlier start of this launch has claimed."""
    found, number, launch = None, 1, _launch()
    while launch and (folder := _numbered(run, number)).exists():
        with contextlib.suppress(OSError, UnicodeDecodeError):
            if RunFolder(folder).mark.read_text("utf-8") == launch:
                found = folder
        number += 1
    return found


def _remove_empty(folder: Path) -> None:
    """Remove a folder if nothing was written to it, so that its name is free."""
    with contextlib.suppress(OSError):
        mark = RunFolder(folder).mark
        if list(folder.iterdir()) == [mark]:
            mark.unlink()
        folder.rmdir()


def _launch() -> str | None:
    """The id of a launch by torchrun, which restarts do not change; None without torchrun."""
    launch = os.environ.get("TORCHELASTIC_RUN_ID")
    if launch == "none":  # torchrun's default for every launch, so torchrun's process id distinguishes launches
        return f"{os.getppid()} on {socket.gethostname()}"
    return launch


def _numbered(run: Path, number: int) -> Path:
    # A path without a name of its own, such as ".", is made absolute.
    named = run if run.name else run.absolute()
    return run if number == 1 else named.with_name(f"{named.name}-{number}")


def _is_restarted() -> bool:
    """Whether torchrun has restarted these ranks after a failure. They then resume the folder of their first start."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0
