"""What the guard found, in a file that replaces nothing else and resumes."""

import json
from pathlib import Path

import pytest

from nmt.errors import DataError
from nmt.translation.guard import Finding
from nmt.translation.guard_report import GuardReport
from nmt.translation.results import BLANK, Translation
from nmt.translation.tally import Tally

LOOPING = Translation("source", (BLANK,), guard=Finding(("looping", "too_long"), repaired=False))
REPAIRED = Translation("source", (BLANK,), guard=Finding(("empty",), repaired=True))
SOUND = Translation("source", (BLANK,))


def write(path, kept, **translations):
    """The findings of a report to which those of translations are added, and its size."""
    with GuardReport(path).claimed() as report:
        report.begin(kept)
        for number, translation in translations.items():
            report.add(int(number.removeprefix("line")), translation)
        size = report.size
        report.close()
    return [json.loads(line) for line in path.read_text().splitlines()], size


def test_each_finding_is_an_object(tmp_path):
    found, _ = write(tmp_path / "report", 0, line1=SOUND, line2=LOOPING, line3=REPAIRED)
    assert found == [
        {"line": 2, "problems": ["looping", "too_long"], "repaired": False, "source": "source", "translation": ""},
        {"line": 3, "problems": ["empty"], "repaired": True, "source": "source", "translation": ""},
    ]


def test_a_resumed_report_holds_each_line_once(tmp_path):
    path = tmp_path / "report"
    _, kept = write(path, 0, line2=LOOPING)
    write(path, kept, line5=LOOPING, line7=LOOPING)
    path.write_bytes(path.read_bytes()[:-20])  # the process died while it wrote the last one
    found, kept = write(path, kept, line5=REPAIRED, line9=LOOPING)
    assert [record["line"] for record in found] == [2, 5, 9]
    assert [record["line"] for record in write(path, kept, line10=LOOPING)[0]] == [2, 5, 9, 10]
    assert [record["line"] for record in write(path, 0, line1=LOOPING)[0]] == [1]


def test_a_report_that_lacks_what_was_reported_is_refused(tmp_path):
    path = tmp_path / "report"
    _, kept = write(path, 0, line2=LOOPING, line3=LOOPING)
    content = path.read_bytes()
    for changed in (content[:-1], content[:-1] + b"x", b""):
        path.write_bytes(changed)
        with pytest.raises(DataError, match="lacks what the interrupted translation found"):
            GuardReport(path).begin(kept)
        assert path.read_bytes() == changed
        with pytest.raises(DataError, match="lacks what the interrupted translation found"):
            GuardReport(path).begin(None)  # it wrote no report
        assert path.read_bytes() == changed
    path.unlink()
    with pytest.raises(DataError, match="lacks what the interrupted translation found"):
        GuardReport(path).begin(kept)


def test_a_first_finding_that_was_cut_short_is_written_again(tmp_path):
    path = tmp_path / "report"
    write(path, 0, line2=LOOPING)
    path.write_bytes(path.read_bytes()[:40])
    assert [record["line"] for record in write(path, 0, line2=LOOPING)[0]] == [2]


@pytest.mark.parametrize("content", ["my notes\n", '{"line": 1}\n', "[1]\n", "half", "1\n", b"\xff\n"])
def test_nothing_else_is_replaced(tmp_path, content):
    path = tmp_path / "notes"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError, match="not a guard report"):
        claim(path)
    with pytest.raises(DataError, match="not a guard report"):
        GuardReport(path).begin(0)
    assert path.read_bytes() in (content, str(content).encode())


def claim(path, **options):
    with GuardReport(path).claimed(**options) as report:
        return report.path


def test_mistakes_are_found_before_work_begins(tmp_path):
    with pytest.raises(DataError, match="folder"):
        claim(tmp_path)
    with pytest.raises(DataError, match="no such folder"):
        claim(tmp_path / "nowhere" / "report")


def test_a_report_has_one_writer_and_leaves_no_lock(tmp_path):
    path = tmp_path / "report"
    (tmp_path / "link").symlink_to("report")
    with GuardReport(path).claimed():
        for same in (path, tmp_path / "link"):
            with pytest.raises(DataError, match="another process is writing it"):
                claim(same)
        assert claim(path, fresh=True) == tmp_path / "report-2"
    assert [entry.name for entry in tmp_path.iterdir()] == ["link"]


def test_a_fresh_report_takes_the_next_free_name(tmp_path):
    path = tmp_path / "report.jsonl"
    assert claim(path, fresh=True) == path
    path.touch()
    (tmp_path / "report-2.jsonl").symlink_to("nowhere")
    assert claim(path, fresh=True) == tmp_path / "report-3.jsonl"


def test_devices_take_reports_from_anyone():
    with GuardReport(Path("/dev/null")).claimed(fresh=True) as report:
        report.begin(0)
        assert claim(Path("/dev/null")) == report.path == Path("/dev/null")
        report.close()


def test_what_was_reported_before_is_never_away_from_the_disk(tmp_path):
    path = tmp_path / "report"
    _, kept = write(path, 0, line2=LOOPING)
    write(path, kept, line5=LOOPING)
    report = GuardReport(path)
    report.begin(kept)  # and is killed now
    assert [json.loads(line)["line"] for line in path.read_text().splitlines()] == [2]
    report.close()


def test_the_summary_names_the_first_lines_that_were_not_repaired():
    tally = Tally()
    for number in range(1, 21):
        tally.add(number, LOOPING if number % 2 else REPAIRED)
    [remark] = tally.warnings(256, guard=True, prefixed=False)
    assert "looked wrong: 20 (" in remark
    assert "repaired: 10. Not repaired: lines 1, 3, 5, 7, 9 and 5 more. --guard-report FILE" in remark
    tally = Tally()
    tally.add(1_234, LOOPING)
    assert "Not repaired: line 1,234. --guard" in tally.warnings(256, guard=True, prefixed=False)[0]
    assert tally.warnings(256, guard=False, prefixed=False) == []


def test_problems_that_do_not_add_up_are_not_listed_as_if_they_did():
    tally = Tally()
    tally.add(1, LOOPING)
    [warning] = tally.warnings(256, guard=True, prefixed=False)
    assert "looked wrong: 1 (by problem: looping 1, too long 1; a line may have several); repaired: 0." in warning
    tally = Tally()
    tally.add(1, REPAIRED)
    tally.add(2, REPAIRED)
    [warning] = tally.warnings(256, guard=True, prefixed=False)
    assert "looked wrong: 2 (empty 2); repaired: 2." in warning


def test_the_summary_of_a_resumed_output_says_where_it_begins():
    tally = Tally(first_line=2_049)
    tally.add(2_050, LOOPING)
    tally.add(2_051, Translation("ba", (BLANK,), parts=2))
    tally.add(2_052, Translation("ba", (BLANK,), parts=2, is_cut=True))
    cut, wrong = tally.warnings(256, guard=True, prefixed=False)
    assert cut.startswith("lines cut into parts since line 2,049: 1. ")
    assert wrong.startswith("translations that looked wrong since line 2,049: 1 (")
    assert tally.notices(prefixed=False)[0].startswith("lines translated sentence by sentence since line 2,049: 1.")


def test_a_prefix_that_is_left_out_is_warned_about():
    tally = Tally()
    tally.add(1, Translation("ba", (BLANK,), parts=2))
    assert tally.notices(prefixed=True) == []
    [warning] = tally.warnings(256, guard=True, prefixed=True)
    assert warning.endswith("sentence by sentence: 1. Their prefixes were left out.")


def test_paragraphs_in_sentences_are_not_worth_a_word():
    tally = Tally("paragraphs")
    tally.add(1, Translation("ba", (BLANK,), parts=2))
    assert tally.notices(prefixed=False) == tally.warnings(256, guard=True, prefixed=False) == []
    tally.add(3, Translation("ba", (BLANK,), parts=2, is_cut=True))
    assert tally.warnings(256, guard=True, prefixed=False)[0].startswith("paragraphs cut into parts: 1. ")
