"""Data sets of a few lines, as ``nmt prepare-data`` leaves them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from nmt.data.manifest import FileRecord, Manifest, fingerprint, write_manifest
from nmt.io.hashing import sha256_of
from nmt.text.steps import Steps


def write_data_set(
    folder: Path, texts: Mapping[str, Mapping[str, Sequence[str]]], *, name: str = "", source_text: Steps = ()
) -> Path:
    """Write the files of a data set and their manifest.

    Args:
        texts: split -> the lines of the source and of the target, by their languages.
        name: that of the folder if empty.
        source_text: the steps of source text.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    for split, sides in texts.items():
        for language, lines in sides.items():
            path = folder / f"{split}.{language}"
            path.write_bytes("".join(f"{line}\n" for line in lines).encode())
            files[path.name] = FileRecord(lines=len(lines), sha256=sha256_of(path))
    source_lang, target_lang = texts["train"]
    manifest = Manifest(
        name=name or folder.name, source_lang=source_lang, target_lang=target_lang, recipe={}, sources=[], filters={},
        files=files, source_text=source_text, target_text=(), fingerprint=fingerprint(files),
    )  # fmt: skip
    write_manifest(manifest, folder)
    return folder
