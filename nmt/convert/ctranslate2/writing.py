"""Export to CTranslate2: weights, settings and vocabularies, the checks of its files, and what users are told."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nmt.checkpoint.bundle import Bundle
from nmt.checkpoint.bundle_files import BundleFolder
from nmt.convert.certificate.record import Check
from nmt.convert.ctranslate2.model_file import read_variables, stored_tensors, variable_of
from nmt.convert.ctranslate2.reading import MODEL_NAME, NAMES
from nmt.convert.exported_files import (
    check_tensors,
    check_vocabulary,
    filled,
    is_of_sentencepiece,
    pieces_of,
    stored_pieces,
    write_segmenters,
)
from nmt.convert.expressible import ATTENTION, check_expressible
from nmt.convert.foreign import POSITIONS, Naming
from nmt.convert.weights import matrices_of_pieces, split
from nmt.data.data_folder import vocabulary_files
from nmt.data.vocab import SPECIAL_PIECES, Vocabulary
from nmt.io.writing import write_file, writing
from nmt.machine.packages import require_package
from nmt.model.guiding import aligning_heads
from nmt.model.positions import fixed_positions

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


def _specification(bundle: Bundle) -> Any:
    advice = "Install it: `pip install ctranslate2` (the extra `ctranslate2`)."
    specs = require_package("ctranslate2.specs", "ctranslate2", what="Writing a model of CTranslate2", advice=advice)
    model, vocab = bundle.config.model, bundle.vocab
    aligning, heads = aligning_heads(model)  # as our own alignments are made
    spec = specs.TransformerSpec.from_config(
        (model.encoder_layers, model.decoder_layers),
        model.heads,
        pre_norm=model.norm == "pre",
        activation=specs.common_spec.Activation[_ACTIVATIONS[model.activation]],
        alignment_layer=aligning,
        alignment_heads=heads,
    )
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = (
        SPECIAL_PIECES[index] for index in (Vocabulary.UNK, Vocabulary.BOS, Vocabulary.EOS)
    )
    # Also a decoder that starts with zeros, and reads no piece first, needs the name of one.
    spec.config.decoder_start_token = spec.config.bos_token
    spec.config.add_source_bos, spec.config.add_source_eos = False, True
    spec.config.layer_norm_epsilon = model.norm_epsilon
    spec.decoder.start_from_zero_embedding = model.decoder_start == "zero"
    variables: dict[str, list[Tensor]] = {}
    for name, tensor in _tensors(bundle).items():
        variables.setdefault(variable_of(name), []).append(tensor)
    for variable, parts in variables.items():
        module, _, attribute = variable.rpartition("/")
        # A copy, because CTranslate2 quantizes in place.
        setattr(specs.model_spec.index_spec(spec, module), attribute, torch.cat(parts))
    spec.register_source_vocabulary(pieces_of(vocab.source))
    spec.register_target_vocabulary(pieces_of(vocab.target))
    return spec


def _tensors(bundle: Bundle) -> dict[str, Tensor]:
    """The tensors of a model by the names that we import by, with queries, keys and values apart.

    Tables of positions are among them: CTranslate2 would make others, with other rates and in another order.
    """
    model, naming = bundle.config.model, Naming(NAMES)
    weights = bundle.weights | matrices_of_pieces(bundle.weights, bundle.vocab)
    if (fixed := fixed_positions(model)) is not None:
        weights |= dict.fromkeys(POSITIONS, fixed.float())
    ours = {name: part for whole, weight in weights.items() for name, part in split(whole, weight, model).items()}
    return {naming.theirs(name) or name: part for name, part in ours.items()}


def check_ctranslate2_files(folder: Path, bundle: Bundle, quantization: str) -> list[Check]:
    """Compare weights and vocabularies with those of the bundle."""
    path, expected = folder / MODEL_NAME, {name: tensor.numpy() for name, tensor in _tensors(bundle).items()}
    return [
        check_tensors(stored_tensors(read_variables(path), path), expected, quantization),
        check_vocabulary(stored_pieces(folder), bundle),
    ]


def ctranslate2_usage(bundle: Bundle, name: str) -> str:
    """As :attr:`Format.usage`: a program that translates the lines of standard input."""
    program = Path(__file__).with_name("card_program.txt").read_text("utf-8")
    return filled(
        program.replace("$segment", _segmenting_code(bundle)),
        repr,
        folder=name,
        beam=bundle.config.decoding.beam,
        penalty=bundle.config.decoding.length_penalty,
        limit=bundle.config.model.max_positions,
        extra=bundle.config.decoding.max_extra_length,
    )


def _segmenting_code(bundle: Bundle) -> str:
    """The last lines of ``def segment(line):``, where ``source`` is SentencePiece's."""
    tags = bundle.vocab.source.language_tags
    if not tags:
        return "    return source.encode(line, out_type=str)"
    return (
        f'    tag, _, text = line.partition(" ")  # {tags[0]} and the like\n'
        "    return [tag, *source.encode(text, out_type=str)] if line.strip() else []"
    )


def ctranslate2_remarks(bundle: Bundle) -> Mapping[str, str]:
    """As :attr:`Format.remarks`."""
    found = {
        "search": "CTranslate2 does not store which pieces must never be emitted. Pass disable_unk and "
        "suppress_sequences in each call, as above.",
        "max_positions": "CTranslate2 cuts longer sources off and fails at longer outputs, unless max_input_length and "
        "max_decoding_length are passed as above.",
        "pipeline": "`nmt translate --engine ctranslate2 -m FOLDER`, with this folder, translates with all that nmt "
        "does: its guard, its normalisation, and its splitting of lines.",
    }
    if bundle.config.data.steps.names_languages:
        found["languages"] = "The program above adds no pieces for languages: use the line of `pipeline`."
    if not is_of_sentencepiece(bundle):
        found["text"] = (
            "The program above reads and writes tokens or pieces, separated by spaces, as the model does. For plain "
            "text, use the line of `pipeline`."
        )
    if bundle.config.decoding.length_normalization == "paper" and bundle.config.decoding.length_penalty:
        found["decoding.length_normalization"] = (
            "CTranslate2 divides scores by length^length_penalty, not by the paper's length penalty. A beam search "
            "may choose other hypotheses; a greedy search does not."
        )
    return found
