"""The settings of a run: a preset, a file, a bundle's settings, or a file over one of the others; then options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from nmt.checkpoint.bundle_files import BundleFolder, is_bundle
from nmt.checkpoint.run_folder import RunFolder, bundle_to_use, similar
from nmt.config import Config, Layer, load_preset, load_yaml, overlay, parse_layers, setting_in, setting_layer
from nmt.data.manifest import Manifest, read_manifest
from nmt.errors import CheckpointError, ConfigError
from nmt.training.input.data_sets import DataSets

_PAIRS_FOR_BASE = 500_000


@dataclass(frozen=True)
class Choice:
    """The settings that a run starts with, before command-line options change them."""

    layers: tuple[Layer, ...]
    name: str
    """The part of the run's folder name that stands for the settings."""
    description: str | None
    """A message for the user, if something was chosen automatically."""
    yields_to_minutes: bool = True
    """Whether a limit of time alone replaces the number of updates of the first layer: that of a preset, a run or a
    bundle, not that of the user's own file."""
    reason: str | None = None
    """Why the preset was chosen, if none was given."""

    def resolve(self, data: DataSets | None, options: Sequence[Layer] = ()) -> Config:
        """All settings of a run: these, overridden by the options.

        Args:
            data: without any, the section ``data`` has its defaults.

        Raises:
            ConfigError: a setting is unknown or invalid.
        """
        for option in options:
            if "data" in option.values:
                raise ConfigError(
                    f"{option.name}: the data section follows from the data sets. Give --data DIR[:WEIGHT]."
                )
        # The data section always comes from the data sets, even if a file is another run's config.yaml.
        layers = [Layer(layer.name, {**layer.values, "data": {}}) for layer in self.layers]
        if self.yields_to_minutes:
            layers[0] = _yielding_to_minutes(layers[0], [*layers[1:], *options])
        if data is not None:
            options = [*options, Layer("the data", {"data": data.settings()})]
        return parse_layers([*layers, *options])


def choose_settings(
    manifests: Sequence[Manifest],
    *,
    preset: str | None = None,
    config_file: Path | None = None,
    init_from: Path | None = None,
) -> Choice:
    """Choose the settings. A file with only some settings overrides those that are chosen without it.

    Args:
        manifests: those of the data sets, by which a preset is chosen; none to choose without data.
        preset: a built-in preset.
        config_file: the user's YAML file. If it has every section but ``data``, like a run's config.yaml, it is used
            alone.
        init_from: the bundle or run with the initial weights. Its settings are used if no preset is given.

    Raises:
        ConfigError: the preset does not exist, or the file cannot be read.
        CheckpointError: the bundle does not exist.
    """
    own = None if config_file is None else Layer(str(config_file), load_yaml(config_file, may_be_pipe=True))
    if own is not None and config_file is not None and _is_complete(own.values):
        unused = f"; preset {preset} is not used" if preset is not None else ""
        description = f"settings: {own.name} (it holds every section{unused})"
        return Choice((own,), config_file.stem, description, yields_to_minutes=False)
    base = _choose_base(manifests, preset, init_from)
    if own is None or config_file is None:
        return base
    chosen = "" if base.reason is None else f" ({base.reason})"
    description = f"settings: {own.name} over {base.layers[0].name}{chosen}"
    return Choice((*base.layers, own), config_file.stem, description)


def resolve_config(
    data: Sequence[tuple[Path, float]],
    *,
    preset: str | None = None,
    config_file: Path | None = None,
    init_from: Path | None = None,
    settings: Sequence[str] = (),
) -> tuple[Config, str]:
    """Resolve all settings of a run on data sets with their weights, for programs that train by themselves, such as
    ``examples/benchmarks``.

    Args:
        preset, config_file, init_from: as in :func:`choose_settings`.
        settings: ``key=value`` pairs, which override the others.

    Returns:
        The settings, and the part of the run's folder name that stands for them.

    Raises:
        NmtError: as :func:`choose_settings`, :meth:`DataSets.open` and :meth:`Choice.resolve`.
    """
    manifests = [read_manifest(folder) for folder, _ in data]
    choice = choose_settings(manifests, preset=preset, config_file=config_file, init_from=init_from)
    return choice.resolve(DataSets.open(data), [setting_layer(setting) for setting in settings]), choice.name


def settings_of_run(run: Path) -> Choice:
    """The settings that a run was last started with.

    Raises:
        CheckpointError: the folder is not a run.
        ConfigError: its settings cannot be read.
    """
    if not run.is_dir():
        raise CheckpointError(f"{run}: there is no such run{similar(run)}.")
    if is_bundle(run):
        checkpoint = run.resolve()
        of_run = f": {checkpoint.parents[1]}" if checkpoint.parent.name == "checkpoints" else ""
        raise CheckpointError(f"{run}: is a checkpoint or bundle. Name the folder of the run{of_run}.")
    config = RunFolder(run).config
    if not config.is_file():
        raise CheckpointError(
            f"{run}: is not the folder of a run (it holds no {config.name}). Name a folder that `nmt train` wrote."
        )
    layer = Layer(str(config), load_yaml(config))
    return Choice((layer,), run.name, f"settings: {layer.name}")


def _choose_base(manifests: Sequence[Manifest], preset: str | None, init_from: Path | None) -> Choice:
    if preset is None and init_from is not None:
        path = BundleFolder(bundle_to_use(init_from)).config
        # Stages are of the bundle's data sets, as is its data section. Its adapters are merged.
        values = overlay(load_yaml(path), {"training": {"stages": [], "adapter_rank": None}})
        return Choice((Layer(str(path), values),), "tuned", f"settings: {path}")
    name, reason = (preset, None) if preset is not None else fitting_preset(manifests)
    description = None if reason is None else f"preset: {name} ({reason}; override with --preset)"
    return Choice((Layer(f"preset {name}", load_preset(name)),), name, description, reason=reason)


def _is_complete(values: Mapping[str, Any]) -> bool:
    return all(isinstance(values.get(section), Mapping) for section in Config.model_fields if section != "data")


def fitting_preset(manifests: Sequence[Manifest]) -> tuple[str, str]:
    """The preset for these data sets on this machine, and the reason for it."""
    if not manifests:
        return "small", "without a data set"
    pairs = sum(manifest.files[f"train.{manifest.source_lang}"].lines for manifest in manifests)
    if pairs >= _PAIRS_FOR_BASE and torch.cuda.is_available():
        return "base", f"{_PAIRS_FOR_BASE:,} pairs or more, and a CUDA GPU"
    if all(manifest.name.startswith("toy-") for manifest in manifests):
        return "tiny", "for the toy pair"
    if pairs >= _PAIRS_FOR_BASE:
        return "small", "no CUDA GPU"
    return "small", f"under {_PAIRS_FOR_BASE:,} pairs"


def _yielding_to_minutes(first: Layer, others: Sequence[Layer]) -> Layer:
    """The first layer without its number of updates, if the user limits the time alone: a run uses all of its time.

    A schedule with an end of its own keeps it.
    """
    limits_time_alone = (
        setting_in(others, "training.max_minutes") is not None and setting_in(others, "training.max_updates") is None
    )
    if not limits_time_alone or setting_in([first, *others], "schedule.decay_updates") is not None:
        return first
    return Layer(first.name, overlay(first.values, {"training": {"max_updates": None}}))
