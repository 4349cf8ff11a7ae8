"""The memory that searches need, and the number of sentences that fit into the free memory.

Memory is estimated before it is allocated. On a CPU, allocating too much raises no error: the system kills the process.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from nmt.machine.device import free_memory, total_memory
from nmt.model.transformer import Transformer
from nmt.search.beam import Size
from nmt.search.settings import BATCH_TOKENS, BeamTooWideError, SearchSettings

_MOST_BATCH_TOKENS = 65_536
_USUAL_PIECES, _USUAL_BEAM = 32, 4
_SHARE_OF_BATCHES = 0.25
_NUMBER = 4  # bytes of a float32


class SearchMemory:
    """The memory for all searches together."""

    def __init__(
        self, models: Sequence[Transformer], device: torch.device, products: torch.dtype = torch.float32
    ) -> None:
        """Measure the free memory, before the first search allocates any.

        Args:
            products: the dtype of the factors of matrix products. Keys and values have it; those of int8 are floats.
        """
        self._models = models
        self._device = device
        self._key_bytes = products.itemsize if products.is_floating_point else _NUMBER
        self.free = free_memory(device)

    def need(self, settings: SearchSettings, sentences: int, source_pieces: int, length: int) -> int:
        """Estimate the bytes that a step of a search needs.

        Args:
            sentences: the number of sentences in the search.
            source_pieces: source pieces of the longest sentence.
            length: pieces of each hypothesis after the step.
        """
        beam, vocabulary = settings.beam, self._models[0].vocab_size
        first, size = (Size.of(self._models[0], beam, sentences, source_pieces, each) for each in (1, length))
        source_pieces, slots = size.source, beam * size.room
        if size.room > first.room:
            slots += slots // 2  # the old slots are still there while they are copied
        source_copies = 1
        if size.is_recorded:
            length = size.room  # it may attend to all slots
            source_copies = 2  # the encoder's, copied to the tensors of the recordings
        keys_and_values = numbers = 0
        for model in self._models:
            layers, d_model = model.config.decoder_layers, model.config.d_model
            neighbours = model.config.target_neighbours
            attended = beam * (length if neighbours is None else min(length, neighbours + 1))
            # Keys and values of the slots for pieces and of the source; the masks of the slots.
            keys_and_values += 2 * layers * d_model * (slots + source_copies * source_pieces) + beam * slots
            # The masks of the parents' pasts; a layer's scores before and after softmax.
            numbers += (2 + 2 * model.config.heads) * beam * attended
            if model.config.attention == "additive":  # a vector for each pair of query and key
                pairs = max(source_pieces**2, beam * attended, beam * source_pieces)
                numbers += model.config.heads * model.config.key_size * pairs
        # The logits, their copies, and the best of them with their indices (8 bytes each).
        numbers += beam * vocabulary * (2 + len(self._models))
        considered = vocabulary if settings.sampling is not None else min(64 * settings.kept, vocabulary)
        numbers += 7 * beam * considered
        return size.sentences * (keys_and_values * self._key_bytes + numbers * _NUMBER)

    def batch_tokens(self, settings: SearchSettings, searches: int) -> int:
        """The number of source pieces to search at once, padding included.

        On a GPU as many as fit easily: each step takes about as long for many sentences as for a few. It does not
        depend on what else is in its memory, because translations in 16 bits may depend on the batch.

        Args:
            searches: the number of searches that run at the same time and share the memory.
        """
        total = total_memory(self._device)
        if total is None:
            return BATCH_TOKENS
        # A wider beam searches fewer pieces.
        usual = settings.model_copy(update={"beam": min(settings.beam, _USUAL_BEAM)})

        def fits(tokens: int) -> bool:
            need = self.need(usual, tokens // _USUAL_PIECES, _USUAL_PIECES, 2 * _USUAL_PIECES)
            return need <= _SHARE_OF_BATCHES * total / searches

        tokens = _MOST_BATCH_TOKENS
        while tokens > BATCH_TOKENS and not fits(tokens):
            tokens //= 2
        return tokens

    def check_beam(self, settings: SearchSettings) -> None:
        """Refuse a beam that is too wide even for the shortest sentence.

        Raises:
            BeamTooWideError: the beam needs more than the free memory. The message names both.
        """
        needed = self.need(settings, 1, 2, 2)
        if self.free is not None and needed > self.free:
            raise BeamTooWideError(
                f"a beam of {settings.beam:,} needs at least {gigabytes(needed)} for a single sentence, but only "
                f"{gigabytes(self.free)} of memory are free: lower --beam."
            )


def gigabytes(size: int) -> str:
    """A number of bytes for people."""
    return f"{size / 1e9:,.1f} GB"
