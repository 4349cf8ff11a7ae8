"""Substitutions of sed: the known ones as GNU sed does them, and no others."""

import shutil
import subprocess

import pytest

from nmt.convert.marian.sed import steps_of_sed
from nmt.text.steps import Spaces, normalizer

KNOWN = [
    ["s/a.b/x/g".replace(".", r"\.")], [r"s/\*/x/g"], [r"s/\^\$/x/g"], ["s/a+/x/g"], ["s/a?b|c(d){e}/x/g"],
    [r"s/\[/x/g;s/]/y/g"], [r"s/\//|/g"], [r"s/a/\&\/\\/g"], [r"s/\\/x/g"], ["s/aa/b/g"], ["s/  / /g"], ["s/a *//g"],
    ["-e", "s/a/b/g", "-e", "s/b/c/g"], ["-e", "s/a/b/g;"], ["s/  */ /g;s/^ *//g;s/ *$//g"],
    ["s/^ *//; s/ *$// ;s/  */ /g"], ["s/a/ /g;s/ *$//;s/^ *//;s/  */ /g;s/b/ /g"], ["s/」/\"/g\ns/。 */. /g"], [""],
    [";\n "],
]  # fmt: skip
UNKNOWN = [
    ["s/./x/g"], ["s/a*/x/g"], ["s/[ab]/x/g"], [r"s/a\|b/x/g"], [r"s/a\+/x/g"], [r"s/a\?/x/g"], [r"s/\(a\)/x/g"],
    [r"s/a\{2\}/x/g"], [r"s/\<a/x/g"], [r"s/\ba/x/g"], [r"s/\w/x/g"], [r"s/a\s*/x/g"], [r"s/a\n/x/g"], [r"s/\x41/x/g"],
    [r"s/a\'/x/g"], ["s/^a/x/g"], ["s/a$/x/g"], ["s/^/x/g"], ["s/$/x/g"], ["-E", "s/a/b/g"], ["-r", "s/a/b/g"],
    [r"s/a/\1/g"], [r"s/a/\n/g"], [r"s/a/\U&/g"], ["s/a/&/g"], ["s/ a */x/g"], ["s/  */_/g"], ["s|a|x|g"],
    ["s/a/b/"], ["s/a/b/gI"], ["s/a/b/2"], ["s/a/b/gp"], ["s/ *$//g"], ["s/  */ /;s/^ *//;s/ *$//"], ["s/ */ /g"],
    ["s/  */ /g;s/^ *//;s/a/b/g;s/ *$//"], ["s/^ *$//"], ["y/ab/cd/"], ["/x/s/a/b/g"], ["s/a/b/g}"], ["d"],
    ["-n", "s/a/b/g"], ["-i", "s/a/b/g"], ["-f", "x"], ["s/a/b/g", "FILE"], ["-e", "s/a/b/g", "s/a/b/g"], ["-e"], [],
    ["s/\0X/b/g"],
]  # fmt: skip
LINES = [
    "a.b axb *a aab a^b ^ab a$b ab$ ^$", "a+ aa+b a?b|c(d){e} a+b?|(c){d}", "[a] b] / \\ | a\tb\t", "  aa aaa  a   b  ",
    "a    b a", "「a」。   b。c", "", "   ", "a", "ab$", "$ab", "#a, b",
]  # fmt: skip


@pytest.mark.skipif(shutil.which("sed") is None, reason="needs sed")
def test_known_substitutions_are_those_of_sed():
    text = "".join(f"{line}\n" for line in LINES).encode()
    for arguments in KNOWN:
        steps = steps_of_sed(arguments)
        assert steps is not None, arguments
        command = ["sed", *arguments]
        done = subprocess.run(command, input=text, capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"})
        assert list(map(normalizer(steps), LINES)) == done.stdout.decode().split("\n")[:-1], arguments


@pytest.mark.parametrize("arguments", UNKNOWN, ids=" ".join)
def test_other_commands_are_not_known(arguments):
    assert steps_of_sed(arguments) is None


def test_a_dollar_sign_that_a_makefile_writes_twice_is_one():
    assert steps_of_sed(["s/  */ /g;s/^ *//g;s/ *$$//g"]) == [Spaces()]
