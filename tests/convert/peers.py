"""Tiny models of other toolkits: random weights, written under the toolkits' names in the toolkits' files.

Nothing here needs the toolkits. ``test_peer_oracles.py`` compares these models with scores that the toolkits computed,
so the order in which numbers are drawn must stay.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

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
DATA = Path(__file__).parent / "data"
"""Models that other toolkits wrote."""

State = dict[str, torch.Tensor]
Change = Callable[[State], Any]


def unchanged(state: State) -> State:
    return state


class Layout(NamedTuple):
    """Where a toolkit keeps its tensors."""

    layers: tuple[str, str]
    """What the layers of encoder and decoder are called."""
    attentions: tuple[dict[str, str], dict[str, str]]
    """Those of a layer of each, with their norms."""
    projections: tuple[str, ...]
    feed_forward: tuple[str, str, str]
    """Both matrices and their norm."""
    pieces: tuple[str, str, str]
    """The embeddings of source and target, and the projection to the target's pieces."""


class Weights:
    """Random tensors by name; those of norms are near 1 and 0, and all others about as large as trained ones."""

    def __init__(self) -> None:
        self._generator = torch.Generator().manual_seed(1)
        self.state: State = {}

    def matrix(self, name: str, rows: int, columns: int) -> None:
        self.state[name] = self._normal(rows, columns) * columns**-0.5

    def vector(self, name: str, size: int, around: float = 0.0) -> None:
        self.state[name] = around + 0.2 * self._normal(size)

    def linear(self, name: str, rows: int, columns: int, bias: bool = True) -> None:
        self.matrix(f"{name}.weight", rows, columns)
        if bias:
            self.vector(f"{name}.bias", rows)

    def norm(self, name: str) -> None:
        self.vector(f"{name}.weight", D_MODEL, around=1.0)
        self.vector(f"{name}.bias", D_MODEL)

    def layers(
        self,
        part: str,
        layout: Layout,
        *,
        biases: Mapping[str, bool] | None = None,
        ff_bias: bool = True,
        inner: int | None = None,
    ) -> None:
        """The layers of encoder or decoder.

        Args:
            biases: whether a projection has a bias, where not all have.
            inner: the size of all heads together, if not that of the model.
        """
        side, inner = list(LAYERS).index(part), inner or D_MODEL
        first, second, feed_forward_norm = layout.feed_forward
        for number in range(LAYERS[part]):
            layer = f"{layout.layers[side]}.{number}"
            for attention, norm in layout.attentions[side].items():
                for projection in layout.projections:
                    sizes = (D_MODEL, inner) if projection == layout.projections[-1] else (inner, D_MODEL)
                    has_bias = True if biases is None else biases[projection]
                    self.linear(f"{layer}.{attention}.{projection}", *sizes, has_bias)
                self.norm(f"{layer}.{norm}")
            self.linear(f"{layer}.{first}", D_FF, D_MODEL, ff_bias)
            self.linear(f"{layer}.{second}", D_MODEL, D_FF, ff_bias)
            self.norm(f"{layer}.{feed_forward_norm}")

    def pieces(self, names: tuple[str, str, str], sizes: tuple[int, int], tied: str, bias: bool = True) -> None:
        """The matrices of pieces, each stored for itself also where they are one, and the bias of the last."""
        source, target, output = (f"{name}.weight" for name in names)
        for name, size in zip((source, target, output), (*sizes, sizes[1]), strict=True):
            self.matrix(name, size, D_MODEL)
        if bias:
            self.vector(f"{names[2]}.bias", sizes[1])
        if tied == "all":
            self.state[target] = self.state[source]
        if tied != "none":
            self.state[output] = self.state[target]

    def _normal(self, *size: int) -> torch.Tensor:
        return torch.randn(*size, generator=self._generator)


def write_words(folder: Path, names: tuple[str, ...], lines: Any) -> None:
    """The same vocabulary in several files: JSON, or text of lines."""
    text = json.dumps(lines, ensure_ascii=False) if isinstance(lines, dict) else "".join(f"{line}\n" for line in lines)
    for name in names:
        (folder / name).write_text(text, encoding="utf-8")


def table_of(places: torch.Tensor, rates: torch.Tensor, *, side_by_side: bool = False) -> torch.Tensor:
    """Sines and cosines of positions (positions, D): all sines first, or side by side."""
    angles = places[:, None] * rates
    parts = torch.sin(angles), torch.cos(angles)
    return torch.stack(parts, dim=2).flatten(1) if side_by_side else torch.cat(parts, dim=1)


def sinusoids(kind: str, positions: int = POSITIONS) -> torch.Tensor:
    """The table of a toolkit, computed as there: ``SinusoidalInterleaved``, ``SinusoidalConcat`` or ``fixed``."""
    places = torch.arange(positions)
    if kind == "SinusoidalConcat":
        return table_of(places, torch.exp(torch.arange(D_MODEL // 2) * -(np.log(10_000.0) / (D_MODEL // 2 - 1))))
    pairs = torch.arange(0, D_MODEL, 2)
    if kind == "fixed":
        return table_of(places, 1 / 10_000 ** (pairs / D_MODEL))
    return table_of(places, torch.exp(pairs * -(np.log(10_000.0) / D_MODEL)), side_by_side=True)


JOEYNMT = Layout(
    ("encoder.layers", "decoder.layers"),
    ({"src_src_att": "layer_norm"}, {"trg_trg_att": "x_layer_norm", "src_trg_att": "dec_layer_norm"}),
    ("k_layer", "v_layer", "q_layer", "output_layer"),
    ("feed_forward.pwff_layer.0", "feed_forward.pwff_layer.3", "feed_forward.layer_norm"),
    ("src_embed.lut", "trg_embed.lut", "decoder.output_layer"),
)


def write_joeynmt(
    folder: Path,
    *,
    tied: str = "all",
    layer_norm: str = "post",
    state: Change = unchanged,
    encoder: dict[str, Any] | None = None,
    data: dict[str, Any] | None = None,
    words: tuple[str, ...] = WORDS,
) -> Path:
    """A folder of JoeyNMT."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = Weights()
    for part in LAYERS:
        weights.layers(part, JOEYNMT)
        if layer_norm == "pre":
            weights.norm(f"{part}.layer_norm")
        weights.state[f"{part}.pe.pe"] = sinusoids("SinusoidalInterleaved")[None]
    weights.pieces(JOEYNMT.pieces, (4 + len(words),) * 2, tied, bias=False)
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
    write_words(folder, ("src_vocab.txt", "trg_vocab.txt"), ("<unk>", "<pad>", "<s>", "</s>", *words))
    torch.save({"steps": 10, "model_state": state(weights.state)}, folder / "best.ckpt")
    return folder


def write_sockeye(
    folder: Path,
    *,
    tied: str = "all",
    norm: str = "pre",
    positions: str = "fixed",
    activation: str = "relu",
    state: Change = unchanged,
    encoder: dict[str, Any] | None = None,
    decoder: dict[str, Any] | None = None,
    words: tuple[str, ...] = WORDS,
    **settings: Any,
) -> Path:
    """A folder of Sockeye 3, with further settings of its parts and of the model."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = Weights()
    attentions = {"encoder": ("self_attention",), "decoder": ("autoregr_layer", "enc_attention")}
    for part, names in attentions.items():
        for number in range(LAYERS[part]):
            layer = f"{part}.layers.{number}"
            for attention in names:
                fused = {"ff_q": 1, "ff_kv": 2} if attention == "enc_attention" else {"ff_in": 3}
                for matrix, rows in (fused | {"ff_out": 1}).items():
                    weights.matrix(f"{layer}.{attention}.{matrix}.weight", rows * D_MODEL, D_MODEL)
                weights.norm(f"{layer}.{norm}_{attention}.layer_norm")
            weights.linear(f"{layer}.ff.ff1", D_FF, D_MODEL)
            weights.linear(f"{layer}.ff.ff2", D_MODEL, D_FF)
            weights.norm(f"{layer}.{norm}_ff.layer_norm")
        if norm == "pre":
            weights.norm(f"{part}.final_process.layer_norm")
        if positions == "fixed":
            weights.state[f"{part}.pos_embedding.weight"] = sinusoids("fixed")
        else:
            weights.matrix(f"{part}.pos_embedding.weight", POSITIONS, D_MODEL)
    pieces = ("embedding_source.embedding", "embedding_target.embedding", "output_layer")
    weights.pieces(pieces, (4 + len(words),) * 2, tied)
    before, after = ("n", "dr") if norm == "pre" else ("", "drn")
    part_settings = {
        "model_size": D_MODEL, "attention_heads": HEADS, "feed_forward_num_hidden": D_FF, "act_type": activation,
        "positional_embedding_type": positions, "preprocess_sequence": before, "postprocess_sequence": after,
        "max_seq_len_source": POSITIONS, "max_seq_len_target": POSITIONS, "decoder_type": "transformer",
    }  # fmt: skip
    values = {
        "config_data": {"max_seq_len_source": POSITIONS, "num_source_factors": 1, "num_target_factors": 1},
        "config_embed_source": {"num_embed": D_MODEL, "num_factors": 1},
        "config_encoder": part_settings | {"num_layers": LAYERS["encoder"]} | (encoder or {}),
        "config_decoder": part_settings | {"num_layers": LAYERS["decoder"]} | (decoder or {}),
        "dtype": "float32", "lhuc": False, "neural_vocab_selection": None, "weight_tying_type": "src_trg_softmax",
    } | settings  # fmt: skip
    text = yaml.safe_dump(values).replace("config_encoder:", "config_encoder: !TransformerConfig")
    data = (
        "config_data: !DataConfig\n  data_statistics: !DataStatistics\n    buckets:\n    - !!python/tuple\n      - 8\n"
    )
    (folder / "config").write_text(f"!ModelConfig\n{text.replace('config_data:' + chr(10), data)}", encoding="utf-8")
    (folder / "version").write_text("3.1.34", encoding="utf-8")
    ids = {piece: index for index, piece in enumerate(("<pad>", "<unk>", "<s>", "</s>", *words))}
    write_words(folder, ("vocab.src.0.json", "vocab.trg.0.json"), ids)
    torch.save(state(weights.state), folder / "params.best")
    return folder


MERGES = (
    "a t</w>", "b o", "t h", "th e</w>", "w e", "l l</w>", "we ll</w>", "& a", "&a p", "&ap o", "&apo s", "&apos ;",
    "&apos; s</w>", "@ -", "@- @</w>",
)  # fmt: skip
OF_MERGES = ("the", "bo@@", "at", "&apos;s", "well", "@-@", ".", "boat@@")
"""Pieces of which the merges make some."""
SPECIAL = ("<unk>", "<blank>", "<s>", "</s>")
OPENNMT_PY = Layout(
    ("encoder.transformer", "decoder.transformer_layers"),
    ({"self_attn": "layer_norm"}, {"self_attn": "layer_norm_1", "context_attn": "layer_norm_2"}),
    ("linear_keys", "linear_values", "linear_query", "final_linear"),
    ("feed_forward.w_1", "feed_forward.w_2", "feed_forward.layer_norm"),
    (
        "encoder.embeddings.make_embedding.emb_luts.0",
        "decoder.embeddings.make_embedding.emb_luts.0",
        "generator",
    ),
)


def write_opennmt_py(
    folder: Path,
    *,
    tied: str = "all",
    positions: str = "SinusoidalInterleaved",
    bias: bool = True,
    vocab: Any = None,
    words: tuple[str, ...] = WORDS,
    source_specials: tuple[str, ...] = SPECIAL,
    state: Change = unchanged,
    **settings: Any,
) -> Path:
    """A checkpoint of OpenNMT-py."""
    folder.mkdir(parents=True, exist_ok=True)
    weights, source, target = Weights(), [*source_specials, *words], [*SPECIAL, *words]
    for part in LAYERS:
        weights.layers(part, OPENNMT_PY, biases=dict.fromkeys(OPENNMT_PY.projections, bias))
        weights.norm(f"{part}.layer_norm")
        weights.state[f"{part}.embeddings.make_embedding.pe.pe"] = sinusoids(positions)[:, None]
    weights.pieces(OPENNMT_PY.pieces, (len(source), len(target)), tied)
    changed = state(weights.state)
    generator = {name: changed.pop(f"generator.{name}") for name in ("weight", "bias")}
    arguments = {
        "model_task": "seq2seq", "model_type": "text", "encoder_type": "transformer", "decoder_type": "transformer",
        "layers": -1, "enc_layers": LAYERS["encoder"], "dec_layers": LAYERS["decoder"], "hidden_size": -1,
        "enc_hid_size": D_MODEL, "dec_hid_size": D_MODEL, "transformer_ff": D_FF, "heads": HEADS,
        "position_encoding": True, "position_encoding_type": positions, "self_attn_type": "scaled-dot",
        "pos_ffn_activation_fn": "relu", "max_relative_positions": 0, "norm_eps": 1e-6,
    } | ({} if bias else {"add_qkvbias": False}) | settings  # fmt: skip
    vocabulary = vocab or {"src": source, "tgt": target, "data_task": "seq2seq", "decoder_start_token": "<s>"}
    checkpoint = {"model": changed, "generator": generator, "vocab": vocabulary, "opt": argparse.Namespace(**arguments)}
    torch.save(checkpoint, folder / "model_step_10.pt")
    return folder


EOLE = Layout(
    ("encoder.transformer_layers", "decoder.transformer_layers"),
    ({"self_attn": "input_layernorm"}, {"self_attn": "input_layernorm", "context_attn": "precontext_layernorm"}),
    OPENNMT_PY.projections,
    ("mlp.gate_up_proj", "mlp.down_proj", "post_attention_layernorm"),
    ("src_emb.embeddings", "tgt_emb.embeddings", "generator"),
)


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
    state: Change = unchanged,
    model: dict[str, Any] | None = None,
    embeddings: dict[str, Any] | None = None,
    encoder: dict[str, Any] | None = None,
    decoder: dict[str, Any] | None = None,
    **sections: Any,
) -> Path:
    """A folder of Eole, with tensors in two files. Settings may be added to the sections of config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    pieces = [*SPECIAL, *words]
    model = {
        "architecture": "transformer", "hidden_size": D_MODEL, "heads": HEADS, "transformer_ff": D_FF,
        "share_embeddings": tied == "all", "share_decoder_embeddings": tied != "none",
    } | (model or {})  # fmt: skip
    weights, bias = Weights(), model.get("add_qkvbias", False)
    biases = dict.fromkeys(EOLE.projections, bias) | {
        "linear_keys": model.get("add_key_bias", bias),
        "final_linear": model.get("add_final_linear_bias", bias),
    }
    inner = HEADS * (model.get("head_dim") or D_MODEL // HEADS)
    for part in LAYERS:
        weights.layers(part, EOLE, biases=biases, ff_bias=model.get("add_ffnbias", False), inner=inner)
        weights.norm(f"{part}.layer_norm")
    weights.state["decoder.transformer_layers.0.layer_scalar"] = torch.ones(1)
    for side in ("src", "tgt"):
        weights.matrix(f"{side}_emb.embeddings.weight", len(pieces), D_MODEL)
        if positions == "Learned":
            weights.matrix(f"{side}_emb.pe.weight", rows, D_MODEL)
        else:
            weights.state[f"{side}_emb.pe.pe"] = sinusoids(str(positions), rows)[:, None].float()
    weights.linear("generator", len(pieces), D_MODEL, model.get("generator_bias", True))
    for name in {"all": EOLE.pieces[1:], "decoder": EOLE.pieces[2:], "none": ()}[tied]:
        del weights.state[f"{name}.weight"]
    tensors = {name: tensor.to(getattr(torch, dtype)).contiguous() for name, tensor in state(weights.state).items()}
    for number, is_encoder in enumerate((True, False)):
        shard = {name: tensor for name, tensor in tensors.items() if name.startswith("encoder") == is_encoder}
        save_file(shard, folder / f"model.{number:02}.safetensors")
    learned = {"n_positions": rows} if positions == "Learned" else {}
    places = {"position_encoding_type": positions, "word_vec_size": D_MODEL, **learned}
    parts = {
        "embeddings": places | (embeddings or {}),
        "encoder": {"encoder_type": "transformer", "layers": LAYERS["encoder"]} | (encoder or {}),
        "decoder": {"decoder_type": "transformer", "layers": LAYERS["decoder"], "with_cross_attn": True}
        | (decoder or {}),
    }
    training = {"model_path": "model", "compute_dtype": "torch.float32"}
    config = {"src_vocab": "vocab.src", "share_vocab": True, "transforms": [], "training": training} | sections
    (folder / "config.json").write_text(json.dumps({"model": model | parts} | config), encoding="utf-8")
    names = dict(zip(("unk_token", "pad_token", "bos_token", "eos_token"), SPECIAL, strict=True))
    vocabulary = {
        "src": pieces,
        "tgt": pieces,
        "decoder_start_token": start,
        **({"specials": names} if specials else {}),
    }
    write_words(folder, ("vocab.json",), vocabulary)
    return folder


FAIRSEQ = Layout(
    ("encoder.layers", "decoder.layers"),
    (
        {"self_attn": "self_attn_layer_norm"},
        {"self_attn": "self_attn_layer_norm", "encoder_attn": "encoder_attn_layer_norm"},
    ),
    ("k_proj", "v_proj", "q_proj", "out_proj"),
    ("fc1", "fc2", "final_layer_norm"),
    ("encoder.embed_tokens", "decoder.embed_tokens", "decoder.output_projection"),
)


def write_fairseq(
    folder: Path,
    *,
    tied: str = "all",
    pre: bool = False,
    learned: bool = False,
    form: str = "args",
    state: Change = unchanged,
    legacy: bool = False,
    words: tuple[str, ...] = WORDS,
    **settings: Any,
) -> Path:
    """A checkpoint of fairseq with its dictionaries."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = Weights()
    for part in LAYERS:
        weights.layers(part, FAIRSEQ)
        weights.state[f"{part}.version"] = torch.tensor([3.0])
        if learned:
            weights.matrix(f"{part}.embed_positions.weight", POSITIONS + 2, D_MODEL)
        else:
            weights.state[f"{part}.embed_positions._float_tensor"] = torch.zeros(1)
        if pre:
            weights.norm(f"{part}.layer_norm")
    weights.pieces(FAIRSEQ.pieces, (4 + len(words),) * 2, tied, bias=False)
    arguments = {"arch": "transformer_iwslt_de_en", "activation_fn": "relu"} | {
        f"{part}_{key}": value
        for part in LAYERS
        for key, value in {
            "layers": LAYERS[part], "embed_dim": D_MODEL, "ffn_embed_dim": D_FF, "attention_heads": HEADS,
            "normalize_before": pre, "learned_pos": learned,
        }.items()
    } | {f"max_{side}_positions": POSITIONS for side in ("source", "target")}  # fmt: skip
    arguments |= {key: value for key, value in settings.items() if key not in ("task", "source_lang", "target_lang")}
    task = {"task": "translation", "source_lang": "en", "target_lang": "de"}
    task |= {key: value for key, value in settings.items() if key in task}
    checkpoint: dict[str, Any] = {"args": None, "model": state(weights.state), "last_optimizer_state": {"state": {}}}
    if form == "args":
        checkpoint["args"] = argparse.Namespace(**arguments, **task)
    else:
        named = {"_name": task.pop("task"), **task}
        checkpoint["cfg"] = {"model": argparse.Namespace(**arguments), "task": named}
    torch.save(checkpoint, folder / "checkpoint_best.pt", _use_new_zipfile_serialization=not legacy)
    dictionaries = ("dict.en.txt", "dict.de.txt")
    write_words(folder, dictionaries, [f"{word} {100 - index}" for index, word in enumerate(words)])
    return folder


def write_marian(folder: Path, name: str = "marian-post", **settings: Any) -> Path:
    """A model that Marian itself trained, as OPUS-MT publishes them, with other settings."""
    shutil.copytree(DATA / name, folder)
    if settings:
        change_marian(folder, settings)
    return folder


def change_marian(folder: Path, settings: Mapping[str, Any], change: Change = unchanged, text: str = "") -> None:
    """Write a model of Marian again with other settings and arrays.

    Args:
        text: is added to the settings.
    """
    with np.load(folder / "model.npz") as archive:
        arrays = dict(archive)
    values = yaml.safe_load(arrays["special:model.yml"].tobytes().rstrip(b"\0")) | settings
    arrays["special:model.yml"] = np.frombuffer(f"{yaml.safe_dump(values)}{text}".encode() + b"\0", np.int8)
    np.savez(folder / "model.npz", **change(arrays))


def write_huggingface(folder: Path, **settings: Any) -> Path:
    """A MarianMT that transformers itself wrote, with other settings."""
    shutil.copytree(DATA / "marian_mt", folder)
    change_json(folder / "config.json", **settings)
    return folder


def change_json(path: Path, **values: Any) -> None:
    """Change keys of a JSON file; None removes one."""
    changed = json.loads(path.read_text("utf-8")) | values
    path.write_text(json.dumps({key: value for key, value in changed.items() if value is not None}))


WRITERS: dict[str, Callable[..., Path]] = {
    "marian": write_marian,
    "huggingface": write_huggingface,
    "fairseq": write_fairseq,
    "opennmt-py": write_opennmt_py,
    "eole": write_eole,
    "joeynmt": write_joeynmt,
    "sockeye": write_sockeye,
}
"""Format -> what writes a tiny model of it."""
