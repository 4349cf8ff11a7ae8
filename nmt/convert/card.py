"""The model card of an exported model: what it is, the lines that translate, where it comes from, what was compared.

Its head is YAML, as the Hugging Face hub reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

import nmt
from nmt.checkpoint.bundle import Bundle
from nmt.checkpoint.lineage import bundle_record
from nmt.convert.certificate.record import Certificate
from nmt.convert.exported_files import count_of_pieces
from nmt.convert.formats import Format

CARD_NAME = "README.md"
_MARKDOWN = re.compile(r"[\\`*\[\]<>|#&~$]|(?<![^\W_])_|_(?![^\W_])|^[-+=]|(?<=\d)[.)](?=\s|$)")


def model_card(bundle: Bundle, form: Format, quantization: str, certificate: Certificate, name: str) -> str:
    """The model card, as Markdown.

    Args:
        name: of the exported folder.
    """
    data = bundle.config.data
    pair = (
        f"{_line(data.source_lang)} to {_line(data.target_lang)}"
        if data.source_lang and data.target_lang
        else "translation"
    )
    parts = [
        f"# {_line(name)}: {pair}, for {form.toolkit}",
        f"A Transformer ({_sizes(bundle)}; weights in {quantization}), exported by nmt {nmt.__version__}.",
        "## Translate",
        _code("sh", form.install),
        _code(form.language, form.usage(bundle, name).strip()),
        "## Differences",
        "\n".join(f"- {line}" for line in _differences(bundle, form)),
        "## Data and licences",
        "\n".join(f"- {line}" for line in _sources(bundle)) or "Not recorded in the bundle.",
        "## Checks",
        "| check | compared with | result |\n|---|---|---|\n"
        + "\n".join(f"| {check.name} | {check.oracle} | {_line(check.detail)} |" for check in certificate.checks),
        "All figures, versions and checksums are in `parity.json`; the origin of the model is in `lineage.json`.",
    ]
    return f"---\n{_head(bundle)}---\n\n" + "\n\n".join(parts) + "\n"


def _code(language: str, lines: str) -> str:
    """A block of code, whose fence is longer than any in its lines."""
    fence = "`" * max([3, *(1 + len(run) for run in re.findall("`+", lines))])
    return f"{fence}{language}\n{lines}\n{fence}"


def _head(bundle: Bundle) -> str:
    data = bundle.config.data
    languages = [*filter(None, map(_plain, (data.source_lang, data.target_lang)))]
    licences = sorted({_plain(licence) for _, licence in _corpora(bundle)} - {""})
    head: dict[str, Any] = {"tags": ["translation"]}
    if languages:
        head["language"] = languages
    if licences:
        head |= {"license": "other", "license_name": "; ".join(licences)}
    text: str = yaml.safe_dump(head, allow_unicode=True, sort_keys=False, width=float("inf"))
    return text


def _sizes(bundle: Bundle) -> str:
    model = bundle.config.model
    return (
        f"{model.encoder_layers} + {model.decoder_layers} layers, width {model.d_model}, {model.heads} heads, "
        f"{count_of_pieces(bundle.vocab)}"
    )


def _differences(bundle: Bundle, form: Format) -> Iterator[str]:
    if prepared := bundle.config.data.source_text:
        steps = ", ".join(_line(str(step)) for step in prepared)
        yield f"nmt prepares source text with {steps}; do the same before you segment it."
    yield "`guard`: the lines above do not find and repair outputs that repeat themselves or end early, as nmt does."
    for setting, what in form.remarks(bundle).items():
        yield f"`{setting}`: {what}"


def _sources(bundle: Bundle) -> Iterator[str]:
    for corpus, licence in _corpora(bundle):
        yield f"{_line(corpus)}: {_line(licence) or 'no licence recorded'}"


def _corpora(bundle: Bundle) -> list[tuple[str, str]]:
    """Name and licence of each data set that the model was trained on, as its lineage says."""
    data = [part for part in bundle_record(bundle.folder).all() if part.kind == "data set"]
    return list(dict.fromkeys((str(part.facts.get("name", "")), str(part.facts.get("licence", ""))) for part in data))


def _line(text: str) -> str:
    """Text of a bundle as one line of Markdown that shows its characters, and starts nothing else."""
    return _MARKDOWN.sub(r"\\\g<0>", _plain(text))


def _plain(text: str) -> str:
    """Text of a bundle as one line of characters that can be printed."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())
