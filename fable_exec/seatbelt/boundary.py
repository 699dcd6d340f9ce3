"""`HostBoundary`: what of a host a confined program gets, as one checked value for every platform.

It is built once, from code, the environment or a file; a value that exists has passed every rule. Building it looks at the disk
and changes nothing. What a kernel makes of it is `rendering`'s affair on macOS and `fable_exec.bounded`'s on Linux.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import attrs

from fable_exec.errors import PolicyError
from fable_exec.policy.rules import Faults, shown
from fable_exec.seatbelt.paths import enclosing, leads_through, overlap, overlapping, resolved, resolved_directory, resolved_file
from fable_exec.seatbelt.profile import SYSTEM_RUNTIME_PATHS

__all__ = ["WHAT", "HostBoundary", "system_runtime_paths"]

WHAT = "invalid host boundary"
_COMMAND_DIRECTORIES = ("/usr/bin", "/bin", "/usr/sbin", "/sbin")
_LAST_PORT = 65535


def system_runtime_paths() -> tuple[str, ...]:
    """Those of SYSTEM_RUNTIME_PATHS that this host has."""
    return tuple(path for path in SYSTEM_RUNTIME_PATHS if os.path.exists(path))


def _command_directories() -> tuple[Path, ...]:
    """Where a system keeps its commands, each directory once: /bin and /usr/bin may be one."""
    return tuple(dict.fromkeys(Path(path).resolve() for path in _COMMAND_DIRECTORIES if os.path.isdir(path)))


def _paths(given: Iterable[str | Path]) -> tuple[Path, ...]:
    """Only tells the type checker what is taken; the checks of the class make the tuple."""
    return cast("tuple[Path, ...]", given)


def _numbers(given: Iterable[int]) -> tuple[int, ...]:
    return cast("tuple[int, ...]", given)


def _path(given: str | Path) -> Path:
    return cast("Path", given)


def _path_or_none(given: str | Path | None) -> Path | None:
    return cast("Path | None", given)


@attrs.frozen
class HostBoundary:
    """What a confined program may read, write, execute and reach. Lists keep their order; what resolves to the same is kept once.

    Args:
        workspace_roots: directories in which workspaces lie, at least one.
        protected_root: the directory that holds all roots; of it a program sees its own workspace and nothing else.
        runtime_read_paths: files and directories to read and execute from.
        runtime_write_paths: files and directories to change as well: caches, a provider's settings.
        child_path: directories of PATH, those of the system among them.
        reserved_ports: ports that a program may neither connect to nor bind.
        engine_source: the program's own code, read and never written; None where it needs no path of its own.

    Raises:
        PolicyError: lists every fault, each under the name of its field. Nothing was made.
    """

    workspace_roots: tuple[Path, ...] = attrs.field(converter=_paths)
    protected_root: Path = attrs.field(converter=_path)
    runtime_read_paths: tuple[Path, ...] = attrs.field(default=(), converter=_paths)
    runtime_write_paths: tuple[Path, ...] = attrs.field(default=(), converter=_paths)
    child_path: tuple[Path, ...] = attrs.field(factory=_command_directories, converter=_paths)
    reserved_ports: tuple[int, ...] = attrs.field(default=(), converter=_numbers)
    engine_source: Path | None = attrs.field(default=None, converter=_path_or_none)

    def __attrs_post_init__(self) -> None:
        faults = Faults()
        for name, check in _CHECKS.items():
            before = len(faults)
            value = check(getattr(self, name), name, faults)
            if len(faults) == before:
                object.__setattr__(self, name, value)
        if not faults:
            faults += _between_fields(self)
        if faults:
            raise PolicyError.of(faults, WHAT)

    @classmethod
    def from_env(cls, environment: Mapping[str, str] | None = None) -> HostBoundary:
        """The boundary in the variables FABLE_EXEC_HOST_* (docs/reference/seatbelt.md). Raises PolicyError that names them."""
        from fable_exec.seatbelt.settings import boundary_from_environment

        return boundary_from_environment(os.environ if environment is None else environment)

    @classmethod
    def from_toml(cls, path: str | Path) -> HostBoundary:
        """The boundary of a TOML file with the names of the fields. Raises PolicyError, also when it cannot be read."""
        from fable_exec.seatbelt.settings import boundary_from_file

        return boundary_from_file(path)

    @property
    def config_sha256(self) -> str:
        """SHA-256 of the canonical JSON of everything but the engine's source."""
        return _digest_of(self._configuration())

    @property
    def digest(self) -> str:
        """The same of everything: two boundaries that differ in anything differ in this."""
        return _digest_of({**self._configuration(), "engine_source": self.engine_source and str(self.engine_source)})

    def identity(self, workspace_root: str | Path | None = None) -> dict[str, str]:
        """What an engine's manifest advertises of this boundary.

        Args:
            workspace_root: which of the roots; it may stay open where there is only one.

        Raises:
            PolicyError: it is none of the roots.
        """
        return {
            "workspace_root": str(self._root(workspace_root)),
            "protected_root": str(self.protected_root),
            **{name: os.pathsep.join(map(str, getattr(self, name))) for name in _JOINED},
            "reserved_ports": ",".join(map(str, self.reserved_ports)),
            "config_sha256": self.config_sha256,
        }

    def workspace(self, given: str | Path) -> Path:
        """The resolved workspace.

        Raises:
            PolicyError: it does not lie strictly inside a root, holds one, or overlaps the engine's source, or that holds a root:
                every program would read the workspaces there.
        """
        found = _checked(given, "workspace", resolved_directory)
        inside = [root for root in self.workspace_roots if found.is_relative_to(root) and found != root]
        holds = [root for root in self.workspace_roots if root.is_relative_to(found)]
        if not inside or holds:
            raise _refusal("workspace", "must lie inside one of workspace_roots, and neither be nor hold one", found)
        engine = self.engine_source
        if engine is not None and (overlap(found, engine) or any(root.is_relative_to(engine) for root in self.workspace_roots)):
            raise _refusal("workspace", f"engine_source {shown(engine)} overlaps it, or holds a root", found)
        return found

    def root_of(self, given: str | Path) -> Path:
        """The root that the workspace lies in, the innermost of several. Raises as `workspace`."""
        found = self.workspace(given)
        return max((root for root in self.workspace_roots if found.is_relative_to(root)), key=lambda root: len(root.parts))

    def specification(self, given: str | Path, workspace: Path | None = None) -> Path:
        """The resolved file of a specification.

        Args:
            workspace: a resolved one. A link in it, which its program can have made, opens nothing outside of it.

        Raises:
            PolicyError: it breaks a rule.
        """
        found = _checked(given, "spec", resolved_file)
        if workspace is not None and not found.is_relative_to(workspace) and leads_through(given, workspace):
            raise _refusal("spec", "leads out of the workspace by a link in it", given)
        return found

    def _root(self, given: str | Path | None) -> Path:
        if given is None:
            if len(self.workspace_roots) == 1:
                return self.workspace_roots[0]
            raise PolicyError.of([("workspace_root", "which of workspace_roots has to be said where there are several")], WHAT)
        found = _checked(given, "workspace_root", resolved_directory)
        if found not in self.workspace_roots:
            raise _refusal("workspace_root", "must be exactly one of workspace_roots", found)
        return found

    def _configuration(self) -> dict[str, Any]:
        lists = {name: [str(path) for path in getattr(self, name)] for name in ("workspace_roots", *_JOINED)}
        return {**lists, "protected_root": str(self.protected_root), "reserved_ports": list(self.reserved_ports)}


def _digest_of(members: Mapping[str, Any]) -> str:
    text = json.dumps(members, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


_JOINED = ("runtime_read_paths", "runtime_write_paths", "child_path")
_Check = Callable[[Any, str, Faults], Any]


def _one(rule: Callable[[object], Path]) -> _Check:
    def check(given: Any, name: str, faults: Faults) -> Any:
        try:
            return rule(given)
        except ValueError as error:
            faults.append((name, f"{error}: {shown(given)}"))
            return None

    return check


def _each(rule: Callable[[object], Path], at_least: int = 0) -> _Check:
    def check(given: Any, name: str, faults: Faults) -> Any:
        if not isinstance(given, (list, tuple)):
            faults.append((name, f"must be a list of paths, not {type(given).__name__}"))
            return ()
        if len(given) < at_least:
            faults.append((name, "must name at least one directory"))
        found = [_one(rule)(item, f"{name}[{index}]", faults) for index, item in enumerate(given)]
        for index, path in enumerate(found):
            if path is not None and os.pathsep in str(path):
                faults.append((f"{name}[{index}]", f"must not contain {os.pathsep}, which separates lists: {shown(path)}"))
        return tuple(dict.fromkeys(found))

    return check


def _ports(given: Any, name: str, faults: Faults) -> Any:
    if not isinstance(given, (list, tuple)):
        faults.append((name, f"must be a list of ports, not {type(given).__name__}"))
        return ()
    for index, port in enumerate(given):
        if type(port) is not int or not 1 <= port <= _LAST_PORT:
            faults.append((f"{name}[{index}]", f"must be a port from 1 to {_LAST_PORT}, not {shown(port)}"))
        elif port in given[:index]:
            faults.append((f"{name}[{index}]", f"lists the port {port} twice"))
    return tuple(given)


def _engine(given: Any, name: str, faults: Faults) -> Any:
    return None if given is None else _one(resolved)(given, name, faults)


_CHECKS: Mapping[str, _Check] = {
    "workspace_roots": _each(resolved_directory, at_least=1),
    "protected_root": _one(resolved_directory),
    "runtime_read_paths": _each(resolved),
    "runtime_write_paths": _each(resolved),
    "child_path": _each(resolved_directory, at_least=1),
    "reserved_ports": _ports,
    "engine_source": _engine,
}


def _between_fields(boundary: HostBoundary) -> Faults:
    return [*_roots(boundary), *_runtimes(boundary), *_search_path(boundary), *_engine_written(boundary)]


def _roots(boundary: HostBoundary) -> Faults:
    protected = boundary.protected_root
    faults = [
        (f"workspace_roots[{index}]", f"must lie strictly inside protected_root {shown(protected)}: {shown(root)}")
        for index, root in enumerate(boundary.workspace_roots)
        if root == protected or not root.is_relative_to(protected)
    ]
    system = overlapping(protected, _with_their_targets(system_runtime_paths()))
    if system is not None:
        faults.append(("protected_root", f"overlaps {system}, which every program reads: {shown(protected)}"))
    return faults


def _runtimes(boundary: HostBoundary) -> Faults:
    return [
        (f"{name}[{index}]", f"must not overlap protected_root {shown(boundary.protected_root)}: {shown(path)}")
        for name in ("runtime_read_paths", "runtime_write_paths")
        for index, path in enumerate(getattr(boundary, name))
        if overlap(path, boundary.protected_root)
    ]


def _search_path(boundary: HostBoundary) -> Faults:
    readable = (*_with_their_targets(system_runtime_paths()), *boundary.runtime_read_paths)
    missing = [path for path in _command_directories() if path not in boundary.child_path]
    return [
        *(("child_path", f"must contain the system's command directory {path}") for path in missing),
        *(
            (f"child_path[{index}]", f"lies below no path that programs can read; list it in runtime_read_paths: {shown(path)}")
            for index, path in enumerate(boundary.child_path)
            if enclosing(path, readable) is None
        ),
    ]


def _engine_written(boundary: HostBoundary) -> Faults:
    engine = boundary.engine_source
    written = None if engine is None else overlapping(engine, boundary.runtime_write_paths)
    if written is None:
        return []
    return [("engine_source", f"must not be written, but overlaps {shown(written)} of runtime_write_paths: {shown(engine)}")]


def _with_their_targets(paths: Iterable[str]) -> tuple[Path, ...]:
    return tuple(dict.fromkeys(each for path in map(Path, paths) for each in (path, path.resolve())))


def _checked(given: object, name: str, rule: Callable[[object], Path]) -> Path:
    try:
        return rule(given)
    except ValueError as error:
        raise _refusal(name, str(error), given) from None


def _refusal(name: str, text: str, value: object) -> PolicyError:
    return PolicyError.of([(name, f"{text}: {shown(value)}")], WHAT)
