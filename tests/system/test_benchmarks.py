"""examples/benchmarks: other toolkits do the same work as ours, and agree; how fast they are is not asserted."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nmt.bench.training_speed import bench_train
from nmt.bench.translating_speed import bench_translate, our_settings, save_random_bundle
from nmt.data.vocab import train_vocabulary
from nmt.data.vocab_pair import VocabularyPair
from nmt.errors import NmtError
from nmt.training.start.setup import resolve_config
from tests.bench.conftest import separate_data_set
from tests.training.conftest import SETTINGS, complete, make_data_set

BENCHMARKS = Path(__file__).parents[2] / "examples" / "benchmarks"


@pytest.fixture(scope="module")
def of_benchmarks():
    """Imports a module of the example, which is no package."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        yield importlib.import_module


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_data_set(tmp_path_factory.mktemp("data") / "reversed")


def config_for(data, folder, *settings):
    (folder / "quick.yaml").write_text(complete(SETTINGS))
    return resolve_config([(data, 1.0)], config_file=folder / "quick.yaml", settings=list(settings))[0]


@pytest.fixture(scope="module")
def model(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    save_random_bundle(folder / "bundle", config_for(data, folder), data)
    return folder / "bundle"


def measured(translating, model, data, peers, threads=1):
    settings = our_settings(["torch"], ["fp32"]) + translating.peer_settings(peers, ["fp32"], "cpu", threads)
    return bench_translate(
        model, data, settings=settings,
        prepare=lambda folder, bundle: translating.prepare(folder, bundle, peers), threads=threads, rounds=1,
        sentences=8, length=5, has_random_weights=True, beam=4,
    )  # fmt: skip


def test_training_is_measured_beside_transformers(data, tmp_path):
    pytest.importorskip("transformers", reason="the extra `bench` is not installed")
    peers = {"transformers": [str(BENCHMARKS / "training_peer.py")]}
    result = bench_train(data, config_for(data, tmp_path), peers=peers, rounds=1, updates=1)
    ours, theirs = result["nmt"], result["transformers"]
    assert theirs["ratio"] == pytest.approx(ours["target_tokens_per_second"] / theirs["target_tokens_per_second"])


@pytest.mark.parametrize("peer", ["ctranslate2", "transformers"])
def test_a_peer_is_measured_in_the_same_run_and_agrees(of_benchmarks, peer, model, data):
    pytest.importorskip(peer, reason="the extra `bench` is not installed")
    result = measured(of_benchmarks("translating"), model, data, [peer], 2)
    for agreement in result["agreement"].values():
        assert agreement["equal"] + agreement["ties"] == agreement["sentences"] == 8
    assert result["agreement"]
    theirs = result["contestants"][result["best"][peer]["beam"]]["beam"]["target_tokens_per_second"]
    ours = result["contestants"]["nmt fp32"]["beam"]["target_tokens_per_second"]
    assert result["ratios"]["nmt fp32"][result["best"][peer]["beam"]]["beam"] == pytest.approx(ours / theirs)
    if peer == "ctranslate2":
        assert result["contestants"].keys() == {
            "nmt fp32", "ctranslate2 float32", "ctranslate2 float32, 2 workers", "ctranslate2 int8",
            "ctranslate2 int8, 2 workers",
        }  # fmt: skip


@pytest.mark.slow
def test_a_model_with_two_vocabularies_is_measured(of_benchmarks, tmp_path):
    pytest.importorskip("ctranslate2", reason="the extra `bench` is not installed")
    data = separate_data_set(tmp_path / "reversed")
    config = config_for(data, tmp_path, "model.tied_embeddings=decoder")
    save_random_bundle(tmp_path / "bundle", config, data)
    result = measured(of_benchmarks("translating"), tmp_path / "bundle", data, ["ctranslate2"])
    assert result["contestants"]["nmt fp32"]["beam"]["target_tokens_per_second"] > 0
    for agreement in result["agreement"].values():
        assert agreement["equal"] + agreement["ties"] == agreement["sentences"]
    assert result["agreement"]


def test_a_peer_that_is_not_installed_is_named(of_benchmarks, monkeypatch):
    settings = of_benchmarks("translating").peer_settings
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(NmtError, match=r"--against ctranslate2 needs ctranslate2, .*pip install ctranslate2"):
        settings(["ctranslate2"], ["fp32"], "cpu", 1)


def test_all_encode_the_same_pieces(of_benchmarks):
    reported = []
    result = of_benchmarks("encoding").bench_encode(pairs=200, size=400, threads=2, rounds=2, report=reported.append)
    assert len(reported) == 6
    names = ("nmt", "sentencepiece", "sentencepiece with files")
    assert all(len(result[name]["rounds"]) == 2 for name in names)
    assert len({result[name]["pieces"] for name in names}) == 1
    assert result["nmt"]["pieces"] > 200 * 2 * 23
    ratios = [ours / other for ours, other in zip(*(result[name]["rounds"] for name in names[:2]), strict=True)]
    assert result["sentencepiece"]["ratio"] == sum(ratios) / 2


def with_pieces(model: bytes, count: int) -> bytes:
    """A unigram model with further pieces: the field ``pieces`` of its message, again and again."""
    texts = (f"\u2581piece{number}".encode() for number in range(count))
    pieces = (b"\x0a" + bytes([len(text)]) + text + b"\x15" + np.float32(-1).tobytes() for text in texts)
    return model + b"".join(b"\x0a" + bytes([len(piece)]) + piece for piece in pieces)


@pytest.mark.parametrize(("pieces", "dtype"), [(100, np.uint16), (70_000, np.uint32)])
def test_the_loop_with_files_holds_every_id(of_benchmarks, tmp_path, pieces, dtype):
    worker = of_benchmarks("encode_worker")
    data = make_data_set(tmp_path / worker.DATA)
    (data / "train.en").write_text(f"piece{pieces - 1}\n" * 3)
    (data / "train.de").write_text("piece7\n" * 3)
    small = train_vocabulary(["a b c d e f piece 0123456789"] * 9, size=30, model_type="unigram").vocab
    (tmp_path / worker.MODEL).write_bytes(with_pieces(small.model_bytes, pieces))
    vocab = VocabularyPair.load(tmp_path / worker.MODEL).source
    count = worker._with_files(tmp_path, 1)()
    assert count() == 6
    last, seventh = vocab.ids([f"\u2581piece{pieces - 1}", "\u2581piece7"])
    assert last == vocab.size - 1
    # The file is written for each side anew.
    assert np.fromfile(tmp_path / "ids", dtype).tolist() == [seventh] * 3


@pytest.mark.parametrize(("gpus", "numbers"), [(0, []), (1, [1]), (2, [1, 2]), (6, [1, 2, 4, 6]), (8, [1, 2, 4, 8])])
def test_one_some_and_all_gpus_are_measured(of_benchmarks, monkeypatch, gpus, numbers):
    monkeypatch.setattr("torch.cuda.device_count", lambda: gpus)
    assert of_benchmarks("scaling").numbers_of_gpus() == numbers


@pytest.mark.parametrize(
    ("failing", "expected"),
    [(2, [(1, 1.0), (4, 0.5), (8, 0.25)]), (1, [(2, None), (4, None), (8, None)])],
)
def test_one_number_of_ranks_that_fails_leaves_the_others_in(of_benchmarks, monkeypatch, tmp_path, failing, expected):
    """Without the speed of one rank there are speeds, but no efficiencies."""
    scaling, reported = of_benchmarks("scaling"), []

    def output(program, ranks, *, seconds):
        if ranks == failing:
            raise NmtError("no NVLink")
        return f'[["base", 25000, {ranks * 100 * (1 if ranks == 1 else 2 / ranks)}]]'

    monkeypatch.setattr(scaling, "output_of_main_rank", output)
    speeds = scaling.scaling_speeds(tmp_path, [1, 2, 4, 8], device="cuda", report=reported.append)
    assert [(speed.ranks, speed.efficiency) for speed in speeds] == expected
    assert f"left out: {failing} ranks: no NVLink" in reported


def test_ranks_that_print_much_end(of_benchmarks, tmp_path, monkeypatch):
    """A pipe holds 64 KiB."""
    (tmp_path / "talkative.py").write_text(
        "import sys\n"
        "sys.stderr.write('a warning of NCCL\\n' * 100_000)\n"
        "print('NCCL version\\n' * 100_000)\n"
        "print('[1]')\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    assert of_benchmarks("rank_processes").output_of_main_rank(["-m", "talkative"], 2, seconds=60) == "[1]"


def test_ranks_that_take_too_long_are_ended(of_benchmarks):
    with pytest.raises(NmtError, match="no result within 0 s"):
        of_benchmarks("rank_processes").output_of_main_rank(["-m", "nmt", "doctor"], 2, seconds=0.2)


def test_a_rank_that_fails_says_why(of_benchmarks, tmp_path):
    (tmp_path / "failing.py").write_text("import sys\nsys.exit('no kernel image')\n")
    with pytest.raises(NmtError, match=r"^no kernel image$"):
        of_benchmarks("rank_processes").output_of_main_rank([str(tmp_path / "failing.py")], 2, seconds=60)


def printed(folder, *words):
    """The JSON that a command prints on stdout, where nothing else is."""
    command = [sys.executable, BENCHMARKS, *map(str, words)]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    assert ran.returncode == 0, ran.stderr
    result = json.loads(ran.stdout)
    assert result["benchmark"] == words[0]
    return result


@pytest.mark.slow
def test_the_command_trains_beside_transformers(data, tmp_path):
    pytest.importorskip("transformers", reason="the extra `bench` is not installed")
    options = ["--preset", "tiny", "--rounds", 1, "--updates", 1, "--update-tokens", 200]
    assert printed(tmp_path, "train", "--data", data, *options)["transformers"]["ratio"] > 0


@pytest.mark.slow
def test_the_command_translates_beside_what_is_installed(of_benchmarks, data, model, tmp_path):
    options = ["-m", model, "--rounds", 1, "--sentences", 4, "--length", 4, "--threads", 1]
    result = printed(tmp_path, "translate", "--data", data, *options)
    toolkits = {name.split()[0] for name in result["contestants"]}
    assert toolkits == {"nmt", *of_benchmarks("translating").installed_peers()}


@pytest.mark.slow
def test_the_command_measures_several_ranks(data, tmp_path):
    options = ["--device", "cpu", "--ranks", 1, "--ranks", 2, "--preset", "tiny", "--update-tokens", 1_000]
    one, two = printed(tmp_path, "scaling", "--data", data, *options, "--updates", 2)["speeds"]
    assert (one["ranks"], one["efficiency"], two["ranks"]) == (1, 1.0, 2)
    assert two["efficiency"] == pytest.approx(two["tokens_per_second"] / one["tokens_per_second"] / 2)
