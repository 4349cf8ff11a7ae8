"""Reading a model of OpenNMT-py: a checkpoint (``.pt``) that holds settings and vocabularies."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nmt.convert.completing import BEAM_OF_5, completed, files_by_name
from nmt.convert.foreign import Array, ForeignModel, LayerModules, Layout, Names, weight_and_bias
from nmt.convert.given import NOTHING_GIVEN, Given
from nmt.convert.messages import shown
from nmt.convert.opennmt_py.settings import TABLES, model_config
from nmt.convert.segmenters import find_segmenters, segmented_vocabulary
from nmt.convert.settings import only_file, plain_settings
from nmt.convert.tensors import check_layer_counts, read_tensors
from nmt.convert.torch_files import Bag, TorchFile, is_torch_file, read_torch_file
from nmt.errors import CheckpointError, VocabularyError

PAD, UNK, BOS, EOS = "<blank>", "<unk>", "<s>", "</s>"
_OLD_NORM = re.compile(r"(.*layer_norm(?:_\d)?)\.([ab])_2")
_EMBEDDING = "make_embedding.emb_luts.0.weight"
_MASKS = (".mask",)
_UNNORMALISED = BEAM_OF_5.model_copy(update={"length_penalty": 0.0})
_LAYERS = LayerModules(
    layers={"encoder": "encoder.transformer.{layer}", "decoder": "decoder.transformer_layers.{layer}"},
    attentions={
        "encoder": {"self_attention": ("self_attn", "layer_norm")},
        "decoder": {
            "self_attention": ("self_attn", "layer_norm_1"),
            "cross_attention": ("context_attn", "layer_norm_2"),
        },
    },
    projections=("linear_query", "linear_keys", "linear_values", "final_linear"),
    feed_forward=("feed_forward.w_1", "feed_forward.w_2", "feed_forward.layer_norm"),
)


def is_opennmt_py(path: Path) -> bool:
    """Whether a path looks like a model of OpenNMT-py: a ``.pt`` file, or a folder with one."""
    return any(path.glob("*.pt")) if path.is_dir() else path.suffix == ".pt" and is_torch_file(path)


def read_opennmt_py(path: Path, given: Given = NOTHING_GIVEN) -> ForeignModel:
    """Read a model of OpenNMT-py 1 to 3.

    Args:
        path: a checkpoint, or a folder with a single one.

    Raises:
        NmtError: a file is missing or damaged, or the model has something that ours cannot express.
    """
    weights = only_file(path, (), "*.pt", "the checkpoint") if path.is_dir() else path
    name = str(weights)
    file = read_torch_file(weights)
    settings = _settings(file)
    tensors = _tensors(file)
    config = model_config(settings, tensors, name)
    check_layer_counts(tensors, [config.encoder_layers, config.decoder_layers], name)
    languages = (given.source_lang or "", given.target_lang or "")
    segmenters = find_segmenters(weights.parent, given, *languages)
    vocabularies = file.value.get("vocab")
    source, target = (
        segmented_vocabulary(
            _pieces(vocabularies, side, name),
            segmenter,
            f"{name}, {side}",
            unk=UNK,
            eos=EOS,
            pad=PAD,
            needs_eos=needs_eos,
        )
        for side, segmenter, needs_eos in zip(("src", "tgt"), segmenters, (False, True), strict=True)
    )
    model = ForeignModel(
        toolkit="OpenNMT-py",
        version=None,
        config=config,
        # Version 3, the first with lists of pieces, divides by the length unless told otherwise; those before do not.
        decoding=BEAM_OF_5 if isinstance(vocabularies.get("src"), list) else _UNNORMALISED,
        tensors=tensors,
        layout=_layout(tensors),
        source=source,
        target=target,
        start=_start(vocabularies, target.pieces, name),
        files=files_by_name([weights, *segmenters]),
        source_lang=languages[0],
        target_lang=languages[1],
        settings=plain_settings(settings),
        ignored=TABLES,
    )
    return completed(model, name)


def _settings(file: TorchFile) -> dict[str, Any]:
    """``opt`` of the checkpoint."""
    settings = file.value.get("opt") if isinstance(file.value, Mapping) else None
    if not isinstance(settings, Bag) or "vocab" not in file.value:
        raise CheckpointError(
            f"{file.path}: has no opt and vocab, so it is not a checkpoint of OpenNMT-py. If it is one of fairseq, put "
            "its dictionaries (dict.LANG.txt) beside it."
        )
    return {key: value for key, value in settings.attributes.items() if isinstance(key, str)}


def _tensors(file: TorchFile) -> dict[str, Array]:
    """The tensors of the model and of its generator, by the names of recent versions."""
    if "model" not in file.value:
        raise CheckpointError(
            f"{file.path}: holds no tensors: they were saved as safetensors. Save the model as pytorch."
        )
    found = read_tensors(file, file.value["model"], _MASKS)
    tensors = {_current_name(name): array for name, array in found.items()}
    generator = file.value.get("generator")
    for name, array in read_tensors(file, generator).items() if generator is not None else ():
        tensors[f"generator.{name.removeprefix('0.')}"] = array
    return tensors


def _current_name(name: str) -> str:
    """The name of a tensor since OpenNMT-py 1: before, norms were of its own making."""
    match = _OLD_NORM.fullmatch(name)
    return name if match is None else f"{match[1]}.{'weight' if match[2] == 'a' else 'bias'}"


def _pieces(vocabularies: Any, side: str, name: str) -> list[str]:
    """The pieces of one side. Before OpenNMT-py 3 they lie within objects of torchtext."""
    pieces = vocabularies.get(side) if isinstance(vocabularies, Mapping) else None
    if isinstance(pieces, Bag):
        pieces = _within(pieces)
    if not isinstance(pieces, list) or not all(isinstance(piece, str) for piece in pieces):
        raise VocabularyError(f"{name}: its vocabulary of {side} is not a list of pieces.")
    if isinstance(vocabularies.get(f"{side}_feats"), list) and vocabularies[f"{side}_feats"]:
        raise CheckpointError(f"{name}: has {side}_feats, which nmt does not have. It would need source features.")
    return pieces


def _within(field: Bag) -> Any:
    """The pieces in ``TextMultiField`` of OpenNMT-py, or in ``Field`` of torchtext."""
    fields = field.attributes.get("fields")
    if isinstance(fields, list):
        if len(fields) != 1 or not isinstance(fields[0], tuple) or not isinstance(fields[0][-1], Bag):
            return None
        field = fields[0][-1]
    vocabulary = field.attributes.get("vocab")
    return vocabulary.attributes.get("itos") if isinstance(vocabulary, Bag) else None


def _start(vocabularies: Mapping[str, Any], pieces: tuple[str, ...], name: str) -> str:
    """The piece that the decoder reads first."""
    start = vocabularies.get("decoder_start_token", BOS)
    if not isinstance(start, str) or start not in pieces:
        raise CheckpointError(f"{name}: its decoder starts with '{shown(start)}', which is not a target piece.")
    return start


def _layout(tensors: Mapping[str, Array]) -> Layout:
    def linear(name: str) -> Names:
        names = weight_and_bias(name)
        return names if names.of_layer(0).bias in tensors else Names(names.weight, None)

    return Layout(
        _LAYERS.linears(linear),
        _LAYERS.norms(),
        source_embedding=f"encoder.embeddings.{_EMBEDDING}",
        target_embedding=f"decoder.embeddings.{_EMBEDDING}",
        output="generator.weight",
        output_bias="generator.bias",
        position_tables=TABLES,
    )
