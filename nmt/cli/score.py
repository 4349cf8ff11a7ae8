"""``nmt score``."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

import typer

from nmt.cli.options import Mirrors, Offline

if TYPE_CHECKING:
    from nmt.corpora.testsets import SourceAndReferences
    from nmt.evaluation.metrics import MetricName, Score, TokenizerName
    from nmt.evaluation.significance import SystemScore


class Metric(StrEnum):
    """The metrics; typer takes no list of literals."""

    BLEU = "bleu"
    CHRF = "chrf"
    CHRF_PP = "chrf++"
    TER = "ter"
    COMET = "comet"
    BLEURT = "bleurt"


def score(
    hypothesis: Annotated[
        list[Path], typer.Argument(metavar="HYPOTHESIS", help="Translations, one per line; - is standard input.")
    ],
    reference: Annotated[
        list[Path] | None,
        typer.Option(metavar="PATH", help="Reference translations; may be repeated."),
    ] = None,
    source: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Source text: for COMET, and to check the lines.")
    ] = None,
    test_set: Annotated[
        str | None, typer.Option(metavar="NAME", help="A test set of sacreBLEU, such as wmt14/full.")
    ] = None,
    langpair: Annotated[
        str | None, typer.Option(metavar="PAIR", help="Languages of the test set, such as en-de.")
    ] = None,
    metric: Annotated[list[Metric] | None, typer.Option(help="Metric; may be repeated.  [bleu]")] = None,
    comet_model: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Model of COMET: its folder, or model.ckpt.")
    ] = None,
    bleurt_model: Annotated[Path | None, typer.Option(metavar="PATH", help="Model of BLEURT: its folder.")] = None,
    tokenize: Annotated[
        Literal["13a", "intl", "zh", "ja-mecab", "ko-mecab", "char", "none", "flores101", "flores200", "spBLEU-1K"]
        | None,
        typer.Option(help="Tokeniser of BLEU, as sacreBLEU names it.  [by the language]"),
    ] = None,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Compare without case; TER always does.")] = False,
    paper_bleu: Annotated[
        bool, typer.Option("--paper-bleu", help="Add BLEU as in the paper: tokenised, compounds split.")
    ] = False,
    target_lang: Annotated[
        str | None,
        typer.Option(
            metavar="LANG",
            help="Language of the translations: de, pt_BR.  [of the test set, or the reference's name]",
        ),
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Where test sets are kept.  [sacreBLEU's folder]")
    ] = None,
    mirror: Mirrors = None,
    offline: Offline = False,
    sheet: Annotated[bool, typer.Option("--sheet", help="All metrics, confidence intervals and significance.")] = False,
    form: Annotated[
        Literal["text", "json", "markdown", "latex"] | None,
        typer.Option("--format", help="Output; markdown and latex mean --sheet.  [text]"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    with_sentences: Annotated[
        bool, typer.Option("--sentence-scores", help="Add the score of each sentence to the JSON.")
    ] = False,
) -> None:
    """Score translations: BLEU, chrF, chrF++ and TER by sacreBLEU, with its signatures; COMET and BLEURT.

    Several hypotheses are compared with the first, by paired bootstrap resampling.

    Example: nmt translate < test.en | nmt score --reference test.de -
    """
    from dataclasses import asdict

    from nmt.cli.console import warn, write_stdout
    from nmt.errors import ConfigError, DataError
    from nmt.evaluation.learned_metrics import check_one_reference, learned_metrics, model_records
    from nmt.evaluation.metrics import LEARNED, check_counts, make_metric, sentence_scores
    from nmt.evaluation.metrics import score as score_text
    from nmt.evaluation.paper_bleu import paper_bleu as score_as_paper
    from nmt.evaluation.score_sheet import score_sheet
    from nmt.evaluation.significance import evaluate
    from nmt.evaluation.text_checks import hypothesis_warnings, tokenizer_warnings
    from nmt.reports.score_sheet_forms import formatted_sheet, sheet_record
    from nmt.text.lines import read_lines

    if (test_set is None) == (not reference):
        raise ConfigError("give either --reference FILE or --test-set NAME with --langpair.")
    if [str(path) for path in hypothesis].count("-") > 1:
        raise ConfigError("standard input (-) can be one hypothesis only.")
    if len({str(path) for path in hypothesis}) < len(hypothesis):
        raise ConfigError("a hypothesis was given twice.")
    names: list[MetricName] = [choice.value for choice in dict.fromkeys(metric or [Metric.BLEU])]
    if tokenize is not None and "bleu" not in names:
        raise ConfigError(f"--tokenize {tokenize}: only BLEU has tokenisers. Add --metric bleu, or leave it out.")
    if as_json and form not in (None, "json"):
        raise ConfigError(f"--json and --format {form} exclude each other.")
    form = "json" if as_json else form or "text"
    as_json, sheet = form == "json", sheet or form in ("markdown", "latex")
    if sheet and (metric or paper_bleu or with_sentences):
        raise ConfigError("--sheet has all metrics: leave --metric, --paper-bleu and --sentence-scores out.")
    models = {"comet": comet_model, "bleurt": bleurt_model}
    chosen = [name for name, model in models.items() if (model is not None if sheet else name in names)]
    for name, model in models.items():
        if model is not None and name not in chosen:
            raise ConfigError(f"--{name}-model needs --metric {name} or --sheet: no other score uses that model.")
    if lowercase and not sheet and set(names) <= set(LEARNED):
        raise ConfigError("--lowercase: COMET and BLEURT never ignore case. Add another metric, or leave it out.")
    if with_sentences and not as_json:
        raise ConfigError("--sentence-scores needs --json: the scores of sentences are printed in JSON alone.")
    source_lines = None if source is None else list(read_lines(source))
    if test_set is not None:
        found = _test_set(test_set, langpair, cache, mirror or [], offline)
        references = found.references
        source_lines = found.source if source_lines is None else source_lines
    else:
        references = [list(read_lines(path)) for path in reference or []]
    for name in chosen:
        check_one_reference(name.upper(), len(references))
    language = target_lang or (
        langpair.partition("-")[2] if langpair is not None else reference_language((reference or [])[0])
    )
    warn_of_language(target_lang)
    if paper_bleu and not language:
        raise ConfigError("--paper-bleu needs the language for its tokeniser: --target-lang.")

    systems = {str(path): list(read_lines(path)) for path in hypothesis}
    if source_lines is not None and len(source_lines) != len(references[0]):
        raise DataError(f"{source} has {len(source_lines):,} lines, but the reference has {len(references[0]):,}.")
    for name, lines_of_system in systems.items():
        check_counts(lines_of_system, references, name="the hypothesis" if len(systems) == 1 else name)
        for message in hypothesis_warnings(lines_of_system, references):
            warn(message if len(systems) == 1 else f"{name}: {message}")

    if _look_exchanged(hypothesis, reference or []):
        warn(
            f"are they exchanged? {', '.join(map(str, reference or []))} is compared with as the reference, and "
            f"{', '.join(map(str, hypothesis))} is scored as the translation."
        )

    if tokenize is not None:
        _fetch_tokenizer(tokenize, mirror or [], offline)
    learned = learned_metrics(chosen, comet_model=comet_model, bleurt_model=bleurt_model, source=source_lines)
    how = _How(target_lang=language, tokenize=tokenize, lowercase=lowercase, learned=learned)
    lineage = None
    if as_json:  # the imports load torch, which takes longer than a score
        from nmt.lineage.scores import score_record

        options = {
            "sheet": sheet or None,
            "metric": None if sheet else names,
            "paper_bleu": paper_bleu or None,
            "lowercase": lowercase or None,
            "tokenize": tokenize,
            "target_lang": language or None,  # also where a file's name says it: a script may name the file otherwise
            "test_set": test_set,
            "langpair": langpair,
        }
        sources = source if "comet" in chosen else None
        record = score_record(hypothesis, reference or [], options, source=sources, models=model_records(learned))
        lineage = record.stored()
    if sheet:
        made = score_sheet(systems, references, references_name=_named(test_set, langpair, reference or []), **how)
        for message in tokenizer_warnings(references, tokenizer_of(made.signatures["BLEU"])):
            warn(message)
        values = sheet_record(made) | {"test_set": test_set, "langpair": langpair, "lineage": lineage}
        write_stdout(_as_json(values) if form == "json" else formatted_sheet(made, form))
        return
    metrics = [make_metric(name, **how) for name in names]
    scores = {
        system: [score_text(each, lines, references) for each in metrics]
        + ([score_as_paper(lines, references, target_lang=language)] if paper_bleu else [])
        for system, lines in systems.items()
    }
    if "bleu" in names:
        signature = scores[str(hypothesis[0])][names.index("bleu")].signature
        for message in tokenizer_warnings(references, tokenizer_of(signature)):
            warn(message)
    compared: list[tuple[SystemScore, ...]] = []
    if len(systems) > 1:
        evaluated = evaluate(systems, references, metrics)
        compared = list(zip(*evaluated.values(), strict=True))
    if as_json:
        records: dict[str, list[dict[str, Any]]] = {name: [asdict(s) for s in each] for name, each in scores.items()}
        if with_sentences:
            for_sentences = [make_metric(name, sentences=True, **how) for name in names]
            for system, hypotheses in systems.items():
                for each, of_metric in zip(
                    for_sentences, records[system], strict=False
                ):  # The paper's BLEU comes last.
                    of_metric["sentences"] = asdict(sentence_scores(each, hypotheses, references))
        values = {
            "test_set": test_set,
            "langpair": langpair,
            "systems": [{"hypothesis": name, "scores": each} for name, each in records.items()],
            "comparisons": [_comparison_record(list(systems), of_metric) for of_metric in compared],
            "lineage": lineage,
        }
        write_stdout(_as_json(values))
    else:
        write_stdout(_as_text(scores, compared, test_set, langpair))


def _as_json(record: dict[str, Any]) -> str:
    import json

    return json.dumps(record, indent=2, ensure_ascii=False) + "\n"


def _comparison_record(systems: list[str], scores: Sequence[SystemScore]) -> dict[str, Any]:
    """The scores of all systems by one metric."""
    records = [
        {
            "system": system,
            "value": each.value,
            "mean": each.mean,
            "interval": each.interval,
            "p_value": each.p_bootstrap,
        }
        for system, each in zip(systems, scores, strict=True)
    ]
    return {"name": scores[0].name, "signature": scores[0].signature, "systems": records}


def tokenizer_of(signature: str) -> str:
    """sacreBLEU's tokeniser, as its signature names it."""
    return dict(part.split(":", 1) for part in signature.split("|"))["tok"]


def _named(test_set: str | None, langpair: str | None, references: list[Path]) -> str:
    """What a sheet calls the references; the two versions of newstest2014 are told apart."""
    if test_set is None:
        return ", ".join(map(str, references))
    version = {"wmt14/full": " (all of newstest2014, as in the paper)", "wmt14": " (newstest2014, filtered)"}
    return f"{test_set}, {langpair}{version.get(test_set, '')}"


def _test_set(
    test_set: str, langpair: str | None, cache: Path | None, mirrors: list[str], offline: bool
) -> SourceAndReferences:
    from nmt.cli.console import notice
    from nmt.cli.progress_lines import progress_display
    from nmt.corpora.download import Fetcher
    from nmt.corpora.testsets import fetch_test_set
    from nmt.errors import ConfigError

    if langpair is None:
        raise ConfigError(f"--test-set {test_set} needs --langpair, for example --langpair en-de.")
    with progress_display() as display:
        fetcher = Fetcher(cache, mirrors, offline, progress=display("bytes"), notify=notice)
        return fetch_test_set(test_set, langpair, fetcher)


def _fetch_tokenizer(tokenizer: TokenizerName, mirrors: list[str], offline: bool) -> None:
    """Bring the model that a tokeniser needs to where sacreBLEU looks for it."""
    from nmt.cli.console import notice
    from nmt.cli.progress_lines import progress_display
    from nmt.corpora.download import Fetcher
    from nmt.corpora.transfer import RemoteFile
    from nmt.evaluation.metrics import tokenizer_model

    model = tokenizer_model(tokenizer)
    if model is not None:
        url, path = model
        with progress_display() as display:
            fetcher = Fetcher(None, mirrors, offline, progress=display("bytes"), notify=notice)
            fetcher.fetch(RemoteFile(url), path.parent)


class _How(TypedDict):
    """What all metrics are told."""

    target_lang: str
    tokenize: TokenizerName | None
    lowercase: bool
    learned: dict[str, Any]


def warn_of_language(target_lang: str | None) -> None:
    """Warn if the language that was given, if any, is none."""
    from nmt.cli.console import warn
    from nmt.text.languages import is_language_code

    if target_lang and not is_language_code(target_lang):
        warn(
            f"--target-lang {target_lang} is not a language code, such as de or pt_BR: the rules of no language are "
            "applied."
        )


def _look_exchanged(hypotheses: list[Path], references: list[Path]) -> bool:
    """Whether references are outputs of ``nmt translate``, or hypotheses text of a data set, and not the other way."""
    from nmt.data.data_folder import DataFolder
    from nmt.io.files import record_name

    def is_output(path: Path) -> bool:
        return record_name(path).is_file()

    def is_data(path: Path) -> bool:
        return path.stem in ("train", "valid", "test") and DataFolder(path.parent).manifest.is_file()

    if any(map(is_output, hypotheses)) or any(map(is_data, references)):
        return False
    return any(map(is_output, references)) or any(map(is_data, hypotheses))


def reference_language(reference: Path) -> str:
    """The language of a reference: by its name, or by the manifest beside it; empty if neither says it."""
    from nmt.data.data_folder import DataFolder
    from nmt.data.manifest import read_manifest
    from nmt.text.languages import language_of_name

    if of_name := language_of_name(reference):
        return of_name
    if DataFolder(reference.parent).manifest.is_file():
        return read_manifest(reference.parent).target_lang
    return ""


def _as_text(
    scores: dict[str, list[Score]],
    compared: list[tuple[SystemScore, ...]],
    test_set: str | None,
    langpair: str | None,
) -> str:
    lines = [] if test_set is None else [f"test set: {test_set}, {langpair}"]
    for system, each in scores.items():
        if len(scores) > 1:
            lines.append(f"{system}:")
        indent = "  " if len(scores) > 1 else ""
        lines += [f"{indent}{score.name} = {score.detail}\n{indent}  {score.signature}" for score in each]
    for of_metric in compared:
        lines.append(f"\n{of_metric[0].name}, paired bootstrap against {next(iter(scores))}:")
        for system, found in zip(scores, of_metric, strict=True):
            p_value = "baseline" if found.p_bootstrap is None else f"p = {found.p_bootstrap:.4f}"
            lines.append(f"  {found.value:6.2f}  ({found.mean:.2f} ± {found.interval:.2f})  {p_value}  {system}")
        lines.append(f"  {of_metric[0].signature}")
    return "\n".join(lines) + "\n"
