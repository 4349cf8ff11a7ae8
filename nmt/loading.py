"""The models that a user names, loaded by the engine that the user chooses.

torch is imported only if it computes, or to convert a model for CTranslate2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nmt.checkpoint.bundle_files import BundleFolder, Verification, check_files, is_bundle
from nmt.checkpoint.describing import describe_model, models_to_use
from nmt.config import Config, read_config
from nmt.errors import ConfigError
from nmt.option_fields import DeviceChoice, EngineName, Precision, PrecisionChoice
from nmt.text.languages import fitting
from nmt.translation.directions import codes_of
from nmt.translation.engine import Engine


@dataclass(frozen=True)
class NamedModels:
    """The folders of models that are not loaded yet."""

    engine: EngineName
    folders: list[Path]
    """A bundle, or several that form an ensemble; for CTranslate2 also a folder that was exported for it."""
    remarks: list[str]
    """What a user should know of the choice."""

    @property
    def notices(self) -> list[str]:
        """Which models were chosen, and what a user should know of the choice."""
        return [f"model: {', '.join(map(describe_model, self.folders))}", *self.remarks]

    @classmethod
    def of(cls, named: Sequence[Path], engine: EngineName) -> NamedModels:
        """The models of the named runs and bundles; of the newest run if none is named.

        A folder that was exported for CTranslate2 is always loaded by CTranslate2.

        Raises:
            CheckpointError: a folder does not exist or holds no model, or there is no trained run.
            ConfigError: the engine has no ensembles.
        """
        is_exported = any((path / "model.bin").is_file() and not is_bundle(path) for path in named)
        if engine == "ctranslate2" or is_exported:
            from nmt.convert.ctranslate2.loading import model_for_ctranslate2

            folder, remarks = model_for_ctranslate2(named)
            chosen = ["engine: ctranslate2, since the model is in its format"] if engine != "ctranslate2" else []
            return cls("ctranslate2", [folder], [*remarks, *chosen])
        folders, remarks = models_to_use(named)
        return cls(engine, folders, remarks)

    @classmethod
    def hops(cls, named: Sequence[Path], engine: EngineName, via: str | None) -> list[NamedModels]:
        """The models of one hop; or, through a pivot language, of two: those into it, and those from it.

        Args:
            via: the code of the pivot language.

        Raises:
            CheckpointError: as :meth:`of`.
            ConfigError: as :meth:`of`, or one of the hops has no model.
        """
        if via is None:
            return [cls.of(named, engine)]
        into: list[Path] = []
        onward: list[Path] = []
        for path in named:
            [folder] = cls.of([path], engine).folders
            sources = codes_of(read_config(BundleFolder(folder).config).data, "source")
            if not sources:
                raise ConfigError(
                    f"{path}: does not record its languages. Import it again with --source-lang and --target-lang."
                )
            (onward if fitting(sources, via) else into).append(path)
        if not (into and onward):
            missing = f"to {via}" if onward else f"from {via}"
            raise ConfigError(f"--via {via} needs a model to {via} and one from {via}: name one {missing}, too.")
        return [cls.of(into, engine), cls.of(onward, engine)]

    def check(self) -> Config:
        """Check what can be checked in milliseconds: the files of each bundle. Returns the settings of the first model.

        Raises:
            CheckpointError: a file is missing, or the weights are incomplete.
            ConfigError: the settings cannot be read.
        """
        for folder in filter(is_bundle, self.folders):
            check_files(folder)
        return read_config(BundleFolder(self.folders[0]).config)

    def load(
        self,
        device: DeviceChoice,
        precision: PrecisionChoice,
        threads: int | None,
        *,
        begun_in: Precision | None = None,
        report: Callable[[str], None] = lambda message: None,
    ) -> Engine:
        """Choose where to compute, and read the models.

        Args:
            begun_in: the precision that an output was begun in; ``auto`` keeps it if the device supports it.
            report: called with a message before something that takes long.

        Raises:
            CheckpointError: a model is damaged, or several do not share a vocabulary.
            ConfigError: the device is not available, or does not support that precision.
            NmtError: CTranslate2 is not installed, or cannot express the model.
        """
        if self.engine == "ctranslate2":
            from nmt.convert.ctranslate2.engine import CTranslate2Engine, choose
            from nmt.convert.ctranslate2.loading import exported_folder, stored_precision

            [model] = self.folders
            chosen, as_chosen = choose(device, precision, begun_in or stored_precision(model))
            return CTranslate2Engine(exported_folder(model, report), chosen, as_chosen, threads)
        verification = Verification(self.folders)  # in the background, since importing torch takes longer
        from nmt.machine.device import choose_hardware
        from nmt.translation.ensemble import load_ensemble, product_sizes

        product = product_sizes(self.folders[0])
        hardware = choose_hardware(device, precision, threads, product=product, begun_in=begun_in)
        return load_ensemble(self.folders, hardware, verification)


def load_hops(
    hops: Sequence[NamedModels],
    device: DeviceChoice,
    precision: PrecisionChoice,
    threads: int | None,
    *,
    begun_in: Precision | None = None,
    report: Callable[[str], None] = lambda message: None,
) -> list[Engine]:
    """The engine of each hop, as of :meth:`NamedModels.load`. Where the precision is ``auto``, all have the last's."""
    engines: list[Engine] = []
    for models in reversed(hops):
        engine = models.load(device, precision, threads, begun_in=begun_in, report=report)
        engines, begun_in = [engine, *engines], begun_in or engine.precision
    return engines
