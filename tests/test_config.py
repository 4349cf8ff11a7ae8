"""Settings: strict, lax in types, and told apart on resume."""

import functools

import pytest
import yaml

from nmt.config import (
    PRESETS,
    Config,
    Layer,
    changeable_on_resume,
    describe_config,
    differences,
    dump_config,
    flatten,
    load_preset,
    load_yaml,
    option_layer,
    overlay,
    parse_config,
    parse_layers,
    setting_in,
    setting_layer,
)
from nmt.config.reading import origin
from nmt.errors import ConfigError


def parsed(*settings: str) -> Config:
    values = functools.reduce(overlay, (setting_layer(each).values for each in settings), {})
    return parse_config(values, name="settings")


def test_the_defaults_are_the_papers_base_model():
    base = parse_config(load_preset("base"), name="base")
    assert base.model == Config().model
    assert (base.model.encoder_layers, base.model.d_model, base.model.d_ff, base.model.heads) == (6, 512, 2048, 8)
    assert (base.model.key_size, base.model.value_size, base.model.dropout) == (64, 64, 0.1)
    assert (base.optimizer.beta1, base.optimizer.beta2, base.optimizer.epsilon) == (0.9, 0.98, 1e-9)
    assert (base.schedule.warmup, base.training.label_smoothing, base.batching.update_tokens) == (4000, 0.1, 25_000)
    assert (base.decoding.beam, base.decoding.length_penalty, base.decoding.max_extra_length) == (4, 0.6, 50)


def test_big_is_the_papers():
    big = parse_config(load_preset("big"), name="big")
    assert (big.model.d_model, big.model.d_ff, big.model.heads, big.model.key_size) == (1024, 4096, 16, 64)
    assert (big.model.dropout, big.training.max_updates, big.checkpoints.keep_last) == (0.3, 300_000, 20)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_valid_and_survives_being_written(name, tmp_path):
    config = parse_config(load_preset(name), name=name)
    (tmp_path / "config.yaml").write_text(dump_config(config))
    assert parse_config(load_yaml(tmp_path / "config.yaml"), name="again") == config


def test_numbers_may_be_written_as_yaml_reads_them_as_text():
    assert parsed("optimizer.epsilon=1e-8").optimizer.epsilon == 1e-8


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("model.drop_out=0.1", ["model.drop_out", "did you mean 'model.dropout'"]),
        ("dropout=0.1", ["dropout", "did you mean 'model.dropout'"]),
        ("droput=0.1", ["droput", "did you mean 'model.dropout'"]),
        ("warm_up=9", ["warm_up", "did you mean 'schedule.warmup'"]),
        ("training.warmup=9", ["training.warmup", "did you mean 'schedule.warmup'"]),
        ("model.warmpu=9", ["model.warmpu", "did you mean 'schedule.warmup'"]),
        ("keep_lats=9", ["keep_lats", "did you mean 'checkpoints.keep_last'"]),
        ("every_update=9", ["'validation.every_updates' or 'checkpoints.every_updates' or 'logging.every_updates'"]),
        ("model.zzz.dropout=0.1", ["model.zzz"]),
        ("modle.dropout=0.1", ["unknown setting 'modle.dropout'; did you mean 'model.dropout'?"]),
        ("modle.zzz=0.1", ["unknown setting 'modle'; did you mean 'model'?"]),
        ("lr=0.1", ["unknown setting 'lr'; did you mean 'schedule.factor' (multiplies the learning rate of "]),
        ("optimizer.learning-rate=0.1", ["'optimizer.learning-rate'; did you mean 'schedule.factor' ("]),
        ("batch.size=9", ["'batch.size'; did you mean 'batching.update_tokens' (target tokens per update, "]),
        ("num_layers=9", ["did you mean 'model.encoder_layers' or 'model.decoder_layers'?"]),
        ("beam_size=9", ["did you mean 'decoding.beam' (Beam size)?"]),
        ("optimizer.name=x", ["known here are optimizer.beta1"]),
        ("datta=1", ["unknown setting 'datta'; `nmt train --show-settings` prints all."]),
        ("model.zzz=1", ["model.zzz", "known here are", "model.heads"]),
        ("model.heads=many", ["model.heads: expected a whole number, got 'many'."]),
        ("model.dropout=1.5", ["model.dropout: must be less than 1, got 1.5."]),
        ("model.heads=0", ["model.heads: must be at least 1, got 0."]),
        ("model.heads=", ["model.heads: expected a whole number, got null."]),
        ("model.heads.x=1", ["model.heads: expected a whole number"]),
        ("model.heads=1.5", ["model.heads: expected a whole number, got 1.5."]),
        ("model.attention_bias=maybe", ["expected true or false, got 'maybe'"]),
        ("model.heads=7", ["heads 7", "d_k"]),
        ("schedule.decay_updates=10", ["decay: linear"]),
        ("model.norm=sandwich", ["model.norm", "post", "pre"]),
        ("model=3", ["model: is a section", "model.encoder_layers"]),
        ("batching.micro_batch_tokens=0", ["batching.micro_batch_tokens: must be at least 1 or 'auto', got 0."]),
        ("training.freeze=3", ["training.freeze: expected a list"]),
        ("training.stages=[{after: 5, weights: [0, 0]}]", ["training.stages.0: weights must not all be 0"]),
        ("training.stages=[{after: 5, weights: [1, -1]}]", ["training.stages.0.weights.1: must be at least 0"]),
        (
            "training.stages=[{after: 5, weights: [1]}, {after: 5, weights: [2]}]",
            ["stages must begin one after the other, not after 5, 5 updates"],
        ),
    ],
)
def test_a_wrong_setting_is_named_with_what_to_do(setting, words):
    with pytest.raises(ConfigError) as error:
        parsed(setting)
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize("setting", ["model.dropout", "=3", "model.dropout=[1"])
def test_a_malformed_set_is_an_error(setting):
    with pytest.raises(ConfigError, match="--set"):
        parsed(setting)


@pytest.mark.parametrize(("limit", "named"), [("9000", "9,000"), ("null", "unset")])
def test_a_rate_that_ends_before_the_run_is_an_error(limit, named):
    with pytest.raises(ConfigError, match=f"max_updates is {named}: set it to 8,000 too"):
        parsed("schedule.decay=linear", "schedule.decay_updates=8000", f"training.max_updates={limit}")


def test_a_decay_ends_with_the_run_which_needs_an_end():
    for decay in ("linear", "cosine", "wsd"):
        assert parsed(f"schedule.decay={decay}").schedule.decay_updates is None
        parsed(f"schedule.decay={decay}", "training.max_updates=null", "training.max_minutes=5")
        with pytest.raises(ConfigError, match=f"a {decay} decay ends with the run, which has no end: set .*--max-min"):
            parsed(f"schedule.decay={decay}", "training.max_updates=null")


def test_one_pattern_needs_no_list():
    assert parsed("training.freeze=encoder.*").training.freeze == ("encoder.*",)


def test_settings_with_what_they_are_for_are_the_same_settings():
    config = parsed("training.freeze=[encoder.*]", "schedule.decay=cosine", "schedule.decay_updates=100000")
    described = describe_config(config)
    assert "# width of the residual stream" in described
    assert "activation: relu  # relu, swish, gelu, quick_gelu. between" in described
    assert "norm: post  # post, pre. post: LayerNorm" in described
    assert "precision: auto  # auto, fp32, bf16, fp16, fp64\n" in described
    assert "data" not in yaml.safe_load(described)
    assert parse_config(yaml.safe_load(described), name="again") == config


def test_settings_leave_their_base_as_it_was():
    base = {"model": {"heads": 4}}
    assert overlay(base, setting_layer("model.dropout=0.2").values) == {"model": {"heads": 4, "dropout": 0.2}}
    assert base == {"model": {"heads": 4}}


def test_an_empty_section_changes_nothing_and_an_empty_value_is_one():
    base = {"model": {"heads": 4}, "validation": {"decoding": {"beam": 2}}}
    assert overlay(base, {"model": None, "validation": {"decoding": None}}) == base
    assert overlay(base, {"model": {"data": None}})["model"] == {"heads": 4, "data": None}
    with pytest.raises(ConfigError, match=r"unknown setting 'model\.data'"):
        parsed("model.data=null")


def test_an_unknown_preset_suggests_the_nearest():
    with pytest.raises(ConfigError, match="did you mean 'small'"):
        load_preset("smal")


def test_differences_are_named_by_key():
    assert differences(parsed(), parsed("model.dropout=0.3", "training.max_updates=5")) == [
        ("model.dropout", "0.1", "0.3"),
        ("training.max_updates", "100000", "5"),
    ]


def test_statistics_of_lines_are_no_difference():
    side = "{sentences: [9, 1], pieces: {p50: 1, p90: 2, p99: 3, p999: 4, max: 5}}"
    ratio = "{p1: 0.6, p10: 0.8, p50: 1.0, p90: 1.2, p99: 1.5}"
    described = parsed(f"data.lines={{max_pieces: 256, source: {side}, target: {side}, target_per_source: {ratio}}}")
    assert described.data.lines is not None
    assert differences(parsed(), described) == differences(described, parsed()) == []
    longer = parsed(f"data.lines={{max_pieces: 9, source: {side}, target: {side}, target_per_source: {ratio}}}")
    assert differences(described, longer) == [("data.lines.max_pieces", "256", "9")]
    assert parse_config(yaml.safe_load(dump_config(described)), name="dumped") == described


def test_limits_and_logging_may_change_on_resume_but_not_what_is_learnt():
    keys = [key for key, _ in flatten(Config().model_dump())]
    changeable = {key for key in keys if changeable_on_resume(key)}
    assert {"training.max_updates", "training.patience", "checkpoints.keep_last", "logging.every_updates"} <= changeable
    assert not {key for key in changeable if key.startswith(("model.", "optimizer.", "schedule.", "data."))}
    assert "training.seed" not in changeable
    assert "batching.update_tokens" not in changeable


def test_a_broken_file_is_named(tmp_path):
    path = tmp_path / "my.yaml"
    path.write_text("model: [1, 2")
    with pytest.raises(ConfigError, match=r"my\.yaml"):
        load_yaml(path)
    path.write_text("model:\n\tdropout: 0.3\n")
    with pytest.raises(ConfigError) as refused:
        load_yaml(path)
    assert str(refused.value) == (
        f"{path}: is not valid YAML: line 2, column 1: found character '\\t' that cannot start any token. "
        "Use spaces, not tabs."
    )
    path.write_text("model:\n  norm: \0\n")
    with pytest.raises(ConfigError, match=r"YAML: line 2, column 9: special characters are not allowed\.$"):
        load_yaml(path)
    path.write_text("- a list")
    with pytest.raises(ConfigError, match="section"):
        load_yaml(path)
    with pytest.raises(ConfigError, match=r"other\.yaml"):
        load_yaml(tmp_path / "other.yaml")


def test_a_setting_with_an_option_of_its_own_is_named_once():
    with pytest.raises(ConfigError, match=r"^--max-minutes 0: must be greater than 0, got 0\.0\.$"):
        parse_layers([option_layer("training.max_minutes", 0.0)])


def test_a_later_layer_wins_and_its_name_comes_first():
    preset = Layer("preset small", {"model": {"heads": 2, "dropout": 0.1}})
    file = Layer("mine.yaml", {"model": {"heads": 4}})
    option = Layer("--set model.heads=8", {"model": {"heads": 8}}, is_option=True)
    assert setting_in([preset, file], "model.heads") == 4
    assert setting_in([preset, file], "model.dropout") == 0.1
    assert setting_in([preset, file], "model.norm") is None
    assert origin([preset, file, option], "model.heads") == "--set model.heads=8"
    assert origin([preset, file, option], "model") == "mine.yaml over preset small with --set model.heads=8"
