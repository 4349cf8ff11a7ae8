"""A model that is published as an archive, such as a .zip of OPUS-MT, unpacked for as long as it is read."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nmt.corpora.archive import unpack
from nmt.errors import CheckpointError, DownloadError, NmtError
from nmt.io.writing import WriteError, scratch_folder

_SUFFIXES = (".zip", ".argosmodel", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")
_OF_MACOS = "__MACOSX"


def archive_name(path: Path) -> str | None:
    """The name of an archive that may hold a model, without its suffix; None for another file or a folder."""
    suffix = next(filter(path.name.endswith, _SUFFIXES), "")
    return path.name.removesuffix(suffix) if suffix and path.is_file() else None


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """The model's folder in an archive, removed at the end; a path that is no archive stays as it is.

    It is the first folder that holds anything but one other folder. Hidden files, such as those that macOS adds, are
    left out. Errors within the ``with`` block name the archive instead of the folder, which nobody else sees.

    Raises:
        CheckpointError: the archive is damaged, or unpacks to far more than its own size.
    """
    if (name := archive_name(path)) is None:
        yield path
        return
    with scratch_folder() as scratch:
        whole = folder = scratch / (name or "model")
        try:
            unpack(path, None, whole)
        except DownloadError as error:
            raise CheckpointError(str(error)) from None
        except WriteError as error:
            if error.code == errno.ENAMETOOLONG:
                raise CheckpointError(
                    f"{path}: holds a name that is too long. Unpack it, and rename the file."
                ) from None
            raise
        for hidden in [file for file in whole.rglob(".*") if file.is_file()]:
            hidden.unlink()
        while (inside := _only_folder(folder)) is not None:
            folder = inside
        try:
            yield folder
        except WriteError:  # names a place of the user's
            raise
        except NmtError as error:
            raise type(error)(str(error).replace(str(whole), str(path))) from error


def _only_folder(folder: Path) -> Path | None:
    """The folder that is all that a folder holds; None if there is more, or none."""
    inside = [entry for entry in folder.iterdir() if entry.name != _OF_MACOS and not entry.name.startswith(".")]
    return inside[0] if len(inside) == 1 and inside[0].is_dir() else None
