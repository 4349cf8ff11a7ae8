#!/bin/sh
# The paper's English-German result, from an empty disk to the score sheet: run.sh [base|big] [GPUS] [OPTIONS OF nmt train]
# Each command does only what is not done yet: after an interruption, make the same call again.
# DATASET may name an edited recipe: nmt prepare-data wmt14-en-de --show-recipe > my.yaml
# PAIR=en-fr makes the English-French one.
set -eu
pair=${PAIR:-en-de}
target=${pair#en-}
size=${1:-base}
[ $# -eq 0 ] || shift
gpus=${1:-1}
[ $# -eq 0 ] || shift
case $size in
    base) averaged=5 ;;
    big) averaged=20 ;;
    *) echo "run.sh: expected base or big, got $size" >&2; exit 2 ;;
esac
settings=$(dirname "$0")/../wmt14-$pair/$size.yaml
data=data/wmt14-$pair
run=runs/wmt14-$pair-$size

nmt prepare-data "${DATASET:-wmt14-$pair}"
nmt build-vocab --data "$data"
nmt train --data "$data" --preset "$size" --config "$settings" --out "$run" --nproc "$gpus" "$@"
nmt average-checkpoints "$run" --last "$averaged"
# The search of the paper and its code alone: no line is split, no character copied, no translation repaired.
nmt translate --model "$run/average" --split-sentences never --no-copy-unknown --no-guard --refill-beam \
    --input "$data/test.en" --output "$run/newstest2014.$target"
nmt score --sheet --reference "$data/test.$target" "$run/newstest2014.$target"
nmt score --sheet --json --reference "$data/test.$target" "$run/newstest2014.$target" > "$run/score.json"
nmt inspect "$run/score.json"
