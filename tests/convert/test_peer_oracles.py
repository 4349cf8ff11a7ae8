"""Imported models give the log-probabilities that the toolkits themselves gave to the same tiny models.

``data/peer_oracles.json`` holds what the toolkits' own modules computed with the weights that ``peers.py`` writes:
JoeyNMT, OpenNMT-py, Eole and Sockeye by themselves; for fairseq, its port FSMT in Hugging Face transformers.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from nmt.checkpoint.bundle import save_bundle
from nmt.config import Config
from nmt.convert.certificate.our_side import OurSide
from nmt.convert.certificate.reference_side import ReferenceSide
from nmt.convert.foreign import Given
from nmt.convert.formats import find_format
from nmt.convert.vocabulary import our_vocabulary
from nmt.convert.weights import our_weights
from tests.convert.peers import WRITERS

ORACLES = json.loads((Path(__file__).parent / "data" / "peer_oracles.json").read_text("utf-8"))


def test_every_toolkit_was_asked():
    assert {oracle["format"] for oracle in ORACLES} == WRITERS.keys() - {"marian", "huggingface"}


@pytest.mark.parametrize("oracle", ORACLES, ids=lambda oracle: f"{oracle['toolkit']} {oracle['options']}")
def test_scores_are_those_of_the_toolkit(oracle, tmp_path):
    origin = WRITERS[oracle["format"]](tmp_path / "theirs", **oracle["options"])
    model = find_format(origin).read(origin, Given())
    vocab = our_vocabulary(model)
    save_bundle(tmp_path / "bundle", our_weights(model), Config(model=model.config), vocab)
    sources, targets = (
        [[f"▁{piece}" for piece in case[side]] for case in oracle["cases"]] for side in ("source", "target")
    )
    for side in (OurSide(tmp_path / "bundle"), ReferenceSide(model)):
        for case, scores in zip(oracle["cases"], side.score(sources, targets), strict=True):
            np.testing.assert_allclose(scores, case["scores"], atol=2e-5, rtol=0, err_msg=side.name)
