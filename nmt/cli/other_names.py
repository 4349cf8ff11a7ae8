"""Commands and options of other toolkits, and what they are called here: an unknown one is answered with ours.

The table of docs/faq.md in short. :mod:`tests.cli.test_other_names` checks that all that is recommended exists.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

_TOKENS = "--set batching.update_tokens=N: target tokens per update over all devices"
_LIMITS = "--max-updates N or --max-minutes X"
_RATE = "--set schedule.factor=X, which multiplies the learning rate of the schedule"
_TEXT = "nmt prepare-data NAME --train SOURCE TARGET, then nmt train --data data/NAME"
_GPU = "--device cuda"
_OF_SOURCE, _OF_TARGET = "src-lang source-language from", "tgt-lang trg-lang target-language to"

COMMANDS = {
    "preprocess prepare": "nmt prepare-data, then nmt build-vocab",
    "vocab create-vocab learn-bpe train-vocab": "nmt build-vocab",
    "finetune fine-tune": "nmt train --init-from RUN",
    "generate decode predict infer": "nmt translate",
    "interactive": "nmt translate --interactive",
    "average": "nmt average-checkpoints",
    "evaluate eval bleu sacrebleu": "nmt score",
    "scorer rescore force-decode": "nmt score-target",
    "server api web gui": "nmt serve",
    "convert quantize": "nmt import or nmt export",
    "backtranslate back-translate distill distil": "nmt synthesize",
    "download fetch clean": "nmt prepare-data",
    "info show": "nmt inspect",
    "diff": "nmt compare",
    "plot": "nmt report",
}
"""Names of commands, and what to type in their place."""
OPTIONS: dict[str, dict[str, str]] = {
    "prepare-data": {
        "trainpref train-prefix": "--train PREFIX",
        "validpref valid-prefix dev": "--valid PREFIX",
        "testpref test-prefix": "--test PREFIX",
        "src source s": "--train SOURCE TARGET, with --source-lang LANG",
        "tgt target t": "--train SOURCE TARGET, with --target-lang LANG",
        "src-lang s-lang": "--source-lang LANG",
        "tgt-lang trg-lang t-lang": "--target-lang LANG",
        "max-len max-seq-len max-length": "--max-words N",
        "destdir output-dir save-data": "--out DIR",
        "threads num-threads workers": "--jobs N",
    },
    "build-vocab": {
        "vocab-size src-vocab-size tgt-vocab-size num-words bpe-operations": "--size N",
        "bpe": "--model-type bpe",
        "spm-model sentencepiece-model": "--vocab MODEL",
        "coverage": "--character-coverage X",
        "num-threads workers jobs": "--threads N",
        "max-len max-seq-len max-length": "--max-pieces N",
    },
    "train": {
        "lr learning-rate learn-rate initial-learning-rate": _RATE,
        "warmup warmup-updates warmup-steps lr-warmup": "--set schedule.warmup=N",
        "batch-size max-tokens mini-batch batch-tokens update-freq accum-count optimizer-delay": _TOKENS,
        "epochs max-epoch max-epochs after-epochs num-epochs": _LIMITS,
        "max-update max-steps train-steps after-batches steps": "--max-updates N",
        "save-dir save-model model-dir output-dir": "--out RUN",
        "dropout": "--set model.dropout=X",
        "label-smoothing": "--set training.label_smoothing=X",
        "patience early-stopping max-num-checkpoint-not-improved": "--set training.patience=N",
        "clip-norm max-grad-norm gradient-clipping": "--set optimizer.clip_norm=X",
        "arch type": "--preset NAME",
        "fp16": "--precision fp16",
        "bf16": "--precision bf16",
        "finetune-from-model pretrained-model": "--init-from BUNDLE",
        "restore-file train-from checkpoint": "--resume RUN",
        "gpus num-gpus devices world-size ngpu": "--nproc N",
        "gpu use-gpu cuda": _GPU,
        "src source tgt target train-sets trainpref": _TEXT,
        "share-all-embeddings tied-embeddings-all share-embeddings": "--set model.tied_embeddings=all, the default",
    },
    "translate": {
        "src source text": "--input FILE",
        _OF_SOURCE: "--source-lang CODE",
        _OF_TARGET: "--target-lang CODE",
        "glossaries terms terminology lexical-constraints": "--glossary TSV",
        "tgt ref reference": "nmt score-target --target FILE, which scores given translations",
        "batch-size max-tokens mini-batch": "--batch-tokens N",
        "beam-size": "--beam N",
        "n-best": "--nbest N",
        "normalization": "--length-normalization paper or length",
        "lenpen alpha normalize length-penalty-alpha": "--length-penalty X",
        "max-length max-len": "--max-extra-length N",
        "path models checkpoint": "--model RUN",
        "gpu use-gpu cuda": _GPU,
        "replace-unk": "--copy-unknown",
        "workers jobs": "--batches N",
        "cpu-threads inter-threads intra-threads": "--threads N",
        "sampling random-sampling": "--sample",
        "bf16": "--precision bf16",
        "fp16": "--precision fp16",
        "quantize int8 quantization": "--precision int8",
        "resume continue": "--output FILE and the same command, which resumes",
    },
    "score-target": {
        _OF_SOURCE: "--source-lang CODE",
        _OF_TARGET: "--target-lang CODE",
        "normalization": "--length-normalization paper or length",
        "ref reference tgt": "--target FILE",
    },
    "serve": {
        "p": "--port N",
        f"source-lang target-lang {_OF_SOURCE} {_OF_TARGET}": "Each model serves its own languages: leave it out",
        "normalization length-normalization": "A model serves with its own: leave it out",
        "beam-size": "--beam N",
    },
    "score": {
        "ref refs references": "--reference FILE",
        "s src": "--source FILE",
        "m metrics": "--metric NAME",
        "l": "--langpair PAIR, or --lowercase in place of -lc",
        "t": "--test-set NAME, or --tokenize NAME in place of -tok",
        "testset": "--test-set NAME",
        "o out output": "Scores go to standard output: leave it out, and add > FILE",
        "i input sys hyp hypothesis": "nmt score --reference FILE HYPOTHESIS",
        "tok tokenizer": "--tokenize NAME",
        "lc": "--lowercase",
        "lang trg-lang tgt-lang": "--target-lang LANG",
    },
    "compare": {"ref": "--reference FILE", "s src": "--source FILE"},
    "average-checkpoints": {
        "inputs checkpoints": "nmt average-checkpoints RUN",
        "num-epoch-checkpoints num-update-checkpoints n": "--last N",
    },
    "export": {
        "format output-format": "--to FORMAT",
        "output-dir output-folder": "--out PATH",
        "quantize int8": "--quantization TYPE",
    },
    "import": {
        "output-dir output-folder": "--out PATH",
        "model model-path model-dir": "nmt import PATH",
    },
}
"""Names of options of each command, and what to type in their place; or a sentence, with a capital letter."""
_FEW = 3
"""An option of more commands says nothing about what was meant."""


def advice(
    typed: str, known: Iterable[str], command: str | None = None, elsewhere: Mapping[str, Iterable[str]] | None = None
) -> str:
    """What to type in place of an unknown name; empty if nothing is near.

    Args:
        typed: the name of a command, or of an option: ``--lr``.
        known: the names of that kind that exist.
        command: the command that the option was typed for; None for the name of a command.
        elsewhere: the options of each command.
    """
    typed, known = typed.lower().replace("_", "-"), list(known)
    if typed in known:
        return f"Did you mean {typed}?"
    for names, ours in (COMMANDS if command is None else OPTIONS.get(command, {})).items():
        if typed.lstrip("-") in names.split():
            return ours if ours[0].isupper() else f"Use {ours}"
    *of_others, last = [f"nmt {name}" for name, options in (elsewhere or {}).items() if typed in options] or [""]
    if last and len(of_others) < _FEW:
        return f"It is an option of {' and '.join(filter(None, (', '.join(of_others), last)))}"
    # Without the hyphens, in which all options are alike.
    names_of_known = {name.lstrip("-"): name for name in known}
    near = difflib.get_close_matches(typed.lstrip("-"), names_of_known, n=1, cutoff=0.7)
    return f"Did you mean {names_of_known[near[0]]}?" if near else ""
