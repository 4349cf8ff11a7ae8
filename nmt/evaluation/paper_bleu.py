"""BLEU as in the paper's table 2: tokenised, case-sensitive, with compounds split, by the authors' procedure.

The authors' script takes a tokenised reference. Here the same steps are applied to hypothesis and reference: replace
Unicode punctuation, Moses tokeniser, split hyphenated compounds (German), multi-bleu without smoothing.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

from sacrebleu.metrics import BLEU
from sacrebleu.metrics.base import Signature

from nmt.evaluation.metrics import Score, score
from nmt.text.languages import primary_language

_COMPOUND = re.compile(r"(\S)-(\S)")
SPLIT_LANGUAGES = frozenset({"de"})
"""Languages whose compounds are split."""


def paper_bleu(hypotheses: Sequence[str], references: Sequence[Sequence[str]], *, target_lang: str) -> Score:
    """Tokenised BLEU, comparable with the paper's 27.3, 28.4 and 41.8, but never with sacreBLEU's.

    Args:
        references: one list of untokenised lines for each reference translation.
        target_lang: the language of the Moses tokeniser; its region is ignored. Compounds are split only for German.

    Raises:
        DataError: the numbers of lines differ or are 0.
    """
    language = primary_language(target_lang)
    metric = PaperBleu("paper BLEU", language, splits_compounds=language in SPLIT_LANGUAGES)
    return score(metric, hypotheses, references)


class _PaperSignature(Signature):  # type: ignore[misc]
    """The authors' steps, in the form of sacreBLEU's signatures."""

    def __init__(self, args: dict[str, Any]) -> None:
        super().__init__(args)
        self.info = {
            "nrefs": args["num_refs"],
            "case": "mixed",
            "punctuation": "unicode-replaced",
            "tok": f"moses-{args['target_lang']}",
            "compounds": "split" if args["splits_compounds"] else "whole",
            "smooth": "none",
            "version": None,
        }


class PaperBleu(BLEU):  # type: ignore[misc]
    """BLEU of the authors' tokens, as a metric of sacreBLEU."""

    _SIGNATURE_TYPE = _PaperSignature

    def __init__(self, name: str, target_lang: str, *, splits_compounds: bool) -> None:
        """Choose the tokeniser.

        Args:
            name: what the scores are called.
            target_lang: a language without a region.
        """
        super().__init__(tokenize="none", smooth_method="none", force=True)
        self.name, self.target_lang, self.splits_compounds = name, target_lang, splits_compounds
        # Tests of significance ask for the tokens of each line several times.
        self._tokens = functools.cache(moses_tokenizer(target_lang, splits_compounds=splits_compounds))

    def _preprocess_segment(self, sent: str) -> str:
        return self._tokens(sent)

    def _compute_score_from_stats(self, stats: Sequence[float]) -> Any:
        found = super()._compute_score_from_stats(stats)
        found.name = self.name
        return found


def moses_tokenizer(target_lang: str, *, splits_compounds: bool) -> Callable[[str], str]:
    """A function that applies all steps before n-grams are counted to a line."""
    from sacremoses import MosesPunctNormalizer, MosesTokenizer

    punctuation, tokenizer = MosesPunctNormalizer(lang=target_lang), MosesTokenizer(lang=target_lang)
    # For other languages sacremoses takes Chinese, Japanese and Korean letters for punctuation. Moses' script does not.
    tokenizer.PAD_NOT_ISALNUM = MosesTokenizer(lang="cjk").PAD_NOT_ISALNUM

    def tokenize(line: str) -> str:
        replaced = punctuation.replace_unicode_punct(line)
        tokens: str = tokenizer.tokenize(replaced, aggressive_dash_splits=False, escape=True, return_str=True)
        return split_compounds(tokens) if splits_compounds else tokens

    return tokenize


def split_compounds(tokens: str) -> str:
    """Split hyphenated words: ``E-Mail`` becomes three tokens."""
    return _COMPOUND.sub(r"\1 ##AT##-##AT## \2", tokens)
