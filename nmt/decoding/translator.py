"""Lines in, lines out: a bounded window of lines, searched in batches of like length, restored to input order.

A line that is longer than the model was trained for takes part as several segments; every other is one. What the guard
doubts is searched for again. Both come to nothing where nothing is long or doubtful.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import torch

from nmt.config import Config, DecodingConfig
from nmt.data.vocab import Vocabulary
from nmt.decoding.guard import Finding, Languages, Problem, problems
from nmt.decoding.loading import changed, load_ensemble
from nmt.decoding.search import EOS, PAD, SearchSettings, beam_search
from nmt.decoding.splitting import split
from nmt.decoding.translation import BLANK, TranslatedText, Translation, joined
from nmt.decoding.windows import windows
from nmt.device import Hardware
from nmt.errors import ConfigError
from nmt.model.transformer import Transformer
from nmt.text import normalizer

# What shards hold at most, unless build-vocab was told otherwise: no model has seen longer sentences.
_TRAINED_LENGTH = 256


@dataclasses.dataclass
class _Segment:
    """A line, or a part of one, on its way through the search."""

    text: str
    pieces: list[int]
    candidates: tuple[TranslatedText, ...] = (BLANK,)
    finding: Finding | None = None


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
        max_source_length: int | None = None,
        guard: bool = True,
    ) -> None:
        """Make ready to translate.

        Args:
            models: as :func:`~nmt.decoding.search.beam_search` takes them, on the hardware's device.
            config: of the first model; tells how its source text is to be normalised.
            batch_tokens: source pieces, padding included, that are searched at once.
            window: lines that are read before their translations are served.
            max_source_length: pieces; longer lines are translated in parts. By default what training sees at most.
            guard: search again for what looks wrong, and take what looks right, if there is any. Whether something
                looks wrong is told in any case.

        Raises:
            ConfigError: the beam, or the positions of the model, are too few for what is asked for.
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
        self.window = window
        self._positions = min(model.config.max_positions for model in models) - 1
        if max_source_length is not None and max_source_length > self._positions:
            raise ConfigError(
                f"the model has positions for {self._positions} source pieces, which are fewer than "
                f"{max_source_length}: give --max-source-length at most {self._positions}."
            )
        self.max_source_length = max_source_length or min(_TRAINED_LENGTH, self._positions)
        self._guard = guard
        self._languages = Languages(config.data.source_lang, config.data.target_lang)
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
        max_source_length: int | None = None,
        guard: bool = True,
    ) -> Translator:
        """Load bundles; settings of the search that are not given are those of the first.

        Raises:
            ConfigError: the beam, or the positions of the model, are too few for what is asked for.
            CheckpointError: a bundle is missing or damaged, or several do not share vocabulary and text treatment.
        """
        ensemble = load_ensemble(folders, hardware)
        decoding = changed(
            ensemble.config.decoding,
            beam=beam,
            length_penalty=length_penalty,
            max_extra_length=max_extra_length,
        )
        return Translator(
            ensemble.models,
            ensemble.vocab,
            ensemble.config,
            decoding,
            hardware,
            nbest=nbest,
            batch_tokens=batch_tokens,
            window=window,
            max_source_length=max_source_length,
            guard=guard,
        )

    @property
    def settings(self) -> dict[str, object]:
        """All that a translation depends on, beside model and line."""
        return {
            **dataclasses.asdict(self._settings),
            "max_source_length": self.max_source_length,
            "guard": self._guard,
            "precision": self._hardware.precision,
        }

    def translate(self, lines: Iterable[str]) -> Iterator[Translation]:
        """Translate lines; serves one translation for each line, in their order.

        Reads no more than a window ahead, so memory does not grow with the input. The lines of a window that came
        before an error in reading are served before the error is raised.
        """
        for window in self.translate_windows(lines):
            yield from window

    def translate_windows(self, lines: Iterable[str]) -> Iterator[list[Translation]]:
        """As :meth:`translate`, but what was read together is served together."""
        return map(self._translate_window, windows(lines, self.window))

    def _translate_window(self, lines: list[str]) -> list[Translation]:
        segments_by_line = self._segments([self._normalize(line) for line in lines])
        searched = [segment for segments in segments_by_line for segment in segments if segment.pieces]
        self._search(searched, self._settings)
        self._look_after(searched)
        return [
            Translation(
                line,
                joined([segment.candidates for segment in segments], self._languages.target),
                parts=len(segments),
                guard=_findings_together(segments),
            )
            for line, segments in zip(lines, segments_by_line, strict=True)
        ]

    def _segments(self, lines: list[str]) -> list[list[_Segment]]:
        """Each line as one segment, or as several where it is too long."""
        segments_by_line = []
        for line, pieces in zip(lines, self._vocab.encode(lines), strict=True):
            if not line.strip():
                segments_by_line.append([_Segment(line, [])])
            elif len(pieces) <= self.max_source_length:
                segments_by_line.append([_Segment(line, pieces)])
            else:
                parts = split(line, self.max_source_length, self._lengths)
                encoded = self._vocab.encode(parts)
                segments_by_line.append([_Segment(*pair) for pair in zip(parts, encoded, strict=True)])
        return segments_by_line

    def _lengths(self, texts: Sequence[str]) -> list[int]:
        return [len(pieces) for pieces in self._vocab.encode(texts)]

    def _look_after(self, segments: list[_Segment]) -> None:
        """Note what is wrong with translations, and put better ones in their place."""
        doubtful = []
        for segment in segments:
            if found := self._problems(segment, segment.candidates[0]):
                segment.finding = Finding(found, mended=False)
                doubtful.append(segment)
        if not self._guard or not doubtful:
            return
        still_doubtful = [segment for segment in doubtful if not self._mend(segment, segment.candidates)]
        again = [_Segment(segment.text, segment.pieces) for segment in still_doubtful]
        self._search(again, _second_search(self._settings))
        for segment, second in zip(still_doubtful, again, strict=True):
            self._mend(segment, second.candidates)

    def _mend(self, segment: _Segment, candidates: Sequence[TranslatedText]) -> bool:
        """Put the best candidate without problems first, if there is one."""
        for candidate in candidates:
            if not self._problems(segment, candidate):
                others = (other for other in segment.candidates if other != candidate)
                segment.candidates = (candidate, *others)[: self._settings.nbest]
                segment.finding = dataclasses.replace(segment.finding, mended=True) if segment.finding else None
                return True
        return False

    def _problems(self, segment: _Segment, candidate: TranslatedText) -> tuple[Problem, ...]:
        source_pieces = self._vocab.pieces(segment.pieces)
        return problems(segment.text, source_pieces, candidate.text, candidate.pieces, self._languages)

    def _search(self, segments: Sequence[_Segment], settings: SearchSettings) -> None:
        for batch in self._batches(segments, self._batch_tokens * self._settings.beam // settings.beam):
            for segment, candidates in zip(batch, self._search_batch(batch, settings), strict=True):
                segment.candidates = candidates

    def _batches(self, segments: Sequence[_Segment], most_tokens: int) -> Iterator[list[_Segment]]:
        """Batches of like length, of at most so many tokens; the longest come first."""
        batch: list[_Segment] = []
        for segment in sorted(segments, key=lambda segment: len(segment.pieces), reverse=True):
            longest = len((batch or [segment])[0].pieces) + 1
            if batch and (len(batch) + 1) * longest > most_tokens:
                yield batch
                batch = []
            batch.append(segment)
        if batch:
            yield batch

    def _search_batch(self, batch: Sequence[_Segment], settings: SearchSettings) -> list[tuple[TranslatedText, ...]]:
        # A single character may have more pieces than the model has positions for.
        sources = [[*segment.pieces[: self._positions], EOS] for segment in batch]
        width = max(map(len, sources))
        source_BS = torch.tensor([source + [PAD] * (width - len(source)) for source in sources])
        with self._hardware.autocast():
            found = beam_search(self._models, source_BS.to(self._hardware.device), settings)
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


def _second_search(settings: SearchSettings) -> SearchSettings:
    """Where to look for what the first search has missed.

    A wider beam holds what did not begin best, and so does not fall into the same loop. That it also likes to end
    early is made up for by a larger penalty, and by at least one piece. All that it finds is returned.
    """
    beam = max(8, 2 * settings.beam)
    return dataclasses.replace(
        settings, beam=beam, nbest=beam, length_penalty=max(1.0, settings.length_penalty), min_length=1
    )


def _findings_together(segments: Sequence[_Segment]) -> Finding | None:
    found = [segment.finding for segment in segments if segment.finding is not None]
    if not found:
        return None
    # Each problem once, in the order of the parts.
    kinds = dict.fromkeys(problem for finding in found for problem in finding.problems)
    return Finding(tuple(kinds), mended=all(finding.mended for finding in found))


def _one_line(text: str) -> str:
    # A vocabulary without normalisation may hold a piece with a line end in it.
    return text.replace("\n", " ").replace("\r", " ")
