"""Which of our models other toolkits can express: a table of settings for each format, and all obstacles at once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from nmt.config import ModelConfig
from nmt.errors import NmtError

Table = Mapping[str, tuple[Any, ...]]
"""Setting -> the values of it that a format can express, of which the first is advised."""
ATTENTION: Table = {
    "attention": ("scaled_dot_product",),
    "source_eos": (True,),
    "embedding_norm": (False,),
    "source_neighbours": (None,),
    "target_neighbours": (None,),
}
MARIAN_EPSILON, LARGEST_MARIANMT_EPSILON = 1e-6, 1e-4
"""Marian's epsilon; and the largest one with which MarianMT's own, 1e-5, computes nearly the same."""
MARIAN: Table = {
    **ATTENTION,
    "positions": ("tensor2tensor",),
    "first_position": (0,),
    "decoder_start": ("zero",),
    "activation": ("relu", "swish", "gelu"),
    "norm_epsilon": (MARIAN_EPSILON,),
}
MARIANMT: Table = {**ATTENTION, "norm": ("post",)}
FORMATS: Mapping[str, Table] = {
    "marian": MARIAN,
    "ctranslate2": ATTENTION,
    "huggingface": MARIANMT,
    "argos": ATTENTION,
}
"""Format of ``nmt export`` -> its table."""


def obstacles(model: ModelConfig, table: Table) -> list[tuple[str, str]]:
    """The settings that a format cannot express, each as ``setting: value`` with the setting that it can."""
    found = [
        (f"{setting}: {value}", f"model.{setting}={advised if isinstance(advised, str) else json.dumps(advised)}")
        for setting, (advised, *others) in table.items()
        if (value := getattr(model, setting)) not in (advised, *others)
    ]
    if (model.key_size, model.value_size) != (model.d_model // model.heads,) * 2:
        found.append((f"d_k: {model.key_size}, d_v: {model.value_size}", "model.d_k=null --set model.d_v=null"))
    if "norm" in table and model.norm_epsilon > LARGEST_MARIANMT_EPSILON:
        found.append((f"norm_epsilon: {model.norm_epsilon:g}", f"model.norm_epsilon={MARIAN_EPSILON:g}"))
    return found


def check_expressible(model: ModelConfig, table: Table, name: str, toolkit: str) -> None:
    """Refuse a model that a toolkit cannot compute.

    Args:
        name: of the model, for the message.

    Raises:
        NmtError: the message names all settings in the way.
    """
    if found := obstacles(model, table):
        has = ", ".join(have for have, _ in found)
        options = " ".join(f"--set {remedy}" for _, remedy in found)
        others = [form for form in FORMATS if not obstacles(model, FORMATS[form])]
        elsewhere = f" It can be exported to {', '.join(others)}." if others else ""
        raise NmtError(f"{name}: {toolkit} cannot express {has}. Train a model with {options}.{elsewhere}")


def exports_line(model: ModelConfig) -> str:
    """Which formats a model with these settings can be exported to, in one line."""
    found = {form: obstacles(model, table) for form, table in FORMATS.items()}
    able = ", ".join(form for form, against in found.items() if not against) or "none"
    unable = [f"{form} ({', '.join(have for have, _ in against)})" for form, against in found.items() if against]
    return f"exports to: {able}" + (f"; not {', '.join(unable)}" if unable else "")
