"""The broker at work: it is spawned on a clone of this repository, and each step shows what was expected and what came.

Run by `make demo`. Needs git, and rich from the extra `cli`; no root, no network, no HOME. The exit status is 0 only if every
step was as expected.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fable_exec import BrokerPolicy
from fable_exec.audit import verify_log
from fable_exec.client import BrokerClient
from fable_exec.errors import FableExecError
from fable_exec.policy import AuditRules

PROJECT = Path(__file__).resolve().parent.parent
NOT_COPIED = shutil.ignore_patterns(
    ".git", ".venv*", "__pycache__", "*.egg-info", "build", "dist", "_build", ".*_cache", ".hypothesis"
)
WIDTH_IN_A_FILE = 118
AUTHOR = ("-c", "user.name=Demo", "-c", "user.email=demo@example.org")
SUITE = """
import pytest

@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_square_is_not_negative(n):
    assert n * n >= 0
"""
# A child leaves the session, ignores TERM and holds both pipes; its parent prints and waits for ever.
FUGITIVE = """
import os, signal, sys
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        signal.pause()
print("partial output", flush=True)
while True:
    signal.pause()
"""


@attrs.frozen
class Step:
    """One line of the table: what was done, what should have come, what came."""

    title: str
    expected: str
    got: str

    @property
    def as_expected(self) -> bool:
        return self.expected == self.got


@attrs.define
class Demo:
    """The steps taken so far, and the broker they are taken with."""

    broker: BrokerClient
    workspace: Path
    python: str
    steps: list[Step] = attrs.field(factory=list)

    def check(self, title: str, expected: str, act: Callable[[], object]) -> None:
        """Take one step; an error of the library is an answer like any other, by the name of its class."""
        try:
            got = str(act())
        except FableExecError as error:
            got = type(error).__name__
        self.steps.append(Step(title, expected, got))

    def run(self, *command: str, timeout_seconds: float = 60) -> str:
        """The command's ending in a few words: `exited 0: last line of its output`."""
        result = self.broker.execute_command(list(command), timeout_seconds=timeout_seconds)
        ending = f"{result.outcome.value} {result.exit_code}" if result.exit_code is not None else result.outcome.value
        lines = (result.stdout.strip() or result.stderr.strip()).splitlines()
        return f"{ending}: {lines[-1]}" if lines else ending


def locked_steps(demo: Demo) -> None:
    demo.check("probe", "fable-execution-broker, writes off", lambda: describe(demo.broker))
    demo.check("write while locked", "WritesLocked", lambda: demo.broker.write_file("notes.md", "no"))
    demo.check("a program while locked", "exited 0: 42", lambda: demo.run(demo.python, "-c", "print(6 * 7)"))
    demo.check("a program writes while locked", "refused", lambda: refused(demo, "open('notes.md', 'w')"))
    demo.check("nothing was written", "absent", lambda: presence(demo.workspace / "notes.md"))


def unlocking_steps(demo: Demo, unlock: Callable[[], None]) -> None:
    def unlock_and_ask() -> str:
        unlock()
        return describe(demo.broker)

    demo.check("unlock by the admin's descriptor", "fable-execution-broker, writes on", unlock_and_ask)


def editing_steps(demo: Demo) -> None:
    demo.check("edit a file", "edited", lambda: edit(demo))
    demo.check("git add", "exited 0", lambda: demo.run("git", "add", "README.md"))
    demo.check("git commit", "exited 0", lambda: demo.run("git", *AUTHOR, "commit", "--quiet", "-m", "Edit through the broker"))
    demo.check("git log", "exited 0: Edit through the broker", lambda: demo.run("git", "log", "-1", "--format=%s"))
    demo.check("git status", "exited 0", lambda: demo.run("git", "status", "--short"))


def suite_steps(demo: Demo) -> None:
    demo.check("write a test suite", "suite/test_square.py", lambda: demo.broker.write_file("suite/test_square.py", SUITE).path)
    quiet = ("-q", "-c", os.devnull, "--rootdir", ".", "--confcutdir", ".", "-p", "no:cacheprovider", "-p", "no:randomly")
    ours = ("-p", "no:fable_exec")  # installed from this tree, which a confined command does not read
    pytest = (demo.python, "-m", "pytest", *quiet, *ours, "suite")
    demo.check("run it", "exited 0: 3 passed", lambda: demo.run(*pytest).split(" in ")[0])


def fugitive_steps(demo: Demo) -> None:
    marker = f"fugitive-{secrets.token_hex(8)}"
    seen = {"most": 0}

    def run_and_watch() -> str:
        with watching(marker, seen):
            return demo.run(demo.python, "-c", FUGITIVE, marker, timeout_seconds=2)

    demo.check("a setsid child, then the timeout", "timed_out: partial output", run_and_watch)
    demo.check("seen from outside while it ran", "2 processes or more", lambda: at_least_two(seen["most"]))
    demo.check("seen from outside afterwards", "0 processes", lambda: f"{count_processes(marker)} processes")


def escape_steps(demo: Demo, secret: Path) -> None:
    (demo.workspace / "link").symlink_to(secret)
    demo.check("read ../secret.txt", "PathDenied", lambda: demo.broker.inspect_files("../secret.txt").content)
    demo.check("read through a link to outside", "PathDenied", lambda: demo.broker.inspect_files("link").content)
    demo.check("write through that link", "PathDenied", lambda: demo.broker.write_file("link", "changed"))
    demo.check("the file outside", "untouched", lambda: secret.read_text())
    demo.check("an executable that is not listed", "ExecutableDenied", lambda: demo.run("sh", "-c", "true"))
    demo.check("a program reads the file outside", "refused", lambda: refused(demo, f"open({str(secret)!r})"))
    demo.check("a program writes to /etc", "refused", lambda: refused(demo, "open('/etc/fable-exec-demo', 'w')"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        connect = f"import socket; socket.create_connection({listener.getsockname()!r}, 2)"
        demo.check("a program connects to a port of the host", "refused", lambda: refused(demo, connect))


def audit_steps(demo: Demo, log: Path) -> None:
    demo.check("the audit log", "whole", lambda: "whole" if verify_log(log).ok else "broken")
    demo.check("the audit log with one byte changed", "broken", lambda: "whole" if verify_log(altered(log)).ok else "broken")


def describe(broker: BrokerClient) -> str:
    answer = broker.probe()
    return f"{answer.host}, writes {'on' if answer.writes_enabled else 'off'}"


def refused(demo: Demo, program: str) -> str:
    """Whether the kernel stopped a program with an OSError; which one depends on the means."""
    ending = demo.run(demo.python, "-c", program)
    return "refused" if ending.startswith("exited 1: ") and "[Errno " in ending else ending


def edit(demo: Demo) -> str:
    first = (demo.workspace / "README.md").read_text().splitlines()[0]
    demo.broker.edit_file("README.md", first, f"{first} (edited)")
    return "edited" if (demo.workspace / "README.md").read_text().startswith(f"{first} (edited)\n") else "not edited"


def presence(path: Path) -> str:
    return "present" if path.exists() else "absent"


def at_least_two(count: int) -> str:
    return "2 processes or more" if count >= 2 else f"{count} processes"


def altered(log: Path) -> Path:
    copy = log.with_name("altered.jsonl")
    content = bytearray(log.read_bytes())
    position = content.index(b'"', len(content) // 3) + 1
    content[position] ^= 1
    copy.write_bytes(content)
    copy.chmod(0o600)
    return copy


@contextmanager
def watching(marker: str, seen: dict[str, int]) -> Iterator[None]:
    """Look at the process table of the machine until the block ends; `seen["most"]` is the highest count."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            seen["most"] = max(seen["most"], count_processes(marker))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def count_processes(marker: str) -> int:
    """Processes of this machine with `marker` in their command line, whatever session or group they are in."""
    if not Path("/proc/self/cmdline").exists():
        listing = subprocess.run(["ps", "-axo", "command"], capture_output=True, text=True).stdout
        return sum(marker in line for line in listing.splitlines())
    count = 0
    for entry in Path("/proc").iterdir():
        try:
            count += entry.name.isdigit() and marker.encode() in (entry / "cmdline").read_bytes()
        except OSError:
            continue  # it ended between the listing and the look
    return count


def clone_project(target: Path) -> None:
    """A repository with this project's files: a clone, or, from a plain source tree, a copy with a first commit."""
    if (PROJECT / ".git").exists() and git("clone", "--quiet", "--no-hardlinks", str(PROJECT), str(target)):
        return
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(PROJECT, target, symlinks=True, ignore=NOT_COPIED)
    commit = [*AUTHOR, "commit", "--quiet", "-m", "As it came"]
    if not all(git("-C", str(target), *arguments) for arguments in (["init", "--quiet"], ["add", "--all"], commit)):
        raise SystemExit("the demo needs a working git")


def git(*arguments: str) -> bool:
    return subprocess.run(["git", *arguments], stdin=subprocess.DEVNULL, capture_output=True).returncode == 0


def show(steps: list[Step]) -> bool:
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH_IN_A_FILE)
    table = Table(title="fable_exec at work in a clone of this repository", title_justify="left")
    for heading in ("", "step", "expected", "got"):
        table.add_column(heading, overflow="fold")
    for step in steps:
        table.add_row(
            "[green]ok[/]" if step.as_expected else "[bold red]NO[/]", step.title, escape(step.expected), escape(step.got)
        )
    console.print(table)
    missed = sum(not step.as_expected for step in steps)
    console.print(f"{len(steps) - missed} of {len(steps)} steps were as expected")
    return missed == 0


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="fable-exec-demo-") as name:
        scratch = Path(name).resolve()
        workspace, secret, log = scratch / "workspace", scratch / "secret.txt", scratch / "audit.jsonl"
        clone_project(workspace)
        secret.write_text("untouched")
        token = secrets.token_hex(16)
        policy = BrokerPolicy(
            workspace=workspace,
            allowed_executables=(sys.executable, "git"),
            write_token_digest=hashlib.sha256(token.encode()).hexdigest(),
            audit=AuditRules(path=log),
        )
        with BrokerClient(policy) as broker:
            demo = Demo(broker, workspace, Path(sys.executable).name)
            locked_steps(demo)
            unlocking_steps(demo, lambda: broker.unlock_writes(token))
            editing_steps(demo)
            suite_steps(demo)
            fugitive_steps(demo)
            escape_steps(demo, secret)
        audit_steps(demo, log)
        return 0 if show(demo.steps) else 1


if __name__ == "__main__":
    sys.exit(main())
