"""A shell script that makes again what a chain leads to, and compares each result with its recorded checksum.

The records may come from anybody. So nothing of them may become a command, or a path outside of the script's folder:
words are quoted, names are checked, settings are written anew from their values.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from nmt.checkpoint.lineage import AVERAGED, CHANGED, IMPORTED, LINEAGE, ORIGIN, UPDATE
from nmt.checkpoint.run_folder import RunFolder
from nmt.config import Section
from nmt.config.documents import parse_yaml
from nmt.data.manifest import Manifest
from nmt.data.vocab_record import TEMPERATURE, joint_entries
from nmt.errors import DataError
from nmt.evaluation.metrics import LEARNED, MetricName, TokenizerName
from nmt.lineage.link import Link, entries_of, mapping_of
from nmt.option_fields import OptionField, option_fields
from nmt.text.lines import STDIN
from nmt.text.printable import printable
from nmt.translation.options import TranslateOptions
from nmt.translation.resuming import INPUTS

_ALWAYS = ("beam", "length_penalty")
_END = "END OF FILE"
_NAME = re.compile(r"[\w+][\w.+-]*")
_STEP = re.compile(r"step-(\d+)")
_THREADS = re.compile(r"(\d+) threads?")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_BEGINNING = """\
#!/bin/sh
# Makes {name} again, in the folder again/. Bit for bit on the same kind of processor, with the same versions:
{versions}
set -eu

same() {{  # sha256, file
    found=$({{ sha256sum "$2" 2> /dev/null || shasum -a 256 "$2"; }} | cut -d ' ' -f 1)
    test "$found" = "$1" || {{ echo "$2 differs: its sha256 is $found, but $1 is recorded" >&2; exit 1; }}
}}

{first}mkdir -p again
cd again
"""


class ScoreOptions(Section):
    """The options of ``nmt score`` that its scores depend on, but for the files."""

    sheet: bool = False
    metric: tuple[MetricName, ...] = ()
    paper_bleu: bool = False
    lowercase: bool = False
    tokenize: TokenizerName | None = None
    target_lang: str | None = None

    def words(self) -> Iterator[str]:
        """The options as words of a command."""
        if self.sheet:
            yield "--sheet"
        for metric in () if self.sheet else self.metric:
            yield from ("--metric", metric)
        for name in ("paper_bleu", "lowercase"):
            if getattr(self, name):
                yield f"--{name.replace('_', '-')}"
        for name in ("tokenize", "target_lang"):
            if (value := getattr(self, name)) is not None:
                yield from (f"--{name.replace('_', '-')}", value)


def script_for(link: Link) -> str:
    """The script, for a POSIX shell.

    Raises:
        DataError: a link of the chain is not known well enough.
    """
    if link.kind == "vocabulary":
        raise DataError(f"{link.name}: name its data set instead.")
    script = _Script()
    try:
        steps = list(dict.fromkeys(step for part in _in_order(link) for step in script.steps(part)))
        first = [*script.variables, *(f"echo {_quoted(f'warning: {line}')} >&2" for line in doubts(link))]
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{link.name}: its lineage is damaged ({type(error).__name__}: {error}).") from None
    versions = sorted(
        {f"# {_one_line(str(part.facts['versions']))}" for part in link.all() if "versions" in part.facts}
    )
    beginning = _BEGINNING.format(
        name=_one_line(link.name),
        versions="\n".join(versions) or "#",
        first="".join(f"{line}\n" for line in dict.fromkeys(first)),
    )
    return "\n".join([beginning, *steps])


def doubts(link: Link) -> list[str]:
    """Why the script will not make the same bundles again, as far as the records tell."""
    return list(dict.fromkeys(line for part in link.all() if part.kind == "model" for line in _doubts(part)))


def _doubts(link: Link) -> Iterator[str]:
    training = mapping_of(mapping_of(mapping_of(link.record.get("notes")).get(LINEAGE)).get("training"))
    config = link.record.get("config")
    settings = mapping_of(parse_yaml(config)) if training and isinstance(config, str) else {}
    minutes = mapping_of(settings.get("training")).get("max_minutes")
    if isinstance(minutes, int | float):
        yield _one_line(
            f"{link.name}: was trained for {minutes:g} minutes (training.max_minutes). Another training makes another "
            "number of updates in this time, so its weights may differ."
        )
    changed = training.get(CHANGED)
    if isinstance(changed, list) and changed:
        yield _one_line(
            f"{link.name}: was resumed with other settings ({', '.join(map(str, changed))}). The script trains with "
            "the last settings from the beginning, so its weights may differ."
        )


def _in_order(link: Link) -> Iterator[Link]:
    """Every link after all that it was made from."""
    for part in link.made_from:
        yield from _in_order(part)
    yield link


class _Names:
    """Names in the script's folder: what the records call alike gets names of its own."""

    def __init__(self, *taken: str) -> None:
        self._keys: dict[str, Hashable] = dict.fromkeys(taken, "")

    def of(self, name: str, *key: Hashable) -> str:
        """The name of a thing: as it was, or with a number (``name-2.txt``) if another thing has it."""
        path, number = Path(name), 1
        while self._keys.setdefault(name, key) != key:
            number += 1
            name = f"{path.with_suffix('')}-{number}{path.suffix}"
        return name


class _Script:
    """The steps of a script, and the names of what they make."""

    def __init__(self) -> None:
        self.variables: list[str] = []
        """Lines that check variables which the user sets."""
        self._names = _Names("data", "runs", "again")

    def steps(self, link: Link) -> Iterator[str]:
        """The steps that make one link, after all that it was made from."""
        match link.kind:
            case "data set":
                yield from self._data_steps(link.record)
            case "model":
                yield self._model_step(link)
            case "translation":
                yield self._translation_step(link)
            case "score":
                yield self._score_step(link)
            case _:
                return

    def _data_steps(self, entry: Mapping[str, Any]) -> Iterator[str]:
        """Prepare a data set and build its vocabulary; a joint vocabulary needs all data sets it was trained on."""
        manifest = Manifest.model_validate(entry["manifest"])
        vocabulary = mapping_of(entry.get("vocabulary"))
        settings = mapping_of(vocabulary.get("trained_with"))
        manifests = [Manifest.model_validate(each["manifest"]) for each in joint_entries(settings)] or [manifest]
        for each in manifests:
            yield self._preparing(each)
        if settings:
            yield self._training_vocabulary(manifests, vocabulary, settings)
        elif vocabulary:
            yield self._encoding(manifest, vocabulary)

    def _data_folder(self, manifest: Manifest) -> str:
        return self._names.of(f"data/{_safe(manifest.name)}", manifest.fingerprint)

    def _preparing(self, manifest: Manifest) -> str:
        if any(source.url is None and _is_pipe(source.file) for source in manifest.sources):
            raise DataError(f"{manifest.name}: was read from a pipe, so a script cannot make it again.")
        folder = self._data_folder(manifest)
        recipe = f"{Path(folder).name}.yaml"
        lines = [
            _written(recipe, _as_yaml(manifest.recipe)),
            _command("prepare-data", recipe, "--out", folder),
            *(_same(record.sha256, f"{folder}/{_safe(name)}") for name, record in manifest.files.items()),
        ]
        return "\n".join(lines) + "\n"

    def _training_vocabulary(
        self, manifests: Sequence[Manifest], vocabulary: Mapping[str, Any], settings: Mapping[str, Any]
    ) -> str:
        folders = [self._data_folder(manifest) for manifest in manifests]
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

    def _encoding(self, manifest: Manifest, vocabulary: Mapping[str, Any]) -> str:
        """Encode a data set with the vocabulary of the data set that it was trained on, which an earlier step made."""
        origin, folder = mapping_of(vocabulary.get(ORIGIN)), self._data_folder(manifest)
        if not origin:
            raise DataError(
                f"{manifest.name}: was encoded with a given vocabulary (sha256 {vocabulary.get('sha256')}). What that "
                "was trained on is not recorded: it is no vocabulary of a data set or of a bundle of nmt."
            )
        given = f"{self._data_folder(Manifest.model_validate(origin['manifest']))}/vocab.model"
        command = _command(
            "build-vocab", "--data", folder, "--vocab", given,
            "--source-normalization", vocabulary["source_normalization"], "--max-length", str(vocabulary["max_length"]),
        )  # fmt: skip
        return "\n".join([command, _same(vocabulary["sha256"], f"{folder}/vocab.model")]) + "\n"

    def _model_step(self, link: Link) -> str:
        notes = mapping_of(link.record.get("notes"))
        lineage, config = mapping_of(notes.get(LINEAGE)), link.record.get("config")
        training = mapping_of(lineage.get("training"))
        if not training or not isinstance(config, str):
            if imported := mapping_of(notes.get(IMPORTED)):
                raise DataError(
                    f"{link.name}: was imported from files of {imported.get('toolkit')}, which a script cannot fetch. "
                    "Run `nmt import` on them again."
                )
            raise DataError(f"{link.name}: how it was trained is not recorded, so it cannot be made again.")
        run, folder = self._run_folder(link.record), self._model_folder(link.record)
        settings = parse_yaml(config)
        manifests = [Manifest.model_validate(entry["manifest"]) for entry in entries_of(lineage.get("data"))]
        shares = [settings["data"], *settings["data"]["mixed_with"]]
        data = [
            word
            for manifest, share in zip(manifests, shares, strict=True)
            for word in ("--data", f"{self._data_folder(manifest)}:{share['weight']}")
        ]
        options = ["--config", f"{run.name}.yaml", *data, "--out", str(run)]
        ranks = training.get("ranks")
        if isinstance(ranks, int) and ranks > 1:
            options += ["--nproc", str(ranks)]
        if (first := mapping_of(training.get("init_from"))).get("path"):
            options += ["--init-from", str(self._model_folder(first))]
        averaged = _averaged(link.record)
        steps = [_STEP.fullmatch(Path(each).name) for each in averaged or []]
        updates = [int(step[1]) for step in steps if step]
        if averaged is None and isinstance(update := notes.get(UPDATE), int):
            updates = [update]
        train = _command("train", *options, *_options_to_keep(settings, updates))
        if threads := _THREADS.search(str(training.get("hardware"))):
            train = f"OMP_NUM_THREADS={threads[1]} {train}"
        lines = [_written(f"{run.name}.yaml", _as_yaml(settings)), train]
        if averaged is not None:
            if not all(steps):
                raise DataError(f"{link.name}: averages bundles that are no checkpoints of a run.")
            # By their updates: the record does not say by which rule they were chosen.
            options = ["--updates", ",".join(map(str, updates)), "--out", str(folder)]
            lines.append(_command("average-checkpoints", str(run), *options))
        weights = mapping_of(link.record.get("sha256")).get("model.safetensors")
        return "\n".join([*lines, _same(weights, f"{folder}/model.safetensors")]) + "\n"

    def _run_folder(self, origin: Mapping[str, Any]) -> Path:
        """The run of a model, below ``runs/``. Two runs of one name have folders of their own."""
        averaged = _averaged(origin)
        checkpoint = Path(averaged[0] if averaged else origin["path"]).resolve()
        run = checkpoint.parent.parent if _STEP.fullmatch(checkpoint.name) else checkpoint
        lineage = json.dumps(mapping_of(origin.get("notes")).get(LINEAGE), sort_keys=True)
        return Path(self._names.of(f"runs/{_safe(run.name or 'run')}", str(run), str(origin.get("config")), lineage))

    def _model_folder(self, origin: Mapping[str, Any]) -> Path:
        run, notes = self._run_folder(origin), mapping_of(origin.get("notes"))
        if (averaged := _averaged(origin)) is not None:
            return Path(self._names.of(f"{run}/average", *averaged))
        update = notes.get(UPDATE)
        return RunFolder(run).checkpoint(update) if isinstance(update, int) else run / "last"

    def _translation_step(self, link: Link) -> str:
        made, origin = mapping_of(link.record.get("made_with")), mapping_of(link.record.get("origin"))
        models = entries_of(origin.get("models"))
        if not models:
            raise DataError(f"{link.name}: its models are not recorded, so it cannot be made again.")
        lines, options = [], []
        for model in models:
            options += ["--model", str(self._model_folder(model))]
        files = mapping_of(origin.get("files"))
        for name in (name for name in INPUTS if name in files):
            file, sha256 = files[name], made.get(name)
            if not isinstance(sha256, str):
                raise DataError(f"{link.name}: it was made from a pipe, which cannot be read again.")
            place = self._text_file(link, str(file), sha256)
            lines.append(_same(sha256, place))
            options += [f"--{name.replace('_', '-')}", place]
        output = self._output_file(link)
        options += [*_search_options(made), "--output", output]
        return "\n".join([*lines, _command("translate", *options), _same(link.record.get("sha256"), output)]) + "\n"

    def _output_file(self, link: Link) -> str:
        """Where the script writes a translation; with a folder, no name is taken for an option."""
        name = Path(link.name).name
        name = "output" if name in ("", "..") else name
        return f"./{self._names.of(name, link.name, str(link.record.get('sha256')))}"

    def _text_file(self, link: Link, file: str, sha256: str) -> str:
        """Where the script finds a text: in a data set that it prepares, else where it is now."""
        for part in link.all():
            if part.kind == "data set":
                manifest = Manifest.model_validate(part.record["manifest"])
                for name, record in manifest.files.items():
                    if record.sha256 == sha256:
                        return f"{self._data_folder(manifest)}/{_safe(name)}"
        return str(Path(file).absolute())

    def _score_step(self, link: Link) -> str:
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
                place = self._text_file(link, part.name, sha256)
                lines.append(_same(sha256, place))
                options += [f"--{role}", place]
        if link.record.get("test_set"):
            options += ["--test-set", str(link.record["test_set"]), "--langpair", str(link.record.get("langpair"))]
        options += ScoreOptions.model_validate(mapping_of(link.record["lineage"])["options"]).words()
        command = _command("score", *options)
        for part in link.made_from:
            if part.kind == "file":
                command += f" {self._learned_metric(part.record)}"
        return "\n".join([*lines, " ".join([command, *map(_quoted, map(self._output_file, hypotheses))])]) + "\n"

    def _learned_metric(self, record: Mapping[str, Any]) -> str:
        """The option that names the model of a learned metric. The user says where it is.

        To load such a model may run code of its files, so a record does not choose it.
        """
        metric, sha256 = LEARNED[LEARNED.index(record["metric"])], str(record["sha256"])
        if not _SHA256.fullmatch(sha256):
            raise ValueError(f"sha256 {sha256!r}")
        variable, weights = f"{metric.upper()}_MODEL", Path(str(record["path"])).name
        # COMET takes the file of its weights, BLEURT the folder.
        what, file = ("file", "") if metric == "comet" else ("folder", f"/{_safe(weights)}")
        self.variables += [
            f': "${{{variable}:?set it to the {what} of the model of {metric.upper()} ({_safe(weights)}, {sha256})}}"',
            f"case ${variable} in /*) ;; *) {variable}=$PWD/${variable} ;; esac",
            f'same {sha256} "${variable}"{file}',
        ]
        return f'--{metric}-model "${variable}"'


def _averaged(origin: Mapping[str, Any]) -> list[str] | None:
    """The checkpoints that a bundle is the average of; None if it is none."""
    averaged = mapping_of(origin.get("notes")).get(AVERAGED)
    return [str(each) for each in averaged] if isinstance(averaged, list) and averaged else None


def _search_options(made: Mapping[str, Any]) -> Iterator[str]:
    yield from _options(option_fields(TranslateOptions), made)
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


def _is_pipe(file: str) -> bool:
    """Whether a recorded file was read once: standard input, ``<(...)``, or a named pipe that is still there."""
    return file == STDIN or file.startswith(("/dev/", "/proc/")) or Path(file).is_fifo()


def _options_to_keep(settings: Mapping[str, Any], updates: Sequence[int]) -> list[str]:
    """Options that keep checkpoints of these updates, if the run would remove one of them before its end."""
    last, saving = settings["training"]["max_updates"], settings["checkpoints"]
    every = saving["every_updates"]
    saved = [*range(every, last, every), last] if last and every else []
    needed = [update for update in updates if update not in saved[-saving["keep_last"] :]]
    return ["--set", f"checkpoints.keep_every={math.gcd(*updates)}"] if needed else []


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
