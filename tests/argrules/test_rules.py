"""Loading, combining and asking argument rules; every fault of a file is listed at once."""

from __future__ import annotations

import pickle
import time
import timeit
from pathlib import Path

import pytest

import fable_exec.argrules as room
from fable_exec.argrules import ArgumentRules, Verdict
from fable_exec.errors import PolicyError
from tests.bounds import BUSY_SECONDS

TOOL = """
[[tool]]
names = ["frob"]
options = ["-n --number=integer:0..9", "-v --verbose", "--mode[=choice:fast|slow]", "!-w --write", "-o --out=written"]
refuse = ["-x --exec: runs a command"]
read_only = true
operands = ["path*"]
match = ["frob -n 3 a", "frob"]
no_match = ["frob -x", "frob --nope"]
"""


def faults(text: str) -> dict[str, str]:
    with pytest.raises(PolicyError) as caught:
        ArgumentRules.from_toml(text)
    return dict(caught.value.faults)


def test_the_room_exports_its_names() -> None:
    assert sorted(room.__all__) == ["ArgumentRules", "Verdict"]


@pytest.mark.parametrize(
    ("argv", "allowed", "read_only"),
    [
        ("frob", True, True),
        ("frob -n3 a b", True, True),
        ("frob -vn 3 a", True, True),
        ("frob --number=3 --mode", True, True),
        ("frob --mode=fast", True, True),
        ("frob --mode fast", True, True),  # an optional value is joined: this is an operand
        ("frob -w a", True, False),
        ("frob -o out a", True, False),
        ("frob a -v", True, True),
        ("frob -- -x", True, True),
        ("/usr/bin/frob a", True, True),
        ("FROB a", True, True),
        ("frob-2.1 a", True, True),
        ("frob.exe a", True, True),
        ("frob -n 10 a", False, False),
        ("frob -n", False, False),
        ("frob -n x", False, False),
        ("frob --mode=medium", False, False),
        ("frob --verbose=1", False, False),
        ("frob -x", False, False),
        ("frob -vx", False, False),
        ("frob --exe", False, False),
        ("frob --verb", False, False),  # the file does not say that it lists all options
        ("frob -q", False, False),
        ("frob -o /etc/x", False, False),
        ("frob -o .git/config", False, False),
        ("frob +x", True, True),
    ],
)
def test_an_option_is_read_as_getopt_reads_it(argv: str, allowed: bool, read_only: bool) -> None:
    verdict = ArgumentRules.from_toml(TOOL).judge(argv.split())
    assert (verdict.allowed, verdict.read_only) == (allowed, read_only), verdict.reason


def test_a_reason_says_which_argument_which_rule_and_what_to_do() -> None:
    verdict = ArgumentRules.from_toml(TOOL).judge(["frob", "-vx"])
    assert verdict.rule == "frob:--exec"
    assert verdict.reason == "frob: option --exec (in '-vx') runs a command; leave it out"


@pytest.mark.parametrize("value", ["", "=x", "=true"])
@pytest.mark.parametrize(
    ("style", "name"), [("gnu", "--exec"), ("posix", "--exec"), ("single", "-exec"), ("go", "-exec"), ("go-anywhere", "-exec")]
)
def test_a_refused_option_is_told_by_its_reason_also_where_it_is_given_a_value(style: str, name: str, value: str) -> None:
    rules = ArgumentRules.from_toml(
        f'[[tool]]\nnames=["frob"]\nstyle="{style}"\nrefuse=["{name}: runs a command"]\nmatch=["frob"]\nno_match=["frob {name}"]'
    )
    verdict = rules.judge(["frob", name + value])
    also = f" (in '{name}{value}')" if value else ""
    assert (verdict.rule, verdict.reason) == (f"frob:{name}", f"frob: option {name}{also} runs a command; leave it out")


def test_unknown_tools_are_the_callers_choice_but_never_inside_another_tool() -> None:
    rules = ArgumentRules.builtin()
    assert rules.judge(["mytool", "-x"], unknown_tools="allow").rule == "unknown-tool"
    assert not rules.judge(["mytool", "-x"]).allowed
    assert not rules.judge(["timeout", "5", "mytool"], unknown_tools="allow").allowed


def test_a_verdict_has_no_truth_value_and_survives_pickling() -> None:
    verdict = ArgumentRules.builtin().judge(["timeout", "5", "ls"])
    assert verdict.inner[0].tool == "ls"
    assert pickle.loads(pickle.dumps(verdict)) == verdict
    with pytest.raises(TypeError):
        bool(verdict)


def test_merging_refuses_what_either_refuses() -> None:
    lax = ArgumentRules.from_toml(
        '[[tool]]\nnames=["ls"]\noptions=["--anything"]\noperands=["text*"]\nmatch=["ls"]\nno_match=["ls -x"]'
    )
    merged = ArgumentRules.builtin().merge(lax)
    assert merged.judge(["ls", "a"]).allowed and not merged.judge(["ls", "a"]).read_only
    assert not merged.judge(["ls", "--anything"]).allowed
    assert not merged.judge(["ls", "-l"]).allowed
    assert merged.judge(["cat", "a"]).allowed


def test_overriding_replaces_a_rule_and_only_that() -> None:
    rules = ArgumentRules.builtin().override(ArgumentRules.from_toml(TOOL.replace("frob", "ssh")))
    assert rules.judge(["ssh", "-v"]).allowed
    assert not rules.judge(["sudo", "ls"]).allowed


def test_narrowing_refuses_the_other_tools_also_where_unknown_tools_are_allowed() -> None:
    rules = ArgumentRules.builtin().narrow(["ls", "timeout"])
    assert rules.judge(["ls"], unknown_tools="allow").allowed
    assert not rules.judge(["cat", "a"], unknown_tools="allow").allowed
    assert not rules.judge(["timeout", "5", "cat", "a"], unknown_tools="allow").allowed


@pytest.mark.parametrize(
    ("path", "workspace", "cwd", "read", "written"),
    [
        ("a", "", (), True, True),
        ("../a", "", (), False, False),
        ("../a", "", ("sub",), True, True),
        ("../../a", "/w", ("sub",), False, False),
        ("/w/a", "/w", (), True, True),
        ("/w/a", "/w/", (), True, True),
        ("/w/a", "", (), False, False),
        ("/w2/a", "/w", (), False, False),
        ("/w/../etc/passwd", "/w", (), False, False),
        ("/w/.git/config", "/w", (), True, False),
        ("sub/.GIT/hooks/x", "", (), True, False),
        ("/usr/lib/x", "", (), True, False),
        ("/etc/shadow", "", (), False, False),
        ("/etc/../etc/shadow", "", (), False, False),
        ("/dev/null", "", (), True, True),
        ("~/x", "", (), False, False),
        ("$HOME/x", "", (), False, False),
        ("file:///etc/passwd", "", (), False, False),
    ],
)
def test_paths_are_judged_by_their_text(path: str, workspace: str, cwd: tuple[str, ...], read: bool, written: bool) -> None:
    rules = ArgumentRules.builtin()
    assert rules.judge(["cat", path], workspace=workspace, cwd=cwd).allowed == read
    assert rules.judge(["tee", path], workspace=workspace, cwd=cwd).allowed == written


def test_every_fault_of_a_file_is_listed() -> None:
    found = faults("""
unknown = 1
[kinds.word]
base = "text"
[kinds.mine]
base = "nope"
[[tool]]
names = ["a"]
style = "weird"
surprise = true
read_only = "yes"
use = ["none"]
options = ["-a=what", "-b", "-b", "noDash", 3]
operands = ["path*", "word?"]
match = []
no_match = [5]
[[tool]]
names = []
[[refused]]
names = ["a"]
[[refused]]
names = ["b", "a"]
reason = "no"
""")
    for path in (
        "unknown",
        "kinds.word",
        "kinds.mine.base",
        "tool[0].style",
        "tool[0].surprise",
        "tool[0].read_only",
        "tool[0].use",
    ):
        assert path in found, path
    for path in (
        "tool[0].options",
        "tool[0].operands",
        "tool[0].match",
        "tool[0].no_match",
        "tool[1].names",
        "refused[0].reason",
    ):
        assert path in found, path
    assert "has a rule already" in found["refused[1].names"]


@pytest.mark.parametrize(
    ("line", "told"),
    [('names = "sort"', "must be a list of strings"), ("names = []", "must name the tool"), ("", "must name the tool")],
)
def test_a_tool_without_a_name_is_read_all_the_same(line: str, told: str) -> None:
    with pytest.raises(PolicyError) as caught:
        ArgumentRules.from_toml(f"[[tool]]\n{line}\noption = []\noperands = ['pathx*']\n")
    paths = [path for path, _ in caught.value.faults]
    assert sorted(paths) == ["tool[0].match", "tool[0].names", "tool[0].no_match", "tool[0].operands", "tool[0].option"]
    assert dict(caught.value.faults)["tool[0].names"] == told


def test_an_option_that_stands_twice_is_a_fault() -> None:
    assert "stands twice" in faults(TOOL.replace('"-v --verbose"', '"-v --verbose", "-n"'))["tool[0]"]


def test_an_example_with_another_outcome_is_a_fault() -> None:
    assert "is refused" in faults(TOOL.replace('"frob"]\nno', '"frob -q"]\nno'))["tool[0].match"]
    assert "is allowed" in faults(TOOL.replace('"frob --nope"', '"frob -v"'))["tool[0].no_match"]


def test_a_sub_command_that_no_example_reaches_is_a_fault() -> None:
    text = '[[tool]]\nnames=["t"]\nmatch=["t a"]\nno_match=["t c"]\n[tool.commands.a]\n[tool.commands.b]\n'
    assert faults(text) == {"t": "no match example of 't b' is allowed"}


@pytest.mark.parametrize(
    "text", ["[[tool", "tool = 1", "kinds = 1", "[[tool]]\nnames = 'x'", "x" * 1_100_000, "[[tool]]\nnames=['a']\ncommands=1"]
)
def test_what_is_no_rule_file_is_one_policy_error(text: str) -> None:
    with pytest.raises(PolicyError):
        ArgumentRules.from_toml(text)


def test_commands_may_run_commands_only_so_deep() -> None:
    rules = ArgumentRules.builtin()
    assert rules.judge(["nice"] * 4 + ["ls"]).allowed
    assert not rules.judge(["nice"] * 5 + ["ls"]).allowed
    assert not rules.judge(["nice"] * 4000).allowed


def test_find_judges_its_command_with_the_worst_starting_point() -> None:
    rules = ArgumentRules.builtin()
    assert rules.judge("find src -exec cat {} ;".split()).read_only
    assert rules.judge("find /usr/lib src -exec cat {} ;".split()).allowed
    assert not rules.judge("find src -exec tee {} ;".split()).allowed


HOSTILE = [
    ["sed", "s/" + "[" * 60_000],
    ["sed", ";" * 65_000],
    ["sed", "a\\\n" * 20_000],
    ["awk", "(" * 30_000 + ">"],
    ["awk", "/" * 60_000 + "|"],
    ["sh", "-c", "'a' " * 4_000],
    ["sh", "-c", "a;" * 8_000],
    ["find", *["-exec", "cat", ";"] * 1300],
    ["git", "log", *["-p"] * 4000],
    ["ls", "-" + "l" * 1_000_000],
    ["1" * 500_000],
    ["find", *["-exec"] * 4000],
]


@pytest.mark.parametrize("argv", HOSTILE, ids=lambda argv: f"{argv[0][:8]}-{len(argv)}")
def test_a_hostile_argv_is_judged_in_bounded_time(argv: list[str]) -> None:
    rules = ArgumentRules.builtin()
    assert timeit.timeit(lambda: rules.judge(argv, unknown_tools="allow"), timer=time.process_time, number=1) < BUSY_SECONDS


def test_a_verdict_is_a_value() -> None:
    assert Verdict(allowed=True, tool="x", rule="x") == Verdict(allowed=True, tool="x", rule="x")


def test_the_reference_names_every_tool() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "argument-rules.md").read_text("utf-8")
    assert [name for name in sorted(ArgumentRules.builtin().tools) if f"`{name}`" not in page] == []


def test_a_command_in_one_string_is_refused() -> None:
    assert ArgumentRules.builtin().judge("ls").rule == "argv:string"
    assert ArgumentRules.builtin().judge(["ls -la"]).rule == "argv:name"
