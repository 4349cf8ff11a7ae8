"""Builds models of OpenNMT-py 2 by its own options, fields, model builder and model saver."""

from __future__ import annotations

from pathlib import Path

import torch

from tests.convert.real_models import common

common.without("pyonmttok", "flask", "waitress", "requests")

from onmt.inputters.fields import build_dynamic_fields
from onmt.model_builder import build_base_model
from onmt.models.model_saver import build_model_saver
from onmt.opts import train_opts
from onmt.utils.optimizers import Optimizer
from onmt.utils.parse import ArgumentParser

VARIANTS = {
    "default": [],
    "tied": ["-share_vocab", "-share_embeddings", "-share_decoder_embeddings"],
    "decoder tied": ["-share_decoder_embeddings", "-pos_ffn_activation_fn", "gelu"],
}


def build(folder: Path, more: list[str]) -> common.Score:
    for side, words in (("src", common.SOURCE_WORDS), ("tgt", common.TARGET_WORDS)):
        (folder / f"{side}.vocab").write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    parser = ArgumentParser()
    train_opts(parser)
    options, _ = parser.parse_known_args(
        [
            "-data", "{}", "-src_vocab", str(folder / "src.vocab"), "-tgt_vocab", str(folder / "tgt.vocab"),
            "-save_model", str(folder / "model"), "-save_data", str(folder / "data"),
            "-encoder_type", "transformer", "-decoder_type", "transformer", "-position_encoding",
            "-enc_layers", str(common.ENCODER_LAYERS), "-dec_layers", str(common.DECODER_LAYERS),
            "-rnn_size", str(common.D_MODEL), "-word_vec_size", str(common.D_MODEL),
            "-transformer_ff", str(common.D_FF), "-heads", str(common.HEADS), *more,
        ]
    )  # fmt: skip
    options.src_feats_vocab = None
    options.data_task = "seq2seq"
    ArgumentParser.update_model_opts(options)
    ArgumentParser.validate_model_opts(options)
    fields = build_dynamic_fields(options)
    model = build_base_model(options, fields, gpu=False)
    common.randomise(model.parameters())
    build_model_saver(options, options, model, fields, Optimizer.from_opt(model, options)).save(10)
    model.eval()
    indices = {side: fields[side].base_field.vocab.stoi for side in ("src", "tgt")}

    def score(source: list[str], target: list[str]) -> list[float]:
        src = torch.tensor([indices["src"][piece] for piece in source])[:, None, None]
        ids = [indices["tgt"][piece] for piece in ("<s>", *target, "</s>")]
        states, _ = model(src, torch.tensor(ids)[:, None, None], torch.tensor([len(source)]))
        table = model.generator(states[:, 0])
        return common.scores_of(table, ids[1:])

    return score


common.write_models(VARIANTS, build)
