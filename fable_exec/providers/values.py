"""A provider as a value, and what a check says about one."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, cast

import attrs

from fable_exec.errors import PolicyError, ProviderUnavailable
from fable_exec.providers.parsing import Parser, exit_status

__all__ = ["Classification", "ProviderCheck", "ProviderSpec"]


class Classification(Enum):
    """Every answer that a check can give."""

    SEATBELT_NOT_ENABLED = "seatbelt_not_enabled"
    AUTH_UNSUPPORTED = "provider_auth_probe_unsupported"
    READINESS_UNSUPPORTED = "provider_readiness_probe_unsupported"
    CONFINEMENT_UNAVAILABLE = "provider_auth_confinement_unavailable"
    AUTH_TIMEOUT = "provider_auth_probe_timeout"
    CLI_UNAVAILABLE = "provider_cli_unavailable"
    AUTH_INVALID = "provider_auth_status_invalid"
    AUTH_UNAVAILABLE = "provider_auth_unavailable_in_confinement"
    READINESS_TIMEOUT = "provider_readiness_probe_timeout"
    INFERENCE_UNAVAILABLE = "provider_live_inference_unavailable"
    AVAILABLE = "available"

    @property
    def available(self) -> bool:
        """Whether a start may go on."""
        return self in (Classification.AVAILABLE, Classification.SEATBELT_NOT_ENABLED)


def _command(given: Sequence[str] | None) -> tuple[str, ...] | None:
    return cast("tuple[str, ...] | None", given)


@attrs.frozen(kw_only=True)
class ProviderSpec:
    """How to ask one provider's command line.

    Args:
        name: as executions name it.
        auth_command: tells whether it is logged in; None where there is no such command.
        readiness_command: has the provider answer once; None where nothing does that.
        action: what a person can do when it is not available.
        auth_parser, readiness_parser: what the answers mean; exit status 0 by default.

    Raises:
        PolicyError: a command is empty, or no list of strings.
    """

    name: str
    auth_command: tuple[str, ...] | None = attrs.field(default=None, converter=_command)
    readiness_command: tuple[str, ...] | None = attrs.field(default=None, converter=_command)
    action: str = ""
    auth_parser: Parser = exit_status
    readiness_parser: Parser = exit_status

    def __attrs_post_init__(self) -> None:
        faults = [] if isinstance(self.name, str) and self.name else [("name", "must be a word")]
        for field in ("auth_command", "readiness_command"):
            given: Any = getattr(self, field)
            if given is None:
                continue
            if not isinstance(given, (list, tuple)) or not given or not all(isinstance(word, str) and word for word in given[:1]):
                faults.append((field, "must be a list of strings that begins with a program"))
            elif not all(isinstance(word, str) and "\0" not in word for word in given):
                faults.append((field, "must be a list of strings without NUL"))
            else:
                object.__setattr__(self, field, tuple(given))
        if faults:
            raise PolicyError.of(faults, "invalid provider")


@attrs.frozen(kw_only=True)
class ProviderCheck:
    """What a check says.

    Args:
        action: what a person can do about it; empty where there is nothing to do.
        live_inference_passed: whether the provider answered inside the confinement; None where it was not asked.
    """

    provider: str
    classification: Classification
    action: str = ""
    live_inference_passed: bool | None = None

    @property
    def available(self) -> bool:
        """Whether a start may go on."""
        return self.classification.available

    def require(self) -> None:
        """Nothing where a start may go on. Raises ProviderUnavailable with the classification and the action otherwise."""
        if not self.available:
            word = self.classification.value
            raise ProviderUnavailable(
                f"provider {self.provider}: {word}. {self.action}",
                provider=self.provider,
                classification=word,
                action=self.action,
            )

    def to_members(self) -> dict[str, object]:
        """As JSON members."""
        asked = {} if self.live_inference_passed is None else {"live_inference_passed": self.live_inference_passed}
        return {
            "provider": self.provider,
            "available": self.available,
            "classification": self.classification.value,
            "action": self.action,
            **asked,
        }
