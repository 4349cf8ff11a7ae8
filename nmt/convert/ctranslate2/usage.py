"""What users of an exported folder are told."""

from __future__ import annotations

from collections.abc import Mapping

from nmt.checkpoint.bundle import Bundle
from nmt.convert.ctranslate2.engine import NEVER_EMITTED
from nmt.convert.exported_segmenters import SOURCE_MODEL, TARGET_MODEL, has_plain_ids

_USAGE = """\
import itertools
import sys

import ctranslate2
from sentencepiece import SentencePieceProcessor

folder = {name!r}
source, target = (SentencePieceProcessor(model_file=f"{{folder}}/{{file}}") for file in ("{source}", "{target}"))
translator = ctranslate2.Translator(folder)
search = dict(beam_size={beam}, length_penalty={penalty}, min_decoding_length=0)
search |= dict(max_input_length={limit}, max_decoding_length={limit})


def segment(line):
{pieces}


while lines := list(itertools.islice(sys.stdin, 256)):
    batch = [segment(line.rstrip("\\n")) for line in lines]
    for result in translator.translate_batch(
        batch, **search, max_batch_size=32, disable_unk=True, suppress_sequences={never}
    ):
        print({text})
"""


def ctranslate2_usage(bundle: Bundle, name: str) -> str:
    """As :attr:`Format.usage`: a program that translates the lines of standard input."""
    decoding = bundle.config.decoding
    decoded = "target.decode(result.hypotheses[0])"
    return _USAGE.format(
        name=name,
        source=SOURCE_MODEL,
        target=TARGET_MODEL,
        pieces=_segmenting(bundle),
        beam=decoding.beam,
        penalty=decoding.length_penalty,
        limit=bundle.config.model.max_positions,
        never=NEVER_EMITTED,
        text=decoded if has_plain_ids(bundle.vocab.target) else f'{decoded}.replace("▁", " ").strip()',
    )


def _segmenting(bundle: Bundle) -> str:
    if not bundle.vocab.source.language_tags:
        return "    return source.encode(line, out_type=str)"
    return (
        f'    tag, _, text = line.partition(" ")  # {bundle.vocab.source.language_tags[0]} and the like\n'
        "    return [tag, *source.encode(text, out_type=str)] if line.strip() else []"
    )


def ctranslate2_remarks(bundle: Bundle) -> Mapping[str, str]:
    """As :attr:`Format.remarks`."""
    found = {
        "search": "CTranslate2 does not store which pieces must never be emitted. Pass disable_unk and "
        "suppress_sequences in each call, as above.",
        "max_positions": "CTranslate2 cuts longer sources off and fails at longer outputs, unless max_input_length and "
        "max_decoding_length are passed as above.",
        "max_extra_length": f"Outputs end after {bundle.config.model.max_positions} pieces, whatever the length of the "
        "source.",
    }
    if bundle.config.decoding.normalization == "paper" and bundle.config.decoding.length_penalty:
        found["decoding.normalization"] = (
            "CTranslate2 divides scores by length^length_penalty, not by the paper's length penalty. A beam search "
            "may choose other hypotheses; a greedy search does not."
        )
    return found
