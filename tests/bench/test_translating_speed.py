"""The benchmark of translating gives all the same work, and judges what they write."""

import dataclasses
import inspect
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import translate_worker
import translating_speed
from agreement import greedy_agreement
from translate_worker import Job
from translating_speed import Setting, bench_translate, our_settings, source_pieces

from nmt.checkpoint.bundle import load_bundle
from nmt.errors import NmtError
from nmt.search.beam_search import beam_search
from nmt.search.settings import SearchSettings
from nmt.text.steps import SentencePieceRule
from tests import on_padded

GREEDY = SearchSettings(beam=1, max_extra_length=4, max_length=4)


def test_the_summary_of_known_measurements():
    rounds = [
        {
            "tokens": 50,
            "seconds": 2.0,
            "sentences": 10,
            "peak_memory": 3,
            "latencies": [0.001 * n for n in range(1, 102)],
        },
        {"tokens": 80, "seconds": 4.0, "sentences": 12, "peak_memory": 9, "latencies": []},
        {"tokens": 90, "seconds": 1.0, "sentences": 30, "peak_memory": 5, "latencies": []},
    ]
    found = translating_speed._summary({"beam": rounds, "greedy": rounds[:1], "latency": rounds})
    assert found["latency"] == pytest.approx({"median_milliseconds": 51, "p99_milliseconds": 100, "measured": 101})
    assert (found["beam"]["target_tokens_per_second"], found["beam"]["sentences_per_second"]) == (25, 5)
    assert (found["beam"]["rounds"], found["greedy"]["rounds"]) == ([25, 20, 90], [25])
    assert found["peak_memory_bytes"] == 9


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="this system does not tell what a process uses")
def test_the_peak_of_memory_counts_what_was_freed_since():
    lines = (
        "import resource, sys",
        "from nmt.machine.cores import bytes_in_proc",
        inspect.getsource(translate_worker._peak_memory),
        "block = bytearray(b'x') * (256 << 20)",
        "del block",
        "sys.stdout.write(f'{_peak_memory()} ' + open('/proc/self/statm').read())",
    )
    # A process that used little before: the peak of this one may be of another test.
    ran = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    peak, _, pages, *_ = map(int, ran.stdout.split())
    assert pages * resource.getpagesize() + (200 << 20) <= peak <= 400 << 20


def test_engines_are_measured_in_precisions_that_they_have(monkeypatch):
    pytest.importorskip("ctranslate2", reason="the extra `ctranslate2` is not installed")
    names = lambda engines, precisions: list(map(str, our_settings(engines, precisions)))  # noqa: E731
    assert names(["torch"], ["bf16", "int8", "bf16"]) == ["nmt bf16", "nmt int8"]
    assert names(["torch", "ctranslate2"], ["bf16", "int8"]) == ["nmt bf16", "nmt int8", "nmt-ctranslate2 int8"]
    assert names(["ctranslate2"], ["bf16"]) == ["nmt-ctranslate2 fp32"]
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(NmtError, match=r"--engine ctranslate2 needs ctranslate2, .*pip install ctranslate2"):
        our_settings(["ctranslate2"], ["fp32"])


def test_outputs_that_rounding_changes_are_counted(model):
    bundle = load_bundle(model)
    job = Job([[5, 6, 3], [7, 3]], 4, 5, 4, 2, False, 99, True, 1, "cpu")
    [[one], [two]] = [beam_search([bundle.build_model()], torch.tensor([s]), GREEDY) for s in job.sources]
    outputs = {Setting("nmt", "int8"): [list(one[0].pieces), [9, *two[0].pieces]]}
    found = translating_speed._agreements(bundle, job, outputs)
    assert found == {"agreement": {}, "rounding": {"nmt int8": {"sentences": 2, "equal": 1}}}


def test_a_length_that_the_model_has_no_positions_for_is_refused(model, data):
    with pytest.raises(NmtError, match="2 to 1023"):
        bench_translate(model, data, settings=our_settings(["torch"], ["fp32"]), threads=1, length=1_024)


def test_sources_are_the_test_set_as_translate_normalises_it_with_eos(model, data, tmp_path):
    bundle = load_bundle(model)
    shutil.copy(data / "manifest.json", tmp_path)
    lines = (data / "test.en").read_text().splitlines()[:5]
    wide = [line.translate({ordinal: ordinal + 0xFEE0 for ordinal in range(0x21, 0x7F)}) for line in lines]
    (tmp_path / "test.en").write_text("\n".join(wide) + "\n")
    normalising = bundle.config.data.model_copy(update={"source_text": (SentencePieceRule(rule="nmt_nfkc"),)})
    config = bundle.config.model_copy(update={"data": normalising})
    pieces = source_pieces(bundle, data, 5)
    assert bundle.vocab.source.decode([ids[:-1] for ids in pieces]) == lines
    assert all(ids[-1] == bundle.vocab.source.EOS for ids in pieces)
    assert source_pieces(bundle, tmp_path, 5) != pieces
    assert source_pieces(dataclasses.replace(bundle, config=config), tmp_path, 5) == pieces


def test_agreement_tells_ties_from_differences(model):
    network = load_bundle(model).build_model(dtype=torch.float64)
    sources = [[5, 6, 3], [5, 6, 3], [5, 6, 3]]
    [[best]] = beam_search([network], torch.tensor(sources[:1]), SearchSettings(beam=1, max_length=3, min_length=3))
    twin, worse = 30, 31
    assert not {twin, worse} & set(best.pieces)
    with torch.no_grad():
        network.embedding.weight[twin] = network.embedding.weight[best.pieces[1]]
    ours = list(best.pieces)
    found = greedy_agreement(
        network, sources, [ours] * 3, [ours, [ours[0], twin, ours[2]], [ours[0], worse, ours[2]]]
    )  # fmt: skip
    assert (found.sentences, found.equal, found.ties) == (3, 1, 1)
    [difference] = found.differences
    assert (difference.sentence, difference.place) == (2, 1)
    logits_V = on_padded.logits(network, torch.tensor(sources[:1]), torch.tensor([[2, ours[0]]]))[0, -1]
    gap = pytest.approx((logits_V[ours[1]] - logits_V[worse]).item())
    assert difference.gap == gap
    found = greedy_agreement(network, sources[:1], [[ours[0], worse, ours[2]]], [ours])
    assert [difference.gap for difference in found.differences] == [gap]  # whoever chose the worse piece


def test_an_output_that_ends_early_is_a_difference(model):
    network = load_bundle(model).build_model(dtype=torch.float64)
    found = greedy_agreement(network, [[5, 6, 3]], [[7, 8]], [[7]])
    assert [difference.place for difference in found.differences] == [1]
