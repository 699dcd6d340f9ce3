"""The frameworks whose executors are tried, each in an environment of its own below `benchmarks/.venv-leaks`.

None of their code is used. They have no environment in common, since each brings its own versions of what others bring too; one
that cannot be installed leaves the others their figures.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tools.test_all import interpreters

__all__ = ["DIRECTORY", "REQUIREMENTS", "NotInstallable", "interpreter"]

_PROJECT = Path(__file__).resolve().parents[2]
DIRECTORY = _PROJECT / "benchmarks" / ".venv-leaks"
REQUIREMENTS = {
    "langchain": "langchain==1.5.2",
    "deepagents": "deepagents==0.7.32",
    "swe-rex": "swe-rex==1.4.0",
    "google-adk": "google-adk==2.13.0",
    "pydantic-ai": "pydantic-ai-slim==2.68.0",
    "strands-agents": "strands-agents==1.62.0",
    "openai-agents": "openai-agents==0.24.0",
    "inspect-ai": "inspect-ai==0.3.285",
    "mini-swe-agent": "mini-swe-agent==2.4.6",
    "openhands": "openhands-tools==1.58.2",
    "agno": "agno==3.1.10",
    "agent-framework": "agent-framework-tools==1.0.0b261022",
}
_OLDEST_PYTHON = {"openhands": (3, 12)}
_INSTALL_SECONDS = 900


class NotInstallable(Exception):
    """Why a framework is not there, in pip's words."""


def interpreter(directory: Path, name: str) -> str:
    """The one that has the framework `name` and this library, made below `directory` if need be.

    Raises:
        NotInstallable: the framework, or a Python for it, cannot be had here.
    """
    python = directory / name / "bin" / "python"
    if _has(python, REQUIREMENTS[name]):
        return str(python)
    print(f"installing {REQUIREMENTS[name]} into {directory.name}", file=sys.stderr)
    try:
        subprocess.run([_python_for(name), "-m", "venv", "--clear", str(directory / name)], check=True, capture_output=True)
        _install(python, REQUIREMENTS[name])
        _install(python, "--editable", f"{_PROJECT}[cli]")  # sessions for LangChain are `fable-exec run`
    except (OSError, subprocess.SubprocessError) as error:
        raise NotInstallable(str(error)[:200]) from error
    return str(python)


def _has(python: Path, requirement: str) -> bool:
    distribution, _, version = requirement.partition("==")
    look = f"import fable_exec, importlib.metadata; assert importlib.metadata.version({distribution!r}) == {version!r}"
    try:
        return subprocess.run([python, "-c", look], cwd="/", capture_output=True).returncode == 0
    except OSError:
        return False


def _python_for(name: str) -> str:
    """This interpreter, or one of those found here that is new enough."""
    oldest = _OLDEST_PYTHON.get(name, (3, 11))
    if sys.version_info >= oldest:
        return sys.executable
    for version, (_, executable) in interpreters().items():
        if version >= oldest:
            return executable
    raise NotInstallable(f"{REQUIREMENTS[name]} needs Python {'.'.join(map(str, oldest))}")


def _install(python: Path, *wanted: str) -> None:
    pip = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-input"]
    done = subprocess.run([*pip, *wanted], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=_INSTALL_SECONDS)
    if done.returncode:
        errors = [line.removeprefix("ERROR: ") for line in done.stderr.splitlines() if line.startswith("ERROR:")]
        raise NotInstallable(errors[-1][:200] if errors else f"pip ended with status {done.returncode}")
