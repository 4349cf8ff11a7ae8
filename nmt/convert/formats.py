"""The formats of models: how each is recognised and read, and how it is written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from nmt.checkpoint.bundle import Bundle
from nmt.convert import argos
from nmt.convert.certificate.record import Check
from nmt.convert.certificate.side import Side
from nmt.convert.ctranslate2 import reading as ctranslate2_reading
from nmt.convert.ctranslate2 import software as ctranslate2_software
from nmt.convert.ctranslate2 import writing as ctranslate2_writing
from nmt.convert.ctranslate2.engine import TOOLKIT as CTRANSLATE2
from nmt.convert.ctranslate2.engine import CTranslate2Engine
from nmt.convert.eole import is_eole, read_eole
from nmt.convert.fairseq import is_fairseq, read_fairseq
from nmt.convert.files import read_text
from nmt.convert.foreign import ForeignModel, Given
from nmt.convert.huggingface import reading as huggingface_reading
from nmt.convert.huggingface import writing as huggingface_writing
from nmt.convert.huggingface.folder import NORM_EPSILON, is_huggingface
from nmt.convert.huggingface.software import huggingface_side
from nmt.convert.joeynmt import is_joeynmt, read_joeynmt
from nmt.convert.marian import finding as marian_finding
from nmt.convert.marian import reading as marian_reading
from nmt.convert.marian import writing as marian_writing
from nmt.convert.opennmt_py import is_opennmt_py, read_opennmt_py
from nmt.convert.sockeye import is_sockeye, read_sockeye
from nmt.errors import CheckpointError, ConfigError
from nmt.io.regular import read_regular

OWN = "nmt"
"""The name of our own format."""


@dataclass(frozen=True)
class Format:
    """A format of models, which can be read or written or both."""

    name: str
    """On the command line."""
    toolkit: str
    package: str = ""
    """The package of the toolkit itself, if models can be compared with it."""

    files: str = ""
    """What a path of such a model must be, for errors."""
    recognises: Callable[[Path], bool] = lambda path: False
    read: Callable[[Path, Given], ForeignModel] | None = None
    has_scripts: bool = False
    """Whether a folder may hold scripts that prepare text."""
    side: Callable[[Path, ForeignModel], Side] | None = None
    """Opens a model that was read with the toolkit itself; it raises ImportError where that cannot be used."""

    holds: tuple[str, ...] = ()
    """Patterns for the names of all files in an exported folder, beside the card, the lineage and the certificate."""
    keeps_steps: bool = False
    """Whether nmt reads what text goes through in an exported folder, and does it."""
    quantizations: tuple[str, ...] = ()
    """The types of stored weights. The first is the default, without loss."""
    norm_epsilon: float | None = None
    """The epsilon of layer norms, where exported files cannot say another one."""
    write: Callable[[Bundle, Path, str], None] | None = None
    """Writes a bundle's model into a folder; it raises NmtError where the format cannot express the model."""
    sides: Callable[[Path, Bundle], Iterator[Side]] = lambda folder, bundle: iter(())
    """Opens an exported folder as one or more sides. The last one is the toolkit itself; it raises ImportError where
    that cannot be used."""
    check_files: Callable[[Path, Bundle, str], list[Check]] = lambda folder, bundle, quantization: []
    """Checks what the exported files hold, by reading them again."""
    install: str = ""
    """The line of a shell that installs what ``usage`` needs."""
    language: Literal["python", "sh"] = "python"
    """What ``usage`` is written in."""
    usage: Callable[[Bundle, str], str] = lambda bundle, name: ""
    """Given a bundle and the name of its exported folder, the lines of code that translate with it, for its README."""
    remarks: Callable[[Bundle], Mapping[str, str]] = lambda bundle: {}
    """Known differences that the format forces on a model: setting -> what becomes of it."""


FORMATS = (
    Format(
        "marian",
        "Marian",
        files="a folder with an .npz file, its vocabularies and decoder.yml (OPUS-MT)",
        recognises=marian_finding.is_marian,
        read=marian_reading.read_marian,
        has_scripts=True,
        holds=marian_writing.HOLDS,
        quantizations=("float32",),
        write=marian_writing.write_marian,
        sides=marian_writing.marian_sides,
        install="# marian-decoder: https://marian-nmt.github.io; spm_encode: apt install sentencepiece",
        language="sh",
        usage=marian_writing.marian_usage,
        remarks=marian_writing.marian_remarks,
    ),
    Format(
        CTranslate2Engine.name,
        CTRANSLATE2,
        "ctranslate2",
        files="a folder with model.bin and its vocabularies (CTranslate2), or a package of Argos Translate",
        recognises=ctranslate2_reading.is_ctranslate2,
        read=ctranslate2_reading.read_ctranslate2,
        side=ctranslate2_software.imported_side,
        holds=ctranslate2_writing.HOLDS,
        keeps_steps=True,
        quantizations=ctranslate2_writing.QUANTIZATIONS,
        write=ctranslate2_writing.write_ctranslate2,
        sides=ctranslate2_software.ctranslate2_sides,
        check_files=ctranslate2_writing.check_ctranslate2_files,
        install="pip install ctranslate2 sentencepiece",
        usage=ctranslate2_writing.ctranslate2_usage,
        remarks=ctranslate2_writing.ctranslate2_remarks,
    ),
    Format(
        "eole",  # before formats whose files end with .pt, as its optimizer.pt does
        "Eole",
        files="a folder with config.json, vocab.json and model.NN.safetensors",
        recognises=is_eole,
        read=read_eole,
    ),
    Format(
        "huggingface",  # before formats whose files end with .pt, as a Trainer's optimizer.pt does
        huggingface_reading.TOOLKIT,
        "transformers",
        files="a folder with config.json, model.safetensors and the files of a MarianTokenizer (Hugging Face "
        "transformers)",
        recognises=is_huggingface,
        read=huggingface_reading.read_huggingface,
        side=huggingface_side,
        holds=huggingface_writing.HOLDS,
        quantizations=tuple(huggingface_writing.DTYPES),
        write=huggingface_writing.write_huggingface,
        norm_epsilon=NORM_EPSILON,
        sides=huggingface_writing.huggingface_sides,
        check_files=huggingface_writing.check_huggingface,
        install="pip install transformers sentencepiece torch",
        usage=huggingface_writing.huggingface_usage,
        remarks=huggingface_writing.huggingface_remarks,
    ),
    Format(
        "argos",
        "Argos Translate",
        "ctranslate2",
        holds=("*.argosmodel",),
        quantizations=ctranslate2_writing.QUANTIZATIONS,
        write=argos.write_argos,
        sides=argos.argos_sides,
        check_files=argos.check_argos_files,
        install="pip install 'argostranslate>=1.10'",
        language="sh",
        usage=argos.argos_usage,
        remarks=argos.argos_remarks,
    ),
    Format(
        "fairseq",
        "fairseq",
        files="a .pt file with dict.LANG.txt beside it",
        recognises=is_fairseq,
        read=read_fairseq,
    ),
    Format(
        "opennmt-py",
        "OpenNMT-py",
        files="a .pt file without dictionaries beside it",
        recognises=is_opennmt_py,
        read=read_opennmt_py,
    ),
    Format(
        "joeynmt",
        "JoeyNMT",
        files="a folder with config.yaml, a .ckpt file, src_vocab.txt and trg_vocab.txt",
        recognises=is_joeynmt,
        read=read_joeynmt,
    ),
    Format(
        "sockeye",
        "Sockeye",
        files="a folder with config, params.best, vocab.src.0.json and vocab.trg.0.json (Sockeye 3)",
        recognises=is_sockeye,
        read=read_sockeye,
    ),
)
"""In the order in which the files of a model are recognised."""
READABLE = tuple(form for form in FORMATS if form.read is not None)
WRITABLE = tuple(form for form in FORMATS if form.write is not None)


_WITHIN = frozenset(("config.json", "model.bin", "model.safetensors", "pytorch_model.bin"))
"""Files that are a model only with those beside them."""
_UNREADABLE = {
    "*.index": "a checkpoint of TensorFlow. If it is one of OpenNMT-tf, convert it with ct2-opennmt-tf-converter",
    "tf_model.h5": "weights of TensorFlow. Save them as safetensors with transformers 4 (from_tf=True)",
    "adapter_model.*": "an adapter without its model. Merge them (merge_and_unload of peft), save the whole model",
    "*.onnx": "a model of ONNX. Find the one that it was made from",
    "*.intgemm*.bin": "a model of Marian that was packed for one processor. Find the .npz file that it was made from",
}
"""Files of models that cannot be read -> what they are, and what to do before an import."""
_NEVER_READ = frozenset((".h5", ".msgpack", ".onnx", ".ot"))
"""Endings of files for other software, which lie beside those that are read."""


def place_of(path: Path) -> Path:
    """Where the model of a path lies: the folder of a file that many kinds of models have, or the current revision in
    a folder of Hugging Face's cache."""
    if (revision := path / "refs" / "main").is_file():
        return path / "snapshots" / read_text(revision).strip()
    return path.parent if path.name in _WITHIN and path.is_file() else path


def _advice(path: Path) -> str:
    """What to do with the name of a model that is not on this machine."""
    if (address := re.match(r"(https?):/", str(path))) is not None:
        return (
            f"{address[1]}://{str(path)[address.end() :].lstrip('/')}: download the model, and name its file or folder."
        )
    problem = f"{path}: no such file or folder"
    if len(path.parts) == 2 and not path.parent.exists():
        return f"{problem}. For a model of the Hugging Face Hub: hf download {path} --local-dir DIR; nmt import DIR"
    return f"{problem}."


def _is_pointer(file: Path) -> bool:
    """Whether a file only says where Git keeps the large one in its place."""
    try:
        is_small = file.suffix not in _NEVER_READ and file.stat().st_size < 1_000
        return is_small and read_regular(file).startswith(b"version https://git-lfs")
    except OSError:
        return False


def find_format(path: Path, name: str | None = None) -> Format:
    """The format of a path, which can be read.

    Args:
        name: of the format, if the user gave it.

    Raises:
        CheckpointError: the path does not exist, or holds a model of no known format.
    """
    if not (path.is_file() or path.is_dir()):
        raise CheckpointError(_advice(path))
    named = [form for form in READABLE if name in (None, form.name)]
    if not named:
        raise CheckpointError(f"--format {name}: known are {', '.join([*(form.name for form in READABLE), OWN])}.")
    folder = path if path.is_dir() else path.parent
    if (pointer := next(filter(_is_pointer, folder.iterdir()), None)) is not None:
        raise CheckpointError(f"{pointer}: is only a pointer of Git LFS. Run `git lfs pull` in {folder}.")
    if (found := next((form for form in named if form.recognises(path)), None)) is not None:
        return found
    files = folder.iterdir() if path.is_dir() else [path]
    if what := next((what for file in files for pattern, what in _UNREADABLE.items() if file.match(pattern)), None):
        raise CheckpointError(f"{path}: holds {what}, and import that.")
    if name is not None:
        raise CheckpointError(f"{path}: holds no model of {named[0].toolkit}, which would be {named[0].files}.")
    known = ", ".join(form.name for form in named)
    raise CheckpointError(
        f"{path}: holds no model that can be imported. Known are {known}: with --format NAME, the message says which "
        "files a model of it has."
    )


def find_target(name: str) -> Format:
    """The format to export to, which can be written.

    Raises:
        ConfigError: there is none of that name.
    """
    for form in WRITABLE:
        if form.name == name.lower():
            return form
    hint = " Optimum makes ONNX of an export to huggingface: docs/converting.md." if name.lower() == "onnx" else ""
    raise ConfigError(f"--to {name}: models can be exported to {', '.join(form.name for form in WRITABLE)}.{hint}")
