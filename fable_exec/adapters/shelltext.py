"""May a text be given to a shell? Only where the kernel holds what it does: an allow-list cannot see inside it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from fable_exec.errors import ExecutableDenied, ShellDenied
from fable_exec.protocol import ProbeResult

__all__ = ["SHELLS", "SHELL_NEEDS", "shell_command"]

SHELLS = ("sh", "bash")
"""The shells that are used, the first that the policy lists."""

SHELL_NEEDS = (
    "workspace_writes",
    "host_writes",
    "host_reads",
    "network",
    "host_sockets",
    "whole_tree_end",
    "kernel_surface",
)
"""The protections that a policy insists on by default; all must be active, not merely asked for."""


def shell_command(text: str, probed: ProbeResult) -> tuple[str, ...]:
    """The command that has a listed shell read `text`.

    Args:
        probed: what the broker says of itself now.

    Raises:
        ShellDenied: a protection that this needs is not active here.
        ExecutableDenied: the policy lists no shell.
    """
    shell = next((name for name in SHELLS if name in probed.available_executables), None)
    if shell is None:
        raise ExecutableDenied(f"shell text needs {_either(SHELLS)} on the allow-list; give a program and its arguments instead")
    active = {each.protection: each for each in probed.confinement}
    for name in SHELL_NEEDS:
        applied = active.get(name)
        if applied is None or applied.mode == "off" or applied.state != "active":
            why = "" if applied is None or not applied.reason else f": {applied.reason}"
            raise ShellDenied(
                f"shell text is refused, because an allow-list cannot see inside it and the kernel does not hold "
                f"{name} here{why}; give a program and its arguments instead",
                protection=name,
            )
    return (shell, "-c", text)


def _either(names: Sequence[str]) -> str:
    return " or ".join(names)
