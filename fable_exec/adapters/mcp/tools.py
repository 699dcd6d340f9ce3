"""The tools: name, what they take and answer, what clients may assume of them, and what they do. A table and short functions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from os.path import basename
from typing import Any

import attrs
from mcp_types import ToolAnnotations

from fable_exec.adapters.mcp import arguments, reports
from fable_exec.adapters.mcp.progress import Progress, Report
from fable_exec.adapters.shelltext import SHELLS
from fable_exec.adapters.values import RunRequest
from fable_exec.adapters.workspace import AgentWorkspace
from fable_exec.calls.building import as_bytes
from fable_exec.policy import BrokerPolicy
from fable_exec.protocol.decoding import to_bytes

__all__ = ["Call", "Tool", "tools_for"]


@attrs.frozen
class Call:
    """What a tool has to work with."""

    workspace: AgentWorkspace
    report: Report


@attrs.frozen(kw_only=True)
class Tool:
    """One tool. `act` gets a value of `takes` and returns one of `answers`."""

    name: str
    title: str
    description: str
    takes: type[Any]
    answers: type[Any]
    act: Callable[[Call, Any], Awaitable[Any]]
    annotations: ToolAnnotations


_LOOKS = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
_ADDS = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False)
_MAKES = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
_CHANGES = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=False)
_REPLACES = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False)


def tools_for(policy: BrokerPolicy) -> Iterable[Tool]:
    """What a server under `policy` offers; `run_shell` only where a shell is listed."""
    runs = ToolAnnotations(
        read_only_hint=False,
        destructive_hint=True,
        idempotent_hint=False,
        open_world_hint=policy.confinement.network != "off",
    )
    yield Tool(
        name="execute_command",
        title="Run a program",
        description="Run one listed program to its end, sandboxed in the workspace. No shell reads its arguments. A status other "
        "than 0, a timeout and a limit are results; nothing of the program is alive afterwards.",
        takes=arguments.Execute,
        answers=reports.CommandReport,
        act=_execute,
        annotations=runs,
    )
    if {basename(each) for each in policy.allowed_executables} & set(SHELLS):
        yield Tool(
            name="run_shell",
            title="Run shell text",
            description="The same for a text that a shell reads. Refused where the sandbox does not hold what a shell could do.",
            takes=arguments.Shell,
            answers=reports.CommandReport,
            act=_run_shell,
            annotations=runs,
        )
    yield from _FILE_TOOLS


async def _execute(call: Call, given: arguments.Execute) -> reports.CommandReport:
    return await _run(call, given.command, given)


async def _run_shell(call: Call, given: arguments.Shell) -> reports.CommandReport:
    return await _run(call, given.text, given)


async def _run(call: Call, command: str | list[str], given: arguments.Execute | arguments.Shell) -> reports.CommandReport:
    request = RunRequest(
        command,
        cwd=given.cwd,
        env=given.env,
        stdin=None if given.stdin is None else as_bytes(given.stdin, "stdin"),
        timeout_seconds=given.timeout_seconds,
        idle_timeout_seconds=given.idle_timeout_seconds,
    )
    async with Progress(call.report) as progress:
        return reports.of_command(await call.workspace.run(request, progress.hear))


async def _describe(call: Call, _: arguments.Nothing) -> reports.WorkspaceReport:
    return reports.of_probe(await call.workspace.probe(), call.workspace.root)


async def _read(call: Call, given: arguments.Read) -> reports.FileContent:
    return reports.of_inspect(await call.workspace.inspect(given.path, given.max_bytes))


async def _write(call: Call, given: arguments.Write) -> reports.Written:
    content = _content(given)
    return reports.of_write(await call.workspace.write_bytes(given.path, content, expected_hash=given.expected_hash))


async def _append(call: Call, given: arguments.Append) -> reports.Appended:
    content = _content(given)
    return reports.of_append(await call.workspace.append(given.path, content, expected_hash=given.expected_hash))


async def _edit(call: Call, given: arguments.Edit) -> reports.Written:
    return reports.of_write(await call.workspace.edit(given.path, given.old, given.new, expected_hash=given.expected_hash))


async def _list(call: Call, given: arguments.List) -> reports.Listing:
    return reports.of_list(await call.workspace.list_dir(given.path, max_entries=given.max_entries))


async def _stat(call: Call, given: arguments.Look) -> reports.PathStatus:
    return reports.of_stat(await call.workspace.stat(given.path))


async def _make(call: Call, given: arguments.Make) -> reports.Made:
    return reports.of_make(await call.workspace.make_dir(given.path))


async def _move(call: Call, given: arguments.Move) -> reports.Moved:
    return reports.of_move(await call.workspace.move(given.source, given.destination, replace=given.replace))


async def _remove(call: Call, given: arguments.Remove) -> reports.Removed:
    return reports.of_remove(await call.workspace.remove(given.path, recursive=given.recursive))


async def _search(call: Call, given: arguments.Search) -> reports.Matches:
    return reports.of_search(
        await call.workspace.grep(
            given.query,
            given.path,
            name_pattern=given.name_pattern,
            ignore_case=given.ignore_case,
            max_matches=given.max_matches,
        )
    )


async def _find(call: Call, given: arguments.Find) -> reports.FoundPaths:
    return reports.of_glob(await call.workspace.glob(given.pattern, given.path, max_matches=given.max_matches))


def _content(given: arguments.Write | arguments.Append) -> bytes:
    return to_bytes(given.content, given.encoding, "content")


_FILE_TOOLS = (
    Tool(
        name="describe_workspace",
        title="Describe the workspace",
        description="Which programs may run, whether anything may be written now, and what the sandbox holds here.",
        takes=arguments.Nothing,
        answers=reports.WorkspaceReport,
        act=_describe,
        annotations=_LOOKS,
    ),
    Tool(
        name="read_file",
        title="Read a file",
        description="The first bytes of a file, all of them where the policy's limit allows.",
        takes=arguments.Read,
        answers=reports.FileContent,
        act=_read,
        annotations=_LOOKS,
    ),
    Tool(
        name="write_file",
        title="Write a file",
        description="Give a file exactly this content, at once and durably; missing directories are made.",
        takes=arguments.Write,
        answers=reports.Written,
        act=_write,
        annotations=_REPLACES,
    ),
    Tool(
        name="append_file",
        title="Append to a file",
        description="Add to the end of a file, which is created if there is none.",
        takes=arguments.Append,
        answers=reports.Appended,
        act=_append,
        annotations=_ADDS,
    ),
    Tool(
        name="edit_file",
        title="Edit a file",
        description="Replace the one place where a text stands. Refused if it stands there twice or not at all.",
        takes=arguments.Edit,
        answers=reports.Written,
        act=_edit,
        annotations=_CHANGES,
    ),
    Tool(
        name="list_directory",
        title="List a directory",
        description="The names in a directory, with kinds and sizes.",
        takes=arguments.List,
        answers=reports.Listing,
        act=_list,
        annotations=_LOOKS,
    ),
    Tool(
        name="stat_path",
        title="Look at a path",
        description="Kind, size, permissions and time of a path. A link is described, not followed.",
        takes=arguments.Look,
        answers=reports.PathStatus,
        act=_stat,
        annotations=_LOOKS,
    ),
    Tool(
        name="make_directory",
        title="Make a directory",
        description="Make a directory and those above it that are missing.",
        takes=arguments.Make,
        answers=reports.Made,
        act=_make,
        annotations=_MAKES,
    ),
    Tool(
        name="move_path",
        title="Rename or move",
        description="Give a file or directory another name in the workspace.",
        takes=arguments.Move,
        answers=reports.Moved,
        act=_move,
        annotations=_CHANGES,
    ),
    Tool(
        name="remove_path",
        title="Remove a file or directory",
        description="Remove a file, a link itself, or an empty directory; a whole one only if asked to.",
        takes=arguments.Remove,
        answers=reports.Removed,
        act=_remove,
        annotations=_CHANGES,
    ),
    Tool(
        name="search_files",
        title="Search in files",
        description="Lines that hold a plain text, in the files below a path.",
        takes=arguments.Search,
        answers=reports.Matches,
        act=_search,
        annotations=_LOOKS,
    ),
    Tool(
        name="find_files",
        title="Find files by name",
        description="Paths that fit a pattern. Links are not entered.",
        takes=arguments.Find,
        answers=reports.FoundPaths,
        act=_find,
        annotations=_LOOKS,
    ),
)
