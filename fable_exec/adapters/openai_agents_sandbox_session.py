"""A session of OpenAI's sandbox agents: what the SDK calls, over `SandboxOperations`, with the SDK's values and errors.

It loads the SDK: `fable_exec.adapters.openai_agents_sandbox`, whose client makes sessions, is the way in.
"""

from __future__ import annotations

import io
import shlex
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast

from agents.sandbox.entries import Mount
from agents.sandbox.errors import (
    ExecTimeoutError,
    ExecTransportError,
    InvalidManifestPathError,
    MountConfigError,
    PtySessionNotFoundError,
    WorkspaceRootNotFoundError,
    WorkspaceStopError,
)
from agents.sandbox.files import EntryKind, FileEntry
from agents.sandbox.manifest import Manifest
from agents.sandbox.session import SandboxSessionState
from agents.sandbox.session.base_sandbox_session import BaseSandboxSession
from agents.sandbox.session.pty_types import (
    PtyExecUpdate,
    clamp_pty_yield_time_ms,
    resolve_pty_write_yield_time_ms,
    truncate_text_by_tokens,
)
from agents.sandbox.session.workspace_payloads import coerce_write_payload
from agents.sandbox.types import ExecResult, Permissions, User

from fable_exec.adapters import openai_agents_sandbox_errors as errors
from fable_exec.adapters import openai_agents_sandbox_operations as operations
from fable_exec.adapters.links import resolved
from fable_exec.adapters.openai_agents_sandbox_background import Told
from fable_exec.adapters.openai_agents_sandbox_operations import SandboxOperations
from fable_exec.adapters.statuses import Status
from fable_exec.errors import BrokerGone, FableExecError, InvalidRequest, PathNotFound, WritesLocked

__all__ = ["FableSandboxSession", "FableSandboxSessionState", "refuse_unsupported"]

_KINDS = {"file": EntryKind.FILE, "directory": EntryKind.DIRECTORY, "symlink": EntryKind.SYMLINK}
_YIELD_SECONDS = 10.0
_INPUT_YIELD_SECONDS = 0.25
_ONE_USER = "sessions of FableSandboxClient have one user, that of this process"
_NO_INPUT = "stdin is not available for this process"  # by these words the SDK's tool knows it


class FableSandboxSessionState(SandboxSessionState):
    """What a session is continued by. The root of one with `own_directory` is the client's to say, whatever stands here."""

    type: Literal["fable_exec"] = "fable_exec"
    own_directory: bool = False


class FableSandboxSession(BaseSandboxSession):
    """One session; made by FableSandboxClient, and used through the SDK's SandboxSession."""

    state: FableSandboxSessionState

    def __init__(self, state: FableSandboxSessionState, document: Mapping[str, Any], *, read_only: bool) -> None:
        self.state = state
        self._document = document
        self._read_only = read_only
        self._opened: SandboxOperations | None = None
        self._was_set_up = False

    # Life

    async def running(self) -> bool:
        return self._opened is not None

    async def _ensure_backend_started(self) -> None:
        refuse_unsupported(self.state.manifest)
        if self._opened is None:
            variables = self.state.manifest.environment.value
            document = operations.session_document(self._document, own_directory=self.state.own_directory, variables=variables)
            opened = await SandboxOperations.open(document, self.state.manifest.root)
            try:
                opened.check_env(variables)
            except BaseException:
                await opened.close()
                raise
            self._opened = opened

    async def _after_start(self) -> None:
        if self._read_only:
            await self._operations.lock()
        self._was_set_up = True

    async def _after_start_failed(self) -> None:
        await self._shutdown_backend()

    def _wrap_start_error(self, error: Exception) -> Exception:
        if isinstance(error, (FableExecError, OSError)):
            return errors.start_error(self._root, error)
        return error

    def _wrap_stop_error(self, error: Exception) -> Exception:
        return cast(Exception, WorkspaceStopError(path=self._root, context=errors.context(error.__cause__ or error), cause=error))

    async def _persist_snapshot(self) -> None:
        # A session that could not be set up must not replace what an earlier one left.
        if self._was_set_up:
            await super()._persist_snapshot()

    def _should_compute_snapshot_fingerprint_on_persist(self) -> bool:
        return False  # the SDK's way is a script in the host's /tmp

    async def _shutdown_backend(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            self._set_start_state_preserved(True)
            await opened.close()

    # Commands

    def supports_pty(self) -> bool:
        return True

    def _prepare_exec_command(self, *command: str | Path, shell: bool | list[str], user: str | User | None) -> list[str]:
        return self._words(command, shell, user)

    def _words(self, command: Sequence[str | Path], shell: bool | list[str], user: str | User | None) -> list[str]:
        """What is executed: the command itself, or the shell that reads it, which is ours where none is named."""
        _refuse_user(user)
        words = [str(each) for each in command]
        if not shell:
            return words
        text = words[0] if len(words) == 1 else shlex.join(words)
        with errors.transport(words):
            return [*shell, text] if isinstance(shell, list) else self._operations.shell_words(text)

    async def _exec_internal(self, *command: str | Path, timeout: float | None = None) -> ExecResult:
        words = [str(each) for each in command]
        with errors.transport(words):
            env = await self.state.manifest.environment.resolve()
            done = await self._operations.execute(words, env=env, timeout=timeout)
        if done.timed_out:
            output = {"reason": done.reason, "stdout": done.stdout_text, "stderr": done.stderr_text}
            raise ExecTimeoutError(command=words, timeout_s=timeout, context=output)
        if isinstance(done.refusal, PathNotFound):
            raise WorkspaceRootNotFoundError(path=self._root, context=errors.context(done.refusal), cause=done.refusal)
        if done.status == Status.OWN_FAILURE and (done.result is None or done.result.exit_code is None):
            message = done.stderr_text.strip() if done.result is None else f"the command has no result: {done.reason}"
            raise ExecTransportError(command=words, context={"reason": done.reason}, cause=done.refusal, message=message)
        return ExecResult(stdout=done.stdout, stderr=done.stderr, exit_code=int(done.status))

    async def pty_exec_start(
        self,
        *command: str | Path,
        timeout: float | None = None,
        shell: bool | list[str] = True,
        user: str | User | None = None,
        tty: bool = False,
        yield_time_s: float | None = None,
        max_output_tokens: int | None = None,
    ) -> PtyExecUpdate:
        with errors.transport(command):
            words = self._words(command, shell, user)
            env = await self.state.manifest.environment.resolve()
            wait = _milliseconds(yield_time_s, _YIELD_SECONDS)
            told = await self._operations.background.start(
                words, env=env, terminal=tty, wait_seconds=clamp_pty_yield_time_ms(wait) / 1000
            )
        return _update(told, max_output_tokens)

    async def pty_write_stdin(
        self,
        *,
        session_id: int,
        chars: str,
        yield_time_s: float | None = None,
        max_output_tokens: int | None = None,
    ) -> PtyExecUpdate:
        wait = resolve_pty_write_yield_time_ms(
            yield_time_ms=_milliseconds(yield_time_s, _INPUT_YIELD_SECONDS), input_empty=not chars
        )
        with errors.transport(("write_stdin",)):
            try:
                told = await self._operations.background.feed(session_id, chars, wait_seconds=wait / 1000)
            except KeyError:
                raise PtySessionNotFoundError(session_id=session_id) from None
            except InvalidRequest as error:
                raise RuntimeError(_NO_INPUT) from error
        return _update(told, max_output_tokens)

    async def pty_terminate_all(self) -> None:
        if self._opened is not None:
            await self._opened.background.end_all()

    # Files

    def normalize_path(self, path: Path | str, *, for_write: bool = False) -> Path:
        """The path as an absolute one below the workspace, through links. InvalidManifestPathError if it leads elsewhere."""
        return self._followed(path, for_write=for_write, last=True)

    def _entry_path(self, path: Path | str) -> str:
        """The same for what is not followed: the name itself, in a directory that may be reached through links."""
        return str(self._followed(path, for_write=False, last=False))

    def _followed(self, path: Path | str, *, for_write: bool, last: bool) -> Path:
        lexical = super().normalize_path(path, for_write=for_write)
        try:
            return Path(super().normalize_path(resolved(str(lexical), str(self._root), last=last), for_write=for_write))
        except OSError as error:
            raise InvalidManifestPathError(rel=path, reason="escape_root", context=errors.context(error), cause=error) from error

    async def read(self, path: Path, *, user: str | User | None = None) -> io.IOBase:
        _refuse_user(user)
        with errors.reading(path):
            return io.BytesIO(await self._operations.read(str(self.normalize_path(path))))

    async def _read_bounded(self, path: Path, *, max_bytes: int) -> bytes:
        with errors.reading(path):
            return await self._operations.read_first(str(self.normalize_path(path)), max_bytes)

    async def write(self, path: Path, data: io.IOBase, *, user: str | User | None = None) -> None:
        _refuse_user(user)
        content = coerce_write_payload(path=path, data=data).stream.read()
        with errors.writing(path):
            await self._operations.write(str(self.normalize_path(path, for_write=True)), content)

    async def _write_new_file(self, path: Path, data: io.IOBase, *, user: str | User | None = None) -> None:
        _refuse_user(user)
        content = coerce_write_payload(path=path, data=data).stream.read()
        with errors.writing(path):
            await self._operations.create(self._entry_path(path), content)

    async def ls(self, path: Path | str, *, user: str | User | None = None) -> list[FileEntry]:
        _refuse_user(user)
        target = str(self.normalize_path(path))
        with errors.as_program("ls", target):
            return [_file_entry(each) for each in await self._operations.list(target)]

    async def mkdir(self, path: Path | str, *, parents: bool = False, user: str | User | None = None) -> None:
        _refuse_user(user)
        with errors.writing(path):
            await self._operations.make_dir(str(self.normalize_path(path, for_write=True)), parents=parents)

    async def rm(self, path: Path | str, *, recursive: bool = False, user: str | User | None = None) -> None:
        _refuse_user(user)
        target = self._entry_path(path)
        with errors.writing(path):
            try:
                await self._operations.remove(target, recursive=recursive)
            except PathNotFound as error:
                if not recursive:
                    raise errors.program_error(error, "rm", target) from error

    async def mv(self, source: Path | str, destination: Path | str, *, user: str | User | None = None) -> None:
        _refuse_user(user)
        paths = self._entry_path(source), self._entry_path(destination)
        with errors.as_program("mv", *paths):
            await self._operations.move(*paths)

    async def same_file(
        self, left: Path | str, right: Path | str, *, follow_symlinks: bool = True, user: str | User | None = None
    ) -> bool:
        _refuse_user(user)
        named = self.normalize_path if follow_symlinks else self._entry_path
        paths = str(named(left)), str(named(right))
        with errors.as_program("test", *paths):
            return await self._operations.is_same_file(*paths)

    # The whole workspace

    async def persist_workspace(self) -> io.IOBase:
        with errors.reading(self._root):
            return cast(io.IOBase, await operations.pack(str(self._root), self._persist_workspace_skip_relpaths()))

    async def hydrate_workspace(self, data: io.IOBase) -> None:
        with errors.writing(self._root):
            if self._opened is not None and self._opened.is_locked:
                raise WritesLocked("the session is read-only since it was set up; nothing is unpacked into it")
            await operations.unpack(str(self._root), cast(Any, data))

    async def _restore_snapshot_into_workspace_on_resume(self) -> None:
        archive = await self.state.snapshot.restore(dependencies=self.dependencies)
        try:
            with errors.writing(self._root):
                await operations.unpack(str(self._root), cast(Any, archive), instead=True)
        finally:
            archive.close()

    async def _validate_manifest_application(
        self, *, only_ephemeral: bool = False, manifest: Manifest | None = None, session_running: bool | None = None
    ) -> None:
        refuse_unsupported(manifest or self.state.manifest)

    @property
    def _root(self) -> Path:
        return Path(self.state.manifest.root)

    @property
    def _operations(self) -> SandboxOperations:
        if self._opened is None:
            raise BrokerGone("the session is not running; start it")
        return self._opened


def refuse_unsupported(manifest: Manifest) -> None:
    """Raise ValueError or MountConfigError for what no session of ours can have."""
    entries = [entry for _, entry in manifest.iter_entries()]
    if any(isinstance(entry, Mount) for entry in entries):
        raise MountConfigError(message="FableSandboxClient has no mounts: what is confined may not mount")
    if manifest.users or manifest.groups or any(entry.group is not None for entry in entries):
        raise ValueError(f"{_ONE_USER}; leave users, groups and run_as out")
    if manifest.extra_path_grants:
        raise ValueError(
            "FableSandboxClient has no extra_path_grants: list such paths in the policy, as confinement.runtime_read_paths or "
            "runtime_write_paths"
        )


def _refuse_user(user: str | User | None) -> None:
    if user is not None:
        raise ValueError(f"{_ONE_USER}; leave user and run_as out")


def _milliseconds(seconds: float | None, default: float) -> int:
    return int((default if seconds is None else seconds) * 1000)


def _update(told: Told, max_output_tokens: int | None) -> PtyExecUpdate:
    text, count = truncate_text_by_tokens(told.output.decode("utf-8", "replace"), max_output_tokens)
    status = None if told.status is None else int(told.status)
    return PtyExecUpdate(process_id=told.number, output=text.encode(), exit_code=status, original_token_count=count)


def _file_entry(listed: operations.Listed) -> FileEntry:
    kind = _KINDS.get(listed.kind, EntryKind.OTHER)
    mode = listed.mode | (stat.S_IFDIR if kind is EntryKind.DIRECTORY else 0)
    return FileEntry(
        path=listed.path, permissions=Permissions.from_mode(mode), owner="", group="", size=listed.size_bytes, kind=kind
    )
