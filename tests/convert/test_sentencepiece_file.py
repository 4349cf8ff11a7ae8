"""The file of a SentencePiece model with other pieces, read by SentencePiece itself."""

import io

import pytest
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from nmt.convert.segmenters import model_pieces
from nmt.convert.sentencepiece_file import with_used_pieces

LINES = ["ba do ki", "ki ki do", "do bado kiba", "doki ba"] * 5


def trained(model_type, **options) -> bytes:
    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_writer=model, model_type=model_type, minloglevel=2, **options
    )
    return model.getvalue()


MODELS = [
    trained("unigram", vocab_size=16, user_defined_symbols=["doki"], control_symbols=["<c>"]),
    trained("bpe", vocab_size=280, byte_fallback=True),
    trained("unigram", vocab_size=14, self_test_sample_size=3, pad_id=3),
]


@pytest.mark.parametrize("model", MODELS)
def test_ordinary_pieces_alone_are_turned_off(model):
    before = SentencePieceProcessor(model_proto=model)
    after = SentencePieceProcessor(model_proto=with_used_pieces(model, lambda piece: piece != "▁" and len(piece) == 1))
    pieces = model_pieces(model)
    assert model_pieces(after.serialized_model_proto()) == pieces
    for index, piece in enumerate(pieces):
        is_special = before.is_control(index) or before.is_unknown(index) or before.is_byte(index) or piece == "doki"
        assert after.is_unused(index) == (not is_special and (piece == "▁" or len(piece) > 1))
        assert after.get_score(index) == before.get_score(index)


@pytest.mark.parametrize("model", MODELS)
def test_pieces_are_turned_on_again(model):
    off = with_used_pieces(model, lambda piece: False)
    assert off != model
    on = SentencePieceProcessor(model_proto=with_used_pieces(off, lambda piece: True))
    assert on.encode(LINES) == SentencePieceProcessor(model_proto=model).encode(LINES)
    assert with_used_pieces(model, lambda piece: True) is model


@pytest.mark.parametrize("damaged", [b"\x0a\xff", b"\x07", b"\xff" * 12, b"\xc2\x0c\x7f"])
def test_bytes_of_another_kind_are_refused(damaged):
    with pytest.raises(ValueError, match="message"):
        with_used_pieces(damaged, bool)
