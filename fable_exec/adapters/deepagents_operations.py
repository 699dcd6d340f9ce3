"""What deepagents asks of a sandbox backend, over our workspace, as the members of its answers. It does not load deepagents.

deepagents wants a word or a sentence for what went wrong where we raise, absolute paths, lines instead of bytes, and one text for
both streams. `fable_exec.adapters.deepagents` gives the members of these answers to its classes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable

import attrs

from fable_exec.adapters import deepagents_texts as texts
from fable_exec.adapters.blocking import BlockingAgentWorkspace
from fable_exec.adapters.deepagents_patterns import FilePattern
from fable_exec.adapters.deepagents_texts import Answer
from fable_exec.adapters.statuses import Completed, refused
from fable_exec.adapters.values import RunRequest
from fable_exec.adapters.walking import MAX_MATCHES, FoundPaths, find_paths
from fable_exec.adapters.workspace import AgentWorkspace
from fable_exec.calls.building import as_bytes
from fable_exec.errors import (
    Denied,
    FableExecError,
    InvalidRequest,
    PathIsDirectory,
    PathNotDirectory,
    PathNotFound,
    PathPermission,
)
from fable_exec.outcome import EndedBy
from fable_exec.pathguard.facts import fact
from fable_exec.protocol.encoding import safe_text

__all__ = ["DeepAgentsOperations", "word_for"]

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
        try:
            return _executed(self.workspace.complete(self._request(command, timeout)))
        except FableExecError as error:  # the workspace itself is not there any more
            return _executed(refused(error))

    async def execute_cancellably(self, command: str, timeout: float | None = None) -> Answer:
        """The same from any event loop. A cancellation goes on once the command's whole tree has ended."""
        request = self._request(command, timeout)
        try:
            return _executed(await self.workspace.call_elsewhere(lambda workspace: workspace.complete(request)))
        except FableExecError as error:
            return _executed(refused(error))

    def _request(self, command: str, timeout: float | None) -> RunRequest:
        longest = self.workspace.policy.limits.max_timeout_seconds
        return RunRequest(command, timeout_seconds=longest if timeout == 0 else timeout)

    # Files

    def ls(self, path: str) -> Answer:
        """The entries of a directory."""
        return _answer(lambda: {"entries": self._listed(path)})

    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> Answer:
        """Lines of a text from line `offset`, or all of a file that is no text in base64.

        Of a text that is larger than one read gives, the lines that it gives. Lines end as on Unix, whatever ends them.
        """
        return _answer(lambda: self._read(file_path, offset, limit))

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
        """Lines that hold the text `pattern`, in files that fit `glob`."""
        return _answer(lambda: self._found(pattern, path or self.workspace.root, glob, max_count))

    def glob(self, pattern: str, path: str | None = None) -> Answer:
        """The files below a directory that fit."""
        return _answer(lambda: self._matching(pattern, path or self.workspace.root))

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

    def _read(self, path: str, offset: int, limit: int) -> Answer:
        at = _absolute(path)
        found = self.workspace.inspect(at)
        if texts.is_shown_as_text(found):
            return texts.window(found, offset, limit)
        if found.total_bytes > texts.MAX_BINARY_BYTES:  # in the words that deepagents' suite waits for
            return {"error": f"File '{path}': Binary file exceeds maximum preview size of {texts.MAX_BINARY_BYTES} bytes"}
        return texts.encoded(self.workspace.read_bytes(at) if found.truncated else found.data)

    def _written(self, path: str, content: bytes) -> Answer:
        self.workspace.write_bytes(_absolute(path), content)
        return {"path": path}

    def _edited(self, path: str, old: bytes, new: bytes, replace_all: bool) -> Answer:
        at = _absolute(path)
        before = self.workspace.read_bytes(at)
        old, new = texts.as_lines_end_in(before, old, new)
        count = before.count(old) if old else 0
        if count == 0:
            raise InvalidRequest("the string to replace was not found in the file" if old else "the string to replace is empty")
        if count > 1 and not replace_all:
            raise InvalidRequest(f"the string to replace stands in multiple places ({count}); give more of it, or replace all")
        size, most = len(before) + count * (len(new) - len(old)), self.workspace.policy.max_output_bytes
        if count > 1 and size > max(most, len(before)):  # a short call may ask for more than there is memory
            raise fact("too-large", path).reworded(f"{path!a:.200} would have {size} bytes, more than one read gives: {most}")
        digest = hashlib.sha256(before).hexdigest()
        self.workspace.write_bytes(at, before.replace(old, new), expected_hash=digest)
        return {"path": path, "occurrences": count}

    def _found(self, text: str, path: str, glob: str | None, max_count: int | None) -> Answer:
        start = _absolute(path)
        wanted = FilePattern.parse(glob) if glob else None
        name = None if wanted is None else wanted.only_name
        # One more than is wanted: none may be wanted, and the broker is asked for one at least.
        most = None if wanted is not None or max_count is None else max_count + 1
        found = self.workspace.grep(text, start, name_pattern=name, max_matches=most)
        below = [each for each in found.matches if wanted is None or wanted.fits(_names_below(start, each.path))]
        shown = below if max_count is None else below[:max_count]
        matches = [{"path": safe_text(each.path), "line": each.line, "text": each.text} for each in shown]
        return {"matches": matches, "truncated": found.truncated or len(below) > len(shown)}

    def _matching(self, text: str, path: str) -> Answer:
        start, wanted = _absolute(path), FilePattern.parse(text)

        async def search(workspace: AgentWorkspace) -> FoundPaths:
            return await find_paths(workspace.list_dir, wanted, start, MAX_MATCHES, kind="file")

        found = self.workspace.call(search)
        matches = [{"path": safe_text(each), "is_dir": False} for each in found.matches]
        reason = "budget" if found.truncated else "unreadable" if found.unreadable else None
        return {"matches": matches, "truncated": reason is not None, "truncation_reason": reason}

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


def _executed(completed: Completed) -> Answer:
    out, err = completed.stdout_text, completed.stderr_text
    output = _whole_lines(out) + err if err else out
    if completed.result is not None and completed.reason not in _ENDED_BY_ITSELF:
        output = f"{_whole_lines(output)}[ended: {completed.reason}]\n"
    return {"output": output, "exit_code": int(completed.status), "truncated": completed.truncated}


def _whole_lines(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"


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


def _information(path: str, kind: str, size: int | None) -> Answer:
    is_dir = kind == "directory"
    return {"path": safe_text(path), "is_dir": is_dir} | ({} if size is None or is_dir else {"size": size})


def _names_below(start: str, path: str) -> tuple[str, ...]:
    """The names of a path below where a search began; the last one, where it began with a file."""
    return tuple(path.split("/")[-1:] if path == start else path.removeprefix(start.rstrip("/") + "/").split("/"))
