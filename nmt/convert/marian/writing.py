"""Export to Marian: an .npz file, vocabularies, SentencePiece models and decoder.yml, as OPUS-MT publishes them."""

from __future__ import annotations

import io
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

from nmt.checkpoint.bundle import Bundle
from nmt.config import ModelConfig
from nmt.convert.certificate.reference_side import ReferenceSide
from nmt.convert.certificate.side import Side
from nmt.convert.exported_files import filled, write_segmenters
from nmt.convert.expressible import MARIAN as MARIAN_SETTINGS
from nmt.convert.expressible import check_expressible
from nmt.convert.foreign import OUTPUT, OUTPUT_BIAS, SOURCE_EMBEDDING, TARGET_EMBEDDING, Array
from nmt.convert.marian.finding import DECODER_NAME
from nmt.convert.marian.naming import OUTPUT_BIAS_NAME, UNTIED_OUTPUT, marian_naming
from nmt.convert.marian.reading import DECODES_OTHERWISE, read_marian
from nmt.convert.marian.vocabulary import EOS, UNK, write_yaml_pieces
from nmt.convert.vocabulary import their_piece
from nmt.convert.weights import SILENT, matrices_of_pieces, their_tensors
from nmt.data.vocab import Vocabulary
from nmt.io.writing import write_file

WEIGHTS_NAME = "model.npz"
HOLDS = (WEIGHTS_NAME, DECODER_NAME, "vocab.yml", "source.vocab.yml", "target.vocab.yml", "source.spm", "target.spm")


def write_marian(bundle: Bundle, folder: Path, quantization: str) -> None:
    """Write a bundle as a model of Marian.

    Raises:
        NmtError: Marian cannot express the model. The message names the setting.
        WriteError: a file could not be written.
    """
    model = bundle.config.model
    check_expressible(model, MARIAN_SETTINGS, str(bundle.folder), "Marian")
    source, target = _their_ids(bundle, bundle.vocab.source), _their_ids(bundle, bundle.vocab.target)
    is_joint = bundle.vocab.is_shared
    names = ("vocab.yml", "vocab.yml") if is_joint else ("source.vocab.yml", "target.vocab.yml")
    by_name = {names[0]: (bundle.vocab.source, source), names[1]: (bundle.vocab.target, target)}
    for name, (vocab, ids) in by_name.items():
        pieces = [their_piece(piece) for piece in vocab.pieces(ids)]
        write_file(folder / name, write_yaml_pieces([EOS, UNK, *pieces[2:]]).encode())
    write_segmenters(bundle.vocab, folder)
    tensors = _tensors(bundle, source, target)
    settings = _settings(model, len(source), len(target))
    packed = np.frombuffer(yaml.safe_dump(settings).encode() + b"\0", np.int8)
    out = io.BytesIO()
    np.savez(out, **tensors, **{"special:model.yml": packed})  # type: ignore[arg-type]
    write_file(folder / WEIGHTS_NAME, out.getvalue())
    write_file(folder / DECODER_NAME, yaml.safe_dump(_decoder(bundle, names), sort_keys=False).encode())


def _their_ids(bundle: Bundle, vocab: Vocabulary) -> list[int]:
    """Our ids in Marian's order: eos, unk, then the others that the model may predict."""
    bias = bundle.weights.get("embedding.output_bias")
    silent = set() if bias is None else {index for index in (vocab.PAD, vocab.BOS) if bias[index] < SILENT / 2}
    first = [vocab.EOS, vocab.UNK]
    return [*first, *(index for index in range(vocab.size) if index not in silent and index not in first)]


def _tensors(bundle: Bundle, source: Sequence[int], target: Sequence[int]) -> dict[str, Array]:
    model = bundle.config.model
    weights = bundle.weights | matrices_of_pieces(bundle.weights, bundle.vocab)
    rows = {SOURCE_EMBEDDING: source, TARGET_EMBEDDING: target, OUTPUT: target, OUTPUT_BIAS: target}
    ours = {name: weight[rows[name]] if name in rows else weight for name, weight in weights.items()}
    ours.setdefault(OUTPUT_BIAS, torch.zeros(len(target)))
    named = {"all": ["Wemb"], "decoder": ["encoder_Wemb", "decoder_Wemb"]}
    named["none"] = [*named["decoder"], UNTIED_OUTPUT]
    tensors = their_tensors(ours, model, marian_naming([*named[model.tied_embeddings], OUTPUT_BIAS_NAME], model.norm))
    return {name: array.reshape(1, -1) if array.ndim == 1 else array for name, array in tensors.items()}


def _settings(model: ModelConfig, source_pieces: int, target_pieces: int) -> dict[str, Any]:
    """Marian's settings, all that version 1.12 writes into a Transformer."""
    constant: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("settings.yml").read_text("utf-8"))
    is_pre = model.norm == "pre"
    return constant | {
        "dim-emb": model.d_model,
        "dim-vocabs": [source_pieces, target_pieces],
        "enc-depth": model.encoder_layers,
        "dec-depth": model.decoder_layers,
        "transformer-heads": model.heads,
        "transformer-dim-ffn": model.d_ff,
        "transformer-guided-alignment-layer": str(model.alignment_layer or "last"),
        "transformer-ffn-activation": model.activation,
        "transformer-preprocess": "n" if is_pre else "",
        "transformer-postprocess": "da" if is_pre else "dan",
        "transformer-postprocess-top": "n" if is_pre else "",
        "tied-embeddings": model.tied_embeddings == "decoder",
        "tied-embeddings-all": model.tied_embeddings == "all",
    }


def _decoder(bundle: Bundle, vocabularies: Sequence[str]) -> dict[str, Any]:
    decoding = bundle.config.decoding
    is_exact = decoding.length_normalization == "length" or not decoding.length_penalty
    return {
        "relative-paths": True,
        "models": [WEIGHTS_NAME],
        "vocabs": list(vocabularies),
        "beam-size": decoding.beam,
        "normalize": decoding.length_penalty if is_exact else 0.6,
        "word-penalty": 0,
        "mini-batch": 16,
        "maxi-batch": 100,
        "maxi-batch-sort": "src",
    }


def marian_sides(folder: Path, bundle: Bundle) -> Iterator[Side]:
    """As :attr:`Format.sides`."""
    yield ReferenceSide(read_marian(folder))


def marian_usage(bundle: Bundle, name: str) -> str:
    """As :attr:`Format.usage`."""
    encode = "spm_encode --model source.spm"
    if bundle.vocab.source.language_tags:  # spm_encode would split the tag
        encode = f'while read -r tag line; do echo "$$tag $$(printf "%s\\n" "$$line" | {encode})"; done'
    lines = f"""cd ./$folder
{encode} < input.txt > input.spm
marian-decoder -c {DECODER_NAME} < input.spm > output.spm  # on a CPU, with cpu-threads
spm_decode --model target.spm < output.spm > output.txt"""
    return filled(lines, shlex.quote, folder=name)


def marian_remarks(bundle: Bundle) -> dict[str, str]:
    """As :attr:`Format.remarks`."""
    remarks = {}
    if bundle.config.decoding.length_normalization == "paper" and bundle.config.decoding.length_penalty:
        remarks["length_penalty"] = (
            "Marian divides scores by length^normalize; it has no length penalty of the paper. decoder.yml says 0.6."
        )
    if bundle.config.model.norm == "pre":
        remarks["norm"] = DECODES_OTHERWISE
    remarks["max_extra_length"] = "Marian limits outputs to three times the source's length (its max-length-factor)."
    return remarks
