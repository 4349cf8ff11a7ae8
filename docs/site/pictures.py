"""Draw the pictures of the documentation: ``python docs/site/pictures.py RUN``, with Chromium on the PATH and Pillow.

They show a report page and the page of ``nmt serve``, with a run of the toy pair (``make demo``), so no text of others.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote

from PIL import Image

PICTURES = Path(__file__).resolve().parents[1] / "pictures"
WIDTH = 1200
LARGEST = 150_000
"""Bytes of a picture."""
TEXT = "In the morning this famous doctor thanks the boy.\n\nEvery day a happy cook looks for the doctors."


def main(run: str) -> None:
    """Write docs/pictures/report.webp and server.webp."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        subprocess.run([sys.executable, "-m", "nmt", "report", run, "--out", str(page)], check=True)
        screenshot(page.as_uri(), 740, PICTURES / "report.webp")
    command = [sys.executable, "-m", "nmt", "serve", run, "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, encoding="utf-8") as server:
        try:
            assert server.stderr is not None
            started = next(line for line in server.stderr if "http://" in line)
            address = "http://" + started.partition("http://")[2].split()[0]
            screenshot(f"{address}#en/de/{quote(TEXT)}", 630, PICTURES / "server.webp")
        finally:
            server.terminate()


def screenshot(address: str, height: int, picture: Path) -> None:
    """Draw the beginning of a page, in its light colours, after its scripts had ten seconds."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        sys.exit("pictures: neither chromium nor google-chrome is on the PATH")
    with tempfile.TemporaryDirectory() as folder:
        drawn = Path(folder) / "drawn.png"
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=10000"]
        options += [f"--window-size={WIDTH},{height}", f"--screenshot={drawn}"]
        subprocess.run([browser, *options, address], check=True, timeout=120)
        picture.parent.mkdir(exist_ok=True)
        Image.open(drawn).convert("RGB").save(picture, quality=80, method=6)
    if picture.stat().st_size > LARGEST:
        sys.exit(f"pictures: {picture} has {picture.stat().st_size:,} bytes, more than {LARGEST:,}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) == 2 else "runs/toy-en-de-tiny")
