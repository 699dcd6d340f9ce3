"""What a command finds around it, and what is said of its end: exact, in every launch mode, whatever the host looks like."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fable_exec.errors import LaunchFailed
from fable_exec.runner import Command, EndedBy, Runner
from tests.commands import ENVIRONMENT, command, ending, executable, new_runner, python, shell

_REPORT = """
import json, os, resource, signal, sys
blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
status = open("/proc/self/status").read()
def field(name):
    return next(line.split()[1] for line in status.splitlines() if line.startswith(name + ":"))
try:
    os.open("/dev/tty", os.O_RDWR)
    terminal = "yes"
except OSError as error:
    terminal = error.errno
umask = os.umask(0)
print(json.dumps({
    "argv": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd(), "umask": umask, "terminal": terminal,
    "session": os.getsid(0) == os.getpid(), "group": os.getpgrp() == os.getpid(),
    "fds": sorted(int(fd) for fd in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + fd)),
    "blocked": field("SigBlk"), "ignored": field("SigIgn"), "no_new_privs": field("NoNewPrivs"), "caps": field("CapEff"),
    "core": resource.getrlimit(resource.RLIMIT_CORE),
}))
"""
_IGNORED_BY_PYTHON = (1 << (signal.SIGPIPE - 1)) | (1 << (signal.SIGXFSZ - 1))
_OF_THE_C_LIBRARY = 0b11 << 31
"""Signals 32 and 33, which glibc's posix_spawn leaves ignored; a program's own C library sets them when it needs them."""


def report(runner: Runner, *arguments: str, **more: object) -> dict[str, object]:
    outcome = runner.run(python(_REPORT, *arguments, **more))
    assert ending(outcome) == ("exited", 0, None), outcome.stderr
    found: dict[str, object] = json.loads(outcome.stdout.raw)
    return found


def test_a_command_has_its_own_session_no_terminal_no_descriptors_and_default_signals(runner: Runner) -> None:
    found = report(runner)
    assert (found["session"], found["group"], found["terminal"]) == (True, True, 6)
    assert found["fds"] == [0, 1, 2]
    assert found["umask"] == 0o022
    assert int(str(found["blocked"]), 16) == 0
    assert int(str(found["ignored"]), 16) & ~_IGNORED_BY_PYTHON & ~_OF_THE_C_LIBRARY == 0
    assert (found["no_new_privs"], int(str(found["caps"]), 16), found["core"]) == ("1", 0, [0, 0])


def test_no_signal_is_ignored_or_blocked_even_by_a_program_that_changes_nothing(runner: Runner) -> None:
    outcome = runner.run(command("grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"))
    assert [int(line.split()[1], 16) & ~_OF_THE_C_LIBRARY for line in outcome.stdout.raw.splitlines()] == [0, 0]


@pytest.mark.parametrize(
    "arguments", [(), ("",), ("", "a b", "", "\n", "*", "ünï€😀", "-" * 1000, "\udcff\udc80"), ("x",) * 5000]
)
def test_arguments_arrive_as_they_are(runner: Runner, arguments: tuple[str, ...]) -> None:
    assert tuple(report(runner, *arguments)["argv"]) == arguments  # type: ignore[arg-type]  # JSON's list


def test_the_environment_is_what_was_given_and_the_private_places(runner: Runner) -> None:
    given = {"EMPTY": "", "UNICODE": "ü€😀", "LINES": "a\nb", "BYTES": "\udcff", **ENVIRONMENT}
    found = report(runner, environment=given)["env"]
    assert isinstance(found, dict)
    private = {name: found.pop(name) for name in ("HOME", "TMPDIR", "TEMP", "TMP", "TMPPREFIX")}
    found.pop("LC_CTYPE", None)  # Python sets it for itself
    assert found == given
    assert private["TMPDIR"] == private["TEMP"] == private["TMP"] != private["HOME"]
    assert private["TMPPREFIX"] == private["TMPDIR"] + "/zsh"


def test_a_large_environment_and_many_arguments_arrive(runner: Runner) -> None:
    given = {**ENVIRONMENT, **{f"V{number}": "x" * 1000 for number in range(500)}}
    outcome = runner.run(command("sh", "-c", "env | wc -c; echo $#", "sh", *["y" * 1000] * 500, environment=given))
    size, count = map(int, outcome.stdout.raw.split())
    assert size > 500_000 and count == 500


def test_home_and_temporary_directory_are_private_shared_and_gone_after_close(workspace: Path, mode: str) -> None:
    runner = new_runner(workspace, mode)
    try:
        made = runner.run(
            shell('echo kept > "$HOME/note"; mkdir -p "$TMPDIR/a/b"; chmod 0 "$TMPDIR/a"; stat -c %a "$HOME"; echo "$HOME"')
        )
        again = runner.run(shell('cat "$HOME/note"'))
    finally:
        runner.close()
    rights, home = made.stdout.text().split()
    assert (rights, again.stdout.raw) == ("700", b"kept\n")
    assert not Path(home).exists() and not Path(home).parent.exists()


@pytest.mark.parametrize("code", [0, 1, 2, 126, 127, 128, 255])
def test_exit_codes_are_the_kernels(runner: Runner, code: int) -> None:
    assert ending(runner.run(shell(f"exit {code}"))) == ("exited", code, None)


@pytest.mark.deep
def test_all_exit_codes_and_all_signals(runner: Runner, mode: str) -> None:
    for code in range(256):
        assert ending(runner.run(shell(f"exit {code}"))) == ("exited", code, None)
    if mode != "namespace":
        for number in sorted(signal.valid_signals()):
            check_signal(runner, number)


@pytest.mark.parametrize(
    "number", [signal.SIGHUP, signal.SIGINT, signal.SIGPIPE, signal.SIGTERM, signal.SIGSEGV, signal.SIGKILL, 34, 64]
)
def test_signals_are_the_kernels(runner: Runner, mode: str, number: int) -> None:
    if mode == "namespace":
        pytest.skip("the leader is process 1 there: signals that it does not handle do not reach it from inside")
    check_signal(runner, number)


def check_signal(runner: Runner, number: int) -> None:
    harmless = {signal.SIGCHLD, signal.SIGURG, signal.SIGWINCH, signal.SIGCONT}
    # A session leader without a terminal: the three stops from a terminal do nothing to an orphaned process group.
    stopping = {signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}
    deadline = 0.3 if number in harmless | stopping else 20.0  # a busy machine may take its time to kill
    program = f"$SIG{{FPE}} = 'DEFAULT'; kill {int(number)}, $$; sleep 1; exit 7"  # perl ignores SIGFPE by itself
    outcome = runner.run(command("perl", "-e", program, timeout_seconds=deadline))
    if number == signal.SIGSTOP:
        assert ending(outcome)[0] == "timed_out"
    elif number in harmless | stopping:
        assert ending(outcome)[0] in ("exited", "timed_out")
    else:
        assert ending(outcome) == ("signaled", None, int(number))


def test_a_leader_in_a_fresh_namespace_is_process_one(workspace: Path) -> None:
    runner = new_runner(workspace, "namespace")
    try:
        assert runner.run(shell("echo $$")).stdout.raw == b"1\n"
        assert ending(runner.run(shell("kill -TERM $$; exit 3"))) == ("exited", 3, None)
    finally:
        runner.close()


def test_the_namespace_that_is_made_ahead_is_of_one_command_whatever_became_of_the_one_before(workspace: Path) -> None:
    script = workspace / "nothing"
    script.write_text("#!/missing/interpreter\n")
    script.chmod(0o755)
    never_forked, died_at_exec = command("true", cwd=("missing",)), command(str(script))
    runner = new_runner(workspace, "namespace")
    try:
        for before in (command("true"), never_forked, died_at_exec, died_at_exec, never_forked):
            with contextlib.suppress(LaunchFailed):
                runner.run(before)
            outcome = runner.run(shell("echo $$; readlink /proc/self/ns/pid"))
            number, namespace = outcome.stdout.raw.decode().split()
            assert number == "1" and namespace != os.readlink("/proc/self/ns/pid")
        with runner.start(shell("read line; echo $$", open_stdin=True)) as waiting:
            assert runner.run(shell("echo $$")).stdout.raw == b"1\n"
            waiting.close_stdin()
            ended = waiting.wait()
            assert ended is not None and ended.stdout.raw == b"1\n"
    finally:
        runner.close()


def test_the_working_directory_is_reached_component_by_component(runner: Runner, workspace: Path) -> None:
    (workspace / "a" / "b c").mkdir(parents=True)
    (workspace / "link").symlink_to("a")
    assert report(runner, cwd=("a", "b c"))["cwd"] == str(workspace / "a" / "b c")
    for cwd, number in ((("link",), 20), (("missing",), 2), (("a", "..", "..", "tmp"), 18)):
        with pytest.raises(LaunchFailed) as caught:
            runner.run(command("true", cwd=cwd))
        assert (caught.value.stage, caught.value.errno in (number, 40)) == ("cwd", True)
    assert ending(runner.run(command("true"))) == ("exited", 0, None)


def program(workspace: Path, name: str, text: bytes, mode: int = 0o755) -> str:
    path = workspace / name
    path.write_bytes(text)
    path.chmod(mode)
    return str(path)


@pytest.mark.parametrize(
    ("name", "text", "rights", "number"),
    [
        ("no-interpreter", b"#!/no/such/interpreter\n", 0o755, 2),
        ("no-format", b"\0\1\2\3", 0o755, 8),
        ("no-right", b"#!/bin/sh\n", 0o644, 13),
        ("no-format", b"", 0o755, 8),
    ],
)
def test_what_cannot_be_executed_is_a_failure_with_the_kernels_word(
    runner: Runner, workspace: Path, name: str, text: bytes, rights: int, number: int
) -> None:
    path = program(workspace, name, text, rights)
    for by_descriptor in (False, True):
        with pytest.raises(LaunchFailed) as caught:
            runner.run(_of(path, by_descriptor=by_descriptor))
        assert (caught.value.stage, caught.value.errno) == ("exec", number)
    assert ending(runner.run(command("true"))) == ("exited", 0, None)


def _of(path: str, **more: object) -> Command:
    return Command(argv=(path,), executable=executable(path, **more), environment=ENVIRONMENT)


def test_a_directory_is_not_executed(runner: Runner, workspace: Path) -> None:
    (workspace / "folder").mkdir()
    with pytest.raises(LaunchFailed) as caught:
        runner.run(_of(str(workspace / "folder")))
    assert (caught.value.stage, caught.value.errno) == ("exec", 13)


@pytest.mark.parametrize("argument", ["x" * (256 << 10), "x" * (3 << 20)])
def test_an_argument_beyond_the_kernels_limit_is_a_failure_and_the_next_command_runs(runner: Runner, argument: str) -> None:
    with pytest.raises(LaunchFailed) as caught:
        runner.run(command("true", argument))
    assert (caught.value.stage, caught.value.errno) == ("exec", 7)
    assert ending(runner.run(command("true"))) == ("exited", 0, None)


@pytest.mark.parametrize("argument", ["nul\0inside", "\ud800"])
def test_an_argument_that_is_no_argument_is_a_failure(runner: Runner, argument: str) -> None:
    with pytest.raises(LaunchFailed):
        runner.run(command("true", argument))
    assert ending(runner.run(command("true"))) == ("exited", 0, None)


def test_an_executable_that_was_exchanged_is_not_executed(runner: Runner, workspace: Path) -> None:
    path = program(workspace, "tool", b"#!/bin/sh\necho first\n")
    checked = _of(path)
    assert runner.run(checked).stdout.raw == b"first\n"
    os.rename(program(workspace, "other", b"#!/bin/sh\necho second\n"), path)
    with pytest.raises(LaunchFailed) as caught:
        runner.run(checked)
    assert (caught.value.stage, caught.value.errno) == ("executable", 116)


def test_names_that_are_not_utf8_work(runner: Runner, workspace: Path) -> None:
    folder = os.fsencode(workspace) + b"/caf\xe9"
    os.mkdir(folder)
    tool = os.fsdecode(folder + b"/t\xffol")
    program(Path(os.fsdecode(folder)), os.path.basename(tool), b"#!/bin/sh\npwd\n")
    outcome = runner.run(
        Command(argv=(tool,), executable=executable(tool), environment=ENVIRONMENT, cwd=(os.fsdecode(b"caf\xe9"),))
    )
    assert outcome.stdout.raw == folder + b"\n"


def test_a_workspace_that_was_moved_or_replaced_is_a_failure_and_not_another_place(tmp_path: Path, mode: str) -> None:
    place = tmp_path / "place"
    place.mkdir(mode=0o700)
    runner = new_runner(place, mode)
    try:
        assert ending(runner.run(command("true"))) == ("exited", 0, None)
        place.rename(tmp_path / "moved")
        for make in (lambda: None, lambda: place.mkdir(mode=0o700), lambda: place.rmdir()):
            make()
            with pytest.raises(LaunchFailed) as caught:
                runner.run(command("true"))
            assert caught.value.stage == "workspace"
        (tmp_path / "moved").rename(place)
        assert ending(runner.run(command("true"))) == ("exited", 0, None)
    finally:
        runner.close()


def test_removing_the_workspace_under_a_running_command_does_not_trouble_the_answer(tmp_path: Path, mode: str) -> None:
    place = tmp_path / "place"
    place.mkdir(mode=0o700)
    runner = new_runner(place, mode)
    try:
        outcome = runner.run(shell('rmdir "$OLD"; echo gone; exit 4', environment={**ENVIRONMENT, "OLD": str(place)}))
        assert (ending(outcome), outcome.stdout.raw) == (("exited", 4, None), b"gone\n")
    finally:
        runner.close()


@pytest.mark.parametrize("by_descriptor", [False, True])
def test_scripts_and_programs_run_by_path_and_by_the_checked_descriptor(
    runner: Runner, workspace: Path, by_descriptor: bool
) -> None:
    path = program(workspace, "script", b'#!/bin/sh\necho "script $1"\n')
    script = Command(
        argv=(path, "x"), executable=executable(path, by_descriptor=by_descriptor, is_script=True), environment=ENVIRONMENT
    )
    assert runner.run(script).stdout.raw == b"script x\n"
    binary = Command(argv=("echo", "y"), executable=executable("echo", by_descriptor=by_descriptor), environment=ENVIRONMENT)
    assert runner.run(binary).stdout.raw == b"y\n"


@pytest.mark.parametrize("mode", ["slots", "plain"], indirect=True)
def test_only_what_had_to_be_ended_is_a_survivor(runner: Runner) -> None:
    # The counter waits for the leader's end, and finishes by itself while the output is drained.
    counter = "exec 3> >(read; for ((n = 0; n < 200; n++)); do echo $n; done)"
    finishing = runner.run(shell(f"{counter}; echo go"))
    assert (finishing.stdout.raw[-4:], finishing.survivors) == (b"199\n", ())
    staying = runner.run(shell(f"{counter}; sleep 30 3>&- & echo go"))
    assert staying.stdout.raw[-4:] == b"199\n"
    assert [survivor.name for survivor in staying.survivors] == ["sleep"]


@pytest.mark.parametrize("mode", ["slots", "plain"], indirect=True)
def test_a_survivors_number_is_the_one_that_the_command_saw(runner: Runner, mode: str) -> None:
    outcome = runner.run(shell("sleep 30 & echo $!; readlink /proc/self/ns/pid"))
    seen, namespace = outcome.stdout.raw.decode().split()
    assert [(survivor.pid, survivor.name) for survivor in outcome.survivors] == [(int(seen), "sleep")]
    assert (namespace == os.readlink("/proc/self/ns/pid")) == (mode == "plain")


def test_whoever_a_deadline_had_to_end_is_a_survivor_every_time(runner: Runner, mode: str) -> None:
    if mode == "namespace":
        pytest.skip("everything ends with the leader there")
    for text, names in (("sleep 30; true", ["sleep"]), ("setsid sleep 30 & sleep 31; true", ["sleep", "sleep"])):
        for _ in range(4):
            outcome = runner.run(shell(f"echo go; {text}", timeout_seconds=0.7))
            assert outcome.stdout.raw == b"go\n"
            assert [survivor.name for survivor in outcome.survivors] == names


def test_usage_and_duration_are_of_this_command(runner: Runner) -> None:
    outcome = runner.run(python("x = bytearray(60_000_000)\nimport time\nfor _ in range(600_000): pass\ntime.sleep(0.1)"))
    assert outcome.peak_rss_bytes > 60_000_000
    assert 0.0 < outcome.user_cpu_seconds < 30 and outcome.duration_seconds > 0.1
    small = runner.run(command("true"))
    assert small.peak_rss_bytes < 60_000_000 and small.ended_by is EndedBy.EXITED


def test_a_blocked_and_ignoring_host_passes_nothing_on(workspace: Path, mode: str) -> None:
    host = f"""
import signal, sys
from pathlib import Path
from tests.commands import *
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
for number in signal.valid_signals() - {{signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}}:
    signal.signal(number, signal.SIG_IGN)
runner = new_runner(Path({str(workspace)!r}), {mode!r})
print(runner.run(command("grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status")).stdout.text())
runner.close()
"""
    done = subprocess.run([sys.executable, "-c", host], capture_output=True, text=True, check=True, timeout=60)
    assert [int(line.split()[1], 16) & ~_OF_THE_C_LIBRARY for line in done.stdout.split("\n") if line] == [0, 0]
