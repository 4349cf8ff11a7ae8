"""The filter of sides in a script that their language does not use."""

from __future__ import annotations

import re
from collections.abc import Sequence

from nmt.corpora.filters.letters import beyond_ascii, count_letters
from nmt.corpora.filters.pair_filter import Finder, Pair
from nmt.text import primary_language

_RANGES = {
    "Latin": "A-Za-z\u00aa\u00ba\u00c0-\u02b8\u02e0-\u02e4\u1d00-\u1dbf\u1e00-\u1eff\u2c60-\u2c7f\ua720-\ua7ff"
    "\uab30-\uab6f\ufb00-\ufb06\uff21-\uff3a\uff41-\uff5a",
    "Greek": "\u0370-\u03ff\u1f00-\u1fff",
    "Cyrillic": "\u0400-\u052f\u1c80-\u1c8f\u2de0-\u2dff\ua640-\ua69f",
    "Armenian": "\u0530-\u058f\ufb13-\ufb17",
    "Hebrew": "\u0590-\u05ff\ufb1d-\ufb4f",
    "Arabic": "\u0600-\u06ff\u0750-\u077f\u0870-\u08ff\ufb50-\ufdff\ufe70-\ufefc",
    "Thaana": "\u0780-\u07bf",
    "Devanagari": "\u0900-\u097f\ua8e0-\ua8ff",
    "Bengali": "\u0980-\u09ff",
    "Gurmukhi": "\u0a00-\u0a7f",
    "Gujarati": "\u0a80-\u0aff",
    "Odia": "\u0b00-\u0b7f",
    "Tamil": "\u0b80-\u0bff",
    "Telugu": "\u0c00-\u0c7f",
    "Kannada": "\u0c80-\u0cff",
    "Malayalam": "\u0d00-\u0d7f",
    "Sinhala": "\u0d80-\u0dff",
    "Thai": "\u0e00-\u0e7f",
    "Lao": "\u0e80-\u0eff",
    "Tibetan": "\u0f00-\u0fff",
    "Burmese": "\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f",
    "Georgian": "\u10a0-\u10ff\u1c90-\u1cbf\u2d00-\u2d2f",
    "Hangul": "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff\uffa1-\uffdc",
    "Ethiopic": "\u1200-\u139f\u2d80-\u2ddf\uab00-\uab2f",
    "Khmer": "\u1780-\u17ff",
    "Mongolian": "\u1800-\u18af",
    "Kana": "\u3005\u3031-\u3035\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f\U0001b000-\U0001b16f",
    "Bopomofo": "\u02ea\u02eb\u3105-\u312f\u31a0-\u31bf",
    "Han": "\u3005-\u3007\u3021-\u3029\u3038-\u303b\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af",
}
"""The letters of each script, as ranges of a regular expression. They may include marks and digits."""

_LANGUAGES = {
    "Latin": "af ak ast az bi bm br bs ca ceb co crh cs cy da de ee en eo es et eu ff fi fil fj fo fr fy ga gd gl gn "
    "ha haw hmn hr ht hu id ig ilo io is it jv kk kl ku la lb lg li ln lt lv mg mi ms mt nb nds nl nn no nso ny oc om "
    "pap pl pt qu rm rn ro rw sc se sh sk sl sm sn so sq sr ss st su sv sw tet tk tl tn to tpi tr ts tt ty ug uz vi vo "
    "wa war wo xh yo za zu",
    "Greek": "el grc",
    "Cyrillic": "ab az ba be bg bs ce cv kk kv ky mk mn os ru sah sh sr tg tk tt udm ug uk uz",
    "Armenian": "hy",
    "Hebrew": "he iw yi",
    "Arabic": "ar arz az bal ckb fa glk ha kk ks ku ky lrc ms mzn pa pnb ps sd tg tk ug ur uz",
    "Thaana": "dv",
    "Devanagari": "awa bho gom hi kok ks mag mai mr ne new sa sd",
    "Bengali": "as bn bpy mni",
    "Gurmukhi": "pa",
    "Gujarati": "gu",
    "Odia": "or",
    "Tamil": "ta",
    "Telugu": "te",
    "Kannada": "kn",
    "Malayalam": "ml",
    "Sinhala": "si",
    "Thai": "th",
    "Lao": "lo",
    "Tibetan": "bo dz",
    "Burmese": "my shn",
    "Georgian": "ka xmf",
    "Hangul": "ko",
    "Ethiopic": "am ti",
    "Khmer": "km",
    "Mongolian": "mn",
    "Kana": "ja",
    "Bopomofo": "zh",
    "Han": "gan ja ko lzh wuu yue zh",
}
"""The languages of each script. A language may use several."""

_SUBTAGS = {
    "latn": ["Latin"], "cyrl": ["Cyrillic"], "arab": ["Arabic"], "deva": ["Devanagari"], "grek": ["Greek"],
    "hebr": ["Hebrew"], "beng": ["Bengali"], "guru": ["Gurmukhi"], "mong": ["Mongolian"], "hans": ["Han", "Bopomofo"],
    "hant": ["Han", "Bopomofo"], "tibt": ["Tibetan"],
}  # fmt: skip
"""The scripts that a language code may name, as in ``sr-Latn``."""


def other_script(source_lang: str, target_lang: str) -> Finder:
    """Find a side with more than half of its letters in scripts that its language does not use."""
    own = [_letters_of(scripts_of(language)) for language in (source_lang, target_lang)]

    def found(pair: Pair) -> bool:
        return any(
            letters is not None and _is_mostly_other(line, letters) for line, letters in zip(pair, own, strict=True)
        )

    return found


def scripts_of(language: str) -> list[str]:
    """The scripts of a language; empty if the language is unknown."""
    for part in language.replace("_", "-").lower().split("-")[1:]:
        if part in _SUBTAGS:
            return _SUBTAGS[part]
    code = primary_language(language)
    return [script for script, languages in _LANGUAGES.items() if code in languages.split()]


def _letters_of(scripts: Sequence[str]) -> re.Pattern[str] | None:
    """A pattern of runs of characters of these scripts; None for no scripts."""
    return re.compile(f"[{''.join(_RANGES[script] for script in scripts)}]+") if scripts else None


def _is_mostly_other(line: str, own: re.Pattern[str]) -> bool:
    # Of a language in Latin letters, no character of ASCII is foreign.
    foreign = count_letters(own.sub("", beyond_ascii(line) if own.match("a") else line))
    return foreign > 0 and 2 * foreign > count_letters(line)
