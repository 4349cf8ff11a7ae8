"""A data set of a language that takes seconds to learn, and settings to match."""

import json
import random
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file

from nmt.checkpoint.run_folder import RunFolder
from nmt.config import Config, dump_config, parse_config
from nmt.training.input.data_sets import TrainingData
from nmt.training.listener import Listener
from nmt.training.run import Outcome, train
from nmt.training.start.settings import resolve_config
from tests.data.one_data_set import build_vocabulary
from tests.kit.data_sets import write_data_set
from tests.policies import policy_fixture

every_policy = policy_fixture("cpu", "cuda")

WORDS = ["ba", "do", "ki", "lu", "me", "no", "pa", "ru", "se", "ti"]

SETTINGS = """
model: {encoder_layers: 1, decoder_layers: 1, d_model: 16, d_ff: 32, heads: 2, dropout: 0.1}
batching: {update_tokens: 60, group_tokens: 30, micro_batch_tokens: 50}
schedule: {warmup: 20}
training: {max_updates: 20, device: cpu, precision: fp32, threads: 1}
validation: {every_updates: 10, decoding: {beam: 2, max_extra_length: 3}}
checkpoints: {every_updates: 5}
logging: {every_updates: 2}
"""


def complete(settings: str) -> str:
    """The settings with every default, so that no preset lies beneath them."""
    return dump_config(parse_config(yaml.safe_load(settings), name="settings"))


def make_data_set(folder: Path, *, pairs: int = 200, seed: int = 0) -> Path:
    """Sentences of made-up words and, as their translation, the same words backwards."""
    draw, texts = random.Random(seed), {}
    for split, count in (("train", pairs), ("valid", 12), ("test", 12)):
        sentences = [[draw.choice(WORDS) for _ in range(draw.randint(1, 8))] for _ in range(count)]
        texts[split] = {"en": list(map(" ".join, sentences)), "de": [" ".join(words[::-1]) for words in sentences]}
    write_data_set(folder, texts)
    build_vocabulary(folder, size=40, threads=1)
    return folder


def saved(run: Path, update: int) -> dict[str, torch.Tensor]:
    """All tensors of a checkpoint: weights and moments."""
    folder = RunFolder(run).checkpoint(update)
    return load_file(folder / "model.safetensors") | load_file(folder / "training.safetensors")


def assert_same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    """Bit for bit."""
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert torch.equal(tensor, other[name]), name


def records(run: Path, kind: str) -> list[dict]:
    """What a run noted of one kind."""
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if record["kind"] == kind]


class Silent(Listener):
    """Listens to a run, and remembers what it heard."""

    def __init__(self) -> None:
        self.records: list[dict] = []
        self.notices: list[str] = []
        self.updates: list[int] = []
        self.at_update = lambda update: None

    def measured(self, found) -> None:
        self.preflight = found

    def progressed(self, update, seconds) -> None:
        self.updates.append(update)
        self.at_update(update)

    def recorded(self, record) -> None:
        self.records.append(record)

    def noticed(self, message) -> None:
        self.notices.append(message)


@pytest.fixture(scope="session")
def reversed_words(tmp_path_factory) -> Path:
    return make_data_set(tmp_path_factory.mktemp("data") / "reversed")


@pytest.fixture
def listener() -> Silent:
    return Silent()


@pytest.fixture(scope="session")
def settings_file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("settings") / "quick.yaml"
    path.write_text(complete(SETTINGS))
    return path


@pytest.fixture
def settled(reversed_words, settings_file):
    """The settings of a run on the data, with changes."""

    def settle(*changes: str, data: Path = reversed_words) -> Config:
        return resolve_config([(data, 1.0)], config_file=settings_file, settings=changes)[0]

    return settle


@pytest.fixture
def settings(settled, tmp_path):
    """A settings file with changes, for processes of their own."""

    def write(*changes: str, name: str = "settings") -> Path:
        path = tmp_path / f"{name}.yaml"
        path.write_text(yaml.safe_dump(settled(*changes).model_dump(mode="json")))
        return path

    return write


@pytest.fixture
def run_training(reversed_words, listener, settled):
    """Start a run, or go on with it."""

    def run(folder: Path, *changes: str, data: Path = reversed_words, **options) -> Outcome:
        return train(TrainingData.open([data], settled(*changes, data=data)), folder, listener, **options)

    return run


@pytest.fixture(scope="session")
def other_words(tmp_path_factory, reversed_words) -> Path:
    """A second data set in the same vocabulary."""
    folder = make_data_set(tmp_path_factory.mktemp("data") / "other", pairs=50, seed=7)
    build_vocabulary(folder, existing=reversed_words / "vocab.model", threads=1)
    return folder
