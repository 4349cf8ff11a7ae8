"""A double of unbabel-comet 2.2.7: the functions that are used, with the same parameters, errors and results.

It stands in for a package that needs older versions of others, and for a model of gigabytes. The score of a segment
is the share of its words that the reference has, or the source for a model without references.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path

logging.basicConfig(level=logging.INFO, format="%(message)s")


class Prediction(dict):
    """What a model returns; its items are attributes too."""

    __getattr__ = dict.__getitem__


class CometModel:
    """A model. Its checkpoint is JSON here: whether it needs references, and a score to give to every segment."""

    def __init__(self, settings):
        self._settings = settings

    def requires_references(self) -> bool:
        return self._settings.get("references", True)

    def predict(
        self,
        samples,
        batch_size=16,
        gpus=1,
        devices=None,
        mc_dropout=0,
        progress_bar=True,
        accelerator="auto",
        num_workers=None,
        length_batching=True,
    ) -> Prediction:
        logging.getLogger("pytorch_lightning").warning("an advertisement of the package")
        keys = {"src", "mt", "ref"} if self.requires_references() else {"src", "mt"}
        assert all(set(sample) == keys for sample in samples)
        assert not progress_bar
        self.calls = getattr(self, "calls", 0) + 1
        if "score" in self._settings:
            scores = [float(self._settings["score"])] * len(samples)
        else:
            scores = [_share(sample["mt"], sample.get("ref", sample["src"])) for sample in samples]
            if self._settings.get("unequal"):  # each text has digits of its own
                lengths = [[len(sample[key]) for key in ("src", "mt", "ref")] for sample in samples]
                scores = [source + 100 * line + 10_000 * reference for source, line, reference in lengths]
        return Prediction(scores=scores, system_score=sum(scores) / len(scores))


def load_from_checkpoint(
    checkpoint_path: str, reload_hparams: bool = False, strict: bool = False, local_files_only: bool = False
) -> CometModel:
    if not local_files_only:
        raise AssertionError("this would download the encoder")
    path = Path(checkpoint_path)
    if not path.is_file():
        raise Exception(f"Invalid checkpoint path: {path}")
    if not (path.parents[1] / "hparams.yaml").is_file():
        raise Exception(f"hparams.yaml file is missing from {path.parents[1]}!")
    return CometModel(json.loads(path.read_text("utf-8")))


def _share(line: str, other: str) -> float:
    words = line.split()
    return sum(word in other.split() for word in words) / max(1, len(words))
