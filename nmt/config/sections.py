"""Every setting, with its type, default, bounds and description.

Only the function that a command calls receives the whole configuration. It passes each part its own section.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from nmt.config.data import DataConfig
from nmt.config.section import Section
from nmt.option_fields import DeviceChoice, Option

Normalization = Literal["paper", "length"]
"""What scores are divided by: the paper's length penalty, or the length to the power of alpha."""


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
    embedding_norm: bool = Field(False, description="LayerNorm(embedding + position) before the layers, as in mBART")
    activation: Literal["relu", "swish", "gelu", "quick_gelu"] = Field(
        "relu", description="between the two products of the feed-forward sub-layer. quick_gelu: x · sigmoid(1.702 x)"
    )
    positions: Literal["sinusoidal", "sinusoidal_halves", "tensor2tensor", "learned"] = Field(
        "sinusoidal",
        description="sinusoidal: sine and cosine side by side, as in the paper; sinusoidal_halves: all sines, then all "
        "cosines; tensor2tensor: halves at the authors' rates, 10000^(-i / (d_model/2 - 1))",
    )
    first_position: int = Field(0, ge=0, description="number of the first piece's position; fairseq counts from 2")
    max_positions: int = Field(1024, ge=2, description="longest sequence, in pieces with eos")
    tied_embeddings: Literal["all", "decoder", "none"] = Field(
        "all",
        description="which of source embedding, target embedding and output projection share a matrix. "
        "decoder: the last two",
    )
    output_bias: bool = Field(False, description="a bias on the logits; none in the paper")
    source_eos: bool = Field(
        True, description="whether the encoder attends to the end of the source; not in OpenNMT-py and Eole"
    )
    decoder_start: Literal["bos", "zero"] = Field(
        "bos", description="embedding that the decoder reads first: that of bos, or zeros"
    )
    attention_bias: bool = Field(True, description="biases on the query, key, value and output projections")
    attention: Literal["scaled_dot_product", "dot_product", "additive"] = Field(
        "scaled_dot_product",
        description="how a query is compared with a key (section 3.2.1). dot_product: without 1/sqrt(d_k); "
        "additive: by v^T tanh(query + key)",
    )
    source_neighbours: int | None = Field(
        None,
        ge=1,
        le=1_000_000,
        description="self-attention of the encoder sees this many pieces on either side; all if unset",
    )
    target_neighbours: int | None = Field(
        None, ge=1, le=1_000_000, description="self-attention of the decoder sees this many pieces back; all if unset"
    )

    alignment_layer: int | None = Field(
        None,
        ge=1,
        description="decoder layer whose first head learns where each piece comes from (guided alignment); from 1",
    )

    @model_validator(mode="after")
    def _sizes_fit(self) -> Self:
        if self.d_model % 2 and self.positions != "learned":
            raise ValueError(f"d_model {self.d_model} must be even: sines and cosines share it")
        if self.d_model == 2 and self.positions == "tensor2tensor":
            raise ValueError("d_model 2 is too small for positions: tensor2tensor: it has a single rate")
        if self.first_position and self.positions == "learned":
            raise ValueError("first_position does not apply to positions: learned; leave it out")
        if self.d_model % self.heads and (self.d_k is None or self.d_v is None):
            raise ValueError(f"d_model {self.d_model} is not a multiple of heads {self.heads}: set d_k and d_v")
        if self.alignment_layer is not None and self.alignment_layer > self.decoder_layers:
            raise ValueError(f"alignment_layer {self.alignment_layer} is not one of the {self.decoder_layers} layers")
        if self.alignment_layer is not None and self.attention != "scaled_dot_product":
            raise ValueError(f"alignment_layer does not apply to attention: {self.attention}; leave it out")
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
    """Sizes of updates and batches. Tokens are target pieces with eos."""

    update_tokens: int = Field(25_000, ge=1, description="target tokens per update, over all ranks")
    group_tokens: int = Field(1_000, ge=1, description="target tokens per group of pairs of similar length")
    micro_batch_tokens: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        8_192,
        description="maximum positions per micro-batch, source or target; auto: as many as fit",
    )


class OptimizerConfig(Section):
    """Adam (section 5.3)."""

    beta1: float = Field(0.9, ge=0, lt=1)
    beta2: float = Field(0.98, ge=0, lt=1)
    epsilon: float = Field(1e-9, gt=0)
    clip_norm: float | None = Field(None, gt=0, description="maximum norm of the gradient; none in the paper")


class ScheduleConfig(Section):
    """Learning rate (section 5.3, equation 3): factor · d_model^-0.5 · min(step^-0.5, step · warmup^-1.5)."""

    warmup: int = Field(4_000, ge=1, description="updates of linear growth")
    factor: float = Field(1.0, gt=0, description="multiplies the learning rate of every update")
    decay: Literal["inverse_sqrt", "linear", "cosine", "wsd"] = Field(
        "inverse_sqrt",
        description="after the warm-up. inverse_sqrt: as in the paper; linear, cosine: down to 0; "
        "wsd: constant, then linear down to 0 over the last decay_share of the run (warmup-stable-decay)",
    )
    decay_updates: int | None = Field(
        None,
        ge=2,
        description="the update where the rate of linear, cosine or wsd reaches 0; at the end of the run if unset",
    )
    decay_share: float = Field(0.2, gt=0, lt=1, description="the final share of the run in which wsd decays")

    @model_validator(mode="after")
    def _decay_has_an_end(self) -> Self:
        if self.decay == "inverse_sqrt" and self.decay_updates is not None:
            raise ValueError(
                "decay_updates does not apply to decay: inverse_sqrt; set decay: linear, cosine or wsd, or leave it out"
            )
        if self.decay_updates is not None and self.decay_updates <= self.warmup:
            raise ValueError(f"decay_updates {self.decay_updates} must be greater than warmup {self.warmup}")
        return self


class StageConfig(Section):
    """Other weights of the data sets, from an update on."""

    after: int = Field(ge=0, description="updates before the stage")
    weights: tuple[Annotated[float, Field(ge=0)], ...] = Field(
        description="times that each pair of each data set comes per epoch, in the order of the data sets; 0: never"
    )

    @model_validator(mode="after")
    def _has_pairs(self) -> Self:
        if not any(self.weights):
            raise ValueError("weights must not all be 0")
        return self


class TrainingConfig(Section):
    """Limits, hardware and methods of a run."""

    seed: int = Field(1, ge=0)
    label_smoothing: float = Field(0.1, ge=0, lt=1)
    max_updates: int | None = Field(100_000, ge=0)
    max_minutes: float | None = Field(None, gt=0, description="of the whole run, resumes and validation included")
    patience: int | None = Field(10, ge=1, description="validations without a better score before the run ends")
    device: DeviceChoice = "auto"
    precision: Literal["auto", "fp32", "bf16", "fp16", "fp64"] = "auto"
    threads: int | None = Field(None, ge=1, description="CPU threads; if unset, the machine's ranks share all cores")
    deterministic: bool = Field(False, description="deterministic, slower kernels on a CUDA GPU; a CPU always has them")
    compile: bool | Literal["auto"] = Field(
        "auto", description="torch.compile of model and loss; auto: on a GPU, if the run is long enough to repay it"
    )
    bucket_megabytes: float = Field(50.0, gt=0, description="gradients that GPUs exchange at once")
    max_skipped: int = Field(10, ge=1, description="consecutive updates with a non-finite gradient that end the run")
    freeze: Annotated[tuple[str, ...], BeforeValidator(lambda value: (value,) if isinstance(value, str) else value)] = (
        Field((), description="parameters that are not trained, by name: encoder.*, embedding.*")
    )
    adapter_rank: int | None = Field(
        None,
        ge=1,
        description="rank of low-rank adapters (LoRA) that are trained in place of all weights, and merged when saved",
    )
    ema_decay: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="decay of an exponential moving average of the weights, which is validated and saved",
    )
    r_drop: float = Field(
        0.0,
        ge=0,
        description="R-Drop: weight of the divergence between two passes with different dropout; doubles the time",
    )
    guided_alignment: float = Field(
        0.05, ge=0, description="weight of the loss of alignments, for a model with an alignment_layer"
    )
    subword_sampling: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="random segmentation per epoch: BPE-dropout's probability, or alpha of a unigram model",
    )
    stages: tuple[StageConfig, ...] = Field(
        (), description="changes of the data sets' weights in the course of the run; an epoch ends at each"
    )

    @model_validator(mode="after")
    def _stages_are_in_order(self) -> Self:
        begins = [stage.after for stage in self.stages]
        if begins != sorted(set(begins)):
            raise ValueError(f"stages must begin one after the other, not after {', '.join(map(str, begins))} updates")
        return self

    @model_validator(mode="after")
    def _adapters_are_not_averaged(self) -> Self:
        if self.adapter_rank is not None and self.ema_decay is not None:
            raise ValueError("ema_decay does not go with adapter_rank: set one of them to null")
        return self


class AugmentationConfig(Section):
    """Shares of the training pairs that are changed, drawn anew for each epoch."""

    upper_case: float = Field(0.0, ge=0, le=1, description="share of pairs in capitals")
    title_case: float = Field(0.0, ge=0, le=1, description="share of pairs with a capital at each word")
    no_end_mark: float = Field(0.0, ge=0, le=1, description="share of pairs whose last mark is dropped")
    typos: float = Field(0.0, ge=0, le=1, description="share of sources in which typing errors are likely")
    noise: float = Field(0.0, ge=0, le=1, description="pairs of random words to be copied, per pair")


class DecodingConfig(Section):
    """Beam search; the defaults are those of section 6.1. ``nmt translate`` has the same settings as options."""

    beam: Annotated[int, Option(unset="the model's", letter="b")] = Field(
        4, ge=1, le=4_096, description="Beam size; 1 is greedy."
    )
    # The upper bound keeps powers finite.
    length_penalty: Annotated[float, Option(unset="the model's", applies_to_scoring=True)] = Field(
        0.6, ge=0, le=100, description="alpha of the length penalty."
    )
    length_normalization: Annotated[Normalization, Option(unset="the model's", applies_to_scoring=True)] = Field(
        "paper", description="Divisor of scores: the paper's penalty, or length^alpha."
    )
    max_extra_length: Annotated[int, Option(unset="the model's")] = Field(
        50, ge=0, le=1_000_000, description="Maximum pieces of an output beyond its source's."
    )
    refill_beam: Annotated[
        bool,
        Option(
            in_python="Let the next best hypotheses take the places of finished ones in the beam, as in Tensor2Tensor. "
            "Without it, these stay empty, so that a beam of 1 is greedy. No effect on samples.",
            unset="the model's",
        ),
    ] = Field(False, description="Refill finished places of the beam.")


class ValidationConfig(Section):
    """Loss and BLEU on the valid set."""

    every_updates: int = Field(1_000, ge=1)
    bleu: bool = Field(True, description="also translate and score, as nmt translate and nmt score do")
    bleu_sentences: int | None = Field(None, ge=1, description="number of sentences, from the first; all if unset")
    decoding: DecodingConfig = DecodingConfig()


class CheckpointsConfig(Section):
    """When checkpoints are written, and which are kept."""

    every_updates: int | None = Field(1_000, ge=1)
    every_minutes: float | None = Field(None, gt=0)
    keep_last: int = Field(5, ge=1)
    keep_best: int = Field(1, ge=0)
    keep_every: int | None = Field(None, ge=1, description="also keep checkpoints at multiples of this update")


class LoggingConfig(Section):
    """What is logged during the run."""

    every_updates: int = Field(50, ge=1)
    tensorboard: bool = Field(False, description="also write RUN/tensorboard/; needs the extra tensorboard")


class Config(Section):
    """Every setting of a run."""

    model: ModelConfig = ModelConfig()
    batching: BatchingConfig = BatchingConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    training: TrainingConfig = TrainingConfig()
    augmentation: AugmentationConfig = AugmentationConfig()
    validation: ValidationConfig = ValidationConfig()
    checkpoints: CheckpointsConfig = CheckpointsConfig()
    decoding: DecodingConfig = DecodingConfig()
    logging: LoggingConfig = LoggingConfig()
    data: DataConfig = DataConfig()

    @property
    def guides_alignment(self) -> bool:
        """Whether the model learns to align."""
        return self.model.alignment_layer is not None and self.training.guided_alignment > 0

    @property
    def encodes_epochs(self) -> bool:
        """Whether the training text is encoded anew for each epoch."""
        return self.training.subword_sampling > 0 or self.augmentation != AugmentationConfig()

    @model_validator(mode="after")
    def _pairs_stay_aligned(self) -> Self:
        if self.guides_alignment and self.encodes_epochs:
            raise ValueError(
                "model.alignment_layer needs pairs that are encoded once, but training.subword_sampling or "
                "augmentation changes them in each epoch: leave these out, or set training.guided_alignment=0"
            )
        return self

    @model_validator(mode="after")
    def _rate_lasts(self) -> Self:
        end, limit = self.schedule.decay_updates, self.training.max_updates
        if end is not None and (limit is None or limit > end):
            raise ValueError(
                f"the learning rate is 0 from update {end:,} on (schedule.decay_updates), but training.max_updates is "
                f"{'unset' if limit is None else f'{limit:,}'}: set it to {end:,} too (--max-updates), or increase "
                "decay_updates"
            )
        has_end = end is not None or limit is not None or self.training.max_minutes is not None
        if self.schedule.decay != "inverse_sqrt" and not has_end:
            raise ValueError(
                f"a {self.schedule.decay} decay ends with the run, which has no end: set training.max_updates "
                "(--max-updates), training.max_minutes (--max-minutes) or schedule.decay_updates"
            )
        return self
