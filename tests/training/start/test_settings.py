"""Where the settings of a run come from, and what is said of it."""

import pytest
import yaml

from nmt.checkpoint.bundle import save_bundle
from nmt.config import Config, ModelConfig, dump_config, load_preset, load_yaml, parse_config, setting_layer
from nmt.data.manifest import read_manifest
from nmt.data.vocab_pair import VocabularyPair
from nmt.errors import ConfigError
from nmt.model.transformer import Transformer
from nmt.training.input.data_sets import DataSets
from nmt.training.start.settings import choose_settings, resolve_config, settings_of_run


@pytest.fixture
def choose(reversed_words):
    return lambda **given: choose_settings([read_manifest(reversed_words)], **given)


@pytest.fixture
def resolve(reversed_words):
    def settle(*settings, **given):
        return resolve_config([(reversed_words, 1.0)], settings=settings, **given)[0]

    return settle


@pytest.fixture
def own(tmp_path):
    def write(text: str):
        path = tmp_path / "my.yaml"
        path.write_text(text)
        return path

    return write


def without_data(config):
    return config.model_dump(exclude={"data"})


@pytest.mark.parametrize(
    ("name", "pairs", "has_gpu", "description"),
    [
        ("toy-en-de", 30_000, False, "preset: tiny (for the toy pair; override with --preset)"),
        ("europarl", 270, True, "preset: small (under 500,000 pairs; override with --preset)"),
        ("europarl", 500_000, False, "preset: small (no CUDA GPU; override with --preset)"),
        ("europarl", 500_000, True, "preset: base (500,000 pairs or more, and a CUDA GPU; override with --preset)"),
    ],
)
def test_a_chosen_preset_comes_with_the_reason(reversed_words, monkeypatch, name, pairs, has_gpu, description):
    manifest = read_manifest(reversed_words)
    train = f"train.{manifest.source_lang}"
    files = manifest.files | {train: manifest.files[train].model_copy(update={"lines": pairs})}
    monkeypatch.setattr("torch.cuda.is_available", lambda: has_gpu)
    changed = manifest.model_copy(update={"name": name, "files": files})
    assert choose_settings([changed]).description == description


def test_settings_are_chosen_and_settled_without_data():
    choice = choose_settings([])
    assert choice.description == "preset: small (without a data set; override with --preset)"
    assert choice.resolve(None).model.d_model == 256


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "model:\n"])
def test_an_empty_file_changes_nothing_of_the_preset_that_is_chosen(resolve, choose, own, text):
    assert resolve(config_file=own(text)) == resolve()
    assert choose(config_file=own(text)).description == f"settings: {own(text)} over preset small (under 500,000 pairs)"
    assert choose(config_file=own(text)).name == "my"


def test_a_file_with_some_keys_is_laid_over_the_preset_key_by_key(resolve, own):
    path = own("model: {dropout: 0.25}\nvalidation: {decoding: {length_penalty: 1}}")
    over_small, over_base = resolve(config_file=path), resolve(config_file=path, preset="base")
    small = resolve()
    assert over_small.model == small.model.model_copy(update={"dropout": 0.25})
    assert over_small.validation.decoding.beam == small.validation.decoding.beam == 1
    assert over_small.validation.decoding.length_penalty == 1
    assert (over_base.model.d_model, over_base.model.dropout) == (512, 0.25)


def test_a_file_is_laid_over_the_preset_that_is_given(choose, own):
    assert choose(config_file=own("{}"), preset="tiny").description == f"settings: {own('{}')} over preset tiny"


def test_a_runs_own_file_gives_exactly_its_settings(resolve, choose, own):
    config = parse_config({"model": {"heads": 2}, "training": {"max_minutes": 3, "max_updates": None}}, name="run")
    path = own(dump_config(config))
    for given in ({}, {"preset": "big"}):
        assert without_data(resolve(config_file=path, **given)) == without_data(config)
    assert "over" not in choose(config_file=path).description
    # An older version's lacks keys that were added since: their defaults hold, not a preset's values.
    values = load_yaml(path)
    del values["schedule"]["decay"], values["training"]["patience"], values["data"]
    assert resolve(config_file=own(yaml.safe_dump(values))).schedule.decay == "inverse_sqrt"
    assert load_preset("small")["schedule"]["decay"] == "linear"


def test_a_limit_of_time_alone_replaces_the_updates_of_a_preset_not_those_that_the_user_gives(resolve, own):
    assert resolve().training.max_updates == 3800
    alone = resolve("training.max_minutes=30")
    assert (alone.training.max_updates, alone.training.max_minutes) == (None, 30)
    assert resolve(config_file=own("training: {max_minutes: 30}")).training == alone.training
    assert resolve("training.max_minutes=null").training.max_updates == 3800
    for both in (
        resolve("training.max_minutes=30", "training.max_updates=50"),
        resolve("training.max_minutes=30", config_file=own("training: {max_updates: 50}")),
        resolve("training.max_updates=50", config_file=own("training: {max_minutes: 30}")),
        resolve("training.max_minutes=30", config_file=own(dump_config(resolve("training.max_updates=50")))),
        resolve(
            "training.max_minutes=30", config_file=own("training: {max_updates: 50}\nschedule: {decay_updates: 500}")
        ),
    ):
        assert (both.training.max_updates, both.training.max_minutes) == (50, 30)
    with_an_end = resolve("training.max_minutes=30", config_file=own("schedule: {decay_updates: 3800}"))
    assert with_an_end.training.max_updates == 3800


def test_a_limit_of_time_alone_replaces_the_updates_of_a_resumed_run(reversed_words, tmp_path, resolve):
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.yaml").write_text(dump_config(resolve("training.max_updates=50")))
    data = DataSets.open([(reversed_words, 1.0)])
    assert settings_of_run(run).resolve(data).training.max_updates == 50
    minutes = setting_layer("training.max_minutes=30")
    assert settings_of_run(run).resolve(data, [minutes]).training.max_updates is None
    both = settings_of_run(run).resolve(data, [minutes, setting_layer("training.max_updates=9")])
    assert both.training.max_updates == 9


def test_the_settings_of_a_bundle_that_is_tuned_are_named_by_their_file(choose, resolve, tmp_path, reversed_words):
    model = ModelConfig(encoder_layers=1, decoder_layers=1, d_model=8, d_ff=8, heads=2)
    vocab = VocabularyPair.load(reversed_words / "vocab.model")
    bundle = tmp_path / "bundle"
    training = {"stages": [{"after": 5, "weights": [1, 2]}], "r_drop": 2}
    config = Config(model=model, training=training)
    save_bundle(bundle, Transformer(model, vocab.source.size).state_dict(), config, vocab)
    choice = choose(init_from=bundle)
    assert choice.description == f"settings: {bundle / 'config.yaml'}"
    assert [layer.name for layer in choice.layers] == [str(bundle / "config.yaml")]
    tuned = resolve(init_from=bundle)
    assert (tuned.model, tuned.training.r_drop, tuned.training.stages) == (model, 2, ())  # stages are of other data
    assert resolve(init_from=bundle, preset="tiny").model != model


def test_what_data_a_file_names_does_not_matter(resolve, own):
    assert resolve(config_file=own("data: {name: x, weigth: 3}")) == resolve()
    with pytest.raises(ConfigError, match=r"--data DIR\[:WEIGHT\]"):
        resolve("data.weight=2")


@pytest.mark.parametrize(
    ("settings", "text", "message"),
    [
        (["model.heads=x"], "", "--set model.heads=x: expected a whole number, got 'x'."),
        ([], "model: {heads: x}", "{file}: model.heads: expected a whole number, got 'x'."),
        (["model.heads=x"], "model: {heads: y}", "--set model.heads=x: expected a whole number, got 'x'."),
        (["training.seed=2"], "model: {heads: 0}", "{file}: model.heads: must be at least 1, got 0."),
        (["model.heads=7"], "", "preset small with --set model.heads=7: model: d_model 256 is not"),
        ([], "model: {heads: 7}", "{file} over preset small: model: d_model 256 is not a multiple of heads 7"),
        (["model=3"], "", "--set model=3: is a section: set its keys, as in model.encoder_layers, got 3."),
    ],
)
def test_an_error_names_the_place_that_the_value_comes_from(resolve, own, settings, text, message):
    path = own(text)
    with pytest.raises(ConfigError) as error:
        resolve(*settings, config_file=path)
    assert message.format(file=path) in str(error.value)
