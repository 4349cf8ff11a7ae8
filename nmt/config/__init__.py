"""Typed settings: loaded from YAML, changed by ``--set a.b=value``, strict, and written back in full."""

from nmt.config.reading import apply_settings, load_preset, load_yaml, parse_config, preset_names
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
from nmt.config.writing import changeable_on_resume, differences, dump_config, flatten

__all__ = [
    "BatchingConfig",
    "CheckpointsConfig",
    "Config",
    "CorpusShare",
    "DataConfig",
    "DecodingConfig",
    "LoggingConfig",
    "ModelConfig",
    "OptimizerConfig",
    "ScheduleConfig",
    "Section",
    "TrainingConfig",
    "ValidationConfig",
    "apply_settings",
    "changeable_on_resume",
    "differences",
    "dump_config",
    "flatten",
    "load_preset",
    "load_yaml",
    "parse_config",
    "preset_names",
]
