"""Settings that changed since a run started: which may change, which need --accept-changes, which cannot change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from nmt.checkpoint.run_folder import RunFolder
from nmt.config import Config, belongs_to_weights, changeable_on_resume, differences, read_config
from nmt.errors import ConfigError
from nmt.training.listener import Listener

Change = tuple[str, str, str]
"""Key, value before, value after."""

_START_OVER = "add --fresh to start over in a new folder"


def refuse_changes(run: Path, config: Config, data: Sequence[Path], *, accept_changes: bool) -> list[Change]:
    """Compare the settings with those of the run's last start, and return the changes.

    Raises:
        ConfigError: a change needs --accept-changes, or does not fit the run's weights.
    """
    path = RunFolder(run).config
    before = read_config(path)
    changed = differences(before, config)
    refused = [change for change in changed if not changeable_on_resume(change[0])]
    if refused and not (accept_changes and all(_can_be_accepted(key) for key, _, _ in refused)):
        lines = "\n".join(f"  {key}: {old} -> {new}" for key, old, new in refused)
        raise ConfigError(f"{run} was started with other settings:\n{lines}\n" + "\n".join(_advice(refused, run, data)))
    return changed


def check_changes(run: Path, config: Config, data: Sequence[Path], listener: Listener, *, accept_changes: bool) -> None:
    """Like :func:`refuse_changes`, but also report the changes."""
    for key, old, new in refuse_changes(run, config, data, accept_changes=accept_changes):
        listener.noticed(f"Changed since the run started: {key}: {old} -> {new}.")


def encode_commands(data: Sequence[Path], model: Path) -> str:
    """The commands that encode data sets with the vocabulary of a run or bundle."""
    return " and ".join(f"`nmt build-vocab --data {folder} --vocab {model}`" for folder in data)


def _belongs_to_encoding(key: str) -> bool:
    return key in (
        "data.vocab_fingerprint", "data.vocab_size", "data.target_vocab_size", "data.source_normalization"
    )  # fmt: skip


def _can_be_accepted(key: str) -> bool:
    return not belongs_to_weights(key) and not _belongs_to_encoding(key)


def _advice(refused: Sequence[Change], run: Path, data: Sequence[Path]) -> list[str]:
    """Advice for each kind of change. --accept-changes is suggested only for changes that it allows."""
    keys = [key for key, _, _ in refused]
    advice = []
    if any(map(belongs_to_weights, keys)):
        advice.append(
            f"The run's weights fit no other model: leave {_listed(filter(belongs_to_weights, keys))} as before, "
            f"or {_START_OVER}."
        )
    if any(map(_belongs_to_encoding, keys)):
        advice.append(
            f"The run's data was encoded differently: encode this data as the run does ({encode_commands(data, run)}), "
            f"or {_START_OVER}."
        )
    if others := [key for key in keys if _can_be_accepted(key)]:
        also = f" as for {_listed(others)}" if len(others) < len(keys) else ""
        advice.append(f"Add --accept-changes to resume with the changed settings{also}, or {_START_OVER}.")
    if not any(key.startswith("data.") for key in keys):
        advice.append(f"Or resume with the run's own settings: `nmt train --resume {run}`.")
    return [line[0].upper() + line[1:] for line in advice]


def _listed(keys: Iterable[str]) -> str:
    return ", ".join(keys)
