#!/bin/sh
# From pairs and text in one language to a small translator: run.sh [PAIR] [PRESET], by default multi30k-en-de and small.
# PAIR is a built-in pair, or your data set in student/data. All is written below student/. Each command does only what
# is not done yet.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
pair=${1:-multi30k-en-de} preset=${2:-small}
target=${pair##*-} source=${pair%-*} source=${source##*-}
real=real-$source-$target reversed=real-$target-$source back=bt-$source-$target distilled=kd-$source-$target
evaluated="--valid data/$pair/valid --test data/$pair/test"
mkdir -p student && cd student

# Without text of your own, half of the pairs give their target side alone, and all of them their source side.
[ -e "data/$pair/manifest.json" ] || nmt prepare-data "$pair"
if [ ! -d text ]; then
    rm -rf text.part && mkdir text.part
    half=$(($(wc -l < "data/$pair/train.$source") / 2))
    head -n "$half" "data/$pair/train.$source" > "text.part/real.$source"
    head -n "$half" "data/$pair/train.$target" > "text.part/real.$target"
    tail -n "+$((half + 1))" "data/$pair/train.$target" > "text.part/mono.$target"
    cp "data/$pair/train.$source" "text.part/mono.$source"
    mv text.part text
fi

# A model from the target language back: it translates the target text.
nmt prepare-data "$reversed" --train text/real $evaluated
nmt build-vocab --data "data/$reversed"
nmt train --data "data/$reversed" --preset "$preset" --out runs/backward
nmt synthesize "$back" --mono "text/mono.$target" --model runs/backward --sample --beam 1 --tag BT $evaluated

# The teacher learns from the real pairs and from those.
nmt prepare-data "$real" --train text/real $evaluated
nmt build-vocab --data "data/$real" --data "data/$back"
nmt train --data "data/$real" --data "data/$back" --preset "$preset" --out runs/teacher

# The teacher translates the source text; the tenth that the model back finds least likely is dropped.
nmt synthesize "$distilled" --forward --mono "text/mono.$source" --model runs/teacher --keep 0.9 --scored-by runs/backward $evaluated
nmt build-vocab --data "data/$distilled" --vocab "data/$real/vocab.model"
nmt train --data "data/$distilled" --preset "$preset" --config "$here/student.yaml" --out runs/student

# What the student lost, in int8 as it is used; and what it makes of text as people type it.
for model in teacher student; do
    nmt translate --model "runs/$model" --precision int8 --input "data/$pair/test.$source" --output "$model.$target"
done
nmt score --reference "data/$pair/test.$target" "teacher.$target" "student.$target"
nmt score --robustness runs/student --source "data/$pair/test.$source" --reference "data/$pair/test.$target"
