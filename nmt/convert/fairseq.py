"""Reading a model of fairseq: a checkpoint (``.pt``) with its dictionaries ``dict.LANG.txt`` beside it."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nmt.convert.files import has_files, named_in, read_text, shown
from nmt.convert.foreign import BEAM_OF_5, COMPOSED, Array, ForeignModel, Given, Naming, matrices, torch_names
from nmt.convert.segmenters import find_codes, find_segmenters, read_codes, segmented_vocabularies
from nmt.convert.settings import MAX_POSITIONS, Settings, expressible, only_file, unknown_remarks
from nmt.convert.tensors import NO_POWERS, UNSCALED, foreign_model, read_tensors
from nmt.convert.torch_files import Bag, read_torch_file, without_tensors
from nmt.errors import CheckpointError, VocabularyError
from nmt.text.steps import MosesTokenize, TextSteps

_SPECIAL = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
"""The pieces that every dictionary begins with; its file does not list them."""
_KEPT = tuple(_SPECIAL[key] for key in ("pad_token", "eos_token", "unk_token"))
_COUNT = re.compile(r"\s*[+-]?\d+(?:_\d+)*")
"""A whole number, as Python reads one."""
_OVERWRITE = " #fairseq:overwrite"
FIRST_POSITION = [*_SPECIAL].index("pad_token") + 1
"""Positions are numbered from the number after that of the padding."""
NORM_EPSILON = 1e-5
"""torch's default, which fairseq keeps."""
_CHECKPOINTS = ("checkpoint_best.pt", "model.pt", "checkpoint_last.pt")
_DEEPEST_NODES = 3
_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish"}
_SETTINGS = expressible("fairseq")
_BUFFERS = (".version", ".embed_positions._float_tensor", ".embed_positions.weights")
_FUSED = re.compile(r"(.*self_attn|.*encoder_attn)\.in_proj_(weight|bias)")
_OLD_NORM = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.layer_norms\.(\d)\.(weight|bias)")
_OLD_NORMS: dict[str, tuple[str, ...]] = {
    "encoder": ("self_attn_layer_norm", "final_layer_norm"),
    "decoder": ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"),
}
_COPY = re.compile(r"encoder\.layers\.\d+\.(?:in_proj|out_proj|fc1|fc2)_(?:weight|bias)")
"""Tensors of fairseq 0.12 for a fast path. It fills them from a layer's own tensors whenever it loads a checkpoint."""
_PROJECTIONS = ("q_proj", "k_proj", "v_proj", "out_proj")
_ENCODER = {
    "self_attention": "self_attn",
    "self_attention_norm": "self_attn_layer_norm",
    "feed_forward.inner": "fc1",
    "feed_forward.output": "fc2",
    "feed_forward_norm": "final_layer_norm",
}
_CROSS = {"cross_attention": "encoder_attn", "cross_attention_norm": "encoder_attn_layer_norm"}
NAMES = torch_names(("encoder.layers.{n}", "decoder.layers.{n}"), _ENCODER, _ENCODER | _CROSS, _PROJECTIONS)
_ASSUMED_MOSES = (
    "The checkpoint does not name the tokeniser of its training text: it is taken for Moses' (with -a), as in the "
    "models that fairseq's authors published."
)
_OUTPUTS = ("decoder.output_projection.weight", "decoder.embed_out", "decoder.embed_tokens.weight")
_POSITIONS = ("encoder.embed_positions.weight", "decoder.embed_positions.weight")


def is_fairseq(path: Path) -> bool:
    """Whether a path looks like a model of fairseq: a ``.pt`` file with dictionaries beside it, or their folder."""
    return has_files(path, "*.pt", "dict.*.txt")


def read_fairseq(path: Path, given: Given = Given()) -> ForeignModel:
    """Read a model of fairseq.

    Args:
        path: a checkpoint, or a folder with ``checkpoint_best.pt`` or a single ``.pt`` file.

    Raises:
        NmtError: a file is missing or damaged, or the model has something that ours cannot express.
    """
    weights = only_file(path, _CHECKPOINTS, "*.pt", "the checkpoint") if path.is_dir() else path
    name = str(weights)
    values = read_torch_file(weights)
    settings = Settings(_settings(values, name), name)
    ours = _model_settings(settings)
    tensors = _current_names(read_tensors(weights, values.get("model"), _BUFFERS))
    languages = given.languages(settings.get("source_lang"), settings.get("target_lang"))
    dictionaries = [_dictionary(weights.parent, language) for language in languages]
    segmenters = find_segmenters(weights.parent, given, languages)
    codes = find_codes(weights.parent, languages) if segmenters == (None, None) else (None, None)
    source, target = segmented_vocabularies(
        map(read_dictionary, dictionaries), segmenters, dictionaries, _SPECIAL, codes=map(read_codes, codes)
    )
    text, text_remarks = _text(settings, languages) if any(codes) else (COMPOSED, [])
    return foreign_model(
        name,
        ours,
        toolkit="fairseq",
        version=None,
        decoding=BEAM_OF_5,
        tensors=tensors,
        naming=_naming(tensors, is_learned=ours["positions"] == "learned"),
        source=source,
        target=target,
        start=_SPECIAL["eos_token"],
        powers=UNSCALED if settings.get("no_scale_embedding") else NO_POWERS,
        files=[weights, *dictionaries, *segmenters, *codes],
        text=text,
        languages=languages,
        settings=settings,
        remarks=[*text_remarks, *unknown_remarks(settings, _SETTINGS, "fairseq")],
    )


def _text(settings: Mapping[str, Any], languages: tuple[str, str]) -> tuple[TextSteps, list[str]]:
    """What text goes through before codes split its words, and a remark where nothing tells.

    Checkpoints hardly name a tokeniser, since fairseq trains on tokens. Its published models with codes have Moses'.
    """
    named = settings.get("tokenizer")
    if named not in (None, "moses"):
        return COMPOSED, []
    sides = [
        MosesTokenize(
            language=language,
            escapes=not settings.get("moses_no_escape"),
            splits_dashes=not settings.get("moses_no_dash_splits"),
        )
        for language in languages
    ]
    text = TextSteps((*COMPOSED.source, sides[0]), (*COMPOSED.target, sides[1]))
    return text, [] if named else [_ASSUMED_MOSES]


def _settings(values: Any, name: str) -> dict[str, Any]:
    """The settings of a checkpoint: ``args`` of older versions, or ``cfg`` with a part for each subject.

    Raises:
        CheckpointError: the checkpoint has neither.
    """
    if not isinstance(values, Mapping):
        raise CheckpointError(f"{name}: is not a checkpoint of fairseq.")
    if arguments := _values(values.get("args")):
        return without_tensors(arguments, name)
    configuration = _values(values.get("cfg"))
    model, task = _values(configuration.get("model")), _values(configuration.get("task"))
    if not model:
        raise CheckpointError(f"{name}: has neither args nor cfg: is it a checkpoint of fairseq?")
    tokenizer = {f"moses_{key}": value for key, value in _values(configuration.get("tokenizer")).items()}
    settings = without_tensors({**tokenizer, **task, **model}, name)
    settings["tokenizer"] = settings.pop("moses__name", None)
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


def _model_settings(settings: Settings) -> dict[str, Any]:
    """The settings of our model.

    Raises:
        CheckpointError: our model cannot express a setting. The message names it.
    """
    architecture = settings.get("arch", settings.get("_name", "transformer"))
    if not isinstance(architecture, str) or "transformer" not in architecture:
        raise settings.refusal("arch", architecture, "another network than a Transformer")
    settings.check(_SETTINGS)
    sizes = ("encoder_embed_dim", "decoder_embed_dim", "decoder_input_dim", "decoder_output_dim")
    is_learned = bool(settings.of_both("learned_pos", "positions of two kinds"))
    return {
        "encoder_layers": settings.get("encoder_layers"),
        "decoder_layers": settings.get("decoder_layers"),
        "d_model": settings.equal(sizes, "an encoder and a decoder of different sizes"),
        "d_ff": settings.of_both("ffn_embed_dim", "feed-forward networks of different sizes"),
        "heads": settings.of_both("attention_heads", "different numbers of heads"),
        "norm": "pre" if settings.of_both("normalize_before", "norms in two places") else "post",
        "norm_epsilon": NORM_EPSILON,
        "embedding_norm": bool(settings.get("layernorm_embedding")),
        "activation": settings.choose("activation_fn", "relu", _ACTIVATIONS),
        "output_bias": True,  # bos, which is a copy of eos, must never be predicted
        **(
            {"positions": "learned"}
            if is_learned
            else {
                "positions": "tensor2tensor",
                "first_position": FIRST_POSITION,
                "max_positions": _max_positions(settings),
            }
        ),
    }


def _max_positions(settings: Mapping[str, Any]) -> int:
    limits = [settings.get(key) for key in ("max_source_positions", "max_target_positions")]
    return min([MAX_POSITIONS, *(limit for limit in limits if isinstance(limit, int) and limit > 1)])


def _dictionary(folder: Path, language: str) -> Path:
    if not language:
        raise CheckpointError(f"{folder}: its languages are unknown: name them with --source-lang and --target-lang.")
    name = f"dict.{Path(language).name}.txt"
    if (path := named_in(folder, name)) is None:
        raise CheckpointError(
            f"{folder}: lacks {shown(name)}, the dictionary that fairseq-preprocess wrote: put it there."
        )
    return path


def read_dictionary(path: Path) -> list[str]:
    """The pieces of a dictionary, by id.

    Raises:
        VocabularyError: the file cannot be read, or a line is not a piece and its count.
    """
    pieces = list(_SPECIAL.values())
    for number, line in enumerate(io.StringIO(read_text(path)), start=1):
        line = line.rstrip()
        piece, separator, count = line.removesuffix(_OVERWRITE).rpartition(" ")
        if not separator or not _COUNT.fullmatch(count):
            raise VocabularyError(f"{path}, line {number}: expected a piece and its count, got {line[:60]!r}.")
        if line.endswith(_OVERWRITE) and piece in pieces:
            # Text never gets the earlier id again, but the special pieces keep theirs.
            unused = f"{piece}#{number}"
            if piece in _KEPT:
                piece = unused
            else:
                pieces[pieces.index(piece)] = unused
        pieces.append(piece)
    return pieces


def _current_names(tensors: Mapping[str, Array]) -> dict[str, Array]:
    """Tensors by the names of recent versions, without copies: older ones fuse projections, and number norms."""
    current: dict[str, Array] = {}
    for name, array in tensors.items():
        if (match := _FUSED.fullmatch(name)) is not None and len(array) % 3 == 0:
            for letter, part in zip("qkv", np.split(array, 3), strict=True):
                current[f"{match[1]}.{letter}_proj.{match[2]}"] = part
        elif (match := _OLD_NORM.fullmatch(name)) is not None and int(match[3]) < len(_OLD_NORMS[match[1]]):
            current[f"{match[1]}.layers.{match[2]}.{_OLD_NORMS[match[1]][int(match[3])]}.{match[4]}"] = array
        elif not _COPY.fullmatch(name):
            current[name] = array
    return current


def _naming(tensors: Mapping[str, Array], *, is_learned: bool) -> Naming:
    names = NAMES | matrices(
        "encoder.embed_tokens.weight",
        "decoder.embed_tokens.weight",
        next(name for name in _OUTPUTS if name in tensors or name == _OUTPUTS[-1]),
        positions=_POSITIONS if is_learned else (),
    )
    return Naming(names, first_position=FIRST_POSITION)
