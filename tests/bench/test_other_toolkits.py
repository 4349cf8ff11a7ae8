"""examples/benchmarks: other toolkits do the same work as ours, and agree; how fast they are is not asserted."""

import json
import os
import subprocess
import sys
from pathlib import Path

import encode_worker
import numpy as np
import pytest
import rank_processes
import scaling
import speed_table
import training_peers
import translating
from encoding import bench_encode
from training_speed import bench_train
from translating_speed import bench_translate, our_settings

from nmt.data.vocab import train_vocabulary
from nmt.data.vocab_pair import VocabularyPair
from nmt.errors import NmtError
from tests.training.conftest import make_data_set

BENCHMARKS = Path(__file__).parents[2] / "examples" / "benchmarks"


@pytest.mark.parametrize("name", training_peers.PEERS)
def test_training_is_measured_beside_another_toolkit(name, data, config):
    if name not in training_peers.installed_peers():
        pytest.skip("the toolkit is not installed")
    result = bench_train(data, config, peers=training_peers.peer_programs([name], config.model), rounds=1, updates=1)
    ours, theirs = result["nmt"], result[name]
    assert theirs["ratio"] == pytest.approx(ours["target_tokens_per_second"] / theirs["target_tokens_per_second"])


@pytest.mark.parametrize("peer", ["ctranslate2", "transformers"])
def test_a_peer_is_measured_in_the_same_run_and_agrees(peer, model, data):
    """Beside both of our engines, where the peer is CTranslate2."""
    pytest.importorskip(peer, reason="the extra `bench` is not installed")
    engines = ["torch", "ctranslate2"] if peer == "ctranslate2" else ["torch"]
    settings = our_settings(engines, ["fp32"]) + translating.peer_settings([peer], ["fp32"], "cpu", 1)
    reported = []
    result = bench_translate(
        model, data, settings=settings, prepare=lambda folder, bundle: translating.prepare(folder, bundle, [peer]),
        threads=1, rounds=2, sentences=8, length=5, has_random_weights=True, report=reported.append,
    )  # fmt: skip
    assert len(reported) == 1 + 2 * 3 * len(settings)  # ready, and three tasks in two rounds
    measured = result["contestants"]
    assert list(measured) == list(map(str, settings))
    for contestant in measured.values():
        for task in ("beam", "greedy"):
            rate, lines = (contestant[task][f"{what}_per_second"] for what in ("target_tokens", "sentences"))
            assert rate == pytest.approx(5 * lines)
        assert contestant["latency"]["measured"] == 2 * 8
    assert len(result["agreement"]) >= len(engines)
    for agreement in result["agreement"].values():
        assert agreement["equal"] + agreement["ties"] == agreement["sentences"] == 8
    best = result["best"][peer]["beam"]
    ours, theirs = (measured[name]["beam"]["target_tokens_per_second"] for name in ("nmt fp32", best))
    assert result["ratios"]["nmt fp32"][best]["beam"] == pytest.approx(ours / theirs)


def test_ctranslate2_runs_with_one_worker_and_with_one_per_thread():
    pytest.importorskip("ctranslate2", reason="the extra `bench` is not installed")
    names = list(map(str, translating.peer_settings(["ctranslate2"], ["fp32"], "cpu", 2)))
    assert names == [
        "ctranslate2 float32", "ctranslate2 float32, 2 workers", "ctranslate2 int8", "ctranslate2 int8, 2 workers",
    ]  # fmt: skip


def test_a_peer_that_is_not_installed_is_named(monkeypatch):
    settings = translating.peer_settings
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(NmtError, match=r"--against ctranslate2 needs ctranslate2, .*pip install ctranslate2"):
        settings(["ctranslate2"], ["fp32"], "cpu", 1)


def test_all_encode_the_same_pieces():
    reported = []
    result = bench_encode(pairs=200, size=400, threads=2, rounds=2, report=reported.append)
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
def test_the_loop_with_files_holds_every_id(tmp_path, pieces, dtype):
    data = make_data_set(tmp_path / encode_worker.DATA)
    (data / "train.en").write_text(f"piece{pieces - 1}\n" * 3)
    (data / "train.de").write_text("piece7\n" * 3)
    small = train_vocabulary(["a b c d e f piece 0123456789"] * 9, size=30, model_type="unigram").vocab
    (tmp_path / encode_worker.MODEL).write_bytes(with_pieces(small.model_bytes, pieces))
    vocab = VocabularyPair.load(tmp_path / encode_worker.MODEL).source
    count = encode_worker._with_files(tmp_path, 1)()
    assert count() == 6
    last, seventh = vocab.ids([f"\u2581piece{pieces - 1}", "\u2581piece7"])
    assert last == vocab.size - 1
    # The file is written for each side anew.
    assert np.fromfile(tmp_path / "ids", dtype).tolist() == [seventh] * 3


@pytest.mark.parametrize(("gpus", "numbers"), [(0, []), (1, [1]), (2, [1, 2]), (6, [1, 2, 4, 6]), (8, [1, 2, 4, 8])])
def test_one_some_and_all_gpus_are_measured(monkeypatch, gpus, numbers):
    monkeypatch.setattr("torch.cuda.device_count", lambda: gpus)
    assert scaling.numbers_of_gpus() == numbers


@pytest.mark.parametrize(
    ("failing", "expected"), [(2, [(1, 1.0), (4, 0.5), (8, 0.25)]), (1, [(2, None), (4, None), (8, None)])]
)
def test_one_number_of_ranks_that_fails_leaves_the_others_in(monkeypatch, tmp_path, failing, expected):
    """Without the speed of one rank there are speeds, but no efficiencies."""
    reported = []

    def output(program, ranks, *, seconds):
        if ranks == failing:
            raise NmtError("no NVLink")
        return f'[["base", 25000, {ranks * 100 * (1 if ranks == 1 else 2 / ranks)}]]'

    monkeypatch.setattr(scaling, "output_of_main_rank", output)
    speeds = scaling.scaling_speeds(tmp_path, [1, 2, 4, 8], device="cuda", report=reported.append)
    assert [(speed.ranks, speed.efficiency) for speed in speeds] == expected
    assert f"left out: {failing} ranks: no NVLink" in reported


def test_ranks_that_print_much_end(tmp_path, monkeypatch):
    """A pipe holds 64 KiB."""
    (tmp_path / "talkative.py").write_text(
        "import sys\n"
        "sys.stderr.write('a warning of NCCL\\n' * 100_000)\n"
        "print('NCCL version\\n' * 100_000)\n"
        "print('[1]')\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    assert rank_processes.output_of_main_rank(["-m", "talkative"], 2, seconds=60) == "[1]"


def test_ranks_that_take_too_long_are_ended():
    with pytest.raises(NmtError, match="no result within 0 s"):
        rank_processes.output_of_main_rank(["-m", "nmt", "doctor"], 2, seconds=0.2)


def test_a_rank_that_fails_says_why(tmp_path):
    (tmp_path / "failing.py").write_text("import sys\nsys.exit('no kernel image')\n")
    with pytest.raises(NmtError, match=r"^no kernel image$"):
        rank_processes.output_of_main_rank([str(tmp_path / "failing.py")], 2, seconds=60)


def printed(folder, *words):
    """The JSON that a command prints on stdout, where nothing else is."""
    command = [sys.executable, BENCHMARKS, *map(str, words)]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    assert ran.returncode == 0, ran.stderr
    result = json.loads(ran.stdout)
    assert result["benchmark"] == words[0]
    return result


@pytest.mark.slow
def test_the_table_of_a_machine(monkeypatch):
    updates = tuple(speed_table.Updates(preset, 300, 200, 1) for preset in ("tiny", "no such"))
    sizes = speed_table.Sizes(60, updates, 2, 16, batch_tokens=(99,), precisions=("fp32",), translating="tiny")
    monkeypatch.setattr(speed_table, "_ROUNDS", 1)
    reported = []
    table = speed_table.speed_table(report=reported.append, sizes=sizes)
    rows = [row.split("|")[1:-1] for row in table.splitlines() if row.startswith("|") and "--" not in row]
    kinds = [row[0].strip() for row in rows]
    assert kinds[:2] == ["training", "`tiny`"] and kinds[2:4] == ["translating, `tiny`", "fp32"]
    assert int(rows[1][5].replace(",", "")) > 0
    assert all(" | ".join(map(str.strip, rows[index])) in reported for index in (1, 3))
    assert any(line.startswith("left out: ") for line in reported)


@pytest.mark.slow
def test_the_commands_of_one_toolkit(data, model, tmp_path):
    options = ["--data", data, "--alone", "--rounds", 1]
    trained = printed(tmp_path, "train", *options, "--preset", "tiny", "--updates", 1, "--update-tokens", 200)
    assert trained["nmt"]["target_tokens_per_second"] > 0 and len(trained["spare_rows_on_gpus"]) == 2
    translated = printed(tmp_path, "translate", *options, "-m", model, "--sentences", 4, "--length", 4)
    assert {name.split()[0] for name in translated["contestants"]} == {"nmt"}


@pytest.mark.slow
def test_the_command_measures_several_ranks(data, tmp_path):
    options = ["--device", "cpu", "--ranks", 1, "--ranks", 2, "--preset", "tiny", "--update-tokens", 1_000]
    one, two = printed(tmp_path, "scaling", "--data", data, *options, "--updates", 2)["speeds"]
    assert (one["ranks"], one["efficiency"], two["ranks"]) == (1, 1.0, 2)
    assert two["efficiency"] == pytest.approx(two["tokens_per_second"] / one["tokens_per_second"] / 2)
