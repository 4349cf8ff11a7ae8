"""The certificate of an export: it fails for an exported model that differs from the bundle in any one thing."""

import dataclasses
from pathlib import Path

import pytest

from nmt.checkpoint.bundle import Bundle
from nmt.convert.certificate.examining import Job, examine
from nmt.convert.formats import WRITABLE, find_target
from nmt.data.vocab import Vocabulary
from nmt.data.vocab_pair import VocabularyPair
from nmt.errors import NmtError
from tests.convert.conftest import weights_of
from tests.convert.test_argos import with_languages
from tests.convert.test_quantized import TEXT


@pytest.fixture(scope="module", params=[form.name for form in WRITABLE])
def target(request):
    target = find_target(request.param)
    if target.package == "ctranslate2":
        pytest.importorskip("ctranslate2", reason="an extra is not installed")
    return target


@pytest.fixture(scope="module")
def bundle(make_bundle, tmp_path_factory) -> Bundle:
    """A model that every format can express."""
    made = make_bundle(positions="tensor2tensor", decoder_start="zero", norm_epsilon=1e-6, output_bias=True)
    return with_languages(made, tmp_path_factory.mktemp("changes") / "bundle", "en", "de")


def with_weights(change):
    def changed(bundle: Bundle) -> Bundle:
        weights = weights_of(bundle)
        change(weights)
        return dataclasses.replace(bundle, weights=weights)

    return changed


def with_settings(**settings):
    def changed(bundle: Bundle) -> Bundle:
        model = bundle.config.model.model_copy(update=settings)
        return dataclasses.replace(bundle, config=bundle.config.model_copy(update={"model": model}))

    return changed


def with_two_pieces_swapped(bundle: Bundle) -> Bundle:
    """Two pieces of the SentencePiece model, whose names are equally long, change their ids."""
    vocab = bundle.vocab.source
    names = [piece.encode() for piece in vocab.pieces(range(4, vocab.size))]
    first, second = next((a, b) for a in names for b in names if a < b and len(a) == len(b) > 3)
    fields = [b"\n" + bytes([len(name)]) + name for name in (first, second)]
    parts = [part.replace(fields[1], fields[0]) for part in vocab.model_bytes.split(fields[0])]
    assert len(parts) == 2
    return dataclasses.replace(bundle, vocab=VocabularyPair.shared(Vocabulary(fields[1].join(parts))))


def negate_a_tensor(weights) -> None:
    weights["decoder.0.cross_attention.output.weight"] *= -1


def scale_a_tensor(weights) -> None:
    weights["decoder.0.cross_attention.output.weight"] *= 1.5


def negate_a_row(weights) -> None:
    weights["encoder.1.feed_forward.inner.weight"][2] *= -1


def zero_a_bias(weights) -> None:
    weights["decoder.0.feed_forward.output.bias"][:] = 0


def zero_the_output_bias(weights) -> None:
    weights["embedding.output_bias"][4:] = 0


CHANGES = {
    "a tensor negated": with_weights(negate_a_tensor),
    "a tensor of another scale": with_weights(scale_a_tensor),
    "a row negated": with_weights(negate_a_row),
    "a bias of zeros": with_weights(zero_a_bias),
    "an output bias of zeros": with_weights(zero_the_output_bias),
    "two pieces swapped": with_two_pieces_swapped,
    "another epsilon": with_settings(norm_epsilon=0.01),
    "positions shifted by one": with_settings(first_position=1),
}
REFUSED = {
    ("huggingface", "another epsilon"): "norm_epsilon: 0.01",
}
"""What a format cannot express, as the error names it."""


def failures(
    bundle: Bundle, changed: Bundle, target, folder: Path, quantization: str | None = None, lines: tuple[str, ...] = ()
) -> set[str]:
    """The checks that fail where another model is exported; the error where the format cannot express it."""
    folder.mkdir()
    quantization = quantization or target.quantizations[0]
    try:
        target.write(changed, folder, quantization)
        job = Job("export", bundle.folder, folder, target.name, quantization=quantization, lines=lines)
        return {check.name for check in examine(job).failed}
    except NmtError as error:
        return {str(error)}


def test_a_good_export_is_certified(bundle, target, tmp_path):
    assert failures(bundle, bundle, target, tmp_path / "out") == set()


# In short, each kind of change in one format.
IN_SHORT = ("ctranslate2", "huggingface")
PAIRS = [
    pytest.param(form.name, kind, marks=() if form.name == IN_SHORT[column % 2] else pytest.mark.slow)
    for form in WRITABLE
    for column, kind in enumerate(CHANGES)
]


@pytest.mark.parametrize(("target", "kind"), PAIRS, indirect=["target"])
def test_an_export_that_differs_is_not_certified(bundle, target, tmp_path, kind):
    found = failures(bundle, CHANGES[kind](bundle), target, tmp_path / "out")
    assert "forced scores" in found or f"cannot express {REFUSED[target.name, kind]}" in str(found)


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, -1])
def test_a_quantized_export_is_certified_unless_its_model_is_damaged(bundle, target, tmp_path, number):
    quantization = target.quantizations[number]
    assert failures(bundle, bundle, target, tmp_path / "good", quantization, TEXT) == set()
    damaged = CHANGES["a tensor of another scale"](bundle)
    assert "tensors" in failures(bundle, damaged, target, tmp_path / "damaged", quantization, TEXT)
