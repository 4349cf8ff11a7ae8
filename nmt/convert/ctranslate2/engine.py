"""CTranslate2 as the engine of translating: our pipeline on an exported folder, without torch."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Sequence
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmt.checkpoint.bundle_files import BundleFolder
from nmt.config import read_config
from nmt.convert.ctranslate2.searcher import CTranslate2Searcher
from nmt.data.vocab_pair import VocabularyPair
from nmt.errors import CheckpointError, ConfigError
from nmt.machine.cores import usable_cores
from nmt.machine.packages import require_package
from nmt.option_fields import DeviceChoice, EngineName, Precision, PrecisionChoice
from nmt.search.hypotheses import Hypothesis
from nmt.search.settings import BATCH_TOKENS
from nmt.translation.options import TranslateOptions

TOOLKIT = "CTranslate2"
_COMPUTE_TYPES: dict[Precision, str] = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16", "int8": "int8"}
_FASTEST_ON_GPU: tuple[Precision, ...] = ("bf16", "fp16", "fp32")

Pairs = Sequence[tuple[list[str], list[str]]]
"""The pieces of sources and targets."""


def choose(
    device: DeviceChoice, precision: PrecisionChoice, begun_in: Precision | None = None
) -> tuple[DeviceChoice, Precision]:
    """Choose where to compute.

    Args:
        precision: auto is fp32 on a CPU, and on a GPU bf16 or fp16.
        begun_in: the precision that ``auto`` takes if the device supports it: of an output that was begun, or of the
            stored weights.

    Raises:
        ConfigError: the device is not available, or does not support that precision.
        NmtError: CTranslate2 is not installed.
    """
    package = _package()
    gpus = package.get_cuda_device_count()
    if device == "mps" or (device == "cuda" and not gpus):
        raise ConfigError(
            f"device {device!r} is not available to CTranslate2 here; available: {'cpu, cuda' if gpus else 'cpu'}. "
            "Use --device auto to choose."
        )
    found = device if device != "auto" else "cuda" if gpus else "cpu"
    supported = package.get_supported_compute_types(found)
    available = [name for name, compute_type in _COMPUTE_TYPES.items() if compute_type in supported]
    if precision != "auto" and precision not in available:
        raise ConfigError(
            f"--precision {precision}: CTranslate2 has {', '.join(available)} on this {found.replace('cpu', 'CPU')}. "
            "Use one of them, or the engine torch."
        )
    if precision == "auto":
        preferred: tuple[Precision | None, ...] = (begun_in, *(_FASTEST_ON_GPU if found == "cuda" else ()))
        return found, next((name for name in preferred if name is not None and name in available), "fp32")
    return found, precision


def _package() -> Any:
    advice = "Install it: `pip install ctranslate2` (the extra `ctranslate2`), or use the engine torch."
    return require_package("ctranslate2", "ctranslate2", what="The engine ctranslate2", advice=advice)


def _usual_threads() -> int:
    """``OMP_NUM_THREADS``, else all usable cores."""
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(first) if first.isascii() and first.isdigit() and int(first) else usable_cores()


class CTranslate2Engine:
    """An exported model in CTranslate2: an :class:`~nmt.translation.engine.Engine`."""

    name: EngineName = "ctranslate2"
    """As :attr:`nmt.translation.engine.Engine.name`; also the name of the format to export to."""

    def __init__(
        self,
        folder: Path,
        device: DeviceChoice = "auto",
        precision: PrecisionChoice = "auto",
        threads: int | None = None,
    ) -> None:
        """Read the settings and the vocabulary. The model is read when the first segments are searched.

        Args:
            folder: a folder that was exported for CTranslate2 and is intact.
            device, precision: as for :func:`choose`.
            threads: CPU threads; if not given, ``OMP_NUM_THREADS`` or all usable cores.

        Raises:
            ConfigError, NmtError: as :func:`choose`.
        """
        self.device, self.precision = choose(device, precision)
        files = BundleFolder(folder)
        self.config = read_config(files.config)
        data = self.config.data
        self.vocab = VocabularyPair.load(files.vocab).prepared(data.steps, data.languages)
        self.positions = self.config.model.max_positions - 1
        self.threads = threads or _usual_threads()
        self.vocab.set_threads(self.threads)
        self._folder = folder
        self._opening = threading.Lock()
        self._workers, self._model = 0, None
        """The number of workers that the model is open for, and the model; none before the first search."""

    @property
    def description(self) -> str:
        """As :attr:`nmt.translation.engine.Engine.description`."""
        threads = f", {self.threads} thread{'s' * (self.threads > 1)}" if self.device == "cpu" else ""
        return f"CTranslate2 {metadata.version('ctranslate2')}, {self.device}{threads}, {self.precision}"

    def model(self, workers: int = 1) -> Any:
        """The model, opened for so many batches at a time: each worker has its share of the threads.

        A model that is open for one batch uses all threads for it. One that is open for several also searches single
        ones, such as the last of a text: the model is never in memory twice.
        """
        with self._opening:
            if workers > self._workers:
                self._workers, self._model = 0, None  # first: two models would need twice the memory
                self._model = self._open(workers)
                self._workers = workers
            return self._model

    def _open(self, workers: int) -> Any:
        try:
            return _package().Translator(
                str(self._folder),
                device=self.device,
                compute_type=_COMPUTE_TYPES[self.precision],
                inter_threads=workers,
                intra_threads=max(1, self.threads // workers),
            )
        except (RuntimeError, ValueError) as error:
            raise CheckpointError(f"{self._folder}: CTranslate2 cannot open it: {error}") from None

    def remarks(self, options: TranslateOptions) -> list[str]:
        """As :meth:`nmt.translation.engine.Engine.remarks`."""
        found = []
        if options.beam > 1 and options.length_penalty and options.length_normalization == "paper":
            found.append(
                "CTranslate2 searches with length^alpha; its hypotheses are reranked by the paper's length penalty"
            )
        if options.refill_beam:
            found.append("CTranslate2 fills the beam by a rule of its own: refill_beam has no effect")
        return found

    def searcher(
        self, options: TranslateOptions, workers: int | None = None, *, shared: bool = False
    ) -> CTranslate2Searcher:
        """As :meth:`nmt.translation.engine.Engine.searcher`."""
        return CTranslate2Searcher(self, options, workers, shared=shared)

    def score(
        self,
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
        options: TranslateOptions,
        *,
        alignment: bool,
    ) -> list[Hypothesis]:
        """As :meth:`nmt.translation.engine.Engine.score`."""
        scored = partial(Hypothesis.scored, alpha=options.length_penalty, normalization=options.length_normalization)
        scores = [scored(target, [-math.inf] * (len(target) + 1)) for target in targets]
        fitting = [
            index
            for index, pair in enumerate(zip(sources, targets, strict=True))
            if max(map(len, pair)) <= self.positions
        ]
        source, target = self.vocab.source, self.vocab.target
        pairs = [(source.pieces(sources[index]), target.pieces(targets[index])) for index in fitting]
        if not pairs:
            return scores
        tokens = options.batch_tokens or BATCH_TOKENS
        model = self.model()
        log_probabilities = self.log_probabilities(pairs, model, tokens)
        attentions = self._attentions(pairs, model, tokens) if alignment else [None] * len(pairs)
        for index, by_piece, attention_TS in zip(fitting, log_probabilities, attentions, strict=True):
            scores[index] = scored(targets[index], by_piece, attention_TS=attention_TS)
        return scores

    def log_probabilities(self, pairs: Pairs, model: Any, batch_tokens: int = BATCH_TOKENS) -> list[list[float]]:
        """The log-probability of each piece of each target, and of eos.

        Args:
            pairs: the pieces of sources and targets.
            model: as :meth:`model` opened it.
        """
        if not pairs:
            return []
        sources, targets = map(list, zip(*pairs, strict=True))
        results = model.score_batch(
            sources, targets, max_input_length=0, max_batch_size=batch_tokens, batch_type="tokens"
        )
        return [list(result.log_probs) for result in results]

    def _attentions(self, pairs: Pairs, model: Any, batch_tokens: int) -> list[NDArray[np.float64]]:
        """The attention of each piece of each target to the pieces of its source and eos (T, S)."""
        sources, targets = map(list, zip(*pairs, strict=True))
        results = model.translate_batch(
            sources,
            targets,
            beam_size=1,
            return_attention=True,
            max_input_length=0,
            max_decoding_length=max(map(len, targets)) + 1,
            max_batch_size=batch_tokens,
            batch_type="tokens",
        )
        return [
            _with_eos(np.reshape(result.attention[0][: len(target)], (len(target), len(source))))
            for source, target, result in zip(sources, targets, results, strict=True)
        ]


def _with_eos(attention_TS: NDArray[np.float64]) -> NDArray[np.float64]:
    """The attention with that to eos, which CTranslate2 leaves out: it has the rest to 1."""
    return np.column_stack([attention_TS, 1 - attention_TS.sum(axis=1)])
