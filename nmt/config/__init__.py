"""Typed settings: loaded from YAML, changed by ``--set a.b=value``, strict, and written back in full."""

from nmt.config.dumping import changeable_on_resume, differences, dump_config, flatten
from nmt.config.layering import Layer, parse_layers
from nmt.config.mistakes import did_you_mean, first_mistake, mistakes
from nmt.config.reading import (
    apply_settings,
    load_preset,
    load_yaml,
    option_layer,
    parse_config,
    preset_names,
    read_config,
    setting_layer,
)
from nmt.config.sections import (
    BatchingConfig,
    CheckpointsConfig,
    Config,
    CorpusShare,
    DataConfig,
    DecodingConfig,
    LoggingConfig,
    ModelConfig,
    OptimizerConfig,
    ScheduleConfig,
    Section,
    TrainingConfig,
    ValidationConfig,
)

__all__ = [
    "BatchingConfig",
    "CheckpointsConfig",
    "Config",
    "CorpusShare",
    "DataConfig",
    "DecodingConfig",
    "Layer",
    "LoggingConfig",
    "ModelConfig",
    "OptimizerConfig",
    "ScheduleConfig",
    "Section",
    "TrainingConfig",
    "ValidationConfig",
    "apply_settings",
    "changeable_on_resume",
    "did_you_mean",
    "differences",
    "dump_config",
    "first_mistake",
    "flatten",
    "load_preset",
    "load_yaml",
    "mistakes",
    "option_layer",
    "parse_config",
    "parse_layers",
    "preset_names",
    "read_config",
    "setting_layer",
]
