"""Packages of Argos Translate: what is in them."""

import json
import zipfile

import pytest

from nmt.checkpoint.bundle import load_bundle, save_bundle
from nmt.convert.argos import package_name, write_argos
from nmt.convert.formats import find_target
from nmt.errors import CheckpointError, NmtError
from tests.convert.conftest import export, failed, names

TARGET = find_target("argos")


def with_languages(bundle, folder, source="en", target="de"):
    data = bundle.config.data.model_copy(update={"source_lang": source, "target_lang": target})
    save_bundle(folder, bundle.weights, bundle.config.model_copy(update={"data": data}), bundle.vocab)
    return load_bundle(folder)


def test_a_package_has_all_that_it_needs(make_bundle, ctranslate2, tmp_path):
    bundle = with_languages(make_bundle(), tmp_path / "bundle", "eng", "de_AT")
    checks = export(TARGET, bundle, tmp_path / "out")
    assert names(checks) == [
        "tensors", "vocabulary", "segmentation", "text", "forced scores", "greedy outputs", "beam scores",
    ]  # fmt: skip
    assert not failed(checks), checks
    [path] = (tmp_path / "out").iterdir()
    assert path.name == "translate-en_de-1_0.argosmodel"
    with zipfile.ZipFile(path) as archive:
        assert sorted(archive.namelist()) == [
            f"translate-en_de-1_0/{name}"
            for name in (
                "metadata.json", "model/config.json", "model/model.bin",
                "model/shared_vocabulary.json", "sentencepiece.model",
            )
        ]  # fmt: skip
        metadata = json.loads(archive.read("translate-en_de-1_0/metadata.json"))
    wanted = {"from_code": "en", "from_name": "English", "to_code": "de", "to_name": "German"}
    assert wanted.items() <= metadata.items()


@pytest.mark.slow
def test_the_same_model_makes_the_same_file(make_bundle, ctranslate2, tmp_path):
    bundle = with_languages(make_bundle(), tmp_path / "bundle")
    contents = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        write_argos(bundle, tmp_path / name, "int8")
        contents.append((tmp_path / name / f"{package_name(bundle)}.argosmodel").read_bytes())
    assert contents[0] == contents[1]


def test_a_damaged_package_is_found(make_bundle, ctranslate2, tmp_path):
    bundle = with_languages(make_bundle(), tmp_path / "bundle")
    (tmp_path / "out").mkdir()
    write_argos(bundle, tmp_path / "out")
    path = tmp_path / "out" / f"{package_name(bundle)}.argosmodel"
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(CheckpointError, match=r"argosmodel: is a damaged or truncated archive"):
        TARGET.check_files(tmp_path / "out", bundle, "float32")


def test_what_argos_cannot_express_is_refused(make_bundle, tmp_path):
    with pytest.raises(NmtError, match=r"does not say its languages"):
        write_argos(with_languages(make_bundle(), tmp_path / "no-languages", "", ""), tmp_path)
    two = make_bundle(is_foreign=True, tied_embeddings="none")
    with pytest.raises(NmtError, match=r"a vocabulary for each language|language tags"):
        write_argos(with_languages(two, tmp_path / "two"), tmp_path)
