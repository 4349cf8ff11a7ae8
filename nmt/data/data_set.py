"""The folder of a data set as a whole: what it may hold, and what stays when the data set is replaced."""

from __future__ import annotations

from pathlib import Path

from nmt.data.data_folder import DataFolder
from nmt.data.made import Made
from nmt.data.manifest import Manifest, recorded
from nmt.data.shard_index import SHARDS, build_command
from nmt.data.vocab_record import known_record, vocabulary_kinds
from nmt.errors import OutputError
from nmt.io.files import linked_copy, put_back
from nmt.io.ownership import Kind
from nmt.text.printable import listed

_LISTED = ("train.*", "valid.*", "test.*", "vocab.*")
"""Files of which this program wrote only those that a record lists."""
DATA_SET = Kind(
    "a data set",
    lambda folder: recorded(folder) is not None,
    is_folder=True,
    # The hidden files and folders may be left by a process that died.
    holds=("manifest.json", *_LISTED, ".vocab.*.????????????.tmp"),
    folders=(("shards", SHARDS), (".shards.????????????.tmp", SHARDS), (".shards.nmt.old", SHARDS)),
)


def check_nothing_is_lost(data: Path, *, force: bool) -> None:
    """Refuse to replace a data set with files of the user's, or with text that was edited.

    Args:
        force: discard what was edited. Files that this program did not write are refused all the same.

    Raises:
        OutputError: such files exist.
    """
    manifest = recorded(data)
    if manifest is None:
        return
    ours = {*manifest.text, *(path.name for path, kind in vocabulary_kinds(data).items() if kind.is_ours(path))}
    foreign = sorted({path.name for pattern in _LISTED for path in data.glob(pattern)} - ours)
    if foreign:
        raise OutputError(
            f"{data}: is a data set, but {listed(foreign)} in it is not as nmt wrote it, and would be lost. "
            "Move these files away."
        )
    if not force and (edited := Made({}, manifest.text).edited(data)):
        raise OutputError(
            f"{data}: {listed(edited)} was edited, and would be replaced. Move these files away to keep them, or add "
            "--force to discard the edits."
        )


def carry_over(data: Path, folder: Path, manifest: Manifest) -> list[str]:
    """Give the folder that will replace a data set its vocabulary, if that was given or trained on the same text.

    Args:
        data: the data set to be replaced, if there is one.
        folder: the folder of the new data set.
        manifest: the new data set's.

    Returns:
        Notices about what is removed.
    """
    put_back(data)  # The data set is locked, so no other process writes its shards.
    vocabulary, shards = known_record(data), DataFolder(data).shards
    removed = [shards.name] if shards.is_dir() else []
    files = [path for path in vocabulary_kinds(data) if path.is_file()]
    if vocabulary is not None and (vocabulary.is_given or vocabulary.is_of(manifest)):
        for path in files:
            linked_copy(path, folder / path.name)
    else:
        removed = [*(path.name for path in files), *removed]
    if not removed:
        return []
    given = vocabulary is not None and vocabulary.is_given
    stays = "vocab.model was given with --vocab, and stays. " if given else ""
    command = build_command(data, DataFolder(data).vocab if given else None)
    return [f"removed {', '.join(removed)}, made from the data set before. {stays}Run {command} again."]
