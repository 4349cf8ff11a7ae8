"""The translations of two systems, their reference and their source: lines, and the tokens that all counts are of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nmt.errors import DataError
from nmt.evaluation.metrics import TokenizerName, make_metric
from nmt.text.lines import not_parallel

Tokens = tuple[str, ...]


@dataclass(frozen=True)
class Text:
    """The lines of a text, each also as tokens."""

    lines: tuple[str, ...]
    tokens: tuple[Tokens, ...]


@dataclass(frozen=True)
class ParallelTexts:
    """Texts with equal numbers of lines, at least one."""

    systems: tuple[Text, Text]
    reference: Text
    source: Text | None
    bleu: Any
    """sacreBLEU's BLEU, whose tokeniser splits the texts."""


def parallel_texts(
    systems: tuple[Sequence[str], Sequence[str]],
    reference: Sequence[str],
    source: Sequence[str] | None = None,
    *,
    target_lang: str = "",
    tokenize: TokenizerName | None = None,
    names: tuple[str, str] = ("system A", "system B"),
) -> ParallelTexts:
    """Tokenise all texts with sacreBLEU's tokeniser of the target language; the source too.

    Args:
        target_lang, tokenize: as for :func:`nmt.evaluation.metrics.make_metric`.
        names: the names of the systems in errors.

    Raises:
        DataError: the numbers of lines differ or are 0.
        NmtError: the tokeniser is not installed.
    """
    for name, lines in zip(names, systems, strict=True):
        if not lines:
            raise DataError(f"{name} is empty: there is nothing to compare.")
        if len(lines) != len(reference):
            raise not_parallel((name, len(lines)), ("the reference", len(reference)))
    if source is not None and len(source) != len(reference):
        raise not_parallel(("the source", len(source)), ("the reference", len(reference)))
    bleu = make_metric("bleu", target_lang, tokenize=tokenize)

    def tokenised(lines: Sequence[str]) -> Text:
        return Text(tuple(lines), tuple(tokens_of(line, bleu) for line in lines))

    return ParallelTexts(
        systems=(tokenised(systems[0]), tokenised(systems[1])),
        reference=tokenised(reference),
        source=None if source is None else tokenised(source),
        bleu=bleu,
    )


def tokens_of(line: str, bleu: Any) -> Tokens:
    """A line taken apart as BLEU does."""
    return tuple(bleu.tokenizer(line.rstrip()).split())
