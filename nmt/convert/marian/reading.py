"""Reading a model of Marian: a folder or archive as OPUS-MT publishes it, or an .npz file with its vocabularies."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from nmt.config import DecodingConfig
from nmt.convert.files import named_in, read_bytes, shown
from nmt.convert.foreign import COMPOSED, PROJECTIONS, Array, ForeignModel, Given, Naming, matrices
from nmt.convert.marian.scripts import Segmentation, read_postprocessing, read_preprocessing
from nmt.convert.marian.vocabulary import read_vocabulary
from nmt.convert.segmenters import find_codes, read_codes, read_segmenter
from nmt.convert.settings import (
    Settings,
    expressible,
    only_file,
    parse_yaml_settings,
    read_yaml_settings,
    unknown_remarks,
    unused_remarks,
    valid_settings,
    version_of,
)
from nmt.convert.tensors import foreign_model
from nmt.data.imported_vocab import LANGUAGE_TAG
from nmt.errors import CheckpointError, ConfigError
from nmt.text.printable import printable
from nmt.text.steps import MosesTokenize, TextSteps

DECODER_NAME = "decoder.yml"
_LARGEST_RATIO, _LARGEST_PACKED = 20, 64 * 2**20
"""The largest ratio of unpacked to packed bytes of a large member: weights hardly shrink."""
_SETTINGS = "special:model.yml"
_UNTIED_OUTPUT, _BIAS = "decoder_ff_logit_out_Wt", "decoder_ff_logit_out_b"
_WORD = re.compile(r"[^\W_]+")
_SEGMENTERS = {"source": ("source.spm", "source.model"), "target": ("target.spm", "target.model")}
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


@dataclass(frozen=True)
class MarianFiles:
    """The files of one model."""

    weights: Path
    vocabularies: tuple[Path, Path]
    segmenters: tuple[Path | None, Path | None]
    decoder: Mapping[str, Any]
    """The settings of decoder.yml; empty if there is none."""
    scripts: tuple[Path | None, Path | None]
    """The scripts that prepare source text, and that join the pieces of outputs."""
    codes: tuple[Path | None, Path | None]
    """The byte-pair codes that the first script may apply."""

    @property
    def segmentation(self) -> Segmentation | None:
        """What must make pieces of source text before Marian reads it."""
        if self.vocabularies[0].suffix == ".spm":
            return None
        return "SentencePiece" if self.segmenters[0] is not None else "codes" if self.codes[0] is not None else None


def is_marian(path: Path) -> bool:
    """Whether a path looks like a model of Marian: an .npz file, a folder with one, or its decoder.yml."""
    if path.is_dir():
        return any(path.glob("*.npz"))
    return path.suffix == ".npz" or path.name.endswith(DECODER_NAME)


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
        tensors[_UNTIED_OUTPUT] = np.ascontiguousarray(older.T)
    return tensors, settings


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Array:
    """An array of an .npz file. NumPy touches no more memory than the numbers need that are there."""
    if member.file_size > max(_LARGEST_RATIO * member.compress_size, _LARGEST_PACKED):
        raise ValueError(f"{member.filename} has {member.file_size:,} bytes, packed into {member.compress_size:,}")
    with archive.open(member) as stream:
        array: Array = np.lib.format.read_array(stream, allow_pickle=False)
        return array


def find_files(path: Path, given: Given = Given()) -> MarianFiles:
    """Find the files of a model.

    Raises:
        CheckpointError: the model, or one of its vocabularies, is missing; there are several; or it is not known which
            vocabulary is the source's.
        ConfigError: a SentencePiece model is given that Marian does not use.
    """
    folder = path if path.is_dir() else path.parent
    decoder_path = path if path.name.endswith(DECODER_NAME) else _decoder_file(folder, path)
    decoder = {} if decoder_path is None else read_yaml_settings(decoder_path)
    weights = path if path.suffix == ".npz" else _named(decoder.get("models"), folder)
    weights = weights or only_file(folder, (), "*.npz", "the model's file, or add decoder.yml")
    source, target = _vocabularies(decoder, folder, weights, given)
    return MarianFiles(
        weights=weights,
        vocabularies=(source, target),
        segmenters=(
            _segmenter(folder, "source", source, given.source_spm),
            _segmenter(folder, "target", target, given.target_spm),
        ),
        decoder=decoder,
        scripts=(named_in(folder, "preprocess.sh"), named_in(folder, "postprocess.sh")),
        codes=find_codes(folder, ("", "")),
    )


def _decoder_file(folder: Path, path: Path) -> Path | None:
    """``decoder.yml``, or ``MODEL.npz.decoder.yml`` that training writes."""
    names = [f"{path.name}.decoder.yml"] if path.suffix == ".npz" else []
    found = [folder / name for name in (*names, "decoder.yml") if (folder / name).is_file()]
    others = sorted(folder.glob("*.decoder.yml"))
    return found[0] if found else others[0] if len(others) == 1 and path.is_dir() else None


def _named(names: Any, folder: Path) -> Path | None:
    """The model that decoder.yml names, in this folder: its own folder was on another machine."""
    if not isinstance(names, list) or not names:
        return None
    if len(names) > 1:
        raise CheckpointError(
            f"{folder}: decoder.yml names {len(names)} models, an ensemble. Import one at a time: name its .npz file."
        )
    if (path := named_in(folder, name := str(names[0]))) is None:
        raise CheckpointError(f"{folder}: decoder.yml names {printable(Path(name).name)}, which is not there.")
    return path


def _vocabularies(decoder: Mapping[str, Any], folder: Path, weights: Path, given: Given) -> tuple[Path, Path]:
    named = decoder.get("vocabs")
    if isinstance(named, list) and len(named) == 2:
        found = [folder / Path(str(name)).name for name in named]
    else:
        found = sorted(path for ending in ("yml", "yaml", "json", "spm") for path in folder.glob(f"*vocab*.{ending}"))
        found = found * 2 if len(found) == 1 else found
        if len(found) > 1 and found[0] != found[1]:
            found = _by_side(found, folder, given)
    missing = [printable(path.name) for path in found if named_in(folder, path.name) is None]
    if len(found) != 2 or missing:
        what = f"lacks {', '.join(missing)}" if missing else "has no decoder.yml that names the two vocabularies"
        raise CheckpointError(f"{folder}: {what}. Put the vocabularies and decoder.yml beside {weights.name}.")
    return found[0], found[1]


def _by_side(found: Sequence[Path], folder: Path, given: Given) -> list[Path]:
    """The vocabularies of source and target text, by words in their names. A guess would exchange them silently."""
    sides = ({"source", "src", given.source_lang}, {"target", "trg", given.target_lang})
    of_sides = [[path for path in found if words & set(_WORD.findall(path.name))] for words in sides]
    match of_sides:
        case [[source], [target]] if source != target and len(found) == len(sides):
            return [source, target]
    raise CheckpointError(
        f"{folder}: has {len(found)} vocabularies and no decoder.yml that says which is the source's. Add decoder.yml "
        "with `vocabs: [SOURCE, TARGET]`."
    )


def _segmenter(folder: Path, side: str, vocabulary: Path, given: Path | None) -> Path | None:
    """The SentencePiece model of one side; None if its vocabulary segments by itself, or there is none."""
    if vocabulary.suffix == ".spm":
        if given is not None:
            raise ConfigError(
                f"--{side}-spm {given}: {vocabulary.name} is a SentencePiece model, and Marian segments with it. Leave "
                f"out --{side}-spm."
            )
        return None
    if given is not None:
        return given
    return next((path for name in _SEGMENTERS[side] if (path := folder / name).is_file()), None)


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


def marian_naming(tensors: Container[str], norm: str) -> Naming:
    """Where Marian keeps each tensor.

    Args:
        tensors: the names of a model's tensors, which tell how its embeddings are tied.
        norm: ``pre`` or ``post``.
    """
    place = "_pre" if norm == "pre" else ""
    names = {}
    for part in ("encoder", "decoder"):
        layer = f"{part}_l{{n}}"
        attentions = {"self": "self_attention"} | ({"context": "cross_attention"} if part == "decoder" else {})
        for theirs, ours in attentions.items():
            for letter, projection in zip("qkvo", (*PROJECTIONS, "output"), strict=True):
                names[f"{part}.{{n}}.{ours}.{projection}.weight"] = f"{layer}_{theirs}_W{letter}"
                names[f"{part}.{{n}}.{ours}.{projection}.bias"] = f"{layer}_{theirs}_b{letter}"
            names |= _norm(f"{part}.{{n}}.{ours}_norm", f"{layer}_{theirs}_Wo_ln", place)
        for number, ours in (("1", "inner"), ("2", "output")):
            names[f"{part}.{{n}}.feed_forward.{ours}.weight"] = f"{layer}_ffn_W{number}"
            names[f"{part}.{{n}}.feed_forward.{ours}.bias"] = f"{layer}_ffn_b{number}"
        names |= _norm(f"{part}.{{n}}.feed_forward_norm", f"{layer}_ffn_ffn_ln", place)
        names |= _norm(f"{part}_norm", f"{part}_top_ln", "")
    source, target = (name if name in tensors else "Wemb" for name in ("encoder_Wemb", "decoder_Wemb"))
    output = _UNTIED_OUTPUT if _UNTIED_OUTPUT in tensors else target
    names |= matrices(source, target, output, bias=_BIAS if _BIAS in tensors else None)
    return Naming(names, first_layer=1, is_transposed=True)


def _norm(ours: str, theirs: str, place: str) -> dict[str, str]:
    return {f"{ours}.weight": f"{theirs}_scale{place}", f"{ours}.bias": f"{theirs}_bias{place}"}
