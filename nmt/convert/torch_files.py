"""The files that ``torch.save`` writes, in both formats, read by torch's restricted unpickler.

It calls only functions of a list, all of torch and of plain Python values. Objects of the toolkits' own classes become
bags of attributes, so nothing that a file names is imported or run. Before, the pickle is looked through for names that
are not known.
"""

from __future__ import annotations

import io
import mmap
import pickletools
import re
import warnings
import zipfile
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, cast

import torch
from torch.serialization import safe_globals

from nmt.convert.files import shown
from nmt.errors import CheckpointError

_OLDEST_TORCH = "2.10"
"""Before, a hostile file could corrupt memory in the restricted unpickler (CVE-2026-24747)."""
_LARGEST_PICKLE = 512 * 2**20
"""Bytes of the pickle in an archive: names, settings and vocabularies."""
_PICKLES_OF_OLDER = 5  # a magic number, the protocol, the machine, the value, the keys of the storages
_TORCH = re.compile(
    r"torch\.([A-Z]\w+Storage|Size|device|b?float\w*|half|double|u?int\d+|bool)"
    r"|torch\._utils\.(_rebuild_tensor|_rebuild_tensor_v2|_rebuild_parameter)"
)
"""Names that torch's unpickler knows, as far as models need them."""
_PLAIN = frozenset(
    ("collections.OrderedDict", "collections.Counter", "collections.defaultdict", "builtins.set", "_codecs.encode")
)
"""Further ones, of plain values."""
_TOOLKITS = re.compile(
    r"(argparse|datetime|eole|fairseq|joeynmt|numpy|omegaconf|onmt|pathlib|pyonmttok|sockeye|torchtext|types|typing)"
    r"\.[\w.]+|functools\.partial|builtins\.(getattr|object|type|dict|list|tuple|frozenset|int|float|str|bool)"
    r"|copyreg\._reconstructor|_operator\.getitem"
)
"""Classes and functions that are found in files of models. They become bags, and are never imported."""


class Bag:
    """What a file says about an object: its attributes. The class is never imported, and no method of it runs."""

    __slots__ = ("attributes",)
    attributes: Mapping[str, Any]

    def __new__(cls, *_: object, **__: object) -> Bag:
        """Make one, whatever the object was made of."""
        bag = object.__new__(cls)
        bag.attributes = {}
        return bag

    def __setstate__(self, state: object) -> None:
        """Take the attributes of the object; those of ``__slots__`` are left out."""
        attributes = state[0] if isinstance(state, tuple) and state else state
        self.attributes = attributes if isinstance(attributes, dict) else {}


def read_torch_file(path: Path) -> Any:
    """Read a file of ``torch.save``. Tensors of an archive stay on disk until they are used.

    Returns:
        What was saved, with a :class:`Bag` for each object of a toolkit's class.

    Raises:
        CheckpointError: the file cannot be read, is damaged, or asks for a function when it is read. The message names
            the function, which is not run.
    """
    if torch.__version__ < _OLDEST_TORCH:
        raise CheckpointError(
            f"{path}: is a pickle, which torch {torch.__version__} does not read safely. Install torch {_OLDEST_TORCH} "
            "or newer, or save the model as safetensors."
        )
    try:
        with path.open("rb") as stream:
            is_archive = stream.read(4).startswith(b"PK")
            names = _names_in_archive(path, stream) if is_archive else _names_in_older(stream)
        bags = [(type("Bag", (Bag,), {"__slots__": ()}), name) for name in names if _TOOLKITS.fullmatch(name)]
        with warnings.catch_warnings(), safe_globals([*bags, (_empty_mapping, "collections.defaultdict")]):
            warnings.simplefilter("ignore")
            return torch.load(str(path), map_location="cpu", weights_only=True, mmap=is_archive)
    except CheckpointError:
        raise
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror or error}).") from None
    except Exception as error:  # of any kind: the instructions of a damaged pickle may be any
        reason = str(error).rpartition("WeightsUnpickler error: ")[2].strip().partition("\n")[0]
        raise CheckpointError(
            f"{path}: is not a file of torch.save with torch's default pickle protocol, or is damaged "
            f"({type(error).__name__}: {shown(reason)})."
        ) from None


def _empty_mapping(*_: object) -> dict[Any, Any]:
    """A ``defaultdict`` without its factory. torch's unpickler fills plain mappings only."""
    return {}


def _names_in_archive(path: Path, stream: IO[bytes]) -> set[str]:
    with zipfile.ZipFile(stream) as archive:
        pickles = [name for name in archive.namelist() if name == "data.pkl" or name.endswith("/data.pkl")]
        if len(pickles) != 1:
            raise CheckpointError(f"{path}: is an archive without data.pkl, so torch.save did not write it.")
        for member in archive.infolist():  # torch compresses nothing
            largest = _LARGEST_PICKLE if member.filename == pickles[0] else path.stat().st_size
            if member.compress_type != zipfile.ZIP_STORED or member.file_size > min(largest, path.stat().st_size):
                raise CheckpointError(
                    f"{path}: has {shown(member.filename)} of {member.file_size:,} bytes, so it is damaged or holds no "
                    "model."
                )
        if (broken := archive.testzip()) is not None:  # torch does not look at checksums
            raise CheckpointError(f"{path}: is damaged: {shown(broken)} does not have its checksum.")
        return _names(path, io.BytesIO(archive.read(pickles[0])))


def _names_in_older(stream: IO[bytes]) -> set[str]:
    path, names = Path(stream.name), set[str]()
    with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:  # never reads more than the file has
        for _ in range(_PICKLES_OF_OLDER):
            names |= _names(path, cast(IO[bytes], content))
    return names


def _names(path: Path, stream: IO[bytes]) -> set[str]:
    """The classes and functions that a pickle asks for.

    Raises:
        CheckpointError: one is not known.
    """
    return {
        _known(path, str(argument)) for opcode, argument, _ in pickletools.genops(stream) if opcode.name == "GLOBAL"
    }


def _known(path: Path, argument: str) -> str:
    module, _, name = argument.partition(" ")
    module, name = NAME_MAPPING.get((module, name), (IMPORT_MAPPING.get(module, module), name))
    full = f"{module}.{name}"  # protocol 2 has the names of Python 2
    if full not in _PLAIN and not (_TORCH.fullmatch(full) or _TOOLKITS.fullmatch(full)):
        raise CheckpointError(
            f"{path}: asks for {shown(full)} when it is read, which no model needs: it may be harmful, and was not run."
        )
    return full


def without_tensors(settings: Mapping[Any, Any], name: str) -> dict[str, Any]:
    """The settings in a file, by their names.

    Args:
        name: of the file, for errors.

    Raises:
        CheckpointError: one is a tensor, which is neither true nor false: the file is damaged or hostile.
    """
    for key, value in settings.items():
        if isinstance(value, torch.Tensor):
            raise CheckpointError(f"{name}: its setting {shown(key)} is a tensor. Copy the model again.")
    return {key: value for key, value in settings.items() if isinstance(key, str)}
