"""Which run a workspace names. By itself, since a keeper asks each second and has no memory for the rest of this package."""

from __future__ import annotations

from fable_exec.errors import FableExecError
from fable_exec.pathguard import Workspace, WorkspacePath

__all__ = ["is_run_id", "read_run_id"]

_MAX_RUN_ID = 200


def read_run_id(workspace: Workspace, engine_directory: str) -> str:
    """The run that the state file `ENGINE_DIRECTORY/state/trust-run-id` names, "" where it names none that could have a proof.

    Raises nothing for what stands there. Before a run is started this is the baseline for `bind`.
    """
    try:
        content = workspace.read(WorkspacePath(components=(engine_directory, "state", "trust-run-id")), _MAX_RUN_ID * 2)
        text = content.data.decode("utf-8").strip()
    except (FableExecError, UnicodeDecodeError):
        return ""
    return text if is_run_id(text) else ""


def is_run_id(text: str) -> bool:
    """Whether a run can have that id: it begins with `run-`, is a single name, and can be shown."""
    return text.startswith("run-") and text.isprintable() and not set(text) & set("/\\") and len(text) <= _MAX_RUN_ID
