"""Small data sets on disk, and shards from lists of ids."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nmt.data.manifest import FileRecord, Manifest, fingerprint, write_manifest
from nmt.data.shards import SIDES, VERSION, ParallelShards, ShardIndex
from nmt.text.steps import Steps, TextSteps


@pytest.fixture(scope="session")
def write_data_set() -> Callable[..., Path]:
    """Write a data set whose every split is the same text."""

    def write(
        folder: Path,
        source: list[str],
        target: list[str],
        *,
        languages: tuple[str, str] = ("en", "de"),
        source_text: Steps = (),
    ) -> Path:
        folder.mkdir(exist_ok=True)
        files = {}
        for split in ("train", "valid", "test"):
            for language, lines in zip(languages, (source, target), strict=True):
                content = "".join(line + "\n" for line in lines).encode()
                (folder / f"{split}.{language}").write_bytes(content)
                files[f"{split}.{language}"] = FileRecord(lines=len(lines), sha256=hashlib.sha256(content).hexdigest())
        manifest = Manifest(
            name="small", source_lang=languages[0], target_lang=languages[1], recipe={}, sources=[], filters={},
            files=files, source_text=source_text, target_text=(), fingerprint=fingerprint(files),
        )  # fmt: skip
        write_manifest(manifest, folder)
        return folder

    return write


@pytest.fixture(scope="session")
def shards_of() -> Callable[..., ParallelShards]:
    """Shards of pairs that are given as ids."""

    def make(pairs: list[tuple[list[int], list[int]]]) -> ParallelShards:
        sides = {side: [pair[number] for pair in pairs] for number, side in enumerate(SIDES)}
        return ParallelShards(
            ShardIndex(VERSION, "", "", "en", "de", (), 256, False, TextSteps(), {}, None, "uint16", 1 << 16, {}, {}),
            {side: np.array([token for row in rows for token in row], np.uint16) for side, rows in sides.items()},
            {side: np.cumsum([0, *map(len, rows)], dtype=np.int64) for side, rows in sides.items()},
        )

    return make
