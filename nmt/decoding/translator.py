"""Lines in, lines out: a bounded window of sentences, searched in batches of like length, restored to input order."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from nmt.checkpoint.bundle import load_bundle
from nmt.config import Config, DecodingConfig
from nmt.data.vocab import Vocabulary
from nmt.decoding.search import EOS, PAD, SearchSettings, beam_search
from nmt.device import Hardware
from nmt.errors import CheckpointError, ConfigError
from nmt.model.transformer import Transformer
from nmt.text import normalizer


@dataclass(frozen=True)
class TranslatedText:
    """One translation of a line."""

    text: str
    pieces: tuple[str, ...]
    log_probability: float
    score: float


@dataclass(frozen=True)
class Translation:
    """What became of a line."""

    source: str
    candidates: tuple[TranslatedText, ...]
    """Best first; one empty text for a blank line."""
    was_cut: bool = False
    """Whether the line was longer than the model's positions, so that its end was left out."""

    @property
    def text(self) -> str:
        """The best candidate."""
        return self.candidates[0].text


BLANK = TranslatedText("", (), 0.0, 0.0)


class Translator:
    """Translates lines with one model, or several that share a vocabulary."""

    def __init__(
        self,
        models: Sequence[Transformer],
        vocab: Vocabulary,
        config: Config,
        decoding: DecodingConfig,
        hardware: Hardware,
        *,
        nbest: int = 1,
        batch_tokens: int = 2_048,
        window: int = 2_048,
    ) -> None:
        """Make ready to translate.

        Args:
            models: as :func:`~nmt.decoding.search.beam_search` takes them, on the hardware's device.
            config: of the first model; tells how its source text is to be normalised.
            batch_tokens: source pieces, padding included, that are searched at once.
            window: lines that are read before their translations are served.
        """
        if nbest > decoding.beam:
            raise ConfigError(f"{nbest} translations of a line need a beam of at least {nbest}, not {decoding.beam}.")
        self._models = models
        self._vocab = vocab
        self._hardware = hardware
        self._settings = SearchSettings(
            beam=decoding.beam,
            length_penalty=decoding.length_penalty,
            max_extra_length=decoding.max_extra_length,
            nbest=nbest,
        )
        self._batch_tokens = batch_tokens
        self._window = window
        self._longest = min(model.config.max_positions for model in models) - 1
        self._normalize = normalizer(
            nfc=config.data.nfc, punctuation=config.data.punctuation, language=config.data.source_lang
        )

    @staticmethod
    def load(
        folders: Sequence[Path],
        hardware: Hardware,
        *,
        beam: int | None = None,
        length_penalty: float | None = None,
        max_extra_length: int | None = None,
        nbest: int = 1,
        batch_tokens: int = 2_048,
        window: int = 2_048,
    ) -> Translator:
        """Load bundles; settings of the search that are not given are those of the first.

        Raises:
            ConfigError: more translations are asked for than the beam is wide.
            CheckpointError: a bundle is missing or damaged, or several do not share vocabulary and text treatment.
        """
        bundles = [load_bundle(folder) for folder in folders]
        first = bundles[0]
        for bundle in bundles[1:]:
            if bundle.vocab.fingerprint != first.vocab.fingerprint:
                raise CheckpointError(
                    f"{bundle.folder} and {first.folder} have different vocabularies: an ensemble needs one."
                )
            if bundle.config.data.nfc != first.config.data.nfc or (
                bundle.config.data.punctuation != first.config.data.punctuation
            ):
                raise CheckpointError(f"{bundle.folder} and {first.folder} normalise source text differently.")
        changes = {"beam": beam, "length_penalty": length_penalty, "max_extra_length": max_extra_length}
        decoding = first.config.decoding.model_copy(
            update={name: value for name, value in changes.items() if value is not None}
        )
        return Translator(
            [bundle.build_model(hardware.device) for bundle in bundles],
            first.vocab,
            first.config,
            decoding,
            hardware,
            nbest=nbest,
            batch_tokens=batch_tokens,
            window=window,
        )

    def translate(self, lines: Iterable[str]) -> Iterator[Translation]:
        """Translate lines; serves one translation for each line, in their order.

        Reads no more than a window ahead, so memory does not grow with the input. The lines of a window that came
        before an error in reading are served before the error is raised.
        """
        remaining = iter(lines)
        while True:
            window: list[str] = []
            error: Exception | None = None
            try:
                for line in itertools.islice(remaining, self._window):
                    window.append(line)
            except Exception as raised:  # whatever reading may raise: served later, in its place
                error = raised
            yield from self._translate_window(window)
            if error is not None:
                raise error
            if len(window) < self._window:
                return

    def _translate_window(self, lines: list[str]) -> list[Translation]:
        pieces = self._vocab.encode([self._normalize(line) for line in lines])
        translations = [Translation(line, (BLANK,)) for line in lines]
        searched = sorted((index for index in range(len(lines)) if pieces[index]), key=lambda i: len(pieces[i]))
        for batch in self._batches(searched, pieces):
            sources = [[*pieces[index][: self._longest], EOS] for index in batch]
            for index, candidates in zip(batch, self._search(sources), strict=True):
                translations[index] = Translation(lines[index], candidates, len(pieces[index]) > self._longest)
        return translations

    def _batches(self, by_length: list[int], pieces: list[list[int]]) -> Iterator[list[int]]:
        """Cut indices, sorted by length, into batches of at most so many tokens; the longest come first."""
        batch: list[int] = []
        for index in reversed(by_length):
            longest = min(len(pieces[(batch or [index])[0]]), self._longest) + 1
            if batch and (len(batch) + 1) * longest > self._batch_tokens:
                yield batch
                batch = []
            batch.append(index)
        if batch:
            yield batch

    def _search(self, sources: list[list[int]]) -> list[tuple[TranslatedText, ...]]:
        width = max(map(len, sources))
        source_BS = torch.tensor([source + [PAD] * (width - len(source)) for source in sources])
        device = self._hardware.device
        with self._hardware.autocast():
            found = beam_search(self._models, source_BS.to(device), self._settings)
        texts = iter(self._vocab.decode([hypothesis.pieces for beams in found for hypothesis in beams]))
        return [
            tuple(
                TranslatedText(
                    _one_line(next(texts)),
                    tuple(self._vocab.pieces(hypothesis.pieces)),
                    hypothesis.log_probability,
                    hypothesis.score,
                )
                for hypothesis in beams
            )
            for beams in found
        ]


def _one_line(text: str) -> str:
    # A vocabulary without normalisation may hold a piece with a line end in it.
    return text.replace("\n", " ").replace("\r", " ")
