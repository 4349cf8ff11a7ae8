"""Draw the pictures of the documentation: ``python docs/site/pictures.py RUN``, with Chromium on the PATH and Pillow.

The picture of a report page is that of a run of the toy pair (``make demo``), so it shows no text of others.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

PICTURES = Path(__file__).resolve().parents[1] / "pictures"
WIDTH, HEIGHT = 1200, 740
LARGEST = 150_000
"""Bytes of a picture."""


def main(run: str) -> None:
    """Write docs/pictures/report.webp."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        subprocess.run([sys.executable, "-m", "nmt", "report", run, "--out", str(page)], check=True)
        screenshot(page, PICTURES / "report.webp")


def screenshot(page: Path, picture: Path) -> None:
    """Draw the beginning of a page, in its light colours."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        sys.exit("pictures: neither chromium nor google-chrome is on the PATH")
    drawn = page.with_suffix(".png")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={WIDTH},{HEIGHT}"]
    subprocess.run([browser, *options, f"--screenshot={drawn}", page.as_uri()], check=True, timeout=120)
    picture.parent.mkdir(exist_ok=True)
    Image.open(drawn).convert("RGB").save(picture, quality=80, method=6)
    if picture.stat().st_size > LARGEST:
        sys.exit(f"pictures: {picture} has {picture.stat().st_size:,} bytes, more than {LARGEST:,}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) == 2 else "runs/toy-en-de-tiny")
