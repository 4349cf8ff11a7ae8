"""COMET (Rei et al. 2020), computed by the package unbabel-comet with a model on disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nmt.errors import ConfigError, NmtError
from nmt.evaluation.learned_metrics import INSTALL, refused_without_model
from nmt.packages import require_package, silence, versioned

_PACKAGE = "unbabel-comet"
_FETCH = (
    "`hf download Unbabel/wmt22-comet-da` (of huggingface_hub) fetches one and prints its folder, which is the path to "
    "give. Its encoder's settings are fetched by `hf download xlm-roberta-large config.json tokenizer.json "
    "tokenizer_config.json sentencepiece.bpe.model`."
)
_CHECKPOINT = Path("checkpoints", "model.ckpt")
_BATCH = 16


class Comet:
    """A COMET model: one with references, or one that looks at source and hypothesis alone."""

    name = "COMET"

    def __init__(self, model: Path | None, source: Sequence[str] | None) -> None:
        """Load a model.

        Args:
            model: the folder that holds ``hparams.yaml`` and ``checkpoints/model.ckpt``, or that checkpoint.
            source: source lines.

        Raises:
            ConfigError: there is no source.
            NmtError: the package or the model is missing, or cannot be loaded.
        """
        if model is None:
            raise refused_without_model("comet", "--comet-model", _FETCH)
        if source is None:
            raise ConfigError("--metric comet needs the source text: --source FILE, or a --test-set.")
        # The folder of a bare file name is known from the absolute path alone.
        self.weights = model / _CHECKPOINT if model.is_dir() else model.absolute()
        self.model = self.weights.parent.parent
        for path in (self.weights, self.model / "hparams.yaml"):
            if not path.is_file():
                raise NmtError(f"--comet-model {model}: {path} does not exist. {_FETCH}")
        self._source = source
        with silence():
            comet = require_package("comet", _PACKAGE, what=self.name, advice=INSTALL.format(_PACKAGE))
            self.package = versioned(_PACKAGE)
            # Whatever the package raises is about the files: it checks nothing before.
            try:
                self._model: Any = comet.load_from_checkpoint(str(self.weights), local_files_only=True)
            except Exception as error:
                raise NmtError(
                    f"--comet-model {model}: {_PACKAGE} cannot load it: {str(error).rstrip('.')}. The encoder that its "
                    f"hparams.yaml names must be on this machine too. {_FETCH}"
                ) from error

    def segment_scores(self, hypotheses: Sequence[str], reference: Sequence[str]) -> list[float]:
        """One score per segment, as the package gives it: for most models between 0 and 1."""
        samples = [
            {"src": source, "mt": hypothesis, "ref": line}
            for source, hypothesis, line in zip(self._source, hypotheses, reference, strict=True)
        ]
        if not self._model.requires_references():
            samples = [{"src": sample["src"], "mt": sample["mt"]} for sample in samples]
        with silence():
            # Workers that load data would only tokenise, and print about themselves.
            found = self._model.predict(samples, batch_size=_BATCH, gpus=_gpus(), progress_bar=False, num_workers=0)
        return [float(score) for score in found.scores]


def _gpus() -> int:
    from nmt.device import choose_device

    return int(choose_device()[0].type == "cuda")
