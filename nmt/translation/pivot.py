"""Translating through a pivot language: one model translates into it, and another one from there."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Unpack

from nmt.errors import ConfigError, NmtError
from nmt.spans.span import Span
from nmt.spans.terms import Glossary
from nmt.text.languages import fitting
from nmt.translation.at_once import in_groups
from nmt.translation.directions import codes_of
from nmt.translation.engine import Engine
from nmt.translation.found_batches import FoundBatches
from nmt.translation.glossary import GlossaryTranslator, check_glossary
from nmt.translation.line_translator import LineTranslator
from nmt.translation.options import Options, TranslateOptions, translate_options
from nmt.translation.results import Translation
from nmt.translation.segment import Line, Segment, TranslatedSegment, joined_findings
from nmt.translation.translator import Translator


class PivotTranslator(LineTranslator):
    """Translates with two translators. The second translates the best candidate of each segment of the first.

    A line with a prefix stays whole in the first, since only a whole line can get its prefix in the second.
    """

    def __init__(self, first: Translator, second: Translator) -> None:
        """Prepare to translate; the first translates into the pivot language, and the second from it."""
        self._first, self._second = first, second
        self.source_lang, self.target_lang = first.source_lang, second.target_lang
        self.window = max(first.window, second.window)
        self.max_source_length = min(first.max_source_length, second.max_source_length)
        self.language_tags = second.language_tags

    @property
    def settings(self) -> dict[str, object]:
        """As :attr:`LineTranslator.settings`, without those in which two models differ by their own defaults."""
        first, second = self._first.settings, self._second.settings
        own = _of_last(samples=second["sampling"] is not None)
        shared = {name: value for name, value in second.items() if name in own or value == first[name]}
        return shared | {"via": self._first.target_lang}

    @property
    def batch_tokens(self) -> int:
        """As :attr:`LineTranslator.batch_tokens`."""
        return self._first.batch_tokens

    def prepare(self, lines: Sequence[Line]) -> list[list[Segment]]:
        """As :meth:`LineTranslator.prepare`. A tag at the beginning of a line names the target language."""
        divided = [self._second.split_tag(line.text) for line in lines]
        prepared = self._first.prepare(
            [_behind_tag(line, rest) for line, (_, rest) in zip(lines, divided, strict=True)]
        )
        return [
            [
                dataclasses.replace(
                    segment, next_tag=tag and f"{tag} ", next_prefix=line.prefix if len(segments) == 1 else ""
                )
                for segment in segments
            ]
            for line, (tag, _), segments in zip(lines, divided, prepared, strict=True)
        ]

    def search(self, segments: Sequence[Segment]) -> list[TranslatedSegment]:
        """As :meth:`LineTranslator.search`."""
        with _naming(self._first.source_lang, self._first.target_lang):
            between = self._first.search(segments)
        with _naming(self._second.source_lang, self._second.target_lang):
            prepared = self._second.prepare(list(map(_next_line, between)))
            parts_of = [_parts_of(each.segment, parts) for each, parts in zip(between, prepared, strict=True)]
            found = in_groups(parts_of, self._second.search)
        return [dataclasses.replace(each, onward=tuple(onward)) for each, onward in zip(between, found, strict=True)]

    def joined(self, line: str, parts: Sequence[TranslatedSegment]) -> Translation:
        """As :meth:`LineTranslator.joined`."""
        between = self._first.joined(line, parts)
        found = self._second.joined(between.text, [onward for part in parts for onward in part.onward])
        return dataclasses.replace(
            found,
            source=line,
            source_pieces=between.source_pieces,
            onward_pieces=found.source_pieces,
            parts=max(between.parts, found.parts),
            is_cut=between.is_cut or found.is_cut,
            guard=joined_findings([between.guard, found.guard]),
            via=between,
        )


def line_translator(
    engines: Sequence[Engine],
    via: str | None = None,
    *,
    called: Callable[[str], str] = str,
    glossary: Glossary | None = None,
    window: int | None = None,
    workers: int | None = None,
    known: FoundBatches | None = None,
    **options: Unpack[Options],
) -> tuple[LineTranslator, TranslateOptions]:
    """What translates with one engine, or with two through a pivot language; and the settings of the last engine.

    Samples, n-best lists and reranking are of the last engine: the first gives the best translation of its beam.

    Args:
        engines: one, or two with ``via``.
        called: as of :func:`~nmt.translation.options.translate_options`.
        glossary: terms that translations are made to have.
        window, workers, known: as of :class:`Translator`.

    Raises:
        ConfigError: as :func:`~nmt.translation.options.translate_options` and :class:`Translator`, or the first engine
            does not translate into the pivot language.
        BeamTooWideError: a beam needs more memory than there is.
    """
    last = engines[-1]
    settings = translate_options(last.config.decoding, called=called, **options)
    if glossary is not None:
        check_glossary(settings)
        translator, _ = line_translator(
            engines, via, called=called, window=window, workers=workers, known=known, **options
        )
        return GlossaryTranslator(translator, glossary), settings
    if via is None:
        return Translator(last, settings, window=window, workers=workers, known=known), settings
    check_pivot(settings)
    own = _of_last(samples=settings.sampling is not None)
    given: Options = {name: value for name, value in options.items() if name not in own}  # type: ignore[assignment]
    into, onward = engines
    if not fitting(pivots := codes_of(into.config.data, "target"), via):
        raise ConfigError(
            f"--via {via}: the model from {into.config.data.source_lang} translates to {', '.join(pivots)}."
        )
    first = translate_options(into.config.decoding, called=called, **given | {"target_lang": via})
    second = settings.model_copy(update={"source_lang": via})
    if known is not None:
        known.models = 2
    translators = []
    for engine, chosen in ((into, first), (onward, second)):
        with _naming(engine.config.data.source_lang, engine.config.data.target_lang):
            translators.append(Translator(engine, chosen, window=window, workers=workers, known=known))
    return PivotTranslator(*translators), settings


def check_pivot(options: TranslateOptions) -> None:
    """Check that options go with a pivot language.

    Raises:
        ConfigError: word alignments are asked for.
    """
    if options.alignment:
        raise ConfigError(
            "a word alignment is of one model's source and target: leave out --via, or --alignment and "
            "--format pharaoh."
        )


def _of_last(*, samples: bool) -> frozenset[str]:
    """The options that the last model alone has. The beam is the number of samples, if there are any."""
    return frozenset({"nbest", "sampling", "mbr", *(["beam"] if samples else [])})


def _behind_tag(line: Line, rest: str) -> Line:
    """A line without its tag and its prefix, which the second model gets."""
    size = len(line.text) - len(rest)
    spans = [
        dataclasses.replace(span, start=max(span.start - size, 0), end=max(span.end - size, 0)) for span in line.spans
    ]
    return dataclasses.replace(line, text=rest, prefix="", spans=spans, is_whole=bool(line.prefix))


def _next_line(found: TranslatedSegment) -> Line:
    """The best candidate of a segment as a line of the second model, with spans for what stays and around it all."""
    segment = found.segment
    text = segment.next_tag + found.candidates[0].text
    kept = segment.covered.spans_in(text) if segment.covered else []
    spans = [Span(0, len(text)), *kept] if segment.is_aligned else []
    return Line(text, segment.next_prefix, name=segment.line, spans=spans)


def _parts_of(segment: Segment, parts: Sequence[Segment]) -> list[Segment]:
    """The parts of a segment's translation, with its seed and the white space before it."""
    first = dataclasses.replace(parts[0], before=segment.before)
    return [dataclasses.replace(part, number=segment.number) for part in (first, *parts[1:])]


@contextmanager
def _naming(source: str, target: str) -> Iterator[None]:
    """Name the languages of a model in its errors."""
    try:
        yield
    except NmtError as error:
        error.args = (f"{source} to {target}: {error}",)
        raise
