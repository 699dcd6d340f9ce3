"""Paths in arguments, judged by their text alone: what may be read, what may be written.

Symbolic links, mounts and races are not seen here; `pathguard` and the kernel's confinement hold those. The lists follow the
default confinement: system directories without secrets are readable, only the workspace is writable, and what runs later
(hooks, settings of shells, editors and agents) is not writable by a path that names it.
"""

from __future__ import annotations

from fable_exec.argrules.tables import Place

__all__ = ["inside_fault", "read_fault", "removed_fault", "written_fault"]

_SYSTEM = ("/usr/", "/bin/", "/sbin/", "/lib/", "/lib32/", "/lib64/", "/libx32/", "/opt/", "/etc/", "/tmp/", "/var/tmp/")
_SYSTEM_ROOTS = frozenset(root[:-1] for root in _SYSTEM)
_SECRETS = ("/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/ssh/ssh_host", "/etc/ssl/private", "/etc/security/opasswd")
_DEVICES = frozenset({"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/stdin"})
_SINKS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})
_PROCESS_FACTS = frozenset(
    "/proc/" + name
    for name in (
        "cpuinfo", "filesystems", "loadavg", "meminfo", "mounts", "stat", "uptime", "version",
        "self/cgroup", "self/limits", "self/mountinfo", "self/mounts", "self/status",
    )
)  # fmt: skip

_RUNS_LATER = frozenset(
    {
        ".git", ".gitmodules", ".gitconfig", ".envrc", ".husky", ".vscode", ".idea", ".claude", ".codex", ".gemini",
        ".cursor", ".mcp.json", ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile", ".zshrc", ".zshenv",
        ".zprofile", ".zlogin", ".kshrc", ".npmrc", ".yarnrc", ".pypirc", ".netrc", ".ssh", ".gnupg", ".aws",
    }
)  # fmt: skip


def read_fault(text: str, place: Place) -> str:
    """For a file that is read: inside the workspace, or a system file without secrets. `-` is standard input."""
    if text[:1] not in ("/", "~", "$", "") and ".." not in text and ":" not in text:
        return ""
    if text[:1] == "/" and not _below(text, place.workspace):
        return _system_fault(text)
    return _relative_fault(text, place)


def inside_fault(text: str, place: Place) -> str:
    """For a file or directory inside the workspace, and no other."""
    if text in ("-", ""):
        return "must name a file inside the workspace"
    return _relative_fault(text, place)


def written_fault(text: str, place: Place) -> str:
    """For a file that is made or changed: inside the workspace, and nothing that runs later. The null device will do."""
    if text in _SINKS:
        return ""
    fault = inside_fault(text, place)
    if fault:
        return fault
    for part in text.lower().split("/"):
        # "HEAD.lock" and the like are git's business; a trailing dot or blank is dropped on some file systems
        if part.rstrip(". ") in _RUNS_LATER:
            return f"names {part}, which is run or trusted later"
    return ""


def removed_fault(text: str, place: Place) -> str:
    """For what is removed, moved away or changed in place as a whole: as written, and not the starting directory itself."""
    if text.strip("./") == "":
        return "is the whole directory; name what is in it"
    if ".." in text.split("/"):
        return "goes up again and could be the whole directory; write the path without .."
    return written_fault(text, place)


def _system_fault(text: str) -> str:
    if ".." in text.split("/") or "//" in text or "/./" in text:
        return "is an absolute path that is not in its plain form"
    if text in _DEVICES or text in _PROCESS_FACTS or text in _SYSTEM_ROOTS:
        return ""
    if text.startswith(_SECRETS):
        return "holds secrets of the system"
    if text.startswith(_SYSTEM):
        return ""
    return "is outside the workspace; use a path relative to it"


def _relative_fault(text: str, place: Place) -> str:
    if text[:1] in ("~", "$"):
        return f"begins with {text[0]}, which no shell expands here; write the path out"
    if "://" in text:
        return "is a URL, not a path"
    depth = place.depth
    if text[:1] == "/":
        if not _below(text, place.workspace):
            return "is outside the workspace; use a path relative to it"
        text, depth = text[len(place.workspace) + 1 :], 0
    return _climb_fault(text, depth) if ".." in text else ""


def _below(text: str, workspace: str) -> bool:
    return bool(workspace) and (text == workspace or text.startswith(workspace + "/"))


def _climb_fault(text: str, depth: int) -> str:
    for part in text.split("/"):
        if part == "..":
            depth -= 1
        elif part not in ("", "."):
            depth += 1
        if depth < 0:
            return "climbs above the workspace"
    return ""
