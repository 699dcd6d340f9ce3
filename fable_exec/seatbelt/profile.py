"""The text of a Seatbelt profile, from what is granted. Pure: the same grants give the same bytes, in whatever order they come.

Later rules win in Seatbelt, so the order of the rules is part of what they say. A path is one JSON string in ASCII, and nothing
else of a rule comes from outside: no path can end its string or add a rule. docs/reference/seatbelt.md explains every line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

import attrs

__all__ = ["SYSTEM_RUNTIME_PATHS", "Grant", "profile_text", "is_ambiguous"]

SYSTEM_RUNTIME_PATHS = (
    "/System",
    "/usr",
    "/bin",
    "/sbin",
    "/Library/Apple",
    "/private/etc",
    "/private/var/db/timezone",
    "/private/var/select",
)
"""What every program needs of macOS, and may read where it exists."""

_HEAD = """\
(version 1)
; Files are judged by path. A hard link that was made into a granted directory beforehand is read and written like any other
; file there: no rule can tell it from one (preexisting-cross-boundary-hardlinks).
(deny default)
(allow process-fork)
(allow process-exec*)
(allow signal (target same-sandbox))
(allow process-info* (target same-sandbox))
(allow sysctl-read)
(allow mach-lookup)
(allow ipc-posix-shm)
(allow ipc-posix-sem)
(allow network-outbound (remote ip))
(allow network-bind (local ip))
(deny network-outbound (remote unix-socket))
(allow network-outbound (literal "/private/var/run/mDNSResponder"))
(allow file-read-metadata file-read-data (literal "/"))
"""
_ALWAYS_SEEN = ("/dev", "/etc", "/tmp", "/var")
"""Links and directories that programs walk through by these names."""
_DEVICES = ("/dev/null", "/dev/random", "/dev/urandom", "/dev/zero")
_DESCRIPTORS = "/dev/fd"
_READ = "file-read* file-map-executable"
_WRITE = "file-read* file-write* file-map-executable"


@attrs.frozen(order=True)
class Grant:
    """One path that is granted: a directory with all below it, or a file."""

    path: str
    is_directory: bool = True

    @property
    def filter(self) -> str:
        """The condition of its rule."""
        return f"({'subpath' if self.is_directory else 'literal'} {json.dumps(self.path)})"


def profile_text(read: Iterable[Grant], write: Iterable[Grant], reserved_ports: Iterable[int]) -> bytes:
    """The profile.

    Args:
        read: what may be read and mapped as code; write: what may be changed as well.
        reserved_ports: what may be neither connected to nor bound; their denials stand in this order.
    """
    read, write = sorted(set(read)), sorted(set(write))
    seen = sorted({*_ALWAYS_SEEN, *(above for grant in (*read, *write) for above in _ancestors(grant.path))})
    lines = [
        *(f"(allow file-read-metadata {Grant(path, False).filter})" for path in seen),
        *(f"(allow {_READ} {grant.filter})" for grant in read),
        *(f"(allow {_WRITE} {grant.filter})" for grant in write),
        *(f"(allow file-read* file-write* {Grant(path, False).filter})" for path in _DEVICES),
        f"(allow file-read* file-write* {Grant(_DESCRIPTORS).filter})",
        *(line for port in reserved_ports for line in _denials(port)),
    ]
    return (_HEAD + "\n".join(lines) + "\n").encode("ascii")


def is_ambiguous(profile: bytes) -> bool:
    r"""Whether a string of the profile holds an escape that JSON and Scheme read differently.

    JSON has "\\u00e9" for a letter that is not ASCII; a Scheme reader that does not know it takes another path for the one that
    was meant. Such a profile means what it says here, and must not be handed to a reader that nobody has asked.
    """
    text = profile.decode("ascii")
    return any(escape[:1] not in ('"', "\\") for escape in _escapes(text))


def _escapes(text: str) -> Iterable[str]:
    """What follows each backslash that is not itself escaped."""
    at = text.find("\\")
    while at != -1:
        yield text[at + 1 : at + 2]
        at = text.find("\\", at + 2)


def _ancestors(path: str) -> Iterable[str]:
    """The directories above an absolute path but the root, which has a rule of its own."""
    return (path[:end] for end in range(1, len(path)) if path[end] == "/")


def _denials(port: int) -> tuple[str, str]:
    return f'(deny network-outbound (remote ip "*:{port}"))', f'(deny network-bind (local ip "*:{port}"))'
