"""Where what a policy names must not lie: seen from its workspace, in which commands may write."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fable_exec.policy.confinement import Confinement, secret_holding, system_directory_in
from fable_exec.policy.rules import Faults, shown

__all__ = ["misplaced"]


def misplaced(workspace: Path, confinement: Confinement, *, audit_log: Path | None, rule_files: Iterable[str]) -> Faults:
    """Every fault of that kind, at its place in the policy.

    Args:
        audit_log: None where no log is kept.
        rule_files: absolute paths of documents of argument rules.
    """
    return [
        *_confined_workspace(workspace, confinement),
        *_written_besides(workspace, confinement),
        *_misplaced_log(workspace, audit_log),
        *(fault for path in rule_files for fault in _inside(workspace, Path(path), "argument_rules.documents")),
    ]


def _confined_workspace(workspace: Path, confinement: Confinement) -> Faults:
    """Commands may write the workspace, and the system's directories stand beside it: neither may hold the other. Nor is it where
    everything is empty."""
    if not confinement.confines_files:
        return []
    if (held := system_directory_in(workspace)) is not None:
        text = f"is or holds {held}, which confined commands get from the system"
    elif (secret := secret_holding(workspace)) is not None:
        text = f"is or lies in {secret}, which is empty for confined commands"
    else:
        return []
    return [("workspace", f"{text}; choose a directory of its own, or confinement off: {shown(workspace)}")]


def _written_besides(workspace: Path, confinement: Confinement) -> Faults:
    """What is writable besides the workspace must leave its lock and its pins alone."""
    return [
        (f"confinement.runtime_write_paths[{index}]", f"must neither hold the workspace nor lie in it: {shown(path)}")
        for index, path in enumerate(map(Path, confinement.runtime_write_paths))
        if workspace.is_relative_to(path) or path.is_relative_to(workspace)
    ]


def _misplaced_log(workspace: Path, log: Path | None) -> Faults:
    """Commands could rewrite a log that lies where they may write; and one that has no place would be found out too late."""
    return [] if log is None else _inside(workspace, log, "audit.path") or _without_place(log, "audit.path")


def _inside(workspace: Path, file: Path, field: str) -> Faults:
    try:
        inside = file.parent.resolve().is_relative_to(workspace)
    except (OSError, RuntimeError):
        return [(field, f"its directory cannot be resolved: {shown(file)}")]
    return [(field, f"must be outside the workspace: {shown(file)}")] if inside else []


def _without_place(file: Path, field: str) -> Faults:
    """A file that is made when it is first needed needs its directory before."""
    try:
        if not file.parent.is_dir():
            missing = "its directory does not exist; make it, or name a file elsewhere"
            what = "what should be its directory is none; name a file elsewhere" if file.parent.exists() else missing
            return [(field, f"{what}: {shown(file)}")]
        return [(field, f"is a directory; name a file in it: {shown(file)}")] if file.is_dir() else []
    except OSError as error:
        return [(field, f"cannot be looked at ({error.strerror}): {shown(file)}")]
