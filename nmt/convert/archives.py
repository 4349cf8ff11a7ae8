"""A model that is published as an archive, such as a .zip of OPUS-MT, unpacked for as long as it is read."""

from __future__ import annotations

import lzma
import shutil
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from nmt.convert.files import shown
from nmt.errors import CheckpointError, NmtError
from nmt.io.writing import WriteError, open_to_write, scratch_folder

_MAX_BYTES = 20 << 30
"""Models are smaller; a hostile archive may claim any size."""
_LARGEST_RATIO = 100
"""The largest ratio of unpacked to packed bytes. Weights hardly shrink; a vocabulary shrinks to a tenth."""
_LONGEST_NAME = 255
SUFFIXES = (".zip", ".argosmodel")
"""Of archives that hold a model."""
_OF_TAR = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")
_UNUSED = frozenset({"__MACOSX", "stanza", "minisbd", "spacy"})
"""Folders of files that belong to no model: of macOS, and the sentence splitters of Argos packages."""
_DAMAGES = (
    zipfile.BadZipFile, zipfile.LargeZipFile, EOFError, NotImplementedError, RuntimeError, zlib.error, lzma.LZMAError,
    ValueError,
)  # fmt: skip


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """The folder of an archive's files, removed at the end; a path that is no archive stays as it is.

    Folders within the archive are left out: a model's files lie side by side. So are hidden files, such as those that
    macOS adds. Errors within the ``with`` block name the archive instead of the folder, which nobody else sees.

    Raises:
        CheckpointError: the archive is damaged, or names two files alike.
    """
    if path.is_file() and path.name.endswith(_OF_TAR):
        raise CheckpointError(f"{path}: is a tar archive. Unpack it (tar -xf), and name the folder of the model.")
    if path.suffix not in SUFFIXES or not path.is_file():
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
    unpacked_bytes, packed_bytes = sum(member.file_size for member in members), path.stat().st_size
    if unpacked_bytes > min(_MAX_BYTES, _LARGEST_RATIO * packed_bytes):
        raise CheckpointError(
            f"{path}: has {packed_bytes:,} bytes, but its files have {unpacked_bytes:,}: this is no model. At most "
            f"{_LARGEST_RATIO:,} times the archive and {_MAX_BYTES >> 30} GiB are unpacked."
        )
    for member in members:
        *_, name = parts = PurePosixPath(member.filename).parts or ("",)
        if not name or name.startswith(".") or not _UNUSED.isdisjoint(parts[:-1]):
            continue
        if len(name.encode(errors="replace")) > _LONGEST_NAME or not name.isprintable():
            raise CheckpointError(
                f"{path}: names a file '{shown(name)}'. Names must have at most {_LONGEST_NAME} bytes, all printable. "
                "Unpack it, and rename the file."
            )
        if (folder / name).exists():
            raise CheckpointError(
                f"{path}: holds two files named '{shown(name)}'. Unpack it, and name the model's folder."
            )
        with archive.open(member) as source, open_to_write(folder / name, "xb") as out:
            shutil.copyfileobj(source, out)
