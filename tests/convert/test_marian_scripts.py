"""What a script of an OPUS-MT archive does to source text, beside what sed and perl do."""

import shutil
import subprocess

import pytest

from nmt.convert.marian.scripts import ScriptText, read_postprocessing, read_preprocessing
from nmt.text.steps import Control, MosesTokenize, Spaces, normalizer

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


def known(script: str, language: str = "en") -> ScriptText:
    text = read_preprocessing(script, language)
    assert text.unknown == []
    return text


@pytest.mark.skipif(not (shutil.which("sed") and shutil.which("perl")), reason="needs sed and perl")
@pytest.mark.parametrize("name", SCRIPTS)
def test_lines_are_prepared_as_by_sed_and_perl(name, tmp_path):
    steps = known(SCRIPTS[name]).steps
    pipeline = SPACES if name == "spaces alone" else f"{TABLE} | {CONTROL} | {SPACES}"
    text = "".join(f"{line}\n" for line in LINES).encode()
    environment = {"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(["bash", "-c", pipeline], input=text, capture_output=True, check=True, env=environment)
    assert list(map(normalizer(steps), LINES)) == done.stdout.decode().split("\n")[:-1]


TAG = 'sed "s/^/>>$2<< /"'


@pytest.mark.parametrize(
    ("moses", "line", "expected"),
    [
        ("replace-unicode-punctuation.perl |\n${T}/remove-non-printing-char.perl |\n${T}/", "「a，\x07b”", '"a, b"'),
        ("", "「a，b”", '「a，b"'),
    ],
)
def test_moses_programs_are_known(moses, line, expected):
    script = f"{HEAD}${{T}}/{moses}normalize-punctuation.perl -l $1 |\n{SPACES.replace('$/', '$$/')} |\n{ENCODE}\n"
    assert normalizer(known(script).steps)(line) == expected


@pytest.mark.parametrize(
    ("arguments", "language"),
    [("-l $1", "fi"), ("-b -l ${1}", "fi"), ("-l de", "de"), ("", "en"), ("$1", "fi"), ("fr", "fr")],
)
def test_moses_rules_are_those_of_the_language_that_the_script_names(arguments, language):
    [step] = known(f"normalize-punctuation.perl {arguments} | {ENCODE}", "fin").steps
    assert step.language == language


BPE = "python3 ${S}/apply_bpe.py -c $2"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("-a -threads ${THREADS} -l $1", {"escapes": True, "splits_dashes": True}),
        ("-no-escape -q -l $1", {"escapes": False, "splits_dashes": False}),
    ],
)
def test_moses_tokeniser_before_codes_is_a_step(options, expected):
    script = f"THREADS=4\n${{T}}/tokenizer.perl {options} |\n{SPACES} |\n"
    for ending in (BPE, f"{BPE} |\n  {TAG}"):
        text = known(script + ending)
        assert text.segmentation == "codes"
        assert text.steps == [MosesTokenize(language="en", **expected), Spaces()]


@pytest.mark.parametrize(
    ("script", "unknown"),
    [
        (r"sed 's/\@\@ //g;s/ \@\@//g;s/ \@\-\@ /-/g' | ${T}/detokenizer.perl -l $1", ""),
        ("sed 's/@@ //g' | detokenizer.perl -u -l $1", "detokenizer.perl -u -l $1"),
        ("sed 's/@@ /x/g' | detokenizer.perl -l $1", "sed 's/@@ /x/g'"),
        ("sed 's/@@ //g' | detruecase.perl | detokenizer.perl -l $1", "detruecase.perl"),
    ],
)
def test_what_joins_outputs_is_known(script, unknown):
    text = read_postprocessing(script, "fr")
    assert [command for _, command in text.unknown] == list(filter(None, [unknown]))
    assert unknown or text.steps == [MosesTokenize(language="fr")]


@pytest.mark.parametrize(
    "command",
    [
        "tokenizer.perl -l $1 -penn", "tokenizer.perl -protected FILE", "tokenizer.perl -l $SRC", "tokenizer.perl -l",
        "normalize-punctuation.perl -l $1 -penn", "remove-non-printing-char.perl FILE", "cat FILE", "cat < FILE",
        "sed 's/[0-9]/0/g'", "sed 's/a/b/'", "sed -n 's/x/y/gp'", "sed 's/a/b/g' FILE", 'sed "s/$X/b/g"',
        "sed 's/^ *//g'", TAG, "perl -pe 's/\\p{C}/ /g;'", "perl -C -ne 's/\\p{C}/ /g;'", "$CAT", "tr a b",
        "spm_encode --model $2", BPE,
    ],
)  # fmt: skip
def test_a_command_that_is_not_known_is_said(command):
    text = read_preprocessing(f"{HEAD}{command} | {ENCODE}\n", "en")
    assert text.unknown in ([(4, command)], [(4, ENCODE)])
    assert (text.unknown == [(4, ENCODE)]) == (command in (TAG, "spm_encode --model $2", BPE))


@pytest.mark.parametrize("command", [SPACES, "tr a b", ENCODE, f"{TAG} | {TAG}", "spm_encode --output_format=id"])
def test_behind_the_program_that_segments_there_is_a_tag_alone(command):
    assert known(f"{ENCODE} | {TAG}\n").segmentation == "SentencePiece"
    assert read_preprocessing(f"{ENCODE} |\n{command}\n", "en").unknown[0][0] == 2


@pytest.mark.parametrize(
    ("script", "line"),
    [
        (f"{SPACES} || {ENCODE}", 1), (f"{SPACES} && {ENCODE}", 1), (f"{SPACES}; {ENCODE}", 1),
        (f"{SPACES}\n{ENCODE}", 2), (f"{SPACES} & {ENCODE}", 1), (f"{SPACES} |& {ENCODE}", 1),
        (f"x=1 &&\n{ENCODE}", 2), (f"{ENCODE} > output", 1), (f"{ENCODE}\nmv a b", 2),
        (f"if true; then\n{ENCODE}\nfi |\ncat", 3), (f"while read -r x; do\n{ENCODE}\ndone", 1),
        (f"it's | {ENCODE}", 1), (f"perl | {ENCODE}", 1), (f"(cat) | {ENCODE}", 1),
    ],
)  # fmt: skip
def test_what_is_no_plain_pipeline_is_said(script, line):
    unknown = read_preprocessing(f"{script}\n", "en").unknown
    assert unknown[0][0] == line


@pytest.mark.parametrize("other", ["tr a b | ", "", f"{CONTROL} | {SPACES} | "])
def test_branches_must_do_the_same(other):
    script = f'if [ "$4" == "noflags" ]; then\n{SPACES} |\n{ENCODE}\nelse\n%s{ENCODE} | {TAG}\nfi\n'
    known(script % f"{SPACES} | ")
    assert read_preprocessing(script % other, "en").unknown[0][0] == 5


def test_a_script_that_segments_nothing_says_so():
    text = known(f"{TABLE} |\n{SPACES} |\n{TAG}\n")
    assert (text.segmentation, len(text.steps)) == (None, 2)
    assert known("# nothing\n") == ScriptText()


def test_marks_are_replaced_as_by_moses_without_its_normaliser():
    script = f"{HEAD}${{T}}/replace-unicode-punctuation.perl |\n${{T}}/remove-non-printing-char.perl |\n{ENCODE}\n"
    assert normalizer(known(script).steps)("「１２」…  。\u00a0x．  y’z—\u200b“") == '""2"...  . \u00a0x. y\'z— "'


def test_characters_are_removed_as_by_perl():
    remove = r"perl -CIOE -pe 's/[\x{2060}\x{200B}\x{feff}]//g'"
    assert normalizer(known(f"{HEAD}{remove} |\\\n{ENCODE}\n").steps)("a\u2060b\u200bc\ufeffd\u200d") == "abcd\u200d"
    # Behind the step for control characters there are none of these.
    assert known(f"{CONTROL} | {remove} | {ENCODE}").steps == [Control()]


def test_the_line_of_a_command_is_counted_in_the_file():
    script = f"{HEAD}x='a\\\nb'\n{TABLE} |\n  {SPACES} |\\\n first -x | # | third\n second 2>/dev/null | {ENCODE}\n"
    unknown = read_preprocessing(script.replace("\n", "\r\n"), "en").unknown
    lines = script.split("\n")
    assert [command for _, command in unknown] == ["first -x", "second"]
    assert all(command in lines[line - 1] for line, command in unknown)
