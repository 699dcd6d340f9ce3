"""What public bug reports say went wrong with ordinary commands of agents and runners, tried under strict confinement.

The page docs/explanation/field-reports.md has the reports, from N1 on. One broker runs all of them in turn: what one leaves must
not matter to the next.
"""

from __future__ import annotations

import errno
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from fable_exec import CommandResult, ConfinementUnavailable, EnvironmentPolicy, ExecutionBroker, PathNotFound
from fable_exec.runner import WorkspaceIdentity
from tests.anothers import USER, workspace_of_another_user
from tests.confinement.places import GIT, PATH, available, confined, in_modes, repository, run
from tests.doors import TOKEN, opened, policy_for

pytestmark = pytest.mark.requires_ability("linux", "git")
PROGRAMS = available("bash", "cat", "git", "less", "make", "python3", "sh", "sleep", "true", "zsh")


@attrs.frozen
class Ending:
    """How a command is to end: status or signal, all of its output, part of its error output, how many were ended after it."""

    stdout: str | None
    status: int | None = 0
    error: str = ""
    left: int = 0

    def unlike(self, result: CommandResult) -> str:
        """What differs; "" where nothing does."""
        found = {
            "status": (result.exit_code, self.status),
            "stdout": (result.stdout, result.stdout if self.stdout is None else self.stdout),
            "left": (len(result.survivors), self.left),
            "stderr": (result.stderr, result.stderr if self.error in result.stderr else self.error),
        }
        return "; ".join(f"{name}: {was!r:.300}, not {wanted!r:.300}" for name, (was, wanted) in found.items() if was != wanted)


def bash(text: str) -> tuple[str, ...]:
    return ("bash", "-c", text)


def python(text: str) -> tuple[str, ...]:
    return ("python3", "-c", text)


REPORTED: dict[str, tuple[tuple[str, ...], bytes | None, Ending]] = {
    "N1 a pager is asked for": (bash("git --paginate log --format=%s; git --paginate diff"), None, Ending("second\nfirst\n")),
    "N2 a pager is the command": (("less", "long"), None, Ending("x\n" * 3000)),
    "N3 an editor is needed": (("git", "commit", "--allow-empty"), None, Ending("", 1, "EDITOR")),
    "N4 here-documents": (bash("cat <<EOF\n1\nEOF\ncat <<< 2"), None, Ending("1\n2\n")),
    "N5 temporary files by every way to them": (
        bash('mktemp > x1 && mktemp -d > x2 && echo > "$TMPDIR/x" && python3 -c "import tempfile as t; t.mkstemp()"'),
        None, Ending(""),
    ),
    "N6 a reader where no input is given": (
        bash("cat; read -r x || echo end; python3 -c 'input()'"), None, Ending("end\n", 1, "EOFError"),
    ),
    "N7 a shell reads its program and leaves the data": (("bash",), b"read -r one\ntwo\necho $one\n", Ending("two\n")),
    "N8 a loop over a pipe": (bash("printf 'a\\nb\\n' | while read -r x; do echo $x; sleep 0; done"), None, Ending("a\nb\n")),
    "N9 bytes that are no UTF-8": (bash("printf 'a\\xf0b\\n'"), None, Ending("a\ufffdb\n")),
    "N10 a line longer than any buffer": (python("print('x' * 900_000)"), None, Ending("x" * 900_000 + "\n")),
    "N11 a NUL in the output": (bash("printf 'a\\0b'"), None, Ending("a\0b")),
    "N12 progress by carriage returns": (
        python("for i in range(500): print(i, end='\\r')"), None, Ending("".join(f"{i}\r" for i in range(500))),
    ),
    "N13 the end by a signal is no success": (bash("kill -SEGV $$"), None, Ending("", -11)),
    "N14 the last signal": (bash("kill -64 $$"), None, Ending("", -64)),
    "N15 the highest status": (bash("exit 255"), None, Ending("", 255)),
    "N16 a status that looks like a signal": (bash("exit 137"), None, Ending("", 137)),
    "N17 the status of a pipeline": (
        bash("false | true; echo $?; set -o pipefail; false | true; echo $?; yes | head -1; echo $?"), None,
        Ending("0\n1\ny\n141\n"),
    ),
    "N18 a background process": (bash("sleep 99 & echo started"), None, Ending("started\n", left=1)),
    "N19 nohup and disown": (
        bash("nohup sleep 99 > /dev/null 2>&1 & disown; echo started"), None, Ending("started\n", left=1),
    ),
    "N20 a double fork": (bash("(setsid sleep 99 > /dev/null &); echo started"), None, Ending("started\n", left=1)),
    "N21 a stopped child": (bash("sleep 99 & kill -STOP $!; echo stopped"), None, Ending("stopped\n", left=1)),
    "N22 closed streams are no end": (bash("exec >&- 2>&-; sleep 0.3; exit 3"), None, Ending("", 3)),
    "N23 input that nobody wants": (bash("head -c 3"), b"x" * 500_000, Ending("xxx")),
    "N24 no terminal": (bash("test -t 0 || test -t 1 || test -t 2 || echo none"), None, Ending("none\n")),
    "N25 every process is killed": (bash("kill -9 -1; echo still"), None, Ending("still\n")),
    "N26 the jobserver": (bash("make -s -j4"), None, Ending(None)),
    "N27 arguments with everything in them": (
        ("python3", "-c", "import sys; print(sys.argv[1:])", "", "a'b", "$(x)", "*", "\u00e9\U0001f389\n"),
        None, Ending("['', \"a'b\", '$(x)', '*', '\u00e9\U0001f389\\n']\n"),
    ),
    "N28 caches in the home directory": (
        bash("mkdir -p ~/.cache/go-build ~/.config/matplotlib && cd && pwd > /dev/null"), None, Ending(""),
    ),
    "N29 the home directory is removed": (bash("rm -rf ~ 2> /dev/null; ls -A ~; mkdir -p ~/.cache"), None, Ending("")),
    "N30 the hook of the host": (bash("git commit -q --allow-empty -m third"), None, Ending("", 0, "the hook ran")),
    "N73 here-documents of zsh": (
        ("zsh", "-f", "-c", "cat <<EOF\n1\nEOF\ncat <<< 2; cat =(echo 3)"), None, Ending("1\n2\n3\n"),
    ),
    "N31 a debugger without input": (python("breakpoint()"), None, Ending(None, 1, "BdbQuit")),
}  # fmt: skip

DIFFERENT_IN_A_NAMESPACE = {"N13", "N14", "N18", "N19", "N20", "N21"}
"""There the command is the first process of its namespace, which no signal of its own reaches and which takes all others with it
(pid_namespaces(7)): they are gone with it, and not told of."""


@pytest.fixture
def project(workspace: Path) -> Iterator[Path]:
    (workspace / "long").write_text("x\n" * 3000)
    (workspace / "Makefile").write_text("all: a b c\na b c:\n\t@echo $@\n")
    repository(workspace)
    subprocess.run(["git", "commit", "-q", "--allow-empty", "-m", "second"], cwd=workspace, check=True, env={**os.environ, **GIT})
    hook = workspace / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho the hook ran >&2\n")
    hook.chmod(0o755)
    yield workspace


def differences(broker: ExecutionBroker) -> dict[str, str]:
    found = {
        name: ending.unlike(broker.execute_command(argv, timeout_seconds=60, stdin=data))
        for name, (argv, data, ending) in REPORTED.items()
        if argv[0] in PROGRAMS
    }
    return {name: differs for name, differs in found.items() if differs}


@in_modes()
def test_what_was_reported_does_not_happen(mode: str, project: Path) -> None:
    with confined(project, mode, unlocked=True, allowed_executables=PROGRAMS) as broker:
        found = differences(broker)
    if mode == "namespace":
        assert {name.split()[0] for name in found} == DIFFERENT_IN_A_NAMESPACE, found
    else:
        assert found == {}


@in_modes()
def test_a_command_that_stops_itself_ends_at_its_deadline_with_its_output(mode: str, workspace: Path) -> None:
    with confined(workspace, mode) as broker:
        result = broker.execute_command(bash("echo before; kill -STOP $$; sleep 99"), timeout_seconds=1)
    assert (result.outcome.value, result.stdout, result.survivors) == ("timed_out", "before\n", ()) or mode == "namespace"


@in_modes()
def test_a_directory_that_a_command_removed_below_itself_is_missing_and_breaks_nothing_else(mode: str, workspace: Path) -> None:
    (workspace / "here").mkdir()
    with confined(workspace, mode, unlocked=True) as broker:
        run(broker, *bash("rm -rf ../here; echo gone"), cwd="here")
        with pytest.raises(PathNotFound, match="'here'"):
            broker.execute_command(("true",), cwd="here")
        assert run(broker, *bash("echo on")).stdout == "on\n"
        (workspace / "here").mkdir()
        assert run(broker, "sh", "-c", "pwd", cwd="here").stdout == f"{workspace}/here\n"


@in_modes("slots", "namespace")
def test_a_server_in_the_background_answers_the_next_command(mode: str, workspace: Path) -> None:
    serves = """
import http.server
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
print(server.server_port)
server.serve_forever()
"""
    with confined(workspace, mode) as broker:
        server = broker.start_background(python(serves))
        port = broker.read_command(server.handle, wait_seconds=30).stdout.strip()
        asks = f"import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:{port}/').status)"
        assert run(broker, *python(asks)).stdout == "200\n"
        broker.cancel_command(server.handle)


@pytest.mark.parametrize(
    "name",
    ["two words", "\u00e9\U0001f389", "it's", 'quo"ted', "new\nline", "-dash", "$dollar", "a:b,c", "back\\slash", "per%cent"],
)
@in_modes("slots", "plain")
def test_a_workspace_of_any_name_is_worked_in(mode: str, workspace: Path, name: str) -> None:
    place = workspace / name
    (place / "below it").mkdir(parents=True)
    place.chmod(0o700)
    with confined(place, mode, unlocked=True) as broker:
        broker.write_file("made.py", "print(6 * 7)")
        assert run(broker, "python3", "made.py").stdout == "42\n"
        assert run(broker, "sh", "-c", "pwd && echo > made", cwd="below it").stdout == f"{place}/below it\n"
        assert (place / "below it" / "made").exists()


@pytest.fixture
def anothers() -> Iterator[Path]:
    with workspace_of_another_user(repository) as place:
        yield place


@pytest.mark.requires_ability("root")
@in_modes()
def test_git_has_no_doubt_about_who_owns_the_workspace_of_another_user(mode: str, anothers: Path) -> None:
    with confined(anothers, mode, unlocked=True, allowed_executables=PROGRAMS) as broker:
        run(broker, "git", "status", "--short")
        run(broker, "git", "commit", "-q", "--allow-empty", "-m", "more")


@pytest.mark.requires_ability("root")
@in_modes()
def test_root_is_told_where_the_owner_of_the_workspace_is_kept_out(mode: str, anothers: Path) -> None:
    anothers.parent.chmod(0o700)
    with confined(anothers, mode) as broker, pytest.raises(ConfinementUnavailable) as caught:
        broker.execute_command(("true",))
    assert f"(user {USER}), who may not enter '{anothers.parent}': let that user in" in str(caught.value)
    anothers.parent.chmod(0o701)
    with confined(anothers, mode) as broker:
        run(broker, "true")


@pytest.mark.requires_ability("root")
def test_who_is_kept_out_of_what_is_not_there_any_more_is_not_told(anothers: Path) -> None:
    """It was moved while it was asked for; the refusal is told all the same."""
    refusal = ConfinementUnavailable("refused", errno=errno.EACCES)
    identity = WorkspaceIdentity.at(str(anothers))
    moved = anothers.parent.rename(f"{anothers.parent}-moved")
    try:
        assert identity.told_with_who_is_kept_out(refusal) is refusal
    finally:
        moved.rename(anothers.parent)


ACTING_AS_ITS_OWNER = """
import contextlib, ctypes, os, stat
def made(name, mode): os.close(os.open(name, os.O_WRONLY | os.O_CREAT, mode))
def nameless(name, mode):
    file = os.open(".", os.O_WRONLY | os.O_TMPFILE, mode)
    os.link(f"/proc/self/fd/{file}", name, follow_symlinks=True)
def openat2(name, mode):
    how = (ctypes.c_uint64 * 3)(os.O_WRONLY | os.O_CREAT, mode, 0)
    ctypes.CDLL(None).syscall(437, -100, name.encode(), how, 24)
def changed(name, mode):
    made(name, 0o755)
    os.chmod(name, mode)
ways = {"made": made, "nameless": nameless, "openat2": openat2, "node": lambda name, mode: os.mknod(name, mode | stat.S_IFREG)}
for way, act in ways.items():
    for mode in (0o4755, 0o2755):
        with contextlib.suppress(OSError): act(f"{way}{mode:o}", mode)
with contextlib.suppress(PermissionError): changed("changed", 0o4755)
with contextlib.suppress(PermissionError): os.fchmod(os.open("changed", os.O_RDONLY), 0o6755)
os.mkdir("shared"); os.chmod("shared", 0o2775)
"""


@in_modes()
def test_no_command_leaves_a_file_that_acts_as_its_owner_for_whoever_runs_it(mode: str, workspace: Path) -> None:
    with confined(workspace, mode, unlocked=True) as broker:
        run(broker, *python(ACTING_AS_ITS_OWNER))
    modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in workspace.iterdir()}
    assert modes == {"changed": 0o755, "shared": 0o2775}


@in_modes()
def test_a_lock_that_git_left_at_its_deadline_is_the_commands_to_remove_and_a_deadline_of_its_own_leaves_none(
    mode: str, project: Path
) -> None:
    (project / ".git" / "hooks" / "pre-commit").write_text("#!/bin/sh\nexec sleep 30\n")
    lock, commit = project / ".git" / "index.lock", ("git", "commit", "-q", "-a", "-m", "long")
    (project / "long").write_text("other")
    with confined(project, mode, unlocked=True, allowed_executables=(*PROGRAMS, "timeout")) as broker:
        assert broker.execute_command(("timeout", "0.5", *commit)).exit_code == 124
        assert not lock.exists()
        assert broker.execute_command(commit, timeout_seconds=0.5).outcome.value == "timed_out"
        assert lock.exists()
        run(broker, "sh", "-c", "rm .git/index.lock && git add long")


@pytest.mark.parametrize("kind", ["in_process", "spawned"])
def test_a_search_finds_lines_in_old_encodings_and_counts_what_is_no_text(kind: str, workspace: Path) -> None:
    found = {"latin": b"int main; // caf\xe9\n", "marked": b"\xef\xbb\xbfmain\n", "returns": b"a\rmain\r", "windows": b"main\r\n"}
    for name, content in {**found, "zeros": b"main\0main", "wide": "main".encode("utf-16")}.items():
        (workspace / name).write_bytes(content)
    policy = attrs.evolve(
        policy_for(workspace), environment=EnvironmentPolicy(path=tuple(each for each in PATH if Path(each).is_dir()))
    )
    with opened(kind, policy) as door:
        result = door.search_files("main")
    assert ({match.path for match in result.matches}, result.files_skipped) == (set(found), 2)
    assert TOKEN  # the door is locked: searching needs no unlock
