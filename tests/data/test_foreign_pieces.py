"""Pieces that a SentencePiece model never makes: the other language's, and language tags."""

import pytest

from nmt.data.model_file import (
    Piece,
    PieceKind,
    for_segmented_text,
    read_pieces,
    with_known_pieces,
    with_pieces,
    with_target_model,
)
from nmt.data.vocab import Vocabulary, train_vocabulary

PLAIN = train_vocabulary(["ba do ki", "ki ki do", "do bado kiba", "doki ba"] * 5, size=14).vocab
LARGE = train_vocabulary(["ba do ki", "ki ki do", "do bado kiba", "doki ba"] * 5, size=300, byte_fallback=True).vocab
FOREIGN = [">>deu<<", "▁schön", "ß", ">>fra<<", "ne"]


def with_foreign(vocab: Vocabulary) -> Vocabulary:
    foreign = [Piece(text, kind=PieceKind.CONTROL) for text in FOREIGN]
    return Vocabulary(with_pieces(vocab.model_bytes, [*read_pieces(vocab.model_bytes), *foreign]))


VOCAB = with_foreign(PLAIN)
FIRST = PLAIN.size


def test_plain_lines_are_encoded_as_before():
    lines = ["ba do", "", "  ki   bado ", "a>>deu<<"]
    assert VOCAB.encode(lines[:3]) == PLAIN.encode(lines[:3])
    assert VOCAB.language_tags == (">>deu<<", ">>fra<<")
    assert PLAIN.language_tags == ()


@pytest.mark.parametrize(
    ("line", "tag", "rest"),
    [
        (">>deu<< ba do", FIRST, "ba do"),
        (">>fra<<ba", FIRST + 3, "ba"),
        (">>xxx<< ki", 1, "ki"),
        (">>deu<<", FIRST, ""),
    ],
)
def test_a_tag_at_the_beginning_is_one_piece(line, tag, rest):
    assert VOCAB.encode([line]) == [[tag, *PLAIN.encode([rest])[0]]]


@pytest.mark.parametrize("line", ["ba >>deu<< do", ">><< ba", ">>de<u<< ba", "ba >>deu<<"])
def test_other_angle_brackets_are_text(line):
    assert VOCAB.encode([line]) == PLAIN.encode([line])


def test_without_tags_in_the_vocabulary_they_are_text():
    assert 1 in PLAIN.encode([">>deu<< ba"])[0]


def test_unknown_characters_that_are_a_foreign_piece_get_its_id():
    ids = PLAIN.encode(["ba ß"])[0]
    assert ids.count(1) == 1
    assert VOCAB.encode(["ba ß"]) == [[FIRST + 2 if piece == 1 else piece for piece in ids]]
    assert VOCAB.encode(["ba ßß"]) == PLAIN.encode(["ba ßß"])  # neighbours are one unknown piece


def test_foreign_pieces_are_decoded_as_text():
    [ba] = PLAIN.encode(["ba"])
    assert VOCAB.decode([[*ba, FIRST + 1, FIRST + 2], ba, [FIRST + 4, *ba]]) == ["ba schönß", "ba", "ne ba"]
    assert VOCAB.decode([[FIRST + 1, *ba]]) == ["schön ba"]


def test_bytes_beside_foreign_pieces_are_decoded():
    vocab = with_foreign(LARGE)
    euro = LARGE.encode(["€"])[0]
    assert LARGE.decode([euro]) == ["€"]
    assert vocab.decode([[*euro, LARGE.size + 1], [*euro[:-1], LARGE.size + 1]]) == ["€ schön", "\ufffd\ufffd schön"]


@pytest.mark.parametrize(
    "content", [b"\xe2\x82", b"\xe2\x82a", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xc0\x80\xff", b"a\x80\xe2\x82\xac"]
)
def test_broken_bytes_beside_foreign_pieces_are_decoded_as_sentencepiece_does(content):
    ids = LARGE.ids([f"<0x{byte:02X}>" for byte in content])
    [expected] = LARGE.decode([ids])
    assert with_foreign(LARGE).decode([[*ids, LARGE.size + 1]]) == [f"{expected} schön"]


def test_special_pieces_beside_foreign_ones_are_decoded_as_sentencepiece_does():
    assert VOCAB.decode([[FIRST + 1, 1]]) == ["schön ⁇ "]
    assert VOCAB.decode([[FIRST + 1, 0, 2, 3]]) == ["schön"]


def lacking(vocab: Vocabulary, *missing: str) -> Vocabulary:
    """The vocabulary of a translation model that lacks some pieces of the SentencePiece model."""
    pieces = read_pieces(vocab.model_bytes)
    ordered = sorted(pieces, key=lambda piece: piece.text in missing)
    return Vocabulary(with_known_pieces(with_pieces(vocab.model_bytes, ordered), len(pieces) - len(missing)))


LACKED = "▁doki"


@pytest.mark.parametrize("line", ["doki ▁ ba", "\0", "ba\0▁doki do", "▁▁doki"])
def test_reserved_characters_are_spelt_in_bytes_beside_pieces_that_the_model_lacks(line):
    vocab, whole = lacking(LARGE, LACKED), LARGE.encode([line])
    [pieces] = map(LARGE.pieces, whole)
    expected = ["<unk>" if piece == LACKED else piece for piece in pieces]
    assert [vocab.pieces(ids) for ids in vocab.encode([line])] == [expected]
    assert vocab.encode_rows([line]).values.tolist() == vocab.encode([line])[0]


def test_reserved_characters_are_spelt_in_bytes_beside_foreign_pieces():
    foreign = [Piece(text, kind=PieceKind.CONTROL) for text in FOREIGN]
    vocab = Vocabulary(with_pieces(LARGE.model_bytes, [*read_pieces(LARGE.model_bytes), *foreign]))
    assert vocab.encode([">>deu<< ba▁ki"]) == [[LARGE.size, *LARGE.encode([" ba▁ki"])[0]]]


def test_a_piece_that_the_model_lacks_has_the_id_of_unk():
    vocab = lacking(LARGE, LACKED)
    assert LARGE.ids([LACKED])[0] > Vocabulary.EOS
    assert vocab.ids([LACKED, "▁ba", "nonsense"]) == [1, vocab.pieces(range(vocab.size)).index("▁ba"), 1]


def test_each_side_has_its_vocabulary():
    vocab = Vocabulary(with_target_model(PLAIN.model_bytes, LARGE.model_bytes))
    assert vocab.of("source") is vocab
    assert vocab.of("target").size == LARGE.size
    assert PLAIN.of("target") is PLAIN


def segmented(*pieces: str) -> Vocabulary:
    """A vocabulary whose text comes as pieces separated by spaces."""
    special = read_pieces(PLAIN.model_bytes)[: Vocabulary.EOS + 1]
    model = with_pieces(PLAIN.model_bytes, [*special, *(Piece(f"▁{piece}") for piece in pieces)])
    return Vocabulary(for_segmented_text(model))


def test_segmented_text_is_split_at_any_white_space():
    vocab = segmented("boat", "at", "noon")
    assert vocab.is_segmented
    assert not PLAIN.is_segmented
    assert vocab.encode(["boat at\u00a0noon", " noon\u2009\tboat\r"]) == [[4, 5, 6], [6, 4]]


def test_segmented_text_is_split_at_spaces_if_a_piece_holds_other_white_space():
    vocab = segmented("boat", "at", "noon", "at\u00a0noon")
    assert vocab.encode(["boat  at\u00a0noon at\tnoon"]) == [[4, 7, 1]]
