"""From what a launcher's observer noted to an outcome's denials. The command had a hand in every word: it is made safe here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fable_exec.outcome import Denial, display_line

__all__ = ["denials_of", "is_look_up"]

_MAX_CHARACTERS = 500
_SUGGESTIONS = {
    "workspace_writes": "writes are locked: the administrator can unlock them",
    "host_writes": "write in the workspace, or below $TMPDIR or $HOME",
    "host_metadata": "modes, owners, times and attributes can be changed in the workspace, and below $TMPDIR and $HOME",
    "host_reads": "if commands may read it, list it in confinement.runtime_read_paths",
    "later_files": "it runs later: whoever owns the workspace changes it, a command does not",
    "network": 'if commands may reach it: its TCP port in confinement.connect_ports with network = "ports"; UDP needs "full"',
    "host_sockets": "sockets of the host are out of reach; one that is made in the workspace is not",
    "other_processes": 'commands look into no other process; only kernel_surface = "off" lets them',
    "kernel_surface": 'no command may make this call, unless kernel_surface = "off" leaves them all',
}
_TRACING = (
    'debuggers, strace and LeakSanitizer need it: run them outside, or with kernel_surface = "off"; '
    "AddressSanitizer goes without in ASAN_OPTIONS=detect_leaks=0"
)
_NAMES = (
    'names are looked up there: in a network that is not "full" give addresses, or name them in the host\'s /etc/hosts; '
    "git asks for its own host's where it has no identity: GIT_AUTHOR_NAME, GIT_AUTHOR_EMAIL, GIT_COMMITTER_NAME and "
    "GIT_COMMITTER_EMAIL in environment.set"
)
_REPOSITORY = (
    "the git repository lies outside of the workspace, where commands do not write: use a clone, or a worktree below the main "
    "checkout with that as the workspace"
)
_TERMINAL = "a command gets terminals of its own where there are namespaces (launch), else none"
_DATAGRAMS = 'UDP, which looking up a name takes as well, comes with network = "full" alone'
_RAW = "no setting of the network has raw packets"
_SERVING = 'if commands may serve there, list the port in confinement.bind_ports with network = "ports"'
_FAMILY = 'if commands need the network: its TCP ports in confinement.connect_ports with network = "ports", or "full"'
_HOST_SOCKET = "it names nobody yet: where there are namespaces (launch) only the host's sockets are out of reach"


def denials_of(noted: Iterable[Sequence[str]]) -> tuple[Denial, ...]:
    """One denial for each (operation, path, address, protection)."""
    return tuple(
        Denial(
            operation=operation,
            path=_shown(path),
            address=_shown(address),
            protection=protection,
            suggestion=_suggestion(operation, path, address, protection),
        )
        for operation, path, address, protection in noted
    )


def is_look_up(denial: Denial) -> bool:
    """Whether this can be a look-up of a name, which many programs do without; a refused datagram socket names nobody yet."""
    return denial.suggestion in (_NAMES, _DATAGRAMS)


def _suggestion(operation: str, path: str, address: str, protection: str) -> str:
    """What an operator could change, or the command do instead."""
    if protection == "host_writes" and ".git" in path.split("/"):
        return _REPOSITORY
    if protection == "host_writes" and path == "/dev/ptmx":
        return _TERMINAL
    if operation == "ptrace":
        return _TRACING
    if operation == "socket":
        return _HOST_SOCKET if protection == "host_sockets" else _about_kind(address)
    if protection == "network" and operation == "bind":
        return _SERVING
    if protection == "network" and address.endswith(":53"):
        return _NAMES
    return _SUGGESTIONS.get(protection, "")


def _about_kind(address: str) -> str:
    if address.endswith(" datagram"):
        return _DATAGRAMS
    return _RAW if address.endswith(" raw") else _FAMILY


def _shown(text: str) -> str:
    """On one line and bounded; escapes make it longer."""
    return display_line(text)[:_MAX_CHARACTERS]
