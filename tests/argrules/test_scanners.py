"""The scanners for sed, awk and shell text against the real programs: what they accept can do nothing but print."""

from __future__ import annotations

import functools
import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fable_exec.argrules.awk_program import awk_fault
from fable_exec.argrules.sed_script import sed_fault
from fable_exec.argrules.shell_words import NotPlain, plain_commands
from tests.fuzzing import A_TENTH

TOOLS = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}


@functools.cache
def _sed_has_a_sandbox() -> bool:
    return subprocess.run(["sed", "--sandbox", "p", "/dev/null"], env=TOOLS, capture_output=True).returncode == 0


SED_PIECES = st.lists(
    st.sampled_from(
        [
            "s",
            "/",
            "a",
            "b",
            "\\",
            "\n",
            ";",
            "{",
            "}",
            "[",
            "]",
            "w f",
            "e",
            "e x",
            "r f",
            "W f",
            "R f",
            "y",
            "i\\",
            "c",
            ":a",
            "ba",
            "t",
            "$",
            "1",
            ",",
            "!",
            " ",
            "p",
            "g",
            "#",
            "x/",
            "/x/",
            "s/a/b/",
            "^",
            "-",
            "|",
            "&",
            "N",
            "~",
            "+",
            "I",
            "M",
            "q",
            "l",
            "0",
        ]
    ),
    max_size=14,
).map("".join)


@pytest.mark.fuzz
@given(SED_PIECES)
def test_a_sed_script_that_is_accepted_passes_seds_own_sandbox(script: str) -> None:
    if sed_fault(script) or not _sed_has_a_sandbox():
        return
    ended = subprocess.run(["sed", "--sandbox", "-n", "-e", script, "/dev/null"], env=TOOLS, capture_output=True, timeout=20)
    assert b"sandbox" not in ended.stderr, (script, ended.stderr)


AWK_PIECES = st.lists(
    st.sampled_from(
        [
            "print ",
            "printf ",
            "1",
            "x",
            '">f"',
            '"',
            "/",
            ">",
            ">>",
            "|",
            "||",
            "(",
            ")",
            "{",
            "}",
            ";",
            "\n",
            ",",
            "if(1)",
            "else ",
            "[",
            "]",
            "\\",
            "\\\n",
            "!",
            "~",
            "+",
            "++",
            "$",
            "#",
            "?",
            ":",
            "&&",
            "in ",
            "'",
            "/x/",
            "=",
            "^",
            "getline ",
            "do ",
            "return ",
        ]
    ),
    max_size=14,
).map("".join)


@pytest.mark.fuzz
@A_TENTH
@given(AWK_PIECES)
def test_an_awk_program_that_is_accepted_makes_no_file(body: str) -> None:
    for program in (f"BEGIN{{{body}}}", f"BEGIN{{{body}\n}}", body):
        if awk_fault(program):
            continue
        with tempfile.TemporaryDirectory() as directory:
            subprocess.run(["awk", program], env=TOOLS, cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, timeout=20)
            assert os.listdir(directory) == [], program


SHELL_PIECES = st.lists(
    st.sampled_from(
        [
            "echo ",
            "true",
            " ",
            "a",
            "'",
            '"',
            ";",
            "&",
            "&&",
            "|",
            "||",
            "\n",
            ">",
            "<",
            "f",
            "$",
            "`",
            "(",
            ")",
            "{",
            "}",
            "\\",
            "#",
            "=",
            "x=",
            "*",
            "~",
            "!",
            "2>&1",
            " >/dev/null ",
            "2",
            "[",
            "]",
            "\t",
            "\r",
        ]
    ),
    max_size=12,
).map("".join)


@pytest.mark.fuzz
@given(SHELL_PIECES)
def test_shell_text_that_is_taken_apart_has_the_words_that_a_shell_sees(text: str) -> None:
    try:
        commands = plain_commands(text)
    except NotPlain:
        return
    if any(word not in ("echo", "true") for word, *_ in commands) or "\n" in text or "|" in text or ">" in text or "&" in text:
        return
    with tempfile.TemporaryDirectory() as directory:
        ended = subprocess.run(["sh", "-c", text], env=TOOLS, cwd=directory, capture_output=True, timeout=20, text=True)
        assert os.listdir(directory) == []
    printed = [" ".join(words[1:]) for words in commands if words[0] == "echo"]
    assert ended.stdout.splitlines() == printed, text


@pytest.mark.fuzz
@given(st.text(max_size=60))
def test_the_scanners_are_total(text: str) -> None:
    assert isinstance(sed_fault(text), str)
    assert isinstance(awk_fault(text), str)
    try:
        plain_commands(text)
    except NotPlain as error:
        assert str(error)


@pytest.mark.parametrize(
    "script",
    [
        "p",
        "1,5p",
        "$!N;P;D",
        "/a/,/b/d",
        "s/a/b/",
        "s|a/b|c|gI",
        "y/abc/xyz/",
        "1i\\\ntext",
        "a text; w x",
        "/x/{s/a/b/;p}",
        ":a;N;$!ba;s/\\n/ /g",
        "0,/x/d",
        "2~3p",
        "1!G;h;$!d",
        "s/[^,]*,//2",
        "s/\\//x/",
        "/^$/d;/^#/d",
        "10q",
        "s/[]x]/y/",
        "# comment\np",
        "/a/I,+3p",
        "$=",
    ],
)
def test_ordinary_sed_scripts_are_accepted(script: str) -> None:
    assert sed_fault(script) == ""


@pytest.mark.parametrize(
    "program",
    [
        "1",
        "{print}",
        "{print $1, $NF}",
        "NR>1",
        "NR%2==0",
        "$3>5 {print}",
        "/a|b/",
        "{s+=$1/2} END{print s/NR}",
        '{print $1 "|" $2}',
        "{print ($1>2)}",
        '{print "x" > "/dev/stderr"}',
        "!seen[$0]++",
        '{gsub(/[|>]/, "")}1',
        "{if ($1 > 2) print; else print 3}",
        "$1 ~ /^(a|b)$/",
        "length > 80",
        'BEGIN{FS="|"} {print $2}',
        "{a[$1]=a[$1] > 0 ? 1 : 2}",
    ],
)
def test_ordinary_awk_programs_are_accepted(program: str) -> None:
    assert awk_fault(program) == ""


def test_shell_text_is_taken_apart() -> None:
    assert plain_commands("a 'b c' && d\"e f\"g | h; i") == [["a", "b c"], ["de fg"], ["h"], ["i"]]
    assert plain_commands("ls 2>/dev/null\nid") == [["ls"], ["id"]]


def test_the_builtin_files_are_shipped_beside_the_code() -> None:
    import fable_exec.argrules

    names = {path.stem for path in (Path(fable_exec.argrules.__file__).parent / "builtin").glob("*.toml")}
    assert {"git", "search", "text", "archive", "wrappers", "languages", "build", "network", "refused"} <= names
