"""Translating from Python: ``nmt.load("runs/…").translate(["…"])``."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Unpack

from pydantic import Field

from nmt.api.arguments import documented, naming_arguments
from nmt.config.section import StrictSection
from nmt.config.sections import Normalization
from nmt.errors import ConfigError, DataError
from nmt.loading import NamedModels, load_hops
from nmt.option_fields import DeviceChoice, EngineName, PrecisionChoice, option_fields
from nmt.spans.terms import Glossary
from nmt.text.lines import MAX_LINE_BYTES, line_too_long, parallel
from nmt.translation.engine import Engine
from nmt.translation.options import Options, ScoringOptions, TranslateOptions, translate_options
from nmt.translation.pivot import line_translator
from nmt.translation.results import Translation
from nmt.translation.target_scorer import ScoredTarget, TargetScorer

PathOrName = str | PathLike[str]


class _Hardware(StrictSection):
    device: DeviceChoice
    precision: PrecisionChoice
    threads: int | None = Field(ge=1)
    engine: EngineName
    via: str | None


@naming_arguments(_Hardware.__annotations__)
def load(
    model: PathOrName | Sequence[PathOrName],
    *,
    device: DeviceChoice = "auto",
    precision: PrecisionChoice = "auto",
    threads: int | None = None,
    engine: EngineName = "torch",
    via: str | None = None,
) -> Model:
    """Load a model to translate with.

    Args:
        model: a run or bundle, or several that form an ensemble. Of a run, ``nmt translate``'s checkpoint is loaded.
        device: where to compute.
        precision: auto is bf16 if this hardware computes faster in it, else fp32. With CTranslate2, auto is fp32 on a
            CPU.
        threads: CPU threads of this whole process; all usable cores if not given.
        engine: torch, or ctranslate2, which is faster on most CPUs and has fewer options. A bundle is then converted
            once into the cache folder; ``model`` may also be a folder that was exported for CTranslate2.
        via: the code of a pivot language: of several models, those into it translate first, then those from it.

    Raises:
        CheckpointError: a model does not exist or is damaged, or several do not share a vocabulary.
        ConfigError: the device is not available, or does not support that precision.
        NmtError: CTranslate2 is not installed, or cannot express the model.
    """
    _Hardware(device=device, precision=precision, threads=threads, engine=engine, via=via)
    names = [model] if isinstance(model, str | PathLike) else list(model) if isinstance(model, Sequence) else []
    if not names or not all(isinstance(name, str | PathLike) for name in names):
        raise ConfigError(f"model: expected the path of a run or bundle, or a list of paths, got {model!r}.")
    hops = NamedModels.hops([Path(name) for name in names], engine, via)
    return Model(load_hops(hops, device, precision, threads), via, names=[str(name) for name in names])


class _Keywords(Options, total=False):
    """The keywords of :meth:`Model.translate`."""

    prefixes: Iterable[str] | None
    glossary: Iterable[tuple[str, str]] | None


class Model:
    """A model in memory, an ensemble of several, or models through a pivot language. Made by :func:`load`."""

    def __init__(self, engines: Sequence[Engine], via: str | None = None, *, names: Sequence[str] = ()) -> None:
        if isinstance(engines, str | PathLike):
            raise ConfigError(f"nmt.Model takes no path: load the model with nmt.load({str(engines)!r}).")
        self._engines = engines
        self._via = via
        self._names = tuple(names)

    def __repr__(self) -> str:
        names = " + ".join(map(repr, self._names))
        languages = filter(None, (self.source_lang, self._via, self.target_lang))
        facts = (names, "-".join(languages), self._engines[-1].description)
        return f"Model({', '.join(filter(None, facts))})"

    @property
    def source_lang(self) -> str:
        """The code of the source language."""
        return self._engines[0].config.data.source_lang

    @property
    def target_lang(self) -> str:
        """The code of the target language."""
        return self._engines[-1].config.data.target_lang

    @naming_arguments(Options.__annotations__)
    def translate(self, lines: Iterable[str], **options: Unpack[_Keywords]) -> list[Translation]:
        """Translate lines: one translation per line, in order.

        Args:
            lines: texts of one line each.
            prefixes: for each line, the beginning of its translation.
            glossary: terms, each with its translation, that translations are made to have.
            own options: listed by ``help(nmt.Model.translate)``.

        Raises:
            ConfigError: an option is unknown or out of range, options contradict each other, or the model has too few
                positions for them.
            DataError: the numbers of lines and prefixes differ.
        """
        return list(self.stream(lines, **options))

    def stream(
        self,
        lines: Iterable[str],
        *,
        prefixes: Iterable[str] | None = None,
        glossary: Iterable[tuple[str, str]] | None = None,
        window: int | None = None,
        **options: Unpack[Options],
    ) -> Iterator[Translation]:
        """As :meth:`translate`, for streams: it reads at most ``window`` lines ahead, by default
        2,048, and more on a GPU."""
        terms = None if glossary is None else Glossary(glossary)
        translator, _ = line_translator(self._engines, self._via, glossary=terms, window=window, **options)
        beginnings = None if prefixes is None else _texts(prefixes, "prefix", "prefixes")
        return translator.translate(_texts(lines, "line"), beginnings)

    @naming_arguments(ScoringOptions.__annotations__)
    def score(
        self,
        lines: Iterable[str],
        targets: Iterable[str],
        *,
        source_lang: str | None = None,
        target_lang: str | None = None,
        tag: str | None = None,
        length_penalty: float | None = None,
        length_normalization: Normalization | None = None,
        alignment: bool = False,
        batch_tokens: int = 2_048,
    ) -> list[ScoredTarget]:
        """Score each target as the translation of its line, without a search.

        Args:
            lines: texts of one line each.
            targets: one translation per line.
            source_lang, target_lang: the codes of the languages, for models of several; by default the model's.
            tag: of the data sets as whose text the lines are read; none if not given.
            length_penalty: alpha of the length penalty; the model's default if not given.
            length_normalization: the divisor of scores: the paper's penalty, or length^alpha; the model's if not given.
            alignment: align each piece of a target with a source piece.
            batch_tokens: padded pieces of the longer side per batch.

        Raises:
            ConfigError: the model was loaded with a pivot language, or does not have a language.
            DataError: the numbers of lines and targets differ.
        """
        if self._via is not None:
            raise ConfigError("score: a pivot language has no scores of given targets. Load one of the models alone.")
        [engine] = self._engines
        options = translate_options(
            engine.config.decoding,
            source_lang=source_lang,
            target_lang=target_lang,
            tag=tag,
            length_penalty=length_penalty,
            length_normalization=length_normalization,
            alignment=alignment,
            batch_tokens=batch_tokens,
        )
        scorer = TargetScorer(engine, options)
        pairs = parallel(
            _texts(lines, "line"), _texts(targets, "target"), names=("the list of lines", "the list of targets")
        )
        return list(itertools.chain.from_iterable(scorer.score_windows(pairs)))


Model.translate.__doc__ = documented(Model.translate, option_fields(TranslateOptions))


def _texts(lines: Iterable[str], name: str, names: str | None = None) -> Iterator[str]:
    """The lines; each is checked when it is read.

    Args:
        name, names: the words for a line and for all lines in errors.
    """
    names = names or f"{name}s"
    if isinstance(lines, str | bytes):
        raise ConfigError(f"{names}: expected a list of texts, got a single text: put it into a list.")
    try:
        numbered = enumerate(lines, start=1)
    except TypeError:
        raise ConfigError(f"{names}: expected a list of texts, got {lines!r}.") from None
    return (_text(line, f"{name} {number:,}") for number, line in numbered)


def _text(line: object, name: str) -> str:
    if not isinstance(line, str):
        raise DataError(f"{name}: expected str, got {type(line).__name__}: {line!r}")
    try:
        size = len(line.encode())
    except UnicodeEncodeError as error:
        raise DataError(
            f"{name}: character {error.start + 1} is half a surrogate pair ({line[error.start]!r}), not "
            "text. Read it with the encoding that it was written in."
        ) from None
    if size > MAX_LINE_BYTES:
        raise line_too_long(name)
    return line
