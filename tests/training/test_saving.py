"""A checkpoint holds what the model was when it was saved, while training goes on."""

import threading

import torch

from nmt.checkpoint.run_folder import RunFolder
from nmt.data.vocab_pair import VocabularyPair
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
