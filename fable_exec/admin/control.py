"""The admin's commands: one line of JSON in, one answer out. It knows no channel.

An answer is ``{"ok": true}``, with more members for `status`, or ``{"ok": false, "error": TEXT, "code": CODE}``. No answer and no
message ever holds a token.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fable_exec.broker import ExecutionBroker
from fable_exec.errors import FableExecError, InvalidJson, InvalidRequest, PolicyError
from fable_exec.protocol import parse_line
from fable_exec.protocol.errors import bounded_message

__all__ = ["MAX_LINE_BYTES", "AdminControl", "complain", "encode", "no_channel", "tell"]

MAX_LINE_BYTES = 64 * 1024
_MAX_ERROR_BYTES = 1024
_NAMED_MEMBERS = 4
_WORD = re.compile("[a-z_]{1,24}")

Answer = dict[str, Any]


def no_channel(why: str) -> PolicyError:
    """The error about a channel that cannot be had as it was asked for. It is a setting, and no field of the policy."""
    return PolicyError.of([("", why)], "no admin channel")


class AdminControl:
    """Performs the commands on one broker. `shutdown` is called for the command of that name."""

    def __init__(self, broker: ExecutionBroker, shutdown: Callable[[], None]) -> None:
        self._broker = broker
        self._shutdown = shutdown
        self._commands: dict[str, tuple[frozenset[str], Callable[[Mapping[str, Any]], Answer]]] = {
            "unlock_writes": (frozenset({"token", "expires_in_seconds", "paths"}), self._unlock),
            "lock_writes": (frozenset(), self._lock),
            "status": (frozenset(), self._status),
            "shutdown": (frozenset(), self._end),
        }

    def answer(self, line: bytes) -> Answer:
        """Do what the line says, whatever it holds; never raises for it."""
        try:
            return self._perform(parse_line(line))
        except FableExecError as error:
            return {"ok": False, "error": bounded_message(str(error), _MAX_ERROR_BYTES), "code": error.code}
        except Exception as error:  # the door: the next command must still be heard
            return {"ok": False, "error": f"the command failed with {type(error).__name__}", "code": "internal-error"}

    def is_whole(self, line: bytes) -> bool:
        """Whether `line` is a whole JSON object already, though no newline has come."""
        try:
            parse_line(line)
        except InvalidJson:
            return False
        except InvalidRequest:
            return True
        return True

    def _perform(self, members: Mapping[str, Any]) -> Answer:
        actions = ", ".join(sorted(self._commands))
        if "action" not in members:
            given = f", only {_named(members)}" if members else ""
            raise InvalidRequest(f'there is no member "action"{given}; it says what to do: {actions}')
        action = members["action"]
        if not isinstance(action, str) or action not in self._commands:
            raise InvalidRequest(f"there is no such admin action; there are {actions}")
        names, command = self._commands[action]
        unknown = members.keys() - names - {"action"}
        if unknown:
            has = ", ".join(sorted(names)) or "none but action"
            raise InvalidRequest(f"{action} has no member {_named(unknown)}; it has {has}")
        return command(members)

    def _unlock(self, members: Mapping[str, Any]) -> Answer:
        token, paths = members.get("token"), members.get("paths")
        if token is not None and not isinstance(token, str):
            raise InvalidRequest("token must be text")
        if paths is not None and not (isinstance(paths, list) and all(isinstance(path, str) and path for path in paths)):
            raise InvalidRequest("paths must be a list of paths")
        self._broker.unlock_writes(token or "", expires_in_seconds=members.get("expires_in_seconds"), paths=paths)
        return {"ok": True}

    def _lock(self, _: Mapping[str, Any]) -> Answer:
        self._broker.lock_writes()
        return {"ok": True}

    def _status(self, _: Mapping[str, Any]) -> Answer:
        return {
            "ok": True,
            "writes_enabled": self._broker.writes_enabled,
            "workspace": bounded_message(str(self._broker.policy.workspace), _MAX_ERROR_BYTES),
            "policy_digest": self._broker.policy.digest,
        }

    def _end(self, _: Mapping[str, Any]) -> Answer:
        self._shutdown()
        return {"ok": True}


def _named(members: Iterable[str]) -> str:
    """The first of their names, and only words of letters: a token that went into the wrong place is not shown."""
    words = [f'"{name}"' if _WORD.fullmatch(name) else "(a name that is not shown)" for name in sorted(members)]
    return ", ".join([*words[:_NAMED_MEMBERS], *(["more"] if len(words) > _NAMED_MEMBERS else [])])


def encode(answer: Answer) -> bytes:
    """The answer as a line."""
    return json.dumps(answer).encode("ascii") + b"\n"


def tell(line: str) -> None:
    """One line to standard error; where nobody reads it, it is lost."""
    try:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
    except (AttributeError, OSError, ValueError):
        pass  # None, in a program that was started with it closed


def complain(text: object) -> None:
    """Tell what an admin did wrong where he cannot be answered."""
    tell(f"admin control error: {text}")
