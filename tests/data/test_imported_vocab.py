"""A list of pieces beside a SentencePiece model: pieces that it never makes, that the list lacks, segmented text."""

import io

import pytest
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from nmt.data.imported_vocab import ImportedVocabulary
from nmt.data.vocab import SPECIAL_PIECES, Vocabulary, train_vocabulary
from nmt.errors import VocabularyError

LINES = ["ba do ki", "ki ki do", "do bado kiba", "doki ba"]
PLAIN = train_vocabulary(LINES * 5, size=14).vocab
LARGE = train_vocabulary(LINES * 5, size=300, byte_fallback=True).vocab
FOREIGN = [">>deu<<", "▁schön", "ß", ">>fra<<", "ne"]


def with_foreign(vocab: Vocabulary) -> ImportedVocabulary:
    return ImportedVocabulary(vocab.model_bytes, [*vocab.pieces(range(vocab.size)), *FOREIGN])


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


def lacking(vocab: Vocabulary, *missing: str) -> ImportedVocabulary:
    """The vocabulary of a translation model that lacks some pieces of the SentencePiece model."""
    return ImportedVocabulary(
        vocab.model_bytes, [piece for piece in vocab.pieces(range(vocab.size)) if piece not in missing]
    )


LACKED = "▁doki"


@pytest.mark.parametrize("line", ["doki ▁ ba", "\0", "ba\0▁doki do", "▁▁doki"])
def test_reserved_characters_are_spaces_beside_pieces_that_the_model_lacks(line):
    vocab, whole = lacking(LARGE, LACKED), LARGE.encode([line])
    [pieces] = map(LARGE.pieces, whole)
    expected = ["<unk>" if piece == LACKED else piece for piece in pieces]
    assert [vocab.pieces(ids) for ids in vocab.encode([line])] == [expected]
    assert vocab.encode_rows([line]).values.tolist() == vocab.encode([line])[0]


def test_a_piece_that_the_model_lacks_has_the_id_of_unk():
    vocab = lacking(LARGE, LACKED)
    assert LARGE.ids([LACKED])[0] > Vocabulary.EOS
    assert vocab.ids([LACKED, "▁ba", "nonsense"]) == [1, vocab.pieces(range(vocab.size)).index("▁ba"), 1]


def segmented(*pieces: str) -> Vocabulary:
    """A vocabulary whose text comes as pieces separated by spaces."""
    listed = [*SPECIAL_PIECES, *(f"▁{piece}" for piece in pieces)]
    return ImportedVocabulary(PLAIN.model_bytes, listed, is_segmented=True)


def test_segmented_text_is_split_at_any_white_space():
    vocab = segmented("boat", "at", "noon")
    assert vocab.is_segmented
    assert not PLAIN.is_segmented
    assert vocab.encode(["boat at\u00a0noon", " noon\u2009\tboat\r"]) == [[4, 5, 6], [6, 4]]


def test_segmented_text_is_split_at_spaces_if_a_piece_holds_other_white_space():
    vocab = segmented("boat", "at", "noon", "at\u00a0noon")
    assert vocab.encode(["boat  at\u00a0noon at\tnoon"]) == [[4, 7, 1]]
    assert vocab.decode([[4, 7, 1]]) == ["boat at\u00a0noon ⁇ "]


def test_ids_are_those_of_the_list():
    listed = [*SPECIAL_PIECES, *reversed(LARGE.pieces(range(4, LARGE.size)))]
    vocab = ImportedVocabulary(LARGE.model_bytes, listed)
    lines = ["ba do", "", "doki ☃ ki", "ba\0▁doki"]
    expected = [LARGE.pieces(ids) for ids in LARGE.encode(lines)]
    encoded = vocab.encode(lines)
    assert [vocab.pieces(ids) for ids in encoded] == expected
    assert [vocab.ids(pieces) for pieces in expected] == encoded
    assert vocab.encode_rows(lines).values.tolist() == [index for ids in encoded for index in ids]
    assert vocab.decode(encoded) == LARGE.decode(LARGE.encode(lines))
    assert vocab.byte_ids == {vocab.size + 3 - index for index in LARGE.byte_ids}
    sampled = vocab.encode_sampled(lines, dropout=0.5, seed=1)
    assert [vocab.pieces(ids) for ids in sampled] == [
        LARGE.pieces(ids) for ids in LARGE.encode_sampled(lines, dropout=0.5, seed=1)
    ]


def test_special_pieces_of_the_model_may_have_any_ids():
    out = io.BytesIO()
    SentencePieceTrainer.train(sentence_iterator=iter(LINES * 5), model_writer=out, vocab_size=14, minloglevel=2)
    processor = SentencePieceProcessor(model_proto=out.getvalue())
    made = processor.id_to_piece(list(range(3, 14)))
    vocab = ImportedVocabulary(out.getvalue(), [*SPECIAL_PIECES, *made])
    for line in (*LINES, "ba ☃"):
        [ids] = vocab.encode([line])
        assert ids == [index + 1 if index else vocab.UNK for index in processor.encode(line)]
        assert vocab.decode([[vocab.BOS, *ids, vocab.EOS]]) == [processor.decode(processor.encode(line))]


@pytest.mark.parametrize("pieces", [[], ["<pad>", "<unk>", "</s>", "<s>"], [*SPECIAL_PIECES, "▁ba", "▁ba"]])
def test_a_list_without_special_pieces_or_with_double_ones_is_refused(pieces):
    with pytest.raises(
        VocabularyError, match=r"x: (the pieces must begin with <pad>, <unk>, <s>, </s>|has the piece '▁ba' twice)"
    ):
        ImportedVocabulary(PLAIN.model_bytes, pieces, name="x")


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"pieces": [1], "segmented": false}', b'{"pieces": {}}'])
def test_a_damaged_list_is_an_error(content):
    with pytest.raises(VocabularyError, match="x: its list of pieces is damaged"):
        ImportedVocabulary.read(PLAIN.model_bytes, content, name="x")


def test_a_list_that_was_written_is_read_again():
    for vocab in (VOCAB, segmented("boat", "at\u2028noon", "ß\n")):
        again = ImportedVocabulary.read(vocab.model_bytes, vocab.pieces_json, name="x")
        assert again.pieces(range(again.size)) == vocab.pieces(range(vocab.size))
        assert again.is_segmented == vocab.is_segmented
        assert again.pieces_json == vocab.pieces_json
