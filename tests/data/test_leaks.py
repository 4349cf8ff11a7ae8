"""Sentences of valid and test of a data set that another one of the same mixture is trained on."""

import numpy as np
import pytest

from nmt.data.arrays import Rows
from nmt.data.build import build_vocabulary
from nmt.data.leaks import _hashes, _in_training, leaks
from nmt.data.manifest import read_manifest, write_manifest
from nmt.data.vocab_record import VocabularySettings


def rewrite(folder, split, source, target, languages):
    for language, lines in zip(languages, (source, target), strict=True):
        (folder / f"{split}.{language}").write_text("".join(f"{line}\n" for line in lines))


@pytest.mark.parametrize(("rule", "count", "tag"), [("identity", 3, ""), ("nfkc", 4, "BT")])
def test_they_are_found_by_language_in_either_direction(tmp_path, write_data_set, rule, count, tag):
    english, german = [f"house {n}" for n in range(90)], [f"Haus {n}" for n in range(90)]
    first = write_data_set(tmp_path / "first", english[:60], german[:60])
    back = write_data_set(tmp_path / "back", german[60:], english[60:], languages=("de", "eng"))
    write_manifest(read_manifest(back).model_copy(update={"tag": tag}), back)
    for split in ("valid", "test"):
        rewrite(back, split, ["neu"], ["new"], ("de", "eng"))
    build_vocabulary([first, back], VocabularySettings(300, source_normalization=rule), threads=1)
    assert list(leaks([first, back])) == list(leaks([back])) == []  # its own are no business of a mixture
    rewrite(first, "valid", ["house 60", "house 7", "", "house"], ["etwas", "anderes", "", "HAUS 60"], ("en", "de"))
    rewrite(
        first,
        "test",
        ["thing", "house 61", "Haus 62", "?"],
        ["Haus  60", "Haus 61", "house 62", "Haus ６３"],
        ("en", "de"),
    )
    [warning] = leaks([first, back])
    assert f"{back}: its training text has a sentence of {count} of the 8 pairs of valid and test of {first}" in warning
    assert f"Prepare {back} again with --apart-from {first}." in warning
    for name in ("test.en", "test.de"):
        (first / name).unlink()
    assert "of 1 of the 4 pairs" in next(leaks([back, first]))


def test_data_sets_without_a_language_in_common_have_nothing_to_compare(tmp_path, write_data_set):
    pairs = [f"same {n}" for n in range(60)]
    folders = [
        write_data_set(tmp_path / "-".join(pair), pairs, pairs, languages=pair) for pair in (("en", "de"), ("fr", "it"))
    ]
    build_vocabulary(folders, VocabularySettings(300), threads=1)
    assert list(leaks(folders)) == []


def test_sentences_that_look_alike_are_compared_whole(shards_of):
    """These have the same length, first, middle and last piece. Long text is compared in blocks."""
    wanted, alike = [5, 6, 7, 8, 9], [5, 4, 7, 4, 9]
    rows = Rows.of([wanted, [], [5]])
    for training, found in (([alike] * 3, []), ([[4]] * 70_000 + [wanted], [0])):
        shards = shards_of([(source, [3]) for source in training])
        assert np.flatnonzero(np.isin(_hashes(rows), _in_training(shards, "source", [rows]))).tolist() == found
