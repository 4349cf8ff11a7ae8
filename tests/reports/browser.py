"""Pages in a headless browser."""

import shutil
import subprocess
from pathlib import Path

import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_chromium = pytest.mark.skipif(BROWSER is None, reason="neither chromium nor google-chrome is on PATH")


def opened(content: str, folder: Path) -> tuple[str, list[str]]:
    """Open a page, and return it as its scripts left it, and the messages on its console."""
    page = folder / "page.html"
    page.write_text(content, "utf-8")
    return visited(page.as_uri(), folder)


def visited(address: str, folder: Path) -> tuple[str, list[str]]:
    """As :func:`opened`, for a page at an address."""
    blank = folder / "blank.html"
    blank.write_text("<!doctype html><p>It runs.</p>", "utf-8")
    if "It runs." not in _dump(blank.as_uri(), folder).stdout:
        pytest.skip(f"{BROWSER} does not run here")
    done = _dump(address, folder)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def _dump(address: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}",
        "--window-size=1400,1000", "--enable-logging=stderr", "--v=0", "--dump-dom", address,
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=120, check=False)
