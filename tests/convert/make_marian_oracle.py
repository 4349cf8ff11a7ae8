"""Makes the stored models of Marian and what Marian computes with them: ``python -m tests.convert.make_marian_oracle``.

It needs the package pymarian, which the tests do not: they read what lies in ``data/``. The text is made of the toy
pair's words, so that models of a few thousand numbers learn something within seconds.
"""

from __future__ import annotations

import io
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

DATA = Path(__file__).parent / "data"
WORDS = {
    "one": "eins", "two": "zwei", "three": "drei", "four": "vier", "five": "fünf", "red": "rot", "green": "grün",
    "house": "Haus", "tree": "Baum", "river": "Fluss", "sees": "sieht", "and": "und",
}  # fmt: skip
COMMON = (
    "--type transformer --cpu-threads 1 --workspace 128 --mini-batch 32 --maxi-batch 10 --max-length 50 --seed 1 "
    "--overwrite --quiet --transformer-dropout 0 --clip-norm 0 --enc-depth 1 --dec-depth 1 --dim-emb 16 "
    "--transformer-dim-ffn 24 --transformer-heads 2"
)
LEARNING = "--learn-rate 0.006 --lr-warmup 100 --lr-decay-inv-sqrt 100 --after-batches 5000"
MODELS = {
    "marian-post": ("joint", "--tied-embeddings-all --transformer-postprocess dan --transformer-ffn-activation swish"),
    "marian-pre": (
        "separate",
        "--transformer-preprocess n --transformer-postprocess da --transformer-postprocess-top n "
        "--transformer-ffn-activation gelu",
    ),
    "marian-decoder": ("separate", "--tied-embeddings --transformer-ffn-activation relu"),
}


def sentences(count: int, seed: int) -> list[tuple[str, str]]:
    """Pairs of sentences: the words in order, with a full stop."""
    draw = random.Random(seed)
    rows = [[draw.choice(list(WORDS)) for _ in range(draw.randint(1, 6))] for _ in range(count)]
    return [(" ".join(row) + ".", " ".join(WORDS[word] for word in row) + ".") for row in rows]


def segmenter(lines: list[str], size: int) -> bytes:
    """A unigram model, as OPUS-MT trains them."""
    out = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=out,
        vocab_size=size,
        model_type="unigram",
        normalization_rule_name="identity",  # other rules take 240 KB
        minloglevel=2,
    )
    return out.getvalue()


def main() -> None:
    """Train each model, and store it with what Marian computes."""
    import pymarian

    pairs = sentences(3_000, seed=1)
    for name, (kind, options) in MODELS.items():
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            sides = {"source": [pair[0] for pair in pairs], "target": [pair[1] for pair in pairs]}
            pieces: dict[str, list[str]] = {}
            for side, lines in sides.items():
                model = segmenter(lines, 32)
                (folder / f"{side}.spm").write_bytes(model)
                segmented = SentencePieceProcessor(model_proto=model).encode(lines, out_type=str)
                (folder / f"train.{side}").write_text("".join(" ".join(row) + "\n" for row in segmented))
                pieces[side] = sorted({piece for row in segmented for piece in row})
            joint = sorted(set(pieces["source"]) | set(pieces["target"]))
            names = ["vocab.yml", "vocab.yml"] if kind == "joint" else ["source.yml", "target.yml"]
            for vocabulary, side in zip(names, sides, strict=True):
                chosen = joint if kind == "joint" else pieces[side]
                listed = "".join(f"{json.dumps(piece)}: {index}\n" for index, piece in enumerate(chosen, start=2))
                (folder / vocabulary).write_text(f"</s>: 0\n<unk>: 1\n{listed}")
            vocabularies = " ".join(str(folder / vocabulary) for vocabulary in names)
            weights = folder / "model.npz"
            pymarian.Trainer(
                f"{COMMON} {LEARNING} {options} --train-sets {folder / 'train.source'} {folder / 'train.target'} "
                f"--vocabs {vocabularies} --model {weights}"
            ).train()
            decoder = {"relative-paths": True, "models": ["model.npz"], "vocabs": names, "beam-size": 6, "normalize": 1}
            (folder / "decoder.yml").write_text(yaml.safe_dump(decoder))
            store(folder, DATA / name, vocabularies, names)
            if name == "marian-pre":
                store_cross_entropies(DATA / name, f"{COMMON} {options}", names)


def store(folder: Path, out: Path, vocabularies: str, names: list[str]) -> None:
    """Store a model, and Marian's translations of new sentences with the log-probability of each piece."""
    import pymarian

    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    for name in {"model.npz", "decoder.yml", "source.spm", "target.spm", *names}:
        shutil.copy(folder / name, out / name)
    lines = [source for source, _ in sentences(40, seed=2)]
    segment = SentencePieceProcessor(model_file=str(folder / "source.spm"))
    sources = segment.encode(lines, out_type=str)
    found = {"lines": lines, "sources": sources}
    for key, options in {"greedy": "--beam-size 1", "beam": "--beam-size 6 --normalize 1"}.items():
        translator = pymarian.Translator(
            f"--models {folder / 'model.npz'} --vocabs {vocabularies} --cpu-threads 1 {options} --n-best --word-scores "
            "--mini-batch 1 --max-length-factor 20 --quiet"
        )
        best = [translator.translate([" ".join(source)])[0] for source in sources]
        fields = [
            re.fullmatch(r"\d+ \|\|\| (.*) \|\|\| WordScores= (.*) \|\|\| F0= .* \|\|\| .*", line) for line in best
        ]
        found[key] = [
            {"pieces": match[1].split(), "scores": [float(score) for score in match[2].split()]} for match in fields
        ]
    (out / "oracle.json").write_text(json.dumps(found, ensure_ascii=False) + "\n")


def store_cross_entropies(model: Path, options: str, names: list[str]) -> None:
    """Store the cross-entropy of pairs, by the graph that Marian trains with: it decodes pre-norm models otherwise."""
    stored = json.loads((model / "oracle.json").read_text())
    stored["pairs"] = []
    segment = {side: SentencePieceProcessor(model_file=str(model / f"{side}.spm")) for side in ("source", "target")}
    for source, target in sentences(12, seed=3):
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            shutil.copytree(model, folder / "model")
            pieces = [
                segment[side].encode(text, out_type=str) for side, text in (("source", source), ("target", target))
            ]
            for name, row in zip(("one.source", "one.target"), pieces, strict=True):
                (folder / name).write_text(" ".join(row) + "\n")
            pair = f"{folder / 'one.source'} {folder / 'one.target'}"
            vocabularies = " ".join(str(folder / "model" / name) for name in names)
            arguments = (
                f"{options.replace('--quiet', '')} --train-sets {pair} --vocabs {vocabularies} "
                f"--model {folder / 'model' / 'model.npz'} --learn-rate 0 --optimizer sgd --after-batches 1 "
                f"--valid-freq 1u --valid-sets {pair} --valid-metrics cross-entropy"
            )
            code = f"import pymarian; pymarian.Trainer({arguments!r}).train()"
            log = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr
            found = float(re.search(r"cross-entropy : ([\d.]+)", log)[1])
        stored["pairs"].append({"source": pieces[0], "target": pieces[1], "cross_entropy": found})
    (model / "oracle.json").write_text(json.dumps(stored, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
