"""The sample of mistakes can be drawn again, and each mistake is a program that differs."""

import pytest

pytest.importorskip("mutmut", reason="the extra mutate is not installed")

import libcst as cst

from tests.mutate import PROJECT, places, sample


def test_a_seed_draws_the_same_mutants_again():
    first, again, other = (sample(["checkpoint"], 6, seed) for seed in (1, 1, 2))
    assert first == again != other
    for mutant in first:
        before = (PROJECT / mutant.path).read_text("utf-8")
        assert mutant.code != before
        compile(mutant.code, mutant.path, "exec")
        assert mutant.difference


def test_messages_and_types_are_no_places():
    for place in places("checkpoint"):
        code = place.module.code_for_node(place.node)
        assert not code.startswith("->")
        assert code.strip() not in ("str | None", "Path | None")
        assert not (isinstance(place.node, cst.SimpleString) and " " in code)
