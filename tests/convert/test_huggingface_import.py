"""Models of MarianMT become bundles that compute the same, or are refused by name. All this without transformers."""

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from nmt.checkpoint.bundle import load_bundle, save_bundle
from nmt.config import Config
from nmt.convert.certificate.our_side import OurSide
from nmt.convert.certificate.reference_side import ReferenceSide
from nmt.convert.converting import import_model
from nmt.convert.foreign import Given
from nmt.convert.formats import find_format
from nmt.convert.huggingface.reading import read_huggingface
from nmt.convert.sentencepiece_file import with_used_pieces
from nmt.convert.vocabulary import our_vocabulary
from nmt.convert.weights import our_weights
from nmt.data.vocab import Vocabulary
from nmt.errors import NmtError
from nmt.model.positions import fixed_positions
from tests.convert.marian_mt import ORACLE, STORED
from tests.convert.peers import change_json

CASES = json.loads(ORACLE.read_text("utf-8"))["cases"]
SHARED = "model.shared.weight"


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """The bundle of the stored model."""
    folder = tmp_path_factory.mktemp("imported") / "bundle"
    certificate = import_model(STORED, folder)
    assert {"forced scores", "greedy outputs", "segmentation"} <= {check.name for check in certificate.checks}
    return folder


@pytest.fixture
def folder(tmp_path):
    """A copy of the stored model."""
    return shutil.copytree(STORED, tmp_path / "model")


def change_tensors(folder, **tensors):
    path = folder / "model.safetensors"
    changed = load_file(path) | {name.replace("__", "."): tensor for name, tensor in tensors.items()}
    save_file({name: tensor for name, tensor in changed.items() if tensor is not None}, path)


def bundle_of(model, folder):
    vocab = our_vocabulary(model)
    save_bundle(folder, our_weights(model), Config(model=model.config), vocab)
    return folder


def test_lines_become_the_pieces_of_transformers(imported):
    found = OurSide(imported).segment([case["line"] for case in CASES], "source")
    assert found == [case["source"] for case in CASES]


def test_log_probabilities_are_those_of_transformers(imported):
    cases = [case for case in CASES if "<unk>" not in case["source"]]
    assert len(cases) > 4
    found = OurSide(imported).score([case["source"] for case in cases], [case["target"] for case in cases])
    for case, scores in zip(cases, found, strict=True):
        assert scores == pytest.approx(np.array(case["scores"]), abs=1e-4)


def test_greedy_outputs_are_those_of_transformers(imported):
    cases = [case for case in CASES if case["source"] and "<unk>" not in case["source"]]
    found = OurSide(imported).search([case["source"] for case in cases], 1, 15)
    assert [list(best.pieces) for [best] in found] == [
        [piece for piece in case["greedy"] if piece != "</s>"][:15] for case in cases
    ]
    assert len({tuple(case["greedy"]) for case in cases}) > 2


def test_settings_and_languages_are_read():
    model = read_huggingface(STORED)
    assert (model.config.activation, model.config.positions) == ("swish", "sinusoidal_halves")
    assert (model.config.decoder_start, model.config.tied_embeddings, model.start) == ("zero", "all", "<pad>")
    assert model.config.norm_epsilon == 1e-5
    assert (model.decoding.beam, model.decoding.length_penalty, model.decoding.length_normalization) == (
        6,
        0.8,
        "length",
    )
    assert (model.source_lang, model.target_lang) == ("eng", "deu")
    assert find_format(STORED).name == "huggingface"
    given = read_huggingface(STORED, Given(source_lang="en", target_lang="de"))
    assert (given.source_lang, given.target_lang) == ("en", "de")
    assert our_vocabulary(model).source.language_tags == (">>deu<<",)


def test_a_failed_certificate_leaves_no_bundle(tmp_path, monkeypatch):
    name = "encoder.0.feed_forward.output.weight"

    def wrong(model):
        weights = our_weights(model)
        return weights | {name: weights[name].neg()}

    monkeypatch.setattr("nmt.convert.converting.our_weights", wrong)
    with pytest.raises(NmtError, match="The check of encoder states failed"):
        import_model(STORED, tmp_path / "bundle")
    assert [path.name for path in tmp_path.iterdir()] == ["bundle.parity.json"]


def test_a_model_in_several_files_is_the_same(folder):
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    parts = {"model-00001-of-00002.safetensors": names[:20], "model-00002-of-00002.safetensors": names[20:]}
    for file, held in parts.items():
        save_file({name: tensors[name] for name in held}, folder / file)
    check_same(read_huggingface(folder))
    (folder / "model-00001-of-00002.safetensors").unlink()
    with pytest.raises(NmtError, match="lacks "):
        read_huggingface(folder)


def test_an_older_file_of_tensors_is_the_same(folder):
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    tied = dict.fromkeys(["lm_head.weight", "model.encoder.embed_tokens.weight"], tensors[SHARED])
    torch.save(tensors | tied, folder / "pytorch_model.bin")
    check_same(read_huggingface(folder))


def check_same(model):
    expected = our_weights(read_huggingface(STORED))
    found = our_weights(model)
    assert found.keys() == expected.keys()
    assert all(torch.equal(weight, expected[name]) for name, weight in found.items())


class Harmful:
    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        return open, (str(self.file), "w")


def test_options_of_the_search_that_a_bundle_does_not_keep_are_remarks(folder):
    assert read_huggingface(folder).remarks == ()
    change_json(folder / "generation_config.json", no_repeat_ngram_size=3, do_sample=False, repetition_penalty=1.2)
    rest = "which bundles do not keep: translations may differ from those of transformers."
    assert read_huggingface(folder).remarks == tuple(
        f"generation_config.json has {option}, {rest}"
        for option in ("repetition_penalty: 1.2", "no_repeat_ngram_size: 3")
    )


def test_a_folder_of_the_trainer_is_one_of_hugging_face(folder):
    for name in ("optimizer.pt", "scheduler.pt", "training_args.bin", "rng_state.pth"):
        torch.save({}, folder / name)
    assert find_format(folder).name == "huggingface"


def test_pickled_code_is_never_run(folder, tmp_path):
    (folder / "model.safetensors").unlink()
    torch.save({SHARED: Harmful(tmp_path / "ran")}, folder / "pytorch_model.bin")
    with pytest.raises(NmtError, match=r"pytorch_model\.bin.*runs no pickled code"):
        read_huggingface(folder)
    assert not (tmp_path / "ran").exists()


def stored_positions(shift=0.0):
    config = read_huggingface(STORED).config
    return fixed_positions(config).float() + shift


def test_stored_positions_that_are_the_computed_ones_are_left_out(folder):
    change_tensors(folder, model__encoder__embed_positions__weight=stored_positions())
    model = read_huggingface(folder)
    assert model.config.positions == "sinusoidal_halves"


def test_stored_positions_of_another_model_are_refused(folder):
    change_tensors(folder, model__decoder__embed_positions__weight=torch.zeros(3, 8))
    with pytest.raises(NmtError, match="has 3 positions, but the settings say 40"):
        read_huggingface(folder)


def test_other_stored_positions_are_learned_ones(folder, tmp_path):
    change_tensors(folder, model__encoder__embed_positions__weight=stored_positions(0.5))
    model = read_huggingface(folder)
    weights = our_weights(model)
    assert model.config.positions == "learned"
    assert torch.equal(weights["source_positions.weight"], stored_positions(0.5))
    assert torch.equal(weights["target_positions.weight"], stored_positions())
    check_scores(model, bundle_of(model, tmp_path / "bundle"))


def check_scores(model, bundle):
    ours, theirs = OurSide(bundle), ReferenceSide(model)
    sources, targets = ([["▁b", "e", "ll"], ["a"]], [["▁", "g", "a"], ["e", "e"]])
    for found, expected in zip(ours.score(sources, targets), theirs.score(sources, targets), strict=True):
        assert found == pytest.approx(expected, abs=1e-5)


def test_embeddings_that_are_not_scaled_are_brought_to_our_scale(folder, tmp_path):
    """Also where sqrt(d_model) is no power of two, and the division rounds."""
    change_json(folder / "config.json", scale_embedding=False)
    model, stored = read_huggingface(folder), load_file(folder / "model.safetensors")[SHARED].float()
    assert model.config.tied_embeddings == "none"
    weights, theirs = our_weights(model), model.target.pieces.index("▁b")
    [ours] = our_vocabulary(model).target.ids(["▁b"])
    assert torch.allclose(weights["embedding.weight"][ours] * 8**0.5, stored[theirs], rtol=1e-6)
    assert torch.equal(weights["embedding.output_weight"][ours], stored[theirs])
    check_scores(model, bundle_of(model, tmp_path / "bundle"))


def test_a_folder_without_generation_settings_has_those_of_config(folder):
    values = json.loads((folder / "generation_config.json").read_text("utf-8"))
    (folder / "generation_config.json").unlink()
    change_json(folder / "config.json", num_beams=3, bad_words_ids=values["bad_words_ids"])
    model = read_huggingface(folder)
    assert (model.decoding.beam, model.decoding.length_penalty) == (3, 1.0)


def test_generation_settings_of_their_own_are_not_mixed_with_those_of_config(folder):
    """What they leave out has the default of transformers, whatever an older version left in config.json."""
    values = json.loads((folder / "generation_config.json").read_text("utf-8"))
    del values["num_beams"], values["length_penalty"]
    (folder / "generation_config.json").write_text(json.dumps(values))
    change_json(folder / "config.json", num_beams=3, length_penalty=0.2)
    model = read_huggingface(folder)
    assert (model.decoding.beam, model.decoding.length_penalty) == (1, 1.0)


def test_sentencepiece_models_that_are_given_count_for_more_than_those_of_the_folder(folder, tmp_path):
    own = {side: (folder / f"{side}.spm").read_bytes() for side in ("source", "target")}
    (tmp_path / "mine.spm").write_bytes(with_used_pieces(own["source"], lambda piece: len(piece) == 1))
    mine = (tmp_path / "mine.spm").read_bytes()
    for side, expected in (("source", (mine, own["target"])), ("target", (own["source"], mine))):
        model = read_huggingface(folder, Given(**{f"{side}_spm": tmp_path / "mine.spm"}))
        assert (model.source.segmenter, model.target.segmenter) == expected


def test_an_ordinary_piece_with_the_name_of_a_special_one_is_kept_apart(folder, tmp_path):
    ids = json.loads((folder / "vocab.json").read_text("utf-8"))
    [last] = [piece for piece, index in ids.items() if index == 5]
    ids["<s>"] = ids.pop(last)
    (folder / "vocab.json").write_text(json.dumps(ids))
    model = read_huggingface(folder)
    vocab = load_bundle(bundle_of(model, tmp_path / "bundle")).vocab
    assert vocab.target.ids(["<s>"]) == [Vocabulary.BOS]
    assert "<s>'" in vocab.target.pieces(range(vocab.target.size))


REFUSED = [
    ("config.json", {"model_type": ["mbart"]}, "has model_type: .'mbart'., which nmt does not have"),
    ("config.json", {"activation_function": "gelu_new"}, "activation_function: gelu_new; nmt has relu, swish"),
    ("config.json", {"decoder_attention_heads": 2}, "encoder_attention_heads: 4, decoder_attention_heads: 2"),
    ("config.json", {"decoder_ffn_dim": 4}, "decoder_ffn_dim: 4"),
    ("config.json", {"encoder_layers": 2}, "lacks model.encoder.layers.1.self_attn"),
    ("config.json", {"d_model": 0}, "d_model: must be at least"),
    (
        "config.json",
        {"encoder_attention_heads": 3, "decoder_attention_heads": 3},
        "settings are damaged.*not a multiple of heads 3",
    ),
    ("config.json", {"d_model": 16}, "is 49 x 8, expected 49 x 16"),
    ("config.json", {"vocab_size": 50}, "vocab.json: has 49 pieces, but config.json says 50"),
    ("config.json", {"tie_word_embeddings": False}, "lacks lm_head.weight"),
    ("config.json", {"eos_token_id": 5}, "eos_token_id is 0 and 5"),
    ("generation_config.json", {"forced_bos_token_id": 3}, "generation_config.json: has forced_bos_token_id: 3"),
    ("generation_config.json", {"bad_words_ids": [[7]]}, "bad_words_ids: .7., but nmt suppresses only"),
    ("generation_config.json", {"bad_words_ids": [[48, 3]]}, "bad_words_ids"),
    ("generation_config.json", {"suppress_tokens": [9]}, "suppress_tokens: 9"),
    ("generation_config.json", {"num_beams": 0}, "generation_config.json.* beam: must be at least 1, got 0"),
    ("generation_config.json", {"length_penalty": -1}, "length_penalty: must be at least 0, got -1"),
    ("generation_config.json", {"decoder_start_token_id": 99}, "decoder_start_token_id is 99"),
    ("tokenizer_config.json", {"unk_token": "[UNK]"}, "vocab.json: lacks .UNK."),
    ("tokenizer_config.json", {"pad_token": "<blank>"}, "vocab.json: lacks <blank>"),
    ("tokenizer_config.json", {"separate_vocabs": True}, "target_vocab.json: cannot be read"),
    ("vocab.json", {"new": 49}, "vocab.json: has 50 pieces"),
    ("vocab.json", {"a": 0}, "its ids are not 0, 1, 2"),
    ("vocab.json", {"\ud800": 49}, "which is not text"),
]


@pytest.mark.parametrize(("file", "values", "message"), REFUSED, ids=[f"{a} {b}"[:60] for a, b, _ in REFUSED])
def test_what_we_cannot_express_is_refused_by_name(file, values, message, folder):
    change_json(folder / file, **values)
    with pytest.raises(NmtError, match=message):
        read_huggingface(folder)


WRONG_TENSORS = [
    ({"model__extra": torch.zeros(2)}, "holds model.extra, which have no place"),
    ({"model__encoder__layers__0__fc1__bias": None}, "lacks model.encoder.layers.0.fc1.bias"),
    ({"lm_head__weight": torch.zeros(49, 8)}, "lm_head.weight differ, but tie_word_embeddings"),
    ({"model__encoder__layers__0__fc1__bias": torch.zeros(9)}, "fc1.bias is 9, expected 8"),
    ({"model__encoder__layers__0__fc1__bias": torch.zeros(8, dtype=torch.int8)}, "not a tensor of floating-point"),
    ({"final_logits_bias": torch.zeros(1, 48)}, "final_logits_bias is 1 x 48, expected 49"),
]


@pytest.mark.parametrize(("tensors", "message"), WRONG_TENSORS, ids=[message[:30] for _, message in WRONG_TENSORS])
def test_other_tensors_are_refused(tensors, message, folder):
    change_tensors(folder, **tensors)
    with pytest.raises(NmtError, match=message):
        read_huggingface(folder)
