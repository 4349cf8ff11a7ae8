"""Damaged files of every format that nmt reads: the outcome is right or an NmtError, never anything else."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings

from tests.damaged.damage import TREES, Damage, Edit, Replacement, damage, damaged
from tests.damaged.formats import FORMATS
from tests.damaged.reading import NoFile, Reader

LONGEST = 3.0
"""Seconds of the processor that reading a small damaged file may take. Mostly it takes a hundredth of one; at most one
beside busy neighbours."""
CASES, MANY_CASES = 10, 200
"""Of each format: in every run the same, and in the long test others each time."""


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    """The process that reads."""
    process = Reader()
    yield process
    process.close()


def check(reader: Reader, name: str, cases: int, *, same_every_time: bool) -> None:
    """Damage a format's file in many ways, alone and together."""
    whole, tree = reader.content(name), FORMATS[name].tree

    @settings(max_examples=cases, derandomize=same_every_time, database=None, suppress_health_check=list(HealthCheck))
    @given(damage(tree))
    def every_case(changes: Damage) -> None:
        outcome = reader.read(name, damaged(whole, changes, tree))
        assert outcome.fault is None, outcome.fault
        assert outcome.seconds < LONGEST

    every_case()


@pytest.mark.parametrize("device", [None, "/dev/zero"])
@pytest.mark.parametrize(
    "name",
    [
        *("checksums of a bundle", "metrics", "manifest", "index of shards", "index of shards to repair"),
        *("checkpoint_best.pt of fairseq", "model_step_10.pt of opennmt-py", "best.ckpt of joeynmt"),
        *("params.best of sockeye", "config.json of eole", "model.npz of marian-post", "config.json of MarianMT"),
        pytest.param("training state", marks=pytest.mark.slow),
    ],
)
def test_a_pipe_or_a_device_in_place_of_any_file_is_not_read(reader, name, device):
    faults = {}
    for file in reader.files(name):
        outcome = reader.read(name, NoFile(file, device))
        if outcome.fault is not None:
            faults[file] = outcome.fault
    assert not faults


@pytest.mark.parametrize("name", FORMATS)
def test_a_damaged_file_is_read_or_refused(reader, name):
    whole = reader.read(name, reader.content(name))
    assert (whole.error, whole.fault) == (None, None)
    check(reader, name, CASES, same_every_time=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_a_file_that_is_damaged_in_many_ways_is_read_or_refused(reader, name):
    check(reader, name, MANY_CASES, same_every_time=False)


FOUND = [
    ("settings", b"model: 2024-01-01\n"),
    ("recipe", b"name: &a [*a]\n"),
    ("checksums of a bundle", b"null"),
    ("checksums of a bundle", b"[" * 100_000),
    ("checksums of a bundle", b'{"../other/model.safetensors": "00"}'),
    ("checksums of a bundle", b'{"model.safetensors": null}'),
    ("training state", b"null"),
    ("training state", b'{"update": "many", "scores": {}}'),
    ("training state", b'{"update": 2, "scores": {"2": null}}'),
    ("training state", b'{"update": 2, "scores": {"2": {"loss": "a", "bleu": []}}}'),
    ("training state", b'{"update": 2, "scores": {}, "unheard_of": 1}'),
    ("training state", b'{"update": 1, "skipped": 2, "scores": {}}'),
    ("training state", b'{"update": -1, "scores": {}}'),
    ("data of a run", b'[{"weight": 1, "path": {"a": 1}}]'),
    ("data of a run", b'[{"weight": 1, "path": "a\\u0000b"}]'),
    ("data of a run", b'[{"weight": 1, "path": "\\ud800"}]'),
    ("data of a run", b'[{"weight": 1, "path": "' + b"a" * 5_000 + b'"}]'),
    ("data of a run", b'[{"weight": 1e999, "path": "a"}]'),
    ("data of a run", b"[]"),
    ("data of a run", b"[" * 100_000),
    ("record of a partial output", b"[" * 100_000),
    ("manifest", b"[" * 100_000),
    ("decoder.yml of marian-post", b"models: [" + b"a" * 5_000 + b"]\n"),
    ("decoder.yml of marian-post", b"models: [model.npz]\nvocabs: [vocab.yml, " + b"a" * 5_000 + b"]\n"),
]
"""What ended in a traceback once, by format."""


def _averaged(made_from: bytes, further: bytes = b'"x": 1') -> bytes:
    return b'{"record": {"kind": "average", "path": "a", "made_from": ' + made_from + b"}, " + further + b"}"


TOLERATED = [
    ("notes of a bundle", _averaged(b'[null, 1, "a", {"kind": "checkpoint"}]')),
    ("notes of a bundle", _averaged(b'[{"kind": "checkpoint", "path": "step-' + b"9" * 5_000 + b'"}]')),
    ("notes of a bundle", _averaged(b"[]", b'"validation": {"loss": "low", "bleu": [1]}')),
    ("notes of a bundle", _averaged(b"[]", b'"validation": {"loss": ' + b"9" * 400 + b', "bleu": true}')),
    ("notes of a bundle", b"[" * 100_000),
    ("metrics", b"[" * 100_000 + b"\n"),
    ("manifest in a run", b"[" * 100_000),
]
"""What says nothing of use, and is not needed."""


@pytest.mark.parametrize(("name", "content"), FOUND, ids=lambda value: str(value)[:40])
def test_what_was_a_traceback_is_an_error(reader, name, content):
    outcome = reader.read(name, content)
    assert outcome.fault is None, outcome.fault
    assert outcome.error is not None


@pytest.mark.parametrize(
    "content", [b"\n" * 100_000, b" " * 100_000, b"- " * 50_000, b"-" * 100_000, b"\t" * 100_000 + b"!a"]
)
def test_settings_of_sockeye_without_an_end_are_refused_at_once(reader, content):
    outcome = reader.read("config of sockeye", content)
    assert (outcome.fault, outcome.error is None) == (None, False)
    assert outcome.seconds < LONGEST


@pytest.mark.parametrize(("name", "content"), TOLERATED, ids=lambda value: str(value)[:40])
def test_what_nobody_needs_may_be_damaged(reader, name, content):
    outcome = reader.read(name, content)
    assert (outcome.error, outcome.fault) == (None, None)


def test_an_error_of_bytes_in_a_vocabulary_is_an_error(reader):
    name = "unigram vocabulary with bytes"
    flipped = Edit("flip", 12_327, 3_017, 65_535)  # SentencePiece quotes bytes that are no text
    assert reader.read(name, damaged(reader.content(name), [flipped], None)).fault is None


def test_a_pattern_that_fits_no_parameter_of_a_run_names_the_run(reader):
    content = reader.content("settings of a run")
    outcome = reader.read("settings of a run", content.replace(b"freeze: []", b"freeze: ['']"))
    assert outcome.fault is None, outcome.fault
    assert "matches no parameter of" in outcome.error


@pytest.mark.parametrize("tree", TREES)
def test_damage_changes_content_and_is_the_same_every_time(tree):
    name = next(name for name, form in FORMATS.items() if form.tree == tree)
    content = b'{"a": [1, 2]}' if tree != "safetensors" else struct.pack("<Q", 13) + b'{"a": [1, 2]}'
    for kind in ("value", "remove", "add", "key", "repeat"):
        change = Replacement(kind, 30_000, 3)
        assert damaged(content, [change], tree) == damaged(content, [change], tree) != content, (name, kind)


def test_what_a_reader_must_never_do_is_seen(reader, monkeypatch):
    # The process that reads is another one: what it meets is told by the exit of that process and its answers.
    assert reader.read("settings", b"model: {heads: 2}\n").fault is None
    reader._process.kill()
    died = reader.read("settings", b"")
    assert died.fault is not None
    assert "died" in died.fault
    assert reader.read("settings", b"[").error is not None
