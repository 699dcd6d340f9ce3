"""Answers as lines. Whatever goes wrong while one is encoded, a line comes out."""

from __future__ import annotations

import json

from fable_exec.errors import BrokerGone
from fable_exec.frames import encode_frame
from fable_exec.protocol import ProbeResult, Result, encode_answer, encode_error, encode_result
from fable_exec.server.session import Task

__all__ = ["AnswerLines", "error_line"]


class AnswerLines:
    """Encodes results. The last answer to a probe is kept: hosts ask again and again, and nothing has changed. Thread-safe."""

    def __init__(self, max_answer_bytes: int) -> None:
        self._max_answer_bytes = max_answer_bytes
        self._probe: tuple[ProbeResult, bytes] | None = None

    def answer(self, task: Task, result: Result) -> bytes:
        """The line that answers `task` with `result`, or with the error that encoding it was."""
        try:
            if isinstance(result, ProbeResult):
                return _with_id(task.id, self._probe_line(result))
            members = encode_result(result, task.request, max_answer_bytes=self._max_answer_bytes)
            return encode_frame(encode_answer(members, task.id))
        except Exception as error:
            return error_line(task, error)

    def _probe_line(self, result: ProbeResult) -> bytes:
        kept = self._probe
        if kept is None or kept[0] is not result:
            line = encode_frame(encode_answer(encode_result(result, max_answer_bytes=self._max_answer_bytes)))
            kept = self._probe = result, line
        return kept[1]


def _with_id(identifier: str | int | None, line: bytes) -> bytes:
    if identifier is None:
        return line
    written = b"%d" % identifier if isinstance(identifier, int) else json.dumps(identifier).encode("ascii")
    return b'{"id":' + written + b"," + line[1:]


def error_line(task: Task, error: BaseException | None) -> bytes:
    """The line that answers `task` with `error`."""
    return encode_frame(encode_error(error or BrokerGone("the broker ends"), task.action, task.id))
