"""``python -m tests.fake_gpu FILE …`` runs files of tests with pytest, in a process that has a fake GPU.

``python -m tests.fake_gpu budget`` prints tables; docs/performance.md says what follows from them.
"""

import sys
import tempfile
from pathlib import Path

from tests.fake_gpu.library import compile_library, load_library


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        load_library(compile_library(Path(folder)))
    # These import torch.
    import pytest

    from tests.fake_gpu.budget import print_tables
    from tests.fake_gpu.cuda_functions import install

    install()
    if arguments == ["budget"]:
        print_tables()
        return 0
    return pytest.main(["-p", "no:cacheprovider", *arguments])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
