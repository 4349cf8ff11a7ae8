"""What a command uses where nothing is named: the newest model, the newest data set. Both are printed."""

from __future__ import annotations

from pathlib import Path

from nmt.cli.console import notice


def model_to_use(model: Path | None) -> Path:
    """The bundle of a model, or of the newest run."""
    from nmt.checkpoint.describing import describe_model, models_to_use

    [bundle], remarks = models_to_use([] if model is None else [model])
    for line in (f"model: {describe_model(bundle)}", *remarks):
        notice(line)
    return bundle


def data_set_to_use(data: Path | None) -> Path:
    """A data set, or the newest one."""
    from nmt.data.manifest import newest_data_set

    if data is None:
        data = newest_data_set()
        notice(f"data: {data} (the newest)")
    return data
