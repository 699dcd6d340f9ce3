"""A guarded workspace: commands of a real launcher between `before_command` and `after_command`, and a host beside them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fable_exec.confine import FileView, compile_plan
from fable_exec.laterfiles import Finding, Sentry
from fable_exec.outcome import Denial, EndedBy, Outcome
from fable_exec.pathguard import Workspace
from fable_exec.policy import Confinement
from fable_exec.runner import Launchers, Pins, Runner
from tests.commands import ENVIRONMENT, identity, shell

_NOBODY = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.com",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.com",
}
GIT_ENVIRONMENT = {**ENVIRONMENT, **_NOBODY}


class _Pinning:
    """The part of a broker's guard that a test lets pin by itself."""

    def __init__(self) -> None:
        self.pins = Pins(required=False)

    def before(self) -> Pins:
        return self.pins

    def after(self, pinned: bool) -> tuple[Denial, ...]:
        return ()


class Guarded:
    """One workspace under a sentry. `runner` is made when it is first needed; without one, commands are plain processes."""

    def __init__(self, path: Path, quarantine: Path, mode: Any, action: Any = "neutralise") -> None:
        self.path, self.quarantine, self.mode = path, quarantine, mode
        self.workspace = Workspace.open(path)
        self.runner: Runner | None = None
        self.last = Outcome(ended_by=EndedBy.EXITED)
        self._action = action
        self._sentry: Sentry | None = None
        self._pinning = _Pinning()

    @property
    def sentry(self) -> Sentry:
        """Posted at the first use: what the host did before is accepted."""
        if self._sentry is None:
            self._sentry = Sentry(self.workspace, str(self.quarantine), self._action, pinned=self.mode is not None)
        return self._sentry

    def host(self, script: str) -> str:
        """What the user does outside of any call."""
        answer = subprocess.run(
            ["bash", "-ec", script], cwd=self.path, env={**os.environ, **_NOBODY}, capture_output=True, text=True
        )
        assert answer.returncode == 0, answer.stderr
        return answer.stdout

    def command(self, script: str) -> tuple[str, tuple[Finding, ...]]:
        """Run a script as a command; its whole output, and what was found."""
        pins = self.sentry.before_command()
        try:
            output = self._run(script, pins)
        finally:
            found = self.sentry.after_command()
        return output, found

    def planted(self, script: str) -> dict[str, str]:
        """What a script planted: path to what was done about it."""
        return {each.path: each.done for each in self.command(script)[1]}

    def exists(self, path: str) -> bool:
        return os.path.lexists(self.path / path)

    def close(self) -> None:
        if self.runner is not None:
            self.runner.close()
        if self._sentry is not None:
            self._sentry.close()
        self.workspace.close()

    def _run(self, script: str, pins: tuple[tuple[str, int], ...]) -> str:
        if self.mode is None:
            done = subprocess.run(
                ["bash", "-c", script],
                cwd=self.path,
                env=GIT_ENVIRONMENT,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            return done.stdout
        if self.runner is None:
            mode, view = self.mode, FileView(workspace=str(self.path), writable=True)
            launchers = Launchers(identity(self.path))
            self.runner = Runner(launchers, lambda support: compile_plan(mode, support, Confinement(), view), self._pinning)
        self._pinning.pins = Pins(pins, required=False)
        self.last = self.runner.run(shell(script, environment=GIT_ENVIRONMENT))
        return self.last.stdout.text() + self.last.stderr.text()


_SLOTS = pytest.mark.requires_ability("pid_namespace", "own_proc", "landlock", "git")
_NAMESPACE = pytest.mark.requires_ability("pid_namespace", "landlock", "git")
PINNING = [pytest.param("slots", marks=_SLOTS), pytest.param("namespace", marks=_NAMESPACE)]
SWEEPING = [pytest.param(None, id="swept", marks=pytest.mark.requires_ability("linux", "git"))]


@pytest.fixture
def make_guarded(workspace: Path, tmp_path: Path) -> Iterator[Callable[..., Guarded]]:
    made: list[Guarded] = []

    def make(mode: str | None, **options: Any) -> Guarded:
        made.append(Guarded(workspace, tmp_path / "quarantine", mode, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture(params=PINNING)
def pinned(request: pytest.FixtureRequest, make_guarded: Callable[..., Guarded]) -> Guarded:
    """With a launcher that pins, in each mode that has mounts."""
    return make_guarded(request.param)


@pytest.fixture(params=[*PINNING, *SWEEPING])
def guarded(request: pytest.FixtureRequest, make_guarded: Callable[..., Guarded]) -> Guarded:
    """Pinned or only swept."""
    return make_guarded(request.param)


@pytest.fixture(params=SWEEPING)
def swept(request: pytest.FixtureRequest, make_guarded: Callable[..., Guarded]) -> Guarded:
    """Without a launcher: only what is found afterwards."""
    return make_guarded(request.param)
