"""Cleaning at scale by the real command: memory does not grow with the corpus, and workers change no byte."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from nmt.io.hashing import sha256_of

NMT = [sys.executable, "-m", "nmt"]


def generated(folder: Path, pairs: int) -> None:
    """A parallel corpus of different pairs, with an empty side, a repetition and a long line here and there."""
    folder.mkdir()
    for language, words in (("en", "sentence number {} of many words that are there"), ("de", "Satz {} aus Woertern")):
        with (folder / f"corpus.{language}").open("w", encoding="ascii") as stream:
            for number in range(pairs):
                if number % 1_000 == 999:
                    stream.write("\n" if number % 2_000 == 999 else f"{'word ' * 300}\n")
                else:
                    stream.write(words.format(number - number % 100 if number % 100 == 1 else number) + "\n")
        (folder / f"few.{language}").write_text("".join(f"held out {n} {language}\n" for n in range(20)), "ascii")


def anonymous_memory(pid: int) -> int:
    """kB of a process and its children."""
    total = 0
    try:
        status = Path(f"/proc/{pid}/status").read_text("ascii")
        total += int(status.split("RssAnon:")[1].split()[0])
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()
    except (OSError, IndexError):  # it has ended
        return total
    return total + sum(anonymous_memory(int(child)) for child in children)


def prepared(folder: Path, name: str, workers: int) -> tuple[int, float]:
    """Prepare the corpus in a folder; the peak memory in kB, and the seconds that it took."""
    command = [
        *NMT, "prepare-data", name, "--source-lang", "en", "--target-lang", "de", "--jobs", str(workers),
        *("--train", "corpus", "--valid", "few", "--test", "few"), "--out", name,
    ]  # fmt: skip
    begin, peak = time.monotonic(), 0
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            peak = max(peak, anonymous_memory(process.pid))
            time.sleep(0.02)
        assert process.returncode == 0, process.stderr.read() if process.stderr else ""
    return peak, time.monotonic() - begin


def contents(folder: Path) -> dict[str, str]:
    return {path.name: sha256_of(path) for path in folder.iterdir() if path.suffix in (".en", ".de")}


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_cleaning_ten_times_the_pairs_takes_hardly_more_memory(tmp_path):
    # With fewer pairs, not all buffers would be full.
    few, many = 1_000_000, 10_000_000
    peaks = {}
    for pairs in (few, many):
        generated(tmp_path / str(pairs), pairs)
        peaks[pairs], seconds = prepared(tmp_path / str(pairs), "two", workers=2)
        print(f"{pairs:,} pairs: {pairs / seconds:,.0f} pairs per second, {peaks[pairs] / 1e3:,.0f} MB")
    prepared(tmp_path / str(few), "one", workers=1)
    assert contents(tmp_path / str(few) / "one") == contents(tmp_path / str(few) / "two")
    # A hash of 8 bytes that is kept for each pair would be noticed; measured: less than 1 byte per pair.
    assert 1e3 * (peaks[many] - peaks[few]) <= 3 * (many - few), peaks
