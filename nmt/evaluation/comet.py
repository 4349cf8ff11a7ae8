"""COMET, a learned metric, computed by a package and a model that the user installs.

Nothing is downloaded. Each segment has a score; the score of a text is their mean. It is a sacreBLEU metric, so its
tests of significance apply to it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sacrebleu.metrics.base import Metric, Score, Signature

from nmt.errors import ConfigError, DataError, NmtError
from nmt.io.hashing import sha256_of
from nmt.machine.packages import require_package, silence, versioned

SCALE = 100
"""Scores are printed times 100, as most papers do: two decimals of a score around 0.8 would say little."""
_PACKAGE = "unbabel-comet"
_INSTALL = (
    f"Run `pip install {_PACKAGE}` in an environment of its own that also has nmt: it needs older versions of other "
    "packages (docs/scoring.md)."
)
_FETCH = (
    "`hf download Unbabel/wmt22-comet-da` (of huggingface_hub) fetches one and prints its folder, which is the "
    "path to give. Its encoder's settings are fetched by `hf download xlm-roberta-large config.json tokenizer.json "
    "tokenizer_config.json sentencepiece.bpe.model`."
)
_BATCH = 16


class _ModelSignature(Signature):  # type: ignore[misc]
    """The model by its name and its weights, and the package that computes the scores."""

    def __init__(self, args: dict[str, Any]) -> None:
        super().__init__(args)
        self.info = {
            "nrefs": args["num_refs"],
            "model": model_name(args["folder"]),
            "sha256": args["sha256"][:12],
            "scale": SCALE,
            "version": args["version"],
        }

    def format(self, short: bool = False) -> str:
        # sacreBLEU's own puts the version last, behind what its tests of significance add.
        return "|".join(f"{key}:{value}" for key, value in self.info.items())


class Comet(Metric):  # type: ignore[misc]
    """COMET (Rei et al. 2020): a model with references, or one that looks at source and hypothesis alone.

    The score of a text is the mean over its segments. The statistics of a segment are its score and 1.
    """

    _SIGNATURE_TYPE = _ModelSignature

    def __init__(self, model: Path | None, source: Sequence[str] | None) -> None:
        """Load a model.

        Args:
            model: the folder that holds ``hparams.yaml`` and ``checkpoints/model.ckpt``, or that checkpoint.
            source: source lines.

        Raises:
            ConfigError: there is no source.
            NmtError: the package or the model is missing, or cannot be loaded.
        """
        super().__init__()
        if model is None:
            raise NmtError(f"--metric comet needs a model on this machine: --comet-model PATH. {_FETCH}")
        if source is None:
            raise ConfigError("--metric comet needs the source text: --source FILE, or a --test-set.")
        self._source = source
        self.num_refs = 1
        # The folder of a bare file name is known from the absolute path alone.
        self.weights = (model / "checkpoints" / "model.ckpt" if model.is_dir() else model).absolute()
        self.folder = self.weights.parent.parent
        for path in (self.weights, self.folder / "hparams.yaml"):
            if not path.is_file():
                raise NmtError(f"--comet-model {model}: {path} does not exist. {_FETCH}")
        with silence():
            module = require_package("comet", _PACKAGE, what="COMET", advice=_INSTALL)
        self.version = versioned(_PACKAGE)
        # Whatever the package raises is about the files: it checks nothing before.
        try:
            with silence():
                self._model = module.load_from_checkpoint(str(self.weights), local_files_only=True)
        except Exception as error:
            raise NmtError(
                f"--comet-model {model}: {_PACKAGE} cannot load it: {str(error).rstrip('.')}. The encoder that its "
                f"hparams.yaml names must be on this machine too. {_FETCH}"
            ) from error
        self.sha256 = sha256_of(self.weights)
        self._known: dict[tuple[tuple[str, ...], tuple[str, ...]], list[float]] = {}

    def segment_scores(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> list[float]:
        """One score per segment times :data:`SCALE`. The same texts are scored once.

        Raises:
            DataError: there is more than one reference.
            NmtError: the model gave another number of scores, or one that is not finite.
        """
        check_one_reference(len(references))
        key = tuple(hypotheses), tuple(references[0])
        if key not in self._known:
            values = [float(value) for value in self._predict(hypotheses, references[0])]
            if len(values) != len(hypotheses) or not all(map(math.isfinite, values)):
                raise NmtError(
                    f"{self.folder}: COMET gave {len(values):,} scores for {len(hypotheses):,} segments, or "
                    "scores that are not finite. The model may be damaged: fetch it again."
                )
            self._known[key] = [SCALE * value for value in values]
        return self._known[key]

    def _predict(self, hypotheses: Sequence[str], reference: Sequence[str]) -> Sequence[float]:
        """One score per segment, as the package gives it."""
        from nmt.machine.device import choose_device

        lines = zip(self._source, hypotheses, reference, strict=True)
        samples = [{"src": source, "mt": hypothesis, "ref": expected} for source, hypothesis, expected in lines]
        if not self._model.requires_references():
            samples = [{"src": sample["src"], "mt": sample["mt"]} for sample in samples]
        gpus = int(choose_device()[0].type == "cuda")
        with silence():
            # Workers that load data would only tokenise, and print about themselves.
            found = self._model.predict(samples, batch_size=_BATCH, gpus=gpus, progress_bar=False, num_workers=0)
        scores: Sequence[float] = found.scores
        return scores

    def _extract_corpus_statistics(
        self, hypotheses: Sequence[str], references: Sequence[Sequence[str]] | None
    ) -> list[list[float]]:
        return [[score, 1] for score in self.segment_scores(hypotheses, references or [])]

    def _aggregate_and_compute(self, stats: Sequence[Sequence[float]]) -> Score:
        return self._compute_score_from_stats([sum(column) for column in zip(*stats, strict=True)])

    def _compute_score_from_stats(self, stats: Sequence[float]) -> Score:
        total, count = stats
        return Score("COMET", float(total) / float(count))

    # sacreBLEU's way to the statistics, segment by segment. A model scores segments in batches.

    def _preprocess_segment(self, sent: str) -> str:
        raise NotImplementedError

    def _extract_reference_info(self, refs: Sequence[str]) -> dict[str, Any]:
        raise NotImplementedError

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, Any]) -> list[float]:
        raise NotImplementedError


def check_one_reference(references: int) -> None:
    """Check the number of references, before a model is loaded.

    Raises:
        DataError: there is more than one.
    """
    if references != 1:
        raise DataError(f"COMET compares with one reference, but {references} are given. Give one.")


def model_name(folder: Path) -> str:
    """The name of a model by its folder, which may be a snapshot in the cache of Hugging Face."""
    folder = folder.absolute()
    if folder.parent.name == "snapshots":
        return folder.parent.parent.name.rpartition("--")[2]
    return folder.name
