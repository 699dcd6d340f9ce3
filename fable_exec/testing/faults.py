"""A file system that fails where it is told to: what Python code asks of `os` and `open` is counted, and one call goes wrong.

For code that says what it does when a disk is full or breaks. It stands between the code and the `os` module, not the kernel:
what was imported by name before (`from os import write`), and what goes past `os`, is not seen.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import TracebackType
from typing import Any

import attrs

__all__ = ["CHANGING", "READING", "Fault", "FaultyFiles", "each_fault"]

CHANGING = frozenset(
    "open write pwrite writev fsync fdatasync rename replace link symlink mkdir rmdir unlink remove truncate ftruncate"
    " chmod fchmod utime".split()
)
"""What is counted unless something else is asked for. `open` is `os.open` and the builtin, `write` also that of its files."""
READING = frozenset("read pread listdir scandir stat lstat fstat readlink access".split())
_CAN_BE_HALVED = ("write", "pwrite")


class FaultyFiles:
    """In a `with` block, calls of this thread are counted, and the one numbered `at` fails, or does half of its work.

    Args:
        at: which, from 0; None lets all of them through.
        error: the errno that it fails with, before it has done anything.
        halved: instead of that, a write takes the first half of its bytes, one at least, and says so. Others are let through.
        names: which functions are counted.

    Attributes:
        calls: the names of those that were made, in order.
    """

    def __init__(
        self, at: int | None = None, *, error: int = errno.ENOSPC, halved: bool = False, names: Iterable[str] = CHANGING
    ) -> None:
        self.calls: list[str] = []
        self._at, self._error, self._halved = at, error, halved
        self._names = frozenset(names)
        self._thread = 0
        self._replaced: list[tuple[Any, str, Any]] = []

    def __enter__(self) -> FaultyFiles:
        self._thread = threading.get_ident()
        try:
            for name in sorted(self._names):
                if hasattr(os, name):
                    self._replace(os, name, partial(self._call, name, getattr(os, name)))
            if "open" in self._names:
                opening = partial(self._open, builtins.open)
                self._replace(builtins, "open", opening)
                self._replace(io, "open", opening)
        except BaseException:
            self._restore()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._restore()

    def _replace(self, module: Any, name: str, function: Any) -> None:
        self._replaced.append((module, name, getattr(module, name)))
        setattr(module, name, function)

    def _restore(self) -> None:
        while self._replaced:
            module, name, function = self._replaced.pop()
            setattr(module, name, function)

    def _call(self, name: str, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        if threading.get_ident() != self._thread:
            return function(*arguments, **named)
        is_the_one = len(self.calls) == self._at
        self.calls.append(name)
        if not is_the_one:
            return function(*arguments, **named)
        if not self._halved:
            raise OSError(self._error, f"{os.strerror(self._error)} (call {self._at} of a test, {name})")
        if name in _CAN_BE_HALVED:
            arguments = tuple(_half(value) if _is_bytes(value) else value for value in arguments)
        return function(*arguments, **named)

    def _open(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        opened = self._call("open", function, *arguments, **named)
        return _CountedFile(opened, self) if threading.get_ident() == self._thread and "write" in self._names else opened

    def write(self, file: Any, data: Any) -> Any:
        """A write of a file that was opened within the block."""
        return self._call("write", file.write, data)


class _CountedFile:
    """A file whose writes are counted; everything else is the file's own."""

    def __init__(self, file: Any, faults: FaultyFiles) -> None:
        self._file, self._faults = file, faults

    def write(self, data: Any) -> Any:
        return self._faults.write(self._file, data)

    def writelines(self, lines: Iterable[Any]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> _CountedFile:
        self._file.__enter__()
        return self

    def __exit__(self, *details: Any) -> Any:
        return self._file.__exit__(*details)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._file)

    def __next__(self) -> Any:
        return next(self._file)


def _is_bytes(value: Any) -> bool:
    return isinstance(value, bytes | bytearray | memoryview | str)


def _half(data: Any) -> Any:
    return data[: max(1, len(data) // 2)]


@attrs.frozen
class Fault:
    """An act with one call gone wrong, afterwards.

    Args:
        number: which call it was, from 0.
        name: of what function.
        value: what the act returned; None where it raised.
        raised: what it raised; None where it did not.
    """

    number: int
    name: str
    value: Any
    raised: Exception | None


def each_fault(
    act: Callable[[], Any],
    *,
    before: Callable[[], Any] = lambda: None,
    error: int = errno.ENOSPC,
    halved: bool = False,
    names: Iterable[str] = CHANGING,
) -> Iterator[Fault]:
    """Run `act` again and again, each time with the next one of its calls going wrong, until one run has come through.

    Look after each at what is left. What is not an Exception goes on.

    Args:
        before: called before each run, to lay out what the act works on.
        error, halved, names: as FaultyFiles has them. With `halved` the runs that have nothing to halve are left out.
    """
    number = 0
    while True:
        before()
        value, raised = None, None
        with FaultyFiles(number, error=error, halved=halved, names=names) as faults:
            try:
                value = act()
            except Exception as wrong:
                raised = wrong
        if number >= len(faults.calls):
            return
        if not halved or faults.calls[number] in _CAN_BE_HALVED:
            yield Fault(number, faults.calls[number], value, raised)
        number += 1
