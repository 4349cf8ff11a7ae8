"""Text that is edited by hand: what was made from it is noticed, replaced together, or left as it was."""

import os
import shutil
from pathlib import Path

import pytest

from nmt.data import encoded_text, shard_writing
from nmt.data.encoded_text import changed_files, check_unchanged, examine_text, touched_files
from nmt.data.manifest import read_manifest
from nmt.data.shard_index import ENCODED_SPLITS, read_index
from nmt.data.vocab import train_vocabulary
from nmt.data.vocab_pair import VocabularyPair
from nmt.errors import DataError
from tests.data.one_data_set import build_vocabulary

DERIVED = ("vocab.model", "vocab.txt", "vocab.json", "shards/index.json", "shards/train.source.tokens")


def edit(data, name="train.en", line="zebra zoo"):
    path = data / name
    path.write_text(line + "\n" + path.read_text().split("\n", 1)[1])


def contents(data):
    return {name: (data / name).read_bytes() for name in DERIVED}


@pytest.mark.parametrize("name", ["train.en", "train.de", "valid.en", "valid.de"])
def test_edited_text_is_encoded_again(data, name):
    edit(data, name)
    built = build_vocabulary(data, size=40, threads=1)
    assert (built.changed, built.edited) == (True, (name,))
    assert not build_vocabulary(data, size=40, threads=1).changed


def test_a_vocabulary_is_trained_again_on_edited_text(data):
    edit(data)
    assert build_vocabulary(data, size=40, threads=1).trained is not None
    assert "z" in (data / "vocab.txt").read_text().split()


def test_an_edit_that_keeps_size_and_time_is_noticed(data):
    path = data / "train.en"
    before = path.stat()
    edit(data, line="own tow")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    assert build_vocabulary(data, size=40, threads=1).changed


def test_given_vocabularies_encode_edited_text_again(data):
    build_vocabulary(data, existing=data / "vocab.model", threads=1)
    edit(data, line="two two")
    assert build_vocabulary(data, existing=data / "vocab.model", threads=1).edited == ("train.en",)
    assert not build_vocabulary(data, existing=data / "vocab.model", threads=1).changed


@pytest.mark.parametrize("split", ENCODED_SPLITS)
@pytest.mark.parametrize("given", [False, True])
def test_sides_that_are_not_parallel_leave_what_stood(data, tmp_path, split, given):
    before = contents(data)
    with (data / f"{split}.en").open("a") as stream:
        stream.write("one more")  # without a line end, which counts all the same
    other = train_vocabulary(["tre fire fem"], size=32).vocab
    VocabularyPair.shared(other).save(tmp_path / "other.model")
    settings = {"existing": tmp_path / "other.model"} if given else {"size": 30}
    with pytest.raises(DataError, match=rf"{split}\.en has 5 lines.*{split}\.de has 4.*nmt prepare-data"):
        build_vocabulary(data, threads=1, **settings)
    assert contents(data) == before


def test_the_earlier_vocabulary_stands_until_the_new_shards_are_complete(data, monkeypatch):
    """A process that is killed while it encodes leaves vocabulary and shards that belong together."""
    before = contents(data)
    seen = []
    encode = shard_writing.Encoding._write_split

    def look(*arguments, **options):
        seen.append(contents(data) == before)
        return encode(*arguments, **options)

    monkeypatch.setattr(shard_writing.Encoding, "_write_split", look)
    build_vocabulary(data, size=30, threads=1)
    assert seen == [True, True]
    assert contents(data) != before


def test_text_that_changes_while_it_is_encoded_leaves_what_stood(data, monkeypatch):
    before = contents(data)
    encode = shard_writing.Encoding._write_split

    def meddle(*arguments, **options):
        edit(data, line="nine nine nine")
        return encode(*arguments, **options)

    monkeypatch.setattr(shard_writing.Encoding, "_write_split", meddle)
    with pytest.raises(DataError, match=r"train\.en: was changed while it was encoded"):
        build_vocabulary(data, size=30, threads=1)
    assert contents(data) == before


def test_text_that_grows_while_it_is_read_counts_as_touched(data, monkeypatch):
    class Growing:
        """A file to which another process appends when all of it was read."""

        def __init__(self, path):
            self._path, self._stream = path, path.open("rb")

        def __enter__(self):
            return self

        def __exit__(self, *error):
            self._stream.close()

        def read(self, size):
            block = self._stream.read(size)
            if not block:
                with self._path.open("a") as stream:
                    stream.write("one more\n")
            return block

    monkeypatch.setattr(encoded_text, "unpacked", lambda stream: Growing(Path(stream.name)))
    examined = examine_text(data, read_manifest(data), ["train"])
    assert touched_files(data, examined) == ["train.en", "train.de"]
    with pytest.raises(DataError, match="was changed while it was encoded"):
        check_unchanged(data, examined)


def test_a_copy_with_other_times_holds_the_same_text(data, tmp_path):
    shutil.copytree(data, tmp_path / "copy", copy_function=shutil.copyfile)
    os.utime(tmp_path / "copy" / "train.en", ns=(1, 1))
    assert changed_files(tmp_path / "copy", read_index(data).text) == []
    assert not build_vocabulary(tmp_path / "copy", size=40, threads=1).changed
    edit(tmp_path / "copy")
    assert changed_files(tmp_path / "copy", read_index(data).text) == ["train.en"]


def test_text_that_is_gone_has_not_changed(data):
    (data / "train.en").unlink()
    assert changed_files(data, read_index(data).text) == []
    with pytest.raises(DataError, match=r"train\.en: cannot be read"):
        examine_text(data, read_manifest(data), ENCODED_SPLITS)
