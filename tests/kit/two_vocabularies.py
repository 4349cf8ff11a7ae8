"""A data set whose sides have vocabularies of their own."""

from __future__ import annotations

from pathlib import Path

from nmt.data.vocab import train_vocabulary
from nmt.data.vocab_pair import VocabularyPair
from tests.data.one_data_set import build_vocabulary
from tests.training.conftest import make_data_set


def separate_data_set(folder: Path) -> Path:
    """A data set whose target has a vocabulary of its own, with more pieces than that of the source."""
    make_data_set(folder)
    source, target = [
        train_vocabulary((folder / f"train.{language}").read_text().splitlines(), size=size).vocab
        for language, size in (("en", 30), ("de", 44))
    ]
    VocabularyPair(source, target).save(folder.parent / "both.model")
    build_vocabulary(folder, existing=folder.parent / "both.model", threads=1)
    return folder
