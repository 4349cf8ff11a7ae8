"""Settings that do not fit the weights are refused by the header alone, before anything is built."""

import json
import time
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

from nmt.checkpoint.bundle import load_bundle, save_bundle
from nmt.config import Config, ModelConfig
from nmt.data.vocab import train_vocabulary
from nmt.data.vocab_pair import VocabularyPair
from nmt.errors import CheckpointError
from nmt.model.transformer import Transformer

VOCAB = train_vocabulary(["ein Haus am See", "zwei Häuser", "ein See"] * 5, size=40).vocab
PAIR = VocabularyPair.shared(VOCAB)
OTHER = train_vocabulary(["ein Haus am See", "zwei Häuser", "ein See"] * 5, size=24).vocab
SIZES = {"encoder_layers": 2, "decoder_layers": 1, "d_model": 8, "d_ff": 12, "heads": 2}
VARIANTS = [
    {"tied_embeddings": "decoder", "output_bias": True},
    {"tied_embeddings": "none", "positions": "tensor2tensor"},
    {},
    {"norm": "pre"},
    {"positions": "learned"},
    {"attention_bias": False},
    {"d_k": 3, "d_v": 5},
    {"attention": "additive"},
]


def bundle(folder: Path, **sizes) -> Path:
    config = Config(model=ModelConfig(**(SIZES | sizes)))
    save_bundle(folder, Transformer(config.model, VOCAB.size).state_dict(), config, PAIR)
    (folder / "checksums.json").unlink()  # as whoever changes a bundle would
    return folder


def change_settings(folder: Path, **sizes) -> None:
    settings = yaml.safe_load((folder / "config.yaml").read_text())
    settings["model"] |= sizes
    (folder / "config.yaml").write_text(yaml.safe_dump(settings))


@pytest.fixture
def nothing_is_built(monkeypatch):
    """No weights are read, and no model is made that takes memory."""

    def build(self, *arguments, **options):
        assert torch.empty(0).device.type == "meta", "a model was built"
        made(self, *arguments, **options)

    made = Transformer.__init__
    monkeypatch.setattr(Transformer, "__init__", build)
    monkeypatch.setattr("nmt.checkpoint.bundle.load_file", lambda path: pytest.fail("weights were read"))


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_what_belongs_together_fits(variant, tmp_path):
    loaded = load_bundle(bundle(tmp_path / "bundle", **variant))
    loaded.build_model()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"encoder_layers": 1}, "model.encoder_layers is 1, but the weights have 2"),
        ({"decoder_layers": 10**12}, "model.decoder_layers is 1000000000000, but the weights have 1"),
        ({"d_model": 16}, ", expected "),
        ({"d_model": 2**40, "d_k": 4, "d_v": 4}, "do not fit"),
        ({"d_ff": 2**62}, "do not fit"),
        ({"heads": 2**50, "d_k": 1, "d_v": 1}, "do not fit"),
        ({"heads": 4, "d_k": 3, "d_v": 3}, ", expected "),
        ({"norm": "pre"}, "lack decoder_norm.bias, decoder_norm.weight, encoder_norm.bias and 1 more"),
        ({"positions": "learned"}, "lack"),
        ({"max_positions": 10**12}, "model.max_positions is 1000000000000, which needs more memory than there is"),
        ({"attention_bias": False}, "which the model does not have"),
        ({"attention": "additive"}, "lack"),
    ],
    ids=str,
)
def test_settings_of_another_model_are_refused(changes, message, tmp_path, nothing_is_built):
    folder = bundle_without_guard(tmp_path)
    change_settings(folder, **changes)
    start = time.process_time()
    with pytest.raises(CheckpointError) as caught:
        load_bundle(folder)
    assert time.process_time() - start < 5
    assert message in str(caught.value)
    assert str(folder) in str(caught.value)


def bundle_without_guard(tmp_path: Path) -> Path:
    """A bundle, made where no model may be."""
    shapes = {}
    config = Config(model=ModelConfig(**SIZES))
    with torch.device("meta"):
        shapes = {name: tensor.shape for name, tensor in Transformer(config.model, VOCAB.size).state_dict().items()}
    save_bundle(tmp_path / "bundle", {name: torch.zeros(shape) for name, shape in shapes.items()}, config, PAIR)
    (tmp_path / "bundle" / "checksums.json").unlink()
    return tmp_path / "bundle"


def test_the_vocabulary_of_another_model_is_refused(tmp_path, nothing_is_built):
    folder = bundle_without_guard(tmp_path)
    (folder / "vocab.model").write_bytes(OTHER.model_bytes)
    with pytest.raises(CheckpointError, match=r"embedding.weight is 40 x 8, expected 24 x 8"):
        load_bundle(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tensors: tensors.popitem(), "lack"),
        (lambda tensors: tensors.update(more=torch.zeros(1)), "hold more, which"),
        (lambda tensors: tensors.update({"embedding.weight": torch.zeros(40, 9)}), "40 x 9, expected 40 x 8"),
        (lambda tensors: tensors.update({"embedding.weight": torch.zeros(())}), "a single number, expected 40 x 8"),
        (lambda tensors: tensors.update({"embedding.weight": torch.zeros(40, 8, dtype=torch.int32)}), "not floating"),
    ],
)
def test_weights_of_another_model_are_refused(change, message, tmp_path, nothing_is_built):
    folder = bundle_without_guard(tmp_path)
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match=message):
        load_bundle(folder)


@pytest.mark.parametrize("content", [b"", bytes(8), b"\xff" * 64, (10**6).to_bytes(8, "little") + b"{}"])
def test_a_header_that_is_damaged_is_refused(content, tmp_path, nothing_is_built):
    folder = bundle_without_guard(tmp_path)
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"model\.safetensors: cannot be read"):
        load_bundle(folder)


def test_a_header_that_claims_more_than_the_file_holds_is_refused(tmp_path, nothing_is_built):
    folder = bundle_without_guard(tmp_path)
    header = json.dumps(
        {"embedding.weight": {"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [0, 4]}}
    ).encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    with pytest.raises(CheckpointError, match=r"model\.safetensors: cannot be read"):
        load_bundle(folder)
