"""``nmt translate`` as people and pipelines run it, with an untrained model: what matters here are the lines."""

import contextlib
import gzip
import itertools
import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path

import pytest
import torch

import nmt
from nmt.checkpoint.bundle import save_bundle
from nmt.config import Config, DataConfig, DecodingConfig, ModelConfig
from nmt.convert.converting import export_model
from nmt.convert.ctranslate2.searcher import CTranslate2Searcher
from nmt.data.vocab import train_vocabulary
from nmt.data.vocab_pair import VocabularyPair
from nmt.model.transformer import Transformer
from nmt.translation.resuming import Begun, OutputFile
from nmt.translation.searcher import TorchSearcher
from tests.commands import nmt_for_scripts, run_command, run_here, running_command
from tests.processes import running

WORDS = ["ba", "do", "ki", "lu", "me", "no", "pa", "ru", "se", "ti"]
NMT = [sys.executable, "-m", "nmt"]
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}


def write_bundle(folder: Path, seed: int = 0, words: list[str] = WORDS) -> Path:
    vocab = train_vocabulary([" ".join(pair) for pair in itertools.permutations(words, 2)], size=50).vocab
    pair = VocabularyPair.shared(vocab)
    config = Config(
        model=ModelConfig(encoder_layers=1, decoder_layers=1, d_model=16, d_ff=16, heads=2, max_positions=64),
        data=DataConfig(source_lang="en", target_lang="de", vocab_fingerprint=pair.fingerprint, vocab_size=vocab.size),
        decoding=DecodingConfig(beam=2, max_extra_length=5),
    )
    torch.manual_seed(seed)
    model = Transformer(config.model, vocab.size)
    torch.nn.init.normal_(model.embedding.weight, std=0.7)
    save_bundle(folder, model.state_dict(), config, pair)
    return folder


@pytest.fixture(scope="module")
def bundle(tmp_path_factory) -> Path:
    return write_bundle(tmp_path_factory.mktemp("bundles") / "untrained")


def translate(bundle: Path, text: bytes, *options: str) -> subprocess.CompletedProcess[bytes]:
    return run_here(["translate", "--model", bundle, *options], text=text)


STRANGE = "\n".join(
    [
        "",
        "  \t ",
        "ba do",
        "ba " * 5000,
        "ba\u2028do\u0085ki",
        "lu me\r",
        "😀 no",
        "\x01\x1f\x7f",
        "",
        "ti",  # no line end behind the last one
    ]
)


def test_every_line_in_is_a_line_out_in_order(bundle):
    result = translate(bundle, STRANGE.encode())
    assert result.returncode == 0, result.stderr.decode()
    lines = result.stdout.split(b"\n")
    assert lines[-1] == b""
    assert len(lines) - 1 == STRANGE.count("\n") + 1
    assert lines[0] == lines[1] == lines[8] == b""
    for index in (2, 9):
        assert lines[index] == translate(bundle, STRANGE.split("\n")[index].encode()).stdout.rstrip(b"\n")
    assert b"warning: lines cut into parts: 1. They, or sentences in them, have more than 63 pieces." in result.stderr


def test_a_document_keeps_all_but_its_texts(bundle, tmp_path):
    (tmp_path / "a.properties").write_text("# Ba do ki lu\nx = Ba do ki lu\ny : 1\n")
    found = translate(bundle, b"", "--input", str(tmp_path / "a.properties"))
    [line] = translate(bundle, b"Ba do ki lu").stdout.splitlines()
    assert found.stdout == b"# Ba do ki lu\nx = " + line + b"\ny : 1\n", found.stderr.decode()


def test_paragraphs_keep_blank_lines_and_width(bundle):
    text = b"\nBa do ki lu\nme ki. Pa ru\nse ti.\n  \n\n  Ba do.\n"
    found = translate(bundle, text, "--input-format", "paragraphs")
    assert found.returncode == 0, found.stderr.decode()
    first, *rest, blank, empty, last, end = found.stdout.split(b"\n")
    assert (first, blank, empty, end) == (b"", b"  ", b"", b"")
    sentences = b"Ba do ki lu me ki.\nPa ru se ti.\nBa do.\n"
    expected = translate(bundle, sentences).stdout.split(b"\n")
    assert b" ".join(rest).split() == b" ".join(expected[:2]).split()
    assert all(len(line) <= 12 or b" " not in line for line in rest)
    assert last == b"  " + expected[2]
    assert b"parts" not in found.stderr
    assert b"sentence by sentence" not in found.stderr


def test_the_summary_knows_of_prefixes_and_of_a_guard_that_is_off(bundle, tmp_path):
    (tmp_path / "prefix").write_text("do\n\n")
    text = b"ba " * 100 + b"\nba do ki lu me no pa ru se ti\n"
    found = translate(bundle, text, "--beam", "1", "--prefix", str(tmp_path / "prefix"))
    messages = found.stderr.decode()
    assert "lines cut into parts: 1." in messages
    assert "Their prefixes were left out." in messages
    assert "translations that looked wrong: " in messages
    assert "--format jsonl says what was found in each line." in messages
    assert b"looked wrong" not in translate(bundle, text, "--beam", "1", "--no-guard").stderr


def test_invalid_utf8_is_named_after_the_lines_before_it_were_served(bundle):
    text = b"ba do\nki\nlu \xff me\nno\n"
    result = translate(bundle, text)
    assert result.returncode == 2
    assert result.stdout.count(b"\n") == 2
    assert b"standard input, line 3: byte 4" in result.stderr
    assert b"Traceback" not in result.stderr
    replaced = translate(bundle, text, "--invalid-utf8", "replace")
    assert (replaced.returncode, replaced.stdout.count(b"\n")) == (0, 4)


def test_a_line_is_answered_before_the_next_is_sent(bundle):
    with running_command(["translate", "--model", bundle, "--interactive"], stderr=None) as process:
        for line in (b"ba do\n", b"\n", b"ki\n"):
            process.stdin.write(line)
            process.stdin.flush()
            assert process.stdout.readline().endswith(b"\n")
        process.stdin.close()
        assert process.stdout.read() == b""
    assert process.returncode == 0


def test_whoever_stops_reading_is_no_error(bundle):
    with running_command(["translate", "--model", bundle, "--batch-tokens", "4096", "--beam", "1"]) as process:
        feeder = threading.Thread(target=_feed, args=(process.stdin, b"ba do ki\n" * 6_000))  # three windows
        feeder.start()
        process.stdout.readline()
        process.stdout.close()
        messages = process.stderr.read()
        feeder.join()
    assert process.returncode == 0
    assert b"Traceback" not in messages
    assert b"Broken" not in messages


def _feed(stdin, text: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), stdin:
        stdin.write(text)


def test_interrupted_twice_it_ends_without_a_word(bundle):
    with running_command(["translate", "--model", bundle, "--threads", "2", "--no-guard"]) as process:
        process.stdin.write(b"ba do ki lu me\n" * 4_096)  # and more may come
        process.stdin.flush()
        process.stdout.readline()
        for _ in range(2):
            process.send_signal(signal.SIGINT)
            time.sleep(0.005)
        _, messages = process.communicate(timeout=60)
    assert process.returncode == 130
    assert [line for line in messages.decode().splitlines() if not line.startswith("model: ")] == []


def test_interrupted_it_says_what_is_left(bundle, tmp_path):
    source, output = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("ba do ki lu me\n" * 50_000)
    partial = tmp_path / "out.txt.partial"
    with running_command(["translate", "--model", bundle, "--input", source, "--output", output]) as process:
        while not partial.exists() or not partial.stat().st_size:
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, messages = process.communicate(timeout=60)
    assert process.returncode == 130
    last = messages.decode().splitlines()[-1]
    assert last == f"interrupted: the finished part is in {partial}. Run the same command to resume."


def test_works_in_a_locale_without_unicode_and_without_a_terminal(bundle):
    plain = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    result = run_command(["translate", "--model", bundle], text="bä dö\n".encode(), environment=plain)
    assert result.returncode == 0, result.stderr.decode()
    assert result.stdout.decode("utf-8").count("\n") == 1
    assert b"\x1b" not in result.stderr


@pytest.mark.skipif(sys.platform == "darwin", reason="names of files are UTF-8 there")
@pytest.mark.slow
@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_names_of_files_may_be_any_bytes(bundle, tmp_path, locale):
    name = os.fsencode(tmp_path) + b"/caf\xe9.txt"
    environment = ENVIRONMENT | {"LC_ALL": locale, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [*NMT, "translate", "-m", str(bundle), "-i", name, "-o", name + b".out"]
    missing = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert missing.returncode == 2
    assert b"cannot be read" in missing.stderr
    with open(name, "wb") as stream:  # noqa: PTH123
        stream.write(b"ba do\n")
    for last in (b"", b"up to date"):
        result = subprocess.run(command, capture_output=True, env=environment, check=False)
        assert result.returncode == 0, result.stderr
        assert last in result.stderr


def test_after_invalid_utf8_the_command_that_the_error_names_resumes(bundle, tmp_path):
    source, out = tmp_path / "bad.txt", tmp_path / "out.txt"
    source.write_bytes(b"ba do\nki\nlu \xff\nno\n")
    files = ("--input", str(source), "--output", str(out))
    failed = translate(bundle, b"", *files)
    assert b"bad.txt, line 3: byte 4" in failed.stderr
    assert b"the same command with --invalid-utf8 replace" in failed.stderr
    resumed = translate(bundle, b"", *files, "--invalid-utf8", "replace")
    assert resumed.returncode == 0, resumed.stderr.decode()
    assert out.read_bytes().count(b"\n") == 4


def files_of(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}


def test_the_same_command_again_finds_all_up_to_date_and_another_is_refused(bundle, tmp_path):
    source, output = tmp_path / "in.txt", tmp_path / "out.de.txt"
    source.write_text("ba do\nki\n")
    command = ["--input", str(source), "--output", str(output)]
    assert translate(bundle, b"", *command).returncode == 0
    before = files_of(tmp_path)
    again = translate(bundle, b"", *command)
    assert again.returncode == 0
    assert again.stderr.decode().splitlines()[-1] == f"{output}: up to date (same model, input and settings)"
    other = write_bundle(tmp_path.parent / "other-model", seed=1)
    for refused, what in (
        (translate(bundle, b"", *command, "--beam", "3"), "beam (2 then, 3 now)"),
        (translate(bundle, b"", *command, "--format", "jsonl"), "format (text then, jsonl now)"),
        (translate(other, b"", *command), f"made differently: model (then {bundle})."),
        (translate(bundle, b"ba do\nki\n", "--output", str(output)), "cannot be compared"),
    ):
        assert refused.returncode == 2
        message = refused.stderr.decode().splitlines()[-1]
        assert what in message
        assert f"--fresh to start over in {tmp_path / 'out.de-2.txt'}." in message
    assert files_of(tmp_path) == before
    fresh = translate(bundle, b"", *command, "--beam", "3", "--fresh")
    assert fresh.returncode == 0
    beside = tmp_path / "out.de-2.txt"
    assert f"writing to {beside}, since {output} exists" in fresh.stderr.decode()
    assert beside.read_bytes().count(b"\n") == 2
    after = files_of(tmp_path)
    assert {name: after[name] for name in before} == before
    source.write_text("ba do\nlu\n")
    assert f"made differently: input (then {source}).".encode() in translate(bundle, b"", *command).stderr


@pytest.mark.slow
def test_open_streams_by_name_are_written_where_they_stand(bundle, tmp_path):
    (tmp_path / "in.txt").write_text("ba do\n")
    (tmp_path / "all.txt").write_text("before\n")
    expected = translate(bundle, b"ba do\n").stdout.decode()
    command = shlex.join([*NMT, "translate", "--model", str(bundle), "--input", "in.txt", "--output"])
    for name in ("/dev/stdout", "/dev/fd/1"):
        script = f"{command} {name} >> all.txt && {command} /dev/null"
        assert subprocess.run(["bash", "-c", script], env=ENVIRONMENT, cwd=tmp_path, check=False).returncode == 0
    assert (tmp_path / "all.txt").read_text() == "before\n" + expected * 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.txt", "in.txt"]


def test_several_models_are_an_ensemble_of_one_vocabulary(bundle, tmp_path):
    other = write_bundle(tmp_path / "other", seed=1)
    both = translate(bundle, b"ba do\n", "--model", str(other))
    assert both.returncode == 0
    stranger = write_bundle(tmp_path / "stranger", words=["zu", "xy", "wo", "va"])
    refused = translate(bundle, b"ba do\n", "--model", str(stranger))
    assert refused.returncode == 2
    assert b"different vocabularies" in refused.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--model", "nowhere"], ["nowhere", "no such"]),
        (["--input", "nowhere.txt"], ["nowhere.txt", "cannot be read"]),
        (["--batch-tokens", "1000001"], ["--batch-tokens: must be at most 1000000, got 1000001."]),
        (["--fresh"], ["--fresh", "--output FILE"]),
        (["--resume"], ["--output FILE and the same command"]),
        (["--seed", "3"], ["--seed", "--sample"]),
        (["--sample", "--temperature", "0"], ["--temperature: must be at least 0.000001, got 0.0."]),
        (["--input-format", "paragraphs", "--prefix", "p.txt"], ["--prefix", "--input-format lines"]),
        (["--input-format", "paragraphs", "--format", "tsv"], ["--format tsv", "--input-format lines"]),
        (["--input-format", "paragraphs", "--nbest", "2"], ["--nbest", "jsonl"]),
        (["--input-format", "html", "--nbest", "2"], ["--nbest", "--input-format lines or paragraphs"]),
        (["--input-format", "html", "--format", "jsonl"], ["--format jsonl", "--input-format lines"]),
        (["--retranslate"], ["--retranslate only goes with documents"]),
        (["--prefix", "nowhere.txt"], ["nowhere.txt", "there is no such file", "its line N"]),
        (["--output", "out.xz"], ["out.xz", "not compressed"]),
        (["--output", "in.txt/x"], ["in.txt/x: cannot be written", "in.txt is a file"]),
        (["--input", "in.txt", "--prefix", "two.txt"], ["in.txt has 1 line", "two.txt has 2"]),
        (["--model", "in.txt"], ["in.txt", "is a file", "folder"]),
        (["--input", "."], [".", "folder"]),
        (["in.txt", "--input", "in.txt"], ["in.txt", "given twice"]),
        (
            ["in.txt", "b.txt"],
            ["takes one input only", "unexpected argument: b.txt. Name the model with --model, the output"],
        ),
    ],
)
def test_mistakes_are_told_in_one_line(bundle, tmp_path, options, words):
    (tmp_path / "in.txt").write_text("ba do\n")
    (tmp_path / "two.txt").write_text("ba\ndo\n")
    model = [] if "--model" in options else ["--model", bundle]
    result = run_here(["translate", *model, *options], cwd=tmp_path)
    assert result.returncode == 2
    message = result.stderr.decode().splitlines()[-1]
    assert message.startswith("error: ")
    for word in words:
        assert word in message


def test_what_is_read_is_not_written_over(bundle, tmp_path):
    source, link = tmp_path / "in.txt", tmp_path / "link.txt"
    source.write_text("ba do\n")
    link.symlink_to(source)
    partial, record = tmp_path / "out.txt.partial", tmp_path / "out.txt.partial.json"
    for path in (partial, record):
        path.write_text("ki\n")
    for read, output in ((source, source), (source, link), (partial, "out.txt"), (record, "out.txt")):
        output = tmp_path / output
        for options in (["--input", str(read)], ["--input", str(source), "--prefix", str(read)]):
            refused = translate(bundle, b"", *options, "--output", str(output))
            assert refused.returncode == 2
            assert f"error: {output}: writing it would destroy the file of --".encode() in refused.stderr
    command = ["translate", "--model", bundle, "--output", source]
    with source.open("rb") as stdin, running_command(command, stdin=stdin) as process:
        assert process.wait() == 2
    assert source.read_text() == "ba do\n"
    assert partial.read_text() == record.read_text() == "ki\n"
    assert sorted(tmp_path.iterdir()) == [source, link, partial, record]


@pytest.mark.parametrize(
    ("redirection", "message"),
    [
        ("</dev/null >&-", "error: standard output is closed: give --output FILE."),
        ("<in.txt >/dev/full", "error: standard output: No space left on device."),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                ("<&-", "error: standard input is closed: give --input FILE."),
                ("<in.txt --output /dev/full", "error: /dev/full: No space left on device."),
                ("--help >/dev/full", "error: standard output: No space left on device."),
            )
        ),
    ],
)
def test_streams_that_cannot_be_used_are_told_in_one_line(bundle, tmp_path, redirection, message):
    (tmp_path / "in.txt").write_text("ba do\n")
    command = NMT if "&-" in redirection else ["./nmt"]  # a forked command has all of its streams
    script = f"{shlex.join([*command, 'translate', '--model', str(bundle)])} {redirection}"
    with nmt_for_scripts(tmp_path):
        result = subprocess.run(["bash", "-c", script], capture_output=True, env=ENVIRONMENT, cwd=tmp_path, check=False)
    assert result.returncode == 2
    lines = result.stderr.decode().splitlines()
    assert [line for line in lines if not line.startswith("model: ")] == [message]


@pytest.mark.slow
def test_a_million_lines_through_a_pipe_in_order_and_in_flat_memory(bundle):
    command = [*NMT, "translate", "--model", str(bundle), "--beam", "1", "--threads", "1", "--format", "jsonl"]
    command += ["--max-extra-length", "0", "--no-guard"]  # quick, and different lengths in each window
    dice = random.Random(0)  # no two windows, and so no two batches, are alike
    source = [" ".join(WORDS[: 1 + dice.randrange(5)]) for _ in range(1_000_000)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with running(command, seconds=3_600, env=ENVIRONMENT, **pipes) as process:
        content = "".join(f"{line}\n" for line in source).encode()
        feeder = threading.Thread(target=lambda: (process.stdin.write(content), process.stdin.close()))
        feeder.start()
        early = most = count = 0
        for line in process.stdout:
            record = json.loads(line)
            assert (record["line"], record["source"]) == (count + 1, source[count])
            count += 1
            if count % 1000 == 0:
                status = Path(f"/proc/{process.pid}/status").read_text()
                most = max(most, int(status.split("RssAnon:")[1].split()[0]))
                early = most if count <= 100_000 else early
        feeder.join()
    assert count == len(source)
    assert most <= early * 1.1


def lines_in_journal(partial: Path) -> int:
    """How many lines of the input are done, as the journal of an interrupted output says."""
    journal = OutputFile(partial.with_suffix("")).partial_record
    return Begun.of(json.loads(journal.read_text())).lines if journal.exists() else 0


LONG = "".join(f"{' '.join(WORDS[: 1 + number % 3])}\n" for number in range(4_200)).encode()


def test_killed_and_resumed_is_as_if_undisturbed(bundle, tmp_path):
    source, output = tmp_path / "in.txt.gz", tmp_path / "out.txt"
    source.write_bytes(gzip.compress(LONG))
    partial = tmp_path / "out.txt.partial"
    options = ["--input", str(source), "--no-guard", "--nbest", "2"]
    with running_command(["translate", "--model", bundle, *options, "--output", output]) as process:
        while lines_in_journal(partial) < 2_048:
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert not output.exists()
    with partial.open("ab") as stream:
        stream.write(b"half a li")
    resumed = translate(bundle, b"", *options, "--output", str(output))
    assert resumed.returncode == 0, resumed.stderr.decode()
    assert re.search(rb"resuming after line (2,048|4,096)", resumed.stderr)
    assert output.read_bytes() == translate(bundle, b"", *options).stdout
    assert sorted(tmp_path.iterdir()) == [tmp_path / ".out.txt.nmt.json", source, output]


@pytest.mark.parametrize(
    ("options", "threads"),
    [
        ({}, 1),  # the guard searches most outputs of an untrained model again
        ({"guard": False, "beam": 5, "nbest": 3}, 1),
        ({"sampling": nmt.Sampling(), "input_format": "paragraphs"}, 1),
        ({"engine": "ctranslate2", "guard": False}, 1),
        ({"guard": False}, 2),
    ],
)
def test_no_batch_is_searched_twice(bundle, tmp_path, monkeypatch, options, threads):
    if options.get("engine"):
        pytest.importorskip("ctranslate2")
        export_model(bundle, tmp_path / "exported", to="ctranslate2")
        bundle = tmp_path / "exported"
    source, searched, stop_after = tmp_path / "in.txt", [], None

    def search(self, batch, *args, **settings):
        if stop_after is not None and len(searched) >= stop_after:
            raise KeyboardInterrupt
        found = plain(self, batch, *args, **settings)
        searched.append([segment.text for segment in batch])
        return found

    searcher = CTranslate2Searcher if options.get("engine") else TorchSearcher
    plain = searcher._search
    monkeypatch.setattr(searcher, "_search", search)

    def run(name: str) -> str:
        searched.clear()
        given = {"batch_tokens": 64, "threads": threads, "device": "cpu"} | options
        nmt.translate_file(source, tmp_path / name, model=[bundle], **given)
        return (tmp_path / name).read_text()

    source.write_text("".join(f"{' '.join(WORDS[: 1 + number % 7])}\n\n" for number in range(90)))
    whole = run("whole")
    batches = [list(batch) for batch in searched]
    assert len(batches) > 6
    for stop_after in (1, len(batches) // 2, len(batches) - threads):
        name, stop = f"cut-{stop_after}", stop_after
        with pytest.raises(KeyboardInterrupt):
            run(name)
        before, stop_after = [list(batch) for batch in searched], None
        assert run(name) == whole
        assert sorted(before + searched) == sorted(batches)
        assert len(before) == stop or threads > 1


def test_a_kill_within_the_first_window_loses_no_batch(bundle, tmp_path):
    source, output = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("".join(f"{' '.join(WORDS[: 1 + number % 7])}\n\n" for number in range(90)))
    options = ["--model", str(bundle), "-i", str(source), "--batch-tokens", "64", "--no-guard", "--threads", "1"]
    dies_in_the_fifth = (
        "import itertools, os, signal, nmt.__main__, nmt.translation.resuming as resuming\n"
        "from nmt.translation.searcher import TorchSearcher\n"
        "resuming._SECONDS_TO_LOSE, search, calls = 0.0, TorchSearcher._search, itertools.count(1)\n"
        "TorchSearcher._search = lambda *args, **kept: (\n"
        "    os.kill(os.getpid(), signal.SIGKILL) if next(calls) == 5 else search(*args, **kept))\n"
        "nmt.__main__.main()"
    )
    command = [sys.executable, "-c", dies_in_the_fifth, "translate", *options, "-o", str(output)]
    assert subprocess.run(command, env=ENVIRONMENT, check=False).returncode == -signal.SIGKILL
    assert (tmp_path / "out.txt.partial").read_bytes() == b""
    resumed = run_here(["translate", *options, "--output", output])
    assert re.search(rb"resuming after line 0 of .*in\.txt; [1-9]\d* further lines were searched", resumed.stderr)
    assert output.read_bytes() == run_here(["translate", *options]).stdout
    assert sorted(tmp_path.iterdir()) == [tmp_path / ".out.txt.nmt.json", source, output]


def test_samples_and_prefixes_go_on_where_they_were(bundle, tmp_path):
    source, prefix, output = tmp_path / "in.txt", tmp_path / "prefix.txt", tmp_path / "out.txt"
    source.write_text("ba do\nki lu\n" * 1_100)
    prefix.write_text("se\n\n" * 1_100)
    options = ["--input", str(source), "--prefix", str(prefix), "--sample", "--beam", "1", "--output", str(output)]
    assert translate(bundle, b"", *options).returncode == 0
    whole = output.read_bytes()
    for path in OutputFile(output).names:
        path.unlink(missing_ok=True)
    # As if killed behind the first window: the record is what a try that fails in the second leaves behind.
    with source.open("ab") as stream, prefix.open("ab") as other:
        stream.write(b"\xff\n")
        other.write(b"\n")
    assert translate(bundle, b"", *options).returncode == 2
    partial = tmp_path / "out.txt.partial"
    partial.write_bytes(b"".join(whole.splitlines(keepends=True)[:2_048]))
    resumed = translate(bundle, b"", *options)
    assert b"resuming after line 2,048" in resumed.stderr
    assert partial.read_bytes() == whole
    prefix.write_text("ti\n" * 2_201)
    refused = translate(bundle, b"", *options)
    assert refused.returncode == 2
    assert f"was made differently: prefix (then {prefix}).".encode() in refused.stderr


def test_given_targets_are_scored(bundle, tmp_path):
    target = tmp_path / "target.txt"
    target.write_text("do ba\nki\n" + "lu " * 100 + "\n")

    def score(*options: str) -> subprocess.CompletedProcess[bytes]:
        return run_here(["score-target", "--model", bundle, "--target", *options], text=b"ba do\n\nme\n")

    plain = score(str(target), "--length-penalty", "0")
    assert plain.returncode == 0, plain.stderr.decode()
    scores = [[float(number) for number in line.split(b"\t")] for line in plain.stdout.splitlines()]
    assert [score == log_probability for score, log_probability in scores] == [True] * 3
    full = score(str(target), "--format", "jsonl", "--alignment")
    records = [json.loads(line) for line in full.stdout.splitlines()]
    assert [record["log_probability"] for record in records] == pytest.approx([scores[0][0], scores[1][0], None])
    assert sum(records[0]["piece_log_probabilities"]) == pytest.approx(scores[0][1], abs=1e-4)
    assert [len(record["alignment"] or []) for record in records] == [*(len(r["pieces"]) for r in records[:2]), 0]
    refused = score("-")
    assert refused.returncode == 2
    assert b"standard input (-) can be read only once: name a file for each" in refused.stderr


class Conversation:
    """A person at a terminal, whose lines go to the command and whose screen shows stderr."""

    def __init__(self, bundle: Path, *options: str, **environment: str) -> None:
        import pty

        self.ours, self.theirs = pty.openpty()
        self.modes = termios.tcgetattr(self.theirs)
        self.running = running_command(
            ["translate", "--model", bundle, "--no-guard", *options],
            environment={"TERM": "dumb"} | environment, stdin=self.theirs, stderr=self.theirs,
        )  # fmt: skip
        self.process = self.running.__enter__()
        self.shown = b""
        self.changing = threading.Lock()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        with contextlib.suppress(OSError):
            while piece := os.read(self.ours, 1000):
                with self.changing:
                    self.shown += piece

    def wait_for(self, end: bytes) -> bytes:
        """What was shown up to some words."""
        patience = time.monotonic() + 120
        while end not in self.shown:
            assert self.process.poll() is None, self.shown
            assert time.monotonic() < patience, self.shown
            time.sleep(0.01)
        with self.changing:
            before, _, self.shown = self.shown.partition(end)
        return before + end

    def type(self, typed: bytes) -> None:
        while typed:
            typed = typed[os.write(self.ours, typed[:500]) :]

    def answer(self) -> bytes:
        return self.process.stdout.readline()

    def end(self) -> int:
        code = self.process.wait(timeout=60)
        self.running.__exit__(None, None, None)
        assert termios.tcgetattr(self.theirs) == self.modes
        os.close(self.theirs)
        return code


def translated(record: dict[str, str]) -> tuple[str, str]:
    return record["source"], record["translation"]


@pytest.mark.parametrize("environment", [pytest.param({}, marks=pytest.mark.slow), {"LC_ALL": "C", "PYTHONUTF8": "0"}])
def test_in_a_terminal_it_converses(bundle, environment):
    """Prompts on stderr, and answers a line before the next is typed, without being told to."""
    long = b"ba do " * 2_000 + b"ki"
    expected = translate(bundle, b"ba do\nki lu\nb\xc3\xa4\n" + long + b"\n", "--no-guard", "--format", "jsonl").stdout
    # Scores differ in their last digits, since these lines are searched for in one batch.
    pairs = [translated(json.loads(line)) for line in expected.splitlines()]
    talk = Conversation(bundle, "--no-guard", "--format", "jsonl", **environment)
    talk.wait_for(b"> ")
    answers = []
    # The second one is edited (a character erased, the cursor moved); the last is longer than a terminal's own lines.
    for typed in (b"ba do\n", b"i luu\x7f\x01k\n", b"b\xc3\xa4\n", long + b"\n"):
        talk.type(typed)
        answers.append(translated(json.loads(talk.answer())))
        talk.wait_for(b"> ")
    assert answers == pairs
    talk.type(b"\x10\x10\x10\n")  # third from the last in the history
    assert json.loads(talk.answer())["source"] == "ki lu"
    talk.wait_for(b"> ")
    talk.type(b"ba \xff\n")
    assert talk.wait_for(b"Type it again.").endswith(
        b"line 6: byte 4 of the line (0xff) is not valid UTF-8. Type it again."
    )
    talk.wait_for(b"> ")
    talk.type(b"no\nki\nlu\n")  # pasted
    assert [json.loads(talk.answer())["source"] for _ in range(3)] == ["no", "ki", "lu"]
    talk.wait_for(b"> ")
    talk.type(b"\x04")  # Ctrl-D
    assert talk.end() == 0


def test_ctrl_c_ends_a_conversation_and_leaves_the_terminal_as_it_was(bundle):
    talk = Conversation(bundle)
    talk.wait_for(b"> ")
    talk.type(b"ba do")
    talk.wait_for(b"ba do")
    talk.process.send_signal(signal.SIGINT)
    assert talk.end() == 130
    assert b"Traceback" not in talk.shown


def test_a_conversation_needs_no_line_editor(bundle, tmp_path):
    (tmp_path / "readline.py").write_text("raise ImportError")
    talk = Conversation(bundle, PYTHONPATH=f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    talk.wait_for(b"> ")
    for typed in (b"ba do\n", b"ki\n"):
        talk.type(typed)
        assert talk.answer().endswith(b"\n")
        talk.wait_for(b"> ")
    talk.type(b"\x04")
    assert talk.end() == 0


@pytest.mark.skipif("fbgemm" not in torch.backends.quantized.supported_engines, reason="needs an x86 processor")
def test_int8_scores_what_it_wrote_as_the_search_did(bundle):
    result = translate(
        bundle, b"ba do\n\nki lu me no\n", "--precision", "int8", "--format", "jsonl", "--alignment", "--no-guard"
    )
    objects = [json.loads(line) for line in result.stdout.splitlines()]
    assert [o["source"] for o in objects] == ["ba do", "", "ki lu me no"]
    for candidate in (o["candidates"][0] for o in objects):
        forced = sum(candidate["piece_log_probabilities"])
        assert forced == pytest.approx(candidate["log_probability"], abs=1e-4)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp64"])
def test_the_api_takes_every_precision(bundle, precision):
    scores = {
        name: nmt.load(bundle, device="cpu", precision=name).score(["ba do ki"], ["lu me"])[0].score
        for name in ("fp64", precision)
    }
    assert scores[precision] == pytest.approx(scores["fp64"], rel={"fp64": 0, "fp32": 1e-5, "bf16": 0.05}[precision])
    assert (scores[precision] == scores["fp64"]) == (precision == "fp64")  # it was computed with, and not only accepted


def test_an_output_that_is_a_pipe_is_written_into(bundle, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with running_command(["translate", "--model", bundle, "--output", pipe], stderr=None) as process:
        process.stdin.write(b"ba do\n\nki\n")
        process.stdin.close()
        assert pipe.read_bytes().count(b"\n") == 3
    assert process.returncode == 0
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]


def test_the_python_api_is_the_command(bundle):
    lines = ["ba do", "", "ki " * 100]
    model = nmt.load(bundle, device="cpu", precision="fp32")
    assert (model.source_lang, model.target_lang) == ("en", "de")
    found = model.translate(lines, beam=3)
    expected = translate(bundle, "\n".join(lines).encode(), "--beam", "3", "--precision", "fp32")
    assert [t.text for t in found] == expected.stdout.decode().splitlines()
    assert [t.parts for t in found][:2] == [1, 1]
    assert found[2].parts > 1
    assert next(model.stream(iter(lines), window=1)).source == "ba do"
    options = {"beam": 4, "nbest": 2, "sampling": nmt.Sampling(top_p=0.9, seed=3), "mbr": True, "alignment": True}
    [drawn] = model.translate(["ba do"], prefixes=["ki"], min_length=3, **options)
    assert all(candidate.text.startswith("ki") and len(candidate.pieces) >= 3 for candidate in drawn.candidates)
    assert drawn.candidates[0].expected_utility is not None
    [plain] = model.score(["ba do"], [drawn.text], length_penalty=0)
    assert plain.score == plain.log_probability
    [scored] = model.score(["ba do"], [drawn.text], length_normalization="length")
    assert scored.score == pytest.approx(scored.log_probability / (len(scored.pieces) + 1) ** 0.6)


def test_mistakes_in_the_python_api_are_told_by_name(bundle):
    model = nmt.load(bundle, device="cpu", precision="fp32")
    one = ["ba do"]
    mistakes = [
        ("line 2: expected str, got bytes", lambda: model.translate(["ba", b"do"])),
        ("prefix 1: expected str, got int", lambda: model.translate(one, prefixes=[3])),
        ("batch_tokens: expected a whole number, got '9'", lambda: model.translate(one, batch_tokens="9")),
        ("batch_tokens: must be at least 1, got 0", lambda: model.score(one, one, batch_tokens=0)),
        ("max_source_length: expected a whole number, got 2.5", lambda: model.translate(one, max_source_length=2.5)),
        ("threads: must be at least 1, got 0", lambda: nmt.load(bundle, threads=0)),
        ("line 1: character 4 is half a surrogate pair", lambda: model.translate(["ba \udc80"])),
        ("the list of prefixes", lambda: model.translate(one, prefixes=[])),
        ("beam: expected a whole number, got '4'", lambda: model.translate(one, beam="4")),
        ("unknown option 'temperature'", lambda: model.translate(one, temperature=2)),
        ("sampling: expected nmt.Sampling", lambda: model.translate(one, sampling=3)),
        (
            "length_normalization: expected 'paper' or 'length', got 'x'",
            lambda: model.translate(one, length_normalization="x"),
        ),
        ("mbr: expected true or false, got 'ter'", lambda: model.translate(one, mbr="ter")),
        ("precision: expected .*, got 'fp9'", lambda: nmt.load(bundle, precision="fp9")),
        ("model: expected .* got \\[\\]", lambda: nmt.load([])),
        ("model: expected .* got 5", lambda: nmt.load(5)),
    ]
    for message, mistake in mistakes:
        with pytest.raises(nmt.NmtError, match=message):
            mistake()
