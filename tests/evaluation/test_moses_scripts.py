"""The paper's tokens are those of Moses' own script, line by line. The package mosestokenizer ships the script."""

import gzip
import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from sacremoses import MosesPunctNormalizer

from nmt.evaluation.paper_bleu import moses_tokenizer

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


def of_multi30k(language: str) -> list[str]:
    folder = os.environ.get("NMT_TEST_DATA")
    if folder is None:
        return []
    with gzip.open(Path(folder) / "multi30k-en-de" / f"val.{language}.gz", "rt", encoding="utf-8") as stream:
        return [line.rstrip("\n") for line in stream]


@pytest.mark.parametrize("language", ["de", "en", "fr"])
def test_tokens_are_those_of_moses_own_script(language):
    lines = LINES + (of_multi30k(language) if language != "fr" else [])
    replace = MosesPunctNormalizer(lang=language).replace_unicode_punct  # the authors' step before
    tokenize = moses_tokenizer(language, splits_compounds=False)
    assert [tokenize(line) for line in lines] == tokenised_by_moses(list(map(replace, lines)), language)


def test_compounds_are_split_after_it():
    replaced = map(MosesPunctNormalizer(lang="de").replace_unicode_punct, LINES)
    expected = [re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", line) for line in tokenised_by_moses(list(replaced), "de")]
    tokenize = moses_tokenizer("de", splits_compounds=True)
    assert [tokenize(line) for line in LINES] == expected
