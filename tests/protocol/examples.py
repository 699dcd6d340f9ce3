"""Values of every request and result type, and hypothesis strategies that make more of them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from fable_exec import protocol as p
from fable_exec.outcome import Applied, Captured, Denial, EndedBy, Observed, Survivor

SHA = "0123456789abcdef" * 4
LIMITS = p.LimitsReport(
    timeout_seconds=120.0,
    max_timeout_seconds=3600.0,
    idle_timeout_seconds=None,
    max_output_bytes=1_000_000,
    max_frame_bytes=1 << 20,
    max_answer_bytes=1 << 24,
    max_in_flight=64,
)

REQUESTS: list[p.Request] = [
    p.Probe(),
    p.InspectFiles(path="a/b.txt"),
    p.InspectFiles(path="a", max_bytes=7, encoding="base64"),
    p.WriteFile(path="a", content="漢字\n".encode()),
    p.WriteFile(path="a", content=b"\xff\x00", expected_hash=SHA),
    p.WriteFile(path="a", content=b""),
    p.Append(path="a", content=b"more", expected_hash=SHA),
    p.EditFile(path="a", old=b"x", new=b""),
    p.EditFile(path="a", old=b"\xff", new=b"ok", expected_hash=SHA),
    p.ListDirectory(),
    p.ListDirectory(path="src", max_entries=3),
    p.StatPath(path="a"),
    p.MakeDirectory(path="a/b"),
    p.MovePath(source="a", destination="b"),
    p.MovePath(source="a", destination="b", replace=True),
    p.RemovePath(path="a", recursive=True),
    p.SearchFiles(query="x"),
    p.SearchFiles(query="x", path="src", name_pattern="*.py", ignore_case=True, max_matches=5),
    p.ExecuteCommand(command=("python", "-c", "")),
    p.ExecuteCommand(
        command=("python", "é"),
        cwd="src",
        timeout_seconds=1.5,
        idle_timeout_seconds=1.0,
        stdin=b"\x00\xff",
        env={"A": "1", "B": ""},
        on_output_limit="truncate",
        stream=True,
        encoding="base64",
    ),
    p.ExecuteCommand(command=("x",), stdin=b""),
    p.StartCommand(command=("python", "-i"), stdin=b"\xff", keep_stdin_open=True),
    p.ReadCommand(handle="c1"),
    p.ReadCommand(handle="c1", wait_seconds=3.0, encoding="base64"),
    p.WriteStdin(handle="c1"),
    p.WriteStdin(handle="c1", data=b"\xfe", close=True),
    p.Cancel(target=7),
    p.Cancel(target="seven"),
    p.Cancel(handle="c1"),
    p.ListCommands(),
]


def command_result(**changes: Any) -> p.CommandResult:
    given: dict[str, Any] = {
        "command": ("/usr/bin/python3", "-c", ""),
        "cwd": ".",
        "exit_code": 0,
        "signal": None,
        "outcome": EndedBy.EXITED,
        "captured_stdout": Captured(head=b"out\n"),
        "captured_stderr": Captured(),
        "survivors": (Survivor(41, "sleep"),),
        "duration_seconds": 0.5,
        "user_cpu_seconds": 0.25,
        "system_cpu_seconds": 0.125,
        "peak_rss_bytes": 4096,
        "peak_processes": 3,
        "denials_omitted": 2,
        "observed": Observed.CHANGES,
        "confinement": (
            Applied("network", "strict", "active", "namespace"),
            Applied("memory", "try", "degraded", "rlimit", "no cgroup"),
        ),
        "denials": (Denial(operation="connect", address="192.0.2.1:80", protection="network"),),
        "policy_digest": SHA,
    }
    return p.CommandResult(**{**given, **changes})


RESULTS: list[tuple[type[p.Request], p.Result]] = [
    (
        p.Probe,
        p.ProbeResult(
            available_executables=("python",),
            unresolved_executables=(),
            writes_enabled=False,
            read_locked_interpreters=("bash",),
            workspace="/w",
            policy_digest=SHA,
            confinement=(Applied("network", "strict", "unavailable", "", "no namespaces"),),
            limits=LIMITS,
            notes=("git needs what is not here",),
        ),
    ),
    (p.InspectFiles, p.InspectResult(path="a", data=b"text\n", content_hash=SHA, truncated=False, total_bytes=5)),
    (p.WriteFile, p.WriteResult(path="a", content_hash=SHA, total_bytes=1, created=True)),
    (p.EditFile, p.WriteResult(path="a", content_hash=SHA, total_bytes=1, created=False)),
    (p.Append, p.AppendResult(path="a", appended_bytes=1, total_bytes=2, created=False)),
    (
        p.ListDirectory,
        p.ListResult(
            path=".",
            entries=(p.DirectoryEntry(name="a", kind="file", size_bytes=1), p.DirectoryEntry(name="b", kind="directory")),
            truncated=False,
        ),
    ),
    (p.StatPath, p.StatResult(path="a", kind="file", size_bytes=1, mode=0o600, links=1, modified_seconds=1.5)),
    (p.MakeDirectory, p.MakeDirectoryResult(path="a", created=True)),
    (p.MovePath, p.MoveResult(source="a", destination="b", replaced=False)),
    (p.RemovePath, p.RemoveResult(path="a", removed=3)),
    (
        p.SearchFiles,
        p.SearchResult(
            matches=(p.SearchMatch(path="a", line=1, column=2, text="漢"),), truncated=False, files_searched=1, files_skipped=2
        ),
    ),
    (p.ExecuteCommand, command_result()),
    (p.ExecuteCommand, command_result(outcome=EndedBy.TIMED_OUT, exit_code=None, signal=9, survivors=(), denials=())),
    (p.StartCommand, p.StartResult(handle="c1", command=("/bin/x", ""), cwd="a/b")),
    (p.ReadCommand, p.ReadCommandResult(handle="c1", running=True, stdout_data=b"a", stderr_data="é".encode())),
    (
        p.ReadCommand,
        p.ReadCommandResult(
            handle="c1", running=False, stdout_data=b"", stderr_data=b"", stdout_omitted_bytes=4, result=command_result()
        ),
    ),
    (p.WriteStdin, p.WriteStdinResult(handle="c1", accepted_bytes=3, open=False)),
    (p.Cancel, p.CancelResult(cancelled=True)),
    (
        p.ListCommands,
        p.ListCommandsResult(
            commands=(p.CommandSummary(handle="c1", command=("x",), cwd=".", running=True, duration_seconds=1.0),)
        ),
    ),
]

REQUEST_OF: dict[type[p.Request], p.Request] = {
    p.InspectFiles: p.InspectFiles(path="a", encoding="base64"),
    p.ExecuteCommand: p.ExecuteCommand(command=("x",), encoding="base64"),
    p.ReadCommand: p.ReadCommand(handle="c1", encoding="base64"),
}
"""Requests that ask for base64, in which every result is exact."""

captured = st.builds(Captured, head=st.binary(max_size=300)) | st.builds(
    lambda head, tail, more: Captured(head=head, tail=tail, total_bytes=len(head) + len(tail) + more),
    st.binary(min_size=1, max_size=300),
    st.binary(min_size=1, max_size=300),
    st.integers(1, 10**9),
)
