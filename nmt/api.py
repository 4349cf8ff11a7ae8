"""Translating from Python: ``nmt.load("runs/…").translate(["…"])``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path

from nmt.checkpoint.run import bundle_to_use
from nmt.decoding.loading import Ensemble, changed, load_ensemble
from nmt.decoding.translation import Translation
from nmt.decoding.translator import Translator
from nmt.device import DeviceChoice, Hardware, PrecisionChoice, choose_hardware
from nmt.errors import ConfigError

PathOrName = str | PathLike[str]


def load(
    model: PathOrName | Sequence[PathOrName],
    *,
    device: DeviceChoice = "auto",
    precision: PrecisionChoice = "auto",
    threads: int | None = None,
) -> Model:
    """Load a model to translate with.

    Args:
        model: a run or bundle, of a run what ``nmt translate`` would take; several make an ensemble.
        device: where to compute.
        precision: auto takes bf16 where the hardware has it.
        threads: of the CPU, in this whole process; all cores if not given.

    Raises:
        CheckpointError: there is no such model, or it is damaged, or several do not share a vocabulary.
        ConfigError: the device is not there.
    """
    names = [model] if isinstance(model, str | PathLike) else list(model)
    if not names:
        raise ConfigError("no model was named: give a run or bundle, or several.")
    hardware = choose_hardware(device, precision, threads)
    return Model(load_ensemble([bundle_to_use(Path(name)) for name in names], hardware), hardware)


class Model:
    """A model in memory, or several that are asked together. Made by :func:`load`."""

    def __init__(self, ensemble: Ensemble, hardware: Hardware) -> None:
        self._ensemble = ensemble
        self._hardware = hardware

    @property
    def source_lang(self) -> str:
        """Code of the language that it reads."""
        return self._ensemble.config.data.source_lang

    @property
    def target_lang(self) -> str:
        """Code of the language that it writes."""
        return self._ensemble.config.data.target_lang

    def translate(
        self,
        lines: Iterable[str],
        *,
        beam: int | None = None,
        length_penalty: float | None = None,
        max_extra_length: int | None = None,
        nbest: int = 1,
        batch_tokens: int = 2_048,
        max_source_length: int | None = None,
        guard: bool = True,
    ) -> list[Translation]:
        """Translate lines: one translation for each, in their order.

        Args:
            beam: width of the beam; 1 is greedy. This and what follows is the model's own where it is not given.
            length_penalty: α of the penalty that scores are divided by.
            max_extra_length: pieces that an output may have more than its source.
            nbest: candidates for each line, best first.
            batch_tokens: source pieces that are searched at once.
            max_source_length: pieces; longer lines are translated in parts.
            guard: search again for what came out empty, looping, copied or of an odd length.

        Raises:
            ConfigError: the beam, or the positions of the model, are too few for what is asked for.
        """
        return list(
            self.stream(
                lines,
                beam=beam,
                length_penalty=length_penalty,
                max_extra_length=max_extra_length,
                nbest=nbest,
                batch_tokens=batch_tokens,
                max_source_length=max_source_length,
                guard=guard,
            )
        )

    def stream(
        self,
        lines: Iterable[str],
        *,
        beam: int | None = None,
        length_penalty: float | None = None,
        max_extra_length: int | None = None,
        nbest: int = 1,
        batch_tokens: int = 2_048,
        max_source_length: int | None = None,
        guard: bool = True,
        window: int = 2_048,
    ) -> Iterator[Translation]:
        """As :meth:`translate`, for lines without end: reads no further ahead than ``window`` lines."""
        if isinstance(lines, str):
            raise ConfigError("a single text was given where lines are expected: put it into a list.")
        decoding = changed(
            self._ensemble.config.decoding, beam=beam, length_penalty=length_penalty, max_extra_length=max_extra_length
        )
        translator = Translator(
            self._ensemble.models,
            self._ensemble.vocab,
            self._ensemble.config,
            decoding,
            self._hardware,
            nbest=nbest,
            batch_tokens=batch_tokens,
            window=window,
            max_source_length=max_source_length,
            guard=guard,
        )
        return translator.translate(lines)
