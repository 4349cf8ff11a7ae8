#!/bin/sh
# Install what a server needs into a new folder, without what it does not need: sh examples/container/install.sh FOLDER
# TORCH_INDEX=URL adds a package index: that of PyTorch for CPUs saves gigabytes of CUDA.
set -eu
folder=$1
here=$(dirname "$0")
source=$(cd "$here/../.." && pwd)
python=${PYTHON:-python3}

"$python" -m venv --without-pip "$folder"
"$python" -m pip --python "$folder/bin/python" install --no-cache-dir --no-compile \
    ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} --constraint "$source/constraints.txt" "${source}[fast,serve]"

# Headers, and tests with their programs.
packages=$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
rm -rf "$packages/torch/include" "$packages/torch/test"
find "$packages/torch/bin" -type f ! -name torch_shm_manager -delete
find "$packages" -depth -type d -name tests -exec rm -rf {} +

# The bytecode of what a server imports: without it, a start takes twice as long.
unset PYTHONDONTWRITEBYTECODE
"$folder/bin/python" -m compileall -q "$packages/nmt"
"$folder/bin/python" -c 'import ctranslate2, starlette.applications, torch, uvicorn'
