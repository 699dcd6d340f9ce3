"""What an execution's state records of its boundary, and what each kernel is known not to hold. Pure."""

from __future__ import annotations

from typing import Literal

import attrs

__all__ = ["LINUX_LIMITATIONS", "MACOS_LIMITATIONS", "ConfinementRecord"]

MACOS_LIMITATIONS = (
    "preexisting-cross-boundary-hardlinks",
    "unrestricted-outbound-network",
    "provider-credential-store-visible-to-confined-build",
    "deprecated-macos-sandbox-exec",
)
LINUX_LIMITATIONS = (
    "preexisting-cross-boundary-hardlinks",
    "unrestricted-outbound-network",
    "provider-credential-store-visible-to-confined-build",
    "reserved-ports-hold-for-tcp",
)
"""docs/explanation/threat-model.md says what each means."""
_ENDED_BY = {
    "full": (),
    "ports": ("unrestricted-outbound-network",),
    "off": ("unrestricted-outbound-network", "reserved-ports-hold-for-tcp"),
}


@attrs.frozen(kw_only=True)
class ConfinementRecord:
    """Which profile, proved by which probe, with which known limitations.

    Args:
        kind: "macos-seatbelt" or "linux-kernel".
        profile_sha256: of the profile's bytes; on Linux of the launch plan. None where a start failed before there was one.
        kernel_probe_sha256: what the smoke probe returned; on Linux of the canary's report.
    """

    kind: str
    profile_sha256: str | None
    kernel_probe_sha256: str | None
    known_limitations: tuple[str, ...]

    @classmethod
    def of_macos(cls, profile_sha256: str, probe_sha256: str) -> ConfinementRecord:
        """The record of a program under sandbox-exec."""
        return cls(
            kind="macos-seatbelt",
            profile_sha256=profile_sha256,
            kernel_probe_sha256=probe_sha256,
            known_limitations=MACOS_LIMITATIONS,
        )

    @classmethod
    def of_linux(
        cls, plan_sha256: str | None, probe_sha256: str | None, network: Literal["off", "ports", "full"] = "full"
    ) -> ConfinementRecord:
        """The record of a program under a launch plan; a `network` that is not the whole one ends limitations."""
        return cls(
            kind="linux-kernel",
            profile_sha256=plan_sha256,
            kernel_probe_sha256=probe_sha256,
            known_limitations=tuple(each for each in LINUX_LIMITATIONS if each not in _ENDED_BY[network]),
        )

    def to_members(self) -> dict[str, object]:
        """As JSON members of a state."""
        return {**attrs.asdict(self), "known_limitations": list(self.known_limitations)}
