"""The files of exported folders: written, read again, and compared with the bundle.

The SentencePiece models are as SentencePiece writes them, so that users need nothing of ours. Text becomes pieces by
SentencePiece alone, and pieces become ids by the list of pieces: a piece that is not in the list is unknown. That is
also how pieces come about that only the translation model has, or only its SentencePiece model.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from nmt.checkpoint.bundle import Bundle
from nmt.convert.certificate.record import Check
from nmt.convert.files import EXPORT_AGAIN, read_pieces
from nmt.convert.foreign import Array, StoredTensor
from nmt.data.imported_vocab import ImportedVocabulary
from nmt.data.shard_index import SIDES
from nmt.data.vocab import Vocabulary
from nmt.data.vocab_pair import VocabularyPair
from nmt.io.writing import write_file
from nmt.text.printable import listed, writable

SOURCE_MODEL, TARGET_MODEL = "source.spm", "target.spm"
_ROUNDING = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
"""The largest relative error of a number that is rounded to a type."""
_SMALLEST = 2.0**-24
"""The smallest number of float16, below which errors are not relative."""
_HALF_A_STEP = 0.501
"""The largest error of an integer, in steps. The products with its scale are rounded too, in fp32."""


def is_of_sentencepiece(bundle: Bundle) -> bool:
    """Whether SentencePiece alone makes pieces of text: no step gives it tokens, and no codes split words."""
    steps, vocab = bundle.config.data.steps, bundle.vocab
    has_codes = any(isinstance(side, ImportedVocabulary) and side.codes for side in (vocab.source, vocab.target))
    return not has_codes and not any(step.is_tokenizing for step in (*steps.source, *steps.target))


def write_json(path: Path, values: object) -> None:
    """Write a JSON file into a new folder.

    Raises:
        WriteError: the file could not be written.
    """
    write_file(path, writable(json.dumps(values, indent=2, ensure_ascii=False) + "\n").encode())


def write_segmenters(vocab: VocabularyPair, folder: Path) -> None:
    """Write the SentencePiece models of both sides.

    Raises:
        WriteError: a file could not be written.
    """
    write_file(folder / SOURCE_MODEL, vocab.source.model_bytes)
    write_file(folder / TARGET_MODEL, vocab.target.model_bytes)


def pieces_of(vocab: Vocabulary) -> list[str]:
    """All pieces of one side, by id."""
    return vocab.pieces(range(vocab.size))


def count_of_pieces(vocab: VocabularyPair) -> str:
    """The number of pieces, in words: of the one vocabulary, or of each of two."""
    source, target = f"{vocab.source.size:,}", f"{vocab.target.size:,}"
    return f"{target} pieces" if vocab.is_shared else f"{source} source pieces and {target} target pieces"


def stored_pieces(folder: Path) -> tuple[list[str], list[str]]:
    """The source and the target pieces of a folder with ``*_vocabulary.json``, by the model's ids.

    Raises:
        CheckpointError: a file is missing or damaged.
    """
    shared = folder / "shared_vocabulary.json"
    files = [shared, shared] if shared.exists() else [folder / f"{side}_vocabulary.json" for side in SIDES]
    source, target = (read_pieces(file, EXPORT_AGAIN) for file in files)
    return source, target


def file_check(name: str, differing: Sequence[str], detail: str) -> Check:
    """A check of what files hold.

    Args:
        differing: what differs from the bundle.
        detail: the result if nothing differs.
    """
    if differing:
        detail = f"{listed(differing)} {'differs' if len(differing) == 1 else 'differ'}"
    return Check(name, not differing, detail, "the bundle's files", float(len(differing)), 0.0)


def check_tensors(stored: Iterable[StoredTensor], expected: Mapping[str, Array], quantization: str) -> Check:
    """Compare the tensors of an exported file with those of the bundle, up to the rounding of the stored type.

    Args:
        expected: by the names in the file, which may hold further ones.
        quantization: the type of the stored weights. Tensors that it does not store as integers are floating-point
            numbers of the type that its name ends with, or of fp32.
    """
    rounding = _ROUNDING.get(quantization.rpartition("_")[2], 0.0)
    found = {tensor.name: tensor for tensor in stored}
    excesses = {
        name: _excess(found[name], wanted, rounding) if name in found else math.inf for name, wanted in expected.items()
    }
    worst_first = sorted((-excess, name) for name, excess in excesses.items() if excess > 0)
    differing = [
        f"{name} (by {-excess:.2g})" if name in found else f"{name} (not found)" for excess, name in worst_first
    ]
    how = "number by number" if quantization == "float32" else f"up to the rounding of {quantization}"
    return file_check("tensors", differing, f"{len(expected)} tensors are the bundle's, {how}")


def _excess(tensor: StoredTensor, wanted: Array, rounding: float) -> float:
    """By how much the worst number differs from the wanted one beyond rounding; infinite if the sizes differ."""
    if tensor.numbers.size != wanted.size:
        return math.inf
    numbers = tensor.numbers.reshape(wanted.shape)
    allowed = _HALF_A_STEP * np.broadcast_to(tensor.step, tensor.numbers.shape).reshape(wanted.shape)
    if rounding:
        allowed = allowed + np.maximum(rounding * np.abs(wanted), _SMALLEST)
    excess = float((np.abs(numbers - wanted) - allowed).max())
    return math.inf if math.isnan(excess) else excess


def check_vocabulary(found: tuple[Sequence[str], Sequence[str]], bundle: Bundle) -> Check:
    """Compare the source and target pieces of an exported folder with those of its bundle."""
    differing = []
    for side, pieces in zip(SIDES, found, strict=True):
        wanted = pieces_of(bundle.vocab.of(side))
        if len(pieces) != len(wanted):
            differing.append(f"{len(pieces):,} {side} pieces")
        differing += [f"{side} piece {a!r}" for a, b in zip(pieces, wanted, strict=False) if a != b]
    return file_check("vocabulary", differing, f"{count_of_pieces(bundle.vocab)} have the bundle's ids")


def filled(template: str, quote: Callable[[Any], str], **values: object) -> str:
    """The lines of a model card that translate: a template, with values for its ``$names``.

    Args:
        quote: writes a value as a literal, so that it runs nothing: ``repr`` for Python, ``shlex.quote`` for a shell.
    """
    return Template(template).substitute({name: quote(value) for name, value in values.items()})
