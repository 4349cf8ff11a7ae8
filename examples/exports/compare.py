"""Translate a text with a model and with each of its exported folders, by the other toolkits' own software.

Usage: python compare.py MODEL EXPORTS SOURCE REFERENCE [--threads N] [--rounds N]

EXPORTS holds the folders that `nmt export` wrote, each named by its format. All search greedily, in fp32, in batches of
similar length, and take turns. Nothing of nmt is used to read an exported folder. Each toolkit limits the length of an
output in another way, so all write up to LONGEST pieces, and what is beyond nmt's limit is cut off.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import sacrebleu
import torch
from sentencepiece import SentencePieceProcessor

import nmt

Translate = Callable[[list[str]], list[str]]
BATCH = 64
MAX_EXTRA_LENGTH, LONGEST = 50, 256


def with_nmt(model: Path, threads: int) -> Translate:
    """A plain search: what nmt does besides (guard, splitting, copying) is not in an exported model."""
    loaded = nmt.load(model, device="cpu", precision="fp32", threads=threads)
    plain = {"beam": 1, "guard": False, "split_sentences": "never", "copy_unknown": False}
    return lambda lines: [translation.text for translation in loaded.translate(lines, **plain)]


def with_ctranslate2(folder: Path, threads: int) -> Translate:
    import ctranslate2

    source, target = segmenters(folder)
    translator = ctranslate2.Translator(str(folder), intra_threads=threads)

    def translate(lines: list[str]) -> list[str]:
        sources = [source.encode(line, out_type=str) for line in lines]
        results = translator.translate_batch(
            sources,
            beam_size=1,
            max_batch_size=BATCH,
            max_decoding_length=LONGEST,
            disable_unk=True,
            suppress_sequences=[["<pad>"], ["<s>"]],
            min_decoding_length=0,
        )
        outputs = [result.hypotheses[0] for result in results]
        return [target.decode(cut(output, len(pieces))) for output, pieces in zip(outputs, sources, strict=True)]

    return translate


def with_transformers(folder: Path, threads: int) -> Translate:
    from transformers import MarianMTModel, MarianTokenizer

    torch.set_num_threads(threads)
    tokenizer = MarianTokenizer.from_pretrained(folder)
    model = MarianMTModel.from_pretrained(folder).eval()

    def translated(lines: list[str]) -> list[str]:
        batch = tokenizer(lines, return_tensors="pt", padding=True)
        with torch.inference_mode():
            outputs = model.generate(**batch, num_beams=1, do_sample=False, max_length=LONGEST)
        lengths = (batch["attention_mask"].sum(dim=1) - 1).tolist()  # without eos
        rows = [cut(row[1:], length) for row, length in zip(outputs.tolist(), lengths, strict=True)]
        found: list[str] = tokenizer.batch_decode(rows, skip_special_tokens=True)
        return found

    return in_batches(translated)


SOFTWARE: dict[str, Callable[[Path, int], Translate]] = {
    "ctranslate2": with_ctranslate2,
    "huggingface": with_transformers,
}


def segmenters(folder: Path) -> Iterator[SentencePieceProcessor]:
    return (SentencePieceProcessor(model_file=str(folder / name)) for name in ("source.spm", "target.spm"))


def cut(output: list[Any], source_length: int) -> list[Any]:
    """The output as nmt limits it. Both lengths are pieces without eos."""
    return output[: source_length + MAX_EXTRA_LENGTH]


def in_batches(translated: Translate) -> Translate:
    """Translates lines of similar length together."""

    def translate(lines: list[str]) -> list[str]:
        order = sorted(range(len(lines)), key=lambda index: len(lines[index]))
        found: dict[int, str] = {}
        for start in range(0, len(order), BATCH):
            batch = order[start : start + BATCH]
            found |= dict(zip(batch, translated([lines[index] for index in batch]), strict=True))
        return [found[index] for index in range(len(lines))]

    return translate


def timed(translate: Translate, lines: list[str]) -> tuple[float, list[str]]:
    begin = time.perf_counter()
    outputs = translate(lines)
    return time.perf_counter() - begin, outputs


def lines_of(path: Path) -> list[str]:
    return path.read_text("utf-8").removesuffix("\n").split("\n")


def compare(contestants: dict[str, Translate], source: list[str], reference: list[str], rounds: int) -> list[dict]:
    """Let all contestants translate in turn; one row for each."""
    for translate in contestants.values():
        translate(source[:BATCH])
    results: dict[str, list[tuple[float, list[str]]]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, translate in contestants.items():
            results[name].append(timed(translate, source))
    [(_, ours), *_] = results["nmt"]
    rows = []
    for name, measured in results.items():
        outputs = measured[-1][1]
        seconds = statistics.median(seconds for seconds, _ in measured)
        rows.append(
            {
                "software": name,
                "bleu": round(sacrebleu.corpus_bleu(outputs, [reference]).score, 2),
                "lines that differ": sum(a != b for a, b in zip(ours, outputs, strict=True)),
                "sentences per second": round(len(source) / seconds, 1),
            }
        )
    return rows


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("model", "exports", "source", "reference"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args(words)
    begin = {"nmt": partial(with_nmt, given.model)}
    begin |= {
        name: partial(software, given.exports / name)
        for name, software in SOFTWARE.items()
        if (given.exports / name).is_dir()
    }
    contestants = {name: start(given.threads) for name, start in begin.items()}
    for row in compare(contestants, lines_of(given.source), lines_of(given.reference), given.rounds):
        print(json.dumps(row))


if __name__ == "__main__":
    main()
