"""Trains a model of another toolkit beside ours: TOOLKIT, and the arguments of ``train_worker.py``.

Each toolkit computes model and loss with its own code and defaults, in a plain loop with torch's Adam.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import importlib.metadata
import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from marian import PLAIN_MARIANMT, marian_config
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence
from train_worker import Trainer, main, one_by_one

from nmt.config import Config, ModelConfig
from nmt.convert.expressible import check_expressible
from nmt.data.batching import Batch
from nmt.errors import NmtError
from nmt.machine.device import choose_device, choose_hardware
from nmt.special_ids import BOS, EOS, PAD, UNK
from nmt.training.input.feed import PlannedUpdate


@dataclass(frozen=True)
class Pairs:
    """A micro-batch as padded tensors."""

    source_BS: Tensor
    source_lengths_B: Tensor
    input_BT: Tensor
    output_BT: Tensor
    target_lengths_B: Tensor

    @classmethod
    def of(cls, batch: Batch, device: torch.device) -> Pairs:
        """The pairs of a micro-batch on a device."""

        def padded(tokens: NDArray[np.int64], lengths_B: NDArray[np.int64]) -> Tensor:
            rows = list(torch.split(torch.from_numpy(tokens), lengths_B.tolist()))
            return pad_sequence(rows, batch_first=True, padding_value=PAD).to(device)

        return cls(
            padded(batch.source_M, batch.source_lengths_B),
            torch.from_numpy(batch.source_lengths_B).to(device),
            padded(batch.target_input_N, batch.target_lengths_B),
            padded(batch.target_output_N, batch.target_lengths_B),
            torch.from_numpy(batch.target_lengths_B).to(device),
        )


Loss = Callable[[Pairs], Tensor]
"""The smoothed loss of a micro-batch, summed over its target tokens."""


def marian_mt(sizes: ModelConfig, pieces: int, smoothing: float) -> tuple[nn.Module, Loss]:
    """MarianMT of Hugging Face transformers."""
    import transformers

    model = transformers.MarianMTModel(marian_config(sizes, pieces, name="the preset", use_cache=False))

    def loss(pairs: Pairs) -> Tensor:
        mask_BS = (pairs.source_BS != PAD).long()
        logits_BTV = model(input_ids=pairs.source_BS, attention_mask=mask_BS, decoder_input_ids=pairs.input_BT).logits
        return F.cross_entropy(
            logits_BTV.flatten(0, 1),
            pairs.output_BT.flatten(),
            ignore_index=PAD,
            label_smoothing=smoothing,
            reduction="sum",
        )

    return model, loss


def fairseq(sizes: ModelConfig, pieces: int, smoothing: float) -> tuple[nn.Module, Loss]:
    """The architecture ``transformer`` of fairseq, with its loss ``label_smoothed_cross_entropy``."""
    # Its settings are dataclasses that are the defaults of others, which Python 3.11 allows only if they have a hash.
    make = dataclasses.dataclass

    def with_hash(made: type | None = None, **options: Any) -> Any:
        if made is None:
            return partial(with_hash, **options)
        found: Any = make(made, **options)
        if found.__hash__ is None:
            found.__hash__ = object.__hash__
        return found

    dataclasses.dataclass = with_hash  # type: ignore[assignment]
    try:
        transformer = importlib.import_module("fairseq.models.transformer")
        criterion = importlib.import_module("fairseq.criterions.label_smoothed_cross_entropy")
        dictionary = importlib.import_module("fairseq.data").Dictionary()
    finally:
        dataclasses.dataclass = make  # type: ignore[assignment]
    for index in range(pieces - len(dictionary)):
        dictionary.add_symbol(f"piece {index}")
    dictionary.pad_index, dictionary.unk_index, dictionary.bos_index, dictionary.eos_index = PAD, UNK, BOS, EOS
    task = SimpleNamespace(source_dictionary=dictionary, target_dictionary=dictionary)
    arguments = argparse.Namespace(
        arch="transformer",
        encoder_embed_dim=sizes.d_model,
        encoder_ffn_embed_dim=sizes.d_ff,
        encoder_layers=sizes.encoder_layers,
        encoder_attention_heads=sizes.heads,
        decoder_layers=sizes.decoder_layers,
        decoder_attention_heads=sizes.heads,
        dropout=sizes.dropout,
        share_all_embeddings=True,
    )
    model = transformer.TransformerModel.build_model(arguments, task)
    smoothed = criterion.LabelSmoothedCrossEntropyCriterion(task, sentence_avg=False, label_smoothing=smoothing)

    def loss(pairs: Pairs) -> Tensor:
        net_input = {
            "src_tokens": pairs.source_BS,
            "src_lengths": pairs.source_lengths_B,
            "prev_output_tokens": pairs.input_BT,
        }
        summed: Tensor = smoothed(model, {"net_input": net_input, "target": pairs.output_BT, "ntokens": 0})[0]
        return summed

    return model, loss


def joeynmt(sizes: ModelConfig, pieces: int, smoothing: float) -> tuple[nn.Module, Loss]:
    """JoeyNMT."""
    vocabulary = _JoeyVocabulary(pieces)
    side = {
        "type": "transformer",
        "hidden_size": sizes.d_model,
        "ff_size": sizes.d_ff,
        "num_heads": sizes.heads,
        "dropout": sizes.dropout,
        "layer_norm": "post",
        "embeddings": {"embedding_dim": sizes.d_model, "scale": True, "dropout": sizes.dropout},
    }
    settings = {
        "encoder": side | {"num_layers": sizes.encoder_layers},
        "decoder": side | {"num_layers": sizes.decoder_layers},
        "tied_embeddings": True,
        "tied_softmax": True,
    }
    model = importlib.import_module("joeynmt.model").build_model(settings, vocabulary, vocabulary)
    model.loss_function = ("crossentropy", smoothing)

    def loss(pairs: Pairs) -> Tensor:
        summed: Tensor = model(
            return_type="loss",
            src=pairs.source_BS,
            src_length=pairs.source_lengths_B,
            src_mask=(pairs.source_BS != PAD)[:, None],
            trg_input=pairs.input_BT,
            trg=pairs.output_BT,
            trg_mask=(pairs.output_BT != PAD)[:, None],
        )[0]
        return summed

    return model, loss


class _JoeyVocabulary:
    """What JoeyNMT's model asks of a vocabulary."""

    pad_index, unk_index, bos_index, eos_index, sep_index = PAD, UNK, BOS, EOS, None
    specials = lang_tags = ()

    def __init__(self, pieces: int) -> None:
        self._pieces = pieces

    def __len__(self) -> int:
        return self._pieces


def opennmt_py(sizes: ModelConfig, pieces: int, smoothing: float) -> tuple[nn.Module, Loss]:
    """OpenNMT-py, which normalises before each sub-layer in any case."""
    parser = importlib.import_module("onmt.utils.parse").ArgumentParser()
    importlib.import_module("onmt.opts").train_opts(parser)
    words = ["--encoder_type", "transformer", "--decoder_type", "transformer", "--position_encoding"]
    words += ["--share_embeddings", "--share_decoder_embeddings", "--share_vocab", "--param_init_glorot"]
    given = {
        "hidden_size": sizes.d_model,
        "word_vec_size": sizes.d_model,
        "transformer_ff": sizes.d_ff,
        "heads": sizes.heads,
        "enc_layers": sizes.encoder_layers,
        "dec_layers": sizes.decoder_layers,
        "dropout": sizes.dropout,
        "attention_dropout": sizes.attention_dropout,
        "label_smoothing": smoothing,
        "param_init": 0,
        "data": "{}",
        "src_vocab": "none",
    }
    options, _ = parser.parse_known_args([*words, *(f"--{name}={value}" for name, value in given.items())])
    parser.update_model_opts(options)
    side = {"<blank>": PAD, "<unk>": UNK, "<s>": BOS, "</s>": EOS} | {f"piece {id_}": id_ for id_ in range(4, pieces)}
    build = importlib.import_module("onmt.model_builder").build_model
    model = build(options, options, {"src": side, "tgt": side}, checkpoint=None, device_id=0)
    criterion = importlib.import_module("onmt.utils.loss").LossCompute.from_opts(options, model, side)

    def loss(pairs: Pairs) -> Tensor:
        target_BT1 = torch.cat([pairs.input_BT[:, :1], pairs.output_BT], dim=1)[:, :, None]
        batch = {"tgt": target_BT1, "srclen": pairs.source_lengths_B}
        output_BTD, attention = model(pairs.source_BS[:, :, None], target_BT1, pairs.source_lengths_B)
        summed: Tensor = criterion(batch, output_BTD, attention)[0]
        return summed

    return model, loss


def sockeye(sizes: ModelConfig, pieces: int, smoothing: float) -> tuple[nn.Module, Loss]:
    """Sockeye, whose model is traced with the first micro-batch, as its own training does."""
    modules = {name: importlib.import_module(f"sockeye.{name}") for name in ("encoder", "loss", "model", "transformer")}
    training = importlib.import_module("sockeye.training")
    layers = partial(
        modules["transformer"].TransformerConfig,
        model_size=sizes.d_model,
        attention_heads=sizes.heads,
        feed_forward_num_hidden=sizes.d_ff,
        act_type="relu",
        dropout_attention=sizes.attention_dropout,
        dropout_act=sizes.activation_dropout,
        dropout_prepost=sizes.dropout,
        positional_embedding_type="fixed",
        preprocess_sequence="",
        postprocess_sequence="drn",
        max_seq_len_source=sizes.max_positions,
        max_seq_len_target=sizes.max_positions,
    )
    embedding = modules["encoder"].EmbeddingConfig(pieces, sizes.d_model, sizes.dropout)
    model = modules["model"].SockeyeModel(
        modules["model"].ModelConfig(
            config_data=None,
            vocab_source_size=pieces,
            vocab_target_size=pieces,
            config_embed_source=embedding,
            config_embed_target=embedding,
            config_encoder=layers(num_layers=sizes.encoder_layers),
            config_decoder=layers(num_layers=sizes.decoder_layers, depth_key_value=sizes.d_model),
        )
    )
    model.apply(modules["model"].initialize_parameters)
    mean = modules["loss"].CrossEntropyLoss(label_smoothing=smoothing)
    traced: list[nn.Module] = []

    def loss(pairs: Pairs) -> Tensor:
        inputs = (
            pairs.source_BS[:, :, None].int(),
            torch.stack([pairs.source_lengths_B, torch.zeros_like(pairs.source_lengths_B)], dim=1).int(),
            pairs.input_BT[:, :, None].int(),
            pairs.target_lengths_B.int(),
        )
        if not traced:
            traced.append(training.ModelWithLoss(torch.jit.trace(model, inputs, strict=False), [mean]))
        summed: Tensor = traced[0](*inputs, {mean.label_name: pairs.output_BT.int()})[0]
        return summed * pairs.target_lengths_B.sum()

    return model, loss


@dataclass(frozen=True)
class Peer:
    """Another toolkit."""

    package: str
    """Whose version is told."""
    module: str
    """By which it is found."""
    build: Callable[[ModelConfig, int, float], tuple[nn.Module, Loss]]
    """Sizes of a model, pieces of its vocabulary and the label smoothing -> a new model, and its loss."""


PEERS: Mapping[str, Peer] = {
    "transformers": Peer("transformers", "transformers", marian_mt),
    "fairseq": Peer("fairseq", "fairseq", fairseq),
    "joeynmt": Peer("joeynmt", "joeynmt", joeynmt),
    "opennmt-py": Peer("OpenNMT-py", "onmt", opennmt_py),
    "sockeye": Peer("sockeye", "sockeye", sockeye),
}


def installed_peers() -> list[str]:
    """The toolkits that are installed."""
    return [name for name, peer in PEERS.items() if importlib.util.find_spec(peer.module) is not None]


def peer_programs(peers: Sequence[str], model: ModelConfig) -> dict[str, Sequence[str]]:
    """The program of each toolkit.

    Raises:
        NmtError: a toolkit is not installed, or cannot compute this model.
    """
    for name in peers:
        if name not in installed_peers():  # not imported here, since each runs in a process of its own
            raise NmtError(f"--against {name} needs {name}: `pip install {PEERS[name].package}`.")
        check_expressible(model, PLAIN_MARIANMT, "the model", name)
    return {name: (__file__, name) for name in peers}


@contextmanager
def trained_by(name: str, data: Path, config: Config, count: int) -> Iterator[Trainer]:
    """A toolkit's model in a plain loop: Adam, its smoothed loss; our precision on a GPU."""
    if config.training.threads is not None:
        torch.set_num_threads(config.training.threads)
    found, _ = choose_device(config.training.device)
    device = found if found.type == "cuda" else torch.device("cpu")
    # On a GPU everybody trains in 16 bits; on a CPU a plain loop is in fp32.
    precision = choose_hardware("cuda", config.training.precision).precision if device.type == "cuda" else "fp32"
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision)
    model, loss = PEERS[name].build(config.model, config.data.vocab_size, config.training.label_smoothing)
    model.to(device).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9)

    def update(planned: PlannedUpdate) -> None:
        optimizer.zero_grad()
        for batch in planned.batches:
            with torch.autocast(device.type, dtype or torch.bfloat16, enabled=dtype is not None):
                summed = loss(Pairs.of(batch, device))
            (summed / planned.target_tokens).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    description = {
        "device": str(device),
        "precision": precision,
        "parameters": sum(p.numel() for p in model.parameters()),
        "version": importlib.metadata.version(PEERS[name].package),
    }
    yield Trainer(description, device, one_by_one(update, data, config, count))


if __name__ == "__main__":
    main(partial(trained_by, sys.argv.pop(1)))
