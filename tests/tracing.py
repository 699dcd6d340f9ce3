"""Children that are stopped at each of their system calls (ptrace(2)): killed there, or told something else than the kernel did.

For programs of one thread that a test starts for it. What is traced is an act without arguments; `prepare` makes it, untraced, in
the child. On other machines than x86-64 answers are changed only where the kernel has PTRACE_SET_SYSCALL_INFO (6.16).
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import signal
import struct
from collections.abc import Callable, Iterator
from typing import Any

import attrs

from fable_exec.confine import syscalls_aarch64, syscalls_x86_64

Act = Callable[[], Any]
Prepare = Callable[[], Act]

_TRACEME, _POKEUSER, _CONT, _SYSCALL = 0, 6, 7, 24
_SETOPTIONS, _GET_SYSCALL_INFO, _SET_SYSCALL_INFO = 0x4200, 0x420E, 0x4212
_OPTIONS = 0x1 | 0x100000  # TRACESYSGOOD: system-call stops are told from signals; EXITKILL: nothing outlives the tracer
_SYSTEM_CALL_STOP = signal.SIGTRAP | 0x80
_ENTRY = 1
_INFO = struct.Struct("=B3xIQQ7Q")  # op, arch, ip, sp, then number and six arguments at the entry
_NO_CALL = 0xFFFF_FFFF_FFFF_FFFF
_X86_ORIG_RAX, _X86_RAX, _X86_RDX = 15 * 8, 10 * 8, 12 * 8
MOST_STOPS = 400_000

_machine = platform.machine()
_NAMES = {number: name for name, number in (syscalls_x86_64 if _machine == "x86_64" else syscalls_aarch64).NUMBERS.items()}

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
_libc.ptrace.restype = ctypes.c_long


@attrs.frozen
class Call:
    """One system call of an act: its number among those that are looked at, from 0, and its name."""

    index: int
    name: str


@attrs.frozen
class Alteration:
    """What becomes of a call. With `error` it is not made (close(2) is: it always frees) and fails; `halved` writes a half."""

    error: int = 0
    halved: bool = False


@attrs.frozen
class Told:
    """What an act did: `value` that it returned, or the kind and errno of what it raised; descriptors it left open; its calls."""

    value: Any
    raised: str
    number: int
    left_open: int
    calls: tuple[Call, ...]


def killed_at(stop: int, prepare: Prepare, at_the_stop: Act = lambda: None) -> bool:
    """Kill an act at its n-th stop, from 1; every call has two, before and after. False when it was over sooner.

    `at_the_stop` is called while the child stands still there, or when it is over.
    """
    pid, reading = _start(prepare)
    os.close(reading)
    for number, _ in enumerate(_stops(pid), 1):
        if number == stop:
            at_the_stop()
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return True
    at_the_stop()
    _let_go(pid)
    return False


def told_with(
    prepare: Prepare, looked_at: frozenset[str], alterations: dict[int, Alteration], at_the_end: Act = lambda: None
) -> Told:
    """Run an act with some of its calls altered, by their number among those of the names `looked_at`.

    The others, such as the allocator's, come and go from run to run. `at_the_end` is called while the child still lives.
    """
    pid, reading = _start(prepare)
    calls: list[Call] = []
    altered: Alteration | None = None
    for is_entry, name in _stops(pid):
        if name not in looked_at:
            continue
        if is_entry:
            altered = alterations.get(len(calls))
            calls.append(Call(len(calls), name))
            if altered is not None and altered.halved:
                _set_third_argument(pid, lambda size: max(1, size // 2))
            elif altered is not None and name != "close":
                _skip(pid)
        elif altered is not None and altered.error:
            _answer(pid, -altered.error)
    at_the_end()
    _let_go(pid)
    with os.fdopen(reading, "rb") as answers:
        return Told(**json.loads(answers.read()), calls=tuple(calls))


def _start(prepare: Prepare) -> tuple[int, int]:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reading)
            _perform(prepare(), writing)
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(pid, 0)
    _trace(_SETOPTIONS, pid, _OPTIONS)
    return pid, reading


def _perform(act: Act, writing: int) -> None:
    before = len(os.listdir("/proc/self/fd"))
    value, raised, number = None, "", 0
    _trace(_TRACEME, 0)
    os.kill(os.getpid(), signal.SIGSTOP)
    try:
        value = act()
    except Exception as error:
        raised, number = type(error).__name__, getattr(error, "errno", None) or 0
    os.kill(os.getpid(), signal.SIGSTOP)
    left = len(os.listdir("/proc/self/fd")) - before
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    os.write(writing, json.dumps({"value": value, "raised": raised, "number": number, "left_open": left}).encode())


def _stops(pid: int) -> Iterator[tuple[bool, str]]:
    """Each stop of the act at a system call: whether it is before the call, and the call's name. The last kill(2) is left out."""
    name = ""
    for _ in range(MOST_STOPS):
        _trace(_SYSCALL, pid)
        _, status = os.waitpid(pid, 0)
        if not os.WIFSTOPPED(status) or os.WSTOPSIG(status) == signal.SIGSTOP:
            return
        if os.WSTOPSIG(status) == _SYSTEM_CALL_STOP:
            op, *_, number = _INFO.unpack(_info(pid))[:5]
            if op == _ENTRY:
                name = _NAMES.get(number, str(number))
            if name != "kill":
                yield op == _ENTRY, name
    raise RuntimeError("the act does not end")


def _let_go(pid: int) -> None:
    _trace(_CONT, pid)
    while os.WIFSTOPPED(os.waitpid(pid, 0)[1]):  # by a signal, such as that of a child's end
        _trace(_CONT, pid)


def _skip(pid: int) -> None:
    if _machine == "x86_64":
        _poke(pid, _X86_ORIG_RAX, _NO_CALL)
    else:
        _change_entry(pid, lambda fields: fields.__setitem__(4, _NO_CALL))


def _set_third_argument(pid: int, change: Callable[[int], int]) -> None:
    fields = _INFO.unpack(_info(pid))
    if _machine == "x86_64":
        _poke(pid, _X86_RDX, change(fields[7]))
    else:
        _change_entry(pid, lambda found: found.__setitem__(7, change(fields[7])))


def _answer(pid: int, result: int) -> None:
    if _machine == "x86_64":
        _poke(pid, _X86_RAX, result & _NO_CALL)
        return
    info = bytearray(_info(pid))
    struct.pack_into("=qB", info, 24, result, 1)
    _set_info(pid, bytes(info))


def _change_entry(pid: int, change: Callable[[list[int]], None]) -> None:
    fields = list(_INFO.unpack(_info(pid)))
    change(fields)
    _set_info(pid, _INFO.pack(*fields))


def _info(pid: int) -> bytes:
    buffer = ctypes.create_string_buffer(_INFO.size + 8)
    _trace(_GET_SYSCALL_INFO, pid, ctypes.addressof(buffer), address=len(buffer))
    return buffer.raw[: _INFO.size]


def _set_info(pid: int, info: bytes) -> None:
    buffer = ctypes.create_string_buffer(info + bytes(8), _INFO.size + 8)
    _trace(_SET_SYSCALL_INFO, pid, ctypes.addressof(buffer), address=len(buffer))


def _poke(pid: int, offset: int, value: int) -> None:
    _trace(_POKEUSER, pid, value, address=offset)


def _trace(request: int, pid: int, data: int = 0, *, address: int = 0) -> None:
    if _libc.ptrace(request, pid, address, data) == -1:
        raise OSError(ctypes.get_errno() or errno.EIO, "ptrace")
