"""The splits of a data set: read each, hold out pairs, clean, write, count."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Self

from nmt.corpora.chunks import EvaluationSentences, store, stored
from nmt.corpora.cleaning import Rules, distinct, filter_names, unleaked
from nmt.corpora.corpus_kinds import MOST_EVALUATION_PAIRS
from nmt.corpora.download import Notify
from nmt.corpora.filter_statistics import FilterStatistics
from nmt.corpora.filters import KEPT, chosen_filters
from nmt.corpora.formats import Pair, ReadPair
from nmt.corpora.holdout import hold_out
from nmt.corpora.sample_check import PairSample
from nmt.corpora.schema import SPLITS
from nmt.corpora.sources import Sources
from nmt.corpora.transfer import Progress
from nmt.data.manifest import CorpusRecord, FileRecord, Manifest, fingerprint
from nmt.errors import DataError
from nmt.io.writing import flush_to_disk, open_to_write
from nmt.reporting import warn
from nmt.text.lines import encode_line, sentence_length
from nmt.text.printable import counted

# Pairs per chunk. Filtering a chunk must take far longer than sending it to a process.
_CHUNK = 20_000
# Pairs between two calls of ``progress``.
_PROGRESS_EVERY = 10_000
_FEW_HELD_OUT = 100
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
    reader = _Reader(sources, progress, notify)
    # Valid and test are read first, since training text is compared with them.
    held_out = recipe.held_out()
    evaluation_pairs = {split: reader.evaluation_pairs(split) for split in ("valid", "test") if split not in held_out}
    rules = Rules(recipe.source_lang, recipe.target_lang, recipe.filters, recipe.normalisation)
    key = rules.comparison_key
    evaluation = EvaluationSentences.of(chain(*evaluation_pairs.values(), sources.apart_from()), key)

    statistics = FilterStatistics(filter_names(recipe.filters, held_out=bool(held_out)))
    chunks = distinct(reader.chunks("train", statistics), rules, statistics, scratch=scratch / "seen", workers=workers)
    if held_out:
        # Which pairs are held out is known at the end of the text, so it waits in a file.
        waiting = scratch / "chunks"
        store(chunks, waiting)
        # Held-out pairs share no sentence with a set that was given, even where leaks into train are only counted.
        count_only = tuple(name for name in recipe.filters.count_only if name != "leakage")
        strict = recipe.filters.model_copy(update={"leakage": "drop", "count_only": count_only})
        chosen = unleaked(stored(waiting), replace(rules, filters=strict), evaluation, FilterStatistics())
        held = hold_out(chosen, held_out)
        for split, share in held.items():
            evaluation_pairs[split] = share.pairs
            evaluation = evaluation.with_held_out(share.pairs, share.pair_hashes, key)
            if share.pairs:
                few = " Scores on so few pairs are not reliable." if len(share.pairs) < _FEW_HELD_OUT else ""
                notify(f"{split}: {counted(len(share.pairs), 'pair')}, held out of the training text.{few}")
        chunks = stored(waiting)
    languages = recipe.source_lang, recipe.target_lang
    with _SplitFiles(folder, "train", languages) as train:
        for chunk in unleaked(chunks, rules, evaluation, statistics):
            train.write(chunk.pairs)
    files = train.records
    for split in ("valid", "test"):
        with _SplitFiles(folder, split, languages) as evaluation_files:
            evaluation_files.write(evaluation_pairs[split])
        files |= evaluation_files.records

    read = reader.read
    filters = statistics.totals()
    read["train"] = [
        record.model_copy(update={"filters": statistics.of_corpus(number)})
        for number, record in enumerate(read["train"])
    ]
    corpora_read = [record for split in SPLITS for record in read.get(split, [])]
    _check_counts(sources, read, filters, files, notify)
    _warn_of_filters(read["train"])
    return Manifest(
        name=recipe.name,
        source_lang=recipe.source_lang,
        target_lang=recipe.target_lang,
        tag=recipe.tag,
        licence=recipe.licence,
        recipe=recipe.record(),
        sources=sources.records,
        corpora=corpora_read,
        filters=filters,
        files=files,
        source_text=recipe.normalisation.steps(recipe.source_lang),
        target_text=recipe.normalisation.steps(recipe.target_lang),
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
                notify(
                    f"{split}: {record.name} has {counted(record.pairs, 'pair')}; the published number is {expected:,}."
                )
    for split in SPLITS:
        if files[f"{split}.{recipe.source_lang}"].lines == 0:
            records = read.get(split, [])
            found = sum(record.pairs for record in records)
            if not found:
                skipped = sum(record.skipped for record in records)
                without = (
                    f" Skipped units or lines without usable text in both languages: {skipped:,}." if skipped else ""
                )
                without += "".join(sources.languages_found(split, number) for number in range(len(records)))
                names, languages = ", ".join(r.name for r in records), f"{recipe.source_lang} and {recipe.target_lang}"
                empty = "" if skipped else f" The {split} text is empty."
                raise DataError(f"{recipe.name}: {names} has no pair of {languages}.{without}{empty}")
            dropped = ", ".join(
                f"{name} {count:,}" for name, count in filters.items() if count and not name.endswith(KEPT)
            )
            because = f" Dropped: {dropped}." if split == "train" and dropped else ""
            if split == "train" and filters.get("leaked"):
                tested = "".join(f" or of {folder}" for folder in recipe.apart_from)
                because += f" Leaked sentences are in a valid or test set, of this data set{tested}: give other text."
            raise DataError(f"{recipe.name}: none of {found:,} {split} pairs is left.{because}")


def _warn_of_filters(corpora: list[CorpusRecord]) -> None:
    """Warn of each filter that drops so much of a corpus that its text, or a setting, may be wrong."""
    for corpus in corpora:
        for name, found in corpus.filters.items():
            limit = _MANY_EMPTY if name == "empty" else _MOST
            if name != "held_out" and not name.endswith(KEPT) and found.pairs > limit * corpus.pairs:
                warn(
                    f"train: {corpus.name}: the filter {name} drops {found.pairs:,} of {corpus.pairs:,} pairs "
                    f"({found.pairs / corpus.pairs:.0%}). Look at examples with --show-dropped."
                )


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


class _Reader:
    """Reads the splits of a recipe, and counts what it reads."""

    def __init__(self, sources: Sources, progress: Progress, notify: Notify) -> None:
        self.read: dict[str, list[CorpusRecord]] = {}
        """What was read of each split, by corpus."""
        self._sources = sources
        self._recipe = sources.recipe
        self._progress = progress
        self._notify = notify
        self._hints: set[str] = set()
        score = next((each for each in chosen_filters(self._recipe.filters) if each.filter.name == "score"), None)
        self._minimum_score = score

    def evaluation_pairs(self, split: str) -> list[Pair]:
        """The pairs of valid or test.

        Raises:
            DataError: there are too many.
        """
        pairs: list[Pair] = []
        for _, chunk in self.chunks(split, FilterStatistics()):
            pairs += chunk
            if len(pairs) > MOST_EVALUATION_PAIRS:
                raise DataError(
                    f"{self._recipe.name}: {split} has more than {MOST_EVALUATION_PAIRS:,} pairs, the maximum. Use a "
                    "sample of it, or add its text to train."
                )
        return pairs

    def chunks(self, split: str, statistics: FilterStatistics) -> Iterator[tuple[int, list[Pair]]]:
        """Yield the pairs of each corpus of a split, in chunks, with the number of the corpus.

        Training pairs with a low score are dropped.
        """
        self.read[split] = []
        for number, corpus in enumerate(getattr(self._recipe, split)):
            description = f"{split}: {corpus.name}"
            tally = _Tally(self._recipe.source_lang, self._recipe.target_lang)
            sample = PairSample()
            chunk: list[Pair] = []
            with self._sources.opened(split, number) as text:
                self._give_hint(corpus.hint(text))
                total = corpus.number_of_lines(text)
                for read in corpus.read(text):
                    tally.add(read)
                    if read is None:
                        continue
                    pair = read.source, read.target
                    if not corpus.is_generated:
                        sample.add(tally.pairs - 1, pair)
                    if tally.pairs % _PROGRESS_EVERY == 0:
                        self._progress(description, tally.pairs, total)
                    if split == "train" and self._is_too_low(read, number, statistics):
                        continue
                    chunk.append(pair)
                    if len(chunk) == _CHUNK:
                        yield number, chunk
                        chunk = []
            if chunk:
                yield number, chunk
            self._progress(description, tally.pairs, tally.pairs)
            doubts = sample.doubts(
                self._recipe.source_lang,
                self._recipe.target_lang,
                composes=self._recipe.normalisation.nfc,
                trains=split == "train",
                drops_markup=self._recipe.filters.html,
            )
            for doubt in doubts:
                warn(f"{description}: {doubt}")
            self.read[split].append(tally.record(split, corpus.name))

    def _is_too_low(self, pair: ReadPair, corpus: int, statistics: FilterStatistics) -> bool:
        """Whether a pair is dropped for its score, which is counted."""
        minimum = self._minimum_score
        if minimum is None or pair.score is None or pair.score >= minimum.value:
            return False
        statistics.add(corpus, minimum.count, 1, [(pair.source, pair.target)])
        return minimum.drops

    def _give_hint(self, hint: str | None) -> None:
        if hint and hint not in self._hints:
            self._hints.add(hint)
            self._notify(hint)


class _SplitFiles:
    """The two text files of a split, which count their lines and compute their checksums."""

    def __init__(self, folder: Path, split: str, languages: tuple[str, str]) -> None:
        self.records: dict[str, FileRecord] = {}
        """The complete files, by their names."""
        self._paths = [folder / f"{split}.{language}" for language in languages]
        self._lines = 0

    def __enter__(self) -> Self:
        with ExitStack() as opening:
            self._streams = [opening.enter_context(open_to_write(path, "xb", follow=False)) for path in self._paths]
            self._stack = opening.pop_all()
        self._digests = [hashlib.sha256() for _ in self._paths]
        return self

    def write(self, pairs: Sequence[Pair]) -> None:
        """Add pairs."""
        self._lines += len(pairs)
        for side, (stream, digest) in enumerate(zip(self._streams, self._digests, strict=True)):
            content = b"".join(encode_line(pair[side]) for pair in pairs)
            stream.write(content)
            digest.update(content)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Flush the files to disk, unless an error ended them."""
        with self._stack:
            if kind is None:
                for path, stream, digest in zip(self._paths, self._streams, self._digests, strict=True):
                    flush_to_disk(stream, path)
                    self.records[path.name] = FileRecord(lines=self._lines, sha256=digest.hexdigest())
