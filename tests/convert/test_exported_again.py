"""The same bundle gives the same files at any time, so a script compares them with their recorded sha256."""

import time

import pytest

from nmt.convert.formats import WRITABLE

# An archive holds the times of its members.
COMPARED = [form for form in WRITABLE if form.name != "argos"]


@pytest.mark.parametrize("form", COMPARED, ids=lambda form: form.name)
def test_an_export_has_the_same_files_at_any_time(form, make_bundle, tmp_path, monkeypatch):
    written = []
    for number in range(2):
        now = time.time()
        monkeypatch.setattr(time, "time", lambda now=now: now + 1e6)
        folder = tmp_path / str(number)
        folder.mkdir()
        form.write(make_bundle(), folder, form.quantizations[0])
        written.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert written[0] == written[1]
