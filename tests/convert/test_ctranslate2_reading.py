"""Models of CTranslate2 and packages of Argos Translate, read again as bundles."""

import json
import struct

import numpy as np
import pytest

from nmt.checkpoint.bundle import load_bundle
from nmt.config import DecodingConfig
from nmt.convert.argos import package_name, write_argos
from nmt.convert.converting import import_model
from nmt.convert.ctranslate2.reading import read_ctranslate2, read_variables
from nmt.convert.ctranslate2.writing import write_ctranslate2
from nmt.errors import CheckpointError
from tests.convert.test_argos import with_languages

pytest.importorskip("ctranslate2", reason="the extra `ctranslate2` is not installed")
MODELS = [
    pytest.param({}, id="the paper's"),
    pytest.param(
        {
            "norm": "pre",
            "activation": "swish",
            "positions": "learned",
            "tied_embeddings": "decoder",
            "output_bias": True,
        },
        id="pre-norm, learned positions, a source matrix, an output bias",
    ),
    pytest.param(
        {
            "attention_bias": False,
            "norm_epsilon": 0.3,
            "activation": "gelu",
            "is_foreign": True,
            "tied_embeddings": "none",
        },
        id="no attention bias, two vocabularies, nothing tied",
    ),
    pytest.param({"positions": "tensor2tensor", "decoder_start": "zero"}, id="other positions, zeros first"),
]


@pytest.fixture
def exported(make_bundle, tmp_path):
    """Exports a model, and returns its bundle and the folder."""

    def make(settings=(), quantization="float32"):
        bundle, folder = make_bundle(**dict(settings)), tmp_path / "exported"
        folder.mkdir()
        write_ctranslate2(bundle, folder, quantization)
        return bundle, folder

    return make


@pytest.mark.parametrize("settings", MODELS)
def test_an_export_comes_back_as_the_same_model(exported, settings, tmp_path):
    bundle, folder = exported(settings)
    certificate = import_model(folder, tmp_path / "back")
    assert not certificate.failed
    assert any(check.oracle.startswith("CTranslate2") for check in certificate.checks)
    back = load_bundle(tmp_path / "back")
    assert back.config.model.norm_epsilon == pytest.approx(bundle.config.model.norm_epsilon)
    for name in ("norm", "activation", "decoder_start", "attention_bias", "encoder_layers", "heads"):
        assert getattr(back.config.model, name) == getattr(bundle.config.model, name)
    assert back.vocab.source.encode("ba do ki") == bundle.vocab.source.encode("ba do ki")


@pytest.mark.parametrize("quantization", ["int8", "int16", "float16", "bfloat16", "int8_bfloat16"])
def test_stored_weights_of_fewer_bits_stand_for_numbers(exported, quantization):
    bundle, folder = exported(quantization=quantization)
    model = read_ctranslate2(folder)
    found, wanted = (
        model.parameter("encoder.0.feed_forward.inner.weight"),
        bundle.weights["encoder.0.feed_forward.inner.weight"],
    )
    assert abs(found - wanted.numpy()).max() <= abs(wanted).max() / 100
    assert any("stored as int" in remark for remark in model.remarks) == ("int" in quantization)


def test_a_quantized_model_is_imported_with_its_certificate(exported, tmp_path):
    _, folder = exported(quantization="int8")
    assert not import_model(folder, tmp_path / "back").failed


def test_a_package_comes_back_with_its_languages(make_bundle, tmp_path):
    bundle = with_languages(make_bundle(), tmp_path / "bundle", "en", "de")
    (tmp_path / "out").mkdir()
    write_argos(bundle, tmp_path / "out")
    certificate = import_model(tmp_path / "out" / f"{package_name(bundle)}.argosmodel", tmp_path / "back")
    assert not certificate.failed
    back = load_bundle(tmp_path / "back")
    assert (back.config.data.source_lang, back.config.data.target_lang) == ("en", "de")
    assert (back.config.decoding.beam, back.config.decoding.length_penalty) == (4, 0.2)


def test_settings_that_say_no_eos_are_followed(exported):
    _, folder = exported()
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"add_source_eos": False}))
    model = read_ctranslate2(folder)
    assert model.config.source_eos is False
    assert any("read without eos" in remark for remark in model.remarks)


def test_settings_that_nobody_knows_are_a_remark(exported):
    _, folder = exported()
    assert not any("does not know" in remark for remark in read_ctranslate2(folder).remarks)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"twist": 3}))
    assert any("does not know: twist." in remark for remark in read_ctranslate2(folder).remarks)


def cut(content):
    return content[: len(content) // 2]


def with_alibi(content):
    """The attribute is a number of 8 bits: rank 0, type 1, 1 byte."""
    name = b"decoder/alibi\0\0\1" + struct.pack("<I", 1)
    return content.replace(name + b"\0", name + b"\1")


def with_version(number):
    return lambda content: struct.pack("<I", number) + content[4:]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (cut, "is not a model of CTranslate2, or is damaged"),
        (lambda content: b"", "is not a model of CTranslate2, or is damaged"),
        (with_version(99), "it has version 99; 4 to 6 can be read"),
        (lambda content: content.replace(b"TransformerSpec", b"WhisperSpec1234"), "it is a WhisperSpec1234, not a"),
        (with_alibi, "has decoder/alibi: 1"),
    ],
    ids=["cut off", "empty", "newer", "another model", "an attention that ours lacks"],
)  # fmt: skip
def test_what_cannot_be_read_is_named(exported, spoil, message):
    _, folder = exported()
    content = (folder / "model.bin").read_bytes()
    assert spoil(content) != content
    (folder / "model.bin").write_bytes(spoil(content))
    with pytest.raises(CheckpointError, match=message):
        read_ctranslate2(folder)


def test_a_size_that_the_file_does_not_have_is_refused(tmp_path):
    name = b"TransformerSpec\0"
    head = struct.pack("<IH", 6, len(name)) + name + struct.pack("<II", 1, 1)
    variable = struct.pack("<H", 2) + b"x\0" + struct.pack("<BIIBI", 2, 1 << 15, 1 << 15, 0, 0xFFFFFFFC)
    (tmp_path / "model.bin").write_bytes(head + variable)
    with pytest.raises(CheckpointError, match="has impossible sizes"):
        read_variables(tmp_path / "model.bin")


def rewritten(folder, change, version=6):
    """Write the model with other variables."""
    variables = read_variables(folder / "model.bin")
    change(variables)
    content = struct.pack("<I", version) + text_of("TransformerSpec") + struct.pack("<II", 6, len(variables))
    types = {"float32": 0, "int8": 1, "int16": 2, "int32": 3}
    for name, values in variables.items():
        content += text_of(name) + struct.pack("<B", values.ndim) + struct.pack(f"<{values.ndim}I", *values.shape)
        content += struct.pack("<BI", types[values.dtype.name], values.nbytes) + values.tobytes()
    (folder / "model.bin").write_bytes(content + struct.pack("<I", 0))


def text_of(text):
    return struct.pack("<H", len(text) + 1) + text.encode() + b"\0"


def test_a_model_without_tables_of_positions_computes_its_own(exported, tmp_path):
    _, folder = exported()
    tables = [f"{part}/position_encodings/encodings" for part in ("encoder", "decoder")]
    rewritten(folder, lambda variables: [variables.pop(table) for table in tables])
    certificate = import_model(folder, tmp_path / "back")
    assert not certificate.failed
    assert any(check.oracle.startswith("CTranslate2") for check in certificate.checks)
    model = load_bundle(tmp_path / "back").config.model
    assert (model.positions, model.first_position) == ("tensor2tensor", 1)


@pytest.mark.parametrize("start", ["</s>", "<pad>"])
def test_a_model_that_starts_with_another_piece_has_no_second_one_of_it(exported, start, tmp_path):
    _, folder = exported()
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"decoder_start_token": start}))
    assert not import_model(folder, tmp_path / "back").failed


@pytest.mark.parametrize("start", [None, "<nope>"])
def test_a_start_that_is_no_piece_is_named(exported, start):
    _, folder = exported()
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"decoder_start_token": start}))
    with pytest.raises(CheckpointError, match=r"has decoder_start_token: .*, which is no piece of the target"):
        read_ctranslate2(folder)


def test_settings_of_version_5_lie_in_the_file(exported, tmp_path):
    _, folder = exported()
    (folder / "config.json").unlink()

    def add(variables):
        flags = {"with_source_bos": 0, "with_source_eos": 1, "with_target_bos": 1, "user_decoder_start_tokens": 0}
        variables |= {name: np.array(value, np.int8) for name, value in flags.items()}
        for name, text in (("unk_token", b"<unk>"), ("bos_token", b"<s>"), ("eos_token", b"</s>")):
            variables[name] = np.frombuffer(text, np.int8)
        # CTranslate2 has such an epsilon where nothing names one.
        del variables["encoder/activation"], variables["decoder/activation"]

    rewritten(folder, add, version=5)
    model = read_ctranslate2(folder)
    assert model.start == "<s>"
    assert (model.config.source_eos, model.config.activation, model.config.norm_epsilon) == (True, "relu", 1e-5)


@pytest.mark.xfail(strict=True, raises=CheckpointError, reason="models of converters before 3.0 are not read yet")
def test_settings_of_converters_before_version_3_lie_at_the_root(exported):
    _, folder = exported()

    def move(variables):
        for name in ("num_heads", "pre_norm", "activation"):
            variables[name] = variables.pop(f"encoder/{name}")
            del variables[f"decoder/{name}"]

    rewritten(folder, move)
    read_ctranslate2(folder)


def test_a_model_without_embeddings_is_damaged(exported):
    _, folder = exported()
    rewritten(folder, lambda variables: variables.pop("decoder/embeddings/weight"))
    with pytest.raises(CheckpointError, match="lacks decoder/embeddings/weight"):
        read_ctranslate2(folder)


def test_an_export_whose_source_is_normalised_says_so(exported):
    _, folder = exported()
    assert not any("normalises" in remark for remark in read_ctranslate2(folder).remarks)
    config = (folder / "config.yaml").read_text()
    assert "punctuation: false" in config
    (folder / "config.yaml").write_text(config.replace("punctuation: false", "punctuation: true"))
    assert any("normalises source text" in remark for remark in read_ctranslate2(folder).remarks)


def test_an_export_is_searched_as_the_bundle_was(exported):
    _, folder = exported()
    config = (folder / "config.yaml").read_text()
    (folder / "config.yaml").write_text(config.replace("beam: 4", "beam: 7"))
    assert read_ctranslate2(folder).decoding.beam == 7
    (folder / "config.yaml").unlink()
    assert read_ctranslate2(folder).decoding == DecodingConfig(beam=2, length_penalty=1, length_normalization="length")
