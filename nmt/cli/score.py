"""``nmt score``."""

from __future__ import annotations

from typing import Annotated, Any, get_args

from nmt.api import scoring
from nmt.cli.console import file_of_stdout, write_stdout
from nmt.cli.options import command
from nmt.cli.progress_lines import CONSOLE
from nmt.errors import ConfigError
from nmt.evaluation.metrics import MetricName
from nmt.option_fields import FORMAT, Option


@command(scoring.score)
def score(given: dict[str, Any], as_json: Annotated[bool, Option("Print JSON.", FORMAT, word="json")] = False) -> None:
    """Several hypotheses are compared with the first, by paired bootstrap resampling.

    Example: nmt translate < test.en | nmt score --reference test.de -
    """
    from nmt.reports.scores import formatted_scores, scores_json

    if misplaced := [
        path for path in given["hypothesis"] or () if str(path) in get_args(MetricName) and not path.exists()
    ]:
        raise ConfigError(
            f"{misplaced[0]}: there is no such file. Name several metrics by --metric each, as in "
            f"--metric bleu --metric {misplaced[0]}."
        )
    if given["sentence_scores"] and not as_json:
        raise ConfigError("--sentence-scores needs --json: the scores of sentences are printed in JSON alone.")
    scored = scoring.score(**given, report=CONSOLE)
    if as_json:
        write_stdout(scores_json(scored.found, scored.test_set, scored.langpair, scored.record(file_of_stdout())))
    else:
        write_stdout(formatted_scores(scored.found, scored.test_set, scored.langpair))
