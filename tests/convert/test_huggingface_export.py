"""Our models as folders of MarianMT, without transformers: the folders are read again, and computed by NumPy."""

import errno
import json
import os
import shutil
from dataclasses import replace

import pytest
import torch

from nmt.checkpoint.bundle import load_bundle, save_bundle
from nmt.config import Config, ModelConfig
from nmt.convert import converting
from nmt.convert.certificate.checks import COMPARISONS, LOG_PROBABILITY_LIMIT, encoder_states, forced_scores
from nmt.convert.certificate.our_side import OurSide
from nmt.convert.certificate.probes import make_probes
from nmt.convert.certificate.reference_side import ReferenceSide
from nmt.convert.converting import export_model, exported_kind
from nmt.convert.formats import find_target
from nmt.convert.huggingface.reading import read_huggingface
from nmt.convert.huggingface.writing import sines_first, with_features
from nmt.data.vocab import train_vocabulary
from nmt.data.vocab_pair import VocabularyPair
from nmt.errors import CheckpointError, NmtError
from nmt.io.files import replacing_folder
from nmt.io.writing import WriteError
from nmt.model.transformer import Transformer
from tests import on_padded
from tests.convert.conftest import SIZES
from tests.convert.marian_mt import SOURCE_LINES, TARGET_LINES
from tests.faults.disk import Disk, Fault, mounted

HUGGINGFACE = find_target("huggingface")
MODELS = [
    pytest.param({}, id="the paper's"),
    pytest.param({"positions": "sinusoidal_halves", "activation": "swish"}, id="halves, swish"),
    pytest.param({"attention_bias": False, "output_bias": True, "tied_embeddings": "none"}, id="biases, nothing tied"),
    pytest.param({"decoder_start": "zero", "activation": "gelu"}, id="zeros first, gelu"),
    pytest.param({"decoder_start": "zero", "tied_embeddings": "decoder"}, id="zeros first, a source matrix"),
    pytest.param({"positions": "tensor2tensor", "activation": "quick_gelu"}, id="Tensor2Tensor's positions"),
    pytest.param({"positions": "learned", "output_bias": True}, id="learned positions"),
    pytest.param({"first_position": 2}, id="positions from 2 on"),
]


@pytest.fixture(scope="module")
def byte_vocab():
    lines = (SOURCE_LINES + TARGET_LINES) * 5
    return train_vocabulary(lines, size=320, byte_fallback=True).vocab


@pytest.fixture(scope="module")
def random_bundle(byte_vocab, tmp_path_factory):
    """A bundle of random weights, whose vocabulary spells unknown characters in bytes."""

    def make(decoding=None, **settings):
        config = Config(model=ModelConfig(**(SIZES | settings)), **({} if decoding is None else {"decoding": decoding}))
        torch.manual_seed(5)
        model = Transformer(config.model, byte_vocab.size)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.3 * torch.randn_like(parameter))
        folder = tmp_path_factory.mktemp("random") / "bundle"
        save_bundle(folder, model.state_dict(), config, VocabularyPair.shared(byte_vocab))
        return load_bundle(folder)

    return make


def written(bundle, folder, quantization="float32"):
    folder.mkdir(exist_ok=True)
    HUGGINGFACE.write(bundle, folder, quantization)
    return folder


def failures(checks):
    return [check for check in checks if not check.passed]


@pytest.mark.parametrize("settings", MODELS)
def test_the_folder_computes_what_the_bundle_does(settings, random_bundle, tmp_path):
    bundle = random_bundle(**settings)
    folder = written(bundle, tmp_path / "out")
    assert not failures(HUGGINGFACE.check_files(folder, bundle, "float32"))
    ours, theirs = OurSide(bundle.folder), ReferenceSide(read_huggingface(folder))
    probes = make_probes(bundle.vocab, bundle.config.model.max_positions - 1)
    # The features of states stand in another order.
    found = [compare(ours, theirs, probes) for compare in COMPARISONS if compare is not encoder_states]
    assert not failures(filter(None, found))
    assert len(list(filter(None, found))) == len(COMPARISONS) - 1


def test_the_settings_are_those_of_the_bundle(random_bundle, tmp_path):
    decoding = {"beam": 3, "length_penalty": 0.7, "length_normalization": "length"}
    folder = written(random_bundle(decoding, activation="swish"), tmp_path / "out")
    model = read_huggingface(folder)
    assert (model.decoding.beam, model.decoding.length_penalty) == (3, 0.7)
    generation = json.loads((folder / "generation_config.json").read_text())
    assert generation["bad_words_ids"] == [[0], [1], [2]]  # pad, unk and bos
    assert (generation["decoder_start_token_id"], generation["eos_token_id"], generation["max_length"]) == (2, 3, 24)
    config = json.loads((folder / "config.json").read_text())
    assert (config["forced_eos_token_id"], config["activation_function"], config["dtype"]) == (3, "swish", "float32")


def test_languages_and_dropouts_are_those_of_the_bundle(random_bundle, tmp_path):
    rates = {"dropout": 0.3, "attention_dropout": 0.2, "activation_dropout": 0.1}
    bundle = random_bundle(**rates)
    data = bundle.config.data.model_copy(update={"source_lang": "fr", "target_lang": "nl"})
    folder = written(replace(bundle, config=bundle.config.model_copy(update={"data": data})), tmp_path / "out")
    model = read_huggingface(folder)
    assert (model.source_lang, model.target_lang) == ("fr", "nl")
    config = json.loads((folder / "config.json").read_text())
    assert {name: config[name] for name in rates} == rates


def test_weights_in_half_the_bits_are_rounded(random_bundle, tmp_path):
    bundle = random_bundle()
    for quantization in HUGGINGFACE.quantizations:
        folder = written(bundle, tmp_path / quantization, quantization)
        assert not failures(HUGGINGFACE.check_files(folder, bundle, quantization))
    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("float32", "float16", "bfloat16")]
    assert sizes[0] > 1.7 * sizes[1]
    assert abs(sizes[1] - sizes[2]) < 100
    [tensors] = HUGGINGFACE.check_files(tmp_path / "bfloat16", bundle, "float16")
    assert not tensors.passed


def test_numbers_that_float16_cannot_hold_are_refused(random_bundle, tmp_path):
    bundle = random_bundle()
    bundle.weights["encoder.0.feed_forward.inner.weight"][0, 0] = 1e6
    with pytest.raises(NmtError, match=r"fc1\.weight has numbers that float16 cannot hold\. Choose bfloat16"):
        written(bundle, tmp_path / "out", "float16")


def test_known_differences_are_remarked_on(random_bundle):
    def remarks(decoding=None, **settings):
        return HUGGINGFACE.remarks(random_bundle(decoding, **settings)).keys()

    always = {"max_extra_length", "text"}
    length = {"length_normalization": "length"}
    assert remarks(length, norm_epsilon=1e-5) == always
    assert remarks(length) == always | {"norm_epsilon"}
    assert remarks({"length_penalty": 0}, norm_epsilon=1e-5) == always
    assert remarks(norm_epsilon=1e-5, positions="tensor2tensor") == always | {"length_penalty", "positions"}


def test_another_epsilon_is_a_remark_with_its_size_and_hides_no_error(random_bundle, tmp_path, monkeypatch):
    bundle = random_bundle(tied_embeddings="none")
    last = f"decoder.{SIZES['decoder_layers'] - 1}.feed_forward_norm"
    small = [name for name in bundle.weights if ("norm" in name or ".output." in name) and last not in name]
    weights = {name: weight * (0.02 if name in small else 1) for name, weight in bundle.weights.items()}
    save_bundle(tmp_path / "bundle", weights, bundle.config, bundle.vocab)
    certificate = export_model(tmp_path / "bundle", tmp_path / "out", to="huggingface")
    [remark] = [each for each in certificate.remarks if "epsilon" in each]
    beginning, _, size = remark.removesuffix(".").rpartition(" ")
    assert beginning == (
        "The layer norms of Hugging Face MarianMT have an epsilon of 1e-05, those of the model 1e-06: "
        "log-probabilities of pieces change by at most"
    )
    own, other = OurSide(tmp_path / "bundle"), OurSide(tmp_path / "bundle", norm_epsilon=1e-5)
    change = forced_scores(own, other, make_probes(bundle.vocab, bundle.config.model.max_positions - 1))
    assert float(size) == pytest.approx(change.figure, rel=0.1) and change.figure > LOG_PROBABILITY_LIMIT
    assert all(check.figure <= LOG_PROBABILITY_LIMIT / 10 for check in certificate.checks if "scores" in check.name)
    monkeypatch.setattr("nmt.convert.huggingface.folder.NORM_EPSILON", 3e-5)
    with pytest.raises(CheckpointError, match="the exported model differs from it"):
        export_model(tmp_path / "bundle", tmp_path / "other", to="huggingface")


def test_a_post_norm_model_computes_the_same_with_its_features_in_another_order():
    settings = SIZES | {"dropout": 0.0, "tied_embeddings": "none"}
    paper = Transformer(ModelConfig(**settings), 40).double().eval()
    halves = Transformer(ModelConfig(**settings, positions="sinusoidal_halves"), 40).double().eval()
    halves.load_state_dict(with_features(paper.state_dict(), sines_first(settings["d_model"])))
    source_BS, target_BT = torch.randint(4, 40, (2, 3, 7))
    with torch.no_grad():
        assert torch.allclose(*(on_padded.logits(model, source_BS, target_BT) for model in (paper, halves)), atol=1e-6)
        paper.load_state_dict(with_features(halves.state_dict(), sines_first(settings["d_model"]).argsort()))
        assert torch.allclose(*(on_padded.logits(model, source_BS, target_BT) for model in (paper, halves)), atol=1e-6)


def test_a_link_that_training_moves_meanwhile_changes_nothing(random_bundle, monkeypatch, tmp_path):
    first, second = random_bundle(), random_bundle(output_bias=True)
    link = tmp_path / "last"
    link.symlink_to(first.folder)

    def load_and_move(folder):
        bundle = load_bundle(folder)
        link.unlink()
        link.symlink_to(second.folder)
        return bundle

    monkeypatch.setattr(converting, "load_bundle", load_and_move)
    certificate = export_model(link, tmp_path / "out", to="huggingface")
    assert not certificate.failed


def test_a_full_disk_is_one_error_and_leaves_nothing(random_bundle, tmp_path):
    bundle = random_bundle()

    def export(fault=None):
        with (
            mounted(Disk(tmp_path, fault)) as disk,
            replacing_folder(tmp_path / "out", exported_kind(HUGGINGFACE)) as out,
        ):
            HUGGINGFACE.write(bundle, out, "float32")
        return disk.operations

    operations = [operation for operation in dict.fromkeys(export()) if operation.kind in ("make", "write")]
    names = {"model.safetensors", "vocab.json", "source.spm", "target.spm"}
    assert {operation.writer.rpartition("/")[2] for operation in operations} >= names
    for operation in operations:
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        with pytest.raises(WriteError, match=os.strerror(errno.ENOSPC)):
            export(Fault(operation, 0, errno.ENOSPC))
        assert list(tmp_path.iterdir()) == []
