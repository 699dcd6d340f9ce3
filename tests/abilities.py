"""What this machine lets a test do: named abilities, each probed once by trying it, never by a version.

A test says `@pytest.mark.requires_ability("userns")`. Where the ability is missing the test is skipped with the reason; the
reasons are counted at the end of the run (tests/conftest.py). Abilities of the kernel are ones that a capable machine must have:
a run under FABLE_EXEC_REQUIRE_ABILITIES fails when one of them was missing. The others only describe who runs the suite or what
is installed.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

OLDEST_CAPABLE_KERNEL = (6, 14)
"""The first kernel whose pid_max belongs to a PID namespace; everything else the suite needs is older."""

_OPENAT2 = 437
_SECCOMP = 317 if platform.machine() == "x86_64" else 277
_SECCOMP_GET_ACTION_AVAIL, _SECCOMP_RET_ERRNO = 2, 0x50000
_LANDLOCK_CREATE_RULESET = 444
_LANDLOCK_CREATE_RULESET_VERSION = 1


def _is_linux() -> str:
    return "" if sys.platform == "linux" else f"this is {sys.platform}"


def _is_root() -> str:
    return "" if os.geteuid() == 0 else "not run as root"


def _is_ordinary_user() -> str:
    return "" if os.geteuid() != 0 else "run as root"


def _tool(name: str) -> Callable[[], str]:
    return lambda: "" if shutil.which(name) else f"{name} is not installed"


def _package(name: str) -> Callable[[], str]:
    return lambda: "" if importlib.util.find_spec(name) else f"the package {name} is not installed"


def _try(argv: list[str]) -> str:
    """Empty when the command succeeds, else its last line of complaint."""
    try:
        answer = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "" if answer.returncode == 0 else (answer.stderr.strip().splitlines() or [f"exit status {answer.returncode}"])[-1]


def _loop_ext4() -> str:
    """May this user mount an ext4 that lies in a file, in a mount namespace of its own."""
    with tempfile.TemporaryDirectory() as directory:
        make = f"mkfs.ext4 -q {directory}/image && mkdir {directory}/disk && mount -o loop {directory}/image {directory}/disk"
        return _is_linux() or _try(["unshare", "--mount", "sh", "-c", f"truncate -s 8M {directory}/image && {make}"])


def _userns() -> str:
    return _is_linux() or _try(["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "true"])


def _own_proc() -> str:
    return _is_linux() or _try(
        ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc", "true"]
    )


def _pid_namespace() -> str:
    """May this user, root or not, make a PID namespace with its own /proc; what `pid_box` stands on."""
    if _is_linux():
        return _is_linux()
    user = [] if os.geteuid() == 0 else ["--user", "--map-current-user"]
    return _try(["unshare", *user, "--pid", "--fork", "--kill-child", "--mount-proc", "true"])


def _own_pid_max() -> str:
    """Does pid_max belong to the PID namespace. Told by the version: a try on an older kernel would change the machine."""
    return _is_linux() or (
        "" if kernel_release() >= OLDEST_CAPABLE_KERNEL else f"kernel {platform.release()} has one pid_max for all"
    )


def _system_call(number: int, *arguments: int | None) -> str:
    libc = ctypes.CDLL(None, use_errno=True)
    result = libc.syscall(ctypes.c_long(number), *(ctypes.c_long(value or 0) for value in arguments))
    return "" if result >= 0 else os.strerror(ctypes.get_errno())


def _openat2() -> str:
    if _is_linux():
        return _is_linux()
    # A null struct of the right size is answered with EFAULT where the call exists, with ENOSYS or EPERM where it does not.
    return "" if _system_call(_OPENAT2, -100, 0, 0, 24) == os.strerror(14) else "openat2 is missing or filtered"


def _landlock() -> str:
    return _is_linux() or _system_call(_LANDLOCK_CREATE_RULESET, 0, 0, _LANDLOCK_CREATE_RULESET_VERSION)


def _seccomp() -> str:
    action = ctypes.c_uint32(_SECCOMP_RET_ERRNO)
    return _is_linux() or _system_call(_SECCOMP, _SECCOMP_GET_ACTION_AVAIL, 0, ctypes.addressof(action))


def _unfiltered() -> str:
    """Whether no seccomp filter is on us, as a container has one; what a test loads would come on top of it."""
    if _is_linux() or "Seccomp:\t0" in Path("/proc/self/status").read_text():
        return _is_linux()
    return "a seccomp filter is on this process"


def _confinement() -> str:
    """May commands run under the default policy, which is strict about what Landlock and seccomp hold."""
    lacking = [f"{name}: {reason}" for name, reason in (("landlock", _landlock()), ("seccomp", _seccomp())) if reason]
    return "; ".join(lacking)


def _pidfd() -> str:
    try:
        descriptor = os.pidfd_open(os.getpid())
        try:
            signal.pidfd_send_signal(descriptor, 0)  # 0 only asks whether a signal could be sent
        finally:
            os.close(descriptor)
    except (AttributeError, OSError) as error:
        return str(error)
    return ""


KERNEL: dict[str, Callable[[], str]] = {
    "confinement": _confinement,
    "linux": _is_linux,
    "landlock": _landlock,
    "openat2": _openat2,
    "own_pid_max": _own_pid_max,
    "own_proc": _own_proc,
    "pid_namespace": _pid_namespace,
    "pidfd": _pidfd,
    "userns": _userns,
}
SITUATION: dict[str, Callable[[], str]] = {
    "deepagents": _package("deepagents"),
    "gcc": _tool("gcc"),
    "git": _tool("git"),
    "gpg": _tool("gpg"),
    "in_toto": _package("in_toto"),
    "inspect_ai": _package("inspect_ai"),
    "langchain": _package("langchain"),
    "langchain_tests": _package("langchain_tests"),
    "loop_ext4": _loop_ext4,
    "mcp": _package("mcp"),
    "node": _tool("node"),
    "openai_agents": _package("agents"),
    "openssl": _tool("openssl"),
    "ordinary_user": _is_ordinary_user,
    "ps": _tool("ps"),
    "pydantic_ai": _package("pydantic_ai"),
    "pymodelchecking": _package("pyModelChecking"),
    "rfc8785": _package("rfc8785"),
    "root": _is_root,
    "securesystemslib": _package("securesystemslib"),
    "sigstore": _package("sigstore"),
    "unfiltered": _unfiltered,
}


@functools.cache
def missing(name: str) -> str:
    """Why this run lacks the ability, or the empty string when it has it. An unknown name is a KeyError."""
    return {**SITUATION, **KERNEL}[name]()


def kernel_release() -> tuple[int, int]:
    major, minor = platform.release().split(".")[:2]
    return int(major), int("".join(character for character in minor if character.isdigit()))


def machine_should_be_capable() -> bool:
    """Whether every kernel ability ought to be here by what the machine says about itself; how a broken probe is noticed."""
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64") or kernel_release() < OLDEST_CAPABLE_KERNEL:
        return False
    switches = ("/proc/sys/user/max_user_namespaces", "/proc/sys/kernel/unprivileged_userns_clone")
    closed = any(Path(path).exists() and Path(path).read_text().strip() == "0" for path in switches)
    restricted = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
    return not (closed or _unfiltered() or (restricted.exists() and restricted.read_text().strip() == "1"))


def abilities_are_required() -> bool:
    """FABLE_EXEC_REQUIRE_ABILITIES: 1 always, auto where the machine should be capable, anything else never."""
    wish = os.environ.get("FABLE_EXEC_REQUIRE_ABILITIES", "0")
    return wish == "1" or (wish == "auto" and machine_should_be_capable())
