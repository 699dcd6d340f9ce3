"""The admin's commands as lines for the channel that a client keeps to its own broker, and the answers to them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from fable_exec.errors import BrokerGone, InvalidRequest
from fable_exec.protocol import decode_error

__all__ = ["ANSWER_SECONDS", "check_answer", "lock_line", "unlock_line"]

ANSWER_SECONDS = 10.0


def unlock_line(token: str, expires_in_seconds: float | None, paths: Iterable[str] | None) -> bytes:
    """The line that unlocks writes."""
    if not isinstance(token, str):  # null would be an empty one there
        raise InvalidRequest("token must be text")
    if isinstance(paths, str):
        raise InvalidRequest("paths must be a list of paths, not one text")
    members: dict[str, Any] = {"action": "unlock_writes", "token": token}
    if expires_in_seconds is not None:
        members["expires_in_seconds"] = expires_in_seconds
    if paths is not None:
        members["paths"] = list(paths)
    try:
        return json.dumps(members).encode("ascii") + b"\n"
    except (TypeError, ValueError):
        raise InvalidRequest("token, expires_in_seconds or paths is not of its form") from None


def lock_line() -> bytes:
    """The line that locks writes."""
    return b'{"action": "lock_writes"}\n'


def check_answer(line: bytes) -> None:
    """Return if the broker said yes, else raise what it raised."""
    if not line.endswith(b"\n"):
        raise BrokerGone("the broker ended, or did not answer its admin in time")
    answer = json.loads(line)
    if not answer["ok"]:
        raise decode_error({"code": answer.get("code"), "message": answer.get("error")})
