"""The sample of mistakes can be drawn again, and each mistake is a program that differs."""

from pathlib import Path

import pytest

pytest.importorskip("mutmut", reason="the extra mutate is not installed")

import libcst as cst

from tests.mutate import PROJECT, Coverage, Mutant, places, sample


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


KINDS = Path("nmt/checkpoint/kinds.py")


def a_mutant(words: str) -> Mutant:
    """A mistake in the first line of a file that has these words."""
    lines = (PROJECT / KINDS).read_text("utf-8").splitlines()
    number = next(number for number, line in enumerate(lines, start=1) if words in line)
    return Mutant(KINDS, "checkpoint", "", "", "", range(number, number + 1))


def test_tests_that_ran_the_changed_line_come_by_file_the_shortest_first():
    mutant = a_mutant("return parse_json")
    covered = Coverage(
        {"a.py::slow": 3.0, "b.py::quick": 0.1, "a.py::quick": 0.1, "c.py::other": 0.1},
        {str(KINDS): {mutant.lines.start: ["a.py::quick", "a.py::slow", "b.py::quick"]}},
    )
    assert covered.of(mutant) == ["b.py::quick", "a.py::slow", "a.py::quick"]


def test_where_none_ran_the_line_those_of_its_function_come_and_none_outside_of_functions():
    ran_before_it = a_mutant("with path.open").lines.start
    covered = Coverage({"a.py::one": 1.0, "a.py::two": 1.0}, {str(KINDS): {ran_before_it: ["a.py::two"]}})
    assert covered.of(a_mutant("return None")) == ["a.py::two"]
    assert covered.of(a_mutant("BUNDLE = ")) == []
