"""The environment of commands: an allow-list, composed once when the broker starts, plus what a request may set.

The launcher adds the private HOME and TMPDIR. What is not named by the policy or by this module never reaches a command.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from fable_exec.errors import Denied, InvalidRequest
from fable_exec.policy import BrokerPolicy, EnvironmentPolicy, is_environment_name, is_injection_name
from fable_exec.protocol.rules import shown

__all__ = ["base_environment", "command_environment", "reading_environment"]

_LOCALE_NAMES = ("LANG", "LC_")
_CHARACTER_NAMES = ("LC_ALL", "LC_CTYPE", "LANG")
"""What says how a program writes characters (locale(7))."""
_UTF8_LOCALE = "C.UTF-8"
_WINDOWS_NAMES = ("SYSTEMROOT", "WINDIR", "TEMP", "TMP", "SYSTEMDRIVE", "COMSPEC")
_ALWAYS = {"PYTHONUNBUFFERED": "1"}
"""Without it what a Python program printed before its deadline would still be in its own buffer."""


def base_environment(policy: BrokerPolicy, path: tuple[str, ...], host: Mapping[str, str]) -> dict[str, str]:
    """What every command gets: locale, what the policy inherits from `host` and sets, PATH from the trusted directories, and
    what goes with the network."""
    rules = policy.environment
    chosen = {name: value for name, value in host.items() if _is_passed(name) or rules.inherits(name)}
    given = {**chosen, **rules.set}
    return {**policy.confinement.environment, **given, **_locale_without(given), "PATH": os.pathsep.join(path), **_ALWAYS}


def command_environment(base: Mapping[str, str], asked: Mapping[str, str], rules: EnvironmentPolicy) -> Mapping[str, str]:
    """`base` with the variables of a request.

    Raises:
        Denied: the policy does not let requests set one of them.
    """
    if not asked:
        return base
    for name in asked:
        _check_name(name, rules)
    return {**base, **asked, **_ALWAYS}


def reading_environment(environment: Mapping[str, str]) -> Mapping[str, str]:
    """That of a command which may change nothing: `git status` then leaves its index as it is (git(1))."""
    return {"GIT_OPTIONAL_LOCKS": "0", **environment}


def _locale_without(given: Mapping[str, str]) -> dict[str, str]:
    """A UTF-8 locale where nobody says which: output is read as UTF-8, and what a service manager starts has none."""
    said = any(given.get(name) for name in _CHARACTER_NAMES)
    return {} if said or sys.platform != "linux" else {"LANG": _UTF8_LOCALE}


def _is_passed(name: str) -> bool:
    if os.name == "nt" and name.upper() in _WINDOWS_NAMES:
        return True
    return name == _LOCALE_NAMES[0] or name.startswith(_LOCALE_NAMES[1])


def _check_name(name: str, rules: EnvironmentPolicy) -> None:
    if not is_environment_name(name):
        raise InvalidRequest(f"env has a name that no variable can have: {shown(name)}")
    if not rules.admits_request(name):
        why = "it can make a program run other code" if is_injection_name(name) else "environment.request_names does not list it"
        raise Denied(f"a request may not set the variable {shown(name)}: {why}")
