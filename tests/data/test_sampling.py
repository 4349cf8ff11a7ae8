"""Sampled shards: a function of seed and epoch, made ahead by another process, and nothing of it is left behind."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from nmt.config import AugmentationConfig
from nmt.data import shard_writing
from nmt.data.sampling import SampledEpochs, write_sampled_shards
from nmt.data.shard_index import Sampling, read_folder_index, read_index
from nmt.data.shards import ParallelShards
from nmt.data.vocab import train_vocabulary
from nmt.data.vocab_pair import VocabularyPair
from nmt.errors import DataError
from tests.data.one_data_set import build_vocabulary
from tests.processes import SECONDS

PAIRS = 60
SAMPLING = Sampling(0.3, AugmentationConfig(), 1)


@pytest.fixture
def data(write_data_set, tmp_path) -> Path:
    draw = random.Random(0)
    words = ["house", "mouse", "blouse", "spouse", "grouse", "using", "Housing"]
    lines = [" ".join(draw.choices(words, k=draw.randint(1, 6))) for _ in range(PAIRS)]
    folder = write_data_set(tmp_path / "data", lines, [" ".join(line.split()[::-1]) for line in lines])
    build_vocabulary(folder, size=45, threads=1)
    return folder


@pytest.fixture
def vocab(data) -> VocabularyPair:
    return VocabularyPair.load(data / "vocab.model")


@pytest.fixture
def sampled(data, vocab, tmp_path):
    """Sampled epochs of a run, which are closed in the end."""
    made = []

    def make(**options) -> SampledEpochs:
        options = {"vocab": vocab, "sampling": SAMPLING} | options
        made.append(SampledEpochs(data, tmp_path / "run" / "sampled", **options))
        return made[-1]

    yield make
    for epochs in made:
        epochs.close()


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def texts(shards: ParallelShards, vocab: VocabularyPair) -> list[list[str]]:
    return [vocab.source.decode([ids.tolist() for ids in shards.pair(index)]) for index in range(len(shards))]


def wait_until(is_so, seconds: float = SECONDS) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.02)


def runs(pid: int) -> bool:
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()
    return state != "" and not state.startswith("Z")


@pytest.fixture
def hanging_data(data) -> Path:
    """A data set that is never read to its end, so that whoever encodes it is caught in the act."""
    (data / "train.en").unlink()
    os.mkfifo(data / "train.en")
    return data


def test_sampled_shards_hold_the_same_text_in_other_pieces(data, vocab, tmp_path):
    index = write_sampled_shards(data, tmp_path / "sampled", vocab, SAMPLING)
    plain, sampled = ParallelShards.open(data, "train"), ParallelShards.open_folder(tmp_path / "sampled", "train")
    assert len(sampled) == index.splits["train"].pairs == PAIRS
    assert texts(sampled, vocab) == texts(plain, vocab)
    assert sampled.source_lengths.sum() > plain.source_lengths.sum() * 1.1
    assert sampled.target_lengths.sum() > plain.target_lengths.sum() * 1.1
    assert sampled.index.vocab_fingerprint == plain.index.vocab_fingerprint
    assert sampled.index.data_fingerprint == plain.index.data_fingerprint
    assert index.max_pieces == read_index(data).max_pieces


def test_augmented_shards_hold_other_text(data, vocab, tmp_path):
    augmented = Sampling(0.0, AugmentationConfig(noise=0.5), 1)
    index = write_sampled_shards(data, tmp_path / "sampled", vocab, augmented)
    plain = texts(ParallelShards.open(data, "train"), vocab)
    found = texts(ParallelShards.open_folder(tmp_path / "sampled", "train"), vocab)
    noise = [pair for pair in found if pair not in plain]
    assert [pair for pair in found if pair in plain] == plain
    assert PAIRS * 0.2 < len(noise) == index.splits["train"].pairs - PAIRS < PAIRS * 0.8
    assert all(source == target for source, target in noise)


def test_pairs_that_grow_too_long_are_left_out_and_counted(data, vocab, tmp_path):
    limit = max(statistics.longest for statistics in read_index(data).splits["train"].sides.values())
    build_vocabulary(data, existing=data / "vocab.model", max_pieces=limit, threads=1)
    assert read_index(data).splits["train"].too_long == 0
    index = write_sampled_shards(data, tmp_path / "sampled", vocab, replace(SAMPLING, dropout=0.5))
    statistics = index.splits["train"]
    assert statistics.too_long > 0
    assert statistics.pairs + statistics.too_long == PAIRS
    sampled = ParallelShards.open_folder(tmp_path / "sampled", "train")
    assert max(sampled.source_lengths.max(), sampled.target_lengths.max()) <= limit


def test_a_seed_and_an_epoch_make_the_same_bytes_in_any_process(data, vocab, sampled, tmp_path):
    def written(**changes) -> dict[str, bytes]:
        folder = tmp_path / "direct"
        write_sampled_shards(data, folder, vocab, replace(SAMPLING, **{"epoch": 3} | changes))
        return content(folder)

    first = written()
    vocab.source.encode_sampled(["house"], dropout=0.5, seed=0)
    assert written() == first
    sampled().open(3)  # which another process makes
    assert content(tmp_path / "run" / "sampled" / "epoch-00003") == first
    tokens = first["train.source.tokens"]
    for changes in ({"epoch": 4}, {"seed": 2}, {"dropout": 0.2}, {"augmentation": AugmentationConfig(typos=0.5)}):
        assert written(**changes)["train.source.tokens"] != tokens


def test_the_two_sides_are_cut_differently(data, vocab, tmp_path, write_data_set):
    """With one seed for both, a source and a target of the same text would always be cut at the same places."""
    lines = (data / "train.en").read_text().splitlines()
    same = write_data_set(tmp_path / "same", lines, lines)
    build_vocabulary(same, existing=data / "vocab.model", threads=1)
    write_sampled_shards(same, tmp_path / "sampled", vocab, SAMPLING)
    shards = ParallelShards.open_folder(tmp_path / "sampled", "train")
    alike = sum(source.tolist() == target.tolist() for source, target in map(shards.pair, range(len(shards))))
    assert alike < len(shards) / 2


def test_equal_text_further_on_is_cut_differently(data, vocab, tmp_path, write_data_set, monkeypatch):
    """Text is encoded in chunks, and each draws numbers of its own."""
    lines = (data / "train.en").read_text().splitlines() * 2
    twice = write_data_set(tmp_path / "twice", lines, lines)
    build_vocabulary(twice, existing=data / "vocab.model", threads=1)
    monkeypatch.setattr(shard_writing, "_SAMPLED_CHUNK_PAIRS", PAIRS)
    write_sampled_shards(twice, tmp_path / "sampled", vocab, SAMPLING)
    shards = ParallelShards.open_folder(tmp_path / "sampled", "train")
    sources = [shards.pair(number)[0].tolist() for number in range(len(shards))]
    assert len(sources) == 2 * PAIRS
    assert sum(first == second for first, second in zip(sources[:PAIRS], sources[PAIRS:], strict=True)) < PAIRS / 2


def test_the_next_epoch_is_made_ahead_and_earlier_ones_go(sampled, tmp_path):
    folder = tmp_path / "run" / "sampled"
    epochs = sampled()
    first = epochs.open(0)
    wait_until((folder / "epoch-00001").is_dir)
    before = (folder / "epoch-00001").stat().st_ino
    second = epochs.open(1)
    assert (folder / "epoch-00001").stat().st_ino == before
    assert not (folder / "epoch-00000").exists()
    assert len(first.pair(0)[0]) > 0  # what was mapped can still be read
    assert first.pair(0)[0].tolist() != second.pair(0)[0].tolist() or first.pair(1)[0].tolist() != second.pair(1)[0]
    wait_until((folder / "epoch-00002").is_dir)
    epochs.open(7)
    epochs.close()
    left = {path.name for path in folder.glob("epoch-*")}
    assert {"epoch-00007"} <= left <= {"epoch-00007", "epoch-00008"}


@pytest.fixture
def other_vocabulary() -> VocabularyPair:
    return VocabularyPair.shared(train_vocabulary(["ab ho use gro", "usi ng sp lo"] * 9, size=30).vocab)


def edit_and_encode(data: Path) -> None:
    path = data / "train.en"
    path.write_text(path.read_text().replace("mouse", "house"))
    build_vocabulary(data, existing=data / "vocab.model", threads=1)


@pytest.mark.parametrize(("keep", "left"), [(0, [3, 4]), (1, [2, 3, 4])])
def test_earlier_epochs_are_kept_for_processes_that_are_behind(data, sampled, vocab, tmp_path, keep, left):
    folder = tmp_path / "run" / "sampled"
    for epoch in range(5):
        write_sampled_shards(data, folder / f"epoch-{epoch:05}", vocab, replace(SAMPLING, epoch=epoch))
    sampled(keep=keep).open(3)
    assert sorted(path.name for path in folder.glob("epoch-*")) == [f"epoch-{epoch:05}" for epoch in left]


CHANGES = [
    {"seed": 5}, {"dropout": 0.1}, {"augmentation": AugmentationConfig(upper_case=0.5)}, "vocabulary", "text",
    {"source_normalization": "nmt_nfkc_cf"},
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_shards_that_were_made_otherwise_are_not_taken(data, sampled, vocab, other_vocabulary, tmp_path, change):
    folder = tmp_path / "run" / "sampled" / "epoch-00002"
    options = {"vocab": vocab, "sampling": SAMPLING}
    write_sampled_shards(data, folder, vocab, replace(SAMPLING, epoch=2))
    assert sampled()._exists(2)
    if change == "vocabulary":
        options["vocab"] = other_vocabulary
    elif change == "text":
        edit_and_encode(data)
    elif "source_normalization" in change:
        build_vocabulary(data, existing=data / "vocab.model", threads=1, **change)
    else:
        options["sampling"] = replace(SAMPLING, **change)
    assert not sampled(**options)._exists(2)
    # They would have been others.
    write_sampled_shards(data, tmp_path / "new", options["vocab"], replace(options["sampling"], epoch=2))
    name = "train.source.tokens"
    assert content(tmp_path / "new")[name] != content(folder)[name]


def test_a_run_that_is_resumed_takes_what_is_there_unless_it_was_made_otherwise(sampled, tmp_path):
    folder = tmp_path / "run" / "sampled" / "epoch-00002"
    sampled().open(2)
    first = content(folder)
    made = folder.stat().st_ino
    sampled().open(2)
    assert folder.stat().st_ino == made
    sampled(sampling=replace(SAMPLING, seed=5)).open(2)
    assert read_folder_index(folder).sampling == replace(SAMPLING, seed=5, epoch=2)
    assert content(folder)["train.source.tokens"] != first["train.source.tokens"]


def test_a_failure_in_the_background_is_told_when_the_epoch_is_asked_for(data, sampled):
    epochs = sampled()
    (data / "train.de").write_text("one line\n")
    with pytest.raises(DataError, match=r"epoch-00000: the sampled shards could not be made.*must be parallel"):
        epochs.open(0)
    assert not list((data.parent / "run" / "sampled").glob(".epoch-*"))


def test_closing_ends_what_is_under_way(hanging_data, sampled, tmp_path):
    folder = tmp_path / "run" / "sampled"
    epochs = sampled()
    epochs._begin(0)
    wait_until(lambda: list(folder.glob(".epoch-*.tmp")))
    pid = epochs._child._process.pid
    epochs.close()
    assert not runs(pid)
    assert not list(folder.glob("*epoch-*"))


def test_a_child_ends_with_its_parent_and_the_next_run_tidies_up(hanging_data, sampled, tmp_path):
    folder = tmp_path / "run" / "sampled"
    program = """
import sys
from pathlib import Path
from nmt.data.sampling import SampledEpochs
from nmt.data.vocab_pair import VocabularyPair
from tests.data.test_sampling import SAMPLING
data, folder = map(Path, sys.argv[1:])
epochs = SampledEpochs(data, folder, VocabularyPair.load(data / "vocab.model"), SAMPLING)
epochs._begin(0)
print(epochs._child._process.pid, flush=True)
epochs.open(0)
"""
    parent = subprocess.Popen(
        [sys.executable, "-c", program, hanging_data, folder],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    with parent:
        child = int(parent.stdout.readline())
        wait_until(lambda: list(folder.glob(".epoch-*.tmp")))
        assert runs(child)
        parent.send_signal(signal.SIGKILL)
    wait_until(lambda: not runs(child))
    assert list(folder.glob(".epoch-*.tmp"))
    sampled()
    assert not list(folder.glob("*epoch-*"))


def test_others_wait_for_the_one_that_writes(sampled):
    opened = []
    other = sampled(writer=False)
    waiting = threading.Thread(target=lambda: opened.append(other.open(0)))
    waiting.start()
    time.sleep(0.3)
    assert not opened
    ours = sampled().open(0)
    waiting.join(SECONDS)
    assert opened[0].pair(5)[1].tolist() == ours.pair(5)[1].tolist()


def test_others_do_not_wait_for_ever(sampled):
    with pytest.raises(DataError, match=r"was not written within 0\.1 seconds"):
        sampled(writer=False, timeout_seconds=0.1).open(0)


def test_a_folder_without_shards_is_an_error(tmp_path):
    with pytest.raises(DataError, match="holds no shards"):
        ParallelShards.open_folder(tmp_path, "train")


def test_the_child_need_not_load_torch():
    program = "import sys, nmt.data.sampling; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, env={"PYTHONPATH": os.pathsep.join(sys.path)})
