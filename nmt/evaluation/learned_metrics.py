"""Learned metrics: COMET and BLEURT, each computed by a package and a model that the user installs.

Nothing is downloaded. Both give each segment a score; the score of a text is their mean. They are sacreBLEU metrics, so
its tests of significance apply to them.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from sacrebleu.metrics.base import Metric, Score, Signature

from nmt.errors import ConfigError, DataError, NmtError
from nmt.io.hashing import sha256_of
from nmt.machine.packages import require_package, silence, versioned

SCALE = 100
"""Scores are printed times 100, as most papers do: two decimals of a score around 0.8 would say little."""
_INSTALL = (
    "Run `pip install {}` in an environment of its own that also has nmt: it needs older versions of other packages "
    "(docs/scoring.md)."
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


class SegmentMean(Metric):  # type: ignore[misc]
    """The mean of the scores that a model gives to segments. The statistics of a segment are its score and 1."""

    _SIGNATURE_TYPE = _ModelSignature
    name: ClassVar[str]
    """``COMET`` or ``BLEURT``."""
    package: ClassVar[str]
    """The package that computes the scores, as pip names it."""
    module: ClassVar[str]
    """The package, as Python names it."""
    fetch: ClassVar[str]
    """How to fetch a model, as sentences."""
    needs: ClassVar[str] = ""
    """What else a model needs to be loaded, as a sentence."""

    def __init__(self, model: Path | None) -> None:
        """Load a model.

        Args:
            model: the model, on disk.

        Raises:
            NmtError: the package or the model is missing, or cannot be loaded.
        """
        super().__init__()
        name = self.name.lower()
        if model is None:
            raise NmtError(f"--metric {name} needs a model on this machine: --{name}-model PATH. {self.fetch}")
        self.num_refs = 1
        self.folder, self.weights = self._find(model)
        with silence():
            advice = _INSTALL.format(self.package)
            module = require_package(self.module, self.package, what=self.name, advice=advice)
        self.version = versioned(self.package)
        # Whatever the package raises is about the files: it checks nothing before.
        try:
            self._load(module)
        except Exception as error:
            reason = f"{self.package} cannot load it: {str(error).rstrip('.')}."
            raise NmtError(f"--{name}-model {model}: {reason} {self.needs}{self.fetch}") from error
        self.sha256 = sha256_of(self.weights)
        self._known: dict[tuple[tuple[str, ...], tuple[str, ...]], list[float]] = {}

    @abstractmethod
    def _find(self, model: Path) -> tuple[Path, Path]:
        """The folder of a model, and the file whose checksum tells models apart.

        Raises:
            NmtError: a file is missing.
        """

    @abstractmethod
    def _load(self, module: Any) -> None:
        """Load the model with the module of its package."""

    @abstractmethod
    def _predict(self, hypotheses: Sequence[str], reference: Sequence[str]) -> Sequence[float]:
        """One score per segment, as the package gives it."""

    def segment_scores(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> list[float]:
        """One score per segment times :data:`SCALE`. The same texts are scored once.

        Raises:
            DataError: there is more than one reference.
            NmtError: the model gave another number of scores, or one that is not finite.
        """
        check_one_reference(self.name, len(references))
        key = tuple(hypotheses), tuple(references[0])
        if key not in self._known:
            values = [float(value) for value in self._predict(hypotheses, references[0])]
            if len(values) != len(hypotheses) or not all(map(math.isfinite, values)):
                raise NmtError(
                    f"{self.folder}: {self.name} gave {len(values):,} scores for {len(hypotheses):,} segments, or "
                    "scores that are not finite. The model may be damaged: fetch it again."
                )
            self._known[key] = [SCALE * value for value in values]
        return self._known[key]

    def _extract_corpus_statistics(
        self, hypotheses: Sequence[str], references: Sequence[Sequence[str]] | None
    ) -> list[list[float]]:
        return [[score, 1] for score in self.segment_scores(hypotheses, references or [])]

    def _aggregate_and_compute(self, stats: Sequence[Sequence[float]]) -> Score:
        return self._compute_score_from_stats([sum(column) for column in zip(*stats, strict=True)])

    def _compute_score_from_stats(self, stats: Sequence[float]) -> Score:
        total, count = stats
        return Score(self.name, float(total) / float(count))

    # sacreBLEU's way to the statistics, segment by segment. A model scores segments in batches.

    def _preprocess_segment(self, sent: str) -> str:
        raise NotImplementedError

    def _extract_reference_info(self, refs: Sequence[str]) -> dict[str, Any]:
        raise NotImplementedError

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, Any]) -> list[float]:
        raise NotImplementedError


class Comet(SegmentMean):
    """COMET (Rei et al. 2020): a model with references, or one that looks at source and hypothesis alone."""

    name = "COMET"
    package = "unbabel-comet"
    module = "comet"
    fetch = (
        "`hf download Unbabel/wmt22-comet-da` (of huggingface_hub) fetches one and prints its folder, which is the "
        "path to give. Its encoder's settings are fetched by `hf download xlm-roberta-large config.json tokenizer.json "
        "tokenizer_config.json sentencepiece.bpe.model`."
    )
    needs = "The encoder that its hparams.yaml names must be on this machine too. "

    def __init__(self, model: Path | None, source: Sequence[str] | None) -> None:
        """Load a model.

        Args:
            model: the folder that holds ``hparams.yaml`` and ``checkpoints/model.ckpt``, or that checkpoint.
            source: source lines.

        Raises:
            ConfigError: there is no source.
            NmtError: the package or the model is missing, or cannot be loaded.
        """
        if model is not None and source is None:
            raise ConfigError("--metric comet needs the source text: --source FILE, or a --test-set.")
        self._source = source or []
        super().__init__(model)

    def _find(self, model: Path) -> tuple[Path, Path]:
        # The folder of a bare file name is known from the absolute path alone.
        weights = (model / "checkpoints" / "model.ckpt" if model.is_dir() else model).absolute()
        folder = weights.parent.parent
        for path in (weights, folder / "hparams.yaml"):
            if not path.is_file():
                raise NmtError(f"--comet-model {model}: {path} does not exist. {self.fetch}")
        return folder, weights

    def _load(self, module: Any) -> None:
        with silence():
            self._model = module.load_from_checkpoint(str(self.weights), local_files_only=True)

    def _predict(self, hypotheses: Sequence[str], reference: Sequence[str]) -> Sequence[float]:
        lines = zip(self._source, hypotheses, reference, strict=True)
        samples = [{"src": source, "mt": hypothesis, "ref": expected} for source, hypothesis, expected in lines]
        if not self._model.requires_references():
            samples = [{"src": sample["src"], "mt": sample["mt"]} for sample in samples]
        gpus = int(_device() == "cuda")
        with silence():
            # Workers that load data would only tokenise, and print about themselves.
            found = self._model.predict(samples, batch_size=_BATCH, gpus=gpus, progress_bar=False, num_workers=0)
        scores: Sequence[float] = found.scores
        return scores


class Bleurt(SegmentMean):
    """BLEURT (Sellam et al. 2020). The model is a folder with its settings, weights and vocabulary."""

    name = "BLEURT"
    package = "bleurt-pytorch"
    module = "bleurt_pytorch"
    fetch = (
        "`hf download lucadiliello/BLEURT-20` (of huggingface_hub) fetches one and prints its folder, which is the "
        "path to give."
    )

    def _find(self, model: Path) -> tuple[Path, Path]:
        names = ("model.safetensors", "pytorch_model.bin")
        found = [model / name for name in names if (model / name).is_file()]
        if not found:
            raise NmtError(f"--bleurt-model {model}: must be a folder with {' or '.join(names)}. {self.fetch}")
        return model, found[0].absolute()

    def _load(self, module: Any) -> None:
        folder = str(self.folder)
        self._tokenizer = module.BleurtTokenizer.from_pretrained(folder, local_files_only=True)
        network = module.BleurtForSequenceClassification.from_pretrained(folder, local_files_only=True)
        self._device = _device()
        self._network = network.eval().to(self._device)

    def _predict(self, hypotheses: Sequence[str], reference: Sequence[str]) -> Sequence[float]:
        """Sentences of similar length share a batch.

        Text that is longer than the model's positions is cut, as by the authors.
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


def learned_metrics(
    names: Iterable[str],
    *,
    comet_model: Path | None = None,
    bleurt_model: Path | None = None,
    source: Sequence[str] | None = None,
) -> dict[str, SegmentMean]:
    """Load the models of the learned metrics among these names; by name.

    Args:
        comet_model, bleurt_model: the models, on disk.
        source: source lines, which COMET needs.

    Raises:
        NmtError: a package or a model is missing, or cannot be loaded.
    """
    wanted, learned = set(names), dict[str, SegmentMean]()
    if "comet" in wanted:
        learned["comet"] = Comet(comet_model, source)
    if "bleurt" in wanted:
        learned["bleurt"] = Bleurt(bleurt_model)
    return learned


def check_one_reference(name: str, references: int) -> None:
    """Check the number of references of a learned metric, before its model is loaded.

    Args:
        name: of the metric, such as ``COMET``.

    Raises:
        DataError: there is more than one.
    """
    if references != 1:
        raise DataError(f"{name} compares with one reference, but {references} are given. Give one.")


def model_records(learned: Mapping[str, SegmentMean]) -> dict[str, dict[str, str]]:
    """The models of learned metrics, for the record of a score: by metric, ``path`` and ``sha256`` of the weights."""
    return {name: {"path": str(each.weights), "sha256": each.sha256} for name, each in learned.items()}


def model_name(folder: Path) -> str:
    """The name of a model by its folder, which may be a snapshot in the cache of Hugging Face."""
    folder = folder.absolute()
    if folder.parent.name == "snapshots":
        return folder.parent.parent.name.rpartition("--")[2]
    return folder.name


def _device() -> str:
    from nmt.machine.device import choose_device

    found, _ = choose_device()
    return found.type if found.type == "cuda" else "cpu"
