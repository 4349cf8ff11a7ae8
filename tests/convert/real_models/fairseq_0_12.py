"""Builds models of fairseq 0.12 by its own options, tasks and models, and saves them with its trainer.

fairseq has no wheel for newer versions of Python. Its Python code runs there, once its dataclasses may be defaults of
each other; the compiled parts belong to its data sets and to BLEU.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import torch

from tests.convert.real_models import common

_dataclass = dataclasses.dataclass


def hashable_dataclass(cls: Any = None, **options: Any) -> Any:
    """``dataclasses.dataclass`` of Python 3.10: its objects may be defaults of other dataclasses."""
    if cls is None:
        return lambda decorated: hashable_dataclass(decorated, **options)
    made = _dataclass(cls, **options)
    if made.__hash__ is None:
        made.__hash__ = object.__hash__
    return made


dataclasses.dataclass = hashable_dataclass
common.without("fairseq.libbleu", "hydra_plugins", "cython", "torchaudio")

from fairseq import options, tasks
from fairseq.data import Dictionary
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.trainer import Trainer

VARIANTS = {
    "default": [],
    "tied, pre-norm": ["--share-all-embeddings", "--encoder-normalize-before", "--decoder-normalize-before"],
    "learned positions": ["--encoder-learned-pos", "--decoder-learned-pos", "--activation-fn", "gelu"],
    "decoder tied, not scaled": ["--share-decoder-input-output-embed", "--no-scale-embedding"],
}
LONGEST = 40


def dictionary(words: tuple[str, ...], path: Path) -> Dictionary:
    made = Dictionary()
    for index, word in enumerate(words):
        made.add_symbol(word, n=100 - index)
    made.save(str(path))
    return made


def build(folder: Path, more: list[str]) -> common.Score:
    is_shared = "--share-all-embeddings" in more
    source = dictionary(common.WORDS if is_shared else common.SOURCE_WORDS, folder / "dict.en.txt")
    target = dictionary(common.WORDS if is_shared else common.TARGET_WORDS, folder / "dict.de.txt")
    words = [
        str(folder), "--task", "translation", "--source-lang", "en", "--target-lang", "de", "--arch", "transformer",
        "--encoder-embed-dim", str(common.D_MODEL), "--decoder-embed-dim", str(common.D_MODEL),
        "--encoder-ffn-embed-dim", str(common.D_FF), "--decoder-ffn-embed-dim", str(common.D_FF),
        "--encoder-attention-heads", str(common.HEADS), "--decoder-attention-heads", str(common.HEADS),
        "--encoder-layers", str(common.ENCODER_LAYERS), "--decoder-layers", str(common.DECODER_LAYERS),
        "--max-source-positions", str(LONGEST), "--max-target-positions", str(LONGEST), "--optimizer", "adam",
        "--lr", "0.001", "--max-tokens", "100", "--cpu", "--save-dir", str(folder), *more,
    ]  # fmt: skip
    parser = options.get_training_parser()
    cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(parser, words))
    task = tasks.setup_task(cfg.task)
    assert (task.source_dictionary.symbols, task.target_dictionary.symbols) == (source.symbols, target.symbols)
    model = task.build_model(cfg.model)
    common.randomise(model.parameters())
    trainer = Trainer(cfg, task, model, task.build_criterion(cfg.criterion))
    trainer.consolidate_optimizer()
    trainer.save_checkpoint(str(folder / "checkpoint_best.pt"), {"epoch": 1})
    model.eval()

    def score(pieces: list[str], written: list[str]) -> list[float]:
        src = torch.tensor([[*map(source.index, pieces), source.eos()]])
        ids = [*map(target.index, written), target.eos()]
        found = model(src, torch.tensor([src.shape[1]]), torch.tensor([[target.eos(), *ids[:-1]]]))
        table = model.get_normalized_probs(found, log_probs=True)[0]
        return common.scores_of(table, ids)

    return score


common.write_models(VARIANTS, build)
