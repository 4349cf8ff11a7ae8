"""The page about the attention of a model: every head as a small map, and figures 3 to 5 of the paper."""

from __future__ import annotations

from collections.abc import Sequence

import nmt
from nmt.reports.attention_lines import head_class, lines, piece_list
from nmt.reports.attention_views import View, views
from nmt.reports.attention_weights import weights_for_script
from nmt.reports.heat_maps import heat_map
from nmt.reports.html import NOTHING, Html, element, join, page, text, variables
from nmt.reports.labelled_attention import ATTENTIONS, LabelledAttention, labelled
from nmt.translation.attention_maps import AttentionMaps

TITLE = "Attention: "
FOOTER = "Written by nmt "
# The legend shows these weights.
_SHADES = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0)
# More heads have narrow columns in the overview.
_MANY_HEADS = 10


def attention_page(maps: Sequence[AttentionMaps]) -> str:
    """A self-contained page about the attention in one or more pairs of sentences."""
    title = f"{TITLE}{', '.join(dict.fromkeys(each.model for each in maps))}"
    return page(
        title,
        element("h1", text(title)),
        *(_sentence(each, number, len(maps)) for number, each in enumerate(maps, start=1)),
        element("footer", text(f"{FOOTER}{nmt.__version__}.")),
        styles=["charts.css", "attention.css"],
        scripts=["attention.js"],
    )


def _sentence(maps: AttentionMaps, number: int, count: int) -> Html:
    attentions = [labelled(maps, name) for name in ATTENTIONS]
    found = views(maps)
    return element(
        "section",
        element("h2", text(f"Sentence {number} of {count}")) if count > 1 else NOTHING,
        _pair(maps),
        _choice(attentions, number),
        *(_panel(each) for each in attentions),
        element("div", class_="explorer"),
        _figures(maps, found),
        weights_for_script(attentions, found),
        class_="sentence",
    )


def _pair(maps: AttentionMaps) -> Html:
    pair = {"source": maps.source, "target": maps.target}
    return element(
        "dl",
        *(
            element("div", element("dt", text(name)), element("dd", text(sentence), dir="auto"))
            for name, sentence in pair.items()
        ),
        class_="pair",
    )


def _choice(attentions: Sequence[LabelledAttention], number: int) -> Html:
    """The switch among the attentions. A style sheet shows the chosen one, so it works without a script."""
    choices = (
        element(
            "label",
            element(
                "input", type="radio", name=f"attention-{number}", value=each.name, checked=each is attentions[0]
            ),
            text(each.title),
            class_="chip",
        )
        for each in attentions
    )  # fmt: skip
    return element("fieldset", element("legend", text("attention")), *choices, class_="choice attention-choice")


def _panel(attention: LabelledAttention) -> Html:
    """The overview of one attention: a table of small maps, one row per layer and one column per head."""
    return element(
        "div",
        element("p", text(f"{attention.legend} "), _legend(), class_="note"),
        _strips(attention),
        _overview(attention),
        class_=f"panel {attention.name}",
    )


def _legend() -> Html:
    shades = (
        element("span", element("i", style=f"opacity: {weight**0.5:.3f}"), text(f"{weight:.0%}"), class_="shade")
        for weight in _SHADES
    )
    return element("span", text("weight "), *shades, class_="shades")


def _strips(attention: LabelledAttention) -> Html:
    """The pieces in a line: what a reader follows through all heads."""
    if attention.name == "memory":
        strips = [("rows", "queries", attention.rows), ("columns", "keys", attention.columns)]
    else:
        strips = [("pieces", "queries", attention.rows)]
    return element(
        "div",
        *(
            element("div", element("span", text(name), class_="strip-name"), piece_list(pieces, class_))
            for name, class_, pieces in strips
        ),
        class_="strips",
    )


def _overview(attention: LabelledAttention) -> Html:
    mean = attention.weights.mean(axis=1)
    header = element(
        "tr",
        element("td"),
        *(
            element("th", element("span", text("head "), class_="word"), text(head + 1), scope="col")
            for head in range(attention.heads)
        ),
        element("th", text("mean"), scope="col", class_="mean"),
    )
    rows = (
        element(
            "tr",
            element("th", element("span", text("layer "), class_="word"), text(layer + 1), scope="row"),
            *(
                _small_map(attention, layer, f"head {head + 1}", heat_map(weights), head)
                for head, weights in enumerate(attention.weights[layer])
            ),
            _small_map(attention, layer, "mean of heads", heat_map(mean[layer]), None),
        )
        for layer in range(attention.layers)
    )
    # A very oblong map would not fit its place.
    shape = min(max(len(attention.columns) / len(attention.rows), 0.6), 1.6)
    grid = element(
        "table", element("thead", header), element("tbody", *rows),
        class_="overview many" if attention.heads > _MANY_HEADS else "overview",
        style=variables(heads=attention.heads + 1, shape=f"{shape:.3f}"),
    )  # fmt: skip
    return element("div", grid, class_="scrolling overview-frame")


def _small_map(attention: LabelledAttention, layer: int, name: str, image: str, head: int | None) -> Html:
    label = f"layer {layer + 1}, {name}"
    return element(
        "td",
        element("img", src=image, alt=label, width="96", height="96"),
        title=label,
        class_="mean" if head is None else head_class(head),
        data_layer=str(layer),
        data_head="mean" if head is None else str(head),
    )


def _figures(maps: AttentionMaps, found: Sequence[View]) -> Html:
    if not found:
        note = "The sentence has fewer than 3 source pieces, so no heads were chosen for figures 3 to 5 of the paper."
        return element("p", text(note), class_="note")
    return join(
        [
            element("h3", text("Figures 3 to 5 of the paper, for this sentence"), class_="title"),
            element(
                "p",
                text(
                    "Encoder self-attention: lines lead from a piece (left) to the pieces that it attends to (right). "
                    "The opacity is the weight, the colour is the head. Weights below 5% are not drawn."
                ),
                class_="note",
            ),
            element("div", *(_figure(maps, view, number) for number, view in enumerate(found)), class_="views"),
        ]
    )


def _figure(maps: AttentionMaps, view: View, number: int) -> Html:
    heads = (element("span", text(f"head {head + 1}"), class_=f"head-name {head_class(head)}") for head in view.heads)
    piece = [] if view.piece is None else [text(" · from "), _piece(maps.source_pieces[view.piece])]
    return element(
        "figure",
        element(
            "figcaption",
            element("h4", text(view.name), element("span", text(f"as figure {view.figure}"), class_="unit")),
            element("p", text(f"Layer {view.layer + 1} · "), *heads, *piece, class_="chosen"),
            element("p", text(f"{view.criterion} {view.result}"), class_="note"),
        ),
        lines(
            maps.source_pieces,
            maps.source_pieces,
            {head: maps.encoder[view.layer, head] for head in view.heads},
            view.piece,
        ),
        class_="view",
        data_view=str(number),
    )


def _piece(piece: str) -> Html:
    return element("b", text(piece), dir="auto")
