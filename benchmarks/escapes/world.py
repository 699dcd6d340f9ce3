"""A root of its own for one run, so that nothing of the machine can be changed from inside, with or without a confinement.

An unconfined control does what its attempt says, as root. Four things make that harmless, each by itself:

- The root is a tmpfs that ends with its mount namespace. Nothing is ever removed: there is no clean-up that could follow a mount.
- The machine's files are there by read-only binds of a few directories, and the old root is detached before anything runs.
- Root of the run is root of a user namespace whose ids are nobody's outside; the binds are locked for it.
- Processes, network, IPC and host name are the run's own; the network holds a loopback and nothing else.

`user="machine root"` leaves out the user namespace. It is for confined runs only, and takes the capabilities away that reach the
machine itself.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import secrets
import shutil
import signal
import socket
import struct
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs

__all__ = ["MARK", "USERS", "World", "is_inside", "run_inside"]

USERS = ("root", "user", "machine root")
MARK = "/.world"
PROJECT = Path(__file__).resolve().parent.parent.parent
ORDINARY = 1000
_FIRST_ID, _IDS = 0x30000000, 65536  # ids that no account has
_PROCESSES = 3000
_INTERPRETER = os.path.realpath(sys.executable)  # that of a virtual environment is not to be found in there

_NEW_MOUNTS, _NEW_USER, _NEW_PIDS = 0x20000, 0x10000000, 0x20000000
_NEW_REST = 0x40000000 | 0x08000000 | 0x04000000  # network, IPC, host name
_READ_ONLY, _BIND, _REMOUNT, _RECURSIVE = 1, 4096, 32, 1 << 14
_PRIVATE, _NO_SUID, _NO_EXEC, _RELATIVE_TIMES = 1 << 18 | _RECURSIVE, 2, 8, 1 << 21
_DETACH = 2
_PDEATHSIG, _BOUNDING_DROP = 1, 24
_TMPFS_MAGIC = 0x01021994
_OF_THE_MACHINE = (16, 17, 19, 20, 22, 24, 25, 26, 27, 34, 35, 36, 38, 39)
"""sys_module, sys_rawio, sys_ptrace of others' memory, pacct, boot, resource, time, tty_config, mknod, syslog, wake_alarm,
block_suspend, perfmon, bpf."""
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_SYSTEM_FILES = (
    "alternatives",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "nsswitch.conf",
    "protocols",
    "services",
    "localtime",
)
_DIRECTORIES = ("dev/pts", "dev/shm", "dev/mqueue", "etc", "home/attacker", "proc", "root", "run", "sys", "tmp", "var/tmp", "old")

_libc = ctypes.CDLL(None, use_errno=True)


@attrs.frozen(kw_only=True)
class World:
    """What a run gets.

    Args:
        user: "root" and "user" are ids of a user namespace; see the module for "machine root".
        user_namespaces: whether those in it may make more of them.
        peers: a directory with other sandboxes, seen as /peers.
    """

    user: str
    user_namespaces: bool = True
    peers: str = ""


def run_inside(world: World, argv: Sequence[str], *, seconds: float) -> subprocess.CompletedProcess[str]:
    """Run `python3 ARGV` in a world of its own and wait until all of it has ended.

    Args:
        seconds: after these, everything in it is killed by the kernel.

    Raises:
        subprocess.TimeoutExpired: it took longer.
    """
    with tempfile.TemporaryDirectory(
        prefix="fable-world-"
    ) as place:  # stays empty: the tmpfs is mounted where nobody else sees it
        os.chmod(place, 0o755)
        plan = json.dumps({**attrs.asdict(world), "place": place})
        return subprocess.run(
            [sys.executable, "-m", "benchmarks.escapes.world", plan, *argv],
            cwd=PROJECT, env={"PATH": os.environ["PATH"], "PYTHONPATH": _library_path()}, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=seconds,
        )  # fmt: skip


def is_inside() -> bool:
    """Whether this process may perform attempts: its root is a world's tmpfs."""
    room = ctypes.create_string_buffer(256)
    if _libc.statfs(b"/", room) != 0:
        return False
    return os.path.exists(MARK) and struct.unpack_from("=l", room)[0] == _TMPFS_MAGIC


def _library_path() -> str:
    return os.pathsep.join([str(PROJECT), sysconfig.get_path("purelib")])


def main() -> int:
    """Build the world in a new process, run the rest of the command line in it, and end with its status."""
    plan = json.loads(sys.argv[1])
    privileged = os.geteuid() == 0
    identity = os.geteuid()
    _unshare(_NEW_MOUNTS | _NEW_PIDS | _NEW_REST | (0 if privileged else _NEW_USER))
    if not privileged:
        _map_own_id("self", 0, identity)
    return _waited(_fork(lambda: _build_and_enter(plan, privileged, identity)))


def _build_and_enter(plan: dict[str, str], privileged: bool, identity: int) -> int:
    _build(Path(plan["place"]), plan["peers"], privileged, _FIRST_ID if privileged and plan["user"] != "machine root" else 0)
    if plan["user"] == "machine root":
        return _waited(_fork(lambda: _settle(plan)))
    ready, mapped = os.pipe(), os.pipe()
    child = _fork(lambda: _enter(plan, privileged, ready[1], mapped[0]))
    os.read(ready[0], 1)
    if privileged:
        for kind in ("uid_map", "gid_map"):
            Path(f"/proc/{child}/{kind}").write_text(f"0 {_FIRST_ID} {_IDS}")
    else:
        _map_own_id(str(child), identity if plan["user"] == "user" else 0, 0)
    os.write(mapped[1], b"x")
    return _waited(child)


def _enter(plan: dict[str, str], privileged: bool, ready: int, mapped: int) -> int:
    """In a user namespace below: what was mounted so far is locked."""
    _unshare(_NEW_USER)
    os.write(ready, b"x")
    os.read(mapped, 1)
    if privileged:
        os.setresgid(0, 0, 0)
        os.setresuid(0, 0, 0)
    _unshare(_NEW_MOUNTS | _NEW_PIDS | _NEW_REST)
    return _waited(_fork(lambda: _settle(plan)))


def _settle(plan: dict[str, str]) -> int:
    """Process 1: file systems of the new namespaces, then the run as a child, so that 1 reaps what is left."""
    _mount("proc", "/proc", "proc", _NO_SUID | _NO_EXEC)
    _mount("devpts", "/dev/pts", "devpts", _NO_SUID | _NO_EXEC, "newinstance,ptmxmode=0666,mode=0620")
    _mount("mqueue", "/dev/mqueue", "mqueue", _NO_SUID | _NO_EXEC)
    _mount("shm", "/dev/shm", "tmpfs", _NO_SUID, "mode=1777,size=256m")
    _loopback_up()
    socket.sethostname(f"box-{secrets.token_hex(4)}")
    Path("/proc/sys/kernel/pid_max").write_text(str(_PROCESSES))
    if not plan["user_namespaces"]:
        Path("/proc/sys/user/max_user_namespaces").write_text("0")
    return _waited(_fork(lambda: _become(plan)), reap_others=True)


def _become(plan: dict[str, str]) -> int:
    home = "/root"
    if plan["user"] == "machine root":
        for capability in _OF_THE_MACHINE:
            _checked(_libc.prctl(_BOUNDING_DROP, capability, 0, 0, 0), "prctl")
    elif plan["user"] == "user" and os.getuid() == 0:
        home = "/home/attacker"
        os.setgroups([])
        os.setresgid(ORDINARY, ORDINARY, ORDINARY)
        os.setresuid(ORDINARY, ORDINARY, ORDINARY)
    os.chdir("/project")
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": home, "LANG": "C.UTF-8", "PYTHONPATH": "/project:/library",
        "PYTHONDONTWRITEBYTECODE": "1", "ESCAPES_PEERS": "/peers", "ESCAPES_HOST_SECRET": f"escapes-{secrets.token_hex(8)}",
    }  # fmt: skip
    os.execve(_INTERPRETER, [_INTERPRETER, *sys.argv[2:]], environment)


# The root.


def _build(place: Path, peers: str, privileged: bool, owner: int) -> None:
    _mount("none", "/", None, _PRIVATE)
    _mount("world", str(place), "tmpfs", 0, "mode=755,size=4g")
    for name in _DIRECTORIES:
        (place / name).mkdir(parents=True)
    for name in ("tmp", "var/tmp", "dev/shm"):
        (place / name).chmod(0o1777)
    (place / MARK[1:]).write_text("")
    _lay_system_files(place / "etc")
    for directory, names, files in os.walk(place):
        for path in (directory, *(os.path.join(directory, name) for name in names + files)):
            os.lchown(path, owner, owner)
    os.lchown(place / "home/attacker", *[owner + ORDINARY if owner else 0] * 2)
    _bind_the_machine(place, peers, privileged)
    _mount("proc", str(place / "proc"), "proc", _NO_SUID | _NO_EXEC)
    _checked(
        _libc.syscall(
            ctypes.c_long(155 if os.uname().machine == "x86_64" else 41), os.fsencode(place), os.fsencode(place / "old")
        ),
        "pivot_root",
    )
    os.chdir("/")
    _checked(_libc.umount2(b"/old", _DETACH), "umount2")
    os.rmdir("/old")


def _lay_system_files(etc: Path) -> None:
    """What programs need of the system's configuration, and secrets that are nobody's."""
    for name in _SYSTEM_FILES:
        source = Path("/etc") / name
        if source.is_dir():
            shutil.copytree(source, etc / name, symlinks=True)
        elif source.exists():
            shutil.copy(source, etc / name)
    (etc / "passwd").write_text(f"root:x:0:0:root:/root:/bin/sh\nattacker:x:{ORDINARY}:{ORDINARY}::/home/attacker:/bin/sh\n")
    (etc / "group").write_text(f"root:x:0:\nattacker:x:{ORDINARY}:\n")
    (etc / "hosts").write_text("127.0.0.1 localhost\n::1 localhost\n")
    (etc / "ssl/private").mkdir(parents=True)
    (etc / "ssl/private").chmod(0o710)
    for name in ("shadow", "gshadow", "shadow-", "sudoers", "ssl/private/key.pem"):
        (etc / name).write_text(f"root:{secrets.token_hex(16)}:19000:0:99999:7:::\n")
        (etc / name).chmod(0o640)


def _bind_the_machine(place: Path, peers: str, privileged: bool) -> None:
    """The system's programs, this project and what it imports: to be read only, at the places where they are looked for."""
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        if os.path.islink(f"/{name}"):
            (place / name).symlink_to(os.readlink(f"/{name}"))
        elif os.path.isdir(f"/{name}"):
            _bind(Path("/", name), place / name)
    for source in ("/usr", *([] if sys.base_prefix.startswith("/usr") else [sys.base_prefix])):
        _bind(Path(source), place / source[1:])
    _bind(PROJECT, place / "project")
    _bind(Path(sysconfig.get_path("purelib")), place / "library")
    _bind(
        Path("/sys"), place / "sys", whole=not privileged
    )  # without control groups, which are writable; who may not leave them out may not write them
    if os.path.isdir(peers):
        _bind(Path(peers), place / "peers")
    for name in _DEVICES:
        (place / "dev" / name).touch()
        _mount(f"/dev/{name}", str(place / "dev" / name), None, _BIND)
    for name, target in (
        ("ptmx", "pts/ptmx"),
        ("fd", "/proc/self/fd"),
        ("stdin", "fd/0"),
        ("stdout", "fd/1"),
        ("stderr", "fd/2"),
    ):
        (place / "dev" / name).symlink_to(target)


def _bind(source: Path, target: Path, *, whole: bool = True) -> None:
    """Show `source`, read-only; `whole` with what is mounted below it."""
    target.mkdir(parents=True, exist_ok=True)
    _mount(str(source), str(target), None, _BIND | (_RECURSIVE if whole else 0))
    flags = os.statvfs(target).f_flag
    kept = flags & (os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC | os.ST_NOATIME | os.ST_NODIRATIME)
    _mount(
        str(source), str(target), None, _BIND | _REMOUNT | _READ_ONLY | kept | (_RELATIVE_TIMES if flags & os.ST_RELATIME else 0)
    )


# The kernel.


def _fork(body: Callable[[], int]) -> int:
    """A child that runs `body`, dies with this process, and ends with what `body` returns."""
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    status = 120
    try:
        _libc.prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() in (parent, 0):  # 0: the parent is outside the namespace of processes
            status = body()
    except BaseException as error:
        print(f"the world could not be built: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
    os._exit(status)


def _waited(child: int, *, reap_others: bool = False) -> int:
    while True:
        pid, status = os.waitpid(-1 if reap_others else child, 0)
        if pid == child:
            return min(os.waitstatus_to_exitcode(status) % 256, 255)


def _map_own_id(process: str, inside: int, outside: int) -> None:
    Path(f"/proc/{process}/setgroups").write_text("deny")
    for kind in ("uid_map", "gid_map"):
        Path(f"/proc/{process}/{kind}").write_text(f"{inside} {outside} 1")


def _loopback_up() -> None:
    with socket.socket() as channel:
        fcntl.ioctl(channel, 0x8914, struct.pack("16sh14x", b"lo", 1))  # SIOCSIFFLAGS, IFF_UP


def _unshare(flags: int) -> None:
    _checked(_libc.unshare(flags), "unshare")


def _mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    _checked(
        _libc.mount(source.encode(), target.encode(), kind.encode() if kind else None, ctypes.c_ulong(flags), options.encode()),
        f"mount {kind or source} at {target}",
    )


def _checked(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


if __name__ == "__main__":
    sys.exit(main())
