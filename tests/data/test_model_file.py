"""The file of a SentencePiece model, read and written beside SentencePiece itself."""

import io

import pytest
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from nmt.data.model_file import (
    Piece,
    PieceKind,
    read_pieces,
    target_model,
    with_pieces,
    with_target_model,
    without_our_fields,
)
from nmt.data.vocab import Vocabulary, train_vocabulary
from nmt.errors import VocabularyError

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
def test_pieces_are_those_that_sentencepiece_reads(model):
    processor = SentencePieceProcessor(model_proto=model)
    pieces = read_pieces(model)
    assert [piece.text for piece in pieces] == [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
    for index, piece in enumerate(pieces):
        assert piece.score == processor.get_score(index)
        assert (piece.kind is PieceKind.CONTROL) == processor.is_control(index)
        assert (piece.kind is PieceKind.UNKNOWN) == processor.is_unknown(index)
        assert (piece.kind is PieceKind.BYTE) == processor.is_byte(index)


@pytest.mark.parametrize("model", MODELS)
def test_pieces_in_another_order_segment_text_alike(model):
    before = SentencePieceProcessor(model_proto=model)
    after = SentencePieceProcessor(model_proto=with_pieces(model, reversed(read_pieces(model))))
    for line in [*LINES, "unbekannt ß ba", ""]:
        assert after.encode(line, out_type=str) == before.encode(line, out_type=str)
    last = before.get_piece_size() - 1
    assert [last - index for index in after.encode("ba doki")] == before.encode("ba doki")


def test_more_control_pieces_change_no_segmentation():
    for model in MODELS:
        before = SentencePieceProcessor(model_proto=model)
        more = [*read_pieces(model), Piece("adoki", 0.0, PieceKind.CONTROL), Piece("▁xb", 0.0, PieceKind.CONTROL)]
        after = SentencePieceProcessor(model_proto=with_pieces(model, more))
        for line in LINES:
            assert after.encode(line) == before.encode(line)


def test_a_model_holds_one_for_target_text_that_sentencepiece_skips():
    source, target = MODELS[:2]
    pair = with_target_model(source, target)
    assert target_model(pair) == target
    assert target_model(source) is None
    assert without_our_fields(pair) == source
    assert target_model(with_target_model(pair, source)) == source
    both = SentencePieceProcessor(model_proto=pair), SentencePieceProcessor(model_proto=source)
    assert both[0].encode(LINES) == both[1].encode(LINES)


def test_bytes_of_another_kind_are_refused():
    for damaged in (b"\x0a\xff", b"\x07", b"\xff" * 12, b"\xc2\x0c\x7f"):
        with pytest.raises(ValueError, match="message"):
            without_our_fields(damaged)
    vocab = train_vocabulary(LINES, size=14).vocab
    with pytest.raises(VocabularyError, match=r"x, target: is not a SentencePiece model"):
        Vocabulary(with_target_model(vocab.model_bytes, b"damaged"), name="x")


def test_a_vocabulary_encodes_each_side_with_its_own_model():
    source, target = train_vocabulary(LINES, size=14).vocab, train_vocabulary(["me no tu ma"] * 9, size=15).vocab
    pair = Vocabulary(with_target_model(source.model_bytes, target.model_bytes))
    assert (pair.size, pair.target.size, pair.larger_size) == (14, 15, 15)
    assert pair.encode(LINES) == source.encode(LINES)
    assert pair.target.encode(["no me"]) == target.encode(["no me"])
    assert pair.target.target is pair.target
    assert not pair.is_shared
    assert source.is_shared
    assert source.target is source
    assert len({pair.fingerprint, source.fingerprint, target.fingerprint}) == 3


@pytest.mark.parametrize("score", [b"\x10\x01", b"\x11" + bytes(8), b"\x12\x02ab"], ids=["varint", "8 bytes", "text"])
def test_a_score_of_another_type_is_an_error_that_readers_expect(score):
    piece = b"\x0a\x02ba" + score
    with pytest.raises(ValueError, match="a score is no number of 4 bytes"):
        read_pieces(b"\x0a" + bytes([len(piece)]) + piece)
