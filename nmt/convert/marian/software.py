"""Marian itself as one side of a comparison, through the package pymarian."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from nmt.convert.certificate.side import Hypothesis, Pieces, Side
from nmt.convert.foreign import ForeignModel, Given
from nmt.convert.marian.reading import MarianFiles, find_files
from nmt.convert.vocabulary import piece_names

_PLAIN_PATH = re.compile(r"[\w/.-]+", re.ASCII)
_NBEST = re.compile(r"(\d+) \|\|\| (.*) \|\|\| WordScores= (.*?) \|\|\| F0= \S+ \|\|\| \S+", re.DOTALL)


class MarianSide(Side):
    """Marian, given pieces: its vocabulary reads and writes them, separated by spaces.

    pymarian scores no given targets; its n-best lists tell what it gives its own.

    Raises:
        ImportError: pymarian is not installed, or cannot be used for this model.
    """

    def __init__(self, path: Path, model: ForeignModel) -> None:
        import pymarian

        self._pymarian: Any = pymarian
        self.software = {"pymarian": metadata.version("pymarian")}
        self.name = f"Marian (pymarian {self.software['pymarian']})"
        if model.config.norm == "pre":
            raise ImportError("Marian decodes pre-norm models otherwise than it trains them")
        files = find_files(path, Given(source_lang=model.source_lang, target_lang=model.target_lang))
        if any(vocabulary.suffix == ".spm" for vocabulary in files.vocabularies):
            raise ImportError("it takes text, not pieces, where a vocabulary is a SentencePiece model")
        self._scratch, self._weights, self._vocabularies = _linked(files)
        self._source_pieces = {ours: theirs for theirs, ours in piece_names(model.source, model.start).items()}
        self._target_names = piece_names(model.target, model.start)
        self._translators: dict[tuple[int, int], Any] = {}

    def search(self, sources: Sequence[Pieces], beam: int, max_length: int) -> list[list[Hypothesis]]:
        """As :meth:`Side.search`."""
        found: list[list[Hypothesis]] = []
        for source in sources:
            # Marian limits an output to a multiple of its source's length.
            translator = self._translator(beam, -(-(max_length + 1) // (len(source) + 1)))
            theirs = " ".join(self._source_pieces[piece] for piece in source)
            found.append([self._hypothesis(line, max_length) for line in translator.translate([theirs])])
        return found

    def _translator(self, beam: int, length_factor: int) -> Any:
        key = beam, length_factor
        if key not in self._translators:
            self._translators[key] = self._pymarian.Translator(
                models=[self._weights],
                vocabs=self._vocabularies,
                cpu_threads=1,
                beam_size=beam,
                n_best=True,
                word_scores=True,
                normalize=0,
                max_length=100_000,
                max_length_factor=length_factor,
                mini_batch=1,
                quiet=True,
            )
        return self._translators[key]

    def _hypothesis(self, line: str, max_length: int) -> Hypothesis:
        match = _NBEST.fullmatch(line)
        assert match is not None, line
        # A piece may hold any space but the plain one, such as a no-break space.
        pieces = tuple(self._target_names[piece] for piece in match[2].split(" ") if piece)
        scores = [float(score) for score in match[3].split()]
        is_complete = len(scores) == len(pieces) + 1 and len(pieces) <= max_length
        return Hypothesis(pieces[:max_length], sum(scores), is_complete)


def _linked(files: MarianFiles) -> tuple[tempfile.TemporaryDirectory[str], str, list[str]]:
    """Links to the files of a model, under fixed names in a private folder that is removed with the object.

    pymarian joins its options with spaces, and Marian runs a file name that ends with | as a command. So the names that
    a model gives its files never reach them.

    Raises:
        ImportError: the name of the system's temporary folder cannot be passed to pymarian.
    """
    scratch = tempfile.TemporaryDirectory(prefix="marian-")
    folder = Path(scratch.name)
    if not _PLAIN_PATH.fullmatch(str(folder)):
        raise ImportError(f"it cannot read files in {folder.parent}: set TMPDIR to a folder without spaces in its name")
    names = ["model.npz"]
    for side, vocabulary in zip(("source", "target"), files.vocabularies, strict=True):
        ending = vocabulary.suffix if vocabulary.suffix in (".yml", ".yaml", ".spm") else ".txt"
        names.append(f"{side}{ending}")
    for name, file in zip(names, (files.weights, *files.vocabularies), strict=True):
        (folder / name).symlink_to(file.resolve())
    weights, *vocabularies = (str(folder / name) for name in names)
    return scratch, weights, vocabularies
