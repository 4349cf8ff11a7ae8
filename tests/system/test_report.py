"""``nmt report`` as people run it."""

import shutil


def test_the_newest_run_by_itself(trained, nmt, tmp_path):
    shutil.copytree(trained / "runs", tmp_path / "runs", symlinks=True)
    result = nmt("report", cwd=tmp_path)
    assert result.stdout == ""
    assert "toy-en-de-tiny (the newest)" in result.stderr
    page = (tmp_path / "runs" / "toy-en-de-tiny" / "report.html").read_text("utf-8")
    for part in ("Training report: toy-en-de-tiny", "Loss", "Validation BLEU", "Sample translations", "</html>"):
        assert part in page


def test_what_is_no_run_is_a_users_mistake(trained, nmt):
    result = nmt("report", "data/toy-en-de", cwd=trained, check=False)
    assert result.returncode == 2
    assert "is not the folder of a run" in result.stderr
    assert "Traceback" not in result.stderr
