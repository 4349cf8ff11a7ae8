"""The files that ``nmt build-vocab`` writes into a data set's folder, and how to tell them from the user's files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nmt.config.documents import parse_json
from nmt.data.data_folder import DataFolder, list_of, vocabulary_files, vocabulary_fingerprint
from nmt.data.shards import INDEX_NAME, SHARDS
from nmt.data.vocab import SPECIAL_PIECES
from nmt.data.vocab_pair import VocabularyPair
from nmt.errors import VocabularyError
from nmt.files import free_name
from nmt.ownership import Kind, check_replaceable, remove_own


def _is_our_list(path: Path) -> bool:
    """Whether :meth:`VocabularyPair.save` wrote a list of pieces."""
    beginning = "".join(f"{piece}\n" for piece in SPECIAL_PIECES).encode()
    with path.open("rb") as stream:
        if stream.read(len(beginning)) == beginning:
            return True
    # A vocabulary that was not trained here may have other names for its special pieces.
    return _lists_pieces_of(path, path.with_suffix(".model"))


def _lists_pieces_of(path: Path, model: Path) -> bool:
    try:
        vocab = VocabularyPair.load(model).source
    except VocabularyError:
        return False
    return path.read_bytes() == "".join(f"{piece}\n" for piece in vocab.pieces(range(vocab.size))).encode()


def _is_our_model(path: Path) -> bool:
    """Whether this program wrote a model or its ``.pieces.json``: its list or the shards were made with it."""
    model = path.with_name(path.name.replace(".pieces.json", ".model"))
    listed = list_of(model)
    if listed.is_file() and _lists_pieces_of(listed, model):
        return True
    return _index_of_model(DataFolder(path.parent).vocab) is not None


def _index_of_model(path: Path) -> dict[str, Any] | None:
    """The index of the shards that were encoded with the model beside them; None if there are none."""
    index = _index(path.parent)
    try:
        fingerprint = vocabulary_fingerprint(path)
    except OSError:
        return None
    return index if index is not None and index.get("vocab_fingerprint") == fingerprint else None


def _index(data: Path) -> dict[str, Any] | None:
    """The index of a data set's shards, of any version; None if there is none or it cannot be read."""
    try:
        index = parse_json((DataFolder(data).shards / INDEX_NAME).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return index if isinstance(index, dict) else None


def _derived(data: Path) -> dict[Path, Kind]:
    """The files and folders that ``nmt build-vocab`` writes."""
    folder = DataFolder(data)
    kinds = {
        ".model": Kind("a vocabulary", _is_our_model),
        ".json": Kind("a list of pieces", _is_our_model),
        ".txt": Kind("a list of pieces", _is_our_list),
    }
    return {path: kinds[path.suffix] for path in folder.vocabulary} | {folder.shards: SHARDS}


def check_derived_replaceable(data: Path, *, vocab: VocabularyPair | None = None) -> None:
    """Check that this program wrote the vocabulary and the shards that are to be replaced in a data set's folder.

    Args:
        vocab: the vocabulary to be written, if known: a file with the same bytes may be replaced.

    Raises:
        OutputError: a file or folder is the user's own.
    """
    same = {} if vocab is None else vocab.contents(DataFolder(data).vocab)
    # In reverse: if a file beside the model is the user's, the error names that file, not the model that it belongs to.
    for path, kind in reversed(_derived(data).items()):
        if not (path in same and path.is_file() and path.read_bytes() == same[path]):
            check_replaceable(path, kind, option=None)


def encoded_text(data: Path) -> dict[str, str]:
    """The sha256 of each file that a data set's shards were encoded from; empty if the shards do not record it."""
    index = _index(data) or {}
    try:
        return {str(name): str(file["sha256"]) for name, file in index["text"].items()}
    except (KeyError, TypeError, AttributeError):
        return {}


def own_derived(data: Path) -> list[str]:
    """Names of the files and folders that this program derived from the text of a data set."""
    own = []
    for path, kind in _derived(data).items():
        is_right = path.is_dir() if kind.is_folder else path.is_file()
        if is_right and not path.is_symlink() and kind.is_ours(path) and not _foreign(path, kind):
            own.append(path.name)
    return own


def _foreign(path: Path, kind: Kind) -> list[str]:
    return kind.foreign_entries(path) if kind.is_folder else []


def keep_given_vocabulary(data: Path) -> Path | None:
    """Rename a data set's vocabulary to ``vocab.model.before`` if it was given, not trained on the data set's text.

    Returns:
        The new path, or None if there is no vocabulary or it was not given.
    """
    path = DataFolder(data).vocab
    index = _index_of_model(path)
    if index is None or index.get("vocabulary", "") is not None:
        return None
    kept = free_name(path.with_name(f"{path.name}.before"))
    for file in filter(Path.is_file, vocabulary_files(path)):
        file.rename(free_name(file.with_name(file.name + kept.name.removeprefix(path.name))))
    return kept


def remove_derived(data: Path, names: list[str]) -> None:
    """Remove files and folders that :func:`own_derived` named."""
    for path, kind in _derived(data).items():
        if path.name in names:
            if kind.is_folder:
                remove_own(path, kind)
            else:
                path.unlink()
