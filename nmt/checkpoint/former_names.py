"""Former names of weights, mapped to the current names when a file is read. No other module knows them."""

from __future__ import annotations

_FORMER_TO_CURRENT = {
    ".around_self_attention.norm.": ".self_attention_norm.",
    ".around_cross_attention.norm.": ".cross_attention_norm.",
    ".around_feed_forward.norm.": ".feed_forward_norm.",
    ".feed_forward.outer.": ".feed_forward.output.",
    "_attention.projection.": "_attention.query_key_value.",
    "_positions.table_PD": "_positions.weight",
}


def current_name(name: str) -> str:
    """The current name of a weight or of its moments (``exp_avg.WEIGHT``). Other names are returned unchanged."""
    for former, current in _FORMER_TO_CURRENT.items():
        name = name.replace(former, current)
    return name


def former_name(name: str) -> str:
    """The name of a weight before it was renamed. Other names are returned unchanged."""
    for former, current in _FORMER_TO_CURRENT.items():
        name = name.replace(current, former)
    return name
