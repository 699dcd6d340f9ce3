"""The boundary between a confined program and its host as one value, and macOS's kernel made to hold it.

`HostBoundary` says what a program gets; `render` writes the Seatbelt profile that means it, `SeatbeltProfile` says what a profile
means, on any platform; `smoke_probe` shows that it holds, and `confined_args` runs a program under it.
"""

from __future__ import annotations

from fable_exec.seatbelt.arming import ConfinedArguments, confined_args, is_armed
from fable_exec.seatbelt.boundary import HostBoundary
from fable_exec.seatbelt.evaluating import SeatbeltProfile
from fable_exec.seatbelt.probe import ProbeResult, smoke_probe
from fable_exec.seatbelt.record import LINUX_LIMITATIONS, MACOS_LIMITATIONS, ConfinementRecord
from fable_exec.seatbelt.rendering import render

__all__ = [
    "LINUX_LIMITATIONS",
    "MACOS_LIMITATIONS",
    "ConfinedArguments",
    "ConfinementRecord",
    "HostBoundary",
    "ProbeResult",
    "SeatbeltProfile",
    "confined_args",
    "is_armed",
    "render",
    "smoke_probe",
]
