"""Reading a model of Marian: its settings, text steps and tensors."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from nmt.config import DecodingConfig
from nmt.convert.files import read_bytes, shown
from nmt.convert.foreign import COMPOSED, Array, ForeignModel, Given
from nmt.convert.marian.finding import DECODER_NAME, MarianFiles, find_files
from nmt.convert.marian.naming import UNTIED_OUTPUT, marian_naming
from nmt.convert.marian.scripts import read_postprocessing, read_preprocessing
from nmt.convert.marian.vocabulary import read_vocabulary
from nmt.convert.segmenters import read_codes, read_segmenter
from nmt.convert.settings import (
    Settings,
    expressible,
    parse_yaml_settings,
    unknown_remarks,
    unused_remarks,
    valid_settings,
    version_of,
)
from nmt.convert.tensors import foreign_model
from nmt.data.imported_vocab import LANGUAGE_TAG
from nmt.errors import CheckpointError
from nmt.text.steps import MosesTokenize, TextSteps

_LARGEST_RATIO, _LARGEST_PACKED = 20, 64 * 2**20
"""The largest ratio of unpacked to packed bytes of a large member: weights hardly shrink."""
_SETTINGS = "special:model.yml"
# Options of Marian's search that a bundle does not keep -> the values without effect.
_SEARCH: dict[str, tuple[Any, ...]] = {
    "word-penalty": (0,),
    "allow-unk": (False,),
    "allow-special": (False,),
    "output-sampling": ([], False),
    "shortlist": ([],),
}
DECODES_OTHERWISE = (
    "Marian (as of 1.12) decodes pre-norm models differently from how it trains them: after the first piece, the "
    "decoder's self-attention reads keys and values that are not normalised. nmt computes the model as it was trained, "
    "so translations differ from Marian's."
)
"""A remark on pre-norm models."""
_ONE_TARGET = (
    "Outputs are put together by Moses' rules for the language of --target-lang, whatever language a tag asks for."
)
NORM_EPSILON = 1e-6
_ACTIVATION = "transformer-ffn-activation"
_ALIGNMENT_LAYER = "transformer-guided-alignment-layer"
_ACTIVATIONS = {"relu": "relu", "swish": "swish", "gelu": "gelu"}
_MODEL = expressible("Marian")


def read_marian(path: Path, given: Given = Given()) -> ForeignModel:
    """Read a model of Marian.

    Args:
        path: a folder with decoder.yml (or one .npz file and its vocabularies), a decoder.yml, or an .npz file.

    Raises:
        NmtError: a file is missing or damaged, or the model has something that ours cannot express.
    """
    files = find_files(path, given)
    tensors, values = read_npz(files.weights)
    settings = Settings(values, str(files.weights))
    ours = _model_settings(settings) | _aligning(settings, files.weights.name)
    text, uses_codes, text_remarks = _text(files, given)
    codes, scripts = (files.codes, files.scripts) if uses_codes else ((None, None), files.scripts[:1])
    source, target = (
        read_vocabulary(vocabulary, None if segmenter is None else read_segmenter(segmenter), read_codes(of_words))
        for vocabulary, segmenter, of_words in zip(files.vocabularies, files.segmenters, codes, strict=True)
    )
    for vocabulary, side in zip(files.vocabularies, (source, target), strict=True):
        if side.segmenter is None and side.codes is None and any("▁" in piece for piece in side.pieces):
            raise CheckpointError(
                f"{vocabulary}: has pieces of SentencePiece, but no SentencePiece model lies beside it. Put source.spm "
                f"and target.spm into {files.weights.parent}, or name them with --source-spm and --target-spm."
            )
    has_tags = any(map(LANGUAGE_TAG.fullmatch, source.pieces))
    found = [files.weights, *files.vocabularies, *files.segmenters, *codes, *scripts]
    return foreign_model(
        str(files.weights),
        ours,
        toolkit="Marian",
        version=version_of(settings.get("version")),
        decoding=_decoding(files),
        tensors=tensors,
        naming=marian_naming(tensors, ours["norm"]),
        source=source,
        target=target,
        start=None,
        files=found,
        text=text,
        languages=given.languages(),
        settings=settings,
        ignored=[_SETTINGS],
        remarks=[
            *text_remarks,
            *((_ONE_TARGET,) if has_tags and any(isinstance(step, MosesTokenize) for step in text.target) else ()),
            *((DECODES_OTHERWISE,) if ours["norm"] == "pre" else ()),
            *unused_remarks(files.decoder, _SEARCH, DECODER_NAME, "Marian"),
            *unknown_remarks(settings, _MODEL, "Marian"),
        ],
    )


def _text(files: MarianFiles, given: Given) -> tuple[TextSteps, bool, list[str]]:
    """What text goes through, whether codes split its words, and remarks on what is not known.

    Raises:
        CheckpointError: a script has a command that is not known, and the user does not allow it; or it needs the name
            of a language, or codes that are not there.
    """
    remarks = list[str]()
    before, behind = files.scripts
    if before is None:
        return COMPOSED, False, remarks
    prepared = read_preprocessing(read_bytes(before).decode(errors="replace"), given.source_lang or "")
    if prepared.segmentation == "codes" and None in files.codes:
        raise CheckpointError(f"{before}: applies byte-pair codes: put source.bpe and target.bpe beside it.")
    unknown = prepared.unknown
    if prepared.segmentation != files.segmentation and not unknown:
        unknown = [(1, before.name)]
    remarks += _unknown(before, unknown, "source text", given)
    source, target = [*COMPOSED.source, *prepared.steps], list(COMPOSED.target)
    if prepared.segmentation == "codes" and behind is not None:
        joined = read_postprocessing(read_bytes(behind).decode(errors="replace"), given.target_lang or "")
        remarks += _unknown(behind, joined.unknown, "outputs", given)
        tokens = next((step for step in prepared.steps if isinstance(step, MosesTokenize)), MosesTokenize(language=""))
        named = [step.language for step in joined.steps if isinstance(step, MosesTokenize)]
        target += [tokens.model_copy(update={"language": language}) for language in named]
    for script, steps, side in ((before, source, "source"), (behind, target, "target")):
        if any(getattr(step, "language", None) == "" for step in steps):
            raise CheckpointError(f"{script}: applies Moses' rules of the {side} language. Name it with --{side}-lang.")
    return TextSteps(tuple(source), tuple(target)), prepared.segmentation == "codes", remarks


def _unknown(script: Path, unknown: Sequence[tuple[int, str]], text: str, given: Given) -> list[str]:
    """Remarks on the commands of a script that are not known.

    Raises:
        CheckpointError: there is one, and the user does not allow it.
    """
    if unknown and not given.ignore_unknown_steps:
        line, command = unknown[0]
        raise CheckpointError(
            f"{script}, line {line}: nmt does not know what `{shown(command)}` does to {text}. To import the model "
            f"nevertheless, add --ignore-unknown-steps, and do this to {text} yourself."
        )
    return [f"nmt does not do what `{shown(command)}` does to {text}: do it yourself." for _, command in unknown]


def read_npz(path: Path) -> tuple[dict[str, Array], dict[str, Any]]:
    """The tensors of an .npz file, and the settings within.

    Raises:
        CheckpointError: the file is damaged, no model of Marian, or holds numbers of 8 bits.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            arrays = {member.filename.removesuffix(".npy"): _array(archive, member) for member in archive.infolist()}
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror or error}).") from None
    except Exception as error:  # of any kind: zipfile, zlib and the header of an array raise many
        reason = shown(str(error) or type(error).__name__)
        raise CheckpointError(f"{path}: is not an .npz file, or is damaged ({reason}).") from None
    if _SETTINGS not in arrays:
        raise CheckpointError(f"{path}: lacks {_SETTINGS}, the model's settings: is it a model of Marian?")
    text = arrays.pop(_SETTINGS).tobytes().rstrip(b"\0").decode(errors="replace")
    settings = parse_yaml_settings(text, f"{path}, {_SETTINGS}")
    packed = sorted(name for name, array in arrays.items() if not np.issubdtype(array.dtype, np.floating))
    if packed:
        raise CheckpointError(
            f"{path}: {shown(packed[0])} holds numbers of type {arrays[packed[0]].dtype}: it was packed for one "
            "processor. Take the .npz file that it was made from."
        )
    tensors = {name: array.astype(np.float32, copy=False) for name, array in arrays.items()}
    if (older := tensors.pop("decoder_ff_logit_out_W", None)) is not None:  # (d_model, pieces) in older versions
        tensors[UNTIED_OUTPUT] = np.ascontiguousarray(older.T)
    return tensors, settings


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Array:
    """An array of an .npz file. NumPy touches no more memory than the numbers need that are there."""
    if member.file_size > max(_LARGEST_RATIO * member.compress_size, _LARGEST_PACKED):
        raise ValueError(f"{member.filename} has {member.file_size:,} bytes, packed into {member.compress_size:,}")
    with archive.open(member) as stream:
        array: Array = np.lib.format.read_array(stream, allow_pickle=False)
        return array


def _decoding(files: MarianFiles) -> DecodingConfig:
    """Marian divides scores by length^normalize, and does not by default."""
    values = {"beam": files.decoder.get("beam-size", 6), "length_penalty": files.decoder.get("normalize", 0)}
    return valid_settings(
        DecodingConfig, f"{files.weights.parent}, decoder.yml", **values, length_normalization="length"
    )


def _model_settings(settings: Settings) -> dict[str, Any]:
    """The settings of our model.

    Args:
        settings: those of ``special:model.yml``.

    Raises:
        CheckpointError: our model cannot express a setting. The message names it.
    """
    settings.check(_MODEL)
    return {
        "encoder_layers": settings.get("enc-depth"),
        "decoder_layers": settings.get("dec-depth"),
        "d_model": settings.get("dim-emb"),
        "d_ff": settings.get("transformer-dim-ffn"),
        "heads": settings.get("transformer-heads"),
        "norm": _norm_place(settings),
        "norm_epsilon": NORM_EPSILON,
        "activation": settings.choose(_ACTIVATION, "swish", _ACTIVATIONS),
        "positions": "tensor2tensor",
        "output_bias": True,
        "decoder_start": "zero",
    }


def _aligning(settings: Settings, name: str) -> dict[str, Any]:
    """The layer that learnt alignments, if one did: by the type ``transformer-align`` of OPUS-MT in the file's name, or
    because another layer than the last was chosen for it."""
    layer = str(settings.get(_ALIGNMENT_LAYER, "last"))
    if layer == "last":
        return {"alignment_layer": settings.get("dec-depth")} if "transformer-align" in name else {}
    return {"alignment_layer": int(layer) if layer.isdecimal() else layer}


def _norm_place(settings: Settings) -> Literal["post", "pre"]:
    """Where layers are normalised: Marian spells the steps before and after a sub-layer as letters."""
    steps = tuple(str(settings.get(f"transformer-{place}") or "") for place in ("preprocess", "postprocess"))
    without_dropout = tuple("".join(letter for letter in step if letter != "d") for step in steps)
    top = str(settings.get("transformer-postprocess-top") or "").replace("d", "")
    match (*without_dropout, top):
        case ("", "an", ""):
            return "post"
        case ("n", "a", "n"):
            return "pre"
    raise CheckpointError(
        f"{settings.name}: has transformer-preprocess: {steps[0]!r}, transformer-postprocess: {steps[1]!r} and "
        f"transformer-postprocess-top: {top!r}, which nmt does not have. It has post-norm ('', 'dan', '') and pre-norm "
        "('n', 'da', 'n')."
    )
