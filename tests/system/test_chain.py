"""The six commands, one after the other, as a person types them."""

import json
import shutil
import signal

import pytest
import yaml

from nmt.checkpoint.bundle import load_bundle, save_bundle
from tests.commands import running_command


def head(path, count: int) -> str:
    return "".join(path.read_text("utf-8").splitlines(keepends=True)[:count])


def test_bare_commands_take_the_newest_and_say_so(trained, nmt, tmp_path):
    data = trained / "data" / "toy-en-de"
    again = nmt("prepare-data", "toy-en-de", cwd=trained)
    assert "nothing to do" in again.stderr and again.stdout == ""
    result = nmt("build-vocab", cwd=trained)
    assert "data/toy-en-de (the newest)" in result.stderr
    assert "Up to date" in result.stderr
    assert "unknown 0.000%" in result.stderr and result.stdout == ""
    translated = nmt("translate", "--max-extra-length", "2", cwd=trained, text=head(data / "test.en", 30))
    assert "model: runs/toy-en-de-tiny/" in translated.stderr
    assert translated.stdout.count("\n") == 30
    (tmp_path / "reference.de").write_text(head(data / "test.de", 30), "utf-8")
    scored = nmt("score", "--reference", tmp_path / "reference.de", "-", cwd=trained, text=translated.stdout)
    assert scored.stdout.startswith("BLEU = ")
    assert "tok:13a" in scored.stdout
    assert scored.stderr == ""


def test_options_of_printing_and_speed_do_not_retrain_a_vocabulary(trained, nmt_apart):
    """The fixture notices if a file is written."""
    assert "Up to date: vocabulary and shards." in nmt_apart("build-vocab", "--threads", "1", cwd=trained).stderr
    assert nmt_apart("build-vocab", "-q", cwd=trained).stderr == ""


def test_an_average_is_validated_as_its_run_validates_checkpoints(trained, nmt, tmp_path):
    """The mean of the last checkpoint alone is that checkpoint: so are its figures."""
    records = [json.loads(line) for line in (trained / "runs/toy-en-de-tiny/metrics.jsonl").read_text().splitlines()]
    last = [record for record in records if record["kind"] == "validation"][-1]
    result = nmt("average-checkpoints", "--last", "1", "--out", tmp_path / "average", cwd=trained)
    figures = json.loads((tmp_path / "average" / "notes.json").read_text())["validation"]
    assert figures == {"loss": pytest.approx(last["valid_loss"], rel=1e-6), "bleu": last["valid_bleu"]}
    score = f"BLEU {last['valid_bleu']:.2f}"
    assert f"{score} is not better than {score} of step-00000060" in result.stderr


def test_an_average_without_its_valid_set_is_not_used(trained, nmt, tmp_path):
    shutil.copytree(trained / "runs", tmp_path / "runs", symlinks=True)
    run = "runs/toy-en-de-tiny"
    (tmp_path / run / "data.json").unlink()
    result = nmt("average-checkpoints", "--last", "50", cwd=tmp_path)
    for words in (
        "averaging 3 checkpoints: the run has no more, and 50 were asked for",
        "not validated: ",
        f"it was not validated: `nmt translate --model {run}` uses step-00000060",
    ):
        assert words in result.stderr
    translated = nmt("translate", "--max-extra-length", "2", cwd=tmp_path, text="A man.\n")
    assert f"model: {run}/checkpoints/step-00000060 (en-de, update 60, BLEU " in translated.stderr
    assert f"{run}/average is not used: it was not validated" in translated.stderr
    data = trained / "data" / "toy-en-de"
    for folders, says in {
        (tmp_path / "nowhere",): "nowhere",
        (data, data): "data sets named: 2; the run has 1. Name each, in the run's order.",
    }.items():
        named = [word for folder in folders for word in ("--data", folder)]
        refused = nmt("average-checkpoints", *named, "--out", tmp_path / "other", cwd=tmp_path, check=False)
        assert (refused.returncode, (tmp_path / "other").exists()) == (2, False)
        assert says in refused.stderr and "Traceback" not in refused.stderr


def test_an_average_is_written_where_its_validation_fails(trained, nmt, tmp_path):
    for part in ("runs", "data"):
        shutil.copytree(trained / part, tmp_path / part, symlinks=True)
    (tmp_path / "data/toy-en-de/vocab.model").write_bytes(b"damaged")
    result = nmt("average-checkpoints", "--updates", "40, 60", "--out", "average", cwd=tmp_path)
    assert "not validated: data/toy-en-de" in result.stderr
    assert (tmp_path / "average/model.safetensors").is_file()


def test_an_average_names_what_it_is_of_in_the_order_of_updates(trained, nmt, tmp_path):
    """The usual number is more than there are."""
    result = nmt("average-checkpoints", "--out", tmp_path / "average", cwd=trained)
    named = [line for line in result.stderr.splitlines() if line.startswith("averaged: ")]
    checkpoints = "runs/toy-en-de-tiny/checkpoints"
    assert named == [f"averaged: {checkpoints}/step-000000{update}" for update in (20, 40, 60)]
    assert "were asked for" not in result.stderr
    assert result.stdout == ""


def test_validation_bleu_is_that_of_translate_and_score(trained, nmt, tmp_path):
    """Of a model that writes many words: one that was trained for a moment writes full stops."""
    bundle = load_bundle(trained / "runs/toy-en-de-tiny/last")
    talkative = {name: 30 * weight if "embedding" in name else weight for name, weight in bundle.weights.items()}
    save_bundle(tmp_path / "talkative", talkative, bundle.config, bundle.vocab)
    words = ("--init-from", tmp_path / "talkative", "--config", "tiny.yaml", "--out", tmp_path / "run")
    nmt("train", *words, "--max-updates", "1", "--set", "schedule.factor=1e-9", cwd=trained)
    [validation] = [
        record
        for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()
        if (record := json.loads(line))["kind"] == "validation"
    ]
    data = trained / "data" / "toy-en-de"
    decoding = yaml.safe_load((tmp_path / "run/config.yaml").read_text())["validation"]["decoding"]
    options = ["--no-guard"]
    for key, value in decoding.items():
        name = key.replace("_", "-")
        options.append(f"--{'' if value else 'no-'}{name}" if isinstance(value, bool) else f"--{name}={value}")
    translated = nmt("translate", "--model", tmp_path / "run", *options, cwd=trained, text=head(data / "valid.en", 20))
    samples = [sample["translation"] for sample in validation["samples"]]
    assert translated.stdout.splitlines()[: len(samples)] == samples
    (tmp_path / "valid20.de").write_text(head(data / "valid.de", 20), "utf-8")
    reference = ["--reference", tmp_path / "valid20.de"]
    scored = nmt("score", "--json", *reference, "-", cwd=trained, text=translated.stdout)
    [system] = json.loads(scored.stdout)["systems"]
    assert system["scores"][0]["value"] == pytest.approx(validation["valid_bleu"], abs=1e-9) != 0


def test_a_dry_run_tells_what_training_would_be_and_touches_nothing(trained, nmt, tmp_path):
    quick = ("model.encoder_layers=1", "model.decoder_layers=1", "batching.micro_batch_tokens=256")
    small = [word for setting in quick for word in ("--set", setting)]
    result = nmt("train", "--dry-run", "--preset", "base", *small, "--out", "nowhere", cwd=trained)
    for words in (
        "parameters: ",
        "decoder: ",
        "updates per epoch: ",
        "peak learning rate: 6.988e-04 at update 4,000",
        "worst micro-batch: ",
        "checkpoints: ",
        "exports to: ",
    ):
        assert words in result.stdout
    speed, finish = result.stdout.splitlines()[-2:]
    assert speed.startswith("speed: ")
    assert finish.startswith("time to finish: ")
    assert finish.endswith(", excluding validation")
    assert not (trained / "nowhere").exists()


def test_settings_that_are_shown_can_be_read_again(trained, nmt, tmp_path):
    changed = ["--preset", "base", "--max-minutes", "30"]
    shown = nmt("train", "--show-settings", *changed, "--out", "nowhere", cwd=trained).stdout
    settings = yaml.safe_load(shown)
    assert (settings["model"]["d_model"], settings["training"]["max_minutes"]) == (512, 30)
    assert "data" not in settings
    (tmp_path / "mine.yaml").write_text(shown)
    assert nmt("train", "--show-settings", "--config", tmp_path / "mine.yaml", cwd=trained).stdout == shown
    assert not (trained / "nowhere").exists()


def test_a_finished_run_says_so(trained, nmt):
    again = nmt("train", "--config", "tiny.yaml", cwd=trained)
    assert "Nothing to do" in again.stderr
    changed = nmt("train", "--max-updates", "60", cwd=trained, check=False)
    assert changed.returncode == 2
    assert "schedule.warmup: 60 -> 400" in changed.stderr
    assert "--fresh" in changed.stderr


@pytest.mark.slow
def test_fresh_starts_in_the_next_free_folder(trained, nmt_apart, tmp_path):
    shutil.copytree(trained / "data", tmp_path / "data")
    for expected in ("toy-en-de-tiny", "toy-en-de-tiny-2", "toy-en-de-tiny-3"):
        result = nmt_apart(
            "train", "--fresh", "--max-updates", "1", "--set", "validation.bleu=false", cwd=tmp_path, LC_ALL="C"
        )
        taken = "" if expected == "toy-en-de-tiny" else " (runs/toy-en-de-tiny is taken)"
        assert f"run: runs/{expected}{taken}\n" in result.stderr
        assert "\x1b" not in result.stderr
        assert "peak learning rate" in result.stderr


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)]
)
def test_a_signal_saves_and_the_same_command_goes_on(trained, nmt_apart, tmp_path, number, code):
    shutil.copytree(trained / "data", tmp_path / "data")
    train = ["train", "--config", trained / "tiny.yaml", "--set", "logging.every_updates=1"]
    with running_command(train, cwd=tmp_path) as process:
        for line in process.stderr:
            if line.startswith(b"update "):
                process.send_signal(number)
                break
        rest = process.stderr.read().decode()
    assert process.returncode == code, rest
    assert "Saved" in rest
    assert "Traceback" not in rest
    checkpoint = next((tmp_path / "runs" / "toy-en-de-tiny" / "checkpoints").iterdir())
    update = int(checkpoint.name.removeprefix("step-"))
    resumed = nmt_apart(*train, "--max-updates", str(update + 1), cwd=tmp_path)
    assert f"Resuming from runs/toy-en-de-tiny/checkpoints/{checkpoint.name}" in resumed.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "--set", "model.drop=1"], ["model.drop", "model.dropout"]),
        (["train", "--preset", "smal"], ["small"]),
        (["train", "--data", "nowhere"], ["nowhere", "nmt prepare-data"]),
        (["train", "--out", "runs/elsewhere", "--device", "cuda"], ["cuda", "available"]),
        (["build-vocab", "--data", "nowhere"], ["nowhere", "nmt prepare-data"]),
        (["average-checkpoints", "nowhere"], ["nowhere", "there is no such run"]),
        (["score", "--reference", "data/toy-en-de/test.de", "data/toy-en-de/train.de"], ["30,000", "500"]),
        (["score", "data/toy-en-de/train.de"], ["--reference"]),
    ],
)
def test_mistakes_are_told_without_a_traceback(trained, nmt, arguments, words):
    if "cuda" in arguments:
        torch = pytest.importorskip("torch")
        if torch.cuda.is_available():
            pytest.skip("there is a GPU here")
    result = nmt(*arguments, cwd=trained, check=False)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    assert "error: " in result.stderr
    for word in words:
        assert word in result.stderr


@pytest.mark.parametrize(
    ("command", "advice"),
    [
        ("build-vocab", "prepare-data"),
        ("train", "prepare-data"),
        ("average-checkpoints", "train"),
        ("translate", "train"),
    ],
)
def test_an_empty_folder_says_where_to_begin(nmt, tmp_path, command, advice):
    result = nmt(command, cwd=tmp_path, check=False)
    assert result.returncode == 2
    assert f"nmt {advice}" in result.stderr


def test_files_of_a_run_hold_no_pickle(trained):
    run = trained / "runs" / "toy-en-de-tiny"
    for path in run.rglob("*"):
        if path.is_file():
            assert path.suffix in (".safetensors", ".yaml", ".json", ".jsonl", ".model") or path.name == ".nmt", path
            assert not path.read_bytes().startswith((b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05", b"PK"))
