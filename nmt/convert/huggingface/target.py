"""MarianMT of Hugging Face transformers as a format that models are exported to."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import torch

from nmt.checkpoint.bundle import Bundle
from nmt.convert.certificate.record import Check, exact_check
from nmt.convert.certificate.reference_side import ReferenceSide
from nmt.convert.certificate.side import Side
from nmt.convert.huggingface.names import OUTPUT, SOURCE_EMBEDDING, TARGET_EMBEDDING
from nmt.convert.huggingface.reading import CONFIG, GENERATION, TOOLKIT, read_huggingface
from nmt.convert.huggingface.settings import NORM_EPSILON
from nmt.convert.huggingface.software import HuggingFaceSide
from nmt.convert.huggingface.tensor_files import WEIGHTS
from nmt.convert.huggingface.tokenizer_files import CONFIG as TOKENIZER_CONFIG
from nmt.convert.huggingface.tokenizer_files import SEGMENTERS, TARGET_VOCAB, VOCAB
from nmt.convert.huggingface.writing import DTYPES, all_tensors, feature_order, stored_positions, write_huggingface
from nmt.convert.target import Target

_FILES = "the exported files"


def _sides(folder: Path, bundle: Bundle) -> list[Side]:
    source, target = (vocab.pieces(range(vocab.size)) for vocab in (bundle.vocab.source, bundle.vocab.target))
    features_D = feature_order(bundle.config.model).argsort()
    sides: list[Side] = [ReferenceSide(read_huggingface(folder), features_D=features_D.numpy())]
    with suppress(ImportError):
        sides.append(HuggingFaceSide(folder, source, target, features_D=features_D))
    return sides


def _check_files(folder: Path, bundle: Bundle, quantization: str) -> list[Check]:
    model = read_huggingface(folder)
    layout = model.layout
    names = {
        SOURCE_EMBEDDING: layout.source_embedding,
        TARGET_EMBEDDING: layout.target_embedding,
        OUTPUT: layout.output,
    }
    expected = {name: tensor.to(DTYPES[quantization]).float() for name, tensor in all_tensors(bundle).items()}
    differing = [
        name
        for name, tensor in expected.items()
        if not torch.equal(torch.from_numpy(model.tensors[names.get(name, name)]), tensor)
    ]
    pieces = [
        f"{side} {piece!r}"
        for side, vocab, found in (
            ("source", bundle.vocab.source, model.source.pieces),
            ("target", bundle.vocab.target, model.target.pieces),
        )
        for index, piece in enumerate(vocab.pieces(range(vocab.size)))
        if index >= len(found) or found[index] != piece
    ]
    same, count = f"{len(expected)} tensors", bundle.vocab.source.size + bundle.vocab.target.size
    return [
        exact_check("tensors", differing, f"{same} are the bundle's in {quantization}, number by number", _FILES),
        exact_check("vocabulary", pieces, f"{count:,} source and target pieces have the bundle's ids", _FILES),
    ]


def _usage(bundle: Bundle, folder: str) -> str:
    return f"""from transformers import MarianMTModel, MarianTokenizer

tokenizer = MarianTokenizer.from_pretrained({folder!r})
model = MarianMTModel.from_pretrained({folder!r})
batch = tokenizer(["..."], return_tensors="pt", padding=True)
print(tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True))
"""


def _remarks(bundle: Bundle) -> Mapping[str, str]:
    model, decoding = bundle.config.model, bundle.config.decoding
    remarks = {
        "max_extra_length": f"Outputs end after {model.max_positions} pieces, whatever the length of the source.",
        "text": "A line that begins with >>…<< loses it to a language tag, and U+2581 is read as a space.",
    }
    if model.norm_epsilon != NORM_EPSILON:
        remarks["norm_epsilon"] = (
            f"MarianMT always has {NORM_EPSILON:g}; this model was trained with {model.norm_epsilon:g}."
        )
    if stored_positions(bundle):
        remarks["positions"] = (
            "The tables of positions are stored with the weights, because MarianMT's own positions differ. "
            "transformers reads them, but leaves them out of a model that it saves."
        )
    if decoding.normalization == "paper" and decoding.length_penalty:
        remarks["length_penalty"] = (
            f"transformers divides scores by length^{decoding.length_penalty:g} instead of the paper's "
            f"((5 + length) / 6)^{decoding.length_penalty:g}."
        )
    return remarks


HUGGINGFACE = Target(
    name="huggingface",
    toolkit=TOOLKIT,
    holds=(WEIGHTS, CONFIG, GENERATION, TOKENIZER_CONFIG, VOCAB, TARGET_VOCAB, *SEGMENTERS.values()),
    quantizations=tuple(DTYPES),
    write=write_huggingface,
    sides=_sides,
    check_files=_check_files,
    usage=_usage,
    remarks=_remarks,
    package="transformers",
)
