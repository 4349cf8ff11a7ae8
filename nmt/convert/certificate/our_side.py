"""Our side of a comparison: a bundle, computed in fp32 on the CPU by the search and the scoring that users run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

import nmt
from nmt.checkpoint.bundle import Bundle, load_bundle
from nmt.convert.certificate.side import SEARCHED_AT_ONCE, Floats, Hypothesis, Language, Pieces, Side
from nmt.data.vocab import Vocabulary
from nmt.machine.device import choose_hardware
from nmt.search.beam_search import beam_search
from nmt.search.given_targets import score_targets
from nmt.search.settings import SearchSettings
from nmt.text.steps import normalizer


class OurSide(Side):
    """A bundle, read from disk."""

    def __init__(self, folder: Path, *, adds_languages: bool = True, norm_epsilon: float | None = None) -> None:
        """Read a bundle.

        Args:
            adds_languages: whether the pieces of its languages are among those of text.
            norm_epsilon: the epsilon of its norms, in place of its own.

        Raises:
            CheckpointError: the bundle is damaged.
        """
        self.name = f"nmt {nmt.__version__}"
        self.software = {"nmt": nmt.__version__, "torch": torch.__version__}
        self.bundle: Bundle = load_bundle(folder)
        if norm_epsilon is not None:
            config = self.bundle.config
            model = config.model.model_copy(update={"norm_epsilon": norm_epsilon})
            self.bundle = replace(self.bundle, config=config.model_copy(update={"model": model}))
        data = self.bundle.config.data
        self._vocab = self.bundle.vocab.prepared(data.steps.without_tags, data.languages if adds_languages else {})
        self._hardware = choose_hardware("cpu", "fp32", None)
        self._model = self.bundle.build_model(products=torch.float32)
        self._found: dict[tuple[tuple[int, ...], int, int], list[Hypothesis]] = {}  # several checks search the same

    def prepared(self, lines: Sequence[str], language: Language) -> list[str]:
        """As :meth:`Side.prepared`."""
        data = self.bundle.config.data
        return list(map(normalizer(data.source_text if language == "source" else data.target_text), lines))

    def segment(self, lines: Sequence[str], language: Language) -> list[list[str]]:
        """As :meth:`Side.segment`."""
        vocab = self._vocab.of(language)
        return [vocab.pieces(ids) for ids in vocab.encode(lines)]

    def text(self, pieces: Sequence[Pieces]) -> list[str]:
        """As :meth:`Side.text`."""
        vocab = self.bundle.vocab.target
        return vocab.decode([vocab.ids(row) for row in pieces])

    def states(self, sources: Sequence[Pieces]) -> list[Floats]:
        """As :meth:`Side.states`."""
        found = []
        with torch.inference_mode():
            for ids in self._ids(sources):
                encoded = self._model.encode(self._model.packed(torch.tensor([[*ids, Vocabulary.EOS]])))
                seen = len(ids) + self.bundle.config.model.source_eos
                found.append(encoded.memory_MD[:seen].double().numpy())
        return found

    def score(self, sources: Sequence[Pieces], targets: Sequence[Pieces]) -> list[Floats]:
        """As :meth:`Side.score`."""
        target_ids = [self.bundle.vocab.target.ids(target) for target in targets]
        scores = score_targets([self._model], self._ids(sources), target_ids, self._hardware)
        return [np.array(score.piece_log_probabilities) for score in scores]

    def search(self, sources: Sequence[Pieces], beam: int, max_length: int) -> list[list[Hypothesis]]:
        """As :meth:`Side.search`."""
        settings = SearchSettings(
            beam=beam, nbest=beam, length_penalty=0, max_extra_length=max_length, max_length=max_length
        )
        rows = list(map(tuple, self._ids(sources)))
        vocab = self.bundle.vocab.target
        new = sorted((row for row in {*rows} if (row, beam, max_length) not in self._found), key=len)
        for first in range(0, len(new), SEARCHED_AT_ONCE):
            batch = new[first : first + SEARCHED_AT_ONCE]
            source_BS = pad_sequence([torch.tensor([*row, Vocabulary.EOS]) for row in batch], batch_first=True)
            for row, hypotheses in zip(batch, beam_search([self._model], source_BS, settings), strict=True):
                self._found[row, beam, max_length] = [
                    Hypothesis(tuple(vocab.pieces(one.pieces)), one.log_probability) for one in hypotheses
                ]
        return [self._found[row, beam, max_length] for row in rows]

    def _ids(self, sources: Sequence[Pieces]) -> list[list[int]]:
        return [self.bundle.vocab.source.ids(source) for source in sources]
