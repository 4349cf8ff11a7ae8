"""The software of other toolkits, installed for the slow tests in a folder of its own.

A folder holds one toolkit without torch, which is that of nmt's own environment. It is kept between runs, below the
user's cache folder or in the folder that ``NMT_TEST_TOOLKITS`` names. Where a package cannot be installed (no network,
no wheel for this machine), the tests that need it are skipped.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from nmt.machine.cache_folder import default_cache

REPOSITORY = Path(__file__).parents[3]
REQUIREMENTS = {
    "fairseq": (
        # Its wheels are of Python 3.8; see fairseq_0_12.py.
        "--only-binary=:all: --python-version 3.8 --implementation cp --abi cp38 --platform manylinux1_x86_64 "
        "fairseq==0.12.2",
        "omegaconf==2.0.6 hydra-core==1.0.7 antlr4-python3-runtime==4.8 bitarray",
    ),
    "opennmt-py 2": ("OpenNMT-py==2.3.0 torchtext==0.5.0 six configargparse",),
    "opennmt-py 3": ("OpenNMT-py==3.5.1 pyonmttok configargparse six",),
    "eole": ("eole==0.6.4 pyonmttok configargparse subword-nmt",),
    "joeynmt": ("joeynmt==2.3.0 matplotlib contourpy cycler fonttools kiwisolver pillow pyparsing python-dateutil "
                "six",),
    "sockeye": ("sockeye==3.1.34",),
    "transformers": ("transformers==5.24.0 huggingface-hub==2.4.0 tokenizers==0.23.3 hf-xet==1.8.0 httpx2==2.16.2 "
                     "httpcore2==2.16.2 truststore==0.10.5 shellingham",),
    "argos": ("argostranslate==1.11.0 minisbd==0.9.5 onnxruntime flatbuffers",),
}  # fmt: skip
"""Toolkit -> the words of each call of ``pip install``, which installs no dependencies."""


def installed(toolkit: str) -> Path:
    """The folder with the packages of a toolkit; the test is skipped where they cannot be installed."""
    calls = REQUIREMENTS[toolkit]
    cache = Path(os.environ.get("NMT_TEST_TOOLKITS") or default_cache() / "test-toolkits")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    digest = hashlib.sha256(" ".join((version, *calls)).encode()).hexdigest()[:12]
    folder = cache / f"{toolkit.replace(' ', '-')}-{digest}"
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=cache))
    try:
        for words in calls:
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--retries", "1", "--target"]
            found = subprocess.run([*pip, scratch, *words.split()], capture_output=True, text=True, timeout=900)
            if found.returncode:
                last = next((line for line in reversed(found.stderr.splitlines()) if "ERROR" in line), "no message")
                pytest.skip(f"{toolkit} cannot be installed: {last}")
        shutil.rmtree(scratch / "tests", ignore_errors=True)  # it would hide the package of our tests
        try:
            scratch.rename(folder)
        except OSError:  # another worker was faster
            if not folder.is_dir():
                raise
        return folder
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def run_with(toolkit: str, *words: str | Path, cwd: Path = REPOSITORY) -> subprocess.CompletedProcess[str]:
    """Run Python with the packages of a toolkit; the environment's own come after them."""
    paths = os.pathsep.join([str(REPOSITORY), str(installed(toolkit)), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, *words], cwd=cwd, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True,
        timeout=1_800,
    )  # fmt: skip
