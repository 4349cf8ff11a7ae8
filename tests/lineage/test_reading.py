"""Records of another shape are damaged lineages, never a fault of the program."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from nmt.checkpoint.bundle_files import ORIGIN_NAME, PARITY_NAME
from nmt.corpora.prepare import prepare
from nmt.corpora.recipe import own_recipe
from nmt.errors import NmtError
from nmt.io.files import record_name
from nmt.io.hashing import sha256_of
from nmt.lineage import comparing
from nmt.lineage.reading import read_lineage
from nmt.record import Record, write_stored
from nmt.translation.lineage import translation_record, with_content

BUNDLE = Path(__file__).parents[1] / "bundles" / "0.1.0"
PARITY = {
    "parity": {
        "direction": "import",
        "toolkit": "Marian",
        "bundle": {"model.safetensors": "aa"},
        "checks": [{"passed": True, "oracle": "marian"}],
        "software": {"nmt": "0.1.0"},
        "files": {"model.npz": "bb"},
    }
}
SCORE = {
    "systems": [{"hypothesis": "out.de", "scores": [{"name": "BLEU", "value": 30.5}]}],
    "lineage": Record(kind="score", path="score.json", command=("score", "out.de")).stored(),
}
OTHERS = [None, True, 3, -1.5, "text", [], [7], {}, {"a": 1}]


def with_another_part(values) -> Iterator[object]:
    """The values, each with one part of them that is of another type."""
    yield from OTHERS
    parts = values.items() if isinstance(values, dict) else enumerate(values) if isinstance(values, list) else ()
    for key, part in parts:
        for other in with_another_part(part):
            changed = values.copy()
            changed[key] = other
            yield changed


@pytest.mark.parametrize("direction", ["import", "export"])
def test_a_certificate_of_another_shape(tmp_path, direction):
    folder = tmp_path / "bundle"
    shutil.copytree(BUNDLE, folder)
    if direction == "export":
        (folder / ORIGIN_NAME).write_text(json.dumps(SCORE["lineage"]))
    for values in with_another_part({"parity": PARITY["parity"] | {"direction": direction}}):
        (folder / PARITY_NAME).write_text(json.dumps(values))
        read(folder)


def test_a_score_of_another_shape(tmp_path):
    for values in with_another_part(SCORE):
        (tmp_path / "score.json").write_text(json.dumps(values))
        read(tmp_path / "score.json")


def read(path) -> None:
    try:
        lineage = read_lineage(path)
        json.dumps(lineage.values())
        assert lineage.facts_in_words is not None
    except NmtError as error:
        assert str(path) in str(error)


def test_a_record_does_not_show_the_checksum_of_the_file_that_it_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "private").write_text("secret")
    record = Record(kind="text", path="private", files={".": "aa"})
    score = SCORE | {"lineage": Record(kind="score", path="score.json", made_from=(record,)).stored()}
    (tmp_path / "score.json").write_text(json.dumps(score))
    [change] = (
        read_lineage(tmp_path / "score.json").changes
        or read_lineage((tmp_path / "score.json").relative_to(tmp_path)).changes
    )
    assert change == "the sha256 of private is not aa, which is recorded"

    def fail(path):
        raise PermissionError(13, "Permission denied")

    comparing._sha256.cache_clear()
    monkeypatch.setattr(comparing, "sha256_of", fail)
    [_, private] = read_lineage(Path("score.json")).all()
    assert (private.state, private.change) == ("changed", "private cannot be read (Permission denied)")


@pytest.mark.parametrize("is_same", [True, False])
def test_the_model_that_translated_training_text_is_recorded(tmp_path, monkeypatch, is_same):
    monkeypatch.chdir(tmp_path)
    Path("mono.de").write_text("".join(f"Das Haus Nummer {n} ist alt.\n" for n in range(9)))
    Path("mono.en").write_text("".join(f"House number {n} is old.\n" for n in range(9)))
    record = translation_record(Path("mono.en"), [BUNDLE], {"input": Path("mono.de")}, {})
    sha256 = sha256_of(Path("mono.en" if is_same else "mono.de"))
    write_stored(record_name(Path("mono.en")), with_content(record, sha256), {})
    recipe = own_recipe("own", source_lang="en", target_lang="de", train=["mono.en", "mono.de"])
    assert prepare(recipe, Path("data/own"), workers=1).changed
    record_name(Path("mono.en")).unlink()
    assert not prepare(recipe, Path("data/own"), workers=1).changed
    monkeypatch.chdir("/")
    found = list(read_lineage(tmp_path / "data" / "own").all())
    kinds = [lineage.kind for lineage in found]
    assert kinds.count("translation") == is_same, kinds
    assert ("model" in kinds) == is_same
    assert kinds.count("file") == 2 - is_same
    assert {lineage.state for lineage in found if lineage.kind in ("file", "text", "translation")} == {"unchanged"}


def test_the_model_that_translated_an_input_is_recorded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("text.de", "text.en"):
        Path(name).write_text(f"{name}\n")
    first = translation_record(Path("text.en"), [BUNDLE], {"input": Path("text.de")}, {})
    write_stored(record_name(Path("text.en")), with_content(first, sha256_of(Path("text.en"))), {})
    [_, made] = translation_record(Path("text.fr"), [BUNDLE], {"input": Path("text.en")}, {}).made_from
    assert (made.kind, made.path, made.facts["role"]) == ("translation", "text.en", "input")
    assert [part.path for part in made.made_from] == [str(BUNDLE), "text.de"]
    Path("text.en").write_text("edited\n")
    [_, edited] = translation_record(Path("text.fr"), [BUNDLE], {"input": Path("text.en")}, {}).made_from
    assert (edited.kind, edited.made_from) == ("text", ())
