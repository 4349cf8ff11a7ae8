"""Translating from Python: ``nmt.load("runs/…").translate(["…"])``."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Literal, Unpack, get_args

from nmt.checkpoint.run_folder import bundle_to_use
from nmt.device import DeviceChoice, Hardware, Precision, PrecisionChoice, choose_hardware
from nmt.errors import ConfigError, DataError
from nmt.evaluation.pairwise import pairwise
from nmt.search.option_checks import check_choice, check_count
from nmt.search.settings import SearchOptions, search_settings
from nmt.text import MAX_LINE_BYTES, line_too_long, parallel
from nmt.translation.ensemble import Ensemble, load_ensemble, product_sizes
from nmt.translation.results import Translation
from nmt.translation.sentence_splitting import SplitSentences
from nmt.translation.target_scorer import ScoredTarget, TargetScorer
from nmt.translation.translator import Translator

PathOrName = str | PathLike[str]


def load(
    model: PathOrName | Sequence[PathOrName],
    *,
    device: DeviceChoice = "auto",
    precision: PrecisionChoice = "auto",
    threads: int | None = None,
) -> Model:
    """Load a model to translate with.

    Args:
        model: a run or bundle, of a run what ``nmt translate`` would take; several make an ensemble.
        device: where to compute.
        precision: auto takes bf16 where this hardware computes faster in it, and fp32 elsewhere.
        threads: of the CPU, in this whole process; all usable cores if not given.

    Raises:
        CheckpointError: there is no such model, or it is damaged, or several do not share a vocabulary.
        ConfigError: the device is not there, or does not compute in that precision.
    """
    check_choice("device", device, get_args(DeviceChoice))
    check_choice("precision", precision, ("auto", *get_args(Precision)))
    if threads is not None:
        check_count("threads", threads)
    names = [model] if isinstance(model, str | PathLike) else list(model) if isinstance(model, Sequence) else []
    if not names or not all(isinstance(name, str | PathLike) for name in names):
        raise ConfigError(f"no model was named, but {model!r}: give the path of a run or bundle, or several.")
    folders = [bundle_to_use(Path(name)) for name in names]
    hardware = choose_hardware(device, precision, threads, product=product_sizes(folders[0]))
    return Model(load_ensemble(folders, hardware), hardware, names=[str(name) for name in names])


class TranslateOptions(SearchOptions, total=False):
    """What :meth:`Model.translate` may be asked for, by name."""

    prefixes: Iterable[str] | None
    batch_tokens: int
    max_source_length: int | None
    split_sentences: SplitSentences
    guard: bool
    mbr: Literal["chrf", "bleu"] | None
    alignment: bool
    copy_unknown: bool | None


class Model:
    """A model in memory, or several that are asked together. Made by :func:`load`."""

    def __init__(self, ensemble: Ensemble, hardware: Hardware, *, names: Sequence[str] = ()) -> None:
        self._ensemble = ensemble
        self._hardware = hardware
        self._names = tuple(names)

    def __repr__(self) -> str:
        names = " + ".join(map(repr, self._names))
        facts = (names, f"{self.source_lang}-{self.target_lang}", str(self._hardware))
        return f"Model({', '.join(filter(None, facts))})"

    @property
    def source_lang(self) -> str:
        """Code of the language that it reads."""
        return self._ensemble.config.data.source_lang

    @property
    def target_lang(self) -> str:
        """Code of the language that it writes."""
        return self._ensemble.config.data.target_lang

    def translate(self, lines: Iterable[str], **options: Unpack[TranslateOptions]) -> list[Translation]:
        """Translate lines: one translation for each, in their order.

        Args:
            beam: width of the beam; 1 is greedy. This, ``length_penalty`` and ``max_extra_length`` are the model's own
                where they are not given.
            length_penalty: α of the penalty that scores are divided by.
            normalization: ``paper``, or ``length``: scores are divided by the length to the power of α.
            max_extra_length: pieces that an output may have more than its source.
            min_length: pieces that an output has at least.
            no_repeat_ngram: no run of so many pieces comes twice in an output; 0 allows all.
            sampling: draw ``beam`` outputs at random instead of searching for the best.
            diverse_groups: groups of the beam that keep away from each other; they divide it evenly.
            diversity: with ``diverse_groups``: how much it costs to take a piece that another group takes; 0.5 by
                default.
            nbest: candidates for each line, best first; 1 by default.
            prefixes: what the translation of each line begins with.
            mbr: put the candidate first that is most like all, by ``chrf`` or ``bleu`` (minimum Bayes risk).
            alignment: tell of each piece how likely it was and what source piece it belongs to.
            copy_unknown: copy characters that the vocabulary has no piece for from the line; None, the default: not
                those that the model has seen spelt in bytes.
            batch_tokens: source pieces that are searched at once.
            max_source_length: pieces; longer lines are translated in parts.
            split_sentences: ``auto`` translates lines that hold more sentences than the training lines sentence by
                sentence; ``always`` all lines of several sentences; ``never`` none.
            guard: search again for what came out empty, looping, copied, incomplete or of an odd length; so by default.

        Raises:
            ConfigError: the beam, or the positions of the model, are too few for what is asked for, or an option is
                out of its range.
            DataError: there are more lines than prefixes, or fewer.
        """
        return list(self.stream(lines, **options))

    def stream(
        self,
        lines: Iterable[str],
        *,
        prefixes: Iterable[str] | None = None,
        mbr: Literal["chrf", "bleu"] | None = None,
        alignment: bool = False,
        copy_unknown: bool | None = None,
        batch_tokens: int = 2_048,
        max_source_length: int | None = None,
        split_sentences: SplitSentences = "auto",
        guard: bool = True,
        window: int = 2_048,
        **search: Unpack[SearchOptions],
    ) -> Iterator[Translation]:
        """As :meth:`translate`, for lines without end: reads no further ahead than ``window`` lines."""
        if mbr is not None:
            check_choice("mbr", mbr, ("chrf", "bleu"))
        translator = Translator(
            self._ensemble,
            search_settings(self._ensemble.config.decoding, **search),
            self._hardware,
            batch_tokens=batch_tokens,
            window=window,
            max_source_length=max_source_length,
            split_sentences=split_sentences,
            guard=guard,
            utility=pairwise(mbr, target_lang=self.target_lang) if mbr else None,
            alignment=alignment,
            copy_unknown=copy_unknown,
        )
        return translator.translate(_texts(lines, "line"), None if prefixes is None else _texts(prefixes, "prefix"))

    def score(
        self,
        lines: Iterable[str],
        targets: Iterable[str],
        *,
        length_penalty: float | None = None,
        normalization: Literal["paper", "length"] = "paper",
        alignment: bool = False,
        batch_tokens: int = 2_048,
    ) -> list[ScoredTarget]:
        """Tell how likely each target is as the translation of its line; nothing is searched for.

        Args:
            length_penalty, normalization: of the score; α is the model's own where it is not given.
            alignment: tell of each piece what source piece it belongs to.
            batch_tokens: padded pieces of the longer side that are worked on at once.

        Raises:
            DataError: there are more lines than targets, or fewer.
        """
        decoding = self._ensemble.config.decoding
        settings = search_settings(decoding, length_penalty=length_penalty, normalization=normalization)
        scorer = TargetScorer(self._ensemble, settings, self._hardware, batch_tokens=batch_tokens, alignment=alignment)
        pairs = parallel(
            _texts(lines, "line"), _texts(targets, "target"), names=("the list of lines", "the list of targets")
        )
        return list(itertools.chain.from_iterable(scorer.score_windows(pairs)))


def _name_options(method: Callable[..., object], options: Iterable[inspect.Parameter]) -> None:
    """Let ``help`` and editors show the options of a method by name, rather than ``**options``."""
    signature = inspect.signature(method)
    named = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    known = {parameter.name for parameter in named}
    named += [option for option in options if option.name not in known]
    method.__signature__ = signature.replace(parameters=named)  # type: ignore[attr-defined]


def _search_parameters() -> Iterator[inspect.Parameter]:
    for name, annotation in SearchOptions.__annotations__.items():
        kind = inspect.Parameter.KEYWORD_ONLY
        yield inspect.Parameter(name, kind, default=None, annotation=getattr(annotation, "__forward_arg__", annotation))


_name_options(Model.stream, _search_parameters())
_name_options(
    Model.translate, [p for p in list(inspect.signature(Model.stream).parameters.values())[2:] if p.name != "window"]
)


def _texts(lines: Iterable[str], name: str) -> Iterator[str]:
    """The lines, each looked at when its turn comes.

    Args:
        name: of each, for errors.
    """
    if isinstance(lines, str | bytes):
        raise ConfigError("a single text was given where lines are expected: put it into a list.")
    return (_text(line, f"{name} {number:,}") for number, line in enumerate(lines, start=1))


def _text(line: object, name: str) -> str:
    if not isinstance(line, str):
        raise DataError(f"{name}: expected str, got {type(line).__name__}: {line!r}")
    try:
        size = len(line.encode())
    except UnicodeEncodeError as error:
        raise DataError(
            f"{name}: character {error.start + 1} is half a surrogate pair ({line[error.start]!r}), which is "
            "no text. Read it with the encoding that it was written in."
        ) from None
    if size > MAX_LINE_BYTES:
        raise line_too_long(name)
    return line
