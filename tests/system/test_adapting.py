"""``nmt adapt``: a memory becomes a tuned model, with a verdict on both kinds of text."""

import random
import re
import shutil
from unittest.mock import Mock

import pytest

from nmt.api import adapting
from nmt.checkpoint.run_folder import bundle_to_use
from nmt.config import load_preset, parse_config
from nmt.evaluation.significance import SystemScore
from nmt.reporting import Reporter

SYLLABLES = ["ba", "do", "ki", "lu", "me", "no", "pa", "ru", "se", "ti", "fo", "ga", "hy", "ja", "xi"]
VERDICT = re.compile(r"(\S+): BLEU [\d.]+ before, [\d.]+ after \([+-][\d.]+, p = [\d.]+; (\d+) sentences\)")


def change(difference: float, p: float | None) -> adapting.Change:
    before, after = (SystemScore("BLEU", value, value, 1.0, p, "") for value in (30.0, 30.0 + difference))
    return adapting.Change("general", 100, before, after)


@pytest.mark.slow
def test_a_memory_adapts_a_model_and_the_same_command_resumes(nmt, trained, tmp_path, monkeypatch):
    data = tmp_path / "data"  # the name of the memory's data set, too
    data.symlink_to(trained / "data/toy-en-de")
    sides = [(data / f"train.{code}").read_text().splitlines()[:60] for code in ("en", "de")]
    lines = (f"{source.upper()}\t{target.upper()}\n" for source, target in zip(*sides, strict=True))
    (tmp_path / "memory.tsv").write_text("".join(lines))
    words = ["adapt", str(trained / "runs/toy-en-de-tiny"), "memory.tsv", "--general", str(data), "--max-loss", "100"]
    words += ["--set", "training.max_updates=4", "--set", "validation.bleu_sentences=3", "--threads", "1"]
    found = nmt(*words, cwd=tmp_path)
    manifest = (tmp_path / "adapted/memory/data/manifest.json").read_bytes()
    assert VERDICT.findall(found.stdout) == [("memory", "9"), ("data", "500")]  # 15 % of the memory
    assert "data: toy-en-de, weight 0.0014" in found.stderr  # as many pairs as the memory has
    written = {path.name for path in (tmp_path / "adapted/memory/verdict").iterdir() if path.name[0] != "."}
    models = ("before", "after.step-00000004")
    assert written == {f"{name}.{model}.de" for name in ("memory", "general-1") for model in models}
    assert nmt("translate", "--model", "adapted/memory/model", cwd=tmp_path, text="A dog sleeps.\n").stdout
    words[words.index("training.max_updates=4")] = "training.max_updates=6"
    assert len(VERDICT.findall(nmt(*words, cwd=tmp_path).stdout)) == 2

    assert "The memory's test set has 9 sentences, too few to tell" in found.stderr

    (tmp_path / "other").mkdir()
    (tmp_path / "other/memory.tsv").write_text("A dog.\tEin Hund.\n")
    text = (tmp_path / "memory.tsv").read_text()
    (tmp_path / "memory.tsv").write_text(f"{text}A cat.\tEine Katze.\n")
    for given in ([*words[1:3], "--general", str(data)], [words[1], "other/memory.tsv"]):
        refused = nmt("adapt", *given, cwd=tmp_path, check=False)
        assert "adapted/memory: holds a model that was adapted to other text" in refused.stderr
        assert (tmp_path / "adapted/memory/data/manifest.json").read_bytes() == manifest
    fresh = nmt(*words, "--fresh", "--adapter-rank", "2", cwd=tmp_path)
    assert "written: adapted/memory-2/model" in fresh.stderr
    assert "adapter_rank: 2" in (tmp_path / "adapted/memory-2/model/config.yaml").read_text()
    assert "weights of" not in fresh.stderr
    (tmp_path / "memory.tsv").write_text(text)

    monkeypatch.setattr(adapting, "_change", lambda folder, *_: change(-2.0 if folder == data else 3.0, 0.001))
    assert nmt(*words, cwd=tmp_path).stdout.splitlines()[1].startswith("general: BLEU 30.0 before, 28.0 after (-2.0")
    words[words.index("--max-loss") + 1] = "1.5"
    forgetting = nmt(*words, cwd=tmp_path, check=False)
    assert forgetting.returncode == 1
    assert "general text lost more than --max-loss 1.5" in forgetting.stderr


def dictionary_pairs(shift: int, count: int, seed: int) -> str:
    """Sentences of made-up words, each with its one translation, as tab-separated text."""
    draw = random.Random(seed)
    lines = [[draw.randrange(len(SYLLABLES)) for _ in range(draw.randint(3, 6))] for _ in range(count)]
    target = [each.upper() for each in SYLLABLES[shift:] + SYLLABLES[:shift]]
    return "".join(
        f"{' '.join(SYLLABLES[word] for word in line)}\t{' '.join(target[word] for word in line)}\n" for line in lines
    )


@pytest.mark.slow
def test_the_verdict_on_a_memory_that_contradicts_the_model_is_that_it_forgets(nmt, tmp_path):
    (tmp_path / "general.tsv").write_text(dictionary_pairs(0, 2_000, seed=1))
    (tmp_path / "memory.tsv").write_text(dictionary_pairs(5, 400, seed=2))
    (tmp_path / "tiny.yaml").write_text(
        "model: {encoder_layers: 1, decoder_layers: 1, d_model: 64, d_ff: 128, heads: 4, dropout: 0}\n"
        "batching: {update_tokens: 500, group_tokens: 500}\nschedule: {warmup: 100}\n"
        "training: {max_updates: 300}\nvalidation: {bleu: false}\n"
    )
    nmt("prepare-data", "general-en-de", "--train", "general.tsv", cwd=tmp_path)
    nmt("build-vocab", "--size", "80", cwd=tmp_path)
    nmt("train", "--config", "tiny.yaml", "--out", "model", "--threads", "1", cwd=tmp_path)
    words = ["adapt", "model", "memory.tsv", "--general", "data/general-en-de", "--threads", "1"]
    words += ["--set", "schedule.factor=1", "--set", "training.max_updates=100"]
    no_replay = ["--set", "training.stages=[{after: 1, weights: [1, 0]}]"]
    found = nmt(*words, *no_replay, cwd=tmp_path, check=False)
    assert found.returncode == 1
    assert "general text lost more than --max-loss 1. adapted/memory/model is for text like the memory" in found.stderr
    gains = re.findall(r"^(\S+): BLEU .* \(([+-][\d.]+), p = 0\.0", found.stdout, re.MULTILINE)
    assert [(name, float(gain) > 0) for name, gain in gains] == [("memory", True), ("general-en-de", False)]
    assert bundle_to_use(tmp_path / "adapted/memory/model")


@pytest.mark.slow
def test_what_is_wrong_is_said_before_training(nmt, trained, tmp_path):
    data, model = trained / "data/toy-en-de", trained / "runs/toy-en-de-tiny"
    lines = zip(*((data / f"test.{code}").read_text().splitlines() for code in ("en", "de")), strict=True)
    (tmp_path / "memory.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in lines))
    shutil.copytree(data, tmp_path / "plain", ignore=shutil.ignore_patterns("vocab*", "shards"))
    for options, message in (
        (
            ["--general", data],
            f"Leaked sentences are in a valid or test set, of this data set or of {data}: give",
        ),
        (["--general", tmp_path / "nope"], "Name the folder of a data set with --general"),
        (["--source-lang", "fr"], "--source-lang fr: the model has no such language. It has en."),
        (["--general", data, "--general", tmp_path / "plain"], f"--data {tmp_path}/plain --vocab {model}` first."),
        (["--set", "model.d_ff=64"], "is another model (model.d_ff: "),
        (["--set", "model.d_ff=64", "--source-lang", "en"], "is another model (model.d_ff: "),  # no model was made
    ):
        with (tmp_path / "memory.tsv").open("a") as memory:
            memory.write("A cat.\tEine Katze.\n")
        refused = nmt("adapt", model, "memory.tsv", *options, cwd=tmp_path, check=False)
        assert refused.returncode == 2
        assert message in refused.stderr
        assert not any(each in refused.stderr for each in ("--apart-from", "--init-from", "--preset", "update "))


@pytest.mark.slow
def test_a_verdict_that_is_interrupted_says_where_the_model_is(trained, tmp_path, monkeypatch):
    sides = [(trained / f"data/toy-en-de/train.{code}").read_text().splitlines()[:60] for code in ("en", "de")]
    messages = [f'msgid "{source}"\nmsgstr "{target}"\n\n' for source, target in zip(*sides, strict=True)]
    (tmp_path / "memory.po").write_text("".join([*messages, 'msgid "A cat"\nmsgstr ""\n']))
    monkeypatch.setattr(adapting, "_translate", Mock(side_effect=KeyboardInterrupt))
    heard = Mock(spec=Reporter, wraps=Reporter())
    how = {"out": tmp_path / "out", "set": ["training.max_updates=1", "validation.bleu=false"], "report": heard}
    with pytest.raises(KeyboardInterrupt):
        adapting.adapt(trained / "runs/toy-en-de-tiny", [str(tmp_path / "memory.po")], threads=1, **how)
    heard.notice.assert_any_call("train: memory.po: skipped units or lines without usable text in both languages: 1")
    run = tmp_path / "out/model"
    heard.notice.assert_called_with(f"The adapted model is {run}. Run the same command for the verdict.")
    assert bundle_to_use(run)


def test_an_interrupted_training_says_how_to_resume(nmt, monkeypatch, tmp_path):
    monkeypatch.setattr("nmt.cli.adapt.adapting.adapt", lambda **_: adapting.Adapted(tmp_path, exit_code=130))
    found = nmt("adapt", "model", "memory.tsv", cwd=tmp_path, check=False)
    assert (found.returncode, found.stderr) == (130, "Interrupted. Saved. Run the same command to resume.\n")


@pytest.mark.parametrize(("tokens", "warmup"), [(80, "5"), (1_000_000, "50")])
def test_the_warm_up_of_a_small_memory_ends_before_its_training(monkeypatch, tokens, warmup):
    monkeypatch.setattr(adapting, "_tokens", lambda _: tokens)
    config = parse_config(load_preset("tiny"), name="tiny")
    settings = dict(line.split("=") for line in adapting._settings(config, None, [], [], None))
    assert (settings["schedule.warmup"], int(settings["training.max_updates"]) > int(warmup)) == (warmup, True)


def test_adapters_learn_faster_than_all_weights(monkeypatch):
    monkeypatch.setattr(adapting, "_tokens", lambda _: 10_000)
    config = parse_config(load_preset("tiny"), name="tiny")
    found = [dict(each.split("=") for each in adapting._settings(config, None, [], [], rank)) for rank in (None, 4)]
    assert [each["training.adapter_rank"] for each in found] == ["null", "4"]
    factors = [float(each["schedule.factor"]) for each in found]
    assert factors[1] / factors[0] == pytest.approx(adapting._ADAPTERS_PEAK / adapting._PEAK, rel=1e-3)


@pytest.mark.parametrize(("difference", "p", "is_sure"), [(-3.0, 0.001, True), (-3.0, 0.2, False), (0.0, None, False)])
def test_a_difference_is_sure_if_it_is_significant(difference, p, is_sure):
    assert (change(difference, p).difference, change(difference, p).is_sure) == (difference, is_sure)
