"""Builds models of JoeyNMT 2 from a configuration by its own code, and saves them with its training manager."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import yaml

from tests.convert.real_models import common

common.without("datasets", "importlib_metadata", "pandas", "seaborn", "plotly", "subword_nmt")

from joeynmt.config import load_config, parse_global_args, set_validation_args
from joeynmt.model import build_model
from joeynmt.training import TrainManager
from joeynmt.vocabulary import build_vocab

VARIANTS: dict[str, dict[str, Any]] = {
    "tied, post-norm": {"tied": True, "layer_norm": "post"},
    "pre-norm": {"layer_norm": "pre"},
    "softmax tied, not scaled": {"layer_norm": "pre", "tied_softmax": True, "scale": False, "activation": "gelu"},
}


def configuration(
    folder: Path, *, layer_norm: str, tied: bool = False, tied_softmax: bool = False, scale: bool = True,
    activation: str = "relu",
) -> dict[str, Any]:  # fmt: skip
    part = {
        "type": "transformer", "num_heads": common.HEADS, "hidden_size": common.D_MODEL, "ff_size": common.D_FF,
        "dropout": 0.1, "layer_norm": layer_norm, "activation": activation,
        "embeddings": {"embedding_dim": common.D_MODEL, "scale": scale, "dropout": 0.0},
    }  # fmt: skip
    side = {"level": "word", "lowercase": False}
    return {
        "name": "tiny",
        "joeynmt_version": "2.3.0",
        "model_dir": str(folder),
        "use_cuda": False,
        "data": {
            "train": None, "dev": None, "test": None, "dataset_type": "plain",
            "src": {"lang": "en", **side, "voc_file": str(folder / "src_vocab.txt")},
            "trg": {"lang": "de", **side, "voc_file": str(folder / "trg_vocab.txt")},
        },
        "testing": {"beam_size": 4, "beam_alpha": 0.6},
        "training": {
            "batch_size": 4, "scheduling": "noam", "learning_rate": 0.001, "validation_freq": 100, "logging_freq": 100,
        },
        "model": {
            "initializer": "xavier_uniform", "bias_initializer": "zeros", "embed_initializer": "xavier_uniform",
            "tied_embeddings": tied, "tied_softmax": tied or tied_softmax,
            "encoder": part | {"num_layers": common.ENCODER_LAYERS},
            "decoder": part | {"num_layers": common.DECODER_LAYERS},
        },
    }  # fmt: skip


def build(folder: Path, options: dict[str, Any]) -> common.Score:
    words = common.WORDS if options.get("tied") else common.TARGET_WORDS
    for file, listed in (("src_vocab.txt", common.SOURCE_WORDS), ("trg_vocab.txt", words)):
        (folder / file).write_text("".join(f"{word}\n" for word in listed), encoding="utf-8")
    (folder / "config.yaml").write_text(yaml.safe_dump(configuration(folder, **options)), encoding="utf-8")
    args = parse_global_args(load_config(str(folder / "config.yaml")))
    source, target = build_vocab(args.data)
    source.to_file(folder / "src_vocab.txt")
    target.to_file(folder / "trg_vocab.txt")
    model = build_model(copy.deepcopy(args.model), src_vocab=source, trg_vocab=target)
    common.randomise(model.parameters())
    manager = TrainManager(
        rank=0, model=model, model_dir=folder, device=args.device, autocast=args.autocast, train_args=args.train,
        dev_args=set_validation_args(args.test),
    )  # fmt: skip
    manager.train_iter = SimpleNamespace(batch_sampler=SimpleNamespace(get_state=lambda: None))
    manager._save_checkpoint(new_best=True, score=math.nan)
    model.eval()

    def score(pieces: list[str], written: list[str]) -> list[float]:
        src = torch.tensor([[*map(source.lookup, pieces), source.eos_index]])
        ids = [*map(target.lookup, written), target.eos_index]
        found, *_ = model._encode_decode(
            src=src, trg_input=torch.tensor([[target.bos_index, *ids[:-1]]]),
            src_mask=torch.ones(1, 1, src.shape[1], dtype=torch.bool), src_length=torch.tensor([src.shape[1]]),
            trg_mask=torch.ones(1, 1, len(ids), dtype=torch.bool),
        )  # fmt: skip
        return common.scores_of(found[0].log_softmax(-1), ids)

    return score


common.write_models(VARIANTS, build)
