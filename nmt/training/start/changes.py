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


def encode_commands(data: Sequence[Path], model: Path, *options: str) -> str:
    """The commands that encode data sets with the vocabulary of a run or bundle."""
    return " and ".join(
        f"`{' '.join(('nmt build-vocab', *options, f'--data {folder} --vocab {model}'))}`" for folder in data
    )


def _belongs_to_encoding(key: str) -> bool:
    return key in (
        "data.vocab_fingerprint", "data.vocab_size", "data.target_vocab_size", "data.source_text", "data.target_text",
        "data.lines.max_length",
    )  # fmt: skip


def _can_be_accepted(key: str) -> bool:
    return not belongs_to_weights(key) and not _belongs_to_encoding(key)


def _advice(refused: Sequence[Change], run: Path, data: Sequence[Path]) -> list[str]:
    """Advice for each kind of change. --accept-changes is suggested only for changes that it allows, and last: it
    alters the run."""
    keys = [key for key, _, _ in refused]
    advice = ["To start another run, name its folder with --out, or add --fresh for the next free one (not --resume)."]
    if any(map(belongs_to_weights, keys)):
        kept = _listed(filter(belongs_to_weights, keys))
        advice.append(f"To resume this run, leave {kept} as before: its weights fit no other model.")
    if any(map(_belongs_to_encoding, keys)):
        length = [f"--max-pieces {old}" for key, old, _ in refused if key == "data.lines.max_length"]
        advice.append(f"To resume this run, encode the data as it does: {encode_commands(data, run, *length)}.")
    if not any(key.startswith("data.") for key in keys):
        advice.append(f"To resume this run with its own settings, use `nmt train --resume {run}`.")
    if others := [key for key in keys if _can_be_accepted(key)]:
        also = f" as for {_listed(others)}" if len(others) < len(keys) else ""
        advice.append(f"To resume this run with the changed settings{also}, add --accept-changes.")
    return advice


def _listed(keys: Iterable[str]) -> str:
    return ", ".join(keys)
