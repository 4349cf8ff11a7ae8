"""What decides whether an output is made again."""

import pytest

from nmt.record import Record, text_record
from nmt.translation.lineage import made_with


def translated(kind: str, weights: str, source: str = "1") -> Record:
    model = Record(kind=kind, path="m", files={"model.bin": weights})
    parts = (model, text_record("text", "in.en", source, role="input"))
    return Record(kind="translation", path="out", command=("translate", "--model=m", "--beam=4"), made_from=parts)


@pytest.mark.parametrize("kind", ["average", "checkpoint", "imported model", "model", "exported model"])
def test_models_of_every_kind_are_compared_by_their_files(kind):
    assert made_with(translated(kind, "a")) == made_with(translated(kind, "a"))
    assert made_with(translated(kind, "a")) != made_with(translated(kind, "b"))
    assert made_with(translated(kind, "a")) != made_with(translated(kind, "a", source="2"))
