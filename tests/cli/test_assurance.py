"""`policy verify` and `policy explain`: statuses, objects, and what people are shown."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.cli.typed import the_object, typed, typed_here

pytestmark = pytest.mark.requires_ability("confinement")


@pytest.fixture
def policy(workspace: Path, tmp_path: Path) -> Path:
    file = tmp_path / "policy.toml"
    digest = hashlib.sha256(b"token").hexdigest()
    file.write_text(f'workspace = "{workspace}"\nallowed_executables = ["ls"]\nwrite_token_digest = "{digest}"\n')
    return file


def with_hole(policy: Path) -> Path:
    policy.write_text(
        policy.read_text() + '[paths]\nprotected = [".env"]\n[assurance]\nformulas = ["AG !protected_writable", "AG !x"]\n'
    )
    return policy


def test_a_policy_that_keeps_its_promises_verifies(policy: Path) -> None:
    finished = typed_here("policy", "verify", str(policy))
    assert (finished.returncode, finished.stdout) == (0, b"")
    assert "  holds       locked-writes: what is let through" in finished.stderr.decode()
    assert "  holds       terminal-final: nothing leaves the end" in finished.stderr.decode()
    found = the_object(typed_here("policy", "verify", "--json", str(policy)))
    assert found["ok"] and len(found["policy_digest"]) == 64 and found["warnings"] == []
    assert {each["verdict"] for each in (*found["broker"], *found["supervisor"])} <= {"holds", "not claimed"}


def test_a_policy_with_a_hole_exits_1_and_prints_the_path(policy: Path) -> None:
    finished = typed_here("policy", "verify", str(with_hole(policy)))
    assert finished.returncode == 1
    words = finished.stderr.decode()
    assert "fable-exec: warning: assurance.formulas[1] asks for x, which is true of no world" in words
    assert "  fails       assurance.formulas[0]: a formula of the policy\n      AG !protected_writable\n" in words
    assert "      1. the right token unlocks: +admin_authenticated +unlocked -writes_locked\n" in words
    answered = typed_here("policy", "verify", "--json", str(policy))
    found = the_object(answered)
    assert (answered.returncode, found["ok"], len(found["warnings"])) == (1, False, 1)
    failed = [each for each in found["broker"] if each["verdict"] == "fails"]
    assert [each["name"] for each in failed] == ["assurance.formulas[0]"]
    assert [step["event"] for step in failed[0]["counterexample"]][1] == "the right token unlocks"


@pytest.mark.parametrize("text", ['workspace = "/no/such"', "workspace = 1", '[assurance]\nformulas = ["AG"]', "]"])
def test_a_policy_with_faults_exits_2(text: str, tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text(text)
    assert typed_here("policy", "verify", str(file)).returncode == 2
    answered = typed_here("policy", "verify", "--json", str(file))
    assert (answered.returncode, the_object(answered)["ok"]) == (2, False)
    assert typed_here("policy", "verify", str(tmp_path / "none.toml")).returncode == 2


def test_explain_shows_a_tree(policy: Path) -> None:
    finished = typed_here("policy", "explain", "--policy", str(policy), "--", "ls", "-l", "a b")
    assert finished.returncode == 0
    lines = finished.stderr.decode().splitlines()
    assert lines[0] == "ls -l 'a b'"
    for words in ("decision: would be run", "rule: command", "executable: /", "environment: ", "plan", "reach", "network: cut"):
        assert any(words in line for line in lines), words
    assert any("write a file: " in line and "(workspace_writes)" in line for line in lines)
    assert max(map(len, lines)) < 200


def test_explain_tells_what_unlocking_changes(policy: Path) -> None:
    locked = the_object(typed_here("policy", "explain", "--json", "--policy", str(policy), "--", "ls"))
    unlocked = the_object(typed_here("policy", "explain", "--json", "--policy", str(policy), "--unlocked", "--", "ls"))
    reach = [{each["asset"]: each["reachable"] for each in found["reach"]} for found in (locked, unlocked)]
    assert [each["workspace"] for each in reach] == [False, True]
    assert [each["network"] for each in reach] == [False, False]
    assert locked["rule"] == "command" and "PATH" in locked["environment"]


def test_explain_of_what_is_refused_exits_1(policy: Path) -> None:
    finished = typed_here("policy", "explain", "--policy", str(policy), "--", "rm", "-rf", "x")
    assert finished.returncode == 1
    assert "decision: refused: executable 'rm' is not on the allow-list" in finished.stderr.decode()
    answered = typed_here("policy", "explain", "--json", "--policy", str(policy), "--", "rm")
    told = the_object(answered)
    assert (answered.returncode, told["rule"]) == (1, "not-listed")
    assert "workspace_writes: active by unlocked by the administrator" not in told["plan"]
    as_it_would_run = the_object(typed_here("policy", "explain", "--json", "--policy", str(policy), "--", "ls"))
    assert (told["plan"], told["applied"]) == (as_it_would_run["plan"], as_it_would_run["applied"])


def test_explain_tells_a_program_that_is_not_there_as_it_was_typed(workspace: Path) -> None:
    finished = typed_here("policy", "explain", "--", "no-such-program", cwd=workspace)
    assert finished.returncode == 2
    assert finished.stderr.decode().startswith("fable-exec: the program to run: none of no-such-program could be found in ")


def test_explain_needs_no_policy_and_nothing_is_run(workspace: Path) -> None:
    answered = typed_here("policy", "explain", "--json", "--", "touch", "made", cwd=workspace)
    assert (answered.returncode, the_object(answered)["ok"]) == (0, True)
    assert list(workspace.iterdir()) == []
    assert typed_here("policy", "explain", "--policy", str(workspace / "none.toml"), "--", "ls").returncode == 2


def test_no_broker_starts_under_a_policy_with_a_hole(policy: Path) -> None:
    hole = str(with_hole(policy))
    ran = typed_here("run", "--policy", hole, "--", "ls")
    told = "assurance: assurance.formulas[0] fails (AG !protected_writable: a formula of the policy): 0. at the start"
    for status, finished in ((125, ran), (2, typed_here("probe", "--policy", hole)), (2, typed_here("policy", "check", hole))):
        assert finished.returncode == status
        assert told in finished.stderr.decode() and "1. the right token unlocks" in finished.stderr.decode()
    assert ran.stdout == b""
    served = typed("serve", "--policy", hole)
    assert (served.returncode, served.stdout) == (2, b"")
    assert "1. the right token unlocks" in served.stderr.decode()


def test_check_warns_of_a_formula_about_nothing(policy: Path) -> None:
    policy.write_text(policy.read_text() + '[assurance]\nformulas = ["AG !moonlit"]\n')
    found = the_object(typed_here("policy", "check", "--json", str(policy)))
    assert (found["ok"], found["warnings"][0]["path"]) == (True, "assurance.formulas")
    assert typed_here("run", "--policy", str(policy), "--", "ls").returncode == 0
