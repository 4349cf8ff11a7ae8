"""``nmt build-vocab``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nmt.api import data
from nmt.cli.console import notice, warn
from nmt.cli.options import command
from nmt.cli.progress_lines import CONSOLE
from nmt.data.data_folder import DataFolder
from nmt.text.printable import counted

if TYPE_CHECKING:
    from nmt.data.build import BuiltVocabulary


@command(data.build_vocab)
def build_vocab(given: dict[str, Any]) -> None:
    """Writes vocab.model, vocab.txt, vocab.json and shards/ into the data set's folder.

    Example: nmt build-vocab --data data/multi30k-en-de --size 8000
    """
    _report(data.build_vocab(**given, report=CONSOLE), given["max_pieces"])


def _report(built: Sequence[BuiltVocabulary], max_pieces: int) -> None:
    from nmt.data.build import size_warnings
    from nmt.text.steps import affixes

    for each in built:
        if each.edited:
            where = f"{each.data}: " if len(built) > 1 else ""
            notice(
                f"{where}{', '.join(each.edited)}: changed since the text was encoded, so the text was encoded again"
            )
    if (trained := built[0].trained) is not None:
        if trained.asked_size > trained.vocab.size:
            notice(f"size: {trained.vocab.size:,} pieces, since the text cannot fill {trained.asked_size:,}")
        if trained.skipped_lines:
            notice(f"skipped: {counted(trained.skipped_lines, 'line')} too long for training the vocabulary")
        if trained.too_small_for_bytes:
            notice(
                "byte fallback: off, since 256 byte pieces would take more than a quarter of "
                f"{trained.vocab.size:,} pieces; characters without a piece become unknown (--byte-fallback "
                "turns it on)"
            )
    total = sum(built[0].sampled.values())
    for language, lines in built[0].sampled.items():
        notice(f"sample: {counted(lines, 'line')} of {language} ({lines / total:.1%})")
    for affix in affixes(built[0].index.steps.source):
        notice(f"source: {affix}")
    for each in built:
        _report_data_set(each, max_pieces)
    for message in size_warnings(built):
        warn(message)
    if not any(each.changed for each in built):
        notice("Up to date: vocabulary and shards.")


def _report_data_set(built: BuiltVocabulary, max_pieces: int) -> None:
    from nmt.data.build import normalization_changes, warnings
    from nmt.data.manifest import read_manifest
    from nmt.data.shard_index import SIDES

    manifest = read_manifest(built.data)
    notice(f"vocabulary: {DataFolder(built.data).vocab}, {built.vocab.source.size:,} pieces")
    for name, split in built.index.splits.items():
        for side, language in zip(SIDES, (manifest.source_lang, manifest.target_lang), strict=True):
            statistics = split.sides[side]
            sentences = split.pairs + split.too_long + split.empty
            notice(
                f"{name}.{language}: {counted(sentences, 'line')}, "
                f"{statistics.pieces / max(statistics.words, 1):.2f} pieces per word, "
                f"{statistics.pieces / max(sentences, 1):.1f} pieces per line (maximum {statistics.longest:,}), "
                f"unknown {statistics.unknown / max(statistics.pieces, 1):.3%}"
                + (f", bytes {statistics.byte_pieces / statistics.pieces:.3%}" if statistics.byte_pieces else "")
            )
        if split.too_long or split.empty:
            notice(
                f"{name}: left out {counted(split.too_long, 'pair')} of over {max_pieces} pieces, {split.empty:,} "
                "without pieces"
            )
    for side, changes in (normalization_changes(built) if built.changed else {}).items():
        examples = f": {', '.join(map(str, changes.examples))}" if changes.examples else ""
        notice(f"{side}: normalization changes {counted(changes.changed, 'character')} ({changes.share:.3%}){examples}")
    for message in warnings(built):
        warn(message)
