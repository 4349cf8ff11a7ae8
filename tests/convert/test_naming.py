"""Default names of imported bundles and exported folders."""

from pathlib import Path

import pytest

from nmt.convert.converting import default_bundle, default_folder

FILES = (
    "opus-2020.02/model.npz",
    "opus-2020.02/decoder.yml",
    "opus-2020.02.zip",
    "runs/old/checkpoints/step-00001000/model.safetensors",
    "fairseq/checkpoint_best.pt",
    "hub/models--owner--opus-mt-en-de/snapshots/0123abcd/config.json",
)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A current folder with models of all kinds."""
    monkeypatch.chdir(tmp_path)
    for file in FILES:
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).touch()
    Path("runs/old/best").symlink_to("checkpoints/step-00001000")
    return tmp_path


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("opus-2020.02", "opus-2020.02"),
        ("opus-2020.02/", "opus-2020.02"),
        ("opus-2020.02/model.npz", "opus-2020.02"),
        ("opus-2020.02/decoder.yml", "opus-2020.02"),
        ("opus-2020.02.zip", "opus-2020.02"),
        ("fairseq/checkpoint_best.pt", "fairseq"),
        ("hub/models--owner--opus-mt-en-de", "opus-mt-en-de"),
        ("hub/models--owner--opus-mt-en-de/snapshots/0123abcd", "opus-mt-en-de"),
        ("hub/models--owner--opus-mt-en-de/snapshots/0123abcd/config.json", "opus-mt-en-de"),
        ("runs/old", "old"),
        ("runs/old/best", "old-best"),
        ("runs/old/best/model.safetensors", "old-best"),
        ("runs/old/checkpoints/step-00001000", "old-step-00001000"),
    ],
)
def test_a_model_has_the_name_of_its_folder_or_archive(path, name, here):
    assert default_bundle(Path(path)) == Path("models") / name
    assert default_folder(Path(path), "ctranslate2", "int8") == Path("models") / f"{name}-ctranslate2-int8"


def test_the_current_folder_has_a_name(here, monkeypatch):
    monkeypatch.chdir("opus-2020.02")
    for path in (".", "model.npz", "../opus-2020.02"):
        assert default_bundle(Path(path)) == Path("models/opus-2020.02")


def test_an_argos_package_is_named_like_an_archive(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("downloads").mkdir()
    for name in ("translate-en_de-1_0", "translate-de_en-1_0"):
        package = Path("downloads", f"{name}.argosmodel")
        package.touch()
        assert default_bundle(package) == Path("models") / name
