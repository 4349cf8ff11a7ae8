"""Comparisons of two systems' translations from Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from annotated_types import Ge

from nmt.api.arguments import checked
from nmt.errors import ConfigError
from nmt.evaluation.metrics import WordTokenizerName, tokenizer_of
from nmt.option_fields import SCORES, STREAMS, Argument, Option
from nmt.reporting import SILENT, Reporter

if TYPE_CHECKING:
    from nmt.data.manifest import Manifest
    from nmt.evaluation.differences.finding import Differences
    from nmt.evaluation.differences.parallel_texts import ParallelTexts
    from nmt.reports.comparison_text import ComparedFiles

# Progress is shown after this many lines of training text.
_LINES = 10_000


@dataclass(frozen=True)
class Compared:
    """The differences between the translations of two systems."""

    found: Differences
    files: ComparedFiles


@checked
def compare(
    a: Annotated[Path, Argument("Translations of system A; - is standard input.", metavar="A")],
    b: Annotated[Path, Argument("Translations of system B; - is standard input.", metavar="B")],
    *,
    reference: Annotated[Path, Option("Reference translations, one per line.", STREAMS, letter="r")],
    source: Annotated[Path | None, Option("Source text: adds names and copied words.", STREAMS)] = None,
    data: Annotated[Path | None, Option("Data set to count words in.", STREAMS, unset="the references")] = None,
    out: Annotated[
        Path | None,
        Option("Write a page instead of printing.", STREAMS, in_python="A page to write, for a browser.", letter="o"),
    ] = None,
    samples: Annotated[int, Ge(0), Option("Sentences shown for each system.", SCORES)] = 5,
    target_lang: Annotated[
        str | None,
        Option("Language of the translations.", SCORES, unset="reference's name, or data set", metavar="LANG"),
    ] = None,
    tokenize: Annotated[
        WordTokenizerName | None, Option("Tokeniser, as sacreBLEU names it.", SCORES, unset="by the language")
    ] = None,
    report: Reporter = SILENT,
) -> Compared:
    """Compare the translations of two systems: where do they differ, and in what?

    Args:
        own options: listed by ``help(nmt.compare)``.
        report: hears warnings and progress.

    Raises:
        ConfigError: a file was given twice.
        DataError: a file cannot be read, or the numbers of lines differ.
        OutputError: ``out`` is something that must not be replaced.
    """
    from nmt.api.text_warnings import warn_of_hypothesis, warn_of_languages
    from nmt.data.manifest import read_manifest
    from nmt.evaluation.differences.finding import find_differences
    from nmt.evaluation.differences.parallel_texts import parallel_texts
    from nmt.evaluation.scored_systems import reference_language
    from nmt.evaluation.text_checks import tokenizer_warnings
    from nmt.io.streams import refuse_second_stdin
    from nmt.reports.comparison_page import COMPARISON, write_comparison
    from nmt.reports.comparison_text import ComparedFiles
    from nmt.text.lines import read_lines

    refuse_second_stdin(a, b, reference, source)
    if a == b:
        raise ConfigError(f"{a} was given twice: give the translations of two systems.")
    if out is not None:
        COMPARISON.check(out)
    warn_of_languages([target_lang], report)
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
        frequencies = _frequencies(data, manifest, language, texts, report)
        found = find_differences(texts, frequencies, counted_in=f"the training data {data}", samples=samples)
    for name, lines in zip(names, (lines_a, lines_b), strict=True):
        warn_of_hypothesis(lines, [references], name, report)
    used = tokenizer_of(found.totals.metrics.records[0]["signature"])
    if tokenizer_warnings([references], used):
        report.warn(
            f"the tokeniser {used} does not split the script of the reference, so words cannot be counted. Name the "
            "language with --target-lang, or use --tokenize char."
        )
    files = ComparedFiles(
        names, str(reference), None if source is None else str(source), None if data is None else str(data)
    )
    if out is not None:
        write_comparison(found, files, out)
        report.notice(f"written: {out}")
    return Compared(found, files)


def _frequencies(data: Path, manifest: Manifest, language: str, texts: ParallelTexts, report: Reporter) -> Counter[str]:
    """How often the words of the texts occur in the training text of a data set, on the side with their language."""
    from nmt.data.data_folder import DataFolder
    from nmt.evaluation.differences.word_frequency import count_words
    from nmt.text.languages import primary_language
    from nmt.text.lines import read_lines

    sides = (manifest.target_lang, manifest.source_lang)
    side = next((side for side in sides if primary_language(side) == primary_language(language)), None)
    path = DataFolder(data).text("train", side or manifest.target_lang)
    if side is None:
        report.warn(
            f"{data} holds {' and '.join(sides)}, and the translations are in {language}: words are counted in {path}."
        )
    total = manifest.files[path.name].lines if path.name in manifest.files else None
    with report.progress() as display:
        update = display("lines")

        def lines() -> Iterator[str]:
            for number, line in enumerate(read_lines(path), start=1):
                if number % _LINES == 0:
                    update(f"counting words of {path}", number, total)
                yield line

        return count_words(lines(), texts)
