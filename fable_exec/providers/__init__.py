"""Whether the command line of a model provider can be used within a boundary: logged in there, and answering.

`check` runs a provider's own commands inside the confinement and says one word of a closed list about it. Not a byte that they
print is returned, logged or raised.
"""

from __future__ import annotations

from fable_exec.providers.checking import AUTH_SECONDS, READINESS_SECONDS, check
from fable_exec.providers.parsing import Finding, Parser, exit_status
from fable_exec.providers.presets import PRESETS, provider_named
from fable_exec.providers.values import Classification, ProviderCheck, ProviderSpec

__all__ = [
    "AUTH_SECONDS",
    "PRESETS",
    "READINESS_SECONDS",
    "Classification",
    "Finding",
    "Parser",
    "ProviderCheck",
    "ProviderSpec",
    "check",
    "exit_status",
    "provider_named",
]
