"""Which of our models other toolkits can express: a table of settings for each format, and all obstacles at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from nmt.config import ModelConfig
from nmt.errors import NmtError


class Allowed(NamedTuple):
    """What a format can express of a setting."""

    values: tuple[Any, ...]
    remedy: str
    """The value of the setting for ``--set`` that the format can express."""


Table = Mapping[str, Allowed]
"""Setting -> what a format can express of it."""
ATTENTION: Table = {
    "attention": Allowed(("scaled_dot_product",), "scaled_dot_product"),
    "source_eos": Allowed((True,), "true"),
    "embedding_norm": Allowed((False,), "false"),
    "source_neighbours": Allowed((None,), "null"),
    "target_neighbours": Allowed((None,), "null"),
}
LARGEST_MARIANMT_EPSILON = 1e-4
"""The largest epsilon with which MarianMT's own, 1e-5, computes nearly the same."""
MARIANMT: Table = {**ATTENTION, "norm": Allowed(("post",), "post")}
FORMATS: Mapping[str, Table] = {
    "ctranslate2": ATTENTION,
    "huggingface": MARIANMT,
    "argos": ATTENTION,
}
"""Format of ``nmt export`` -> its table."""


def obstacles(model: ModelConfig, table: Table) -> list[tuple[str, str]]:
    """The settings that a format cannot express, each as ``setting: value`` with the setting that it can."""
    found = [
        (f"{setting}: {value}", f"model.{setting}={allowed.remedy}")
        for setting, allowed in table.items()
        if (value := getattr(model, setting)) not in allowed.values
    ]
    if (model.key_size, model.value_size) != (model.d_model // model.heads,) * 2:
        found.append((f"d_k: {model.key_size}, d_v: {model.value_size}", "model.d_k=null --set model.d_v=null"))
    if "norm" in table and model.norm_epsilon > LARGEST_MARIANMT_EPSILON:
        found.append((f"norm_epsilon: {model.norm_epsilon:g}", "model.norm_epsilon=1e-06"))
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
