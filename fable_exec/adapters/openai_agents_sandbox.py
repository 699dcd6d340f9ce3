"""OpenAI's Agents SDK: sandbox sessions under a policy. Needs the extra `openai-agents`.

A session is a directory, and a broker over it while the session runs. Commands are confined by the kernel, files go through the
broker's door, and whatever runs has ended when the session has.
"""

from __future__ import annotations

import asyncio
import os
import stat
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fable_exec.adapters.owned import owned_document, remove_directory
from fable_exec.errors import ExtraMissing

try:
    from agents.sandbox.manifest import Manifest
    from agents.sandbox.session import BaseSandboxClient, Dependencies, Instrumentation, SandboxSession, SandboxSessionState
    from agents.sandbox.snapshot import SnapshotBase, SnapshotSpec, resolve_snapshot
except ImportError as error:
    raise ExtraMissing.of("openai-agents", error.name or "agents") from error

from fable_exec.adapters.openai_agents_sandbox_errors import starting
from fable_exec.adapters.openai_agents_sandbox_session import FableSandboxSession, FableSandboxSessionState, refuse_unsupported

__all__ = ["FableSandboxClient", "FableSandboxSession", "FableSandboxSessionState"]

_DEFAULT_ROOT = Manifest.model_fields["root"].default
_PREFIX = "fable-exec-openai-"


class FableSandboxClient(BaseSandboxClient[None]):
    """Sandbox sessions on this machine: ``SandboxRunConfig(client=FableSandboxClient())``.

    A session whose manifest names no root gets a directory of its own, which goes with it. One whose manifest names a root works
    in that directory, which stays.

    Args:
        policy: a policy document by its path or as a mapping, without `workspace` and `write_token_digest`.
        read_only: sessions write nothing in their workspace once it is set up.
        directory: where sessions' own directories are made; None is the system's for temporary files.
        instrumentation, dependencies: as of every client of the SDK.

    Raises:
        PolicyError: the document cannot be read, or names what is the session's own.
    """

    backend_id = "fable_exec"
    supports_default_options = True

    def __init__(
        self,
        policy: str | Path | Mapping[str, Any] | None = None,
        *,
        read_only: bool = False,
        directory: str | Path | None = None,
        instrumentation: Instrumentation | None = None,
        dependencies: Dependencies | None = None,
    ) -> None:
        self._document = owned_document(policy)
        self._read_only = read_only
        self._directory = os.path.realpath(tempfile.gettempdir() if directory is None else directory)
        self._instrumentation = instrumentation
        self._dependencies = dependencies

    async def create(
        self,
        *,
        snapshot: SnapshotSpec | SnapshotBase | None = None,
        manifest: Manifest | None = None,
        options: None = None,
    ) -> SandboxSession:
        """Make the directory of a new session, which `start` opens.

        Raises:
            ValueError: `options`, which there are none; or the manifest asks for users, groups, mounts or paths outside.
            WorkspaceStartError: the directory cannot be made.
        """
        if options is not None:
            raise ValueError("FableSandboxClient has no options; the policy says what sessions may")
        manifest = Manifest() if manifest is None else manifest
        refuse_unsupported(manifest)
        session_id = uuid.uuid4()
        own = manifest.root == _DEFAULT_ROOT
        with starting(manifest.root):
            root = self._own_root(session_id) if own else _given_root(manifest)
            if own:
                os.mkdir(root, 0o700)
            else:
                os.makedirs(root, 0o700, exist_ok=True)
        state = FableSandboxSessionState(
            session_id=session_id,
            manifest=manifest.model_copy(update={"root": root}, deep=True),
            snapshot=resolve_snapshot(snapshot, str(session_id)),
            own_directory=own,
        )
        return self._session(state)

    async def resume(self, state: SandboxSessionState) -> SandboxSession:
        """Continue in the directory of a session, or, where it is gone, in a new one that `start` fills from its snapshot."""
        if not isinstance(state, FableSandboxSessionState):
            raise TypeError("FableSandboxClient.resume expects a FableSandboxSessionState")
        state.assert_path_grants_rebound()
        refuse_unsupported(state.manifest)
        with starting(state.manifest.root):
            root = self._own_root(state.session_id) if state.own_directory else _given_root(state.manifest)
            is_there = _is_ours(root) if state.own_directory else os.path.isdir(root)
            if not is_there:
                os.makedirs(root, 0o700)
        state.manifest = state.manifest.model_copy(update={"root": root}, deep=True)
        session = self._session(state)
        session._inner._set_start_state_preserved(is_there)
        return session

    async def delete(self, session: SandboxSession) -> SandboxSession:
        """End the session if it runs, and remove its own directory."""
        inner = session._inner
        if not isinstance(inner, FableSandboxSession):
            raise TypeError("FableSandboxClient.delete expects a session of its own")
        await inner._shutdown_backend()
        if inner.state.own_directory:
            await asyncio.to_thread(remove_directory, self._own_root(inner.state.session_id))
        return session

    def deserialize_session_state(self, payload: dict[str, object]) -> SandboxSessionState:
        return self._deserialize_session_state_payload(payload, FableSandboxSessionState)

    def _session(self, state: FableSandboxSessionState) -> SandboxSession:
        inner = FableSandboxSession(state, self._document, read_only=self._read_only)
        return self._wrap_session(inner, instrumentation=self._instrumentation)

    def _own_root(self, session_id: uuid.UUID) -> str:
        return os.path.join(self._directory, f"{_PREFIX}{session_id.hex}")


def _given_root(manifest: Manifest) -> str:
    """Raises ValueError for a text that is no path; to the system a blank one would be the current directory."""
    root = str(manifest.root)
    if not root.strip():
        raise ValueError("the manifest's root is blank; name a directory, or leave it out for one of the session's own")
    return os.path.realpath(root)


def _is_ours(root: str) -> bool:
    """Whether a session's own directory is there. Raises PermissionError for what somebody else put in its place."""
    try:
        found = os.lstat(root)
    except FileNotFoundError:
        return False
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise PermissionError(f"{root!a:.200} is no directory of this user")
    os.chmod(root, 0o700)  # commands may have opened it to others
    return True
