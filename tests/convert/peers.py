"""Tiny models of other toolkits: random weights, written under the toolkits' names in the toolkits' files.

Nothing here needs the toolkits. Where one was at hand, a stored example that it computed is compared in
``test_peer_oracles.py``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from safetensors.torch import save_file

D_MODEL, D_FF, HEADS = 16, 24, 2
LAYERS = {"encoder": 2, "decoder": 1}
WORDS = (
    "a", "b", "c", "the", "boat", "leaves", "at", "noon", "tomorrow", "nobody", "heard", "bell", "two", "small",
    "lamps", "lettre", "œuf", "x@@", "y@@", "z",
)  # fmt: skip
POSITIONS = 24

State = dict[str, torch.Tensor]


class Weights:
    """Random tensors by name; those of norms are near 1 and 0, and all others about as large as trained ones."""

    def __init__(self, seed: int = 1) -> None:
        self._generator = torch.Generator().manual_seed(seed)
        self.state: State = {}

    def matrix(self, name: str, rows: int, columns: int, scale: float = 1.0) -> torch.Tensor:
        self.state[name] = self._normal(rows, columns) * scale * columns**-0.5
        return self.state[name]

    def vector(self, name: str, size: int, around: float = 0.0) -> None:
        self.state[name] = around + 0.2 * self._normal(size)

    def linear(self, name: str, rows: int, columns: int, bias: bool = True) -> None:
        self.matrix(f"{name}.weight", rows, columns)
        if bias:
            self.vector(f"{name}.bias", rows)

    def norm(self, name: str) -> None:
        self.vector(f"{name}.weight", D_MODEL, around=1.0)
        self.vector(f"{name}.bias", D_MODEL)

    def layer(
        self,
        layer: str,
        attentions: dict[str, str],
        projections: tuple[str, ...],
        feed_forward: tuple[str, str, str],
        bias: bool = True,
    ) -> None:
        """A layer: its attentions, each with its norm, and the matrices and the norm of its feed-forward network."""
        for attention, norm in attentions.items():
            for projection in projections:
                self.linear(f"{layer}.{attention}.{projection}", D_MODEL, D_MODEL, bias)
            self.norm(f"{layer}.{norm}")
        inner, output, norm = feed_forward
        self.linear(f"{layer}.{inner}", D_FF, D_MODEL)
        self.linear(f"{layer}.{output}", D_MODEL, D_FF)
        self.norm(f"{layer}.{norm}")

    def _normal(self, *size: int) -> torch.Tensor:
        return torch.randn(*size, generator=self._generator)


def write_joeynmt(
    folder: Path,
    *,
    tied: str = "all",
    layer_norm: str = "post",
    state: Callable[[State], Any] = lambda state: state,
    encoder: dict[str, Any] | None = None,
    data: dict[str, Any] | None = None,
    words: tuple[str, ...] = WORDS,
) -> Path:
    """A folder of JoeyNMT."""
    folder.mkdir(parents=True, exist_ok=True)
    weights, vocabulary = Weights(), 4 + len(words)
    attentions = {
        "encoder": {"src_src_att": "layer_norm"},
        "decoder": {"trg_trg_att": "x_layer_norm", "src_trg_att": "dec_layer_norm"},
    }
    for part, sites in attentions.items():
        for number in range(LAYERS[part]):
            weights.layer(
                f"{part}.layers.{number}",
                sites,
                ("k_layer", "v_layer", "q_layer", "output_layer"),
                ("feed_forward.pwff_layer.0", "feed_forward.pwff_layer.3", "feed_forward.layer_norm"),
            )
        if layer_norm == "pre":
            weights.norm(f"{part}.layer_norm")
        weights.state[f"{part}.pe.pe"] = interleaved_sinusoids()[None]
    source = weights.matrix("src_embed.lut.weight", vocabulary, D_MODEL)
    target = weights.matrix("trg_embed.lut.weight", vocabulary, D_MODEL)
    weights.matrix("decoder.output_layer.weight", vocabulary, D_MODEL)
    if tied == "all":
        weights.state["trg_embed.lut.weight"] = target = source
    if tied != "none":
        weights.state["decoder.output_layer.weight"] = target
    part_settings = {
        "type": "transformer", "num_heads": HEADS, "hidden_size": D_MODEL, "ff_size": D_FF, "layer_norm": layer_norm,
        "embeddings": {"embedding_dim": D_MODEL, "scale": True},
    }  # fmt: skip
    side = {"level": "bpe", "tokenizer_type": "subword-nmt", "lowercase": False, "normalize": False}
    settings = {
        "name": "tiny",
        "data": {"src": {"lang": "en", **side}, "trg": {"lang": "de", **side}} | (data or {}),
        "testing": {"beam_size": 5, "beam_alpha": 1.0},
        "model": {
            "tied_embeddings": tied == "all",
            "tied_softmax": tied != "none",
            "encoder": part_settings | {"num_layers": LAYERS["encoder"]} | (encoder or {}),
            "decoder": part_settings | {"num_layers": LAYERS["decoder"]},
        },
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    for name in ("src_vocab.txt", "trg_vocab.txt"):
        pieces = ("<unk>", "<pad>", "<s>", "</s>", *words)
        (folder / name).write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
    torch.save({"steps": 10, "model_state": state(weights.state)}, folder / "best.ckpt")
    return folder


def write_sockeye(
    folder: Path,
    *,
    tied: str = "all",
    norm: str = "pre",
    positions: str = "fixed",
    activation: str = "relu",
    state: Callable[[State], Any] = lambda state: state,
    encoder: str = "",
    settings: str = "",
    words: tuple[str, ...] = WORDS,
) -> Path:
    """A folder of Sockeye 3. Lines of YAML may be added to the settings of the encoder and of the model."""
    folder.mkdir(parents=True, exist_ok=True)
    weights, vocabulary = Weights(), 4 + len(words)
    attentions = {"encoder": ("self_attention",), "decoder": ("autoregr_layer", "enc_attention")}
    for part, names in attentions.items():
        for number in range(LAYERS[part]):
            layer = f"{part}.layers.{number}"
            for attention in names:
                if attention == "enc_attention":
                    weights.matrix(f"{layer}.{attention}.ff_q.weight", D_MODEL, D_MODEL)
                    weights.matrix(f"{layer}.{attention}.ff_kv.weight", 2 * D_MODEL, D_MODEL)
                else:
                    weights.matrix(f"{layer}.{attention}.ff_in.weight", 3 * D_MODEL, D_MODEL)
                weights.matrix(f"{layer}.{attention}.ff_out.weight", D_MODEL, D_MODEL)
                weights.norm(f"{layer}.{norm}_{attention}.layer_norm")
            weights.linear(f"{layer}.ff.ff1", D_FF, D_MODEL)
            weights.linear(f"{layer}.ff.ff2", D_MODEL, D_FF)
            weights.norm(f"{layer}.{norm}_ff.layer_norm")
        if norm == "pre":
            weights.norm(f"{part}.final_process.layer_norm")
        if positions == "fixed":
            weights.state[f"{part}.pos_embedding.weight"] = halved_sinusoids(POSITIONS)
        else:
            weights.matrix(f"{part}.pos_embedding.weight", POSITIONS, D_MODEL)
    source = weights.matrix("embedding_source.embedding.weight", vocabulary, D_MODEL)
    target = weights.matrix("embedding_target.embedding.weight", vocabulary, D_MODEL)
    weights.linear("output_layer", vocabulary, D_MODEL)
    if tied == "all":
        weights.state["embedding_target.embedding.weight"] = target = source
    if tied != "none":
        weights.state["output_layer.weight"] = target
    before, after = ("n", "dr") if norm == "pre" else ("", "drn")
    parts = "".join(
        f"""config_{part}: !TransformerConfig
  model_size: {D_MODEL}
  attention_heads: {HEADS}
  feed_forward_num_hidden: {D_FF}
  act_type: {activation}
  num_layers: {LAYERS[part]}
  positional_embedding_type: {positions}
  preprocess_sequence: '{before}'
  postprocess_sequence: '{after}'
  max_seq_len_source: {POSITIONS}
  max_seq_len_target: {POSITIONS}
  decoder_type: transformer
{encoder if part == "encoder" else ""}"""
        for part in LAYERS
    )
    text = f"""!ModelConfig
config_data: !DataConfig
  data_statistics: !DataStatistics
    buckets:
    - !!python/tuple
      - 8
      - 8
  max_seq_len_source: {POSITIONS}
  num_source_factors: 1
  num_target_factors: 1
config_embed_source: !EmbeddingConfig
  num_embed: {D_MODEL}
  num_factors: 1
{parts}dtype: float32
lhuc: false
neural_vocab_selection: null
weight_tying_type: src_trg_softmax
{settings}"""
    (folder / "config").write_text(text, encoding="utf-8")
    (folder / "version").write_text("3.1.34", encoding="utf-8")
    ids = {piece: index for index, piece in enumerate(("<pad>", "<unk>", "<s>", "</s>", *words))}
    for name in ("vocab.src.0.json", "vocab.trg.0.json"):
        (folder / name).write_text(json.dumps(ids, ensure_ascii=False), encoding="utf-8")
    torch.save(state(weights.state), folder / "params.best")
    return folder


def write_opennmt_py(
    folder: Path,
    *,
    tied: str = "all",
    positions: str = "SinusoidalInterleaved",
    bias: bool = True,
    vocab: Any = None,
    source_words: tuple[str, ...] = WORDS,
    specials: tuple[str, ...] = ("<unk>", "<blank>", "<s>", "</s>"),
    source_specials: tuple[str, ...] = ("<unk>", "<blank>", "<s>", "</s>"),
    state: Callable[[State], Any] = lambda state: state,
    **settings: Any,
) -> Path:
    """A checkpoint of OpenNMT-py."""
    if not bias:
        settings = {"add_qkvbias": False, **settings}
    folder.mkdir(parents=True, exist_ok=True)
    weights, source_size, target_size = Weights(), len(source_specials + source_words), len(specials + WORDS)
    layers = {"encoder": "encoder.transformer", "decoder": "decoder.transformer_layers"}
    attentions = {
        "encoder": {"self_attn": "layer_norm"},
        "decoder": {"self_attn": "layer_norm_1", "context_attn": "layer_norm_2"},
    }
    for part, sites in attentions.items():
        for number in range(LAYERS[part]):
            weights.layer(
                f"{layers[part]}.{number}",
                sites,
                ("linear_keys", "linear_values", "linear_query", "final_linear"),
                ("feed_forward.w_1", "feed_forward.w_2", "feed_forward.layer_norm"),
                bias,
            )
        weights.norm(f"{part}.layer_norm")
        table = interleaved_sinusoids() if positions == "SinusoidalInterleaved" else tensor2tensor_sinusoids()
        weights.state[f"{part}.embeddings.make_embedding.pe.pe"] = table[:, None]
    lookup = "embeddings.make_embedding.emb_luts.0.weight"
    source = weights.matrix(f"encoder.{lookup}", source_size, D_MODEL)
    target = weights.matrix(f"decoder.{lookup}", target_size, D_MODEL)
    weights.linear("generator", target_size, D_MODEL)
    if tied == "all":
        weights.state[f"decoder.{lookup}"] = target = source
    if tied != "none":
        weights.state["generator.weight"] = target
    changed = state(weights.state)
    generator = {name: changed.pop(f"generator.{name}") for name in ("weight", "bias")}
    arguments = {
        "model_task": "seq2seq", "model_type": "text", "encoder_type": "transformer", "decoder_type": "transformer",
        "layers": -1, "enc_layers": LAYERS["encoder"], "dec_layers": LAYERS["decoder"], "hidden_size": -1,
        "enc_hid_size": D_MODEL, "dec_hid_size": D_MODEL, "transformer_ff": D_FF, "heads": HEADS,
        "position_encoding": True, "position_encoding_type": positions, "self_attn_type": "scaled-dot",
        "pos_ffn_activation_fn": "relu", "max_relative_positions": 0, "norm_eps": 1e-6,
    } | settings  # fmt: skip
    vocabulary = vocab or {
        "src": [*source_specials, *source_words],
        "tgt": [*specials, *WORDS],
        "data_task": "seq2seq",
        "decoder_start_token": "<s>",
    }
    checkpoint = {"model": changed, "generator": generator, "vocab": vocabulary, "opt": argparse.Namespace(**arguments)}
    torch.save(checkpoint, folder / "model_step_10.pt")
    return folder


def write_eole(
    folder: Path,
    *,
    tied: str = "all",
    positions: str = "SinusoidalInterleaved",
    rows: int = POSITIONS,
    dtype: str = "float32",
    start: str = "<s>",
    specials: bool = True,
    words: tuple[str, ...] = WORDS,
    source_words: tuple[str, ...] | None = None,
    state: Callable[[State], Any] = lambda state: state,
    model: dict[str, Any] | None = None,
    embeddings: dict[str, Any] | None = None,
    encoder: dict[str, Any] | None = None,
    decoder: dict[str, Any] | None = None,
    **sections: Any,
) -> Path:
    """A folder of Eole, with tensors in two files. Settings may be added to the sections of config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    special = ["<unk>", "<blank>", "<s>", "</s>"]
    source_pieces, target_pieces = [*special, *(source_words or words)], [*special, *words]
    model = {
        "architecture": "transformer", "hidden_size": D_MODEL, "heads": HEADS, "transformer_ff": D_FF,
        "share_embeddings": tied == "all", "share_decoder_embeddings": tied != "none",
    } | (model or {})  # fmt: skip
    weights = Weights()
    _eole_layers(weights, model)
    for side, pieces in (("src", source_pieces), ("tgt", target_pieces)):
        weights.matrix(f"{side}_emb.embeddings.weight", len(pieces), D_MODEL)
        if positions == "Learned":
            weights.matrix(f"{side}_emb.pe.weight", rows, D_MODEL)
        else:
            concatenated = positions == "SinusoidalConcat"
            table = tensor2tensor_sinusoids(rows) if concatenated else interleaved_sinusoids(rows)
            weights.state[f"{side}_emb.pe.pe"] = table[:, None].float()
    weights.linear("generator", len(target_pieces), D_MODEL, model.get("generator_bias", True))
    for name in {"all": ("tgt_emb.embeddings", "generator"), "decoder": ("generator",), "none": ()}[tied]:
        del weights.state[f"{name}.weight"]
    tensors = {name: tensor.to(getattr(torch, dtype)) for name, tensor in state(weights.state).items()}
    encoders = {name: tensor for name, tensor in tensors.items() if name.startswith("encoder")}
    others = {name: tensor for name, tensor in tensors.items() if name not in encoders}
    for number, shard in enumerate((encoders, others)):
        contiguous = {name: tensor.contiguous() for name, tensor in shard.items()}
        save_file(contiguous, folder / f"model.{number:02}.safetensors")
    config = {
        "src_vocab": "vocab.src",
        "tgt_vocab": "vocab.tgt",
        "share_vocab": source_pieces == target_pieces,
        "transforms": [],
        "training": {"model_path": "model", "compute_dtype": "torch.float32"},
        "model": model
        | {
            "embeddings": {"position_encoding_type": positions, "word_vec_size": D_MODEL}
            | ({"n_positions": rows} if positions == "Learned" else {})
            | (embeddings or {}),
            "encoder": {"encoder_type": "transformer", "layers": LAYERS["encoder"]} | (encoder or {}),
            "decoder": {"decoder_type": "transformer", "layers": LAYERS["decoder"], "with_cross_attn": True}
            | (decoder or {}),
        },
    } | sections
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    names = {"unk_token": "<unk>", "pad_token": "<blank>", "bos_token": "<s>", "eos_token": "</s>"}
    vocabulary = {"src": source_pieces, "tgt": target_pieces, "decoder_start_token": start}
    vocabulary |= {"specials": names} if specials else {}
    (folder / "vocab.json").write_text(json.dumps(vocabulary, ensure_ascii=False), encoding="utf-8")
    return folder


def _eole_layers(weights: Weights, model: dict[str, Any]) -> None:
    attentions = {
        "encoder": {"self_attn": "input_layernorm"},
        "decoder": {"self_attn": "input_layernorm", "context_attn": "precontext_layernorm"},
    }
    bias = model.get("add_qkvbias", False)
    biases = {
        "linear_keys": model.get("add_key_bias", bias), "linear_values": bias, "linear_query": bias,
        "final_linear": model.get("add_final_linear_bias", bias),
    }  # fmt: skip
    inner = HEADS * (model.get("head_dim") or D_MODEL // HEADS)
    for part, sites in attentions.items():
        for number in range(LAYERS[part]):
            layer = f"{part}.transformer_layers.{number}"
            for attention, norm in sites.items():
                for name, has_bias in biases.items():
                    sizes = (D_MODEL, inner) if name == "final_linear" else (inner, D_MODEL)
                    weights.linear(f"{layer}.{attention}.{name}", *sizes, has_bias)
                weights.norm(f"{layer}.{norm}")
            weights.linear(f"{layer}.mlp.gate_up_proj", D_FF, D_MODEL, model.get("add_ffnbias", False))
            weights.linear(f"{layer}.mlp.down_proj", D_MODEL, D_FF, model.get("add_ffnbias", False))
            weights.norm(f"{layer}.post_attention_layernorm")
            if part == "decoder":
                weights.state[f"{layer}.layer_scalar"] = torch.ones(1)
        weights.norm(f"{part}.layer_norm")


def write_marian(folder: Path, *, tied: str = "all", pre: bool = False) -> Path:
    """A model of Marian as OPUS-MT publishes it."""
    folder.mkdir(parents=True, exist_ok=True)
    weights, pieces = Weights(), ("</s>", "<unk>", *WORDS)
    suffix = "_pre" if pre else ""

    def norm(name: str, suffix: str = "") -> None:
        weights.vector(f"{name}_scale{suffix}", D_MODEL, around=1.0)
        weights.vector(f"{name}_bias{suffix}", D_MODEL)

    for part, attentions in {"encoder": ("self",), "decoder": ("self", "context")}.items():
        for number in range(1, LAYERS[part] + 1):
            layer = f"{part}_l{number}"
            for attention in attentions:
                for letter in "qkvo":
                    weights.matrix(f"{layer}_{attention}_W{letter}", D_MODEL, D_MODEL)
                    weights.vector(f"{layer}_{attention}_b{letter}", D_MODEL)
                norm(f"{layer}_{attention}_Wo_ln", suffix)
            weights.matrix(f"{layer}_ffn_W1", D_MODEL, D_FF)
            weights.vector(f"{layer}_ffn_b1", D_FF)
            weights.matrix(f"{layer}_ffn_W2", D_FF, D_MODEL)
            weights.vector(f"{layer}_ffn_b2", D_MODEL)
            norm(f"{layer}_ffn_ffn_ln", suffix)
        if pre:
            norm(f"{part}_top_ln")
    for name in {"all": ["Wemb"], "decoder": ["encoder_Wemb", "decoder_Wemb"]}[tied]:
        weights.matrix(name, len(pieces), D_MODEL)
    weights.vector("decoder_ff_logit_out_b", len(pieces))
    settings = {
        "type": "transformer", "enc-depth": LAYERS["encoder"], "dec-depth": LAYERS["decoder"], "dim-emb": D_MODEL,
        "transformer-dim-ffn": D_FF, "transformer-heads": HEADS, "transformer-ffn-activation": "swish",
        "transformer-preprocess": "n" if pre else "", "transformer-postprocess": "da" if pre else "dan",
        "transformer-postprocess-top": "n" if pre else "", "version": "v1.12.0",
        # What Marian itself asks for, and our importer does not.
        "dim-vocabs": [len(pieces)] * 2, "tied-embeddings-all": tied == "all", "tied-embeddings": tied != "none",
        "tied-embeddings-src": False, "transformer-decoder-autoreg": "self-attention", "transformer-ffn-depth": 2,
        "transformer-decoder-ffn-depth": 0, "transformer-decoder-dim-ffn": 0, "transformer-attention-mask": "default",
        "transformer-no-projection": False, "transformer-no-bias": False, "transformer-no-affine": False,
        "transformer-train-position-embeddings": False, "transformer-disable-position-embeddings": False,
        "transformer-tied-layers": [], "transformer-postprocess-emb": "d", "transformer-pool": False,
        "transformer-rnn-projection": False, "transformer-guided-alignment-layer": "last", "right-left": False,
        "factors-combine": "sum", "factors-dim-emb": 0, "lemma-dim-emb": 0, "lemma-dependency": "", "input-types": [],
        "output-omit-bias": False, "skip": False, "ulr": False, "ulr-dim-emb": 0, "layer-normalization": False,
        "transformer-alibi-shift": False, "transformer-alibi-trainable": False, "separator-symbol": "[eos]",
        "transformer-dim-aan": 32, "transformer-aan-depth": 2, "transformer-aan-activation": "swish",
        "transformer-aan-nogate": False, "dim-rnn": 16, "enc-cell": "gru", "dec-cell": "gru", "enc-cell-depth": 1,
        "dec-cell-base-depth": 2, "dec-cell-high-depth": 1, "enc-type": "bidirectional",
        "ulr-trainable-transformation": False,
    }  # fmt: skip
    arrays = {
        name: tensor.numpy() if tensor.dim() == 2 else tensor.numpy()[None] for name, tensor in weights.state.items()
    }
    arrays["special:model.yml"] = np.frombuffer(yaml.safe_dump(settings).encode() + b"\0", np.int8)
    np.savez(folder / "model.npz", **arrays)
    vocabulary = "".join(f"{json.dumps(piece, ensure_ascii=False)}: {index}\n" for index, piece in enumerate(pieces))
    for name in ("src.vocab.yml", "trg.vocab.yml"):
        (folder / name).write_text(vocabulary, encoding="utf-8")
    decoder = {"models": ["model.npz"], "vocabs": ["src.vocab.yml", "trg.vocab.yml"], "beam-size": 4, "normalize": 1}
    (folder / "decoder.yml").write_text(yaml.safe_dump(decoder), encoding="utf-8")
    return folder


def tensor2tensor_sinusoids(positions: int = POSITIONS) -> torch.Tensor:
    """All sines, then all cosines, at Tensor2Tensor's rates: (positions, D)."""
    rates = torch.exp(torch.arange(D_MODEL // 2) * -(np.log(10_000.0) / (D_MODEL // 2 - 1)))
    angles = torch.arange(positions)[:, None] * rates
    return torch.cat([torch.sin(angles), torch.cos(angles)], dim=1)


def halved_sinusoids(positions: int) -> torch.Tensor:
    """All sines, then all cosines, at the paper's rates: (positions, D)."""
    angles = torch.arange(positions)[:, None] / 10_000 ** (torch.arange(0, D_MODEL, 2) / D_MODEL)
    return torch.cat([torch.sin(angles), torch.cos(angles)], dim=1)


def interleaved_sinusoids(positions: int = POSITIONS) -> torch.Tensor:
    """Sines at even places, cosines at odd ones: (positions, D)."""
    rates = torch.exp(torch.arange(0, D_MODEL, 2) * -(np.log(10_000.0) / D_MODEL))
    table = torch.zeros(positions, D_MODEL)
    table[:, 0::2] = torch.sin(torch.arange(positions)[:, None] * rates)
    table[:, 1::2] = torch.cos(torch.arange(positions)[:, None] * rates)
    return table


def write_fairseq(
    folder: Path,
    *,
    tied: str = "all",
    pre: bool = False,
    learned: bool = False,
    form: str = "args",
    state: Callable[[State], Any] = lambda state: state,
    legacy: bool = False,
    words: tuple[str, ...] = WORDS,
    **settings: Any,
) -> Path:
    """A checkpoint of fairseq with its dictionaries."""
    folder.mkdir(parents=True, exist_ok=True)
    weights, vocabulary = Weights(), 4 + len(words)
    for part in LAYERS:
        _fairseq_part(weights, part, learned)
        if pre:
            weights.norm(f"{part}.layer_norm")
    source = weights.matrix("encoder.embed_tokens.weight", vocabulary, D_MODEL)
    target = weights.matrix("decoder.embed_tokens.weight", vocabulary, D_MODEL)
    weights.matrix("decoder.output_projection.weight", vocabulary, D_MODEL)
    if tied == "all":
        weights.state["decoder.embed_tokens.weight"] = target = source
    if tied != "none":
        weights.state["decoder.output_projection.weight"] = target
    arguments = {
        "arch": "transformer_iwslt_de_en", "task": "translation", "source_lang": "en", "target_lang": "de",
        "encoder_layers": LAYERS["encoder"], "decoder_layers": LAYERS["decoder"], "encoder_embed_dim": D_MODEL,
        "decoder_embed_dim": D_MODEL, "encoder_ffn_embed_dim": D_FF, "decoder_ffn_embed_dim": D_FF,
        "encoder_attention_heads": HEADS, "decoder_attention_heads": HEADS, "encoder_normalize_before": pre,
        "decoder_normalize_before": pre, "encoder_learned_pos": learned, "decoder_learned_pos": learned,
        "max_source_positions": POSITIONS, "max_target_positions": POSITIONS, "activation_fn": "relu",
    } | settings  # fmt: skip
    checkpoint: dict[str, Any] = {"args": None, "model": state(weights.state), "last_optimizer_state": {"state": {}}}
    if form == "args":
        checkpoint["args"] = argparse.Namespace(**arguments)
    else:
        model = {key: value for key, value in arguments.items() if key not in ("task", "source_lang", "target_lang")}
        task = {"_name": "translation", "source_lang": "en", "target_lang": "de"}
        checkpoint["cfg"] = {"model": argparse.Namespace(**model), "task": task}
    torch.save(checkpoint, folder / "checkpoint_best.pt", _use_new_zipfile_serialization=not legacy)
    lines = "".join(f"{word} {100 - index}\n" for index, word in enumerate(words))
    for language in ("en", "de"):
        (folder / f"dict.{language}.txt").write_text(lines, encoding="utf-8")
    return folder


def _fairseq_part(weights: Weights, part: str, learned: bool) -> None:
    for number in range(LAYERS[part]):
        layer = f"{part}.layers.{number}"
        for attention in ("self_attn", "encoder_attn")[: 1 if part == "encoder" else 2]:
            for projection in "kvq":
                weights.linear(f"{layer}.{attention}.{projection}_proj", D_MODEL, D_MODEL)
            weights.linear(f"{layer}.{attention}.out_proj", D_MODEL, D_MODEL)
            weights.norm(f"{layer}.{attention}_layer_norm")
        weights.linear(f"{layer}.fc1", D_FF, D_MODEL)
        weights.linear(f"{layer}.fc2", D_MODEL, D_FF)
        weights.norm(f"{layer}.final_layer_norm")
    weights.state[f"{part}.version"] = torch.tensor([3.0])
    if learned:
        weights.matrix(f"{part}.embed_positions.weight", POSITIONS + 2, D_MODEL)
    else:
        weights.state[f"{part}.embed_positions._float_tensor"] = torch.zeros(1)


WRITERS: dict[str, Callable[..., Path]] = {
    "marian": write_marian,
    "fairseq": write_fairseq,
    "opennmt-py": write_opennmt_py,
    "eole": write_eole,
    "joeynmt": write_joeynmt,
    "sockeye": write_sockeye,
}
"""Format -> what writes a tiny model of it."""
