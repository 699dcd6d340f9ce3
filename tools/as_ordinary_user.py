"""Run a command as an ordinary user, in a private copy of this tree, and leave nothing behind.

For root only. The user is an id that no account and no process has: `nobody` would not do, because it is the kernel's overflow
id, and inside a user namespace every file of root then looks like its own. The copy, HOME, temporary files and virtual
environment belong to that user alone. A process that outlives the command is reported, ended, and counts as a failure.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
NOT_COPIED = shutil.ignore_patterns(
    ".git", ".venv*", "__pycache__", "*.egg-info", "build", "dist", "_build", ".*_cache", ".hypothesis"
)
GRACE_SECONDS = 3
KEPT_VARIABLES = (
    "CI",
    "FABLE_EXEC_REQUIRE_ABILITIES",
    "HYPOTHESIS_PROFILE",
    "LANG",
    "NO_COLOR",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TERM",
)
KEPT_PREFIXES = ("PIP_", "LC_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")


def run_as_ordinary_user(argv: list[str]) -> int:
    """Run `argv` in the copy; its exit status, or 1 when it left processes behind."""
    uid = free_uid()
    home = Path(tempfile.mkdtemp(prefix="fable-exec-user-"))
    try:
        tree = _populate(home, uid)
        print(f"as an ordinary user (uid {uid}): {' '.join(argv)}", flush=True)
        status = _run(argv, tree, home, uid)
    finally:
        left = _end_processes_of(uid)
        subprocess.run(["rm", "-rf", home], check=True)  # shutil's recursion ends before the depth that tests dig to
    for line in left:
        print(f"left running by the ordinary user's run: {line}", file=sys.stderr)
    return status or (1 if left else 0)


def free_uid() -> int:
    """An id without an account and without a process; random, so that two runs at once do not meet."""
    while True:
        uid = random.randrange(20_000, 60_000)
        with contextlib.suppress(KeyError):
            pwd.getpwuid(uid)
            continue
        if not _processes_of(uid):
            return uid


def _populate(home: Path, uid: int) -> Path:
    tree = home / "tree"
    shutil.copytree(PROJECT, tree, symlinks=True, ignore=NOT_COPIED)
    (home / "tmp").mkdir()
    for directory, names, files in os.walk(home):
        for path in (directory, *(os.path.join(directory, name) for name in names + files)):
            os.chown(path, uid, uid, follow_symlinks=False)
    return tree


def _run(argv: list[str], tree: Path, home: Path, uid: int) -> int:
    process = subprocess.Popen(
        argv,
        cwd=tree,
        env=_environment(home, uid),
        stdin=subprocess.DEVNULL,
        user=uid,
        group=uid,
        extra_groups=[],
        umask=0o022,
        start_new_session=True,
    )
    try:
        return process.wait()
    except BaseException:
        process.kill()
        process.wait()
        raise


def _environment(home: Path, uid: int) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name in KEPT_VARIABLES or name.startswith(KEPT_PREFIXES)}
    return kept | {"HOME": str(home), "TMPDIR": str(home / "tmp"), "PATH": _reachable_path(uid)}


def _reachable_path(uid: int) -> str:
    """The directories of PATH that the user can enter; a version manager below /root is of no use to others."""
    test = 'for d; do [ -x "$d" ] && printf "%s\\n" "$d"; done; true'
    entries = [entry for entry in os.environ.get("PATH", os.defpath).split(":") if entry.startswith("/")]
    answer = subprocess.run(
        ["/bin/sh", "-c", test, "sh", *entries], user=uid, group=uid, extra_groups=[], capture_output=True, text=True
    )
    return ":".join(answer.stdout.split("\n")).strip(":")


def _processes_of(uid: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                status = (entry / "status").read_text()
                ids = next(line for line in status.splitlines() if line.startswith("Uid:")).split()[1:]
                if str(uid) in ids:
                    found.append(int(entry.name))
    return found


def _end_processes_of(uid: int) -> list[str]:
    """End what the private id still runs; one line for each, in words. The id was free, so nothing else can be hit."""
    described: dict[int, str] = {}
    _let_them_end(uid)
    for _round in range(100):  # a tree may fork while it is being ended; each round catches what the last one missed
        alive = [pid for pid in _processes_of(uid) if not _is_zombie(pid)]
        if not alive:
            break
        for pid in alive:
            with contextlib.suppress(OSError):
                command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                described.setdefault(pid, f"pid {pid}: {command.strip()[:200]}")
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    return list(described.values())


def _let_them_end(uid: int) -> None:
    """Some end by themselves when their parent is gone, as the resource tracker of multiprocessing does; give them a moment."""
    deadline = time.monotonic() + GRACE_SECONDS
    while time.monotonic() < deadline and any(not _is_zombie(pid) for pid in _processes_of(uid)):
        time.sleep(0.05)


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (OSError, IndexError):
        return True


def main() -> int:
    argv = sys.argv[2:] if sys.argv[1:2] == ["--"] else sys.argv[1:]
    if not argv or os.geteuid() != 0:
        print("usage (as root): as_ordinary_user.py -- COMMAND...", file=sys.stderr)
        return 2
    return run_as_ordinary_user(argv)


if __name__ == "__main__":
    sys.exit(main())
