"""Writing a bundle as a folder that stock transformers loads as MarianMTModel and MarianTokenizer.

The ids of pieces are ours. So pad, unk, bos and eos are 0 to 3, and the decoder starts with bos.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from nmt.checkpoint.bundle import Bundle
from nmt.config import ModelConfig
from nmt.convert.exported_files import write_json
from nmt.convert.expressible import MARIANMT, check_expressible
from nmt.convert.foreign import Part
from nmt.convert.huggingface.features import sines_first, with_features
from nmt.convert.huggingface.names import (
    OUTPUT,
    OUTPUT_BIAS,
    POSITIONS,
    SHARED,
    SOURCE_EMBEDDING,
    TARGET_EMBEDDING,
    layout,
)
from nmt.convert.huggingface.reading import CONFIG, GENERATION
from nmt.convert.huggingface.tensor_files import WEIGHTS
from nmt.convert.huggingface.tokenizer_files import CONFIG as TOKENIZER_CONFIG
from nmt.convert.huggingface.tokenizer_files import SEGMENTERS, TARGET_VOCAB, VOCAB
from nmt.convert.weights import layer_tensors
from nmt.data.vocab import Vocabulary
from nmt.errors import NmtError
from nmt.io.writing import WriteError, write_file
from nmt.model.positions import fixed_positions

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
_PAD, _UNK, _BOS, _EOS = Vocabulary.PAD, Vocabulary.UNK, Vocabulary.BOS, Vocabulary.EOS


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
    for name, side in zip(SEGMENTERS.values(), (vocab.source, vocab.target), strict=True):
        write_file(folder / name, side.model_bytes)
    write_json(folder / VOCAB, _ids(vocab.source))
    if not vocab.is_shared:
        write_json(folder / TARGET_VOCAB, _ids(vocab.target))
    write_json(folder / CONFIG, _config(bundle, quantization))
    write_json(folder / GENERATION, _generation(bundle))
    write_json(folder / TOKENIZER_CONFIG, _tokenizer(bundle))


def stored_tensors(bundle: Bundle) -> dict[str, Tensor]:
    """The tensors of model.safetensors, fp32: of matrices that are one, only one."""
    tensors, tied = all_tensors(bundle), tying(bundle)
    if tied == "all":
        tensors[SHARED] = tensors.pop(TARGET_EMBEDDING)
        del tensors[SOURCE_EMBEDDING]
    if tied == "none":
        tensors[OUTPUT] = tensors[OUTPUT].clone()  # safetensors refuses tensors that share memory
    else:
        del tensors[OUTPUT]
    return tensors | stored_positions(bundle)


def stored_positions(bundle: Bundle) -> dict[str, Tensor]:
    """The tables of positions, by MarianMT's names, for a model whose positions MarianMT does not compute itself."""
    model = bundle.config.model
    if model.positions in ("sinusoidal", "sinusoidal_halves") and not model.first_position:
        return {}
    order_D, fixed = feature_order(model), fixed_positions(model)
    if fixed is not None:
        return {name: fixed[:, order_D].float().contiguous() for name in POSITIONS.values()}
    ours: dict[Part, str] = {"encoder": "source_positions.weight", "decoder": "target_positions.weight"}
    return {name: bundle.weights[ours[part]] for part, name in POSITIONS.items()}


def all_tensors(bundle: Bundle) -> dict[str, Tensor]:
    """All tensors of the MarianMT that computes what the bundle's model does, fp32."""
    model = bundle.config.model
    weights = with_features(bundle.weights, feature_order(model))
    target_VD = weights["embedding.weight"][: bundle.vocab.target.size]
    source_VD = weights.get("embedding.source_weight", weights["embedding.weight"])[: bundle.vocab.source.size]
    output_VD = weights.get("embedding.output_weight", target_VD)[: bundle.vocab.target.size]
    bias_V = weights.get("embedding.output_bias", torch.zeros(len(target_VD)))[: len(target_VD)]
    if model.decoder_start == "zero":
        target_VD = target_VD.clone()
        target_VD[_BOS] = 0
    embeddings = {
        SOURCE_EMBEDDING: source_VD,
        TARGET_EMBEDDING: target_VD,
        OUTPUT: output_VD,
        OUTPUT_BIAS: bias_V[None],
    }
    layers = {name: torch.from_numpy(array) for name, array in layer_tensors(weights, model, layout({}))}
    return embeddings | layers


def feature_order(model: ModelConfig) -> Tensor:
    """Which of our features stands at each place of MarianMT's, whose positions are all sines, then all cosines."""
    return sines_first(model.d_model) if model.positions == "sinusoidal" else torch.arange(model.d_model)


def tying(bundle: Bundle) -> Literal["all", "decoder", "none"]:
    """Which matrices of pieces are one in the MarianMT.

    None, if the decoder starts with zeros and bos has another vector for the output.
    """
    model = bundle.config.model
    is_start_apart = model.decoder_start == "zero" and bool(bundle.weights["embedding.weight"][_BOS].any())
    return "none" if is_start_apart else model.tied_embeddings


def _ids(vocab: Vocabulary) -> dict[str, int]:
    return {piece: index for index, piece in enumerate(vocab.pieces(range(vocab.size)))}


def _special_ids() -> dict[str, int]:
    return {
        "pad_token_id": _PAD,
        "bos_token_id": _BOS,
        "eos_token_id": _EOS,
        "decoder_start_token_id": _BOS,
        "forced_eos_token_id": _EOS,
    }


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
        **_special_ids(),
    }


def _generation(bundle: Bundle) -> dict[str, Any]:
    decoding = bundle.config.decoding
    return {
        "num_beams": decoding.beam,
        "length_penalty": decoding.length_penalty,
        "max_length": bundle.config.model.max_positions,
        "bad_words_ids": [[_PAD], [_UNK], [_BOS]],
        **_special_ids(),
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
