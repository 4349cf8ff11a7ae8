"""BLEURT (Sellam et al. 2020), computed by the package bleurt-pytorch with a model on disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nmt.errors import NmtError
from nmt.evaluation.learned_metrics import INSTALL, refused_without_model
from nmt.packages import require_package, silence, versioned

_PACKAGE = "bleurt-pytorch"
_FETCH = (
    "`hf download lucadiliello/BLEURT-20` (of huggingface_hub) fetches one and prints its folder, which is the path to "
    "give."
)
_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
_BATCH = 16


class Bleurt:
    """A BLEURT model."""

    name = "BLEURT"

    def __init__(self, model: Path | None) -> None:
        """Load a model.

        Args:
            model: the folder with its settings, weights and vocabulary.

        Raises:
            NmtError: the package or the model is missing, or cannot be loaded.
        """
        if model is None:
            raise refused_without_model("bleurt", "--bleurt-model", _FETCH)
        found = [model / name for name in _WEIGHTS if (model / name).is_file()]
        if not found:
            raise NmtError(f"--bleurt-model {model}: must be a folder with {' or '.join(_WEIGHTS)}. {_FETCH}")
        self.model, self.weights = model, found[0]
        with silence():
            bleurt = require_package("bleurt_pytorch", _PACKAGE, what=self.name, advice=INSTALL.format(_PACKAGE))
        self.package = versioned(_PACKAGE)
        # Whatever the package raises is about the files: it checks nothing before.
        try:
            self._tokenizer: Any = bleurt.BleurtTokenizer.from_pretrained(str(model), local_files_only=True)
            loaded = bleurt.BleurtForSequenceClassification.from_pretrained(str(model), local_files_only=True)
        except Exception as error:
            raise NmtError(
                f"--bleurt-model {model}: {_PACKAGE} cannot load it: {str(error).rstrip('.')}. {_FETCH}"
            ) from error
        self._device = _device()
        self._network: Any = loaded.eval().to(self._device)

    def segment_scores(self, hypotheses: Sequence[str], reference: Sequence[str]) -> list[float]:
        """One score per segment, as the package gives it: for BLEURT-20 about between 0 and 1.

        Sentences of similar length share a batch. What is longer than the model's positions is cut, as by the authors.
        """
        import torch

        order = sorted(range(len(hypotheses)), key=lambda index: len(hypotheses[index]) + len(reference[index]))
        scores = [0.0] * len(hypotheses)
        for start in range(0, len(order), _BATCH):
            chosen = order[start : start + _BATCH]
            tokens = self._tokenizer(
                [reference[index] for index in chosen],
                [hypotheses[index] for index in chosen],
                padding="longest",
                truncation=True,
                max_length=self._network.config.max_position_embeddings,
                return_tensors="pt",
            )
            with torch.inference_mode():
                values = self._network(**{name: tensor.to(self._device) for name, tensor in tokens.items()}).logits
            for index, value in zip(chosen, values.flatten().tolist(), strict=True):
                scores[index] = value
        return scores


def _device() -> str:
    from nmt.device import choose_device

    found, _ = choose_device()
    return found.type if found.type == "cuda" else "cpu"
