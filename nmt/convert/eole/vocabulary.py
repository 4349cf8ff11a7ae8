"""vocab.json of Eole: the pieces of both sides, the special ones, and the piece that the decoder reads first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt.convert.foreign import ForeignVocabulary
from nmt.convert.json_files import read_json
from nmt.convert.messages import shown
from nmt.convert.segmenters import segmented_vocabulary
from nmt.errors import CheckpointError, VocabularyError

_SPECIAL = {"unk_token": "<unk>", "pad_token": "<blank>", "bos_token": "<s>", "eos_token": "</s>"}


@dataclass(frozen=True)
class EoleVocabulary:
    """What vocab.json says."""

    pieces: Mapping[str, list[str]]
    """By id, of ``src`` and ``tgt``."""
    special: Mapping[str, str]
    has_specials: bool
    """Whether the file names the special pieces, as since Eole 0.0.3."""
    start: str
    """The piece that the decoder reads first."""
    path: Path

    def source(self, segmenter: Path | None) -> ForeignVocabulary:
        """The vocabulary of source text, as :meth:`target`. It needs no end: Eole encodes sources without it."""
        return self._side("src", segmenter, needs_eos=False)

    def target(self, segmenter: Path | None) -> ForeignVocabulary:
        """The vocabulary of target text.

        Args:
            segmenter: the SentencePiece model that segments it; None if text comes as pieces.

        Raises:
            VocabularyError: pieces are missing or double, or the SentencePiece model is damaged or missing.
        """
        return self._side("tgt", segmenter, needs_eos=True)

    def _side(self, side: str, segmenter: Path | None, *, needs_eos: bool) -> ForeignVocabulary:
        pieces, pad = self.pieces[side], self.special["pad_token"]
        return segmented_vocabulary(
            pieces,
            segmenter,
            f"{self.path}, {side}",
            unk=self.special["unk_token"],
            eos=self.special["eos_token"],
            pad=pad if pad in pieces else None,
            needs_eos=needs_eos,
        )


def read_vocabulary(path: Path) -> EoleVocabulary:
    """Read a vocab.json.

    Raises:
        CheckpointError: the file is damaged, or the decoder starts with no piece.
        VocabularyError: its pieces are not text.
    """
    values = read_json(path)
    pieces = {side: _pieces(values, side, path) for side in ("src", "tgt")}
    specials = values.get("specials")
    named = specials if isinstance(specials, dict) else {}
    special = {key: value if isinstance(value := named.get(key), str) else usual for key, usual in _SPECIAL.items()}
    start = values.get("decoder_start_token", special["bos_token"])
    if not isinstance(start, str) or start not in pieces["tgt"]:
        raise CheckpointError(f"{path}: the decoder starts with '{shown(start)}', which is not a target piece.")
    return EoleVocabulary(pieces, special, isinstance(specials, dict), start, path)


def _pieces(values: Mapping[str, Any], side: str, path: Path) -> list[str]:
    pieces = values.get(side)
    if not isinstance(pieces, list) or not all(isinstance(piece, str) for piece in pieces):
        raise VocabularyError(f"{path}: {side} is not a list of pieces.")
    return pieces
