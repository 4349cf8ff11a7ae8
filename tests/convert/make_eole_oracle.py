"""Makes what Eole computes with the models that ``peers.py`` writes: ``python -m tests.convert.make_eole_oracle``.

It needs the package eole with its dependencies, which the tests do not: they read ``data/peer_oracles.json``. Eole
itself loads each folder, as ``eole predict`` does, and its own modules compute the scores. Older wheels of Eole, before
0.6, lack some of its modules and cannot be run.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import eole
import torch
from eole.config.run import PredictConfig
from eole.models.model import EncoderDecoderModel

from tests.convert.peers import write_eole

ORACLES = Path(__file__).parent / "data" / "peer_oracles.json"
ROWS = 5000
"""Positions that Eole computes; it refuses a table of another size."""
OPTIONS: tuple[dict[str, Any], ...] = (
    {"rows": ROWS},
    {
        "rows": ROWS, "tied": "none", "positions": "SinusoidalConcat",
        "model": {
            "add_qkvbias": True, "add_final_linear_bias": True, "add_ffnbias": True, "mlp_activation_fn": "gelu",
            "norm_eps": 1e-6,
        },
    },
    {
        "tied": "decoder", "positions": "Learned",
        "model": {
            "add_qkvbias": True, "add_final_linear_bias": False, "mlp_activation_fn": "silu", "generator_bias": False,
        },
        "embeddings": {"position_shift": 2},
    },
    {"positions": "Learned", "embeddings": {"normalize": True}},
    {
        "rows": ROWS, "dtype": "bfloat16", "tied": "decoder", "start": "</s>",
        "model": {
            "head_dim": 6, "add_qkvbias": True, "add_final_linear_bias": True, "add_key_bias": False,
            "mlp_activation_fn": "quick_gelu",
        },
    },
)  # fmt: skip


class Eole:
    """A folder, loaded by Eole."""

    def __init__(self, folder: Path) -> None:
        config = PredictConfig(
            model_path=[str(folder)], src="", world_size=0, gpu_ranks=[], compute_dtype="fp32"
        )  # fmt: skip
        self._model, self._vocabs, _ = EncoderDecoderModel.for_inference(config, -1, str(folder))

    @torch.inference_mode()
    def scores(self, source: list[str], target: list[str]) -> list[float]:
        """The log-probability of each target piece and of the end."""
        start, end = self._vocabs["decoder_start_token"], self._vocabs["specials"]["eos_token"]
        source_ids = torch.tensor([[self._vocabs["src"][piece] for piece in source]])
        target_ids = torch.tensor([[self._vocabs["tgt"][piece] for piece in (start, *target, end, end)]])
        # The last piece is not read. One more is, since Eole takes a single one for a cached step.
        [states], *_ = self._model(source_ids, target_ids, torch.tensor([len(source)]))
        found = self._model.generator(states[:-1]).log_softmax(-1).gather(1, target_ids[0, 1:-1, None])[:, 0]
        return [round(score, 6) for score in found.tolist()]


def main() -> None:
    """Replace the oracles of Eole in the file."""
    lines = [line.rstrip(",") for line in ORACLES.read_text("utf-8").splitlines()[1:-1]]
    others = [line for line in lines if json.loads(line)["format"] != "eole"]
    cases = json.loads(others[0])["cases"]
    for options in OPTIONS:
        with tempfile.TemporaryDirectory() as folder:
            theirs = Eole(write_eole(Path(folder), **options))
            found = [{**case, "scores": theirs.scores(case["source"], case["target"])} for case in cases]
        oracle = {"toolkit": f"Eole {eole.__version__}", "format": "eole", "options": options, "cases": found}
        others.append(json.dumps(oracle, ensure_ascii=False))
    ORACLES.write_text("[\n" + ",\n".join(others) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
