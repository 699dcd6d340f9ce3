"""LangChain: the persistent shell of its `ShellToolMiddleware`, under a policy. Needs the extra `langchain`.

The session is one `fable-exec run` of the shell (docs/reference/cli.md). What a command of the session leaves in the background
is part of the session, and ends with it. Output limits, redaction and the tool itself are LangChain's.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fable_exec.adapters.blocking import BlockingAgentWorkspace
from fable_exec.adapters.values import RunRequest
from fable_exec.errors import ExtraMissing, InvalidRequest, LaunchFailed

try:
    from langchain.agents.middleware._execution import BaseExecutionPolicy
except ImportError as error:
    raise ExtraMissing.of("langchain", error.name or "langchain") from error

__all__ = ["FableExecutionPolicy"]

_END_SECONDS = 10.0
"""How long a session may take to prove that all of it has ended. After that LangChain kills it, which ends all of it too."""


@dataclass(kw_only=True)
class FableExecutionPolicy(BaseExecutionPolicy):
    """For `ShellToolMiddleware(workspace_root=..., execution_policy=...)`; `workspace_root` is in the policy's workspace.

    When a command runs out of time, LangChain ends the session and starts a new one; all that the session ran is dead by then.

    Args:
        agent_workspace: whose policy holds. It stays open as long as sessions are started; they end with this process.
        write_token: the administrator's, with which sessions start unlocked; without it the workspace is read-only for them.
        termination_timeout: how long an `exit` may take before all is ended. LangChain waits for it after every timeout.
    """

    agent_workspace: BlockingAgentWorkspace
    write_token: str | None = field(default=None, repr=False)
    termination_timeout: float = 0.0
    _tried: set[tuple[str, ...]] = field(init=False, repr=False, compare=False, default_factory=set)

    def spawn(self, *, workspace: Path, env: Mapping[str, str], command: Sequence[str]) -> subprocess.Popen[str]:
        """Start a session of `command`, once a trial has shown that the policy and this host let it run.

        Raises:
            Denied: the policy does not list the shell, or refuses a variable of `env`; ShellDenied: the kernel does not hold here
                what a shell could do. LaunchFailed: the trial did not end by itself. InvalidRequest: `workspace` lies elsewhere.
        """
        cwd = self._below(workspace)
        if (cwd, *command) not in self._tried:
            self._try(tuple(command), env, cwd)
            self._tried.add((cwd, *command))
        # All output of a session together must not end it; how much of it the model is shown is LangChain's to say.
        spec = self.agent_workspace.launch(tuple(command), env, cwd, token=self.write_token, on_output_limit="truncate")
        return _Session(
            spec.argv,
            env=dict(spec.env),
            cwd=spec.cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            bufsize=1,
            start_new_session=True,
        )

    def _below(self, workspace: Path) -> str:
        """The session's directory, as every view of the workspace names it."""
        root = Path(self.agent_workspace.policy.workspace)
        try:
            return str(workspace.resolve().relative_to(root))
        except ValueError:
            raise InvalidRequest(
                f"workspace_root is {str(workspace)!a:.200}, which is not in the workspace of the policy; give {str(root)!a:.200}"
            ) from None

    def _try(self, command: tuple[str, ...], env: Mapping[str, str], cwd: str) -> None:
        """Give a shell nothing, then the session's own: what a model would see as a dead session is raised here."""
        for trial in (":", command):
            request = RunRequest(trial, env=env, cwd=cwd, timeout_seconds=self.startup_timeout)
            tried = self.agent_workspace.run(request)
            if tried.exit_code is None:
                raise LaunchFailed(
                    f"{command[0]!a:.200} was tried without input, and ended by {tried.outcome.value}", stage="exec"
                )


class _Session(subprocess.Popen[str]):
    """A session whose end is proved: whoever waits for it for a time has it ended when the time is over."""

    def wait(self, timeout: float | None = None) -> int:
        """The status. After `timeout` seconds the session is told to end, which it does with all that it ran."""
        try:
            return super().wait(timeout)
        except subprocess.TimeoutExpired:
            self.terminate()
            return super().wait(_END_SECONDS)
