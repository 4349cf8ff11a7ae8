"""From a recipe to a data set's folder: text, manifest, and what happens the second time or half-way."""

import gzip
import hashlib
import json
import lzma
import os
import re
import shutil
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from nmt.checkpoint.run_folder import RunFolder
from nmt.config import Config, DataConfig, dump_config
from nmt.corpora.prepare import prepare
from nmt.corpora.recipe import kept_apart, own_recipe, parse_recipe, tagged, with_filters
from nmt.corpora.schema import Normalisation
from nmt.corpora.sources import Sources
from nmt.corpora.toy import generate
from nmt.data.manifest import newest_data_set, read_manifest
from nmt.data.vocab import train_vocabulary
from nmt.data.vocab_pair import VocabularyPair
from nmt.errors import DataError, NmtError, NmtWarning, OutputError
from nmt.io.locking import exclusive
from nmt.training.start.data_record import write_data_record
from tests.data.one_data_set import build_vocabulary
from tests.trees import contents

# What other tools take for line ends.
BREAKS = "\u2028\u2029\x85\x0b\x0c\x1c"


def write(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    content = "".join(f"{line}\n" for line in lines).encode()
    pack = {".gz": gzip.compress, ".xz": lzma.compress}.get(path.suffix, bytes)
    path.write_bytes(pack(content))


def en_de(**texts):
    return own_recipe("own", source_lang="en", target_lang="de", **texts)


def corpus(folder, name, sources, targets, suffix=""):
    write(folder / f"{name}.en{suffix}", sources)
    write(folder / f"{name}.de{suffix}", targets)
    return str(folder / name)


@pytest.fixture
def own(tmp_path):
    """A recipe of small files, and their folder."""
    train = corpus(tmp_path, "train", ["a b", "c d", "e f", "", "c d", "v"], ["A B", "C D", "E F", "X", "C D", "w"])
    valid = corpus(tmp_path, "valid", ["v  ", "", "v  "], ["V\u2019", "W", "V\u2019"])
    test = corpus(tmp_path, "test", ["t"], ["e f"])
    return en_de(train=[train], valid=[valid], test=[test])


def lines(folder, name):
    return (folder / name).read_bytes().decode().split("\n")[:-1]


def test_text_and_manifest(own, tmp_path):
    out = tmp_path / "data" / "own"
    prepared = prepare(own, out)
    assert prepared.changed
    assert lines(out, "train.en") == ["a b", "c d", "e f"]
    assert lines(out, "train.de") == ["A B", "C D", "E F"]
    assert sorted(path.name for path in out.iterdir()) == sorted([*prepared.manifest.files, "manifest.json"])
    assert [path.name for path in out.parent.iterdir()] == ["own"]

    manifest = read_manifest(out)
    assert manifest == prepared.manifest
    assert manifest.filters == {
        "empty": 1, "too_long": 0, "ratio": 0, "duplicate": 1, "leaked": 1, "copied_kept": 0, "invisible_kept": 0,
    }  # fmt: skip
    assert [(corpus.split, corpus.name, corpus.pairs) for corpus in manifest.corpora] == [
        ("train", "train", 6),
        ("valid", "valid", 3),
        ("test", "test", 1),
    ]
    for name, record in manifest.files.items():
        content = (out / name).read_bytes()
        assert (record.lines, record.sha256) == (content.count(b"\n"), hashlib.sha256(content).hexdigest())
    for record in manifest.sources:
        content = Path(record.file).read_bytes()
        assert (record.bytes, record.sha256) == (len(content), hashlib.sha256(content).hexdigest())
    assert len(manifest.sources) == 6
    assert parse_recipe(manifest.recipe, name="manifest") == own


def test_evaluation_text_is_never_changed(own, tmp_path):
    normalised = own.model_dump(mode="json") | {"normalisation": {"nfc": True, "punctuation": True}}
    manifest = prepare(parse_recipe(normalised, name="own"), tmp_path / "own").manifest
    assert list(map(str, manifest.source_text)) == ["Unicode NFC", "Moses' punctuation normalisation"]
    assert (tmp_path / "own" / "valid.en").read_bytes() == (tmp_path / "valid.en").read_bytes()
    assert (tmp_path / "own" / "valid.de").read_bytes() == (tmp_path / "valid.de").read_bytes()


def test_characters_that_look_like_line_ends_keep_their_lines(tmp_path):
    odd = [f"a{character}b {n}" for n, character in enumerate(BREAKS)]
    train = corpus(tmp_path, "train", odd, [f"wort {n}" for n in range(len(odd))])
    other = corpus(tmp_path, "other", odd, odd)
    recipe = en_de(train=[train], valid=[other], test=[other])
    recipe = with_filters(recipe, {"leakage": "count"})
    prepare(recipe, tmp_path / "own")
    assert lines(tmp_path / "own", "train.en") == odd
    assert lines(tmp_path / "own", "valid.de") == odd
    assert len(lines(tmp_path / "own", "train.de")) == len(odd)


def test_unequal_sides_name_both_counts(own, tmp_path):
    write(tmp_path / "train.de", ["A B"])
    with pytest.raises(DataError, match=r"train\.en has 6 lines, but .*train\.de has 1"):
        prepare(own, tmp_path / "own")
    assert not (tmp_path / "own").exists()


def test_invalid_utf8_names_file_line_and_byte_or_is_dropped(own, tmp_path):
    (tmp_path / "train.en").write_bytes(b"a b\nc \xff\ne f\n\nc d\nv\n")
    with pytest.raises(DataError, match=r"train\.en, line 2: byte 3"):
        prepare(own, tmp_path / "own")
    prepared = prepare(with_filters(own, {"invalid_utf8": "drop"}), tmp_path / "own")
    assert prepared.manifest.filters["invalid_utf8"] == 1
    assert lines(tmp_path / "own", "train.en") == ["a b", "e f", "c d"]


def test_nothing_left_is_an_error_that_counts(own, tmp_path):
    write(tmp_path / "train.en", ["a b", "c d", "e f", "", "c d", "v w"])
    with pytest.raises(DataError, match=r"none of 6 train pairs is left\. Dropped: empty 1, too_long 5\."):
        prepare(with_filters(own, {"max_words": 1}), tmp_path / "own")
    assert not (tmp_path / "own").exists()


def test_pairs_are_held_out_where_none_are_given(tmp_path):
    train = corpus(tmp_path, "train", [f"s {n}" for n in range(400)] * 2, [f"t {n}" for n in range(400)] * 2)
    recipe = en_de(train=[train])
    told = []
    prepared = prepare(recipe, tmp_path / "own", notify=told.append)
    counts = {name: record.lines for name, record in prepared.manifest.files.items() if name.endswith("en")}
    assert counts == {"train.en": 360, "valid.en": 20, "test.en": 20}
    assert prepared.manifest.filters == {
        "empty": 0, "too_long": 0, "ratio": 0, "duplicate": 400, "held_out": 40, "leaked": 0,
        "copied_kept": 0, "invisible_kept": 0,
    }  # fmt: skip
    splits = [set(lines(tmp_path / "own", f"{split}.en")) for split in ("train", "valid", "test")]
    assert set.union(*splits) == {f"s {n}" for n in range(400)}
    few = "Scores on so few pairs are not reliable."
    assert told == [f"{split}: 20 pairs, held out of the training text. {few}" for split in ("valid", "test")]
    for split in ("train", "valid", "test"):
        pairs = zip(lines(tmp_path / "own", f"{split}.en"), lines(tmp_path / "own", f"{split}.de"), strict=True)
        assert all(source[2:] == target[2:] for source, target in pairs)

    again = prepare(recipe, tmp_path / "again")
    assert again.manifest.fingerprint == prepared.manifest.fingerprint


def test_held_out_pairs_hardly_change_when_the_corpus_grows(tmp_path):
    held = []
    for size in (2000, 2100):
        train = corpus(tmp_path, f"train-{size}", [f"s {n}" for n in range(size)], [f"t {n}" for n in range(size)])
        prepare(en_de(train=[train]), tmp_path / str(size))
        held.append({*lines(tmp_path / str(size), "valid.en"), *lines(tmp_path / str(size), "test.en")})
    assert len(held[0] - held[1]) <= 20


@pytest.mark.parametrize("counting", [{"leakage": "count"}, {"count_only": ["leakage"]}])
def test_held_out_pairs_share_nothing_with_a_set_that_was_given(tmp_path, counting):
    sources, targets = [f"a {n}" for n in range(400)], [f"b {n}" for n in range(400)]
    train = corpus(tmp_path, "train", sources, targets)
    valid = corpus(tmp_path, "valid", sources[::2], targets[::2])
    own = en_de(train=[train], valid=[valid])
    prepare(with_filters(own, counting), tmp_path / "out")
    held = set(lines(tmp_path / "out", "test.en"))
    assert len(held) == 10 and held.isdisjoint(sources[::2])


def test_text_is_kept_apart_from_the_valid_and_test_sets_of_other_data_sets(own, tmp_path):
    other = tmp_path / "other"
    prepare(own, other)
    leaks = [("W", "x 1"), ("e f", "x 2"), ("y", " t ")]
    fine = [("t", "x 3"), ("a b", "A B"), *((f"neu {n}", f"new {n}") for n in range(40))]
    target, source = zip(*leaks, *fine, strict=True)
    recipe = own_recipe("back", source_lang="deu", target_lang="en-GB", train=[corpus(tmp_path, "x", source, target)])
    apart = kept_apart(recipe, [other])
    counted = prepare(with_filters(apart, {"leakage": "count"}), tmp_path / "counted")
    assert counted.manifest.filters["leaked_kept"] == 3
    prepared = prepare(apart, tmp_path / "back")
    assert prepared.manifest.filters["leaked"] == 3
    held = [lines(tmp_path / name, f"{split}.deu") for name in ("back", "counted") for split in ("valid", "test")]
    assert {"W", "e f", "y"}.isdisjoint(sum(held, lines(tmp_path / "back", "train.deu")))
    assert len(lines(tmp_path / "back", "train.deu")) == len(fine) - 6
    assert not prepare(apart, tmp_path / "back").changed
    write(other / "test.en", ["new 7"])
    assert prepare(apart, tmp_path / "back").changed


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ("out", "out: cannot be kept apart from itself"),
        ("none", "none: does not exist. Name the folder of a data set with --apart-from"),
        ("own", "own: has en and de, but neither fr nor it, so nothing of it can be in this text"),
    ],
)
def test_what_text_cannot_be_kept_apart_from(own, tmp_path, other, message):
    prepare(own, tmp_path / "own")
    write(tmp_path / "x.fr", ["a"])
    write(tmp_path / "x.it", ["b"])
    recipe = own_recipe("out", source_lang="fr", target_lang="it", train=[str(tmp_path / "x")])
    with pytest.raises(NmtError, match=re.escape(message)):
        prepare(kept_apart(recipe, [tmp_path / other]), tmp_path / "out")


def test_held_out_text_is_as_read_and_repetitions_of_it_go(tmp_path):
    train = corpus(tmp_path, "train", ["e\u0301"] * 2 + ["a", "b"], ["e\u0301"] * 2 + ["a", "b"])
    values = en_de(train=[train]).model_dump(mode="json")
    values |= {"normalisation": {"nfc": True}}
    values["filters"]["dedup"] = False
    values["valid"] = values["test"] = [{"kind": "held-out", "pairs": 1, "max_share": 0.5}]
    prepared = prepare(parse_recipe(values, name="own"), tmp_path / "own")
    held = lines(tmp_path / "own", "valid.en") + lines(tmp_path / "own", "test.en")
    kept = lines(tmp_path / "own", "train.en")
    assert not {"e\u0301", "\u00e9"} <= {*held, *kept}
    assert len(held) == 2
    assert len(kept) + prepared.manifest.filters["held_out"] == 4


def test_the_second_time_nothing_is_done(own, tmp_path):
    out = tmp_path / "own"
    first = prepare(own, out)
    before = {path.name: path.stat().st_mtime_ns for path in out.iterdir()}
    second = prepare(own, out)
    assert (second.changed, second.manifest) == (False, first.manifest)
    assert {path.name: path.stat().st_mtime_ns for path in out.iterdir()} == before
    assert prepare(own, out, force=True).changed


@pytest.mark.parametrize("what", ["input", "recipe", "missing"])
def test_whatever_changed_is_noticed(own, tmp_path, what):
    out = tmp_path / "own"
    prepare(own, out)
    if what == "input":
        write(tmp_path / "train.en", ["a x", "c d", "e f", "", "c d", "v"])
    elif what == "recipe":
        own = with_filters(own, {"dedup": False})
    else:
        (out / "test.de").unlink()
    assert prepare(own, out).changed
    assert not prepare(own, out).changed


BUILT = ("vocab.model", "vocab.txt", "vocab.json", "shards/index.json", "shards/train.source.tokens")


def removed(out, what="vocab.model, vocab.txt, vocab.json, shards"):
    return f"removed {what}, made from the data set before. Run `nmt build-vocab --data {out}` again."


def built(out):
    """The files of `nmt build-vocab` in a data set's folder."""
    return {name: (out / name).read_bytes() for name in BUILT if (out / name).exists()}


@pytest.mark.parametrize("links", [False, True])
def test_the_vocabulary_of_the_same_text_stays(own, tmp_path, monkeypatch, links):
    out = tmp_path / "own"
    prepare(own, out)
    build_vocabulary(out, size=30)
    before, told = built(out), []
    if not links:
        monkeypatch.setattr("os.link", lambda *arguments: (_ for _ in ()).throw(OSError))
    assert prepare(own, out, force=True, notify=told.append).changed
    assert told == [removed(out, "shards")]
    assert built(out) == {name: before[name] for name in ("vocab.model", "vocab.txt", "vocab.json")}
    assert build_vocabulary(out, size=30).trained is None
    assert built(out)["shards/train.source.tokens"] == before["shards/train.source.tokens"]


@pytest.mark.parametrize("of", ["other text", "the other direction", "another normalisation", "another tag"])
def test_what_was_made_from_other_text_goes(own, tmp_path, of):
    """Both directions have the same files. Another normalisation changes how valid is encoded, but not train. The text
    is the same with another tag, but not the pieces before it."""
    out = tmp_path / "own"
    prepare(own, out)
    build_vocabulary(out, size=30)
    changed, gone = {
        "other text": (with_filters(own, {"dedup": False}), {}),
        "the other direction": (own.model_copy(update={"source_lang": "de", "target_lang": "en"}), {}),
        "another normalisation": (
            own.model_copy(update={"normalisation": Normalisation(nfc=True)}), {"what": "shards"}
        ),
        "another tag": (tagged(own, "BT"), {"what": "shards"}),
    }[of]  # fmt: skip
    told = []
    prepare(changed, out, force=of == "the other direction", notify=told.append)
    assert told == [removed(out, **gone)]
    assert not (out / "shards").exists()
    assert (out / "vocab.model").exists() == bool(gone)
    assert read_manifest(out).tag == changed.tag
    assert [path.name for path in tmp_path.glob(".*")] == []


def given_model(folder):
    VocabularyPair.shared(train_vocabulary(["tre fire fem", "seks syv"], size=24).vocab).save(folder / "given.model")
    return folder / "given.model"


def test_a_vocabulary_that_was_given_stays_when_the_text_changes(own, tmp_path):
    out = tmp_path / "own"
    prepare(own, out)
    model = given_model(tmp_path)
    build_vocabulary(out, existing=model)
    before, told = built(out), []
    prepare(with_filters(own, {"dedup": False}), out, notify=told.append)
    assert built(out) == {name: before[name] for name in ("vocab.model", "vocab.txt", "vocab.json")}
    assert (out / "vocab.model").read_bytes() == model.read_bytes()
    assert told == [
        "removed shards, made from the data set before. vocab.model was given with --vocab, and stays. Run "
        f"`nmt build-vocab --data {out} --vocab {out / 'vocab.model'}` again."
    ]


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize(
    "name", ["notes.txt", "train.fr", "deep", "shards/x.bin", "vocab.model", "vocab.txt", "vocab.old"]
)
def test_a_data_set_with_files_of_the_users_is_not_replaced(own, tmp_path, name, force):
    """Whatever they are called."""
    out = tmp_path / "own"
    prepare(own, out)
    path = out / name / "x" if name == "deep" else out / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine")
    before = contents(out)
    assert not prepare(own, out).changed
    with pytest.raises(OutputError, match=rf"own: is a data set, but .*{name}.*ove these files away"):
        prepare(with_filters(own, {"dedup": False}), out, force=force)
    assert contents(out) == before


def test_text_that_was_edited_is_replaced_by_force_alone(own, tmp_path):
    out = tmp_path / "own"
    prepare(own, out)
    write(out / "train.en", ["x", "y", "z"])
    build_vocabulary(out, size=30)
    before = contents(out)
    with pytest.raises(OutputError, match=r"own: train\.en was edited.*Move .* away to keep them, or add --force"):
        prepare(own, out)
    assert contents(out) == before
    told = []
    assert prepare(own, out, force=True, notify=told.append).changed
    assert lines(out, "train.en") == ["a b", "c d", "e f"]
    assert told == [removed(out)]  # made from the edited text


def test_what_a_killed_build_vocab_left_does_not_matter(own, tmp_path):
    out = tmp_path / "own"
    prepare(own, out)
    build_vocabulary(out, size=30)
    before = built(out)
    shutil.copytree(out / "shards", out / ".shards.0123456789ab.tmp")
    (out / "shards").rename(out / ".shards.nmt.old")
    (out / ".vocab.model.0123456789ab.tmp").write_text("half")
    assert prepare(own, out, force=True).changed
    assert built(out) == {name: before[name] for name in ("vocab.model", "vocab.txt", "vocab.json")}
    assert list(out.glob(".*")) == []


def test_a_data_set_whose_manifest_is_damaged_is_left_as_it_is(own, tmp_path):
    out = tmp_path / "own"
    prepare(own, out)
    (out / "manifest.json").write_text("{")
    with pytest.raises(OutputError, match=r"damaged.*move it away"):
        prepare(own, out)
    with pytest.raises(DataError, match=r"is not JSON.*Move .*own away"):
        read_manifest(out)
    assert (out / "train.en").exists()


def test_from_within_its_own_folder_a_data_set_is_up_to_date_but_not_replaced(own, tmp_path, monkeypatch):
    out = tmp_path / "data" / "own"
    prepare(own, out)
    monkeypatch.chdir(out)
    assert not prepare(own, Path()).changed
    with pytest.raises(OutputError, match="current folder"):
        prepare(own, Path(), force=True)
    with pytest.raises(OutputError, match="current folder"):
        prepare(with_filters(own, {"dedup": False}), Path())
    assert not prepare(own, Path()).changed
    assert [path.name for path in out.parent.iterdir()] == ["own"]


def test_the_manifest_holds_what_each_filter_found_in_each_corpus(tmp_path):
    """The pairs that were dropped are those of the totals; valid and test are never filtered, though they would be."""
    first = corpus(tmp_path, "1", ["a <b>", "b", "", "c &lt; d"], ["A", "B", "x", "C"])
    second = corpus(tmp_path / "deep", "1", ["e", "b", "<i> x"], ["E", "B", "X"])
    dev = corpus(tmp_path, "dev", ["<br> dev"], ["<br> dev"])
    recipe = en_de(train=[first, second], valid=[dev], test=[dev])
    prepare(with_filters(recipe, {"html": True, "dedup": True}), tmp_path / "own")
    manifest = read_manifest(tmp_path / "own")
    found = [
        {name: (record.pairs, record.samples) for name, record in corpus.filters.items()} for corpus in manifest.corpora
    ]
    assert found == [
        {"empty": (1, [("", "x")]), "html": (2, [("a <b>", "A"), ("c &lt; d", "C")])},
        {"html": (1, [("<i> x", "X")]), "duplicate": (1, [("b", "B")])},
        {},
        {},
    ]
    assert {name: count for name, count in manifest.filters.items() if count} == {"empty": 1, "html": 3, "duplicate": 1}
    assert lines(tmp_path / "own", "train.en") == ["b", "e"]
    assert lines(tmp_path / "own", "valid.en") == ["<br> dev"]


def test_a_score_is_found_before_pairs_are_held_out(tmp_path):
    rows = [f"s {n}\tt {n}\t{n}" for n in range(200)]
    write(tmp_path / "a.tsv", rows)
    recipe = en_de(train=[str(tmp_path / "a.tsv")], columns=["en", "de", "score"])
    manifest = prepare(with_filters(recipe, {"min_score": 50}), tmp_path / "own").manifest
    train = manifest.corpora[0]
    assert train.filters["score"].pairs == manifest.filters["score"] == 50
    assert train.filters["score"].samples == [("s 0", "t 0"), ("s 1", "t 1"), ("s 2", "t 2")]
    assert train.filters["held_out"].pairs == manifest.filters["held_out"] == 16
    counted = with_filters(recipe, {"min_score": 50, "count_only": ["min_score"]})
    manifest = prepare(counted, tmp_path / "own").manifest
    assert (manifest.filters["score_kept"], manifest.files["train.en"].lines) == (50, 180)


def test_the_number_of_lines_is_known_of_plain_files(tmp_path):
    plain = corpus(tmp_path, "1", ["a", "b"], ["A", "B"])
    packed = corpus(tmp_path, "2", ["c"], ["C"], ".gz")
    write(tmp_path / "3.tsv", ["d\tD"])
    dev = corpus(tmp_path, "dev", ["x"], ["X"])
    train = [plain, packed, str(tmp_path / "3.tsv")]
    recipe = en_de(train=train, valid=[dev], test=[dev])
    sources = Sources(recipe, tmp_path)
    sources.take_own()
    counts = []
    for number, each in enumerate(recipe.train):
        with sources.opened("train", number) as text:
            counts.append(each.number_of_lines(text))
    assert counts == [2, None, 1]


@pytest.mark.parametrize("ending", ["tmp", "scratch"])
def test_leavings_of_a_killed_process_are_no_data_set_and_are_cleared_away(own, tmp_path, ending):
    out = tmp_path / "data" / "own"
    left = out.parent / f".own.0123456789ab.{ending}"
    left.mkdir(parents=True)
    for name in ("manifest.json", "train.en"):
        (left / name).write_text("half")
    with pytest.raises(DataError, match="no prepared data set"):
        newest_data_set(out.parent)
    prepare(own, out)
    assert [path.name for path in out.parent.iterdir()] == ["own"]
    assert newest_data_set(out.parent) == out


@pytest.mark.parametrize("change", [{"name": "other"}, {"target_lang": "de_AT"}])
def test_a_data_set_of_another_name_is_replaced_by_force_alone(own, tmp_path, change):
    out = tmp_path / "mine"
    prepare(own, out)
    build_vocabulary(out, size=30)
    before = {path.name: path.stat().st_mtime_ns for path in out.iterdir()}
    corpus(tmp_path, "train", ["x y", "z"], ["X Y", "Z"])
    for path in list(tmp_path.glob("*.de")):
        path.with_suffix(".de_AT").write_bytes(path.read_bytes())
    other = own.model_copy(update=change)
    with pytest.raises(OutputError, match=r"mine: holds the data set own from en to de, not .*--out.*--force"):
        prepare(other, out)
    assert {path.name: path.stat().st_mtime_ns for path in out.iterdir()} == before
    assert prepare(other, out, force=True).manifest.name == other.name
    assert not (out / "vocab.model").exists()


def test_nothing_is_told_of_no_held_out_pairs(tmp_path):
    train = corpus(tmp_path, "train", [""], [""])
    told = []
    with pytest.raises(DataError, match="none of 1 train pairs is left"):
        recipe = own_recipe("x-en-de", source_lang=None, target_lang=None, train=[train])
        prepare(recipe, tmp_path / "out", notify=told.append)
    assert told == []


def test_one_process_at_a_time(own, tmp_path):
    with exclusive(tmp_path / ".own.nmt.lock"), pytest.raises(OutputError, match="by another process"):
        prepare(own, tmp_path / "own")
    assert prepare(own, tmp_path / "own").changed


@pytest.fixture
def run(own, tmp_path, monkeypatch):
    """A run that was trained on ``data/own``, below the current folder."""
    monkeypatch.chdir(tmp_path)
    manifest = prepare(own, Path("data/own")).manifest
    config = Config(data=DataConfig(name="own", fingerprint=manifest.fingerprint))
    run = RunFolder(tmp_path / "runs" / "base")
    run.path.mkdir(parents=True)
    run.config.write_text(dump_config(config))
    write_data_record(run.path, [Path("data/own")], config)
    return run


@pytest.mark.parametrize("of", ["other text", "another filter", "other files"])
def test_a_data_set_that_a_run_was_trained_on_is_replaced_by_force_alone(own, run, tmp_path, of):
    out = Path("data/own")
    before, changed = contents(out), own
    assert not prepare(own, out).changed
    if of == "other text":
        corpus(tmp_path, "test", ["t", "more"], ["e f", "mehr"])
    elif of == "another filter":
        changed = with_filters(own, {"dedup": False})
    else:
        other = corpus(tmp_path, "other", ["a", "b"], ["c", "d"])
        changed = en_de(train=[other], valid=[other], test=[other])
        changed = with_filters(changed, {"leakage": "count"})
    with pytest.raises(OutputError, match=r"data/own: runs/base was trained on it.*its text.*--out.*--force"):
        prepare(changed, out)
    assert contents(out) == before
    assert prepare(changed, out, force=True).changed
    assert prepare(with_filters(changed, {"max_words": 9}), out).changed, "the run stands on it no more"


@pytest.mark.parametrize("entry", [None, 1, {}, {"path": None}, {"path": "\0"}, {"path": "\ud800"}])
def test_a_damaged_record_of_a_run_stops_nobody(own, run, entry):
    run.data.write_text(json.dumps([entry]))
    assert prepare(with_filters(own, {"max_words": 9}), Path("data/own")).changed


def test_text_that_a_run_was_trained_on_is_restored(own, run):
    before = contents(Path("data/own"))
    Path("data/own/train.en").unlink()
    assert prepare(own, Path("data/own")).changed
    assert contents(Path("data/own")) == before


@pytest.mark.parametrize("begins_late", [False, True])
def test_a_run_that_begins_meanwhile_keeps_its_data(own, run, begins_late):
    before, held = contents(Path("data/own")), exclusive(run.lock)

    def begin(*_):
        if not run.lock.exists():
            begun.enter_context(held)

    with ExitStack() as begun, pytest.raises(OutputError, match="runs/base is training on it"):
        if not begins_late:
            begin()
        prepare(own, Path("data/own"), pairs_progress=begin, force=True)
    assert contents(Path("data/own")) == before


def test_published_counts_that_differ_are_told_of_each_of_several_corpora_of_one_name(tmp_path, file_server):
    texts = {"1.en": "a\nb\n", "1.de": "A\nB\n", "2.en": "c\n", "2.de": "C\n", "3.en": "d\ne\n", "3.de": "D\nE\n"}
    file_server.files |= {name: text.encode() for name, text in texts.items()}

    def text(number, **published):
        return {"kind": "text", "name": "x", "files": {"en": f"{number}.en", "de": f"{number}.de"}, **published}

    values = {
        "name": "x-en-de", "source_lang": "en", "target_lang": "de",
        "downloads": {name: {"url": f"{file_server.url}/{name}"} for name in texts},
        "train": [text(1, lines=2), text(2, lines=1), text(3, lines=3)],
        "valid": [text(1, lines=2)], "test": [text(3)],
        "filters": {"leakage": "count"},
    }  # fmt: skip
    told = []
    prepared = prepare(parse_recipe(values, name="x"), tmp_path / "x", cache=tmp_path / "cache", notify=told.append)
    assert [notice for notice in told if "published" in notice] == ["train: x has 2 pairs; the published number is 3."]
    assert prepared.manifest.filters["leaked_kept"] == 4
    assert {record.url for record in prepared.manifest.sources} == {f"{file_server.url}/{name}" for name in texts}


def test_text_that_seems_wrong_and_filters_that_drop_much_are_warned_of(tmp_path):
    pairs = generate(1, train=200).train
    write(tmp_path / "a.de", [german for _, german in pairs] + [""] * 30)
    write(tmp_path / "a.en", [english for english, _ in pairs] + ["x"] * 30)
    good = own_recipe("ok-en-de", source_lang=None, target_lang=None, train=[str(tmp_path / "a")])
    values = good.model_dump(mode="json")
    values["train"] = [{"kind": "text", "files": {"en": str(tmp_path / "a.de"), "de": str(tmp_path / "a.en")}}]
    with pytest.warns(NmtWarning) as found:
        prepare(with_filters(parse_recipe(values, name="x"), {"max_words": 3}), tmp_path / "data" / "x")
    shown = [str(warning.message) for warning in found]
    dropped = sum(max(len(side.split()) for side in pair) > 3 for pair in pairs)
    assert len(shown) == 4
    assert "their names say de and en" in shown[0]
    assert "train: a.de+a.en: source and target seem to be exchanged" in shown[1]
    assert "the filter empty drops 30 of 230 pairs (13%)" in shown[2]
    assert f"the filter too_long drops {dropped} of 230 pairs ({dropped / 230:.0%})" in shown[3]
    with pytest.warns(NmtWarning) as found:
        prepare(good, tmp_path / "data" / "ok")
    assert ["the filter empty" in str(warning.message) for warning in found] == [True]


def test_decomposed_text_is_warned_of_where_it_stays(tmp_path):
    """The rule of a recipe composes training text alone."""
    texts, generated = {}, generate(1, train=90).train
    for number, split in enumerate(("train", "valid", "test")):
        pairs = generated[30 * number :][:30]
        texts[split] = [corpus(tmp_path, split, [en for en, _ in pairs], [f"{de} a\u0308" for _, de in pairs])]
    recipe = en_de(**texts)
    with pytest.warns(NmtWarning, match="are not in Unicode normal form C") as found:
        prepare(recipe.model_copy(update={"normalisation": Normalisation(nfc=True)}), tmp_path / "own")
    assert [str(warning.message).split(":")[0] for warning in found] == ["valid", "test"]


@pytest.mark.parametrize("change", ["grows", "shrinks", "is replaced", "is removed"])
def test_a_file_that_changes_while_it_is_read_is_an_error(own, tmp_path, change):
    path = tmp_path / "train.de"
    before = path.stat()

    def meddle(description, done, total):
        if not description.startswith("train") or not path.exists():
            return
        text = path.read_bytes()
        if change == "grows":
            path.write_bytes(text + b"more\n")
        elif change == "shrinks":
            os.truncate(path, len(text) // 2)
        elif change == "is removed":
            path.unlink()
        else:
            (tmp_path / "new").write_bytes(text.swapcase())
            os.utime(tmp_path / "new", ns=(before.st_atime_ns, before.st_mtime_ns))
            (tmp_path / "new").rename(path)

    with pytest.raises(DataError, match=r"train\.de: changed while it was read\. Run the same command again"):
        prepare(own, tmp_path / "data", pairs_progress=meddle)
    assert not (tmp_path / "data").exists()


def test_a_device_is_no_text(tmp_path):
    recipe = own_recipe("own-en-de", source_lang=None, target_lang=None, train=["/dev/zero"])
    with pytest.raises(DataError, match="/dev/zero: is neither a file nor a pipe"):
        prepare(recipe, tmp_path / "data")


@pytest.mark.parametrize("split", ["valid", "test"])
def test_evaluation_text_that_is_held_in_memory_has_a_limit(own, tmp_path, monkeypatch, split):
    monkeypatch.setattr("nmt.corpora.splits.MOST_EVALUATION_PAIRS", 3)
    prepare(own, tmp_path / "data")
    assert len(lines(tmp_path / "data", "valid.en")) == 3
    (tmp_path / f"{split}.en").write_text("a\nb\nc\nd\n")
    (tmp_path / f"{split}.de").write_text("A\nB\nC\nD\n")
    with pytest.raises(DataError, match=f"own: {split} has more than 3 pairs, the maximum"):
        prepare(own, tmp_path / "data", force=True)


@pytest.mark.skipif(sys.platform == "darwin", reason="its file systems have names of UTF-8 alone")
def test_a_name_that_the_manifest_cannot_hold_is_refused_before_the_text_is_read(own, tmp_path, monkeypatch):
    """Old archives have names in Latin-1."""
    monkeypatch.setattr("nmt.corpora.prepare.write_text", None)
    named = corpus(tmp_path, "b\udce4d", ["a"], ["A"])
    for recipe in (en_de(train=[named]), en_de(train=[f"{named}.en", f"{named}.de"])):
        with pytest.raises(DataError, match=r"b\udce4d.*: has bytes in its name that are not UTF-8. Rename it"):
            prepare(recipe, tmp_path / "out")
