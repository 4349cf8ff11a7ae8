"""The life of an installation: the package is built, installed into an environment of its own, used, and removed.

Slow tests install from the package index. They skip where it cannot be reached, and where pip would fetch a torch for
GPUs: gigabytes of it. What needs no torch is tested there nevertheless.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import tomllib
import urllib.error
import urllib.request
from pathlib import Path
from zipfile import ZipFile

import pytest
import yaml
from packaging.requirements import Requirement

from tests.processes import SECONDS, running

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
TESTED = ROOT / "constraints.txt"
CONTAINER = ROOT / "examples" / "container"
BUNDLE = ROOT / "tests" / "bundles" / "0.1.0"
EXTRAS = {"fast", "serve"}
WITHOUT_TORCH = (
    "--help",
    "prepare-data toy-en-de",
    "build-vocab",
    "score --reference data/toy-en-de/test.de data/toy-en-de/test.de",
)
WITH_TORCH = (
    "train --max-minutes 1 --set validation.bleu_sentences=5",
    "average-checkpoints --last 1",
    "report",
    "translate --input few.en --output few.hypothesis --no-guard",
    "translate --engine ctranslate2 --input few.en --output few.fast --no-guard",
    "score --reference few.de few.hypothesis few.fast",
    "inspect few.hypothesis",
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The wheel, built from the source archive, as whoever packs nmt builds it."""
    folder = tmp_path_factory.mktemp("built")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    [archive] = folder.glob("*.tar.gz")
    pip(sys.executable, "wheel", "--no-deps", "--no-build-isolation", "-w", folder, archive)
    [path] = folder.glob("*.whl")
    return path


def test_the_wheel_holds_every_file_of_the_package_and_the_licence(wheel):
    package = {path.relative_to(ROOT).as_posix() for path in (ROOT / "nmt").rglob("*") if path.is_file()}
    packed = set(ZipFile(wheel).namelist())
    assert {name for name in packed if name.startswith("nmt/")} == {name for name in package if ".pyc" not in name}
    assert [name for name in packed if name.endswith(".dist-info/licenses/LICENSE")]


def test_the_page_of_an_index_has_no_link_that_leads_nowhere(wheel):
    [metadata] = [name for name in ZipFile(wheel).namelist() if name.endswith(".dist-info/METADATA")]
    page = ZipFile(wheel).read(metadata).decode().partition("\n\n")[2]
    links = re.findall(r"\]\(([^)]+)\)", page)
    assert links and all(link.startswith("https://") for link in links)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "versions"),
    [("python3.11", "oldest"), ("python3.11", "newest"), ("python3.12", "newest"), ("python3.13", "newest")],
)
def test_an_installation_works_and_leaves_nothing_behind(name, versions, wheel, tmp_path):
    """Oldest are the lower bounds of pyproject.toml, newest those of constraints.txt.

    If pip has no torch for CPUs that is so old, the oldest of all else are tried with the newest torch.
    """
    python = environment(name, tmp_path / "environment")
    needed = list(map(Requirement, PROJECT["dependencies"]))
    for extra in EXTRAS:
        needed += map(Requirement, PROJECT["optional-dependencies"][extra])
    pins = oldest_versions(needed) if versions == "oldest" else newest_versions()
    torch = next((pin for pin in (pins.pop("torch"), newest_versions()["torch"]) if has_cpu_torch(python, pin)), None)
    constraints = tmp_path / "constraints.txt"
    constraints.write_text("\n".join([*pins.values(), *([torch] if torch else [])]))
    pip(python, "install", "-c", constraints, *(str(each) for each in needed if torch or each.name != "torch"))
    pip(python, "install", "-c", constraints, *([] if torch else ["--no-deps"]), wheel)

    home, work = tmp_path / "home", tmp_path / "work"
    for folder in (home, work):
        folder.mkdir()
    for step in WITHOUT_TORCH:
        run_nmt(python, step, home=home, cwd=work)
    if torch:
        for language in ("en", "de"):
            lines = (work / f"data/toy-en-de/test.{language}").read_text("utf-8").splitlines(keepends=True)
            (work / f"few.{language}").write_text("".join(lines[:5]), "utf-8")
        for step in WITH_TORCH:
            run_nmt(python, step, home=home, cwd=work)
        assert (work / "few.hypothesis").read_text("utf-8").count("\n") == 5
        check_server(python, work / "runs" / "toy-en-de-tiny", home=home)

    pip(python, "uninstall", "--yes", "nmt-toolkit")
    packages = python.parents[1].glob("lib/python*/site-packages/nmt*")
    assert [*packages, *python.parent.glob("nmt*")] == []
    assert {path.relative_to(home).as_posix() for path in home.glob("*/*")} <= {".cache/nmt"}
    assert {path.name for path in work.iterdir()} >= {"data"}
    if not torch:
        pytest.skip("pip would fetch a torch for GPUs, or finds none: only what needs no torch was tested")


@pytest.mark.slow
def test_every_extra_goes_with_the_tested_versions(wheel, tmp_path):
    python = environment("python3.11", tmp_path / "environment")
    if not has_cpu_torch(python, newest_versions()["torch"]):
        pytest.skip("pip would fetch a torch for GPUs, or finds none")
    extras = ",".join(PROJECT["optional-dependencies"])
    pip(python, "install", "--dry-run", "-c", TESTED, f"{wheel}[{extras}]")


@pytest.mark.slow
def test_the_container_translates_and_serves_without_what_a_server_does_not_need(tmp_path):
    """What the Containerfile does, from the files that Docker hands to it. The base image takes another 0.15 GB."""
    python = environment("python3.11", tmp_path / "environment")
    if not has_cpu_torch(python, newest_versions()["torch"]):
        pytest.skip("pip would fetch a torch for GPUs, or finds none")
    source, installed = tmp_path / "source", tmp_path / "installed"
    for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines():
        if line.startswith("!"):
            copy(ROOT / line[1:], source / line[1:])
    script = source / CONTAINER.relative_to(ROOT) / "install.sh"
    subprocess.run(["sh", script, installed], check=True, env=environment_of_users(PYTHON=str(python)))

    files = [path for path in installed.rglob("*") if path.is_file() and not path.is_symlink()]
    assert sum(path.stat().st_blocks * 512 for path in files) < 850 * 2**20
    assert [path for path in files if {"tests", "pip"} & set(path.relative_to(installed).parts)] == []

    (home := tmp_path / "home").mkdir()
    python = installed / "bin" / "python"
    translated = run_nmt(python, f"translate --model {BUNDLE}", home=home, cwd=tmp_path, text="a b\n")
    assert translated.count("\n") == 1
    check_server(python, BUNDLE, home=home)


def check_server(python: Path, model: Path, *, home: Path) -> None:
    """Run the image's command at a free port; then ask for its health and a translation, and end it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    told = instructions()
    command = [*json.loads(told["ENTRYPOINT"]), *json.loads(told["CMD"]), "--port", port]
    command = [str(model) if word == "/models" else word for word in command]
    check = json.loads(told["HEALTHCHECK"].partition("CMD ")[2].replace(":5000", f":{port}"))
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/translate",
        json.dumps({"q": "a b", "source": "en", "target": "de"}).encode(),
        {"Content-Type": "application/json"},
    )
    users = environment_of_users(HOME=str(home), PATH=f"{python.parent}{os.pathsep}{os.environ['PATH']}")
    with running(command, env=users) as server:
        deadline = time.monotonic() + SECONDS
        while subprocess.run(check, env=users, capture_output=True, check=False).returncode != 0:
            assert server.poll() is None and time.monotonic() < deadline
            time.sleep(0.2)
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            assert json.load(answer)["translatedText"]
        server.terminate()
        assert server.wait(SECONDS) == 0


def test_the_containers_files_agree():
    """SIGTERM reaches nmt without a shell, the user is not root, and the service has LibreTranslate's name and port."""
    told = instructions()
    assert json.loads(told["ENTRYPOINT"]) == ["nmt"]
    assert json.loads(told["CMD"]) == ["serve", "/models", "--host", "0.0.0.0", "--public"]
    user = told["USER"].partition(":")[0]
    assert int(user) > 0 and f"--uid {user} " in (CONTAINER / "Containerfile").read_text("utf-8")
    [service] = yaml.safe_load((CONTAINER / "compose.yaml").read_text("utf-8"))["services"].items()
    assert service[0] == "libretranslate"
    assert service[1]["ports"] == [f"127.0.0.1:{told['EXPOSE']}:5000"]
    assert (CONTAINER / service[1]["build"]["context"]).resolve() == ROOT
    assert (ROOT / service[1]["build"]["dockerfile"]).is_file()
    subprocess.run(["sh", "-n", CONTAINER / "install.sh"], check=True)
    for name in ("train", "translate"):
        job = (ROOT / "examples" / "kubernetes" / f"{name}.yaml").read_text("utf-8")
        assert f"fsGroup: {user}}}" in job


def instructions() -> dict[str, str]:
    """The instructions of the Containerfile by their name; of several with one name, the last."""
    text = (CONTAINER / "Containerfile").read_text("utf-8").replace("\\\n", "")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return dict(line.split(maxsplit=1) for line in lines)


def environment(name: str, folder: Path) -> Path:
    """The Python of a new environment, or a skip: there is no such Python, or no package index."""
    found = shutil.which(name)
    if found is None or subprocess.run([found, "-c", "import ensurepip"], capture_output=True, check=False).returncode:
        pytest.skip(f"there is no {name}")
    subprocess.run([found, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    if address(python, "typer") is None:
        pytest.skip("the package index cannot be reached")
    return python


def has_cpu_torch(python: Path, requirement: str) -> bool:
    """Whether pip would take this torch from where torches for CPUs are; on macOS, all are."""
    url = address(python, requirement)
    return url is not None and (not sys.platform.startswith("linux") or url.startswith("file:") or "cpu" in url)


def address(python: Path, requirement: str) -> str | None:
    """Where pip would take a package from; None if it finds none."""
    options = ("--dry-run", "--no-deps", "--ignore-installed", "--retries", "0", "--report", "-")
    try:
        report = pip(python, "install", *options, requirement)
    except AssertionError:
        return None
    url: str = json.loads(report)["install"][0]["download_info"]["url"]
    return url


def oldest_versions(needed: list[Requirement]) -> dict[str, str]:
    """By name, a constraint to the lower bound."""
    bounds = {}
    for each in needed:
        [bounds[each.name]] = [f"{each.name}=={part.version}" for part in each.specifier if part.operator == ">="]
    return bounds


def newest_versions() -> dict[str, str]:
    """By name, the constraint of constraints.txt."""
    lines = [line for line in TESTED.read_text("utf-8").splitlines() if not line.startswith("#")]
    return {line.partition("==")[0]: line for line in lines}


def run_nmt(python: Path, step: str, *, home: Path, cwd: Path, text: str = "") -> str:
    """Run an installed command as a user with this home does; returns what it wrote to stdout."""
    command = [python.with_name("nmt"), *step.split()]
    users = environment_of_users(HOME=str(home))
    done = subprocess.run(command, cwd=cwd, env=users, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"nmt {step}: {done.stderr}"
    return done.stdout


def environment_of_users(**others: str) -> dict[str, str]:
    """The environment without what leads to this source, or to the cache of tests."""
    names = {"PYTHONPATH", "VIRTUAL_ENV", "XDG_CACHE_HOME"}
    return {name: value for name, value in os.environ.items() if name not in names} | others


def pip(python: Path | str, *arguments: object) -> str:
    """Run pip; returns what it wrote to stdout."""
    command = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment_of_users(), check=False)
    assert done.returncode == 0, f"pip {' '.join(map(str, arguments))}: {done.stderr}"
    return done.stdout


def copy(source: Path, target: Path) -> None:
    """Copy a file or a folder."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)
