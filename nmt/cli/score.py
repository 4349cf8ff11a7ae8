"""``nmt score``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from nmt.cli.console import file_of_stdout, write_stdout
from nmt.cli.options import Mirrors, Offline, option
from nmt.cli.progress_lines import CONSOLE
from nmt.errors import ConfigError
from nmt.evaluation.metrics import MetricName, TokenizerName
from nmt.option_fields import DOWNLOADS, FORMAT, SCORES, STREAMS


def score(
    hypothesis: Annotated[
        list[Path], typer.Argument(metavar="HYPOTHESIS", help="Translations, one per line; - is standard input.")
    ],
    reference: Annotated[
        list[Path] | None, option("Reference translations; may be repeated.", "-r", "--reference", group=STREAMS)
    ] = None,
    source: Annotated[
        Path | None, option("Source text: for COMET, and to check the number of lines.", group=STREAMS)
    ] = None,
    test_set: Annotated[
        str | None, option("A test set of sacreBLEU, such as wmt14/full.", metavar="NAME", group=STREAMS)
    ] = None,
    langpair: Annotated[
        str | None, option("Languages of the test set, such as en-de.", metavar="PAIR", group=STREAMS)
    ] = None,
    metric: Annotated[list[MetricName] | None, option("Metric; may be repeated.  [bleu]", group=SCORES)] = None,
    comet_model: Annotated[Path | None, option("Model of COMET: its folder, or model.ckpt.", group=SCORES)] = None,
    tokenize: Annotated[
        TokenizerName | None, option("Tokeniser of BLEU, as sacreBLEU names it.  [by the language]", group=SCORES)
    ] = None,
    lowercase: Annotated[bool, option("Compare without case; TER always does.", group=SCORES)] = False,
    paper_bleu: Annotated[bool, option("Add BLEU as in the paper: tokenised, compounds split.", group=SCORES)] = False,
    target_lang: Annotated[
        str | None,
        option(
            "Language of the translations: de, pt_BR.  [of the test set, or the reference's name]",
            metavar="LANG",
            group=SCORES,
        ),
    ] = None,
    cache: Annotated[Path | None, option("Where test sets are kept.  [sacreBLEU's folder]", group=DOWNLOADS)] = None,
    mirror: Mirrors = None,
    offline: Offline = False,
    sheet: Annotated[bool, option("All metrics, confidence intervals and significance.", group=FORMAT)] = False,
    form: Annotated[
        Literal["text", "markdown", "latex"] | None,
        option("Output; markdown and latex mean --sheet.  [text]", "--format", group=FORMAT),
    ] = None,
    as_json: Annotated[bool, option("Print JSON.", "--json", group=FORMAT)] = False,
    sentence_scores: Annotated[bool, option("Add the score of each sentence to the JSON.", group=FORMAT)] = False,
) -> None:
    """Score translations: BLEU, chrF, chrF++ and TER by sacreBLEU, with its signatures; COMET.

    Several hypotheses are compared with the first, by paired bootstrap resampling.

    Example: nmt translate < test.en | nmt score --reference test.de -
    """
    given = dict(locals())
    del given["form"], given["as_json"]
    from nmt.api.scoring import score
    from nmt.reports.scores import formatted_scores, scores_json

    if as_json and form is not None:
        raise ConfigError(f"--json and --format {form} exclude each other.")
    if sentence_scores and not as_json:
        raise ConfigError("--sentence-scores needs --json: the scores of sentences are printed in JSON alone.")
    given["sheet"] = sheet or form in ("markdown", "latex")
    scored = score(**given, report=CONSOLE)
    if as_json:
        write_stdout(scores_json(scored.found, scored.test_set, scored.langpair, scored.record(file_of_stdout())))
    else:
        write_stdout(formatted_scores(scored.found, scored.test_set, scored.langpair, form or "text"))
