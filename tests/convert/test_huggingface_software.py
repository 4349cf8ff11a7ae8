"""Stock transformers computes what we do: from models of MarianMT that we import, and from folders that we export."""

import json
import subprocess
import sys

import pytest
import torch

from nmt.checkpoint.bundle import load_bundle, save_bundle
from nmt.config import Config, DataConfig, ModelConfig
from nmt.convert.certificate.examining import Job, examine
from nmt.convert.certificate.our_side import OurSide
from nmt.convert.converting import export_model, import_model
from nmt.convert.formats import find_target
from nmt.convert.huggingface.reading import read_huggingface
from nmt.convert.vocabulary import our_vocabulary
from nmt.convert.weights import our_weights
from nmt.data.vocab import train_vocabulary
from nmt.data.vocab_pair import VocabularyPair
from nmt.model.transformer import Transformer
from tests.convert.conftest import SIZES, repeat
from tests.convert.marian_mt import SOURCE_LINES, TAGS, TARGET_LINES, write_model

HUGGINGFACE = find_target("huggingface")
pytest.importorskip("transformers", reason="transformers is not installed")

ALL = {"segmentation", "text", "encoder states", "forced scores", "greedy outputs", "beam scores"}
THEIR_MODELS = {
    "tied, swish": {},
    "another first vector, relu": {"zero_start": False, "activation_function": "relu"},
    "separate vocabularies": {"separate": True},
    "nothing tied": {"separate": True, "tie_word_embeddings": False, "zero_start": False},
    "several languages, gelu": {"tags": TAGS, "activation_function": "gelu"},
    "embeddings that are not scaled": {"scale_embedding": False, "activation_function": "quick_gelu"},
    "float16 in several files": {"dtype": torch.float16, "shard_size": "8KB"},
}
OUR_MODELS = {
    "the paper's": {},
    "halves, swish": {"positions": "sinusoidal_halves", "activation": "swish"},
    "nothing tied, gelu": {
        "attention_bias": False,
        "output_bias": True,
        "tied_embeddings": "none",
        "activation": "gelu",
    },
    "zeros first": {"decoder_start": "zero"},
    "Tensor2Tensor's positions, quick_gelu": {"positions": "tensor2tensor", "activation": "quick_gelu"},
}


def software_checks(certificate):
    """The checks that transformers took part in."""
    assert not certificate.failed, certificate.failed
    assert "transformers" in certificate.software
    return {check.name: check for check in certificate.checks if check.oracle.startswith("transformers")}


def imported(origin, folder):
    """The bundle of a model, without its certificate."""
    model = read_huggingface(origin)
    data = DataConfig(source_text=model.text.source, target_text=model.text.target)
    save_bundle(folder, our_weights(model), Config(model=model.config, data=data), our_vocabulary(model))
    return folder


def exported(bundle, folder, lines=()):
    return Job("export", bundle, folder, "huggingface", quantization="float32", lines=lines)


@pytest.mark.parametrize("name", THEIR_MODELS)
def test_a_model_of_random_weights_is_the_same_in_both_directions(name, tmp_path):
    write_model(tmp_path / "theirs", **THEIR_MODELS[name])
    bundle = imported(tmp_path / "theirs", tmp_path / "bundle")
    job = Job("import", tmp_path / "theirs", bundle, "huggingface", lines=tuple(SOURCE_LINES))
    assert software_checks(examine(job)).keys() == ALL
    (tmp_path / "back").mkdir()
    HUGGINGFACE.write(load_bundle(bundle), tmp_path / "back", "float32")
    certificate = examine(exported(bundle, tmp_path / "back", tuple(SOURCE_LINES)))
    assert software_checks(certificate).keys() == ALL


@pytest.mark.parametrize("name", OUR_MODELS)
def test_a_model_of_ours_is_the_same_there(name, make_bundle, tmp_path):
    bundle = make_bundle(**OUR_MODELS[name])
    (tmp_path / "out").mkdir()
    HUGGINGFACE.write(bundle, tmp_path / "out", "float32")
    checks = software_checks(examine(exported(bundle.folder, tmp_path / "out")))
    assert checks.keys() == ALL


@pytest.fixture(scope="module")
def byte_bundle(tmp_path_factory):
    """A model that has learnt for a moment to repeat its source, with pieces for single bytes."""
    vocab = train_vocabulary((SOURCE_LINES + TARGET_LINES) * 5, size=320, byte_fallback=True).vocab
    config = Config(model=ModelConfig(**(SIZES | {"dropout": 0.0, "max_positions": 64})))
    torch.manual_seed(3)
    model = Transformer(config.model, vocab.size)
    repeat(model)
    folder = tmp_path_factory.mktemp("bytes") / "bundle"
    save_bundle(folder, model.state_dict(), config, VocabularyPair.shared(vocab))
    return folder


def test_export_and_import_in_fresh_processes(byte_bundle, tmp_path):
    exported = export_model(byte_bundle, tmp_path / "out", to="huggingface", lines=SOURCE_LINES)
    assert software_checks(exported).keys() == ALL
    back = import_model(tmp_path / "out", tmp_path / "back", lines=SOURCE_LINES)
    assert software_checks(back).keys() == ALL
    before, after = OurSide(byte_bundle), OurSide(tmp_path / "back")
    sources = before.segment(SOURCE_LINES, "source")
    assert after.segment(SOURCE_LINES, "source") == sources
    expected, found = (side.search(sources, 4, 40) for side in (before, after))
    assert [[one.pieces for one in beam] for beam in found] == [[one.pieces for one in beam] for beam in expected]


def test_the_lines_of_its_readme_translate_without_nmt(byte_bundle, tmp_path):
    export_model(byte_bundle, tmp_path / "out", to="huggingface")
    usage = HUGGINGFACE.usage(load_bundle(byte_bundle), "out")
    assert usage.strip() in (tmp_path / "out" / "README.md").read_text()
    program = usage.replace('["..."]', repr(SOURCE_LINES)).replace(
        "generate(**batch)", "generate(**batch, num_beams=1)"
    )
    assert program != usage
    guarded = (
        "import sys\nsys.modules['nmt'] = None\n" + program.replace("print(", "import json\nprint(json.dumps(") + ")"
    )
    result = subprocess.run(
        [sys.executable, "-P", "-c", guarded], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=300
    )
    ours = OurSide(byte_bundle)
    outputs = ours.search(ours.segment(SOURCE_LINES, "source"), 1, 63)
    assert json.loads(result.stdout) == [text.strip() for text in ours.text([best.pieces for [best] in outputs])]


NASTY = [
    "emoji 😀 👩‍👩‍👧‍👦 🇩🇪",
    "control \x01\x07\x1b",
    "a >>xx<< b",
    "a       b",
    "</s> <pad> <s> <unk>",
    "Ω ≈ ç",
    "e\u0301",
]


def test_text_of_any_kind_survives_the_tokenizer(byte_bundle, tmp_path):
    from transformers import AutoTokenizer, MarianTokenizer

    HUGGINGFACE.write(bundle := load_bundle(byte_bundle), tmp_path, "float32")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    assert isinstance(tokenizer, MarianTokenizer)
    for line in NASTY:
        ids = tokenizer(line)["input_ids"]
        assert ids == [*bundle.vocab.source.encode([line])[0], 3]
        assert tokenizer(text_target=line)["input_ids"] == ids
        assert tokenizer.decode(ids, skip_special_tokens=True) == " ".join(line.split())
