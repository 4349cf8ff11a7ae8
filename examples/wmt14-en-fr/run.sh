#!/bin/sh
# The paper's English-French result, from an empty disk to the score sheet: run.sh [base|big] [GPUS] [OPTIONS OF nmt train]
# Each command does only what is not done yet: after an interruption, make the same call again.
# DATASET may name an edited recipe: nmt prepare-data wmt14-en-fr --show-recipe > my.yaml
set -eu
here=$(dirname "$0")
size=${1:-base}
[ $# -eq 0 ] || shift
gpus=${1:-1}
[ $# -eq 0 ] || shift
case $size in
    base) averaged=5 ;;
    big) averaged=20 ;;
    *) echo "run.sh: expected base or big, got $size" >&2; exit 2 ;;
esac
data=data/wmt14-en-fr
run=runs/wmt14-en-fr-$size

nmt prepare-data "${DATASET:-wmt14-en-fr}"
nmt build-vocab --data "$data"
nmt train --data "$data" --preset "$size" --config "$here/$size.yaml" --out "$run" --nproc "$gpus" "$@"
nmt average-checkpoints "$run" --last "$averaged"
nmt translate --model "$run/average" --input "$data/test.en" --output "$run/newstest2014.fr"
nmt score --sheet --reference "$data/test.fr" "$run/newstest2014.fr"
nmt score --sheet --format json --reference "$data/test.fr" "$run/newstest2014.fr" > "$run/score.json"
nmt inspect "$run/score.json"
