#!/bin/sh
# From nothing to a scored translator of the built-in toy pair, in a few minutes on two cores.
# Each command takes the newest data set or run below the current folder, and does only what is not done yet.
set -eu
here=$(dirname "$0")

nmt prepare-data toy-en-de
nmt build-vocab
nmt train
nmt average-checkpoints
nmt translate < data/toy-en-de/test.en > runs/toy-en-de-tiny/test.hypothesis.de
python "$here/show.py" data/toy-en-de/test.en data/toy-en-de/test.de runs/toy-en-de-tiny/test.hypothesis.de
nmt score --reference data/toy-en-de/test.de runs/toy-en-de-tiny/test.hypothesis.de

# `make demo` uses an environment that the user's shell does not know.
nmt=$(command -v nmt)
cat <<END

The translator is ready. The program is $nmt; the next two commands:

    echo "Every day a happy cook looks for the doctors." | $nmt translate
    $nmt serve
END
