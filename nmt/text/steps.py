"""The text around a model as a value: the steps that lines go through before they become pieces, and back.

A model has a list of steps for each side (``data.source_text`` and ``data.target_text`` of its settings). Each step is
one class here: what it does to a line, what undoes that in an output, and its name in words. Whoever prepares text
applies the list, and knows no rule. A vocabulary segments what the last step gives.
"""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from nmt.text.languages import fitting
from nmt.text.lines import NormalizationRule
from nmt.text.normalization import nfc, punctuation_normalizer
from nmt.text.printable import counted

Rewrite = Callable[[str], str]
Choice = Literal["source", "target", "tag"]
"""What chooses an affix: the language of a side, or the tag of a data set."""
CHOICES: tuple[Choice, ...] = get_args(Choice)
_SPACES = re.compile(" +")
_TAG = re.compile("[A-Za-z][A-Za-z0-9_-]{0,31}")
_SPECIAL = frozenset({"s", "pad", "unk"})


class _Step(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    is_tokenizing: ClassVar[bool] = False
    """Whether its result is tokens and no longer text: sentences are split before it, and outputs are undone."""

    def rewrite(self) -> Rewrite:
        """What the step does to a line; nothing by default."""
        return str

    def undo(self) -> Rewrite | None:
        """What undoes the step in an output; None if nothing does or need."""
        return None


class Replacement(BaseModel):
    """Text that is replaced, with the spaces behind it if so wanted."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    text: str = Field(min_length=1)
    by: str
    with_spaces: bool = False


class _InOutputs(_Step):
    in_outputs: bool = False
    """Whether the step is done to outputs too."""


class Replace(_InOutputs):
    """Replaces text, one replacement after the other in the whole line."""

    step: Literal["replace"] = "replace"
    table: tuple[Replacement, ...]

    def rewrite(self) -> Rewrite:
        """As :meth:`_Step.rewrite`."""

        def replace(line: str) -> str:
            for one in self.table:
                if one.text in line:
                    first, *others = line.split(one.text)
                    line = one.by.join([first, *(rest.lstrip(" ") if one.with_spaces else rest for rest in others)])
            return line

        return replace

    def __str__(self) -> str:
        return counted(len(self.table), "replacement") + " of characters"


class Control(_Step):
    """Makes a space of each character of Unicode's category C: control, format, private use, unassigned."""

    step: Literal["control"] = "control"

    def rewrite(self) -> Rewrite:
        """As :meth:`_Step.rewrite`."""

        def replace(line: str) -> str:
            if line.isascii() and line.isprintable():
                return line
            return "".join(" " if unicodedata.category(character)[0] == "C" else character for character in line)

        return replace

    def __str__(self) -> str:
        return "control characters as spaces"


class Spaces(_InOutputs):
    """Makes one space of several, and drops those at the ends."""

    step: Literal["spaces"] = "spaces"
    drops_others: bool = False
    """Whether other white space at the ends is dropped too."""

    def rewrite(self) -> Rewrite:
        """As :meth:`_Step.rewrite`."""

        def collapse(line: str) -> str:
            return _SPACES.sub(" ", line).strip(None if self.drops_others else " ")

        return collapse

    def __str__(self) -> str:
        return "single spaces" + " without white space at the ends" * self.drops_others


class Nfc(_Step):
    """Unicode normal form C."""

    step: Literal["nfc"] = "nfc"

    def rewrite(self) -> Rewrite:
        """As :meth:`_Step.rewrite`."""
        return nfc

    def __str__(self) -> str:
        return "Unicode NFC"


class Nfkc(_Step):
    """Unicode normal form KC, which also replaces other forms of characters, such as ﬁ and full-width ones."""

    step: Literal["nfkc"] = "nfkc"

    def rewrite(self) -> Rewrite:
        """As :meth:`_Step.rewrite`."""
        return functools.partial(nfc, form="NFKC")

    def __str__(self) -> str:
        return "Unicode NFKC"


class MosesPunctuation(_Step):
    """Normalises punctuation as Moses' scripts do, and removes non-printing characters."""

    step: Literal["moses_punctuation"] = "moses_punctuation"
    language: str
    replaces_unicode: bool = False
    """Whether ``replace-unicode-punctuation.perl`` runs first."""
    removes_control: bool = True
    """Whether ``remove-non-printing-char.perl`` runs last."""
    as_perl: bool = False
    """Whether it does exactly what the scripts do, or what sacremoses makes of them."""

    def rewrite(self) -> Rewrite:
        """As :meth:`_Step.rewrite`."""
        return punctuation_normalizer(
            self.language,
            replaces_unicode=self.replaces_unicode,
            removes_control=self.removes_control,
            as_perl=self.as_perl,
        )

    def __str__(self) -> str:
        return "Moses' punctuation normalisation" + (" and replacing of Unicode marks" * self.replaces_unicode)


class SentencePieceRule(_Step):
    """Applies a rule of SentencePiece; spaces are left as they are."""

    step: Literal["sentencepiece_rule"] = "sentencepiece_rule"
    rule: NormalizationRule

    def rewrite(self) -> Rewrite:
        """As :meth:`_Step.rewrite`."""
        from sentencepiece import SentencePieceNormalizer

        rewrite: Rewrite = SentencePieceNormalizer(
            rule_name=self.rule, add_dummy_prefix=False, escape_whitespaces=False, remove_extra_whitespaces=False
        ).normalize
        return rewrite

    def __str__(self) -> str:
        return self.rule


class MosesTokenize(_Step):
    """Separates words and punctuation marks by spaces, as Moses' tokeniser does. Outputs are put together again."""

    step: Literal["moses_tokenize"] = "moses_tokenize"
    language: str
    escapes: bool = True
    """Whether characters such as & become entities of XML."""
    splits_dashes: bool = False
    """Whether a hyphen within a word becomes ``@-@``."""
    is_tokenizing: ClassVar[bool] = True

    def rewrite(self) -> Rewrite:
        """As :meth:`_Step.rewrite`."""
        from sacremoses import MosesTokenizer

        moses = MosesTokenizer(self.language)

        def tokenize(line: str) -> str:
            tokens: str = moses.tokenize(
                line, aggressive_dash_splits=self.splits_dashes, return_str=True, escape=self.escapes
            )
            return tokens

        return tokenize

    def undo(self) -> Rewrite:
        """As :meth:`_Step.undo`."""
        from sacremoses import MosesDetokenizer

        moses = MosesDetokenizer(self.language)

        def detokenize(line: str) -> str:
            text: str = moses.detokenize(line.split(), unescape=self.escapes)
            return text

        return detokenize

    def __str__(self) -> str:
        return f"Moses' tokeniser ({self.language})"


class Lowercase(_Step):
    """Makes lower case of all letters."""

    step: Literal["lowercase"] = "lowercase"
    is_tokenizing: ClassVar[bool] = True  # sentences are split where capitals begin them

    def rewrite(self) -> Rewrite:
        """As :meth:`_Step.rewrite`."""
        return str.lower

    def __str__(self) -> str:
        return "lower case"


def well_formed_tag(tag: str) -> str:
    """The tag of a data set, or no text for none, as it is: for settings and records.

    Raises:
        ValueError: its piece might be another one, such as ``<unk>``, ``<2de>`` or that of a byte (``<0x41>``).
    """
    if tag and (tag in _SPECIAL or not _TAG.fullmatch(tag)):
        raise ValueError("must be a word such as BT: a letter, then letters, digits, _ or -; not s, pad or unk")
    return tag


class Affix(_Step):
    """Adds a piece to those of a line: one for each language, or for each tag. In outputs it is no text."""

    step: Literal["affix"] = "affix"
    chosen_by: Choice
    pieces: dict[str, str]
    """The code of a language, or the tag -> its piece."""
    is_silent: bool = True
    """Whether no text becomes one of the pieces. Where a tag may stand in the text, a line that has one keeps it."""
    place: Literal["before", "behind"] = "before"
    """``before`` on the target's side is the first piece of each output, whatever the model finds likely."""

    def piece(self, choices: Mapping[Choice, str]) -> str | None:
        """The piece of the chosen language or tag; None if it has none, or several variants of the language do."""
        chosen = choices.get(self.chosen_by, "")
        if self.chosen_by == "tag":
            return self.pieces.get(chosen)
        found = fitting(self.pieces, chosen)
        return self.pieces[found[0]] if len(found) == 1 else None

    def __str__(self) -> str:
        shown = ", ".join(itertools.islice(self.pieces.values(), 3)) + " …" * (len(self.pieces) > 3)
        what = "tag" if self.chosen_by == "tag" else f"{self.chosen_by} language"
        return f"{self.place} the text, a piece for the {what} ({shown})"


Step = Annotated[
    Replace | Control | Spaces | Nfc | Nfkc | MosesPunctuation | SentencePieceRule | MosesTokenize | Lowercase | Affix,
    Field(discriminator="step"),
]
Steps = tuple[Step, ...]


@dataclass(frozen=True)
class TextSteps:
    """The steps of both sides."""

    source: Steps = ()
    target: Steps = ()

    @property
    def rule(self) -> NormalizationRule:
        """The rule of SentencePiece that is applied to source text."""
        return next((step.rule for step in self.source if isinstance(step, SentencePieceRule)), "identity")

    def affixes(self, chosen_by: Choice) -> list[Affix]:
        """The affixes that the language of a side, or the tag, chooses."""
        return [step for step in affixes((*self.source, *self.target)) if step.chosen_by == chosen_by]

    @property
    def names_languages(self) -> bool:
        """Whether text gets a piece for a language which no line can name itself."""
        return any(step.is_silent for step in (*self.affixes("source"), *self.affixes("target")))

    def codes(self, chosen_by: Choice) -> list[str]:
        """The codes of the languages that a side may have, or the tags; none that has no piece."""
        return list(dict.fromkeys(code for step in self.affixes(chosen_by) for code in step.pieces))

    @property
    def without_tags(self) -> TextSteps:
        """The steps without the tags that a line may have itself: those that other toolkits take too."""
        source, target = (
            tuple(step for step in steps if not isinstance(step, Affix) or step.is_silent)
            for steps in (self.source, self.target)
        )
        return TextSteps(source, target)

    @property
    def words(self) -> str:
        """What is done to source text, in words."""
        return ", ".join(map(str, self.source)) or "as it is"

    def with_rule(self, rule: NormalizationRule | None) -> TextSteps:
        """The steps with another rule for source text, last of those that give text; None changes nothing."""
        if rule is None or rule == self.rule:
            return self
        kept = [step for step in self.source if not isinstance(step, SentencePieceRule)]
        text = list(itertools.takewhile(_is_text, kept))
        added = [] if rule == "identity" else [SentencePieceRule(rule=rule)]
        return TextSteps((*text, *added, *kept[len(text) :]), self.target)

    def composed(self, *, source: bool, target: bool) -> TextSteps:
        """The steps after NFC, on the sides that are to be composed."""
        first = Nfc()
        return TextSteps(
            (first, *self.source) if source and first not in self.source else self.source,
            (first, *self.target) if target and first not in self.target else self.target,
        )

    def include(self, others: TextSteps) -> bool:
        """Whether these steps do what others do, in their order, and no other rule.

        NFC does not count: a text may be composed already.
        """
        return self.rule == others.rule and all(
            [step for step in mine if step in theirs and not isinstance(step, Nfc)]
            == [step for step in theirs if not isinstance(step, Nfc)]
            for mine, theirs in ((self.source, others.source), (self.target, others.target))
        )

    def after(self, recipe: Steps) -> TextSteps:
        """All that is done to text: the steps of a recipe to source text first, but those that are among these."""
        return TextSteps((*(step for step in recipe if step not in self.source), *self.source), self.target)


NO_STEPS = TextSteps()


def normalizer(steps: Sequence[Step]) -> Rewrite:
    """The steps before the first that tokenises, as one function: its result is still text."""
    return _chain([step.rewrite() for step in itertools.takewhile(_is_text, steps) if not isinstance(step, Affix)])


def tokenizer(steps: Sequence[Step]) -> tuple[Rewrite, Rewrite]:
    """The steps from the first that tokenises on, as one function; and what is done to an output, which undoes them."""
    tokenizing = [step for step in itertools.dropwhile(_is_text, steps) if not isinstance(step, Affix)]
    undone = [undo for step in reversed(tokenizing) if (undo := step.undo()) is not None]
    done = [step.rewrite() for step in steps if isinstance(step, _InOutputs) and step.in_outputs]
    return _chain([step.rewrite() for step in tokenizing]), _chain([*undone, *done])


def affixes(steps: Iterable[Step]) -> list[Affix]:
    """The affixes of a side."""
    return [step for step in steps if isinstance(step, Affix)]


def _is_text(step: Step) -> bool:
    return not step.is_tokenizing


def _chain(rewrites: Sequence[Rewrite]) -> Rewrite:
    if len(rewrites) < 2:
        return rewrites[0] if rewrites else str

    def rewrite(line: str) -> str:
        for one in rewrites:
            line = one(line)
        return line

    return rewrite
