"""The providers that are known by name. An embedder's own `ProviderSpec` is checked in the same way; nothing is registered."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from fable_exec.errors import InvalidRequest
from fable_exec.policy.rules import shown
from fable_exec.providers.parsing import claude_auth, claude_readiness
from fable_exec.providers.values import ProviderSpec

__all__ = ["PRESETS", "provider_named"]

_CLAUDE = ProviderSpec(
    name="claude",
    auth_command=("claude", "auth", "status"),
    readiness_command=(
        *("claude", "--print", "Use the Bash tool to run `true`, then answer with the one word OK."),
        *("--model", "haiku", "--effort", "low"),
        *("--setting-sources", "", "--allowedTools", "Bash(true)", "--no-session-persistence"),
        *("--output-format", "json"),
    ),
    action="Run `claude auth login` as this user, list ~/.claude and ~/.claude.json in the boundary's runtime_write_paths.",
    auth_parser=claude_auth,
    readiness_parser=claude_readiness,
)
_CODEX = ProviderSpec(
    name="codex",
    auth_command=("codex", "login", "status"),
    action="Run `codex login` as this user, list ~/.codex in the boundary's runtime_write_paths, try again.",
)
_CLINE = ProviderSpec(
    name="cline",
    auth_command=("cline", "auth", "status"),
    action="Run `cline auth` as this user, list ~/.cline in the boundary's runtime_write_paths, try again.",
)
_AIDER = ProviderSpec(
    name="aider",
    action="aider has no command that tells whether it is logged in: use another provider within a boundary, or check a "
    "ProviderSpec of your own with a command that does.",
)

PRESETS: Mapping[str, ProviderSpec] = MappingProxyType({each.name: each for each in (_CLAUDE, _CODEX, _CLINE, _AIDER)})
"""By name."""


def provider_named(name: str, more: Mapping[str, ProviderSpec] = MappingProxyType({})) -> ProviderSpec:
    """The provider of that name, of the embedder's own or else of the presets. Raises InvalidRequest where there is none."""
    known = {**PRESETS, **more}
    if name not in known:
        raise InvalidRequest(f"no provider is called {shown(name)}; known are {', '.join(sorted(known))}")
    return known[name]
