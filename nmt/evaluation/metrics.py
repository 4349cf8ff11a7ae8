"""BLEU, chrF and TER, computed by sacreBLEU and reported with its signatures; COMET beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, assert_never

from nmt.errors import DataError, NmtError
from nmt.text.languages import is_full_width, is_unspaced, primary_language
from nmt.text.printable import counted

if TYPE_CHECKING:
    from nmt.evaluation.comet import Comet

MetricName = Literal["bleu", "chrf", "chrf++", "ter", "comet"]
WordTokenizerName = Literal["13a", "intl", "zh", "ja-mecab", "ko-mecab", "char", "none"]
TokenizerName = Literal[WordTokenizerName, "flores101", "flores200", "spBLEU-1K"]
"""sacreBLEU's tokenisers for BLEU."""

# The tokenisers of languages that need their own, and the extra of sacreBLEU that installs a tokeniser.
_LANGUAGE_TOKENIZERS: dict[str, TokenizerName] = {"zh": "zh", "yue": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}
_EXTRAS = {"ja-mecab": "sacrebleu[ja]", "ko-mecab": "sacrebleu[ko]"}


@dataclass(frozen=True)
class Score:
    """One score, and how it was computed."""

    name: str
    """``BLEU``, ``chrF2``, ``chrF2++``, ``TER``, ``paper BLEU``, ``COMET``."""
    value: float
    signature: str
    """sacreBLEU's signature, or an equivalent: scores are comparable only if their signatures are equal."""
    detail: str
    """Details that sacreBLEU prints after the score, such as the n-gram precisions."""


@dataclass(frozen=True)
class SentenceScores:
    """One score per sentence by one metric."""

    signature: str
    """The signature as for a whole text; BLEU uses only the n-gram orders that a sentence has (``eff:yes``)."""
    values: list[float]


def score(metric: Any, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Score:
    """Score a whole text.

    Args:
        metric: by :func:`make_metric`, or another one of sacreBLEU.
        references: for each reference translation, a list with as many lines as hypotheses.

    Raises:
        DataError: the numbers of lines differ or are 0.
    """
    check_counts(hypotheses, references)
    result = metric.corpus_score(list(hypotheses), [list(lines) for lines in references])
    detail = result.format(score_only=False).split(" = ", 1)[-1]
    return Score(result.name, float(result.score), metric.get_signature().format(), detail)


def sentence_scores(metric: Any, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> SentenceScores:
    """Score each sentence by itself, as ``sacrebleu --sentence-level`` does; see :func:`score`.

    Args:
        metric: by :func:`make_metric` with ``sentences``.
    """
    from nmt.evaluation.comet import Comet

    check_counts(hypotheses, references)
    if isinstance(metric, Comet):
        values = metric.segment_scores(hypotheses, references)
    else:
        lines = zip(hypotheses, *references, strict=True)
        values = [float(metric.sentence_score(line, expected).score) for line, *expected in lines]
    return SentenceScores(metric.get_signature().format(), values)


def make_metric(
    metric: MetricName,
    target_lang: str = "",
    *,
    tokenize: TokenizerName | None = None,
    lowercase: bool = False,
    sentences: bool = False,
    comet: Comet | None = None,
) -> Any:
    """A metric of sacreBLEU.

    Args:
        target_lang: selects BLEU's tokeniser for Chinese, Japanese and Korean. Others without spaces between words,
            such as Thai, use char, the rest 13a. TER splits Chinese and Japanese as ``sacrebleu --ter-normalized
            --ter-asian-support`` does.
        tokenize: BLEU's tokeniser for any language.
        lowercase: ignore case; TER always does, COMET never does.
        sentences: score single sentences, not a whole text.
        comet: COMET with its model.

    Raises:
        NmtError: the tokeniser is not installed, or COMET is not given.
    """
    from sacrebleu.metrics import CHRF, TER

    language = primary_language(target_lang)
    match metric:
        case "bleu":
            usual = _LANGUAGE_TOKENIZERS.get(language, "char" if is_unspaced(target_lang) else "13a")
            return _bleu(tokenize or usual, lowercase, effective_order=sentences)
        case "chrf" | "chrf++":
            return CHRF(word_order=2 if metric == "chrf++" else 0, lowercase=lowercase)
        case "ter":
            # Tercom splits ideographs only together with its normalisation; without both, a line is one word.
            splits = is_full_width(target_lang)
            return TER(normalized=splits, asian_support=splits)
        case "comet":
            if comet is None:
                raise NmtError("comet needs its model: load it with nmt.evaluation.comet.")
            return comet
        case _:
            assert_never(metric)


def _bleu(tokenizer: TokenizerName, lowercase: bool, *, effective_order: bool) -> Any:
    from sacrebleu.metrics import BLEU

    _check_model(tokenizer)
    try:
        return BLEU(tokenize=tokenizer, lowercase=lowercase, effective_order=effective_order)
    except (ImportError, RuntimeError) as error:
        extra = _EXTRAS.get(tokenizer)
        if extra is None:
            raise
        raise NmtError(
            f"the tokeniser {tokenizer} is not installed: pip install '{extra}'. Without it, a score needs "
            "--tokenize char, and training needs --set validation.bleu=false."
        ) from error


def tokenizer_model(tokenizer: TokenizerName) -> tuple[str, Path] | None:
    """The address of a tokeniser's model, and the path where sacreBLEU looks for it; None if it needs no model."""
    from sacrebleu.tokenizers import tokenizer_spm

    if tokenizer not in tokenizer_spm.SPM_MODELS:
        return None
    url: str = tokenizer_spm.SPM_MODELS[tokenizer]["url"]
    return url, Path(tokenizer_spm.SACREBLEU_DIR, "models", url.rsplit("/", 1)[-1])


def _check_model(tokenizer: TokenizerName) -> None:
    """Refuse a tokeniser without its model, which sacreBLEU would download by itself, not atomically."""
    model = tokenizer_model(tokenizer)
    if model is not None and not model[1].is_file():
        raise NmtError(f"the tokeniser {tokenizer} needs {model[1]}, which does not exist. Fetch it from {model[0]}.")


def tokenizer_of(signature: str) -> str:
    """sacreBLEU's tokeniser, as a signature names it."""
    return dict(part.split(":", 1) for part in signature.split("|"))["tok"]


def check_counts(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], *, name: str = "the hypothesis"
) -> None:
    """Refuse texts that cannot be parallel.

    Args:
        name: the name of the hypotheses in the error.

    Raises:
        DataError: the numbers of lines differ or are 0.
    """
    if not hypotheses:
        raise DataError(f"{name} is empty: there is nothing to score.")
    for lines in references:
        if len(lines) != len(hypotheses):
            raise DataError(
                f"{name} has {counted(len(hypotheses), 'line')}, but the reference has {len(lines):,}: a score needs "
                f"one hypothesis for each reference.{_two_newstests(len(hypotheses), len(lines))}"
            )


def _two_newstests(hypotheses: int, references: int) -> str:
    """A hint if the line counts are those of the two versions of newstest2014: the full one, as in the paper, and the
    filtered one."""
    if (hypotheses, references) == (3_003, 2_737):
        return " These are translations of all of newstest2014: use --test-set wmt14/full."
    if (hypotheses, references) == (2_737, 3_003):
        return " These are translations of the filtered newstest2014: use --test-set wmt14."
    return ""
