"""A disk that fails: it stands between this process and the system, sees all that is written below a folder, and
refuses what it is told to.

Everything that Python writes goes through ``os.open``, ``os.write``, ``os.fsync``, ``os.rename`` and their like, which
are replaced here; files that libraries open with ``open`` are led through them. safetensors writes in compiled code:
its one function is replaced by one that writes the same bytes in Python.
"""

from __future__ import annotations

import builtins
import io
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import safetensors
import safetensors.torch

_RANDOM = re.compile(r"\.[0-9a-f]{12}\.|(?<=/tmp)[a-z0-9_]{8}|(?<=/\.text-)[a-z0-9_]{8}")
_NATIVE_PIECES = 3
_WRITES = os.O_WRONLY | os.O_RDWR


@dataclass(frozen=True)
class Operation:
    """Something that a process asks of the system."""

    kind: str
    """``make`` (a file, folder or link), ``write``, ``flush`` or ``rename``."""
    writer: str
    """The path below the disk's folder, without what is random in it; of a rename, the new name."""


@dataclass(frozen=True)
class Fault:
    """An operation that the system refuses."""

    operation: Operation
    number: int
    """Of those that are equal to it, from 0: the one that is refused."""
    code: int
    """The system's error."""

    @property
    def lasts(self) -> bool:
        """Whether all later operations of its kind fail, too, as on a full disk; otherwise only this one does."""
        return self.operation.kind in ("make", "write")


@dataclass
class Disk:
    """What a process does below a folder, and the operation that fails."""

    root: Path
    fault: Fault | None = None
    operations: list[Operation] = field(default_factory=list)
    refused: list[Path] = field(default_factory=list)
    """The paths of the operations that were refused, as they were asked for."""

    def passes(self, kind: str, path: Any, *, before_it_fails: Callable[[], None] = lambda: None) -> None:
        """Note an operation, or refuse it.

        Raises:
            OSError: it is the one that fails.
        """
        path = Path(os.path.abspath(os.fsdecode(path)))  # noqa: PTH100 (links are not followed)
        if not path.is_relative_to(self.root) or path.name.endswith(".lock"):
            return
        operation = Operation(kind, named(path.relative_to(self.root)))
        self.operations.append(operation)
        fault = self.fault
        if fault is None or kind != fault.operation.kind:
            return
        if not self.refused:
            if operation != fault.operation or self.operations.count(operation) <= fault.number:
                return
        elif not fault.lasts:
            return
        self.refused.append(path)
        before_it_fails()
        error = OSError(fault.code, os.strerror(fault.code))
        if kind != "write" and kind != "flush":  # what has a descriptor has no name
            error.filename = str(path)
        raise error


def named(path: Path) -> str:
    """A path without what is random in it."""
    return _RANDOM.sub(lambda found: ".*." if found[0].startswith(".") else "*", f"/{path.as_posix()}")[1:]


@contextmanager
def mounted(disk: Disk) -> Iterator[Disk]:
    """Let this process write to a disk."""
    paths: dict[int, str] = {}
    system = {name: getattr(os, name) for name in ("open", "write", "fsync", "rename", "replace", "mkdir", "symlink")}
    real_open = io.open

    def open_descriptor(path: Any, flags: int, *arguments: Any, **options: Any) -> int:
        if flags & _WRITES:
            disk.passes("make", path)
        descriptor = system["open"](path, flags, *arguments, **options)
        if not isinstance(path, int):
            paths[descriptor] = os.path.join(os.getcwd(), os.fsdecode(path))  # noqa: PTH109, PTH118
        return descriptor

    def path_of(descriptor: int) -> str:
        try:
            return os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115
        except OSError:  # not on macOS
            return paths.get(descriptor, os.devnull)

    def write(descriptor: int, content: Any) -> int:
        # A full disk takes what it still can.
        half = memoryview(content).cast("B")[: len(memoryview(content).cast("B")) // 2]
        disk.passes("write", path_of(descriptor), before_it_fails=lambda: system["write"](descriptor, half))
        return system["write"](descriptor, content)

    def fsync(descriptor: int) -> None:
        disk.passes("flush", path_of(descriptor))
        system["fsync"](descriptor)

    def renaming(function: Callable[..., None]) -> Callable[..., None]:
        def rename(source: Any, target: Any, **options: Any) -> None:
            disk.passes("rename", target)
            function(source, target, **options)

        return rename

    def mkdir(path: Any, *arguments: Any, **options: Any) -> None:
        if not Path(path).exists():
            disk.passes("make", path)
        system["mkdir"](path, *arguments, **options)

    def symlink(target: Any, path: Any, *arguments: Any, **options: Any) -> None:
        disk.passes("make", path)
        system["symlink"](target, path, *arguments, **options)

    class Raw(io.FileIO):
        def write(self, content: Any) -> int:
            return os.write(self.fileno(), content)

    def open_file(
        file: Any, mode: str = "r", buffering: int = -1, encoding: Any = None, errors: Any = None, newline: Any = None,
        closefd: bool = True, opener: Any = None,
    ) -> Any:  # fmt: skip
        if isinstance(file, int) or opener is not None or not set(mode) & set("wax+"):
            return real_open(file, mode, buffering, encoding, errors, newline, closefd, opener)
        raw = Raw(file, mode.replace("b", "").replace("t", ""), opener=lambda name, flags: os.open(name, flags, 0o666))
        if buffering == 0:
            return raw
        buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding or "utf-8", errors, newline)

    def serialize_file(tensors: Any, path: Any, metadata: Any = None) -> None:
        content = safetensors.serialize(tensors, metadata)
        size = -(-len(content) // _NATIVE_PIECES)
        try:
            with open_file(path, "wb", 0) as stream:
                for start in range(0, len(content), size):
                    stream.write(content[start : start + size])
        except OSError as error:
            message = f"Error while serializing: I/O error: {error.strerror} (os error {error.errno})"
            raise safetensors.SafetensorError(message) from None

    with pytest.MonkeyPatch.context() as patch:
        for name, function in (
            ("open", open_descriptor), ("write", write), ("fsync", fsync), ("mkdir", mkdir), ("symlink", symlink),
            ("rename", renaming(system["rename"])), ("replace", renaming(system["replace"])),
        ):  # fmt: skip
            patch.setattr(os, name, function)
        patch.setattr(io, "open", open_file)
        patch.setattr(builtins, "open", open_file)
        patch.setattr(safetensors.torch, "serialize_file", serialize_file)
        # So that small files, too, have a first, a middle and a last write.
        patch.setattr("nmt.io.writing._BUFFER_BYTES", 64)
        yield disk
