#!/bin/sh
# Multi30k English-German from the archives to the score: run.sh [MINUTES], by default 60.
# Each command does only what is not done yet.
set -eu
here=$(dirname "$0")
run=runs/multi30k-best

nmt prepare-data multi30k-en-de
nmt build-vocab --data data/multi30k-en-de --size 8000
nmt train --data data/multi30k-en-de --preset small --config "$here/best.yaml" --out "$run" --max-minutes "${1:-60}"
nmt average-checkpoints "$run"
nmt translate --model "$run/average" data/multi30k-en-de/test.en > "$run/test.hypothesis.de"
nmt score --reference data/multi30k-en-de/test.de --paper-bleu "$run/test.hypothesis.de"
nmt score --reference data/multi30k-en-de/test.de --lowercase "$run/test.hypothesis.de"
