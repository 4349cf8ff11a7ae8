#!/bin/sh
# From the built-in grammar to the F1 of a trained parser. Run again, it does only what is not done yet.
set -eu
here=$(dirname "$0")
trees=data/grammar
run=runs/grammar-parser

test -f $trees/recipe.yaml || python "$here" data --grammar --keep-tags --out $trees
nmt prepare-data $trees/recipe.yaml
nmt build-vocab --data data/grammar-en-tree --size 1000
nmt train --data data/grammar-en-tree --preset tiny --config "$here/grammar.yaml" --out $run
nmt translate --model $run --input $trees/test.en --output $run/test.tree \
    --beam 21 --length-penalty 0.3 --max-extra-length 300 --no-guard --split-sentences never
python "$here" restore $trees/test.en $run/test.tree > $run/test.trees
python "$here" score $trees/test.trees $run/test.trees
