"""A checkpoint holds what the model was when it was saved, while training goes on."""

import errno
import threading
import time
from types import SimpleNamespace

import pytest
import torch

from nmt.checkpoint.run_folder import RunFolder
from nmt.data.vocab_pair import VocabularyPair
from nmt.io.writing import WriteError
from nmt.training import saving
from nmt.training.saving import CheckpointWriter
from tests.training.conftest import saved


def test_what_is_learnt_while_a_checkpoint_is_written_is_not_in_it(settled, reversed_words, tmp_path, monkeypatch):
    may_write, save_bundle = threading.Event(), saving.save_bundle

    def save_later(*arguments, **options):
        assert may_write.wait(60)
        save_bundle(*arguments, **options)

    monkeypatch.setattr(saving, "save_bundle", save_later)
    weight, moment = torch.ones(3), torch.full((3,), 2.0)
    writer = CheckpointWriter(tmp_path, settled(), VocabularyPair.load(reversed_words / "vocab.model"), None)
    writer.save(5, {"weight": weight}, {"moment": moment}, {}, {})
    weight.zero_()
    moment.zero_()
    may_write.set()
    writer.finish()
    assert RunFolder(tmp_path).checkpoint(5).is_dir()
    tensors = saved(tmp_path, 5)
    assert (tensors["weight"].tolist(), tensors["moment"].tolist()) == ([1.0] * 3, [2.0] * 3)


@pytest.fixture
def full_disk(monkeypatch, settled, reversed_words, tmp_path):
    """Make a writer on a disk that refuses so many checkpoints, and hear what it tells."""
    save_bundle = saving.save_bundle
    monkeypatch.setattr(saving, "SECONDS_UNTIL_TRIED", 0.0)

    def make(refused: int, code: int = errno.ENOSPC, **options):
        left = [None] * refused

        def save(folder, *arguments, **settings):
            if left:
                left.pop()
                raise WriteError(folder, "refused", code=code)
            save_bundle(folder, *arguments, **settings)

        monkeypatch.setattr(saving, "save_bundle", save)
        told = []
        vocab = VocabularyPair.load(reversed_words / "vocab.model")
        return CheckpointWriter(tmp_path, settled(), vocab, None, told.append, **options), told

    return make


class TwoThreads:
    """Two ranks that are threads, and exchange as processes do."""

    def __init__(self) -> None:
        self._values, self._barrier = [None, None], threading.Barrier(2, timeout=60)

    def __getitem__(self, number: int) -> SimpleNamespace:
        def gather(value):
            self._values[number] = value
            self._barrier.wait()
            found = list(self._values)
            self._barrier.wait()
            return found

        return SimpleNamespace(gather=gather, allow_long_waits=lambda is_allowed: None)


def save(writer: CheckpointWriter, update: int) -> None:
    writer.save(update, {"weight": torch.full((3,), float(update))}, {}, {}, {})


def test_a_checkpoint_is_tried_again_while_the_disk_is_full(full_disk, tmp_path):
    writer, told = full_disk(3)
    save(writer, 5)
    deadline = time.monotonic() + 60
    while len(told) < 2 and time.monotonic() < deadline:  # as updates do
        writer.check()
    assert [RunFolder(tmp_path).checkpoint(5).name in message for message in told] == [True, False]
    assert "cannot be written (refused). Free space" in told[0] and "tried again" in told[0]
    assert "is saved" in told[1]
    assert saved(tmp_path, 5)["weight"].tolist() == [5.0] * 3


def test_a_newer_checkpoint_takes_the_place_of_one_without_room(full_disk, tmp_path):
    writer, told = full_disk(1)
    save(writer, 5)
    save(writer, 6)
    writer.finish()
    assert [path.name for path in RunFolder(tmp_path).checkpoints.iterdir()] == ["step-00000006"]
    assert len(told) == 2


def test_a_run_waits_at_its_end_for_room(full_disk, tmp_path):
    writer, _ = full_disk(5)
    save(writer, 5)
    writer.finish()
    assert RunFolder(tmp_path).checkpoint(5).is_dir()


@pytest.mark.parametrize("is_stopped", [False, True])
def test_all_ranks_wait_together_and_a_signal_to_any_ends_it(is_stopped, full_disk, tmp_path):
    ranks, ended = TwoThreads(), []
    writer, told = full_disk(1_000_000 if is_stopped else 5, ranks=ranks[0])
    other = CheckpointWriter(tmp_path, None, None, None, told.append, lambda: is_stopped, ranks[1])

    def wait():
        other.finish()
        ended.append(RunFolder(tmp_path).checkpoint(5).is_dir())

    thread = threading.Thread(target=wait)
    thread.start()
    save(writer, 5)
    if is_stopped:
        with pytest.raises(WriteError, match="cannot be written"):
            writer.finish()
    else:
        writer.finish()
    thread.join()
    assert ended == [not is_stopped]
    assert [message for message in told if "waits up to 24 hours" in message] == told[1:2]


@pytest.mark.parametrize("reason", ["stopping", "failing", "long", "another"])
def test_a_run_does_not_wait_for_room(reason, full_disk, monkeypatch):
    """If it was asked to stop, ends with another error, or has waited for long; nor for a broken disk."""
    monkeypatch.setattr(saving, "LONGEST_WAIT", 0.1 if reason == "long" else 1e9)
    code = errno.EIO if reason == "another" else errno.ENOSPC
    writer, told = full_disk(1_000_000, code, is_stopping=lambda: reason == "stopping")
    save(writer, 5)
    with pytest.raises(WriteError, match="step-00000005: cannot be written"):
        (writer.finish_now if reason == "failing" else writer.finish)()
    writer.finish_now()  # as the run does once more on its way out
    assert not any("saved" in message for message in told)


def test_a_checkpoint_is_tried_once_more_before_a_run_gives_up(full_disk, monkeypatch, tmp_path):
    writer, _ = full_disk(1, is_stopping=lambda: True)
    monkeypatch.setattr(saving, "SECONDS_UNTIL_TRIED", 1e9)
    save(writer, 5)
    writer.finish()
    assert RunFolder(tmp_path).checkpoint(5).is_dir()
