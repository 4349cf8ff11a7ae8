"""Bundles of earlier versions, written anew."""

import json
import re
from pathlib import Path

import pytest
import torch

from nmt.checkpoint.bundle import load_bundle, save_bundle
from nmt.convert.converting import import_model
from nmt.convert.foreign import Given
from nmt.convert.formats import OWN
from nmt.errors import CheckpointError, ConfigError, OutputError
from nmt.io.hashing import sha256_of
from nmt.lineage.reading import read_lineage
from tests.convert.unexamined import examine_nothing
from tests.records import average_notes

OLD = sorted(path for path in (Path(__file__).parents[1] / "bundles").iterdir() if path.is_dir())


@pytest.mark.parametrize("old", OLD, ids=lambda path: path.name)
def test_a_bundle_of_every_version_is_imported(old, tmp_path):
    certificate = import_model(old, tmp_path / "new")
    assert {"cached steps", "forced scores", "greedy outputs"} <= {check.name for check in certificate.checks}
    before, after = load_bundle(old), load_bundle(tmp_path / "new")
    assert all(torch.equal(after.weights[name], tensor) for name, tensor in before.weights.items())
    assert json.loads((tmp_path / "new" / "notes.json").read_text()) == json.loads((old / "notes.json").read_text())


@pytest.mark.parametrize(
    "replaced",
    ["model.safetensors", *(pytest.param(other, marks=pytest.mark.slow) for other in ("config.yaml", "vocab.model"))],
)
def test_a_certificate_is_one_of_its_own_bundle_only(replaced, tmp_path):
    import_model(OLD[-1], tmp_path / "new")
    assert re.match(r"(\d+) of \1 checks passed", str(read_lineage(tmp_path / "new").facts["compared"]))
    with (tmp_path / "new" / replaced).open("ab") as stream:
        stream.write(b"\n")
    checksums = {path.name: sha256_of(path) for path in (tmp_path / "new").iterdir() if path.name != "checksums.json"}
    (tmp_path / "new" / "checksums.json").write_text(json.dumps(checksums))
    lineage = read_lineage(tmp_path / "new")
    assert str(lineage.facts["compared"]).endswith("parity.json is not the certificate of these files")
    assert lineage.state == "changed"
    assert f"{replaced} is" in lineage.change


def test_an_average_is_imported_again_in_place_of_the_first(tmp_path, monkeypatch):
    """It stays an average, which only an average may replace."""
    examine_nothing(monkeypatch)
    bundle = load_bundle(OLD[-1])
    save_bundle(tmp_path / "average", bundle.weights, bundle.config, bundle.vocab, notes=average_notes(["a", "b"]))
    for _ in range(2):
        import_model(tmp_path / "average", tmp_path / "new")
    assert json.loads((tmp_path / "new" / "notes.json").read_text()) == average_notes(["a", "b"])
    import_model(OLD[-1], tmp_path / "plain")
    with pytest.raises(OutputError, match="and is not an average of checkpoints"):
        import_model(tmp_path / "average", tmp_path / "plain")


@pytest.mark.parametrize("given", [Given(source_lang="xx"), Given(target_spm=Path("target.spm"))])
def test_options_for_other_toolkits_are_refused(given, tmp_path):
    with pytest.raises(ConfigError, match=r"--ignore-unknown-steps apply to models of other toolkits.*Leave them out"):
        import_model(OLD[-1], tmp_path / "new", given=given)


def test_a_bundle_never_replaces_itself(tmp_path):
    bundle = load_bundle(OLD[-1])
    save_bundle(tmp_path / "run" / "average", bundle.weights, bundle.config, bundle.vocab)
    (tmp_path / "lineage").symlink_to(tmp_path / "run" / "average")
    for path in ("run/average", "run", "lineage"):
        with pytest.raises(OutputError, match=r"is the model to import.*Name another folder with --out"):
            import_model(tmp_path / path, tmp_path / "run" / "average", format=OWN)


def test_a_folder_without_a_model_is_told_before_its_name(tmp_path):
    """Its default name is its own, and another name would not help."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "notes.txt").touch()
    with pytest.raises(CheckpointError, match="holds no model that can be imported"):
        import_model(tmp_path / "empty", tmp_path / "empty")


def test_another_toolkits_folder_given_as_ours_is_no_complete_bundle(tmp_path):
    theirs = Path(__file__).parent / "data" / "marian_mt"
    with pytest.raises(CheckpointError, match=r"is not a complete bundle: config\.yaml is missing"):
        import_model(theirs, tmp_path / "new", format=OWN)
