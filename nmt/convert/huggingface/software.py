"""Transformers itself as one side of a comparison: its stock classes, loaded from a folder.

Models for many languages are compared by their pieces alone: transformers' tokenisers need files that not every folder
has.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nmt.convert.certificate.side import Floats, Hypothesis, Language, Pieces, Side
from nmt.convert.files import COPY_AGAIN
from nmt.convert.foreign import ForeignModel
from nmt.convert.vocabulary import piece_names
from nmt.data.vocab import SPECIAL_PIECES, Vocabulary
from nmt.errors import CheckpointError

_OLDEST = (5, 3)
"""Older transformers run code from a model's settings (CVE-2026-4372)."""
_UNK = SPECIAL_PIECES[Vocabulary.UNK]


class HuggingFaceSide(Side):
    """A folder, read by transformers.

    Args:
        source, target: our names of the pieces, by transformers' ids.
        features_D: the feature of the residual stream that is compared with each of ours; None if they are the same.
        dtype: of the weights; None for that of the files.

    Raises:
        ImportError: transformers is not installed, or too old to open files from anywhere.
        CheckpointError: a file is missing.
    """

    max_searches = 100

    def __init__(
        self,
        folder: Path,
        source: Sequence[str],
        target: Sequence[str],
        *,
        features_D: Tensor | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        version = metadata.version("transformers")
        if tuple(map(int, re.findall(r"\d+", version)[:2])) < _OLDEST:
            raise ImportError(f"transformers {version} is installed, but 5.3 or newer is needed")
        from transformers import AutoModelForSeq2SeqLM, MarianTokenizer

        self.software, self.name = {"transformers": version}, f"transformers {version}"
        options = {} if dtype is None else {"dtype": dtype}
        self._tokenizer: Any = None
        try:
            self._model: Any = AutoModelForSeq2SeqLM.from_pretrained(folder, local_files_only=True, **options).eval()
            if self._model.config.model_type == "marian":
                self._tokenizer = MarianTokenizer.from_pretrained(folder, local_files_only=True)
        except OSError as error:
            raise CheckpointError(
                f"{folder}: transformers cannot open it ({str(error).rstrip('.')}). {COPY_AGAIN}"
            ) from None
        self._names: dict[Language, Sequence[str]] = {"source": source, "target": target}
        self._source_ids = {piece: index for index, piece in enumerate(source)}
        self._target_ids = {piece: index for index, piece in enumerate(target)}
        self._features_D = features_D
        generation = self._model.generation_config
        self._start, self._eos = int(generation.decoder_start_token_id), int(generation.eos_token_id)
        self._source_eos = int((self._tokenizer or generation).eos_token_id)
        self._never = sorted({self._start, int(generation.pad_token_id), self._target_ids[_UNK]} - {self._eos})

    def segment(self, lines: Sequence[str], language: Language) -> list[list[str]] | None:
        """As :meth:`Side.segment`."""
        if self._tokenizer is None:
            return None
        names = self._names[language]
        argument = "text" if language == "source" else "text_target"
        found = [self._tokenizer(**{argument: line}, add_special_tokens=False)["input_ids"] for line in lines]
        return [[names[index] for index in ids] for ids in found]

    def text(self, pieces: Sequence[Pieces]) -> list[str] | None:
        """As :meth:`Side.text`."""
        if self._tokenizer is None:
            return None
        rows = [[self._target_ids[piece] for piece in row] for row in pieces]
        return [self._tokenizer.decode(row, skip_special_tokens=True) for row in rows]

    def states(self, sources: Sequence[Pieces]) -> list[Floats]:
        """As :meth:`Side.states`, with features in our order."""
        found = []
        with torch.inference_mode():
            for source in sources:
                states_SD = self._model.get_encoder()(self._source(source)).last_hidden_state[0]
                ordered_SD = states_SD if self._features_D is None else states_SD[:, self._features_D]
                found.append(ordered_SD.double().numpy())
        return found

    def score(self, sources: Sequence[Pieces], targets: Sequence[Pieces]) -> list[Floats]:
        """As :meth:`Side.score`."""
        return [self._score(source, [self._target_ids[piece] for piece in target] + [self._eos])
                for source, target in zip(sources, targets, strict=True)]  # fmt: skip

    def search(self, sources: Sequence[Pieces], beam: int, max_length: int) -> list[list[Hypothesis]]:
        """As :meth:`Side.search`."""
        return [self._search(source, beam, max_length) for source in sources]

    def _source(self, pieces: Pieces) -> Tensor:
        return torch.tensor([[*(self._source_ids[piece] for piece in pieces), self._source_eos]])

    def _score(self, source: Pieces, written: Sequence[int]) -> Floats:
        """The log-probability of each of the written ids."""
        read_1T = torch.tensor([[self._start, *written[:-1]]])
        with torch.inference_mode():
            # With a cache, FSMT takes the pieces for one step's and lets each of them see the later ones.
            inputs = {"input_ids": self._source(source), "decoder_input_ids": read_1T}
            logits_TV = self._model(**inputs, use_cache=False).logits[0]
        scores: Floats = logits_TV.double().log_softmax(-1).gather(1, torch.tensor(written)[:, None])[:, 0].numpy()
        return scores

    def _search(self, source: Pieces, beam: int, max_length: int) -> list[Hypothesis]:
        found = self._model.generate(
            input_ids=self._source(source),
            do_sample=False,
            num_beams=beam,
            num_return_sequences=beam,
            max_length=max_length + 2,  # with the first piece and eos
            length_penalty=0.0,
            suppress_tokens=self._never,
            bad_words_ids=None,
            forced_eos_token_id=None,
            early_stopping="never" if beam > 1 else False,
        )
        return [self._hypothesis(source, row, max_length) for row in found[:, 1:].tolist()]

    def _hypothesis(self, source: Pieces, row: Sequence[int], max_length: int) -> Hypothesis:
        is_complete = self._eos in row
        written = list(row[: row.index(self._eos) + 1] if is_complete else row[:max_length])
        pieces = tuple(self._names["target"][index] for index in (written[:-1] if is_complete else written))
        return Hypothesis(pieces, float(self._score(source, written).sum()), is_complete)


def huggingface_side(path: Path, model: ForeignModel) -> HuggingFaceSide:
    """Transformers, reading the folder that a model was imported from.

    Raises:
        ImportError: transformers is not installed.
    """
    source, target = (
        [piece_names(side, model.start)[piece] for piece in side.pieces] for side in (model.source, model.target)
    )
    return HuggingFaceSide(path, source, target, dtype=torch.float32)
