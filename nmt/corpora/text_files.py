"""The text files of a data set: read each split, hold out pairs, clean, write, count."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import chain, islice
from pathlib import Path

from nmt.corpora.chunks import EvaluationSentences, stored, storing
from nmt.corpora.cleaning import Rules, distinct, filter_names, unleaked
from nmt.corpora.download import Notify
from nmt.corpora.filters import KEPT, chosen_filters
from nmt.corpora.findings import Findings
from nmt.corpora.holdout import hold_out
from nmt.corpora.pair_file import Pair, ReadPair
from nmt.corpora.sample_check import PairSample
from nmt.corpora.schema import MOST_EVALUATION_PAIRS, HeldOut, TextCorpus, ToyCorpus
from nmt.corpora.sources import Sources
from nmt.corpora.transfer import Progress
from nmt.data.manifest import CorpusRecord, FileRecord, Manifest, fingerprint
from nmt.errors import DataError, NmtWarning
from nmt.text import encode_line, sentence_length
from nmt.writing import flush_to_disk, open_to_write

# Pairs between two calls of ``progress``.
_PROGRESS_EVERY = 10_000
_MOST, _MANY_EMPTY = 0.5, 0.1
"""Shares of a corpus: more pairs that a filter drops, or that have an empty side, are worth a warning."""


def write_text(
    sources: Sources, folder: Path, *, scratch: Path, workers: int, progress: Progress, notify: Notify
) -> Manifest:
    """Write ``{train,valid,test}.LANGUAGE`` into a folder.

    Args:
        sources: the recipe and its files.
        folder: for the text.
        scratch: a folder for temporary files; the caller removes it.
        workers: number of cleaning processes.
        progress: called with the number of pairs read.
        notify: called with notices.

    Returns:
        The manifest, not yet written.

    Raises:
        DataError: the text cannot be used, or a split has no pairs left.
        WriteError: the system refused to write a file.
    """
    recipe = sources.recipe
    read: dict[str, list[CorpusRecord]] = {}
    minimum = next((each for each in chosen_filters(recipe.filters) if each.filter.name == "score"), None)

    def corpora_of(split: str, findings: Findings) -> Iterator[Iterator[Pair]]:
        """Read the corpora of a split, each to its end before the next."""
        read[split] = []
        for number, corpus in enumerate(getattr(recipe, split)):
            yield pairs_of(corpus, split, number, findings)

    def pairs_of(corpus: TextCorpus, split: str, number: int, findings: Findings) -> Iterator[Pair]:
        """Read the pairs of a corpus, count them, and drop training pairs with a low score."""
        description = f"{split}: {corpus.name}"
        total = sources.number_of_lines(corpus)
        tally = _Tally(recipe.source_lang, recipe.target_lang)
        sample = PairSample()
        for pair in sources.pairs(corpus, split):
            tally.add(pair)
            if pair is None:
                continue
            if not isinstance(corpus, ToyCorpus):
                sample.add(tally.pairs - 1, (pair.source, pair.target))
            if tally.pairs % _PROGRESS_EVERY == 0:
                progress(description, tally.pairs, total)
            if split == "train" and minimum and pair.score is not None and pair.score < minimum.value:
                findings.add(number, minimum.count, 1, [(pair.source, pair.target)])
                if minimum.drops:
                    continue
            yield pair.source, pair.target
        progress(description, tally.pairs, tally.pairs)
        for doubt in sample.doubts(recipe.source_lang, recipe.target_lang):
            _warn(f"{split}: {corpus.name}: {doubt}")
        read[split].append(tally.record(split, corpus.name))

    # Valid and test are read first, since training text is compared with them.
    evaluation_pairs: dict[str, list[Pair]] = {}
    wanted: dict[str, HeldOut] = {}
    for split, corpora in (("valid", recipe.valid), ("test", recipe.test)):
        if isinstance(corpora[0], HeldOut):
            wanted[split] = corpora[0]
        else:
            pairs = chain.from_iterable(corpora_of(split, Findings()))
            evaluation_pairs[split] = list(islice(pairs, MOST_EVALUATION_PAIRS))
            if next(pairs, None) is not None:
                raise DataError(
                    f"{recipe.name}: {split} has more than {MOST_EVALUATION_PAIRS:,} pairs, the maximum. Use a sample "
                    "of it, or add its text to train."
                )
    rules = Rules(recipe.source_lang, recipe.target_lang, recipe.filters, recipe.normalisation)
    key = rules.comparison_key
    evaluation = EvaluationSentences.of(chain.from_iterable(evaluation_pairs.values()), key)

    findings = Findings(filter_names(recipe.filters, held_out=bool(wanted)))
    chunks = distinct(corpora_of("train", findings), rules, findings, scratch=scratch / "seen", workers=workers)
    if wanted:
        # Which pairs are held out is known at the end of the text, so it waits in a file.
        waiting = scratch / "chunks"
        held = hold_out(unleaked(storing(chunks, waiting), rules, evaluation, Findings()), wanted)
        for split, share in held.items():
            evaluation_pairs[split] = share.pairs
            evaluation = evaluation.with_held_out(share.pairs, share.pair_hashes, key)
            if share.pairs:
                notify(f"{split}: {len(share.pairs):,} pairs are held out of the training text.")
        chunks = stored(waiting)
    clean = unleaked(chunks, rules, evaluation, findings)
    languages = recipe.source_lang, recipe.target_lang
    files = _write(folder, "train", languages, (pair for chunk in clean for pair in chunk.pairs))
    for split in ("valid", "test"):
        files |= _write(folder, split, languages, evaluation_pairs[split])

    filters = findings.totals()
    read["train"] = [
        record.model_copy(update={"filters": findings.of_corpus(number)}) for number, record in enumerate(read["train"])
    ]
    corpora_read = [record for split in ("train", "valid", "test") for record in read.get(split, [])]
    _check_counts(sources, read, filters, files, notify)
    _warn_of_filters(read["train"])
    return Manifest(
        name=recipe.name,
        source_lang=recipe.source_lang,
        target_lang=recipe.target_lang,
        licence=recipe.licence,
        recipe=recipe.record(),
        sources=sources.records,
        corpora=corpora_read,
        filters=filters,
        files=files,
        nfc=recipe.normalisation.nfc,
        punctuation=recipe.normalisation.punctuation,
        fingerprint=fingerprint(files),
    )


def _check_counts(
    sources: Sources,
    read: dict[str, list[CorpusRecord]],
    filters: dict[str, int],
    files: dict[str, FileRecord],
    notify: Notify,
) -> None:
    """Report corpora whose length differs from the published one; raise an error if a split is empty."""
    recipe = sources.recipe
    for split, records in read.items():
        for record, corpus in zip(records, getattr(recipe, split), strict=True):
            expected = getattr(corpus, "lines", None)
            if expected is not None and record.pairs != expected:
                notify(f"{split}: {record.name} has {record.pairs:,} pairs; the published number is {expected:,}.")
    for split in ("train", "valid", "test"):
        if files[f"{split}.{recipe.source_lang}"].lines == 0:
            records = read.get(split, [])
            found = sum(record.pairs for record in records)
            if not found:
                skipped = sum(record.skipped for record in records)
                without = f" Skipped units without text in both languages: {skipped:,}." if skipped else ""
                names, languages = ", ".join(r.name for r in records), f"{recipe.source_lang} and {recipe.target_lang}"
                empty = "" if skipped else f" The {split} text is empty."
                raise DataError(f"{recipe.name}: {names} has no pair of {languages}.{without}{empty}")
            dropped = ", ".join(
                f"{name} {count:,}" for name, count in filters.items() if count and not name.endswith(KEPT)
            )
            because = f" Dropped: {dropped}." if split == "train" and dropped else ""
            raise DataError(f"{recipe.name}: none of {found:,} {split} pairs is left.{because}")


def _warn_of_filters(corpora: list[CorpusRecord]) -> None:
    """Warn of each filter that drops so much of a corpus that its text, or a setting, may be wrong."""
    for corpus in corpora:
        for name, found in corpus.filters.items():
            limit = _MANY_EMPTY if name == "empty" else _MOST
            if name != "held_out" and not name.endswith(KEPT) and found.pairs > limit * corpus.pairs:
                _warn(
                    f"train: {corpus.name}: the filter {name} drops {found.pairs:,} of {corpus.pairs:,} pairs "
                    f"({found.pairs / corpus.pairs:.0%}). Look at examples with --show-dropped."
                )


def _warn(message: str) -> None:
    warnings.warn(message, NmtWarning, stacklevel=3)


class _Tally:
    """Counts of what was read from a corpus."""

    def __init__(self, source_lang: str, target_lang: str) -> None:
        self.pairs = 0
        self._skipped = 0
        self._words = [0, 0]
        self._languages = source_lang, target_lang

    def add(self, pair: ReadPair | None) -> None:
        """Count a pair, or a unit without one of the languages."""
        if pair is None:
            self._skipped += 1
            return
        self.pairs += 1
        self._words[0] += sentence_length(pair.source, self._languages[0])
        self._words[1] += sentence_length(pair.target, self._languages[1])

    def record(self, split: str, name: str) -> CorpusRecord:
        """The counts for the manifest."""
        source_words, target_words = self._words
        return CorpusRecord(
            split=split,
            name=name,
            pairs=self.pairs,
            skipped=self._skipped,
            source_words=source_words,
            target_words=target_words,
        )


class _TextFile:
    """A text file that counts its lines and computes its checksum."""

    def __init__(self, path: Path, stack: ExitStack) -> None:
        self._path = path
        self._stream = stack.enter_context(open_to_write(path, "xb", follow=False))
        self._digest = hashlib.sha256()
        self._lines = 0

    def write(self, line: str) -> None:
        raw = encode_line(line)
        self._stream.write(raw)
        self._digest.update(raw)
        self._lines += 1

    def finish(self) -> FileRecord:
        """Flush the file to disk."""
        flush_to_disk(self._stream, self._path)
        return FileRecord(lines=self._lines, sha256=self._digest.hexdigest())


def _write(folder: Path, split: str, languages: tuple[str, str], pairs: Iterable[Pair]) -> dict[str, FileRecord]:
    """Write the two sides of a split; return the records of the two files."""
    names = [f"{split}.{language}" for language in languages]
    with ExitStack() as stack:
        source, target = (_TextFile(folder / name, stack) for name in names)
        for source_line, target_line in pairs:
            source.write(source_line)
            target.write(target_line)
        return {names[0]: source.finish(), names[1]: target.finish()}
