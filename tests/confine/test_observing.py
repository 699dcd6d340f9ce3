"""Observed plans refuse what unobserved ones refuse, with the same errno, whatever the observer is told and whatever it reads."""

from __future__ import annotations

import base64
import errno
import functools
from typing import Any, get_args

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fable_exec.confine import FileView, Plan, Support, bpf, compile_plan
from fable_exec.confine.filters import LAUNCHER_GROUP, LAUNCHER_KEY, LAUNCHER_PID
from fable_exec.confine.observing import observed
from fable_exec.confine.plan import LauncherMode
from fable_exec.confine.programs import Program, assemble, disassemble, simulate
from fable_exec.confine.seccomp import ALLOW, ARCHITECTURES, NOTIFY, Action, Rule, Verdict, notify
from fable_exec.outcome import Observed
from fable_exec.policy import Confinement

KEY = 0x0123456789ABCDEF
SUPPORT = Support(
    user_namespaces=0, root_namespaces=errno.EPERM, own_proc=0, own_pid_max=0, notify=0, landlock_abi=7, machine="x86_64"
)
MODES: tuple[LauncherMode, ...] = tuple(mode for mode in get_args(LauncherMode) if mode != "kept")  # nobody observes those
POLICIES = {
    "off": Confinement(),
    "ports": Confinement(network="ports", connect_ports=(443,)),
    "full": Confinement(network="full"),
    "reads": Confinement(observe="reads"),
}
CASES = [
    (mode, policy, writable, machine)
    for mode in MODES
    for policy in POLICIES
    for writable in (True, False)
    for machine in sorted(ARCHITECTURES)
]


def plan(mode: LauncherMode, policy: str, writable: bool, machine: str, **support: Any) -> Plan:
    view = FileView(workspace="/srv/work", writable=writable)
    found = attrs.evolve(SUPPORT, machine=machine, **support)
    assert mode != "kept"
    return compile_plan(mode, found, POLICIES[policy], view, insist=False)


def program_of(found: Plan) -> Program:
    wire = next(step[1] for step in found.launcher if step[0] == "load_filter")
    program = Program(
        ARCHITECTURES[wire["architecture"]],
        bpf.unpack(base64.b64decode(wire["program"])),
        tuple((index, bpf.Symbol(name, shift)) for index, name, shift in wire["symbols"]),
    )
    assert wire["observed"] is program.observed
    return program.bind({LAUNCHER_PID: 4711, LAUNCHER_GROUP: -4000, LAUNCHER_KEY: KEY})


@functools.cache
def pair(case: tuple[Any, ...]) -> tuple[Program, Program, Any]:
    """The observed program, the one without, what the observer is told."""
    return program_of(plan(*case)), program_of(plan(*case, notify=errno.ENOSYS)), plan(*case).observer


def both(case: tuple[Any, ...], number: int, arguments: tuple[int, ...]) -> tuple[Action, Action]:
    shown, silent, _ = pair(case)
    return simulate(shown, case[3], number, arguments), simulate(silent, case[3], number, arguments)


def assert_as_strict(case: tuple[Any, ...], number: int, arguments: tuple[int, ...]) -> None:
    """The observed program answers as the other; what it leaves to the observer the observer is told to answer so."""
    told = pair(case)[2]
    assert told is not None
    action, without = both(case, number, arguments)
    if action.verdict is not Verdict.NOTIFY:
        assert action == without
    elif action.errno:
        assert (without.verdict, without.errno) == (Verdict.ERRNO, action.errno)
        assert told["refused"][str(number)][0] == action.errno
        assert str(number) not in told["watched"]
    else:
        assert without == ALLOW
        assert str(number) in told["watched"]
        assert str(number) not in told["refused"]


INTERESTING = [0, 1, 2, 3, 5, 10, 16, 17, 0x40, 0x41, 0x200, 0x241, 0x200000, 0x200001, 0x20000000, 0x10000000, 0x7E020011]
INTERESTING += [KEY, 4711, 2**32 - 1, 2**64 - 1, 0x5412, 0x80801, 0x80001, 1 << 33]
ARGUMENTS = st.tuples(*[st.one_of(st.sampled_from(INTERESTING), st.integers(0, 2**64 - 1))] * 6)


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
def test_every_call_is_answered_as_without_an_observer(case: tuple[Any, ...]) -> None:
    numbers = [*ARCHITECTURES[case[3]].numbers.values(), ARCHITECTURES[case[3]].newest + 1, 2**30, 2**30 + 1, 2**32 - 1]
    for number in numbers:
        for arguments in (
            (0,) * 6,
            (1,) * 6,
            (2, 1, 0, 0, 4096, 16),
            (1, 1, 0),
            (16, 3, 9),
            (0, 0, 0x241),
            (0, 0x241),
            (4711,) * 6,
        ):
            assert_as_strict(case, number, arguments)
        assert_as_strict(case, number, (0, 0, 0, 0, KEY, 0))


@given(case=st.sampled_from(CASES), data=st.data(), arguments=ARGUMENTS)
def test_whatever_the_arguments_are(case: tuple[Any, ...], data: st.DataObject, arguments: tuple[int, ...]) -> None:
    number = data.draw(st.one_of(st.sampled_from(sorted(ARCHITECTURES[case[3]].numbers.values())), st.integers(0, 2**32 - 1)))
    assert_as_strict(case, number, arguments)


def answer(mode: LauncherMode, policy: str, call: str, *arguments: int, writable: bool = True) -> Action:
    return both((mode, policy, writable, "x86_64"), ARCHITECTURES["x86_64"].numbers[call], arguments)[0]


MSG_NOSIGNAL, MSG_DONTWAIT = 0x4000, 0x40
O_WRONLY, O_RDWR, O_CREAT, O_TRUNC, O_CLOEXEC, O_PATH, O_DIRECTORY = 1, 2, 0x40, 0x200, 0x80000, 0x200000, 0x10000


@pytest.mark.parametrize("mode", MODES)
def test_opens_are_shown_that_may_change_something_and_with_reads_all_but_handles(mode: LauncherMode) -> None:
    for flags in (O_WRONLY, O_RDWR, O_CREAT, O_TRUNC, O_RDWR | O_CLOEXEC):
        assert answer(mode, "off", "open", 4096, flags) == NOTIFY
        assert answer(mode, "off", "openat", 0, 4096, flags) == NOTIFY
        assert answer(mode, "reads", "openat", 0, 4096, flags) == NOTIFY
    for flags in (0, O_CLOEXEC, 0x800):
        assert answer(mode, "off", "openat", 0, 4096, flags) == ALLOW
        assert answer(mode, "reads", "openat", 0, 4096, flags) == NOTIFY
    assert answer(mode, "reads", "openat", 0, 4096, O_DIRECTORY | O_CLOEXEC) == ALLOW
    for policy in ("off", "reads"):
        assert answer(mode, policy, "openat", 0, 4096, O_PATH | O_CLOEXEC) == ALLOW


@pytest.mark.parametrize("mode", MODES)
def test_the_launchers_own_calls_are_never_shown(mode: LauncherMode) -> None:
    """It must not wait for the observer: deadlines are its affair."""
    assert answer(mode, "off", "openat2", 0, 4096, 4096, 24, KEY) == ALLOW
    assert answer(mode, "off", "openat", 0, 4096, O_PATH | O_CLOEXEC) == ALLOW
    assert answer(mode, "ports", "sendmsg", 5, 4096, MSG_NOSIGNAL) == ALLOW
    assert answer(mode, "off", "sendmsg", 5, 4096, MSG_NOSIGNAL | MSG_DONTWAIT) == ALLOW
    for status in (0, 127):  # success, and what posix_spawn's child ends with
        assert answer(mode, "off", "exit_group", status) == ALLOW
    for call in (
        "recvmsg",
        "kill",
        "wait4",
        "poll",
        "ppoll",
        "execve",
        "vfork",
        "memfd_create",
        "close",
        "dup2",
        "fchdir",
    ):
        assert answer(mode, "off", call, 5, 9, 1, 0, 0) == ALLOW
    if mode != "plain":
        for call in ("setns", "unshare"):
            assert answer(mode, "off", call, 5, 0x20000000, 0, 0, KEY) == ALLOW
            assert answer(mode, "off", call, 0x20000000, 0x20000000, 0, 0, KEY + 1) == notify(errno.EPERM)


def test_addresses_are_shown_where_they_may_be_out_of_reach() -> None:
    for mode in ("slots", "namespace"):
        for policy in ("off", "ports", "full"):
            assert answer(mode, policy, "connect", 3, 4096, 16) == NOTIFY  # sockets with a path, at least
            assert answer(mode, policy, "sendto", 3, 4096, 1, 0, 4096, 16) == NOTIFY
            assert answer(mode, policy, "sendto", 3, 4096, 1, 0, 0, 0) == ALLOW
            assert answer(mode, policy, "sendmsg", 3, 4096, 0) == answer(mode, policy, "sendmmsg", 3, 4096, 1, 0) == NOTIFY
    for call in ("connect", "sendmsg", "sendmmsg"):  # there no socket can be made that might reach anybody
        assert answer("plain", "off", call, 3, 4096, 0) == ALLOW
    assert answer("plain", "ports", "connect", 3, 4096, 16) == NOTIFY
    assert answer("plain", "off", "socket", 2, 1, 0) == answer("plain", "off", "socket", 1, 1, 0) == notify(errno.EACCES)
    assert answer("plain", "off", "socket", 17, 3, 0) == Action(Verdict.ERRNO, errno.EAFNOSUPPORT)


def test_failures_are_shown_where_sockets_are_refused_that_programs_do_without() -> None:
    for mode in MODES:
        for policy in ("off", "ports", "full"):
            shown = mode == "plain" or policy == "ports"
            assert (
                answer(mode, policy, "exit_group", 1) == answer(mode, policy, "exit_group", 0x1FF) == (NOTIFY if shown else ALLOW)
            )
            assert answer(mode, policy, "exit_group", 0x100) == ALLOW  # the kernel takes the low byte


def test_metadata_is_shown_where_mounts_decide_and_refused_where_the_filter_does() -> None:
    for call in ("chmod", "fchmod", "fchmodat", "utimensat", "setxattr", "lchown"):
        assert answer("slots", "off", call) == NOTIFY
        assert answer("plain", "off", call) == ALLOW
        assert answer("plain", "off", call, writable=False) == notify(errno.EPERM)


def test_what_programs_try_and_do_without_is_answered_by_the_filter() -> None:
    for mode in MODES:
        for call in ("clone3", "io_uring_setup", "keyctl", "userfaultfd", "fsopen", "name_to_handle_at"):
            assert answer(mode, "off", call).verdict is Verdict.ERRNO


@pytest.mark.parametrize(
    ("mode", "confinement", "support"),
    [
        ("slots", Confinement(observe="off"), {}),
        ("slots", Confinement(), {"notify": errno.EBUSY}),
        ("slots", Confinement.off(), {}),
        ("namespace", Confinement(), {"own_proc": errno.EPERM}),
    ],
)
def test_without_an_observer_nothing_is_shown_and_the_plan_says_so(
    mode: LauncherMode, confinement: Confinement, support: dict[str, Any]
) -> None:
    assert mode != "kept"
    found = compile_plan(mode, attrs.evolve(SUPPORT, **support), confinement, FileView(workspace="/srv/work", writable=True))
    assert (found.observer, found.observed) == (None, Observed.OFF)
    assert "observer:" not in found.explain()
    filters = [step[1] for step in found.launcher if step[0] == "load_filter"]
    assert [each["observed"] for each in filters] == [False] * len(filters)


def test_a_call_that_would_be_both_refused_and_let_go_on_is_a_fault() -> None:
    rule = Rule(("mkdir",), Action(Verdict.ERRNO, errno.EPERM), (), "", "host_writes")
    with pytest.raises(ValueError, match="mkdir"):
        observed((rule,), "slots", Confinement())


def test_programs_name_what_is_shown() -> None:
    program = assemble((Rule(("mkdir",), NOTIFY), Rule(("mount",), notify(errno.EPERM))), "x86_64")
    text = disassemble(program)
    assert "return notify\n" in text and "return notify EPERM\n" in text
    assert Action.from_code(notify(errno.EPERM).code) == notify(errno.EPERM)
    assert program.observed and not assemble((Rule(("mount",), Action(Verdict.ERRNO, 1)),), "x86_64").observed
