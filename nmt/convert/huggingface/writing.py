"""Writing a bundle as a folder that stock transformers loads as MarianMTModel and MarianTokenizer.

The ids of pieces are ours. So pad, unk, bos and eos are 0 to 3, and the decoder starts with bos.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from nmt.checkpoint.bundle import Bundle
from nmt.config import ModelConfig
from nmt.convert.certificate.record import Check
from nmt.convert.certificate.reference_side import ReferenceSide
from nmt.convert.certificate.side import Side
from nmt.convert.exported_files import check_tensors, filled, pieces_of, write_json, write_segmenters
from nmt.convert.expressible import MARIANMT, check_expressible
from nmt.convert.foreign import OUTPUT, OUTPUT_BIAS, POSITIONS, SOURCE_EMBEDDING, TARGET_EMBEDDING, Naming, StoredTensor
from nmt.convert.huggingface.folder import CONFIG, GENERATION, NAMES, NORM_EPSILON, SHARED, TOKENIZER, WEIGHTS
from nmt.convert.huggingface.reading import SEGMENTERS, TARGET_VOCAB, VOCAB, read_huggingface
from nmt.convert.huggingface.software import HuggingFaceSide
from nmt.convert.weights import matrices_of_pieces, their_tensors
from nmt.data.vocab import Vocabulary
from nmt.errors import NmtError
from nmt.io.writing import WriteError
from nmt.model.positions import fixed_positions

HOLDS = (WEIGHTS, CONFIG, GENERATION, TOKENIZER, VOCAB, TARGET_VOCAB, *SEGMENTERS.values())
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
# MarianMT's positions are all sines, then all cosines; the paper's are side by side. A post-norm model computes the
# same with the features of its residual stream in any order, as long as all that reads or writes it follows.
_READERS = ("query_key_value.weight", "feed_forward.inner.weight", "embedding.weight", "embedding.source_weight",
            "embedding.output_weight", "positions.weight")  # fmt: skip
"""The ends of names of matrices whose columns are features."""
_WRITERS = ("attention.output.weight", "attention.output.bias", "feed_forward.output.weight",
            "feed_forward.output.bias", "norm.weight", "norm.bias")  # fmt: skip
"""The ends of names of matrices whose rows are features."""
_PAD, _UNK, _BOS, _EOS = Vocabulary.PAD, Vocabulary.UNK, Vocabulary.BOS, Vocabulary.EOS
_SPECIAL_IDS = {
    "pad_token_id": _PAD,
    "bos_token_id": _BOS,
    "eos_token_id": _EOS,
    "decoder_start_token_id": _BOS,
    "forced_eos_token_id": _EOS,
}


def write_huggingface(bundle: Bundle, folder: Path, quantization: str) -> None:
    """Write a bundle's model into a folder.

    Args:
        quantization: the dtype of the weights, a name in :data:`DTYPES`.

    Raises:
        NmtError: MarianMT cannot express the model. The message names the setting.
        WriteError: a file could not be written.
    """
    check_expressible(bundle.config.model, MARIANMT, str(bundle.folder), "MarianMT")
    tensors = {name: tensor.to(DTYPES[quantization]).contiguous() for name, tensor in stored_tensors(bundle).items()}
    for name, tensor in tensors.items():
        if not tensor.isfinite().all():
            raise NmtError(f"{bundle.folder}: {name} has numbers that {quantization} cannot hold. Choose bfloat16.")
    try:
        save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
    except SafetensorError as error:
        raise WriteError.of_native(error, folder / WEIGHTS) from error
    vocab = bundle.vocab
    write_segmenters(vocab, folder)
    write_json(folder / VOCAB, _ids(vocab.source))
    if not vocab.is_shared:
        write_json(folder / TARGET_VOCAB, _ids(vocab.target))
    write_json(folder / CONFIG, _config(bundle, quantization))
    write_json(folder / GENERATION, _generation(bundle))
    write_json(folder / TOKENIZER, _tokenizer(bundle))


def stored_tensors(bundle: Bundle) -> dict[str, Tensor]:
    """The tensors of model.safetensors, fp32: of matrices that are one, only one."""
    tensors, tied = all_tensors(bundle), tying(bundle)
    if tied == "all":
        tensors[SHARED] = tensors.pop(NAMES[TARGET_EMBEDDING])
        del tensors[NAMES[SOURCE_EMBEDDING]]
    if tied != "none":
        del tensors[NAMES[OUTPUT]]
    return tensors | stored_positions(bundle)


def stored_positions(bundle: Bundle) -> dict[str, Tensor]:
    """The tables of positions, by MarianMT's names, for a model whose positions MarianMT does not compute itself."""
    model = bundle.config.model
    if model.positions in ("sinusoidal", "sinusoidal_halves") and not model.first_position:
        return {}
    if (fixed := fixed_positions(model)) is not None:
        return {NAMES[name]: fixed[:, feature_order(model)].float().contiguous() for name in POSITIONS}
    return {NAMES[name]: bundle.weights[name] for name in POSITIONS}


def all_tensors(bundle: Bundle) -> dict[str, Tensor]:
    """All tensors of the MarianMT that computes what the bundle's model does, fp32, but for its positions."""
    model = bundle.config.model
    weights = with_features(bundle.weights, feature_order(model))
    matrices = matrices_of_pieces(weights, bundle.vocab)
    weights |= {name: matrix.clone() for name, matrix in matrices.items()}  # safetensors refuses shared memory
    if model.decoder_start == "zero":
        weights[TARGET_EMBEDDING][_BOS] = 0
    weights[OUTPUT_BIAS] = weights.get(OUTPUT_BIAS, torch.zeros(bundle.vocab.target.size))[None]
    names = {ours: theirs for ours, theirs in NAMES.items() if ours not in POSITIONS}
    return {name: torch.from_numpy(array) for name, array in their_tensors(weights, model, Naming(names)).items()}


def feature_order(model: ModelConfig) -> Tensor:
    """Which of our features stands at each place of MarianMT's, whose positions are all sines, then all cosines."""
    return sines_first(model.d_model) if model.positions == "sinusoidal" else torch.arange(model.d_model)


def sines_first(d_model: int) -> Tensor:
    """Which of the paper's features stands at each place: those of sines, then those of cosines; (D)."""
    return torch.cat([torch.arange(0, d_model, 2), torch.arange(1, d_model, 2)])


def with_features(weights: Mapping[str, Tensor], order_D: Tensor) -> dict[str, Tensor]:
    """The weights, by our names, with the features of the residual stream in another order.

    Args:
        order_D: the present feature of each place.
    """
    return {name: _reordered(name, weight, order_D) for name, weight in weights.items()}


def _reordered(name: str, weight: Tensor, order_D: Tensor) -> Tensor:
    if name.endswith(_READERS):
        return weight[:, order_D]
    return weight[order_D] if name.endswith(_WRITERS) else weight


def tying(bundle: Bundle) -> Literal["all", "decoder", "none"]:
    """Which matrices of pieces are one in the MarianMT.

    None, if the decoder starts with zeros and bos has another vector for the output.
    """
    model = bundle.config.model
    is_start_apart = model.decoder_start == "zero" and bool(bundle.weights["embedding.weight"][_BOS].any())
    return "none" if is_start_apart else model.tied_embeddings


def _ids(vocab: Vocabulary) -> dict[str, int]:
    return {piece: index for index, piece in enumerate(pieces_of(vocab))}


def _config(bundle: Bundle, quantization: str) -> dict[str, Any]:
    model, tied = bundle.config.model, tying(bundle)
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        "vocab_size": bundle.vocab.source.size,
        "decoder_vocab_size": bundle.vocab.target.size,
        "d_model": model.d_model,
        "encoder_layers": model.encoder_layers,
        "decoder_layers": model.decoder_layers,
        "encoder_attention_heads": model.heads,
        "decoder_attention_heads": model.heads,
        "encoder_ffn_dim": model.d_ff,
        "decoder_ffn_dim": model.d_ff,
        "dropout": model.dropout,
        "attention_dropout": model.attention_dropout,
        "activation_dropout": model.activation_dropout,
        "activation_function": model.activation,
        "max_position_embeddings": model.max_positions,
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": tied == "all",
        "tie_word_embeddings": tied != "none",
        "use_cache": True,
        "dtype": quantization,
        **_SPECIAL_IDS,
    }


def _generation(bundle: Bundle) -> dict[str, Any]:
    decoding = bundle.config.decoding
    return {
        "num_beams": decoding.beam,
        "length_penalty": decoding.length_penalty,
        "max_length": bundle.config.model.max_positions,
        "bad_words_ids": [[_PAD], [_UNK], [_BOS]],
        **_SPECIAL_IDS,
    }


def _tokenizer(bundle: Bundle) -> dict[str, Any]:
    pad, unk, _, eos = bundle.vocab.source.pieces((_PAD, _UNK, _BOS, _EOS))
    return {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": bundle.config.data.source_lang or None,
        "target_lang": bundle.config.data.target_lang or None,
        "pad_token": pad,
        "unk_token": unk,
        "eos_token": eos,
        "separate_vocabs": not bundle.vocab.is_shared,
        "model_max_length": bundle.config.model.max_positions,
        # Text that spells a special piece stays text.
        "split_special_tokens": True,
        "clean_up_tokenization_spaces": False,
    }


def huggingface_sides(folder: Path, bundle: Bundle) -> Iterator[Side]:
    """As :attr:`Format.sides`."""
    source, target = pieces_of(bundle.vocab.source), pieces_of(bundle.vocab.target)
    features_D = feature_order(bundle.config.model).argsort()
    yield ReferenceSide(read_huggingface(folder), features_D=features_D.numpy())
    yield HuggingFaceSide(folder, source, target, features_D=features_D)


def check_huggingface(folder: Path, bundle: Bundle, quantization: str) -> list[Check]:
    """As :attr:`Format.check_files`: read the written tensors again."""
    model, whole = read_huggingface(folder), all_tensors(bundle) | stored_positions(bundle)
    # Of matrices that are one, only one is stored.
    names = {NAMES[ours]: model.naming.tensors[ours] for ours in (SOURCE_EMBEDDING, TARGET_EMBEDDING, OUTPUT)}
    stored = (StoredTensor(name, model.tensors[names.get(name, name)]) for name in whole)
    return [check_tensors(stored, {name: tensor.numpy() for name, tensor in whole.items()}, quantization)]


def huggingface_usage(bundle: Bundle, folder: str) -> str:
    """As :attr:`Format.usage`."""
    lines = """from transformers import MarianMTModel, MarianTokenizer

tokenizer = MarianTokenizer.from_pretrained($folder)
model = MarianMTModel.from_pretrained($folder)
batch = tokenizer(["..."], return_tensors="pt", padding=True)
print(tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True))
"""
    return filled(lines, repr, folder=folder)


def huggingface_remarks(bundle: Bundle) -> Mapping[str, str]:
    """As :attr:`Format.remarks`."""
    model, decoding = bundle.config.model, bundle.config.decoding
    remarks = {
        "max_extra_length": f"Outputs end after {model.max_positions} pieces, whatever the length of the source.",
        "text": "A line that begins with >>…<< loses it to a language tag, and U+2581 is read as a space.",
    }
    if model.norm_epsilon != NORM_EPSILON:
        remarks["norm_epsilon"] = (
            f"MarianMT always has {NORM_EPSILON:g}; this model was trained with {model.norm_epsilon:g}."
        )
    if stored_positions(bundle):
        remarks["positions"] = (
            "The tables of positions are stored with the weights, because MarianMT's own positions differ. "
            "transformers reads them, but leaves them out of a model that it saves."
        )
    if decoding.length_normalization == "paper" and decoding.length_penalty:
        remarks["length_penalty"] = (
            f"transformers divides scores by length^{decoding.length_penalty:g} instead of the paper's "
            f"((5 + length) / 6)^{decoding.length_penalty:g}."
        )
    return remarks
