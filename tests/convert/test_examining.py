"""The comparison of two models: what it prints, what takes part, and what is said of packages that are missing."""

import ctypes
import logging
import os
import sys
import warnings
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from nmt.convert.certificate import examining, our_side
from nmt.convert.certificate.examining import Job, examine
from nmt.convert.certificate.our_side import OurSide
from nmt.convert.certificate.quantized import QUANTIZED_COMPARISONS
from nmt.convert.certificate.record import Certificate, Check
from nmt.convert.certificate.side import Side
from nmt.convert.converting import export_model, import_model
from nmt.convert.foreign import Given
from nmt.convert.formats import find_format
from nmt.convert.huggingface.software import HuggingFaceSide
from nmt.errors import CheckpointError, NmtError
from nmt.search.beam_search import beam_search
from tests.convert.marian_mt import STORED
from tests.convert.peers import write_fairseq
from tests.convert.unexamined import examine_nothing

IMPORT = Job("import", Path("opus.zip"), Path("/tmp/x/bundle"), "marian")


def test_what_a_library_prints_is_shown_for_debugging_alone(monkeypatch, capfd):
    def loud(job):
        print("of a library")
        ctypes.CDLL(None).puts(b"of C")
        os.write(2, b"an error of C\n")
        warnings.warn("a warning", stacklevel=1)
        logging.getLogger("a library").warning("a note")
        return "the answer"

    monkeypatch.delenv("NMT_DEBUG", raising=False)
    monkeypatch.setattr(examining, "_certificate", loud)
    assert examine(IMPORT) == "the answer"
    assert capfd.readouterr() == ("", "")
    monkeypatch.setenv("NMT_DEBUG", "1")
    with pytest.warns(UserWarning, match="a warning"):
        examine(IMPORT)
    ctypes.CDLL(None).fflush(None)
    found = capfd.readouterr()
    assert sorted(found.out.split("\n")) == ["", "of C", "of a library"]
    assert "an error of C\n" in found.err


def test_a_process_without_standard_output_examines_too(monkeypatch):
    monkeypatch.delenv("NMT_DEBUG", raising=False)
    monkeypatch.setattr(examining, "_certificate", lambda job: "the answer")
    monkeypatch.setattr(sys, "stdout", None)
    assert examine(IMPORT) == "the answer"


def test_software_that_fails_is_one_clear_error(monkeypatch):
    def failing(job):
        raise KeyError(3)

    monkeypatch.setattr(examining, "_certificate", failing)
    with pytest.raises(NmtError, match=r"^opus\.zip: the models could not be compared: KeyError: 3\. Please report"):
        examine(IMPORT)


@pytest.mark.parametrize(
    ("version", "problem"),
    [
        ("5.2.1", "cannot be used for this model (transformers 5.2.1 is installed, but 5.3 or newer is needed)"),
        ("5.0rc1", "cannot be used for this model (transformers 5.0rc1 is installed, but 5.3 or newer is needed)"),
        (None, "is not installed"),
    ],
)
def test_a_certificate_says_why_a_package_took_no_part(version, problem, monkeypatch, tmp_path):
    have(monkeypatch, version)
    imported = examining._imported(Job("import", STORED, tmp_path, "huggingface"))
    assert [side.name for side in imported.sides] == ["Hugging Face MarianMT's tensors in float64 with NumPy"]
    assert imported.remarks[-1] == f"The package transformers {problem}: the model was not compared with it."


@pytest.mark.parametrize("version", ["5.3", "5.3.0rc1", "5.23.1", "6.0"])
def test_new_versions_are_used(version, monkeypatch):
    model = SimpleNamespace(from_pretrained=missing_library)
    used = SimpleNamespace(AutoModelForSeq2SeqLM=model, MarianTokenizer=None)
    monkeypatch.setitem(sys.modules, "transformers", used)
    have(monkeypatch, version)
    with pytest.raises(ImportError, match=r"no libx\.so"):
        HuggingFaceSide(STORED, [], [])


def test_a_folder_that_a_package_cannot_open_is_named(monkeypatch):
    def missing_file(folder, **options):
        raise OSError("no file named x.")

    model = SimpleNamespace(from_pretrained=missing_file)
    used = SimpleNamespace(AutoModelForSeq2SeqLM=model, MarianTokenizer=None)
    monkeypatch.setitem(sys.modules, "transformers", used)
    have(monkeypatch, "5.24")
    with pytest.raises(
        CheckpointError, match=r"transformers cannot open it \(no file named x\)\. Copy the model again"
    ):
        HuggingFaceSide(STORED, [], [])


def test_a_search_holds_few_sources_at_once_and_answers_in_their_order(make_bundle, monkeypatch):
    sizes, pieces = [], make_bundle().vocab.source.pieces(range(4, 24))

    def counting(models, source_BS, settings):
        sizes.append(len(source_BS))
        return beam_search(models, source_BS, settings)

    monkeypatch.setattr(our_side, "beam_search", counting)
    side = OurSide(make_bundle().folder)
    sources = [pieces[: 1 + place % 7] + pieces[place : place + 1] for place in range(20)]
    together = side.search([*sources, *sources], 2, 5)
    assert sizes == [16, 4]
    assert together[:20] == together[20:]
    for source, found in zip(sources, together, strict=False):
        [alone] = OurSide(make_bundle().folder).search([source], 2, 5)
        assert [one.pieces for one in found] == [one.pieces for one in alone]


def missing_library(folder, **options):
    raise ImportError("no libx.so")


def test_any_other_error_of_a_package_is_named():
    def sides():
        yield Side()
        missing_library(STORED)

    opened, [remark] = examining._opened(find_format(STORED), sides())
    assert len(opened) == 1
    assert remark == (
        "The package transformers cannot be used for this model (no libx.so): the model was not compared with it."
    )


def have(monkeypatch, version):
    def installed(package):
        if version is None:
            raise metadata.PackageNotFoundError(package)
        return version

    monkeypatch.setattr("nmt.convert.huggingface.software.metadata.version", installed)


def test_a_certificate_says_that_a_toolkit_without_a_package_took_no_part(tmp_path):
    origin = write_fairseq(tmp_path / "theirs")
    imported = examining._imported(Job("import", origin, tmp_path, "fairseq"))
    assert [side.name for side in imported.sides] == ["fairseq's tensors in float64 with NumPy"]
    assert imported.remarks[-1] == "The model was not compared with the toolkit itself."


def test_what_a_conversion_is_given_reaches_its_examination(monkeypatch, tmp_path):
    jobs = []

    def note(job):
        jobs.append(job)
        return Certificate("import", "x", None, {}, {}, {})

    monkeypatch.setattr("nmt.convert.converting.examine", note)
    given, lines = Given(source_lang="fr", target_lang="nl"), ["the boat", "a bell"]
    import_model(STORED, tmp_path / "first", given=given, lines=lines)
    import_model(tmp_path / "first", tmp_path / "copy", lines=lines)
    export_model(tmp_path / "copy", tmp_path / "out", to="huggingface", quantization="bfloat16", lines=lines)
    imported, copied, exported = jobs
    assert (imported.path, imported.format, imported.given) == (STORED, "huggingface", given)
    assert (copied.path, copied.format) == (tmp_path / "first", "nmt")
    assert (exported.path, exported.format, exported.quantization) == (tmp_path / "copy", "huggingface", "bfloat16")
    assert [job.lines for job in (imported, copied, exported)] == [tuple(lines)] * 3


def test_lines_of_the_user_are_compared_in_every_conversion(monkeypatch, tmp_path):
    have(monkeypatch, None)
    examine_nothing(monkeypatch)
    bundle = tmp_path / "bundle"
    import_model(STORED, bundle)
    compared = []

    def note(ours, side, probes, comparisons):
        compared.append((probes.lines[0], comparisons is QUANTIZED_COMPARISONS))
        return []

    monkeypatch.setattr(examining, "compared", note)
    monkeypatch.setattr(examining, "cached_steps", lambda ours, probes: Check("cached steps", True, ""))
    jobs = [
        Job("import", STORED, bundle, "huggingface", lines=("of an import",)),
        Job("import", bundle, bundle, "nmt", lines=("of a copy",)),
    ]
    for quantization in ("float32", "bfloat16"):
        folder = tmp_path / quantization
        export_model(bundle, folder, to="huggingface", quantization=quantization)
        job = Job("export", bundle, folder, "huggingface", quantization=quantization, lines=(quantization,))
        jobs.append(job)
    for job in jobs:
        examine(job)
    assert compared == [("of an import", False), ("of a copy", False), ("float32", False), ("bfloat16", True)]


def test_software_that_compared_nothing_is_not_listed():
    def side(name):
        found = Side()
        found.name, found.software = name, {name: "1"}
        return found

    checks = [Check("cached steps", True, "", "nmt"), Check("forced scores", True, "", "marian")]
    sides = [side("marian"), side("silent")]
    assert examining._took_part(side("nmt"), sides, checks) == {"nmt": "1", "marian": "1"}
    assert side("silent").search([("a",)], 1, 3) is None
