"""A shell script that makes again what a chain leads to, and compares each result with its recorded checksum.

The records may come from anybody. So nothing of them may become a command, or a path outside of the script's folder:
words are quoted, names are checked, settings are written anew from their values.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from nmt.checkpoint.lineage import AVERAGED, IMPORTED, LINEAGE, ORIGIN, UPDATE
from nmt.checkpoint.run_folder import RunFolder
from nmt.config.documents import parse_yaml
from nmt.data.manifest import Manifest
from nmt.data.vocab_record import TEMPERATURE, joint_entries
from nmt.errors import DataError
from nmt.lineage.link import Link, entries_of, mapping_of
from nmt.option_fields import OptionField, option_fields
from nmt.printable import printable
from nmt.search.settings import SearchSettings
from nmt.text import STDIN
from nmt.translation.line_settings import LineSettings
from nmt.translation.resuming import INPUTS

_ALWAYS = ("beam", "length_penalty")
_END = "END OF FILE"
_NAME = re.compile(r"[\w+][\w.+-]*")
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
    found=$({{ sha256sum "$2" 2> /dev/null || shasum -a 256 "$2"; }} | cut -d ' ' -f 1)
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
    try:
        steps = list(dict.fromkeys(step for part in _in_order(link) for step in _steps(part)))
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{link.name}: its lineage is damaged ({type(error).__name__}: {error}).") from None
    versions = sorted(
        {f"# {_one_line(str(part.facts['versions']))}" for part in link.all() if "versions" in part.facts}
    )
    return "\n".join([_BEGINNING.format(name=_one_line(link.name), versions="\n".join(versions) or "#"), *steps])


def _in_order(link: Link) -> Iterator[Link]:
    """Every link after all that it was made from."""
    for part in link.made_from:
        yield from _in_order(part)
    yield link


def _steps(link: Link) -> Iterator[str]:
    match link.kind:
        case "data set":
            yield from _data_steps(link.record)
        case "model":
            yield _model_step(link)
        case "translation":
            yield _translation_step(link)
        case "score":
            yield _score_step(link)
        case _:
            return


def _data_steps(entry: Mapping[str, Any]) -> Iterator[str]:
    """Prepare a data set and build its vocabulary; a joint vocabulary needs all data sets that it was trained on."""
    manifest = Manifest.model_validate(entry["manifest"])
    vocabulary = mapping_of(entry.get("vocabulary"))
    settings = mapping_of(vocabulary.get("trained_with"))
    manifests = [Manifest.model_validate(each["manifest"]) for each in joint_entries(settings)] or [manifest]
    for name, count in Counter(each.name for each in manifests).items():
        if count > 1:
            raise DataError(
                f"{name}: two data sets of this name share a vocabulary. A script would make both in data/{name}; "
                "prepare one under another name."
            )
    for each in manifests:
        yield _preparing(each)
    if settings:
        yield _training_vocabulary(manifests, vocabulary, settings)
    elif vocabulary:
        yield _encoding(manifest, vocabulary)


def _preparing(manifest: Manifest) -> str:
    if any(source.file == STDIN for source in manifest.sources):
        raise DataError(f"{manifest.name}: was read from a pipe, so a script cannot make it again.")
    folder = _data_folder(manifest)
    recipe = _as_yaml(_with_absolute_files(manifest.recipe))
    lines = [
        _written(f"{_safe(manifest.name)}.yaml", recipe),
        _command("prepare-data", f"{manifest.name}.yaml", "--out", folder),
        *(_same(record.sha256, f"{folder}/{_safe(name)}") for name, record in manifest.files.items()),
    ]
    return "\n".join(lines) + "\n"


def _training_vocabulary(
    manifests: Sequence[Manifest], vocabulary: Mapping[str, Any], settings: Mapping[str, Any]
) -> str:
    folders = [_data_folder(manifest) for manifest in manifests]
    options = [
        *(word for folder in folders for word in ("--data", folder)),
        "--size", str(settings["size"]), "--model-type", str(settings["model_type"]),
        "--character-coverage", str(settings["character_coverage"]), "--normalization", settings["normalization"],
        "--source-normalization", settings["source_normalization"], "--max-length", str(vocabulary["max_length"]),
    ]  # fmt: skip
    if settings.get("byte_fallback") is not None:
        options.append("--byte-fallback" if settings["byte_fallback"] else "--no-byte-fallback")
    if len(manifests) > 1:
        options += ["--sampling-temperature", str(settings[TEMPERATURE])]
    checks = (_same(vocabulary["sha256"], f"{folder}/vocab.model") for folder in folders)
    return "\n".join([_command("build-vocab", *options), *checks]) + "\n"


def _encoding(manifest: Manifest, vocabulary: Mapping[str, Any]) -> str:
    """Encode a data set with the vocabulary of the data set that it was trained on, which an earlier step made."""
    origin, folder = mapping_of(vocabulary.get(ORIGIN)), _data_folder(manifest)
    if not origin:
        raise DataError(
            f"{manifest.name}: was encoded with a given vocabulary (sha256 {vocabulary.get('sha256')}). What that was "
            "trained on is not recorded: it is no vocabulary of a data set or of a bundle of nmt."
        )
    trained_on = Manifest.model_validate(origin["manifest"])
    if trained_on.name == manifest.name and trained_on.fingerprint != manifest.fingerprint:
        raise DataError(
            f"{manifest.name}: its vocabulary was trained on another data set of the same name; a script cannot make "
            f"both in data/{manifest.name}. Prepare one of them under another name."
        )
    given = f"{_data_folder(trained_on)}/vocab.model"
    command = _command(
        "build-vocab", "--data", folder, "--vocab", given,
        "--source-normalization", vocabulary["source_normalization"], "--max-length", str(vocabulary["max_length"]),
    )  # fmt: skip
    return "\n".join([command, _same(vocabulary["sha256"], f"{folder}/vocab.model")]) + "\n"


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
        if imported := mapping_of(notes.get(IMPORTED)):
            raise DataError(
                f"{link.name}: was imported from files of {imported.get('toolkit')}, which a script cannot fetch. Run "
                "`nmt import` on them again."
            )
        raise DataError(f"{link.name}: how it was trained is not recorded, so it cannot be made again.")
    run, weights = _run_folder(link), mapping_of(link.record.get("sha256")).get("model.safetensors")
    settings = parse_yaml(config)
    manifests = [Manifest.model_validate(entry["manifest"]) for entry in entries_of(lineage.get("data"))]
    shares = [settings["data"], *settings["data"]["mixed_with"]]
    data = [
        word
        for manifest, share in zip(manifests, shares, strict=True)
        for word in ("--data", f"{_data_folder(manifest)}:{share['weight']}")
    ]
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
    lines = [_written(f"{run.name}.yaml", _as_yaml(settings)), train]
    if isinstance(averaged := notes.get(AVERAGED), list):
        lines.append(_command("average-checkpoints", str(run), "--last", str(len(averaged)), "--out", str(folder)))
    return "\n".join([*lines, _same(weights, f"{folder}/model.safetensors")]) + "\n"


def _run_folder(link: Link) -> Path:
    """The run of a model, below ``runs/``."""
    averaged = mapping_of(link.record.get("notes")).get(AVERAGED)
    checkpoint = Path(str(averaged[0])) if isinstance(averaged, list) and averaged else Path(link.name).resolve()
    run = checkpoint.parent.parent.name if _STEP.fullmatch(checkpoint.name) else checkpoint.name
    return Path("runs", _safe(run or "run"))


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
    files = mapping_of(origin.get("files"))
    for name in (name for name in INPUTS if name in files):
        file, sha256 = files[name], made.get(name)
        if not isinstance(sha256, str):
            raise DataError(f"{link.name}: it was made from a pipe, which cannot be read again.")
        place = _text_file(link, str(file), sha256)
        lines.append(_same(sha256, place))
        options += [f"--{name.replace('_', '-')}", place]
    output = _output_file(link)
    options += [*_search_options(made), "--output", output]
    return "\n".join([*lines, _command("translate", *options), _same(link.record.get("sha256"), output)]) + "\n"


def _output_file(link: Link) -> str:
    """Where the script writes a translation; with a folder, no name is taken for an option."""
    return f"./{Path(link.name).name}"


def _text_file(link: Link, file: str, sha256: str) -> str:
    """Where the script finds a text: in a data set that it prepares, else where it is now."""
    for part in link.all():
        if part.kind == "data set":
            manifest = Manifest.model_validate(part.record["manifest"])
            for name, record in manifest.files.items():
                if record.sha256 == sha256:
                    return f"{_data_folder(manifest)}/{_safe(name)}"
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
    lines, options = [], list[str]()
    for part in link.made_from:
        sha256 = part.record.get("sha256")
        if part.kind == "text":
            role = part.facts["role"]
            if not isinstance(sha256, str):
                raise DataError(f"{link.name}: its {role} came through a pipe, which cannot be read again.")
            place = _text_file(link, part.name, sha256)
            lines.append(_same(sha256, place))
            options += [f"--{role}", place]
        elif part.kind == "file":  # the weights of a learned metric, which an option names
            lines.append(_same(sha256, part.name))
    if link.record.get("test_set"):
        options += ["--test-set", str(link.record["test_set"]), "--langpair", str(link.record.get("langpair"))]
    options += [str(word) for word in mapping_of(link.record.get("lineage")).get("options", [])]
    return "\n".join([*lines, _command("score", *options, *map(_output_file, hypotheses))]) + "\n"


def score_options(
    metrics: Sequence[str],
    sheet: bool,
    paper_bleu: bool,
    tokenize: str | None,
    lowercase: bool,
    target_lang: str | None,
    files: Mapping[str, Path | None],
) -> list[str]:
    """The options of ``nmt score`` that compute the same scores again.

    Args:
        files: what further options name, by option.
    """
    words = ["--sheet"] if sheet else [word for metric in metrics for word in ("--metric", metric)]
    words += ["--paper-bleu"] * paper_bleu + ["--lowercase"] * lowercase
    words += [] if tokenize is None else ["--tokenize", tokenize]
    words += [] if target_lang is None else ["--target-lang", target_lang]
    # The script runs in another folder.
    return words + [word for name, path in files.items() if path for word in (f"--{name}", str(path.absolute()))]


def _data_folder(manifest: Manifest) -> str:
    return f"data/{_safe(manifest.name)}"


def _safe(name: str) -> str:
    """A name that leads to no other folder and is no option.

    Raises:
        DataError: it is not such a name.
    """
    if not _NAME.fullmatch(name):
        raise DataError(f"{name!r}: this name could lead a script out of its folder, so none is written.")
    return name


def _same(sha256: object, file: str) -> str:
    """The line that compares a file with its recorded checksum."""
    return f"same {_quoted(str(sha256))} {_quoted(file)}"


def _as_yaml(values: object) -> str:
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True)


def _written(file: str, text: str) -> str:
    """The lines that write a text into a file.

    Raises:
        DataError: the text holds the line that ends it, so the rest would be commands.
    """
    if _END in text.splitlines():
        raise DataError(f"{file}: holds the line {_END!r}, which ends it in a script, so none is written.")
    return f"cat > {_quoted(file)} <<'{_END}'\n{text}{_END}"


def _one_line(text: str) -> str:
    return printable(" ".join(text.split()))


def _command(*words: str) -> str:
    return " ".join(["nmt", *map(_quoted, words)])


def _quoted(word: str) -> str:
    return shlex.quote(word)
