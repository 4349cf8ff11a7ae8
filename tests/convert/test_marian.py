"""Models of Marian: the stored ones were trained by Marian 1.12 on random sentences, which it also translated."""

import dataclasses
import io
import json
import os
import re
import shutil
import subprocess
import zipfile

import numpy as np
import pytest
import yaml

import nmt
from nmt.checkpoint.bundle import load_bundle
from nmt.checkpoint.bundle_files import BundleFolder
from nmt.config import DecodingConfig
from nmt.convert.card import model_card
from nmt.convert.certificate.our_side import OurSide
from nmt.convert.certificate.record import Certificate
from nmt.convert.converting import export_model, import_model
from nmt.convert.foreign import Given
from nmt.convert.formats import find_target
from nmt.convert.marian.finding import find_files
from nmt.convert.marian.reading import read_marian, read_npz
from nmt.convert.marian.vocabulary import read_vocabulary, read_yaml_pieces, write_yaml_pieces
from nmt.errors import CheckpointError, ConfigError, NmtError, VocabularyError
from nmt.text.steps import MosesPunctuation, Nfc, SentencePieceRule
from tests.convert.conftest import read_certificate
from tests.convert.peers import DATA, MERGES, OF_MERGES, change_marian, write_marian
from tests.convert.unexamined import examine_nothing
from tests.kit.archives import zipped

MARIAN = find_target("Marian")
POST_NORM = ["marian-post", "marian-decoder"]
NAMES = [*POST_NORM, "marian-pre"]


@pytest.fixture(scope="session")
def imported(tmp_path_factory):
    """The bundle of each stored model."""
    folder = tmp_path_factory.mktemp("imported")
    for name in NAMES:
        import_model(DATA / name, folder / name)
    return folder


def oracle(name):
    return json.loads((DATA / name / "oracle.json").read_text())


@pytest.mark.parametrize("name", NAMES)
def test_the_settings_are_read(name, imported):
    bundle = load_bundle(imported / name)
    expected = {
        "marian-post": ("post", "swish", "all"),
        "marian-pre": ("pre", "gelu", "none"),
        "marian-decoder": ("post", "relu", "decoder"),
    }
    model = bundle.config.model
    assert (model.norm, model.activation, model.tied_embeddings) == expected[name]
    assert (bundle.config.decoding.beam, bundle.config.decoding.length_normalization) == (6, "length")
    assert bundle.vocab.is_shared == (name == "marian-post")


@pytest.mark.parametrize("name", POST_NORM)
@pytest.mark.parametrize("search", ["greedy", "beam"])
def test_forced_scores_are_those_of_marian(name, search, imported):
    stored = oracle(name)
    side = OurSide(imported / name)
    scores = side.score(stored["sources"], [found["pieces"] for found in stored[search]])
    for ours, found in zip(scores, stored[search], strict=True):
        # An output that was cut off has no score for eos.
        np.testing.assert_allclose(ours[: len(found["scores"])], found["scores"], atol=1e-4)


def test_a_pre_norm_model_is_computed_as_marian_trains_it(imported):
    stored = oracle("marian-pre")["pairs"]
    side = OurSide(imported / "marian-pre")
    scores = side.score([pair["source"] for pair in stored], [pair["target"] for pair in stored])
    for ours, pair in zip(scores, stored, strict=True):
        assert -ours.sum() == pytest.approx(pair["cross_entropy"], rel=1e-5, abs=1e-5)
    certificate = read_certificate(imported / "marian-pre")
    assert any("decodes pre-norm models differently" in remark for remark in certificate.remarks)


@pytest.mark.parametrize("name", POST_NORM)
def test_translations_are_those_of_marian(name, imported):
    stored = oracle(name)
    for beam, search in ((1, "greedy"), (6, "beam")):
        model = nmt.load(imported / name, device="cpu", precision="fp32")
        translations = model.translate(stored["lines"], beam=beam, guard=False)
        compared = [
            (translation.candidates[0].pieces, tuple(one["pieces"]))
            for translation, one in zip(translations, stored[search], strict=True)
            if len(one["scores"]) > len(one["pieces"])  # the others were cut off, at another limit
        ]
        assert len(compared) >= 30
        assert [ours for ours, _ in compared] == [theirs for _, theirs in compared]


@pytest.mark.parametrize("name", NAMES)
def test_a_model_goes_back_to_the_form_that_it_came_from(name, imported, tmp_path):
    export_model(imported / name, tmp_path / "out", to="marian")
    before, _ = read_npz(DATA / name / "model.npz")
    after, _ = read_npz(tmp_path / "out" / "model.npz")
    assert before.keys() == after.keys()
    for tensor, array in before.items():
        np.testing.assert_array_equal(after[tensor], array)
    first, again = read_marian(DATA / name), read_marian(tmp_path / "out")
    assert (first.source.pieces, first.target.pieces, first.config) == (
        again.source.pieces,
        again.target.pieces,
        again.config,
    )


NASTY = [
    "</s>", "<unk>", "a", '"', "\\", "'", ": ", "null", "true", "1.0", "~", "? x", "# y", "- z", "{}", "\x07", "\u2028",
    "\x85", "😀", "▁", "▁Haus", " ", "key: 3", ",", "é", ">>deu<<", "@",
]  # fmt: skip


def test_every_piece_of_a_yaml_vocabulary_comes_back():
    assert read_yaml_pieces(write_yaml_pieces(NASTY), "x") == NASTY


def test_only_a_newline_ends_a_piece_where_each_has_a_line(tmp_path):
    pieces = ["</s>", "<unk>", "a\x85b", "\u2028", "c\rd", "\x0c"]
    (tmp_path / "vocab.txt").write_bytes("".join(f"{piece}\n" for piece in pieces).encode())
    assert read_vocabulary(tmp_path / "vocab.txt", None).pieces == tuple(pieces)


def test_yaml_as_marian_and_other_writers_write_it_is_read():
    text = (
        '---\n</s>: 0\n<unk>: 1\n"a\\"b\\\\": 2\n? "long"\n: 3\n\'it\'\'s\': 4\n":": 5\n"\\x07\\u2581\\U0001F600": 6\n'
        "x: y: 7\r\n"
    )
    assert read_yaml_pieces(text, "x") == ["</s>", "<unk>", 'a"b\\', "long", "it's", ":", "\x07▁😀", "x: y"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 0\nb: 0\n", "its ids are not 0, 1, 2, … without gaps: 'b' has 0, not 1"),
        ("a: 0\nb: 2\n", "its ids are not 0, 1, 2, … without gaps: 'b' has 2, not 1"),
        ("a: 0\nb\n", "line 2: expected a piece and its id, got 'b'"),
        ("a: x\n", "line 1: expected a piece and its id"),
    ],
)
def test_a_damaged_vocabulary_is_refused(text, message):
    with pytest.raises(VocabularyError, match=message):
        read_yaml_pieces(text, "vocab.yml")


@pytest.fixture
def copy(tmp_path):
    """A copy of a stored model whose settings or tensors can be changed."""
    return write_marian(tmp_path / "model")


def save_array(path):
    """One array of NumPy, by the name of an archive of several."""
    with path.open("wb") as stream:
        np.save(stream, np.ones(2))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"transformer-preprocess": "n"}, "transformer-preprocess: 'n', transformer-postprocess: 'dan'"),
        ({"transformer-ffn-activation": "tanh"}, "transformer-ffn-activation: tanh; nmt has relu, swish, gelu"),
        ({"transformer-ffn-activation": ["relu"]}, r"transformer-ffn-activation: \['relu'\]; nmt has relu"),
        ({"enc-depth": "six"}, "encoder_layers: expected a whole number, got 'six'"),
        ({"enc-depth": 2}, "encoder_l2_self_Wq"),
        ({"enc-depth": 10**15}, "say 1,000,000,000,000,001 layers, but it holds"),
    ],
)
def test_what_our_model_cannot_express_is_refused_by_name(settings, message, copy, tmp_path):
    change_marian(copy, settings)
    with pytest.raises(NmtError, match=message):
        import_model(copy, tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()


ONES = np.ones((2, 2), np.float32)


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("decoder_l1_extra_W", ONES, "holds decoder_l1_extra_W, which have no place"),
        ("Wemb", ONES.astype(np.int8), "Wemb holds numbers of type int8: it was packed for one processor"),
        ("encoder_l1_ffn_W1", np.ones((16, 23), np.float32), "encoder_l1_ffn_W1 is 16 x 23, expected 16 x 24"),
        ("A\nerror: all is well", ONES, r"A\\nerror: all is well"),
        ("A\nerror: all is well", ONES.astype(np.int8), r"A\\nerror: all is well"),
    ],
)
def test_other_tensors_are_refused_by_name_in_one_line(name, array, message, copy, tmp_path):
    change_marian(copy, {}, lambda arrays: arrays | {name: array})
    with pytest.raises(CheckpointError, match=message) as error:
        import_model(copy, tmp_path / "bundle")
    assert "\n" not in str(error.value)


def test_an_older_output_matrix_is_read_the_other_way_round(copy, tmp_path, imported):
    shutil.rmtree(copy)
    write_marian(copy, "marian-pre")

    def older(arrays):
        return arrays | {"decoder_ff_logit_out_W": arrays.pop("decoder_ff_logit_out_Wt").T.copy()}

    change_marian(copy, {}, older)
    import_model(copy, tmp_path / "bundle")
    weights, expected = (load_bundle(folder).weights for folder in (tmp_path / "bundle", imported / "marian-pre"))
    for name, tensor in expected.items():
        np.testing.assert_array_equal(weights[name], tensor)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "model.npz").write_bytes(b"PK\3\4 cut"), "is not an .npz file, or is damaged"),
        (lambda folder: np.savez(folder / "model.npz", a=np.ones(2)), "lacks special:model.yml"),
        (lambda folder: save_array(folder / "model.npz"), "is not an .npz file, or is damaged"),
        (lambda folder: (folder / "vocab.yml").unlink(), "lacks vocab.yml"),
        (lambda folder: (folder / "vocab.yml").write_text("a: 0\n"), "lacks </s> and <unk>"),
        (lambda folder: (folder / "vocab.yml").write_text("</s>: 0\n<unk>: 1\n"), "Wemb is 38 x 16, expected 2 x 16"),
        (lambda folder: (folder / "source.spm").unlink(), "no SentencePiece model lies beside it"),
        (lambda folder: (folder / "source.spm").write_bytes(b"\x0a\xff"), r"source\.spm: is not a SentencePiece model"),
        (lambda folder: (folder / "decoder.yml").write_text("[1"), "is not YAML"),
        (lambda folder: (folder / "decoder.yml").write_text("models: [a.npz, b.npz]"), "names 2 models"),
        (lambda folder: (folder / "decoder.yml").write_text("models: [model.npz]\nsince: 2020-02-26"), "is a date"),
        (lambda folder: change_marian(folder, {}, text="version: 2020-02-26\n"), "is a date"),
        (lambda folder: (folder / "decoder.yml").write_text("models: [a.npz]"), "names a.npz, which is not there"),
        (
            lambda folder: (folder / "decoder.yml").write_text("models: [model.npz]\nbeam-size: x"),
            "beam: expected a whole number, got 'x'",
        ),
    ],
)
def test_damaged_files_are_one_clear_error(damage, message, copy, tmp_path):
    damage(copy)
    with pytest.raises(NmtError, match=message):
        import_model(copy, tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()


def with_member(folder, content, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(folder / "model.npz", "a", compression) as archive:
        archive.writestr("x.npy", content)


def header(shape, dtype="<f4"):
    """The beginning of a file with an array."""
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": dtype, "fortran_order": False, "shape": shape})
    return stream.getvalue()


@pytest.mark.parametrize(
    ("content", "compression"),
    [
        (header((1 << 40,)), zipfile.ZIP_STORED),
        (header((-1, 3)), zipfile.ZIP_STORED),
        (header((0, 1 << 62, 1 << 62)), zipfile.ZIP_STORED),
        (header((3,), "|O") + b"cos\nsystem\n.", zipfile.ZIP_STORED),
        (header((3,)).replace(b"shape", b"xhape"), zipfile.ZIP_STORED),
        (header((3,))[:20], zipfile.ZIP_STORED),
        (b"\x93NUMPY\x03\x00\xff\xff\xff\xff", zipfile.ZIP_STORED),
        (b"no array", zipfile.ZIP_STORED),
        (header((1 << 25,)) + bytes(1 << 27), zipfile.ZIP_DEFLATED),
    ],
)
def test_a_member_of_an_npz_file_that_claims_too_much_is_refused(content, compression, copy):
    with_member(copy, content, compression)
    with pytest.raises(CheckpointError, match=r"model\.npz: is not an \.npz file, or is damaged"):
        read_npz(copy / "model.npz")


def test_an_archive_of_macos_is_imported_as_its_folder(tmp_path, monkeypatch, copy, imported):
    examine_nothing(monkeypatch)
    (copy / "preprocess.sh").write_text("#!/bin/sh\nnormalize-punctuation.perl -l $1 | spm_encode\n")
    files = {f"model/{file.name}": file.read_bytes() for file in copy.iterdir()}
    path = tmp_path / "opus-2020.02.zip"
    path.write_bytes(zipped(files | {f"__MACOSX/{name.replace('/', '/._')}": b"of macOS" for name in files}))
    with pytest.raises(CheckpointError, match=r"preprocess\.sh: applies Moses' rules of the source .* --source-lang"):
        import_model(path, tmp_path / "bundle")
    import_model(path, tmp_path / "bundle", given=Given(source_lang="en"))
    ours, expected = load_bundle(tmp_path / "bundle"), load_bundle(imported / "marian-post")
    assert ours.vocab.fingerprint == expected.vocab.fingerprint
    assert ours.config.data.name == "opus-2020.02"
    words = [data.steps.words for data in (ours.config.data, expected.config.data)]
    assert words == ["Unicode NFC, Moses' punctuation normalisation", "Unicode NFC"]


def test_an_unknown_command_of_preprocess_sh_stops_the_import_unless_it_is_ignored(copy):
    (copy / "preprocess.sh").write_text("#!/bin/sh\ncat |\n  rot13 -x | spm_encode\n")
    with pytest.raises(CheckpointError, match=r"preprocess\.sh, line 3: .*`rot13 -x`.*--ignore-unknown-steps"):
        read_marian(copy)
    remarks = read_marian(copy, Given(ignore_unknown_steps=True)).remarks
    assert any("`rot13 -x`" in remark for remark in remarks)


@pytest.fixture
def with_codes(copy):
    """A model of several target languages whose words are split by codes, as OPUS-MT packed them."""
    count = len(read_yaml_pieces((copy / "vocab.yml").read_text(), "vocab.yml"))
    pieces = ["</s>", "<unk>", *OF_MERGES, ">>deu<<", ">>fra<<"]
    pieces += [f"{number}@@" for number in range(count - len(pieces))]
    (copy / "vocab.yml").write_text(write_yaml_pieces(pieces))
    for side in ("source", "target"):
        (copy / f"{side}.spm").unlink()
        (copy / f"{side}.bpe").write_text("".join(f"{merge}\n" for merge in ("#version: 0.2", *MERGES)))
    moses = ["replace-unicode-punctuation", "remove-non-printing-char", "normalize-punctuation"]
    before = [*(f"$T/{name}.perl -l $1" for name in moses), "$T/tokenizer.perl -a -l $1", "python3 apply_bpe.py -c $3"]
    (copy / "preprocess.sh").write_text(" |\n".join([*before, 'sed "s/^/>>$2<< /"\n']))
    (copy / "postprocess.sh").write_text("sed 's/\\@\\@ //g;s/ \\@\\@//g' |\n$T/detokenizer.perl -l $1\n")
    return copy


def test_codes_split_words_behind_the_steps_of_the_scripts_and_behind_a_tag(with_codes, tmp_path):
    given = Given(source_lang="en", target_lang="de")
    certificate = import_model(with_codes, tmp_path / "bundle", given=given)
    assert not certificate.failed
    assert [remark for remark in certificate.remarks if "separated by spaces" in remark] == []
    assert any("whatever language a tag asks for" in remark for remark in certificate.remarks)
    model = nmt.load(tmp_path / "bundle", device="cpu", precision="fp32", threads=1)
    pieces = ("▁the", "▁bo@@", "▁at", "▁&apos;s", "▁well", "▁@-@", "▁at", "▁.")
    for line, tag in (("the boat’s well-at。", ">>deu<<"), (">>fra<< the  boat's well-at.", ">>fra<<")):
        assert model.translate([line])[0].source_pieces == (tag, *pieces)
    bundle = load_bundle(tmp_path / "bundle")
    target = bundle.vocab.target.prepared(bundle.config.data.target_text, {})
    assert target.decode([target.ids(pieces)]) == ["the boat 's well-at."]  # as Moses does in German


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda folder: (folder / "target.bpe").unlink(),
            r"preprocess\.sh: applies .* put source\.bpe and target\.bpe",
        ),
        (
            lambda folder: (folder / "source.spm").write_bytes((DATA / "marian-post" / "source.spm").read_bytes()),
            "line 1: nmt does not know what `preprocess.sh` does to source text",
        ),
        (
            lambda folder: (folder / "postprocess.sh").write_text("detruecase.perl"),
            r"postprocess\.sh, line 1: nmt does not know what `detruecase\.perl` does to outputs",
        ),
        (
            lambda folder: (folder / "postprocess.sh").write_text("detokenizer.perl -l ${1}"),
            "applies Moses' rules of the target language. Name it with --target-lang",
        ),
    ],
)
def test_what_codes_need_is_named(change, message, with_codes):
    change(with_codes)
    with pytest.raises(CheckpointError, match=message):
        read_marian(with_codes, Given(source_lang="en", target_lang=None if "target l" in message else "de"))


@pytest.mark.parametrize("ignores", [False, True])
def test_the_recorded_command_has_options_of_nmt_import(ignores, tmp_path, monkeypatch, copy):
    examine_nothing(monkeypatch)
    import_model(copy, tmp_path / "bundle", given=Given(ignore_unknown_steps=ignores))
    notes = BundleFolder(tmp_path / "bundle").notes.read_text()
    assert ('"--ignore-unknown-steps"' in notes, "--no-ignore" in notes) == (ignores, False)


@pytest.mark.parametrize("name", ["model.npz", "decoder.yml"])
def test_a_file_of_the_model_may_be_named(name, imported, tmp_path, monkeypatch):
    examine_nothing(monkeypatch)
    import_model(DATA / "marian-post" / name, tmp_path / "bundle")
    bundle, expected = load_bundle(tmp_path / "bundle"), load_bundle(imported / "marian-post")
    assert bundle.vocab.fingerprint == expected.vocab.fingerprint
    assert bundle.config.data.name == "marian-post"


@pytest.fixture
def two(tmp_path):
    """A model with two vocabularies, and no decoder.yml that says which is the source's."""
    folder = write_marian(tmp_path / "two", "marian-decoder")
    (folder / "decoder.yml").unlink()
    for name in ("source", "target"):
        (folder / f"{name}.yml").rename(folder / f"{name}.kept")
    return folder


@pytest.mark.parametrize(
    ("names", "given"),
    [
        (("vocab.source.yml", "vocab.target.yml"), Given()),
        (("opus.vocab.src.yml", "a.vocab.trg.yml"), Given()),
        (("vocab.fra.yml", "vocab.deu.yml"), Given(source_lang="fra", target_lang="deu")),
    ],
)
def test_names_tell_which_vocabulary_is_the_sources(names, given, two):
    for kept, name in zip(("source.kept", "target.kept"), names, strict=True):
        (two / kept).rename(two / name)
    files = find_files(two, given)
    assert tuple(path.name for path in files.vocabularies) == names
    expected = read_marian(DATA / "marian-decoder")
    found = read_marian(two, given)
    assert (found.source.pieces, found.target.pieces) == (expected.source.pieces, expected.target.pieces)


@pytest.mark.parametrize(
    ("names", "given"),
    [
        (("vocab.fra.yml", "vocab.deu.yml"), Given()),
        (("vocab.fra.yml", "vocab.deu.yml"), Given(source_lang="fra")),
        (("vocab.fra-deu.yml", "vocab.deu.yml"), Given(source_lang="deu", target_lang="fra")),
        (("resource.vocab.yml", "trg.vocab.yml"), Given()),
    ],
)
def test_which_vocabulary_is_the_sources_is_never_guessed(names, given, two):
    for kept, name in zip(("source.kept", "target.kept"), names, strict=True):
        (two / kept).rename(two / name)
    with pytest.raises(CheckpointError, match=r"has 2 vocabularies and no decoder\.yml.*`vocabs: \[SOURCE, TARGET\]`"):
        find_files(two, given)


def test_a_vocabulary_that_is_a_sentencepiece_model_segments_by_itself(copy):
    (copy / "vocab.spm").write_bytes((copy / "source.spm").read_bytes())
    (copy / "decoder.yml").write_text("models: [model.npz]\nvocabs: [vocab.yml, vocab.spm]\n")
    assert find_files(copy).segmenters == (copy / "source.spm", None)
    with pytest.raises(ConfigError, match=r"vocab\.spm is a SentencePiece model.*Leave out --target-spm"):
        read_marian(copy, Given(target_spm=copy / "target.spm"))


def test_sentencepiece_models_are_given_or_those_of_the_folder(copy):
    a, b = copy / "a.spm", copy / "b.spm"
    assert find_files(copy, Given(source_spm=a, target_spm=b)).segmenters == (a, b)
    assert find_files(copy, Given(target_spm=b)).segmenters == (copy / "source.spm", b)
    for side in ("source", "target"):
        (copy / f"{side}.spm").rename(copy / f"{side}.model")  # as in older models of OPUS-MT
    assert find_files(copy).segmenters == (copy / "source.model", copy / "target.model")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("beam-size: 3\nnormalize: 0.7\n", (3, 0.7, "length")), ("", (6, 0, "length"))],
)
def test_the_search_is_that_of_decoder_yml_or_the_default_of_marian(text, expected, copy):
    (copy / "decoder.yml").write_text(f"models: [model.npz]\nvocabs: [vocab.yml, vocab.yml]\n{text}")
    decoding = read_marian(copy).decoding
    assert (decoding.beam, decoding.length_penalty, decoding.length_normalization) == expected


def test_the_settings_beside_a_file_of_weights_are_its_own(copy):
    """Training writes MODEL.npz.decoder.yml, and MODEL.npz.optimizer.npz, which is no model."""
    (copy / "model.npz").rename(copy / "best.npz")
    (copy / "best.npz.optimizer.npz").write_bytes(b"of the optimiser")
    (copy / "decoder.yml").rename(copy / "best.npz.decoder.yml")
    text = "models: [best.npz]\nvocabs: [vocab.yml, vocab.yml]\nbeam-size: "
    (copy / "best.npz.decoder.yml").write_text(f"{text}2")
    assert find_files(copy).weights == copy / "best.npz"
    for name, beam in (("decoder.yml", 3), ("other.npz.decoder.yml", 4)):
        (copy / name).write_text(f"{text}{beam}")
    for path, beam in ((copy / "best.npz", 2), (copy, 3), (copy / "other.npz.decoder.yml", 4)):
        assert find_files(path).decoder["beam-size"] == beam
    for path in copy.glob("*decoder.yml"):
        path.unlink()
    assert find_files(copy).weights == copy / "best.npz"


def test_options_of_the_search_that_a_bundle_does_not_keep_are_remarks(copy):
    assert read_marian(copy).remarks == ()
    with (copy / "decoder.yml").open("a") as stream:
        stream.write("\nword-penalty: 0.8\nallow-unk: true\nshortlist: []\n")
    assert read_marian(copy).remarks == tuple(
        f"decoder.yml has {option}, which bundles do not keep: translations may differ from those of Marian."
        for option in ("word-penalty: 0.8", "allow-unk: True")
    )


def test_a_model_without_sentencepiece_models_gets_a_remark(copy):
    for name in ("source.spm", "target.spm"):
        (copy / name).unlink()
    pieces = read_yaml_pieces((copy / "vocab.yml").read_text(), "vocab.yml")
    (copy / "vocab.yml").write_text(write_yaml_pieces([piece.replace("▁", "_") for piece in pieces]))
    assert any("separated by spaces" in remark for remark in read_marian(copy).remarks)


@pytest.mark.parametrize(
    ("decoding", "normalize"),
    [
        ({"length_normalization": "paper", "length_penalty": 0, "beam": 2}, 0),
        ({"length_normalization": "paper", "length_penalty": 0.8, "beam": 5}, 0.6),
        ({"length_normalization": "length", "length_penalty": 0.8, "beam": 7}, 0.8),
    ],
)
def test_a_search_without_a_length_penalty_stays_one_and_keeps_its_beam(decoding, normalize, make_bundle, tmp_path):
    bundle = make_bundle(positions="tensor2tensor", decoder_start="zero")
    config = bundle.config.model_copy(update={"decoding": DecodingConfig(**decoding)})
    MARIAN.write(dataclasses.replace(bundle, config=config), tmp_path, "float32")
    written = yaml.safe_load((tmp_path / "decoder.yml").read_text())
    assert (written["normalize"], written["beam-size"]) == (normalize, decoding["beam"])


def test_the_lines_of_the_card_keep_tags_whole(make_bundle, tmp_path):
    """The programs of SentencePiece and Marian are played by the shell: pieces in brackets, outputs in capitals."""
    programs = {
        "spm_encode": """sed 's/[^ ][^ ]*/[&]/g'""",
        "marian-decoder": "tr a-z A-Z",
        "spm_decode": "cat",
    }
    for name, program in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{program}\n")
        (tmp_path / name).chmod(0o755)
    folder = tmp_path / "it's mine"
    folder.mkdir()
    (folder / "input.txt").write_text(">>deu<< ba do\n>>fra<< ki\n")
    lines = MARIAN.usage(make_bundle(is_foreign=True), folder.name)
    path = f"{tmp_path}:{os.environ['PATH']}"
    subprocess.run(["sh", "-eu", "-c", lines], cwd=tmp_path, env=os.environ | {"PATH": path}, check=True)
    assert (folder / "output.txt").read_text() == ">>DEU<< [BA] [DO]\n>>FRA<< [KI]\n"


def test_the_name_of_a_format_may_be_in_capitals():
    assert find_target("Marian").name == "marian"
    with pytest.raises(ConfigError, match="--to OpenNMT: models can be exported to"):
        find_target("OpenNMT")


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ((), None),
        ((Nfc(), MosesPunctuation(language="en")), "Unicode NFC, Moses' punctuation normalisation"),
        ((Nfc(), SentencePieceRule(rule="nmt_nfkc")), "Unicode NFC, nmt_nfkc"),
    ],
)
def test_the_card_says_how_source_text_is_prepared(steps, expected, make_bundle):
    bundle = make_bundle()
    config = bundle.config.model_copy(update={"data": bundle.config.data.model_copy(update={"source_text": steps})})
    made = Certificate("export", "Marian", None, {}, {}, {})
    card = model_card(dataclasses.replace(bundle, config=config), MARIAN, "float32", made, "out")
    assert re.findall(r"nmt prepares source text with (.*); do", card) == ([expected] if expected else [])


def test_the_card_tells_the_layers_of_encoder_and_decoder(make_bundle):
    made = Certificate("export", "Marian", None, {}, {}, {})
    assert "(2 + 1 layers, width 32, 4 heads, " in model_card(make_bundle(), MARIAN, "float32", made, "out")
