"""A model that is published as an archive, such as a .zip of OPUS-MT, unpacked for as long as it is read."""

from __future__ import annotations

import lzma
import shutil
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from nmt.errors import CheckpointError, NmtError
from nmt.writing import WriteError, open_to_write, scratch_folder

_MAX_BYTES = 20 << 30
"""Models are smaller; a hostile archive may claim any size."""
_OF_MACOS = "__MACOSX"
_DAMAGES = (
    zipfile.BadZipFile, zipfile.LargeZipFile, EOFError, NotImplementedError, RuntimeError, zlib.error, lzma.LZMAError,
)  # fmt: skip


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """The folder of an archive's files, removed at the end; a path that is no archive stays as it is.

    Folders within the archive are left out: a model's files lie side by side. So are hidden files, such as those that
    macOS adds. Errors within the ``with`` block name the archive instead of the folder, which nobody else sees.

    Raises:
        CheckpointError: the archive is damaged, or names two files alike.
    """
    if path.suffix != ".zip" or not path.is_file():
        yield path
        return
    with scratch_folder() as scratch:
        folder = scratch / path.stem
        folder.mkdir()
        try:
            with zipfile.ZipFile(path) as archive:
                _unpack(archive, path, folder)
        except (*_DAMAGES, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:  # of the system, not of bz2
                raise
            raise CheckpointError(f"{path}: is damaged, or no .zip archive ({error}). Download it again.") from None
        try:
            yield folder
        except WriteError:  # names a place of the user's
            raise
        except NmtError as error:
            raise type(error)(str(error).replace(str(folder), str(path))) from error


def _unpack(archive: zipfile.ZipFile, path: Path, folder: Path) -> None:
    members = [member for member in archive.infolist() if not member.is_dir()]
    if sum(member.file_size for member in members) > _MAX_BYTES:
        raise CheckpointError(f"{path}: its files have more than {_MAX_BYTES >> 30} GiB: this is no model.")
    for member in members:
        *_, name = parts = PurePosixPath(member.filename).parts or ("",)
        if not name or name.startswith(".") or "\0" in name or _OF_MACOS in parts:
            continue
        if (folder / name).exists():
            raise CheckpointError(f"{path}: holds two files named {name}. Unpack it, and name the model's folder.")
        with archive.open(member) as source, open_to_write(folder / name, "xb") as out:
            shutil.copyfileobj(source, out)
