"""The files that ``torch.save`` writes, in both formats, read without running what is in their pickles.

A file is an archive (zip) with a pickle and one member per storage, or, before torch 1.6, several pickles and then
the storages. Tensors are references until they are asked for, so those of the optimiser are never read.
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from nmt.convert.foreign import Array
from nmt.convert.pickled import Functions, Name, PickleError, read_pickle, shown
from nmt.errors import CheckpointError

_LARGEST_PICKLE = 512 * 2**20
"""Bytes of the pickle in an archive: names, settings and vocabularies."""
_LONGEST_LINE = 2**16
_MAGIC, _PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
_BEGINNINGS = (b"PK\x03\x04", b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.")
# Storage -> type of its numbers. bfloat16, which NumPy lacks, is the upper half of a float32.
_TYPES: Mapping[str, str] = {
    "FloatStorage": "<f4", "DoubleStorage": "<f8", "HalfStorage": "<f2", "BFloat16Storage": "bfloat16",
    "LongStorage": "<i8", "IntStorage": "<i4", "ShortStorage": "<i2", "CharStorage": "|i1", "ByteStorage": "|u1",
    "BoolStorage": "|b1",
}  # fmt: skip
_FLOATS = ("FloatStorage", "DoubleStorage", "HalfStorage", "BFloat16Storage")


@dataclass(frozen=True)
class Storage:
    """A row of numbers in a file."""

    kind: str
    key: str
    count: int

    @property
    def bytes(self) -> int:
        """Its size."""
        return self.count * (2 if self.kind == "BFloat16Storage" else np.dtype(_TYPES[self.kind]).itemsize)


@dataclass(frozen=True)
class StoredTensor:
    """A tensor as a pickle describes it: a view of a storage."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def is_float(self) -> bool:
        """Whether its numbers are floating-point."""
        return self.storage.kind in _FLOATS


@dataclass(frozen=True)
class TorchFile:
    """A file of ``torch.save``."""

    path: Path
    value: Any
    """What was saved, with :class:`StoredTensor` for tensors and ``Instance`` for objects."""
    _places: Mapping[str, int] | None
    """Storage -> its place in a file of the older format; None for an archive."""
    _prefix: str = ""
    """Of the names in an archive."""

    def array(self, tensor: StoredTensor) -> Array:
        """The numbers of a tensor, as float32.

        Raises:
            CheckpointError: the file is cut off, or the tensor does not fit its storage.
        """
        storage = tensor.storage
        last = tensor.offset + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.strides, strict=True))
        if 0 in tensor.shape:
            return np.empty(tensor.shape, np.float32)
        if last >= storage.count or math.prod(tensor.shape) > storage.count:
            raise CheckpointError(f"{self.path}: is damaged: a tensor is larger than its storage {shown(storage.key)}.")
        numbers = _numbers(self._content(storage), storage.kind)
        strides = tuple(step * numbers.itemsize for step in tensor.strides)
        view = np.lib.stride_tricks.as_strided(numbers[tensor.offset :], tensor.shape, strides, writeable=False)
        return np.array(view, np.float32)

    def _content(self, storage: Storage) -> bytes:
        try:
            if storage.bytes > self.path.stat().st_size:
                raise EOFError
            if self._places is None:
                return self._member(storage)
            with self.path.open("rb") as stream:
                stream.seek(self._places[storage.key])
                content = stream.read(storage.bytes)
        except (OSError, KeyError, zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError):
            raise CheckpointError(f"{self.path}: is damaged: storage {shown(storage.key)} cannot be read.") from None
        if len(content) != storage.bytes:
            raise CheckpointError(f"{self.path}: is cut off in storage {shown(storage.key)}.")
        return content

    def _member(self, storage: Storage) -> bytes:
        with zipfile.ZipFile(self.path) as archive:
            member = archive.getinfo(f"{self._prefix}data/{storage.key}")
            # torch compresses nothing: what is smaller in the file than in memory could be of any size.
            if member.compress_type != zipfile.ZIP_STORED or member.file_size != storage.bytes:
                raise CheckpointError(
                    f"{self.path}: is damaged: storage {shown(storage.key)} has {member.file_size:,} bytes, "
                    f"expected {storage.bytes:,}."
                )
            return archive.read(member)


def is_torch_file(path: Path) -> bool:
    """Whether a file begins like one of ``torch.save``."""
    try:
        with path.open("rb") as stream:
            return stream.read(20).startswith(_BEGINNINGS)
    except OSError:
        return False


def read_torch_file(path: Path) -> TorchFile:
    """Read a file of ``torch.save``; its tensors are read later, one by one.

    Raises:
        CheckpointError: the file cannot be read, is damaged, or asks for a function when it is read. The message names
            the function, which is not run.
    """
    try:
        with path.open("rb") as stream:
            beginning = stream.read(4)
            stream.seek(0)
            if beginning.startswith(b"PK"):
                return _read_archive(path, stream)
            return _read_older(path, stream)
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror or error}).") from None
    except (PickleError, zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, EOFError) as error:
        problem = str(error) if isinstance(error, PickleError) else "is not a file of torch.save, or is damaged"
        raise CheckpointError(f"{path}: {problem}.") from None


def _read_archive(path: Path, stream: IO[bytes]) -> TorchFile:
    with zipfile.ZipFile(stream) as archive:
        pickles = [name for name in archive.namelist() if name == "data.pkl" or name.endswith("/data.pkl")]
        if len(pickles) != 1:
            raise PickleError("is an archive without data.pkl, so torch.save did not write it")
        prefix = pickles[0].removesuffix("data.pkl")
        largest = min(_LARGEST_PICKLE, path.stat().st_size)
        if f"{prefix}byteorder" in archive.namelist() and _member(archive, f"{prefix}byteorder", 16) != b"little":
            raise PickleError("was written on a big-endian machine, and cannot be read")
        value = read_pickle(io.BytesIO(_member(archive, pickles[0], largest)), _FUNCTIONS, _storage)
    return TorchFile(path, value, None, prefix)


def _member(archive: zipfile.ZipFile, name: str, largest: int) -> bytes:
    member = archive.getinfo(name)
    if member.compress_type != zipfile.ZIP_STORED or member.file_size > largest:
        raise PickleError(f"has {shown(name)} of {member.file_size:,} bytes, so it is damaged or holds no model")
    return archive.read(member)


def _read_older(path: Path, stream: IO[bytes]) -> TorchFile:
    reader = _Bounded(stream, path.stat().st_size)
    if read_pickle(reader, {}) != _MAGIC or read_pickle(reader, {}) != _PROTOCOL:
        raise PickleError("is not a file of torch.save")
    about = read_pickle(reader, {})
    if not isinstance(about, dict) or about.get("little_endian") is not True:
        raise PickleError("was written on a big-endian machine, and cannot be read")
    storages: dict[str, Storage] = {}

    def persistent(identity: object) -> Storage:
        storage = _storage(identity)
        if storages.setdefault(storage.key, storage) != storage:
            raise PickleError(f"has two storages {shown(storage.key)}")
        return storage

    value = read_pickle(reader, _FUNCTIONS, persistent)
    keys = read_pickle(reader, {})
    if not isinstance(keys, list) or not all(isinstance(key, str) and key in storages for key in keys):
        raise PickleError("is damaged: its list of storages is wrong")
    places, place = {}, stream.tell()
    for key in keys:
        places[key] = place + 8  # the number of numbers goes first
        place = places[key] + storages[key].bytes
    return TorchFile(path, value, places)


class _Bounded:
    """A stream from which no more is asked than it has: a length in a damaged file may be any number."""

    def __init__(self, stream: IO[bytes], size: int) -> None:
        self._stream, self._size = stream, size

    def read(self, count: int, /) -> bytes:
        return self._stream.read(min(count, max(0, self._size - self._stream.tell())))

    def readline(self) -> bytes:
        return self._stream.readline(_LONGEST_LINE)


def _storage(identity: object) -> Storage:
    """A storage, from ``("storage", class, key, device, number of numbers)``."""
    match identity:
        case ("storage", Name(name=kind), str(key), _, int(count)) if kind in _TYPES and 0 <= count < 2**48:
            return Storage(kind, key, count)
        case ("storage", Name(name=kind), str(key), _, int(count), None) if kind in _TYPES and 0 <= count < 2**48:
            return Storage(kind, key, count)
    raise PickleError("holds numbers of an unknown type")


def _tensor(storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> StoredTensor:
    """``torch._utils._rebuild_tensor_v2``."""
    numbers = (offset, *shape, *strides)
    if (
        not isinstance(storage, Storage)
        or len(shape) != len(strides)
        or len(shape) > 8
        or not all(type(number) is int and 0 <= number < 2**48 for number in numbers)
    ):
        raise PickleError("is damaged: it describes no tensor")
    return StoredTensor(storage, offset, tuple(shape), tuple(strides))


def _parameter(tensor: Any, *_: Any) -> StoredTensor:
    """``torch._utils._rebuild_parameter``."""
    if not isinstance(tensor, StoredTensor):
        raise PickleError("is damaged: it describes no tensor")
    return tensor


_FUNCTIONS: Functions = {
    ("torch._utils", "_rebuild_tensor"): _tensor,
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("torch._utils", "_rebuild_parameter"): _parameter,
}


def _numbers(content: bytes, kind: str) -> NDArray[Any]:
    if kind == "BFloat16Storage":
        return (np.frombuffer(content, "<u2").astype("<u4") << 16).view("<f4")
    return np.frombuffer(content, _TYPES[kind])
