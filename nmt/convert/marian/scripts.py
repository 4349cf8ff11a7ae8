"""What the scripts of an OPUS-MT archive do to text, as steps.

``preprocess.sh`` pipes source text through sed, perl and Moses' programs to ``spm_encode``, to ``apply_bpe.py``, or to
nothing more where Marian itself segments; a tag may be added last. OPUS-MT-train has packed four kinds: with Moses'
punctuation (until February 2020), with Moses' table of marks alone, with that table in sed (since September 2020), and
with Moses' tokeniser before byte-pair codes. Scripts are read, never run.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from nmt.convert.marian.sed import adds_tag, steps_of_sed
from nmt.convert.marian.shell import EXPANDED, Command, Pipeline, pipelines
from nmt.text.languages import primary_language
from nmt.text.steps import Control, MosesPunctuation, MosesTokenize, Replace, Replacement, Step

Segmentation = Literal["SentencePiece", "codes"]
"""What makes pieces of words: ``spm_encode``, or ``apply_bpe.py`` of subword-nmt."""
_MARKS = zip(
    "，、”“∶：？《》）！（；１」「０３２５６９７８４～’━〈〉【】％…",
    [*',,""::?"")!(;"""032569784~\'-<>[]%', "..."],
    strict=True,
)
_MOSES_MARKS = Replace(
    table=(
        *(Replacement(text=stop, by=". ", with_spaces=True) for stop in "。．"),
        *(Replacement(text=mark, by=by) for mark, by in _MARKS),
    )
)
"""What ``replace-unicode-punctuation.perl`` of Moses did until October 2019, as did OPUS-MT's table in sed later: a
full-width 1 becomes a quotation mark."""
_JOINS = {("@@ ", ""), (" @@", ""), (" @-@ ", "-")}
"""What sed replaces in outputs, which joins the pieces of words: the decoding of codes and tokens does it too."""
_SILENT = frozenset({"[", "[[", "test", ":", "true", "cd", "exit", "export", "set", "shift"})
"""Commands that neither read nor write text."""
_ASSIGNMENT = re.compile(r"\w+=.*", re.DOTALL)
_SPM_ENCODE = re.compile(rf"{EXPANDED}?spm_?encode\}}?", re.IGNORECASE)
_INTERPRETERS = frozenset({"perl", "python", "python3"})
_CONTROL = ("s/\\p{C}/ /g;", "s/(?!\\n)\\p{C}/ /g;")
_REMOVED = re.compile(r"s/\[((?:\\x\{[0-9A-Fa-f]{1,5}\})+)\]//g;?")
"""A substitution of perl that removes characters."""
_OF_UTF8 = re.compile(r"-C[A-Z]* (?:-pe|-p -e)")
"""Options of perl for text in UTF-8."""
_LANGUAGE = {"-l": 1, "-q": 0, "-b": 0}
"""Option of Moses' programs -> the number of its values."""
_TOKENIZER = {**_LANGUAGE, "-a": 0, "-no-escape": 0, "-threads": 1, "-lines": 1, "-time": 0}
"""Those of its tokeniser that sacremoses has, or that change nothing."""

Meaning = list[Step] | Segmentation | Literal["tag"] | None
Program = Callable[[Sequence[str], str], Meaning]
"""What a command does to text, given its arguments and the language of the text; None if that is not known."""


@dataclass
class ScriptText:
    """What a script does to text."""

    steps: list[Step] = field(default_factory=list)
    """The language of a step is no text where the script's first argument names it, and it was not given."""
    segmentation: Segmentation | None = None
    """What makes pieces of text at last; None if nothing does."""
    unknown: list[tuple[int, str]] = field(default_factory=list)
    """The lines, counted from 1, and commands that are not known."""


def read_preprocessing(script: str, language: str) -> ScriptText:
    """What ``preprocess.sh`` does to source text.

    Args:
        language: the code of the source language; no text if it is not known.
    """
    return _read(script, _PREPROCESSING, language)


def read_postprocessing(script: str, language: str) -> ScriptText:
    """What ``postprocess.sh`` undoes in outputs of pieces that codes made, as steps of target text.

    Args:
        language: the code of the target language; no text if it is not known.
    """
    return _read(script, _POSTPROCESSING, language)


def _read(script: str, programs: Mapping[str, Program], language: str) -> ScriptText:
    """What a script does by its one pipeline, or by one in each branch of a condition: these must do the same."""
    found: list[tuple[Pipeline, ScriptText | None]] = []
    is_new_branch = True
    for pipeline in pipelines(script):
        is_new_branch |= pipeline.is_branch
        if len(pipeline.commands) > 1 or not _is_silent(pipeline.commands[0]):
            runs = is_new_branch and not (pipeline.before or pipeline.behind)
            found.append((pipeline, _text_of(pipeline, programs, language) if runs else None))
            is_new_branch = False
    texts = [text for _, text in found if text is not None]
    first = next((text for text in texts if text.segmentation is not None), texts[0] if texts else ScriptText())
    unknown = []
    for pipeline, text in found:
        if text is None or (text.steps, text.segmentation) != (first.steps, first.segmentation):
            unknown.append((pipeline.commands[0].line, pipeline.text))
        else:
            unknown += text.unknown
    return ScriptText(first.steps, first.segmentation, unknown)


def _is_silent(command: Command) -> bool:
    return command.words[:1] != [] and (command.words[0] in _SILENT or all(map(_ASSIGNMENT.fullmatch, command.words)))


def _text_of(pipeline: Pipeline, programs: Mapping[str, Program], language: str) -> ScriptText:
    """What a pipeline does to text. Behind the program that segments, there may be a tag before the pieces alone."""
    text, has_tag = ScriptText(), False
    for command in pipeline.commands:
        is_over = has_tag or text.segmentation is not None
        match _meaning(command, programs, language):
            case "tag" if not has_tag:
                has_tag = True
            case "SentencePiece" | "codes" as segmentation if not is_over:
                text.segmentation = segmentation
            case list(steps) if not (is_over and steps):
                text.steps += [step for step in steps if not (Control() in text.steps and _is_of_control(step))]
            case _:
                text.unknown.append((command.line, command.text))
    return text


def _is_of_control(step: Step) -> bool:
    """Whether a step replaces nothing but characters that the step for control characters does not leave."""
    texts = "".join(one.text for one in step.table) if isinstance(step, Replace) else " "
    return all(unicodedata.category(character)[0] == "C" for character in texts)


def _meaning(command: Command, programs: Mapping[str, Program], language: str) -> Meaning:
    words = command.words
    if len(words) > 1 and words[0] in _INTERPRETERS and not words[1].startswith("-"):
        words = words[1:]
    name = words[0].rpartition("/")[2] if words else ""
    program = programs.get("spm_encode" if _SPM_ENCODE.fullmatch(name) else name)
    return None if program is None else program(words[1:], language)


def _options(words: Sequence[str], known: Mapping[str, int]) -> dict[str, str] | None:
    """The options among arguments, with their values; None if there is another argument.

    Args:
        known: option -> the number of its values, 0 or 1.
    """
    found: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        name, separator, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if name not in known or (separator and not known[name]):
            return None
        found[name] = value if separator or not known[name] else next(rest, EXPANDED)
    return found


def _moses(
    words: Sequence[str], language: str, known: Mapping[str, int], step: Callable[[str, Mapping[str, str]], Step]
) -> list[Step] | None:
    """The step of a program of Moses, given its language and options. It takes text for English by default."""
    options = _options(words, known)
    named = "" if options is None else options.get("-l", "en").removesuffix("}")
    if options is None or (EXPANDED in named and named != f"{EXPANDED}1"):
        return None
    return [step(primary_language(language) if EXPANDED in named else named, options)]


def _normalize(words: Sequence[str], language: str) -> Meaning:
    words = ["-l", *words] if len(words) == 1 and not words[0].startswith("-") else words
    return _moses(
        words, language, _LANGUAGE, lambda code, _: MosesPunctuation(language=code, removes_control=False, as_perl=True)
    )


def _tokenize(words: Sequence[str], language: str) -> Meaning:
    return _moses(
        words,
        language,
        _TOKENIZER,
        lambda code, options: MosesTokenize(
            language=code, escapes="-no-escape" not in options, splits_dashes="-a" in options
        ),
    )


def _perl(words: Sequence[str], language: str) -> Meaning:
    """What a substitution does: of control characters by spaces, or of characters by nothing."""
    if not _OF_UTF8.fullmatch(" ".join(words[:-1])):
        return None
    if words[-1] in _CONTROL:
        return [Control()]
    if (removed := _REMOVED.fullmatch(words[-1])) is None:
        return None
    characters = (chr(int(code, 16)) for code in re.findall(r"\{(\w+)\}", removed[1]))
    return [Replace(table=tuple(Replacement(text=character, by="") for character in characters))]


def _sed(words: Sequence[str], language: str) -> Meaning:
    if adds_tag(words):
        return "tag"
    steps = steps_of_sed(words)
    return None if steps is None else [*steps]


def _join(words: Sequence[str], language: str) -> Meaning:
    """What sed does to outputs, if it is what the decoding of codes and tokens does as well."""
    steps = steps_of_sed(words)
    tables = [step.table if isinstance(step, Replace) else () for step in steps or ()]
    return [] if tables and all({(one.text, one.by) for one in table} <= _JOINS and table for table in tables) else None


def _only(meaning: Meaning, known: Mapping[str, int] = {}) -> Program:
    """A program that does the same with any of some options."""
    return lambda words, language: None if _options(words, known) is None else meaning


_PREPROCESSING: Mapping[str, Program] = {
    "cat": _only([]),
    "sed": _sed,
    "perl": _perl,
    "replace-unicode-punctuation.perl": _only([_MOSES_MARKS], _LANGUAGE),
    "remove-non-printing-char.perl": _only([Control()], _LANGUAGE),
    "normalize-punctuation.perl": _normalize,
    "tokenizer.perl": _tokenize,
    "spm_encode": _only("SentencePiece", {"--model": 1}),
    "apply_bpe.py": _only("codes", {"-c": 1, "--codes": 1}),
}
_POSTPROCESSING: Mapping[str, Program] = {
    "sed": _join,
    "detokenizer.perl": lambda words, language: _moses(
        words, language, _LANGUAGE, lambda code, _: MosesTokenize(language=code)
    ),
}
