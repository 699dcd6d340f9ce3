"""What the tools of OpenAI's Agents SDK ask for, over our workspace. It does not load the SDK.

Shell commands one after the other, and patches of files that are whole or not made. `fable_exec.adapters.openai_agents` adds its
classes, and its own way to apply a diff.
"""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Awaitable, Callable, Sequence

import attrs

from fable_exec.adapters.creating import create_file
from fable_exec.adapters.values import RunRequest
from fable_exec.adapters.workspace import AgentWorkspace
from fable_exec.calls.building import as_bytes
from fable_exec.errors import FableExecError, InvalidRequest

__all__ = ["ApplyDiff", "OpenAiAgentsOperations", "Patched", "ShellOutput"]

ApplyDiff = Callable[[str, str], str]
"""The new text, from the old one and a diff. ValueError for a diff that does not fit."""

_CUT = "\n[... {count} characters left out ...]\n"


@attrs.frozen(kw_only=True)
class ShellOutput:
    """One command of a call. `exit_code` is None where it ran out of time."""

    command: str
    stdout: str
    stderr: str
    exit_code: int | None


@attrs.frozen(kw_only=True)
class Patched:
    """Whether a patch was made, and a sentence for the model."""

    made: bool
    output: str


@attrs.frozen
class OpenAiAgentsOperations:
    """Commands and patches. Nothing here raises for what a model can do wrong; only a cancellation passes through."""

    workspace: AgentWorkspace

    async def run(
        self, commands: Sequence[str], *, timeout_ms: int | None = None, max_output_length: int | None = None
    ) -> list[ShellOutput]:
        """Run shell texts one after the other; none is started after one that ran out of time.

        Args:
            max_output_length: characters that all of it together may have, as the SDK counts them; less than none is none. What
                is too long loses its middle; the SDK, which takes the end away, then finds nothing to do.
        """
        outputs = []
        for command in commands:
            seconds = None if timeout_ms is None else timeout_ms / 1000
            done = await self.workspace.complete(RunRequest(command, timeout_seconds=seconds))
            code = None if done.timed_out else int(done.status)
            outputs.append(ShellOutput(command=command, stdout=done.stdout_text, stderr=done.stderr_text, exit_code=code))
            if done.timed_out:
                break
        return outputs if max_output_length is None else _cut_all(outputs, max(max_output_length, 0))

    async def create(self, path: str, diff: str, apply: ApplyDiff) -> Patched:
        """Make a file that is not there."""

        async def act() -> str:
            await create_file(self.workspace, path, as_bytes(apply("", diff), "the patched text"))
            return f"created {path}"

        return await _patched(act)

    async def update(self, path: str, diff: str, apply: ApplyDiff, *, move_to: str | None = None) -> Patched:
        """Change a file, unless somebody else changed it meanwhile; then give it the name `move_to`, which must be free."""

        async def act() -> str:
            before = await self.workspace.read_bytes(path)
            after = as_bytes(apply(_decoded(before, path), diff), "the patched text")
            digest = hashlib.sha256(before).hexdigest()
            if move_to is None:
                await self.workspace.write_bytes(path, after, expected_hash=digest)
                return f"updated {path}"
            await self._change_moved(path, move_to, after, digest)
            return f"updated {path}, which is {move_to} now"

        return await _patched(act)

    async def _change_moved(self, path: str, move_to: str, after: bytes, digest: str) -> None:
        """Move first, which a place that cannot be had refuses, and then change; what could not be changed goes back."""
        await self.workspace.make_dir(posixpath.dirname(move_to) or ".")
        await self.workspace.move(path, move_to)
        try:
            await self.workspace.write_bytes(move_to, after, expected_hash=digest)
        except FableExecError:
            await self.workspace.move(move_to, path)
            raise

    async def delete(self, path: str) -> Patched:
        """Remove a file; a directory only if it is empty."""

        async def act() -> str:
            await self.workspace.remove(path)
            return f"deleted {path}"

        return await _patched(act)


async def _patched(act: Callable[[], Awaitable[str]]) -> Patched:
    try:
        return Patched(made=True, output=await act())
    except FableExecError as error:
        return Patched(made=False, output=f"{error.code}: {error}")
    except ValueError as error:  # the diff's, from the SDK
        return Patched(made=False, output=f"the diff does not fit: {error}")


def _decoded(data: bytes, path: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise InvalidRequest(f"{path!a:.200} is no text in UTF-8, and cannot be patched") from None


def _cut_all(outputs: Sequence[ShellOutput], most: int) -> list[ShellOutput]:
    texts = [text for each in outputs for text in (each.stdout, each.stderr)]
    cut = iter(map(_cut, texts, _shares([*map(len, texts)], most)))
    return [attrs.evolve(each, stdout=next(cut), stderr=next(cut)) for each in outputs]


def _shares(lengths: Sequence[int], most: int) -> list[int]:
    """How much of each is kept when all together are at most `most`: of the short ones all, of the others alike."""
    shares = [0] * len(lengths)
    for done, index in enumerate(sorted(range(len(lengths)), key=lengths.__getitem__)):
        shares[index] = min(lengths[index], most // (len(lengths) - done))
        most -= shares[index]
    return shares


def _cut(text: str, length: int) -> str:
    if len(text) <= length:
        return text
    kept = length - len(_CUT.format(count=len(text)))
    if kept <= 0:
        return text[:length]
    head, tail = kept - kept // 2, kept // 2
    return text[:head] + _CUT.format(count=len(text) - kept) + text[len(text) - tail :]
