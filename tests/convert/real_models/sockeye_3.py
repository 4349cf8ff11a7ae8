"""Builds models of Sockeye 3 by its own classes, and saves them as ``sockeye-train`` does."""

from __future__ import annotations

from pathlib import Path

import torch

from tests.convert.real_models import common

common.without("mxnet")

from sockeye import data_io, encoder, vocab
from sockeye.model import ModelConfig, SockeyeModel, initialize_parameters
from sockeye.transformer import TransformerConfig

LONGEST = 40
VARIANTS = {
    "default": {},
    "post-norm": {"preprocess_sequence": "", "postprocess_sequence": "drn", "weight_tying_type": "trg_softmax"},
    "learned positions": {"positional_embedding_type": "learned", "act_type": "gelu", "weight_tying_type": "none"},
    "swish": {"act_type": "swish1", "weight_tying_type": "trg_softmax"},
}


def build(folder: Path, options: dict[str, str]) -> common.Score:
    source_words = common.WORDS if folder.name == "default" else common.SOURCE_WORDS
    target_words = common.WORDS if folder.name == "default" else common.TARGET_WORDS
    source, target = vocab.build_vocab([" ".join(source_words)]), vocab.build_vocab([" ".join(target_words)])
    options = dict(options)
    tying = options.pop("weight_tying_type", "src_trg_softmax")

    def transformer(layers: int) -> TransformerConfig:
        common_options = {
            "model_size": common.D_MODEL, "attention_heads": common.HEADS,
            "feed_forward_num_hidden": common.D_FF, "act_type": "relu", "num_layers": layers,
            "dropout_attention": 0.1, "dropout_act": 0.1, "dropout_prepost": 0.1,
            "positional_embedding_type": "fixed", "preprocess_sequence": "n", "postprocess_sequence": "dr",
            "max_seq_len_source": LONGEST, "max_seq_len_target": LONGEST, "use_lhuc": False,
            "depth_key_value": common.D_MODEL,
        }  # fmt: skip
        return TransformerConfig(**common_options | options)

    statistics = data_io.DataStatistics(
        num_sents=1, num_discarded=0, num_tokens_source=1, num_tokens_target=1, num_unks_source=0,
        num_unks_target=0, max_observed_len_source=9, max_observed_len_target=9, size_vocab_source=len(source),
        size_vocab_target=len(target), length_ratio_mean=1.0, length_ratio_std=0.1, buckets=[(8, 8)],
        num_sents_per_bucket=[1], average_len_target_per_bucket=[5.0], length_ratio_stats_per_bucket=[(1.0, 0.1)],
    )  # fmt: skip
    embeddings = [
        encoder.EmbeddingConfig(vocab_size=len(side), num_embed=common.D_MODEL, dropout=0.0)
        for side in (source, target)
    ]
    config = ModelConfig(
        config_data=data_io.DataConfig(
            data_statistics=statistics, max_seq_len_source=LONGEST, max_seq_len_target=LONGEST,
            num_source_factors=1, num_target_factors=1, eop_id=-1,
        ),
        vocab_source_size=len(source), vocab_target_size=len(target), config_embed_source=embeddings[0],
        config_embed_target=embeddings[1], config_encoder=transformer(common.ENCODER_LAYERS),
        config_decoder=transformer(common.DECODER_LAYERS), weight_tying_type=tying,
    )  # fmt: skip
    model = SockeyeModel(config)
    model.apply(initialize_parameters)
    common.randomise(parameter for parameter in model.parameters() if parameter.requires_grad)
    model.save_config(str(folder))
    model.save_version(str(folder))
    model.save_parameters(str(folder / "params.best"))
    vocab.save_source_vocabs([source], str(folder))
    vocab.save_target_vocabs([target], str(folder))
    model.eval()

    def score(pieces: list[str], written: list[str]) -> list[float]:
        src = torch.tensor([[source[piece] for piece in (*pieces, "</s>")]], dtype=torch.int32)[:, :, None]
        ids = [target[piece] for piece in ("<s>", *written, "</s>")]
        read = torch.tensor([ids[:-1]], dtype=torch.int32)[:, :, None]
        found = model(src, torch.tensor([[src.shape[1], 1]]), read, torch.tensor([read.shape[1]]))
        return common.scores_of(found["logits"][0].log_softmax(-1), ids[1:])

    return score


common.write_models(VARIANTS, build)
