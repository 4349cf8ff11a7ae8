"""The matrices of pieces of a MarianMT: which tensors they are, and which of them are one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from nmt.convert.foreign import Array
from nmt.convert.huggingface.names import OUTPUT, SHARED, SOURCE_EMBEDDING, TARGET_EMBEDDING
from nmt.convert.huggingface.settings import MarianSettings
from nmt.convert.unscaled import divided, exact_scale, scaled_name
from nmt.errors import CheckpointError


@dataclass(frozen=True)
class Embeddings:
    """The names of the matrices of pieces, and which of them are one."""

    source: str
    target: str
    output: str
    tied: Literal["all", "decoder", "none"]

    @property
    def names(self) -> tuple[str, str, str]:
        """All three."""
        return self.source, self.target, self.output

    @classmethod
    def find(cls, tensors: Mapping[str, Array], settings: MarianSettings, file: Path) -> Embeddings:
        """The matrices among the tensors of a file.

        Raises:
            CheckpointError: one is missing or of another size, or two differ that must be the same.
        """
        found = cls._find(tensors, settings, file)
        sizes = settings.vocabulary_sizes
        for name, pieces in zip(found.names, (*sizes, sizes[1]), strict=True):
            if tensors[name].shape != (wanted := (pieces, settings.size("d_model"))):
                shapes = (" x ".join(map(str, shape)) for shape in (tensors[name].shape, wanted))
                raise CheckpointError(
                    f"{file}: {name} is {next(shapes)}, but {settings.name} says {next(shapes)}: they belong to "
                    "different models."
                )
        return found

    @classmethod
    def _find(cls, tensors: Mapping[str, Array], settings: MarianSettings, file: Path) -> Embeddings:
        is_tied = settings.flag("tie_word_embeddings", True)

        def one_of(*names: str) -> str:
            present = [name for name in names if name in tensors]
            if not present:
                raise CheckpointError(f"{file}: lacks {names[0]}: is it a MarianMTModel?")
            for name in present[1:]:
                if is_tied and not np.array_equal(tensors[name], tensors[present[0]]):
                    raise CheckpointError(
                        f"{file}: {present[0]} and {name} differ, but tie_word_embeddings of {settings.name} says "
                        "that they are one matrix. Correct it there."
                    )
            return present[0]

        if not is_tied:
            return cls(one_of(SOURCE_EMBEDDING, SHARED), one_of(TARGET_EMBEDDING, SHARED), one_of(OUTPUT), "none")
        if not settings.flag("share_encoder_decoder_embeddings", True):
            target = one_of(TARGET_EMBEDDING, OUTPUT)
            return cls(one_of(SOURCE_EMBEDDING), target, target, "decoder")
        shared = one_of(SHARED, SOURCE_EMBEDDING, TARGET_EMBEDDING, OUTPUT)
        return cls(shared, shared, shared, "all")


def unscaled(
    tensors: Mapping[str, Array], embeddings: Embeddings, settings: MarianSettings
) -> tuple[dict[str, Array], Embeddings]:
    """Embeddings that give the same vectors once they are multiplied by sqrt(d_model), as ours are.

    Raises:
        CheckpointError: the division would round.
    """
    d_model = settings.size("d_model")
    if (scale := exact_scale(d_model)) is None:
        raise settings.refused(
            "scale_embedding",
            False,
            f"nmt multiplies embeddings by sqrt(d_model) = {math.sqrt(d_model):g}, which is no power of two",
        )
    more = divided(tensors, (embeddings.source, embeddings.target), scale)
    source, target = scaled_name(embeddings.source, scale), scaled_name(embeddings.target, scale)
    return {**tensors, **more}, Embeddings(source, target, embeddings.output, "none")
