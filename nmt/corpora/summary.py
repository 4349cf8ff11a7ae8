"""What was read, dropped and written, as lines of text."""

from __future__ import annotations

from collections.abc import Iterator

from nmt.corpora.filters import KEPT
from nmt.data.manifest import Manifest
from nmt.table import Table
from nmt.text.printable import counted


def summary_lines(manifest: Manifest) -> Iterator[str]:
    """What was read of each corpus, what each filter found, and how many pairs each set has."""
    yield from _corpora(manifest).plain().splitlines()
    for corpus in manifest.corpora:
        if corpus.skipped:
            what = "units or lines without usable text in both languages"
            yield f"{corpus.split}: {corpus.name}: skipped {what}: {corpus.skipped:,}"
    for name, count in manifest.filters.items():
        if count:
            yield f"train: {_what_happened(name)}: {count:,}"
    if found := _filters(manifest):
        yield from found.plain().splitlines()
    for split in ("train", "valid", "test"):
        yield f"{split}: {counted(manifest.files[f'{split}.{manifest.source_lang}'].lines, 'pair')}"


def dropped_lines(manifest: Manifest) -> Iterator[str]:
    """The samples of each filter and corpus."""
    for corpus in manifest.corpora:
        for name, found in corpus.filters.items():
            shown = f"first {len(found.samples)} of {found.pairs:,}" if len(found.samples) < found.pairs else "all"
            yield f"{corpus.split}: {corpus.name}: {_what_happened(name)} ({shown}):"
            for source, target in found.samples:
                yield f"  {manifest.source_lang}: {source}"
                yield f"  {manifest.target_lang}: {target}"


def _what_happened(name: str) -> str:
    """What happened to the pairs that a filter found, by the name of its count."""
    return f"kept, counted as {name.removesuffix(KEPT)}" if name.endswith(KEPT) else f"dropped as {name}"


def _corpora(manifest: Manifest) -> Table:
    languages = manifest.source_lang, manifest.target_lang
    table = Table("", ["corpus", "pairs", *(f"{code} {count}" for count in ("words", "mean") for code in languages)])
    for corpus in manifest.corpora:
        words = corpus.source_words, corpus.target_words
        means = [f"{count / corpus.pairs:,.1f}" if corpus.pairs else "-" for count in words]
        table.add(f"{corpus.split}: {corpus.name}", f"{corpus.pairs:,}", *(f"{count:,}" for count in words), *means)
    return table


def _filters(manifest: Manifest) -> Table | None:
    """The pairs that each filter found in each training corpus; None if there is one corpus, or nothing was found."""
    corpora = [corpus for corpus in manifest.corpora if corpus.split == "train"]
    if len(corpora) < 2 or not any(corpus.filters for corpus in corpora):
        return None
    table = Table("", ["corpus", "filter", "pairs", "share"])
    for corpus in corpora:
        for name, found in corpus.filters.items():
            table.add(f"train: {corpus.name}", name, f"{found.pairs:,}", f"{found.pairs / corpus.pairs:.2%}")
    return table
