"""Data from Python: prepare a data set, and build its vocabulary."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from annotated_types import Ge, Le

from nmt.api.arguments import MIRROR, OFFLINE, THREADS, Assignments, Joined, Paths, Text, Texts, checked
from nmt.errors import ConfigError
from nmt.option_fields import CLEANING, DOWNLOADS, FORMAT, HARDWARE, OWN_TEXT, STREAMS, VOCABULARY, Argument, Option
from nmt.reporting import SILENT, Reporter
from nmt.text.lines import NormalizationRule
from nmt.text.steps import TextSteps

if TYPE_CHECKING:
    from nmt.corpora.schema import Recipe
    from nmt.data.build import BuiltVocabulary
    from nmt.data.manifest import Manifest


@dataclass(frozen=True)
class PreparedData:
    """A data set, or what would be prepared."""

    folder: Path
    recipe: Recipe
    """Where the text comes from, and what is done to it."""
    manifest: Manifest | None = None
    """What the data set holds; None if the recipe alone was asked for."""
    changed: bool = False
    """False if the data set was up to date."""


@checked
def prepare_data(
    dataset: Annotated[
        Text | None,
        Argument(
            "Built-in name (see --list), recipe NAME.yaml, or your own name.",
            in_python="A built-in name (also reversed: ``multi30k-de-en``), a recipe ``NAME.yaml``, or your own name.",
            metavar="DATASET",
        ),
    ] = None,
    *,
    out: Annotated[Path | None, Option("Folder of the data set.", STREAMS, unset="data/NAME", letter="o")] = None,
    tag: Annotated[
        str | None,
        Option(
            "Tag of its pairs, such as BT; see `translate --tag`.",
            STREAMS,
            unset="the recipe's, mostly none",
            metavar="TAG",
        ),
    ] = None,
    cache: Annotated[Path | None, Option("Where downloads are kept.", DOWNLOADS, unset="~/.cache/nmt")] = None,
    mirror: Annotated[Texts, MIRROR] = (),
    offline: Annotated[bool, OFFLINE] = False,
    jobs: Annotated[int | None, Ge(1), Option("Processes for cleaning.", HARDWARE, unset="one per core")] = None,
    force: Annotated[bool, Option("Replace the data set even if it was edited or runs use it.", STREAMS)] = False,
    source_lang: Annotated[
        str | None, Option("Source language, such as en.", OWN_TEXT, unset="of the name", metavar="LANG")
    ] = None,
    target_lang: Annotated[
        str | None, Option("Target language, such as de.", OWN_TEXT, unset="of the name", metavar="LANG")
    ] = None,
    train: Annotated[
        Texts,
        Option(
            "Training text: two files, a prefix, .tsv, .tmx, .po, .xlf or .zip, a URL, a folder or -. May be repeated.",
            OWN_TEXT,
            metavar="TEXT",
        ),
    ] = (),
    valid: Annotated[
        Texts, Option("Text for validation, likewise.", OWN_TEXT, unset="held out of train", metavar="TEXT")
    ] = (),
    test: Annotated[
        Texts, Option("Text for testing, likewise.", OWN_TEXT, unset="held out of train", metavar="TEXT")
    ] = (),
    columns: Annotated[
        Joined | None,
        Option(
            "Columns of tab-separated files: the two languages, score, and - for one to ignore.",
            OWN_TEXT,
            metavar="NAME,...",
        ),
    ] = None,
    header: Annotated[bool, Option("Tab-separated files begin with a line of names.", OWN_TEXT)] = False,
    max_words: Annotated[
        int | None, Ge(0), Option("Maximum words per side of training pairs; 0: no limit.", CLEANING, unset="250")
    ] = None,
    max_ratio: Annotated[
        float | None, Ge(0), Option("Maximum ratio of the sides' lengths; 0: no limit.", CLEANING, unset="4")
    ] = None,
    dedup: Annotated[
        bool | None, Option("Drop repeated training pairs.", CLEANING, unset="the recipe's, mostly on")
    ] = None,
    filter: Annotated[
        Assignments, Option("Turn on a filter of training pairs; may be repeated.", CLEANING, metavar="NAME[=VALUE]")
    ] = (),
    apart_from: Annotated[
        Paths,
        Option(
            "Drop training pairs with a sentence of valid or test of another data set; may be repeated.",
            CLEANING,
            metavar="DIR",
        ),
    ] = (),
    show_recipe: Annotated[
        bool,
        Option(
            "Print the recipe as YAML to copy and edit.",
            FORMAT,
            in_python="Prepare nothing; only the recipe is returned.",
        ),
    ] = False,
    report: Reporter = SILENT,
) -> PreparedData:
    """Fetch parallel text, or take your own, clean it, and write a data set.

    Args:
        own options: listed by ``help(nmt.prepare_data)``.
        report: hears notices and progress.

    Raises:
        ConfigError: an argument is not allowed, or arguments contradict each other.
        DownloadError: a file could not be fetched, or is damaged.
        DataError: the text cannot be used.
        OutputError: the folder holds something that must not be replaced.
    """
    from nmt.api.text_warnings import warn_of_languages
    from nmt.corpora.prepare import prepare
    from nmt.corpora.recipe import kept_apart, tagged, with_filters

    own = {"train": list(train), "valid": list(valid), "test": list(test)}
    only_own: dict[str, Any] = {"--source-lang": source_lang, "--target-lang": target_lang, "--valid": own["valid"]}
    only_own |= {"--test": own["test"], "--columns": columns, "--header": header}
    recipe = _recipe(dataset, own, only_own, report)
    changes = _filter_changes(filter, {"max_words": max_words, "max_ratio": max_ratio, "dedup": dedup})
    recipe = kept_apart(with_filters(recipe, changes) if changes else recipe, apart_from)
    recipe = recipe if tag is None else tagged(recipe, tag)
    folder = out or Path("data") / recipe.name
    warn_of_languages((recipe.source_lang, recipe.target_lang), report)
    if show_recipe:
        return PreparedData(folder, recipe)
    with report.progress() as display:
        prepared = prepare(
            recipe,
            folder,
            cache=cache,
            mirrors=mirror,
            offline=offline,
            workers=jobs,
            force=force,
            progress=display("bytes"),
            pairs_progress=display("pairs"),
            notify=report.notice,
        )
    return PreparedData(folder, recipe, prepared.manifest, prepared.changed)


def _recipe(dataset: str | None, own: dict[str, list[str]], only_own: dict[str, Any], report: Reporter) -> Recipe:
    """The recipe of a built-in data set, of a file, or of text of the user's own.

    Args:
        own: the user's own texts, by split.
        only_own: the options that only go with such texts.
    """
    from nmt.corpora.recipe import builtin_names, load_recipe, own_recipe

    if dataset is None or (own["train"] and os.path.isfile(dataset)):  # noqa: PTH113 - Path.is_file fails on a long name
        raise ConfigError(
            "your own text needs a name for its data set, which comes first. Example: nmt prepare-data mine-en-de "
            "--train corpus/europarl (the languages may also be given with --source-lang and --target-lang)."
            if own["train"]
            else f"name a data set: {', '.join(builtin_names())}, a recipe file NAME.yaml, or your own text with "
            "--train."
        )
    if not own["train"]:
        if without := [name for name, value in only_own.items() if value]:
            raise ConfigError(
                f"{', '.join(without)}: only for text of your own, which --train names. A built-in data set brings "
                "its languages and sets; to change them, edit a copy of its recipe (--show-recipe)."
            )
        return load_recipe(dataset)
    columns = only_own["--columns"]
    return own_recipe(
        dataset,
        source_lang=only_own["--source-lang"],
        target_lang=only_own["--target-lang"],
        **own,
        columns=None if columns is None else [name.strip() for name in columns.split(",")],
        header=only_own["--header"],
        notify=report.notice,
    )


def _filter_changes(filters: Texts, own_options: dict[str, float | None]) -> dict[str, Any]:
    """The filters that are set by ``--filter`` or by options of their own, of which 0 stands for no limit."""
    from nmt.corpora.filters import filter_changes

    changes = filter_changes(filters)
    for name, value in own_options.items():
        if value is None:
            continue
        if name in changes:
            raise ConfigError(f"the filter {name} is given twice: by --filter and by its own option. Give it once.")
        changes[name] = value or None if name in ("max_words", "max_ratio") else value
    return changes


@checked
def build_vocab(
    data: Annotated[
        Paths, Option("A prepared data set; several share one vocabulary.", STREAMS, unset="newest below data/")
    ] = (),
    *,
    size: Annotated[int | None, Ge(1), Option("Pieces.", VOCABULARY, unset="by the size of the corpus")] = None,
    model_type: Annotated[Literal["bpe", "unigram"], Option("Algorithm of the vocabulary.", VOCABULARY)] = "bpe",
    vocab: Annotated[
        Path | None,
        Option("Use an existing vocabulary (.model file, data set, bundle or run).", STREAMS, metavar="MODEL"),
    ] = None,
    character_coverage: Annotated[
        float, Ge(0.98), Le(1), Option("Share of characters that get pieces of their own.", VOCABULARY)
    ] = 1.0,
    normalization: Annotated[
        NormalizationRule, Option("SentencePiece's rule for both sides; identity is lossless.", VOCABULARY)
    ] = "identity",
    source_normalization: Annotated[
        NormalizationRule | None,
        Option("Rule for the source alone, repeated by translate.", VOCABULARY, unset="identity, or that of {vocab}"),
    ] = None,
    byte_fallback: Annotated[
        bool | None, Option("Spell characters without a piece in bytes.", VOCABULARY, unset="on from 1,024 pieces")
    ] = None,
    sampling_temperature: Annotated[
        float | None,
        Option("Balances the languages of several data sets; 1: by size.", VOCABULARY, unset="5", metavar="T"),
    ] = None,
    max_pieces: Annotated[int, Ge(1), Option("Leave out pairs with more pieces on a side.", VOCABULARY)] = 256,
    align: Annotated[
        bool | None,
        Option("Align the pieces of training pairs, for guided alignment.", VOCABULARY, unset="as the shards are"),
    ] = None,
    threads: Annotated[int | None, Ge(1), THREADS] = None,
    force: Annotated[bool, Option("Replace a vocabulary that runs were trained with.", STREAMS)] = False,
    report: Reporter = SILENT,
) -> list[BuiltVocabulary]:
    """Train a vocabulary on a data set's text, and encode the text with it.

    Args:
        own options: listed by ``help(nmt.build_vocab)``.
        report: hears notices.

    Returns:
        One vocabulary for each data set, in the order of their names.

    Raises:
        ConfigError: arguments contradict each other.
        DataError: a data set cannot be used.
        VocabularyError: no vocabulary can be trained, or the existing one is unsuitable.
        OutputError: a file would be replaced that must not be.
    """
    from nmt.checkpoint.lineage import vocabulary_origin
    from nmt.checkpoint.run_folder import refuse_while_used
    from nmt.data.build import build_vocabulary
    from nmt.data.manifest import newest_data_set
    from nmt.data.vocab_record import VocabularySettings

    if vocab is not None and size is not None:
        raise ConfigError("--vocab and --size were both given: an existing vocabulary has its size.")
    if sampling_temperature is not None and (vocab is not None or len(data) < 2):
        raise ConfigError(
            "--sampling-temperature balances the languages of several data sets in a new vocabulary: name each with "
            "--data, or leave it out."
        )
    if not data:
        data = (newest_data_set(),)
        report.notice(f"data: {data[0]} (the newest)")
    steps = None
    if vocab is not None and vocab.is_dir():
        vocab, steps = _vocabulary_of(vocab)
    settings = VocabularySettings(
        size, model_type, character_coverage, normalization, source_normalization, byte_fallback
    )
    if sampling_temperature is not None:
        settings = replace(settings, sampling_temperature=sampling_temperature)
    return build_vocabulary(
        data,
        settings,
        existing=vocab,
        existing_steps=steps,
        existing_origin=partial(vocabulary_origin, Path() if vocab is None else vocab.parent),
        check_unused=lambda folder, other: refuse_while_used(folder, "pieces" if other and not force else None),
        max_pieces=max_pieces,
        aligns=align,
        threads=threads,
        notify=report.notice,
    )


def _vocabulary_of(folder: Path) -> tuple[Path, TextSteps | None]:
    """The vocabulary of a data set, a bundle or a run, and what its text goes through if no data set records it."""
    from nmt.checkpoint.bundle_files import BundleFolder
    from nmt.checkpoint.run_folder import bundle_to_use
    from nmt.config import read_config
    from nmt.data.data_folder import DataFolder

    if DataFolder(folder).manifest.is_file():
        return DataFolder(folder).vocab, None

    bundle = BundleFolder(bundle_to_use(folder))
    return bundle.vocab, read_config(bundle.config).data.steps
