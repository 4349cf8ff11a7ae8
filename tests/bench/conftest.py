"""The modules of examples/benchmarks, which is no package, and what several of their tests measure."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from nmt.training.start.settings import resolve_config
from tests.training.conftest import SETTINGS, complete, make_data_set

sys.path.append(str(Path(__file__).parents[2] / "examples" / "benchmarks"))


@pytest.fixture(scope="package")
def data(tmp_path_factory):
    """A data set of 200 pairs."""
    return make_data_set(tmp_path_factory.mktemp("data") / "reversed")


@pytest.fixture(scope="package")
def config(data, tmp_path_factory):
    """The configuration of a model that computes in milliseconds."""
    path = tmp_path_factory.mktemp("settings") / "quick.yaml"
    path.write_text(complete(SETTINGS))
    return resolve_config([(data, 1.0)], config_file=path)[0]


@pytest.fixture(scope="package")
def model(data, config, tmp_path_factory):
    """A bundle with random weights."""
    from translating_speed import save_random_bundle

    folder = tmp_path_factory.mktemp("model") / "bundle"
    save_random_bundle(folder, config, data)
    return folder
