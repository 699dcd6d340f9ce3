"""What a confined shell does for a sample: it starts what no list can name, and reaches files where only commands are.

A sample's commands have places of their own, such as a private /tmp, which no process of the host sees. A script says why it does
nothing by a line that begins with a mark, which nobody else knows. Pure text.
"""

from __future__ import annotations

import errno
import os

__all__ = ["KEEP", "READ", "RUN", "WRITE", "kept_status", "said"]

_SAY = 'mark=$1 cwd=$2; shift 2; say() { printf "%s %s %s" "$mark" "$@" >&2; exit 125; }\n'

RUN = (
    _SAY
    + """\
[ -e "$cwd" ] || say cwd ENOENT
[ -d "$cwd" ] || say cwd ENOTDIR
cd -- "$cwd" 2>/dev/null || say cwd EACCES
case $1 in */*)
    [ ! -d "$1" ] || say program EACCES
    [ ! -e "$1" ] || [ -x "$1" ] || say program EACCES
esac
exec "$@"
"""
)
"""Arguments: mark, directory, program and its arguments."""

READ = (
    _SAY
    + """\
[ -e "$1" ] || say file ENOENT
[ ! -d "$1" ] || say file EISDIR
[ -f "$1" ] || say file EINVAL
[ -r "$1" ] || say file EACCES
[ $(($(wc -c < "$1"))) -le "$2" ] || say file EFBIG
exec cat < "$1"
"""
)
"""Arguments: mark, nothing, path, most bytes. Its output is the file."""

WRITE = (
    _SAY
    + """\
[ ! -d "$1" ] || say file EISDIR
[ ! -e "$1" ] || [ -f "$1" ] || say file EINVAL
case $1 in ?*/*) mkdir -p -- "${1%/*}" 2>/dev/null || say file EACCES; esac
true 2>/dev/null >> "$1" || say file EACCES
exec cat > "$1"
"""
)
"""Arguments: mark, nothing, path. Its input becomes the file; missing parents are made."""

KEEP = """\
mark=$1; shift
"$@" </dev/null
printf '\\n%s %s\\n' "$mark" "$?"
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
