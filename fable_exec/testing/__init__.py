"""What embedders test themselves with: strategies, conformance suites, fakes, faults, and a look at what was left behind.

Needs the extra `testing` (hypothesis, pytest); each name is loaded when it is first used. Nothing else of the library imports
this room, and nothing in it is for a program at work. The pytest plugin is fable_exec.testing.plugin.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from fable_exec.errors import ExtraMissing
from fable_exec.lazynames import on_demand

if TYPE_CHECKING:
    from fable_exec.testing import strategies
    from fable_exec.testing.clocks import FakeClock
    from fable_exec.testing.conformance.broker import BrokerConformance
    from fable_exec.testing.conformance.machine import BrokerMachine
    from fable_exec.testing.conformance.supervisor import SupervisorConformance
    from fable_exec.testing.faces import Face, blocking
    from fable_exec.testing.faults import Fault, FaultyFiles, each_fault
    from fable_exec.testing.leaks import nothing_left
    from fable_exec.testing.processes import alive_with, end_all_with
    from fable_exec.testing.replies import Ran, Reply
    from fable_exec.testing.scripted import ScriptedRunner
    from fable_exec.testing.trees import Branch, ProcessTree

_MODULES = {
    "fable_exec.testing.faces": ("Face", "blocking"),
    "fable_exec.testing.clocks": ("FakeClock",),
    "fable_exec.testing.conformance.broker": ("BrokerConformance",),
    "fable_exec.testing.conformance.supervisor": ("SupervisorConformance",),
    "fable_exec.testing.faults": ("Fault", "FaultyFiles", "each_fault"),
    "fable_exec.testing.leaks": ("nothing_left",),
    "fable_exec.testing.conformance.machine": ("BrokerMachine",),
    "fable_exec.testing.processes": ("alive_with", "end_all_with"),
    "fable_exec.testing.replies": ("Ran", "Reply"),
    "fable_exec.testing.scripted": ("ScriptedRunner",),
    "fable_exec.testing.trees": ("Branch", "ProcessTree"),
}

__all__ = [
    "Branch",
    "BrokerConformance",
    "BrokerMachine",
    "Face",
    "FakeClock",
    "Fault",
    "FaultyFiles",
    "ProcessTree",
    "Ran",
    "Reply",
    "ScriptedRunner",
    "SupervisorConformance",
    "alive_with",
    "blocking",
    "each_fault",
    "end_all_with",
    "nothing_left",
    "strategies",
]

if not TYPE_CHECKING:
    _found, __dir__ = on_demand(__name__, _MODULES)

    def __getattr__(name: str) -> Any:
        try:
            return importlib.import_module(f"{__name__}.strategies") if name == "strategies" else _found(name)
        except ModuleNotFoundError as missing:
            if missing.name not in ("hypothesis", "pytest"):
                raise
            raise ExtraMissing.of("testing", missing.name) from missing
