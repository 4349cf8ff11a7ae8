"""Builds models of Eole 0.6 from a training configuration by its own code, and saves them with its model saver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from tests.convert.real_models import common

common.without(
    "spacy", "fasttext", "flask", "waitress", "ahocorasick", "fastapi", "uvicorn", "datasets", "pandas", "torchcodec",
    "optimi", "rapidfuzz",
)  # fmt: skip

from eole.config.run import TrainConfig
from eole.inputters.inputter import build_vocab
from eole.models.model import get_model_class
from eole.models.model_saver import build_model_saver
from eole.utils.optimizers import Optimizer

VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "tied, biases": {
        "share_embeddings": True, "share_decoder_embeddings": True, "add_qkvbias": True, "add_ffnbias": True,
        "add_final_linear_bias": True,
    },
    "gelu, concatenated": {
        "mlp_activation_fn": "gelu", "position_encoding_type": "SinusoidalConcat", "share_decoder_embeddings": True,
    },
    "learned positions": {"position_encoding_type": "Learned", "add_ffnbias": True},
}  # fmt: skip


def build(folder: Path, options: dict[str, Any]) -> common.Score:
    options = dict(options)
    is_shared = options.get("share_embeddings", False)
    for side, words in (("src", common.SOURCE_WORDS), ("tgt", common.TARGET_WORDS)):
        listed = common.WORDS if is_shared else words
        (folder / f"{side}.vocab").write_text("".join(f"{word}\t9\n" for word in listed), encoding="utf-8")
    kind = options.pop("position_encoding_type", "SinusoidalInterleaved")
    embeddings = {"word_vec_size": common.D_MODEL, "position_encoding_type": kind}
    if kind == "Learned":
        embeddings["n_positions"] = 40
    config = TrainConfig(
        data={}, src_vocab=str(folder / "src.vocab"), tgt_vocab=str(folder / "tgt.vocab"), share_vocab=is_shared,
        training={
            "model_path": str(folder / "model"), "world_size": 0, "gpu_ranks": [], "compute_dtype": "fp32",
            "param_init_method": "xavier_uniform", "optim": "adam",
        },
        model={
            "architecture": "transformer", "hidden_size": common.D_MODEL, "heads": common.HEADS,
            "transformer_ff": common.D_FF, "embeddings": embeddings,
            "encoder": {"encoder_type": "transformer", "layers": common.ENCODER_LAYERS},
            "decoder": {"decoder_type": "transformer", "layers": common.DECODER_LAYERS}, **options,
        },
    )  # fmt: skip
    vocabs = build_vocab(config, {"src": [], "tgt": []})
    model = get_model_class(config.model).for_training(config.model, vocabs, config.training, device_id=-1)
    common.randomise(model.parameters())
    build_model_saver(config, model, vocabs, Optimizer.from_config(model, config), -1, None).save(10)
    model.eval()

    def score(source: list[str], target: list[str]) -> list[float]:
        src = torch.tensor([[vocabs["src"][piece] for piece in source]])
        ids = [vocabs["tgt"][piece] for piece in (vocabs["decoder_start_token"], *target, "</s>", "</s>")]
        # The last piece is not read.
        [states], *_ = model(src, torch.tensor([ids]), torch.tensor([len(source)]))
        table = model.generator(states[:-1]).log_softmax(-1)
        return common.scores_of(table, ids[1:-1])

    return score


common.write_models(VARIANTS, build, within="model")
