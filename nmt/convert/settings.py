"""What importers have in common about the settings of other toolkits' models."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from nmt.config import DecodingConfig, ModelConfig
from nmt.config.documents import LARGEST_FILE, DocumentError, parse_yaml
from nmt.config.mistakes import first_mistake
from nmt.convert.files import COPY_AGAIN, listed, read_text, shown
from nmt.errors import CheckpointError

_Section = TypeVar("_Section", ModelConfig, DecodingConfig)
Table = Mapping[str, tuple[tuple[Any, ...], str]]
"""Setting of a toolkit -> the values that our model can express, the first of which is the toolkit's default, and what
it would need for others."""
MAX_POSITIONS = 1024
"""The maximum length where a toolkit's sinusoids have no end, or one beyond what models are trained for."""
_LARGEST_SIZE, _MOST_POSITIONS = 2**30, 2**20
"""The largest sizes that are computed with before tensors are compared with them."""
_LONGEST_LIST = 50
_MOST_NAMED = 20


def read_yaml_settings(path: Path, prepare: Callable[[str], str] = str) -> dict[str, Any]:
    """The settings in a file of YAML.

    Args:
        prepare: what is done to the text first.

    Raises:
        CheckpointError: the file cannot be read, or holds no settings.
    """
    if path.is_file() and path.stat().st_size > LARGEST_FILE:
        raise CheckpointError(f"{path}: has {path.stat().st_size:,} bytes, too many for settings.")
    return parse_yaml_settings(prepare(read_text(path)), str(path))


def parse_yaml_settings(text: str, name: str) -> dict[str, Any]:
    """The settings in text of YAML.

    Args:
        name: of the text, for errors.

    Raises:
        CheckpointError: the text is not YAML, or not a mapping.
    """
    try:
        values = parse_yaml(text)
    except DocumentError as error:
        raise CheckpointError(f"{name}: is not YAML: {error}") from None
    if not isinstance(values, dict):
        raise CheckpointError(f"{name}: expected settings, got {type(values).__name__}.")
    return values


def flat(settings: Mapping[str, Any], depth: int = 1) -> dict[str, Any]:
    """Settings, with those of a part as ``PART.KEY``.

    Args:
        depth: how deep parts lie within parts.
    """
    found: dict[str, Any] = {}
    for key, value in settings.items():
        if depth and isinstance(value, dict):
            found |= {f"{key}.{inner}": of_inner for inner, of_inner in flat(value, depth - 1).items()}
        else:
            found[key] = value
    return found


class Settings(dict[str, Any]):
    """The settings of a model in a file of another toolkit. What ours cannot express is an error that names it."""

    def __init__(
        self, values: Mapping[str, Any], name: str, encoder: str = "encoder_{}", decoder: str = "decoder_{}"
    ) -> None:
        """Take values.

        Args:
            name: of the file, for errors.
            encoder, decoder: what the settings of both parts are called, with ``{}`` for what they share.
        """
        super().__init__(values)
        self.name, self._parts = name, (encoder, decoder)

    def check(self, table: Table) -> None:
        """Refuse settings that mean something that our model lacks.

        Raises:
            CheckpointError: a setting has another value than the table allows.
        """
        for key, (allowed, needs) in table.items():
            value = self.get(key, allowed[0])
            if value is not None and value not in allowed:
                raise self.refusal(key, value, needs)

    def refusal(self, key: str, value: object, needs: str = "") -> CheckpointError:
        """The error of a setting that ours cannot express.

        Args:
            needs: what it would need, if that is known.
        """
        needed = f" It would need {needs}." if needs else ""
        return CheckpointError(f"{self.name}: has {key}: {shown(value)}, which nmt does not have.{needed}")

    def equal(self, keys: Iterable[str], needs: str) -> Any:
        """The value that several settings share; settings that are unset do not count.

        Raises:
            CheckpointError: they differ, or are not numbers or text.
        """
        given = {key: self[key] for key in keys if self.get(key) is not None}
        values = list(given.values())
        if any(not _is_plain_value(value) or value != values[0] for value in values):
            listed = ", ".join(f"{key}: {shown(value)}" for key, value in given.items())
            raise CheckpointError(f"{self.name}: has {listed}, which nmt does not have. It would need {needs}.")
        return values[0] if values else None

    def of_both(self, key: str, needs: str) -> Any:
        """The value that encoder and decoder share, as :meth:`equal`."""
        return self.equal([part.format(key) for part in self._parts], needs)

    def choose(self, key: str, default: str, known: Mapping[str, Any], needs: str = "") -> Any:
        """What the value of a setting is called here.

        Args:
            default: the value where the setting is unset.
            known: the toolkit's value -> ours.
            needs: as for :meth:`of_both`, if encoder and decoder have the setting each.

        Raises:
            CheckpointError: we have nothing like it.
        """
        value = (self.of_both(key, needs) if needs else self.get(key)) or default
        if not isinstance(value, str) or value not in known:
            raise CheckpointError(f"{self.name}: has {key}: {shown(value)}; nmt has {', '.join(known)}.")
        return known[value]


@functools.cache
def expressible(*names: str) -> Table:
    """The tables of these names in ``expressible_settings.yaml``, as one."""
    tables: dict[str, dict[str, list[Any]]] = _data("expressible_settings")
    return {key: (tuple(values), needs) for name in names for key, (values, needs) in tables[name].items()}


def unknown_remarks(settings: Mapping[str, Any], table: Table, toolkit: str) -> Iterator[str]:
    """A remark that names the settings that are on, and neither in the table nor in ``known_settings.yaml``.

    One of them may change what the model computes without a tensor of its own, which no check of tensors finds.

    Args:
        settings: those of the model; a setting of a part is ``PART.KEY``, and known by its key.
    """
    by_toolkit: dict[str, list[str]] = _data("known_settings")
    known = {*table, *next(names for name, names in by_toolkit.items() if toolkit.startswith(name))}
    unknown = [key for key, value in settings.items() if value and not known & {key, key.rpartition(".")[2]}]
    if unknown:
        yield (
            f"The model has settings that nmt does not know: {listed(unknown, _MOST_NAMED)}. If one of them changes "
            f"what the model computes, translations differ from those of {toolkit}."
        )


@functools.cache
def _data(name: str) -> Any:
    """The content of a table beside this module."""
    return parse_yaml(Path(__file__).with_name(f"{name}.yaml").read_text("utf-8"))


def unused_remarks(
    settings: Mapping[str, Any], neutral: Mapping[str, tuple[Any, ...]], name: str, toolkit: str
) -> Iterator[str]:
    """Remarks on settings of a search that have an effect in the toolkit, and no place in a bundle.

    Args:
        neutral: setting -> the values without effect; the first one is the toolkit's default.
        name: of the file that has the settings.
    """
    for key, without_effect in neutral.items():
        value = settings.get(key)
        if value is not None and value not in without_effect:
            yield (
                f"{name} has {key}: {shown(value)}, which bundles do not keep: translations may differ from "
                f"those of {toolkit}."
            )


def model_settings(name: str, **values: Any) -> ModelConfig:
    """Settings of our model.

    Raises:
        CheckpointError: a value is missing (None) or impossible.
    """
    missing = [key for key in ("encoder_layers", "decoder_layers", "d_model", "d_ff", "heads") if values[key] is None]
    if missing:
        raise CheckpointError(f"{name}: its settings do not tell {', '.join(missing)}: is it a Transformer?")
    for key, value in values.items():
        limit = _MOST_POSITIONS if key == "max_positions" else _LARGEST_SIZE
        if isinstance(value, int) and value > limit and not key.endswith("_layers"):  # which tensors are counted for
            raise CheckpointError(f"{name}: its settings say {key}: {value}, more than {limit:,}. {COPY_AGAIN}")
    return valid_settings(ModelConfig, name, **values)


def valid_settings(section: type[_Section], name: str, **values: Any) -> _Section:
    """A section of our settings, with values of another toolkit.

    Raises:
        CheckpointError: a value is impossible.
    """
    try:
        return section(**values)
    except ValidationError as error:
        raise CheckpointError(
            f"{name}: its settings are damaged, or nmt cannot express them. {shown(first_mistake(error))}"
        ) from None


def plain_settings(settings: Mapping[str, Any]) -> dict[str, object]:
    """Settings as the notes of a bundle keep them: numbers, text, and short lists of them."""
    return {key: value for key, value in settings.items() if _is_plain(value) and key.isprintable()}


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return len(value) <= _LONGEST_LIST and all(_is_plain_value(one) for one in value)
    return _is_plain_value(value)


def _is_plain_value(value: Any) -> bool:
    if isinstance(value, str):
        return value.isprintable() and len(value) <= 1_000
    return value is None or isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < 2**63)


def version_of(value: Any) -> str | None:
    """The version of a toolkit in a file's settings; None unless it is printable, with at most 80 characters."""
    return value if isinstance(value, str) and value.isprintable() and 0 < len(value) <= 80 else None


def only_file(folder: Path, names: tuple[str, ...], pattern: str, what: str) -> Path:
    """The file of a model in a folder: the first of some names, or the only one of a pattern.

    Raises:
        CheckpointError: there is none, or there are several.
    """
    for name in names:
        if (folder / name).is_file():
            return folder / name
    found = sorted(file for file in folder.glob(pattern) if file.is_file() and not file.match("*.optimizer.*"))
    if len(found) != 1:
        raise CheckpointError(f"{folder}: has {'no' if not found else len(found)} {pattern} files. Name {what}.")
    return found[0]
