"""The folder of a run: the named folder or, for a fresh start, the next free name; and its lock."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from nmt.checkpoint.run_folder import RUN, RunFolder
from nmt.errors import CheckpointError
from nmt.io.files import why_not_made
from nmt.io.locking import exclusive, holder
from nmt.io.ownership import check_replaceable
from nmt.io.writing import WriteError, write_file
from nmt.machine.device import is_under_torchrun
from nmt.training.listener import Listener
from nmt.training.ranks.exchange import Ranks
from nmt.training.ranks.launch import CLAIMED_VARIABLE

# Ranks whose launcher was killed, or whose machine another one replaces, save first.
_SECONDS_UNTIL_RELEASED = 150


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


@contextmanager
def locked(run: Path, ranks: Ranks, listener: Listener) -> Iterator[None]:
    """Lock the run's folder. Another process that trained in it would delete our checkpoints."""
    if not ranks.is_main:
        yield
        return
    check_replaceable(run, RUN, in_place=True)
    lock = RunFolder(run).lock
    with ExitStack() as stack:
        try:
            run.mkdir(parents=True, exist_ok=True)
            _lock(lock, stack, listener)
        except BlockingIOError:
            raise CheckpointError(
                f"{run}: another process is training in this folder (process {holder(lock)}). Wait until it has ended, "
                "or add --fresh to start another run in a new folder."
            ) from None
        except OSError as error:
            raise CheckpointError(
                f"{run}: cannot be written ({why_not_made(run, error)}). Name another folder with --out."
            ) from None
        yield


def _lock(path: Path, stack: ExitStack, listener: Listener) -> None:
    """Take the lock, and wait a while for it under torchrun: ranks of the launch before may still be saving.

    Raises:
        BlockingIOError: another process holds the lock.
    """
    is_told, deadline = False, time.monotonic() + (_SECONDS_UNTIL_RELEASED if is_under_torchrun() else 0)
    while True:
        try:
            stack.enter_context(exclusive(path, wait=False))
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
            if not is_told:
                listener.noticed(f"waiting until process {holder(path)} has saved this run")
                is_told = True
            time.sleep(0.5)


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
