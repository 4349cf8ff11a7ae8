"""Every setting, typed: its default, its bounds, and what it is for.

The whole configuration goes only to the function that a command calls; that hands each part its own.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator


class Section(BaseModel):
    """A part of the configuration: unknown keys are errors, values never change once read."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


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
    """Beam search; the defaults are those of section 6.1."""

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


class PieceCounts(Section):
    """How long lines are, in pieces: so many or fewer in half of them, in 90%, 99% and 99.9%, and at most."""

    p50: int = Field(ge=0)
    p90: int = Field(ge=0)
    p99: int = Field(ge=0)
    p999: int = Field(ge=0)
    max: int = Field(ge=0)


class SideLines(Section):
    """The lines of one side of a training text."""

    sentences: tuple[Annotated[int, Field(ge=0)], ...] = Field(
        description="lines of 1, 2, 3 ... sentences; longer ones count with the last"
    )
    pieces: PieceCounts
    byte_pieces: float | None = Field(None, ge=0, le=1, description="share of pieces that stand for single bytes")


class LengthRatio(Section):
    """Target pieces per source piece: percentiles over pairs."""

    p1: float = Field(ge=0)
    p10: float = Field(ge=0)
    p50: float = Field(ge=0)
    p90: float = Field(ge=0)
    p99: float = Field(ge=0)


class LineStatistics(Section):
    """What training lines are like, so that translate knows which lines are not."""

    max_length: int = Field(ge=1, description="pieces; longer pairs were left out of training")
    source: SideLines
    target: SideLines
    target_per_source: LengthRatio


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
    source_normalization: Literal["identity", "nfkc", "nfkc_cf", "nmt_nfkc", "nmt_nfkc_cf"] = Field(
        "identity", description="SentencePiece's rule that source text goes through before it is encoded"
    )
    weight: float = Field(1.0, gt=0, description="how often an epoch takes each pair")
    mixed_with: tuple[CorpusShare, ...] = Field((), description="further data sets, where several were given")
    lines: LineStatistics | None = Field(None, description="what the training lines are like; unknown if unset")


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
