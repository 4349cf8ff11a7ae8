"""FSMT of transformers is fairseq's model under other names, with its text prepared by Moses' programs."""

import json
import re

import pytest
import torch

from nmt.convert.converting import import_model
from nmt.convert.fairseq import read_fairseq
from nmt.convert.foreign import Given
from nmt.convert.formats import find_format
from nmt.convert.huggingface.reading import read_huggingface
from nmt.convert.vocabulary import our_vocabulary
from nmt.convert.weights import our_weights
from nmt.errors import NmtError
from nmt.text.steps import normalizer
from tests.convert.peers import D_FF, D_MODEL, HEADS, LAYERS, MERGES, OF_MERGES, POSITIONS, write_fairseq

WORDS = (*OF_MERGES, "@@")
SETTINGS = {
    "architectures": ["FSMTForConditionalGeneration"], "model_type": "fsmt", "langs": ["en", "de"],
    "activation_function": "relu", "d_model": D_MODEL, "max_position_embeddings": POSITIONS,
    "src_vocab_size": len(WORDS) + 4, "tgt_vocab_size": len(WORDS) + 4, "decoder": {"vocab_size": 5},
    "decoder_start_token_id": 2, "num_beams": 7, "length_penalty": 1.15, "tie_word_embeddings": True,
} | {
    f"{part}_{key}": value
    for part in LAYERS
    for key, value in {"layers": LAYERS[part], "ffn_dim": D_FF, "attention_heads": HEADS}.items()
}  # fmt: skip


def write_fsmt(folder, *, tied="all", stored=(), lower=False, **settings):
    """The folder of a model of fairseq, and that of the same model in the form of transformers."""
    tensors = {}
    theirs = write_fairseq(
        folder / "fairseq", words=WORDS, tied=tied, state=lambda state: tensors.update(state) or state
    )
    (theirs / "bpecodes").write_text("".join(f"{merge} 9\n" for merge in MERGES))
    kept = {
        f"model.{name}": tensor for name, tensor in tensors.items() if not name.endswith((".version", "_float_tensor"))
    }
    folder = folder / "fsmt"
    folder.mkdir()
    torch.save(kept | dict(stored), folder / "pytorch_model.bin")
    (folder / "config.json").write_text(json.dumps(SETTINGS | {"tie_word_embeddings": tied == "all"} | settings))
    pieces = [piece.removesuffix("@@") if piece.endswith("@@") else f"{piece}</w>" for piece in WORDS]
    ids = json.dumps({piece: index for index, piece in enumerate(("<s>", "<pad>", "</s>", "<unk>", *pieces))})
    for name in ("vocab-src.json", "vocab-tgt.json"):
        (folder / name).write_text(ids)
    (folder / "merges.txt").write_text("".join(f"{merge}\n" for merge in MERGES))
    (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": lower}))
    return theirs, folder


@pytest.mark.parametrize("tied", ["all", "decoder", "none"])
def test_it_is_the_model_of_fairseq(tmp_path, tied):
    theirs, folder = write_fsmt(tmp_path, tied=tied)
    expected, model = read_fairseq(theirs), read_huggingface(folder)
    assert find_format(folder).name == "huggingface"
    assert model.config == expected.config
    ours = our_weights(expected)
    assert all(torch.equal(tensor, ours[name]) for name, tensor in our_weights(model).items())
    assert (model.source.pieces, model.target.pieces) == (expected.source.pieces, expected.target.pieces)
    assert (model.source_lang, model.target_lang, model.toolkit) == ("en", "de", "Hugging Face FSMT")
    assert (model.decoding.beam, model.decoding.length_penalty, model.remarks) == (7, 1.15, ())
    line = ["the boat's at-at."]
    assert our_vocabulary(model).source.encode(line) == our_vocabulary(expected).source.encode(line)


def test_stored_positions_begin_behind_padding(tmp_path):
    """transformers 5 stores them, and takes stored ones for its own."""
    computed, others = torch.zeros(POSITIONS + 2, D_MODEL), torch.full((POSITIONS + 2, D_MODEL), 0.5)
    half = torch.arange(D_MODEL // 2)
    angles = torch.arange(POSITIONS + 2)[:, None] / 10_000 ** (half / (len(half) - 1))
    computed[:, : len(half)], computed[:, len(half) :] = angles.sin(), angles.cos()
    sides = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")
    for number, (table, kind) in enumerate(((computed, "tensor2tensor"), (others, "learned"))):
        _, folder = write_fsmt(tmp_path / str(number), stored=dict.fromkeys(sides, table).items())
        model = read_huggingface(folder)
        assert (model.config.positions, model.config.max_positions) == (kind, POSITIONS)
    assert not import_model(folder, tmp_path / "bundle").failed


# What FSMTTokenizer of transformers 5.24 makes of the line.
@pytest.mark.parametrize(
    ("lower", "expected"),
    [
        (False, '" The " : boat &apos;s at @-@ at " x ... " 10 % ?'),
        (True, '" the " : boat &apos;s at @-@ at " x ... " 10 % ?'),
    ],
)
def test_text_goes_through_the_programs_of_moses(tmp_path, lower, expected):
    model = read_huggingface(write_fsmt(tmp_path, lower=lower)[1])
    vocab = our_vocabulary(model).source.prepared(model.text.source, {})
    tokens = vocab._tokenize(normalizer(model.text.source)("“The”： boat’s at-at「x」… １０％？\x07"))
    assert tokens.replace("&quot;", '"') == expected


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("config.json", json.dumps(SETTINGS | {"src_vocab_size": 5}), r"vocab-src\.json: has 13 pieces, but .* says 5"),
        ("config.json", json.dumps(SETTINGS | {"is_encoder_decoder": False}), "is_encoder_decoder: False"),
        ("merges.txt", "a t</w>\nonlyone\n", r"merges\.txt, line 2: expected two symbols"),
        ("merges.txt", None, r"merges\.txt: cannot be read"),
        ("vocab-tgt.json", "{}", r"vocab-tgt\.json: lacks"),
    ],
)
def test_what_is_damaged_or_of_another_model_is_refused(tmp_path, file, content, message):
    _, folder = write_fsmt(tmp_path)
    (folder / file).unlink()
    if content is not None:
        (folder / file).write_text(content)
    with pytest.raises(NmtError, match=message):
        read_huggingface(folder)


def test_given_languages_count_for_more_than_those_of_the_files(tmp_path):
    model = read_huggingface(write_fsmt(tmp_path)[1], Given(source_lang="fr"))
    assert (model.source_lang, model.target_lang) == ("fr", "de")
    assert re.search("fr", str(model.text.source[-1]))
