"""What translations do to a terminal, and what an interrupted command tells: how its output is resumed."""

import os
from pathlib import Path

import pytest

from nmt.cli.line_output import _how_to_resume, translate_lines
from nmt.cli.line_streams import Streams
from nmt.errors import DataError
from nmt.translation.guard_report import GuardReport
from nmt.translation.results import TranslatedText, Translation


class Copying:
    """Stands in for a translator: the translation of a line is the line."""

    window = 1
    language_tags = ()
    target_lang = "de"

    def translate_windows(self, pairs, *, done=0):
        for line, _ in pairs:
            yield [Translation(line, (TranslatedText(line, (), 0.0, 0.0),))]


def copy(source: Path, output: Path) -> None:
    with Streams(source, {}, output, False, False, False, "error").claimed() as streams:
        translate_lines(streams, Copying(), streams.made_with({}), 1, "text", GuardReport(None), alignment=False)


def test_translations_do_not_control_a_terminal_but_files_get_their_bytes(tmp_path):
    source = tmp_path / "in"
    source.write_bytes("a\x1b]0;title\x07b\x9b2J\u202e\tc\n".encode())
    copy(source, tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == source.read_bytes()
    master, slave = os.openpty()
    copy(source, Path(os.ttyname(slave)))
    shown = os.read(master, 1_000).decode()
    assert shown.rstrip() == r"a\u001b]0;title\u0007b\u009b2J\u202e" + "\tc"
    os.close(master)
    os.close(slave)


def test_an_input_that_shrinks_on_its_way_to_a_pipe_is_an_error(tmp_path):
    source, read = tmp_path / "in", os.pipe()
    source.write_text("a\nb\n")

    class Shrinking(Copying):
        def translate_windows(self, pairs, *, done=0):
            yield from super().translate_windows(pairs)
            os.truncate(source, 2)

    path = Path(f"/dev/fd/{read[1]}")
    with (
        pytest.raises(DataError, match=r"in: changed while it was read\. The output may lack lines"),
        Streams(source, {}, path, False, False, False, "error").claimed() as streams,
    ):
        translate_lines(streams, Shrinking(), {}, 1, "text", GuardReport(None), alignment=False)
    assert os.read(read[0], 10) == b"a\nb\n"
    for descriptor in read:
        os.close(descriptor)


def test_an_output_of_fresh_is_resumed_by_its_own_name_without_fresh(tmp_path):
    (tmp_path / "in").write_text("ba\n")
    for fresh, told in ((False, "Run the same command"), (True, f"--output {tmp_path / 'out-2'} and without --fresh")):
        streams = Streams(tmp_path / "in", {}, tmp_path / "out-2", False, fresh, False, "error")
        assert told in _how_to_resume(streams)
    assert "cannot be resumed" in _how_to_resume(Streams(Path("-"), {}, tmp_path / "out", False, False, False, "error"))
