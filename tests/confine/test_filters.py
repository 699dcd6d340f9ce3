"""The filter sets as rules: what they say on both machines, and the programs they become, line by line."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fable_exec.confine import filters
from fable_exec.confine.landlock import RIGHTS
from fable_exec.confine.programs import Program, assemble, disassemble, simulate
from fable_exec.confine.seccomp import ALLOW, ARCHITECTURES, Action, Rule, deny

GOLDEN = Path(__file__).parent / "golden"
SETS: dict[str, tuple[Rule, ...]] = {
    "strict": filters.strict(),
    "strict-tcp": filters.strict(inet="tcp"),
    "strict-full": filters.strict(inet="full"),
    "strict-init": filters.strict(has_init=True),
    "plain": filters.plain(),
    "plain-metadata": filters.plain(metadata="deny"),
}
LAUNCHER, GROUP, KEY = 4711, 4000, 0x0123456789ABCDEF
BINDING = {filters.LAUNCHER_PID: LAUNCHER, filters.LAUNCHER_GROUP: -GROUP, filters.LAUNCHER_KEY: KEY}
EVERY = [(name, architecture) for name in SETS for architecture in sorted(ARCHITECTURES)]


def program(name: str, architecture: str) -> Program:
    return assemble(SETS[name], architecture).bind(BINDING)


def answer(name: str, architecture: str, call: str, *arguments: int) -> Action:
    number = ARCHITECTURES[architecture].numbers[call]
    return simulate(program(name, architecture), architecture, number, arguments)  # type: ignore[arg-type]  # one of the two


@pytest.mark.parametrize(("name", "architecture"), EVERY)
def test_the_programs_are_the_committed_ones(name: str, architecture: str) -> None:
    """A change of a filter is seen in review. FABLE_EXEC_WRITE_GOLDEN=1 writes the files anew."""
    text = disassemble(assemble(SETS[name], architecture))
    file = GOLDEN / f"{name}.{architecture}.txt"
    if os.environ.get("FABLE_EXEC_WRITE_GOLDEN"):
        file.write_text(text)
    assert file.read_text() == text


REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "confinement-filters.md"


def filter_tables() -> str:
    """The rules as the reference page shows them."""
    lines = []
    for title, rules in filters.SECTIONS.items():
        lines += [f"### {title}", ""]
        if not rules:
            lines += ["No rule of its own.", ""]
            continue
        lines += ["| calls | when | answer | why |", "|---|---|---|---|"]
        for rule in rules:
            calls = " ".join(f"`{call}`" for call in rule.calls)
            when = " and ".join(f"`{condition}`" for condition in rule.when) or "always"
            lines.append(f"| {calls} | {when} | {rule.action} | {rule.why} |")
        lines.append("")
    return "\n".join(lines)


def landlock_table() -> str:
    lines = ["| ABI | right | of | on a kernel without it |", "|---|---|---|---|"]
    for right in sorted(RIGHTS, key=lambda each: each.abi):
        note = "" if right.weaker else " (no loss of protection)"
        lines.append(f"| {right.abi} | `{right.name}` | {right.kind} | {right.without}{note} |")
    return "\n".join([*lines, ""])


@pytest.mark.parametrize(
    ("name", "table"), [("filters", filter_tables()), ("landlock", landlock_table())], ids=["filters", "landlock"]
)
def test_the_reference_page_shows_the_tables_as_they_are(name: str, table: str) -> None:
    """FABLE_EXEC_WRITE_GOLDEN=1 writes them anew."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    before, _, rest = REFERENCE.read_text().partition(begin)
    shown, _, after = rest.partition(end)
    if os.environ.get("FABLE_EXEC_WRITE_GOLDEN"):
        REFERENCE.write_text(f"{before}{begin}\n{table}\n{end}{after}")
        return
    assert shown.strip() == table.strip()


SENDING_AND_RECEIVING = (
    "sendto", "sendmsg", "sendmmsg", "recvfrom", "recvmsg", "recvmmsg", "read", "write", "connect", "bind", "listen", "accept",
    "accept4", "shutdown", "getsockname", "getpeername", "setsockopt", "getsockopt", "sendfile", "splice",
)  # fmt: skip


@pytest.mark.parametrize(("name", "architecture"), EVERY)
@pytest.mark.parametrize("call", SENDING_AND_RECEIVING)
def test_a_socket_that_exists_may_be_used(name: str, architecture: str, call: str) -> None:
    for flags in (0, 0x40, 0x4000, 0x40 | 0x4000):  # MSG_DONTWAIT, MSG_NOSIGNAL
        assert answer(name, architecture, call, 5, 4096, 1, flags, 0, 0) == ALLOW
        assert answer(name, architecture, call, 5, 4096, flags, 0, 0, 0) == ALLOW


ORDINARY = (
    "execve", "execveat", "clone", "openat", "mmap", "mprotect", "futex", "wait4", "waitid", "pipe2", "dup3", "fcntl", "ioctl",
    "epoll_create1", "eventfd2", "signalfd4", "timerfd_create", "inotify_init1", "memfd_create", "membarrier", "rseq", "mseal",
    "set_robust_list", "prctl", "seccomp", "landlock_create_ruleset", "landlock_restrict_self", "renameat2", "statx",
    "copy_file_range", "getrandom", "close_range", "sched_yield", "sched_getaffinity", "set_mempolicy", "mbind",
    "process_madvise", "flock", "fallocate", "fsync", "setsid", "setpgid", "kill", "tgkill", "rt_sigaction", "prlimit64",
    "getpriority", "setpriority", "unshare", "personality",
)  # fmt: skip


@pytest.mark.parametrize(("name", "architecture"), EVERY)
def test_what_programs_need_is_allowed(name: str, architecture: str) -> None:
    refused = [call for call in ORDINARY if answer(name, architecture, call) != ALLOW]
    assert refused == []


def test_both_machines_refuse_the_same_calls() -> None:
    for name in SETS:
        common = set(ARCHITECTURES["x86_64"].numbers) & set(ARCHITECTURES["aarch64"].numbers)
        for arguments in ((0,) * 6, (1,) * 6, (2, 1, 0), (16, 3, 9), (LAUNCHER,) * 6, (0, 0x5412), (0x7E020011,), (0x400000,)):
            different = [
                call
                for call in common
                if answer_of(name, "x86_64", call, arguments) != answer_of(name, "aarch64", call, arguments)
            ]
            assert different == []


_programs = {(name, architecture): program(name, architecture) for name, architecture in EVERY}


def answer_of(name: str, architecture: str, call: str, arguments: tuple[int, ...]) -> Action:
    number = ARCHITECTURES[architecture].numbers[call]
    return simulate(_programs[name, architecture], architecture, number, arguments)  # type: ignore[arg-type]  # one of the two


def signals() -> Iterator[tuple[str, tuple[int, ...], bool]]:
    """(call, arguments, refused) in plain mode."""
    minus_group = 2**32 - GROUP
    for target, refused in ((LAUNCHER, True), (2**64 - 1, True), (2**32 - 1, True), (minus_group, True)):
        yield "kill", (target, 9), refused
    yield "kill", (LAUNCHER | (7 << 32), 9), True  # the high half means nothing to the kernel
    for target in (0, LAUNCHER + 1, LAUNCHER - 1, 2**32 - GROUP - 1, 2**32 - LAUNCHER, 1):
        yield "kill", (target, 9), False
    for call in ("tkill", "rt_sigqueueinfo", "pidfd_open"):
        yield call, (LAUNCHER, 9), True
        yield call, (LAUNCHER + 1, 9), False
    for call in ("tgkill", "rt_tgsigqueueinfo"):
        yield call, (LAUNCHER, 5, 9), True
        yield call, (5, LAUNCHER, 9), True
        yield call, (5, 5, 9), False


@pytest.mark.parametrize(("call", "arguments", "refused"), list(signals()))
@pytest.mark.parametrize("architecture", sorted(ARCHITECTURES))
def test_in_plain_mode_the_launcher_is_out_of_reach_and_nobody_else(
    architecture: str, call: str, arguments: tuple[int, ...], refused: bool
) -> None:
    assert answer("plain", architecture, call, *arguments) == (deny(errno.EPERM) if refused else ALLOW)
    assert answer("strict", architecture, call, *arguments) == ALLOW


def calls_on_the_init() -> Iterator[tuple[str, tuple[int, ...], bool]]:
    """(call, arguments, refused) where process 1 is an init of ours."""
    for number, refused in ((1, True), (1 | (7 << 32), True), (0, False), (2, False), (4711, False)):
        for call in ("prlimit64", "sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr"):
            yield call, (number, 7), refused
        yield "setpriority", (0, number), refused
        yield "setpriority", (1, number), False  # groups: the init's has no number in there
        yield "ioprio_set", (1, number), refused
        yield "ioprio_set", (2, number), False
    yield "setpriority", (2, 0), True
    yield "ioprio_set", (3, 0), True


@pytest.mark.parametrize(("call", "arguments", "refused"), list(calls_on_the_init()))
@pytest.mark.parametrize("architecture", sorted(ARCHITECTURES))
def test_an_init_keeps_its_limits_and_its_share_of_the_processors(
    architecture: str, call: str, arguments: tuple[int, ...], refused: bool
) -> None:
    assert answer("strict-init", architecture, call, *arguments) == (deny(errno.EPERM) if refused else ALLOW)
    assert answer("strict", architecture, call, *arguments) == ALLOW


@pytest.mark.parametrize("architecture", sorted(ARCHITECTURES))
def test_only_the_launchers_key_opens_setns_and_unshare(architecture: str) -> None:
    for call in ("setns", "unshare"):
        assert answer("strict", architecture, call, 0x20000000, 0, 0, 0, KEY) == ALLOW
        for wrong in (0, KEY ^ 1, KEY ^ (1 << 63), KEY & 0xFFFFFFFF, KEY >> 32):
            assert answer("strict", architecture, call, 0x20000000, 0, 0, 0, wrong) == deny(errno.EPERM)
        assert answer("plain", architecture, call, 0x20000000, 0, 0, 0, KEY) == deny(errno.EPERM)


@pytest.mark.parametrize(("name", "architecture"), EVERY)
def test_no_file_is_made_that_acts_as_its_owner_for_whoever_runs_it(name: str, architecture: str) -> None:
    """Directories may have the group's bit, which files can get by chmod(2) alone: who asks cannot be told apart there."""
    calls, created = ARCHITECTURES[architecture].numbers, 0x40
    of_the_user, others = (0o4755, 0o6755, 0o4755 | 7 << 32), (0o2755, 0o1777, 0o755)
    for bits, refused in (*((each, True) for each in of_the_user), *((each, False) for each in others)):
        changed = {
            "chmod": (4096, bits), "fchmod": (3, bits), "fchmodat": (3, 4096, bits), "fchmodat2": (3, 4096, bits, 0),
        }  # fmt: skip
        made = {
            "creat": (4096, bits), "mknod": (4096, bits), "mknodat": (3, 4096, bits), "open": (4096, created, bits),
            "openat": (3, 4096, created, bits), "openat ": (3, 4096, 0x410000, bits),
        }  # fmt: skip
        for call, arguments in {**changed, **made}.items():
            if (call := call.strip()) in calls and not (name.endswith("metadata") and "chmod" in call):
                was_refused = refused or (call not in changed and bool(bits & 0o2000))
                assert (answer(name, architecture, call, *arguments) == deny(errno.EPERM)) == was_refused, (call, oct(bits))
        for flags in (0, 1, 0x200, 0x80000, 0x10000):  # without O_CREAT the argument of the mode is whatever was there
            assert answer(name, architecture, "openat", 3, 4096, flags, bits) == ALLOW
    assert answer(name, architecture, "openat2", 3, 4096, 4096, 24, 0) == deny(errno.ENOSYS)
    assert answer(name, architecture, "openat2", 3, 4096, 4096, 24, KEY) == ALLOW


def test_no_rule_has_to_guess_the_bytes_behind_a_pointer() -> None:
    """A filter sees addresses, never what is there; conditions are only on numbers."""
    paths_first = {"open", "creat", "chmod", "mknod", "execve", "clone3", "mount"}
    pointers = {*((call, 0) for call in paths_first), ("openat", 1), ("fchmodat", 1), ("fchmodat2", 1), ("mknodat", 1)}
    pointers |= {("openat2", 1), ("openat2", 2), ("connect", 1), ("bind", 1)}
    conditional = {
        (call, condition.argument)
        for rules in SETS.values() for rule in rules for condition in rule.when for call in rule.calls
    }  # fmt: skip
    assert conditional.isdisjoint(pointers)
