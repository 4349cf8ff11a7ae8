"""MarianMT of Hugging Face transformers, given our weights, computes and writes what we do.

``make test`` does not install transformers; ``pip install -e '.[bench]'`` does.
"""

import importlib.util
import sys
from pathlib import Path

import pytest
import torch

from nmt.errors import NmtError
from tests import on_padded
from tests.convert.conftest import LONGEST, beams_of, greedy_outputs, padded, weights_of

sys.path.append(str(Path(__file__).parents[2] / "examples" / "benchmarks"))
from marian import to_marian

needs_transformers = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None, reason="the extra `bench` is not installed"
)
MODELS = [
    pytest.param({}, id="the paper's"),
    pytest.param({"positions": "learned"}, id="learned positions"),
    pytest.param({"attention_bias": False, "norm_epsilon": 1e-4}, id="no attention bias, the largest epsilon"),
]


def their_beams(bundle, sources, *, beam: int, shortest: int, longest: int) -> list[list[list[int]]]:
    source_BS = padded(sources)
    found = to_marian(bundle).generate(
        input_ids=source_BS,
        attention_mask=(source_BS != 0).long(),
        do_sample=False,
        num_beams=beam,
        num_return_sequences=beam,
        min_new_tokens=shortest,
        max_new_tokens=longest + 1,
    )
    pieces = [target[1 : target.index(3, 1)] for target in found.tolist()]
    return [pieces[start : start + beam] for start in range(0, len(pieces), beam)]


@needs_transformers
@pytest.mark.parametrize("settings", MODELS)
def test_logits_are_ours(settings, make_bundle, sources):
    bundle = make_bundle(**settings)
    source_BS, target_BT = padded(sources), torch.tensor([[2, 9, 7, 30, 5]] * len(sources))
    with torch.no_grad():
        ours = on_padded.logits(bundle.build_model(), source_BS, target_BT)
        theirs = to_marian(bundle)(
            input_ids=source_BS, attention_mask=(source_BS != 0).long(), decoder_input_ids=target_BT
        )
    assert torch.allclose(theirs.logits[..., 3:], ours[..., 3:], atol=1e-4)
    assert (theirs.logits[..., :3] == -torch.inf).all()  # pad, unk and bos are never written


@needs_transformers
@pytest.mark.parametrize("settings", MODELS)
def test_greedy_outputs_are_ours(settings, make_bundle, sources):
    bundle = make_bundle(**settings)
    theirs = their_beams(bundle, sources, beam=1, shortest=0, longest=LONGEST)
    assert [best for [best] in theirs] == greedy_outputs(bundle, sources)


@needs_transformers
@pytest.mark.parametrize("settings", MODELS)
def test_beams_are_ours(settings, make_bundle, sources):
    bundle = make_bundle(**settings)
    long_sources = [source for source in sources if len(source) > 8]
    theirs = their_beams(bundle, long_sources, beam=4, shortest=4, longest=4)
    # In another order, perhaps: ours ranks by what ends with eos, which theirs takes for certain.
    assert [sorted(beams) for beams in theirs] == [sorted(beams) for beams in beams_of(bundle, long_sources, 4)]


@needs_transformers
def test_the_bundle_stays_as_it_was(make_bundle):
    bundle = make_bundle()
    before = weights_of(bundle)
    to_marian(bundle)
    assert all(torch.equal(weight, bundle.weights[name]) for name, weight in before.items())


def test_what_marian_cannot_express_is_refused(make_bundle):
    with pytest.raises(NmtError, match="cannot express norm: pre"):
        to_marian(make_bundle(norm="pre"))
    with pytest.raises(NmtError, match="cannot express d_k: 4, d_v: 8"):
        to_marian(make_bundle(d_k=4))
