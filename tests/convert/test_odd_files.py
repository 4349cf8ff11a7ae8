"""Files of other toolkits' models that are not as their toolkits write them: one clear error each, or read as there."""

import contextlib
import json
import os

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nmt.convert.ctranslate2.loading import model_for_ctranslate2
from nmt.convert.ctranslate2.writing import write_ctranslate2
from nmt.convert.fairseq import read_dictionary
from nmt.convert.foreign import Given
from nmt.convert.formats import find_format, place_of
from nmt.convert.marian.reading import read_marian
from nmt.convert.marian.vocabulary import read_vocabulary, read_yaml_pieces
from nmt.convert.vocabulary import piece_names, their_piece
from nmt.errors import CheckpointError, VocabularyError
from tests.convert.peers import WRITERS

PAIR = Given(source_lang="en", target_lang="de")
PIECES = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")), min_size=1, max_size=12)


def read(path):
    return find_format(path).read(path, PAIR)


@pytest.fixture
def write(tmp_path):
    """Writes a model of a toolkit, and returns its folder."""

    return lambda name: WRITERS[name](tmp_path / name)


@pytest.mark.parametrize(
    ("key", "value"),
    [("add_source_eos", "yes"), ("add_source_bos", 0), ("unk_token", 5), ("layer_norm_epsilon", True)],
)
def test_a_setting_that_ctranslate2_would_fail_at_is_named(key, value, make_bundle, tmp_path):
    pytest.importorskip("ctranslate2", reason="the extra `ctranslate2` is not installed")
    folder = tmp_path / "model"
    folder.mkdir()
    write_ctranslate2(make_bundle(), folder)
    config = folder / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {key: value}))
    with pytest.raises(CheckpointError, match=f"config.json: has {key}: {value}"):
        read(folder)


def test_a_pipe_is_no_model_and_no_certificate(write):
    folder = write("marian")
    os.mkfifo(folder.parent / "model.npz")
    with pytest.raises(CheckpointError, match="no such file or folder"):
        find_format(folder.parent / "model.npz")
    os.mkfifo(folder / "parity.json")
    with pytest.raises(CheckpointError, match="marian: "):
        model_for_ctranslate2([folder])


def test_an_empty_sentencepiece_model_is_named(write):
    folder = write("marian")
    (folder / "source.spm").write_bytes(b"")
    with pytest.raises(VocabularyError, match=r"source\.spm: is not a SentencePiece model"):
        read_marian(folder, PAIR)


def test_a_pointer_of_git_lfs_is_named(write):
    folder, pointer = write("huggingface"), "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
    (folder / "tf_model.h5").write_text(pointer)
    assert read(folder).toolkit == "Hugging Face MarianMT"
    (folder / "model.safetensors").write_text(pointer)
    with pytest.raises(CheckpointError, match=r"model\.safetensors: is only a pointer of Git LFS\. Run `git lfs pull`"):
        read(folder)


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("ckpt-5000.index", r"a checkpoint of TensorFlow\. .* ct2-opennmt-tf-converter, and import that\."),
        ("model.deen.intgemm.alphas.bin", "a model of Marian that was packed for one processor"),
        ("notes.txt", r"no model that can be imported\. Known are marian, .* sockeye: with --format NAME"),
    ],
)
def test_a_model_that_cannot_be_read_says_what_to_do(file, words, tmp_path):
    (tmp_path / file).touch()
    for path in (tmp_path, tmp_path / file):
        with pytest.raises(CheckpointError, match=f"holds {words}"):
            find_format(path)
    (tmp_path / "alone.bin").touch()
    with pytest.raises(CheckpointError, match=r"alone\.bin: holds no model that can be imported"):
        find_format(tmp_path / "alone.bin")


def test_the_files_of_a_format_that_is_named_are_told(write):
    with pytest.raises(CheckpointError, match=r"holds no model of fairseq, which would be a \.pt file with dict\.LANG"):
        find_format(write("marian"), "fairseq")


def test_a_folder_of_the_cache_of_hugging_face_stands_for_its_revision(write, tmp_path):
    """Its files are links to where their content lies."""
    cache = tmp_path / "models--owner--opus"
    revision = cache / "snapshots" / "0123abcd"
    write("huggingface").rename(cache.with_name("content"))
    revision.mkdir(parents=True)
    for file in (tmp_path / "content").iterdir():
        (revision / file.name).symlink_to(file)
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text("0123abcd")
    for path in (cache, revision, revision / "model.safetensors", revision / "config.json"):
        assert place_of(path) == revision
    assert read(place_of(cache)).toolkit == "Hugging Face MarianMT"


class Dictionary:
    """What fairseq makes of a dictionary: ``Dictionary.add_from_file``."""

    def __init__(self, text):
        self.symbols, self.indices = [], {}
        for word in ("<s>", "<pad>", "</s>", "<unk>"):
            self.add(word)
        for line in text.splitlines(keepends=True):
            word, count = line.rstrip().rsplit(" ", 1)
            if overwrite := count == "#fairseq:overwrite":
                word, count = word.rsplit(" ", 1)
            int(count)
            if word in self.indices and not overwrite:
                raise RuntimeError("duplicate")
            self.add(word)

    def add(self, word):
        self.indices[word] = len(self.symbols)
        self.symbols.append(word)


FIELDS = st.sampled_from(["a", "b", "c d", "<s>", "<pad>", "</s>", "<unk>", "▁x", "#fairseq:overwrite"])
COUNTS = st.sampled_from(["1", "-0", "-7", "+3", "1_000", "٣", "x", "1.5", "", "1 2", "0x1", "-"])
LINES = st.builds("{} {}{}".format, FIELDS, COUNTS, st.sampled_from(["", " ", " #fairseq:overwrite", "\t"]))


@settings(max_examples=60, deadline=None)
@given(lines=st.lists(LINES, max_size=5))
@example(lines=["a -0", "<s> 1 #fairseq:overwrite", "a 2 #fairseq:overwrite", "</s> 3 #fairseq:overwrite"])
def test_a_dictionary_is_read_as_fairseq_reads_it(lines, tmp_path_factory):
    path = tmp_path_factory.mktemp("dictionary") / "dict.en.txt"
    path.write_text("".join(f"{line}\n" for line in lines))
    try:
        theirs = Dictionary(path.read_text())
    except ValueError:
        with pytest.raises(VocabularyError, match="expected a piece and its count"):
            read_dictionary(path)
        return
    except RuntimeError:  # later than the importer, which reads the whole file first
        with contextlib.suppress(VocabularyError):
            assert len(set(read_dictionary(path))) < len(lines) + 4
        return
    pieces = read_dictionary(path)
    assert len(pieces) == len(set(pieces)) == len(theirs.symbols)
    for word, index in theirs.indices.items():
        is_special = word in ("<pad>", "</s>", "<unk>")
        assert pieces.index(word) == (theirs.symbols.index(word) if is_special else index)


FORMS = {
    "json": json.dumps,
    "json, with spaces": lambda ids: json.dumps(ids, indent=2, ensure_ascii=False),
    "yaml": lambda ids: yaml.safe_dump(ids, allow_unicode=True, sort_keys=False),
    "yaml, escaped": lambda ids: "".join(
        f"{yaml.safe_dump(piece, default_style=chr(34)).strip()}: {ids[piece]}\n" for piece in ids
    ),
    "yaml, of Windows": lambda ids: yaml.safe_dump(ids, allow_unicode=True).replace("\n", "\r\n"),
    "yaml, with comments": lambda ids: "".join(f"{json.dumps(piece)}: {ids[piece]}  # it: 7\n" for piece in ids),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=25, deadline=None)
@given(pieces=st.lists(PIECES, min_size=1, max_size=8, unique=True))
@example(pieces=["</s>", "<unk>", "😀", "#", "%", "'", '"', "a: 3", "null", "5", "\xa0", "it's", "\\", "{", "? x"])
def test_marians_vocabularies_are_read_in_every_form(form, pieces):
    text = FORMS[form]({piece: index for index, piece in enumerate(pieces)})
    assert read_yaml_pieces(text, "vocab") == pieces


def test_a_vocabulary_of_marian_may_be_json_or_have_the_line_ends_of_windows(write):
    folder = write("marian")
    pieces = read_marian(folder, PAIR).source.pieces
    (folder / "src.vocab.json").write_text(json.dumps({piece: index for index, piece in enumerate(pieces)}))
    (folder / "trg.vocab.txt").write_bytes("\r\n".join(pieces).encode())
    decoder = yaml.safe_load((folder / "decoder.yml").read_text())
    decoder["vocabs"] = ["src.vocab.json", "trg.vocab.txt"]
    (folder / "decoder.yml").write_text(yaml.safe_dump(decoder))
    model = read_marian(folder, PAIR)
    assert model.source.pieces == model.target.pieces == pieces


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "vocab.yml",
            "</s>: 0\n<unk>: 1\na: 2\na: 3\n",
            r"vocab.yml: the piece 'a' has the id 2 already.*the id 3 another",
        ),
        ("vocab.json", '{"</s>": 0, "a": 1, "a": 2}', r"vocab.json: the piece 'a' has the id 1 already"),
        ("vocab.txt", "</s>\n<unk>\na\na\n", "has the piece 'a' twice. Give one another name"),
        ("vocab.json", '{"</s>": {"x": 1}}', "expected a mapping from pieces to ids"),
        ("vocab.json", "{", "is not a vocabulary of Marian"),
        ("vocab.json", "[" * 100_000, "expected a piece and its id"),
        ("vocab.json", '{"a":' * 100_000, "is not a vocabulary of Marian"),
        ("vocab.yml", '"\\ud83d": 0\n', "is not a vocabulary of Marian"),
    ],
)
def test_a_vocabulary_of_marian_that_is_none_says_why(name, text, message, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(VocabularyError, match=message):
        read_vocabulary(tmp_path / name, None)


def test_pieces_named_as_special_ones_but_for_apostrophes_keep_names_of_their_own(write):
    source = read_marian(write("marian"), PAIR).source
    odd = ("<s>", "<s>'", "<pad>''", "</s>", "<unk>", "x'")
    names = piece_names(type(source)(odd, "<unk>", "</s>", b"x"), None)
    assert len(set(names.values())) == len(odd)
    assert [their_piece(names[piece]) for piece in odd] == list(odd)
