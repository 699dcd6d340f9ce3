"""Every command but `run`: what it prints, where, and with which exit status."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import jsonschema
import pytest

import fable_exec
from fable_exec.audit import AuditLog
from fable_exec.cli.program import COMMANDS
from fable_exec.policy import BrokerPolicy, json_schema, load_policy
from tests.cli.typed import PROGRAM, PROJECT, environment, the_object, typed, typed_here


def test_help_lists_every_command_and_goes_to_standard_output() -> None:
    for flag in ("--help", "-h"):
        finished = typed_here(flag)
        assert (finished.returncode, finished.stderr) == (0, b"")
        listed = finished.stdout.decode().partition("Commands:\n")[2].splitlines()
        assert [line.split()[0] for line in listed if re.match("  [^ ]", line)][: len(COMMANDS)] == [*COMMANDS]


RUN_FLAGS = (
    "--workspace --policy --allow --timeout --idle-timeout --cwd --env --stdin --unlocked --confinement --stream"
    " --no-stream --json --help"
)
FLAGS = {
    "run": RUN_FLAGS,
    "supervise": "start list show logs stop wait recover prune --help",
    "supervise start": (
        "--root --id --workspace --spec --hard-timeout --idle-timeout --stop-grace --restarts --restart-delay --verdict"
        " --engine-dir --proof-require --proof-gpg-key --proof-jwks --proof-profile --attest-key --policy --label --env"
        " --foreground --json ARGV --help"
    ),
    "supervise list": "--root --json --help",
    "supervise show": "--root --json ID --help",
    "supervise logs": "--root --follow ID --help",
    "supervise stop": "--root --json ID --help",
    "supervise wait": "--root --timeout --json ID --help",
    "supervise recover": "--root --json --help",
    "supervise prune": "--root --older-than --keep --json --help",
    "serve": "--workspace --allow --policy --admin-fd --admin-file --admin-socket --help",
    "probe": "--workspace --policy --json --help",
    "doctor": "--workspace --policy --confinement --json --help",
    "policy": "check verify explain show schema --help",
    "policy check": "--workspace --json FILE --help",
    "policy verify": "--workspace --json FILE --help",
    "policy explain": "--workspace --policy --cwd --unlocked --json ARGV --help",
    "policy show": "--workspace --json FILE --help",
    "policy schema": "--help",
    "seatbelt": "render decide explain --help",
    "seatbelt render": "--boundary --workspace --spec --help",
    "seatbelt decide": "--boundary --workspace --spec --json OPERATION TARGET --help",
    "seatbelt explain": "--boundary --workspace --spec --json OPERATION TARGET --help",
    "boundary": "check --help",
    "boundary check": "--boundary --workspace-root --probe --json --help",
    "audit": "verify --help",
    "audit verify": "--head --json FILE --help",
    "digest": "--profile --level --engine-dir --manifest --diff --json PATH --help",
    "proof": "verify bind show --help",
    "proof verify": "--repo --engine-dir --profile --level --gpg-key --jwks --require --json FILE --help",
    "proof bind": (
        "--into --baseline --run-id --engine-dir --profile --level --gpg-key --jwks --require --json WORKSPACE --help"
    ),
    "proof show": "--gpg-key --jwks --json FILE --help",
    "attest": "--root --key --materials --artifact --link --json ID --help",
    "verify-attestation": "--key --threshold --workspace --artifact --subject --predicate-type --json FILE --help",
}


@pytest.mark.parametrize("name, flags", FLAGS.items(), ids=FLAGS)
def test_the_help_of_a_command_lists_everything(name: str, flags: str) -> None:
    finished = typed_here(*name.split(), "--help")
    assert finished.returncode == 0
    assert [flag for flag in flags.split() if flag not in finished.stdout.decode()] == []
    assert finished.stdout.decode().isascii()
    assert "--allow-executable" not in finished.stdout.decode()  # it works, and one spelling is enough to read


@pytest.mark.parametrize("argv", [["-m", "fable_exec", "serve"], ["-m", "fable_exec.server"]], ids=["serve", "server"])
def test_the_help_of_the_server_names_it_as_it_was_called(argv: list[str]) -> None:
    called = {"serve": "fable-exec serve", "fable_exec.server": "python -m fable_exec.server"}[argv[-1]]
    asked = subprocess.run([sys.executable, *argv, "--help"], env=environment(), capture_output=True, text=True)
    assert asked.stdout.startswith(f"usage: {called} [-h]") and ".py" not in asked.stdout
    complained = subprocess.run([sys.executable, *argv, "--no-such-flag"], env=environment(), capture_output=True, text=True)
    assert complained.stderr.splitlines()[-1] == f"{called}: error: unrecognized arguments: --no-such-flag"


def test_the_version_is_that_of_the_package() -> None:
    assert typed_here("--version").stdout.decode() == f"fable-exec {fable_exec.__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["no-such-command"],
        ["--no-such-flag"],
        ["doctor", "surplus"],
        ["policy"],
        ["policy", "check"],
        ["audit", "verify"],
        ["audit", "verify", "log", "--head", "abc"],
        ["serve", "--no-such-flag"],
        ["probe", "--json=yes"],
    ],
    ids=" ".join,
)
def test_a_usage_error_exits_2_and_prints_nothing_on_standard_output(arguments: list[str]) -> None:
    finished = typed_here(*arguments)
    assert (finished.returncode, finished.stdout) == (2, b""), finished.stderr
    assert b"Traceback" not in finished.stderr


# serve


def test_serve_answers_and_loads_nothing_of_the_command_line(workspace: Path) -> None:
    program = (
        "import sys; from fable_exec.__main__ import main\n"
        f"status = main(['serve', '--workspace', {str(workspace)!r}])\n"
        "heavy = {name for name in sys.modules if name.split('.')[0] in ('click', 'rich') or name.startswith('fable_exec.cli')}\n"
        "print(status, sorted(heavy), file=sys.stderr)"
    )
    finished = subprocess.run(
        [sys.executable, "-c", program], env=environment(), input=b'{"action": "probe"}\n', capture_output=True, timeout=30
    )
    assert json.loads(finished.stdout)["ok"] is True
    assert finished.stderr == b"0 []\n"


def test_serve_as_a_user_starts_it(workspace: Path) -> None:
    served = typed("serve", "--workspace", str(workspace), stdin=b'{"id": 7, "action": "probe"}\n')
    assert (served.returncode, json.loads(served.stdout)["id"]) == (0, 7)
    assert typed("serve", "--workspace", "/no/such/place").returncode == 2


# Without the extra


def without_the_extra(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    program = "import sys; sys.modules['click'] = None; from fable_exec.__main__ import main; sys.exit(main(sys.argv[1:]))"
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], env=environment(), input=b"", capture_output=True, timeout=30
    )


@pytest.mark.parametrize(
    "arguments, status",
    [(["--help"], 1), ([], 1), (["doctor"], 1), (["run", "--", "true"], 125), (["deadline", "1", "1", "--", "true"], 125)],
)
def test_without_the_extra_one_line_says_how_to_install_it(arguments: list[str], status: int) -> None:
    finished = without_the_extra(*arguments)
    assert (finished.returncode, finished.stdout) == (status, b"")
    assert finished.stderr.count(b"\n") == 1
    assert b"pip install '.[cli]' in a checkout, or 'fable-exec[cli]' from an index" in finished.stderr


def test_without_the_extra_serve_serves(workspace: Path) -> None:
    finished = without_the_extra("serve", "--workspace", str(workspace))
    assert (finished.returncode, finished.stderr) == (0, b"")


def test_the_console_entry_is_this_program() -> None:
    entry = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["scripts"]["fable-exec"]
    assert entry == "fable_exec.__main__:main"


# probe


def test_probe_prints_what_the_wire_says(workspace: Path) -> None:
    result = the_object(typed_here("probe", "--workspace", str(workspace), "--json"))["result"]
    assert (result["host"], result["workspace"], result["writes_enabled"]) == ("fable-execution-broker", str(workspace), False)
    assert {"capabilities", "available_executables", "confinement", "limits", "policy_digest"} <= result.keys()


def test_probe_for_people_goes_to_standard_error(workspace: Path) -> None:
    finished = typed_here("probe", cwd=workspace)
    assert (finished.returncode, finished.stdout) == (0, b"")
    assert str(workspace) in finished.stderr.decode()


def test_probe_takes_a_policy_and_refuses_one_with_faults(workspace: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text(f'workspace = "{workspace}"\nallowed_executables = ["true", "no-such-program"]\n')
    result = the_object(typed_here("probe", "--policy", str(policy), "--json"))["result"]
    assert (result["available_executables"], result["unresolved_executables"]) == (["true"], ["no-such-program"])
    policy.write_text("workspace = 3\n")
    refused = typed_here("probe", "--policy", str(policy), "--json")
    assert (refused.returncode, the_object(refused)["ok"]) == (2, False)


# policy


@pytest.fixture
def valid(workspace: Path, tmp_path: Path) -> Path:
    path = tmp_path / "valid.toml"
    path.write_text(f'workspace = "{workspace}"\nallowed_executables = ["git"]\n[limits]\ntimeout_seconds = 7\n')
    return path


@pytest.fixture
def faulty(tmp_path: Path) -> Path:
    path = tmp_path / "faulty.toml"
    path.write_text('workspace = "/no/such/place"\nmax_output_bytes = "many"\ncolour = 1\n[limits]\ntimeout_seconds = -1\n')
    return path


FAULTS = ["workspace", "max_output_bytes", "limits.timeout_seconds", "colour"]


def test_a_valid_policy_checks(valid: Path) -> None:
    finished = typed_here("policy", "check", str(valid))
    assert (finished.returncode, finished.stdout) == (0, b"")
    digest = load_policy(valid).digest
    assert digest in finished.stderr.decode()
    members = {"schema_version": 1, "ok": True, "faults": [], "warnings": [], "policy_digest": digest}
    assert the_object(typed_here("policy", "check", "--json", str(valid))) == members


def test_every_fault_of_a_policy_is_listed_with_its_place(faulty: Path) -> None:
    finished = typed_here("policy", "check", str(faulty))
    assert (finished.returncode, finished.stdout) == (2, b"")
    lines = finished.stderr.decode().splitlines()
    assert sorted(line.split(": ")[1] for line in lines) == sorted(FAULTS)
    as_object = typed_here("policy", "check", str(faulty), "--json")
    answer = the_object(as_object)
    assert (as_object.returncode, answer["ok"]) == (2, False)
    assert sorted(fault["path"] for fault in answer["faults"]) == sorted(FAULTS)
    assert all(fault["message"] for fault in answer["faults"])


@pytest.mark.parametrize("name", ["missing.toml", "directory.toml", "policy.yaml", "broken.toml", "latin.json"])
def test_a_file_that_is_no_policy_is_a_fault(name: str, tmp_path: Path) -> None:
    (tmp_path / "directory.toml").mkdir()
    (tmp_path / "policy.yaml").write_text("workspace: /tmp\n")
    (tmp_path / "broken.toml").write_text("workspace = \n")
    (tmp_path / "latin.json").write_bytes(b'{"workspace": "\xe9"}')
    for action in ("check", "show"):
        finished = typed_here("policy", action, name, cwd=tmp_path)
        assert (finished.returncode, finished.stdout) == (2, b"")
        assert finished.stderr.count(b"\n") == 1


def test_the_shown_policy_is_a_policy_again_with_the_same_digest(valid: Path, tmp_path: Path) -> None:
    finished = typed_here("policy", "show", str(valid))
    assert (finished.returncode, finished.stderr) == (0, b"")
    shown = tmp_path / "shown.toml"
    shown.write_bytes(finished.stdout)
    assert load_policy(shown).digest == load_policy(valid).digest
    assert tomllib.loads(finished.stdout.decode())["max_output_bytes"] == 1_000_000
    answer = the_object(typed_here("policy", "show", "--json", str(valid)))
    assert BrokerPolicy.from_mapping(answer["policy"]).digest == answer["policy_digest"]


@pytest.mark.parametrize("action", ["check", "verify", "show"])
def test_a_policy_without_a_workspace_is_judged_in_the_one_that_is_named(action: str, tmp_path: Path) -> None:
    policy, place = tmp_path / "policy.toml", tmp_path / "w"
    place.mkdir()
    policy.write_text('allowed_executables = ["true"]\n')
    assert typed_here("policy", action, str(policy)).returncode == 2
    answer = the_object(typed_here("policy", action, "--workspace", "w", "--json", str(policy), cwd=tmp_path))
    assert answer["policy_digest"] == BrokerPolicy(workspace=place, allowed_executables=("true",)).digest
    policy.write_text('workspace = "/no/such/place"\nallowed_executables = ["true"]\n')
    assert the_object(typed_here("policy", action, "--json", str(policy), "--workspace", str(place))) == answer
    told = typed_here("policy", action, "--workspace", "/no/such/place", str(policy)).stderr.decode()
    assert told.startswith("fable-exec: --workspace: must be an existing directory")


def test_the_schema_accepts_what_is_shown(valid: Path) -> None:
    schema = json.loads(typed_here("policy", "schema").stdout)
    assert schema == json_schema()
    jsonschema.validate(the_object(typed_here("policy", "show", "--json", str(valid)))["policy"], schema)


# audit


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "audit.jsonl"
    with AuditLog(path) as audit:
        for number in range(5):
            audit.append("decision", number=number)
    return path


def test_a_log_that_holds_verifies(log: Path) -> None:
    report = the_object(typed_here("audit", "verify", "--json", str(log)))
    assert (report["ok"], report["lines"], report["first_bad"]) == (True, 5, None)
    finished = typed_here("audit", "verify", str(log), "--head", report["head"]["digest"].upper())
    assert (finished.returncode, finished.stdout) == (0, b"")
    assert report["head"]["digest"] in finished.stderr.decode()


def test_a_broken_log_exits_1_and_names_the_line(log: Path) -> None:
    log.write_bytes(log.read_bytes().replace(b'"number":2', b'"number":9'))
    finished = typed_here("audit", "verify", str(log))
    assert (finished.returncode, finished.stdout) == (1, b"")
    assert b"BROKEN" in finished.stderr and b"line 3" in finished.stderr
    as_object = typed_here("audit", "verify", "--json", str(log))
    assert (as_object.returncode, the_object(as_object)["first_bad"]) == (1, 3)


def test_a_cut_log_is_found_with_its_head(log: Path) -> None:
    head = the_object(typed_here("audit", "verify", "--json", str(log)))["head"]["digest"]
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))
    assert typed_here("audit", "verify", str(log)).returncode == 0
    assert typed_here("audit", "verify", str(log), "--head", head).returncode == 1


@pytest.mark.parametrize("name", ["missing", "directory", "fifo"])
def test_a_log_that_cannot_be_read_exits_2(name: str, tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "fifo")
    finished = typed_here("audit", "verify", name, cwd=tmp_path)
    assert (finished.returncode, finished.stdout) == (2, b"")
    assert b"Traceback" not in finished.stderr


# Colours


def at_a_terminal(*arguments: str, cwd: Path, **variables: str) -> bytes:
    """What a terminal shows of it."""
    master, slave = pty.openpty()
    process = subprocess.Popen([*PROGRAM, *arguments], env=environment(**variables), cwd=cwd, stdout=slave, stderr=slave)
    os.close(slave)
    shown = b""
    with os.fdopen(master, "rb", buffering=0) as terminal:
        while True:
            try:
                data = terminal.read(4096)
            except OSError:  # EIO: the last program at the terminal has ended
                break
            if not data:
                break
            shown += data
    assert process.wait(timeout=30) in (0, 1)
    return shown


@pytest.mark.parametrize(
    "variables, colored",
    [
        ({"TERM": "xterm-256color"}, True),
        ({"TERM": "dumb"}, False),
        ({}, False),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "xterm", "NO_COLOR": ""}, True),
        ({"TERM": "xterm", "NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, True),
    ],
    ids=str,
)
def test_a_terminal_gets_colours_when_it_wants_them(variables: dict[str, str], colored: bool, workspace: Path) -> None:
    shown = at_a_terminal("doctor", "--confinement", "off", cwd=workspace, **variables)
    assert b"whole_tree_end" in shown
    assert (b"\x1b[" in shown) is colored


def test_elsewhere_colours_come_only_when_forced(workspace: Path) -> None:
    assert b"\x1b[" not in typed_here("doctor", cwd=workspace, env={"TERM": "xterm"}).stderr
    assert b"\x1b[" in typed_here("doctor", cwd=workspace, env={"TERM": "xterm", "FORCE_COLOR": "1"}).stderr
    assert b"\x1b" not in typed_here("doctor", "--json", cwd=workspace, env={"FORCE_COLOR": "1"}).stdout


def test_words_of_a_policy_cannot_address_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "evil.toml").write_text('"\\u001b]0;x\\u0007\\u202e\\nline" = 1\n')
    finished = typed_here("policy", "check", "evil.toml", cwd=tmp_path)
    assert finished.returncode == 2
    assert not {"\x1b", "\x07", "\u202e"} & set(finished.stderr.decode())


def test_a_workspace_with_an_evil_name_is_shown_safely(tmp_path: Path) -> None:
    evil = tmp_path / "\x1b[31m[bold]red\u202e"
    evil.mkdir()
    shown = typed_here("probe", "--workspace", str(evil)).stderr.decode()
    assert "\\x1b[31m[bold]red\\u202e" in shown
    assert not {"\x1b", "\u202e"} & set(shown)
