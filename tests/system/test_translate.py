"""``nmt translate`` as people and pipelines run it, with an untrained model: what matters here are the lines."""

import itertools
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

from nmt.checkpoint.bundle import save_bundle
from nmt.config import Config, DataConfig, DecodingConfig, ModelConfig
from nmt.data.vocab import train_vocabulary
from nmt.model.transformer import Transformer

WORDS = ["ba", "do", "ki", "lu", "me", "no", "pa", "ru", "se", "ti"]
NMT = [sys.executable, "-m", "nmt"]
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}


def write_bundle(folder: Path, seed: int = 0, words: list[str] = WORDS) -> Path:
    vocab = train_vocabulary([" ".join(pair) for pair in itertools.permutations(words, 2)], size=50).vocab
    config = Config(
        model=ModelConfig(encoder_layers=1, decoder_layers=1, d_model=16, d_ff=16, heads=2, max_positions=64),
        data=DataConfig(source_lang="en", target_lang="de", vocab_fingerprint=vocab.fingerprint, vocab_size=vocab.size),
        decoding=DecodingConfig(beam=2, max_extra_length=5),
    )
    torch.manual_seed(seed)
    model = Transformer(config.model, vocab.size)
    torch.nn.init.normal_(model.embedding.weight, std=0.7)
    save_bundle(folder, model.state_dict(), config, vocab)
    return folder


@pytest.fixture(scope="module")
def bundle(tmp_path_factory) -> Path:
    return write_bundle(tmp_path_factory.mktemp("bundles") / "untrained")


def translate(bundle: Path, text: bytes, *options: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    command = [*NMT, "translate", "--model", str(bundle), *options]
    return subprocess.run(command, input=text, capture_output=True, env=ENVIRONMENT | environment, check=False)


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
    assert b"longer than 63 pieces, translated in parts: 1." in result.stderr


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
    command = [*NMT, "translate", "--model", str(bundle), "--interactive"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENVIRONMENT) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for line in (b"ba do\n", b"\n", b"ki\n"):
            process.stdin.write(line)
            process.stdin.flush()
            assert process.stdout.readline().endswith(b"\n")
        process.stdin.close()
        assert process.stdout.read() == b""
    assert process.returncode == 0


def test_whoever_stops_reading_is_no_error(bundle):
    command = " ".join([*NMT, "translate", "--model", str(bundle), "--batch-tokens", "64"])
    lines = "ba do ki\\n" * 6000
    script = f"printf '{lines}' | {command} | head -n 1; echo ${{PIPESTATUS[1]}}"
    result = subprocess.run(["bash", "-c", script], capture_output=True, env=ENVIRONMENT, check=False)
    assert result.stdout.decode().splitlines()[1] == "0"
    assert b"Traceback" not in result.stderr
    assert b"Broken" not in result.stderr


def test_works_in_a_locale_without_unicode_and_without_a_terminal(bundle):
    result = translate(bundle, "bä dö\n".encode(), LC_ALL="C", LANG="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert result.returncode == 0, result.stderr.decode()
    assert result.stdout.decode("utf-8").count("\n") == 1
    assert b"\x1b" not in result.stderr


def test_files_in_and_out(bundle, tmp_path):
    (tmp_path / "in.txt").write_text("ba do\nki\n")
    result = translate(bundle, b"", "--input", str(tmp_path / "in.txt"), "--output", str(tmp_path / "out.txt"))
    assert (result.returncode, result.stdout) == (0, b"")
    assert (tmp_path / "out.txt").read_bytes() == translate(bundle, b"ba do\nki\n").stdout


def test_what_was_translated_before_an_error_is_kept(bundle, tmp_path):
    out = tmp_path / "out.txt"
    out.write_text("of an earlier time")
    result = translate(bundle, b"ba do\nki\n\xff\n", "--output", str(out))
    assert result.returncode == 2
    assert out.read_text() == "of an earlier time"
    assert out.with_name("out.txt.partial").read_bytes() == translate(bundle, b"ba do\nki\n").stdout
    assert b"no such folder" in translate(bundle, b"", "--output", str(tmp_path / "none" / "x")).stderr


def test_jsonl_and_nbest(bundle):
    result = translate(bundle, b"ba do\n\n", "--nbest", "2", "--format", "jsonl")
    records = [json.loads(line) for line in result.stdout.splitlines()]
    assert [record["source"] for record in records] == ["ba do", ""]
    assert len(records[0]["candidates"]) == 2
    assert translate(bundle, b"ba do\n\n", "--nbest", "2").stdout.count(b"\n") == 4


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
        (["--nbest", "9"], ["beam", "9"]),
    ],
)
def test_mistakes_are_told_in_one_line(bundle, tmp_path, options, words):
    command = [*NMT, "translate", *(["--model", str(bundle)] if "--model" not in options else []), *options]
    result = subprocess.run(command, input=b"", capture_output=True, env=ENVIRONMENT, cwd=tmp_path, check=False)
    assert result.returncode == 2
    message = result.stderr.decode().splitlines()[-1]
    assert message.startswith("error: ")
    for word in words:
        assert word in message


def test_a_damaged_bundle_is_refused_by_name(bundle, tmp_path):
    import shutil

    damaged = shutil.copytree(bundle, tmp_path / "damaged")
    content = bytearray((damaged / "vocab.model").read_bytes())
    content[100] ^= 1
    (damaged / "vocab.model").write_bytes(content)
    result = translate(damaged, b"ba\n")
    assert result.returncode == 2
    assert b"vocab.model" in result.stderr
    assert b"damaged" in result.stderr


@pytest.mark.slow
def test_memory_does_not_grow_with_the_input(bundle):
    """Ten times the lines, the same anonymous memory."""

    def peak(lines: int) -> int:
        command = [*NMT, "translate", "--model", str(bundle), "--beam", "1", "--threads", "1"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(command, env=ENVIRONMENT, **pipes) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            feeder = threading.Thread(
                target=lambda: (process.stdin.write(b"ba do ki\n" * lines), process.stdin.close())
            )
            feeder.start()
            most = count = 0
            for _ in process.stdout:
                count += 1
                if count % 1000 == 0:
                    status = Path(f"/proc/{process.pid}/status").read_text()
                    most = max(most, int(status.split("RssAnon:")[1].split()[0]))
            feeder.join()
        assert count == lines
        return most

    assert peak(100_000) <= peak(10_000) * 1.1


def test_help_needs_no_torch():
    script = (
        "import sys; from nmt.cli import app; assert not {'torch', 'numpy', 'rich'} & set(sys.modules), sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
