"""Models in archives."""

import zipfile

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nmt.convert.archives import archive_name, unpacked
from nmt.errors import CheckpointError, NmtError
from tests.kit.archives import tarred, zipped

ZIPS = {".zip": zipfile.ZIP_DEFLATED, ".argosmodel": zipfile.ZIP_LZMA}
TARS = {".tar": "w", ".tar.gz": "w:gz", ".tgz": "w:gz", ".tar.bz2": "w:bz2", ".tar.xz": "w:xz"}
FLAT = {"config.json": b"{}", "vocab/a.spm": bytes(range(256)) * 99}


def archive_of(files, path, suffix):
    path = path / f"opus-2020.02{suffix}"
    path.write_bytes(zipped(files, ZIPS[suffix]) if suffix in ZIPS else tarred(files, TARS[suffix]))
    return path


def content_of(path):
    with unpacked(path) as folder:
        return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize("suffix", [*ZIPS, *TARS])
@pytest.mark.parametrize("place", ["", "./", "model/", "./release/model/"])
def test_the_folder_of_the_model_is_found(place, suffix, tmp_path):
    files = {f"{place}{name}": content for name, content in FLAT.items()}
    others = {"__MACOSX/model/._config.json": b"of macOS", f"{place}._config.json": b"", ".DS_Store": b""}
    path = archive_of(files | others, tmp_path, suffix)
    found = content_of(path)
    assert {name: content for name, content in found.items() if not name.startswith("__MACOSX")} == FLAT
    assert archive_name(path) == "opus-2020.02"


def test_what_is_no_archive_stays_as_it_is(tmp_path):
    (tmp_path / "model.zip").mkdir()
    (tmp_path / "model.npz").write_bytes(b"")
    for path in (tmp_path / "model.zip", tmp_path / "model.npz", tmp_path / "missing.tar.gz"):
        assert archive_name(path) is None
        with unpacked(path) as folder:
            assert folder == path


@pytest.mark.parametrize("suffix", [*ZIPS, *TARS])
def test_a_damaged_archive_is_refused(suffix, tmp_path):
    path = archive_of({"model.npz": bytes(range(256)) * 99}, tmp_path, suffix)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(CheckpointError, match=r"opus-2020\.02.*: is a damaged or truncated archive"):
        content_of(path)


@settings(max_examples=30, deadline=None)
@given(place=st.integers(0, 200), value=st.integers(0, 255))
@example(place=30, value=0xFF)  # a name that is not UTF-8, as it is flagged
def test_any_damage_is_one_clear_error(place, value, tmp_path_factory):
    path = archive_of({"ÄÄÄ.npz": b"text"}, tmp_path_factory.mktemp("zips"), ".zip")
    content = bytearray(path.read_bytes())
    content[place % len(content)] = value
    if place == 30:
        content = bytearray(path.read_bytes().replace("ÄÄÄ".encode(), b"\xff" * 6))
    path.write_bytes(content)
    try:
        content_of(path)
    except CheckpointError as error:
        assert str(error).startswith(str(path))


@pytest.mark.parametrize("name", ["model\n.npz", "x" * 300 + ".npz", "é" * 200 + ".npz", "../model.npz", "/model.npz"])
def test_odd_names_of_files_are_refused(name, tmp_path):
    path = archive_of({name: b""}, tmp_path, ".zip")
    with pytest.raises(
        CheckpointError, match=r"opus-2020\.02\.zip: (refused, since|holds a name that is too long)"
    ) as caught:
        content_of(path)
    assert "\n" not in str(caught.value)


def test_an_archive_that_unpacks_to_far_more_than_its_size_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("nmt.corpora.archive._ALWAYS_ALLOWED", 1 << 20)
    for suffix in (".zip", ".tar.gz"):
        with pytest.raises(CheckpointError, match=r"unpacks to more than 1,048,576 bytes, too many for its size"):
            content_of(archive_of({"zeros": bytes(2 << 20)}, tmp_path, suffix))


def test_errors_name_the_archive_not_the_folder_that_it_was_unpacked_to(tmp_path):
    path = archive_of({"model/config.json": b""}, tmp_path, ".tar.gz")
    with pytest.raises(NmtError) as caught, unpacked(path) as folder:
        raise CheckpointError(f"{folder}/config.json: is empty.")
    assert str(caught.value) == f"{path}/model/config.json: is empty."
