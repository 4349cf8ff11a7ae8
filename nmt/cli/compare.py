"""``nmt compare``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nmt.cli.console import notice, warn, write_stdout
from nmt.cli.options import option, refuse_second_stdin
from nmt.cli.progress_lines import progress_display
from nmt.cli.score import warn_of_hypothesis, warn_of_language
from nmt.data.data_folder import DataFolder
from nmt.errors import ConfigError
from nmt.evaluation.metrics import WordTokenizerName, tokenizer_of
from nmt.evaluation.text_checks import tokenizer_warnings
from nmt.option_fields import STREAMS
from nmt.text.languages import primary_language
from nmt.text.lines import read_lines

if TYPE_CHECKING:
    from nmt.data.manifest import Manifest
    from nmt.evaluation.differences.parallel_texts import ParallelTexts

# Progress is shown after this many lines of training text.
_LINES = 10_000


def compare(
    a: Annotated[Path, typer.Argument(metavar="A", help="Translations of system A; - is standard input.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="Translations of system B; - is standard input.")],
    reference: Annotated[Path, option("Reference translations, one per line.", group=STREAMS)],
    source: Annotated[Path | None, option("Source text: adds names and copied words.", group=STREAMS)] = None,
    data: Annotated[Path | None, option("Data set to count words in.  [the references]", group=STREAMS)] = None,
    out: Annotated[Path | None, option("Write a page instead of printing.", "-o", "--out", group=STREAMS)] = None,
    as_json: Annotated[bool, option("Print JSON.", "--json", group=STREAMS)] = False,
    samples: Annotated[int, option("Sentences shown for each system.  [5]", min=0)] = 5,
    target_lang: Annotated[
        str | None, option("Language of the translations.  [reference's name, or data set]", metavar="LANG")
    ] = None,
    tokenize: Annotated[
        WordTokenizerName | None,
        option("Tokeniser, as sacreBLEU names it.  [by the language]"),
    ] = None,
) -> None:
    """Compare the translations of two systems: where do they differ, and in what?

    Shows scores with the significance of their difference, BLEU by sentence length, rare and frequent words, numbers,
    names, lengths, n-grams, and the sentences that changed most.

    Example: nmt compare base.de new.de --reference test.de --source test.en --out comparison.html
    """
    from nmt.data.manifest import read_manifest
    from nmt.evaluation.differences.finding import find_differences
    from nmt.evaluation.differences.parallel_texts import parallel_texts
    from nmt.evaluation.scored_systems import reference_language
    from nmt.reports.comparison_page import COMPARISON, write_comparison
    from nmt.reports.comparison_text import ComparedFiles, comparison_json, comparison_text

    if as_json and out is not None:
        raise ConfigError(f"--json prints, and --out {out} writes: give one.")
    _check_files(a, b, reference, source)
    if out is not None:
        COMPARISON.check(out)
    warn_of_language(target_lang)
    manifest = None if data is None else read_manifest(data)
    language = target_lang or reference_language(reference) or ("" if manifest is None else manifest.target_lang)
    lines_a, lines_b, references = (list(read_lines(path)) for path in (a, b, reference))
    sources, names = None if source is None else list(read_lines(source)), (str(a), str(b))
    texts = parallel_texts(
        (lines_a, lines_b), references, sources, target_lang=language, tokenize=tokenize, names=names
    )
    if data is None or manifest is None:
        found = find_differences(texts, samples=samples)
    else:
        frequencies = _frequencies(data, manifest, language, texts)
        found = find_differences(texts, frequencies, counted_in=f"the training data {data}", samples=samples)
    _warn({a: lines_a, b: lines_b}, references, found.totals.metrics.records[0]["signature"])
    files = ComparedFiles(
        names, str(reference), None if source is None else str(source), None if data is None else str(data)
    )
    if out is not None:
        write_comparison(found, files, out)
        notice(f"written: {out}")
    else:
        write_stdout((comparison_json if as_json else comparison_text)(found, files))


def _check_files(a: Path, b: Path, reference: Path, source: Path | None) -> None:
    refuse_second_stdin(a, b, reference, source)
    if a == b:
        raise ConfigError(f"{a} was given twice: give the translations of two systems.")


def _warn(systems: Mapping[Path, list[str]], references: list[str], signature: str) -> None:
    """Warn of texts whose comparison says little."""
    for path, lines in systems.items():
        warn_of_hypothesis(lines, [references], str(path))
    used = tokenizer_of(signature)
    if tokenizer_warnings([references], used):
        warn(
            f"the tokeniser {used} does not split the script of the reference, so words cannot be counted. Name the "
            "language with --target-lang, or use --tokenize char."
        )


def _frequencies(data: Path, manifest: Manifest, language: str, texts: ParallelTexts) -> Counter[str]:
    """How often the words of the texts occur in the training text of a data set, on the side with their language."""
    from nmt.evaluation.differences.word_frequency import count_words

    sides = (manifest.target_lang, manifest.source_lang)
    side = next((side for side in sides if primary_language(side) == primary_language(language)), None)
    path = DataFolder(data).text("train", side or manifest.target_lang)
    if side is None:
        warn(
            f"{data} holds {' and '.join(sides)}, and the translations are in {language}: words are counted in {path}."
        )
    total = manifest.files[path.name].lines if path.name in manifest.files else None
    with progress_display() as display:
        update = display("lines")

        def lines() -> Iterator[str]:
            for number, line in enumerate(read_lines(path), start=1):
                if number % _LINES == 0:
                    update(f"counting words of {path}", number, total)
                yield line

        return count_words(lines(), texts)
