"""The formats that can be imported, and how each is recognised and read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nmt.convert.certificate.side import Side
from nmt.convert.eole.reading import is_eole, read_eole
from nmt.convert.fairseq.reading import is_fairseq, read_fairseq
from nmt.convert.foreign import ForeignModel
from nmt.convert.given import Given
from nmt.convert.huggingface.reading import is_huggingface, read_huggingface
from nmt.convert.huggingface.software import huggingface_side
from nmt.convert.joeynmt.reading import is_joeynmt, read_joeynmt
from nmt.convert.marian.reading import is_marian, read_marian
from nmt.convert.marian.software import marian_side
from nmt.convert.opennmt_py.reading import is_opennmt_py, read_opennmt_py
from nmt.convert.own_bundles import OWN
from nmt.convert.sockeye.reading import is_sockeye, read_sockeye
from nmt.errors import CheckpointError


@dataclass(frozen=True)
class Software:
    """A toolkit that models are compared with."""

    package: str
    open: Callable[[Path, ForeignModel], Side]
    """Makes a side that computes with the toolkit; it raises ImportError where that cannot be used."""


@dataclass(frozen=True)
class Format:
    """A format of models."""

    name: str
    """On the command line."""
    files: str
    """What a path must be, for errors."""
    recognises: Callable[[Path], bool]
    read: Callable[[Path, Given], ForeignModel]
    software: Software | None = None
    """The toolkit itself, if models can be compared with it."""


FORMATS = (
    Format(
        "marian",
        "a folder with an .npz file, its vocabularies and decoder.yml (OPUS-MT)",
        is_marian,
        read_marian,
        Software("pymarian", marian_side),
    ),
    Format(
        "eole",  # before formats whose files end with .pt, as its optimizer.pt does
        "a folder with config.json, vocab.json and model.NN.safetensors",
        is_eole,
        read_eole,
    ),
    Format(
        "huggingface",  # before formats whose files end with .pt, as a Trainer's optimizer.pt does
        "a folder with config.json, model.safetensors and the files of a MarianTokenizer (Hugging Face transformers)",
        is_huggingface,
        read_huggingface,
        Software("transformers", huggingface_side),
    ),
    Format(
        "fairseq",
        "a .pt file with dict.LANG.txt beside it",
        is_fairseq,
        read_fairseq,
    ),
    Format(
        "opennmt-py",
        "a .pt file without dictionaries beside it",
        is_opennmt_py,
        read_opennmt_py,
    ),
    Format(
        "joeynmt",
        "a folder with config.yaml, a .ckpt file, src_vocab.txt and trg_vocab.txt",
        is_joeynmt,
        read_joeynmt,
    ),
    Format(
        "sockeye",
        "a folder with config, params.best, vocab.src.0.json and vocab.trg.0.json (Sockeye 3)",
        is_sockeye,
        read_sockeye,
    ),
)


def find_format(path: Path, name: str | None = None) -> Format:
    """The format of a path.

    Args:
        name: of the format, if the user gave it.

    Raises:
        CheckpointError: the path does not exist, or holds a model of no known format.
    """
    if not path.exists():
        raise CheckpointError(f"{path}: no such file or folder.")
    named = [one for one in FORMATS if name in (None, one.name)]
    if not named:
        raise CheckpointError(f"--format {name}: known are {', '.join([*(one.name for one in FORMATS), OWN])}.")
    found = next((one for one in named if one.recognises(path)), None)
    if found is None:
        known = "; ".join(f"{one.name}: {one.files}" for one in named)
        raise CheckpointError(f"{path}: holds no model that can be imported. Known are {known}.")
    return found
