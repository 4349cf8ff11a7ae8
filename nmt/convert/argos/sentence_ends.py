"""The sentence splitter of a package: rules, written as an ONNX model of the form that MiniSBD reads.

Argos Translate splits text by MiniSBD, which downloads a model for the language unless the package brings one. A model
of MiniSBD scores five classes for each character of a text; class 2 ends a sentence. The rules follow
:func:`nmt.text.sentences.sentences`: a sentence ends at a full stop, question mark or exclamation mark, with closing
quotation marks and brackets, before white space (Chinese and Japanese marks need none). It does not end before a
lower-case letter, or at the full stop of a word in Moses' list of the language.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.machine.packages import require_package, silence
from nmt.text.sentences import nonbreaking_prefixes

_CHARACTERS = {
    "stop": ".",
    "ends": ".!?…؟۔।॥։",
    "ends_without_space": "。！？｡",
    "closes": "\"'”“’»)]}›」』）】",
    "closes_alone": "”’」』）】",
    "opens": "\"'“”„«»‘’([{¿¡‹「『（【",
    "space": " ",
    "digit": "0123456789",
    "lower": "".join(letter for letter in map(chr, range(0x10000)) if letter.islower()),
}
_PAD, _UNK = "<PAD>", "<UNK>"
# Of a word before a full stop, in characters; Moses' longest one has 12.
_LONGEST_WORD = 12
# The farthest character that a rule looks at: the one before such a word.
_REACH = _LONGEST_WORD + 1
_BETWEEN_WORDS, _ANY = 0, -1
_INSTALL = "Install it: `pip install onnx onnxscript` (the extra `argos`)."


class SentenceEnds(nn.Module):
    """Where sentences end, for texts of ids of characters.

    Shapes: B texts, T characters, U characters that are told apart, K kinds of characters, N words before a full stop,
    L characters before a full stop.
    """

    kinds_UK: Tensor
    codes_U: Tensor
    words_NL: Tensor
    only_before_number_N: Tensor

    def __init__(self, prefixes: Mapping[str, bool]) -> None:
        """Make the tables.

        Args:
            prefixes: words whose full stop ends no sentence; True if this holds only before a number.
        """
        super().__init__()
        prefixes = {word: numeric for word, numeric in prefixes.items() if 0 < len(word) <= _LONGEST_WORD}
        self.units = [_PAD, _UNK, *sorted(set("".join([*_CHARACTERS.values(), *prefixes])))]
        kinds = [[unit in characters for characters in _CHARACTERS.values()] for unit in self.units]
        between_words = {_PAD, " ", *_CHARACTERS["opens"]}
        codes = {
            unit: _BETWEEN_WORDS if unit in between_words else code for code, unit in enumerate(self.units, start=1)
        }
        # Read backwards from the full stop to what stands before the word.
        words = [[*(codes[character] for character in reversed(word)), _BETWEEN_WORDS] for word in prefixes]
        padded = [word + [_ANY] * (_REACH - len(word)) for word in words]
        self.register_buffer("kinds_UK", torch.tensor(kinds))
        self.register_buffer("codes_U", torch.tensor(list(codes.values())))
        self.register_buffer("words_NL", torch.tensor(padded, dtype=torch.long).reshape(-1, _REACH))
        self.register_buffer("only_before_number_N", torch.tensor(list(prefixes.values()), dtype=torch.bool))

    def forward(self, units: Tensor, features: Tensor) -> Tensor:
        """Scores of the five classes (B, T, 5), for ids of characters (B, T); features are not used."""
        kinds_KBT = self.kinds_UK[units].permute(2, 0, 1).long()
        kind_BT = dict(zip(_CHARACTERS, kinds_KBT, strict=True))

        def at(kind: str, offset: int) -> Tensor:
            return _shifted(kind_BT[kind], offset) > 0

        ends = at("ends", 0) | (at("closes", 0) & (at("ends", -1) | (at("closes", -1) & at("ends", -2))))
        before_lower = at("lower", 2) | (at("opens", 2) & at("lower", 3))
        in_abbreviation = at("stop", 0) & self._follows_prefix(units, at("digit", 2))
        ends &= at("space", 1) & ~before_lower & ~in_abbreviation
        alone = at("ends_without_space", 0) | (at("closes_alone", 0) & at("ends_without_space", -1))
        alone &= ~at("ends_without_space", 1) & ~at("closes_alone", 1)
        is_end = (ends | alone).float()
        none = torch.zeros_like(is_end)
        return torch.stack([1 - is_end, none, is_end, none, none], dim=-1)

    def _follows_prefix(self, units: Tensor, before_number: Tensor) -> Tensor:
        """Whether a word whose full stop ends no sentence stands before each character (B, T)."""
        # Beyond the beginning of the text is _BETWEEN_WORDS.
        codes_BT = self.codes_U[units]
        before_BTL = torch.stack([_shifted(codes_BT, -back) for back in range(1, _REACH + 1)], dim=-1)
        same_BTNL = (before_BTL[:, :, None] == self.words_NL) | (self.words_NL == _ANY)
        applies_BTN = before_number[:, :, None] | ~self.only_before_number_N
        return (same_BTNL.all(-1) & applies_BTN).any(-1)


def _shifted(values_BT: Tensor, offset: int) -> Tensor:
    """At each place the value that is ``offset`` places further on; 0 beyond the ends."""
    padded = F.pad(values_BT, (_REACH, _REACH))
    return padded[:, _REACH + offset : padded.shape[1] - _REACH + offset]


def sentence_splitter(language: str) -> bytes:
    """The ONNX model that splits text of a language.

    Raises:
        NmtError: onnx or onnxscript is not installed.
    """
    onnx = require_package("onnx", "onnx", what="A package of Argos Translate", advice=_INSTALL)
    require_package("onnxscript", "onnxscript", what="A package of Argos Translate", advice=_INSTALL)
    ends = SentenceEnds(nonbreaking_prefixes(language))
    texts, time = torch.export.Dim("texts"), torch.export.Dim("time")
    axes = {0: texts, 1: time}
    example = torch.ones(2, 20, dtype=torch.long), torch.zeros(2, 20, 1)
    with silence():
        program = torch.onnx.export(
            ends,
            example,
            input_names=["units", "features"],
            output_names=["classes"],
            dynamic_shapes={"units": axes, "features": axes},
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    model = program.model_proto
    # MiniSBD needs one feature at least.
    config = {"feat_funcs": ["capitalized"], "batch_size": 1}
    ids = {unit: number for number, unit in enumerate(ends.units)}
    vocabulary = {"lang": language, "_unit2id": ids, "_id2unit": ends.units}
    properties = {"lang_code": language, "config": json.dumps(config), "vocab": json.dumps(vocabulary)}
    onnx.helper.set_model_props(model, properties)
    content: bytes = model.SerializeToString()
    return content
