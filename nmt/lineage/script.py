"""A shell script that makes again what a chain leads to, and compares each result with its recorded checksum."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from nmt.checkpoint.lineage import AVERAGED, LINEAGE, UPDATE
from nmt.checkpoint.run_folder import RunFolder
from nmt.data.manifest import Manifest
from nmt.errors import DataError
from nmt.lineage.link import Link, entries_of, mapping_of
from nmt.option_fields import OptionField, option_fields
from nmt.search.settings import SearchSettings
from nmt.text import STDIN
from nmt.translation.line_settings import LineSettings

_ALWAYS = ("beam", "length_penalty")
_STEP = re.compile(r"step-(\d+)")
_THREADS = re.compile(r"(\d+) threads?")
_BEGINNING = """\
#!/bin/sh
# Makes {name} again, in the folder again/. Bit for bit on the same kind of processor, with the same versions:
{versions}
set -eu
mkdir -p again
cd again

same() {{  # sha256, file
    found=$(sha256sum "$2" | cut -d ' ' -f 1)
    test "$found" = "$1" || {{ echo "$2 differs: its sha256 is $found, but $1 is recorded" >&2; exit 1; }}
}}
"""


def script_for(link: Link) -> str:
    """The script, for a POSIX shell.

    Raises:
        DataError: a link of the chain is not known well enough.
    """
    if link.kind == "vocabulary":
        raise DataError(f"{link.name}: name its data set instead.")
    steps = list(dict.fromkeys(step for part in _in_order(link) for step in _steps(part)))
    versions = {f"# {part.facts['versions']}" for part in link.all() if "versions" in part.facts}
    return "\n".join([_BEGINNING.format(name=link.name, versions="\n".join(sorted(versions)) or "#"), *steps])


def _in_order(link: Link) -> Iterator[Link]:
    """Every link after all that it was made from."""
    for part in link.made_from:
        yield from _in_order(part)
    yield link


def _steps(link: Link) -> Iterator[str]:
    match link.kind:
        case "data set":
            yield _data_step(link.record)
        case "model":
            yield _model_step(link)
        case "translation":
            yield _translation_step(link)
        case "score":
            yield _score_step(link)
        case _:
            return


def _data_step(entry: Mapping[str, Any]) -> str:
    manifest = Manifest.model_validate(entry["manifest"])
    if any(source.file == STDIN for source in manifest.sources):
        raise DataError(f"{manifest.name}: was read from a pipe, so a script cannot make it again.")
    folder = _data_folder(manifest)
    recipe = yaml.safe_dump(_with_absolute_files(manifest.recipe), sort_keys=False, allow_unicode=True)
    lines = [
        f"cat > {_quoted(f'{manifest.name}.yaml')} <<'END OF RECIPE'",
        f"{recipe}END OF RECIPE",
        _command("prepare-data", f"{manifest.name}.yaml", "--out", folder),
        *(f"same {record.sha256} {_quoted(f'{folder}/{name}')}" for name, record in manifest.files.items()),
    ]
    vocabulary = mapping_of(entry.get("vocabulary"))
    settings = mapping_of(vocabulary.get("trained_with"))
    if vocabulary and not settings:
        raise DataError(f"{manifest.name}: its vocabulary was not trained on it, so a script cannot make it again.")
    if settings:
        options = [
            "--data", folder, "--size", str(settings["size"]), "--model-type", str(settings["model_type"]),
            "--character-coverage", str(settings["character_coverage"]), "--normalization", settings["normalization"],
            "--source-normalization", settings["source_normalization"], "--max-length", str(vocabulary["max_length"]),
        ]  # fmt: skip
        if settings.get("byte_fallback") is not None:
            options.append("--byte-fallback" if settings["byte_fallback"] else "--no-byte-fallback")
        lines += [_command("build-vocab", *options), f"same {vocabulary['sha256']} {_quoted(f'{folder}/vocab.model')}"]
    return "\n".join(lines) + "\n"


def _with_absolute_files(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """A recipe whose own files are found from any folder."""
    changed = dict(recipe)
    for split in ("train", "valid", "test"):
        changed[split] = [dict(corpus) for corpus in recipe.get(split, [])]
        for corpus in changed[split]:
            if corpus.get("kind") == "local":
                corpus["prefix"] = str(Path(corpus["prefix"]).absolute())
            elif corpus.get("kind") == "pair-file":
                corpus["file"] = str(Path(corpus["file"]).absolute())
            elif corpus.get("kind") == "local-files":
                corpus["files"] = {key: str(Path(file).absolute()) for key, file in corpus["files"].items()}
    return changed


def _model_step(link: Link) -> str:
    notes = mapping_of(link.record.get("notes"))
    lineage, config = mapping_of(notes.get(LINEAGE)), link.record.get("config")
    training = mapping_of(lineage.get("training"))
    if not training or not isinstance(config, str):
        raise DataError(f"{link.name}: how it was trained is not recorded, so it cannot be made again.")
    run, weights = _run_folder(link), mapping_of(link.record.get("sha256")).get("model.safetensors")
    manifests = [Manifest.model_validate(entry["manifest"]) for entry in entries_of(lineage.get("data"))]
    data = [word for manifest in manifests for word in ("--data", _data_folder(manifest))]
    options = ["--config", f"{run.name}.yaml", *data, "--out", str(run)]
    ranks = training.get("ranks")
    if isinstance(ranks, int) and ranks > 1:
        options += ["--nproc", str(ranks)]
    if (first := mapping_of(training.get("init_from"))).get("path"):
        options += ["--init-from", str(_model_folder(str(first["path"]), mapping_of(first.get("notes"))))]
    train = _command("train", *options)
    if threads := _THREADS.search(str(training.get("hardware"))):
        train = f"OMP_NUM_THREADS={threads[1]} {train}"
    folder = _model_folder(link.name, notes)
    lines = [f"cat > {_quoted(f'{run.name}.yaml')} <<'END OF SETTINGS'", f"{config}END OF SETTINGS", train]
    if isinstance(averaged := notes.get(AVERAGED), list):
        lines.append(_command("average-checkpoints", str(run), "--last", str(len(averaged)), "--out", str(folder)))
    return "\n".join([*lines, f"same {weights} {_quoted(f'{folder}/model.safetensors')}"]) + "\n"


def _run_folder(link: Link) -> Path:
    """The run of a model, below ``runs/``."""
    averaged = mapping_of(link.record.get("notes")).get(AVERAGED)
    checkpoint = Path(str(averaged[0])) if isinstance(averaged, list) and averaged else Path(link.name).resolve()
    run = checkpoint.parent.parent.name if _STEP.fullmatch(checkpoint.name) else checkpoint.name
    return Path("runs", run or "run")


def _model_folder(path: str, notes: Mapping[str, Any]) -> Path:
    run = _run_folder(Link("model", path, record={"notes": notes}))
    if AVERAGED in notes:
        return run / "average"
    update = notes.get(UPDATE)
    return RunFolder(run).checkpoint(update) if isinstance(update, int) else run / "last"


def _translation_step(link: Link) -> str:
    made, origin = mapping_of(link.record.get("made_with")), mapping_of(link.record.get("origin"))
    models = entries_of(origin.get("models"))
    if not models:
        raise DataError(f"{link.name}: its models are not recorded, so it cannot be made again.")
    lines, options = [], []
    for model in models:
        options += ["--model", str(_model_folder(str(model["path"]), mapping_of(model.get("notes"))))]
    for name, file in mapping_of(origin.get("files")).items():
        sha256 = made.get(name)
        if not isinstance(sha256, str):
            raise DataError(f"{link.name}: it was made from a pipe, which cannot be read again.")
        place = _text_file(link, str(file), sha256)
        lines.append(f"same {sha256} {_quoted(place)}")
        options += [f"--{name.replace('_', '-')}", place]
    output = Path(link.name).name
    options += [*_search_options(made), "--output", output]
    same = f"same {link.record.get('sha256')} {_quoted(output)}"
    return "\n".join([*lines, _command("translate", *options), same]) + "\n"


def _text_file(link: Link, file: str, sha256: str) -> str:
    """Where the script finds a text: in a data set that it prepares, else where it is now."""
    for part in link.all():
        if part.kind == "data set":
            manifest = Manifest.model_validate(part.record["manifest"])
            for name, record in manifest.files.items():
                if record.sha256 == sha256:
                    return f"{_data_folder(manifest)}/{name}"
    return str(Path(file).absolute())


def _search_options(made: Mapping[str, Any]) -> Iterator[str]:
    fields = (*option_fields(SearchSettings), *option_fields(LineSettings))
    yield from _options(fields, made)
    for name in ("precision", "format", "input_format", "invalid_utf8"):
        if name in made:
            yield from (f"--{name.replace('_', '-')}", str(made[name]))


def _options(fields: Iterable[OptionField], values: Mapping[str, Any]) -> Iterator[str]:
    for field in fields:
        value = values.get(field.name)
        if field.name not in values or value is None or value == "auto":
            continue
        if value == field.default and field.name not in _ALWAYS:
            continue
        if isinstance(value, bool):
            yield field.flag_for(value)
        elif isinstance(value, dict):
            yield field.flag
            yield from _options(field.parts, value)
        else:
            yield from (field.flag, str(value))


def _score_step(link: Link) -> str:
    hypotheses = [part for part in link.made_from if part.kind == "translation"]
    others = [part for part in link.made_from if part.kind == "text" and part.facts.get("role") == "hypothesis"]
    if others:
        raise DataError(f"{others[0].name}: was not written by nmt translate, so it cannot be made again.")
    options: list[str] = []
    for part in link.made_from:
        if part.kind == "text":
            sha256 = part.record.get("sha256")
            if not isinstance(sha256, str):
                raise DataError(f"{link.name}: its reference came through a pipe, which cannot be read again.")
            options += ["--reference", _text_file(link, part.name, sha256)]
    if link.record.get("test_set"):
        options += ["--test-set", str(link.record["test_set"]), "--langpair", str(link.record.get("langpair"))]
    options += [str(word) for word in mapping_of(link.record.get("lineage")).get("options", [])]
    return _command("score", *options, *(Path(part.name).name for part in hypotheses)) + "\n"


def score_options(
    metrics: Sequence[str],
    sheet: bool,
    paper_bleu: bool,
    tokenize: str | None,
    lowercase: bool,
    target_lang: str | None,
) -> list[str]:
    """The options of ``nmt score`` that compute the same scores again."""
    words = ["--sheet"] if sheet else [word for metric in metrics for word in ("--metric", metric)]
    words += ["--paper-bleu"] * paper_bleu + ["--lowercase"] * lowercase
    words += [] if tokenize is None else ["--tokenize", tokenize]
    return words + ([] if target_lang is None else ["--target-lang", target_lang])


def _data_folder(manifest: Manifest) -> str:
    return f"data/{manifest.name}"


def _command(*words: str) -> str:
    return " ".join(["nmt", *map(_quoted, words)])


def _quoted(word: str) -> str:
    return shlex.quote(word)
