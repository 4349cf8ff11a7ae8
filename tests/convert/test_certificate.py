"""The certificate of an import: it passes for a good bundle, and fails for a bundle that differs in any one thing."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

from nmt.checkpoint.bundle import load_bundle
from nmt.checkpoint.bundle_files import BundleFolder
from nmt.convert.certificate.checks import prepared_text, segmentation
from nmt.convert.certificate.examining import Job, examine
from nmt.convert.certificate.our_side import OurSide
from nmt.convert.certificate.probes import make_probes
from nmt.convert.certificate.reference_side import ReferenceSide
from nmt.convert.converting import import_model
from nmt.convert.ctranslate2.writing import write_ctranslate2
from nmt.convert.formats import OWN, READABLE, find_format
from nmt.convert.huggingface.reading import read_huggingface
from nmt.data.data_folder import vocabulary_files
from nmt.text.steps import (
    NO_STEPS,
    Affix,
    Control,
    Lowercase,
    MosesPunctuation,
    MosesTokenize,
    Nfkc,
    Replace,
    Replacement,
    SentencePieceRule,
    Spaces,
)
from tests.convert.conftest import read_certificate
from tests.convert.marian_mt import STORED
from tests.convert.peers import WRITERS

IN_SHORT = ("fairseq", "marian", "sockeye")
"""The formats that ``make test`` takes too; with the others, tests are slow."""


def write_as_ctranslate2(folder: Path) -> Path:
    """The same model, exported to CTranslate2."""
    pytest.importorskip("ctranslate2", reason="the extra `ctranslate2` is not installed")
    bundle = folder.with_name("bundle of ours")
    import_model(STORED, bundle)
    folder.mkdir()
    write_ctranslate2(load_bundle(bundle), folder, "float32")
    return folder


def copy_ours(folder: Path) -> Path:
    """A bundle that an earlier version wrote."""
    return Path(shutil.copytree(sorted((Path(__file__).parents[1] / "bundles").glob("[0-9]*"))[-1], folder))


ORIGINS = WRITERS | {"ctranslate2": write_as_ctranslate2, OWN: copy_ours}


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=() if name in IN_SHORT else pytest.mark.slow) for name in ORIGINS]
)
def imported(request, tmp_path_factory):
    """A tiny model of each format, and the bundle that it was imported as."""
    folder = tmp_path_factory.mktemp(request.param)
    origin = ORIGINS[request.param](folder / "theirs")
    certificate = import_model(origin, folder / "bundle")
    assert not certificate.failed
    return request.param, origin, folder / "bundle"


def test_every_format_has_a_tiny_model():
    assert {form.name for form in READABLE} | {OWN} == ORIGINS.keys()


def test_a_good_import_is_certified(imported):
    name, origin, bundle = imported
    assert name == OWN or find_format(origin).name == name
    certificate = read_certificate(bundle)
    names = {check.name for check in certificate.checks}
    assert names >= {
        "cached steps", "segmentation", "text", "encoder states",
        "forced scores", "greedy outputs", "beam scores",
    }  # fmt: skip
    assert certificate.failed == []


def weights(bundle: BundleFolder, change) -> None:
    tensors = {name: tensor.clone() for name, tensor in load_file(bundle.weights).items()}
    change(tensors)
    save_file(tensors, bundle.weights)


def model_settings(bundle: BundleFolder, change) -> None:
    values = yaml.safe_load(bundle.config.read_text())
    change(values["model"])
    bundle.config.write_text(yaml.safe_dump(values))


def swap_two_numbers(tensors: dict[str, torch.Tensor]) -> None:
    numbers = tensors["decoder.0.cross_attention.query_key_value.weight"].view(-1)
    numbers[[3, 40]] = numbers[[40, 3]]


def negate_a_row(tensors: dict[str, torch.Tensor]) -> None:
    tensors["encoder.0.feed_forward.inner.weight"][2] *= -1


def swap_two_pieces(bundle: BundleFolder) -> None:
    path = vocabulary_files(bundle.vocab)[1]
    if not path.exists():
        pytest.skip("its pieces are those of the SentencePiece model")
    content = json.loads(path.read_bytes())
    pieces = content["pieces"]
    pieces[7], pieces[8] = pieces[8], pieces[7]
    path.write_text(json.dumps(content))


def drop_the_output_bias(bundle: BundleFolder) -> None:
    weights(bundle, lambda tensors: tensors.pop("embedding.output_bias"))
    model_settings(bundle, lambda values: values.update(output_bias=False))


def shift_positions(bundle: BundleFolder) -> None:
    """Learned positions are tensors; of computed ones, the settings say the first."""
    learned = ("source_positions.weight", "target_positions.weight")
    if learned[0] in load_file(bundle.weights):
        weights(bundle, lambda tensors: tensors.update({name: tensors[name].roll(-1, 0) for name in learned}))
    else:
        model_settings(bundle, lambda values: values.update(first_position=values["first_position"] + 1))


CHANGES = {
    "no output bias": (drop_the_output_bias, {"forced scores"}),
    "two numbers swapped": (lambda bundle: weights(bundle, swap_two_numbers), {"forced scores"}),
    "a row negated": (lambda bundle: weights(bundle, negate_a_row), {"encoder states", "forced scores"}),
    "two pieces swapped": (swap_two_pieces, {"encoder states", "forced scores"}),
    "another epsilon": (
        lambda bundle: model_settings(bundle, lambda values: values.update(norm_epsilon=0.01)),
        {"encoder states", "forced scores"},
    ),
    "positions shifted by one": (
        shift_positions,
        {"encoder states", "forced scores"},
    ),
}


# In short, each kind of change in one format.
PAIRS = [
    pytest.param(name, kind, marks=() if name == IN_SHORT[column % len(IN_SHORT)] else pytest.mark.slow)
    for name in ORIGINS
    for column, kind in enumerate(CHANGES)
]


@pytest.mark.parametrize(("imported", "kind"), PAIRS, indirect=["imported"])
def test_a_bundle_that_differs_is_not_certified(imported, tmp_path, kind):
    name, origin, bundle = imported
    change, failing = CHANGES[kind]
    shutil.copytree(bundle, tmp_path / "bundle")
    copy = BundleFolder(tmp_path / "bundle")
    copy.checksums.unlink()  # else the damage is noticed before anything is compared
    if kind == "no output bias" and "embedding.output_bias" not in load_file(copy.weights):
        pytest.skip("the model has none")
    change(copy)
    certificate = examine(Job("import", origin, tmp_path / "bundle", name))
    assert {check.name for check in certificate.failed} >= failing
    assert all(check.detail for check in certificate.failed)


PIECE = "ein"
PLANTED = [
    Replace(table=(Replacement(text="ä", by="ae"),)), Control(), Spaces(), Nfkc(), MosesPunctuation(language="en"),
    SentencePieceRule(rule="nmt_nfkc_cf"), MosesTokenize(language="en"), Lowercase(),
    Affix(chosen_by="source", pieces={"eng": PIECE}), Affix(chosen_by="target", pieces={"deu": PIECE}, place="behind"),
]  # fmt: skip


@pytest.fixture(scope="module")
def stored_bundle(tmp_path_factory):
    out = tmp_path_factory.mktemp("stored") / "bundle"
    import_model(STORED, out)
    return OurSide(out)


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("step", PLANTED, ids=lambda step: step.step)
def test_a_step_that_the_bundle_lacks_is_convicted(stored_bundle, step, side):
    model = read_huggingface(STORED)
    probes = make_probes(stored_bundle.bundle.vocab, 10)
    assert segmented_alike(stored_bundle, model, probes)
    text = replace(model.text, **{side: (*getattr(model.text, side), step)})
    assert not segmented_alike(stored_bundle, replace(model, text=text), probes)


def test_a_step_too_many_is_convicted(stored_bundle):
    model = replace(read_huggingface(STORED), text=NO_STEPS)  # without NFC
    assert not segmented_alike(stored_bundle, model, make_probes(stored_bundle.bundle.vocab, 10))


def segmented_alike(ours, model, probes) -> bool:
    theirs = ReferenceSide(model)
    return prepared_text(ours, theirs, probes).passed and segmentation(ours, theirs, probes).passed
