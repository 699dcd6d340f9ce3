"""The frameworks whose executors are tried, in a private environment, `benchmarks/.venv-leaks`. None of their code is used.

Each is installed by itself, so that the others have their figures where one cannot be installed.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

__all__ = ["DIRECTORY", "REQUIREMENTS", "environment", "missing"]

DIRECTORY = Path(__file__).resolve().parents[1] / ".venv-leaks"
REQUIREMENTS = {
    "langchain": "langchain==1.4.2",
    "deepagents": "deepagents==0.7.32",
    "swe-rex": "swe-rex==1.4.0",
    "google-adk": "google-adk==2.13.0",
    "pydantic-ai": "pydantic-ai-slim==2.62.0",
    "strands-agents": "strands-agents==1.62.0",
    "openai-agents": "openai-agents==0.24.0",
    "inspect-ai": "inspect-ai==0.3.285",
    "mini-swe-agent": "mini-swe-agent==2.4.6",
    "openhands": "openhands-tools==1.58.2",
    "agno": "agno==3.1.10",
    "agent-framework": "agent-framework-tools==1.0.0b261022",
}
_INSTALL_SECONDS = 600


def environment(directory: Path) -> str:
    """The interpreter of `directory`, with what this library needs; the environment is made if it is not there."""
    python = str(directory / "bin" / "python")
    if not Path(python).exists():
        subprocess.run([sys.executable, "-m", "venv", str(directory)], check=True, capture_output=True)
        reason = _install(python, "attrs", "cattrs")
        if reason:
            raise SystemExit(f"the environment for frameworks could not be made: {reason}")
    return python


def missing(python: str, name: str) -> str:
    """Why a framework is not there, in pip's words; empty if it is, also if it is only now."""
    requirement = REQUIREMENTS[name]
    distribution = requirement.partition("==")[0]
    look = f"import importlib.metadata; importlib.metadata.version({distribution!r})"
    if subprocess.run([python, "-c", look], capture_output=True).returncode == 0:
        return ""
    return _install(python, requirement)


def _install(python: str, *requirements: str) -> str:
    pip = [python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-input", *requirements]
    done = subprocess.run(pip, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=_INSTALL_SECONDS)
    if done.returncode == 0:
        return ""
    errors = [line.removeprefix("ERROR: ") for line in done.stderr.splitlines() if line.startswith("ERROR:")]
    return errors[-1][:200] if errors else f"pip ended with status {done.returncode}"
