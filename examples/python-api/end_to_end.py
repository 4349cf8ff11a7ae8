"""From nothing to a translated and scored test set, as the six commands of the README do it.

    python examples/python-api/end_to_end.py

Run it again: what is up to date stays, and what was interrupted resumes.
"""

import sys
from pathlib import Path
from typing import Any

import nmt


class Printing(nmt.Reporter):
    """Prints what the functions say; without one they are silent."""

    def notice(self, message: str) -> None:
        """Print a message."""
        print(message)


def main(folder: Path, max_updates: int = 1_000, **search: Any) -> float:
    say = Printing()
    data, run = folder / "data" / "toy-en-de", folder / "runs" / "toy"
    nmt.prepare_data("toy-en-de", out=data, report=say)
    nmt.build_vocab(data, report=say)
    nmt.train(data, preset="tiny", out=run, max_updates=max_updates, set="schedule.warmup=200")
    nmt.average_checkpoints(run, report=say)
    # The output resumes; nmt.load(run).translate(lines) translates what is in memory.
    output = folder / "hypothesis.de"
    nmt.translate_file(data / "test.en", output, model=run, report=say, **search)
    [bleu] = nmt.score(output, reference=data / "test.de").found.scores[str(output)]
    print(f"{bleu.name} = {bleu.value:.2f}\n{bleu.signature}")
    return bleu.value


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
