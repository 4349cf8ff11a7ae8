"""What a script of an OPUS-MT archive does to source text, beside what sed and perl do."""

import shutil
import subprocess

import pytest

from nmt.convert.marian.scripts import steps_of_script
from nmt.text.steps import normalizer

SPACES = "sed 's/  */ /g;s/^ *//g;s/ *$//g'"
MARKS = {
    "，": ",", "。 *": ". ", "、": ",", "”": '"', "“": '"', "：": ":", "？": r"\?", "《": '"', "）": r"\)",
    "！": r"\!", "（": r"\(", "；": ";", "１": '"', "「": '"', "０": "0", "． *": ". ", "～": r"\~", "…": r"\.\.\.",
    "━": r"\-", "〈": r"\<", "【": r"\[", "％": r"\%",
}  # fmt: skip
TABLE = "sed " + " \\\n\t".join(f"-e 's/{mark}/{by}/g'" for mark, by in MARKS.items()) + ' \\\n\t-e "s/’/\\\'/g"'
CONTROL = "perl -C -pe 's/(?!\\n)\\p{C}/ /g;'"
ENCODE = "${SPMENCODE} --model $2"
HEAD = (
    "#!/bin/bash\n# USAGE preprocess.sh langid bpecodes < input > output\nSPMENCODE=`which spm_encode || echo none`\n"
)
SCRIPTS = {
    "marks in sed": f"{HEAD}\n{TABLE} |    \n\t{CONTROL} |\n\t{SPACES} |\n\t{ENCODE}\n",
    "a branch for several languages": f'{HEAD}if [ "$4" == "noflags" ]; then\n  {TABLE} |\n {CONTROL} |\n{SPACES} |\n'
    f"{ENCODE}\nelse\n  {TABLE} |\n {CONTROL} |\n{SPACES} |\n{ENCODE} |\n sed \"s/^/>>$2<< /\"\nfi\n",
    "spaces alone": f"{HEAD}# without normalize-punctuation.perl -l $1\n{SPACES} | {ENCODE}\n",
}  # fmt: skip
LINES = [
    "It’s “fine”…", "你好，世界！ 「１０」。", "。  。a．  b ．",
    "  two   spaces\u00a0 and\ta tab ", "a\u200bb\x07c\ufeff\ue000\u00ad",
    "¿Qué? – „Zitat“ ‚x‘ «y»", "50％ 〈a〉 【b】 ～ ━", "C:\\new [x] (y) a.b *c* ^d $e", "", "x ’’ y",
]  # fmt: skip


@pytest.mark.skipif(not (shutil.which("sed") and shutil.which("perl")), reason="needs sed and perl")
@pytest.mark.parametrize("name", SCRIPTS)
def test_lines_are_prepared_as_by_sed_and_perl(name, tmp_path):
    steps, unknown = steps_of_script(SCRIPTS[name], "en")
    assert unknown == []
    pipeline = SPACES if name == "spaces alone" else f"{TABLE} | {CONTROL} | {SPACES}"
    text = "".join(f"{line}\n" for line in LINES).encode()
    environment = {"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(["bash", "-c", pipeline], input=text, capture_output=True, check=True, env=environment)
    assert list(map(normalizer(steps), LINES)) == done.stdout.decode().split("\n")[:-1]


@pytest.mark.parametrize(
    ("moses", "line", "expected"),
    [
        ("replace-unicode-punctuation.perl |\n${T}/remove-non-printing-char.perl |\n${T}/", "「a，\x07b”", '"a, b"'),
        ("", "「a，b”", '「a，b"'),
    ],
)
def test_moses_programs_are_known(moses, line, expected):
    script = f"{HEAD}${{T}}/{moses}normalize-punctuation.perl -l $1 |\n{SPACES.replace('$/', '$$/')} |\n{ENCODE}\n"
    steps, unknown = steps_of_script(script, "en")
    assert (normalizer(steps)(line), unknown) == (expected, [])


@pytest.mark.parametrize(
    "command",
    ["tokenizer.perl -l $1", "sed 's/[0-9]/0/g'", "sed 's/a/b/'", "sed -n 's/x/y/gp'"]
)  # fmt: skip
def test_a_command_that_is_not_known_is_said(command):
    _, unknown = steps_of_script(f"{HEAD}{command} | {ENCODE}\n", "en")
    assert unknown == [(4, command)]


@pytest.mark.parametrize("script", ["", "apply_bpe.py -c codes\n", f"it's | {ENCODE}\n", f"perl | {ENCODE}"])
def test_a_script_of_another_form_is_said(script):
    steps, unknown = steps_of_script(script, "en")
    assert steps == ()
    assert len(unknown) == 1


def test_marks_are_replaced_as_by_moses_without_its_normaliser():
    script = f"{HEAD}${{T}}/replace-unicode-punctuation.perl |\n${{T}}/remove-non-printing-char.perl |\n{ENCODE}\n"
    steps, unknown = steps_of_script(script, "en")
    assert unknown == []
    assert normalizer(steps)("「１２」…  。\u00a0x．  y’z—\u200b“") == '""2"...  . \u00a0x. y\'z— "'


def test_characters_are_removed_as_by_perl():
    remove = r"perl -CIOE -pe 's/[\x{2060}\x{200B}\x{feff}]//g'"
    steps, unknown = steps_of_script(f"{HEAD}{remove} |\\\n{ENCODE}\n", "en")
    assert (normalizer(steps)("a\u2060b\u200bc\ufeffd\u200d"), unknown) == ("abcd\u200d", [])


def test_a_pipeline_before_the_one_that_segments_is_said():
    _, unknown = steps_of_script(f"{HEAD}{SPACES} |\n {CONTROL}\n{SPACES} | {ENCODE}\n", "en")
    assert [line for line, _ in unknown] == [4]


def test_the_line_of_a_command_is_counted_in_the_file():
    script = f"{HEAD}x='a\\\nb'\n{TABLE} |\n  {SPACES} |\\\n first -x |\n second | {ENCODE}\n"
    _, unknown = steps_of_script(script, "en")
    lines = script.split("\n")
    assert [command for _, command in unknown] == ["first -x", "second"]
    assert all(command in lines[line - 1] for line, command in unknown)


def test_a_script_that_only_segments_has_no_steps():
    assert steps_of_script(f"{HEAD}{ENCODE}\n", "en") == ((), [])
