"""Typed settings: loaded from YAML, changed by ``--set a.b=value``, strict, and written back in full."""

from nmt.config.data import CorpusShare, DataConfig, LanguageCode, Tag
from nmt.config.dumping import (
    belongs_to_weights,
    changeable_on_resume,
    describe_config,
    differences,
    dump_config,
    flatten,
)
from nmt.config.mistakes import did_you_mean, first_mistake, mistakes, setting_names, settings_called
from nmt.config.reading import (
    PRESETS,
    Layer,
    load_preset,
    load_yaml,
    option_layer,
    overlay,
    parse_config,
    parse_layers,
    read_config,
    setting_in,
    setting_layer,
)
from nmt.config.section import Section
from nmt.config.sections import (
    AugmentationConfig,
    BatchingConfig,
    CheckpointsConfig,
    Config,
    DecodingConfig,
    LoggingConfig,
    ModelConfig,
    OptimizerConfig,
    ScheduleConfig,
    TrainingConfig,
    ValidationConfig,
)
