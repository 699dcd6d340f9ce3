"""Run the suite on every interpreter from 3.11 up that this machine has, each in its own environment below .venvs/.

Arguments are handed to pytest. The first failure does not stop the others; the exit status is 0 only if all passed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
OLDEST = (3, 11)
PROBE = "import sys, venv, ensurepip; print(*sys.version_info[:3], sys.implementation.name, sys.executable)"


def candidates() -> Iterator[Path]:
    """Paths that may be an interpreter: those of PATH, of the usual directories and of version managers."""
    directories = [Path(entry) for entry in os.environ.get("PATH", "").split(":") if entry.startswith("/")]
    directories += [Path("/usr/bin"), Path("/usr/local/bin"), Path("/opt/homebrew/bin")]
    home = Path.home()
    for pattern in (".pyenv/versions/*/bin", ".local/share/uv/python/*/bin", ".asdf/installs/python/*/bin"):
        directories += sorted(home.glob(pattern))
    for directory in dict.fromkeys(directories):
        try:
            names = sorted(os.listdir(directory))
        except OSError:
            continue
        yield from (directory / name for name in names if re.fullmatch(r"python3(\.\d+)?", name))


def interpreters() -> dict[tuple[int, int], tuple[str, str]]:
    """Newest found of each minor version: (3, 12) -> ("3.12.1", "/path/to/python")."""
    found: dict[tuple[int, int], tuple[tuple[int, ...], str]] = {}
    for path in candidates():
        try:
            answer = subprocess.run([path, "-c", PROBE], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=30)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if answer.returncode != 0:
            continue
        major, minor, micro, implementation, executable = answer.stdout.split(maxsplit=4)
        version = (int(major), int(minor), int(micro))
        kept = found.get(version[:2])
        if implementation == "cpython" and version[:2] >= OLDEST and (kept is None or version > kept[0]):
            found[version[:2]] = (version, executable.strip())
    return {key: (".".join(map(str, version)), executable) for key, (version, executable) in sorted(found.items())}


def run_suite(minor: tuple[int, int], executable: str, arguments: list[str]) -> bool:
    directory = PROJECT / ".venvs" / "{}.{}".format(*minor)
    setup = [executable, str(PROJECT / "tools" / "environment.py"), str(directory), "--extra", "cli", "--group", "test"]
    if subprocess.run(setup).returncode != 0:
        return False
    return subprocess.run([directory / "bin" / "python", "-m", "pytest", "-n", "auto", *arguments], cwd=PROJECT).returncode == 0


def main() -> int:
    found = interpreters()
    print("interpreters:", ", ".join(f"{version} ({executable})" for version, executable in found.values()) or "none", flush=True)
    results = {}
    for minor, (version, executable) in found.items():
        print(f"== Python {version}", flush=True)
        results[version] = run_suite(minor, executable, sys.argv[1:])
    for version, passed in results.items():
        print(f"Python {version}: {'passed' if passed else 'FAILED'}")
    return 0 if results and all(results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
