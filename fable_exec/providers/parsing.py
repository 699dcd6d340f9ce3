"""What a provider's answer means: a status and some bytes to one of three words. Pure; nothing of the bytes comes out."""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import Enum
from typing import Any

__all__ = ["Finding", "Parser", "claude_auth", "claude_readiness", "exit_status"]


class Finding(Enum):
    """What an answer says."""

    READY = "ready"
    NOT_READY = "not ready"
    INVALID = "invalid"


Parser = Callable[[int, bytes], Finding]
"""From the exit status (negative: a signal) and standard output. What it raises counts as INVALID, and is dropped."""


def exit_status(status: int, output: bytes) -> Finding:
    """Ready when it exited with 0."""
    return Finding.READY if status == 0 else Finding.NOT_READY


def claude_auth(status: int, output: bytes) -> Finding:
    """`claude auth status`: a JSON object with `loggedIn` true, and exit status 0. The object is read first."""
    answer = _object(output)
    if answer is None or not isinstance(answer.get("loggedIn"), bool):
        return Finding.INVALID
    return Finding.READY if answer["loggedIn"] and status == 0 else Finding.NOT_READY


def claude_readiness(status: int, output: bytes) -> Finding:
    """`claude --print --output-format json`: `is_error` false, `result` the word OK, and exit status 0."""
    answer = _object(output)
    if answer is None or not isinstance(answer.get("result"), str):
        return Finding.INVALID
    said_so = answer.get("is_error") is False and answer["result"].strip().removesuffix(".") == "OK"
    return Finding.READY if said_so and status == 0 else Finding.NOT_READY


def _object(output: bytes) -> dict[str, Any] | None:
    try:
        answer = json.loads(output)
    except (ValueError, RecursionError):  # the error holds the text that it is about: it goes no further than here
        return None
    return answer if isinstance(answer, dict) else None
