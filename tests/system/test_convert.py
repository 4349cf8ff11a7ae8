"""``nmt import`` and ``nmt export``, as typed."""

import json
import re
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nmt.cli.app import app
from nmt.convert.certificate.record import Certificate, Check

MARIAN = Path(__file__).parents[1] / "convert" / "data" / "marian-post"
MARIAN_MT = MARIAN.with_name("marian_mt")


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory, nmt):
    """A folder with an imported and an exported model, made by the commands."""
    folder = tmp_path_factory.mktemp("typed")
    shutil.copytree(MARIAN, folder / "opus")
    (folder / "check.txt").write_text("one two.\nred house.\n")
    imported = nmt(
        "import", "opus", "--source-lang", "en", "--target-lang", "de", "--check-text", "check.txt", cwd=folder
    )
    assert "forced scores: log-probabilities of" in imported.stderr
    assert "The model was not compared with the toolkit itself" in imported.stderr
    assert "written: models/opus" in imported.stderr
    assert imported.stdout == ""
    exported = nmt("export", "models/opus", "--to", "huggingface", cwd=folder)
    assert "written: models/opus-huggingface" in exported.stderr
    return folder


@pytest.fixture
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)
    return folder


def test_an_imported_model_translates(folder, nmt):
    found = nmt("translate", "-m", "models/opus", text="one two.\nred house.\n", cwd=folder)
    assert found.stdout.count("\n") == 2
    assert "language tag" not in found.stderr


def test_the_certificate_and_the_card_lie_beside_the_model(folder):
    for model, direction in (("opus", "import"), ("opus-huggingface", "export")):
        parity = json.loads((folder / "models" / model / "parity.json").read_text())["parity"]
        assert parity["direction"] == direction
        assert all(check["passed"] for check in parity["checks"])
        assert {"torch", "nmt", "numpy"} <= parity["software"].keys()
        assert all(re.fullmatch("[0-9a-f]{64}", sha256) for sha256 in parity["files"].values())
        assert all(tensor["shape"] for tensor in parity["tensors"].values())
    imported = json.loads((folder / "models" / "opus" / "parity.json").read_text())["parity"]
    assert imported["files"].keys() == {"model.npz", "vocab.yml", "source.spm", "target.spm"}
    card = (folder / "models" / "opus-huggingface" / "README.md").read_text()
    assert card.startswith("---\n")
    assert "marian-decoder -c decoder.yml" in card
    assert "language:\n- en\n- de\n" in card
    assert "| forced scores |" in card


def test_inspect_shows_both_and_takes_the_files_of_both(here):
    imported = invoke("inspect", "models/opus").stdout
    assert re.search(r"toolkit: Marian\n +version: v1\.12", imported)
    given = "--source-lang=en --target-lang=de"
    assert f"command: nmt import opus --format=marian {given} --out=models/opus\n" in imported
    assert re.search(r"compared: (\d+) of \1 checks passed", imported)
    assert "file: opus/model.npz  [unchanged]" in imported
    assert invoke("inspect", "models/opus/model.safetensors").stdout == imported
    exported = invoke("inspect", "models/opus-huggingface").stdout
    assert exported.startswith("exported model: models/opus-huggingface  [unchanged]")
    assert "model: models/opus  [unchanged]" in exported
    for name in ("model.npz", "vocab.yml", "parity.json", "lineage.json"):
        assert invoke("inspect", f"models/opus-huggingface/{name}").stdout == exported
    (here / "models" / "opus-huggingface" / "mine.txt").write_text("mine\n")
    other = invoke("inspect", "models/opus-huggingface/mine.txt")
    (here / "models" / "opus-huggingface" / "mine.txt").unlink()
    assert other.exit_code == 2
    assert "has no lineage. Name the JSON of a score" in other.stderr


@pytest.mark.slow
def test_inspect_knows_an_export_that_has_the_files_of_a_bundle(here):
    """Hugging Face's weights have the name of ours."""
    shutil.copytree(MARIAN_MT, "mt")
    assert "written: models/mt" in invoke("import", "mt").stderr
    invoke("export", "models/mt", "--to", "huggingface")
    exported = invoke("inspect", "models/mt-huggingface").stdout
    assert exported.startswith("exported model: models/mt-huggingface  [unchanged]")
    assert "format: Hugging Face MarianMT" in exported
    assert "model: models/mt  [unchanged]" in exported


def test_inspect_names_a_changed_file_of_an_export(folder, tmp_path):
    shutil.copytree(folder / "models" / "opus-huggingface", tmp_path / "exported")
    with (tmp_path / "exported" / "vocab.json").open("a") as stream:
        stream.write("\n")
    found = invoke("inspect", tmp_path / "exported")
    assert found.exit_code == 1
    assert "vocab.json" in found.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("import", "nothing"), "nothing: no such file or folder"),
        (("import", "."), "holds no model that can be imported. Known are"),
        (("import", "opus", "--format", "word"), "--format word: known are marian, "),
        (("export", "models/opus", "--to", "word"), "--to word: models can be exported to ctranslate2"),
        (
            ("export", "models/opus", "--to", "huggingface", "--quantization", "int3"),
            "--quantization int3: Hugging Face MarianMT has float32",
        ),
        (("export", "models", "--to", "huggingface"), "models"),
    ],
)
def test_mistakes_are_one_clear_error(here, arguments, message):
    found = invoke(*arguments)
    assert found.exit_code == 2
    assert found.stderr.count("error: ") == 1
    assert message in found.stderr


def test_a_failed_check_leaves_no_model_but_a_report(folder, tmp_path, monkeypatch):
    from nmt.convert import converting

    failed = Certificate(
        "import", "Marian", None, {}, {}, {}, (Check("forced scores", False, "differ by 3", "x", 3.0, 1e-4),)
    )
    monkeypatch.setattr(converting, "examine", lambda job: failed)
    for arguments in (("import", MARIAN), ("export", folder / "models" / "opus", "--to", "huggingface")):
        found = invoke(*arguments, "--out", tmp_path / "out")
        assert found.exit_code == 2
        assert "The check of forced scores failed: differ by 3" in found.stderr
        assert [path.name for path in tmp_path.iterdir()] == ["out.parity.json"]
        assert json.loads((tmp_path / "out.parity.json").read_text())["parity"]["checks"][0]["figure"] == 3.0
        (tmp_path / "out.parity.json").unlink()
    (tmp_path / "out.parity.json").write_text("[1]")
    for _ in range(2):  # a report of ours is replaced, a file of the user's is not
        assert "All checks are in" in (stderr := " ".join(invoke(*arguments, "--out", tmp_path / "out").stderr.split()))
        assert "out.parity-2.json" in stderr.replace(" ", "")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["out.parity-2.json", "out.parity.json"]
    assert (tmp_path / "out.parity.json").read_text() == "[1]"


def test_a_quantization_that_loses_too_much_is_not_a_bug(folder, tmp_path, monkeypatch):
    from nmt.convert import converting

    failed = Certificate("export", "x", None, {}, {}, {}, (Check("quantized scores", False, "differ by 3", "x"),))
    monkeypatch.setattr(converting, "examine", lambda job: failed)
    arguments = ("export", folder / "models" / "opus", "--to", "huggingface", "--out", tmp_path / "out")
    found = invoke(*arguments, "--quantization", "float16")
    assert "choose another --quantization" in " ".join(found.stderr.split())
    assert "report" not in found.stderr.partition("parity.json")[2]
    assert "please report this" in " ".join(invoke(*arguments).stderr.split())
