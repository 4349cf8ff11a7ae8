"""The importer of Eole: settings that its files leave out, matrices that it stores once, and models that it refuses."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from nmt.convert.converting import import_model
from nmt.convert.eole import read_eole
from nmt.convert.foreign import Given
from nmt.convert.formats import find_format
from nmt.convert.weights import our_weights
from nmt.data.vocab import train_vocabulary
from nmt.errors import CheckpointError
from tests.convert import peers
from tests.convert.marian_mt import STORED as MARIAN_MT
from tests.convert.peers import D_MODEL, POSITIONS, WORDS, write_eole, write_opennmt_py

VERSION_0_0_1 = {
    "specials": False,
    "embeddings": {"position_encoding": True},
    "model": {"max_relative_positions": 0},
}
"""As Eole 0.0.1 writes a model, but for :func:`without_hints`."""


def change_config(folder, change):
    values = json.loads((folder / "config.json").read_text())
    change(values)
    (folder / "config.json").write_text(json.dumps(values))
    return folder


def without_hints(folder):
    """A folder that does not tell which version wrote it."""
    return change_config(folder, lambda values: values["model"]["decoder"].pop("with_cross_attn"))


def test_folders_are_told_from_others_with_the_same_file_names(tmp_path):
    origin = write_eole(tmp_path / "theirs")
    (origin / "optimizer.pt").write_bytes((write_opennmt_py(tmp_path / "onmt") / "model_step_10.pt").read_bytes())
    for path in (origin, origin / "model.01.safetensors"):
        assert find_format(path).name == "eole"
        assert read_eole(path).config == read_eole(origin).config
    assert find_format(tmp_path / "onmt").name == "opennmt-py"
    assert find_format(MARIAN_MT).name == "huggingface"
    assert (MARIAN_MT / "config.json").is_file()
    assert (MARIAN_MT / "vocab.json").is_file()
    assert import_model(origin, tmp_path / "bundle").toolkit == "Eole"
    with pytest.raises(CheckpointError, match="holds no model that can be imported"):
        find_format(tmp_path / "bundle")


def test_tensors_of_several_files_are_one_model(tmp_path):
    origin = write_eole(tmp_path)
    shards = [load_file(origin / f"model.0{number}.safetensors") for number in (0, 1)]
    assert set(read_eole(origin).tensors) == shards[0].keys() | shards[1].keys()
    assert read_eole(origin).files.keys() == {
        "config.json", "vocab.json", "model.00.safetensors", "model.01.safetensors",
    }  # fmt: skip
    twice = next(iter(shards[0]))
    save_file(shards[1] | {twice: shards[0][twice]}, origin / "model.01.safetensors")
    with pytest.raises(CheckpointError, match=r"model\.01\.safetensors: holds 'encoder.*another file of the model"):
        read_eole(origin)
    (origin / "model.00.safetensors").unlink()
    save_file(shards[1], origin / "model.01.safetensors")
    with pytest.raises(CheckpointError, match=r"lacks encoder\.transformer_layers\.0"):
        read_eole(origin)


def test_parts_take_over_what_the_model_sets_and_they_do_not(tmp_path):
    origin = write_eole(tmp_path, model={"heads": 4, "layers": 7}, encoder={"heads": 2}, decoder={"heads": 2})
    config = read_eole(origin).config
    assert (config.heads, config.encoder_layers, config.decoder_layers) == (2, 2, 1)
    del_heads = change_config(origin, lambda values: [values["model"][part].pop("heads") for part in peers.LAYERS])
    assert read_eole(del_heads).config.heads == 4


def test_what_no_section_sets_has_the_default_of_eole(tmp_path, monkeypatch):
    monkeypatch.setattr(peers, "D_MODEL", 512)
    monkeypatch.setattr(peers, "D_FF", 2048)
    origin = write_eole(tmp_path)

    def unset(values):
        for key in ("hidden_size", "heads", "transformer_ff"):
            del values["model"][key]
        values["model"] |= {"hidden_size": -1, "layers": -1}
        del values["model"]["encoder"]["layers"]
        del values["model"]["embeddings"]["position_encoding_type"]

    config = read_eole(change_config(origin, unset)).config
    assert (config.d_model, config.heads, config.d_ff, config.encoder_layers) == (512, 8, 2048, 2)
    assert (config.norm, config.activation, config.positions) == ("pre", "relu", "sinusoidal")


@pytest.mark.parametrize(
    ("options", "epsilon", "is_told"),
    [
        ({}, 1e-5, True),  # has with_cross_attn, as since 0.5
        ({"model": {"norm_eps": 1e-4}}, 1e-4, True),
        ({"encoder": {"norm_eps": 1e-4}, "decoder": {"norm_eps": 1e-4}}, 1e-4, True),
        ({"model": {"eole_version": "0.1.2"}}, 1e-6, True),
        ({"model": {"eole_version": "0.2.0"}}, 1e-5, True),
        ({"specials": False}, 1e-6, True),
    ],
)
def test_the_epsilon_is_that_of_the_version(tmp_path, options, epsilon, is_told):
    model = read_eole(write_eole(tmp_path, **options))
    assert model.config.norm_epsilon == epsilon
    assert any("norm_eps" in remark for remark in model.remarks) is not is_told


def test_an_epsilon_that_nothing_tells_is_remarked_on(tmp_path):
    origin = without_hints(write_eole(tmp_path / "theirs"))
    assert read_eole(origin).config.norm_epsilon == 1e-5
    assert any("norm_eps" in remark for remark in read_eole(origin).remarks)
    told = change_config(origin, lambda values: values["model"].update(norm_eps=1e-6))
    assert read_eole(told).config.norm_epsilon == 1e-6
    assert not any("norm_eps" in remark for remark in read_eole(told).remarks)


def test_eole_0_0_1_has_positions_only_if_asked(tmp_path):
    origin = without_hints(write_eole(tmp_path, **VERSION_0_0_1))
    assert read_eole(origin).config.positions == "sinusoidal"
    shard = origin / "model.01.safetensors"
    save_file({name: tensor for name, tensor in load_file(shard).items() if not name.endswith("pe.pe")}, shard)
    with pytest.raises(CheckpointError, match=r"position_encoding: False.*no positions"):
        read_eole(origin)


def test_what_eole_converts_from_hugging_face_is_read(tmp_path):
    """As it writes an M2M-100: all settings, many of them without effect, and no tables of sinusoids."""
    rope = {"rotary_interleave": False, "rotary_theta": 10_000, "rotary_dim": 8}
    model = {
        "mlp_activation_fn": "relu", "layer_norm": "standard", "norm_eps": 1e-5, "add_qkvbias": True,
        "add_final_linear_bias": True, "add_ffnbias": True, "generator_bias": False, "adapter_bias": False,
        "left_pad": False,
        "shared_layer_norm": False, "parallel_residual": False, "sliding_window": 0, "max_position_embeddings": 1024,
        "heads_kv": None, "head_dim": None, "attn_scaling": None, "moe_transformer_ff": None, "num_experts": 0,
        "num_shared_experts": 0, "first_k_dense_replace": 0, "num_experts_per_tok": 0, "rope_config": rope,
        "position_encoding_type": "SinusoidalConcat", "huggingface_model": "tiny/m2m100", "layers": 2,
    }  # fmt: skip
    origin = write_eole(
        tmp_path / "theirs",
        positions="SinusoidalConcat",
        start="</s>",
        tied="decoder",
        model=model,
        embeddings={"n_positions": 1024, "src_word_vec_size": D_MODEL, "tgt_word_vec_size": D_MODEL},
        encoder={"rope_config": rope},
        data=None,
        transforms=["onmt_tokenize", "filtertoolong"],
        transforms_configs={"onmt_tokenize": {"src_subword_type": "bpe", "mapped_tokens": []}},
        inference={"optional_eos": [], "max_length": 200, "chat_template": None},
    )
    shard = origin / "model.01.safetensors"
    save_file({name: tensor for name, tensor in load_file(shard).items() if not name.endswith("pe.pe")}, shard)
    config = read_eole(origin).config
    assert (config.positions, config.max_positions) == ("tensor2tensor", 1024)
    assert config.attention_bias


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_positions_of_16_bits_are_taken_as_they_are(tmp_path, dtype):
    """Eole computes with the stored ones, too."""
    model = read_eole(write_eole(tmp_path / "theirs", dtype=dtype, rows=300))
    stored = load_file(tmp_path / "theirs" / "model.01.safetensors")["tgt_emb.pe.pe"][:, 0].float()
    assert (model.config.positions, model.config.max_positions) == ("learned", 300)
    assert torch.equal(our_weights(model)["target_positions.weight"], stored)
    assert any("as learned positions" in remark for remark in model.remarks)


def test_embeddings_beside_learned_positions_are_brought_to_our_scale(tmp_path):
    origin = write_eole(tmp_path / "theirs", positions="Learned", embeddings={"position_shift": 2})
    model, stored = read_eole(origin), load_file(origin / "model.01.safetensors")
    assert (model.config.positions, model.config.max_positions) == ("learned", POSITIONS - 2)
    assert model.config.tied_embeddings == "none"
    weights = our_weights(model)
    assert torch.equal(weights["source_positions.weight"], stored["src_emb.pe.weight"][2:])
    pieces = list(model.target.pieces)
    boat, ours = pieces.index("boat"), 4 + [piece for piece in pieces if piece in WORDS].index("boat")
    embedding = stored["src_emb.embeddings.weight"][boat]  # all matrices are this one
    assert torch.equal(weights["embedding.weight"][ours] * D_MODEL**0.5, embedding)
    assert torch.equal(weights["embedding.output_weight"][ours], embedding)


def test_normalized_positions_are_multiplied_instead(tmp_path):
    origin = write_eole(tmp_path / "theirs", positions="Learned", embeddings={"normalize": True})
    model, stored = read_eole(origin), load_file(origin / "model.01.safetensors")
    assert model.config.tied_embeddings == "all"
    positions = our_weights(model)["source_positions.weight"]
    assert torch.equal(positions, stored["src_emb.pe.weight"] * D_MODEL**0.5)


@pytest.mark.parametrize("options", [{}, {"normalize": True}])
def test_a_scale_may_round(tmp_path, monkeypatch, options):
    """sqrt(24) is no power of two."""
    monkeypatch.setattr(peers, "D_MODEL", 24)
    origin = write_eole(tmp_path / "theirs", positions="Learned", embeddings=options)
    assert import_model(origin, tmp_path / "bundle").failed == []


@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_a_bias_that_the_settings_promise_may_be_missing(tmp_path, part):
    """Eole 0.6 trains encoders without one if only add_qkvbias is set, and then writes settings that say otherwise."""
    end = {"encoder": "self_attn.final_linear.bias", "decoder": "mlp.down_proj.bias"}[part]

    def trained(state):
        return {name: tensor for name, tensor in state.items() if not (name.startswith(part) and name.endswith(end))}

    settings = {"add_qkvbias": True, "add_ffnbias": True}
    model = read_eole(write_eole(tmp_path / "full", model=settings))
    missing = read_eole(write_eole(tmp_path / "missing", model=settings, state=trained))
    assert model.tensors.keys() - missing.tensors.keys() == {
        name for name in model.tensors if name.startswith(part) and name.endswith(end)
    }
    ours = {"encoder": "encoder.0.self_attention.output.bias", "decoder": "decoder.0.feed_forward.output.bias"}[part]
    assert our_weights(model)[ours].any()
    assert not our_weights(missing)[ours].any()


@pytest.mark.parametrize(
    "lost",
    [
        "encoder.transformer_layers.1.self_attn.linear_query.bias",  # which another layer has
        "decoder.transformer_layers.0.input_layernorm.bias",
        "encoder.layer_norm.bias",
    ],
)
def test_any_other_missing_bias_is_an_error(tmp_path, lost):
    origin = write_eole(
        tmp_path,
        model={"add_qkvbias": True},
        state=lambda state: {name: tensor for name, tensor in state.items() if name != lost},
    )
    with pytest.raises(CheckpointError, match=f"lacks {lost}"):
        read_eole(origin)


def test_matrices_of_one_vocabulary_must_be_one(tmp_path):
    origin = write_eole(tmp_path, tied="none")
    for setting, names in (
        ("share_embeddings", "src_emb.embeddings.weight and tgt_emb"),
        ("share_decoder_embeddings", "tgt_emb.embeddings.weight and generator.weight"),
    ):
        changed = change_config(origin, lambda values, setting=setting: values["model"].update({setting: True}))
        with pytest.raises(CheckpointError, match=f"{names}.* differ, but model.{setting}"):
            read_eole(changed)
        change_config(origin, lambda values, setting=setting: values["model"].update({setting: False}))
    change_config(write_eole(tmp_path / "tied"), lambda values: values["model"].update(share_embeddings=False))
    with pytest.raises(CheckpointError, match=r"lacks tgt_emb\.embeddings\.weight"):
        read_eole(tmp_path / "tied")


def test_a_vocabulary_of_another_model_is_an_error(tmp_path):
    """Even where one matrix serves both sides, and fits one of them."""
    origin = write_eole(tmp_path)
    values = json.loads((origin / "vocab.json").read_text())
    for side in ("src", "tgt"):
        more = values | {side: [*values[side], "more"]}
        (origin / "vocab.json").write_text(json.dumps(more))
        with pytest.raises(CheckpointError, match=r"embeddings\.weight is 24 x 16, expected 25 x 16"):
            read_eole(origin)


def test_heads_of_another_size_are_read(tmp_path):
    model = read_eole(write_eole(tmp_path / "theirs", model={"head_dim": 6}))
    assert (model.config.d_k, model.config.d_v) == (6, 6)
    assert read_eole(write_eole(tmp_path / "usual", model={"head_dim": 8, "attn_scaling": 8})).config.d_k is None


def test_outputs_may_start_with_their_end(tmp_path):
    origin = write_eole(tmp_path / "theirs", start="</s>", tied="decoder", model={"generator_bias": False})
    model = read_eole(origin)
    assert (model.start, model.config.source_eos) == ("</s>", False)
    assert our_weights(model)["embedding.output_bias"][2] == -100
    with pytest.raises(CheckpointError, match="starts with 'nowhere', which is not a target piece"):
        read_eole(write_eole(tmp_path / "damaged", start="nowhere"))


def test_special_pieces_are_those_that_the_vocabulary_names(tmp_path):
    """Without a piece that the decoder reads first, it is the one that begins sentences."""
    origin = write_eole(tmp_path)
    values = json.loads((origin / "vocab.json").read_text())
    special = {"unk_token": "<u>", "pad_token": "<p>", "bos_token": "<b>", "eos_token": "<e>"}
    pieces = [*special.values(), *WORDS]
    named = {"src": pieces, "tgt": pieces, "specials": special}
    (origin / "vocab.json").write_text(json.dumps({**values, **named, "decoder_start_token": "a"}))
    model = read_eole(origin)
    assert model.start == "a"
    for side in (model.source, model.target):
        assert (side.unk, side.pad, side.eos) == ("<u>", "<p>", "<e>")
    (origin / "vocab.json").write_text(json.dumps(named))
    assert read_eole(origin).start == "<b>"


@pytest.mark.parametrize(
    ("inference", "expected"),
    [
        ({}, (5, "length", 1)),
        ({"beam_size": 3, "alpha": 0.7}, (3, "length", 0.7)),
        ({"length_penalty": "wu", "alpha": 0.6}, (5, "paper", 0.6)),
        ({"length_penalty": "none", "alpha": 0.6}, (5, "length", 0)),
    ],
)
def test_the_search_is_that_of_the_folder(tmp_path, inference, expected):
    decoding = read_eole(write_eole(tmp_path, inference=inference)).decoding
    assert (decoding.beam, decoding.length_normalization, decoding.length_penalty) == expected


@pytest.mark.parametrize("section", ["sentencepiece", "onmt_tokenize"])
def test_sentencepiece_models_are_those_that_transforms_name(tmp_path, section):
    trained = train_vocabulary(["the boat leaves at noon", "nobody heard the bell"] * 3, size=30).vocab
    other = train_vocabulary(["the boat leaves at noon", "nobody heard the bell"] * 3, size=31).vocab
    options = {"src_subword_type": "sentencepiece", "src_subword_model": "${MODEL_PATH}/joint.bpe.model"}
    words = tuple(trained.pieces(range(4, trained.size)))
    origin = write_eole(tmp_path / "theirs", words=words, transforms=[section], transforms_configs={section: options})
    (origin / "joint.bpe.model").write_bytes(trained.model_bytes)
    (origin / "spm.model").write_bytes(other.model_bytes)  # which would be taken if none were named
    model = read_eole(origin)
    assert model.source.segmenter == model.target.segmenter == trained.model_bytes
    assert "joint.bpe.model" in model.files
    assert any("pyonmttok" in remark for remark in model.remarks) is (section == "onmt_tokenize")
    given = read_eole(origin, Given(source_spm=origin / "spm.model"))
    assert (given.source.segmenter, given.target.segmenter) == (other.model_bytes, trained.model_bytes)
    given = read_eole(origin, Given(target_spm=origin / "spm.model"))
    assert (given.source.segmenter, given.target.segmenter) == (trained.model_bytes, other.model_bytes)
    options |= {"src_onmttok_kwargs": {"mode": "aggressive"}} if section == "onmt_tokenize" else {}
    options |= {"tgt_subword_model": "/elsewhere/spm.model"}
    change_config(origin, lambda values: values.update(transforms_configs={section: options}))
    expected = trained if section == "sentencepiece" else other
    assert read_eole(origin).source.segmenter == expected.model_bytes
    assert read_eole(origin).target.segmenter == other.model_bytes


def test_transforms_that_change_text_are_told(tmp_path):
    corpora = {"corpus": {"transforms": ["prefix", "suffix"]}, "valid": {"transforms": ["filtertoolong"]}}
    origin = write_eole(tmp_path / "theirs", transforms=["onmt_tokenize", "normalize"], data=corpora)
    remarks = " ".join(read_eole(origin).remarks)
    assert "does not apply: normalize, prefix, suffix." in remarks
    assert "pyonmttok" in remarks
    assert "transforms" not in " ".join(read_eole(write_eole(tmp_path / "plain", transforms=["bpe"])).remarks)


def test_a_model_without_an_encoder_is_refused(tmp_path):
    origin = write_eole(tmp_path, model={"architecture": "custom"})
    assert read_eole(origin).config.d_model == D_MODEL
    change_config(origin, lambda values: values["model"].update(encoder=None))
    with pytest.raises(CheckpointError, match=r"model\.encoder: None.*decoder without an encoder"):
        read_eole(origin)
    change_config(origin, lambda values: values.pop("model"))
    with pytest.raises(CheckpointError, match="has no settings of a model: is it a model of Eole"):
        read_eole(origin)


def test_halves_are_read_as_floats(tmp_path):
    model = read_eole(write_eole(tmp_path, dtype="bfloat16"))
    assert {array.dtype for array in model.tensors.values()} == {np.dtype(np.float32)}
