#!/bin/sh
# Exports MODEL to every format whose software is installed, and translates SOURCE with each: run.sh MODEL SOURCE REFERENCE [THREADS]
set -eu
here=$(dirname "$0")
model=$1 source=$2 reference=$3 threads=${4:-1}
exports=${EXPORTS:-exports}
mkdir -p "$exports"
for format in ctranslate2:ctranslate2 huggingface:transformers; do
  name=${format%:*} package=${format#*:}
  python -c "import $package" 2>/dev/null || { echo "left out: $name ($package is not installed)" >&2; continue; }
  nmt export "$model" --to "$name" --out "$exports/$name" || echo "left out: $name" >&2
done
python "$here/compare.py" "$model" "$exports" "$source" "$reference" --threads "$threads"
