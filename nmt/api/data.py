"""Data from Python: prepare a data set, and build its vocabulary."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from nmt.api.arguments import Paths, Text, Texts, checked
from nmt.corpora.schema import Recipe
from nmt.data.build import BuiltVocabulary
from nmt.data.manifest import Manifest
from nmt.errors import ConfigError
from nmt.reporting import SILENT, Reporter
from nmt.text.lines import NormalizationRule
from nmt.text.steps import TextSteps


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
    dataset: Text | None = None,
    *,
    out: Path | None = None,
    cache: Path | None = None,
    mirror: Texts = (),
    offline: bool = False,
    jobs: Annotated[int, Field(ge=1)] | None = None,
    force: bool = False,
    source_lang: str | None = None,
    target_lang: str | None = None,
    train: Texts = (),
    valid: Texts = (),
    test: Texts = (),
    columns: str | None = None,
    header: bool = False,
    max_words: Annotated[int, Field(ge=0)] | None = None,
    max_ratio: Annotated[float, Field(ge=0)] | None = None,
    dedup: bool | None = None,
    filter: Texts = (),
    apart_from: Paths = (),
    show_recipe: bool = False,
    report: Reporter = SILENT,
) -> PreparedData:
    """Fetch parallel text, or take your own, clean it, and write a data set.

    Args:
        dataset: a built-in name, which may be reversed (``multi30k-de-en``), a recipe ``NAME.yaml``, or your own name.
        out: the folder of the data set; ``data/NAME`` if not given.
        cache: where downloads are kept.
        mirror: folders or URLs that hold the downloads by their names, tried first.
        offline: use no network.
        jobs: processes for cleaning; one per core if not given.
        force: replace data, even if it was edited, is another data set, or runs use it.
        source_lang, target_lang: the languages of your own text.
        train, valid, test: your own text: a prefix of two files, the two files one after the other, a ``.tsv``,
            ``.tmx`` or ``.zip``, a URL, a folder. Without text for valid or test, pairs are held out of train.
        columns: the columns of tab-separated files, with commas: languages, ``score``, ``-`` for one to ignore.
        header: whether tab-separated files begin with a line of names.
        max_words, max_ratio: the maximum words per side of a training pair, and the maximum ratio of both; 0 for no
            limit.
        dedup: drop repeated training pairs.
        filter: filters of training pairs to turn on: ``NAME`` or ``NAME=VALUE``.
        apart_from: other data sets, whose valid and test sentences are no training text.
        show_recipe: prepare nothing; only the recipe is returned.
        report: hears notices and progress.

    Raises:
        ConfigError: an argument is not allowed, or arguments contradict each other.
        DownloadError: a file could not be fetched, or is damaged.
        DataError: the text cannot be used.
        OutputError: the folder holds something that must not be replaced.
    """
    from nmt.corpora.prepare import prepare
    from nmt.corpora.recipe import kept_apart, with_filters

    own = {"train": list(train), "valid": list(valid), "test": list(test)}
    only_own: dict[str, Any] = {"--source-lang": source_lang, "--target-lang": target_lang, "--valid": own["valid"]}
    only_own |= {"--test": own["test"], "--columns": columns, "--header": header}
    recipe = _recipe(dataset, own, only_own, report)
    changes = _filter_changes(filter, {"max_words": max_words, "max_ratio": max_ratio, "dedup": dedup})
    recipe = kept_apart(with_filters(recipe, changes) if changes else recipe, apart_from)
    folder = out or Path("data") / recipe.name
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

    if dataset is None:
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
    data: Paths = (),
    *,
    size: Annotated[int, Field(ge=1)] | None = None,
    model_type: Literal["bpe", "unigram"] = "bpe",
    vocab: Path | None = None,
    character_coverage: Annotated[float, Field(ge=0.98, le=1)] = 1.0,
    normalization: NormalizationRule = "identity",
    source_normalization: NormalizationRule | None = None,
    byte_fallback: bool | None = None,
    sampling_temperature: float | None = None,
    max_pieces: Annotated[int, Field(ge=1)] = 256,
    threads: Annotated[int, Field(ge=1)] | None = None,
    force: bool = False,
    report: Reporter = SILENT,
) -> list[BuiltVocabulary]:
    """Train a vocabulary on the text of data sets, and encode the text with it.

    Args:
        data: prepared data sets, which get one vocabulary; the newest below ``data/`` if none is given.
        size: the number of pieces; chosen by the size of the corpus if not given.
        model_type: the algorithm of the vocabulary.
        vocab: use an existing vocabulary: a ``.model`` file, bundle or run.
        character_coverage: the share of characters that get pieces of their own.
        normalization: SentencePiece's rule for both sides.
        source_normalization: the rule for the source alone; that of ``vocab`` or identity if not given.
        byte_fallback: spell characters without a piece in bytes; on from 1,024 pieces if not given.
        sampling_temperature: balances the languages of several data sets; 1 is by size, and the default is 5.
        max_pieces: leave out pairs with more pieces on a side.
        threads: threads for encoding; all usable cores if not given.
        force: replace a vocabulary that runs were trained with.
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
        max_length=max_pieces,
        threads=threads,
    )


def _vocabulary_of(model: Path) -> tuple[Path, TextSteps]:
    """The vocabulary of a bundle or a run, and what its text goes through."""
    from nmt.checkpoint.bundle_files import BundleFolder
    from nmt.checkpoint.run_folder import bundle_to_use
    from nmt.config import read_config

    bundle = BundleFolder(bundle_to_use(model))
    return bundle.vocab, read_config(bundle.config).data.steps
