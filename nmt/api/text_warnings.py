"""Warnings about texts that are scored or compared."""

from __future__ import annotations

from collections.abc import Sequence

from nmt.corpora.wrong_language import in_words, seems_to_be
from nmt.evaluation.text_checks import hypothesis_warnings, share_few_words
from nmt.reporting import Reporter
from nmt.text.languages import is_language_code, language_of_country


def warn_of_languages(codes: Sequence[str | None], report: Reporter) -> None:
    """Warn once if codes that are given are those of no language."""
    if unknown := [code for code in codes if code and not is_language_code(code)]:
        meant = " and ".join(filter(None, map(language_of_country, unknown)))
        report.warn(
            f"{' and '.join(unknown)}: no language code of ISO 639, such as de or pt_BR: the rules of no language are "
            "applied." + (f" Did you mean {meant}?" if meant else "")
        )


def warn_of_hypothesis(lines: Sequence[str], references: Sequence[Sequence[str]], name: str, report: Reporter) -> None:
    """Warn if a hypothesis looks wrong.

    Args:
        name: of one hypothesis of several.
    """
    messages = hypothesis_warnings(lines, references)
    # Loading the identifier takes longer than a score, and texts in one language share words.
    if share_few_words(lines, references[0]):
        expected = seems_to_be(references[0])
        if expected and (found := seems_to_be(lines, expected)):
            messages.append(
                f"the hypothesis looks like {in_words(found)}, but the reference like {in_words(expected)}."
            )
    for message in messages:
        report.warn(f"{name}: {message}" if name else message)
