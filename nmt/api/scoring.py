"""Scores of translations from Python."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from nmt.api.arguments import MIRROR, OFFLINE, Before, Paths, Texts, checked, several
from nmt.errors import ConfigError, DataError
from nmt.evaluation.metrics import MetricName, TokenizerName, check_counts, tokenizer_model, tokenizer_of
from nmt.option_fields import DOWNLOADS, FORMAT, SCORES, STREAMS, Argument, Option
from nmt.reporting import SILENT, Reporter
from nmt.text.printable import counted

if TYPE_CHECKING:
    from nmt.corpora.download import Fetcher
    from nmt.evaluation.robustness import RobustnessSheet
    from nmt.evaluation.score_sheet import ScoreSheet
    from nmt.evaluation.scored_systems import ScoredSystems
    from nmt.record import Record

Metrics = Annotated[tuple[MetricName, ...], Before(several)]


@dataclass(frozen=True)
class Scored:
    """The scores of one or several systems."""

    found: ScoredSystems | ScoreSheet | RobustnessSheet
    """The scores by the metrics that were asked for; with ``sheet``, all scores; with ``robustness``, those of the
    variants."""
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
    hypothesis: Annotated[
        Paths, Argument("Translations, one per line; - is standard input.", metavar="HYPOTHESIS")
    ] = (),
    *,
    reference: Annotated[Paths, Option("Reference translations; may be repeated.", STREAMS, letter="r")] = (),
    source: Annotated[Path | None, Option("Source text: for COMET, and to check the number of lines.", STREAMS)] = None,
    test_set: Annotated[
        str | None, Option("A test set of sacreBLEU, such as wmt14/full.", STREAMS, metavar="NAME")
    ] = None,
    langpair: Annotated[
        str | None, Option("Languages of the test set, such as en-de.", STREAMS, metavar="PAIR")
    ] = None,
    metric: Annotated[Metrics, Option("Metric; may be repeated.", SCORES, unset="bleu")] = (),
    comet_model: Annotated[Path | None, Option("Model of COMET: its folder, or model.ckpt.", SCORES)] = None,
    tokenize: Annotated[
        TokenizerName | None, Option("Tokeniser of BLEU, as sacreBLEU names it.", SCORES, unset="by the language")
    ] = None,
    lowercase: Annotated[bool, Option("Compare without case; TER always does.", SCORES)] = False,
    paper_bleu: Annotated[bool, Option("Add BLEU as in the paper: tokenised, compounds split.", SCORES)] = False,
    robustness: Annotated[
        Path | None,
        Option("Translate variants of the source by a model: capitals, typos, ...", SCORES, metavar="MODEL"),
    ] = None,
    target_lang: Annotated[
        str | None,
        Option(
            "Language of the translations: de, pt_BR.",
            SCORES,
            unset="of the test set, or the reference's name",
            metavar="LANG",
        ),
    ] = None,
    cache: Annotated[Path | None, Option("Where test sets are kept.", DOWNLOADS, unset="sacreBLEU's folder")] = None,
    mirror: Annotated[Texts, MIRROR] = (),
    offline: Annotated[bool, OFFLINE] = False,
    sheet: Annotated[bool, Option("All metrics, confidence intervals and significance.", FORMAT)] = False,
    sentence_scores: Annotated[
        bool, Option("Add the score of each sentence to the JSON.", FORMAT, in_python="Add the score of each sentence.")
    ] = False,
    report: Reporter = SILENT,
) -> Scored:
    """Score translations: BLEU, chrF, chrF++ and TER by sacreBLEU, with its signatures; COMET.

    Several hypotheses are compared with the first, by paired bootstrap resampling.

    Args:
        own options: listed by ``help(nmt.score)``.
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
    if robustness is not None:
        _refuse_beside_robustness(hypothesis, names, sheet or paper_bleu or sentence_scores)
    elif not hypothesis:
        raise ConfigError(
            "hypothesis: give a file with one translation per line, or several; or a model with --robustness."
        )
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
    if robustness is not None:
        variants, bundle = _robustness(robustness, texts, names[0], report, **how)
        return Scored(variants, test_set, langpair, recorded | {"source": source, "translated_by": bundle})
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


def _refuse_beside_robustness(hypothesis: Paths, names: Sequence[MetricName], asks_others: bool) -> None:
    if hypothesis:
        raise ConfigError("--robustness translates the source itself: leave the hypotheses out.")
    if asks_others or len(names) > 1 or "comet" in names:
        raise ConfigError("--robustness is scored by one --metric: bleu, chrf, chrf++ or ter. Leave other scores out.")


def _robustness(
    named: Path, texts: _Texts, metric: MetricName, report: Reporter, *, target_lang: str, **how: Any
) -> tuple[RobustnessSheet, Path]:
    """The scores of the variants of a test set, and the bundle that translated them."""
    from nmt.api.model import load
    from nmt.evaluation.robustness import robustness_sheet
    from nmt.loading import NamedModels

    if texts.source is None:
        raise ConfigError("--robustness needs the source of the references: --source FILE.")
    if len(texts.references) > 1:
        raise ConfigError("--robustness changes a reference as it changes its source: give one reference.")
    models = NamedModels.of([named], "torch")
    for notice in models.notices:
        report.notice(notice)
    [bundle] = models.folders
    model = load(bundle)

    languages = (model.source_lang, target_lang or model.target_lang)
    with report.progress() as display:
        update = display("lines")

        def translate(variant: str, lines: Sequence[str]) -> list[tuple[str, Sequence[str]]]:
            outputs: list[tuple[str, Sequence[str]]] = []
            for done, found in enumerate(model.stream(lines), start=1):
                remaining = () if found.guard is None or found.guard.repaired else found.guard.problems
                outputs.append((found.text, remaining))
                update(variant, done, len(lines))
            return outputs

        return robustness_sheet(translate, texts.source, texts.references[0], languages, metric, **how), bundle


def _checksums(paths: Sequence[Path]) -> dict[Path, str]:
    """The sha256 of those files that can be read again. They are computed before the files are read, and may change."""
    from nmt.io.hashing import sha256_of
    from nmt.text.lines import can_be_read_again

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
    from nmt.evaluation.scored_systems import reference_language
    from nmt.io.streams import refuse_second_stdin
    from nmt.text.lines import read_lines

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
        raise DataError(f"{source} has {counted(len(source_lines), 'line')}, but the reference has {len(read[0]):,}.")
    return _Texts(systems, read, names, source_lines, language)


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
    from nmt.api.text_warnings import warn_of_hypothesis, warn_of_languages

    warn_of_languages([target_lang], report)
    for name, lines in texts.systems.items():
        warn_of_hypothesis(lines, texts.references, name if len(texts.systems) > 1 else "", report)


def _warn_of_tokenizer(references: Sequence[Sequence[str]], signature: str, report: Reporter) -> None:
    from nmt.evaluation.text_checks import tokenizer_warnings

    for message in tokenizer_warnings(references, tokenizer_of(signature)):
        report.warn(message)


def _named(test_set: str, langpair: str) -> str:
    """What a sheet calls a test set; the two versions of newstest2014 are told apart."""
    version = {"wmt14/full": " (all of newstest2014, as in the paper)", "wmt14": " (newstest2014, filtered)"}
    return f"{test_set}, {langpair}{version.get(test_set, '')}"
