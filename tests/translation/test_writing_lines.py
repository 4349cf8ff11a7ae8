"""What translations do to a terminal, how an interrupted command is resumed, and by which number a line is named."""

import contextlib
import os
from pathlib import Path
from unittest.mock import Mock

import pytest

from nmt.documents.document import Reading
from nmt.documents.formats import InputFormat
from nmt.errors import DataError
from nmt.record import Record, read_stored
from nmt.reporting import SILENT, Reporter
from nmt.search.hypotheses import Hypothesis
from nmt.search.settings import SearchSettings
from nmt.text.lines import InvalidUtf8Error
from nmt.translation.found_batches import FoundBatches
from nmt.translation.guard import Finding
from nmt.translation.jobs import TranslationJob
from nmt.translation.results import TranslatedText, Translation
from nmt.translation.resuming import Begun, OutputFile
from nmt.translation.segment import Segment
from nmt.translation.streams import Streams
from nmt.translation.windows import windows
from nmt.translation.writing_lines import _how_to_resume, write_lines


class Copying:
    """Stands in for a translator: the translation of a line is the line."""

    window = 1
    language_tags = ()
    settings = {}  # noqa: RUF012
    source_lang = target_lang = "de"

    def translate_windows(self, lines):
        for line in (line.text for line in lines):
            found = Finding(("copied",), repaired=False) if "wrong" in line else None
            yield [Translation(line, (TranslatedText(line, (), 0.0, 0.0),), guard=found)]


class Hearing(Reporter):
    """Keeps what is said."""

    def __init__(self, warned=lambda message: None):
        self.notices, self.shown, self.warn = [], [], warned

    def notice(self, message):
        self.notices.append(message)

    def progress(self):
        return contextlib.nullcontext(lambda unit: lambda *of_update: self.shown.append(of_update))


def copy(source: Path, output: Path, *, input_format: InputFormat = "lines", report: Reporter = SILENT):
    plain = Streams(source, {}, output, input_format=input_format, report=report)
    with plain.claimed() as streams:
        document = streams.document(Reading("en", "de"))
        job = TranslationJob(Copying(), "text", input_format=input_format, document=document)
        write_lines(streams, job)
    return job.tally


def made_by_copying(streams: Streams, input_format: InputFormat, **made: str) -> Record | None:
    settings = TranslationJob(Copying(), "text", input_format=input_format).settings
    return streams.record(settings | made)


def interrupt(
    output: OutputFile,
    source: Path,
    text: str,
    *,
    input_format: InputFormat = "lines",
    done: tuple[int, int] = (0, 0),
    **made: str,
) -> None:
    """An output of which so many lines and entries are written."""
    streams = Streams(source, {}, output.path, input_format=input_format)
    with (
        pytest.raises(KeyboardInterrupt),
        output.growing(made_by_copying(streams, input_format, **made)) as (stream, note),
    ):
        stream.write(text.encode())
        note(*done)
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("source_lang", "target_lang", "says"),
    [
        ("en", "de", "the sampled text looks like German (de), but the model translates from English (en) to it."),
        ("fr", "en", "the sampled text looks like German (de), but the model translates from French (fr)."),
        ("zh", "en", "the sampled lines are in another script, but the model translates from Chinese (zh)."),
        ("de", "en", ""),
        ("mul", "de", ""),
        ("", "de", ""),
    ],
)
@pytest.mark.parametrize("count", [1, 200])
def test_input_in_another_language_is_named_once_and_early(
    tmp_path, monkeypatch, source_lang, target_lang, says, count
):
    pytest.importorskip("py3langid")
    monkeypatch.setattr(Copying, "source_lang", source_lang)
    monkeypatch.setattr(Copying, "target_lang", target_lang)
    (tmp_path / "in").write_text("Der Hund läuft schnell über die Wiese.\n" * count + "wrong\n", "utf-8")
    before = []
    out = OutputFile(tmp_path / "out").partial
    report = Hearing(lambda message: before.append((message, out.stat().st_size)))
    copy(tmp_path / "in", tmp_path / "out", report=report)
    assert [message for message, _ in before] == [f"most of {says}"] * bool(says)
    assert all(0 < size < 2_500 for _, size in before)


@pytest.mark.parametrize(
    ("line", "translation", "mean", "is_foreign", "is_identified"),
    [
        ("The dog runs.", "Der Hund rennt.", -0.6, False, False),
        ("The dog runs.", "Der Hund rennt.", -1.6, False, True),
        ("Der Hund rennt.", "Der Hund rennt.", -0.6, False, True),
        ("Ein Hund rennt.", "Ein Hund steht.", -0.6, False, True),
        ("Berlin hat Hunde.", "Berlin has dogs.", -0.6, False, False),
        ("It is wrong.", "Das ist falsch.", -0.6, False, True),
        (">>deu<< 狗跑得很快", "Die Quelle.", -1.6, True, False),
        ("", "", 0.0, False, False),
    ],
)
def test_only_strange_text_in_the_own_script_is_identified(
    monkeypatch, line, translation, mean, is_foreign, is_identified
):
    identified = []
    looked_at = "nmt.translation.input_language.seems_to_be"
    monkeypatch.setattr(looked_at, lambda lines, language: identified.extend(lines) or "")
    monkeypatch.setattr(Copying, "language_tags", (">>deu<<",))
    monkeypatch.setattr(Copying, "source_lang", "en")
    job = TranslationJob(Copying(), "text")
    guard = Finding(("number",), repaired=True) if "wrong" in line else None
    pieces = ("Piece",) * 9
    made = Translation(line, (TranslatedText(translation, pieces, 11 * mean, -1.0),), parts=2, guard=guard)
    normal = Translation("A cat sits.", (TranslatedText("Eine Katze sitzt.", pieces, -6.0, -1.0),))
    monkeypatch.setattr(Copying, "translate_windows", lambda *_: [[made, made, made, normal, normal]])
    list(job.windows([], Begun()))
    assert bool(job.doubt(at_end=True)) == is_foreign
    assert bool(identified) == is_identified
    assert job.doubt(at_end=True) == ""


def test_lines_that_are_in_the_target_language_already_are_counted_at_the_end(tmp_path, monkeypatch):
    pytest.importorskip("py3langid")
    english, german = "The dog runs quickly over the meadow.", "Der Hund läuft schnell über die Wiese."
    written = {english: "Ein Hund rennt.", german: "Der Hund läuft auf einer Wiese.", "Peter Smith": "Peter Smith"}
    monkeypatch.setattr(Copying, "source_lang", "en")

    def translate_windows(self, lines):
        for line in lines:
            text = written[line.text]
            yield [Translation(line.text, (TranslatedText(text, ("Piece",) * 9, -4.0, -1.0),))]

    monkeypatch.setattr(Copying, "translate_windows", translate_windows)
    lines = ([english] * 9 + [german] + ["Peter Smith"]) * 20
    (tmp_path / "in").write_text("".join(f"{line}\n" for line in lines))
    warnings = []
    copy(tmp_path / "in", tmp_path / "out", report=Hearing(warnings.append))
    assert warnings == ["lines that look like German (de) already: 20 (lines 10, 21, 32, 43, 54 and 15 more)."]


@pytest.mark.parametrize(
    "name",
    [
        "a.srt",
        "b.HTML",
        "c.po",
        "d.md",
        "e.xliff",
        "f.json",
        "g.csv",
        "h.docx",
        "i.pdf",
        "j.srt.gz",
        "k.jsonl",
        "l.sgm",
    ],
)
def test_a_file_with_more_than_plain_text_is_refused(tmp_path, name):
    (tmp_path / name).write_text("1\n")
    for beside in ({}, {"prefix": tmp_path / name}):
        source = tmp_path / "plain.srt.de" if beside else tmp_path / name
        source.touch()
        with pytest.raises(DataError, match=r" by its name.* as they are: --(input|prefix) - < ") as error:
            Streams(source, beside, tmp_path / "out").claimed().__enter__()
        assert str(error.value).startswith(f"{tmp_path / name}: is ")


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
        def translate_windows(self, lines):
            yield from super().translate_windows(lines)
            os.truncate(source, 2)

    path = Path(f"/dev/fd/{read[1]}")
    with (
        pytest.raises(DataError, match=r"in: changed while it was read\. The output may lack lines"),
        Streams(source, {}, path).claimed() as streams,
    ):
        write_lines(streams, TranslationJob(Shrinking(), "text"))
    assert os.read(read[0], 10) == b"a\nb\n"
    for descriptor in read:
        os.close(descriptor)


def test_an_output_of_fresh_is_resumed_by_its_own_name_without_fresh(tmp_path):
    (tmp_path / "in").write_text("ba\n")
    for fresh, told in ((False, "Run the same command"), (True, f"--output {tmp_path / 'out-2'} and without --fresh")):
        streams = Streams(tmp_path / "in", {}, tmp_path / "out-2", fresh=fresh)
        assert told in _how_to_resume(streams)
    assert "cannot be resumed" in _how_to_resume(Streams(Path("-"), {}, tmp_path / "out"))


def test_a_resumed_output_names_lines_by_their_numbers_in_the_input(tmp_path):
    source, output = tmp_path / "in", OutputFile(tmp_path / "out")
    source.write_text("wrong a\nb\nc\nwrong d\n")
    interrupt(output, source, "wrong a\nb\n", done=(2, 2))
    report = Hearing()
    tally = copy(source, output.path, report=report)
    assert output.path.read_text() == source.read_text()
    assert (tally.first_line, tally.not_repaired.first, tally.doubtful) == (3, [4], 1)
    assert report.shown == [("done", 2, 4), ("done", 3, 4), ("done", 4, 4)]


def test_a_window_that_a_reading_error_cut_short_is_made_again(tmp_path):
    class InTwos(Copying):
        def translate_windows(self, lines):
            for window in windows(lines, 2, lambda line: len(line.text)):
                yield [Translation(line.text, (TranslatedText(line.text, (), 0.0, 0.0),)) for line in window]

    (tmp_path / "in").write_bytes(b"a\nb\nc\n\xff\n")
    output = OutputFile(tmp_path / "out")
    with (
        pytest.raises(InvalidUtf8Error, match="line 4"),
        Streams(tmp_path / "in", {}, output.path).claimed() as streams,
    ):
        write_lines(streams, TranslationJob(InTwos(), "text"))
    assert output.partial.read_text() == "a\nb\nc\n"
    assert read_stored(output.partial_record).values["written"]["lines"] == 2


def test_findings_in_paragraphs_are_named_by_the_first_lines_of_these(tmp_path):
    (tmp_path / "in").write_text("a\nb\n\nwrong\nc\n")
    tally = copy(tmp_path / "in", tmp_path / "out", input_format="paragraphs")
    assert (tally.unit, tally.not_repaired.first) == ("paragraphs", [4])


@pytest.mark.parametrize(
    ("done", "written"), [(0, ""), (1, "# A"), (2, "# A\n\n- wrong"), (4, "# A\n\n- wrong\n- b\n\nc")]
)
def test_an_interrupted_document_resumes(tmp_path, done, written):
    source, output = tmp_path / "in.md", OutputFile(tmp_path / "out.md")
    source.write_text("# A\n\n- wrong\n- b\n\nc\n\n```\nkept\n```\n")
    interrupt(output, source, written, input_format="markdown", done=(done, done))
    report = Hearing()
    tally = copy(source, output.path, input_format="markdown", report=report)
    assert output.path.read_text() == source.read_text()
    assert (tally.unit, tally.not_repaired.first) == ("texts", [3] if done < 2 else [])  # its line
    assert (f"resuming after text {done} of" in "".join(report.notices)) == (done > 0)


@pytest.mark.parametrize(
    ("models", "searches", "shown"),
    [
        (1, 4, [0, 1, 2, 3, 3, 3, 4, 5, 5, 5, 5]),  # the last search of a window finds nothing new
        (2, 6, [0, 0, 1, 1, 2, 2, 3, 3, 3, 4, 4, 5, 5, 5, 5]),
    ],
)
def test_progress_counts_what_is_found_for_lines_that_are_not_written(tmp_path, models, searches, shown):
    (tmp_path / "in").write_text("a\nb\nc\nd\ne\n")
    known, report = FoundBatches(), Hearing()
    known.models = models

    class Searching(Copying):
        window = 3

        def translate_windows(self, lines):
            for window in windows(lines, self.window, lambda line: 1):
                for number in range(searches):
                    known.of([Segment("", [number])], SearchSettings(), lambda: [[Hypothesis((4,), -1.0, -1.0)]])
                yield [Translation(line.text, (TranslatedText(line.text, (), 0.0, 0.0),)) for line in window]

    with Streams(tmp_path / "in", {}, tmp_path / "out", report=report).claimed() as streams:
        write_lines(streams, TranslationJob(Searching(), "text"), known)
    assert report.shown == [("done", count, 5) for count in shown]
    assert known.stored == {}


@pytest.mark.parametrize("can_be_resumed", [True, False])
def test_what_was_found_is_kept_where_the_input_can_be_read_again(tmp_path, monkeypatch, can_be_resumed):
    monkeypatch.setattr(Streams, "can_be_resumed", can_be_resumed)
    (tmp_path / "in").write_text("a\n")
    known, report, output = FoundBatches(), Hearing(), OutputFile(tmp_path / "out")

    class Interrupted(Copying):
        def translate_windows(self, lines):
            known.of([Segment("a", [5])], SearchSettings(), lambda: [[Hypothesis((4,), -1.0, -1.0)]])
            raise KeyboardInterrupt

    plain = Streams(tmp_path / "in", {}, output.path, report=report)
    with pytest.raises(KeyboardInterrupt), plain.claimed() as streams:
        write_lines(streams, TranslationJob(Interrupted(), "text"), known)
    [notice] = report.notices
    assert notice.endswith("to resume." if can_be_resumed else "nothing is kept.")
    assert output.partial_record.exists() == can_be_resumed


def test_an_interruption_before_anything_is_written_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(Copying, "translate_windows", Mock(side_effect=KeyboardInterrupt))
    (tmp_path / "in.html").write_text("<p>red dog</p>")
    report = Hearing()
    with pytest.raises(KeyboardInterrupt):
        copy(tmp_path / "in.html", tmp_path / "out", input_format="html", report=report)
    assert report.notices == ["interrupted before anything was finished: nothing is kept."]


def test_markup_and_placeholders_of_a_document_are_placed(tmp_path, monkeypatch):
    wanted = []

    def translated(self, lines):
        for line, spans in ((line.text, line.spans) for line in lines):
            wanted.append(bool(spans))
            pieces = [f"▁{word}" for word in line.split()]
            best = TranslatedText(
                f"x {line.split()[-1]}", ("▁x", pieces[-1]), 0.0, 0.0, alignment=(None, len(pieces) - 1)
            )
            yield [Translation(line, (best,), tuple(pieces))]

    monkeypatch.setattr(Copying, "translate_windows", translated)
    (tmp_path / "in.html").write_text("<p>red dog</p><p>red <b>dog</b></p><p>to {b}</p><p>{a} red dog</p>")
    streams = Streams(tmp_path / "in.html", {}, tmp_path / "out", input_format="html")
    job = TranslationJob(Copying(), "text", input_format="html", document=streams.document(Reading("en", "de")))
    with streams.claimed() as claimed:
        write_lines(claimed, job)
    assert (tmp_path / "out").read_text() == "<p>x dog</p><p>x <b>dog</b></p><p>x {b}</p><p>x {a} dog</p>"
    assert wanted == [False, True, True, True]


@pytest.mark.parametrize(("lines", "entries"), [(0, 0), (2, 1), (3, 2), (5, 3), (6, 4)])
def test_an_interrupted_output_of_paragraphs_resumes(tmp_path, lines, entries):
    """Also behind a paragraph whose blank line is not done, and with the numbers of the whole text."""
    source, output = tmp_path / "in", OutputFile(tmp_path / "out")
    text = ["wrong", "b", "", "c", "d", "", "wrong", "e"]
    source.write_text("\n".join(text) + "\n")
    copy(source, tmp_path / "whole", input_format="paragraphs")
    written = "".join(f"{line}\n" for line in (tmp_path / "whole").read_text().splitlines()[:lines])
    interrupt(output, source, written, input_format="paragraphs", done=(lines, entries))
    report = Hearing()
    tally = copy(source, output.path, input_format="paragraphs", report=report)
    assert output.path.read_text() == (tmp_path / "whole").read_text() == source.read_text()
    assert tally.not_repaired.first == ([1, 7] if lines == 0 else [7])
    assert tally.first_line == lines + 1
    assert (f"resuming after line {lines} of" in "".join(report.notices)) == (lines > 0)
