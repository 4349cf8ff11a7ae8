"""The models of a server: which languages they translate, and their translators."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from nmt.errors import ConfigError, NmtError
from nmt.server.engine_process import RemoteEngine
from nmt.server.errors import UnknownLanguageError
from nmt.text.languages import fitting, language_tag
from nmt.translation.engine import Searcher
from nmt.translation.line_translator import LineTranslator
from nmt.translation.options import SplitSentences, translate_options
from nmt.translation.pivot import PivotTranslator, tags_by_language
from nmt.translation.translator import Translator
from nmt.translation.workers import AbandonedError

_LONGEST_SHOWN = 40
"""Characters of an unknown language code in an error."""


@dataclass(eq=False)
class ServedModel:
    """A loaded model, and how it translates."""

    engine: RemoteEngine
    options: Mapping[str, Any]
    """The options of translating that were given."""
    workers: int | None = None
    _translators: dict[tuple[int, SplitSentences | None], Translator] = field(default_factory=dict)

    def warm_up(self) -> None:
        """Translate something with each worker, since its first translation takes seconds."""
        translator = self.translator()
        for _ in range(translator.worker_count):
            [segments] = translator.prepare(["1"])
            translator.search(segments)

    @cached_property
    def _searcher(self) -> Searcher:
        """What searches for all translators: they share its workers and the memory that is free at the start."""
        options = translate_options(self.engine.config.decoding, **self.options)
        return self.engine.searcher(options, self.workers, shared=True)

    def watch(self, lost: Callable[[NmtError], object]) -> None:
        """Let a function be called, in another thread, when the process of the model has ended by itself."""
        self.engine.process.watch(lost)

    def abandon(self) -> None:
        """End all searches, and the process of the model: nobody waits for them."""
        self.engine.process.end(AbandonedError())

    @property
    def max_candidates(self) -> int:
        """The maximum number of translations of a text."""
        return translate_options(self.engine.config.decoding, **self.options).beam

    def translator(self, candidates: int = 1, split: SplitSentences | None = None) -> Translator:
        """What translates with so many candidates. Several threads may use it; only one calls this method.

        Args:
            candidates: at most :attr:`max_candidates`.
            split: replaces the option ``split_sentences``.
        """
        key = candidates, split
        if key not in self._translators:
            given = {**self.options, "nbest": candidates, **({"split_sentences": split} if split else {})}
            options = translate_options(self.engine.config.decoding, **given)
            self._translators[key] = Translator(self.engine, options, searcher=self._searcher)
        return self._translators[key]


@dataclass(eq=False)
class PivotModel:
    """Two models that translate through a pivot language."""

    first: ServedModel
    second: ServedModel
    via: str
    """The language tag of the pivot language."""
    _translators: dict[tuple[int, SplitSentences | None], LineTranslator] = field(default_factory=dict)

    @property
    def max_candidates(self) -> int:
        """As :attr:`ServedModel.max_candidates`."""
        return self.second.max_candidates

    def translator(self, candidates: int = 1, split: SplitSentences | None = None) -> LineTranslator:
        """As :meth:`ServedModel.translator`. Only the second model gives several candidates."""
        key = candidates, split
        if key not in self._translators:
            first, second = self.first.translator(split=split), self.second.translator(candidates, split)
            self._translators[key] = PivotTranslator(first, second, self.via)
        return self._translators[key]


@dataclass(frozen=True, eq=False)
class Direction:
    """A source and a target language, and what translates."""

    source: str
    """Its language tag: ``zh-Hans``."""
    target: str
    model: ServedModel | PivotModel
    prefix: str = ""
    """What a line begins with, to name its target language to a model of several."""

    def __str__(self) -> str:
        through = f" via {self.model.via}" if isinstance(self.model, PivotModel) else ""
        return f"{self.source} to {self.target}{through}"

    @property
    def is_identity(self) -> bool:
        """Whether texts stay as they are."""
        return self.source == self.target


class Models:
    """All directions of a server."""

    def __init__(self, models: Sequence[ServedModel], via: Sequence[str] = ()) -> None:
        """Find the directions of the models.

        Args:
            via: codes of pivot languages, through which other languages are translated. The first one counts.

        Raises:
            ConfigError: two models translate the same languages, or one does not say which; or a pivot language has no
                model into it, or none from it.
        """
        self._directions: dict[tuple[str, str], Direction] = {}
        direct = [(direction, model) for model in models for direction in _directions(model)]
        for direction, _ in direct:
            pair = direction.source, direction.target
            if not all(pair):
                raise ConfigError(
                    "a model does not record its languages. Import it again with --source-lang and --target-lang."
                )
            if pair in self._directions:
                raise ConfigError(
                    f"two models translate {pair[0]} to {pair[1]}: a server has one for each pair. Leave one out."
                )
            self._directions[pair] = direction
        for code in via:
            self._compose(direct, code)

    def _compose(self, direct: Sequence[tuple[Direction, ServedModel]], via: str) -> None:
        """Add the directions of two models that meet in a language, where there is no direction yet."""
        into = [each for each in direct if fitting([each[0].target], via)]
        onward = [each for each in direct if fitting([each[0].source], via)]
        meeting = [pair for pair in itertools.product(into, onward) if fitting([pair[0][0].target], pair[1][0].source)]
        if not meeting:
            raise ConfigError(f"--via {via} needs a model to {via} and one from {via}: name both.")
        models: dict[tuple[ServedModel, ServedModel, str], PivotModel] = {}
        for (first, first_model), (second, second_model) in meeting:
            pair = first.source, second.target
            if pair not in self._directions and not fitting([first.source], second.target):
                key = first_model, second_model, first.target
                self._directions[pair] = Direction(*pair, models.setdefault(key, PivotModel(*key)), second.prefix)

    def __str__(self) -> str:
        return ", ".join(map(str, self._directions.values()))

    @property
    def sources(self) -> dict[str, list[str]]:
        """The source languages, each with its target languages."""
        found: dict[str, list[str]] = {}
        for source, target in self._directions:
            found.setdefault(source, []).append(target)
        return found

    @property
    def targets(self) -> list[str]:
        """The target languages."""
        return list(dict.fromkeys(target for _, target in self._directions))

    @property
    def languages(self) -> list[str]:
        """All languages, the source languages first."""
        return list(dict.fromkeys([*self.sources, *self.targets]))

    def sources_of(self, target: str) -> list[str]:
        """The source languages that are translated to a language.

        Raises:
            UnknownLanguageError: there are none.
        """
        found = [source for source, targets in self.sources.items() if fitting(targets, target)]
        if not found:
            raise UnknownLanguageError(f"{_shown(target)} is not supported", of_target=True)
        return found

    def find(self, source: str, target: str) -> Direction:
        """The direction of two languages, whose codes may be spelt in another way; of a language to itself, too.

        Raises:
            UnknownLanguageError: no model translates these languages.
        """
        for code, known, of_target in ((source, self.languages, False), (target, self.languages, True)):
            if not fitting(known, code):
                raise UnknownLanguageError(f"{_shown(code)} is not supported", of_target=of_target)
        same = [code for code in fitting(self.languages, source) if code in fitting(self.languages, target)]
        if same and language_tag(source) == language_tag(target):
            return self._identity(same[0])
        for one in fitting(self.sources, source):
            for other in fitting(self.sources[one], target):
                return self._directions[one, other]
        if same:  # variants of a language, such as en-US and en-GB
            return self._identity(same[0])
        raise UnknownLanguageError(
            f"{source} to {target} is not supported; supported: {self}", of_target=bool(fitting(self.sources, source))
        )

    def _identity(self, language: str) -> Direction:
        return Direction(language, language, next(iter(self._directions.values())).model)


def _shown(code: str) -> str:
    return code if len(code) <= _LONGEST_SHOWN else f"{code[:_LONGEST_SHOWN]}…"


def _directions(model: ServedModel) -> list[Direction]:
    data, tags = model.engine.config.data, model.engine.vocab.source.language_tags
    source = language_tag(data.source_lang)
    if not tags:
        return [Direction(source, language_tag(data.target_lang), model)]
    return [Direction(source, target, model, f"{tag} ") for target, tag in tags_by_language(tags).items()]
