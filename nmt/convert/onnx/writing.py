"""Export to ONNX: graphs, and what a program that runs them needs to know, and the checks of its files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nmt.checkpoint.bundle import Bundle
from nmt.convert.certificate.record import Check
from nmt.convert.exported_files import (
    card_program,
    check_segmenters,
    check_stored_settings,
    check_tensors,
    check_vocabulary,
    pieces_of,
    stored_pieces,
    write_json,
    write_segmenters,
)
from nmt.convert.expressible import SOURCE_END, check_expressible
from nmt.convert.files import EXPORT_AGAIN, read_bytes
from nmt.convert.foreign import POSITIONS, StoredTensor
from nmt.convert.onnx.graphs import DecoderGraph, DecoderWithPastGraph, EncoderGraph, Graph, graph_model, sample_inputs
from nmt.data.vocab import Vocabulary
from nmt.errors import CheckpointError
from nmt.io.writing import scratch_folder, writing
from nmt.machine.packages import require_package, silence
from nmt.model.transformer import Transformer

QUANTIZATIONS = ("float32", "float16", "int8")
OPSET = 18
"""The first with everything that the graphs need; ONNX Runtime has it since 1.14."""
ENCODER_NAME, DECODER_NAME, DECODER_WITH_PAST_NAME = (
    f"{part}.onnx" for part in ("encoder_model", "decoder_model", "decoder_with_past_model")
)
CONFIG_NAME = "config.json"
SOURCE_PIECES_NAME, TARGET_PIECES_NAME = "source_vocabulary.json", "target_vocabulary.json"
HOLDS = (ENCODER_NAME, DECODER_NAME, DECODER_WITH_PAST_NAME, CONFIG_NAME, "*_vocabulary.json", "*.spm")
_PREFIX = "model."
_LARGEST = 2**31  # of a message of protobuf
_QUANTIZED, _TRANSPOSED = "_quantized", "_Transposed"
"""What ONNX Runtime adds to the name of a tensor that it stores as integers, and of one that it transposes."""


def write_onnx(bundle: Bundle, folder: Path, quantization: str = "float32") -> None:
    """Write a bundle's model into an empty folder.

    Args:
        quantization: ``float32``; ``float16``, with inputs and outputs in fp32; or ``int8``, with activations that are
            quantized as they come.

    Raises:
        NmtError: a package that this needs is not installed, or the model does not see the end of its source.
        WriteError: a file could not be written.
    """
    check_expressible(bundle.config.model, SOURCE_END, str(bundle.folder), "ONNX")
    _check_installed(quantization)
    for name, graph in graphs_of(graph_model(bundle)).items():
        if quantization == "float32":
            _export(graph, folder / name)
            continue
        with scratch_folder() as scratch:
            _export(graph, scratch / name)
            _convert(scratch / name, folder / name, quantization)
    write_segmenters(bundle.vocab, folder)
    write_json(folder / CONFIG_NAME, model_settings(bundle))
    write_json(folder / SOURCE_PIECES_NAME, pieces_of(bundle.vocab.source))
    write_json(folder / TARGET_PIECES_NAME, pieces_of(bundle.vocab.target))


def graphs_of(model: Transformer) -> dict[str, Graph]:
    """The graphs by their files."""
    return {
        ENCODER_NAME: EncoderGraph(model),
        DECODER_NAME: DecoderGraph(model),
        DECODER_WITH_PAST_NAME: DecoderWithPastGraph(model),
    }


def model_settings(bundle: Bundle) -> dict[str, object]:
    """What a program that runs the graphs needs to know."""
    model = bundle.config.model
    return {
        "pad_token_id": Vocabulary.PAD,
        "unk_token_id": Vocabulary.UNK,
        "bos_token_id": Vocabulary.BOS,
        "eos_token_id": Vocabulary.EOS,
        "decoder_start_token_id": Vocabulary.BOS,
        "add_source_eos": True,
        "never_emitted_token_ids": [Vocabulary.PAD, Vocabulary.UNK, Vocabulary.BOS],
        "source_vocab_size": bundle.vocab.source.size,
        "vocab_size": bundle.vocab.target.size,
        "encoder_layers": model.encoder_layers,
        "decoder_layers": model.decoder_layers,
        "num_heads": model.heads,
        "d_model": model.d_model,
        "d_kv": model.key_size,
        "d_value": model.value_size,
        "max_positions": model.max_positions,
    }


def _check_installed(quantization: str) -> None:
    advice = "Install it: `pip install onnx onnxscript onnxruntime` (the extra `onnx`)."
    for module in ("onnx", "onnxscript", *(["onnxruntime.quantization"] if quantization != "float32" else [])):
        require_package(module, module.partition(".")[0], what="Export to ONNX", advice=advice)


def _export(graph: Graph, path: Path) -> None:
    shapes: Any = [
        {axis: size for axis, size in enumerate(shape) if isinstance(size, str)} for shape in graph.inputs.values()
    ]
    if isinstance(graph, DecoderWithPastGraph):
        shapes = [*shapes[:2], tuple(shapes[2:])]  # as its forward takes them
    with silence(), writing(path):
        torch.onnx.export(
            graph.eval(),
            tuple(sample_inputs(graph)),
            path,
            input_names=list(graph.inputs),
            output_names=graph.outputs,
            dynamic_shapes=tuple(shapes),
            opset_version=OPSET,
            dynamo=True,
            external_data=False,
            verbose=False,
        )


def _convert(whole: Path, path: Path, quantization: str) -> None:
    """Write a graph in fewer bits."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.transformers.float16 import convert_float_to_float16

    with silence(), writing(path):
        if quantization == "float16":
            onnx.save(convert_float_to_float16(onnx.load(whole), keep_io_types=True), path)
        else:
            # Weights of 7 bits: with 8, processors without VNNI cut off sums.
            kinds = {"op_types_to_quantize": ["MatMul"], "weight_type": QuantType.QInt8}
            quantize_dynamic(whole, path, per_channel=True, reduce_range=True, **kinds)


def check_onnx_files(folder: Path, bundle: Bundle, quantization: str) -> list[Check]:
    """Compare weights, settings, vocabularies and SentencePiece models with those of the bundle."""
    model, graphs = graph_model(bundle), (ENCODER_NAME, DECODER_NAME, DECODER_WITH_PAST_NAME)
    weights = model.state_dict() | {POSITIONS[1]: model.target_positions.weight}
    expected = {name: tensor.detach().numpy() for name, tensor in weights.items()}
    stored = (tensor for graph in graphs for tensor in _stored(folder / graph))
    return [
        check_tensors(stored, expected, quantization),
        check_stored_settings(folder / CONFIG_NAME, model_settings(bundle)),
        check_vocabulary(stored_pieces(folder), bundle),
        check_segmenters(folder, bundle),
    ]


def _stored(path: Path) -> Iterator[StoredTensor]:
    """The tensors of a graph, by our names."""
    import onnx
    from google.protobuf.message import DecodeError

    try:
        graph = onnx.load_model_from_string(read_bytes(path, EXPORT_AGAIN, most=_LARGEST)).graph
        arrays = {tensor.name.removeprefix(_PREFIX): onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
        for name, array in arrays.items():
            if name.endswith(_QUANTIZED):
                yield _dequantized(name.removesuffix(_QUANTIZED), arrays, path.name)
            else:
                yield StoredTensor(name, array.astype(np.float32), file=path.name)
    except (DecodeError, ValueError, KeyError) as error:
        raise CheckpointError(f"{path}: is damaged ({error}). {EXPORT_AGAIN}") from None


def _dequantized(name: str, arrays: Mapping[str, Any], file: str) -> StoredTensor:
    """A tensor that is stored as integers, with a scale for each column."""
    integers, scale, zero = (arrays[f"{name}{end}"] for end in (_QUANTIZED, "_scale", "_zero_point"))
    integers = integers.astype(np.float32) - zero
    # A column of zeros has a scale that means nothing.
    is_rounded = integers.reshape(-1, scale.size).any(axis=0)
    numbers, steps = integers * scale, np.broadcast_to(scale * is_rounded, integers.shape)
    if name.endswith(_TRANSPOSED):
        numbers, steps = numbers.T, steps.T
    return StoredTensor(name.removesuffix(_TRANSPOSED), numbers, steps, file)


def onnx_usage(bundle: Bundle, name: str) -> str:
    """As :attr:`Format.usage`: a program that translates the lines of standard input by a greedy search."""
    return card_program(
        Path(__file__).with_name("card_program.txt"),
        bundle,
        folder=name,
        limit=bundle.config.model.max_positions,
        extra=bundle.config.decoding.max_extra_length,
    )


def onnx_remarks(bundle: Bundle) -> Mapping[str, str]:
    """As :attr:`Format.remarks`."""
    return {
        "search": "The graphs compute logits. The program above searches greedily and never emits pad, unk and bos; "
        "a beam search is left to the user.",
        "max_positions": f"A source or an output has at most {bundle.config.model.max_positions} pieces with eos.",
        "vocabulary": f"{SOURCE_PIECES_NAME} and {TARGET_PIECES_NAME} list the pieces by the ids of the graphs, which "
        "may not be those of the SentencePiece models. A piece that they lack is unknown.",
    }
