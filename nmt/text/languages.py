"""What a language code means: the language, its scripts, and whether it is written with spaces between words.

A code is a language of two or three letters, alone or with a script and a region: ``de``, ``deu``, ``pt_BR``,
``zh-Hant-TW``, ``zho_Hans``. Case does not matter, and ``_`` is as good as ``-``. In names of gettext, a script stands
behind an ``@``: ``sr@latin``.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt.text.compression import SUFFIXES


def _pairs(text: str) -> dict[str, str]:
    return dict(entry.split("=") for entry in text.split())


_TABLES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("languages.toml").read_text("utf-8"))
_CODES = _pairs(_TABLES["codes"])
_THREE_LETTERS = {alias: code for code, aliases in _CODES.items() for alias in aliases.split(",")}
_CANONICAL = _THREE_LETTERS | _pairs(_TABLES["withdrawn"])
_SCRIPT_OF_REGION, _SCRIPTS_OF_GETTEXT = _pairs(_TABLES["likely_scripts"]), _pairs(_TABLES["scripts_of_gettext"])
_LANGUAGES = {script: tuple(codes.split()) for script, codes in _TABLES["languages"].items()}
CHARACTERS_PER_WORD: dict[str, float] = _TABLES["characters_per_word"]
"""Scripts without spaces between words, each with the number of characters that translate one English word."""
_FULL_WIDTH = frozenset({"Bopo", "Hani", "Kana", "Yiii"})
_MACROLANGUAGES = {"nb": "no"}
_RIGHT_TO_LEFT = frozenset({"Arab", "Hebr", "Nkoo", "Thaa"})
_MAINLY_IN_ARABIC = frozenset({"ks", "sd", "ug"})

# What a code may look like. It becomes part of names of files, and of commands that people copy.
_WELL_FORMED = re.compile(r"[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*(@[A-Za-z]{1,16})?")
# A code at the end of a file name. There, script and region have capitals or are numbers.
_SUFFIX = re.compile(r"([a-z]{2,3})([-_][A-Z][a-z]{3})?([-_]([A-Za-z]{2}|[0-9]{3}))?(@[A-Za-z]+)?")
# Suffixes that are more often something else than Bashkir or Rundi.
_NO_LANGUAGES = frozenset({"bak", "run"})
# Longer strings are no codes, and are not cached.
_LONGEST = 100


@dataclass(frozen=True)
class _Code:
    """The parts of a language code; empty if they are not given."""

    language: str
    """Two letters if the language has such a code, otherwise three."""
    script: str
    region: str
    rest: tuple[str, ...]


def primary_language(code: str) -> str:
    """The language of a code without script and region, in two letters if possible: ``zh`` for ``zho_Hans``."""
    return _parts(code).language


def language_tag(code: str) -> str:
    """A code in the form of the web (BCP 47): ``zh-Hans`` for ``zho_Hans``, ``pt-BR`` for ``pt_br``."""
    parts = _parts(code)
    return "-".join(filter(None, (parts.language, parts.script, parts.region, *parts.rest)))


def name_of(code: str) -> str:
    """The English name of a language; of languages that few programs translate, the code."""
    language = primary_language(code)
    return _pairs(_TABLES["names"]).get(language, language)


@functools.lru_cache(maxsize=100)  # Asked for every line.
def is_unspaced(code: str) -> bool:
    """Whether a language is written without spaces between words; False for languages that are not known."""
    scripts = scripts_of(code)
    return bool(scripts) and CHARACTERS_PER_WORD.keys() >= set(scripts)


@functools.lru_cache(maxsize=100)
def is_full_width(code: str) -> bool:
    """Whether no spaces stand between sentences either, nor for the end of a line. Thai and Khmer have them there."""
    scripts = scripts_of(code)
    return bool(scripts) and set(scripts) <= _FULL_WIDTH


def direction(code: str) -> str:
    """In which direction a language is mainly written, as HTML names it: ``rtl`` or ``ltr``."""
    parts = _parts(code)
    main = _script(parts) or ("Arab" if parts.language in _MAINLY_IN_ARABIC else "")
    scripts = {main} if main else set(scripts_of(code))
    return "rtl" if scripts and scripts <= _RIGHT_TO_LEFT else "ltr"


@functools.lru_cache(maxsize=100)
def scripts_of(code: str) -> tuple[str, ...]:
    """The scripts of a language, or the one that the code names; empty if the language is not known."""
    parts = _parts(code)
    if parts.script in _LANGUAGES or parts.script in CHARACTERS_PER_WORD:
        return (parts.script,)
    if parts.script in _TABLES["variants"]:
        return tuple(_TABLES["variants"][parts.script].split())
    return tuple(script for script, languages in _LANGUAGES.items() if parts.language in languages)


def characters_of(scripts: Iterable[str]) -> str:
    """The characters of some scripts, as part of a set of the package ``regex``."""
    # The marks of long vowels and voiced consonants belong to both kana, so to neither as a script.
    kana = r"\p{Script=Hira}\p{Script=Kana}\u30fc\uff70\uff9e\uff9f"
    return "".join(kana if script == "Kana" else rf"\p{{Script={script}}}" for script in scripts)


UNSPACED = characters_of(CHARACTERS_PER_WORD)
"""The characters of scripts without spaces between words, as part of a set of the package ``regex``."""


def is_well_formed(code: str) -> bool:
    """Whether a text has the form of a language code, known or not."""
    return len(code) <= _LONGEST and _WELL_FORMED.fullmatch(code) is not None


def well_formed(code: str) -> str:
    """A language code, or no text if the language is not known, as it is: for settings and records.

    Raises:
        ValueError: it does not have the form of a code.
    """
    if code and not is_well_formed(code):
        raise ValueError("must be a language code such as en, pt-BR or sr@latin")
    return code


def is_language_code(code: str) -> bool:
    """Whether a code is a language code. Any three letters are accepted: most are the code of a language."""
    language = primary_language(code)
    return language in _CODES or (len(language) == 3 and language.isascii() and language.isalpha())


def language_of_country(code: str) -> str:
    """The language that someone means who types the code of its country, such as ``jp``; empty for other codes."""
    return _pairs(_TABLES["countries"]).get(code.lower(), "")


def language_of_name(path: Path) -> str:
    """The language code at the end of a file name, before ``.gz`` and the like; empty if there is none.

    Most combinations of three letters are the code of a language (src, tok, hyp). So three letters are taken for one
    only if that language also has a code of two letters, or if a script or a region follows.
    """
    suffix = (path.with_suffix("") if path.suffix in SUFFIXES else path).suffix.removeprefix(".")
    match = _SUFFIX.fullmatch(suffix)
    if match is None or suffix in _NO_LANGUAGES:
        return ""
    has_more = any(match.group(2, 3, 5))
    is_known = match[1] in _CODES or match[1] in _THREE_LETTERS or (len(match[1]) == 3 and has_more)
    return suffix if is_known else ""


def fitting(codes: Iterable[str], wanted: str) -> list[str]:
    """The codes that mean a language: those that are equal to its own; without such a code, those that fit.

    Two codes fit if they have the same language, and no different script or region. ``zh-TW`` has the script ``Hant``.
    Bokmål (``nb``) is what nearly all text in Norwegian (``no``) is.
    """
    if len(wanted) > _LONGEST:
        return []
    return list(_fitting(tuple(code for code in codes if len(code) <= _LONGEST), wanted))


@functools.lru_cache(maxsize=1_000)  # A translation memory asks at every segment.
def _fitting(codes: tuple[str, ...], wanted: str) -> tuple[str, ...]:
    ranks = [_rank(_parts(code), _parts(wanted)) for code in codes]
    best = max(ranks, default=0)
    return tuple(code for rank, code in zip(ranks, codes, strict=True) if rank == best > 0)


def _rank(found: _Code, wanted: _Code) -> int:
    """2 for equal codes, 1 for codes that fit, 0 for others."""
    both = [(_script(found), _script(wanted)), (found.region, wanted.region), (found.rest, wanted.rest)]
    languages = {_MACROLANGUAGES.get(code.language, code.language) for code in (found, wanted)}
    if len(languages) > 1 or any(ours != theirs and ours and theirs for ours, theirs in both):
        return 0
    return 1 + (found == wanted)


def _script(code: _Code) -> str:
    """The script of a code: its own, or the likely one of its region."""
    return code.script or _SCRIPT_OF_REGION.get(f"{code.language}-{code.region}", "")


@functools.lru_cache(maxsize=100)
def _parts(code: str) -> _Code:
    code, _, modifier = code.strip().replace("_", "-").partition("@")
    first, *others = code.split("-")
    if modifier:
        script = _SCRIPTS_OF_GETTEXT.get(modifier.lower())
        others = [script, *others] if script else [*others, modifier]
    language = first.lower()
    if language == "zh" and others and others[0].lower() in ("cmn", *_LANGUAGES["Hani"]):
        language = others.pop(0).lower()  # "zh-yue" is an old form of "yue".
    script = others.pop(0).title() if others and re.fullmatch("[A-Za-z]{4}", others[0]) else ""
    region = others.pop(0).upper() if others and re.fullmatch("[A-Za-z]{2}|[0-9]{3}", others[0]) else ""
    return _Code(_CANONICAL.get(language, language), script, region, tuple(part.lower() for part in others))
