"""A shell script that makes again what a record leads to, and compares each result with its recorded checksum.

The records may come from anybody. So only commands and options of the tables below are printed, each word quoted.
A command writes to the path of its own record, in the script's folder. Other paths lead to what an earlier step made
there, or to a file of the user that is only read. Settings are written anew from their values.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator, Mapping, Set
from pathlib import Path, PurePath
from typing import Any

import yaml

from nmt.checkpoint.bundle_files import BundleFolder
from nmt.checkpoint.lineage import AVERAGE, CHECKPOINT, EXPORTED, IMPORTED, MODEL, TRAINING
from nmt.checkpoint.run_folder import RunFolder
from nmt.data.data_folder import DataFolder
from nmt.errors import DataError
from nmt.option_fields import OptionField, option_fields
from nmt.record import ITSELF, PATHS, Record
from nmt.text.lines import STDIN
from nmt.text.printable import printable
from nmt.translation.options import TranslateOptions

_END = "END OF FILE"
_SHA256 = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[\w+][\w.+-]*")
_METRIC = re.compile(r"model of (COMET|BLEURT)")
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


def _flags(fields: tuple[OptionField, ...]) -> Iterator[str]:
    for field in fields:
        yield from (field.flag_for(True), field.flag_for(False), *_flags(field.parts))


_OPTIONS: Mapping[str, Set[str]] = {
    "prepare-data": {"--out"},
    "build-vocab": {
        "--data", "--vocab", "--size", "--model-type", "--character-coverage", "--normalization",
        "--source-normalization", "--byte-fallback", "--no-byte-fallback", "--sampling-temperature", "--max-length",
    },
    "train": {
        "--config", "--data", "--out", "--init-from", "--nproc", "--precision", "--set", "--max-updates",
        "--accept-changes",
    },
    "average-checkpoints": {"--updates", "--out"},
    "export": {"--to", "--quantization", "--out"},
    "translate": {
        "--model", "--input", "--prefix", "--score-target", "--output", "--engine", "--precision", "--format",
        "--input-format", "--invalid-utf8", *_flags(option_fields(TranslateOptions)),
    },
    "score": {
        "--reference", "--source", "--test-set", "--langpair", "--sheet", "--metric", "--paper-bleu", "--lowercase",
        "--tokenize", "--target-lang", "--comet-model", "--bleurt-model",
    },
}  # fmt: skip
"""The commands of a script, each with the options that its results depend on."""
_COMMANDS = {
    "data set": "prepare-data",
    "vocabulary": "build-vocab",
    TRAINING: "train",
    AVERAGE: "average-checkpoints",
    EXPORTED: "export",
    "translation": "translate",
    "score": "score",
}
"""The command that makes each kind of record."""
_READ = frozenset({"--input", "--prefix", "--score-target", "--reference", "--source", "--vocab"})
"""The options that may name a file of the user."""
_METRIC_MODELS = {"--comet-model": "$COMET_MODEL", "--bleurt-model": "$BLEURT_MODEL"}


def script_for(record: Record) -> tuple[str, list[str]]:
    """The script, for a POSIX shell, and the reasons why it may not make the same again.

    Raises:
        DataError: a record does not say how to make it again, or holds what could lead out of the script's folder.
    """
    try:
        record = _located(record)
        script = _Script(record)
        # Data sets first: later steps read their files, such as a test set.
        parts = sorted(_in_order(record), key=lambda part: part.kind != "data set")
        # A joint vocabulary is built once, and compared in each data set.
        steps = list(dict.fromkeys(step for part in parts for step in script.steps(part)))
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        raise DataError(f"{record.path}: its lineage is damaged ({type(error).__name__}: {error}).") from None
    doubts = list(dict.fromkeys(script.doubts))
    first = [*script.variables, *(f"echo {shlex.quote(f'warning: {line}')} >&2" for line in doubts)]
    versions = sorted({str(part.facts["versions"]) for part in record.all() if "versions" in part.facts})
    beginning = _BEGINNING.format(
        name=_one_line(record.path),
        versions="\n".join(f"# {_one_line(line)}" for line in versions) or "#",
        first="".join(f"{line}\n" for line in dict.fromkeys(first)),
    )
    return "\n".join([beginning, *(f"{step}\n" for step in steps)]), doubts


def _located(record: Record) -> Record:
    """A record in which the same result is the same, wherever its files are looked for."""
    return record.model_copy(update={"unlocated": False, "made_from": tuple(map(_located, record.made_from))})


def _in_order(record: Record) -> Iterator[Record]:
    """Every record after all that it was made from."""
    for part in record.made_from:
        yield from _in_order(part)
    yield record


class _Script:
    """The steps of a script, and the places of what they make."""

    def __init__(self, record: Record) -> None:
        self.variables: list[str] = []
        """Lines that check variables which the user sets."""
        self.doubts: list[str] = []
        """Why a training may end with other weights."""
        self._whole = record
        self._taken: dict[str, str] = {}
        """What has each name in the script's folder."""

    def steps(self, record: Record) -> Iterator[str]:
        """The steps that make one record, after all that it was made from."""
        if record.command:
            yield "\n".join(self._command(record))
        elif record.kind in (AVERAGE, MODEL, TRAINING):
            raise DataError(f"{record.path}: how it was made is not recorded, so it cannot be made again.")
        if compared := _compared(record):
            place = self.place(record)
            files = {place if name == ITSELF else f"{place}/{_safe(name)}": sha256 for name, sha256 in compared.items()}
            yield "\n".join(_same(sha256, file) for file, sha256 in files.items())

    def place(self, record: Record) -> str:
        """The path of what a step makes, in the script's folder; of a file of the user, where it is."""
        match record.kind:
            case "text" | "file":
                return self._users_file(record)
            case "vocabulary":
                own = [part for part in record.made_from if part.kind == "data set" and part.path == record.path]
                return self.place(own[0])
            case "training":
                before = [part for part in record.made_from if part.kind == TRAINING]
                return self.place(before[0]) if before else self._named(record)
            case "checkpoint":
                return str(RunFolder(Path(self.place(record.made_from[0]))).checkpoint(int(record.facts["update"])))
        return self._named(record)

    def _named(self, record: Record) -> str:
        """A path as it was, if that leads nowhere else; with a number (``name-2.txt``) if another record has it."""
        path = PurePath(record.path)
        if path.is_absolute() or ".." in path.parts:
            path = PurePath(path.name)
        if not path.parts or any(part.startswith("-") or not part.isprintable() for part in path.parts):
            raise DataError(f"{record.path!r}: this name could lead a script out of its folder, so none is written.")
        return self._free(path, record.model_dump_json())

    def _free(self, path: PurePath, key: str) -> str:
        name, number = str(path), 1
        while self._taken.setdefault(name, key) != key:
            number += 1
            name = str(path.with_name(f"{path.stem}-{number}{path.suffix}"))
        return name

    def _users_file(self, record: Record) -> str:
        role = str(record.facts.get("role", record.kind))
        if metric := _METRIC.fullmatch(role):
            return self._learned_metric(metric[1], record)
        if not record.files or _is_pipe(record.path):
            raise DataError(f"{record.path}: this {role} came through a pipe, which cannot be read again.")
        for part in self._whole.all():
            for name, sha256 in part.files.items() if part.kind == "data set" else ():
                if sha256 == record.files[ITSELF]:
                    return f"{self.place(part)}/{_safe(name)}"
        return str(Path(record.path).absolute())

    def _learned_metric(self, metric: str, record: Record) -> str:
        """The variable that names the model of a learned metric. The user says where it is.

        To load such a model may run code of its files, so a record does not choose it.
        """
        sha256, weights = _sha256(record.files[ITSELF]), _safe(Path(record.path).name)
        variable = f"{metric}_MODEL"
        # COMET takes the file of its weights, BLEURT the folder.
        what, file = ("file", "") if metric == "COMET" else ("folder", f"/{weights}")
        self.variables += [
            f': "${{{variable}:?set it to the {what} of the model of {metric} ({weights}, {sha256})}}"',
            f"case ${variable} in /*) ;; *) {variable}=$PWD/${variable} ;; esac",
            f'same {sha256} "${variable}"{file}',
        ]
        return f"${variable}"

    def _command(self, record: Record) -> Iterator[str]:
        """The lines of a command: its settings, what it reads of the user, and itself."""
        name, *options = record.command
        if record.kind == IMPORTED:
            raise DataError(
                f"{record.path}: was imported from files of {record.facts.get('toolkit')}, which a script cannot "
                "fetch. Run `nmt import` on them again."
            )
        if _COMMANDS.get(record.kind) != name:
            raise DataError(f"{record.path}: a {record.kind} is never made by the command {name!r}.")
        for option in options:
            if option.startswith("-") and option.partition("=")[0] not in _OPTIONS[name]:
                raise DataError(f"{record.path}: its command has {option!r}, which a script of nmt never holds.")
        named = [option.partition("=") for option in options]
        written = [value for option, _, value in named if option in ("--out", "--output")]
        if written != ([] if record.kind in ("vocabulary", "score") else [record.path]):
            raise DataError(f"{record.path}: its command does not write to this path alone, but to {written}.")
        if name == "prepare-data" and any(part.kind == "file" and _is_pipe(part.path) for part in record.made_from):
            raise DataError(f"{record.path}: was read from a pipe, so a script cannot make it again.")
        place = self.place(record) if record.kind != "score" else ""
        settings = self._free(PurePath(f"{PurePath(place).name}.yaml"), f"settings of {record.model_dump_json()}")
        if record.settings:
            yield _written(settings, record.settings)
        for part in record.made_from:
            if part.kind in ("text", "file") and name != "prepare-data":
                file = self.place(part)
                if not file.startswith("$"):
                    yield _same(part.files[ITSELF], file)
        if (parent := str(PurePath(place).parent)) != ".":
            yield f"mkdir -p {shlex.quote(parent)}"
        words = [_quoted(name, word) for word in record.words(self.place, settings)]
        further = self._ending(record) if record.kind == TRAINING else ()
        yield " ".join(["nmt", *words, *map(shlex.quote, further)])

    def _ending(self, training: Record) -> Iterator[str]:
        """Options that end a training with the last update that is needed of it, and save and keep all that are needed.

        What the clock or the user decided is not decided again: the end, and which updates were saved.
        """
        place, needed = self.place(training), set[int]()
        for part in self._whole.all():
            if any(each.kind == TRAINING and self.place(each) == place for each in part.made_from):
                needed |= {int(part.facts["update"])} if part.kind == CHECKPOINT else set(_averaged(part))
        limits, saving = training.settings["training"], training.settings["checkpoints"]
        if limits["max_minutes"] is not None:
            yield "--set=training.max_minutes=null"
        if saving["every_minutes"] is not None:
            yield "--set=checkpoints.every_minutes=null"
        recorded = [word.partition("=")[2] for word in training.command if word.startswith("--max-updates=")]
        end = int(recorded[0]) if recorded else max(needed, default=limits["max_updates"])
        if not recorded and end != limits["max_updates"]:
            yield f"--max-updates={end}"
        yield from self._falling_rate(training, end)
        earlier = [update for update in needed if update < end]  # the last one is saved and kept by itself
        every = saving["every_updates"]
        if any(every is None or update % every for update in earlier):
            every = math.gcd(*earlier)
            yield f"--set=checkpoints.every_updates={every}"
        # How many are saved after an update: multiples below the end, and the end.
        if any((end - 1) // every - update // every + 1 >= saving["keep_last"] for update in earlier):
            yield f"--set=checkpoints.keep_every={math.gcd(*earlier)}"

    def _falling_rate(self, training: Record, end: int) -> Iterator[str]:
        """The option that lets the learning rate fall until the end that was planned, if the training ends earlier."""
        schedule, limits = training.settings["schedule"], training.settings["training"]
        planned, has_minutes = limits["max_updates"], limits["max_minutes"] is not None
        if schedule["decay"] == "inverse_sqrt" or schedule["decay_updates"] is not None:
            return
        if end == planned and not has_minutes:
            return
        # The warm-up of a run that is shorter than two warm-ups depends on the end, too.
        if planned is not None and planned >= 2 * schedule["warmup"] and not has_minutes:
            yield f"--set=schedule.decay_updates={planned}"
            return
        self.doubts.append(
            _one_line(
                f"{training.path}: its learning rate fell until an end that the script does not know (minutes, or a "
                "run that was stopped), so its weights may differ."
            )
        )


def _averaged(record: Record) -> list[int]:
    """The updates whose checkpoints are averaged."""
    named = next((word.partition("=")[2] for word in record.command if word.startswith("--updates=")), "")
    return [int(update) for update in named.split(",") if update]


def _compared(record: Record) -> Mapping[str, str]:
    """The files of a result whose content follows from the command, with their sha256."""
    match record.kind:
        case "data set" | "translation":
            return record.files
        case "exported model":
            # The archive of Argos holds the times of its members; the bundle's settings hold what the machine chose.
            settings = BundleFolder(Path()).config.name
            return {
                name: sha256
                for name, sha256 in record.files.items()
                if not name.endswith(".argosmodel") and name != settings
            }
        case "vocabulary":
            names = {DataFolder(Path()).vocab.name}
        case "average" | "checkpoint" if record.made_from:
            names = {BundleFolder(Path()).weights.name}
        case _:
            return {}
    return {name: sha256 for name, sha256 in record.files.items() if name in names}


def _quoted(command: str, word: str) -> str:
    """A word of a command, for the shell.

    Raises:
        DataError: it names a file of the user where files are written, or names the model of a metric.
    """
    option, _, value = word.partition("=") if word.startswith("--") else ("", "", word)
    if option in _METRIC_MODELS:
        if value != _METRIC_MODELS[option]:
            raise DataError(f"{word}: a record does not choose the model of a metric, so no script is written.")
        return f'"{word}"'
    is_read = option in _READ or (command == "score" and not option)
    if option in {"", *PATHS} and not is_read and PurePath(value).is_absolute():
        raise DataError(f"{word}: this path could lead a script out of its folder, so none is written.")
    return shlex.quote(word)


def _is_pipe(file: str) -> bool:
    """Whether a recorded file was read once: standard input, ``<(...)``, or a named pipe that is still there."""
    return file == STDIN or file.startswith(("/dev/", "/proc/")) or Path(file).is_fifo()


def _safe(name: str) -> str:
    """A name that leads to no other folder and is no option.

    Raises:
        DataError: it is not such a name.
    """
    if not _NAME.fullmatch(name):
        raise DataError(f"{name!r}: this name could lead a script out of its folder, so none is written.")
    return name


def _sha256(text: str) -> str:
    if not _SHA256.fullmatch(text):
        raise ValueError(f"sha256 {text!r}")
    return text


def _same(sha256: str, file: str) -> str:
    """The line that compares a file with its recorded checksum."""
    return f"same {_sha256(sha256)} {shlex.quote(file)}"


def _written(file: str, settings: Mapping[str, Any]) -> str:
    """The lines that write settings into a file.

    Raises:
        DataError: the text holds the line that ends it, so the rest would be commands.
    """
    text = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)
    if _END in text.splitlines():
        raise DataError(f"{file}: holds the line {_END!r}, which ends it in a script, so none is written.")
    return f"cat > {shlex.quote(file)} <<'{_END}'\n{text}{_END}"


def _one_line(text: str) -> str:
    return printable(" ".join(text.split()))
