"""`tree_digest` and `verify`: rounds of reading until a digest is what its level promises, or an error that says why not."""

from __future__ import annotations

import contextlib
import hmac
import os
import time
from collections.abc import Callable, Iterator

import attrs

from fable_exec.errors import ConfinementUnavailable, InternalError, TreeUnstable
from fable_exec.pathguard import Workspace
from fable_exec.treedigest.cache import DigestCache
from fable_exec.treedigest.diffing import diff
from fable_exec.treedigest.forms import LOKI, TREE, loki_manifest
from fable_exec.treedigest.loki import digest_loki, unreadable_row
from fable_exec.treedigest.manifests import Manifest
from fable_exec.treedigest.reading import Reader
from fable_exec.treedigest.scanning import EndedByCaller, Scanner, unstable
from fable_exec.treedigest.trees import digest_tree
from fable_exec.treedigest.values import Difference, Level, Profile, Progress, is_one_name
from fable_exec.treedigest.watching import Watch

__all__ = ["TreeDigest", "tree_digest", "verify"]

ROUNDS = 3
MAX_PATHS = 20
"""As many are named that changed; there may be more."""
_PAUSE_SECONDS = 0.02
_LOKI_ENGINE_DIRECTORY = ".loki"

OnProgress = Callable[[Progress], None]


@attrs.frozen(kw_only=True)
class TreeDigest:
    """The digest of a tree, and the manifest that it is the SHA-256 of."""

    sha256: str
    """64 hexadecimal digits; "" with the profile loki-v3 where no git worktree has its top."""
    manifest: Manifest | None
    profile: Profile
    level: Level
    unproven: int = 0
    """Files of which the system did not tell whether somebody has them open for writing; 0 at the level sealed."""

    def difference_from(self, kept: Manifest) -> Difference:
        """What of this tree is not as the older manifest `kept` says; without a digest, everything is gone."""
        if hmac.compare_digest(self.sha256, kept.sha256):
            return Difference()
        difference = diff(kept, self.manifest or Manifest(loki_manifest((), (), kept.engine_directory)))
        if difference.is_empty:
            raise InternalError("two manifests with one meaning have two digests")
        return difference


def tree_digest(
    workspace: str | os.PathLike[str] | Workspace,
    profile: Profile | str = Profile.TREE,
    level: Level | str = Level.STABLE,
    *,
    engine_directory: str | None = None,
    on_progress: OnProgress | None = None,
    cache: DigestCache | None = None,
) -> TreeDigest:
    """Read a whole tree and give its digest. Nothing is written, nothing is run, no link is followed out of the tree.

    Args:
        workspace: the directory, or a Workspace, which stays open.
        profile: see Profile; also by its value.
        level: see Level; also by its value.
        engine_directory: the name of one directory at the top whose content does not count; None: ".loki" with the profile
            loki-v3, no directory with tree.
        on_progress: called in this thread, often; what it raises ends the call.
        cache: only with level fast, since a hint cannot be part of a promise.

    Raises:
        TreeUnstable: the tree is being changed (`changed`), a process could change it unseen (`writer`), or at level sealed
            the system cannot tell (`unproven`). No digest is better than one of a tree that never stood.
        PathError: something could not be read; with the profile tree also what this user may not read: it would not be bound.
        StateUnreadable: a git index that is `torn`, `foreign` (also a sparse one) or `newer`; a cache that is `not-private`.
        PathDenied: with loki-v3, a tracked path leads out of the workspace through a link.
        ConfinementUnavailable: this system has no directory handles.
        ValueError: a wrong argument.
    """
    profile, level = Profile(profile), Level(level)
    if cache is not None and level is not Level.FAST:
        raise ValueError(f"a cache is a hint and level {level.value!r} a promise; use level 'fast' with it")
    if engine_directory is not None and not is_one_name(engine_directory):
        raise ValueError(f"engine_directory is the name of one directory, not {engine_directory!r}")
    if engine_directory is None and profile is Profile.LOKI_V3:
        engine_directory = _LOKI_ENGINE_DIRECTORY
    with _opened(workspace) as held:
        job = _Job(held, profile, level, engine_directory, on_progress, cache)
        try:
            if cache is None:
                return job.settled()
            with cache.used_for(held, {"profile": profile.value, "engine_directory": engine_directory}):
                return job.settled()
        except EndedByCaller as ended:
            error: Exception = ended.args[0]
    raise error  # here, where it has no context but its own


def verify(
    manifest: Manifest,
    workspace: str | os.PathLike[str] | Workspace,
    level: Level | str = Level.STABLE,
    *,
    on_progress: OnProgress | None = None,
) -> Difference:
    """What of a tree is not as the manifest says; `is_empty` if all is. Everything is read; there is no cache.

    Raises:
        TreeUnstable, PathError, StateUnreadable, PathDenied: as `tree_digest`; StateUnreadable also for what is no manifest.
    """
    engine_directory = manifest.engine_directory
    found = tree_digest(workspace, manifest.profile, level, engine_directory=engine_directory, on_progress=on_progress)
    return found.difference_from(manifest)


@contextlib.contextmanager
def _opened(workspace: str | os.PathLike[str] | Workspace) -> Iterator[Workspace]:
    with contextlib.ExitStack() as stack:
        held = workspace if isinstance(workspace, Workspace) else stack.enter_context(Workspace.open(workspace))
        if held.reduced:
            raise ConfinementUnavailable(
                "a tree digest cannot be had: no directory handles on this system, so names could be swapped while they are read",
                protection="tree-digest", reason="no directory handles",
            )  # fmt: skip
        yield held


@attrs.frozen
class _Job:
    """What is asked for, with all choices made."""

    workspace: Workspace
    profile: Profile
    level: Level
    engine_directory: str | None
    on_progress: OnProgress | None
    cache: DigestCache | None

    def settled(self) -> TreeDigest:
        """The digest of the first round in which the tree held still."""
        for turn in range(ROUNDS - 1):
            try:
                return self._once()
            except TreeUnstable as error:
                if error.reason == "unproven":
                    raise
            time.sleep(_PAUSE_SECONDS * (turn + 1))
        return self._once()

    def _once(self) -> TreeDigest:
        promised = self.level is not Level.FAST
        watch = Watch(self.workspace) if promised else None
        of_loki = self.profile is Profile.LOKI_V3
        scanner = Scanner(
            self.workspace, LOKI if of_loki else TREE,
            reader=Reader(leases=promised, sealed=self.level is Level.SEALED),
            watch=watch, cache=self.cache, on_progress=self.on_progress, skip_unreadable=unreadable_row if of_loki else None,
        )  # fmt: skip
        data = digest_loki(scanner, self.engine_directory) if of_loki else self._of_tree(scanner)
        unproven = scanner.reader.unproven
        if watch is not None and (changed := watch.changes()):
            raise unstable(*changed[:MAX_PATHS])
        manifest = None if data is None else Manifest(data)
        return TreeDigest(
            sha256="" if manifest is None else manifest.sha256, manifest=manifest, profile=self.profile, level=self.level,
            unproven=unproven,
        )  # fmt: skip

    def _of_tree(self, scanner: Scanner) -> bytes:
        return digest_tree(scanner, self.engine_directory, {} if self.cache is None else self.cache.listings)
