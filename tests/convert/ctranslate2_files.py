"""Models of CTranslate2 written again: with other variables, or as an earlier version of its converters wrote them."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

from nmt.convert.ctranslate2.model_file import read_variables

TYPES = ("float32", "int8", "int16", "int32", "float16")
MOVED = ("num_heads", "pre_norm", "activation", "alignment_layer", "alignment_heads", "embeddings_merge")
"""Settings of both parts since CTranslate2 3.0. Earlier files have the first ones of these, of the whole model."""
EARLIER = {"1.20": (4, 3, 1), "2.10": (4, 3, 5), "2.24": (5, 4, 6), "3.0": (6, 5, 0)}
"""Version of CTranslate2 -> versions of the file and of its specification, and the number of moved settings."""


def write_variables(path: Path, variables: dict[str, Any], version: int = 6, revision: int = 7) -> None:
    """Write a model as CTranslate2's ``ModelSpec.save``: in the order of names, and equal arrays once."""
    stored: dict[str, Any] = {}
    aliases: dict[str, str] = {}
    for name, value in sorted(variables.items()):
        equal = (other for other, kept in stored.items() if value.dtype == kept.dtype and np.array_equal(value, kept))
        same = next(equal, None) if value.ndim else None
        if same is None:
            stored[name] = value
        else:
            aliases[name] = same
    content = struct.pack("<I", version) + _text("TransformerSpec") + struct.pack("<II", revision, len(stored))
    for name, value in stored.items():
        content += _text(name) + struct.pack(f"<B{value.ndim}I", value.ndim, *value.shape)
        content += struct.pack("<BI", TYPES.index(value.dtype.name), value.nbytes) + value.tobytes()
    content += struct.pack("<I", len(aliases))
    path.write_bytes(content + b"".join(_text(alias) + _text(name) for alias, name in aliases.items()))


def _text(text: str) -> bytes:
    return struct.pack("<H", len(text) + 1) + text.encode() + b"\0"


def rewrite(folder: Path, change: Any) -> None:
    """Write a folder's model with other variables."""
    variables = read_variables(folder / "model.bin")
    change(variables)
    write_variables(folder / "model.bin", variables)


def write_earlier(folder: Path, release: str) -> None:
    """Write a folder as the converters of an earlier release did.

    For the same model in float32, ``model.bin`` is byte by byte what the converters of these releases write (compared
    with those of 1.20.1, 2.10.0, 2.24.0 and 3.0.0, on 2026-11-27).
    """
    version, revision, moved = EARLIER[release]
    variables, config = read_variables(folder / "model.bin"), json.loads((folder / "config.json").read_text())
    write_variables(folder / "model.bin", _earlier(variables, config, revision, MOVED[:moved]), version, revision)
    for path in folder.glob("*_vocabulary.json"):
        pieces = json.loads(path.read_text())
        path.with_suffix(".txt").write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8", newline="")
        path.unlink()
    if version < 6:
        (folder / "config.json").unlink()


def _earlier(variables: dict[str, Any], config: dict[str, Any], revision: int, moved: tuple[str, ...]) -> Any:
    kept = (*(() if moved else MOVED), "scale_embeddings", "start_from_zero_embedding", "weight_scale")
    found = {name: value for name, value in variables.items() if value.ndim or name.endswith(kept)}
    if not moved:
        return found
    for name in moved:
        of_part = next(variables[f"{part}/{name}"] for part in ("encoder", "decoder") if f"{part}/{name}" in variables)
        found[name] = of_part.astype(np.int8) if name == "num_heads" else of_part
    flags = {"with_source_bos": config["add_source_bos"], "with_source_eos": config["add_source_eos"]}
    if len(moved) > 1:
        flags["with_target_bos"] = True
    if revision == 4:
        flags |= {"user_decoder_start_tokens": False, "layernorm_embedding": False}
        found |= {key: np.frombuffer(config[key].encode(), np.int8) for key in ("unk_token", "bos_token", "eos_token")}
    else:
        del found["decoder/start_from_zero_embedding"]
        for part in ("encoder", "decoder"):
            found[f"{part}/embeddings/multiply_by_sqrt_depth"] = found.pop(f"{part}/scale_embeddings")
        found = {name.replace("embeddings_0", "embeddings"): value for name, value in found.items()}
    return found | {name: np.array(value, np.int8) for name, value in (flags | {"with_relative_position": 0}).items()}
