"""What a confined shell does for a sample: it starts what no list can name, and reaches files where only commands are.

A sample's commands have places of their own, such as a private /tmp, which no process of the host sees. A script says why it does
nothing by a line that begins with a mark, which nobody else knows. Pure text.
"""

from __future__ import annotations

import errno
import os

__all__ = ["KEEP", "READ", "RUN", "WRITE", "kept_status", "said"]

_SAY = 'say() { printf "%s %s %s" "$@" >&2; exit 125; }\n'
"""No script makes a variable: one of its name may be among those that the program is to get."""

RUN = (
    _SAY
    + """\
[ -e "$2" ] || say "$1" cwd ENOENT
[ -d "$2" ] || say "$1" cwd ENOTDIR
case $2 in
    .) ;;
    /*) cd -- "$2" 2>/dev/null || say "$1" cwd EACCES ;;
    *) cd -- "./$2" 2>/dev/null || say "$1" cwd EACCES  # neither CDPATH nor "-" leads elsewhere
esac
case $3 in */*)
    [ ! -d "$3" ] || say "$1" program EACCES
    [ ! -e "$3" ] || [ -x "$3" ] || say "$1" program EACCES
esac
shift 2
case $1 in
    -*/*) exec "./$@" ;;  # no option of exec
    -*) printf '%s: not found\\n' "$1" >&2; exit 127
esac
exec "$@"
"""
)
"""Arguments: mark, directory, program and its arguments."""

READ = (
    _SAY
    + """\
[ -e "$2" ] || say "$1" file ENOENT
[ ! -d "$2" ] || say "$1" file EISDIR
[ -f "$2" ] || say "$1" file EINVAL
[ -r "$2" ] || say "$1" file EACCES
[ $(($(wc -c < "$2"))) -le "$3" ] || say "$1" file EFBIG
exec cat < "$2"
"""
)
"""Arguments: mark, path, most bytes. Its output is the file."""

WRITE = (
    _SAY
    + """\
[ ! -d "$2" ] || say "$1" file EISDIR
[ ! -e "$2" ] || [ -f "$2" ] || say "$1" file EINVAL
case $2 in ?*/*) mkdir -p -- "${2%/*}" 2>/dev/null || say "$1" file EACCES; esac
true 2>/dev/null >> "$2" || say "$1" file EACCES
exec cat > "$2"
"""
)
"""Arguments: mark, path. Its input becomes the file; missing parents are made."""

KEEP = """\
fable_exec_kept() { shift; "$@" </dev/null; }
fable_exec_kept "$@"
printf '\\n%s %s\\n' "$1" "$?"
while read -r _; do :; done
"""
"""Arguments: mark, program and its arguments. What the program leaves running goes on until the input ends."""


def said(mark: str, stderr: bytes) -> tuple[str, int] | None:
    """What a script refused, "cwd", "program" or "file", and the errno; None if it did what it was asked."""
    head, _, words = stderr.decode("utf-8", "replace").partition(" ")
    if head != mark:
        return None
    what, _, name = words.partition(" ")
    return what, getattr(errno, name, errno.EIO)


def kept_status(mark: str, stdout: bytes) -> tuple[int, bytes] | None:
    """The status of a program that KEEP started, and its output; None while it runs."""
    before, found, after = stdout.partition(os.fsencode(f"\n{mark} "))
    status, ended, _ = after.partition(b"\n")
    return (int(status), before) if found and ended else None
