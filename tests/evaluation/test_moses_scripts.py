"""Tokens and punctuation are those of Moses' own scripts, line by line. The package mosestokenizer ships them."""

import gzip
import importlib.util
import os
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from sacremoses import MosesPunctNormalizer

from nmt.evaluation.paper_bleu import moses_tokenizer
from nmt.text.normalization import punctuation_normalizer

FOUND = importlib.util.find_spec("mosestokenizer")
SCRIPT = None if FOUND is None or FOUND.origin is None else Path(FOUND.origin).parent / "tokenizer-v1.1.perl"
pytestmark = pytest.mark.skipif(
    SCRIPT is None or shutil.which("perl") is None, reason="needs perl and the package mosestokenizer"
)
LINES = [
    "Der Zug nach Köln-Deutz fährt um 9:30 Uhr ab.", "Sie sagte: „Das ist – leider – nicht möglich.“",
    "Ein E-Mail-Konto kostet 3,50 € im Monat (z.B. bei Dr. Meier).", "«C'est l'été», dit-il ; qu'en pensez-vous ?",
    "Don't say 'it's the dogs' bone'!", "1,000.50 $ & <b>fett</b> | [eckig] 100% #1 @home",
    "U.S. officials, e.g. Mr. Smith Jr., met at 5 p.m. in St. Louis.", "...und dann... nichts…", "a/b und/oder c\\d",
    "  doppelte   Leerzeichen  ", "", "http://example.org/pfad?x=1&y=2", "日本語 и русский – gemischt",
    "Straße Nr. 5, 2. Stock", "한국어와 中文, ไทย",
]  # fmt: skip


def tokenised_by_moses(lines: list[str], language: str) -> list[str]:
    result = subprocess.run(
        ["perl", str(SCRIPT), "-q", "-l", language],
        input="\n".join(lines) + "\n", capture_output=True, text=True, encoding="utf-8", check=True,
    )  # fmt: skip
    return [line.strip() for line in result.stdout.split("\n")[: len(lines)]]


@pytest.mark.parametrize("language", ["en", "de", "cs", "fr", "ru"])
def test_punctuation_is_that_of_the_script(language):
    marks = "„“”’«»…–—´`''\"()%:;?!.,1 1\u00a0x\u00a0«\u00a0»\u00a0%٣\u3000<\u00ad"
    draw = random.Random(0)
    lines = [*LINES, *("".join(draw.choices(marks, k=draw.randint(0, 30))) for _ in range(300)), *of_multi30k(language)]
    lines = [line for line in lines if not {"‘", "‚"} & {*line}]  # the package's script is older than theirs (2019)
    assert SCRIPT is not None
    result = subprocess.run(
        ["perl", str(SCRIPT.with_name("normalize-punctuation.perl")), "-l", language],
        input="\n".join(lines) + "\n", capture_output=True, text=True, encoding="utf-8", check=True,
    )  # fmt: skip
    normalize = punctuation_normalizer(language, removes_control=False, as_perl=True)
    assert list(map(normalize, lines)) == result.stdout.split("\n")[:-1]


def of_multi30k(language: str) -> list[str]:
    folder = os.environ.get("NMT_TEST_DATA")
    if folder is None or language not in ("de", "en"):
        return []
    with gzip.open(Path(folder) / "multi30k-en-de" / f"val.{language}.gz", "rt", encoding="utf-8") as stream:
        return [line.rstrip("\n") for line in stream]


@pytest.mark.parametrize("language", ["de", "en", "fr"])
def test_tokens_are_those_of_moses_own_script(language):
    lines = LINES + of_multi30k(language)
    replace = MosesPunctNormalizer(lang=language).replace_unicode_punct  # the authors' step before
    tokenize = moses_tokenizer(language, splits_compounds=False)
    assert [tokenize(line) for line in lines] == tokenised_by_moses(list(map(replace, lines)), language)


def test_compounds_are_split_after_it():
    replaced = map(MosesPunctNormalizer(lang="de").replace_unicode_punct, LINES)
    expected = [re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", line) for line in tokenised_by_moses(list(replaced), "de")]
    tokenize = moses_tokenizer("de", splits_compounds=True)
    assert [tokenize(line) for line in LINES] == expected
