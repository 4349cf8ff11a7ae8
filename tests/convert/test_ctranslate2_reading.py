"""Models of CTranslate2 and packages of Argos Translate, read again as bundles."""

import json
import shutil
import struct

import numpy as np
import pytest

from nmt.checkpoint.bundle import load_bundle
from nmt.config import DecodingConfig
from nmt.convert.archives import unpacked
from nmt.convert.argos import package_name, write_argos
from nmt.convert.certificate.checks import compared
from nmt.convert.certificate.our_side import OurSide
from nmt.convert.converting import import_model
from nmt.convert.ctranslate2.model_file import read_variables
from nmt.convert.ctranslate2.reading import read_ctranslate2
from nmt.convert.ctranslate2.software import imported_side
from nmt.convert.ctranslate2.writing import write_ctranslate2
from nmt.convert.foreign import COMPOSED
from nmt.errors import CheckpointError, NmtError
from nmt.text.steps import MosesPunctuation, normalizer
from tests.convert.conftest import failed, names, probes_of
from tests.convert.ctranslate2_files import rewrite, write_earlier
from tests.convert.peers import change_json, change_marian, write_marian
from tests.convert.test_argos import with_languages
from tests.convert.unexamined import examine_nothing
from tests.kit.archives import zipped

converters = pytest.importorskip("ctranslate2", reason="the extra `ctranslate2` is not installed").converters
PRE_NORM = {"norm": "pre", "positions": "learned", "tied_embeddings": "decoder", "output_bias": True}
ZEROS_FIRST = {"positions": "tensor2tensor", "decoder_start": "zero", "activation": "swish"}
NOTHING_TIED = {"is_foreign": True, "tied_embeddings": "none", "attention_bias": False, "norm_epsilon": 0.3}


@pytest.fixture
def exported(make_bundle, tmp_path):
    """Exports a model, and returns its bundle and the folder."""

    def make(settings=(), quantization="float32"):
        bundle, folder = make_bundle(**dict(settings)), tmp_path / "exported"
        folder.mkdir()
        write_ctranslate2(bundle, folder, quantization)
        return bundle, folder

    return make


@pytest.fixture
def imported(tmp_path, monkeypatch):
    """Imports a folder, and returns the bundle, which computes and finds what CTranslate2 does with the folder."""

    def make(folder):
        examine_nothing(monkeypatch)
        import_model(folder, tmp_path / "back")
        back = load_bundle(tmp_path / "back")
        theirs = imported_side(folder, read_ctranslate2(folder))
        checks = compared(OurSide(back.folder), theirs, probes_of(back))
        assert names(checks) == ["forced scores", "greedy outputs", "beam scores"]
        assert not failed(checks), checks
        return back

    return make


@pytest.mark.parametrize(
    ("settings", "quantization", "release"),
    [
        ({}, "float32", None),
        ({}, "int8", None),
        (PRE_NORM, "float32", None),
        (NOTHING_TIED | {"activation": "gelu"}, "float32", None),
        (ZEROS_FIRST, "float32", None),
        (PRE_NORM, "int8", "1.20"),
        ({}, "int16", "2.10"),
        (ZEROS_FIRST, "float16", "2.24"),
        (PRE_NORM, "float32", "3.0"),
    ],
)
def test_an_export_comes_back_as_the_same_model(settings, quantization, release, exported, imported):
    """Also as an earlier release would have written it."""
    bundle, folder = exported(settings, quantization)
    if release is not None:
        write_earlier(folder, release)
    back = imported(folder)
    epsilon = bundle.config.model.norm_epsilon if release in (None, "3.0") else 1e-5
    assert back.config.model.norm_epsilon == pytest.approx(epsilon)
    for name in ("norm", "activation", "decoder_start", "attention_bias", "encoder_layers", "heads", "source_eos"):
        assert getattr(back.config.model, name) == getattr(bundle.config.model, name)
    assert back.vocab.source.encode("ba do ki") == bundle.vocab.source.encode("ba do ki")


@pytest.mark.parametrize(
    "told", [{}, {"add_source_eos": False, "decoder_start_token": "</s>"}], ids=["of OPUS-MT", "of MarianMT"]
)
def test_what_converters_make_of_marians_models_is_read(told, imported, tmp_path):
    """The vocabulary has neither the first piece nor the padding; tokenizers of MarianMT add eos."""
    change_marian(write_marian(tmp_path / "opus"), {})
    converters.OpusMTConverter(str(tmp_path / "opus")).convert(str(tmp_path / "converted"))
    change_json(tmp_path / "converted" / "config.json", **told)
    for file in (tmp_path / "opus").glob("*.spm"):
        shutil.copy(file, tmp_path / "converted")
    model = imported(tmp_path / "converted").config.model
    assert (model.source_eos, model.decoder_start, model.positions) == (True, "zero", "sinusoidal_halves")


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


def test_a_package_comes_back_with_its_languages(make_bundle, tmp_path):
    bundle = with_languages(make_bundle(), tmp_path / "bundle", "en", "de")
    (tmp_path / "out").mkdir()
    write_argos(bundle, tmp_path / "out")
    certificate = import_model(tmp_path / "out" / f"{package_name(bundle)}.argosmodel", tmp_path / "back")
    assert not certificate.failed
    assert any(check.oracle.startswith("CTranslate2") for check in certificate.checks)
    back = load_bundle(tmp_path / "back")
    assert (back.config.data.source_lang, back.config.data.target_lang) == ("en", "de")
    assert (back.config.decoding.beam, back.config.decoding.length_penalty) == (4, 0.2)


METADATA = {"package_version": "1.0", "argos_version": "1.0", "from_code": "en", "to_code": "pt"}
NAMED = {"from_name": "English", "to_name": "Portuguese"}


@pytest.fixture
def package(exported, tmp_path):
    """Writes a package of Argos Translate as its training scripts have packed them since 2020."""

    def make(metadata, release="1.20", tokenizers=("sentencepiece.model",), others=None):
        _, folder = exported(PRE_NORM, "int8")
        write_earlier(folder, release)
        files = {
            "metadata.json": json.dumps(metadata),
            "README.md": "# English-Portuguese",
            "stanza/resources.json": "{}",
            "stanza/en/tokenize/ewt.pt": "another model",
            **{f"model/{path.name}": path.read_bytes() for path in folder.iterdir() if "vocabulary" in path.name},
            "model/model.bin": (folder / "model.bin").read_bytes(),
            **dict.fromkeys(tokenizers, (folder / "source.spm").read_bytes()),
        } | (others or {})
        path = tmp_path / "translate-en_pt-1_0.argosmodel"
        path.write_bytes(zipped({f"en_pt/{name}": content for name, content in files.items()}))
        return path

    return make


@pytest.mark.parametrize(
    ("metadata", "release", "tokenizers"),
    [
        (METADATA, "1.20", ["sentencepiece.model"]),
        (METADATA | NAMED | {"argos_version": "1.5", "links": []}, "2.10", ["sentencepiece.model"]),
        (METADATA | NAMED | {"type": "translate", "dependencies": []}, "2.24", ["sentencepiece.model"]),
        (METADATA | {"argos_version": "1.9.6", "target_prefix": ""}, "3.0", ["sentencepiece.model", "bpe.model"]),
    ],
)
def test_a_package_of_any_version_is_read(metadata, release, tokenizers, package):
    with unpacked(package(metadata, release, tokenizers)) as folder:
        model = read_ctranslate2(folder)
    assert (model.source_lang, model.target_lang, model.decoding.beam) == ("en", "pt", 4)
    assert (model.toolkit, model.version) == ("Argos Translate", metadata["argos_version"])
    assert model.source.segmenter


def test_a_package_with_codes_reads_and_writes_text(exported, package, tmp_path):
    """The source goes through Moses' punctuation, its tokeniser and the codes of subword-nmt."""
    size = len(json.loads((exported()[1] / "shared_vocabulary.json").read_text()))
    shutil.rmtree(tmp_path / "exported")
    pieces = ["<blank>", "<unk>", "<s>", "</s>", "ba", "ki@@", "&quot;", "tu", ",", *map(str, range(size - 9))]
    merges = ["b a</w>", "k i", "t u</w>", "& q", "&q u", "&qu o", "&quo t", "&quot ;</w>"]
    files = {
        "model/shared_vocabulary.txt": "".join(f"{piece}\n" for piece in pieces),
        "bpe.model": "".join(f"{line}\n" for line in ["#version: 0.2", *merges]),
    }
    origin = package(METADATA, "2.10", (), files)
    certificate = import_model(origin, tmp_path / "back")
    assert not certificate.failed
    assert any(check.oracle.startswith("CTranslate2") for check in certificate.checks)
    assert [remark for remark in certificate.remarks if "separated by spaces" in remark] == []
    back = load_bundle(tmp_path / "back")
    vocab, normalize = back.vocab, normalizer(back.config.data.source_text)
    [ids] = vocab.source.encode([normalize("„ba“ kitu,")])
    assert vocab.source.pieces(ids) == ["▁&quot;", "▁ba", "▁&quot;", "▁ki@@", "▁tu", "▁,"]
    assert vocab.target.decode([ids]) == ['"ba" kitu,']


def test_a_package_whose_outputs_begin_with_a_given_piece_is_read(package, tmp_path):
    origin = package(METADATA | {"target_prefix": "▁ba"}, "2.24")
    assert not import_model(origin, tmp_path / "back").failed
    vocab = load_bundle(tmp_path / "back").vocab.target
    [prefix] = vocab.encode([""])
    assert vocab.pieces(prefix) == ["▁ba"]
    assert vocab.decode([prefix]) == [""]


@pytest.mark.parametrize(
    ("metadata", "tokenizers", "message"),
    [
        (METADATA | {"type": "sbd"}, ["sentencepiece.model"], "is a package of the type sbd, not translate"),
        (METADATA | {"target_prefix": "__pt__"}, ["sentencepiece.model"], "__pt__', which is not a target piece"),
        (METADATA, ["bpe.model"], r"bpe\.model: is not UTF-8 text"),
    ],
)
def test_a_package_that_does_more_is_refused_by_name(metadata, tokenizers, message, package):
    with pytest.raises(NmtError, match=message), unpacked(package(metadata, "3.0", tokenizers)) as folder:
        read_ctranslate2(folder)


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


@pytest.mark.parametrize("language", ["__{}__", "{}k_Latn", "{}_XX"])
def test_a_model_for_many_languages_is_refused(exported, language):
    """Its users begin each source and each output with the piece of a language: nothing says which."""
    _, folder = exported()
    pieces = json.loads((folder / "shared_vocabulary.json").read_text())
    named = [language.format(f"a{letter}") for letter in "bcdefghijkl"]
    (folder / "shared_vocabulary.json").write_text(json.dumps([*pieces[: -len(named)], *named]))
    with pytest.raises(CheckpointError, match=f"many languages .{named[0]}, .* Import the model of Hugging Face"):
        read_ctranslate2(folder)


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


def without_tables(variables):
    """As most converters write the computed positions of a model."""
    for part in ("encoder", "decoder"):
        del variables[f"{part}/position_encodings/encodings"]


def test_sources_of_an_early_model_have_neither_eos_nor_a_piece_of_it(exported, imported):
    """OpenNMT-py 1 has no such pieces of the source, and the converters of its time added none."""
    _, folder = exported(PRE_NORM)
    pieces = json.loads((folder / "shared_vocabulary.json").read_text())
    (folder / "target_vocabulary.json").write_text(json.dumps(pieces))
    (folder / "source_vocabulary.json").write_text(json.dumps([*pieces[:2], *pieces[4:]]))
    (folder / "shared_vocabulary.json").unlink()

    def change(variables):
        without_tables(variables)
        name = "encoder/embeddings_0/weight"
        variables[name] = np.delete(variables[name], (2, 3), axis=0)

    rewrite(folder, change)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"add_source_eos": False}))
    write_earlier(folder, "1.20")
    model = imported(folder).config.model
    assert (model.source_eos, model.positions, model.first_position) == (False, "tensor2tensor", 1)


@pytest.mark.parametrize("name", ["layernorm_embedding", "with_relative_position", "user_decoder_start_tokens"])
def test_what_an_earlier_file_says_of_the_whole_model_is_refused_by_name(name, exported):
    _, folder = exported()
    write_earlier(folder, "2.24")
    rewrite(folder, lambda variables: variables.update({name: np.array(1, np.int8)}))
    with pytest.raises(CheckpointError, match=rf"model\.bin: has {name}: 1, which nmt does not have"):
        read_ctranslate2(folder)


def test_gelu_of_early_releases_is_named(exported):
    _, folder = exported()
    write_earlier(folder, "2.24")
    rewrite(folder, lambda variables: variables.update(activation=np.array(1, np.int8)))
    with pytest.raises(CheckpointError, match="has activation GELU with tanh; nmt has relu, swish, gelu, quick_gelu"):
        read_ctranslate2(folder)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda lines: lines, "▁x"),
        (lambda lines: lines.replace(b"\n", b"\r\n"), "▁x"),
        (lambda lines: lines.removesuffix(b"\n"), "▁x"),
        (lambda lines: lines.replace("▁x".encode(), "▁\r".encode()), "▁\r"),
        (lambda lines: lines.replace("▁x".encode(), "\u2028".encode()), "\u2028"),
    ],
    ids=["as written", "of Windows", "cut off", "a carriage return", "a separator of lines"],
)  # fmt: skip
def test_the_lines_of_a_vocabulary_are_those_that_ctranslate2_reads(change, expected, exported):
    _, folder = exported()
    pieces = json.loads((folder / "shared_vocabulary.json").read_text())
    (folder / "shared_vocabulary.json").write_text(json.dumps([*pieces[:6], "▁x", *pieces[7:]]))
    write_earlier(folder, "3.0")
    path = folder / "shared_vocabulary.txt"
    path.write_bytes(change(path.read_bytes()))
    assert read_ctranslate2(folder).target.pieces == (*pieces[:6], expected, *pieces[7:])


def test_the_unknown_piece_is_added_where_the_vocabulary_lacks_it(exported):
    _, folder = exported()
    path = folder / "shared_vocabulary.json"
    *pieces, _ = [piece for piece in json.loads(path.read_text()) if piece != "<unk>"] + [""]
    path.write_text(json.dumps(pieces))
    assert read_ctranslate2(folder).source.pieces == (*pieces, "<unk>")


@pytest.mark.parametrize("start", ["</s>", "<pad>"])
def test_a_model_that_starts_with_another_piece_has_no_second_one_of_it(exported, start, imported):
    _, folder = exported()
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"decoder_start_token": start}))
    imported(folder)


@pytest.mark.parametrize("start", [None, "<nope>"])
def test_a_start_that_is_no_piece_is_named(exported, start):
    _, folder = exported()
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"decoder_start_token": start}))
    with pytest.raises(CheckpointError, match=r"config\.json: the decoder starts with .*, which is not a target piece"):
        read_ctranslate2(folder)


def test_a_model_without_embeddings_is_damaged(exported):
    _, folder = exported()
    rewrite(folder, lambda variables: variables.pop("decoder/embeddings/weight"))
    with pytest.raises(CheckpointError, match="lacks decoder/embeddings/weight"):
        read_ctranslate2(folder)


def test_an_export_has_the_steps_of_its_bundle(exported):
    bundle, folder = exported()
    assert read_ctranslate2(folder).text == bundle.config.data.steps
    config = (folder / "config.yaml").read_text()
    assert "source_text: []" in config
    steps = "source_text: [{step: moses_punctuation, language: en}]"
    (folder / "config.yaml").write_text(config.replace("source_text: []", steps))
    assert read_ctranslate2(folder).text.source == (MosesPunctuation(language="en"),)
    (folder / "config.yaml").unlink()
    assert read_ctranslate2(folder).text == COMPOSED


def test_an_export_is_searched_as_the_bundle_was(exported):
    _, folder = exported()
    config = (folder / "config.yaml").read_text()
    (folder / "config.yaml").write_text(config.replace("beam: 4", "beam: 7"))
    assert read_ctranslate2(folder).decoding.beam == 7
    (folder / "config.yaml").unlink()
    assert read_ctranslate2(folder).decoding == DecodingConfig(beam=2, length_penalty=1, length_normalization="length")
