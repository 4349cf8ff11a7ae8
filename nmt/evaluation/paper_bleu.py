"""BLEU as in the paper's table 2: tokenised, case-sensitive, with compounds split, by the authors' procedure.

The authors' script takes a tokenised reference. Here the same steps are applied to hypothesis and reference: replace
Unicode punctuation, Moses tokeniser, split hyphenated compounds (German), multi-bleu without smoothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from nmt.evaluation.metrics import Score, check_counts
from nmt.languages import primary_language

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
    from sacrebleu.metrics import BLEU

    check_counts(hypotheses, references)
    target_lang = primary_language(target_lang)
    tokenize = paper_tokenizer(target_lang)
    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    result = metric.corpus_score(
        [tokenize(line) for line in hypotheses], [[tokenize(x) for x in r] for r in references]
    )
    signature = paper_signature(len(references), target_lang, splits_compounds=target_lang in SPLIT_LANGUAGES)
    return Score("paper BLEU", float(result.score), signature, result.format().split(" = ", 1)[-1])


def paper_signature(reference_count: int, target_lang: str, *, splits_compounds: bool) -> str:
    """How BLEU by these steps is computed, in the form of sacreBLEU's signatures."""
    compounds = "split" if splits_compounds else "whole"
    return (
        f"nrefs:{reference_count}|case:mixed|punctuation:unicode-replaced|tok:moses-{target_lang}|compounds:{compounds}"
        "|smooth:none"
    )


def paper_tokenizer(target_lang: str) -> Callable[[str], str]:
    """A function that applies all steps before n-grams are counted to a line."""
    return moses_tokenizer(target_lang, splits_compounds=target_lang in SPLIT_LANGUAGES)


def moses_tokenizer(target_lang: str, *, splits_compounds: bool) -> Callable[[str], str]:
    """The steps of :func:`paper_tokenizer`, with or without that of compounds."""
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
