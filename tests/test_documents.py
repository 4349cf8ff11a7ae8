"""YAML and JSON of any shape: the value, or an error that names the place; never another exception, never long."""

import pytest
import yaml

from nmt.config import Config, load_preset, load_yaml, parse_config, setting_layer
from nmt.config.documents import DEEPEST_TREE, LARGEST_FILE, LARGEST_TREE, DocumentError, parse_json, parse_yaml
from nmt.corpora.recipe import builtin_names, builtin_text, load_recipe
from nmt.errors import ConfigError

LISTS_OF_LISTS = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 12)
)
MERGED_MAPPINGS = "a0: &a0 {b: 1}\n" + "".join(
    f"a{level}: &a{level} {{<<: [{', '.join([f'*a{level - 1}'] * 9)}]}}\n" for level in range(1, 12)
)

REFUSED = {
    "a: 2024-01-01": "line 1, column 4: '2024-01-01' is a date; put it in quotes to make it text.",
    "a: 2024-13-45": "is a date",
    "a: !!timestamp x": "is a date",
    "a: =": "'=' is not a value",
    "a: !!python/object:os.system {}": "the tag 'python/object:os.system' is not supported",
    "a: !!binary AAA": "the tag 'binary' is not supported",
    "a: !!set {b}": "the tag 'set' is not supported",
    "a: !mine b": "the tag '!mine' is not supported",
    "a: !!bool x": "'x' is not a valid bool",
    "a: !!merge x": "merge",
    "a: 0x_": "'0x_' is not a valid whole number",
    "a: " + "9" * 5_000: "is not a valid whole number",
    "a: 0x" + "f" * 5_000: "more than 63 bits",
    "a: 9223372036854775808": "more than 63 bits",
    "1: a": "the key '1' is not text; put it in quotes",
    "no: a": "the key 'no' is not text; put it in quotes",
    "[1]: a": "a key is not text",
    "a: &a {b: *a}": "an alias contains itself",
    "a: &a {<<: *a}": "an alias contains itself",
    "a: *b": "undefined alias",
    "<<: 1": "merging",
    '"\\Uffffffff"': "cannot be read",
    'a: "\\ud800"': "not a valid text",
    "a: \ud800": "special characters are not allowed",
    "--- a\n--- b": "another document",
    "[" * 5_000: f"more than {DEEPEST_TREE}",
    "{a: " * 5_000: f"more than {DEEPEST_TREE}",
    "- " * 5_000: f"more than {DEEPEST_TREE}",
    "? " * 5_000: f"more than {DEEPEST_TREE}",
    LISTS_OF_LISTS: f"line 5, column 15: more than {LARGEST_TREE:,} keys and values",
    MERGED_MAPPINGS: f"more than {LARGEST_TREE:,} keys and values",
}


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:30])
def test_what_settings_cannot_hold_is_refused_with_its_place(text):
    with pytest.raises(DocumentError) as refused:
        parse_yaml(text)
    assert REFUSED[text] in str(refused.value)


@pytest.mark.parametrize("name", builtin_names())
def test_what_json_can_hold_is_read_as_pyyaml_reads_it(name):
    assert parse_yaml(builtin_text(name)) == yaml.safe_load(builtin_text(name))
    for text in ("", "a: &a [1, 2.5, x, null, true]\nb: *a", "c: {<<: {a: 1}, b: 2}", "[" * DEEPEST_TREE + "]" * 40):
        assert parse_yaml(text) == yaml.safe_load(text)


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:30])
def test_files_of_any_shape_are_settings_errors(tmp_path, text):
    path = tmp_path / "mine.yaml"
    path.write_bytes(text.encode("utf-8", errors="surrogatepass"))
    with pytest.raises(ConfigError, match=r"mine\.yaml"):
        parse_config(load_yaml(path), name=str(path))
    with pytest.raises(ConfigError, match=r"mine\.yaml"):
        load_recipe(str(path))


@pytest.mark.parametrize("value", ["2024-01-01", "!!set {a}", "9" * 5_000, "[" * 5_000, ".inf", ".nan", "1.0e+999"])
def test_options_of_any_shape_are_settings_errors(value):
    with pytest.raises(ConfigError, match="--set"):
        parse_config(setting_layer(f"schedule.factor={value}").values, name="--set")


def test_a_key_of_any_depth_is_a_settings_error():
    with pytest.raises(ConfigError, match="KEY=VALUE"):
        setting_layer(".".join("a" * 5_000) + "=1")


def test_a_file_is_read_up_to_a_limit(tmp_path):
    path = tmp_path / "long.yaml"
    path.write_text("#" + "ä" * (LARGEST_FILE // 2 - 1) + "\n")
    assert load_yaml(path) == {}
    path.write_text("#" + "ä" * (LARGEST_FILE // 2) + "\nmodel: {heads: 2}\n")
    with pytest.raises(ConfigError, match=r"long\.yaml.*larger than 262,144 bytes"):
        load_yaml(path)


@pytest.mark.parametrize("text", ["[" * 200_000, '{"a": ' * 200_000, "1" * 5_000, "{", b"\xff", "", '{"a": 1} x'])
def test_json_of_any_shape_is_one_kind_of_error(text):
    with pytest.raises(DocumentError, match="it is not JSON"):
        parse_json(text)
    assert parse_json('{"a": [1, null]}') == {"a": [1, None]}


def test_settings_that_were_valid_still_are():
    assert parse_config(load_preset("base"), name="base").model == Config().model
