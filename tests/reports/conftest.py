"""Pages taken apart, and attention to draw."""

from html.parser import HTMLParser

import numpy as np
import pytest

from nmt.translation.attention_maps import AttentionMaps

VOID = {"br", "img", "input", "meta"}


class Page(HTMLParser):
    """A page, read strictly: each element must be closed where it was opened."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        """Without scripts and styles."""
        self.scripts: list[str] = []
        self._open: list[str] = []
        self.feed(content)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attributes) -> None:
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data) -> None:
        if self._open and self._open[-1] == "script":
            self.scripts.append(data)
        elif data.strip() and (not self._open or self._open[-1] != "style"):
            self.text += data + "\n"

    def having(self, tag: str, class_: str = "") -> list[dict[str, str | None]]:
        """The attributes of each element of a kind, and of a class."""
        return [a for t, a in self.elements if t == tag and (not class_ or class_ in (a.get("class") or "").split())]


@pytest.fixture
def parsed():
    """Read a page, or a part of one."""
    return Page


def random_weights(generator: np.random.Generator, *shape: int, triangular: bool = False) -> np.ndarray:
    """Attention weights: each row sums to 1."""
    scores = generator.normal(size=shape) * 2
    if triangular:
        scores = np.where(np.tri(*shape[-2:], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)


@pytest.fixture
def make_maps():
    """Attention maps of a sentence. Weights that are not given are random."""

    def make(
        source="▁the ▁lamp s ▁are ▁on",
        target="▁die ▁Lampe n ▁sind ▁an .",
        *,
        layers: int = 2,
        heads: int = 3,
        decoder_layers: int = 2,
        encoder: np.ndarray | None = None,
        model: str = "runs/lamps",
    ) -> AttentionMaps:
        source_pieces, target_pieces = (tuple(text.split(" ")) if text else () for text in (source, target))
        S, T = len(source_pieces) + 1, len(target_pieces) + 1
        generator = np.random.default_rng(17)
        random_encoder = random_weights(generator, layers, heads, S, S)
        return AttentionMaps(
            source_pieces=(*source_pieces, "</s>"),
            input_pieces=("<s>", *target_pieces),
            output_pieces=(*target_pieces, "</s>"),
            encoder=random_encoder if encoder is None else encoder.astype(np.float32),
            decoder=random_weights(generator, decoder_layers, heads, T, T, triangular=True),
            memory=random_weights(generator, decoder_layers, heads, T, S),
            source="".join(source_pieces).replace("▁", " ").strip(),
            target="".join(target_pieces).replace("▁", " ").strip(),
            model=model,
        )

    return make
