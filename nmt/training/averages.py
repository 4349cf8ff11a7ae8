"""The validation of an average of checkpoints: as its run validates them, so that their scores can be compared."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nmt.checkpoint.bundle import Bundle
from nmt.config import Config
from nmt.data.manifest import read_manifest
from nmt.errors import ConfigError
from nmt.machine.device import Hardware, choose_hardware
from nmt.training.input.data_sets import TrainingData
from nmt.training.ranks.exchange import NO_OTHERS
from nmt.training.run import hardware_of
from nmt.training.validation import VALIDATION_BATCH_TOKENS, Validation, Validator


def validate_average(mean: Bundle, data: Sequence[Path]) -> Validation:
    """Validate an average on its run's valid sets, with its run's settings.

    Args:
        data: the run's data sets, in the order of its settings.

    Raises:
        DataError: the data is not what the run was trained on, or its valid set is empty.
    """
    for folder in data:
        read_manifest(folder)  # whose error says that a folder is no data set
    hardware = _hardware_here(mean.config)
    folders = TrainingData.open(data, mean.config).sets.folders
    size = mean.config.batching.micro_batch_tokens
    batch_tokens = VALIDATION_BATCH_TOKENS if size == "auto" else min(size, VALIDATION_BATCH_TOKENS)
    validator = Validator(folders, mean.config, mean.vocab, hardware, batch_tokens=batch_tokens)
    validation = validator.validate(mean.build_model(hardware.device, hardware.weights_dtype))
    assert validation is not None  # only `until` breaks it off
    return validation


def _hardware_here(config: Config) -> Hardware:
    """The hardware of the run's settings, or what this machine has instead."""
    try:
        return hardware_of(config, NO_OTHERS)
    except ConfigError:
        return choose_hardware(product=(config.model.d_model, config.model.d_ff))
