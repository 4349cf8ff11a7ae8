"""Reading a model of fairseq: a checkpoint (``.pt``) with its dictionaries ``dict.LANG.txt`` beside it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nmt.convert.completing import BEAM_OF_5, completed, files_by_name
from nmt.convert.fairseq.settings import FIRST_POSITION, model_config
from nmt.convert.foreign import Array, ForeignModel, LayerModules, Layout, Part
from nmt.convert.given import NOTHING_GIVEN, Given
from nmt.convert.segmenters import find_segmenters, segmented_vocabulary
from nmt.convert.settings import language_code, only_file, plain_settings
from nmt.convert.tensors import check_layer_counts, read_tensors
from nmt.convert.torch_files import Bag, TorchFile, is_torch_file, read_torch_file
from nmt.errors import CheckpointError, VocabularyError

BOS, PAD, EOS, UNK = "<s>", "<pad>", "</s>", "<unk>"
SPECIAL = (BOS, PAD, EOS, UNK)
"""The pieces that every dictionary begins with; its file does not list them."""
_CHECKPOINTS = ("checkpoint_best.pt", "model.pt", "checkpoint_last.pt")
_DEEPEST_NODES = 3
_BUFFERS = (".version", ".embed_positions._float_tensor", ".embed_positions.weights")
_FUSED = re.compile(r"(.*self_attn|.*encoder_attn)\.in_proj_(weight|bias)")
_OLD_NORM = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.layer_norms\.(\d)\.(weight|bias)")
_OLD_NORMS: dict[str, tuple[str, ...]] = {
    "encoder": ("self_attn_layer_norm", "final_layer_norm"),
    "decoder": ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"),
}
_SELF_ATTENTION = ("self_attn", "self_attn_layer_norm")
_LAYERS = LayerModules(
    layers={"encoder": "encoder.layers.{layer}", "decoder": "decoder.layers.{layer}"},
    attentions={
        "encoder": {"self_attention": _SELF_ATTENTION},
        "decoder": {"self_attention": _SELF_ATTENTION, "cross_attention": ("encoder_attn", "encoder_attn_layer_norm")},
    },
    projections=("q_proj", "k_proj", "v_proj", "out_proj"),
    feed_forward=("fc1", "fc2", "final_layer_norm"),
)


def is_fairseq(path: Path) -> bool:
    """Whether a path looks like a model of fairseq: a ``.pt`` file with dictionaries beside it, or their folder."""
    if path.is_dir():
        return any(path.glob("dict.*.txt")) and any(path.glob("*.pt"))
    return path.suffix == ".pt" and any(path.parent.glob("dict.*.txt")) and is_torch_file(path)


def read_fairseq(path: Path, given: Given = NOTHING_GIVEN) -> ForeignModel:
    """Read a model of fairseq.

    Args:
        path: a checkpoint, or a folder with ``checkpoint_best.pt`` or a single ``.pt`` file.

    Raises:
        NmtError: a file is missing or damaged, or the model has something that ours cannot express.
    """
    weights = only_file(path, _CHECKPOINTS, "*.pt", "the checkpoint") if path.is_dir() else path
    name = str(weights)
    file = read_torch_file(weights)
    settings = read_settings(file)
    tensors = _current_names(read_tensors(file, file.value.get("model"), _BUFFERS))
    config = model_config(settings, tensors, name)
    check_layer_counts(tensors, [config.encoder_layers, config.decoder_layers], name)
    languages = [
        given.source_lang or language_code(settings.get("source_lang")),
        given.target_lang or language_code(settings.get("target_lang")),
    ]
    dictionaries = [_dictionary(weights.parent, language) for language in languages]
    segmenters = find_segmenters(weights.parent, given, *languages)
    source, target = (
        segmented_vocabulary(read_dictionary(dictionary), segmenter, str(dictionary), unk=UNK, eos=EOS, pad=PAD)
        for dictionary, segmenter in zip(dictionaries, segmenters, strict=True)
    )
    model = ForeignModel(
        toolkit="fairseq",
        version=None,
        config=config,
        decoding=BEAM_OF_5,
        tensors=tensors,
        layout=_layout(tensors, config.positions == "learned"),
        source=source,
        target=target,
        start=EOS,
        files=files_by_name([weights, *dictionaries, *segmenters]),
        source_lang=languages[0],
        target_lang=languages[1],
        settings=plain_settings(settings),
    )
    return completed(model, name)


def read_settings(file: TorchFile) -> dict[str, Any]:
    """The settings of a checkpoint: ``args`` of older versions, or ``cfg`` with a part for each subject.

    Raises:
        CheckpointError: the checkpoint has neither.
    """
    if not isinstance(file.value, Mapping):
        raise CheckpointError(f"{file.path}: is not a checkpoint of fairseq.")
    if arguments := _values(file.value.get("args")):
        return arguments
    configuration = _values(file.value.get("cfg"))
    model, task = _values(configuration.get("model")), _values(configuration.get("task"))
    if not model:
        raise CheckpointError(f"{file.path}: has neither args nor cfg: is it a checkpoint of fairseq?")
    settings = {**task, **model}
    return {**settings, "task": task.get("_name", settings.get("task")), "arch": model.get("_name", model.get("arch"))}


def _values(part: Any) -> dict[str, Any]:
    part = _opened(part)
    mapping = part.attributes if isinstance(part, Bag) else part if isinstance(part, dict) else {}
    return {key: _opened(value) for key, value in mapping.items() if isinstance(key, str)}


def _opened(node: Any) -> Any:
    """What a node of OmegaConf holds: fairseq pickled its configuration so from October 2020 to March 2021."""
    for _ in range(_DEEPEST_NODES):
        held = (
            [node.attributes[key] for key in ("_val", "_content") if key in node.attributes]
            if isinstance(node, Bag)
            else []
        )
        if not held:
            break
        node = held[0]
    return node


def _dictionary(folder: Path, language: str) -> Path:
    path = folder / f"dict.{Path(language).name}.txt"
    if language and path.is_file():
        return path
    if language:
        raise CheckpointError(
            f"{folder}: lacks {path.name}, the dictionary that fairseq-preprocess wrote: put it there."
        )
    raise CheckpointError(f"{folder}: its languages are unknown: name them with --source-lang and --target-lang.")


def read_dictionary(path: Path) -> list[str]:
    """The pieces of a dictionary, by id.

    Raises:
        VocabularyError: the file cannot be read, or a line is not a piece and its count.
    """
    try:
        lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except OSError as error:
        raise VocabularyError(f"{path}: cannot be read ({error.strerror}).") from None
    except ValueError:
        raise VocabularyError(f"{path}: is not UTF-8 text.") from None
    pieces = list(SPECIAL)
    for number, line in enumerate(lines, start=1):
        line = line.rstrip().removesuffix(" #fairseq:overwrite")
        piece, separator, count = line.rpartition(" ")
        if not separator or not count.isdecimal():
            raise VocabularyError(f"{path}, line {number}: expected a piece and its count, got {line[:60]!r}.")
        pieces.append(piece)
    return pieces


def _current_names(tensors: Mapping[str, Array]) -> dict[str, Array]:
    """Tensors by the names of recent versions: older ones fuse projections, and number norms."""
    current: dict[str, Array] = {}
    for name, array in tensors.items():
        if (match := _FUSED.fullmatch(name)) is not None and len(array) % 3 == 0:
            for letter, part in zip("qkv", np.split(array, 3), strict=True):
                current[f"{match[1]}.{letter}_proj.{match[2]}"] = part
        elif (match := _OLD_NORM.fullmatch(name)) is not None and int(match[3]) < len(_OLD_NORMS[match[1]]):
            current[f"{match[1]}.layers.{match[2]}.{_OLD_NORMS[match[1]][int(match[3])]}.{match[4]}"] = array
        else:
            current[name] = array
    return current


def _layout(tensors: Mapping[str, Array], is_learned: bool) -> Layout:
    outputs = ("decoder.output_projection.weight", "decoder.embed_out", "decoder.embed_tokens.weight")
    positions: dict[Part, str] = {
        "encoder": "encoder.embed_positions.weight",
        "decoder": "decoder.embed_positions.weight",
    }
    return Layout(
        _LAYERS.linears(),
        _LAYERS.norms(),
        source_embedding="encoder.embed_tokens.weight",
        target_embedding="decoder.embed_tokens.weight",
        output=next(name for name in outputs if name in tensors or name == outputs[-1]),
        output_bias=None,
        positions=positions if is_learned else {},
        first_position_row=FIRST_POSITION,
    )
