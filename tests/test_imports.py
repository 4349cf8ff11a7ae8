"""What the program imports before it works: the time to the first line is the time of its imports."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

BUNDLE = Path(__file__).parent / "bundles/0.1.0"
# Packages that translating a line may import, beside Python's own and those of torch.
PACKAGES = {
    "annotated_doc", "annotated_types", "cython_runtime", "nmt", "numpy", "pydantic", "pydantic_core", "regex",
    "rich", "safetensors", "sentencepiece", "sentencex", "shellingham", "typer", "typing_extensions",
    "typing_inspection", "yaml",
}  # fmt: skip
# Parts of torch that `import torch` does not import itself.
PARTS_OF_TORCH = {"torch.utils._device"}


def imported_by_translating(first: str, *words: str, cache: Path | None = None) -> set[str]:
    """The modules that translating one line imports after a first one, in a process of its own."""
    command = ["nmt", "translate", "--quiet", "--device", "cpu", "--model", str(BUNDLE), *words]
    program = (
        f"import sys, {first}\n"
        "before = set(sys.modules)\n"
        "from nmt.cli.app import main\n"
        f"sys.argv = {command!r}\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as end:\n"
        "    print(*sorted(set(sys.modules) - before), file=sys.stderr)\n"
        "    raise\n"
    )
    environment = os.environ | ({} if cache is None else {"XDG_CACHE_HOME": str(cache)})
    ended = subprocess.run(
        [sys.executable, "-c", program], input="a b\n", capture_output=True, text=True, check=False, env=environment
    )
    assert (ended.returncode, ended.stdout.count("\n")) == (0, 1), ended.stderr
    return set(ended.stderr.split("\n")[-2].split())


def packages_of(modules: set[str]) -> set[str]:
    packages = {name.partition(".")[0] for name in modules} - sys.stdlib_module_names
    return {name for name in packages if not name.startswith("_")}


def test_translating_a_line_imports_nothing_large_beside_torch():
    """A part of torch such as ``torch._dynamo`` takes two seconds: as long as torch itself."""
    found = imported_by_translating("torch")
    assert {name for name in found if name.startswith("torch.")} <= PARTS_OF_TORCH
    assert packages_of(found) - {"torch"} <= PACKAGES


def test_ctranslate2_translates_without_torch(tmp_path):
    pytest.importorskip("ctranslate2", reason="the extra `ctranslate2` is not installed")
    engine = ("--engine", "ctranslate2")
    assert "torch" in packages_of(imported_by_translating("os", *engine, cache=tmp_path))  # it converts the model
    assert packages_of(imported_by_translating("os", *engine, cache=tmp_path)) <= PACKAGES | {"ctranslate2"}


@pytest.mark.parametrize(
    ("words", "left_out"),
    [
        (["--help"], {"nmt.cli.translate", "nmt.cli.train", "pydantic", "rich", "torch"}),
        (["train", "--help"], {"nmt.cli.translate", "nmt.config", "torch"}),
        (["translate", "--help"], {"nmt.cli.train", "numpy", "sentencepiece", "torch"}),
    ],
)
def test_help_imports_only_what_its_command_needs(words, left_out):
    program = (
        "import atexit, sys\n"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
        "from nmt.cli.app import main\n"
        f"sys.argv = ['nmt', *{words!r}]\n"
        "main()\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert left_out & set(ended.stderr.split()) == set()
