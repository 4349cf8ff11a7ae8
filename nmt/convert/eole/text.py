"""What config.json of Eole says of the text: how it is segmented, and what else is done to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nmt.convert.given import Given
from nmt.convert.segmenters import find_segmenters

_OF_TRAINING = frozenset(
    ("filtertooshort", "filtertoolong", "clean", "switchout", "tokendrop", "tokenmask", "bart", "fuzzymatch")
)
"""Transforms that choose or spoil sentences of training."""
_SEGMENTING = frozenset(("sentencepiece", "bpe", "onmt_tokenize"))
_LONGEST_LISTED = 5


def find_segmenters_of(config: Mapping[str, Any], folder: Path, given: Given) -> tuple[Path | None, Path | None]:
    """The SentencePiece models of source and target: given, named by config.json, or found beside it.

    Args:
        config: what config.json holds.
    """
    languages = given.source_lang or "", given.target_lang or ""
    return find_segmenters(folder, given, *languages, named=_named_models(config, folder))


def text_remarks(config: Mapping[str, Any]) -> Iterator[str]:
    """What users must know of the text that the model reads and writes."""
    used = list(dict.fromkeys(_used(config)))
    others = [name for name in used if name not in _OF_TRAINING | _SEGMENTING]
    if others:
        more = f" and {len(others) - _LONGEST_LISTED} more" if len(others) > _LONGEST_LISTED else ""
        listed = ", ".join(others[:_LONGEST_LISTED]) + more
        yield f"Eole changes text by transforms that nmt does not apply: {listed}. Apply them to sources and outputs."
    if "onmt_tokenize" in used:
        yield "Text was segmented by pyonmttok: compare a few lines of yours that it segments."


def _used(config: Mapping[str, Any]) -> Iterator[str]:
    """The names of all transforms, of the whole and of each corpus."""
    corpora = config.get("data")
    sections = [config, *(corpora.values() if isinstance(corpora, dict) else ())]
    for section in sections:
        names = section.get("transforms") if isinstance(section, dict) else None
        for name in names if isinstance(names, list) else ():
            if isinstance(name, str) and name.isidentifier() and len(name) <= 40:
                yield name


def _named_models(config: Mapping[str, Any], folder: Path) -> tuple[Path | None, Path | None]:
    """The SentencePiece models that transforms name, in this folder: Eole copies them there."""
    for options in _sentencepiece_options(config):
        source = _in_folder(options.get("src_subword_model"), folder)
        target = _in_folder(options.get("tgt_subword_model"), folder)
        if source is not None:
            return source, target or source
    return None, None


def _sentencepiece_options(config: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The options of transforms that segment by SentencePiece alone."""
    transforms = config.get("transforms_configs")
    found = transforms if isinstance(transforms, dict) else {}
    if isinstance(options := found.get("sentencepiece"), dict):
        yield options
    options = found.get("onmt_tokenize")
    if isinstance(options, dict) and options.get("src_subword_type") == "sentencepiece":
        arguments = options.get("src_onmttok_kwargs")
        if not isinstance(arguments, dict) or arguments.get("mode", "none") == "none":
            yield options


def _in_folder(named: Any, folder: Path) -> Path | None:
    if not isinstance(named, str) or "\0" in named:
        return None
    path = folder / Path(named).name
    return path if path.is_file() else None
