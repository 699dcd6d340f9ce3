"""Make a virtual environment hold this project and what a task needs; do nothing when it already does.

Used by the Makefile and by the programs beside this one, under any Python from 3.11 up and with the standard library alone.
Safe to call from several processes at once: a lock on the project directory lets one work while the others wait.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
STAMP = ".fable-exec-stamp"
PIP_WITH_GROUPS = "pip>=25.1"  # the first release that installs [dependency-groups]


def ensure(directory: Path, extras: list[str], groups: list[str]) -> Path:
    """Bring `directory` up to date with pyproject.toml and return its interpreter.

    A later call with other groups adds to the environment and takes nothing away.
    """
    python = directory / "bin" / "python"
    lock = os.open(PROJECT, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _usable(python):
            _create(directory)
        installed = _read_stamp(directory)
        wanted = {f"extra:{name}" for name in extras} | {f"group:{name}" for name in groups}
        fingerprint = _fingerprint()
        if installed.get("pyproject") != {fingerprint} or not wanted <= installed.get("parts", set()):
            # Only what is there and still current may stay listed; a changed pyproject.toml starts the list anew.
            kept = installed.get("parts", set()) if installed.get("pyproject") == {fingerprint} else set()
            _install(python, extras, groups)
            _write_stamp(directory, fingerprint, kept | wanted)
    finally:
        os.close(lock)
    return python


def _usable(python: Path) -> bool:
    """Whether the environment's interpreter runs here, for this user, and is new enough."""
    probe = "import sys; sys.exit(sys.version_info < (3, 11))"
    try:
        return subprocess.run([str(python), "-c", probe], stdin=subprocess.DEVNULL, capture_output=True).returncode == 0
    except OSError:
        return False


def _create(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    print(f"creating {directory} with Python {sys.version.split()[0]}", file=sys.stderr)
    venv.create(directory, with_pip=True, symlinks=True)


def _install(python: Path, extras: list[str], groups: list[str]) -> None:
    pip = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-input"]
    target = f"{PROJECT}[{','.join(extras)}]" if extras else str(PROJECT)
    wanted = [part for name in groups for part in ("--group", f"{PROJECT / 'pyproject.toml'}:{name}")]
    print(f"installing {' '.join([*extras, *groups]) or 'the project'}", file=sys.stderr)
    for arguments in ([PIP_WITH_GROUPS], ["--editable", target, *wanted]):
        subprocess.run([*pip, *arguments], check=True, stdin=subprocess.DEVNULL)


def _fingerprint() -> str:
    return hashlib.sha256((PROJECT / "pyproject.toml").read_bytes() + str(PROJECT).encode()).hexdigest()


def _read_stamp(directory: Path) -> dict[str, set[str]]:
    try:
        pyproject, *parts = (directory / STAMP).read_text().split()
    except (OSError, ValueError):
        return {}
    return {"pyproject": {pyproject}, "parts": set(parts)}


def _write_stamp(directory: Path, fingerprint: str, parts: set[str]) -> None:
    (directory / STAMP).write_text("\n".join([fingerprint, *sorted(parts)]) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--extra", action="append", default=[])
    parser.add_argument("--group", action="append", default=[])
    options = parser.parse_args()
    try:
        ensure(options.directory.absolute(), options.extra, options.group)
    except subprocess.CalledProcessError as error:
        print(f"the environment could not be set up: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
