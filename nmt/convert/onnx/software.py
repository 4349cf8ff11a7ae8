"""ONNX Runtime as one side of a comparison: an exported folder, run as its users run it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from nmt.checkpoint.bundle import Bundle
from nmt.convert.certificate.checks import steps_check
from nmt.convert.certificate.probes import make_probes
from nmt.convert.certificate.record import Check
from nmt.convert.certificate.side import Floats, Hypothesis, Pieces, Side, log_softmax
from nmt.convert.exported_files import SOURCE_MODEL, TARGET_MODEL, SegmentingSide, stored_pieces
from nmt.convert.files import EXPORT_AGAIN
from nmt.convert.onnx.writing import DECODER_NAME, DECODER_WITH_PAST_NAME, ENCODER_NAME, check_onnx_files
from nmt.data.vocab import Vocabulary
from nmt.errors import CheckpointError

_NEVER_EMITTED = [Vocabulary.PAD, Vocabulary.UNK, Vocabulary.BOS]
_LONGEST_SOURCE = 21
_LONGEST_OUTPUT = 40


class OnnxRuntimeSide(SegmentingSide):
    """ONNX Runtime on the CPU, one sentence at a time."""

    def __init__(self, folder: Path, max_positions: int) -> None:
        """Open a folder.

        Raises:
            ImportError: ONNX Runtime is not installed.
            CheckpointError: a file is missing or damaged.
        """
        import onnxruntime

        def session(name: str) -> Any:
            try:
                return onnxruntime.InferenceSession(folder / name, providers=["CPUExecutionProvider"])
            except Exception as error:  # of a compiled library, with classes of its own
                raise CheckpointError(
                    f"{folder / name}: ONNX Runtime cannot open it ({error}). {EXPORT_AGAIN}"
                ) from None

        self._encoder, self._decoder, self._with_past = map(
            session, (ENCODER_NAME, DECODER_NAME, DECODER_WITH_PAST_NAME)
        )
        source, self._pieces = stored_pieces(folder)
        super().__init__("onnxruntime", (folder / SOURCE_MODEL, folder / TARGET_MODEL), (source, self._pieces))
        self.name = f"ONNX Runtime {metadata.version('onnxruntime')}"
        self._source_ids = {piece: index for index, piece in enumerate(source)}
        self._target_ids = {piece: index for index, piece in enumerate(self._pieces)}
        self._max_positions = max_positions

    def states(self, sources: Sequence[Pieces]) -> list[Floats]:
        """As :meth:`Side.states`."""
        return [self._encode(source)["encoder_hidden_states"][0].astype(np.float64) for source in sources]

    def score(self, sources: Sequence[Pieces], targets: Sequence[Pieces]) -> list[Floats]:
        """As :meth:`Side.score`, by the graph that reads whole targets."""
        scores = []
        for source, target in zip(sources, targets, strict=True):
            ids = [self._target_ids[piece] for piece in target]
            found = self._first(self._encode(source), [Vocabulary.BOS, *ids])
            wanted_T = [*ids, Vocabulary.EOS]
            scores.append(log_softmax(found["logits"][0].astype(np.float64))[np.arange(len(wanted_T)), wanted_T])
        return scores

    def search(self, sources: Sequence[Pieces], beam: int, max_length: int) -> list[list[Hypothesis]] | None:
        """As :meth:`Side.search`: greedy, by the graph that reads one piece at a time."""
        longest = min(max_length, self._max_positions - 1)
        return [[self._greedy(source, longest)] for source in sources] if beam == 1 else None

    def _greedy(self, source: Pieces, longest: int) -> Hypothesis:
        encoded, written, total = self._encode(source), list[int](), 0.0
        mask = {"encoder_attention_mask": encoded["encoder_attention_mask"]}
        found = self._first(encoded, [Vocabulary.BOS])
        past: dict[str, Any] = {}
        while True:
            past |= {name.replace("present", "past_key_values"): found[name] for name in found if name != "logits"}
            scores_V = log_softmax(found["logits"][0, -1].astype(np.float64))
            scores_V[_NEVER_EMITTED] = -np.inf
            best = Vocabulary.EOS if len(written) == longest else int(scores_V.argmax())
            total += float(scores_V[best])
            if best == Vocabulary.EOS:
                return Hypothesis(tuple(self._pieces[index] for index in written), total)
            written.append(best)
            found = _run(self._with_past, {"input_ids": np.array([[best]]), **mask, **past})

    def _encode(self, source: Pieces) -> dict[str, Any]:
        """The inputs of a decoder that tell it the source."""
        ids = np.array([[*(self._source_ids[piece] for piece in source), Vocabulary.EOS]])
        found = _run(self._encoder, {"input_ids": ids, "attention_mask": np.ones_like(ids)})
        return {"encoder_hidden_states": found["last_hidden_state"], "encoder_attention_mask": np.ones_like(ids)}

    def _first(self, encoded: Mapping[str, Any], ids: Sequence[int]) -> dict[str, Any]:
        return _run(self._decoder, {"input_ids": np.array([ids]), **encoded})


def _run(session: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, inputs), strict=True))


def onnx_sides(folder: Path, bundle: Bundle) -> Iterator[Side]:
    """As :attr:`Format.sides`."""
    yield OnnxRuntimeSide(folder, bundle.config.model.max_positions)


def check_onnx(folder: Path, bundle: Bundle, quantization: str) -> list[Check]:
    """As :attr:`Format.check_files`."""
    checks = check_onnx_files(folder, bundle, quantization)
    # The graph that reads one piece at a time is compared with that of whole targets. In int8, the two differ: their
    # activations are rounded by the largest of all.
    if quantization == "float32":
        with suppress(ImportError):  # a remark says so
            side = OnnxRuntimeSide(folder, bundle.config.model.max_positions)
            sources = make_probes(bundle.vocab, _LONGEST_SOURCE).sources
            checks.append(steps_check("steps with a past", side, sources, 1, _LONGEST_OUTPUT))
    return checks
