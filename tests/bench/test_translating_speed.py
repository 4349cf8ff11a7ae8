"""The benchmark of translating gives all the same work, and judges what they write."""

import dataclasses
import inspect
import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from nmt.bench import translate_worker, translating_speed
from nmt.bench.agreement import greedy_agreement
from nmt.bench.translating_speed import Setting, bench_translate, our_settings, save_random_bundle, source_pieces
from nmt.checkpoint.bundle import load_bundle
from nmt.errors import NmtError
from nmt.search.beam_search import beam_search
from nmt.search.settings import SearchSettings
from nmt.training.start.setup import resolve_config
from tests import on_padded
from tests.training.conftest import SETTINGS, complete, make_data_set

FP32 = Setting("nmt", "fp32")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_data_set(tmp_path_factory.mktemp("data") / "reversed")


@pytest.fixture(scope="module")
def model(data, tmp_path_factory):
    path = tmp_path_factory.mktemp("settings") / "quick.yaml"
    path.write_text(complete(SETTINGS))
    folder = tmp_path_factory.mktemp("model") / "bundle"
    save_random_bundle(folder, resolve_config([(data, 1.0)], config_file=path)[0], data)
    return folder


@pytest.mark.slow
def test_a_benchmark_counts_tokens_sentences_and_rounds(model, data):
    reported = []
    result = bench_translate(
        model, data, settings=[FP32], threads=1, rounds=2, sentences=7, length=5, report=reported.append
    )
    assert result["sentences"] == 7
    assert result["target_tokens_per_sentence"] == 5
    assert result["agreement"] == {}
    [(name, ours)] = result["contestants"].items()
    assert name == "nmt fp32"
    assert len(reported) == 1 + 3 * 2  # ready, and three tasks in each of two rounds
    for task in ("beam", "greedy"):
        assert len(ours[task]["rounds"]) == 2
        assert ours[task]["target_tokens_per_second"] == pytest.approx(5 * ours[task]["sentences_per_second"])
    assert ours["latency"]["median_milliseconds"] <= ours["latency"]["p99_milliseconds"]
    assert ours["latency"]["measured"] == 2 * 7
    assert ours["seconds_to_first_output"] > 0.01  # a process starts
    assert ours["peak_memory_bytes"] > 10 << 20


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


def test_both_engines_are_measured_in_one_run(model, data):
    pytest.importorskip("ctranslate2", reason="the extra `ctranslate2` is not installed")
    result = bench_translate(
        model, data, settings=our_settings(["torch", "ctranslate2"], ["fp32"]), threads=1, rounds=1, sentences=8,
        length=5, has_random_weights=True,
    )  # fmt: skip
    assert result["contestants"].keys() == result["ratios"].keys() == {"nmt fp32", "nmt-ctranslate2 fp32"}
    ratios = [
        result["ratios"]["nmt fp32"]["nmt-ctranslate2 fp32"],
        result["ratios"]["nmt-ctranslate2 fp32"]["nmt fp32"],
    ]
    assert ratios[0]["beam"] * ratios[1]["beam"] == pytest.approx(1)
    agreement = result["agreement"]["nmt-ctranslate2 fp32"]
    assert agreement["equal"] + agreement["ties"] == agreement["sentences"] == 8


def test_engines_are_measured_in_precisions_that_they_have(monkeypatch):
    pytest.importorskip("ctranslate2", reason="the extra `ctranslate2` is not installed")
    names = lambda engines, precisions: list(map(str, our_settings(engines, precisions)))  # noqa: E731
    assert names(["torch"], ["bf16", "int8", "bf16"]) == ["nmt bf16", "nmt int8"]
    assert names(["torch", "ctranslate2"], ["bf16", "int8"]) == ["nmt bf16", "nmt int8", "nmt-ctranslate2 int8"]
    assert names(["ctranslate2"], ["bf16"]) == ["nmt-ctranslate2 fp32"]
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(NmtError, match=r"--engine ctranslate2 needs ctranslate2, .*pip install ctranslate2"):
        our_settings(["ctranslate2"], ["fp32"])


@pytest.mark.slow
@pytest.mark.skipif("fbgemm" not in torch.backends.quantized.supported_engines, reason="needs an x86 processor")
def test_outputs_that_rounding_changes_are_counted(model, data):
    settings = our_settings(["torch"], ["fp32", "int8"])
    result = bench_translate(model, data, settings=settings, threads=1, rounds=1, sentences=9, length=5)
    assert result["contestants"].keys() == {"nmt fp32", "nmt int8"}
    [(name, rounding)] = result["rounding"].items()
    assert (name, rounding["sentences"]) == ("nmt int8", 9)
    assert rounding["equal"] < 9  # weights that were never trained hold all pieces for about equally good


def test_a_length_that_the_model_has_no_positions_for_is_refused(model, data):
    with pytest.raises(NmtError, match="2 to 1023"):
        bench_translate(model, data, settings=[FP32], threads=1, length=1_024)


def test_sources_are_the_test_set_as_pieces_with_eos(model, data):
    bundle = load_bundle(model)
    pieces = source_pieces(bundle, data, 5)
    lines = (data / "test.en").read_text().splitlines()[:5]
    assert bundle.vocab.source.decode([ids[:-1] for ids in pieces]) == lines
    assert all(ids[-1] == bundle.vocab.source.EOS for ids in pieces)


def test_sources_are_normalised_as_translate_normalises_them(model, data, tmp_path):
    bundle = load_bundle(model)
    shutil.copy(data / "manifest.json", tmp_path)
    lines = (data / "test.en").read_text().splitlines()[:5]
    wide = [line.translate({ordinal: ordinal + 0xFEE0 for ordinal in range(0x21, 0x7F)}) for line in lines]
    (tmp_path / "test.en").write_text("\n".join(wide) + "\n")
    normalising = bundle.config.data.model_copy(update={"source_normalization": "nmt_nfkc"})
    config = bundle.config.model_copy(update={"data": normalising})
    assert source_pieces(bundle, tmp_path, 5) != source_pieces(bundle, data, 5)
    assert source_pieces(dataclasses.replace(bundle, config=config), tmp_path, 5) == source_pieces(bundle, data, 5)


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


@pytest.mark.slow
def test_the_command_prints_json_on_stdout_and_nothing_else(data, tmp_path):
    command = [
        sys.executable, "-m", "nmt", "bench", "translate", "--preset", "tiny", "--data", str(data), "--rounds", "1",
        "--sentences", "3", "--length", "3", "--precision", "fp32",
    ]  # fmt: skip
    result = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    assert json.loads(result.stdout)["weights"] == "random"
    assert "beam, round 1 of 1: nmt fp32" in result.stderr
