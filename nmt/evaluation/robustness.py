"""What text as people type it costs: a test set is translated as it is and in variants, and each is scored."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from nmt.config import AugmentationConfig
from nmt.data.augmentation import Pair, augmented
from nmt.evaluation.metrics import MetricName, TokenizerName, make_metric, score
from nmt.text.languages import is_full_width

Translate = Callable[[str, Sequence[str]], Sequence[tuple[str, Sequence[str]]]]
"""Translates the lines of a variant; returns each translation, and the problems that it has by the guard."""
Pairs = list[Pair]
_SEED = 1
_JOINED = 5
_CHANGES = {
    "in capitals": AugmentationConfig(upper_case=1),
    "a capital at each word": AugmentationConfig(title_case=1),
    "no full stop": AugmentationConfig(no_end_mark=1),
    "typing errors": AugmentationConfig(typos=1),
}
_ADDED = {"an emoji": "😀", "a URL": "https://example.org/a?b=1", "a number": "(4711)"}


@dataclass(frozen=True)
class VariantScore:
    """The score of one variant of a test set."""

    variant: str
    lines: int
    value: float
    share: float
    """Of the score that the translations of the test set as it is have, changed as the references are."""
    problems: dict[str, int]
    """Problem that the guard found and could not repair -> number of lines: ``number``, ``url``, ``looping`` ..."""


@dataclass(frozen=True)
class RobustnessSheet:
    """The scores of a test set as it is, and of its variants."""

    metric: str
    signature: str
    scores: list[VariantScore]


def robustness_sheet(
    translate: Translate,
    sources: Sequence[str],
    references: Sequence[str],
    languages: Pair,
    metric: MetricName = "bleu",
    *,
    tokenize: TokenizerName | None = None,
    lowercase: bool = False,
) -> RobustnessSheet:
    """Translate and score a test set as it is, and in each variant.

    Args:
        languages: the codes of the source and target languages.
        metric, tokenize, lowercase: as of :func:`nmt.evaluation.metrics.make_metric`.

    Raises:
        NmtError: the tokeniser is not installed.
    """
    made = make_metric(metric, languages[1], tokenize=tokenize, lowercase=lowercase)
    pairs = list(zip(sources, references, strict=True))
    name, plain = "as it is", translate("as it is", sources)
    translated = list(zip(sources, [output for output, _ in plain], strict=True))
    found = score(made, [output for _, output in translated], [list(references)])
    scores = [VariantScore(name, len(pairs), found.value, 1.0, _counted(plain))]
    for name, change in _variants(languages).items():
        changed = change(pairs)
        outputs = translate(name, [source for source, _ in changed])
        of_references = [[reference for _, reference in changed]]
        value = score(made, [output for output, _ in outputs], of_references).value
        possible = score(made, [output for _, output in change(translated)], of_references).value
        share = value / possible if possible else 0.0
        scores.append(VariantScore(name, len(changed), value, share, _counted(outputs)))
    return RobustnessSheet(found.name, found.signature, scores)


def _variants(languages: Pair) -> dict[str, Callable[[Pairs], Pairs]]:
    """The change of pairs that makes each variant. The mark at the end is dropped only where both sides have one."""

    def augment(pairs: Pairs, *, shares: AugmentationConfig) -> Pairs:
        return augmented(pairs, shares, languages, np.random.default_rng(_SEED))

    def add(pairs: Pairs, *, text: str) -> Pairs:
        return [(f"{source} {text}", f"{target} {text}") for source, target in pairs]

    def join(pairs: Pairs) -> Pairs:
        spaces = ["" if is_full_width(language) else " " for language in languages]
        groups = [pairs[first : first + _JOINED] for first in range(0, len(pairs), _JOINED)]
        return [(spaces[0].join(a for a, _ in group), spaces[1].join(b for _, b in group)) for group in groups]

    return {
        **{name: partial(augment, shares=shares) for name, shares in _CHANGES.items()},
        **{name: partial(add, text=text) for name, text in _ADDED.items()},
        f"{_JOINED} lines in one": join,
    }


def _counted(outputs: Sequence[tuple[str, Sequence[str]]]) -> dict[str, int]:
    return dict(Counter(itertools.chain.from_iterable(problems for _, problems in outputs)).most_common())
