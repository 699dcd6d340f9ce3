"""What is wrong is told in the words that were typed: the option, the file, the program, each with what to do."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from pathlib import Path

import pytest

from fable_exec.runtimes import what_is_missing
from tests.cli.typed import PROGRAM, environment, started, the_object, typed, typed_here


def told(*arguments: str, cwd: Path | None = None) -> str:
    """The one line that a refused command line gets."""
    finished = typed_here(*arguments, cwd=cwd)
    assert (finished.returncode != 0, finished.stdout) == (True, b"")
    (line,) = finished.stderr.decode().splitlines()
    return line.removeprefix("fable-exec: ")


OPTIONS = {
    "--timeout 0 must be more than 0 and at most 3600 seconds": ["--timeout", "0"],
    "--timeout -1.5 must be more than 0": ["--timeout", "-1.5"],
    "--timeout nan must be finite": ["--timeout", "nan"],
    "--timeout 3601 must be": ["--timeout", "3601"],
    "--idle-timeout 0 must be": ["--idle-timeout", "0"],
    "--cwd '' must not be blank": ["--cwd", ""],
    "--cwd 'nowhere' (not-found): nothing has that name": ["--cwd", "nowhere"],
    "--cwd 'file' (not-a-directory): ": ["--cwd", "file"],
    "--cwd '..' refused (dotdot): ": ["--cwd", ".."],
    "--cwd '/usr' refused (absolute): ": ["--cwd", "/usr"],
    "--cwd 'link' refused (symlink): ": ["--cwd", "link"],
    "--workspace: must be an existing directory: '/no/such/place'": ["--workspace", "/no/such/place"],
    "--allow: none of no-such-program could be found in ": ["--allow", "no-such-program"],
    "--allow: must be a bare name or an absolute path: 'bin/true'": ["--allow", "true", "--allow", "bin/true"],
}


@pytest.mark.requires_ability("confinement")
@pytest.mark.parametrize(("words", "flags"), OPTIONS.items(), ids=OPTIONS)
def test_a_refused_option_of_run_is_named_as_it_was_typed(words: str, flags: list[str], workspace: Path) -> None:
    (workspace / "file").touch()
    (workspace / "link").symlink_to(".")
    assert told("run", "--workspace", str(workspace), *flags, "--", "true").startswith(words)


def test_a_timeout_beyond_the_policys_is_named_as_it_was_typed_and_one_of_the_policy_is_not(
    workspace: Path, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text(f'workspace = "{workspace}"\nallowed_executables = ["true"]\n[limits]\ntimeout_seconds = 5\n')
    with policy.open("a") as file:
        file.write("max_timeout_seconds = 7\n")
    words = told("run", "--policy", str(policy), "--timeout", "8", "--", "true")
    assert words == "--timeout 8 must be at most 7 under this policy"
    policy.write_text('workspace = "/no/such/place"\n[limits]\ntimeout_seconds = 0\n')
    finished = typed_here("run", "--policy", str(policy), "--", "true").stderr.decode()
    assert "fable-exec: workspace: " in finished and "fable-exec: limits.timeout_seconds: " in finished


@pytest.mark.parametrize("line", ["ls | wc", "cat /etc/hosts", "ls -l"])
def test_a_line_for_a_shell_is_told_that_no_shell_reads_it(line: str, workspace: Path) -> None:
    words = told("run", "--workspace", str(workspace), "--", line)
    assert words.endswith("no shell reads it: give the program and each argument apart, or a shell with -c and the line")
    assert "shell" not in told("run", "--workspace", str(workspace), "--", "no-such-program")


def complaint(*arguments: str) -> str:
    """The last line of what wrong usage gets."""
    finished = typed_here(*arguments)
    assert (finished.returncode, finished.stdout) == (2, b"")
    return finished.stderr.decode().splitlines()[-1].removeprefix("Error: ")


def test_a_misspelt_option_is_never_taken_for_one_that_lets_a_command_do_more(workspace: Path) -> None:
    flags = ["--workspace", str(workspace)]
    for misspelt in ("--nope", "--unlock", "--unlockd", "--allw", "--allow-executabl"):
        assert complaint("run", *flags, misspelt, "--", "true") == f"No such option '{misspelt}'."
    assert complaint("run", *flags, "--workspac", "3", "--", "true") == "No such option '--workspac'. Did you mean '--workspace'?"


@pytest.mark.parametrize(
    ("typed_words", "told_words"),
    [
        ("--workspace . run -- ls", "'--workspace' before the command; it may belong after it: fable-exec run --workspace."),
        ("--json probe", "'--json' before the command; it may belong after it: fable-exec probe --json."),
        ("--admin-fd 3 serve", "'--admin-fd' before the command; it may belong after it: fable-exec serve --admin-fd."),
        ("policy --json check x", "'--json' before the command; it may belong after it: fable-exec policy check --json."),
        ("--nope", "'--nope' before the command."),
    ],
)
def test_an_option_that_stands_before_its_command_is_told_its_place(typed_words: str, told_words: str) -> None:
    assert complaint(*typed_words.split()) == f"No such option {told_words}"


def test_a_flag_that_stands_after_the_program_is_told_to_be_the_programs(workspace: Path) -> None:
    missing = "Give --workspace, or a --policy that names one."
    for flag in (["--workspace", str(workspace)], [f"--workspace={workspace}"], ["--policy", "x"]):
        words = f"{missing} {flag[0]} stands after ls, so it is that program's: put our flags before the program."
        assert complaint("run", "ls", *flag) == words
    assert complaint("run", "ls", "-l") == missing


def test_the_workspace_of_probe_is_named_as_it_was_typed() -> None:
    assert told("probe", "--workspace", "/no/such/place").startswith("--workspace: must be an existing directory")


TAKE_A_FILE = {
    "policy check": ["policy", "check", "FILE"],
    "policy show": ["policy", "show", "FILE"],
    "run": ["run", "--policy", "FILE", "--", "true"],
    "probe": ["probe", "--policy", "FILE"],
    "doctor": ["doctor", "--policy", "FILE"],
    "audit verify": ["audit", "verify", "FILE"],
    "serve": ["serve", "--policy", "FILE"],
    "serve with a digest": ["serve", "--workspace", ".", "--write-token-digest-file", "FILE"],
}


@pytest.mark.parametrize("arguments", TAKE_A_FILE.values(), ids=TAKE_A_FILE)
@pytest.mark.parametrize("name", ["missing.toml", "MISSING"])
def test_a_file_that_is_not_there_is_told_to_be_missing_with_its_name(arguments: list[str], name: str, tmp_path: Path) -> None:
    line = told(*(name if word == "FILE" else word for word in arguments), cwd=tmp_path)
    assert "no such file" in line.lower() and name in line


def test_an_audit_log_without_a_directory_is_found_by_a_check_and_before_anything_runs(workspace: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    log = tmp_path / "nowhere" / "audit.jsonl"
    policy.write_text(f'workspace = "{workspace}"\nallowed_executables = ["touch"]\n[audit]\npath = "{log}"\n')
    words = f"audit.path: its directory does not exist; make it, or name a file elsewhere: '{log}'"[:150]
    assert told("policy", "check", str(policy)).startswith(words)
    assert told("run", "--policy", str(policy), "--unlocked", "--", "touch", "file").startswith(words)
    assert list(workspace.iterdir()) == [] and not log.parent.exists()


def test_a_check_finds_what_a_broker_would_refuse_at_its_start(workspace: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text(
        f'workspace = "{workspace}"\nallowed_executables = ["no-such-program"]\n'
        f'[argument_rules]\ndocuments = ["{tmp_path}/missing.toml"]\n'
    )
    finished = typed_here("policy", "check", str(policy))
    assert (finished.returncode, finished.stdout) == (2, b"")
    none_found, no_rules = finished.stderr.decode().splitlines()
    assert "allowed_executables: none of no-such-program could be found in " in none_found
    assert "argument_rules.documents[0]: no such file: " in no_rules


def test_a_check_tells_a_relative_path_from_rules_and_bad_rules_by_their_place(workspace: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    start = f'workspace = "{workspace}"\nallowed_executables = ["true"]\n[argument_rules]\n'
    policy.write_text(start + 'documents = ["rules.toml"]\n')
    words = "argument_rules.documents[0]: must be TOML text or the absolute path of a TOML file: 'rules.toml'"
    assert told("policy", "check", str(policy)) == words
    policy.write_text(start + 'documents = ["names ="]\n')
    assert told("policy", "check", str(policy)).startswith("argument_rules.documents[0]: not a TOML document: ")


def test_a_check_warns_of_what_the_policy_names_and_this_host_does_not_have(workspace: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    gone = tmp_path / "gone"
    policy.write_text(
        f'workspace = "{workspace}"\nallowed_executables = ["true", "{gone}/build", "no-such-program"]\n'
        f'[environment]\npath = ["/bin", "/usr/bin", "{gone}"]\n'
        f'[confinement]\nruntime_read_paths = ["{tmp_path}", "{gone}"]\n'
        '[argument_rules]\ntools = ["git", "nosuchtool"]\n'
    )
    warnings = {
        "allowed_executables[1]": f"'{gone}/build' cannot be run: there was no executable file {gone}/build when the broker "
        "started",
        "allowed_executables[2]": "'no-such-program' cannot be run: it was not found in environment.path when the broker started",
        "confinement.runtime_read_paths[1]": f"'{gone}' is not there, so commands get nothing of it",
        "environment.path[2]": f"'{gone}' is no directory, so no program is found in it",
        "argument_rules.tools[1]": "no rule is for a tool of the name 'nosuchtool'",
    }
    finished = typed_here("policy", "check", str(policy))
    assert (finished.returncode, finished.stdout) == (0, b"")
    *warned, valid = finished.stderr.decode().splitlines()
    assert warned == [f"fable-exec: warning: {place}: {text}" for place, text in warnings.items()]
    assert valid.startswith("fable-exec: valid: ")
    told_in_json = the_object(typed_here("policy", "check", "--json", str(policy)))
    assert told_in_json["ok"] and {each["path"]: each["message"] for each in told_in_json["warnings"]} == warnings

    probed = the_object(typed_here("probe", "--json", "--policy", str(policy)))["result"]
    assert probed["notes"] == [f"{place}: {text}" for place, text in warnings.items() if "allowed" not in place]
    assert probed["unresolved_executables"] == ["build", "no-such-program"]


def test_a_check_warns_of_nothing_where_all_is_there_and_of_no_default(workspace: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps({"workspace": str(workspace)}))
    assert the_object(typed_here("policy", "check", "--json", str(policy)))["warnings"] == []
    own = '[[tool]]\nnames=["frob"]\nmatch=["frob"]\nno_match=["frob -x"]'
    rules = {"tools": ["git", "frob"], "documents": [own]}
    policy.write_text(json.dumps({"workspace": str(workspace), "allowed_executables": ["true"], "argument_rules": rules}))
    assert the_object(typed_here("policy", "check", "--json", str(policy)))["warnings"] == []


def test_doctor_says_that_no_broker_starts_where_no_program_is_found(workspace: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text(f'workspace = "{workspace}"\nallowed_executables = ["no-such-program"]\n')
    finished = typed_here("doctor", "--policy", str(policy))
    assert finished.returncode == 1
    assert "No broker starts under this policy" in finished.stderr.decode() and b"commands can run" not in finished.stderr
    (found,) = the_object(typed_here("doctor", "--json", "--policy", str(policy)))["programs"]
    assert (found["state"], found["mode"]) == ("unavailable", "strict") and "none of no-such-program" in found["reason"]
    policy.write_text(f'workspace = "{workspace}"\nallowed_executables = ["true", "no-such-program"]\n')
    (found,) = the_object(typed_here("doctor", "--json", "--policy", str(policy)))["programs"]
    assert (found["state"], found["means"], found["reason"]) == ("active", "true", "not found: no-such-program")
    assert the_object(typed_here("doctor", "--json"))["programs"] == []


def test_a_variable_with_a_name_that_none_can_have_is_told_so(workspace: Path) -> None:
    assert complaint("run", "--workspace", str(workspace), "--env", "A B=x", "--", "true").endswith(
        '"A B" is no name that a variable can have'
    )


SCRIPTS = {
    "no first line": (b"echo hello\n", 126, "no script either, for want of a #! line: begin it with `#!/bin/sh`"),
    "nothing": (b"", 126, "for want of a #! line"),
    "another interpreter": (b"#!/no/such/one -x\n", 127, "its #! line names the interpreter '/no/such/one', which is not there"),
    "no interpreter": (b"#! \t\n", 126, "its first line names no interpreter after #!"),
    "lines of Windows": (b"#!/bin/sh\r\necho\r\n", 127, "'/bin/sh\\r' is looked for; save it with Unix line ends"),
    "a bare name": (b"#!python3\n", 127, "the interpreter 'python3', which is no absolute path"),
    "a text as interpreter": (b"#!/etc/passwd\n", 126, "its #! line names '/etc/passwd', which is no program"),
    "a directory as interpreter": (b"#!/usr\n", 126, "its #! line names '/usr', which is no program"),
}


@pytest.mark.requires_ability("confinement")
@pytest.mark.parametrize(("content", "status", "words"), SCRIPTS.values(), ids=SCRIPTS)
@pytest.mark.parametrize("flags", [(), ("--confinement", "off", "--unlocked")], ids=["confined", "not confined"])
def test_a_script_that_cannot_be_started_is_told_what_its_first_line_lacks(
    content: bytes, status: int, words: str, flags: tuple[str, ...], workspace: Path
) -> None:
    script = workspace / "script"
    script.write_bytes(content)
    script.chmod(0o755)
    finished = typed_here("run", "--workspace", str(workspace), *flags, "--", str(script))
    (line,) = finished.stderr.decode().splitlines()
    assert line.startswith(f"fable-exec: {script}: cannot be started: ") and words in line
    assert (finished.returncode, finished.stdout) == (status, b"")


def test_nothing_is_made_up_about_a_file_that_has_no_such_fault(tmp_path: Path) -> None:
    fine = tmp_path / "fine"
    fine.write_bytes(b"#!  /bin/sh -e\n")
    machine_code = tmp_path / "machine"
    machine_code.write_bytes(b"\x7fELF of another machine")
    for path in (fine, machine_code, tmp_path / "missing", tmp_path):
        assert what_is_missing(str(path)) == ""
    assert len(what_is_missing(str(_written(tmp_path / "long", b"#!/" + b"x" * 5000)))) < 500


def _written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    "arguments", [["run", "--no-such-option"], ["policy", "check", "/no/such.toml"], ["probe", "--workspace", "/"]]
)
def test_no_word_is_lost_where_standard_error_is_full_and_does_not_block(arguments: list[str]) -> None:
    wanted = typed(*arguments).stderr
    assert wanted
    reading, writing = os.pipe()
    os.set_blocking(writing, False)  # as the event loop of a parent does that shares it
    filled = b"x" * fcntl.fcntl(writing, fcntl.F_GETPIPE_SZ)
    os.write(writing, filled)
    with open(reading, "rb") as pipe, started(*arguments, stderr=writing) as program:
        os.close(writing)
        with pytest.raises(subprocess.TimeoutExpired):
            program.wait(1)  # it waits until it has been read
        assert pipe.read() == filled + wanted
        program.communicate()


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["run", "--no-such-option"], 2),
        (["run", "--workspace", "/no", "--", "true"], 125),
        (["policy", "check", "/no.toml"], 2),
        (["digest", "/no"], 1),
        (["policy", "explain", "--workspace", ".", "--", "true"], 0),
    ],
)
@pytest.mark.parametrize("closed", ["2>&-", "<&- 2>&-", "2>/dev/full"])
def test_the_exit_status_is_the_same_where_nobody_can_be_told(
    arguments: list[str], status: int, closed: str, workspace: Path
) -> None:
    line = ["bash", "-c", f'exec "$@" {closed}', "bash", *PROGRAM, *arguments]
    done = subprocess.run(line, cwd=workspace, env=environment(), capture_output=True)
    if "full" not in closed or status:
        assert done.returncode == status
    assert b"Traceback" not in done.stdout + done.stderr
