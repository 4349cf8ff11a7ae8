"""Names that earlier versions gave to weights: they are translated on reading, so that nothing else knows them."""

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
    """Today's name of a weight, or of a tensor beside it (``exp_avg.WEIGHT``); other names as they are."""
    for former, current in _FORMER_TO_CURRENT.items():
        name = name.replace(former, current)
    return name


def former_name(name: str) -> str:
    """The name of a weight before it was renamed; other names as they are."""
    for former, current in _FORMER_TO_CURRENT.items():
        name = name.replace(current, former)
    return name
