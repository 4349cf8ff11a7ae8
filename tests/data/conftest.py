"""Small data sets on disk, and shards from lists of ids."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nmt.data.shard_index import SIDES, VERSION, ShardIndex
from nmt.data.shards import ParallelShards
from nmt.text.steps import Steps, TextSteps
from tests.data.one_data_set import SOURCE, TARGET, build_vocabulary
from tests.kit import data_sets


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
        sides = dict(zip(languages, (source, target), strict=True))
        texts = dict.fromkeys(("train", "valid", "test"), sides)
        return data_sets.write_data_set(folder, texts, name="small", source_text=source_text)

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


@pytest.fixture
def data(write_data_set: Callable[..., Path], tmp_path: Path) -> Path:
    """A data set with a vocabulary and shards."""
    data: Path = write_data_set(tmp_path / "data", SOURCE, TARGET)
    build_vocabulary(data, size=40, threads=1)
    return data
