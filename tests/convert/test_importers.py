"""The importers of fairseq, OpenNMT-py, JoeyNMT, Sockeye and Eole: what they read, and what they refuse by its name."""

import collections
import functools
import json
import re
import sys
import types
import typing
from pathlib import Path

import numpy as np
import pytest
import torch
from sentencepiece import SentencePieceProcessor

import nmt
from nmt.checkpoint.bundle import load_bundle
from nmt.checkpoint.lineage import bundle_record
from nmt.convert.certificate.reference_side import ReferenceSide
from nmt.convert.converting import export_model, import_model
from nmt.convert.eole import read_eole
from nmt.convert.fairseq import read_dictionary, read_fairseq
from nmt.convert.foreign import ForeignVocabulary, Given, files_by_name
from nmt.convert.formats import READABLE, find_format
from nmt.convert.joeynmt import _restricted, decoding_config, read_joeynmt
from nmt.convert.opennmt_py import read_opennmt_py
from nmt.convert.segmenters import find_segmenters
from nmt.convert.settings import expressible, unknown_remarks, version_of
from nmt.convert.sockeye import read_sockeye
from nmt.convert.vocabulary import our_vocabulary
from nmt.convert.weights import our_weights
from nmt.data.vocab import train_vocabulary
from nmt.errors import CheckpointError, ConfigError, NmtError, VocabularyError
from nmt.lineage.comparing import lineage_of
from nmt.text.steps import Lowercase, MosesTokenize, Nfc, normalizer, tokenizer
from tests.convert.peers import (
    D_MODEL,
    MERGES,
    OF_MERGES,
    POSITIONS,
    WORDS,
    WRITERS,
    write_eole,
    write_fairseq,
    write_joeynmt,
    write_opennmt_py,
    write_sockeye,
)
from tests.convert.unexamined import examine_nothing

READERS = {form.name: form.read for form in READABLE if form.name in WRITERS}
PICKLED = ("fairseq", "joeynmt", "opennmt-py", "sockeye")
"""Those that keep their tensors in one pickle."""
TOOLKITS = (*PICKLED, "eole")
"""Those whose models are made here."""


def write(folder, name, **options):
    return WRITERS[name](folder / "theirs", **options)


def of_fairseq_0_10(state):
    """Fused projections, and numbered norms."""
    old = {}
    for name, tensor in state.items():
        if ".k_proj." in name:
            parts = [state[name.replace("k_proj", f"{letter}_proj")] for letter in "qkv"]
            old[name.replace(".k_proj.", ".in_proj_")] = torch.cat(parts)
        elif "layers.0" in name and "encoder" in name.split(".")[0] and "layer_norm" in name:
            number = 0 if "self_attn" in name else 1
            old[f"encoder.layers.0.layer_norms.{number}.{name.rsplit('.', 1)[1]}"] = tensor
        elif ".q_proj." not in name and ".v_proj." not in name and "output_projection" not in name:
            old[name] = tensor
    return old


def of_fairseq_0_12(state):
    """Each layer of its encoder stores tensors for a fast path, as zeros, and fills them when it is loaded."""
    names = [f"{part}_{end}" for part in ("in_proj", "out_proj", "fc1", "fc2") for end in ("weight", "bias")]
    return state | {f"encoder.layers.{number}.{name}": torch.zeros(1) for number in range(2) for name in names}


def of_opennmt_py_0(state):
    ends = {"weight": "a_2", "bias": "b_2"}
    return {
        f"{name.rpartition('.')[0]}.{ends[name.rpartition('.')[2]]}" if "layer_norm" in name else name: tensor
        for name, tensor in state.items()
    }


def with_embed_out(state):
    return {name.replace("output_projection.weight", "embed_out"): tensor for name, tensor in state.items()}


@pytest.mark.parametrize(
    ("name", "change", "options"),
    [
        ("fairseq", of_fairseq_0_10, {"legacy": True, "form": "cfg"}),
        ("fairseq", of_fairseq_0_12, {}),
        ("fairseq", with_embed_out, {"tied": "none"}),
        ("opennmt-py", of_opennmt_py_0, {}),
        ("sockeye", lambda state: state | {"length_ratio.layers.0.weight": torch.zeros(3)}, {}),  # beside the model
        ("sockeye", lambda state: {n: t if "pos_" in n else t.half() for n, t in state.items()}, {}),
    ],
)
def test_tensors_of_other_versions_are_the_same_model(tmp_path, name, change, options):
    tied = {key: value for key, value in options.items() if key == "tied"}
    expected = READERS[name](write(tmp_path, name, **tied))
    found = READERS[name](WRITERS[name](tmp_path / "other", state=change, **options))
    assert found.config == expected.config
    ours = our_weights(expected)
    for weight, tensor in our_weights(found).items():
        assert torch.allclose(tensor, ours[weight], rtol=1e-3, atol=1e-3), weight


def test_positions_of_fairseq_begin_after_padding(tmp_path):
    assert read_fairseq(write(tmp_path, "fairseq")).config.first_position == 2
    learned = read_fairseq(write_fairseq(tmp_path / "learned", learned=True))
    assert (learned.config.first_position, learned.naming.first_position) == (0, 2)
    assert learned.config.max_positions == POSITIONS
    assert not import_model(tmp_path / "learned", tmp_path / "bundle").failed


@pytest.mark.parametrize(
    ("name", "epsilon", "options"),
    [
        ("fairseq", 1e-5, {}),
        ("opennmt-py", 1e-6, {"norm_eps": None}),
        ("opennmt-py", 1e-5, {"norm_eps": 1e-5}),
        ("joeynmt", 1e-6, {}),
        ("sockeye", 1e-6, {}),
    ],
)
def test_the_epsilon_of_norms_is_the_toolkits(tmp_path, name, epsilon, options):
    """Results hardly show it, so it is stated."""
    assert READERS[name](write(tmp_path, name, **options)).config.norm_epsilon == epsilon


def test_languages_of_fairseq_can_be_given(tmp_path):
    origin = write(tmp_path, "fairseq", source_lang=None, target_lang=None)
    with pytest.raises(CheckpointError, match="--source-lang and --target-lang"):
        read_fairseq(origin)
    model = read_fairseq(origin, Given(source_lang="en", target_lang="de"))
    assert (model.source_lang, model.target_lang) == ("en", "de")
    (origin / "dict.de.txt").unlink()
    with pytest.raises(CheckpointError, match=r"lacks dict\.de\.txt"):
        read_fairseq(origin, Given(source_lang="en", target_lang="de"))


def rewrite(path, change):
    """Change the text of a file by a function."""
    path.write_text(change(path.read_text("utf-8")), "utf-8")


def turned(text):
    """The lines in the opposite order."""
    return "".join(reversed(text.splitlines(keepends=True)))


def turned_ids(text):
    """A vocabulary of Sockeye with the words, which stand after four special pieces, in the opposite order."""
    pieces = list(json.loads(text))
    return json.dumps({piece: index for index, piece in enumerate([*pieces[:4], *pieces[:3:-1]])})


@pytest.mark.parametrize(
    ("name", "file", "change"),
    [
        ("fairseq", "dict.de.txt", turned),
        ("joeynmt", "trg_vocab.txt", turned),
        ("sockeye", "vocab.trg.0.json", turned_ids),
    ],
)
def test_each_side_has_the_pieces_of_its_own_file(tmp_path, name, file, change):
    origin = write(tmp_path, name)
    rewrite(origin / file, change)
    model = READERS[name](origin)
    assert model.source.pieces[4:] == WORDS
    assert model.target.pieces[4:] == WORDS[::-1]


def test_pieces_that_pad_a_dictionary_are_kept(tmp_path):
    path = tmp_path / "dict.en.txt"
    path.write_text("the 12\na 7 #fairseq:overwrite\nmadeupword0000 0\n")
    assert read_dictionary(path) == ["<s>", "<pad>", "</s>", "<unk>", "the", "a", "madeupword0000"]
    path.write_text("the\n")
    with pytest.raises(VocabularyError, match=r"dict\.en\.txt, line 1: expected a piece and its count, got 'the'"):
        read_dictionary(path)


def test_several_unknown_words_stay_several_pieces(tmp_path):
    vocab = our_vocabulary(read_fairseq(write(tmp_path, "fairseq"))).source
    pieces = [vocab.pieces(ids) for ids in vocab.encode(["the  Q W boat E", "", "x@@ y@@ z"])]
    assert pieces == [["▁the", "<unk>", "<unk>", "▁boat", "<unk>"], [], ["▁x@@", "▁y@@", "▁z"]]
    assert vocab.decode(vocab.encode(["x@@ y@@ z the"])) == ["x@@ y@@ z the"]


@pytest.fixture(scope="module")
def certified(tmp_path_factory):
    """A bundle of a model of fairseq, and its certificate."""
    folder = tmp_path_factory.mktemp("certified")
    return folder / "bundle", import_model(write(folder, "fairseq"), folder / "bundle")


def test_the_files_of_the_other_toolkit_are_found_where_they_lie(certified, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("model.pt", "dict.en.txt"):
        Path(name).write_text("of another model")
    [foreign] = lineage_of(bundle_record(certified[0])).made_from
    assert {part.state for part in foreign.made_from} == {"unchanged"} and len(foreign.made_from) > 1


@pytest.fixture(scope="module")
def imported(certified):
    return nmt.load(certified[0], device="cpu", threads=1)


def test_a_line_with_a_word_that_the_model_lacks_is_translated(imported):
    """Characters of segmented text are no pieces, so none is copied for want of one."""
    line = "the boat leaves at Zanzibar tomorrow"
    [found] = imported.translate([line], beam=1)
    assert found.source_pieces == ("▁the", "▁boat", "▁leaves", "▁at", "<unk>", "▁tomorrow")
    assert found.text != line
    [left] = imported.translate([line], beam=1, copy_unknown=False)
    assert found.text == left.text
    with pytest.raises(ConfigError, match="copy_unknown: "):
        imported.translate([line], copy_unknown=True)


def test_targets_are_scored_with_the_models_own_normalization(imported):
    [own], [length], [papers] = (
        imported.score(["the boat leaves"], ["a b c the"], length_normalization=kind)
        for kind in (None, "length", "paper")
    )
    assert own.score == length.score == pytest.approx(own.log_probability / 5)
    assert papers.score == pytest.approx(own.log_probability / (10 / 6))


def test_the_option_for_scripts_is_refused_where_a_toolkit_has_none(tmp_path):
    path = write(tmp_path / "theirs", "fairseq")
    with pytest.raises(ConfigError, match=r"--ignore-unknown-steps applies to models of Marian .* a model of fairseq"):
        import_model(path, tmp_path / "bundle", given=Given(ignore_unknown_steps=True))


def test_subword_nmt_is_told(certified, tmp_path):
    assert any("@@" in remark for remark in certified[1].remarks)
    plain = read_fairseq(write_fairseq(tmp_path / "plain", words=("a", "b", "c", "d")))
    assert [remark for remark in plain.remarks if "@@" in remark] == []


CODES = "".join(f"{pair} 9\n" for pair in MERGES)


def with_codes(folder, name="bpecodes", **options):
    (write_fairseq(folder, words=OF_MERGES, **options) / name).write_text(CODES)
    return folder


def test_a_model_with_codes_reads_and_writes_text(tmp_path):
    """As models of WMT 2019: tokens of Moses with entities and split dashes, which fastBPE's merges split."""
    certificate = import_model(with_codes(tmp_path / "theirs"), tmp_path / "bundle")
    assert not certificate.failed
    assert [remark for remark in certificate.remarks if "Moses" in remark and "-a" in remark]
    assert [remark for remark in certificate.remarks if "separated by spaces" in remark] == []
    [found] = nmt.load(tmp_path / "bundle", device="cpu", threads=1).translate(["the boat's well-at."])
    assert found.source_pieces == ("▁the", "▁bo@@", "▁at", "▁&apos;s", "▁well", "▁@-@", "▁at", "▁.")
    bundle = load_bundle(tmp_path / "bundle")
    target = bundle.vocab.target.prepared(bundle.config.data.target_text, {})
    assert target.decode([target.ids(found.source_pieces)]) == ["the boat 's well-at."]  # as Moses does in German


def test_a_model_with_codes_goes_to_ctranslate2_alone_and_not_back(tmp_path, monkeypatch):
    pytest.importorskip("ctranslate2")
    examine_nothing(monkeypatch)
    import_model(with_codes(tmp_path / "theirs"), tmp_path / "bundle")
    for to in ("huggingface", "argos"):
        with pytest.raises(NmtError, match=r"its text goes through a tokeniser or byte-pair codes, .* to ctranslate2"):
            export_model(tmp_path / "bundle", tmp_path / "out", to=to)
    monkeypatch.undo()
    assert not export_model(tmp_path / "bundle", tmp_path / "out", to="ctranslate2").failed
    assert "For plain text, use the line of `pipeline`" in (tmp_path / "out" / "README.md").read_text()
    lines, options = ["the boat's well-at.", "the at", ""], {"device": "cpu", "precision": "fp32", "threads": 1}
    [ours, theirs] = (
        nmt.load(tmp_path / folder, engine=engine, **options).translate(lines, beam=1, guard=False)
        for folder, engine in (("bundle", "torch"), ("out", "ctranslate2"))
    )
    assert [one.source_pieces for one in theirs] == [one.source_pieces for one in ours]
    assert [one.text for one in theirs] == [one.text for one in ours]
    with pytest.raises(CheckpointError, match=r"codes split its words, which an import would lose\. Import the bundle"):
        import_model(tmp_path / "out", tmp_path / "again")


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("code", {}, {"escapes": True, "splits_dashes": True}),
        ("en.codes", {"tokenizer": "moses", "moses_no_escape": True}, {"escapes": False, "splits_dashes": True}),
        ("bpe.codes", {"tokenizer": "moses", "moses_no_dash_splits": True}, {"escapes": True, "splits_dashes": False}),
        ("bpecodes", {"tokenizer": "space"}, None),
    ],
)
def test_the_tokeniser_of_fairseq_is_the_named_one_or_moses(tmp_path, name, options, expected):
    model = read_fairseq(with_codes(tmp_path, name, **options))
    assert model.source.codes == CODES and name in model.files
    assert [step for step in model.text.source if step.step == "moses_tokenize"] == (
        [] if expected is None else [MosesTokenize(language="en", **expected)]
    )
    assert any("words separated by spaces" in remark for remark in model.remarks) == (expected is None)
    assert any("does not name the tokeniser" in remark for remark in model.remarks) == (options == {})


def opennmt_py(folder, transform, **options):
    return write_opennmt_py(folder, words=OF_MERGES, transforms=[transform], **options)


def eole(folder, transform, **options):
    return write_eole(folder, words=OF_MERGES, transforms=[transform], transforms_configs={transform: options})


@pytest.mark.parametrize(("write_with", "read"), [(opennmt_py, read_opennmt_py), (eole, read_eole)])
def test_codes_that_a_transform_names_split_words(tmp_path, write_with, read):
    """The toolkits leave it to their users to tokenise text before."""
    named = {"src_subword_model": "/elsewhere/codes", "tgt_subword_model": "/elsewhere/other"}
    (write_with(tmp_path, "bpe", **named) / "codes").write_text(CODES)
    model = read(tmp_path)
    assert model.source.codes == model.target.codes == CODES and "codes" in model.files
    assert any("words separated by spaces" in remark for remark in model.remarks)
    (tmp_path / "other").write_text("#version: 0.2\na b\n")
    assert "a b" in read(tmp_path).target.codes
    assert read(write_with(tmp_path, "bpe", src_subword_vocab="frequent", **named)).source.codes is None
    assert read(write_with(tmp_path, "other", **named)).source.codes is None


def test_sentencepiece_models_that_a_transform_of_opennmt_py_names_are_read(tmp_path):
    models, words = two_models()
    named = {"src_subword_model": "/elsewhere/mine", "transforms": ["sentencepiece", "filtertoolong"]}
    origin = write(tmp_path, "opennmt-py", words=words, **named)
    for name, vocab in (("mine", models[0]), ("spm.model", models[1])):
        (origin / name).write_bytes(vocab.model_bytes)
    assert read_opennmt_py(origin).source.segmenter == read_opennmt_py(origin).target.segmenter == models[0].model_bytes


def test_codes_beside_a_sentencepiece_model_are_not_used(tmp_path):
    models, words = two_models()
    origin = with_codes(write(tmp_path, "fairseq", words=words).parent)
    (origin / "spm.model").write_bytes(models[0].model_bytes)
    assert read_fairseq(origin).source.codes is None


@pytest.mark.parametrize("name", TOOLKITS)
def test_sentencepiece_models_are_found_or_given(tmp_path, name):
    trained = train_vocabulary(["the boat leaves at noon", "nobody heard the bell"] * 3, size=30).vocab
    origin = write(tmp_path, name, words=tuple(trained.pieces(range(4, trained.size))))
    with pytest.raises(VocabularyError, match="--source-spm or --target-spm"):
        READERS[name](origin)
    spm = tmp_path / "mine.spm"
    spm.write_bytes(trained.model_bytes)
    given = READERS[name](origin, Given(source_spm=spm, target_spm=spm))
    assert [remark for remark in given.remarks if "spaces" in remark] == []
    spm.rename(origin / "sentencepiece.bpe.model")
    for model in (given, READERS[name](origin)):
        assert model.source.segmenter == model.target.segmenter == trained.model_bytes
    (origin / "sentencepiece.bpe.model").write_bytes(b"nonsense")
    with pytest.raises(VocabularyError, match=r"sentencepiece\.bpe\.model: is not a SentencePiece model"):
        READERS[name](origin)


GIVEN = Given(source_spm=Path("a.spm"), target_spm=Path("b.spm"))


@pytest.mark.parametrize(
    ("names", "given", "expected"),
    [
        (("spm.model",), Given(), ("spm.model", "spm.model")),
        (("spm.model", "spm.en.model"), Given(), ("spm.en.model", "spm.model")),
        (("spm.model", "de.spm"), Given(), ("spm.model", "de.spm")),
        (("src.spm", "tgt.spm"), Given(), ("src.spm", "tgt.spm")),
        (("source.spm", "spm.trg.model"), Given(), ("source.spm", "spm.trg.model")),
        (("source.spm",), Given(), ("source.spm", None)),
        (("source.spm", "target.spm"), GIVEN, ("a.spm", "b.spm")),
        (("source.spm", "target.spm"), Given(target_spm=Path("b.spm")), ("source.spm", "b.spm")),
    ],
)
def test_each_side_has_the_sentencepiece_model_that_is_given_or_its_own_or_the_joint_one(
    tmp_path, names, given, expected
):
    for name in names:
        (tmp_path / name).touch()
    found = find_segmenters(tmp_path, given, ("en", "de"))
    assert tuple(path and path.name for path in found) == expected


def two_models():
    """Two SentencePiece models, and the pieces of both."""
    models = [train_vocabulary([line] * 3, size=20).vocab for line in ("the boat leaves at noon", "nobody heard it")]
    return models, tuple(dict.fromkeys(piece for vocab in models for piece in vocab.pieces(range(4, vocab.size))))


@pytest.mark.parametrize("name", TOOLKITS)
def test_given_languages_count_for_more_than_those_of_the_files_and_find_sentencepiece_models(tmp_path, name):
    models, words = two_models()
    origin = write(tmp_path, name, words=words)
    for file, vocab in zip(("spm.fr.model", "nl.spm"), models, strict=True):
        (origin / file).write_bytes(vocab.model_bytes)
    if name == "fairseq":  # whose dictionaries are named after the languages
        for code, other in (("en", "fr"), ("de", "nl")):
            (origin / f"dict.{code}.txt").rename(origin / f"dict.{other}.txt")
    model = READERS[name](origin, Given(source_lang="fr", target_lang="nl"))
    assert (model.source_lang, model.target_lang) == ("fr", "nl")
    assert [side.segmenter for side in (model.source, model.target)] == [vocab.model_bytes for vocab in models]
    assert {"spm.fr.model", "nl.spm"} <= model.files.keys()


@pytest.mark.parametrize("kind", [{}, {"tokenizer_type": "sentencepiece"}, {"bpe_type": "sentencepiece"}])
def test_sentencepiece_models_that_joeynmt_names_are_those_of_their_sides(tmp_path, kind):
    models, words = two_models()
    sides = {
        side: {"lang": "xx", "level": "bpe", "tokenizer_cfg": {"model_file": f"/elsewhere/{side}.bpe.model"}, **kind}
        for side in ("src", "trg")
    }
    origin = write(tmp_path, "joeynmt", words=words, data=sides)
    for side, vocab in zip(sides, models, strict=True):
        (origin / f"{side}.bpe.model").write_bytes(vocab.model_bytes)
    other = train_vocabulary(["two small lamps"] * 3, size=16).vocab
    (origin / "spm.model").write_bytes(other.model_bytes)  # which would be taken if none were named
    model = read_joeynmt(origin)
    for side, vocab in ((model.source, models[0]), (model.target, models[1])):
        assert side.segmenter == vocab.model_bytes
    given = read_joeynmt(origin, Given(target_spm=origin / "spm.model"))
    expected = models[0].model_bytes, restricted(other.model_bytes, words)
    assert (given.source.segmenter, given.target.segmenter) == expected


def restricted(model, pieces):
    return _restricted(ForeignVocabulary(tuple(pieces), "<unk>", "</s>", model)).segmenter


@pytest.mark.parametrize("setting", ["tokenizer_type", "bpe_type"])
def test_codes_that_joeynmt_names_split_words_into_pieces_of_the_vocabulary(tmp_path, setting):
    side = {"lang": "en", "level": "bpe", setting: "subword-nmt", "tokenizer_cfg": {"codes": "/elsewhere/codes.txt"}}
    origin = write(tmp_path, "joeynmt", words=("bo@@", "t", "b@@", "o@@", "boat"), data={"src": side, "trg": side})
    (origin / "codes.txt").write_text("#version: 0.2\nb o\nbo a\n")
    model = read_joeynmt(origin)
    assert (model.source.segmenter, model.target.segmenter) == (None, None)
    vocab = our_vocabulary(model).source
    assert vocab.pieces(vocab.encode(["bot boat"])[0]) == ["▁bo@@", "▁t", "▁bo@@", "<unk>", "▁t"]  # boa@@ is no piece
    (origin / "codes.txt").unlink()
    assert any("pieces separated by spaces" in remark for remark in read_joeynmt(origin).remarks)


NASTY = "\t’A\u200bb” ,  ﬁC – »z. B.« \u3000?"
TOKENS = "\u200bA , b &amp; ( c ) ?"


# What the tokenisers of JoeyNMT 2.3.0 make of the line, and of the tokens of an output.
@pytest.mark.parametrize(
    ("settings", "line", "text"),
    [
        ({"lowercase": True}, "\t’a\u200bb” ,  ﬁc – »z. b.« \u3000?", TOKENS),
        ({"normalize": True}, "'Ab\", fiC – »z. B.«?", "A, b &amp; ( c )?"),
        ({"tokenizer_cfg": {"pretokenizer": "Moses"}}, "’ A \u200b b ” , ﬁC – » z. B. « ?", "\u200bA, b & (c)?"),
        (
            {"lowercase": True, "normalize": True, "tokenizer_cfg": {"pretokenizer": "moses"}},
            "&apos; ab , &quot; fic - &quot; z. b. &quot; ?",
            "A, b & (c)?",
        ),
    ],
)
def test_what_joeynmt_does_to_text_are_steps(tmp_path, settings, line, text):
    side = {"lang": "de", "level": "word", **settings}
    model = read_joeynmt(write(tmp_path, "joeynmt", data={"src": side, "trg": side}))
    assert model.text.source == model.text.target
    tokenize, join = tokenizer(model.text.source)
    assert (tokenize(normalizer(model.text.source)(NASTY)), join(TOKENS)) == (line, text)


def test_text_that_comes_as_pieces_only_becomes_lower_case(tmp_path):
    side = {"lang": "de", "level": "bpe", "tokenizer_type": "subword-nmt", "normalize": True, "lowercase": True}
    side["tokenizer_cfg"] = {"pretokenizer": "moses"}
    model = read_joeynmt(write(tmp_path, "joeynmt", data={"src": side, "trg": side}))
    assert model.text.source == (Nfc(), Lowercase())


def with_nonsense(name, tensor=None):
    def change(state):
        return state | {name: torch.zeros(3) if tensor is None else tensor}

    return change


def without(name):
    return lambda state: {key: tensor for key, tensor in state.items() if key != name}


REFUSED = [
    ("fairseq", {"arch": "lightconv_iwslt_de_en"}, "arch: lightconv_iwslt_de_en"),
    ("fairseq", {"activation_fn": "gelu_accurate"}, "activation_fn: gelu_accurate; nmt has relu"),
    ("fairseq", {"decoder_embed_dim": 32}, "encoder_embed_dim: 16, decoder_embed_dim: 32"),
    ("fairseq", {"decoder_attention_heads": 4}, "decoder_attention_heads: 4"),
    ("fairseq", {"decoder_normalize_before": True}, "decoder_normalize_before: True"),
    ("fairseq", {"encoder_attention_heads": 3, "decoder_attention_heads": 3}, "not a multiple of heads 3"),
    ("fairseq", {"encoder_layers": 10**9}, "1,000,000,001 layers"),
    ("fairseq", {"encoder_layers": 3}, r"lacks encoder\.layers\.2\.self_attn\.q_proj\.weight"),
    ("fairseq", {"encoder_layers": 1}, r"holds encoder\.layers\.1\..* more, which have no place in our model"),
    ("fairseq", {"encoder_layers": None}, "do not tell encoder_layers"),
    ("fairseq", {"encoder_ffn_embed_dim": 8, "decoder_ffn_embed_dim": 8}, "fc1.weight is 24 x 16, expected 8 x 16"),
    ("fairseq", {"state": with_nonsense("encoder.layers.0.w_attn")}, r"holds encoder.*w_attn, which have no place"),
    ("fairseq", {"state": with_nonsense("encoder.layers.0.fc1.packed", torch.zeros(3, dtype=torch.int8))}, "quantised"),
    ("fairseq", {"words": (*WORDS, "z", "the")}, "has the piece 'the' twice"),
    ("fairseq", {"state": lambda state: [1]}, "no tensors by name"),
    ("fairseq", {"state": lambda state: {"a": 1}}, "a of the model is not a tensor"),
    ("opennmt-py", {"pos_ffn_activation_fn": "silu"}, "pos_ffn_activation_fn: silu"),
    ("opennmt-py", {"pos_ffn_activation_fn": "gated-gelu"}, "pos_ffn_activation_fn: gated-gelu"),
    ("opennmt-py", {"heads": 0}, "settings are damaged"),
    ("opennmt-py", {"vocab": {"src": 5, "tgt": []}}, "vocabulary of src is not a list of pieces"),
    ("opennmt-py", {"positions": "Rotary"}, "position_encoding_type: Rotary"),
    (
        "joeynmt",
        {"encoder": {"embeddings": {"embedding_dim": D_MODEL}}},
        r"encoder\.embeddings\.scale: False, decoder\.embeddings\.scale: True.*only some are multiplied",
    ),
    ("joeynmt", {"encoder": {"activation": "tanh"}}, "encoder.activation: tanh"),
    ("joeynmt", {"encoder": {"layer_norm": "pre"}}, "encoder.layer_norm: pre, decoder.layer_norm: post"),
    ("joeynmt", {"encoder": {"ff_size": 30}}, "encoder.ff_size: 30, decoder.ff_size: 24"),
    ("joeynmt", {"data": {"special_symbols": {"sep_token": "<sep>"}}}, "sep_token: <sep>"),
    ("joeynmt", {"data": {"special_symbols": {"unk_id": 3}}}, "unk_id: 3"),
    ("sockeye", {"encoder": {"preprocess_sequence": ""}}, "config_encoder.preprocess_sequence: ''"),
    ("sockeye", {"encoder": {"model_size": 32}}, "config_encoder.model_size: 32, config_decoder.model_size: 16"),
    ("sockeye", {"activation": "tanh"}, "act_type: tanh; nmt has relu"),
    ("sockeye", {"positions": "none"}, "positional_embedding_type: none"),
    ("sockeye", {"state": without("output_layer.bias")}, "lacks output_layer.bias"),
    ("sockeye", {"state": with_nonsense("encoder.layers.0.self_attention.ff_in.weight")}, "not hold 3 projections"),
    ("sockeye", {"state": with_nonsense("nvs.project.weight")}, r"holds nvs\.project\.weight, which have no place"),
    ("fairseq", {"no_scale_embedding": torch.ones(2)}, "its setting no_scale_embedding is a tensor"),
    ("opennmt-py", {"norm_eps": torch.ones(2)}, "its setting norm_eps is a tensor"),
    ("eole", {"positions": "Rotary"}, "position_encoding_type: Rotary.*rotary positions"),
    ("eole", {"positions": "Relative"}, "position_encoding_type: Relative.*relative positions"),
    ("eole", {"positions": "Alibi"}, "position_encoding_type: Alibi.*ALiBi"),
    ("eole", {"positions": None}, "position_encoding_type: None.*no positions"),
    ("eole", {"embeddings": {"normalize": True}}, "normalize: True.*sinusoids that are multiplied"),
    ("eole", {"positions": "Learned", "embeddings": {"position_shift": -1}}, "position_shift: -1"),
    ("eole", {"positions": "Learned", "embeddings": {"position_shift": POSITIONS}}, "must be at least 2"),
    ("eole", {"decoder": {"mlp_activation_fn": "gelu"}}, "_fn: relu.*_fn: gelu.*two activations"),
    ("eole", {"decoder": {"heads_kv": 1}}, "decoder.heads_kv: 1.*share keys and values"),
    ("eole", {"model": {"attn_scaling": 4}}, "attn_scaling: 4.*another scale"),
    ("eole", {"decoder": {"heads": 4}}, "model.encoder.heads: 2, model.decoder.heads: 4.*numbers of heads"),
    ("eole", {"decoder": {"head_dim": 4}}, "head size of encoder: 8, head size of decoder: 4"),
    ("eole", {"decoder": {"hidden_size": 32}}, "hidden_size: 16.*decoder.hidden_size: 32.*different sizes"),
    ("eole", {"decoder": {"norm_eps": 1e-3}}, "encoder.norm_eps: 1e-05, model.decoder.norm_eps: 0.001.*two epsilons"),
    ("eole", {"model": {"architecture": "transformer_lm"}}, "architecture: transformer_lm.*an encoder and a decoder"),
    ("eole", {"model": {"heads": 0}}, "settings are damaged|do not tell"),
    ("eole", {"model": {"transformer_ff": 99}}, "gate_up_proj.weight is 24 x 16, expected 99 x 16"),
    ("eole", {"encoder": {"layers": 10**9}}, "1,000,000,001 layers"),
    ("eole", {"inference": {"length_penalty": "squared"}}, "inference.length_penalty: squared; nmt has avg"),
    ("eole", {"inference": {"beam_size": 0}}, "inference: its settings are damaged.*beam"),
    ("eole", {"state": with_nonsense("estimator.weight")}, "holds estimator.weight, which have no place"),
    ("eole", {"state": with_nonsense("tgt_emb.qweight"), "dtype": "int8"}, "not a tensor of floating"),
]
"""What a reader itself finds, beside the tables of ``expressible_settings.yaml``."""


TABLES: list[tuple[str, str, dict[str, str]]] = [
    ("fairseq", "fairseq", {}),
    ("opennmt-py", "OpenNMT-py", {}),
    ("joeynmt", "JoeyNMT layers", {"": "encoder."}),
    ("joeynmt", "JoeyNMT text", {"": "data.src."}),
    ("sockeye", "Sockeye", {"config_encoder.": "encoder.", "config_decoder.": "decoder."}),
    ("eole", "Eole", {"model.PART.": "encoder.", "model.embeddings.": "embeddings."}),
    ("huggingface", "Hugging Face", {}),
    ("huggingface", "Hugging Face MarianMT", {}),
    ("marian", "Marian", {}),
]
"""Format, its table of settings, and beginnings of a setting's name -> what the option of the writer is called."""


@pytest.mark.parametrize(("name", "table", "starts"), TABLES)
def test_every_setting_of_a_table_is_refused_by_its_name(tmp_path, name, table, starts):
    for number, (key, (_, needs)) in enumerate(expressible(table).items()):
        start = next(filter(key.startswith, starts), "")
        *parts, last = (starts.get(start, "") + key.removeprefix(start)).split(".")
        options = {last: "other"}
        for part in reversed(parts):
            options = {part: options}
        origin = WRITERS[name](tmp_path / str(number), **options)
        refused = f"{key.replace('PART', 'encoder')}: other, which nmt does not have. It would need {needs}."
        with pytest.raises(CheckpointError, match=re.escape(refused)):
            READERS[name](origin)


@pytest.mark.parametrize(
    ("name", "options", "message"), REFUSED, ids=[f"{name} {message[:50]}" for name, _, message in REFUSED]
)
def test_what_cannot_be_expressed_is_refused_by_its_name(tmp_path, name, options, message):
    origin = write(tmp_path, name, **options)
    with pytest.raises(NmtError, match=message):
        READERS[name](origin)


POSITIONS_ARE = r"expected a number of positions x 16|max_positions: must be"
TABLE = "encoder.embed_positions.weight"


@pytest.mark.parametrize(
    ("name", "tensor", "shapes", "message", "options"),
    [
        ("fairseq", "encoder.layers.0.fc1.bias", [(), (1,), (24, 1), (1, 1, 24)], "fc1.bias is .*, expected 24", {}),
        ("fairseq", "encoder.layers.0.fc1.weight", [(1, 24, 16)], "fc1.weight is .*, expected 24", {}),
        ("fairseq", TABLE, [()], "is a single number, expected a number of positions x 16", {"learned": True}),
        *(
            (name, table, [(), (0,), (7,), (24, 0), (3, 24)], POSITIONS_ARE, {})
            for name, table in (("opennmt-py", "encoder.embeddings.make_embedding.pe.pe"), ("joeynmt", "encoder.pe.pe"))
        ),
    ],
)
def test_a_tensor_of_another_shape_is_refused_even_if_it_has_the_numbers(
    tmp_path, name, tensor, shapes, message, options
):
    for shape in shapes:
        other = {tensor: torch.zeros(shape)}
        origin = write(tmp_path, name, state=lambda state, other=other: state | other, **options)
        with pytest.raises(CheckpointError, match=message):
            READERS[name](origin)


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("opennmt-py", "embeddings.make_embedding.pe.pe"),
        ("joeynmt", "pe.pe"),
        ("sockeye", "pos_embedding.weight"),
        ("eole", "_emb.pe.pe"),
    ],
)
def test_stored_positions_that_are_not_the_computed_ones_are_learned_ones(name, table, tmp_path):
    def shifted(state):
        return {key: tensor + 0.1 if key.endswith(table) else tensor for key, tensor in state.items()}

    origin = write(tmp_path, name, state=shifted)
    expected = READERS[name](WRITERS[name](tmp_path / "computed"))
    model = READERS[name](origin)
    assert expected.config.positions != "learned"
    assert (model.config.positions, model.config.max_positions) == ("learned", POSITIONS)
    assert any("as learned positions" in remark for remark in model.remarks)
    stored = next(tensor for key, tensor in model.tensors.items() if key.endswith(table)).reshape(POSITIONS, D_MODEL)
    assert np.array_equal(our_weights(model)["source_positions.weight"].numpy(), stored)


@pytest.mark.parametrize("name", ["fairseq", "joeynmt"])
def test_embeddings_that_are_not_scaled_are_brought_to_our_scale(name, tmp_path):
    scaled = READERS[name](WRITERS[name](tmp_path / "scaled"))
    if name == "fairseq":
        origin = write(tmp_path, name, no_scale_embedding=True)
    else:
        origin = write(tmp_path, name)
        rewrite(origin / "config.yaml", lambda text: text.replace("scale: true", "scale: false"))
    model = READERS[name](origin)
    assert (scaled.config.tied_embeddings, model.config.tied_embeddings) == ("all", "none")
    ours = our_weights(model)
    assert torch.allclose(ours["embedding.weight"] * D_MODEL**0.5, our_weights(scaled)["embedding.weight"])
    assert torch.equal(ours["embedding.output_weight"], our_weights(scaled)["embedding.weight"])


def test_keys_and_values_of_sockeye_alternate_by_head(tmp_path):
    model = read_sockeye(write(tmp_path, "sockeye"))
    fused = torch.load(tmp_path / "theirs" / "params.best")["decoder.layers.0.enc_attention.ff_kv.weight"].numpy()
    key, value = (model.parameter(f"decoder.0.cross_attention.{name}.weight") for name in ("key", "value"))
    assert np.array_equal(key, np.concatenate([fused[0:8], fused[16:24]]))
    assert np.array_equal(value, np.concatenate([fused[8:16], fused[24:32]]))


def test_sockeye_2_is_refused(tmp_path):
    origin = write(tmp_path, "sockeye")
    (origin / "version").write_text("2.3.24\n")
    with pytest.raises(CheckpointError, match=r"Sockeye 2\.3\.24\. Only models of Sockeye 3"):
        read_sockeye(origin)


@pytest.fixture
def torchtext():
    """The classes of OpenNMT-py 1 and 2 and of OmegaConf, so that pickle can write their objects."""
    made = {}
    for module, names in {
        "torchtext.data.field": ["Field"],
        "torchtext.vocab": ["Vocab"],
        "onmt.inputters.text_dataset": ["TextMultiField", "_feature_tokenize"],
        "omegaconf.dictconfig": ["DictConfig"],
        "omegaconf.nodes": ["AnyNode"],
        "omegaconf.base": ["ContainerMetadata", "Metadata"],
    }.items():
        for index in range(1, module.count(".") + 2):
            name = ".".join(module.split(".")[:index])
            sys.modules.setdefault(name, types.ModuleType(name))
            made[name] = sys.modules[name]
        for name in names:
            setattr(sys.modules[module], name, type(name, (), {"__module__": module}))
    yield made
    for name in made:
        del sys.modules[name]


def test_settings_of_fairseq_lie_within_omegaconf_in_2020(tmp_path, torchtext):
    """As fairseq pickled them before it stored plain mappings."""

    def node(kind, **attributes):
        made = getattr(torchtext[f"omegaconf.{'nodes' if kind == 'AnyNode' else 'dictconfig'}"], kind)()
        metadata = torchtext["omegaconf.base"].ContainerMetadata()
        vars(metadata).update(ref_type=typing.Any, object_type=dict, optional=True, key_type=typing.Any)
        vars(metadata).update(resolver_cache=collections.defaultdict(dict), flags={"struct": True})
        vars(made).update(attributes, _metadata=metadata, _parent=None)
        return made

    def config(values):
        return node("DictConfig", _content={key: node("AnyNode", _val=value) for key, value in values.items()})

    origin = write(tmp_path, "fairseq", pre=True)
    expected = read_fairseq(origin)
    checkpoint = torch.load(origin / "checkpoint_best.pt", weights_only=False)
    arguments = checkpoint.pop("args")
    languages = {"_name": "translation", "source_lang": "en", "target_lang": "de"}
    arguments._name = arguments.arch
    whole = node("DictConfig", _content={"model": node("AnyNode", _val=arguments), "task": config(languages)})
    flat = {"model": config(vars(arguments)), "task": config(languages)}
    for number, cfg in enumerate((whole, flat)):
        torch.save(checkpoint | {"args": None, "cfg": cfg}, origin / "checkpoint_best.pt")
        model = read_fairseq(origin)
        assert model.config == expected.config, number
        assert (model.source_lang, model.target_lang) == ("en", "de")


def test_vocabularies_of_opennmt_py_2_lie_within_objects(tmp_path, torchtext):
    def field(pieces):
        vocab = torchtext["torchtext.vocab"].Vocab()
        stoi = collections.defaultdict(int, {piece: i for i, piece in enumerate(pieces)})
        vars(vocab).update(itos=pieces, stoi=stoi, freqs=collections.Counter(pieces), vectors=None)
        inner = torchtext["torchtext.data.field"].Field()
        tokenize = functools.partial(
            torchtext["onmt.inputters.text_dataset"]._feature_tokenize, layer=0, feat_delim=None, truncate=None
        )
        vars(inner).update(vocab=vocab, pad_token="<blank>", unk_token="<unk>", tokenize=tokenize)
        outer = torchtext["onmt.inputters.text_dataset"].TextMultiField()
        vars(outer).update(fields=[("src", inner)])
        return outer

    source, target = ["<unk>", "<blank>", *WORDS], ["<unk>", "<blank>", "<s>", "</s>", *WORDS]
    vocab = {"src": field(source), "tgt": field(target), "indices": None}
    origin = write(tmp_path, "opennmt-py", tied="none", vocab=vocab, source_specials=("<unk>", "<blank>"))
    model = read_opennmt_py(origin)
    assert (list(model.source.pieces), list(model.target.pieces)) == (source, target)
    assert model.config.source_eos is False
    assert (model.decoding.beam, model.decoding.length_penalty) == (5, 0)  # version 3 divides by the length
    of_version_3 = read_opennmt_py(write(tmp_path, "opennmt-py")).decoding
    assert (of_version_3.beam, of_version_3.length_penalty, of_version_3.length_normalization) == (5, 1, "length")


@pytest.mark.parametrize(
    ("testing", "expected"),
    [
        ({"beam_size": 4, "beam_alpha": 0.7}, (4, 0.7)),
        ({"beam_size": 4, "alpha": 0.5}, (4, 0.5)),  # JoeyNMT 1
        ({"beam_size": 4, "beam_alpha": -1}, (4, 0)),  # the values that turn it off
        ({"beam_size": 0}, (1, 0)),
    ],
)
def test_the_search_of_joeynmt_is_read_in_its_old_and_new_names(testing, expected):
    decoding = decoding_config(testing)
    assert (decoding.beam, decoding.length_penalty) == expected


@pytest.mark.parametrize("key", ["rnn_size", "enc_rnn_size", "src_word_vec_size"])
def test_opennmt_py_had_other_names_for_the_size_of_vectors(tmp_path, key):
    settings = {"enc_hid_size": None, "dec_hid_size": None, "hidden_size": None, key: D_MODEL}
    assert read_opennmt_py(write(tmp_path, "opennmt-py", **settings)).config.d_model == D_MODEL


def with_two_layers(state):
    """The tensors of a model whose decoder has its layer twice."""
    first = "decoder.transformer_layers.0."
    twice = {name.replace(first, "decoder.transformer_layers.1."): tensor for name, tensor in state.items()}
    return twice | state


def test_one_number_of_layers_of_opennmt_py_is_that_of_both_parts(tmp_path):
    with pytest.raises(CheckpointError, match=r"lacks encoder\.transformer\.2\."):
        read_opennmt_py(write(tmp_path, "opennmt-py", layers=3))
    one = read_opennmt_py(write(tmp_path, "opennmt-py", layers=2, state=with_two_layers))
    assert (one.config.encoder_layers, one.config.decoder_layers) == (2, 2)


FEED_FORWARD_BIASES = re.compile(r".*\.feed_forward\.w_\d\.bias")


def without_feed_forward_biases(state):
    return {name: tensor for name, tensor in state.items() if not FEED_FORWARD_BIASES.fullmatch(name)}


def test_feed_forward_networks_of_opennmt_py_3_have_no_biases_by_default(tmp_path):
    origin = write(tmp_path, "opennmt-py", state=without_feed_forward_biases, add_ffnbias=False)
    assert not our_weights(read_opennmt_py(origin))["encoder.0.feed_forward.inner.bias"].any()


@pytest.mark.parametrize("settings", [{"add_ffnbias": True}, {}], ids=["said", "before version 3"])
def test_biases_that_opennmt_py_must_have_are_there(tmp_path, settings):
    origin = write(tmp_path, "opennmt-py", state=without_feed_forward_biases, **settings)
    with pytest.raises(CheckpointError, match=r"lacks .*feed_forward\.w_1\.bias"):
        read_opennmt_py(origin)


@pytest.mark.parametrize("part", ["task", "model"])
def test_what_fairseq_1_names_in_a_part_of_its_settings_is_refused_too(tmp_path, part):
    origin = write(tmp_path, "fairseq", form="cfg")
    checkpoint = torch.load(origin / "checkpoint_best.pt", weights_only=False)
    for key in ("task", "model"):
        values = checkpoint["cfg"][key]
        checkpoint["cfg"][key] = dict(values if isinstance(values, dict) else vars(values), _name="translation")
    checkpoint["cfg"]["model"] |= {"_name": "transformer"}
    checkpoint["cfg"]["model"].pop("arch")
    torch.save(checkpoint, origin / "checkpoint_best.pt")
    assert read_fairseq(origin).config.d_model == D_MODEL
    other = {"task": ("multilingual_translation", "task"), "model": ("lightconv", "arch")}
    checkpoint["cfg"][part]["_name"], named = other[part]
    torch.save(checkpoint, origin / "checkpoint_best.pt")
    with pytest.raises(CheckpointError, match=f"has {named}: {other[part][0]}"):
        read_fairseq(origin)


@pytest.mark.parametrize(("named", "start"), [({}, "<s>"), ({"decoder_start_token": "</s>"}, "</s>")])
def test_outputs_of_opennmt_py_start_with_the_piece_that_its_vocabulary_names(tmp_path, named, start):
    pieces = ["<unk>", "<blank>", "<s>", "</s>", *WORDS]
    model = read_opennmt_py(write(tmp_path, "opennmt-py", vocab={"src": pieces, "tgt": pieces, **named}))
    assert model.start == start


@pytest.mark.parametrize(
    ("place", "state", "is_read"),
    [
        ("pre", lambda state: state, True),
        ("post", lambda state: state, False),
        # A final norm of one side only.
        ("pre", lambda state: {k: v for k, v in state.items() if not k.startswith("decoder.layer_norm")}, False),
    ],
)
def test_joeynmt_1_always_normalises_before(tmp_path, place, state, is_read):
    origin = write(tmp_path, "joeynmt", layer_norm=place, state=state)
    rewrite(origin / "config.yaml", lambda text: text.replace(f"layer_norm: {place}", "layer_norm: null"))
    if is_read:
        assert read_joeynmt(origin).config.norm == "pre"
    else:
        with pytest.raises(CheckpointError, match="normalises before the encoder's layers and after the decoder's"):
            read_joeynmt(origin)


def test_both_sides_of_joeynmt_1_have_the_settings_of_their_text_in_common(tmp_path):
    """A side is only the code of its language."""
    trained = train_vocabulary(["the boat leaves at noon"] * 3, size=20).vocab
    words, of_text = tuple(trained.pieces(range(4, trained.size))), {"level": "bpe", "lowercase": False}
    origin = write(tmp_path, "joeynmt", words=words, data={"src": "fr", "trg": "nl", **of_text})
    (origin / "spm.model").write_bytes(trained.model_bytes)
    model = read_joeynmt(origin)
    assert (model.source_lang, model.target_lang) == ("fr", "nl")
    lowered = {"src": "fr", "trg": "nl", **of_text, "lowercase": True}  # its words are pieces already
    with pytest.raises(CheckpointError, match="lowercase: True"):
        read_joeynmt(write_joeynmt(origin, words=words, data=lowered))


def test_special_pieces_of_joeynmt_may_have_other_names(tmp_path):
    special = {"unk_token": "<u>", "pad_token": "<p>", "bos_token": "<b>", "eos_token": "<e>"}
    origin = write(tmp_path, "joeynmt", data={"special_symbols": special})
    for name in ("src_vocab.txt", "trg_vocab.txt"):
        (origin / name).write_text("".join(f"{piece}\n" for piece in (*special.values(), *WORDS)))
    model = read_joeynmt(origin)
    assert model.start == "<b>"
    for side in (model.source, model.target):
        assert (side.unk, side.pad, side.eos, side.pieces) == ("<u>", "<p>", "<e>", (*special.values(), *WORDS))


@pytest.mark.parametrize("name", PICKLED)
def test_a_file_within_the_folder_may_be_named(tmp_path, name):
    origin = write(tmp_path, name)
    [weights] = [path for path in origin.iterdir() if path.suffix in (".pt", ".ckpt") or path.name == "params.best"]
    assert find_format(weights).name == name
    assert READERS[name](weights).config == READERS[name](origin).config
    weights.unlink()
    with pytest.raises(CheckpointError, match="no "):
        find_format(origin).read(origin, Given())


@pytest.mark.parametrize(
    ("name", "best", "others"),
    [
        ("fairseq", "checkpoint_best.pt", ("checkpoint_last.pt", "checkpoint3.pt", "model.pt")),
        ("joeynmt", "best.ckpt", ("latest.ckpt", "avg_best.ckpt", "900.ckpt")),
        ("sockeye", "params.best", ("params.00007", "params.00009")),
    ],
)
def test_of_several_checkpoints_the_best_is_read(tmp_path, name, best, others):
    origin = write(tmp_path, name)
    for other in others:
        (origin / other).write_bytes(b"of another update")
    assert READERS[name](origin).files[best] == origin / best


@pytest.mark.parametrize(
    ("name", "change", "version"),
    [
        ("marian", lambda folder: None, "v1.12.42 b7be0e964 2025-05-24 22:34:42 -0700"),
        ("sockeye", lambda folder: (folder / "version").write_text("3.0.9\n"), "3.0.9"),
        ("joeynmt", lambda folder: rewrite(folder / "config.yaml", "joeynmt_version: 2.2.1\n{}".format), "2.2.1"),
    ],
)
def test_the_version_of_the_toolkit_is_that_of_the_files(tmp_path, name, change, version):
    origin = write(tmp_path, name)
    change(origin)
    assert find_format(origin).read(origin, Given()).version == version


def test_settings_of_tied_embeddings_are_not_believed(tmp_path):
    """What is stored says which matrices are the same."""
    joeynmt = write_joeynmt(tmp_path / "joeynmt", tied="decoder")
    rewrite(joeynmt / "config.yaml", lambda text: text.replace("tied_embeddings: false", "tied_embeddings: true"))
    assert read_joeynmt(joeynmt).config.tied_embeddings == "decoder"

    sockeye = write_sockeye(tmp_path / "sockeye", tied="none")
    assert "weight_tying_type: src_trg_softmax" in (sockeye / "config").read_text()
    assert read_sockeye(sockeye).config.tied_embeddings == "none"

    says_tied = {"share_decoder_embeddings": True, "share_embeddings": True}
    opennmt = write_opennmt_py(tmp_path / "opennmt-py", tied="none", **says_tied)
    assert read_opennmt_py(opennmt).config.tied_embeddings == "none"
    says_untied = {"share_decoder_embeddings": False, "share_embeddings": False}
    opennmt = write_opennmt_py(tmp_path / "tied", tied="all", **says_untied)
    assert read_opennmt_py(opennmt).config.tied_embeddings == "all"


def joeynmt_vocabulary(spm, folder, words, lines):
    """How an imported JoeyNMT with these pieces and a SentencePiece model segments lines."""
    origin = write_joeynmt(folder / "theirs", words=words)
    (origin / "spm.model").write_bytes(spm.model_bytes)
    model = read_joeynmt(origin)
    ours, theirs = our_vocabulary(model).source, ReferenceSide(model).segment(lines, "source")
    found = [ours.pieces(ids) for ids in ours.encode(lines)]
    assert found == theirs
    return found


SEGMENTED = {
    "bpe": ["▁t he ▁b oat ▁leaves ▁at ▁no on", "▁nobody ▁heard ▁t he ▁b ell", "▁t he ▁b o <unk> t"],
    "unigram": [
        "▁ t he ▁ bo a t ▁ l ea v e s ▁ a t ▁no o n",
        "▁no bo d y ▁ he a r d ▁ t he ▁b e l l",
        "▁ t he ▁ bo <unk> t",
    ],
}
"""What SentencePiece 0.2.0 makes of the lines after ``SetVocabulary``, which later versions do not offer."""


@pytest.mark.parametrize("model_type", SEGMENTED)
def test_pieces_that_joeynmt_lacks_are_split_further(tmp_path, model_type):
    """JoeyNMT tells SentencePiece which pieces its vocabulary has."""
    lines = ["the boat leaves at noon", "nobody heard the bell", "the bell", "boat noon"]
    trained = train_vocabulary(lines * 3, size=50 if model_type == "bpe" else 32, model_type=model_type).vocab
    pieces, lacked = trained.pieces(range(4, trained.size)), ("▁the", "▁bell", "▁boat", "▁noon")
    assert set(lacked) & set(pieces)
    kept = tuple(piece for piece in pieces if piece not in lacked)
    found = joeynmt_vocabulary(trained, tmp_path, kept, [*lines[:2], "the boät"])
    assert [" ".join(row) for row in found] == SEGMENTED[model_type]
    assert import_model(tmp_path / "theirs", tmp_path / "bundle").failed == []


def test_a_single_character_that_joeynmt_lacks_is_still_used():
    trained = train_vocabulary(["the boat leaves at noon"] * 3, size=22).vocab
    processor = SentencePieceProcessor(model_proto=restricted(trained.model_bytes, ["▁the"]))
    unused = {piece for index, piece in enumerate(trained.pieces(range(trained.size))) if processor.is_unused(index)}
    assert unused == {piece for piece in trained.pieces(range(4, trained.size)) if len(piece) > 1} - {"▁the"}


@pytest.mark.parametrize(("source", "target", "expected"), [(100, 50, 50), (50, 100, 50), (None, 60, 60)])
def test_positions_of_fairseq_are_those_of_the_side_with_fewer(tmp_path, source, target, expected):
    origin = write(tmp_path, "fairseq", max_source_positions=source, max_target_positions=target)
    assert read_fairseq(origin).config.max_positions == expected


@pytest.mark.parametrize("lang", ["../secret", "../../secret", "/secret", "a/b"])
def test_the_language_of_a_downloaded_model_names_no_folder(tmp_path, lang):
    origin = write_joeynmt(tmp_path / "a" / "theirs", data={"src": {"lang": lang, "level": "bpe"}})
    for folder in (tmp_path, tmp_path / "a"):
        (folder / "secret.spm").write_bytes(train_vocabulary(["the boat"], size=12).vocab.model_bytes)
    model = read_joeynmt(origin)
    assert (model.source_lang, model.source.segmenter) == ("", None)
    assert Given().languages("pt_BR", 7) == ("pt_BR", "")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (
            "v1.12.0 65bf82f 2023-02-21 09:56:29 -0800",
            "v1.12.0 65bf82f 2023-02-21 09:56:29 -0800",
        ),  # as Marian tells it
        *((value, None) for value in ("", "1\x1b[2J", "1\n2", "9" * 81, 4.3, None)),
    ],
)
def test_a_version_is_short_text_that_a_terminal_may_show(value, expected):
    assert version_of(value) == expected


def test_files_of_one_name_are_all_recorded(tmp_path):
    paths = [tmp_path / name for name in ("x/en/spm.model", "x/de/spm.model", "y/de/spm.model", "model.pt")]
    assert files_by_name([*paths, None, paths[0]]) == {
        "spm.model": paths[0],
        "de/spm.model": paths[1],
        "y/de/spm.model": paths[2],
        "model.pt": paths[3],
    }


def test_settings_that_nobody_knows_are_named_unless_they_are_off():
    known = {"encoder_layers": 2, "lr": [0.1], "scale_attn": False}
    off = {"off": False, "none": None, "zero": 0, "empty": "", "list": []}
    unknown = {"twist": [0], "encoder.spin": "left"} | off
    [remark] = unknown_remarks(known | unknown, {"scale_attn": ((False,), "norms")}, "fairseq")
    assert remark.startswith("The model has settings that nmt does not know: twist, encoder.spin. If one of them")
    assert remark.endswith("translations differ from those of fairseq.")
    assert [*unknown_remarks(known, {"scale_attn": ((False,), "norms")}, "fairseq")] == []


@pytest.mark.parametrize(
    ("name", "options", "named"),
    [
        ("fairseq", {"twist": 3}, "twist"),
        ("opennmt-py", {"twist": 3}, "twist"),
        ("joeynmt", {"encoder": {"twist": 3}}, "encoder.twist"),
        ("sockeye", {"twist": 3}, "twist"),
        ("eole", {"encoder": {"twist": 3}}, "encoder.twist"),
        ("huggingface", {"twist": 3}, "twist"),
    ],
)
def test_a_setting_that_is_not_known_is_a_remark(tmp_path, name, options, named):
    def remarks(origin):
        return [remark for remark in READERS[name](origin).remarks if "does not know" in remark]

    assert remarks(write(tmp_path, name)) == []
    [remark] = remarks(WRITERS[name](tmp_path / "newer", **options))
    assert f"does not know: {named}." in remark


@pytest.mark.parametrize(
    ("named", "says"),
    [
        ("https://a.example/opus.zip", "https://a.example/opus.zip: download the model, and name its file or folder."),
        ("Helsinki-NLP/opus-mt-en-de", "hf download Helsinki-NLP/opus-mt-en-de --local-dir DIR; nmt import DIR"),
        ("model.pt", "model.pt: no such file or folder."),
    ],
)
def test_a_model_that_is_elsewhere_is_to_be_downloaded(named, says):
    with pytest.raises(CheckpointError, match=f"{re.escape(says)}$"):
        find_format(Path(named))
