"""Bundles: written whole or not at all, verified when read, and readable for good."""

import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError

import nmt.checkpoint.bundle as bundle_module
from nmt.checkpoint.averaging import average, best_checkpoints, last_checkpoints
from nmt.checkpoint.bundle import TrainingState, load_bundle, load_training_state, save_bundle
from nmt.checkpoint.bundle_files import Verification, verify
from nmt.checkpoint.run_folder import RunFolder, update_links
from nmt.config import Config, ModelConfig
from nmt.data.vocab import train_vocabulary
from nmt.data.vocab_pair import VocabularyPair
from nmt.errors import CheckpointError
from nmt.io.writing import WriteError
from nmt.model.transformer import Transformer
from nmt.text.steps import SentencePieceRule
from tests import on_padded

VOCAB = train_vocabulary(["ein Haus am See", "zwei Häuser", "ein See"] * 5, size=40).vocab
PAIR = VocabularyPair.shared(VOCAB)
CONFIG = Config(model=ModelConfig(encoder_layers=1, decoder_layers=1, d_model=8, d_ff=8, heads=2))


def weights(seed: int = 0, config: Config = CONFIG):
    torch.manual_seed(seed)
    return Transformer(config.model, VOCAB.size).state_dict()


def state(update: int, scores: dict[int, float]) -> TrainingState:
    return TrainingState(
        {"exp_avg.x": torch.ones(2)},
        {"update": update, "scores": {str(u): {"loss": 2.5, "bleu": s} for u, s in scores.items()}},
    )


def save(folder: Path, seed: int = 0, **options) -> Path:
    save_bundle(folder, weights(seed), CONFIG, PAIR, **options)
    return folder


def test_a_bundle_comes_back(tmp_path):
    loaded = load_bundle(save(tmp_path / "bundle"))
    assert loaded.config == CONFIG
    assert loaded.vocab.fingerprint == PAIR.fingerprint
    assert all(torch.equal(tensor, loaded.weights[name]) for name, tensor in weights().items())
    model = loaded.build_model()
    assert torch.equal(model.embedding.weight, weights()["embedding.weight"])
    assert not model.training


def save_unlike_new(folder: Path, changes: dict[str, object]) -> Transformer:
    """Write a model whose norms and biases too are unlike those of a new one."""
    config = CONFIG.model_copy(update={"model": CONFIG.model.model_copy(update=changes)})
    torch.manual_seed(0)
    model = Transformer(config.model, VOCAB.size).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape))
    save_bundle(folder, model.state_dict(), config, PAIR)
    return model


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("changes", [{}, {"positions": "learned"}, {"norm": "pre", "attention_bias": False}])
def test_a_model_holds_the_numbers_of_its_file_and_draws_none(tmp_path, dtype, changes):
    expected = save_unlike_new(tmp_path / "bundle", changes)
    before = torch.get_rng_state()
    model = load_bundle(tmp_path / "bundle").build_model(dtype=dtype)
    assert torch.equal(torch.get_rng_state(), before)
    shutil.rmtree(tmp_path / "bundle")
    source, target = torch.tensor([[5, 6, 7, 3]]), torch.tensor([[2, 8, 9]])
    assert torch.equal(on_padded.logits(model, source, target), on_padded.logits(expected.to(dtype), source, target))


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("products", [None, torch.float32, torch.bfloat16, torch.int8])
def test_a_model_stays_as_it_is_when_its_file_is_written_over(tmp_path, monkeypatch, products, ordered):
    if products == torch.int8 and "fbgemm" not in torch.backends.quantized.supported_engines:
        pytest.skip("needs an x86 processor")
    if not ordered:
        monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    save_unlike_new(tmp_path / "bundle", {"positions": "learned", "norm": "pre"})
    model = load_bundle(tmp_path / "bundle").build_model(products=products)
    held = shutil.copytree(tmp_path / "bundle", tmp_path / "held")
    expected = load_bundle(held).build_model(products=products)
    with (tmp_path / "bundle" / "model.safetensors").open("r+b") as stream:
        stream.write(bytes(os.fstat(stream.fileno()).st_size))
    source, target = torch.tensor([[5, 6, 7, 3]]), torch.tensor([[2, 8, 9]])
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=products == torch.bfloat16):
        assert torch.equal(on_padded.logits(model, source, target), on_padded.logits(expected, source, target))


def test_the_shared_matrix_is_stored_once(tmp_path):
    names = load_bundle(save(tmp_path / "bundle")).weights
    assert sum(tensor.shape[0] == 40 for tensor in names.values()) == 1


@pytest.mark.parametrize("name", ["model.safetensors", "config.yaml", "vocab.model", "checksums.json"])
def test_a_damaged_or_missing_file_is_named(tmp_path, name):
    folder = save(tmp_path / "bundle")
    path = folder / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="damaged") as error:
        load_bundle(folder)
    assert str(folder) in str(error.value)
    if name != "checksums.json":
        path.unlink()
        with pytest.raises(CheckpointError, match=f"{name} is missing"):
            load_bundle(folder)


@pytest.mark.parametrize("name", ["x" * 256, "ö" * 128, "a/b", "..", "", "a\0b", "\ud800"])
def test_checksums_of_what_can_be_no_file_are_damaged(tmp_path, name):
    folder = save(tmp_path / "bundle")
    (folder / "checksums.json").write_text(json.dumps({name: "0" * 64}))
    with pytest.raises(CheckpointError, match=r"checksums\.json is damaged: expected a mapping from file names"):
        load_bundle(folder)


def test_verification_beforehand_refuses_the_same_of_several(tmp_path):
    whole, damaged, missing = save(tmp_path / "whole"), save(tmp_path / "damaged"), tmp_path / "missing"
    path = damaged / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    verification = Verification([whole, damaged, missing])
    load_bundle(whole, verification)
    with pytest.raises(CheckpointError, match=r"damaged/model\.safetensors is damaged"):
        load_bundle(damaged, verification)
    with pytest.raises(CheckpointError, match="no such folder"):
        load_bundle(missing, verification)


def test_bundles_are_found_and_verified_without_torch():
    # Otherwise they could not be while it is imported.
    script = (
        "import sys; import nmt.checkpoint.run_folder, nmt.checkpoint.bundle_files; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_without_checksums_three_files_are_a_bundle(tmp_path):
    folder = save(tmp_path / "bundle")
    (folder / "checksums.json").unlink()
    assert sorted(path.name for path in folder.iterdir()) == ["config.yaml", "model.safetensors", "vocab.model"]
    load_bundle(folder)


def test_a_bundle_alone_cannot_go_on_training(tmp_path):
    with pytest.raises(CheckpointError, match="no training state"):
        load_training_state(save(tmp_path / "bundle"))


def test_a_save_that_fails_leaves_what_was_there(tmp_path, monkeypatch):
    folder = save(tmp_path / "bundle", seed=1)
    before = (folder / "model.safetensors").read_bytes()

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(bundle_module, "_write_json", full)
    with pytest.raises(WriteError, match=r"bundle: cannot be written \(No space left "):
        save(folder, seed=2)
    assert (folder / "model.safetensors").read_bytes() == before
    verify(folder)
    assert os.listdir(tmp_path) == ["bundle"]  # noqa: PTH208


def test_an_error_of_the_library_that_writes_tensors_names_the_file(tmp_path, monkeypatch):
    def full(tensors, path):
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(bundle_module, "save_file", full)
    with pytest.raises(WriteError, match=r"bundle/model\.safetensors: cannot be written \(No space left on device\)"):
        save(tmp_path / "bundle")
    assert list(tmp_path.iterdir()) == []


def test_an_average_is_the_mean_and_lists_what_it_is_of(tmp_path):
    folders = [save(tmp_path / str(seed), seed) for seed in range(3)]
    average(folders, tmp_path / "average")
    loaded = load_bundle(tmp_path / "average")
    for name, tensor in loaded.weights.items():
        expected = sum(weights(seed)[name].double() for seed in range(3)) / 3
        torch.testing.assert_close(tensor.double(), expected, rtol=1e-7, atol=1e-9)
    notes = json.loads((tmp_path / "average" / "notes.json").read_text())
    assert [part["path"] for part in notes["record"]["made_from"]] == [str(folder) for folder in folders]


def test_an_average_is_validated_before_it_is_written_and_notes_the_figures(tmp_path):
    folders = [save(tmp_path / str(seed), seed) for seed in range(2)]
    seen = []

    def validate(mean):
        assert not (tmp_path / "average").exists()
        seen.append(mean.build_model().state_dict())
        return {"loss": 2.5, "bleu": None}

    average(folders, tmp_path / "average", validate=validate)
    torch.testing.assert_close(load_bundle(tmp_path / "average").build_model().state_dict(), seen[0], rtol=0, atol=0)
    assert json.loads((tmp_path / "average" / "notes.json").read_text())["validation"] == {"loss": 2.5, "bleu": None}


def test_checkpoints_that_differ_in_dropout_are_averaged_with_the_settings_of_the_last(tmp_path):
    changed = CONFIG.model_copy(update={"model": CONFIG.model.model_copy(update={"dropout": 0.375})})
    folders = [save(tmp_path / "1"), tmp_path / "2"]
    save_bundle(folders[1], weights(1), changed, PAIR)
    average(folders, tmp_path / "average")
    assert load_bundle(tmp_path / "average").config == changed


def test_a_checkpoint_is_no_run(tmp_path):
    folder = save(RunFolder(tmp_path).checkpoint(5), training=state(5, {}))
    update_links(tmp_path, {})
    for name in (folder, tmp_path / "last"):
        with pytest.raises(CheckpointError, match=rf"is a checkpoint.*Name its run: {tmp_path}$"):
            last_checkpoints(name, 5)


def test_other_models_and_vocabularies_are_not_averaged(tmp_path):
    one = save(tmp_path / "one")
    wider = CONFIG.model_copy(update={"model": CONFIG.model.model_copy(update={"d_ff": 16})})
    save_bundle(tmp_path / "wider", weights(config=wider), wider, PAIR)
    with pytest.raises(CheckpointError, match=r"model\.d_ff"):
        average([one, tmp_path / "wider"], tmp_path / "out")
    other = train_vocabulary(["ganz andere Wörter hier"] * 5, size=VOCAB.size - 10).vocab
    save_bundle(
        tmp_path / "other", Transformer(CONFIG.model, other.size).state_dict(), CONFIG, VocabularyPair.shared(other)
    )
    with pytest.raises(CheckpointError, match="another vocabulary"):
        average([one, tmp_path / "other"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_models_of_two_source_rules_are_neither_averaged_nor_an_ensemble(tmp_path):
    from nmt.machine.device import choose_hardware
    from nmt.translation.ensemble import load_ensemble

    one = save(tmp_path / "one")
    normalising = CONFIG.model_copy(
        update={"data": CONFIG.data.model_copy(update={"source_text": (SentencePieceRule(rule="nfkc"),)})}
    )
    other = tmp_path / "other"
    save_bundle(other, weights(), normalising, PAIR)
    assert load_bundle(other).config.data.steps.rule == "nfkc"
    with pytest.raises(CheckpointError, match=r"data\.source_text"):
        average([one, other], tmp_path / "out")
    with pytest.raises(CheckpointError, match="normalise source text differently"):
        load_ensemble([one, other], choose_hardware(device="cpu", precision="fp32"))


def test_the_last_are_by_update_and_the_best_by_score(tmp_path):
    """Each checkpoint knows the scores up to its own update, also those of checkpoints that were deleted."""
    scores = {5: 5.0, 20: 1.0, 50: 10.0, 100: 9.0}
    for update in (5, 20, 100, 1000):
        known = {of: score for of, score in scores.items() if of <= update}
        save(RunFolder(tmp_path).checkpoint(update), training=state(update, known))
    folder = {update: RunFolder(tmp_path).checkpoint(update) for update in (5, 20, 100, 1000)}
    assert last_checkpoints(tmp_path, 2) == [folder[100], folder[1000]]
    assert last_checkpoints(tmp_path, 9) == list(folder.values())
    assert best_checkpoints(tmp_path, 2) == [folder[5], folder[100]]


@pytest.mark.parametrize("scores", [{}, {5: math.nan}, {4: 1.0}])
def test_a_run_that_was_never_validated_has_no_best_checkpoints(tmp_path, scores):
    save(RunFolder(tmp_path).checkpoint(5), training=state(5, scores))
    with pytest.raises(CheckpointError, match=r"step-0*5: records no validation score; use --last instead of --best"):
        best_checkpoints(tmp_path, 1)


BUNDLES = sorted((Path(__file__).parent.parent / "bundles").glob("*/"))


@pytest.mark.parametrize("folder", BUNDLES, ids=lambda folder: folder.name)
def test_a_bundle_of_every_release_still_loads_and_translates_the_same(folder):
    from nmt.machine.device import choose_hardware
    from nmt.translation.ensemble import load_ensemble
    from nmt.translation.options import translate_options
    from nmt.translation.translator import Translator

    expected = json.loads((folder / "notes.json").read_text("utf-8"))["translations"]
    hardware = choose_hardware("cpu", "fp32", 1)
    ensemble = load_ensemble([folder], hardware)
    assert ensemble.vocab.source.threads == 1
    translator = Translator(ensemble, translate_options(ensemble.config.decoding))
    assert {t.source: t.text for t in translator.translate(expected)} == expected


def test_there_is_a_bundle_to_test():
    assert BUNDLES
