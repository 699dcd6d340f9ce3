"""The answers about commands: frozen values, the same in process and behind a pipe.

Output is bytes here, with properties that give it as text and as text that is safe to show. How it is written on the wire is said
in fable_exec.protocol.encoding.
"""

from __future__ import annotations

import attrs

from fable_exec.outcome import Applied, Captured, Denial, EndedBy, Observed, Outcome, Survivor, decode_text, display_text
from fable_exec.protocol.results import Result

__all__ = [
    "CancelResult",
    "CommandResult",
    "CommandSummary",
    "ListCommandsResult",
    "ReadCommandResult",
    "StartResult",
    "WriteStdinResult",
]


@attrs.frozen(kw_only=True)
class CommandResult(Result):
    """A command that ran, and how that ended.

    `exit_code` is the exit status, -N for signal N, and None when a deadline ended the call. `signal` is what ended the leader,
    whoever sent it. `answer_limited` says that output was cut further because the answer would have been too large.
    """

    command: tuple[str, ...]
    cwd: str
    exit_code: int | None
    signal: int | None
    outcome: EndedBy
    captured_stdout: Captured
    captured_stderr: Captured
    survivors: tuple[Survivor, ...]
    duration_seconds: float
    user_cpu_seconds: float
    system_cpu_seconds: float
    peak_rss_bytes: int
    confinement: tuple[Applied, ...]
    denials: tuple[Denial, ...]
    policy_digest: str
    answer_limited: bool = False
    peak_processes: int = 0
    denials_omitted: int = 0
    observed: Observed = Observed.OFF

    @classmethod
    def of(cls, outcome: Outcome, *, command: tuple[str, ...], cwd: str, policy_digest: str) -> CommandResult:
        """The result that reports `outcome`; `command` is what was executed and `cwd` where ("." or "a/b")."""
        exit_code = outcome.exit_code if outcome.signal is None else -outcome.signal
        return cls(
            command=command,
            cwd=cwd,
            exit_code=None if outcome.timed_out else exit_code,
            signal=outcome.signal,
            outcome=outcome.ended_by,
            captured_stdout=outcome.stdout,
            captured_stderr=outcome.stderr,
            survivors=outcome.survivors,
            duration_seconds=outcome.duration_seconds,
            user_cpu_seconds=outcome.user_cpu_seconds,
            system_cpu_seconds=outcome.system_cpu_seconds,
            peak_rss_bytes=outcome.peak_rss_bytes,
            peak_processes=outcome.peak_processes,
            confinement=outcome.applied,
            denials=outcome.denials,
            denials_omitted=outcome.denials_omitted,
            observed=outcome.observed,
            policy_digest=policy_digest,
        )

    @property
    def timed_out(self) -> bool:
        """Whether a deadline, the total or the idle one, ended the call."""
        return self.outcome in (EndedBy.TIMED_OUT, EndedBy.IDLE_TIMED_OUT)

    @property
    def output_limited(self) -> bool:
        """Whether a byte of output is missing here, or the command was ended for its output."""
        return self.outcome is EndedBy.OUTPUT_LIMITED or bool(self.stdout_omitted_bytes or self.stderr_omitted_bytes)

    @property
    def success(self) -> bool:
        """Exit status 0, no deadline, no output missing, and nothing done that the policy counts as a failure."""
        ended_well = self.outcome is EndedBy.EXITED and self.exit_code == 0 and not self.output_limited
        return ended_well and not any(denial.fails for denial in self.denials)

    @property
    def stdout(self) -> str:
        """Standard output as text."""
        return self.captured_stdout.text()

    @property
    def stderr(self) -> str:
        """Standard error as text."""
        return self.captured_stderr.text()

    @property
    def stdout_raw(self) -> bytes:
        """The kept bytes of standard output."""
        return self.captured_stdout.raw

    @property
    def stderr_raw(self) -> bytes:
        """The kept bytes of standard error."""
        return self.captured_stderr.raw

    @property
    def stdout_display(self) -> str:
        """Standard output with control characters made visible."""
        return self.captured_stdout.display()

    @property
    def stderr_display(self) -> str:
        """Standard error with control characters made visible."""
        return self.captured_stderr.display()

    @property
    def stdout_total_bytes(self) -> int:
        """How many bytes the command wrote to standard output."""
        return self.captured_stdout.total_bytes

    @property
    def stderr_total_bytes(self) -> int:
        """How many bytes the command wrote to standard error."""
        return self.captured_stderr.total_bytes

    @property
    def stdout_omitted_bytes(self) -> int:
        """How many bytes of standard output are not here."""
        return self.captured_stdout.omitted_bytes

    @property
    def stderr_omitted_bytes(self) -> int:
        """How many bytes of standard error are not here."""
        return self.captured_stderr.omitted_bytes


@attrs.frozen(kw_only=True)
class StartResult(Result):
    """A background command runs and answers to `handle`."""

    handle: str
    command: tuple[str, ...]
    cwd: str


@attrs.frozen(kw_only=True)
class ReadCommandResult(Result):
    """What a background command said since the last read, and its result once it has ended.

    While it runs, the pieces must end at a character boundary (`fable_exec.outcome.whole_characters`), so that text survives
    polling. The omitted counts are of this piece. `result` is the whole record, the output of earlier reads included.
    """

    handle: str
    running: bool
    stdout_data: bytes
    stderr_data: bytes
    stdout_omitted_bytes: int = 0
    stderr_omitted_bytes: int = 0
    result: CommandResult | None = None

    @property
    def stdout(self) -> str:
        """This piece of standard output as text."""
        return decode_text(self.stdout_data)

    @property
    def stderr(self) -> str:
        """This piece of standard error as text."""
        return decode_text(self.stderr_data)

    @property
    def stdout_display(self) -> str:
        """This piece of standard output with control characters made visible."""
        return display_text(self.stdout)

    @property
    def stderr_display(self) -> str:
        """This piece of standard error with control characters made visible."""
        return display_text(self.stderr)


@attrs.frozen(kw_only=True)
class WriteStdinResult(Result):
    """The input was taken; `open` says whether more may follow."""

    handle: str
    accepted_bytes: int
    open: bool


@attrs.frozen(kw_only=True)
class CancelResult(Result):
    """`cancelled` is true if something was ended, false if nothing with that name was running."""

    cancelled: bool


@attrs.frozen(kw_only=True)
class CommandSummary:
    """One background command."""

    handle: str
    command: tuple[str, ...]
    cwd: str
    running: bool
    duration_seconds: float


@attrs.frozen(kw_only=True)
class ListCommandsResult(Result):
    """The background commands whose handles are known, oldest first."""

    commands: tuple[CommandSummary, ...]
    truncated: bool = False
