"""Several ranks of a worker, started and waited for."""

import os

import pytest

from nmt.doctor.rank_processes import output_of_main_rank
from nmt.errors import NmtError


def test_ranks_that_print_much_end(tmp_path, monkeypatch):
    """A pipe holds 64 KiB."""
    (tmp_path / "talkative.py").write_text(
        "import sys\n"
        "sys.stderr.write('a warning of NCCL\\n' * 100_000)\n"
        "print('NCCL version\\n' * 100_000)\n"
        "print('[1]')\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    assert output_of_main_rank(["-m", "talkative"], 2, seconds=60) == "[1]"


def test_ranks_that_take_too_long_are_ended():
    with pytest.raises(NmtError, match="no result within 0 s"):
        output_of_main_rank(["-m", "nmt", "doctor"], 2, seconds=0.2)


def test_a_rank_that_fails_says_why(tmp_path):
    (tmp_path / "failing.py").write_text("import sys\nsys.exit('no kernel image')\n")
    with pytest.raises(NmtError, match=r"^no kernel image$"):
        output_of_main_rank([str(tmp_path / "failing.py")], 2, seconds=60)
