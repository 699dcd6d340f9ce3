"""What embedders test themselves with: strategies, conformance suites, fakes, faults, and a look at what was left behind.

Needs the extra `testing` (hypothesis, pytest); each name is loaded when it is first used. Nothing else of the library imports
this room, and nothing in it is for a program at work. The pytest plugin is fable_exec.testing.plugin.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from fable_exec.errors import ExtraMissing

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
    "faces": ("Face", "blocking"),
    "clocks": ("FakeClock",),
    "conformance.broker": ("BrokerConformance",),
    "conformance.supervisor": ("SupervisorConformance",),
    "faults": ("Fault", "FaultyFiles", "each_fault"),
    "leaks": ("nothing_left",),
    "conformance.machine": ("BrokerMachine",),
    "processes": ("alive_with", "end_all_with"),
    "replies": ("Ran", "Reply"),
    "scripted": ("ScriptedRunner",),
    "trees": ("Branch", "ProcessTree"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

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


def __getattr__(name: str) -> Any:
    module = "strategies" if name == "strategies" else _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        found = importlib.import_module(f"{__name__}.{module}")
    except ModuleNotFoundError as missing:
        if missing.name not in ("hypothesis", "pytest"):
            raise
        raise ExtraMissing.of("testing", missing.name) from missing
    value = globals()[name] = found if name == "strategies" else getattr(found, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
