"""The files of a model of Marian: in a folder or archive as OPUS-MT publishes it, or beside an .npz file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt.convert.files import named_in
from nmt.convert.foreign import Given
from nmt.convert.marian.scripts import Segmentation
from nmt.convert.segmenters import find_codes
from nmt.convert.settings import only_file, read_yaml_settings
from nmt.errors import CheckpointError, ConfigError
from nmt.text.printable import printable

DECODER_NAME = "decoder.yml"
_WORD = re.compile(r"[^\W_]+")
_SEGMENTERS = {"source": ("source.spm", "source.model"), "target": ("target.spm", "target.model")}


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
