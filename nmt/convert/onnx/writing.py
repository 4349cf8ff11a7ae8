"""Our models as graphs of ONNX, with what a program that runs them needs to know."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from nmt.checkpoint.bundle import Bundle
from nmt.convert.exported_files import write_json
from nmt.convert.exported_segmenters import has_plain_ids, pieces_of, write_segmenters
from nmt.convert.expressible import SOURCE_END, check_expressible
from nmt.convert.onnx.graphs import DecoderGraph, DecoderWithPastGraph, EncoderGraph, Graph, graph_model, sample_inputs
from nmt.data.vocab import Vocabulary
from nmt.io.writing import scratch_folder, writing
from nmt.machine.packages import require_package
from nmt.model.transformer import Transformer

QUANTIZATIONS = ("float32", "float16", "int8")
OPSET = 18
"""The first with everything that the graphs need; ONNX Runtime has it since 1.14."""
ENCODER_NAME, DECODER_NAME, DECODER_WITH_PAST_NAME = (
    f"{part}.onnx" for part in ("encoder_model", "decoder_model", "decoder_with_past_model")
)
CONFIG_NAME = "config.json"
SOURCE_PIECES_NAME, TARGET_PIECES_NAME = "source_vocabulary.json", "target_vocabulary.json"


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
    if writes_lists(bundle):
        write_json(folder / SOURCE_PIECES_NAME, pieces_of(bundle.vocab.source))
        write_json(folder / TARGET_PIECES_NAME, pieces_of(bundle.vocab.target))


def writes_lists(bundle: Bundle) -> bool:
    """Whether lists of pieces say which piece has which id; otherwise the SentencePiece models do."""
    return not (has_plain_ids(bundle.vocab.source) and has_plain_ids(bundle.vocab.target))


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
    modules = (
        ["onnx", "onnxscript"] if quantization == "float32" else ["onnx", "onnxscript", "onnxruntime.quantization"]
    )
    for module in modules:
        require_package(module, module.partition(".")[0], what="Export to ONNX", advice=advice)


def _export(graph: Graph, path: Path) -> None:
    shapes: Any = [
        {axis: size for axis, size in enumerate(shape) if isinstance(size, str)} for shape in graph.inputs.values()
    ]
    if isinstance(graph, DecoderWithPastGraph):
        shapes = [*shapes[:2], tuple(shapes[2:])]  # as its forward takes them
    with _quiet(), writing(path):
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

    with _quiet(), writing(path):
        if quantization == "float16":
            onnx.save(convert_float_to_float16(onnx.load(whole), keep_io_types=True), path)
        else:
            # Weights of 7 bits: with 8, processors without VNNI cut off sums.
            kinds = {"op_types_to_quantize": ["MatMul"], "weight_type": QuantType.QInt8}
            quantize_dynamic(whole, path, per_channel=True, reduce_range=True, **kinds)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without what exporters report about their own code."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
