"""Prove that a plan holds: lay bait outside, let a confined process go for it, and compare with what the plan claims.

An attempt that succeeds although its protection is called active turns that protection's state to degraded, with the attempt as
the reason; a strict one then refuses to start (`confine.refuse_unmet`). It runs before a launcher's first command, and in
`doctor`.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import socket
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Literal

import attrs

from fable_exec._launcher.proctree import started_at
from fable_exec.errors import ConfinementUnavailable
from fable_exec.outcome import Applied
from fable_exec.runner import Runner
from fable_exec.runner.zygote import temporary_directory

__all__ = ["ATTEMPTS", "Attempt", "CanaryReport", "judge", "report_of", "run_canary", "unproved"]

_LONGEST_BAIT_PARENT = 60
"""sun_path holds 107 bytes (unix(7)): what is left is for the bait's own names."""

ATTEMPTS: dict[str, str] = {
    "write_workspace": "workspace_writes",
    "write_outside": "host_writes",
    "change_times": "host_metadata",
    "read_secret": "host_reads",
    "connect_tcp": "network",
    "connect_reserved": "network",
    "bind_reserved": "network",
    "connect_socket_file": "host_sockets",
    "connect_abstract": "host_sockets",
    "signal_host": "other_processes",
    "read_host_environment": "other_processes",
    "new_user_namespace": "kernel_surface",
    "call_io_uring_setup": "kernel_surface",
    "call_bpf": "kernel_surface",
    "call_keyctl": "kernel_surface",
    "call_perf_event_open": "kernel_surface",
    "call_userfaultfd": "kernel_surface",
    "call_add_key": "kernel_surface",
}
"""Every attempt and the protection that must stop it."""
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.EAGAIN)
_NO_REFUSAL = frozenset({0, *_NO_ROOM, errno.EIO, errno.ECANCELED})
"""It succeeded, or the host was short of something: nothing is proved then."""


@attrs.frozen
class Attempt:
    """One attempt: the kernel's errno (0: it succeeded)."""

    name: str
    protection: str
    errno: int

    @property
    def stopped(self) -> bool:
        """Whether the kernel refused it. That there was no room for it is no refusal."""
        return self.errno not in _NO_REFUSAL


@attrs.frozen
class CanaryReport:
    """What the canary met. `digest` names the report; it goes into `probe` and the audit log."""

    attempts: tuple[Attempt, ...]

    @property
    def digest(self) -> str:
        """SHA-256 of the attempts and their answers."""
        return hashlib.sha256(json.dumps([attrs.astuple(each) for each in self.attempts]).encode()).hexdigest()

    def succeeded(self, protection: str) -> tuple[str, ...]:
        """Names of the attempts against `protection` that were not stopped."""
        return tuple(each.name for each in self.attempts if each.protection == protection and not each.stopped)


def run_canary(runner: Runner, open_ports: Collection[int] = (), reserved_ports: Sequence[int] = ()) -> CanaryReport:
    """Send the canary through `runner`'s launcher; some 5 ms.

    Args:
        open_ports: TCP ports that commands may connect to, and the bait must not listen on.
        reserved_ports: TCP ports that it must be refused; it tries the first.

    Raises:
        ConfinementUnavailable: it gave no answer, so nothing is proved.
    """
    return report_of(lambda bait: runner.run_canary(bait).stdout.raw, open_ports, reserved_ports)


def report_of(
    send: Callable[[Mapping[str, Any]], bytes], open_ports: Collection[int], reserved_ports: Sequence[int]
) -> CanaryReport:
    """The same of whoever `send`s a canary for the bait and returns what it wrote.

    Raises:
        ConfinementUnavailable: that was no answer, so nothing is proved.
    """
    with ExitStack() as stack:
        try:
            bait = _laid(stack, open_ports)
        except OSError as error:
            raise unproved(error) from error
        written = send({**bait, "reserved_port": reserved_ports[0] if reserved_ports else None})
    try:
        answers = json.loads(written)
        return CanaryReport(tuple(Attempt(name, ATTEMPTS[name], answers[name]) for name in ATTEMPTS if name in answers))
    except (ValueError, TypeError, KeyError) as error:
        raise ConfinementUnavailable("the canary gave no answer", reason=str(error)) from error


def unproved(error: OSError) -> ConfinementUnavailable:
    """Nothing can be proved, for want of room or of descriptors for what a canary is sent after."""
    reason = f"{os.strerror(error.errno or 0)} in {error.filename or temporary_directory()}"
    text = f"confinement cannot be proved: {reason}; mend that, or name another directory by TMPDIR"
    return ConfinementUnavailable(text, reason=reason, errno=error.errno)


def judge(
    applied: tuple[Applied, ...], report: CanaryReport, *, writable: bool, network: Literal["off", "ports", "full"] = "off"
) -> tuple[Applied, ...]:
    """`applied` after the canary: what it claimed and could not hold is degraded, and says so.

    Args:
        writable: commands may write the workspace. network: what the policy says of it; what it opens is no way out.
    """
    meant = {"write_workspace"} if writable else set()
    meant |= {"connect_tcp"} if network == "full" else set()  # a reserved port stays one
    return tuple(
        _judged(each, tuple(name for name in report.succeeded(each.protection) if name not in meant)) for each in applied
    )


def _judged(each: Applied, broken_by: tuple[str, ...]) -> Applied:
    if each.state != "active" or not broken_by:
        return each
    return attrs.evolve(each, state="degraded", reason=f"announced, but the canary was not refused: {', '.join(broken_by)}")


def _bait_parent() -> str:
    """The temporary directory, unless a socket's path in it would be too long to bind: then the system's."""
    parent = temporary_directory()
    return parent if len(os.fsencode(parent)) <= _LONGEST_BAIT_PARENT else "/tmp"


def _laid(stack: ExitStack, open_ports: Collection[int]) -> Mapping[str, Any]:
    """The bait: a directory beside the workspace with a secret and a listening socket, an abstract socket and a TCP port.

    The secret is an empty file: a full disk still has those.
    """
    directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="fable-exec-bait-", dir=_bait_parent()))
    os.chmod(directory, 0o777)  # before anything is put into it: the host's umask may have taken every right
    secret = os.path.join(directory, "secret")
    with open(secret, "wb"):
        os.chmod(secret, 0o644)
    socket_file, abstract_name = os.path.join(directory, "socket"), f"fable-exec-{os.urandom(8).hex()}"
    for address in (socket_file, "\0" + abstract_name):
        _listen(stack, socket.AF_UNIX, address)
    os.chmod(socket_file, 0o777)
    port = _listening_port(stack, open_ports)
    return {
        "directory": directory,
        "secret": secret,
        "socket_file": socket_file,
        "abstract_name": abstract_name,
        "tcp_port": port,
        "host_pid": os.getpid(),
        "host_started": started_at("self"),
    }


def _listening_port(stack: ExitStack, open_ports: Collection[int]) -> int:
    """A port of the host that the policy does not open: one more try than there are such ports."""
    for _ in range(len(open_ports) + 1):
        port: int = _listen(stack, socket.AF_INET, ("127.0.0.1", 0)).getsockname()[1]
        if port not in open_ports:
            break
    return port


def _listen(stack: ExitStack, family: int, address: Any) -> socket.socket:
    listener = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
    listener.bind(address)
    listener.listen()
    return listener
