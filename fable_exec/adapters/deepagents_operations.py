"""What deepagents asks of a sandbox backend, over our workspace, as the members of its answers. It does not load deepagents.

deepagents wants a word or a sentence for what went wrong where we raise, absolute paths, lines instead of bytes, and one text for
both streams. `fable_exec.adapters.deepagents` gives the members of these answers to its classes.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Callable, Iterable
from typing import Any

import attrs

from fable_exec.adapters.blocking import BlockingAgentWorkspace
from fable_exec.adapters.globbing import PathPattern
from fable_exec.adapters.statuses import Completed
from fable_exec.adapters.values import RunRequest
from fable_exec.adapters.workspace import AgentWorkspace
from fable_exec.calls.building import as_bytes
from fable_exec.errors import (
    Denied,
    FableExecError,
    InvalidRequest,
    PathError,
    PathIsDirectory,
    PathNotDirectory,
    PathNotFound,
    PathPermission,
)
from fable_exec.outcome import EndedBy
from fable_exec.protocol.encoding import safe_text

__all__ = ["DeepAgentsOperations", "word_for"]

Answer = dict[str, Any]
"""The members of one of deepagents' answers."""

_ENDED_BY_ITSELF = (EndedBy.EXITED.value, EndedBy.SIGNALED.value)


def word_for(error: FableExecError) -> str:
    """deepagents' word for what is wrong with a file: one of its four, or our code where none of them says it."""
    if isinstance(error, PathNotFound):
        return "file_not_found"
    if isinstance(error, PathIsDirectory):
        return "is_directory"
    if isinstance(error, (Denied, PathPermission)):
        return "permission_denied"
    return "invalid_path" if isinstance(error, (InvalidRequest, PathNotDirectory)) else error.code


@attrs.frozen
class DeepAgentsOperations:
    """Every operation of a sandbox backend. Nothing here raises for what a model can do wrong; the answer's `error` says it."""

    workspace: BlockingAgentWorkspace

    # Commands

    def execute(self, command: str, timeout: float | None = None) -> Answer:
        """Run shell text to its end; `timeout` in seconds, 0 for the longest that the policy allows."""
        return _executed(self.workspace.complete(self._request(command, timeout)))

    async def execute_cancellably(self, command: str, timeout: float | None = None) -> Answer:
        """The same from any event loop. A cancellation goes on once the command's whole tree has ended."""
        work = _Cancellable(self._request(command, timeout))
        running = asyncio.ensure_future(asyncio.to_thread(self.workspace.call, work.run))
        try:
            return _executed(await asyncio.shield(running))
        except asyncio.CancelledError:
            work.cancel()
            while not running.done():
                try:
                    await asyncio.wait({running})
                except asyncio.CancelledError:
                    continue  # asked once more; what runs is being ended already
            running.exception()  # that it was cancelled, which is known
            raise

    def _request(self, command: str, timeout: float | None) -> RunRequest:
        longest = self.workspace.policy.limits.max_timeout_seconds
        return RunRequest(command, timeout_seconds=longest if timeout == 0 else timeout)

    # Files

    def ls(self, path: str) -> Answer:
        """The entries of a directory."""
        return _answer(lambda: {"entries": self._listed(path)})

    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> Answer:
        """Lines of a text from line `offset`, or all of a file that is no text in base64."""
        return _answer(lambda: _window(self.workspace.read_bytes(_absolute(file_path)), max(offset, 0), limit))

    def write(self, file_path: str, content: str) -> Answer:
        """Give a file exactly `content`."""
        return _answer(lambda: self._written(file_path, as_bytes(content, "content")))

    def edit(self, file_path: str, old: str, new: str, replace_all: bool = False) -> Answer:
        """Replace the one place where `old` stands, or every one. A file that was changed meanwhile stays as it is."""
        return _answer(lambda: self._edited(file_path, as_bytes(old, "old"), as_bytes(new, "new"), replace_all))

    def delete(self, file_path: str) -> Answer:
        """Remove a path with all below it."""

        def remove() -> Answer:
            self.workspace.remove(_absolute(file_path), recursive=True)
            return {"path": file_path}

        return _answer(remove)

    def grep(self, pattern: str, path: str | None = None, glob: str | None = None, max_count: int | None = None) -> Answer:
        """Lines that hold the text `pattern`, in files whose name, or path below `path`, fits `glob`."""
        return _answer(lambda: self._found(pattern, path or self.workspace.root, glob, max_count))

    def glob(self, pattern: str, path: str | None = None) -> Answer:
        """The paths below a directory that fit."""
        return _answer(lambda: self._matching(pattern.lstrip("/"), path or self.workspace.root))

    def upload(self, files: Iterable[tuple[str, bytes]]) -> list[Answer]:
        """One answer for each file, in order; `error` is a bare word."""
        return [self._uploaded(path, content) for path, content in files]

    def download(self, paths: Iterable[str]) -> list[Answer]:
        """The same with `content`."""
        return [self._downloaded(path) for path in paths]

    # Within

    def _listed(self, path: str) -> list[Answer]:
        listing = self.workspace.list_dir(_absolute(path))
        if listing.truncated:
            raise InvalidRequest(f"the directory has more than {len(listing.entries)} entries; list parts of it by glob")
        above = listing.path.rstrip("/")
        return [_information(f"{above}/{each.name}", each.kind, each.size_bytes) for each in listing.entries]

    def _written(self, path: str, content: bytes) -> Answer:
        self.workspace.write_bytes(_absolute(path), content)
        return {"path": path}

    def _edited(self, path: str, old: bytes, new: bytes, replace_all: bool) -> Answer:
        at = _absolute(path)
        before = self.workspace.read_bytes(at)
        count = before.count(old) if old else 0
        if count == 0:
            raise InvalidRequest("the string to replace was not found in the file" if old else "the string to replace is empty")
        if count > 1 and not replace_all:
            raise InvalidRequest(f"the string to replace stands in multiple places ({count}); give more of it, or replace all")
        digest = hashlib.sha256(before).hexdigest()
        self.workspace.write_bytes(at, before.replace(old, new), expected_hash=digest)
        return {"path": path, "occurrences": count}

    def _found(self, text: str, path: str, glob: str | None, max_count: int | None) -> Answer:
        start = _absolute(path)
        wanted = None if glob is None else _pattern(glob if "/" in glob else f"**/{glob}")
        name = None if wanted is None or wanted.parts[-1] == "**" else wanted.parts[-1]
        # One more than is wanted, so that exactly as many as are wanted are not taken for a part.
        found = self.workspace.grep(text, start, name_pattern=name, max_matches=None if max_count is None else max_count + 1)
        below = [each for each in found.matches if wanted is None or wanted.fits(_names_below(start, each.path))]
        shown = below if max_count is None else below[:max_count]
        matches = [{"path": safe_text(each.path), "line": each.line, "text": each.text} for each in shown]
        return {"matches": matches, "truncated": found.truncated or len(below) > len(shown)}

    def _matching(self, pattern: str, path: str) -> Answer:
        _pattern(pattern)
        found = self.workspace.glob(pattern, _absolute(path))
        return {"matches": [*self._described(found.matches)], "truncated": found.truncated}

    def _described(self, paths: Iterable[str]) -> Iterable[Answer]:
        for path in paths:
            try:
                known = self.workspace.stat(path)
            except PathError:
                continue  # gone since
            except InvalidRequest:  # no name that a request could give, and so nothing is known of it
                yield _information(path, "other", None)
            else:
                yield _information(path, known.kind, known.size_bytes)

    def _uploaded(self, path: str, content: bytes) -> Answer:
        try:
            self.workspace.write_bytes(_absolute(path), content)
        except FableExecError as error:
            return {"path": path, "error": word_for(error)}
        return {"path": path, "error": None}

    def _downloaded(self, path: str) -> Answer:
        try:
            return {"path": path, "content": self.workspace.read_bytes(_absolute(path)), "error": None}
        except FableExecError as error:
            return {"path": path, "content": None, "error": word_for(error)}


class _Cancellable:
    """A command that runs in the loop of the workspace, and is cancelled from another thread, also before it began."""

    def __init__(self, request: RunRequest) -> None:
        self._request = request
        self._cancelled = False
        self._task: tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]] | None = None

    async def run(self, workspace: AgentWorkspace) -> Completed:
        task = asyncio.current_task()
        assert task is not None
        self._task = (asyncio.get_running_loop(), task)
        if self._cancelled:
            raise asyncio.CancelledError
        return await workspace.complete(self._request)

    def cancel(self) -> None:
        self._cancelled = True
        if self._task is not None:
            loop, task = self._task
            loop.call_soon_threadsafe(task.cancel)


def _executed(completed: Completed) -> Answer:
    out, err = completed.stdout_text, completed.stderr_text
    output = out + ("\n" if out and err and not out.endswith("\n") else "") + err
    if completed.result is not None and completed.reason not in _ENDED_BY_ITSELF:
        output += f"{'' if output.endswith(chr(10)) or not output else chr(10)}[ended: {completed.reason}]\n"
    return {"output": output, "exit_code": int(completed.status), "truncated": completed.truncated}


def _answer(act: Callable[[], Answer]) -> Answer:
    """What `act` gives, or the error of an answer: deepagents' word, and our sentence."""
    try:
        return act()
    except FableExecError as error:
        return {"error": f"{word_for(error)}: {error}"}


def _absolute(path: str) -> str:
    if not path.startswith("/"):
        raise InvalidRequest(f"path {path!a:.200} must be absolute")
    return "/" + "/".join(name for name in path.split("/") if name not in ("", "."))


def _pattern(text: str) -> PathPattern:
    """Models write braces, which a pattern of ours would take for characters of a name, and find nothing without a word."""
    if "{" in text:
        raise InvalidRequest(f"pattern {text!a:.200} has braces, which have no meaning here; ask for one pattern after the other")
    return PathPattern.parse(text)


def _window(data: bytes, offset: int, limit: int) -> Answer:
    if limit <= 0:
        return _contents("", "utf-8")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return _contents(base64.b64encode(data).decode(), "base64")
    lines = text.removesuffix("\n").split("\n") if text else []
    if offset and offset >= len(lines):
        raise InvalidRequest(f"line offset {offset} is beyond the end of the file, which has {len(lines)} lines")
    shown = lines[offset : offset + limit]
    end = offset + len(shown)
    if not shown:
        return _contents("", "utf-8")
    ending = "\n" if end == len(lines) and text.endswith("\n") else ""
    place = {"start_line": offset + 1, "end_line": end, "total_lines": len(lines)}
    return _contents("\n".join(shown) + ending, "utf-8") | place | ({"next_offset": end} if end < len(lines) else {})


def _contents(content: str, encoding: str) -> Answer:
    return {"file_data": {"content": content, "encoding": encoding}}


def _information(path: str, kind: str, size: int | None) -> Answer:
    is_dir = kind == "directory"
    return {"path": safe_text(path), "is_dir": is_dir} | ({} if size is None or is_dir else {"size": size})


def _names_below(directory: str, path: str) -> tuple[str, ...]:
    return tuple(path.removeprefix(directory.rstrip("/") + "/").split("/"))
