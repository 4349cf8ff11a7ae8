"""The tensors of a folder of Hugging Face: safetensors in one or several files, or an older pytorch_model.bin.

No pickled code is run: a pytorch_model.bin is read as those of other toolkits.
"""

from __future__ import annotations

from pathlib import Path

from nmt.config.documents import parse_json
from nmt.convert.foreign import Array
from nmt.convert.safetensors_files import read_safetensors
from nmt.convert.tensors import read_tensors as read_state_dict
from nmt.convert.torch_files import read_torch_file
from nmt.errors import CheckpointError

WEIGHTS, INDEX, PICKLED = "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin"


def weight_files(folder: Path) -> list[Path]:
    """The files that hold a folder's tensors; empty if there are none.

    Raises:
        CheckpointError: the index of several files is damaged, or names a file that is not there.
    """
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    if (folder / INDEX).is_file():
        return [folder / name for name in _shards(folder / INDEX)]
    return [folder / PICKLED] if (folder / PICKLED).is_file() else []


def read_tensors(files: list[Path]) -> dict[str, Array]:
    """All tensors of the files as float32, by name.

    Raises:
        CheckpointError: a file is damaged, needs pickled code to be run, or holds numbers that are not floating-point.
    """
    pickled = [file for file in files if file.suffix == ".bin"]
    return _read_pickled(pickled[0]) if pickled else read_safetensors(files)


def _shards(index: Path) -> list[str]:
    try:
        names = sorted(set(parse_json(index.read_bytes())["weight_map"].values()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{index}: is not an index of safetensors ({error}). Copy the model again.") from None
    for name in names:
        if not isinstance(name, str) or Path(name).name != name or not name.endswith(".safetensors"):
            raise CheckpointError(f"{index}: names {name!r}, which is not a .safetensors file of this folder.")
        if not (index.parent / name).is_file():
            raise CheckpointError(f"{index.parent}: lacks {name}, which {index.name} names. Copy the model again.")
    return names


def _read_pickled(path: Path) -> dict[str, Array]:
    try:
        file = read_torch_file(path)
    except CheckpointError as error:
        raise CheckpointError(
            f"{error} nmt runs no pickled code: save the model as safetensors with transformers (save_pretrained), and "
            "import that."
        ) from None
    return read_state_dict(file, file.value)
