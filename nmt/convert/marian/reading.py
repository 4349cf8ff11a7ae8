"""Reading a model of Marian: a folder or archive as OPUS-MT publishes it, or an .npz file with its vocabularies."""

from __future__ import annotations

import math
import re
import zipfile
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nmt.config import DecodingConfig
from nmt.convert.archives import check_file_name
from nmt.convert.completing import files_by_name
from nmt.convert.foreign import ATTENTION, Array, ForeignModel, Layout, Names, Part
from nmt.convert.given import NOTHING_GIVEN, Given
from nmt.convert.marian.settings import DECODES_OTHERWISE, model_config
from nmt.convert.marian.vocabulary import read_vocabulary
from nmt.convert.messages import shown
from nmt.convert.segmenters import read_segmenter, segmentation_remarks
from nmt.convert.settings import (
    parse_yaml_settings,
    plain_settings,
    read_yaml_settings,
    unused_remarks,
    valid_settings,
    version_of,
)
from nmt.errors import CheckpointError, ConfigError
from nmt.text.printable import printable

DECODER_NAME = "decoder.yml"
_LARGEST_RATIO, _LARGEST_PACKED = 20, 64 * 2**20
"""The largest ratio of unpacked to packed bytes of a large member: weights hardly shrink."""
_SETTINGS = "special:model.yml"
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


@dataclass(frozen=True)
class MarianFiles:
    """The files of one model."""

    weights: Path
    vocabularies: tuple[Path, Path]
    segmenters: tuple[Path | None, Path | None]
    decoder: Mapping[str, Any]
    """The settings of decoder.yml; empty if there is none."""
    scripts: tuple[Path, ...]
    """The scripts that prepare source text."""


def is_marian(path: Path) -> bool:
    """Whether a path looks like a model of Marian: an .npz file, a folder with one, or its decoder.yml."""
    if path.is_dir():
        return any(path.glob("*.npz"))
    return path.suffix == ".npz" or path.name.endswith(DECODER_NAME)


def read_marian(path: Path, given: Given = NOTHING_GIVEN) -> ForeignModel:
    """Read a model of Marian.

    Args:
        path: a folder with decoder.yml (or one .npz file and its vocabularies), a decoder.yml, or an .npz file.

    Raises:
        NmtError: a file is missing or damaged, or the model has something that ours cannot express.
    """
    files = find_files(path, given)
    tensors, settings = read_npz(files.weights)
    config = model_config(settings, tensors, str(files.weights))
    source, target = (
        read_vocabulary(vocabulary, None if segmenter is None else read_segmenter(segmenter))
        for vocabulary, segmenter in zip(files.vocabularies, files.segmenters, strict=True)
    )
    for vocabulary, side in ((files.vocabularies[0], source), (files.vocabularies[1], target)):
        if side.segmenter is None and any("▁" in piece for piece in side.pieces):
            raise CheckpointError(
                f"{vocabulary}: has pieces of SentencePiece, but no SentencePiece model lies beside it. Put source.spm "
                f"and target.spm into {files.weights.parent}, or name them with --source-spm and --target-spm."
            )
    sizes = {"source": len(source.pieces), "target": len(target.pieces)}
    layout = marian_layout(tensors, config.norm)
    _check_sizes(files, tensors, layout, sizes)
    found = [files.weights, *files.vocabularies, *filter(None, files.segmenters), *files.scripts]
    return ForeignModel(
        toolkit="Marian",
        version=version_of(settings.get("version")),
        config=config,
        decoding=_decoding(files),
        tensors=tensors,
        layout=layout,
        source=source,
        target=target,
        start=None,
        files=files_by_name(found),
        punctuation=any(b"normalize-punctuation" in script.read_bytes() for script in files.scripts),
        source_lang=given.source_lang or "",
        target_lang=given.target_lang or "",
        settings=plain_settings(settings),
        ignored=(_SETTINGS,),
        remarks=(
            *((DECODES_OTHERWISE,) if config.norm == "pre" else ()),
            *unused_remarks(files.decoder, _SEARCH, DECODER_NAME, "Marian"),
            *segmentation_remarks(source, target),
        ),
    )


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
        tensors["decoder_ff_logit_out_Wt"] = np.ascontiguousarray(older.T)
    return tensors, settings


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Array:
    """An array of an .npz file. It takes no more memory than the archive's size allows."""
    if member.file_size > max(_LARGEST_RATIO * member.compress_size, _LARGEST_PACKED):
        raise ValueError(f"{member.filename} has {member.file_size:,} bytes, packed into {member.compress_size:,}")
    with archive.open(member) as stream:
        version = np.lib.format.read_magic(stream)
        read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        shape, _, dtype = read_header[version](stream)
        if math.prod(shape) * dtype.itemsize > member.file_size:
            raise ValueError(f"{member.filename} says that it holds {math.prod(shape):,} numbers, more than it has")
    with archive.open(member) as stream:
        array: Array = np.lib.format.read_array(stream, allow_pickle=False)
        return array


def find_files(path: Path, given: Given = NOTHING_GIVEN) -> MarianFiles:
    """Find the files of a model.

    Raises:
        CheckpointError: the model, or one of its vocabularies, is missing; there are several; or it is not known which
            vocabulary is the source's.
        ConfigError: a SentencePiece model is given that Marian does not use.
    """
    folder = path if path.is_dir() else path.parent
    decoder_path = path if path.name.endswith(DECODER_NAME) else _decoder_file(folder, path)
    decoder = {} if decoder_path is None else read_yaml_settings(decoder_path)
    weights = path if path.suffix == ".npz" else _named(decoder.get("models"), folder) or _only(folder, path)
    source, target = _vocabularies(decoder, folder, weights, given)
    for file in (weights, source, target):
        check_file_name(file.name, folder)
    return MarianFiles(
        weights=weights,
        vocabularies=(source, target),
        segmenters=(
            _segmenter(folder, "source", source, given.source_spm),
            _segmenter(folder, "target", target, given.target_spm),
        ),
        decoder=decoder,
        scripts=tuple(script for name in ("preprocess.sh",) if (script := folder / name).is_file()),
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
    path = folder / Path(str(names[0])).name
    if not _is_in(folder, path.name):
        raise CheckpointError(f"{folder}: decoder.yml names {printable(path.name)}, which is not there.")
    return path


def _is_in(folder: Path, name: str) -> bool:
    """Whether a folder has a file of a name, which may be longer than the system allows."""
    return any(entry.name == name and entry.is_file() for entry in folder.iterdir())


def _only(folder: Path, path: Path) -> Path:
    models = sorted(file for file in folder.glob("*.npz") if not file.name.endswith(".optimizer.npz"))
    if len(models) != 1:
        raise CheckpointError(
            f"{path}: has {'no' if not models else len(models)} .npz files and no decoder.yml: name the model's file."
        )
    return models[0]


def _vocabularies(decoder: Mapping[str, Any], folder: Path, weights: Path, given: Given) -> tuple[Path, Path]:
    named = decoder.get("vocabs")
    if isinstance(named, list) and len(named) == 2:
        found = [folder / Path(str(name)).name for name in named]
    else:
        found = sorted([*folder.glob("*vocab*.yml"), *folder.glob("*vocab*.spm")])
        found = found * 2 if len(found) == 1 else found
        if len(found) > 1 and found[0] != found[1]:
            found = _by_side(found, folder, given)
    missing = [printable(path.name) for path in found if not _is_in(folder, path.name)]
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
    return valid_settings(DecodingConfig, f"{files.weights.parent}, decoder.yml", **values, normalization="length")


def marian_layout(tensors: Container[str], norm: str) -> Layout:
    """Where Marian keeps each tensor.

    Args:
        tensors: the names of a model's tensors, which tell how its embeddings are tied.
        norm: ``pre`` or ``post``.
    """
    suffix = "_pre" if norm == "pre" else ""
    letters = dict(zip(ATTENTION, "qkvo", strict=True))
    linears: dict[tuple[Part, str], Names] = {}
    norms: dict[tuple[Part, str], Names] = {}
    attentions: dict[Part, dict[str, str]] = {
        "encoder": {"self_attention": "self"},
        "decoder": {"self_attention": "self", "cross_attention": "context"},
    }
    for part, sites in attentions.items():
        layer = f"{part}_l{{layer}}"
        for site, theirs in sites.items():
            for name, letter in letters.items():
                linears[part, f"{site}.{name}"] = Names(f"{layer}_{theirs}_W{letter}", f"{layer}_{theirs}_b{letter}")
            norms[part, f"{site}_norm"] = _norm(f"{layer}_{theirs}_Wo_ln", suffix)
        linears[part, "feed_forward.inner"] = Names(f"{layer}_ffn_W1", f"{layer}_ffn_b1")
        linears[part, "feed_forward.output"] = Names(f"{layer}_ffn_W2", f"{layer}_ffn_b2")
        norms[part, "feed_forward_norm"] = _norm(f"{layer}_ffn_ffn_ln", suffix)
        norms[part, "norm"] = _norm(f"{part}_top_ln", "")
    source = "encoder_Wemb" if "encoder_Wemb" in tensors else "Wemb"
    target = "decoder_Wemb" if "decoder_Wemb" in tensors else "Wemb"
    output = "decoder_ff_logit_out_Wt" if "decoder_ff_logit_out_Wt" in tensors else target
    return Layout(
        linears,
        norms,
        source,
        target,
        output,
        "decoder_ff_logit_out_b" if "decoder_ff_logit_out_b" in tensors else None,
        first_layer=1,
        is_transposed=True,
    )


def _norm(name: str, suffix: str) -> Names:
    return Names(f"{name}_scale{suffix}", f"{name}_bias{suffix}")


def _check_sizes(files: MarianFiles, tensors: Mapping[str, Array], layout: Layout, sizes: Mapping[str, int]) -> None:
    for side, name in (("source", layout.source_embedding), ("target", layout.target_embedding)):
        if name not in tensors:
            raise CheckpointError(f"{files.weights}: lacks {name}: is it a Transformer of Marian?")
        if len(tensors[name]) != sizes[side]:
            vocabulary = files.vocabularies[side == "target"]
            raise CheckpointError(
                f"{vocabulary}: has {sizes[side]:,} pieces, but {name} of {files.weights.name} has "
                f"{len(tensors[name]):,} rows: they belong to different models."
            )
