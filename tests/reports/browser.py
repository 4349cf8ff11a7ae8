"""Pages in a headless browser."""

import shutil
import subprocess
from pathlib import Path

import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_chromium = pytest.mark.skipif(BROWSER is None, reason="neither chromium nor google-chrome is on PATH")


def opened(content: str, folder: Path) -> tuple[str, list[str]]:
    """Open a page, and return it as its scripts left it, and the messages on its console."""
    blank, page = folder / "blank.html", folder / "page.html"
    blank.write_text("<!doctype html><p>It runs.</p>", "utf-8")
    page.write_text(content, "utf-8")
    if "It runs." not in _dump(blank, folder).stdout:
        pytest.skip(f"{BROWSER} does not run here")
    done = _dump(page, folder)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def _dump(page: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}",
        "--window-size=1400,1000", "--enable-logging=stderr", "--v=0", "--dump-dom", page.as_uri(),
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=120, check=False)
