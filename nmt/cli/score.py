"""``nmt score``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from nmt.cli.console import file_of_stdout, notice, warn, write_stdout
from nmt.cli.options import Mirrors, Offline, option, refuse_second_stdin
from nmt.cli.progress_lines import progress_display
from nmt.corpora.wrong_language import in_words, seems_to_be
from nmt.errors import ConfigError, DataError
from nmt.evaluation.metrics import MetricName, TokenizerName, check_counts, tokenizer_model, tokenizer_of
from nmt.evaluation.text_checks import hypothesis_warnings, share_few_words, tokenizer_warnings
from nmt.text.languages import is_language_code
from nmt.text.lines import read_lines

if TYPE_CHECKING:
    from nmt.corpora.download import Fetcher
    from nmt.evaluation.comet import Comet


FormName = Literal["text", "json", "markdown", "latex"]


def score(
    hypothesis: Annotated[
        list[Path], typer.Argument(metavar="HYPOTHESIS", help="Translations, one per line; - is standard input.")
    ],
    reference: Annotated[list[Path] | None, option("Reference translations; may be repeated.")] = None,
    source: Annotated[Path | None, option("Source text: for COMET, and to check the lines.")] = None,
    test_set: Annotated[str | None, option("A test set of sacreBLEU, such as wmt14/full.", metavar="NAME")] = None,
    langpair: Annotated[str | None, option("Languages of the test set, such as en-de.", metavar="PAIR")] = None,
    metric: Annotated[list[MetricName] | None, option("Metric; may be repeated.  [bleu]")] = None,
    comet_model: Annotated[Path | None, option("Model of COMET: its folder, or model.ckpt.")] = None,
    tokenize: Annotated[
        TokenizerName | None,
        option("Tokeniser of BLEU, as sacreBLEU names it.  [by the language]"),
    ] = None,
    lowercase: Annotated[bool, option("Compare without case; TER always does.")] = False,
    paper_bleu: Annotated[bool, option("Add BLEU as in the paper: tokenised, compounds split.")] = False,
    target_lang: Annotated[
        str | None,
        option("Language of the translations: de, pt_BR.  [of the test set, or the reference's name]", metavar="LANG"),
    ] = None,
    cache: Annotated[Path | None, option("Where test sets are kept.  [sacreBLEU's folder]")] = None,
    mirror: Mirrors = None,
    offline: Offline = False,
    sheet: Annotated[bool, option("All metrics, confidence intervals and significance.")] = False,
    form: Annotated[FormName | None, option("Output; markdown and latex mean --sheet.  [text]", "--format")] = None,
    as_json: Annotated[bool, option("Print JSON.", "--json")] = False,
    with_sentences: Annotated[bool, option("Add the score of each sentence to the JSON.", "--sentence-scores")] = False,
) -> None:
    """Score translations: BLEU, chrF, chrF++ and TER by sacreBLEU, with its signatures; COMET.

    Several hypotheses are compared with the first, by paired bootstrap resampling.

    Example: nmt translate < test.en | nmt score --reference test.de -
    """
    from nmt.evaluation.comet import Comet

    names = list[MetricName](dict.fromkeys(metric or ["bleu"]))
    if (test_set is None) == (not reference):
        raise ConfigError("give either --reference FILE or --test-set NAME with --langpair.")
    chosen_form, sheet = _form(form, as_json, sheet)
    if sheet and (metric or paper_bleu or with_sentences):
        raise ConfigError("--sheet has all metrics: leave --metric, --paper-bleu and --sentence-scores out.")
    if with_sentences and chosen_form != "json":
        raise ConfigError("--sentence-scores needs --json: the scores of sentences are printed in JSON alone.")
    _check_metrics(names, tokenize, lowercase=lowercase and not sheet)
    by_comet = comet_model is not None if sheet else "comet" in names
    if comet_model is not None and not by_comet:
        raise ConfigError("--comet-model needs --metric comet or --sheet: no other score uses that model.")
    fetch = partial(_fetch, mirrors=mirror or [], offline=offline)
    texts = _texts(hypothesis, reference or [], source, test_set, langpair, partial(fetch, cache))
    _check(texts, by_comet, target_lang, paper_bleu)
    if tokenize is not None:
        _fetch_tokenizer(tokenize, fetch)
    language = target_lang or texts.language
    comet = Comet(comet_model, texts.source) if by_comet else None
    how: dict[str, Any] = {"tokenize": tokenize, "lowercase": lowercase, "target_lang": language}
    record: dict[str, Any] = {"test_set": test_set, "langpair": langpair}
    if chosen_form == "json":
        options = {"sheet": sheet, "metric": [] if sheet else names, "paper_bleu": paper_bleu, **how, **record}
        record["lineage"] = _lineage(texts, reference or [], source if by_comet else None, options, comet)
    how["comet"] = comet
    if sheet:
        _print_sheet(texts, record, chosen_form, how)
    else:
        how |= {"paper_language": language if paper_bleu else None, "with_sentences": with_sentences}
        _print_scores(texts, names, record, chosen_form, how)


@dataclass(frozen=True)
class _Texts:
    """The lines that are scored, and those that they are compared with."""

    files: Sequence[Path]
    """The hypotheses."""
    systems: dict[str, list[str]]
    references: list[list[str]]
    reference_names: str
    """What a sheet calls the references."""
    source: list[str] | None
    language: str
    """Of the test set or the reference; empty if it is unknown."""


def _form(form: FormName | None, as_json: bool, sheet: bool) -> tuple[FormName, bool]:
    """The form of the output, and whether it is that of a sheet."""
    if as_json and form not in (None, "json"):
        raise ConfigError(f"--json and --format {form} exclude each other.")
    form = "json" if as_json else form or "text"
    return form, sheet or form in ("markdown", "latex")


def _check_metrics(names: Sequence[str], tokenize: str | None, *, lowercase: bool) -> None:
    if tokenize is not None and "bleu" not in names:
        raise ConfigError(f"--tokenize {tokenize}: only BLEU has tokenisers. Add --metric bleu, or leave it out.")
    if lowercase and set(names) <= {"comet"}:
        raise ConfigError("--lowercase: COMET never ignores case. Add another metric, or leave it out.")


def _texts(
    hypotheses: Sequence[Path],
    references: Sequence[Path],
    source: Path | None,
    test_set: str | None,
    langpair: str | None,
    fetching: Callable[[], AbstractContextManager[Fetcher]],
) -> _Texts:
    from nmt.corpora.testsets import fetch_test_set
    from nmt.evaluation.scored_systems import look_exchanged, reference_language

    refuse_second_stdin(*hypotheses, *references, source)
    if len({str(path) for path in hypotheses}) < len(hypotheses):
        raise ConfigError("a hypothesis was given twice.")
    source_lines = None if source is None else list(read_lines(source))
    if test_set is None:
        read = [list(read_lines(path)) for path in references]
        names = ", ".join(map(str, references))
        language = langpair.partition("-")[2] if langpair is not None else reference_language(references[0])
    else:
        if langpair is None:
            raise ConfigError(f"--test-set {test_set} needs --langpair, for example --langpair en-de.")
        with fetching() as fetcher:
            found = fetch_test_set(test_set, langpair, fetcher)
        read = found.references
        source_lines = found.source if source_lines is None else source_lines
        names, language = _named(test_set, langpair), langpair.partition("-")[2]
    systems = {str(path): list(read_lines(path)) for path in hypotheses}
    if source_lines is not None and len(source_lines) != len(read[0]):
        raise DataError(f"{source} has {len(source_lines):,} lines, but the reference has {len(read[0]):,}.")
    if look_exchanged(hypotheses, references):
        warn(
            f"are they exchanged? {', '.join(map(str, references))} is compared with as the reference, and "
            f"{', '.join(map(str, hypotheses))} is scored as the translation."
        )
    return _Texts(hypotheses, systems, read, names, source_lines, language)


def _check(texts: _Texts, by_comet: bool, target_lang: str | None, paper_bleu: bool) -> None:
    """Refuse what cannot be scored, and warn of what is scored in vain."""
    if by_comet:
        from nmt.evaluation.comet import check_one_reference

        check_one_reference(len(texts.references))
    warn_of_language(target_lang)
    if paper_bleu and not (target_lang or texts.language):
        raise ConfigError("--paper-bleu needs the language for its tokeniser: --target-lang.")
    several = len(texts.systems) > 1
    for name, lines in texts.systems.items():
        check_counts(lines, texts.references, name=name if several else "the hypothesis")
        warn_of_hypothesis(lines, texts.references, name if several else "")


def _lineage(
    texts: _Texts,
    references: Sequence[Path],
    source: Path | None,
    options: Mapping[str, Any],
    comet: Comet | None,
) -> dict[str, Any]:
    # The import loads torch, which takes longer than a score.
    from nmt.lineage.scores import score_record

    # The language is recorded also where a file's name says it: a script may name the file otherwise.
    options = {name: value or None for name, value in options.items()}
    model = None if comet is None else (str(comet.weights), comet.sha256)
    place = file_of_stdout()
    return score_record(texts.files, references, options, source=source, comet_model=model, written_to=place).stored()


def _print_sheet(texts: _Texts, record: dict[str, Any], form: FormName, how: dict[str, Any]) -> None:
    from nmt.evaluation.score_sheet import score_sheet
    from nmt.reports.scores import formatted_sheet, sheet_record

    made = score_sheet(texts.systems, texts.references, references_name=texts.reference_names, **how)
    for message in tokenizer_warnings(texts.references, tokenizer_of(made.signatures["BLEU"])):
        warn(message)
    write_stdout(_as_json(sheet_record(made) | record) if form == "json" else formatted_sheet(made, form))


def _print_scores(
    texts: _Texts, names: Sequence[MetricName], record: dict[str, Any], form: FormName, how: dict[str, Any]
) -> None:
    from nmt.evaluation.scored_systems import score_systems
    from nmt.reports.scores import scores_record, scores_text

    scored = score_systems(texts.systems, texts.references, names, **how)
    if "bleu" in names:
        signature = next(iter(scored.scores.values()))[names.index("bleu")].signature
        for message in tokenizer_warnings(texts.references, tokenizer_of(signature)):
            warn(message)
    if form == "json":
        write_stdout(_as_json({**record, **scores_record(scored)}))
    else:
        heading = "" if record["test_set"] is None else f"test set: {record['test_set']}, {record['langpair']}"
        write_stdout(scores_text(scored, heading))


def _as_json(record: Mapping[str, Any]) -> str:
    return json.dumps(record, indent=2, ensure_ascii=False) + "\n"


def _named(test_set: str, langpair: str) -> str:
    """What a sheet calls a test set; the two versions of newstest2014 are told apart."""
    version = {"wmt14/full": " (all of newstest2014, as in the paper)", "wmt14": " (newstest2014, filtered)"}
    return f"{test_set}, {langpair}{version.get(test_set, '')}"


@contextmanager
def _fetch(cache: Path | None, *, mirrors: list[str], offline: bool) -> Iterator[Fetcher]:
    """Fetches files into a cache, and shows the progress."""
    from nmt.corpora.download import Fetcher

    with progress_display() as display:
        yield Fetcher(cache, mirrors, offline, progress=display("bytes"), notify=notice)


def _fetch_tokenizer(tokenizer: TokenizerName, fetching: Callable[[None], AbstractContextManager[Fetcher]]) -> None:
    """Bring the model that a tokeniser needs to where sacreBLEU looks for it."""
    from nmt.corpora.transfer import RemoteFile

    model = tokenizer_model(tokenizer)
    if model is not None:
        url, path = model
        with fetching(None) as fetcher:
            fetcher.fetch(RemoteFile(url), path.parent)


def warn_of_language(target_lang: str | None) -> None:
    """Warn if the language that was given, if any, is none."""
    if target_lang and not is_language_code(target_lang):
        warn(
            f"--target-lang {target_lang} is not a language code, such as de or pt_BR: the rules of no language are "
            "applied."
        )


def warn_of_hypothesis(lines: Sequence[str], references: Sequence[Sequence[str]], name: str) -> None:
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
        warn(f"{name}: {message}" if name else message)
