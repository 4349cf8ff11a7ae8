"""Labelled bracket precision, recall and F1, as the program evalb computes them with its settings ``COLLINS.prm``.

- A bracket is a label, its first word and its last. The tag of a word is not a bracket, and neither is a bracket
  around the whole tree that is called TOP, ROOT or S1, or has no label.
- Traces and punctuation marks are left out, by their tags. Brackets that hold nothing else are left out too.
- Function tags and indices are left out: NP-SBJ-1 is an NP. ADVP and PRT are equal.
- A bracket that occurs twice counts twice. All counts are sums over the corpus.
- A sentence whose two trees have different words is an error sentence. One without a predicted tree is a skipped
  sentence. Both are counted, and left out of the sums.

evalb recognises the punctuation of each tree by its own tags. Here the tags of the gold tree decide for both, since the
model predicts no tags. The two differ only where the trees disagree about a punctuation mark: evalb counts an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from labels import PUNCTUATION, ROOTS, TRACE, category
from nltk.tree import Tree
from traversal import Close, Open, Word, walk, words

Bracket = tuple[str, int, int]
"""A label, the first word, and the word behind the last."""

_EQUAL = {"PRT": "ADVP"}


@dataclass(frozen=True)
class Score:
    """Counts over a corpus; rates are percentages."""

    matched: int = 0
    gold: int = 0
    predicted: int = 0
    complete: int = 0
    """Sentences all of whose brackets are right."""
    scored: int = 0
    """Sentences that the other counts are of."""
    errors: int = 0
    """Sentences whose trees have different words."""
    skipped: int = 0
    """Sentences without a predicted tree."""

    def __add__(self, other: Score) -> Score:
        mine, others = vars(self), vars(other)
        return Score(**{name: mine[name] + others[name] for name in mine})

    @property
    def precision(self) -> float:
        """Share of predicted brackets that are right."""
        return _percent(self.matched, self.predicted)

    @property
    def recall(self) -> float:
        """Share of gold brackets that were found."""
        return _percent(self.matched, self.gold)

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return _percent(2 * self.matched, self.gold + self.predicted)

    @property
    def complete_match(self) -> float:
        """Share of sentences all of whose brackets are right."""
        return _percent(self.complete, self.scored)


def score(pairs: Iterable[tuple[Tree, Tree | None]]) -> Score:
    """The score of pairs of a gold tree and a predicted tree."""
    total = Score()
    for gold, predicted in pairs:
        total += _score(gold, predicted)
    return total


def brackets(tree: Tree, is_left_out: Iterable[bool]) -> Counter[Bracket]:
    """The brackets of a tree, each with its number of occurrences.

    Args:
        is_left_out: for each word but traces, whether it is left out.
    """
    found: Counter[Bracket] = Counter()
    flags = iter(is_left_out)
    place = 0
    starts: list[int] = []
    for step in walk(tree):
        match step:
            case Open():
                starts.append(place)
            case Word(tag):
                place += tag != TRACE and not next(flags)
            case Close(label):
                start, name = starts.pop(), category(label)
                if start < place and name not in ROOTS:
                    found[_EQUAL.get(name, name), start, place] += 1
    return found


def _score(gold: Tree, predicted: Tree | None) -> Score:
    if predicted is None:
        return Score(skipped=1)
    of_gold, of_predicted = ([word for word in words(tree) if word.tag != TRACE] for tree in (gold, predicted))
    if [word.word for word in of_gold] != [word.word for word in of_predicted]:
        return Score(errors=1)
    is_left_out = [word.tag in PUNCTUATION for word in of_gold]
    right, found = brackets(gold, is_left_out), brackets(predicted, is_left_out)
    return Score(
        matched=(right & found).total(),
        gold=right.total(),
        predicted=found.total(),
        complete=int(right == found),
        scored=1,
    )


def _percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0
