"""What lies in a folder of data sets."""

import os
from pathlib import Path

import pytest

from nmt.data.data_folder import DataFolder
from nmt.data.manifest import data_sets_below, newest_data_set, read_manifest
from nmt.errors import DataError


def test_the_data_set_prepared_last_comes_first(write_data_set, tmp_path):
    (tmp_path / "data").mkdir()
    for name, seconds in (("a", 200), ("b", 300), ("c", 100)):
        folder = write_data_set(tmp_path / "data" / name, ["ba"], ["do"])
        os.utime(DataFolder(folder).manifest, (seconds, seconds))
    write_data_set(tmp_path / "data" / ".unfinished", ["ba"], ["do"])
    (tmp_path / "data" / "no data set").mkdir()
    assert [folder.name for folder in data_sets_below(tmp_path / "data")] == ["b", "a", "c"]
    assert newest_data_set(tmp_path / "data").name == "b"


def test_without_a_data_set_the_error_says_how_to_make_one(tmp_path):
    with pytest.raises(DataError, match="nmt prepare-data"):
        newest_data_set(tmp_path)


@pytest.mark.parametrize(
    ("named", "advice"),
    [
        ("small", "Did you mean --data data/small?"),
        ("data", r"Name one that it holds with --data: data/small, data/other\."),
        (
            "none",
            r"Name the folder of a data set with --data \(data/small, data/other\), or make one: `nmt prepare-data",
        ),
        ("elsewhere", r"Name one that it holds with --data: elsewhere/deep\."),
    ],
)
def test_the_error_about_another_folder_names_data_sets(write_data_set, tmp_path, monkeypatch, named, advice):
    monkeypatch.chdir(tmp_path)
    problem = "does not exist" if named in ("small", "none") else r"is not a prepared data set \(no manifest.json\)"
    for number, name in enumerate(("data/other", "data/small", "elsewhere/deep")):
        (tmp_path / name).mkdir(parents=True)
        write_data_set(tmp_path / name, ["ba"], ["do"])
        os.utime(tmp_path / name / "manifest.json", (number, number))
    with pytest.raises(DataError, match=rf"{named}: {problem}\. {advice}"):
        read_manifest(Path(named))
