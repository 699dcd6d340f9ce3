"""The bait of one run: a workspace, files beside it, listeners, and a process with secrets, all of them ours.

Everything lies in one temporary directory and ends with it.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["Host", "Scene"]

_VAULT = Path(__file__).with_name("vault.py")
_GIT = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@b",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@b",
}


class Listener:
    """Remembers every byte that reaches it, and every connection, on one address."""

    def __init__(self, family: int, kind: int, address: Any) -> None:
        self.socket = socket.socket(family, kind)
        self.socket.bind(address)
        if kind != socket.SOCK_DGRAM:
            self.socket.listen(64)
        self.heard = b""
        self.connections = 0
        self._kind = kind
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            try:
                if self._kind == socket.SOCK_DGRAM:
                    self.heard += self.socket.recv(65536) + b"\n"
                    continue
                connection, _ = self.socket.accept()
                self.connections += 1
                threading.Thread(target=self._hear, args=(connection,), daemon=True).start()
            except OSError:
                return

    def _hear(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(5)
            try:
                while data := connection.recv(65536):
                    self.heard += data
            except OSError:
                pass
            self.heard += b"\n"


class Host:
    """What all attempts of one run share."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.workspace = root / "workspace"
        self.outside = root / "outside"
        self.home = root / "home"
        for directory in (self.workspace, self.outside, self.home):
            directory.mkdir(mode=0o777)
            directory.chmod(0o777)
        self.private = self.workspace / ".esc"
        self.private.mkdir()
        self.programs = self.private / "bin"
        self.programs.mkdir()
        shutil.copy(Path(__file__).with_name("driver.py"), self.private / "driver.py")
        self.audit_path = self.outside / "audit.jsonl"
        self.broken = ""
        self.known: set[int] = set()
        self.traits: dict[str, Any] = {"confined": False, "own_pids": False}
        self.victims: list[subprocess.Popen[bytes]] = []
        self.cleanups: list[Callable[[], object]] = []
        self.listeners: dict[str, Listener] = {}
        self._listen()
        self._start_vault()
        self.template = self._repository(root / "template")
        self.compiled = self._compile()

    def _listen(self) -> None:
        name = f"escapes-{secrets.token_hex(6)}"
        addresses: dict[str, tuple[int, int, Any]] = {
            "tcp": (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
            "tcp6": (socket.AF_INET6, socket.SOCK_STREAM, ("::1", 0)),
            "udp": (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
            "udp6": (socket.AF_INET6, socket.SOCK_DGRAM, ("::1", 0)),
            "anywhere": (socket.AF_INET, socket.SOCK_STREAM, ("0.0.0.0", 0)),
            "unix": (socket.AF_UNIX, socket.SOCK_STREAM, str(self.outside / "s")),
            "unix_datagram": (socket.AF_UNIX, socket.SOCK_DGRAM, str(self.outside / "d")),
            "unix_seqpacket": (socket.AF_UNIX, socket.SOCK_SEQPACKET, str(self.outside / "q")),
            "unix_inside": (socket.AF_UNIX, socket.SOCK_STREAM, str(self.workspace / "inside.sock")),
            "abstract": (socket.AF_UNIX, socket.SOCK_STREAM, "\0" + name),
            "abstract_datagram": (socket.AF_UNIX, socket.SOCK_DGRAM, "\0" + name + "-d"),
        }
        for each, (family, kind, address) in addresses.items():
            try:
                self.listeners[each] = Listener(family, kind, address)
            except OSError:
                continue  # no IPv6 here: the control shows no effect then
        for path in (*self.outside.iterdir(), self.workspace / "inside.sock"):
            path.chmod(0o777)
        self.abstract = name

    def _start_vault(self) -> None:
        self.vault_secret = f"vault-{secrets.token_hex(8)}"
        self.vault = subprocess.Popen(
            [sys.executable, str(_VAULT), str(self.outside)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"VAULT_SECRET": self.vault_secret, "PATH": os.environ["PATH"]},
            text=True,
        )
        assert self.vault.stdout is not None
        self.vault_facts = json.loads(self.vault.stdout.readline())

    def ask_vault(self, question: str) -> str:
        """The vault's answer: what its memory holds now."""
        assert self.vault.stdin is not None and self.vault.stdout is not None
        self.vault.stdin.write(question + "\n")
        self.vault.stdin.flush()
        return self.vault.stdout.readline().strip()

    def _compile(self) -> str:
        compiler = shutil.which("gcc") or shutil.which("cc")
        if compiler is None:
            return "no C compiler"
        for source in sorted(Path(__file__).with_name("programs").glob("*.c")):
            subprocess.run(
                [compiler, "-O1", "-w", "-o", str(self.programs / source.stem), str(source)], check=False, capture_output=True
            )
        return ""

    def _repository(self, path: Path) -> Path:
        run_git("init", "-q", "--template=", str(path))
        (path / "file").write_text("text\n")
        run_git("-C", str(path), "add", "file")
        run_git("-C", str(path), "commit", "-q", "-m", "first")
        (path / ".git" / "hooks").mkdir(exist_ok=True)
        (path / ".git" / "hooks" / "post-merge").write_text("#!/bin/sh\n")
        (path / ".git" / "hooks" / "post-merge").chmod(0o755)
        return path

    def copy_repository(self, path: Path) -> Path:
        """A repository of the host's at `path`."""
        shutil.copytree(self.template, path, symlinks=True, dirs_exist_ok=True)
        return path

    def launchers(self) -> list[int]:
        """Processes below this one that the run itself did not start: the confinement's own."""
        own = {os.getpid(), self.vault.pid, *(each.pid for each in self.victims)}
        parents = {pid: parent for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if (parent := parent_of(pid))}
        below = {os.getpid()}
        while more := {pid for pid, parent in parents.items() if parent in below} - below:
            below |= more
        return sorted(below - own)

    def victim(self) -> int:
        """A new process that does nothing but be there."""
        process = subprocess.Popen(["sleep", "300"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self.victims.append(process)
        return process.pid

    def close(self) -> None:
        """End what was started and take away what lies outside the directory of the run."""
        for cleanup in self.cleanups:
            cleanup()
        started: list[subprocess.Popen[Any]] = [*self.victims, self.vault]
        for process in started:
            process.kill()
            process.wait()
        for listener in self.listeners.values():
            listener.socket.close()


def parent_of(pid: int) -> int:
    """The parent of a living process, else 0."""
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[:2]
    except OSError:
        return 0
    return 0 if state in "ZX" else int(parent)


def run_git(*arguments: str) -> None:
    subprocess.run(["git", *arguments], check=True, capture_output=True, env={**os.environ, **_GIT})


class Scene:
    """One attempt's part of the host: its own directories, token, secret and victim."""

    def __init__(self, host: Host, number: int) -> None:
        self.host = host
        self.token = f"t{secrets.token_hex(8)}"
        self.secret = f"s{secrets.token_hex(12)}"
        self.directory = host.workspace / f"a{number}"
        self.outside = host.outside / f"a{number}"
        for directory in (self.directory, self.outside):
            directory.mkdir(mode=0o777)
            directory.chmod(0o777)
        self.notes: dict[str, Any] = {}
        self._victim = 0

    @property
    def victim(self) -> int:
        if not self._victim:
            self._victim = self.host.victim()
        return self._victim

    def bait(self, name: str = "secret", mode: int = 0o644) -> Path:
        """A file with the secret, outside."""
        path = self.outside / name
        path.write_text(self.secret)
        path.chmod(mode)
        return path

    def heard(self, *names: str) -> bool:
        """Whether the token reached one of these listeners."""
        token = self.token.encode()
        return any(token in self.host.listeners[name].heard for name in names if name in self.host.listeners)

    def facts(self) -> dict[str, Any]:
        """What the program is told: an attacker knows the system he attacks."""
        host = self.host
        ports = {
            name: each.socket.getsockname()[1] for name, each in host.listeners.items() if each.socket.family != socket.AF_UNIX
        }
        return {
            "token": self.token,
            "ws": str(host.workspace),
            "dir": str(self.directory),
            "out": str(self.outside),
            "shared": str(host.outside),
            "home": str(host.home),
            "bin": str(host.programs),
            "ports": ports,
            "abstract": host.abstract,
            "host_pid": os.getpid(),
            "vault": host.vault_facts,
            "victim": self._victim,
            **host.traits,
            **self.notes,
        }
