"""Typed settings: loaded from YAML, changed by ``--set a.b=value``, strict, and written back in full.

The whole configuration goes only to the function that a command calls; that hands each part its own.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from nmt.errors import ConfigError


class Section(BaseModel):
    """A part of the configuration: unknown keys are errors, values never change once read."""

    model_config = ConfigDict(extra="forbid", frozen=True)


S = TypeVar("S", bound=Section)


class ModelConfig(Section):
    """The Transformer. Defaults are the paper's base model (Vaswani et al. 2017, table 3)."""

    encoder_layers: int = Field(6, ge=1)
    decoder_layers: int = Field(6, ge=1)
    d_model: int = Field(512, ge=2, description="width of the residual stream")
    d_ff: int = Field(2048, ge=1, description="width inside the feed-forward sub-layer")
    heads: int = Field(8, ge=1)
    d_k: int | None = Field(None, ge=1, description="size of a head's queries and keys; d_model / heads if unset")
    d_v: int | None = Field(None, ge=1, description="size of a head's values; d_model / heads if unset")
    dropout: float = Field(0.1, ge=0, lt=1, description="on each sub-layer's output and on embedding + position")
    attention_dropout: float = Field(0.0, ge=0, lt=1, description="on attention weights; none in the paper")
    activation_dropout: float = Field(0.0, ge=0, lt=1, description="inside the feed-forward sub-layer")
    norm: Literal["post", "pre"] = Field("post", description="post: LayerNorm(x + f(x)), as in the paper")
    norm_epsilon: float = Field(1e-6, gt=0)
    positions: Literal["sinusoidal", "learned"] = "sinusoidal"
    max_positions: int = Field(1024, ge=2, description="longest sequence, in pieces with eos")
    attention_bias: bool = Field(True, description="biases on the query, key, value and output projections")

    @model_validator(mode="after")
    def _sizes_fit(self) -> Self:
        if self.d_model % 2 and self.positions == "sinusoidal":
            raise ValueError(f"d_model {self.d_model} must be even: sines and cosines share it")
        if self.d_model % self.heads and (self.d_k is None or self.d_v is None):
            raise ValueError(f"d_model {self.d_model} is not a multiple of heads {self.heads}: set d_k and d_v")
        return self

    @property
    def key_size(self) -> int:
        """d_k of the paper."""
        return self.d_k if self.d_k is not None else self.d_model // self.heads

    @property
    def value_size(self) -> int:
        """d_v of the paper."""
        return self.d_v if self.d_v is not None else self.d_model // self.heads


class BatchingConfig(Section):
    """How pairs are put together. Tokens are target pieces with eos."""

    update_tokens: int = Field(25_000, ge=1, description="target tokens of an update, over all ranks")
    group_tokens: int = Field(4_096, ge=1, description="target tokens of a group of pairs of like length")
    micro_batch_tokens: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        8_192,
        description="padded positions, source or target, that a device takes at once; auto: the most that fits",
    )


class OptimizerConfig(Section):
    """Adam (section 5.3)."""

    beta1: float = Field(0.9, ge=0, lt=1)
    beta2: float = Field(0.98, ge=0, lt=1)
    epsilon: float = Field(1e-9, gt=0)
    clip_norm: float | None = Field(None, gt=0, description="longer gradients are scaled down to it; none in the paper")


class ScheduleConfig(Section):
    """Learning rate (section 5.3, equation 3): factor · d_model^-0.5 · min(step^-0.5, step · warmup^-1.5)."""

    warmup: int = Field(4_000, ge=1, description="updates of linear growth")
    factor: float = Field(1.0, gt=0)
    decay: Literal["inverse_sqrt", "linear", "cosine", "wsd"] = Field(
        "inverse_sqrt",
        description="after the warmup: the paper's; down to 0 at decay_updates in a straight line or half a cosine; "
        "or constant, and down in a straight line over the last decay_share of the run (warmup-stable-decay)",
    )
    decay_updates: int | None = Field(
        None, ge=2, description="where the rate reaches 0; wsd may land on training.max_minutes instead"
    )
    decay_share: float = Field(0.2, gt=0, lt=1, description="of the run, that wsd comes down in")

    @model_validator(mode="after")
    def _decay_has_an_end(self) -> Self:
        if self.decay == "inverse_sqrt" and self.decay_updates is not None:
            raise ValueError(
                "decay_updates belongs to another decay: set decay: linear, cosine or wsd, or leave it out"
            )
        if self.decay in ("linear", "cosine") and self.decay_updates is None:
            raise ValueError(f"a {self.decay} decay needs decay_updates, greater than warmup {self.warmup}")
        if self.decay_updates is not None and self.decay_updates <= self.warmup:
            raise ValueError(f"decay_updates {self.decay_updates} must be greater than warmup {self.warmup}")
        return self


class TrainingConfig(Section):
    """The run as a whole."""

    seed: int = Field(1, ge=0)
    label_smoothing: float = Field(0.1, ge=0, lt=1)
    max_updates: int | None = Field(100_000, ge=0)
    max_minutes: float | None = Field(None, gt=0, description="of the whole run, resumes and validation included")
    patience: int | None = Field(10, ge=1, description="validations without a better score before the run ends")
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    precision: Literal["auto", "fp32", "bf16", "fp16", "fp64"] = "auto"
    threads: int | None = Field(None, ge=1, description="CPU threads; all cores, shared by a machine's ranks, if unset")
    compile: bool = Field(False, description="torch.compile: one graph for batches of any shape")
    max_skipped: int = Field(10, ge=1, description="updates in a row with a gradient that is not finite end the run")
    freeze: Annotated[tuple[str, ...], BeforeValidator(lambda value: (value,) if isinstance(value, str) else value)] = (
        Field((), description="parameters that keep their values, by name: encoder.*, embedding.*")
    )
    ema_decay: float | None = Field(
        None, gt=0, lt=1, description="average the weights as they are learnt; validated and saved in their place"
    )
    subword_sampling: float = Field(
        0.0, ge=0, lt=1, description="each epoch cuts words anew: BPE-dropout with this probability; unigram: its alpha"
    )


class DecodingConfig(Section):
    """Beam search as section 6.1 has it."""

    beam: int = Field(4, ge=1)
    length_penalty: float = Field(0.6, ge=0)
    max_extra_length: int = Field(50, ge=0, description="output is at most this many pieces longer than the source")


class ValidationConfig(Section):
    """Loss and BLEU on the valid set."""

    every_updates: int = Field(1_000, ge=1)
    bleu: bool = Field(True, description="translate and score too, through the path of translate and score")
    bleu_sentences: int | None = Field(None, ge=1, description="only the first so many; all if unset")
    decoding: DecodingConfig = DecodingConfig()


class CheckpointsConfig(Section):
    """When checkpoints are written, and which are kept."""

    every_updates: int | None = Field(1_000, ge=1)
    every_minutes: float | None = Field(None, gt=0)
    keep_last: int = Field(5, ge=1)
    keep_best: int = Field(1, ge=0)
    keep_every: int | None = Field(None, ge=1, description="also keep every checkpoint whose update it divides")


class LoggingConfig(Section):
    """What is told while the run goes on."""

    every_updates: int = Field(50, ge=1)
    tensorboard: bool = Field(False, description="write RUN/tensorboard/ too; needs the extra of that name")


class CorpusShare(Section):
    """A further data set of a mixture."""

    name: str
    fingerprint: str
    weight: float = Field(1.0, gt=0, description="how often an epoch takes each of its pairs")


class DataConfig(Section):
    """What the model was trained on. Filled in by train from the data's manifest and vocabulary."""

    name: str = ""
    source_lang: str = ""
    target_lang: str = ""
    fingerprint: str = Field("", description="of the prepared text, as in its manifest")
    vocab_fingerprint: str = ""
    vocab_size: int = Field(0, ge=0)
    nfc: bool = Field(False, description="source text is brought to Unicode NFC before it is encoded")
    punctuation: bool = Field(False, description="source text goes through the Moses punctuation steps")
    weight: float = Field(1.0, gt=0, description="how often an epoch takes each pair")
    mixed_with: tuple[CorpusShare, ...] = Field((), description="further data sets, where several were given")


class Config(Section):
    """Every setting of a run."""

    model: ModelConfig = ModelConfig()
    batching: BatchingConfig = BatchingConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    training: TrainingConfig = TrainingConfig()
    validation: ValidationConfig = ValidationConfig()
    checkpoints: CheckpointsConfig = CheckpointsConfig()
    decoding: DecodingConfig = DecodingConfig()
    logging: LoggingConfig = LoggingConfig()
    data: DataConfig = DataConfig()

    @model_validator(mode="after")
    def _rate_lasts(self) -> Self:
        end, most = self.schedule.decay_updates, self.training.max_updates
        if end is not None and (most is None or most > end):
            raise ValueError(
                f"the learning rate is 0 from update {end:,} on (schedule.decay_updates), but training.max_updates is "
                f"{'unset' if most is None else f'{most:,}'}: set it to {end:,} too (--max-updates), or let the rate "
                "fall for longer"
            )
        if self.schedule.decay == "wsd" and end is None and self.training.max_minutes is None:
            raise ValueError("a wsd decay needs an end: set schedule.decay_updates, or training.max_minutes")
        return self


# What may differ when a run goes on: it changes how long, where and how visibly it runs, not what is learnt.
_CHANGEABLE_ON_RESUME = (
    "training.max_updates",
    "training.max_minutes",
    "training.patience",
    "training.device",
    "training.threads",
    "training.compile",
    "training.max_skipped",
    "batching.micro_batch_tokens",
    "checkpoints.",
    "logging.",
    "decoding.",
)


_PRESETS = resources.files("nmt") / "presets"


def preset_names() -> list[str]:
    """The built-in presets, smallest model first."""
    names = [entry.name.removesuffix(".yaml") for entry in _PRESETS.iterdir()]
    known_order = ["tiny", "small", "base", "big"]
    return sorted((name for name in names if not name.startswith("_")), key=known_order.index)


def load_preset(name: str) -> dict[str, Any]:
    """The settings of a built-in preset, unchecked.

    Raises:
        ConfigError: there is no such preset.
    """
    if name not in preset_names():
        raise ConfigError(
            f"there is no preset {name!r}{_suggestion(name, preset_names())}; "
            f"presets are {', '.join(preset_names())}. For a file of your own use --config."
        )
    return _parse_yaml(_PRESETS.joinpath(f"{name}.yaml").read_text("utf-8"), name)


def load_yaml(path: Path) -> dict[str, Any]:
    """The settings of a YAML file, unchecked.

    Raises:
        ConfigError: the file cannot be read or is not a mapping.
    """
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read as settings ({error.strerror}).") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: cannot be read as settings ({error}).") from None
    return _parse_yaml(text, str(path))


def _parse_yaml(text: str, name: str) -> dict[str, Any]:
    try:
        values = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{name}: is not valid YAML: {error}") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(f"{name}: expected settings as 'section: {{key: value}}', found {type(values).__name__}.")
    return values


def apply_settings(values: Mapping[str, Any], settings: Iterable[str]) -> dict[str, Any]:
    """Lay ``a.b=value`` settings over a tree of values; the values are read as YAML.

    Raises:
        ConfigError: a setting has no ``=``, or its value is not YAML.
    """
    result: dict[str, Any] = {key: dict(value) if isinstance(value, dict) else value for key, value in values.items()}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"--set {setting!r}: expected KEY=VALUE, for example model.dropout=0.3.")
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError:
            raise ConfigError(f"--set {setting!r}: the value {text!r} is not valid YAML.") from None
        *sections, last = key.strip().split(".")
        node = result
        for section in sections:
            inner = node.get(section)
            node[section] = dict(inner) if isinstance(inner, dict) else {}
            node = node[section]
        node[last] = value
    return result


def parse_config(values: Mapping[str, Any], *, name: str) -> Config:
    """Check a tree of values and fill in every default.

    Args:
        values: settings by section.
        name: where they come from, for errors.

    Raises:
        ConfigError: names each key that is unknown (with the nearest known one) or has a value that does not fit.
    """
    return parse_section(Config, values, name=name)


def parse_section(kind: type[S], values: Mapping[str, Any], *, name: str) -> S:
    """Check a tree of values against any section; see :func:`parse_config`."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise ConfigError("\n".join(_described(kind, error.errors(), name))) from None


def _described(kind: type[Section], problems: Sequence[Any], name: str) -> Iterator[str]:
    """A line for each key that has problems: a value of several types has one for each type."""
    by_key: dict[str, list[Any]] = {}
    for problem in problems:
        key = ".".join(_setting(kind, [str(part) for part in problem["loc"]]))
        by_key.setdefault(key, []).append(problem)
    for key, ones in by_key.items():
        if ones[0]["type"] == "extra_forbidden":
            yield _unknown(kind, key, name)
            continue
        message = ", or ".join(_message(problem) for problem in ones)
        value = ones[0]["input"]
        given = "" if isinstance(value, dict) else f" (given: {_as_yaml(value)})"
        yield f"{name}: {key + ': ' if key else ''}{message}{given}."


def _setting(kind: type[Section], path: list[str]) -> list[str]:
    """The part of a place that names a setting; behind it stands which type of several did not fit."""
    known: type[BaseModel] | None = kind
    for depth, part in enumerate(path):
        if known is None:
            return path[:depth]
        field = known.model_fields.get(part)
        if field is None:
            return path[: depth + 1]
        annotation = field.annotation
        known = annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None
    return path


def _message(problem: Any) -> str:
    if problem["type"] in ("model_type", "model_attributes_type"):
        return "is a section: set its keys, as in model.d_model=512"
    if problem["type"] in ("tuple_type", "list_type"):
        return "expected a list, as in [encoder.*, embedding.*]"
    message: str = problem["msg"].removeprefix("Value error, ")
    return message


def _unknown(kind: type[Section], key: str, name: str) -> str:
    path = key.split(".")
    section: type[BaseModel] = kind
    for part in path[:-1]:
        annotation = section.model_fields[part].annotation
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            break
        section = annotation
    known = list(section.model_fields)
    prefix = "".join(f"{part}." for part in path[:-1])
    nearest = difflib.get_close_matches(path[-1], known, n=1, cutoff=0.5)
    if nearest:
        return f"{name}: unknown setting {key!r}; did you mean {prefix + nearest[0]!r}?"
    elsewhere = [full for full, _ in flatten(kind().model_dump()) if full.split(".")[-1] == path[-1]]
    if elsewhere:
        return f"{name}: unknown setting {key!r}; did you mean {elsewhere[0]!r}?"
    return f"{name}: unknown setting {key!r}; known here are {', '.join(prefix + field for field in known)}."


def _as_yaml(value: Any) -> str:
    """A value as it stands in a file of settings."""
    if isinstance(value, tuple):
        value = list(value)
    return yaml.safe_dump(value, default_flow_style=True, allow_unicode=True).removesuffix("\n").removesuffix("\n...")


def _suggestion(word: str, known: Iterable[str]) -> str:
    nearest = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean {nearest[0]!r}?)" if nearest else ""


def dump_config(config: Config, *, described: bool = False) -> str:
    """The settings as YAML, every default resolved; with comments that say what each is for, if asked."""
    if not described:
        return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
    lines = []
    for name, values in config.model_dump(mode="json").items():
        fields = type(getattr(config, name)).model_fields
        lines.append(f"{name}:")
        for key, value in values.items():
            description = fields[key].description
            lines.append(f"  {key}: {_as_yaml(value)}" + (f"  # {description}" if description else ""))
    return "".join(f"{line}\n" for line in lines)


def flatten(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Each leaf of a tree of settings as ``("a.b", value)``."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def differences(before: Config, after: Config) -> list[tuple[str, str, str]]:
    """Settings that differ, as (key, before, after), the values as YAML."""
    old, new = (dict(flatten(config.model_dump(mode="json"))) for config in (before, after))
    return [(key, _as_yaml(old[key]), _as_yaml(new[key])) for key in old if old[key] != new[key]]


def changeable_on_resume(key: str) -> bool:
    """Whether a setting may change when a run is resumed."""
    return any(key == known or (known.endswith(".") and key.startswith(known)) for known in _CHANGEABLE_ON_RESUME)
