"""The oldest versions that we allow have no known fault that our use of them meets."""

import importlib.machinery
import importlib.util
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

import nmt

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
SOUND_FROM = {
    "sentencepiece": ("0.2.3", "earlier parsers crash on crafted models"),
    "lxml": ("5.0", "earlier ones read files that the XML of a test set names"),
    "h11": ("0.16", "earlier ones accept malformed chunked bodies (CVE-2025-43859)"),
    "idna": ("3.7", "crafted host names take quadratic time (CVE-2024-3651)"),
    "torch": ("2.6", "earlier ones run code from files of weights (CVE-2025-32434)"),
    "pyyaml": ("6.0.1", "6.0 does not build with current tools"),
    "starlette": ("1.3.1", "earlier ones let a Host header change the path (CVE-2026-48710)"),
    "python-multipart": ("0.0.31", "earlier ones read forms and headers without a limit (CVE-2026-42561)"),
    "transformers": ("5.3", "earlier ones run code from crafted settings (CVE-2026-4372)"),
}


@pytest.mark.parametrize("name", SOUND_FROM)
def test_no_version_with_a_known_fault_is_allowed(name):
    project = tomllib.loads(PROJECT.read_text("utf-8"))["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    found = [one for names in lists for one in map(Requirement, names) if one.name == name]
    first, why = SOUND_FROM[name]
    assert found, name
    for requirement in found:
        [bound] = [Version(each.version) for each in requirement.specifier if each.operator == ">="]
        assert bound >= Version(first), why


def test_no_dependency_has_an_upper_bound():
    """Installs with one rot as soon as a new Python or NumPy meets it. The tested versions are in constraints.txt."""
    project = tomllib.loads(PROJECT.read_text("utf-8"))["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values(), [f"x{project['requires-python']}"]]
    requirements = [requirement for names in lists for requirement in map(Requirement, names)]
    assert {each.operator for requirement in requirements for each in requirement.specifier} == {">="}


def audit():
    """The program behind ``make audit``, as a module."""
    path = PROJECT.parent / ".ci" / "audit"
    spec = importlib.util.spec_from_loader("audit", importlib.machinery.SourceFileLoader("audit", str(path)))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("report", "status", "words"),
    [
        ("", 0, "skipped"),
        ('{"dependencies": [{"name": "a", "skip_reason": "not found"}]}', 0, "skipped"),
        ('{"dependencies": [{"name": "a", "version": "1", "vulns": []}]}', 0, "1 of 1 versions checked; 0 known"),
        (
            '{"dependencies": [{"name": "a", "version": "1", "vulns": [{"id": "CVE-1", "fix_versions": ["2"]}]}]}',
            1,
            "a 1: CVE-1, fixed in 2",
        ),
    ],
)
def test_the_audit_fails_for_a_known_vulnerability_and_says_when_it_is_skipped(report, status, words):
    found, lines = audit().verdict(report)
    assert found == status
    assert words in "\n".join(lines)


def test_the_citation_says_what_the_project_says():
    project = tomllib.loads(PROJECT.read_text("utf-8"))["project"]
    cited = yaml.safe_load(PROJECT.with_name("CITATION.cff").read_text("utf-8"))
    assert (cited["version"], cited["license"]) == (nmt.__version__, project["license"])
    assert cited["keywords"] == project["keywords"]
    assert cited["title"].lower() == f"nmt: {project['description']}".lower()
