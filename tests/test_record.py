"""A record: the words of its command, and where its paths lead."""

from pathlib import Path

import pytest

from nmt.errors import DataError
from nmt.record import SETTINGS, Record, option_words, parse_record, text_record

INPUT = text_record("text", "5", "ab", role="input")
MODEL = Record(kind="average", path="runs/x/average", command=("average-checkpoints", "--out=runs/x/average"))
COMMAND = ("translate", "--model=runs/x/average", "--input=5", "--beam=5", "--output=out.de")
OUTPUT = Record(kind="translation", path="out.de", command=COMMAND, made_from=(MODEL, INPUT))


def test_a_record_is_stored_and_read_again():
    assert parse_record(OUTPUT.stored(), "out") == OUTPUT
    assert "files" not in OUTPUT.stored()


@pytest.mark.parametrize(
    "values",
    [None, [], {}, {"kind": "x"}, {"kind": "x", "path": 3}, {"kind": "x", "path": "y", "command": [1]},
     {"kind": "x", "path": "y", "further": 1}, {"kind": "x", "path": "y", "made_from": [{"kind": "x"}]},
     {"kind": "x", "path": "y", "facts": {"a": float("nan")}}],
)  # fmt: skip
def test_what_is_no_record_is_an_error(values):
    with pytest.raises(DataError, match=r"x\.json: its lineage is damaged: "):
        parse_record(values, "x.json")


def test_only_the_words_that_are_paths_are_replaced():
    """A file may be called 5, too."""
    words = list(OUTPUT.words(lambda record: f"there/{record.path}"))
    there = ["--model=there/runs/x/average", "--input=there/5", "--beam=5", "--output=there/out.de"]
    assert words == ["translate", *there]


def test_the_name_of_the_settings_is_no_path():
    prepared = Record(kind="data set", path="data/a", command=("prepare-data", SETTINGS, "--out=data/a"))
    assert list(prepared.words(lambda part: "b")) == ["prepare-data", SETTINGS, "--out=b"]
    run = Record(kind="training", path="x", command=("train", f"--config={SETTINGS}", "--out=x"))
    assert list(run.words(lambda part: "b")) == ["train", f"--config={SETTINGS}", "--out=b"]


@pytest.mark.parametrize("name", [SETTINGS, "score"])
def test_a_file_of_the_user_may_be_called_as_the_settings_or_the_command(name):
    text = text_record("text", name, "ab", role="hypothesis")
    score = Record(kind="score", path="-", command=("score", f"--reference={name}", name), made_from=(text,))
    assert list(score.words(lambda part: "/there")) == ["score", "--reference=/there", "/there"]


def test_a_path_within_a_folder_or_with_a_weight_follows_the_longest_record():
    data = Record(kind="data set", path="data/a")
    run = Record(kind="training", path="data", command=("train", f"--config={SETTINGS}"))
    command = ("build-vocab", "--data=data/a:2.0", "--vocab=data/a/vocab.model", "--data=data/b")
    record = Record(kind="vocabulary", path="x", command=command, made_from=(run, data))
    words = list(record.words(lambda part: part.kind))
    assert words[1:] == ["--data=data set:2.0", "--vocab=data set/vocab.model", "--data=training/b"]
    assert list(run.words(lambda part: "elsewhere")) == list(run.command)


def test_paths_are_relative_to_where_a_folder_lies_now(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "work").mkdir()
    assert OUTPUT.as_found(Path("out.de")) == OUTPUT
    found = OUTPUT.as_found(Path("work/out.de"))
    assert [part.path for part in found.all()] == ["work/out.de", "work/runs/x/average", "work/5"]
    assert found.command[1:] == (
        "--model=work/runs/x/average", "--input=work/5", "--beam=5", "--output=work/out.de",
    )  # fmt: skip
    assert found.made_from[0].command[-1] == "--out=work/runs/x/average"
    monkeypatch.chdir(tmp_path / "work")
    assert OUTPUT.as_found(tmp_path / "work/out.de").made_from == OUTPUT.made_from


def test_of_what_was_moved_alone_the_other_paths_are_as_they_were(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    moved = OUTPUT.as_found(Path("other.de"))
    assert (moved.path, moved.command[-1]) == ("other.de", "--output=other.de")
    assert [(part.path, part.unlocated) for part in moved.made_from] == [("runs/x/average", True), ("5", True)]
    assert not moved.unlocated


def test_a_result_named_by_the_words_of_its_command_is_where_it_was(tmp_path, monkeypatch):
    (tmp_path / "disk").mkdir()
    (tmp_path / "work").mkdir()
    (tmp_path / "work/linked").symlink_to(tmp_path / "disk")
    monkeypatch.chdir(tmp_path / "work")
    for name in ("../out.de", "linked/out.de"):
        named = OUTPUT.model_copy(update={"path": name})
        assert named.as_found(Path(name)) == named
    absolute = OUTPUT.model_copy(update={"path": str(tmp_path / "disk/out.de")})
    found = absolute.as_found(tmp_path / "disk/out.de")
    assert [part.unlocated for part in found.all()] == [False, True, True]


def test_a_path_that_leads_nowhere_known_stays_so(tmp_path, monkeypatch):
    """What a moved model was made from does not lie below the folder of a command that reads the model."""
    monkeypatch.chdir(tmp_path)
    output = OUTPUT.model_copy(update={"made_from": (OUTPUT.as_found(Path("other.de")),)})
    [moved] = output.as_found(Path("work/out.de")).made_from
    assert moved.path == "work/other.de"
    assert [(part.path, part.unlocated) for part in moved.made_from] == [("runs/x/average", True), ("5", True)]


def test_archives_absolute_paths_and_pipes_need_no_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    parts = (
        Record(kind="archive", path="a.tgz", files={".": "ab"}), text_record("text", "/home/in.en", "ab"),
        text_record("text", "-", None),
    )  # fmt: skip
    found = OUTPUT.model_copy(update={"made_from": parts}).as_found(Path("other.de"))
    assert found.made_from == parts


def test_a_hypothesis_from_standard_input_is_not_taken_for_the_score(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    score = Record(kind="score", path="-", command=("score", "-"), made_from=(text_record("text", "-", None),))
    assert score.as_found(Path("score.json")).command == ("score", "-")


def test_options_are_single_words():
    options = {"size": 80, "byte_fallback": False, "sheet": True, "metric": ["bleu", "ter"], "tokenize": None}
    words = ["--size=80", "--no-byte-fallback", "--sheet", "--metric=bleu", "--metric=ter"]
    assert list(option_words(options)) == words


def test_a_file_in_the_folder_of_the_command_follows_its_record():
    """As after ``cd data/one; nmt build-vocab --data ../two --vocab vocab.model``."""
    vocabulary = Record(kind="vocabulary", path=".")
    record = Record(
        kind="vocabulary", path="../two", command=("build-vocab", "--vocab=vocab.model"), made_from=(vocabulary,)
    )
    assert list(record.words(lambda part: "one")) == ["build-vocab", "--vocab=one/vocab.model"]


def test_a_path_of_no_record_stays(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    record = Record(kind="vocabulary", path="data/a", command=("build-vocab", "--vocab=lost.model"))
    assert record.as_found(Path("sub/data/a")).command == ("build-vocab", "--vocab=lost.model")
