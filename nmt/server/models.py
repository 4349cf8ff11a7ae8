"""The models of a server: which languages they translate, and their translators."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

from nmt.config import Config
from nmt.errors import ConfigError, NmtError
from nmt.server.engine_process import RemoteEngine
from nmt.server.errors import UnknownLanguageError
from nmt.text.languages import fitting, language_tag
from nmt.text.printable import listed
from nmt.translation.directions import codes_of
from nmt.translation.engine import Searcher
from nmt.translation.line_translator import LineTranslator
from nmt.translation.options import SplitSentences, TranslateOptions, translate_options
from nmt.translation.pivot import PivotTranslator
from nmt.translation.segment import Line
from nmt.translation.translator import Translator
from nmt.translation.workers import AbandonedError

_LONGEST_SHOWN = 40
"""Characters of an unknown language code in an error."""
_MOST_SHOWN = 20
"""Directions in an error."""
_Use = tuple[str, str, int, SplitSentences | None]
"""The codes of a direction, the number of candidates, and how sentences are split."""


@dataclass(eq=False)
class ServedModel:
    """A model, which may be in memory, and how it translates."""

    name: str
    """Of its folders."""
    config: Config
    load_engine: Callable[[], RemoteEngine]
    options: Mapping[str, Any]
    """The options of translating that were given."""
    workers: int | None = None
    version: object = None
    """Another one after each loading: the model may have been replaced in its folder."""
    _engine: RemoteEngine | None = None
    _searcher: Searcher | None = None
    """What searches for all translators: they share its workers and the memory that is free when it is made."""
    _translators: dict[_Use, Translator] = field(default_factory=dict)

    def load(self) -> int:
        """Load the model. Translates something with each worker, since its first translation takes seconds.

        Returns:
            The number of workers.

        Raises:
            NmtError: it cannot be loaded.
        """
        self._translators.clear()  # of a process that ended by itself
        self._engine = self.load_engine()
        self.version = object()
        try:
            self._searcher = self._engine.searcher(self._default_options, self.workers, shared=True)
            translator = self.translator(*self.directions()[0])
            for _ in range(translator.worker_count):
                [segments] = translator.prepare([Line("1")])
                translator.search(segments)
        except BaseException:
            self.unload()
            raise
        return translator.worker_count

    def unload(self) -> None:
        """End all searches, and the process of the model: nobody waits for them."""
        if self._engine is not None:
            self._engine.process.end(AbandonedError())
        self._engine = self._searcher = None
        self._translators.clear()

    def watch(self, lost: Callable[[NmtError], object]) -> None:
        """Let a function be called, in another thread, when the process of the model has ended by itself."""
        assert self._engine is not None
        self._engine.process.watch(lost)

    @property
    def parts(self) -> Sequence[ServedModel]:
        """The models that must be in memory for it to translate."""
        return [self]

    @property
    def _default_options(self) -> TranslateOptions:
        return translate_options(self.config.decoding, **self.options)

    @property
    def max_candidates(self) -> int:
        """The maximum number of translations of a text."""
        return self._default_options.beam

    def directions(self) -> list[tuple[str, str]]:
        """The codes of source and target of each direction: those that were trained, or all if that is not known."""
        data = self.config.data
        if data.directions:
            return data.directions
        sources, targets = codes_of(data, "source") or [""], codes_of(data, "target") or [""]
        pairs = itertools.product(sources, targets)
        return [pair for pair in pairs if pair[0] != pair[1]] or [(sources[0], targets[0])]

    def translator(
        self, source: str, target: str, candidates: int = 1, split: SplitSentences | None = None
    ) -> Translator:
        """What translates with so many candidates, while the model is in memory. Several threads may use it.

        Args:
            source, target: a direction of :meth:`directions`.
            candidates: at most :attr:`max_candidates`.
            split: replaces the option ``split_sentences``.
        """
        key = source, target, candidates, split
        if key not in self._translators:
            given = {**self.options, "source_lang": source or None, "target_lang": target or None, "nbest": candidates}
            given |= {"split_sentences": split} if split else {}
            assert self._engine is not None
            options = translate_options(self._engine.config.decoding, **given)
            self._translators[key] = Translator(self._engine, options, searcher=self._searcher)
        return self._translators[key]


@dataclass(eq=False)
class PivotModel:
    """Two models that translate through a pivot language."""

    first: ServedModel
    second: ServedModel
    into: str
    """The code of the pivot language, as the first spells it."""
    onward: str
    """The same, as the second spells it."""
    _translators: WeakValueDictionary[tuple[LineTranslator, LineTranslator], PivotTranslator] = field(
        default_factory=WeakValueDictionary
    )
    """Those that requests use, by the translators that they are made of: they do not outlive their models."""

    @property
    def parts(self) -> Sequence[ServedModel]:
        """As :attr:`ServedModel.parts`."""
        return list(dict.fromkeys([self.first, self.second]))  # a model of several languages may be both

    @property
    def version(self) -> object:
        """As :attr:`ServedModel.version`."""
        return self.first.version, self.second.version

    @property
    def max_candidates(self) -> int:
        """As :attr:`ServedModel.max_candidates`."""
        return self.second.max_candidates

    def translator(
        self, source: str, target: str, candidates: int = 1, split: SplitSentences | None = None
    ) -> LineTranslator:
        """As :meth:`ServedModel.translator`. Only the second model gives several candidates."""
        first = self.first.translator(source, self.into, split=split)
        second = self.second.translator(self.onward, target, candidates, split)
        return self._translators.setdefault((first, second), PivotTranslator(first, second))


@dataclass(frozen=True, eq=False)
class Direction:
    """A source and a target language, and what translates."""

    source: str
    """Its language tag: ``zh-Hans``."""
    target: str
    model: ServedModel | PivotModel
    codes: tuple[str, str]
    """Of both languages, as the model spells them."""

    def __str__(self) -> str:
        through = f" via {language_tag(self.model.into)}" if isinstance(self.model, PivotModel) else ""
        return f"{self.source} to {self.target}{through}"

    def translator(self, candidates: int = 1, split: SplitSentences | None = None) -> LineTranslator:
        """As :meth:`ServedModel.translator`."""
        return self.model.translator(*self.codes, candidates, split)

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
        models: dict[tuple[ServedModel, ServedModel, str, str], PivotModel] = {}
        for (first, first_model), (second, second_model) in meeting:
            pair = first.source, second.target
            if pair not in self._directions and not fitting([first.source], second.target):
                key = first_model, second_model, first.codes[1], second.codes[0]
                model = models.setdefault(key, PivotModel(*key))
                self._directions[pair] = Direction(*pair, model, (first.codes[0], second.codes[1]))

    def __str__(self) -> str:
        return listed([*self._directions.values()], _MOST_SHOWN)

    @property
    def most_at_once(self) -> int:
        """The maximum number of models that a direction needs in memory."""
        return max(len(direction.model.parts) for direction in self._directions.values())

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
        ways = itertools.product(fitting(self.languages, source), fitting(self.languages, target))
        same = [other for one, other in ways if fitting([one], other)]
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
        some = next(iter(self._directions.values()))
        return Direction(language, language, some.model, some.codes)


def _shown(code: str) -> str:
    return code if len(code) <= _LONGEST_SHOWN else f"{code[:_LONGEST_SHOWN]}…"


def _directions(model: ServedModel) -> list[Direction]:
    return [Direction(language_tag(one), language_tag(other), model, (one, other)) for one, other in model.directions()]
