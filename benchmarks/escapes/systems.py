"""The confinements that are attacked: this library's launch modes, its peers, and none at all (the control).

Each runs `argv` in the workspace, locked or not, and gives back what was written to standard output.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from benchmarks.escapes.scene import Host

if TYPE_CHECKING:
    from fable_exec.confine.plan import LaunchMode

__all__ = ["OURS", "PEERS", "SYSTEMS", "Skipped", "System", "opened"]

OURS: tuple[LaunchMode, ...] = ("slots", "namespace", "plain", "auto")
PEERS = ("bwrap", "sandlock", "codex", "srt")
SYSTEMS = ("control", *OURS, *PEERS)
_SECONDS = 120.0
_TOKEN = "t" * 32
_PATH = "/usr/local/bin:/usr/bin:/bin"
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable


class Skipped(Exception):
    """This system cannot run here; the message says why."""


class System(Protocol):
    """One confinement, ready to run commands."""

    traits: dict[str, Any]

    def run(self, argv: list[str], *, locked: bool, seconds: float = _SECONDS) -> str:
        """Standard output of `argv`, run in the workspace. Raises OSError when it cannot be run any more."""


class Ours:
    """A broker of this library with the strict policy."""

    def __init__(self, host: Host, mode: LaunchMode) -> None:
        self._host, self._mode = host, mode
        self._open()

    def _open(self) -> None:
        host, mode = self._host, self._mode
        from fable_exec import BrokerPolicy, ExecutionBroker
        from fable_exec.policy import AuditRules, Confinement, Limits

        self.traits = {"confined": True, "own_pids": mode != "plain"}
        self._broker = ExecutionBroker(
            BrokerPolicy(
                workspace=host.workspace,
                allowed_executables=("python3",),
                write_token_digest=hashlib.sha256(_TOKEN.encode()).hexdigest(),
                confinement=Confinement.strict(),
                audit=AuditRules(path=host.audit_path),
                limits=Limits(timeout_seconds=_SECONDS),
                launch=mode,
            )
        )

    def reopen(self) -> None:
        """After a launcher was broken: another broker."""
        self._broker.close()
        self._open()

    def run(self, argv: list[str], *, locked: bool, seconds: float = _SECONDS) -> str:
        if locked:
            self._broker.lock_writes()
        else:
            self._broker.unlock_writes(_TOKEN)
        result = self._broker.execute_command(["python3", *argv[1:]], timeout_seconds=seconds)
        return str(result.stdout)

    def close(self) -> None:
        self._broker.close()


class Wrapped:
    """A program that is started with the command behind it. Subclasses say how."""

    traits: ClassVar[dict[str, Any]] = {"confined": True, "own_pids": True}

    def __init__(self, host: Host) -> None:
        self.host = host

    def argv(self, argv: list[str], *, locked: bool) -> list[str]:
        raise NotImplementedError

    def run(self, argv: list[str], *, locked: bool, seconds: float = _SECONDS) -> str:
        # What an embedding process leaves open is part of the attempt; a directory as standard input, which Python would not
        # start with, is kept as another descriptor.
        process = subprocess.Popen(
            ["/bin/sh", "-c", 'exec 9<&0 </dev/null; exec "$@"', "sh", *self.argv(argv, locked=locked)],
            cwd=self.host.workspace,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            close_fds=False,
        )
        try:
            output, complaint = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            output, complaint = process.communicate()
        if not output.strip() and complaint.strip():
            raise OSError(complaint.decode(errors="replace").strip()[-300:])
        return output.decode(errors="replace")

    def reopen(self) -> None:
        """Nothing is kept from one command to the next."""

    def close(self) -> None:
        """See `reopen`."""


class Control(Wrapped):
    traits: ClassVar[dict[str, Any]] = {"confined": False, "own_pids": False}

    def argv(self, argv: list[str], *, locked: bool) -> list[str]:
        return argv


class Bubblewrap(Wrapped):
    """The profile that agents use: everything readable, the home hidden, the workspace writable, no network."""

    def argv(self, argv: list[str], *, locked: bool) -> list[str]:
        workspace = str(self.host.workspace)
        return [
            *(_peer("bwrap"), "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--tmpfs", str(self.host.home)),
            *("--ro-bind" if locked else "--bind", workspace, workspace, "--unshare-all", "--die-with-parent", "--new-session"),
            *("--cap-drop", "ALL", "--clearenv", "--setenv", "PATH", _PATH, "--chdir", workspace, "--", *argv),
        ]  # fmt: skip


class Sandlock(Wrapped):
    traits: ClassVar[dict[str, Any]] = {"confined": True, "own_pids": False}
    _PROGRAM = (
        "import json, sys, sandlock\nplan = json.loads(sys.argv[1])\n"
        "box = sandlock.Sandbox(fs_readable=plan['read'], fs_writable=plan['write'], cwd=plan['cwd'])\n"
        "answer = box.run(plan['argv'])\nsys.stdout.buffer.write(answer.stdout if isinstance(answer.stdout, bytes) else answer.stdout.encode())\n"
        "sys.stderr.write(str(answer.stderr)[-500:])\n"
    )

    def argv(self, argv: list[str], *, locked: bool) -> list[str]:
        workspace = str(self.host.workspace)
        read = [path for path in ("/usr", "/lib", "/lib64", "/bin", "/etc", "/proc", "/dev") if os.path.exists(path)]
        plan = {
            "read": [*read, workspace],
            "write": ["/dev/null", *(() if locked else (workspace,))],
            "argv": ["/bin/sh", "-c", 'cd "$0" && exec "$@"', workspace, *argv],
            "cwd": workspace,
        }
        return [_peer("sandlock-python"), "-c", self._PROGRAM, json.dumps(plan)]


class Codex(Wrapped):
    def argv(self, argv: list[str], *, locked: bool) -> list[str]:
        mode = "read-only" if locked else "workspace-write"
        return [_peer("codex"), "sandbox", "-c", f'sandbox_mode="{mode}"', "--", *argv]


class SandboxRuntime(Wrapped):
    def argv(self, argv: list[str], *, locked: bool) -> list[str]:
        settings = self.host.root / f"srt-{locked}.json"
        settings.write_text(
            json.dumps(
                {
                    "network": {"allowedDomains": [], "deniedDomains": []},
                    "filesystem": {
                        "denyRead": [str(self.host.home)],
                        "allowWrite": [] if locked else [str(self.host.workspace)],
                        "denyWrite": [],
                    },
                }
            )
        )
        return [_peer("srt"), "--settings", str(settings), "-c", shlex.join(argv)]


def _peer(name: str) -> str:
    """Where a peer is: in the environment of benchmarks.peers, or on PATH."""
    root = Path(os.environ["ESCAPES_PEERS"])
    places = {
        "sandlock-python": root / "bin/python",
        "codex": root / "node_modules/.bin/codex",
        "srt": root / "node_modules/.bin/srt",
    }
    place = str(places.get(name, ""))
    found = place if place and os.access(place, os.X_OK) else shutil.which(name)
    if not found:
        raise Skipped(f"{name} is not installed")
    return found


_CLASSES = {"control": Control, "bwrap": Bubblewrap, "sandlock": Sandlock, "codex": Codex, "srt": SandboxRuntime}


@contextlib.contextmanager
def opened(name: str, host: Host) -> Iterator[Any]:
    """The system, proved to run a harmless command.

    Raises:
        Skipped: it does not, and why.
    """
    system: Any = None
    try:
        mode = next((mode for mode in OURS if mode == name), None)
        system = _CLASSES[name](host) if mode is None else Ours(host, mode)
        if "ready" not in system.run([PYTHON, "-c", "print('ready')"], locked=False, seconds=60):
            raise Skipped("a harmless command printed nothing")
        system.run([PYTHON, "-c", "print('ready')"], locked=True, seconds=60)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise Skipped(str(error).replace("\n", " ")[-300:]) from error
    try:
        yield system
    finally:
        system.close()
