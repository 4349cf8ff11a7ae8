"""The vocabularies of source and target text, and their files."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from nmt.data.data_folder import list_of, vocabulary_files
from nmt.data.imported_vocab import ImportedVocabulary
from nmt.data.vocab import Vocabulary
from nmt.errors import VocabularyError
from nmt.io.files import replacing
from nmt.io.regular import read_regular
from nmt.text.steps import Choice, TextSteps


@dataclass(frozen=True)
class VocabularyPair:
    """The vocabularies of source and target text: one and the same, but for some imported models."""

    source: Vocabulary
    target: Vocabulary

    @classmethod
    def shared(cls, vocab: Vocabulary) -> Self:
        """One vocabulary for both sides."""
        return cls(vocab, vocab)

    @classmethod
    def load(cls, path: Path, *, may_be_pipe: bool = False) -> Self:
        """Read a SentencePiece model, and the other files of its vocabulary that lie beside it.

        Args:
            may_be_pipe: whether the user named the model, which may then be a pipe.

        Raises:
            VocabularyError: a file cannot be read, or is damaged.
        """
        model, *others = vocabulary_files(path)
        if not others:
            return cls.shared(_read(model, may_be_pipe=may_be_pipe))
        pieces, target_model, target_pieces = others
        source = _read(model, pieces, may_be_pipe=may_be_pipe)
        return cls(source, _read(target_model, target_pieces) if target_model.is_file() else source)

    def contents(self, path: Path) -> dict[Path, bytes]:
        """The content of each file by its path.

        Args:
            path: of the SentencePiece model of source text. If it does not end in ``.model``, only that one is given.
        """
        sides = [self.source] if self.is_one else [self.source, self.target]
        contents = [content for vocab in sides for content in (vocab.model_bytes, vocab.pieces_json)]
        files = zip(vocabulary_files(path), contents, strict=False)
        return {file: content for file, content in files if content is not None}

    def files(self, path: Path) -> dict[Path, bytes]:
        """The same as :meth:`contents`, and for each model a list of its pieces for readers."""
        model, _, target_model, _ = vocabulary_files(path)
        contents = self.contents(path)
        return contents | {
            list_of(file): "".join(f"{piece}\n" for piece in vocab.pieces(range(vocab.size))).encode()
            for file, vocab in ((model, self.source), (target_model, self.target))
            if file in contents
        }

    def save(self, path: Path) -> None:
        """Write :meth:`files`. Other files of an earlier pair go.

        Args:
            path: as for :meth:`contents`.
        """
        _, _, target_model, _ = vocabulary_files(path)
        files = self.files(path)
        for file in (list_of(target_model), *vocabulary_files(path)):
            if file not in files:
                file.unlink(missing_ok=True)
        for file, content in files.items():
            with replacing(file) as stream:
                stream.write(content)

    def prepared(self, steps: TextSteps, choices: Mapping[Choice, str]) -> VocabularyPair:
        """The vocabularies for lines that go through steps, as :meth:`nmt.data.vocab.Vocabulary.prepared`."""
        return VocabularyPair(self.source.prepared(steps.source, choices), self.target.prepared(steps.target, choices))

    @property
    def is_one(self) -> bool:
        """Whether both sides have one vocabulary, whatever their steps are."""
        source, target = self.source, self.target
        return (source.model_bytes, source.pieces_json) == (target.model_bytes, target.pieces_json)

    @property
    def is_shared(self) -> bool:
        """Whether source and target have the same pieces, by id."""
        source, target = (vocab.pieces(range(vocab.size)) for vocab in (self.source, self.target))
        return source == target

    @property
    def larger_size(self) -> int:
        """Number of pieces of the larger side."""
        return max(self.source.size, self.target.size)

    @property
    def target_size(self) -> int | None:
        """Number of pieces of the target; None if both sides have one vocabulary."""
        return None if self.is_one else self.target.size

    @property
    def fingerprint(self) -> str:
        """sha256 of the files, one after the other; mostly of the SentencePiece model alone."""
        return hashlib.sha256(b"".join(self.contents(Path("vocab.model")).values())).hexdigest()

    def of(self, side: Literal["source", "target"]) -> Vocabulary:
        """The vocabulary of one side."""
        return self.source if side == "source" else self.target

    def set_threads(self, threads: int) -> None:
        """Set the default number of threads for encoding and decoding."""
        self.source.threads = self.target.threads = threads


def _read(model: Path, pieces: Path | None = None, *, may_be_pipe: bool = False) -> Vocabulary:
    try:
        content = model.read_bytes() if may_be_pipe and model.is_fifo() else read_regular(model)
        listed = read_regular(pieces) if pieces is not None and pieces.is_file() else None
    except OSError as error:
        raise VocabularyError(f"{error.filename}: cannot be read ({error.strerror}).") from None
    if listed is None:
        return Vocabulary(content, name=str(model))
    return ImportedVocabulary.read(content, listed, name=str(model))
