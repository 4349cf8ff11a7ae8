"""Files of torch.save, read without running what is in them."""

import argparse
import builtins
import collections
import os
import pickle
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from nmt.convert.fairseq import read_fairseq
from nmt.convert.tensors import read_tensors
from nmt.convert.torch_files import Bag, read_torch_file
from nmt.errors import CheckpointError
from tests.convert.peers import write_fairseq
from tests.kit.archives import zipped

FORMS = {"archive": True, "older format": False}


@pytest.fixture(params=FORMS)
def save(request, tmp_path):
    """Saves a value in each format of torch.save; returns the file."""

    def write(value, **options) -> Path:
        path = tmp_path / "model.pt"
        torch.save(value, path, _use_new_zipfile_serialization=FORMS[request.param], **options)
        return path

    return write


def model() -> dict[str, torch.Tensor]:
    whole = torch.arange(24, dtype=torch.float32).view(4, 6)
    return collections.OrderedDict(
        whole=whole,
        part=whole[1:3, 2:],
        transposed=whole.T,
        double=whole.double() / 7,
        half=whole.half() / 7,
        bfloat16=whole.bfloat16() / 7,
        parameter=torch.nn.Parameter(whole + 1),
        numbers=torch.tensor([3, -5]),
        one=torch.tensor(2.5),
        none=torch.zeros(0, 3),
    )


def test_tensors_of_every_kind_are_read(save):
    tensors = model()
    value = read_torch_file(path := save({"model": tensors}))
    assert list(value["model"]) == list(tensors)
    assert torch.equal(value["model"].pop("numbers"), tensors.pop("numbers"))
    arrays = read_tensors(path, value["model"])
    assert list(arrays) == list(tensors)
    for name, array in arrays.items():
        assert array.dtype == np.float32
        assert np.array_equal(array, tensors[name].detach().float().numpy()), name


def test_plain_values_and_objects_are_read_as_they_are(save):
    settings = argparse.Namespace(layers=6, names=["a", "ü"], nothing=None, rate=0.5, pair=(1, 2), deep={"x": [True]})
    module = torch.nn.Linear(2, 3)
    state = {"args": settings, "again": settings, "state": module.state_dict(), "set": {"a"}}
    value = read_torch_file(save(state))
    assert isinstance(value["args"], Bag)
    assert value["args"].attributes == vars(settings)
    assert value["again"] is value["args"]
    assert list(value["state"]) == ["weight", "bias"]
    assert value["set"] == {"a"}


def test_what_an_optimizer_saves_is_read(save):
    module = torch.nn.Linear(2, 3)
    optimizer = torch.optim.Adam(module.parameters())
    module(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    value = read_torch_file(save({"optim": optimizer.state_dict()}))
    assert sorted(value["optim"]["state"][0]) == ["exp_avg", "exp_avg_sq", "step"]


def test_values_of_every_kind_are_read_in_torchs_default_protocol(save):
    value = {
        "a": [1, -300, 2**70, 1.5, "x" * 300, b"bytes", None, True],
        "b": ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)),
    }
    assert read_torch_file(save(value)) == value
    with pytest.raises(CheckpointError, match="torch's default pickle protocol"):
        read_torch_file(save(value, pickle_protocol=4))


class Runs:
    """Calls a function when it is read by an ordinary reader."""

    def __init__(self, function, *arguments) -> None:
        self._call = function, arguments

    def __reduce__(self):
        return self._call


class SetsState:
    """Runs code of its class when it is read by an ordinary reader."""

    def __init__(self, canary: Path) -> None:
        self.canary = str(canary)

    def __setstate__(self, state) -> None:
        Path(state["canary"]).touch()


class Builds(dict):
    """Runs a constructor when it is read by an ordinary reader."""

    def __init__(self, canary: str) -> None:
        Path(canary).touch()

    def __reduce__(self):
        return Builds, (self.canary,)


def harmful(canary: Path) -> dict[str, tuple[object, str]]:
    builds = Builds.__new__(Builds)
    builds.canary = str(canary)
    return {
        "os.system": (Runs(os.system, f"touch {canary}"), r"\.system"),
        "eval": (Runs(builtins.eval, f"open({str(canary)!r}, 'w')"), r"\.eval"),
        "exec": (Runs(builtins.exec, f"open({str(canary)!r}, 'w')"), r"\.exec"),
        "a class with __setstate__": (SetsState(canary), "SetsState"),
        "a class that is called": (builds, "Builds"),
        "open": (Runs(open, str(canary), "w"), "open"),
        "getattr, then a call": (Runs(Path.touch, canary), "unrecognized function"),
    }


@pytest.mark.parametrize("kind", harmful(Path("x")))
@pytest.mark.parametrize("place", ["args", "optimizer"])
def test_code_in_a_pickle_is_refused_and_not_run(save, tmp_path, kind, place):
    canary = tmp_path / "canary"
    value, name = harmful(canary)[kind]
    path = save({"model": model(), place: value})
    with pytest.raises(CheckpointError, match=rf"model\.pt: .*({name})"):
        read_torch_file(path)
    assert not canary.exists()
    if kind != "getattr, then a call":  # the canary sings for an ordinary reader
        torch.load(path, weights_only=False)
        assert canary.exists()


def test_a_method_that_is_only_named_is_not_called(save, tmp_path):
    canary = tmp_path / "canary"
    value = collections.defaultdict(canary.touch, {"a": 1})
    read = read_torch_file(save({"vocab": value, "counter": collections.Counter("aab")}))
    assert read["counter"] == {"a": 2, "b": 1}
    assert not canary.exists()


PICKLES = {
    "nothing": b"",
    "no end": b"\x80\x02}",
    "an empty stack": b"\x80\x02a.",
    "no mark": b"\x80\x02}u.",
    "an unknown instruction": b"\x80\x02\xff.",
    "a huge length": b"\x80\x02B\xff\xff\xff\x7fabc.",
    "a huge length of 8 bytes": b"\x80\x04\x8e" + b"\xff" * 7 + b"\x00abc.",
    "a memo that is not there": b"\x80\x02h\x05.",
    "a key that is a list": b"\x80\x02}]Ns.",
    "an extension": b"\x80\x02\x82\x01.",
    "another file": b"\x80\x02Pother\n.",
    "a tensor of nonsense": b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(NNNNNNt R.".replace(b" ", b""),
    "a list that holds itself": b"\x80\x02]q\x00h\x00a}q\x01h\x00Ns.",
    "a call of text": b"\x80\x02U\x01a)R.",
    "a tuple of too few": b"\x80\x02K\x01\x86.",
    "a number of many digits": b"\x80\x02I" + b"9" * 5_000 + b"\n.",
    "encode of a number": b"\x80\x02c_codecs\nencode\nK\x05X\x06\x00\x00\x00latin1\x86R.",
    "a large storage": b"\x80\x02ctorch\nFloatStorage\n\x8a\x06" + b"\0" * 5 + b"\x08\x85R.",
    "a large array of bytes": b"\x80\x02c__builtin__\nbytearray\n\x8a\x05" + b"\0" * 4 + b"\x08\x85R.",
}


@pytest.fixture
def save_pickle(save):
    """Saves instructions of a pickle in place of those of a value; returns the file."""

    def write(content: bytes) -> Path:
        path, value = save("value"), pickle.dumps("value", protocol=2)
        if zipfile.is_zipfile(path):
            rewritten(path, lambda members: {n: content if n.endswith("data.pkl") else c for n, c in members.items()})
        else:
            path.write_bytes(path.read_bytes().replace(value, content))
        return path

    return write


@pytest.mark.parametrize("content", PICKLES.values(), ids=PICKLES)
def test_a_damaged_pickle_is_refused(save_pickle, content):
    with pytest.raises(CheckpointError, match=r"model\.pt: .*(damaged|bytearray)") as error:
        read_torch_file(save_pickle(content))
    assert "hasRecord" not in str(error.value)  # what is around the pickle is whole


def test_a_list_that_is_huge_as_text_is_told_in_short(tmp_path):
    laughs = ["ha"]
    for _ in range(60):
        laughs = [laughs, laughs]
    origin = write_fairseq(tmp_path, activation_fn=laughs, encoder_embed_dim=laughs, decoder_embed_dim=laughs)
    with pytest.raises(CheckpointError, match="decoder_embed_dim: ") as error:
        read_fairseq(origin)
    assert len(str(error.value)) < 1_000


def test_a_file_that_is_cut_off_is_refused(save):
    path = save({"model": {"a": torch.randn(500)}})
    content = path.read_bytes()
    for length in range(0, len(content), 97):
        path.write_bytes(content[:length])
        with pytest.raises(CheckpointError, match=r"model\.pt: "):
            read_torch_file(path)


def rewritten(path: Path, change) -> None:
    """Change the members of an archive."""
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    path.write_bytes(zipped(change(members), zipfile.ZIP_STORED))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"K\x03K\x05\x86", b"K\x03K\xc8\x86"),  # 3 x 200 in place of 3 x 5
        (b"K\x03K\x05\x86q\x08K\x05K\x01\x86", b"K\x7fK\x7f\x86q\x08K\x00K\x00\x86"),  # one number, many times
        (b"K\x03K\x05\x86", b"K\x00\x8a\x06" + b"\0" * 5 + b"\x80\x8a\x06" + b"\0" * 5 + b"\x80\x87"),
    ],
)
def test_a_tensor_larger_than_its_storage_is_refused(save, old, new):
    path = save({"a": torch.randn(3, 5)})
    content = path.read_bytes() if not zipfile.is_zipfile(path) else None
    if content is not None:
        path.write_bytes(content.replace(old, new))
    else:
        rewritten(path, lambda members: {name: content.replace(old, new) for name, content in members.items()})
    with pytest.raises(CheckpointError, match=r"model\.pt: .*damaged"):
        read_tensors(path, read_torch_file(path))


def test_a_storage_with_a_wrong_bit_is_refused(tmp_path):
    path = tmp_path / "model.pt"
    torch.save({"a": (tensor := torch.randn(3, 5))}, path)
    numbers = tensor.numpy().tobytes()
    path.write_bytes(path.read_bytes().replace(numbers, numbers[:-1] + bytes([numbers[-1] ^ 1])))
    with pytest.raises(CheckpointError, match="data/0 does not have its checksum"):
        read_torch_file(path)


def test_a_compressed_archive_is_refused(tmp_path):
    path = tmp_path / "model.pt"
    path.write_bytes(zipped({"archive/data.pkl": pickle.dumps(["a" * 1_000_000], protocol=2)}))
    with pytest.raises(CheckpointError, match=r"data\.pkl of 1,000,0\d\d bytes"):
        read_torch_file(path)


def test_an_archive_of_something_else_is_refused(tmp_path):
    path = tmp_path / "model.pt"
    path.write_bytes(zipped({"notes.txt": b"hello"}))
    with pytest.raises(CheckpointError, match=r"without data\.pkl"):
        read_torch_file(path)
    path.write_bytes(struct.pack("<Q", 12) + b"not a pickle")
    with pytest.raises(CheckpointError, match=r"model\.pt: "):
        read_torch_file(path)
    with pytest.raises(CheckpointError, match="cannot be read"):
        read_torch_file(tmp_path / "nowhere.pt")
