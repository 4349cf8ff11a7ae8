"""Small models of MarianMT with random weights, as folders that transformers itself writes.

The stored one is of bfloat16, one layer and width 8. Beside it lies what transformers computes from it in float32.
"""

import io
import json
from pathlib import Path

import torch
from sentencepiece import SentencePieceTrainer

from nmt.convert.segmenters import model_pieces

SOURCE_LINES = [
    "the boat leaves at noon",
    "nobody heard the bell",
    "two small lamps, and a letter",
    "a plain sentence.",
]
TARGET_LINES = ["das boot fährt um zwölf", "niemand hörte die glocke", "zwei kleine lampen, ein brief", "ein satz."]
TAGS = (">>deu<<", ">>nds<<")
SIZES = {"d_model": 16, "encoder_layers": 2, "decoder_layers": 1, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24,
         "encoder_attention_heads": 4, "decoder_attention_heads": 4, "max_position_embeddings": 40}  # fmt: skip
STORED = Path(__file__).parent / "data" / "marian_mt"
ORACLE = STORED.with_suffix(".json")


def segmenter(lines: list[str], size: int) -> bytes:
    """A SentencePiece model as OPUS-MT has: unk, bos and eos are its first pieces, and there is no pad."""
    out = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(lines * 4), model_writer=out, vocab_size=size, model_type="unigram",
        hard_vocab_limit=False, normalization_rule_name="identity", minloglevel=2,
    )  # fmt: skip
    return out.getvalue()


def write_tokenizer(folder: Path, *, separate: bool = False, tags: tuple[str, ...] = (), size: int = 44) -> int:
    """The files of a MarianTokenizer; returns the number of pieces of either side."""
    folder.mkdir(parents=True, exist_ok=True)
    models = segmenter(SOURCE_LINES, size), segmenter(TARGET_LINES, size)
    for name, model in zip(("source.spm", "target.spm"), models, strict=True):
        (folder / name).write_bytes(model)
    normal = [model_pieces(model)[3:] for model in models]
    vocabularies = {"vocab.json": sorted({*normal[0], *normal[1]})}
    if separate:
        smaller = min(map(len, normal))  # pad, the last piece, has one id for both
        vocabularies = {"vocab.json": normal[0][:smaller], "target_vocab.json": normal[1][:smaller]}
    for name, pieces in vocabularies.items():
        # One piece that a segmenter makes is missing, as in many vocabularies of OPUS-MT.
        listed = ["</s>", "<unk>", *pieces[:-1], *tags, "<pad>"]
        (folder / name).write_text(json.dumps({piece: index for index, piece in enumerate(listed)}))
    settings = {"tokenizer_class": "MarianTokenizer", "source_lang": "eng", "target_lang": "deu"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings | {"separate_vocabs": separate}))
    return len(json.loads((folder / "vocab.json").read_text()))


def write_model(
    folder: Path,
    *,
    separate: bool = False,
    zero_start: bool = True,
    tags: tuple[str, ...] = (),
    dtype: torch.dtype = torch.float32,
    shard_size: str | None = None,
    spread: float = 0.6,
    **settings,
) -> None:
    """A MarianMT of random weights, written by transformers.

    Args:
        zero_start: whether the vector of pad, which the decoder reads first, is zeros.
        shard_size: the size of a file of weights.
        spread: the standard deviation of weights in layers: the larger, the more outputs depend on their sources.
        settings: of MarianConfig.
    """
    import transformers

    size = write_tokenizer(folder, separate=separate, tags=tags)
    pad = size - 1
    wanted = {"activation_function": "swish", "scale_embedding": True, "share_encoder_decoder_embeddings": not separate}
    config = transformers.MarianConfig(
        **(SIZES | wanted | settings), vocab_size=size, decoder_vocab_size=size, pad_token_id=pad, eos_token_id=0,
        forced_eos_token_id=0, decoder_start_token_id=pad,
    )  # fmt: skip
    torch.manual_seed(24)
    model = transformers.MarianMTModel(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" not in name:
                parameter.add_((spread if "attn" in name or "fc" in name else 0.3) * torch.randn_like(parameter))
        model.final_logits_bias.copy_(0.3 * torch.randn_like(model.final_logits_bias))
        for matrix in (model.model.encoder.embed_tokens.weight, model.model.decoder.embed_tokens.weight):
            matrix[pad] = 0 if zero_start else torch.randn(matrix.shape[1])
    model.generation_config.update(num_beams=6, length_penalty=0.8, bad_words_ids=[[pad]], max_length=40)
    model.to(dtype).save_pretrained(folder, **({} if shard_size is None else {"max_shard_size": shard_size}))
