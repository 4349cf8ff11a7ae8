"""Recipes by name, from YAML files, and for the user's own text. :mod:`nmt.corpora.schema` defines their keys.

The built-in recipes are the YAML files beside this module; each also works with its languages reversed.
"""

from __future__ import annotations

import locale
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from nmt.config import did_you_mean, load_yaml, mistakes
from nmt.config.documents import parse_yaml
from nmt.corpora.schema import SPLITS, Recipe
from nmt.corpora.user_corpora import paired, user_corpora
from nmt.errors import ConfigError
from nmt.text.languages import is_language_code

# A language, with script and region. A language is in lower case; a script or region has a capital or is a number.
_CODE = r"[a-z]{2,3}(?:[-_](?:[A-Z][a-z]{3}|[A-Z]{2}|[0-9]{3}))*(?:@[a-z]+)?"
_RECIPES = resources.files("nmt.corpora") / "recipes"


def builtin_names() -> list[str]:
    """The names of the built-in recipes."""
    return sorted(entry.name.removesuffix(".yaml") for entry in _RECIPES.iterdir() if entry.name.endswith(".yaml"))


def builtin_text(name: str) -> str:
    """The YAML of a built-in recipe, comments included."""
    return _RECIPES.joinpath(f"{name}.yaml").read_text("utf-8")


def recipe_text(recipe: Recipe) -> str:
    """A recipe as YAML to copy and edit; that of a built-in one has its comments."""
    is_built_in = recipe.name in builtin_names() and recipe == load_recipe(recipe.name)
    return builtin_text(recipe.name) if is_built_in else dump_recipe(recipe)


def load_recipe(dataset: str) -> Recipe:
    """A recipe by name, by reversed name (``multi30k-de-en``), or from a file (``my.yaml``).

    Raises:
        ConfigError: there is no such recipe, or the file's settings are wrong.
    """
    if dataset.endswith((".yaml", ".yml")):
        path = Path(dataset)
        return _beside(parse_recipe(load_yaml(path, may_be_pipe=True), name=dataset), path.resolve().parent)
    names = builtin_names()
    if dataset in names:
        return parse_recipe(parse_yaml(builtin_text(dataset)), name=dataset)
    for name in names:
        recipe = parse_recipe(parse_yaml(builtin_text(name)), name=name)
        if reverse(recipe).name == dataset:
            return reverse(recipe)
    raise ConfigError(
        f"there is no built-in data set {dataset!r}{did_you_mean(dataset, names)}; there are {', '.join(names)}, each "
        "also with its languages reversed. For your own text, give its files with --train PREFIX, or a recipe file "
        "NAME.yaml."
    )


def parse_recipe(values: Mapping[str, Any], *, name: str) -> Recipe:
    """Check the settings of a recipe.

    Raises:
        ConfigError: a key is unknown or its value is invalid; each such key is named.
    """
    try:
        return Recipe.model_validate(values)
    except ValidationError as error:
        raise ConfigError("\n".join(mistakes(error.errors(), Recipe, lambda _: name, noun="key"))) from None


def reverse(recipe: Recipe) -> Recipe:
    """The recipe with source and target exchanged, under the reversed name."""
    pair, reversed_pair = f"{recipe.source_lang}-{recipe.target_lang}", f"{recipe.target_lang}-{recipe.source_lang}"
    name = recipe.name.removesuffix(pair) + reversed_pair if recipe.name.endswith(pair) else f"{recipe.name}-reversed"
    return recipe.model_copy(
        update={"name": name, "source_lang": recipe.target_lang, "target_lang": recipe.source_lang}
    )


def own_recipe(
    name: str,
    *,
    source_lang: str | None,
    target_lang: str | None,
    train: Sequence[str],
    valid: Sequence[str] = (),
    test: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    header: bool = False,
    notify: Callable[[str], object] = lambda notice: None,
) -> Recipe:
    """A recipe for the user's own files. Without files for valid or test, pairs are held out of train.

    Args:
        name: of the data set. Its end gives missing languages (``mine-en-de``, ``mine-en-pt_BR``, ``en-de``).
        source_lang: code of the source language.
        target_lang: code of the target language.
        train: prefixes of two files, files that hold both sides, folders, or a source and a target file in succession;
            relative to the current folder. A file may also be given by its web address. ``-`` is standard input.
        valid: as for train.
        test: as for train.
        columns: what the columns of tab-separated files hold, in order: the two languages, ``score``; any other name
            is ignored. Source and target if unset.
        header: the first line of tab-separated files holds the names of the columns.
        notify: called with the files that are read of a folder.

    Raises:
        ConfigError: the name belongs to a built-in pair, the languages are unknown or ambiguous, or columns are named
            without a tab-separated file.
        DataError: a folder holds no parallel text.
    """
    if name in builtin_names():
        raise ConfigError(f"{name!r} is a built-in data set: give your own text another name, for example my-{name}.")
    if source_lang is None or target_lang is None:
        of_name = _languages_of(name)
        source_lang, target_lang = source_lang or of_name[0], target_lang or of_name[1]
    languages = source_lang, target_lang

    def corpora(texts: Iterable[str]) -> list[dict[str, Any]]:
        layout: dict[str, Any] = {"columns": columns, "header": header, "notify": notify}
        return [corpus for text in paired(texts, languages) for corpus in user_corpora(text, languages, **layout)]

    held_out = [{"kind": "held-out"}]
    values: dict[str, Any] = {
        "name": name,
        "source_lang": source_lang,
        "target_lang": target_lang,
        "train": corpora(train),
        "valid": corpora(valid) or held_out,
        "test": corpora(test) or held_out,
    }
    given = [corpus for split in SPLITS for corpus in values[split]]
    if (columns or header) and not any(corpus.get("format") == "tsv" for corpus in given):
        raise ConfigError(
            f"{'--columns' if columns else '--header'}: only for tab-separated text, a file NAME.tsv or standard "
            "input (-)."
        )
    return parse_recipe(values, name=name)


def _languages_of(name: str) -> tuple[str, str]:
    """The languages at the end of a data set's name.

    Raises:
        ConfigError: there are none, or they may be others: ``mine-en-pt-br`` ends with Portuguese and Breton.
    """
    found = re.fullmatch(rf"(?:.+[-.])?({_CODE})-({_CODE})", name)
    advice = (
        "give --source-lang and --target-lang, or end the name with the languages, as in mine-en-de or mine-en-pt_BR"
    )
    if found is None:
        raise ConfigError(
            f"the languages of {name!r} are unknown: {advice} (in lower case; scripts and regions with capitals)."
        )
    three = re.fullmatch(r"(?:.+[-.])?([a-z]{2})-([a-z]{2})-([a-z]{2})", name)
    if three is not None and is_language_code(three[1]):
        for language, region in (three.group(1, 2), three.group(2, 3)):
            if f"{language}_{region}" in locale.locale_alias:
                raise ConfigError(
                    f"the languages of {name!r} may be {found[1]} and {found[2]}, or {language}-{region} may be one of "
                    f"them: {advice}."
                )
    return found[1], found[2]


def with_filters(recipe: Recipe, changes: Mapping[str, Any]) -> Recipe:
    """The recipe with some of its filters changed.

    Raises:
        ConfigError: a value is invalid.
    """
    values = recipe.model_dump(mode="json")
    values["filters"] |= changes
    return parse_recipe(values, name=recipe.name)


def tagged(recipe: Recipe, tag: str) -> Recipe:
    """The recipe with another tag; empty for none.

    Raises:
        ConfigError: a tag cannot be so.
    """
    return parse_recipe(recipe.model_dump(mode="json") | {"tag": tag}, name=f"--tag {tag}")


def kept_apart(recipe: Recipe, folders: Iterable[Path]) -> Recipe:
    """The recipe with further data sets whose valid and test sentences are no training text."""
    return recipe.model_copy(update={"apart_from": [*recipe.apart_from, *(str(each.resolve()) for each in folders)]})


def checksums(recipe: Recipe) -> str:
    """Which downloads of a recipe have a known sha256, as a phrase."""
    without = [key for key, download in recipe.downloads.items() if download.sha256 is None]
    if not recipe.downloads:
        return "no download"
    if not without:
        return "sha256 of every download known"
    named = ", ".join(f"{key} (md5 only)" if recipe.downloads[key].md5 else key for key in without)
    pinned = "" if all(recipe.downloads[key].md5 for key in without) else "; recorded at the first download"
    return f"no sha256 known for {named}{pinned}"


def dump_recipe(recipe: Recipe) -> str:
    """The recipe as YAML, every default resolved; addresses without user information and query."""
    return yaml.safe_dump(recipe.record(), sort_keys=False, allow_unicode=True, width=110)


def _beside(recipe: Recipe, folder: Path) -> Recipe:
    """The recipe with absolute paths; relative ones lie in a folder."""
    splits = {split: [corpus.beside(folder, recipe) for corpus in getattr(recipe, split)] for split in SPLITS}
    return recipe.model_copy(update={**splits, "apart_from": [str(folder / each) for each in recipe.apart_from]})
