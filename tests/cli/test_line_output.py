"""What an interrupted command tells: how its output is resumed."""

from pathlib import Path

from nmt.cli.line_output import _how_to_resume
from nmt.cli.line_streams import Streams


def test_an_output_of_fresh_is_resumed_by_its_own_name_without_fresh(tmp_path):
    (tmp_path / "in").write_text("ba\n")
    for fresh, told in ((False, "Run the same command"), (True, f"--output {tmp_path / 'out-2'} and without --fresh")):
        streams = Streams(tmp_path / "in", {}, tmp_path / "out-2", False, fresh, False, "error")
        assert told in _how_to_resume(streams)
    assert "cannot be resumed" in _how_to_resume(Streams(Path("-"), {}, tmp_path / "out", False, False, False, "error"))
