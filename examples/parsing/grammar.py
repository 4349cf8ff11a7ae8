"""Sentences with their trees, drawn from a small grammar of English (``english.pcfg`` and ``english.yaml``)."""

from __future__ import annotations

import random
from pathlib import Path

import yaml
from nltk.grammar import PCFG, Nonterminal, ProbabilisticProduction
from nltk.tree import Tree
from traversal import words

MAX_WORDS = 16

_HERE = Path(__file__).parent
_FORMS = ("VB", "VBD", "VBN")


class Grammar:
    """Rules with probabilities, and the words."""

    def __init__(self) -> None:
        """Read the grammar's two files."""
        lexicon = yaml.safe_load((_HERE / "english.yaml").read_text("utf-8"))
        rules = PCFG.fromstring((_HERE / "english.pcfg").read_text("utf-8"))
        tags: dict[str, list[str]] = {tag: text.split() for tag, text in lexicon["words"].items()}
        for name, verbs in lexicon["verbs"].items():
            forms = zip(*(verb.split() for verb in verbs), strict=True)
            tags |= {f"{tag}/{name}": list(form) for tag, form in zip(_FORMS, forms, strict=True)}
        entries = [
            ProbabilisticProduction(Nonterminal(tag), [word], prob=1 / len(choices))
            for tag, choices in tags.items()
            for word in choices
        ]
        self.rules = PCFG(rules.start(), [*rules.productions(), *entries])
        """The whole grammar, with symbols such as ``NP/person`` in place of labels."""
        self._labels: dict[str, str] = lexicon["labels"]
        self._choices: dict[Nonterminal, list[ProbabilisticProduction]] = {}
        for production in self.rules.productions():
            self._choices.setdefault(production.lhs(), []).append(production)

    def draw(self, generator: random.Random) -> Tree:
        """Draw a tree of at most :data:`MAX_WORDS` words."""
        while True:
            [tree] = self._draw(self.rules.start(), generator)
            if len(words(tree)) <= MAX_WORDS:
                return tree

    def with_labels(self, derivation: Tree) -> Tree:
        """The tree of a derivation, whose nodes are symbols: what a parser of nltk finds with :attr:`rules`."""
        [tree] = self._with_labels(derivation)
        return tree

    def _draw(self, symbol: Nonterminal, generator: random.Random) -> list[Tree]:
        choices = self._choices[symbol]
        [choice] = generator.choices(choices, [production.prob() for production in choices])
        children: list[Tree | str] = []
        for part in choice.rhs():
            children += self._draw(part, generator) if isinstance(part, Nonterminal) else [part]
        return self._node(symbol.symbol(), children)

    def _with_labels(self, derivation: Tree) -> list[Tree]:
        children: list[Tree | str] = []
        for child in derivation:
            children += [child] if isinstance(child, str) else self._with_labels(child)
        return self._node(derivation.label(), children)

    def _node(self, symbol: str, children: list[Tree | str]) -> list[Tree | str]:
        """A node with the label of a symbol, or the children alone if the symbol leaves no bracket."""
        if symbol.startswith("_"):
            return children
        label = symbol.split("/")[0]
        return [Tree(self._labels.get(label, label), children)]


def draw_splits(seed: int, sizes: dict[str, int]) -> dict[str, list[Tree]]:
    """Trees for each split; no sentence occurs twice. The same seed and sizes give the same trees."""
    grammar, generator = Grammar(), random.Random(seed)
    seen: set[str] = set()
    splits: dict[str, list[Tree]] = {split: [] for split in sizes}
    for split in sorted(sizes, key=lambda name: sizes[name]):
        while len(splits[split]) < sizes[split]:
            tree = grammar.draw(generator)
            sentence = " ".join(step.word for step in words(tree))
            if sentence not in seen:
                seen.add(sentence)
                splits[split].append(tree)
    return splits
