"""Scores and comparisons of translations from Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field

from nmt.api.arguments import Paths, Texts, checked, several
from nmt.corpora.wrong_language import in_words, seems_to_be
from nmt.errors import ConfigError, DataError
from nmt.evaluation.differences.finding import Differences
from nmt.evaluation.metrics import (
    MetricName,
    TokenizerName,
    WordTokenizerName,
    check_counts,
    tokenizer_model,
    tokenizer_of,
)
from nmt.evaluation.score_sheet import ScoreSheet
from nmt.evaluation.scored_systems import ScoredSystems
from nmt.evaluation.text_checks import hypothesis_warnings, share_few_words, tokenizer_warnings
from nmt.io.hashing import sha256_of
from nmt.io.streams import refuse_second_stdin
from nmt.reporting import SILENT, Reporter
from nmt.reports.comparison_text import ComparedFiles
from nmt.text.languages import is_language_code, primary_language
from nmt.text.lines import can_be_read_again, read_lines

if TYPE_CHECKING:
    from nmt.corpora.download import Fetcher
    from nmt.data.manifest import Manifest
    from nmt.evaluation.differences.parallel_texts import ParallelTexts
    from nmt.record import Record

Metrics = Annotated[tuple[MetricName, ...], BeforeValidator(several)]
# Progress is shown after this many lines of training text.
_LINES = 10_000


@dataclass(frozen=True)
class Scored:
    """The scores of one or several systems."""

    found: ScoredSystems | ScoreSheet
    """The scores by the metrics that were asked for; with ``sheet``, all scores."""
    test_set: str | None
    langpair: str | None
    _files: dict[str, Any] = field(repr=False)
    """What :func:`nmt.lineage.scores.score_record` takes."""

    def record(self, written_to: Path | None = None) -> Record:
        """The lineage of the scores: files with the checksums that they had before they were read, options, the
        records of the translations.

        Args:
            written_to: the file that the scores are written to, if it is known.
        """
        from nmt.lineage.scores import score_record

        return score_record(**self._files, written_to=written_to)


@checked
def score(
    hypothesis: Paths,
    *,
    reference: Paths = (),
    source: Path | None = None,
    test_set: str | None = None,
    langpair: str | None = None,
    metric: Metrics = (),
    comet_model: Path | None = None,
    tokenize: TokenizerName | None = None,
    lowercase: bool = False,
    paper_bleu: bool = False,
    target_lang: str | None = None,
    cache: Path | None = None,
    mirror: Texts = (),
    offline: bool = False,
    sheet: bool = False,
    sentence_scores: bool = False,
    report: Reporter = SILENT,
) -> Scored:
    """Score files of translations: BLEU, chrF, chrF++ and TER by sacreBLEU, with its signatures; COMET.

    Several hypotheses are compared with the first, by paired bootstrap resampling.

    Args:
        hypothesis: a file with one translation per line, or several; ``-`` is standard input.
        reference: a file of reference translations, or several.
        source: the source text: for COMET, and to check the number of lines.
        test_set, langpair: a test set of sacreBLEU and its languages, in place of references.
        metric: ``bleu`` if none is given.
        comet_model: COMET's folder, or its ``model.ckpt``.
        tokenize: the tokeniser of BLEU; chosen by the language if not given.
        lowercase: ignore case; TER always does, COMET never does.
        paper_bleu: add BLEU as in the paper: tokenised, compounds split.
        target_lang: the language; that of the test set or of the reference's name if not given.
        cache: where test sets are kept.
        mirror: folders or URLs with the downloads, tried first.
        offline: use no network.
        sheet: all metrics, with confidence intervals and significance.
        sentence_scores: add the score of each sentence.
        report: hears warnings and progress.

    Raises:
        ConfigError: arguments contradict each other.
        DataError: a file cannot be read, or the numbers of lines differ.
        DownloadError: a test set could not be fetched.
        NmtError: a tokeniser or COMET is not installed.
    """
    from nmt.evaluation.comet import Comet
    from nmt.evaluation.score_sheet import score_sheet
    from nmt.evaluation.scored_systems import score_systems

    names = list[MetricName](dict.fromkeys(metric or ["bleu"]))
    if not hypothesis:
        raise ConfigError("hypothesis: give a file with one translation per line, or several.")
    if (test_set is None) == (not reference):
        raise ConfigError("give either --reference FILE or --test-set NAME with --langpair.")
    if sheet and (metric or paper_bleu or sentence_scores):
        raise ConfigError("--sheet has all metrics: leave --metric, --paper-bleu and --sentence-scores out.")
    if tokenize is not None and "bleu" not in names:
        raise ConfigError(f"--tokenize {tokenize}: only BLEU has tokenisers. Add --metric bleu, or leave it out.")
    if lowercase and not sheet and set(names) <= {"comet"}:
        raise ConfigError("--lowercase: COMET never ignores case. Add another metric, or leave it out.")
    by_comet = comet_model is not None if sheet else "comet" in names
    if comet_model is not None and not by_comet:
        raise ConfigError("--comet-model needs --metric comet or --sheet: no other score uses that model.")
    fetching = _Fetching(mirror, offline, report)
    checksums = _checksums([*hypothesis, *reference, *([] if source is None else [source])])
    texts = _texts(hypothesis, reference, source, test_set, langpair, fetching, cache)
    language = target_lang or texts.language
    _check(texts, by_comet, language, paper_bleu)
    _warn_of_texts(texts, target_lang, report)
    if tokenize is not None:
        fetching.fetch_tokenizer(tokenize)
    comet = Comet(comet_model, texts.source) if by_comet else None
    how: dict[str, Any] = {"tokenize": tokenize, "lowercase": lowercase, "target_lang": language}
    # The language is recorded also where a file's name says it: a command may name the file otherwise.
    options = {"sheet": sheet, "metric": [] if sheet else names, "paper_bleu": paper_bleu, **how}
    options |= {"test_set": test_set, "langpair": langpair}
    recorded = {
        "hypotheses": hypothesis,
        "references": reference,
        "checksums": checksums,
        "options": {name: value or None for name, value in options.items()},
        "source": source if by_comet else None,
        "comet_model": None if comet is None else (str(comet.weights), comet.sha256),
    }
    how["comet"] = comet
    if sheet:
        made = score_sheet(texts.systems, texts.references, references_name=texts.reference_names, **how)
        _warn_of_tokenizer(texts.references, made.signatures["BLEU"], report)
        return Scored(made, test_set, langpair, recorded)
    scored = score_systems(
        texts.systems,
        texts.references,
        names,
        paper_language=language if paper_bleu else None,
        with_sentences=sentence_scores,
        **how,
    )
    if "bleu" in names:
        _warn_of_tokenizer(texts.references, next(iter(scored.scores.values()))[names.index("bleu")].signature, report)
    return Scored(scored, test_set, langpair, recorded)


def _checksums(paths: Sequence[Path]) -> dict[Path, str]:
    """The sha256 of those files that can be read again. They are computed before the files are read, and may change."""
    found = {}
    for path in filter(can_be_read_again, paths):
        with suppress(OSError):  # it is named when it is read
            found[path] = sha256_of(path)
    return found


@dataclass(frozen=True)
class _Texts:
    """The lines that are scored, and those that they are compared with."""

    systems: dict[str, list[str]]
    references: list[list[str]]
    reference_names: str
    """What a sheet calls the references."""
    source: list[str] | None
    language: str
    """Of the test set or the reference; empty if it is unknown."""
    doubt: str = ""
    """What seems wrong with the choice of files."""


@dataclass(frozen=True)
class _Fetching:
    """How test sets and models of tokenisers are fetched."""

    mirrors: Sequence[str]
    offline: bool
    report: Reporter

    @contextmanager
    def to(self, cache: Path | None) -> Iterator[Fetcher]:
        """Fetch files into a cache, and show the progress."""
        from nmt.corpora.download import Fetcher

        with self.report.progress() as display:
            yield Fetcher(cache, self.mirrors, self.offline, progress=display("bytes"), notify=self.report.notice)

    def fetch_tokenizer(self, tokenizer: TokenizerName) -> None:
        """Bring the model that a tokeniser needs to where sacreBLEU looks for it."""
        from nmt.corpora.transfer import RemoteFile

        if (model := tokenizer_model(tokenizer)) is not None:
            url, path = model
            with self.to(None) as fetcher:
                fetcher.fetch(RemoteFile(url), path.parent)


def _texts(
    hypotheses: Paths,
    references: Paths,
    source: Path | None,
    test_set: str | None,
    langpair: str | None,
    fetching: _Fetching,
    cache: Path | None,
) -> _Texts:
    from nmt.corpora.testsets import fetch_test_set
    from nmt.evaluation.scored_systems import look_exchanged, reference_language

    refuse_second_stdin(*hypotheses, *references, source)
    if len(set(map(str, hypotheses))) < len(hypotheses):
        raise ConfigError("a hypothesis was given twice.")
    source_lines = None if source is None else list(read_lines(source))
    if test_set is None:
        read = [list(read_lines(path)) for path in references]
        names = ", ".join(map(str, references))
        language = langpair.partition("-")[2] if langpair is not None else reference_language(references[0])
    else:
        if langpair is None:
            raise ConfigError(f"--test-set {test_set} needs --langpair, for example --langpair en-de.")
        with fetching.to(cache) as fetcher:
            found = fetch_test_set(test_set, langpair, fetcher)
        read = found.references
        source_lines = found.source if source_lines is None else source_lines
        names, language = _named(test_set, langpair), langpair.partition("-")[2]
    systems = {str(path): list(read_lines(path)) for path in hypotheses}
    if source_lines is not None and len(source_lines) != len(read[0]):
        raise DataError(f"{source} has {len(source_lines):,} lines, but the reference has {len(read[0]):,}.")
    doubt = ""
    if look_exchanged(hypotheses, references):
        doubt = (
            f"are they exchanged? {', '.join(map(str, references))} is compared with as the reference, and "
            f"{', '.join(map(str, hypotheses))} is scored as the translation."
        )
    return _Texts(systems, read, names, source_lines, language, doubt)


def _check(texts: _Texts, by_comet: bool, language: str, paper_bleu: bool) -> None:
    """Refuse what cannot be scored."""
    if by_comet:
        from nmt.evaluation.comet import check_one_reference

        check_one_reference(len(texts.references))
    if paper_bleu and not language:
        raise ConfigError("--paper-bleu needs the language for its tokeniser: --target-lang.")
    for name, lines in texts.systems.items():
        check_counts(lines, texts.references, name=name if len(texts.systems) > 1 else "the hypothesis")


def _warn_of_texts(texts: _Texts, target_lang: str | None, report: Reporter) -> None:
    """Warn of what is scored in vain."""
    if texts.doubt:
        report.warn(texts.doubt)
    _warn_of_language(target_lang, report)
    for name, lines in texts.systems.items():
        _warn_of_hypothesis(lines, texts.references, name if len(texts.systems) > 1 else "", report)


def _warn_of_tokenizer(references: Sequence[Sequence[str]], signature: str, report: Reporter) -> None:
    for message in tokenizer_warnings(references, tokenizer_of(signature)):
        report.warn(message)


def _warn_of_language(target_lang: str | None, report: Reporter) -> None:
    """Warn if the language that was given, if any, is none."""
    if target_lang and not is_language_code(target_lang):
        report.warn(
            f"--target-lang {target_lang} is not a language code, such as de or pt_BR: the rules of no language are "
            "applied."
        )


def _warn_of_hypothesis(lines: Sequence[str], references: Sequence[Sequence[str]], name: str, report: Reporter) -> None:
    """Warn if a hypothesis looks wrong.

    Args:
        name: of one hypothesis of several.
    """
    messages = hypothesis_warnings(lines, references)
    # Loading the identifier takes longer than a score, and texts in one language share words.
    if share_few_words(lines, references[0]):
        expected = seems_to_be(references[0])
        if expected and (found := seems_to_be(lines, expected)):
            messages.append(
                f"the hypothesis looks like {in_words(found)}, but the reference like {in_words(expected)}."
            )
    for message in messages:
        report.warn(f"{name}: {message}" if name else message)


def _named(test_set: str, langpair: str) -> str:
    """What a sheet calls a test set; the two versions of newstest2014 are told apart."""
    version = {"wmt14/full": " (all of newstest2014, as in the paper)", "wmt14": " (newstest2014, filtered)"}
    return f"{test_set}, {langpair}{version.get(test_set, '')}"


@dataclass(frozen=True)
class Compared:
    """The differences between the translations of two systems."""

    found: Differences
    files: ComparedFiles


@checked
def compare(
    a: Path,
    b: Path,
    *,
    reference: Path,
    source: Path | None = None,
    data: Path | None = None,
    out: Path | None = None,
    samples: Annotated[int, Field(ge=0)] = 5,
    target_lang: str | None = None,
    tokenize: WordTokenizerName | None = None,
    report: Reporter = SILENT,
) -> Compared:
    """Compare the translations of two systems: where do they differ, and in what?

    Args:
        a, b: the translations, one per line; ``-`` is standard input.
        reference: reference translations.
        source: the source text, which adds names and copied words.
        data: a data set to count words in; the references if not given.
        out: a page to write, for a browser.
        samples: the number of sentences that are shown for each system.
        target_lang: the language; that of the reference's name, or of the data set, if not given.
        tokenize: the tokeniser; chosen by the language if not given.
        report: hears warnings and progress.

    Raises:
        ConfigError: a file was given twice.
        DataError: a file cannot be read, or the numbers of lines differ.
        OutputError: ``out`` is something that must not be replaced.
    """
    from nmt.data.manifest import read_manifest
    from nmt.evaluation.differences.finding import find_differences
    from nmt.evaluation.differences.parallel_texts import parallel_texts
    from nmt.evaluation.scored_systems import reference_language
    from nmt.reports.comparison_page import COMPARISON, write_comparison

    refuse_second_stdin(a, b, reference, source)
    if a == b:
        raise ConfigError(f"{a} was given twice: give the translations of two systems.")
    if out is not None:
        COMPARISON.check(out)
    _warn_of_language(target_lang, report)
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
        _warn_of_hypothesis(lines, [references], name, report)
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
