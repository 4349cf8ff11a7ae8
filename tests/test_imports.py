"""What the program imports before it works: the time to the first line is the time of its imports."""

import subprocess
import sys
from pathlib import Path

BUNDLE = Path(__file__).parent / "bundles/0.1.0"
# Packages that translating a line may import, beside Python's own and those of torch.
PACKAGES = {
    "annotated_doc", "annotated_types", "cython_runtime", "nmt", "numpy", "pydantic", "pydantic_core", "regex",
    "rich", "safetensors", "sentencepiece", "sentencex", "shellingham", "typer", "typing_extensions",
    "typing_inspection", "yaml",
}  # fmt: skip
# Parts of torch that `import torch` does not import itself.
PARTS_OF_TORCH = {"torch.utils._device"}


def imported_by_translating() -> set[str]:
    """The modules that translating one line imports after torch, in a process of its own."""
    program = (
        "import sys, torch\n"
        "before = set(sys.modules)\n"
        "from nmt.cli.app import main\n"
        f"sys.argv = ['nmt', 'translate', '--quiet', '--device', 'cpu', '--model', {str(BUNDLE)!r}]\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as end:\n"
        "    print(*sorted(set(sys.modules) - before), file=sys.stderr)\n"
        "    raise\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], input="a b\n", capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout.count("\n")) == (0, 1), ended.stderr
    return set(ended.stderr.split("\n")[-2].split())


def test_translating_a_line_imports_nothing_large_beside_torch():
    """A part of torch such as ``torch._dynamo`` takes two seconds: as long as torch itself."""
    found = imported_by_translating()
    assert {name for name in found if name.startswith("torch.")} <= PARTS_OF_TORCH
    packages = {name.partition(".")[0] for name in found} - sys.stdlib_module_names - {"torch"}
    assert {name for name in packages if not name.startswith("_")} <= PACKAGES
