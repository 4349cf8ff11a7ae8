"""M2M-100, NLLB-200 and mBART-50: languages are pieces before the source, and the first piece of every output."""

import io
import json

import pytest
import torch
from safetensors.torch import save_file
from sentencepiece import SentencePieceTrainer

import nmt
from nmt.checkpoint.bundle import load_bundle
from nmt.config import read_config
from nmt.convert.converting import export_model, import_model
from nmt.convert.foreign import Given
from nmt.convert.huggingface.multilingual import _OF_M2M_100
from nmt.convert.segmenters import model_pieces
from nmt.data.vocab_pair import VocabularyPair
from nmt.errors import CheckpointError, ConfigError, NmtError
from nmt.server.models import Models, ServedModel
from tests.convert.peers import D_FF, D_MODEL, FAIRSEQ, LAYERS, Weights

LINES = ["the boat leaves at noon", "nobody heard the bell", "das boot fährt um zwölf", "ein satz. noch einer."]
NLLB = ["eng_Latn", "deu_Latn", "fra_Latn", "zho_Hans", "zho_Hant"]
MBART = ["de_DE", "en_XX", "fr_XX", "zh_CN"]
POSITIONS = 40


def write(folder, kind: str, **settings) -> None:
    """A model of random weights, as transformers writes it."""
    folder.mkdir(exist_ok=True)
    out = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(LINES * 9), model_writer=out, vocab_size=60, model_type="bpe", hard_vocab_limit=False,
        minloglevel=2,
    )  # fmt: skip
    (folder / "sentencepiece.bpe.model").write_bytes(out.getvalue())
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *model_pieces(out.getvalue())[3:]]
    if kind == "m2m":
        (folder / "vocab.json").write_text(json.dumps({piece: index for index, piece in enumerate(pieces)}))
        tokenizer, more = {"language_codes": "m2m100", "extra_special_tokens": []}, len(_OF_M2M_100.split()) + 8
    else:
        languages = MBART if kind == "mbart" else NLLB
        tokenizer, more = {"additional_special_tokens": languages}, len(languages) + 1 + 2 * (kind == "nllb")
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    size = len(pieces) + more
    config = {
        "model_type": "m2m_100", "architectures": ["M2M100ForConditionalGeneration"], "vocab_size": size,
        "d_model": D_MODEL, "max_position_embeddings": POSITIONS,
        "activation_function": "relu", "scale_embedding": True, "is_encoder_decoder": True,
        "decoder_start_token_id": 2, "pad_token_id": 1, "eos_token_id": 2, "bos_token_id": 0,
    }  # fmt: skip
    for part, layers in LAYERS.items():
        config |= {f"{part}_layers": layers, f"{part}_ffn_dim": D_FF, f"{part}_attention_heads": 4}
    if kind == "mbart":
        config |= {"model_type": "mbart", "architectures": ["MBartForConditionalGeneration"], "scale_embedding": False}
    (folder / "config.json").write_text(json.dumps(config | settings))
    weights = Weights()
    weights.matrix("shared.weight", size, D_MODEL)
    for part in LAYERS:
        weights.layers(part, FAIRSEQ)
        weights.norm(f"{part}.layer_norm")
        if kind == "mbart":
            weights.norm(f"{part}.layernorm_embedding")
            weights.matrix(f"{part}.embed_positions.weight", POSITIONS + 2, D_MODEL)
    save_file({f"model.{name}": tensor for name, tensor in weights.state.items()}, folder / "model.safetensors")


@pytest.fixture(scope="module", params=["m2m", "nllb", "mbart"])
def imported(request, tmp_path_factory):
    """A folder, and the bundle that it becomes without a direction."""
    folder = tmp_path_factory.mktemp(request.param)
    write(folder / "model", request.param)
    import_model(folder / "model", folder / "bundle")
    return folder / "model", folder / "bundle"


def spelt(bundle, code: str) -> str:
    """The piece of a language."""
    step = load_bundle(bundle).config.data.steps.affixes("target")[0]
    return step.piece({"target": code})


def test_a_source_begins_with_its_language_and_an_output_with_its_own(imported):
    bundle = imported[1]
    model = nmt.load(bundle, precision="fp32")
    raw = VocabularyPair.load(bundle / "vocab.model").source
    for source, target in (("en", "de"), ("deu", "fr"), ("fr", "en")):
        lines = [*LINES, "日本 <mask> </s>", ""]
        given = {"source_lang": source, "target_lang": target, "split_sentences": "never", "guard": False}
        found = model.translate(lines, copy_unknown=False, **given)
        for line, each in zip(lines, found, strict=True):
            if each.source_pieces:
                assert each.source_pieces == (spelt(bundle, source), *raw.pieces(raw.encode([line])[0]))
                assert each.candidates[0].pieces[0] == spelt(bundle, target)
            assert spelt(bundle, target) not in each.text


def test_each_part_of_a_split_line_begins_with_the_language(imported):
    model = nmt.load(imported[1], precision="fp32")
    given = {"source_lang": "en", "target_lang": "de", "guard": False}
    [found] = model.translate(["the boat. the bell. at noon."], split_sentences="always", **given)
    piece = spelt(imported[1], "de")
    assert found.parts == 3
    assert found.candidates[0].pieces.count(piece) >= 3
    [begun] = model.translate(["the boat"], prefixes=["das boot"], **given)
    assert begun.candidates[0].pieces[0] == piece
    assert begun.text.startswith("das boot")
    [repaired] = model.translate(["the boat leaves"], beam=4, nbest=4, **given | {"guard": True})
    assert {each.pieces[0] for each in repaired.candidates} == {piece}


def test_given_targets_are_scored_with_their_languages(imported):
    model = nmt.load(imported[1], precision="fp32")
    [german] = model.score(LINES[:1], LINES[2:3], source_lang="en", target_lang="de")
    [french] = model.score(LINES[:1], LINES[2:3], source_lang="en", target_lang="fr")
    assert (german.pieces[0], french.pieces[0]) == (spelt(imported[1], "de"), spelt(imported[1], "fr"))
    assert german.pieces[1:] == french.pieces[1:]
    assert german.score != french.score


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"target_lang": "de"}, "`source_lang`: the model has several languages, so name one of "),
        ({"source_lang": "en"}, "`target_lang`: the model has several languages, so name one of "),
        ({"source_lang": "xx", "target_lang": "de"}, "`source_lang` xx: the model has no such language. It has "),
    ],
)
def test_a_language_must_be_named_and_known(imported, given, words):
    with pytest.raises(ConfigError, match=words):
        nmt.load(imported[1]).translate(["a"], **given)


def test_a_direction_that_is_given_is_the_default(tmp_path):
    write(tmp_path / "model", "nllb", forced_bos_token_id=None)
    import_model(tmp_path / "model", tmp_path / "bundle", given=Given(source_lang="en", target_lang="deu"))
    data = load_bundle(tmp_path / "bundle").config.data
    assert (data.source_lang, data.target_lang) == ("eng_Latn", "deu_Latn")
    with pytest.raises(ConfigError, match=r"zh: fits several languages of the model. Name one of zho_Hans, zho_Hant"):
        nmt.load(tmp_path / "bundle").translate(["a"], target_lang="zh")
    with pytest.raises(ConfigError, match=r"--source-lang xx: the model does not have it. It has eng_Latn, "):
        import_model(tmp_path / "model", tmp_path / "other", given=Given(source_lang="xx"))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"forced_bos_token_id": 5}, "has forced_bos_token_id: 5, which is not the piece of a language"),
        ({"vocab_size": 9}, "pieces and 6 of languages and the like, but config.json says 9"),
        ({"quantization_config": {"bits": 4}}, "quantised layers"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path, settings, words):
    write(tmp_path, "nllb", **settings)
    with pytest.raises(CheckpointError, match=words):
        import_model(tmp_path, tmp_path / "bundle")


@pytest.mark.parametrize("name", ["sentencepiece.bpe.model", "tokenizer_config.json"])
def test_a_file_that_is_missing_is_named(tmp_path, name):
    write(tmp_path, "nllb")
    (tmp_path / name).unlink()
    with pytest.raises(CheckpointError, match=name):
        import_model(tmp_path, tmp_path / "bundle")


def test_a_server_lists_all_directions(imported):
    models = Models([ServedModel("m", read_config(imported[1] / "config.yaml"), lambda: None, {})])
    count = len(models.sources)
    assert count == {"m2": 100, "nl": 5, "mb": 4}[imported[0].parent.name[:2]]
    assert all(len(targets) == count - 1 for targets in models.sources.values())
    direction = models.find("en-US", "fra")
    assert (direction.source[:2], direction.target[:2]) == ("en", "fr")
    assert str(models).endswith("more") or count <= 5


def test_an_export_keeps_the_languages_or_is_refused(tmp_path):
    write(tmp_path / "model", "nllb")
    import_model(tmp_path / "model", tmp_path / "bundle", given=Given(source_lang="en", target_lang="de"))
    with pytest.raises(NmtError, match="its text gets a piece for each language, which Hugging Face MarianMT does not"):
        export_model(tmp_path / "bundle", tmp_path / "refused", to="huggingface")
    export_model(tmp_path / "bundle", tmp_path / "exported", to="ctranslate2")
    assert "adds no pieces for languages" in (tmp_path / "exported" / "README.md").read_text()
    given = {"target_lang": "fr", "guard": False, "beam": 1, "max_extra_length": 5}
    ours, theirs = (
        [one.candidates[0].pieces for one in nmt.load(tmp_path / name, precision="fp32").translate(LINES, **given)]
        for name in ("bundle", "exported")
    )
    assert ours == theirs
    assert {pieces[0] for pieces in ours} == {"fra_Latn"}


def test_scores_are_those_of_transformers(imported):
    transformers = pytest.importorskip("transformers", reason="the extra `bench` is not installed")
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(imported[0]).eval()
    ids = {piece: index for index, piece in enumerate(their_pieces(imported[0]))}
    model = nmt.load(imported[1], precision="fp32")
    for scored in model.score(LINES, LINES[::-1], source_lang="en", target_lang="de", alignment=True):
        source, target = ([ids[piece] for piece in pieces] for pieces in (scored.source_pieces, scored.pieces))
        read = torch.tensor([[2, *target]])
        with torch.inference_mode():
            logits = theirs(input_ids=torch.tensor([[*source, 2]]), decoder_input_ids=read).logits
        wanted = logits[0].double().log_softmax(-1)[range(len(target) + 1), [*target, 2]].sum()
        assert scored.log_probability == pytest.approx(float(wanted), abs=1e-4)


def their_pieces(folder) -> list[str]:
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    pieces = [*special, *model_pieces((folder / "sentencepiece.bpe.model").read_bytes())[len(special) - 1 :]]
    languages = json.loads((folder / "tokenizer_config.json").read_text()).get("additional_special_tokens")
    return pieces + (languages or [f"__{code}__" for code in _OF_M2M_100.split()])
