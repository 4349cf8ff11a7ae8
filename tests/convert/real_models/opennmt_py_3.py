"""Builds models of OpenNMT-py 3 by its own options, model builder and model saver."""

from __future__ import annotations

from pathlib import Path

import torch

from tests.convert.real_models import common

common.without("spacy", "fasttext", "flask", "waitress", "rapidfuzz", "ahocorasick", "ctranslate2")

from onmt.inputters.inputter import build_vocab
from onmt.model_builder import build_model
from onmt.models.model_saver import build_model_saver
from onmt.opts import train_opts
from onmt.utils.parse import ArgumentParser

VARIANTS = {
    "default": [],
    "tied": ["--share_vocab", "--share_embeddings", "--share_decoder_embeddings"],
    "gelu, no bias": ["--pos_ffn_activation_fn", "gelu", "--position_encoding_type", "SinusoidalConcat"],
    "biases": ["--add_qkvbias", "--add_ffnbias", "--share_decoder_embeddings"],
}


def build(folder: Path, more: list[str]) -> common.Score:
    for side, words in (("src", common.SOURCE_WORDS), ("tgt", common.TARGET_WORDS)):
        (folder / f"{side}.vocab").write_text("".join(f"{word}\t{9}\n" for word in words), encoding="utf-8")
    parser = ArgumentParser()
    train_opts(parser)
    options, _ = parser.parse_known_args(
        [
            "--data", "{}", "--src_vocab", str(folder / "src.vocab"), "--tgt_vocab", str(folder / "tgt.vocab"),
            "--save_model", str(folder / "model"), "--save_data", str(folder / "data"),
            "--encoder_type", "transformer", "--decoder_type", "transformer", "--position_encoding",
            "--enc_layers", str(common.ENCODER_LAYERS), "--dec_layers", str(common.DECODER_LAYERS),
            "--hidden_size", str(common.D_MODEL), "--word_vec_size", str(common.D_MODEL),
            "--transformer_ff", str(common.D_FF), "--heads", str(common.HEADS), "--param_init", "0.1", *more,
        ]
    )  # fmt: skip
    ArgumentParser.update_model_opts(options)
    ArgumentParser.validate_model_opts(options)
    options.data_task = options.model_task
    vocabs = build_vocab(options, {"src": [], "tgt": []})
    model = build_model(options, options, vocabs, None, -1)
    common.randomise(model.parameters())
    optimizer = torch.optim.Adam(model.parameters())
    build_model_saver(options, options, model, vocabs, optimizer, -1).save(10)
    model.eval()

    def score(source: list[str], target: list[str]) -> list[float]:
        src = torch.tensor([vocabs["src"](source)])[:, :, None]
        ids = vocabs["tgt"](["<s>", *target, "</s>"])
        states, _ = model(src, torch.tensor([ids])[:, :, None], torch.tensor([len(source)]))
        table = model.generator(states[0]).log_softmax(-1)
        return common.scores_of(table, ids[1:])

    return score


common.write_models(VARIANTS, build)
