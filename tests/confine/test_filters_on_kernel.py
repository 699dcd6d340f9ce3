"""The filters, loaded: every refusal is tried by a real process, and would have been answered otherwise without the filter."""

from __future__ import annotations

import errno
import json
import platform
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fable_exec.confine import filters
from fable_exec.confine.programs import assemble
from fable_exec.confine.seccomp import ARCHITECTURES, Condition, Rule, deny
from tests.confine.entering import NO_NEW_PRIVILEGES, NUMBERS, PROJECT, enter, filter_step, filtered, system_calls

pytestmark = [
    pytest.mark.requires_ability("linux"),
    pytest.mark.skipif(platform.machine() not in ARCHITECTURES, reason="no table for this machine"),
]

Call = tuple[int | str, ...]
PERM, ACCES, NOSYS = errno.EPERM, errno.EACCES, errno.ENOSYS
BAD = 1  # an address that nothing is at
NS_PID, NS_USER, NS_TIME = 0x20000000, 0x10000000, 0x80
GARBAGE_HIGH = 0xDEADBEEF << 32  # the kernel looks at the low half of an int

# Every call is harmless if it were allowed: wrong magic numbers, bad addresses, signal 0.
REFUSED_ALWAYS: list[tuple[Call, int]] = [
    (("io_uring_setup", 1, BAD), NOSYS),
    (("io_uring_enter", 2**32 - 1, 0, 0, 0), NOSYS),
    (("io_uring_register", 2**32 - 1, 0, 0, 0), NOSYS),
    (("clone3", BAD, 88), NOSYS),
    (("clone", NS_USER), PERM),
    (("clone", NS_PID | 17), PERM),
    (("clone", NS_PID | 17 | GARBAGE_HIGH), PERM),
    (("unshare", NS_USER), PERM),
    (("unshare", NS_TIME), PERM),
    (("unshare", 0x02000000), PERM),
    (("setns", 2**32 - 1, 0), PERM),
    (("setns", 2**32 - 1, 0, 0, 0, 12345), PERM),
    (("bpf", 99, 0, 0), PERM),
    (("keyctl", 0, 0, 0), NOSYS),
    (("add_key", BAD, BAD, 0, 0), NOSYS),
    (("request_key", BAD, BAD, 0, 0), NOSYS),
    (("userfaultfd", 2**31), NOSYS),
    (("perf_event_open", BAD, 0, -1, -1, 0), ACCES),
    (("mount", BAD, BAD, BAD, 0, 0), PERM),
    (("umount2", BAD, 0), PERM),
    (("pivot_root", BAD, BAD), PERM),
    (("chroot", BAD), PERM),
    (("open_tree", -1, BAD, 0), NOSYS),
    (("open_tree_attr", -1, BAD, 0, 0, 0), NOSYS),
    (("move_mount", -1, BAD, -1, BAD, 0), NOSYS),
    (("fsopen", BAD, 0), NOSYS),
    (("fsconfig", -1, 99, 0, 0, 0), NOSYS),
    (("fsmount", -1, 0, 0), NOSYS),
    (("fspick", -1, BAD, 0), NOSYS),
    (("mount_setattr", -1, BAD, 0, BAD, 32), NOSYS),
    (("init_module", BAD, 8, BAD), PERM),
    (("finit_module", -1, BAD, 0), PERM),
    (("delete_module", BAD, 0), PERM),
    (("kexec_load", 0, 99, BAD, 0), PERM),
    (("kexec_file_load", -1, -1, 0, 0, 99), PERM),
    (("reboot", 0, 0, 0, 0), PERM),
    (("swapon", BAD, 0), PERM),
    (("swapoff", BAD), PERM),
    (("acct", BAD), PERM),
    (("syslog", 99, 0, 0), PERM),
    (("quotactl", 2**32 - 1, 0, 0, 0), PERM),
    (("quotactl_fd", -1, 0, 0, 0), PERM),
    (("settimeofday", BAD, 0), PERM),
    (("clock_settime", 99, BAD), PERM),
    (("adjtimex", BAD), PERM),
    (("clock_adjtime", 99, BAD), PERM),
    (("sethostname", BAD, 4), PERM),
    (("setdomainname", BAD, 4), PERM),
    (("open_by_handle_at", -1, BAD, 0), PERM),
    (("name_to_handle_at", -100, BAD, BAD, BAD, 0), errno.EOPNOTSUPP),
    (("lookup_dcookie", 1, BAD, 8), NOSYS),
    (("personality", 0x0400000), PERM),  # READ_IMPLIES_EXEC
    (("personality", 0x0100000), PERM),  # MMAP_PAGE_ZERO
    (("personality", 0x0006), PERM),  # another execution domain
    (("ioctl", 0, 0x5412, BAD), PERM),
    (("ioctl", 0, 0x5412 | GARBAGE_HIGH, BAD), PERM),  # CVE-2019-10063: the filter compared 64 bits
    (("ioctl", 0, 0x541C | (1 << 32), BAD), PERM),
    (("fchmod", -1, 0o4755), PERM),
    (("fchmod", -1, 0o4755 | GARBAGE_HIGH), PERM),
    (("fchmodat", -1, BAD, 0o6755), PERM),
    (("fchmodat2", -1, BAD, 0o4755, 0), PERM),
    (("mknodat", -1, BAD, 0o104755, 0), PERM),
    (("mknodat", -1, BAD, 0o102755, 0), PERM),
    (("openat", -1, BAD, 0o100 | 1, 0o4755), PERM),
    (("openat", -1, BAD, 0o20200000 | 1, 0o2755), PERM),
    (("openat2", -1, BAD, BAD, 24), NOSYS),
    (("ptrace", 0, 0, 0, 0), PERM),
    (("ptrace", 16, "parent", 0, 0), PERM),
    (("process_vm_readv", "parent", BAD, 1, BAD, 1, 0), PERM),
    (("process_vm_writev", "parent", BAD, 1, BAD, 1, 0), PERM),
    (("pidfd_getfd", -1, 0, 0), PERM),
    (("kcmp", "self", "parent", 0, 0, 0), PERM),
    (("move_pages", "parent", 0, 0, 0, 0, 0), PERM),
    (("migrate_pages", "parent", 0, 0, 0), PERM),
    (("socket", 16, 3, 0), errno.EAFNOSUPPORT),  # netlink
    (("socket", 17, 3, 0), errno.EAFNOSUPPORT),  # packet
    (("socket", 38, 5, 0), errno.EAFNOSUPPORT),  # the crypto interface
    (("socket", 40, 1, 0), errno.EAFNOSUPPORT),  # vsock
    (("socket", 44, 3, 0), errno.EAFNOSUPPORT),  # XDP
    (("socket", 31, 3, 1), errno.EAFNOSUPPORT),  # Bluetooth
    (("socket", 30, 5, 0), errno.EAFNOSUPPORT),  # TIPC
    (("socket", 29, 3, 1), errno.EAFNOSUPPORT),  # CAN
    (("socket", 2, 1, 0), ACCES),
    (("socket", 2 | GARBAGE_HIGH, 1, 0), ACCES),
    (("socket", 10, 2 | 0x80800, 0), ACCES),
    (("socket", 2, 1, 262), ACCES),
    (("socketpair", 30, 5, 0, BAD), errno.EAFNOSUPPORT),
    ((0x40000000 + 39,), NOSYS),  # x32's getpid
    ((0x40000000 + 520, BAD, BAD, BAD), NOSYS),  # x32's execve
    ((NUMBERS.get("rseq_slice_yield", 0) + 1,), NOSYS),
    ((100_000,), NOSYS),
]
ONLY_HERE = {
    "x86_64": [
        (("chmod", BAD, 0o4755), PERM), (("creat", BAD, 0o4755), PERM), (("creat", BAD, 0o2755), PERM),
        (("mknod", BAD, 0o104755, 0), PERM), (("open", BAD, 0o100 | 1, 0o6755), PERM),
        (("iopl", 9), PERM), (("ioperm", 70_000, 1, 1), PERM), (("uselib", BAD), NOSYS), (("_sysctl", BAD), NOSYS),
    ]
}  # fmt: skip
REFUSED_ALWAYS += ONLY_HERE.get(platform.machine(), [])

REFUSED_IN_SHARED_NAMESPACES: list[tuple[Call, int]] = [
    (("kill", "parent", 0), PERM),
    (("kill", "parent", 0, 0, 0, 0), PERM),
    (("kill", -1, 0), PERM),
    (("kill", 2**32 - 1, 0), PERM),
    (("kill", "minus_parent_group", 0), PERM),
    (("tkill", "parent", 0), PERM),
    (("tgkill", "parent", "parent", 0), PERM),
    (("tgkill", 999_999_999, "parent", 0), PERM),
    (("rt_sigqueueinfo", "parent", 0, BAD), PERM),
    (("rt_tgsigqueueinfo", "parent", "parent", 0, BAD), PERM),
    (("pidfd_open", "parent", 0), PERM),
    (("pidfd_send_signal", -1, 0, 0, 0), NOSYS),
    (("prlimit64", "parent", 7, 0, 0), PERM),
    (("prlimit64", 1, 7, 0, 0), PERM),
    (("sched_setaffinity", "parent", 8, BAD), PERM),
    (("sched_setscheduler", "parent", 0, BAD), PERM),
    (("sched_setparam", "parent", BAD), PERM),
    (("sched_setattr", "parent", BAD, 0), PERM),
    (("setpriority", 0, "parent", 0), PERM),
    (("setpriority", 2, 0, 0), PERM),
    (("ioprio_set", 1, "parent", 0), PERM),
    (("ioprio_set", 3, 0, 0), PERM),
    (("fcntl", 0, 8, "parent"), PERM),
    (("fcntl", 0, 10, 9), PERM),
    (("fcntl", 0, 15, BAD), PERM),
    (("ioctl", 0, 0x8901, BAD), PERM),
    (("ioctl", 0, 0x8902, BAD), PERM),
    (("shmget", 0x7E57, 4096, 0), ACCES),
    (("shmat", 0, 0, 0o10000), ACCES),
    (("shmctl", 0, 13, BAD), ACCES),
    (("msgget", 0x7E57, 0), ACCES),
    (("msgsnd", 0, BAD, 1, 0o4000), ACCES),
    (("msgrcv", 0, BAD, 1, 0, 0o4000), ACCES),
    (("msgctl", 0, 11, BAD), ACCES),
    (("semget", 0x7E57, 1, 0), ACCES),
    (("semop", 0, BAD, 1), ACCES),
    (("semtimedop", 0, BAD, 1, 0), ACCES),
    (("semctl", 0, 0, 18, BAD), ACCES),
    (("mq_open", BAD, 0, 0, 0), ACCES),
    (("mq_unlink", BAD), ACCES),
    (("socket", 1, 1, 0), ACCES),
    (("socket", 1, 2 | 0x80000, 0), ACCES),
    (("socketpair", 1, 2, 0, BAD), ACCES),
]

ANSWERED_AS_EVER: list[tuple[Call, int]] = [
    (("getpid",), 0),
    (("fchmod", -1, 0o2755), errno.EBADF),
    (("openat", -1, BAD, 0, 0o4755), errno.EFAULT),
    (("unshare", 0x400), 0),  # CLONE_FILES
    (("personality", 2**32 - 1), 0),
    (("personality", 0x0040000), 0),  # addresses that stay, for debuggers and sanitizers
    (("kill", "self", 0), 0),
    (("kill", 0, 0), 0),
    (("tgkill", "self", "self", 0), 0),
    (("pidfd_open", "self", 0), 0),
    (("prlimit64", 0, 7, 0, 0), 0),
    (("setpriority", 0, 0, 0), 0),
    (("fcntl", 0, 1), 0),
    (("socketpair", 1, 1, 0, BAD), errno.EFAULT),
    (("socketpair", 1, 5 | 0x80000, 0, BAD), errno.EFAULT),
    (("memfd_create", BAD, 0), errno.EFAULT),
    (("mseal", 0, 0, 0), 0),
    (("sendto", -1, BAD, 1, 0x20000000, 0, 0), errno.EBADF),
    (("set_mempolicy", 0, 0, 0), 0),
    (("move_pages", 0, 0, 0, 0, 0, 0), 0),
]

METADATA: list[Call] = [
    ("fchmod", -1, 0o644),
    ("fchmodat", -1, BAD, 0o644),
    ("fchmodat2", -1, BAD, 0o644, 0),
    ("fchown", -1, -1, -1),
    ("fchownat", -1, BAD, -1, -1, 0),
    ("utimensat", -1, BAD, 0, 0),
    *((name, BAD, BAD, BAD, 1, 0) for name in ("setxattr", "lsetxattr")),
    ("fsetxattr", -1, BAD, BAD, 1, 0),
    ("setxattrat", -1, BAD, 0, BAD, BAD, 16),
    *((name, BAD, BAD) for name in ("removexattr", "lremovexattr")),
    ("fremovexattr", -1, BAD),
    ("removexattrat", -1, BAD, 0, BAD),
    ("file_setattr", -1, BAD, BAD, 24, 0),
    *(("ioctl", 0, request | GARBAGE_HIGH, BAD) for request in (0x40086602, 0x401C5820, 0x40087602, 0x40806685, 0x800C6613)),
]
if platform.machine() == "x86_64":
    METADATA += [("chmod", BAD, 0), ("chown", BAD, 0, 0), ("lchown", BAD, 0, 0)]
    METADATA += [("utime", BAD, BAD), ("utimes", BAD, BAD), ("futimesat", -1, BAD, BAD)]

STRICT = [NO_NEW_PRIVILEGES, filter_step(filters.strict())] if NUMBERS else []
PLAIN = [NO_NEW_PRIVILEGES, filter_step(filters.plain())] if NUMBERS else []


def numbers_of(answers: Sequence[tuple[int, int]]) -> list[int]:
    return [number for _, number in answers]


def named(calls: Sequence[Call], numbers: Sequence[int]) -> list[str]:
    return [f"{call} -> {errno.errorcode.get(number, number)}" for call, number in zip(calls, numbers, strict=True)]


@pytest.mark.parametrize("steps", [STRICT, PLAIN], ids=["strict", "plain"])
def test_the_kernel_surface_is_refused_in_every_mode(steps: list[Any]) -> None:
    calls = [call for call, _ in REFUSED_ALWAYS]
    found = numbers_of(system_calls(steps, calls))
    assert named(calls, found) == named(calls, [number for _, number in REFUSED_ALWAYS])


def test_what_namespaces_do_not_keep_apart_is_refused_in_plain_mode() -> None:
    calls = [call for call, _ in REFUSED_IN_SHARED_NAMESPACES]
    found = numbers_of(system_calls(PLAIN, calls))
    assert named(calls, found) == named(calls, [number for _, number in REFUSED_IN_SHARED_NAMESPACES])


def test_without_the_filter_most_of_these_calls_get_other_answers() -> None:
    """The control: the refusals come from the filter. Capabilities and the kernel's configuration decide about the rest."""
    unlike = [case for case in (*REFUSED_ALWAYS, *REFUSED_IN_SHARED_NAMESPACES) if case[0][0] != "clone"]  # that one would fork
    found = numbers_of(system_calls([], [call for call, _ in unlike]))
    different = sum(number != refused for number, (_, refused) in zip(found, unlike, strict=True))
    assert different > len(unlike) / 2, f"{different} of {len(unlike)}"


@pytest.mark.parametrize("steps", [STRICT, PLAIN], ids=["strict", "plain"])
def test_calls_that_nothing_forbids_are_answered_as_ever(steps: list[Any]) -> None:
    calls = [call for call, _ in ANSWERED_AS_EVER]
    expected = numbers_of(system_calls([], calls))
    assert named(calls, numbers_of(system_calls(steps, calls))) == named(calls, expected)


def test_a_plan_can_refuse_every_change_of_metadata() -> None:
    steps = [NO_NEW_PRIVILEGES, filter_step(filters.plain(metadata="deny"))]
    assert named(METADATA, numbers_of(system_calls(steps, METADATA))) == named(METADATA, [PERM] * len(METADATA))
    assert PERM not in numbers_of(system_calls(STRICT, METADATA))


def test_metadata_of_real_files_stays_as_it_is_when_the_plan_says_so(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    before = file.stat()
    program = f"chmod 777 {file}; touch -d '2001-01-01' {file}; chattr +d {file}; chgrp {before.st_gid} {file}; true"
    done = filtered(filters.plain(metadata="deny"), ["sh", "-c", program])
    assert done.stderr.count("Operation not permitted") >= 3
    after = file.stat()
    assert (after.st_mode, after.st_mtime, after.st_ctime) == (before.st_mode, before.st_mtime, before.st_ctime)


INET: list[tuple[Call, dict[str, int]]] = [
    (("socket", 2, 1, 0), {"tcp": 0, "full": 0}),
    (("socket", 2, 1 | 0x80800, 6), {"tcp": 0, "full": 0}),
    (("socket", 10, 1, 0), {"tcp": 0, "full": 0}),
    (("socket", 2, 2, 0), {"tcp": ACCES, "full": 0}),
    (("socket", 2, 2, 17), {"tcp": ACCES, "full": 0}),
    (("socket", 2, 3, 1), {"tcp": ACCES, "full": PERM}),
    (("socket", 2, 3 | 0x800, 255), {"tcp": ACCES, "full": PERM}),
    (("socket", 2, 10, 0), {"tcp": ACCES, "full": PERM}),  # SOCK_PACKET
    (("socket", 2, 1, 262), {"tcp": errno.EPROTONOSUPPORT, "full": errno.EPROTONOSUPPORT}),  # multipath TCP
    (("socket", 2, 1, 132), {"tcp": errno.EPROTONOSUPPORT, "full": errno.EPROTONOSUPPORT}),  # SCTP
    (("socket", 2, 1, 256), {"tcp": errno.EPROTONOSUPPORT, "full": errno.EPROTONOSUPPORT}),  # SMC
    (("socket", 2, 2, 136), {"tcp": ACCES, "full": errno.EPROTONOSUPPORT}),  # UDP-Lite
    (("socket", 16, 3, 0), {"tcp": 0, "full": 0}),  # routes and addresses
    (("socket", 16, 3, 9), {"tcp": errno.EPROTONOSUPPORT, "full": errno.EPROTONOSUPPORT}),  # audit
    (("socket", 16, 3, 4), {"tcp": errno.EPROTONOSUPPORT, "full": errno.EPROTONOSUPPORT}),  # socket diagnosis
    (("socket", 17, 3, 0), {"tcp": errno.EAFNOSUPPORT, "full": errno.EAFNOSUPPORT}),
    (("sendto", -1, BAD, 1, 0x20000000, 0, 0), {"tcp": ACCES, "full": errno.EBADF}),
    (("sendmsg", -1, BAD, 0x20000000 | 0x4000), {"tcp": ACCES, "full": errno.EBADF}),
    (("sendmmsg", -1, BAD, 1, 0x20000000), {"tcp": ACCES, "full": errno.EBADF}),
    (("sendto", -1, BAD, 1, 0x4000, 0, 0), {"tcp": errno.EBADF, "full": errno.EBADF}),
]


@pytest.mark.parametrize("inet", ["tcp", "full"])
def test_the_network_setting_decides_which_internet_sockets_there_are(inet: filters.Inet) -> None:
    calls = [call for call, _ in INET]
    found = numbers_of(system_calls([NO_NEW_PRIVILEGES, filter_step(filters.strict(inet=inet))], calls))
    assert named(calls, found) == named(calls, [expected[inet] for _, expected in INET])


INT_80 = """
import ctypes, mmap
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(bytes.fromhex("b814000000" "cd80" "c3"))  # mov eax, 20 (getpid); int 0x80; ret
address = ctypes.addressof(ctypes.c_char.from_buffer(code))
print(ctypes.CFUNCTYPE(ctypes.c_int)(address)() > 0)
"""


@pytest.mark.requires_ability("unfiltered")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="int 0x80 is x86")
def test_a_32_bit_call_from_a_64_bit_program_ends_it() -> None:
    argv = [sys.executable, "-I", "-c", INT_80]
    control = enter([], argv)
    if control.returncode == -signal.SIGSEGV:
        pytest.skip("this kernel has no 32-bit calls")
    assert control.stdout.strip() == "True"
    assert filtered(filters.strict(), argv).returncode == -signal.SIGSYS


GETPID_32 = """
void _start(void) {
    int result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(20));
    __asm__ volatile("int $0x80" : : "a"(1), "b"(result > 0 ? 42 : 1));
    for (;;) {}
}
"""


@pytest.mark.requires_ability("gcc")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="needs 32-bit x86 programs")
def test_a_32_bit_program_ends_at_its_first_call(tmp_path: Path) -> None:
    program = tmp_path / "program"
    build = [
        "gcc",
        "-m32",
        "-static",
        "-nostdlib",
        "-fno-pie",
        "-no-pie",
        "-fno-stack-protector",
        "-x",
        "c",
        "-",
        "-o",
        str(program),
    ]
    subprocess.run(build, input=GETPID_32, text=True, check=True, capture_output=True)
    try:
        control = enter([], [str(program)]).returncode
    except OSError:
        control = -1
    if control != 42:
        pytest.skip("this kernel runs no 32-bit programs")
    assert filtered(filters.strict(), [str(program)]).returncode == -signal.SIGSYS


KEYED = f"""
import ctypes, json, sys
sys.path.insert(0, {str(PROJECT)!r})
from fable_exec._launcher import kernel, kernel_confine
from fable_exec._launcher.confine_steps import load_filter
kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
load_filter(json.load(sys.stdin))

def answer(call):
    try:
        call()
    except OSError as error:
        return error.errno
    return 0

key = kernel_confine.launcher_key()
numbers = kernel_confine._NUMBERS[kernel_confine.machine()]
def guess(value):
    return lambda: kernel_confine._call("unshare", numbers["unshare"], kernel.CLONE_NEWUSER, 0, 0, 0, value)
print(json.dumps([
    answer(lambda: kernel.unshare(kernel.CLONE_NEWUSER)),
    answer(guess(key ^ 1)),
    answer(guess(key ^ (1 << 63))),
    answer(guess(key & 0xffffffff)),
    answer(lambda: kernel_confine.setns(-1, 0)),
    answer(lambda: kernel_confine.unshare(kernel.CLONE_NEWUSER)),
]))
"""


@pytest.mark.requires_ability("userns")
def test_only_the_holder_of_the_key_enters_namespaces() -> None:
    wire = filter_step(filters.strict())[1]
    done = enter([], [sys.executable, "-I", "-c", KEYED], stdin=json.dumps(wire))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [PERM, PERM, PERM, PERM, errno.EBADF, 0]


def test_a_filter_with_many_far_jumps_works_in_the_kernel_as_in_the_simulator() -> None:
    """Some 2 000 instructions: each of many harmless calls is answered by its own rule, which sits at its own distance."""
    names = [
        name for name in NUMBERS if name.startswith(("sched_get", "epoll_", "inotify_", "mq_", "get", "timer_", "shm", "sem"))
    ]
    rules = [
        Rule((name,), deny(100 + index), (Condition(argument=5, values=tuple(range(7, 40))),)) for index, name in enumerate(names)
    ]
    assert len(assemble(rules, platform.machine()).instructions) > 1500
    calls: list[Call] = [(name, -1, BAD, 0, 0, 0, value) for name in names for value in (7, 39)]
    found = numbers_of(system_calls([NO_NEW_PRIVILEGES, filter_step(rules)], calls))
    assert found == [100 + index for index, _ in enumerate(names) for _ in range(2)]


STEP_PROGRAM = f"""
import json, sys
sys.path.insert(0, {str(PROJECT)!r})
from fable_exec._launcher import kernel
from fable_exec._launcher.confine_steps import CONFINE_STEPS
name, argument, privileges = json.load(sys.stdin)
if privileges:
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
try:
    CONFINE_STEPS[name](argument)
except (OSError, KeyError) as error:
    print(type(error).__name__, getattr(error, "errno", 0))
print("Seccomp:\t2" in open("/proc/self/status").read())
"""


@pytest.mark.requires_ability("unfiltered")
@pytest.mark.parametrize(
    ("change", "privileges", "complaint"),
    [
        ({}, False, "PermissionError 1"),
        ({"architecture": "s390x"}, True, "OSError 8"),
        ({"program": "!!"}, True, "OSError 22"),
        ({"program": ""}, True, "OSError 22"),
        ({"symbols": [[0, "unheard_of", 0]]}, True, "KeyError 0"),
    ],
)
def test_a_filter_that_cannot_be_loaded_as_meant_is_not_loaded_at_all(
    change: dict[str, Any], privileges: bool, complaint: str
) -> None:
    wire = {**filter_step(filters.strict())[1], **change}
    done = enter([], [sys.executable, "-I", "-c", STEP_PROGRAM], stdin=json.dumps(["load_filter", wire, privileges]))
    assert done.stdout.splitlines() == [complaint, "False"], done.stderr
