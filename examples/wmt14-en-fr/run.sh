#!/bin/sh
# The paper's English-French result, by the same steps as English-German: run.sh [base|big] [GPUS] [OPTIONS OF nmt train]
PAIR=en-fr exec sh "$(dirname "$0")/../wmt14-en-de/run.sh" "$@"
