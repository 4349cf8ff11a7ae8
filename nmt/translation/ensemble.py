"""Load one model, or an ensemble of several, from bundles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from nmt.checkpoint.bundle import Bundle, load_bundle
from nmt.checkpoint.bundle_files import BundleFolder, Verification
from nmt.config import Config, read_config
from nmt.data.vocab_pair import VocabularyPair
from nmt.errors import CheckpointError, ConfigError
from nmt.machine.device import BASE_PRODUCT, Hardware
from nmt.model.transformer import Transformer
from nmt.option_fields import EngineName, Precision
from nmt.search.given_targets import score_targets
from nmt.search.hypotheses import Hypothesis
from nmt.search.recorded_steps import RecordedSteps
from nmt.search.settings import BATCH_TOKENS
from nmt.translation.options import TranslateOptions
from nmt.translation.searcher import TorchSearcher


@dataclass(frozen=True)
class Ensemble:
    """One or more models with the same vocabulary: the :class:`~nmt.translation.engine.Engine` of torch."""

    models: tuple[Transformer, ...]
    vocab: VocabularyPair
    config: Config
    """The settings of the first model."""
    hardware: Hardware
    """Its device holds the models."""

    @property
    def name(self) -> EngineName:
        """As :attr:`nmt.translation.engine.Engine.name`."""
        return "torch"

    @property
    def description(self) -> str:
        """As :attr:`nmt.translation.engine.Engine.description`."""
        return str(self.hardware)

    @property
    def precision(self) -> Precision:
        """The precision of matrix products."""
        return self.hardware.precision

    @property
    def positions(self) -> int:
        """The maximum pieces of a source or a target."""
        # One position goes to the source's eos and to the target's bos.
        return min(model.config.max_positions for model in self.models) - 1

    @cached_property
    def recorded_steps(self) -> RecordedSteps:
        """What searches with the models have recorded on a GPU."""
        return RecordedSteps(self.models)

    def remarks(self, options: TranslateOptions) -> list[str]:
        """As :meth:`nmt.translation.engine.Engine.remarks`: there are none."""
        return []

    def searcher(self, options: TranslateOptions, workers: int | None = None, *, shared: bool = False) -> TorchSearcher:
        """As :meth:`nmt.translation.engine.Engine.searcher`."""
        return TorchSearcher(self, options, workers, shared=shared)

    def score(
        self,
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
        options: TranslateOptions,
        *,
        alignment: bool,
    ) -> list[Hypothesis]:
        """As :meth:`nmt.translation.engine.Engine.score`."""
        return score_targets(
            self.models,
            sources,
            targets,
            self.hardware,
            alpha=options.length_penalty,
            normalization=options.length_normalization,
            batch_tokens=options.batch_tokens or BATCH_TOKENS,
            aligns=alignment,
        )


def load_ensemble(folders: Sequence[Path], hardware: Hardware, verification: Verification | None = None) -> Ensemble:
    """Read bundles and build their models on the hardware's device.

    Args:
        verification: a running verification of these folders; None verifies now.

    Raises:
        CheckpointError: a bundle is missing or damaged, or bundles differ in vocabulary or text normalization.
    """
    bundles = [load_bundle(folder, verification) for folder in folders]
    first = bundles[0]
    for bundle in bundles[1:]:
        _check_compatible(first, bundle)
    first.vocab.set_threads(hardware.threads)
    models = tuple(
        bundle.build_model(hardware.device, hardware.weights_dtype, products=hardware.products_dtype)
        for bundle in bundles
    )
    return Ensemble(models, first.vocab, first.config, hardware)


def product_sizes(folder: Path) -> tuple[int, int]:
    """d_model and d_ff of a bundle, for :func:`~nmt.machine.device.choose_hardware`.

    They are base's if the bundle's settings cannot be read; :func:`load_ensemble` reports such an error later.
    """
    try:
        model = read_config(BundleFolder(folder).config).model
    except ConfigError:
        return BASE_PRODUCT
    return model.d_model, model.d_ff


def _check_compatible(first: Bundle, other: Bundle) -> None:
    if other.vocab.fingerprint != first.vocab.fingerprint:
        raise CheckpointError(f"{other.folder} and {first.folder} have different vocabularies: an ensemble needs one.")
    if other.config.data.steps != first.config.data.steps:
        raise CheckpointError(f"{other.folder} and {first.folder} normalise source text differently.")
