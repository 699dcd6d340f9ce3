"""Every combination of policy, lock and request has one decision, and none lets a locked workspace be written."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fable_exec import errors
from fable_exec.decision import (
    INTERPRETERS,
    ArgumentFacts,
    CommandFacts,
    Decision,
    ObserveFacts,
    Rule,
    WriteFacts,
    asks_for_arguments,
    decide,
    is_interpreter,
)
from fable_exec.policy import ArgumentPolicy, BrokerPolicy, Confinement
from tests.fuzzing import A_TENTH

POLICY = BrokerPolicy(workspace="/usr/share", write_token_digest="a" * 64)
NO_TOKEN = BrokerPolicy(workspace="/usr/share")
BOTH = (False, True)
OPEN = attrs.evolve(POLICY, confinement=Confinement.off())
DENYING = attrs.evolve(POLICY, locked_commands="deny")
OBEYING = attrs.evolve(POLICY, argument_rules=ArgumentPolicy(mode="enforce"))
OBEYING_KNOWN = attrs.evolve(POLICY, argument_rules=ArgumentPolicy(mode="enforce", unknown_tools="allow"))
ADVISED = attrs.evolve(POLICY, argument_rules=ArgumentPolicy(mode="advisory"))
READS = ArgumentFacts(allowed=True, reads_only=True)
WRITES = ArgumentFacts(allowed=True)
REFUSED = ArgumentFacts(allowed=False, rule="git log:--output", reason="git log: option --output writes a file; leave it out")
UNKNOWN = ArgumentFacts(known=False, allowed=False, reason="there is no argument rule for 'tool'")


def command(name: str = "git", **facts: Any) -> CommandFacts:
    usual: dict[str, Any] = {"name": name, "listed": True, "unchanged": True}
    return CommandFacts(**usual | facts)


def write(*targets: str, scope: tuple[str, ...] | None = None) -> WriteFacts:
    unlocked = None if scope is None else tuple(tuple(path.split("/")) if path else () for path in scope)
    return WriteFacts(targets=tuple(tuple(path.split("/")) if path else () for path in targets), unlock_scope=unlocked)


CASES: list[tuple[str, bool, bool, Any, Rule]] = [
    # what it is, writes unlocked, kernel can hold it read-only, facts, deciding rule
    ("reading is always allowed", False, False, ObserveFacts(), Rule.OBSERVE),
    ("writing while locked", False, False, write("a"), Rule.WRITE_LOCK),
    ("writing while locked, whatever the kernel can", False, True, write("a"), Rule.WRITE_LOCK),
    ("writing while unlocked", True, False, write("a"), Rule.WRITE),
    ("writing below the scope", True, False, write("a/b", scope=("a",)), Rule.WRITE),
    ("writing the scope itself", True, False, write("a", scope=("a",)), Rule.WRITE),
    ("writing beside the scope", True, False, write("ab", scope=("a",)), Rule.WRITE_SCOPE),
    ("writing above the scope", True, False, write("a", scope=("a/b",)), Rule.WRITE_SCOPE),
    ("moving out of the scope", True, False, write("a/x", "b/x", scope=("a",)), Rule.WRITE_SCOPE),
    ("moving between two scopes", True, False, write("a/x", "b/x", scope=("a", "b")), Rule.WRITE),
    ("writing in a scope of the whole workspace", True, False, write("x", scope=("",)), Rule.WRITE),
    ("writing in an empty scope", True, False, write("x", scope=()), Rule.WRITE_SCOPE),
    ("a scope while locked", False, False, write("a", scope=("a",)), Rule.WRITE_LOCK),
    ("an unlisted command", True, False, command(listed=False), Rule.NOT_LISTED),
    ("a listed command that was not found", True, False, command(missing="it is gone", unchanged=False), Rule.NOT_FOUND),
    ("a changed command", True, False, command(unchanged=False), Rule.CHANGED),
    ("an unlisted command that has changed", False, False, command(listed=False, unchanged=False), Rule.NOT_LISTED),
    ("an unlisted interpreter while locked", False, False, command("python", listed=False), Rule.NOT_LISTED),
    ("an interpreter while locked", False, False, command("python"), Rule.INTERPRETER_LOCK),
    ("a link to an interpreter while locked", False, False, command("tool", resolved_name="python3.11"), Rule.INTERPRETER_LOCK),
    ("an interpreter under another name's link", False, False, command("sh", resolved_name="dash"), Rule.INTERPRETER_LOCK),
    ("an interpreter the kernel can hold", False, True, command("python"), Rule.COMMAND),
    ("an interpreter while unlocked", True, False, command("python"), Rule.COMMAND),
    ("an interpreter while some paths are unlocked", True, False, command("sh", unlock_scope=(("a",),)), Rule.INTERPRETER_LOCK),
    ("an interpreter while all paths are unlocked", True, False, command("sh", unlock_scope=((),)), Rule.COMMAND),
    ("another command while locked", False, False, command("git"), Rule.READER_LOCK),
    ("another command the kernel can hold", False, True, command("git"), Rule.COMMAND),
    ("a known reader while locked", False, False, command("git", arguments=READS), Rule.COMMAND),
    ("another command while unlocked", True, True, command("git", cwd=("src",)), Rule.COMMAND),
]


@pytest.mark.parametrize(("unlocked", "kernel", "facts", "rule"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_the_rule_that_decides(unlocked: bool, kernel: bool, facts: Any, rule: Rule) -> None:
    decision = decide(POLICY, unlocked, kernel, facts)
    assert decision.rule is rule
    assert decision.allowed == (rule in (Rule.OBSERVE, Rule.COMMAND, Rule.WRITE))
    assert decision.read_only == (isinstance(facts, CommandFacts) and decision.allowed and not unlocked)


LOCKED_BY_ARGUMENTS: list[tuple[str, BrokerPolicy, bool, bool, ArgumentFacts | None, str, Rule]] = [
    # what it is, policy, writes unlocked, kernel can hold it, what the rules say, program, deciding rule
    ("the kernel holds it", POLICY, False, True, None, "find", Rule.COMMAND),
    *[
        (f"{what}, {how}", policy, False, False, *rest)
        for how, policy in (("confinement not held", POLICY), ("confinement off", OPEN))
        for what, *rest in (
            ("a reader", READS, "cat", Rule.COMMAND),
            ("a writer", WRITES, "cp", Rule.READER_LOCK),
            ("what the rules refuse", REFUSED, "git", Rule.READER_LOCK),
            ("what no rule knows", UNKNOWN, "tool", Rule.READER_LOCK),
            ("what was not judged", None, "git", Rule.READER_LOCK),
            ("an interpreter, whatever its arguments", READS, "python3", Rule.INTERPRETER_LOCK),
        )
    ],
    ("anything while unlocked", POLICY, True, False, None, "python3", Rule.COMMAND),
    ("anything while unlocked, confinement off", OPEN, True, False, None, "python3", Rule.COMMAND),
    ("a reader by choice", DENYING, False, True, READS, "cat", Rule.COMMAND),
    ("a writer by choice, though the kernel holds it", DENYING, False, True, WRITES, "cp", Rule.READER_LOCK),
    ("an interpreter by choice, though the kernel holds it", DENYING, False, True, None, "sh", Rule.INTERPRETER_LOCK),
    ("an obeyed rule that allows", OBEYING, True, False, WRITES, "cp", Rule.COMMAND),
    ("an obeyed rule that refuses", OBEYING, True, False, REFUSED, "git", Rule.ARGUMENTS),
    ("an obeyed rule that refuses, locked", OBEYING, False, True, REFUSED, "git", Rule.ARGUMENTS),
    ("an obeyed rule that was not asked", OBEYING, True, False, None, "git", Rule.ARGUMENTS),
    ("an unknown tool under obeyed rules", OBEYING, True, False, UNKNOWN, "tool", Rule.ARGUMENTS),
    ("an unknown tool that may pass", OBEYING_KNOWN, True, False, UNKNOWN, "tool", Rule.COMMAND),
    ("an unknown tool that may pass, and not while locked", OBEYING_KNOWN, False, False, UNKNOWN, "tool", Rule.READER_LOCK),
    ("advice changes nothing", ADVISED, True, False, REFUSED, "git", Rule.COMMAND),
]


@pytest.mark.parametrize(
    ("policy", "unlocked", "kernel", "arguments", "name", "rule"),
    [case[1:] for case in LOCKED_BY_ARGUMENTS],
    ids=[case[0] for case in LOCKED_BY_ARGUMENTS],
)
def test_the_rule_that_decides_by_arguments(
    policy: BrokerPolicy, unlocked: bool, kernel: bool, arguments: ArgumentFacts | None, name: str, rule: Rule
) -> None:
    decision = decide(policy, unlocked, kernel, command(name, arguments=arguments))
    assert decision.rule is rule
    assert decision.read_only == (decision.allowed and not unlocked)


def test_arguments_are_judged_only_where_the_decision_needs_them() -> None:
    for policy, unlocked, kernel in itertools.product((POLICY, OPEN, DENYING, OBEYING, ADVISED), BOTH, BOTH):
        by_choice = policy in (OBEYING, ADVISED)
        by_the_lock = not unlocked and (policy is DENYING or not kernel)
        assert asks_for_arguments(policy, unlocked, kernel) == (by_choice or by_the_lock)


def test_the_table_reaches_every_rule() -> None:
    assert {case[4] for case in CASES} | {case[6] for case in LOCKED_BY_ARGUMENTS} == set(Rule)


def test_without_a_token_digest_nothing_counts_as_unlocked() -> None:
    assert decide(NO_TOKEN, True, False, write("a")).rule is Rule.WRITE_LOCK
    assert decide(NO_TOKEN, True, False, command("python")).rule is Rule.INTERPRETER_LOCK


@pytest.mark.parametrize(
    ("facts", "error", "text"),
    [
        (write("a"), errors.WritesLocked, "workspace writes are locked"),
        (write("a", scope=("b",)), errors.WritesLocked, "workspace writes are locked"),
        (command("python3"), errors.WritesLocked, "workspace writes are locked, and 'python3' is an interpreter or shell"),
        (command("git", arguments=REFUSED), errors.ArgumentDenied, "refused by an argument rule: git log: option --output"),
        (command("cp", arguments=WRITES), errors.WritesLocked, "'cp' is not known to only read with these arguments"),
        (command("rm", listed=False), errors.ExecutableDenied, "'rm' is not on the allow-list"),
        (command("rm", missing="it is gone"), errors.ExecutableDenied, "'rm' is on the allow-list, but it is gone"),
        (command("rm", unchanged=False), errors.ExecutableDenied, "'rm' is no longer the file"),
    ],
)
def test_a_refusal_names_rule_and_reason(facts: Any, error: type[errors.Denied], text: str) -> None:
    policy = POLICY if getattr(facts, "arguments", None) is None else OBEYING if facts.arguments is REFUSED else OPEN
    decision = decide(policy, False, False, facts)
    refusal = decision.refusal()
    assert type(refusal) is error
    assert text in str(refusal)
    assert decision.code == refusal.code
    assert isinstance(refusal, PermissionError)


def test_a_hostile_name_cannot_flood_or_forge_the_message() -> None:
    for name in ("x" * 100_000, "a\nb\x1b[2J", "\udc80", ""):
        message = decide(POLICY, False, False, command(name, listed=False)).message
        assert len(message) < 1000
        assert message.isascii()
        assert message.isprintable()


@pytest.mark.parametrize("name", ["ls | wc", "ls -l", "a&&b", "x>y", "$HOME/x", "echo\tx", "'ls'", "*.py"])
def test_a_line_for_a_shell_is_told_that_no_shell_reads_it(name: str) -> None:
    message = decide(POLICY, False, False, command(name, listed=False)).message
    assert message.endswith("no shell reads it: give the program and each argument apart, or a shell with -c and the line")
    assert "shell" not in decide(POLICY, False, False, command("g++-12", listed=False)).message


NAMED = ["bash", "cmd", "node", "perl", "php", "pypy", "powershell", "pwsh", "python", "pytest", "ruby", "sh", "zsh"]


def test_the_list_is_the_published_one() -> None:
    assert set(NAMED) == INTERPRETERS


@pytest.mark.parametrize("name", NAMED)
def test_an_interpreter_is_one_in_every_spelling(name: str) -> None:
    for spelled in (
        name,
        name.upper(),
        f"{name}3",
        f"{name}20",
        f"{name}5.2",
        f"{name}2.7.18",
        f"{name}-5.2",
        f"{name}.exe",
        f"{name}3.EXE",
    ):
        assert is_interpreter(spelled), spelled


@pytest.mark.parametrize(
    "name", ["python3.11", "python3-config", "pythonw.exe", "pythonista", "python", "Python3.13t", "bash.real"]
)
def test_anything_that_begins_like_python_or_hides_behind_a_suffix_is_one(name: str) -> None:
    assert is_interpreter(name)


OTHERS = """
    git find env xargs tar sed awk nodejs shasum sha256sum rubygems phpunit cmake 7z x-sh bashful . .. 3
"""


@pytest.mark.parametrize("name", ["", *OTHERS.split()])
def test_other_programs_are_none(name: str) -> None:
    assert not is_interpreter(name)


COMPONENTS = st.lists(st.sampled_from(["a", "b", "c"]), max_size=3).map(tuple)
SCOPES = st.none() | st.lists(COMPONENTS, max_size=2).map(tuple)
FACTS = (
    st.builds(ObserveFacts)
    | st.builds(WriteFacts, targets=st.lists(COMPONENTS, max_size=2).map(tuple), unlock_scope=SCOPES)
    | st.builds(
        CommandFacts,
        name=st.text(max_size=20) | st.sampled_from(NAMED),
        resolved_name=st.text(max_size=5) | st.sampled_from(NAMED),
        listed=st.booleans(),
        unchanged=st.booleans(),
        missing=st.sampled_from(["", "it is gone"]),
        cwd=COMPONENTS,
        unlock_scope=SCOPES,
        arguments=st.sampled_from([None, READS, WRITES, REFUSED, UNKNOWN]),
    )
)


@pytest.mark.fuzz
@A_TENTH
@given(st.sampled_from([POLICY, OPEN, NO_TOKEN]), st.booleans(), st.booleans(), FACTS)
def test_decisions_are_total_and_repeatable(policy: BrokerPolicy, unlocked: bool, kernel: bool, facts: Any) -> None:
    decision = decide(policy, unlocked, kernel, facts)
    assert decision == decide(policy, unlocked, kernel, facts)
    assert (decision.code == "allowed") == decision.allowed == (decision.message == "")
    assert pickle.loads(pickle.dumps(decision)) == decision


@pytest.mark.fuzz
@given(st.sampled_from([POLICY, OPEN, NO_TOKEN]), st.booleans(), st.booleans(), FACTS)
def test_nothing_that_could_write_passes_while_locked(policy: BrokerPolicy, unlocked: bool, kernel: bool, facts: Any) -> None:
    if unlocked and policy is not NO_TOKEN:
        return
    decision = decide(policy, unlocked, kernel, facts)
    if isinstance(facts, WriteFacts):
        assert not decision.allowed
    if isinstance(facts, CommandFacts) and decision.allowed:
        assert decision.read_only
        assert kernel or not (is_interpreter(facts.name) or is_interpreter(facts.resolved_name))
        assert kernel or facts.arguments is READS


@pytest.mark.fuzz
@given(st.booleans(), FACTS)
def test_unlocking_never_takes_away_and_locking_never_gives(kernel: bool, facts: Any) -> None:
    if decide(POLICY, False, kernel, facts).allowed:
        assert decide(POLICY, True, kernel, facts).allowed


def test_every_world_of_a_model_checker_has_a_decision() -> None:
    names = ("git", "python")
    for policy, unlocked, kernel, listed, unchanged, name, scope in itertools.product(
        (POLICY, NO_TOKEN), BOTH, BOTH, BOTH, BOTH, names, (None, (), ((),), (("a",),))
    ):
        facts = CommandFacts(name=name, listed=listed, unchanged=unchanged, unlock_scope=scope)
        decision = decide(policy, unlocked, kernel, facts)
        assert isinstance(decision, Decision)
        assert not decision.allowed or (listed and unchanged)


def test_facts_and_decisions_are_frozen() -> None:
    for value in (ObserveFacts(), write("a"), command(), decide(POLICY, False, False, command())):
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            value.allowed = True
