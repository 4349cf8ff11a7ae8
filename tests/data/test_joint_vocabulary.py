"""One vocabulary for several data sets: balanced, up to date, and all or nothing."""

import random
from functools import partial

import pytest

import nmt
from nmt.checkpoint.lineage import vocabulary_origin
from nmt.config import AugmentationConfig
from nmt.data import build as build_module
from nmt.data import training_lines
from nmt.data.build import build_vocabulary as build_vocabularies
from nmt.data.build import size_warnings
from nmt.data.lineage import encoded_record
from nmt.data.manifest import read_manifest, write_manifest
from nmt.data.sampling import write_sampled_shards
from nmt.data.shard_index import Sampling
from nmt.data.shards import ParallelShards
from nmt.data.vocab_record import DataSetText, VocabularySettings, read_vocabulary_record, steps_of_new
from nmt.errors import DataError, OutputError, VocabularyError
from nmt.io.hashing import sha256_of
from nmt.record import text_record
from nmt.text.steps import NO_STEPS
from tests.data.one_data_set import build_vocabulary
from tests.kit.data_sets import write_data_set
from tests.trees import contents

ALPHABETS = {"en": "abcdefgh", "de": "ijklmnop", "fr": "qrstuvwx", "el": "αβγδεζηθ"}
SIZES = {"big": ("en", "de", 2_000), "middle": ("en", "fr", 400), "small": ("en", "el", 40)}


def write_set(folder, source_lang, target_lang, pairs):
    """Random words in alphabets of their own, so that a piece belongs to a language."""
    draw = random.Random(folder.name)
    words = {
        language: ["".join(draw.choices(ALPHABETS[language], k=draw.randint(2, 6))) for _ in range(300)]
        for language in (source_lang, target_lang)
    }
    texts = {
        split: {language: [" ".join(draw.choices(own, k=6)) for _ in range(count)] for language, own in words.items()}
        for split, count in (("train", pairs), ("valid", 5), ("test", 5))
    }
    return write_data_set(folder, texts)


@pytest.fixture
def sets(tmp_path):
    return [write_set(tmp_path / name, *values) for name, values in SIZES.items()]


def build(sets, *, size=200, existing=None, **settings):
    return build_vocabularies(sets, VocabularySettings(size=size, **settings), existing=existing, threads=1)


def pieces_of(pair, language):
    vocab = pair.source
    return sum(set(piece.strip("▁")) <= set(ALPHABETS[language]) for piece in vocab.pieces(range(4, vocab.size)))


def test_each_of_several_target_languages_has_a_piece_that_no_text_becomes(sets):
    built = build(sets)
    vocab, ids = built[0].vocab.source, {}
    for folder, code in zip(sets, ("de", "fr", "el"), strict=True):
        steps = ParallelShards.open(folder, "train").index.steps
        [ids[code]] = vocab.ids([f"<2{code}>"])
        for split in ("train", "valid"):
            shards = ParallelShards.open(folder, split)
            source, target = map(list, shards.pair(0))
            assert source[0] == ids[code] and not {*source[1:], *target} & {*ids.values()}
    assert len({vocab.UNK, *ids.values()}) == 4
    assert not {*ids.values()} & {piece for row in vocab.encode(["<2de>", "a <2fr> b", "<2el>a"]) for piece in row}
    assert vocab.decode([[ids["de"], *vocab.encode(["abc"])[0]]]) == ["abc"]
    blank = [vocab.prepared(steps.source, {"target": "fr"}).encode([""])[0], []]
    assert blank == [[ids["fr"]], []]


def test_variants_of_a_target_language_have_pieces_of_their_own(sets):
    codes = ("pt", "pt_BR", "por", "pt-PT")
    manifests = [read_manifest(sets[0]).model_copy(update={"target_lang": code}) for code in codes]
    texts = [DataSetText(sets[0], manifest, {}) for manifest in manifests]
    [affix] = steps_of_new(texts, VocabularySettings()).source
    assert affix.pieces == {"pt": "<2pt>", "pt_BR": "<2pt_BR>", "pt-PT": "<2pt-PT>"}
    assert [affix.piece({"target": code}) for code in codes] == ["<2pt>", "<2pt_BR>", "<2pt>", "<2pt-PT>"]
    assert str(affix) == "before the text, a piece for the target language (<2pt>, <2pt_BR>, <2pt-PT>)"
    assert not steps_of_new(texts[::2], VocabularySettings()).source


def give_tag(folder, tag):
    write_manifest(read_manifest(folder).model_copy(update={"tag": tag}), folder)


def test_the_piece_of_a_tag_stands_before_the_lines_of_its_data_set_alone_and_before_that_of_the_language(sets):
    give_tag(sets[1], "BT")
    vocab = build(sets)[0].vocab
    tag, german, french, greek = vocab.source.ids(["<BT>", "<2de>", "<2fr>", "<2el>"])
    for folder, before in zip(sets, ([german], [tag, french], [greek]), strict=True):
        for split in ("train", "valid"):
            source, target = map(list, ParallelShards.open(folder, split).pair(0))
            assert source[: len(before)] == before
            assert not {tag, german, french, greek} & {*source[len(before) :], *target}
    write_sampled_shards(sets[1], sets[1] / "sampled", vocab, Sampling(0.5, AugmentationConfig(), 1))
    sampled = ParallelShards.open_folder(sets[1] / "sampled", "train")
    assert all(list(sampled.pair(index)[0][:2]) == [tag, french] for index in range(len(sampled)))
    assert not {tag} & set(vocab.source.encode(["<BT> a"])[0])


def test_another_tag_makes_another_vocabulary_and_other_shards(sets):
    before = build(sets[:2])[0].vocab
    assert "<BT>" not in before.source.pieces(range(before.source.size))
    give_tag(sets[0], "BT")
    built = build(sets[:2])
    assert built[0].trained is not None and [each.changed for each in built] == [True, True]
    assert not any(each.changed for each in build(sets[:2]))
    give_tag(sets[1], "BT")  # which needs no other piece
    built = build(sets[:2])
    assert built[0].trained is None and [each.changed for each in built] == [False, True]


@pytest.mark.parametrize(("tag", "known"), [("", "none"), ("web", "web")])
def test_a_given_vocabulary_without_a_piece_for_the_tag_is_refused(sets, tag, known):
    give_tag(sets[0], tag)
    build(sets[:1])
    give_tag(sets[1], "BT")
    with pytest.raises(VocabularyError, match=f"no piece for its tag BT; it has {known}. Leave --vocab out"):
        build(sets[1:2], existing=sets[0] / "vocab.model")
    give_tag(sets[1], tag)
    build(sets[1:2], existing=sets[0] / "vocab.model")


def test_one_target_language_has_no_piece(sets):
    [built] = build(sets[:1])
    assert built.index.steps == NO_STEPS


def test_a_given_vocabulary_without_a_piece_for_the_language_is_refused(sets):
    build(sets[:2])
    with pytest.raises(VocabularyError, match=r"no piece for its target language el; it has de, fr\. Leave --vocab"):
        build(sets[2:], existing=sets[0] / "vocab.model")
    build(sets[1:2], existing=sets[0] / "vocab.model")


def test_blank_lines_are_left_out_whatever_piece_is_before_them(sets):
    for folder in sets[:2]:
        lines = (folder / "train.en").read_text().splitlines()
        (folder / "train.en").write_text("\n".join(["", *lines[1:], ""]))
    assert [each.index.splits["train"].empty for each in build(sets[:2])] == [1, 1]


def test_a_small_language_gets_more_pieces_with_balancing(sets):
    by_size = build(sets, sampling_temperature=1)[0]
    balanced = build(sets)[0]
    assert by_size.sampled == {"en": 2_440, "de": 2_000, "fr": 400, "el": 40}
    assert balanced.sampled["el"] > 10 * by_size.sampled["el"]
    assert sum(balanced.sampled.values()) == pytest.approx(4_880, abs=3)
    assert pieces_of(balanced.vocab, "el") > 1.5 * pieces_of(by_size.vocab, "el")
    assert pieces_of(balanced.vocab, "en") < pieces_of(by_size.vocab, "en")


def test_all_data_sets_are_encoded_with_the_one_vocabulary(sets):
    built = build(sets)
    assert [each.data for each in built] == sets
    models = {(folder / "vocab.model").read_bytes() for folder in sets}
    assert models == {built[0].vocab.source.model_bytes}
    assert sum(len(ParallelShards.open(folder, "train")) for folder in sets) == 2_440
    for each in built:
        assert each.index.splits["train"].sides["target"].unknown == 0


def test_the_same_again_is_up_to_date_in_any_order(sets):
    build(sets)
    before = [contents(folder) for folder in sets]
    again = build(sets[::-1])
    assert not any(each.changed for each in again)
    assert again[0].trained is None and again[0].sampled == {}
    assert [contents(folder) for folder in sets] == before


@pytest.mark.parametrize("options", [{"size": 190}, {"sampling_temperature": 2.0}])
def test_other_settings_train_anew(sets, options):
    build(sets)
    built = build(sets, **options)
    assert built[0].trained is not None and all(each.changed for each in built)


def test_a_changed_member_is_noticed_by_all(sets):
    build(sets)
    path = sets[1] / "train.fr"
    path.write_text("xxx\n" + path.read_text().split("\n", 1)[1])
    built = build(sets)
    assert built[0].trained is not None and all(each.changed for each in built)
    assert [each.edited for each in built] == [(), ("train.fr",), ()]
    assert not any(each.changed for each in build(sets))


def test_another_set_of_members_trains_anew(sets):
    of_all = build(sets)[0].vocab
    assert build(sets[:2])[0].trained is not None
    # The third data set still holds the vocabulary of all.
    assert build(sets)[0].vocab.fingerprint == of_all.fingerprint
    assert build_vocabulary(sets[2], size=60, threads=1).trained is not None


def test_lost_shards_are_made_again_with_the_vocabulary_of_the_others(sets):
    built = build(sets)
    (sets[0] / "shards" / "index.json").unlink()
    again = build(sets)
    assert [each.changed for each in again] == [True, False, False]
    assert again[0].vocab.fingerprint == built[0].vocab.fingerprint and again[0].trained is None


def test_a_given_vocabulary_encodes_all(sets):
    vocab = build(sets[:1])[0].vocab
    built = build_vocabularies(sets, existing=sets[0] / "vocab.model", threads=1)
    assert [each.changed for each in built] == [False, True, True]  # One was trained with it.
    assert [each.record.is_given for each in built] == [False, True, True]
    assert {each.index.vocab_fingerprint for each in built} == {vocab.fingerprint}
    assert built[2].index.splits["train"].sides["target"].unknown > 0  # it has never seen Greek
    assert not any(each.changed for each in build_vocabularies(sets, existing=sets[0] / "vocab.model", threads=1))


def test_if_one_data_set_fails_all_stay_as_they_were(sets):
    build(sets)
    before = [contents(folder) for folder in sets]
    (sets[2] / "train.el").write_bytes(b"\xff\n" * 40)
    with pytest.raises(DataError, match="not valid UTF-8"):
        build(sets, size=190)
    with pytest.raises(DataError, match="not valid UTF-8"):
        build_vocabularies(sets, existing=sets[0] / "vocab.model", threads=1, max_pieces=20)
    for folder, held in zip(sets[:2], before[:2], strict=True):
        assert contents(folder) == held
    assert contents(sets[2]).keys() == before[2].keys()


def test_files_of_others_in_one_data_set_stop_all(sets):
    build(sets[:2])
    before = [contents(folder) for folder in sets[:2]]
    (sets[2] / "vocab.model").write_text("mine")
    with pytest.raises(OutputError, match=r"vocab\.model"):
        build(sets)
    assert [contents(folder) for folder in sets[:2]] == before


def test_a_data_set_named_twice_is_refused(sets, tmp_path):
    (tmp_path / "link").symlink_to(sets[0])
    with pytest.raises(DataError, match="given twice"):
        build([sets[0], tmp_path / "link"])
    with pytest.raises(DataError, match="none: does not exist"):
        build([sets[0], tmp_path / "none"])
    with pytest.raises(VocabularyError, match="sampling temperature"):
        build(sets, sampling_temperature=0.5)


def test_no_more_lines_are_sampled_than_for_one_data_set(sets, monkeypatch):
    monkeypatch.setattr(training_lines, "SAMPLE_LINES", 100)
    assert sum(build(sets, size=60)[0].sampled.values()) == pytest.approx(200, abs=3)


def test_the_default_size_is_that_for_the_text_of_all(sets, monkeypatch):
    asked = []
    monkeypatch.setattr(build_module, "default_size", lambda pairs: asked.append(pairs) or 60)
    assert build(sets, size=None)[0].vocab.source.size == 60
    assert asked == [sum(pairs for *_, pairs in SIZES.values())]


def test_a_default_size_that_small_text_cannot_fill_is_lowered_to_what_the_warning_would_advise(tmp_path):
    data = write_set(tmp_path / "own", "en", "de", 270)
    [warning] = size_warnings(build([data], size=2_000))
    [built] = build([data], size=None)
    advised = built.vocab.source.size
    assert f"such as --size {advised}, or add text" in warning
    assert built.trained.asked_size == 2_000
    assert size_warnings([built]) == []
    assert not build([data], size=None)[0].changed


def test_a_default_size_is_not_lowered_below_the_characters_of_the_text(tmp_path, monkeypatch):
    monkeypatch.setitem(ALPHABETS, "en", [chr(0x4E00 + number) for number in range(500)])
    built = build([write_set(tmp_path / "own", "en", "de", 60)], size=None)
    assert built[0].vocab.source.size > 500
    assert size_warnings(built)[0].endswith("Add text.")


def test_the_size_of_a_recipe_is_that_of_its_data_set_alone(sets, monkeypatch):
    monkeypatch.setattr(build_module, "default_size", lambda pairs: 70)
    for folder in sets[:2]:
        manifest = read_manifest(folder)
        write_manifest(manifest.model_copy(update={"recipe": {"vocab_size": 60}}), folder)
    assert build(sets[:1], size=None)[0].vocab.source.size == 60
    assert build(sets[:1], size=50)[0].vocab.source.size == 50
    assert build(sets[:2], size=None)[0].vocab.source.size == 70


def test_the_source_rule_changes_sources_alone(tmp_path):
    first, second = (write_set(tmp_path / name, "en", target, 50) for name, target in (("a", "de"), ("b", "el")))
    for path in (first / "train.en", second / "train.el"):
        path.write_text("x² y\n" * 50)
    pieces = set(
        "".join(build([first, second], size=60, source_normalization="nfkc")[0].vocab.source.pieces(range(60)))
    )
    assert "²" in pieces and "2" in pieces


def origin_of(model):
    return vocabulary_origin(model.parent, sha256_of(model))


def test_origins_of_given_vocabularies_are_found(sets, tmp_path):
    build_vocabulary(sets[0], size=60, threads=1)
    origin = origin_of(sets[0] / "vocab.model")
    assert [origin.path, *(part.path for part in origin.made_from)] == [str(sets[0])] * 2
    assert origin.facts["pieces"] == 60 and "--size=60" in origin.command
    build_vocabularies(
        [sets[1]], existing=sets[0] / "vocab.model", existing_origin=partial(vocabulary_origin, sets[0]), threads=1
    )
    assert read_vocabulary_record(sets[1]).is_given
    assert origin_of(sets[1] / "vocab.model") == origin  # passed on
    assert f"--vocab={sets[0]}/vocab.model" in encoded_record(sets[1]).command
    [built] = nmt.build_vocab(sets[1], vocab=sets[0], threads=1)
    assert not built.changed  # a data set stands for its vocabulary
    build(sets)
    origin = origin_of(sets[2] / "vocab.model")
    assert [part.facts["name"] for part in origin.made_from] == ["big", "middle", "small"]
    assert origin.command[1:4] == tuple(f"--data={folder}" for folder in sets)
    assert vocabulary_origin(sets[2], "0" * 64) is None


def test_a_given_vocabulary_of_which_nothing_is_known_is_recorded_by_its_file(sets, tmp_path):
    build_vocabulary(sets[0], size=60, threads=1)
    away = tmp_path / "away.model"
    away.write_bytes((sets[0] / "vocab.model").read_bytes())
    assert origin_of(away) is None
    build_vocabularies([sets[1]], existing=away, threads=1)
    record = encoded_record(sets[1])
    assert record.made_from[1:] == (text_record("file", str(away), sha256_of(away)),)
    assert f"--vocab={away}" in record.command


def test_a_vocabulary_that_is_too_large_for_all_its_text_warns(sets, monkeypatch):
    assert size_warnings(build(sets)) == []
    [big, _, small] = sets
    built = build([small], size=300)
    pieces = sum(side.pieces for side in built[0].index.splits["train"].sides.values())
    assert 300 < pieces < 3_000
    [warning] = size_warnings(built)
    assert f"each of the 300 pieces occurs {pieces / 300:.1f} times on average" in warning
    assert warning.endswith("too rarely to be learnt. Add text.")
    for largest, advised in ((150, 100), (299, 200)):  # never 300 again
        monkeypatch.setattr(build_module, "_FEWEST_PER_PIECE", pieces / largest)
        assert f"such as --size {advised}, or add text" in size_warnings(built)[0]
    monkeypatch.setattr(build_module, "_FEWEST_PER_PIECE", pieces)
    assert size_warnings(build([big], existing=small / "vocab.model")) == []  # it was chosen for other text
    monkeypatch.undo()
    assert size_warnings(build([big, small], size=300)) == []


def test_the_text_of_all_data_sets_together_must_fill_a_vocabulary(sets, monkeypatch):
    built = build(sets[1:])
    pieces = sum(side.pieces for each in built for side in each.index.splits["train"].sides.values())
    for fewest, are_enough in ((pieces - 1, True), (pieces + 1, False)):
        monkeypatch.setattr(build_module, "_FEWEST_PER_PIECE", fewest / 200)
        assert (size_warnings(built) == []) is are_enough
