"""Reading a model of Eole: its folder with config.json, vocab.json and ``model.NN.safetensors``."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import Any

from nmt.convert.completing import completed, files_by_name
from nmt.convert.eole.config_file import EoleSettings
from nmt.convert.eole.embeddings import STORED_POSITIONS, TABLES, Embeddings, find_embeddings
from nmt.convert.eole.refusals import check_expressible
from nmt.convert.eole.settings import PROJECTIONS, Epsilon, decoding_config, model_config, norm_epsilon
from nmt.convert.eole.text import find_segmenters_of, text_remarks
from nmt.convert.eole.vocabulary import read_vocabulary
from nmt.convert.foreign import ForeignModel, LayerModules, Layout, Names, Part, weight_and_bias
from nmt.convert.given import NOTHING_GIVEN, Given
from nmt.convert.json_files import read_json
from nmt.convert.safetensors_files import read_safetensors
from nmt.convert.settings import plain_settings
from nmt.convert.tensors import check_layer_counts

CONFIG, VOCABULARY, SHARDS = "config.json", "vocab.json", "model.*.safetensors"
_SCALAR = re.compile(r"decoder\.transformer_layers\.\d+\.layer_scalar")
"""A factor that only layers with norms around the feed-forward network apply."""
_UNSURE = "final_linear"
"""A projection that has no bias in some files whose settings say that it has one: Eole sets it after it is built."""
_LAYERS = LayerModules(
    layers={"encoder": "encoder.transformer_layers.{layer}", "decoder": "decoder.transformer_layers.{layer}"},
    attentions={
        "encoder": {"self_attention": ("self_attn", "input_layernorm")},
        "decoder": {
            "self_attention": ("self_attn", "input_layernorm"),
            "cross_attention": ("context_attn", "precontext_layernorm"),
        },
    },
    projections=PROJECTIONS,
    feed_forward=("mlp.gate_up_proj", "mlp.down_proj", "post_attention_layernorm"),
)
_UNTOLD_EPSILON = (
    "The files do not tell norm_eps, nor which version of Eole wrote them. It is 1e-5, as in Eole 0.2 and later. If an "
    'earlier version trained the model, add "norm_eps": 1e-6 to model in config.json and import it again.'
)


def is_eole(path: Path) -> bool:
    """Whether a path looks like a model of Eole: its folder, or config.json or a file of tensors within."""
    folder = path if path.is_dir() else path.parent
    is_part = path.is_dir() or path.name == CONFIG or path.match(SHARDS)
    return is_part and (folder / CONFIG).is_file() and (folder / VOCABULARY).is_file() and any(folder.glob(SHARDS))


def read_eole(path: Path, given: Given = NOTHING_GIVEN) -> ForeignModel:
    """Read a model of Eole, of any version to 0.6.

    Args:
        path: its folder, or a file in it.

    Raises:
        NmtError: a file is missing or damaged, or the model has something that ours cannot express.
    """
    folder = path if path.is_dir() else path.parent
    values = read_json(folder / CONFIG)
    settings = EoleSettings.of(values, str(folder / CONFIG))
    check_expressible(settings)
    vocabulary = read_vocabulary(folder / VOCABULARY)
    shards = sorted(folder.glob(SHARDS))
    stored, name = read_safetensors(shards), str(shards[0] if len(shards) == 1 else folder)
    scalars = tuple(filter(_SCALAR.fullmatch, stored))
    epsilon = norm_epsilon(settings, has_specials=vocabulary.has_specials, has_scalars=bool(scalars))
    embeddings = find_embeddings(settings, stored, name, has_specials=vocabulary.has_specials)
    config = model_config(settings, epsilon.value, embeddings.kind, embeddings.max_positions)
    check_layer_counts(stored, [config.encoder_layers, config.decoder_layers], name)
    segmenters = find_segmenters_of(values, folder, given)
    source, target = vocabulary.source(segmenters[0]), vocabulary.target(segmenters[1])
    model = ForeignModel(
        toolkit="Eole",
        version=settings.eole_version,
        config=config,
        decoding=decoding_config(settings),
        tensors={**stored, **embeddings.made},
        layout=_layout(settings, stored, embeddings),
        source=source,
        target=target,
        start=vocabulary.start,
        files=files_by_name([folder / CONFIG, folder / VOCABULARY, *shards, *segmenters]),
        source_lang=given.source_lang or "",
        target_lang=given.target_lang or "",
        settings=plain_settings(settings.flat()),
        ignored=(*TABLES, *embeddings.replaced, *scalars),
        remarks=tuple(_remarks(values, epsilon, embeddings)),
    )
    return completed(model, name)


def _remarks(values: Mapping[str, Any], epsilon: Epsilon, embeddings: Embeddings) -> Iterator[str]:
    if not epsilon.is_told:
        yield _UNTOLD_EPSILON
    if embeddings.replaced == TABLES:
        yield STORED_POSITIONS
    yield from text_remarks(values)


def _layout(settings: EoleSettings, tensors: Container[str | None], embeddings: Embeddings) -> Layout:
    def linear(module: str) -> Names:
        part: Part = "encoder" if module.startswith("encoder") else "decoder"
        names, projection = weight_and_bias(module), module.rpartition(".")[-1]
        has_bias = settings.has_bias(part, projection)
        if projection == _UNSURE:
            has_bias &= names.of_layer(0).bias in tensors
        return names if has_bias else Names(names.weight, None)

    return Layout(
        _LAYERS.linears(linear),
        _LAYERS.norms(),
        source_embedding=embeddings.source,
        target_embedding=embeddings.target,
        output=embeddings.output,
        output_bias=None if settings.model.get("generator_bias") is False else "generator.bias",
        positions=embeddings.positions,
        first_position_row=embeddings.first_row,
    )
