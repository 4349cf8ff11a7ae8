"""What users of an exported folder are told."""

from __future__ import annotations

from collections.abc import Mapping

from nmt.checkpoint.bundle import Bundle
from nmt.convert.exported_segmenters import SOURCE_MODEL, TARGET_MODEL
from nmt.convert.onnx.writing import (
    DECODER_NAME,
    DECODER_WITH_PAST_NAME,
    ENCODER_NAME,
    SOURCE_PIECES_NAME,
    TARGET_PIECES_NAME,
    writes_lists,
)
from nmt.data.vocab import Vocabulary

_USAGE = """\
{imports}import sys

import numpy as np
import onnxruntime
from sentencepiece import SentencePieceProcessor

PAD, UNK, BOS, EOS = {special}
folder = {name!r}
source, target = (SentencePieceProcessor(model_file=f"{{folder}}/{{file}}") for file in ("{source}", "{target}"))
encoder, decoder, decoder_with_past = (
    onnxruntime.InferenceSession(f"{{folder}}/{{file}}") for file in ("{encoder}", "{decoder}", "{with_past}")
)
{vocabularies}

def run(session, **inputs):
    return dict(zip([output.name for output in session.get_outputs()], session.run(None, inputs)))


def translate(ids):
    ids = np.array([[*ids[: {limit} - 1], EOS]])
    mask, past, written = np.ones_like(ids), {{}}, []
    states = run(encoder, input_ids=ids, attention_mask=mask)["last_hidden_state"]
    found = run(decoder, input_ids=np.array([[BOS]]), encoder_hidden_states=states, encoder_attention_mask=mask)
    while len(written) < min(ids.size - 1 + {extra}, {limit} - 1):
        past |= {{name.replace("present", "past_key_values"): found[name] for name in found if name != "logits"}}
        logits = found["logits"][0, -1]
        logits[[PAD, UNK, BOS]] = -np.inf
        best = int(logits.argmax())
        if best == EOS:
            break
        written.append(best)
        found = run(decoder_with_past, input_ids=np.array([[best]]), encoder_attention_mask=mask, **past)
    return written


for line in sys.stdin:
    line = line.rstrip("\\n")
{ids}
    print({text} if ids else "")
"""
_VOCABULARIES = """\
source_ids = {{piece: index for index, piece in enumerate(json.load(open(f"{{folder}}/{source_pieces}", "rb")))}}
target_pieces = json.load(open(f"{{folder}}/{target_pieces}", "rb"))
"""
_TEXT_FROM_LIST = 'target.decode([target_pieces[index] for index in translate(ids)]).replace("▁", " ").strip()'


def onnx_usage(bundle: Bundle, name: str) -> str:
    """As :attr:`Format.usage`: a program that translates the lines of standard input by a greedy search."""
    lists = writes_lists(bundle)
    vocabularies = _VOCABULARIES.format(source_pieces=SOURCE_PIECES_NAME, target_pieces=TARGET_PIECES_NAME)
    return _USAGE.format(
        imports="import json\n" if lists else "",
        name=name,
        special=f"{Vocabulary.PAD}, {Vocabulary.UNK}, {Vocabulary.BOS}, {Vocabulary.EOS}",
        source=SOURCE_MODEL,
        target=TARGET_MODEL,
        encoder=ENCODER_NAME,
        decoder=DECODER_NAME,
        with_past=DECODER_WITH_PAST_NAME,
        vocabularies=vocabularies if lists else "",
        limit=bundle.config.model.max_positions,
        extra=bundle.config.decoding.max_extra_length,
        ids=_ids_from_list(bundle) if lists else "    ids = source.encode(line)",
        text=_TEXT_FROM_LIST if lists else "target.decode(translate(ids))",
    )


def _ids_from_list(bundle: Bundle) -> str:
    """Lines that segment text into pieces; those that the list lacks are unknown."""
    tags = bundle.vocab.source.language_tags
    if not tags:
        return "    ids = [source_ids.get(piece, UNK) for piece in source.encode(line, out_type=str)]"
    return (
        f'    tag, _, text = line.partition(" ")  # {tags[0]} and the like\n'
        "    pieces = [tag, *source.encode(text, out_type=str)] if line.strip() else []\n"
        "    ids = [source_ids.get(piece, UNK) for piece in pieces]"
    )


def onnx_remarks(bundle: Bundle) -> Mapping[str, str]:
    """As :attr:`Format.remarks`."""
    found = {
        "search": "The graphs compute logits. The program above searches greedily and never emits pad, unk and bos; "
        "a beam search is left to the user.",
        "max_positions": f"A source or an output has at most {bundle.config.model.max_positions} pieces with eos.",
    }
    if writes_lists(bundle):
        found["vocabulary"] = (
            f"The ids of the graphs are not those of the SentencePiece models. {SOURCE_PIECES_NAME} and "
            f"{TARGET_PIECES_NAME} list the pieces by id; a piece that they lack is unknown."
        )
    return found
