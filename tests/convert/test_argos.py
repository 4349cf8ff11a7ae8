"""Packages of Argos Translate: what is in them, and where their splitter ends sentences."""

import json
import zipfile
from itertools import pairwise

import numpy as np
import pytest
import torch

from nmt.checkpoint.bundle import load_bundle, save_bundle
from nmt.convert.argos.package import package_name, write_argos
from nmt.convert.argos.sentence_ends import SentenceEnds, sentence_splitter
from nmt.convert.formats import find_target
from nmt.errors import CheckpointError, NmtError
from nmt.text.sentences import nonbreaking_prefixes, sentences
from tests.convert.conftest import export, failed, names

TARGET = find_target("argos")
TEXTS = {
    "en": [
        "Hello there. My name is Dr. Smith. I was born in St. Louis (U.S.A.). It is No. 5 of 6!",
        '"Really?" he asked. Yes... and no. The end',
        "See e.g. this. OK? It costs 3.50. Then (and only then) go.",
        "A",
        "No stop at all",
    ],
    "de": ["Am 3. Oktober war es so. Das ist z.B. gut. Er sagte: „Komm!“ Dann ging er. Ende"],
    "ru": ["Это А. С. Пушкин. Он поэт."],
    "zh": ["你好。我是人！他说：“好。”然后走了。"],
}


@pytest.fixture
def ctranslate2():
    return pytest.importorskip("ctranslate2", reason="the extra `ctranslate2` is not installed")


@pytest.fixture
def onnx():
    pytest.importorskip("onnxscript", reason="the extra `argos` is not installed")
    return pytest.importorskip("onnx", reason="the extra `argos` is not installed")


def with_languages(bundle, folder, source="en", target="de"):
    data = bundle.config.data.model_copy(update={"source_lang": source, "target_lang": target})
    save_bundle(folder, bundle.weights, bundle.config.model_copy(update={"data": data}), bundle.vocab)
    return load_bundle(folder)


def split(text, units, classes_of):
    """The sentences of a text as MiniSBD makes them: it ends one after each character of class 2, and at the end."""
    ids = {unit: number for number, unit in enumerate(units)}
    row = np.array([[*(ids.get(character, ids["<UNK>"]) for character in text), ids["<PAD>"]]])
    is_end = classes_of(row, np.zeros((*row.shape, 1), np.float32)).argmax(-1)[0, : len(text)] == 2
    ends = sorted({0, *(np.flatnonzero(is_end) + 1).tolist(), len(text)})
    return [text[begin:end].strip() for begin, end in pairwise(ends)]


@pytest.mark.parametrize("language", TEXTS)
def test_sentences_end_where_ours_do(language):
    ends = SentenceEnds(nonbreaking_prefixes(language))
    for text in TEXTS[language]:
        found = split(
            text, ends.units, lambda ids, features: ends(torch.from_numpy(ids), torch.from_numpy(features)).numpy()
        )
        assert found == [sentence.strip() for sentence in sentences(text, language)]


def test_a_language_without_a_list_of_abbreviations_is_split_too():
    ends = SentenceEnds({})
    assert split("A b. C d.", ends.units, lambda ids, features: ends(torch.from_numpy(ids), None).numpy()) == [
        "A b.",
        "C d.",
    ]


@pytest.mark.slow
def test_the_onnx_model_computes_the_same(onnx):
    model = onnx.load_from_string(sentence_splitter("en"))
    evaluator = onnx.reference.ReferenceEvaluator(model)
    properties = {entry.key: entry.value for entry in model.metadata_props}
    vocabulary = json.loads(properties["vocab"])
    assert vocabulary["_unit2id"] == {unit: number for number, unit in enumerate(vocabulary["_id2unit"])}
    assert json.loads(properties["config"])["feat_funcs"]

    def classes_of(ids, features):
        return evaluator.run(None, {"units": ids, "features": features})[0]

    for text in TEXTS["en"]:
        assert split(text, vocabulary["_id2unit"], classes_of) == [each.strip() for each in sentences(text, "en")]


def test_a_package_has_all_that_it_needs(make_bundle, ctranslate2, onnx, tmp_path):
    bundle = with_languages(make_bundle(), tmp_path / "bundle", "eng", "de_AT")
    checks = export(TARGET, bundle, tmp_path / "out")
    assert names(checks) == [
        "metadata", "tensors", "settings", "vocabulary", "segmenters", "segmentation", "text", "forced scores",
        "greedy outputs", "beam scores",
    ]  # fmt: skip
    assert not failed(checks), checks
    [path] = (tmp_path / "out").iterdir()
    assert path.name == "translate-en_de-1_0.argosmodel"
    with zipfile.ZipFile(path) as archive:
        assert sorted(archive.namelist()) == [
            f"translate-en_de-1_0/{name}"
            for name in (
                "metadata.json", "minisbd/en.onnx", "model/config.json", "model/model.bin",
                "model/shared_vocabulary.json", "sentencepiece.model",
            )
        ]  # fmt: skip
        metadata = json.loads(archive.read("translate-en_de-1_0/metadata.json"))
    wanted = {"from_code": "en", "from_name": "English", "to_code": "de", "to_name": "German"}
    assert wanted.items() <= metadata.items()


@pytest.mark.slow
def test_the_same_model_makes_the_same_file(make_bundle, ctranslate2, onnx, tmp_path):
    bundle = with_languages(make_bundle(), tmp_path / "bundle")
    contents = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        write_argos(bundle, tmp_path / name, "int8")
        contents.append((tmp_path / name / f"{package_name(bundle)}.argosmodel").read_bytes())
    assert contents[0] == contents[1]


def test_a_damaged_package_is_found(make_bundle, ctranslate2, onnx, tmp_path):
    bundle = with_languages(make_bundle(), tmp_path / "bundle")
    (tmp_path / "out").mkdir()
    write_argos(bundle, tmp_path / "out")
    path = tmp_path / "out" / f"{package_name(bundle)}.argosmodel"
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(CheckpointError, match=r"argosmodel: is missing or damaged .* Export the model again"):
        TARGET.check_files(tmp_path / "out", bundle, "float32")


def test_what_argos_cannot_express_is_refused(make_bundle, tmp_path):
    with pytest.raises(NmtError, match=r"does not say its languages"):
        write_argos(with_languages(make_bundle(), tmp_path / "no-languages", "", ""), tmp_path)
    two = make_bundle(is_foreign=True, tied_embeddings="none")
    with pytest.raises(NmtError, match=r"a vocabulary for each language|language tags"):
        write_argos(with_languages(two, tmp_path / "two"), tmp_path)
