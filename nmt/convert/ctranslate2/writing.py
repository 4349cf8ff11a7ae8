"""Export to CTranslate2: weights, settings and vocabularies, the checks of its files, and what users are told."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from nmt.checkpoint.bundle import Bundle
from nmt.checkpoint.bundle_files import BundleFolder
from nmt.config import ModelConfig
from nmt.convert.certificate.record import Check
from nmt.convert.ctranslate2.reading import MODEL_NAME, NAMES, read_variables, stored_tensors
from nmt.convert.exported_files import (
    check_segmenters,
    check_stored_settings,
    check_tensors,
    check_vocabulary,
    file_check,
    filled,
    pieces_of,
    segmenting_code,
    write_segmenters,
)
from nmt.convert.expressible import ATTENTION, check_expressible
from nmt.convert.files import EXPORT_AGAIN, read_bytes, read_pieces
from nmt.convert.foreign import OUTPUT, OUTPUT_BIAS, POSITIONS, SOURCE_EMBEDDING, TARGET_EMBEDDING, Naming
from nmt.convert.weights import matrices_of_pieces, split
from nmt.data.data_folder import vocabulary_files
from nmt.data.shards import SIDES
from nmt.data.vocab import SPECIAL_PIECES, Vocabulary
from nmt.data.vocab_pair import VocabularyPair
from nmt.io.writing import write_file, writing
from nmt.machine.packages import require_package
from nmt.model.positions import fixed_positions
from nmt.search.given_targets import alignment_layer

QUANTIZATIONS = ("float32", "float16", "bfloat16", "int8", "int8_float16", "int8_bfloat16", "int16")
# Our activations by CTranslate2's names; its GELU without a suffix is the exact one.
_ACTIVATIONS = {"relu": "RELU", "swish": "SWISH", "gelu": "GELU", "quick_gelu": "GELUSigmoid"}
_BUNDLE = BundleFolder(Path())  # only the names are used
_PIPELINE = tuple(path.name for path in (_BUNDLE.config, *vocabulary_files(_BUNDLE.vocab)))
HOLDS = (MODEL_NAME, "config.json", "*_vocabulary.json", "*.spm", *_PIPELINE)


def write_ctranslate2(bundle: Bundle, folder: Path, quantization: str = "float32") -> None:
    """Write a bundle's model into an empty folder.

    The model adds eos to source pieces and starts outputs by itself. It does not record which pieces must never be
    emitted: pass ``disable_unk`` and ``suppress_sequences`` (pad and bos) in each call. The bundle's settings and
    vocabulary lie beside it, for ``nmt translate --engine ctranslate2``.

    Args:
        quantization: the data type of the stored weights, from :data:`QUANTIZATIONS`.

    Raises:
        NmtError: CTranslate2 is not installed, or cannot express this model.
        WriteError: a file could not be written.
    """
    write_model(bundle, folder, quantization)
    write_segmenters(bundle.vocab, folder)
    for path in BundleFolder(bundle.folder).pipeline:
        write_file(folder / path.name, path.read_bytes())


def write_model(bundle: Bundle, folder: Path, quantization: str) -> None:
    """Write weights, settings and vocabularies alone; see :func:`write_ctranslate2`."""
    check_expressible(bundle.config.model, ATTENTION, str(bundle.folder), "CTranslate2")
    spec = _specification(bundle)
    spec.validate()
    spec.optimize(quantization)
    with writing(folder):
        spec.save(str(folder))


def model_settings(model: ModelConfig) -> dict[str, object]:
    """What CTranslate2's ``config.json`` says of a model.

    A decoder that starts with zeros reads no piece first; CTranslate2 needs the name of one all the same.
    """
    return {
        "unk_token": SPECIAL_PIECES[Vocabulary.UNK],
        "bos_token": SPECIAL_PIECES[Vocabulary.BOS],
        "eos_token": SPECIAL_PIECES[Vocabulary.EOS],
        "decoder_start_token": SPECIAL_PIECES[Vocabulary.BOS],
        "add_source_bos": False,
        "add_source_eos": True,
        "layer_norm_epsilon": model.norm_epsilon,
    }


def _specification(bundle: Bundle) -> Any:
    advice = "Install it: `pip install ctranslate2` (the extra `ctranslate2`)."
    specs = require_package("ctranslate2.specs", "ctranslate2", what="Writing a model of CTranslate2", advice=advice)
    model, vocab = bundle.config.model, bundle.vocab
    # Copies, because CTranslate2 quantizes in place.
    weights = {name: weight.clone() for name, weight in bundle.weights.items()}
    spec = specs.TransformerSpec.from_config(
        (model.encoder_layers, model.decoder_layers),
        model.heads,
        pre_norm=model.norm == "pre",
        activation=specs.common_spec.Activation[_ACTIVATIONS[model.activation]],
        # The attention from which our own alignments are made.
        alignment_layer=alignment_layer([model.decoder_layers]),
        alignment_heads=model.heads,
    )
    for name, value in model_settings(model).items():
        setattr(spec.config, name, value)
    spec.decoder.start_from_zero_embedding = model.decoder_start == "zero"
    _set_embeddings(spec, weights, vocab)
    for part, table in zip((spec.encoder, spec.decoder), _positions(model, weights), strict=True):
        part.position_encodings.encodings = table
    for index, layer in enumerate(spec.encoder.layer):
        name = f"encoder.{index}"
        _set_self_attention(layer.self_attention, weights, name)
        _set_feed_forward(layer.ffn, weights, name)
    for index, layer in enumerate(spec.decoder.layer):
        name = f"decoder.{index}"
        _set_self_attention(layer.self_attention, weights, name)
        _set_cross_attention(layer.attention, weights, name, model.d_model)
        _set_feed_forward(layer.ffn, weights, name)
    if model.norm == "pre":
        _set_norm(spec.encoder.layer_norm, weights, "encoder_norm")
        _set_norm(spec.decoder.layer_norm, weights, "decoder_norm")
    spec.register_source_vocabulary(pieces_of(vocab.source))
    spec.register_target_vocabulary(pieces_of(vocab.target))
    return spec


def _set_embeddings(spec: Any, weights: Mapping[str, Tensor], vocab: VocabularyPair) -> None:
    matrices = matrices_of_pieces(weights, vocab)
    spec.encoder.embeddings[0].weight = matrices[SOURCE_EMBEDDING]
    spec.decoder.embeddings.weight = matrices[TARGET_EMBEDDING]
    spec.decoder.projection.weight = matrices[OUTPUT]
    if OUTPUT_BIAS in matrices:
        spec.decoder.projection.bias = matrices[OUTPUT_BIAS]


def _positions(model: ModelConfig, weights: Mapping[str, Tensor]) -> list[Tensor]:
    """The tables of source and target. CTranslate2 would make others, with other rates and in another order."""
    fixed = fixed_positions(model)
    return [weights[name] if fixed is None else fixed.float() for name in POSITIONS]


def _set_self_attention(spec: Any, weights: Mapping[str, Tensor], layer: str) -> None:
    _set_linear(spec.linear[0], weights, f"{layer}.self_attention.query_key_value")
    _set_linear(spec.linear[1], weights, f"{layer}.self_attention.output")
    _set_norm(spec.layer_norm, weights, f"{layer}.self_attention_norm")


def _set_cross_attention(spec: Any, weights: Mapping[str, Tensor], layer: str, query_rows: int) -> None:
    projection = f"{layer}.cross_attention.query_key_value"
    _set_linear(spec.linear[0], weights, projection, slice(query_rows))
    _set_linear(spec.linear[1], weights, projection, slice(query_rows, None))
    _set_linear(spec.linear[2], weights, f"{layer}.cross_attention.output")
    _set_norm(spec.layer_norm, weights, f"{layer}.cross_attention_norm")


def _set_feed_forward(spec: Any, weights: Mapping[str, Tensor], layer: str) -> None:
    _set_linear(spec.linear_0, weights, f"{layer}.feed_forward.inner")
    _set_linear(spec.linear_1, weights, f"{layer}.feed_forward.output")
    _set_norm(spec.layer_norm, weights, f"{layer}.feed_forward_norm")


def _set_linear(spec: Any, weights: Mapping[str, Tensor], name: str, rows: slice = slice(None)) -> None:
    spec.weight = weights[f"{name}.weight"][rows]
    if f"{name}.bias" in weights:
        spec.bias = weights[f"{name}.bias"][rows]


def _set_norm(spec: Any, weights: Mapping[str, Tensor], name: str) -> None:
    spec.gamma, spec.beta = weights[f"{name}.weight"], weights[f"{name}.bias"]


def vocabularies(folder: Path) -> tuple[list[str], list[str]]:
    """The source and the target pieces of a model, by its ids.

    Raises:
        CheckpointError: a vocabulary is missing or damaged.
    """
    shared = folder / "shared_vocabulary.json"
    files = [shared, shared] if shared.exists() else [folder / f"{side}_vocabulary.json" for side in SIDES]
    source, target = (read_pieces(file, EXPORT_AGAIN) for file in files)
    return source, target


def check_ctranslate2_files(folder: Path, bundle: Bundle, quantization: str) -> list[Check]:
    """Compare weights, settings, vocabularies and SentencePiece models with those of the bundle."""
    return [
        check_model(folder, bundle, quantization),
        check_stored_settings(folder / "config.json", model_settings(bundle.config.model)),
        check_vocabulary(vocabularies(folder), bundle),
        check_segmenters(folder, bundle),
        _check_own_files(folder, bundle),
    ]


def check_model(folder: Path, bundle: Bundle, quantization: str) -> Check:
    """Compare the weights in a model's file with those of the bundle. They are found by the names that we import by."""
    model, path = bundle.config.model, folder / MODEL_NAME
    weights = bundle.weights | matrices_of_pieces(bundle.weights, bundle.vocab)
    weights |= dict(zip(POSITIONS, _positions(model, weights), strict=True))
    ours = {name: part for whole, weight in weights.items() for name, part in split(whole, weight, model).items()}
    naming = Naming(NAMES)
    expected = {naming.theirs(name) or name: part.numpy() for name, part in ours.items()}
    return check_tensors(stored_tensors(read_variables(path), path), expected, quantization)


def _check_own_files(folder: Path, bundle: Bundle) -> Check:
    """Compare the settings and the vocabulary that our own pipeline reads with those of the bundle."""
    paths = BundleFolder(bundle.folder).pipeline
    differing = [path.name for path in paths if read_bytes(folder / path.name, EXPORT_AGAIN) != read_bytes(path)]
    return file_check("pipeline", differing, "the files of nmt's own pipeline are the bundle's")


def ctranslate2_usage(bundle: Bundle, name: str) -> str:
    """As :attr:`Format.usage`: a program that translates the lines of standard input."""
    return filled(
        Path(__file__).with_name("card_program.txt"),
        folder=repr(name),
        segment=segmenting_code(bundle),
        beam=bundle.config.decoding.beam,
        penalty=bundle.config.decoding.length_penalty,
        limit=bundle.config.model.max_positions,
    )


def ctranslate2_remarks(bundle: Bundle) -> Mapping[str, str]:
    """As :attr:`Format.remarks`."""
    found = {
        "search": "CTranslate2 does not store which pieces must never be emitted. Pass disable_unk and "
        "suppress_sequences in each call, as above.",
        "max_positions": "CTranslate2 cuts longer sources off and fails at longer outputs, unless max_input_length and "
        "max_decoding_length are passed as above.",
        "max_extra_length": f"Outputs end after {bundle.config.model.max_positions} pieces, whatever the length of the "
        "source.",
    }
    if bundle.config.decoding.normalization == "paper" and bundle.config.decoding.length_penalty:
        found["decoding.normalization"] = (
            "CTranslate2 divides scores by length^length_penalty, not by the paper's length penalty. A beam search "
            "may choose other hypotheses; a greedy search does not."
        )
    return found
