"""How long ``nmt translate`` works around the search: much of its time on a GPU, or on many cores."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nmt.loading import NamedModels
from nmt.search.hypotheses import Hypothesis
from nmt.search.settings import SearchSettings
from nmt.text.lines import read_parallel
from nmt.translation.formats import formatted
from nmt.translation.found_batches import FoundBatches
from nmt.translation.options import translate_options
from nmt.translation.segment import Segment
from nmt.translation.translator import Translator


class _Known:
    """Finds the references, in no time."""

    worker_count, batch_tokens, may_fork = 1, 4_096, False

    def __init__(self, references: Sequence[Sequence[int]]) -> None:
        self._references = list(map(tuple, references))

    def search(
        self, segments: Sequence[Segment], settings: SearchSettings, known: FoundBatches | None
    ) -> list[list[Hypothesis]]:
        found = (self._references[segment.line - 1] for segment in segments)
        return [[Hypothesis(pieces, -1.0, -1.0)] * settings.beam for pieces in found]


def bench_around(model: Path, source: Path, reference: Path, *, rounds: int) -> dict[str, Any]:
    """Measure one thread's processor time for all that is done to lines before and after their search.

    Args:
        reference: translations of the lines, which stand for what a search would find.
    """
    engine = NamedModels.of([model], "torch").load("cpu", "fp32", 1)
    lines, references = zip(*read_parallel(source, reference), strict=True)
    known = _Known(engine.vocab.target.encode(references))
    translator = Translator(engine, translate_options(engine.config.decoding), searcher=known)
    seconds = []
    for _ in range(rounds):
        began = time.thread_time()
        for number, translation in enumerate(translator.translate(lines), start=1):
            formatted(translation, number, 1, "text", alignment=False)
        seconds.append(time.thread_time() - began)
    return {
        "lines": len(lines),
        "microseconds_per_line": round(statistics.median(seconds) / len(lines) * 1e6, 1),
        "least_microseconds_per_line": round(min(seconds) / len(lines) * 1e6, 1),
    }
