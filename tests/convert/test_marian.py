"""Models of Marian: the stored ones were trained by Marian, which also translated (make_marian_oracle.py)."""

import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import yaml

import nmt
from nmt.checkpoint.bundle import load_bundle
from nmt.convert.certificate.our_side import OurSide
from nmt.convert.certificate.record import read_certificate
from nmt.convert.exporting import export_model
from nmt.convert.importing import import_model
from nmt.convert.marian.reading import read_marian, read_npz
from nmt.convert.marian.vocabulary import read_yaml_pieces, write_yaml_pieces
from nmt.errors import CheckpointError, NmtError, VocabularyError

DATA = Path(__file__).parent / "data"
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
    assert (bundle.config.decoding.beam, bundle.config.decoding.normalization) == (6, "length")
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
    assert any("decodes a pre-norm model otherwise" in remark for remark in certificate.remarks)


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


def test_an_exported_model_gives_marian_the_same_translations(imported, tmp_path):
    pymarian = pytest.importorskip("pymarian")
    stored = oracle("marian-decoder")
    export_model(imported / "marian-decoder", tmp_path / "out", to="marian")
    decoder = yaml.safe_load((tmp_path / "out" / "decoder.yml").read_text())
    vocabularies = " ".join(str(tmp_path / "out" / name) for name in decoder["vocabs"])
    translator = pymarian.Translator(
        f"--models {tmp_path / 'out' / 'model.npz'} --vocabs {vocabularies} --cpu-threads 1 --beam-size 1 --quiet "
        "--max-length-factor 20"
    )
    expected = [" ".join(found["pieces"]) for found in stored["greedy"]]
    assert translator.translate([" ".join(source) for source in stored["sources"]]) == expected


def test_an_archive_is_imported_as_its_folder(tmp_path, imported):
    path = tmp_path / "model.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for file in (DATA / "marian-post").iterdir():
            archive.write(file, f"inner/{file.name}")
    certificate = import_model(path, tmp_path / "bundle")
    assert not certificate.failed
    ours, expected = load_bundle(tmp_path / "bundle"), load_bundle(imported / "marian-post")
    assert ours.vocab.fingerprint == expected.vocab.fingerprint


NASTY = [
    "</s>", "<unk>", "a", '"', "\\", "'", ": ", "null", "true", "1.0", "~", "? x", "# y", "- z", "{}", "\x07", "\u2028",
    "\x85", "😀", "▁", "▁Haus", " ", "key: 3", ",", "é", ">>deu<<", "@",
]  # fmt: skip


def test_every_piece_of_a_yaml_vocabulary_comes_back():
    assert read_yaml_pieces(write_yaml_pieces(NASTY), "x") == NASTY


def test_yaml_as_marian_and_other_writers_write_it_is_read():
    text = (
        '---\n</s>: 0\n<unk>: 1\n"a\\"b\\\\": 2\n? "long"\n: 3\n\'it\'\'s\': 4\n":": 5\n"\\x07\\u2581\\U0001F600": 6\n'
        "x: y: 7\r\n"
    )
    assert read_yaml_pieces(text, "x") == ["</s>", "<unk>", 'a"b\\', "long", "it's", ":", "\x07▁😀", "x: y"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 0\nb: 0\n", "line 2: the id 0 has a piece already, 'a'"),
        ("a: 0\nb: 2\n", "no piece has the id 1"),
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
    folder = tmp_path / "model"
    shutil.copytree(DATA / "marian-post", folder)
    return folder


def change(folder, settings=None, tensors=None):
    """Write a model again with other settings, and with tensors changed by a function."""
    with np.load(folder / "model.npz") as archive:
        arrays = dict(archive)
    values = yaml.safe_load(arrays["special:model.yml"].tobytes().rstrip(b"\0")) | (settings or {})
    arrays["special:model.yml"] = np.frombuffer(yaml.safe_dump(values).encode() + b"\0", np.int8)
    if tensors is not None:
        tensors(arrays)
    np.savez(folder / "model.npz", **arrays)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"type": "s2s"}, "has type: s2s, which nmt does not have"),
        (
            {"transformer-decoder-autoreg": "rnn"},
            "transformer-decoder-autoreg: rnn.*It would need a decoder of another kind",
        ),
        ({"transformer-tied-layers": [1, 1]}, "transformer-tied-layers.*layers that share their weights"),
        ({"transformer-postprocess-emb": "dn"}, "transformer-postprocess-emb: dn.*a norm of the embeddings"),
        ({"transformer-preprocess": "n"}, "transformer-preprocess: 'n', transformer-postprocess: 'dan'"),
        ({"transformer-ffn-activation": "tanh"}, "transformer-ffn-activation: tanh; nmt has relu, swish, gelu"),
        ({"transformer-disable-position-embeddings": True}, "transformer-disable-position-embeddings: True"),
        ({"transformer-train-position-embeddings": True}, "transformer-train-position-embeddings"),
        ({"right-left": True}, "writing from right to left"),
        ({"enc-depth": "six"}, "encoder_layers: expected a whole number, got 'six'"),
        ({"enc-depth": 2}, "encoder_l2_self_Wq"),
        ({"enc-depth": 10**15}, "say 1,000,000,000,000,001 layers, but it holds"),
    ],
)
def test_what_our_model_cannot_express_is_refused_by_name(settings, message, copy, tmp_path):
    change(copy, settings)
    with pytest.raises(NmtError, match=message):
        import_model(copy, tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()


def test_a_tensor_without_a_place_is_refused_by_name(copy, tmp_path):
    change(copy, tensors=lambda arrays: arrays.update(decoder_l1_extra_W=np.ones((2, 2), np.float32)))
    with pytest.raises(CheckpointError, match="decoder_l1_extra_W"):
        import_model(copy, tmp_path / "bundle")


def test_packed_weights_are_refused(copy, tmp_path):
    change(copy, tensors=lambda arrays: arrays.update(Wemb=arrays["Wemb"].astype(np.int8)))
    with pytest.raises(CheckpointError, match=r"Wemb holds numbers of type int8: it was packed for one processor"):
        import_model(copy, tmp_path / "bundle")


def test_a_tensor_of_another_size_is_refused(copy, tmp_path):
    change(copy, tensors=lambda arrays: arrays.update(encoder_l1_ffn_W1=np.ones((16, 23), np.float32)))
    with pytest.raises(CheckpointError, match=r"encoder_l1_ffn_W1 is 16 x 23, expected 16 x 24"):
        import_model(copy, tmp_path / "bundle")


def test_an_older_output_matrix_is_read_the_other_way_round(copy, tmp_path, imported):
    shutil.rmtree(copy)
    shutil.copytree(DATA / "marian-pre", copy)

    def older(arrays):
        arrays["decoder_ff_logit_out_W"] = arrays.pop("decoder_ff_logit_out_Wt").T.copy()

    change(copy, tensors=older)
    import_model(copy, tmp_path / "bundle")
    weights, expected = (load_bundle(folder).weights for folder in (tmp_path / "bundle", imported / "marian-pre"))
    for name, tensor in expected.items():
        np.testing.assert_array_equal(weights[name], tensor)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "model.npz").write_bytes(b"PK\3\4 cut"), "is not an .npz file, or is damaged"),
        (lambda folder: np.savez(folder / "model.npz", a=np.ones(2)), "lacks special:model.yml"),
        (lambda folder: (folder / "vocab.yml").unlink(), "lacks vocab.yml"),
        (lambda folder: (folder / "vocab.yml").write_text("a: 0\n"), "lacks </s> and <unk>"),
        (lambda folder: (folder / "vocab.yml").write_text("</s>: 0\n<unk>: 1\n"), "has 2 pieces, but Wemb"),
        (lambda folder: (folder / "source.spm").unlink(), "no SentencePiece model lies beside it"),
        (lambda folder: (folder / "source.spm").write_bytes(b"\x0a\xff"), r"source\.spm: is not a SentencePiece model"),
        (lambda folder: (folder / "decoder.yml").write_text("[1"), "is not YAML"),
        (lambda folder: (folder / "decoder.yml").write_text("models: [a.npz, b.npz]"), "names 2 models"),
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


def test_a_damaged_archive_is_refused(tmp_path):
    (tmp_path / "model.zip").write_bytes(b"PK\3\4")
    with pytest.raises(CheckpointError, match=r"is damaged, or no \.zip archive"):
        import_model(tmp_path / "model.zip", tmp_path / "bundle")


def test_a_native_model_that_marian_cannot_express_is_refused_by_name(make_bundle, tmp_path):
    with pytest.raises(NmtError, match=r"positions: sinusoidal, but Marian has only tensor2tensor"):
        export_model(make_bundle().folder, tmp_path / "out", to="marian")


def test_a_native_model_with_marians_settings_is_exported(make_bundle, tmp_path):
    bundle = make_bundle(positions="tensor2tensor", decoder_start="zero", norm="pre", attention_bias=False)
    certificate = export_model(bundle.folder, tmp_path / "out", to="marian")
    assert {check.name for check in certificate.checks} >= {"forced scores", "greedy outputs", "segmentation"}
