"""Names of files in a folder that this program writes, as attributes of the folder."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


class _Folder(Protocol):
    @property
    def path(self) -> Path: ...


class Inside:
    """The path of a file or folder of a fixed name, as an attribute of the folder that it lies in."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, folder: _Folder, kind: type) -> Path:
        return folder.path / self._name
