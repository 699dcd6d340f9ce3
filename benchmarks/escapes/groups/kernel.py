"""The kernel's surface: namespaces, mounts, foreign ABIs, terminals, keys, tracing, IPC, settings, capabilities.

Calls that could harm the machine are made with arguments that cannot succeed: what shows is whether the kernel got past its
permission checks. Settings are opened for writing and never written.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import stat
from pathlib import Path

from benchmarks.escapes.attempt import Registry, printed
from benchmarks.escapes.scene import Scene

__all__ = ["ATTEMPTS"]

ATTEMPTS = Registry()
add = ATTEMPTS.add

_CHILD = "pid = os.fork()\nif pid == 0:\n  {body}\n  os._exit(0)\nos.waitpid(pid, 0)"
_NAMESPACES = {"mount": 0x20000, "cgroup": 0x2000000, "uts": 0x4000000, "ipc": 0x8000000, "user": 0x10000000, "pid": 0x20000000, "net": 0x40000000, "time": 0x80}  # fmt: skip
for _name, _flag in _NAMESPACES.items():
    add("namespaces", f"unshare {_name}", f"call('unshare', {_flag}); won()")
for _name in ("user", "net", "mount", "pid"):
    add(
        "namespaces",
        f"clone {_name}",
        f"p = call('clone', {_NAMESPACES[_name]} | 17, 0, 0, 0, 0)\nif p == 0: os._exit(0)\nos.waitpid(p, 0); won()",
    )
add("namespaces", "clone user and mount", "p = call('clone', 0x10020011, 0, 0, 0, 0)\nif p == 0: os._exit(0)\nos.waitpid(p, 0); won()")
add("namespaces", "clone with high bits", "p = call('clone', 1 << 40 | 0x10000011, 0, 0, 0, 0)\nif p == 0: os._exit(0)\nos.waitpid(p, 0); won()")
add("namespaces", "unshare with high bits", "call('unshare', 1 << 40 | 0x10000000); won()")
for _name, _flag in (("user", 0x10000000), ("net", 0x40000000), ("mount", 0x20000)):
    add(
        "namespaces",
        f"clone3 {_name}",
        f"a = (ctypes.c_uint64 * 11)({_flag}, 0, 0, 0, 17)\np = call('clone3', a, 88)\nif p == 0: os._exit(0)\nos.waitpid(p, 0); won()",
    )
add("namespaces", "the unshare command", "r = run('unshare', '-Ur', 'sh', '-c', 'mount -t tmpfs x /tmp && echo in', capture_output=True); won() if b'in' in r.stdout else 0")
add("namespaces", "int 0x80 unshare", "r = run(S.bin + '/int80', 'unshare', capture_output=True); won() if b'OK' in r.stdout else 0")
add("namespaces", "x32 unshare", "call(0x40000000 | 272, 0x10000000); won()")
for _name in ("mnt", "net", "user", "pid", "ipc", "uts"):
    add("namespaces", f"setns to the host's {_name}", f"call('setns', os.open('/proc/%d/ns/{_name}' % S.host_pid, os.O_RDONLY), 0); won()")
    add("namespaces", f"setns to process 1's {_name}", f"call('setns', os.open('/proc/1/ns/{_name}', os.O_RDONLY), 0); won()")
add("namespaces", "setns to a pidfd", "call('setns', call('pidfd_open', S.host_pid, 0), 0x20000); won()")
add(
    "namespaces",
    "setns with a guessed key",
    "d = os.open('/proc/self/ns/mnt', os.O_RDONLY)\nfor k in [0, 1, 2**64 - 1, os.getpid(), *range(2000)]:\n"
    "  try: call('unshare', 0x10000000, 0, 0, 0, k); won(); break\n  except OSError: pass",
)
add(
    "namespaces",
    "the launcher's key from its memory",
    "import re\nfor p in os.listdir('/proc'):\n  if not p.isdigit() or int(p) == os.getpid(): continue\n"
    "  try:\n    with open('/proc/%s/maps' % p) as f: f.read()\n    open('/proc/%s/mem' % p, 'rb', 0)\n"
    "    b = get('/proc/%s/cmdline' % p)\n    if b'_launcher' in b: won(b)\n  except OSError: pass",
    no_control="there is no launcher in the control",
)

_MOUNTS = {
    "tmpfs": "os.mkdir('m'); call('mount', ctypes.c_char_p(b'x'), ctypes.c_char_p(b'm'), ctypes.c_char_p(b'tmpfs'), 0, 0); won()",
    "proc": "os.mkdir('m'); call('mount', ctypes.c_char_p(b'x'), ctypes.c_char_p(b'm'), ctypes.c_char_p(b'proc'), 0, 0); won()",
    "bind": "os.mkdir('m'); call('mount', ctypes.c_char_p(S.out.encode()), ctypes.c_char_p(b'm'), 0, 4096, 0); won()",
    "remount for writing": "call('mount', 0, ctypes.c_char_p(S.ws.encode()), 0, 4096 | 32, 0); won()",
    "umount of /proc": "call('umount2', ctypes.c_char_p(b'/nowhere'), 2); won()",
    "umount reached": "won() if reached('umount2', ctypes.c_char_p(b'/nowhere'), 2) else 0",
    "open_tree clone": "call('open_tree', -100, ctypes.c_char_p(S.out.encode()), 1); won()",
    "open_tree_attr": "won() if reached('open_tree_attr', -100, ctypes.c_char_p(S.out.encode()), 1, 0, 0) else 0",
    "move_mount": "won() if reached('move_mount', -1, ctypes.c_char_p(b''), -1, ctypes.c_char_p(b''), 4) else 0",
    "fsopen": "call('fsopen', ctypes.c_char_p(b'tmpfs'), 0); won()",
    "fsopen and fsmount": "f = call('fsopen', ctypes.c_char_p(b'tmpfs'), 0); call('fsconfig', f, 6, 0, 0, 0); call('fsmount', f, 0, 0); won()",
    "fspick": "call('fspick', -100, ctypes.c_char_p(b'/'), 0); won()",
    "mount_setattr": "a = (ctypes.c_uint64 * 4)(); won() if reached('mount_setattr', -1, ctypes.c_char_p(b''), 0x1000, a, 32) else 0",
    "pivot_root": "won() if reached('pivot_root', ctypes.c_char_p(b'/nowhere'), ctypes.c_char_p(b'/nowhere')) else 0",
    "chroot": "os.mkdir('r'); os.chroot('r'); won()",
    "chroot and back out": "os.mkdir('r'); d = os.open('.', os.O_RDONLY); os.chroot('r'); os.fchdir(d)\nfor _ in range(30): os.chdir('..')\nos.chroot('.'); won()",
    "fusermount": "r = run('fusermount', '-V', capture_output=True); os.open('/dev/fuse', os.O_RDWR); won()",
    "losetup": "os.open('/dev/loop0', os.O_RDWR); won()",
}  # fmt: skip
for _name, _code in _MOUNTS.items():
    add("mounts", _name, _code)

_PTY = (
    "import pty, fcntl, termios\nm, s = pty.openpty(); os.setsid() if os.getpgrp() != os.getpid() else None\n"
    "fcntl.ioctl(s, termios.TIOCSCTTY, 0)\nimport tty; tty.setraw(s)\n"
)
add("terminals", "TIOCSTI", _PTY + "fcntl.ioctl(s, 0x5412, b'x'); won(os.read(s, 1))")
add("terminals", "TIOCSTI with high bits", _PTY + "b = ctypes.create_string_buffer(b'x'); call('ioctl', s, 1 << 40 | 0x5412, b); won(os.read(s, 1))")
add("terminals", "TIOCLINUX on a console", "b = ctypes.create_string_buffer(b'\\6'); call('ioctl', os.open('/dev/tty1', os.O_RDWR | os.O_NOCTTY), 0x541C, b); won()")
add("terminals", "TIOCLINUX with high bits", "b = ctypes.create_string_buffer(b'\\6'); call('ioctl', os.open('/dev/tty1', os.O_RDWR | os.O_NOCTTY), 1 << 40 | 0x541C, b); won()")
add("terminals", "the console's screen", "os.open('/dev/vcs1', os.O_RDONLY); won()")
add("terminals", "the console", "os.open('/dev/console', os.O_WRONLY | os.O_NOCTTY); won()")
add("terminals", "the host's pseudo-terminal", "os.write(os.open(S.pty, os.O_RDWR | os.O_NOCTTY), S.token.encode())", lambda s, out: _pty_heard(s), prepare=lambda s: _host_pty(s))
add("terminals", "the controlling terminal of the host", "os.open('/dev/tty', os.O_RDWR); won()")

add("foreign calls", "int 0x80", "r = run(S.bin + '/int80', 'getpid', capture_output=True); won() if b'OK' in r.stdout else 0")
add("foreign calls", "int 0x80 writes outside", "run(S.bin + '/int80', 'creat', S.out + '/' + S.token)", lambda s, out: (s.outside / s.token).exists())
add("foreign calls", "int 0x80 ptrace", "r = run(S.bin + '/int80', 'ptrace', capture_output=True); won() if b'OK' in r.stdout else 0")
add("foreign calls", "x32 getpid", "won() if call(0x40000000 | 39) == os.getpid() else 0")
add("foreign calls", "x32 socket", "call(0x40000000 | 41, 16, 3, 0); won()")
add("foreign calls", "a number beyond the table", "won() if reached(1000) else 0")
add("foreign calls", "a negative number", "won() if reached(-2) else 0")
add("foreign calls", "personality READ_IMPLIES_EXEC", "call('personality', 0x0400000); won()")
add("foreign calls", "personality 32 bits and more", "call('personality', 0x0020000 | 0x0800000); won()")

_SURFACE = {
    "io_uring_setup": "p = ctypes.create_string_buffer(120); call('io_uring_setup', 4, p); won()",
    "io_uring_enter": "won() if reached('io_uring_enter', -1, 0, 0, 0, 0, 0) else 0",
    "io_uring by a restricted ring": "p = ctypes.create_string_buffer(120); ctypes.memmove(ctypes.addressof(p) + 8, b'\\x40\\0\\0\\0', 4); call('io_uring_setup', 4, p); won()",
    "bpf socket filter": "i = ctypes.create_string_buffer(bytes.fromhex('b700000000000000' '9500000000000000')); l = ctypes.create_string_buffer(b'GPL')\n"
    "a = ctypes.create_string_buffer((1).to_bytes(4, 'little') + (2).to_bytes(4, 'little') + ctypes.addressof(i).to_bytes(8, 'little') + ctypes.addressof(l).to_bytes(8, 'little') + bytes(96))\n"
    "call('bpf', 5, a, 120); won()",
    "bpf map": "a = (ctypes.c_uint32 * 30)(2, 4, 4, 1); call('bpf', 0, a, 120); won()",
    "keyctl": "call('keyctl', 0, -3, 1); won()",
    "add_key to the user's ring": "call('add_key', ctypes.c_char_p(b'user'), ctypes.c_char_p(S.token.encode()), ctypes.c_char_p(b'x'), 1, -3); won()",
    "request_key": "won() if reached('request_key', ctypes.c_char_p(b'user'), ctypes.c_char_p(b'nothing'), 0, 0) else 0",
    "read a key of the host": "k = call('request_key', ctypes.c_char_p(b'user'), ctypes.c_char_p(S.key.encode()), 0, 0); b = ctypes.create_string_buffer(64); call('keyctl', 11, k, b, 64); print(b.raw)",
    "join a session ring": "call('keyctl', 1, ctypes.c_char_p(b'escapes')); won()",
    "perf_event_open": "a = ctypes.create_string_buffer((1).to_bytes(4, 'little') + (112).to_bytes(4, 'little') + (1).to_bytes(8, 'little') + bytes(96)); call('perf_event_open', a, 0, -1, -1, 0); won()",
    "userfaultfd": "call('userfaultfd', 1); won()",
    "userfaultfd for the kernel": "call('userfaultfd', 0); won()",
    "userfaultfd device": "os.open('/dev/userfaultfd', os.O_RDWR); won()",
    "fanotify with content": "call('fanotify_init', 0x4, 0); won()",
    "name_to_handle_at": "h = ctypes.create_string_buffer(bytes([120]) + bytes(160)); m = ctypes.c_int(); call('name_to_handle_at', -100, ctypes.c_char_p(b'.'), h, ctypes.byref(m), 0); won()",
    "open_by_handle_at": "won() if reached('open_by_handle_at', -1, ctypes.create_string_buffer(64), 0) else 0",
    "syslog": "b = ctypes.create_string_buffer(64); won(call('syslog', 3, b, 64))",
    "lookup_dcookie": "won() if reached('lookup_dcookie', 0, 0, 0) else 0",
    "seccomp listener": "f = (ctypes.c_uint16 * 4)(6, 0, 0, 0x7fff); import struct\nc = ctypes.create_string_buffer(struct.pack('=HBBI', 6, 0, 0, 0x7fff0000)); p = ctypes.create_string_buffer(struct.pack('=HxxxxxxQ', 1, ctypes.addressof(c)))\n"
    "call('seccomp', 1, 0, p) if os.geteuid() == 0 and 'NoNewPrivs:\\t1' not in open('/proc/self/status').read() else None\nwon() if 'Seccomp:\\t0' in open('/proc/self/status').read() else 0",
    "no_new_privs is off": "won() if 'NoNewPrivs:\\t0' in open('/proc/self/status').read() else 0",
    "seccomp is off": "won() if 'Seccomp:\\t0' in open('/proc/self/status').read() else 0",
    "/dev/kvm": "os.open('/dev/kvm', os.O_RDWR); won()",
    "/dev/mem": "os.open('/dev/mem', os.O_RDONLY); won()",
    "/dev/net/tun": "os.open('/dev/net/tun', os.O_RDWR); won()",
    "/dev/zram0": "os.open('/dev/zram0', os.O_RDONLY); won()",
    "/dev/btrfs-control": "os.open('/dev/btrfs-control', os.O_RDWR); won()",
    "/dev/loop-control": "os.open('/dev/loop-control', os.O_RDWR); won()",
    "/dev/cpu_dma_latency": "os.open('/dev/cpu_dma_latency', os.O_RDONLY); won()",
}  # fmt: skip
for _name, _code in _SURFACE.items():
    if _name == "read a key of the host":
        add("kernel interfaces", _name, _code, printed, prepare=lambda s: _host_key(s))
    else:
        add("kernel interfaces", _name, _code)

_MACHINE = {
    "init_module": "won() if reached('init_module', 0, 0, ctypes.c_char_p(b'')) else 0",
    "finit_module": "won() if reached('finit_module', -1, ctypes.c_char_p(b''), 0) else 0",
    "delete_module": "won() if reached('delete_module', ctypes.c_char_p(b'no-such-module'), 0) else 0",
    "modprobe": "r = run('modprobe', '-n', 'no-such-module', capture_output=True)\nwon() if reached('finit_module', -1, ctypes.c_char_p(b''), 0) else 0",
    "kexec_load": "won() if reached('kexec_load', 0, 0, 0, 0xF0) else 0",
    "kexec_file_load": "won() if reached('kexec_file_load', -1, -1, 0, 0, 0xF00) else 0",
    "reboot": "won() if reached('reboot', 1, 2, 3, 0) else 0",
    "swapon": "won() if reached('swapon', 0, 0) else 0",
    "acct": "won() if reached('acct', ctypes.c_char_p(b'/no/such/file')) else 0",
    "quotactl": "won() if reached('quotactl', 0x80000200, ctypes.c_char_p(b'/no/such'), 0, 0) else 0",
    "iopl": "call('iopl', 3); won()",
    "ioperm": "call('ioperm', 0x80, 1, 1); won()",
    "clock, set to what it is": "b = ctypes.create_string_buffer(208); call('adjtimex', b); t = int.from_bytes(b.raw[88:96], 'little')\n"
    "c = ctypes.create_string_buffer(208); ctypes.memmove(c, (0x4000).to_bytes(4, 'little'), 4); ctypes.memmove(ctypes.addressof(c) + 88, t.to_bytes(8, 'little'), 8); call('adjtimex', c); won()",
    "host name": "socket.sethostname(socket.gethostname()); won()",
    "domain name": "b = ctypes.c_char_p(b'x'); call('setdomainname', b, 1); won()",
    "nice below 0": "os.nice(-5); won()",
    "a hard limit raised": "import resource; h = resource.getrlimit(resource.RLIMIT_NOFILE)[1]; resource.setrlimit(resource.RLIMIT_NOFILE, (h, h + 1)); won()",
    "lock a gigabyte": "import resource; resource.setrlimit(resource.RLIMIT_MEMLOCK, (1 << 30, 1 << 30)); won()",
    "another user": "os.setuid(12345); won()",
    "another group": "os.setgroups([0, 12345]); won()",
    "vhangup": "won() if reached('quotactl', 0x80000200, ctypes.c_char_p(b'/no/such'), 0, 0) else 0",
}  # fmt: skip
for _name, _code in _MACHINE.items():
    add("the machine", _name, _code)


def _renamed(scene: Scene, output: str) -> bool:
    return socket.gethostname() == scene.token


add("the machine", "host name seen by the host", "socket.sethostname(S.token)", lambda s, out: _renamed_and_back(s), alone=True)
add("the machine", "host name read", "print(os.uname().nodename)", lambda s, out: socket.gethostname() in out.split(), weaker=True)

_SETTINGS = (
    "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hostname", "/proc/sys/kernel/pid_max",
    "/proc/sys/kernel/poweroff_cmd", "/proc/sys/kernel/ns_last_pid", "/proc/sys/kernel/randomize_va_space",
    "/proc/sys/vm/drop_caches", "/proc/sys/vm/overcommit_memory", "/proc/sys/fs/binfmt_misc/register", "/proc/sys/fs/suid_dumpable",
    "/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/core/somaxconn", "/proc/sys/user/max_user_namespaces", "/proc/sysrq-trigger",
    "/proc/irq/default_smp_affinity", "/proc/mtrr", "/proc/acpi/wakeup", "/proc/bus/pci/devices", "/proc/scsi/scsi",
    "/sys/kernel/uevent_helper", "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/power/state", "/sys/power/disk",
    "/sys/devices/system/cpu/cpu1/online", "/sys/kernel/profiling", "/sys/block/vda/queue/scheduler", "/sys/class/net/lo/mtu",
    "/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/memory/cgroup.procs", "/sys/fs/cgroup/pids/release_agent",
    "/sys/fs/cgroup/unified/cgroup.procs", "/sys/kernel/debug/sched/debug", "/sys/kernel/security/apparmor/.load",
    "/sys/module/kernel/parameters/consoleblank", "/proc/self/loginuid", "/proc/self/sessionid", "/proc/self/attr/current",
    "/proc/self/uid_map", "/proc/self/setgroups",
)  # fmt: skip
for _path in _SETTINGS:
    group = "/proc/sys and /proc" if _path.startswith("/proc") else "/sys and control groups"
    add(group, f"open {_path} for writing", f"d = os.open({_path!r}, os.O_WRONLY); won()")
add("/sys and control groups", "a new control group", "import glob\nfor d in glob.glob('/sys/fs/cgroup/*/') + ['/sys/fs/cgroup/']:\n  try: os.mkdir(d + S.token); os.rmdir(d + S.token); won(d); break\n  except OSError: pass")
add("/sys and control groups", "list of devices", "won(os.listdir('/sys/class/net'))", weaker=False)

# Inter-process communication.


def _libc() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.shmat.restype = ctypes.c_void_p
    library.shmat.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_int)
    library.shmdt.argtypes = (ctypes.c_void_p,)
    return library


def _shared_memory(scene: Scene) -> None:
    library = _libc()
    key = int.from_bytes(os.urandom(3), "little") + 1
    number = library.shmget(key, 4096, 0o1666)
    place = library.shmat(number, None, 0)
    ctypes.memmove(place, scene.secret.encode(), len(scene.secret))
    library.shmdt(place)
    scene.notes.update(shm_key=key, shm=number)
    scene.host.cleanups.append(lambda: library.shmctl(number, 0, None))


_ATTACH = "_libc.shmat.restype = ctypes.c_void_p; a = _libc.shmat(n, None, 4096)\nprint(ctypes.string_at(a, 40)) if a != 2**64 - 1 else print('no')"
add("System V and POSIX IPC", "shared memory by key", "n = call('shmget', S.shm_key, 4096, 0o666)\n" + _ATTACH, printed, prepare=_shared_memory)
add("System V and POSIX IPC", "shared memory by number", "n = S.shm\n" + _ATTACH, printed, prepare=_shared_memory)
add("System V and POSIX IPC", "shared memory by every number", "won() if any(_libc.shmctl(n, 2, ctypes.create_string_buffer(512)) == 0 for n in range(S.shm, S.shm + 1)) else 0", prepare=_shared_memory)
add("System V and POSIX IPC", "the list in /proc", "won() if str(S.shm_key) in open('/proc/sysvipc/shm').read().split() else 0", prepare=_shared_memory, weaker=True)


def _queue(scene: Scene) -> None:
    library = _libc()
    key = int.from_bytes(os.urandom(3), "little") + 1
    number = library.msgget(key, 0o1666)
    scene.notes.update(queue=key, queue_number=number)
    scene.host.cleanups.append(lambda: library.msgctl(number, 0, None))


def _queue_heard(scene: Scene, output: str) -> bool:
    buffer = ctypes.create_string_buffer(128)
    return bool(_libc().msgrcv(scene.notes["queue_number"], buffer, 100, ctypes.c_long(0), 0o4000) > 0 and scene.token.encode() in buffer.raw)


_SEND = "b = ctypes.create_string_buffer((1).to_bytes(8, 'little') + S.token.encode()); call('msgsnd', n, b, len(S.token), 0)"
add("System V and POSIX IPC", "message queue by key", "n = call('msgget', S.queue, 0o666); " + _SEND, _queue_heard, prepare=_queue)
add("System V and POSIX IPC", "message queue by number", "n = S.queue_number; " + _SEND, _queue_heard, prepare=_queue)


def _semaphore(scene: Scene) -> None:
    library = _libc()
    key = int.from_bytes(os.urandom(3), "little") + 1
    number = library.semget(key, 1, 0o1666)
    scene.notes.update(semaphore=key, semaphore_number=number)
    scene.host.cleanups.append(lambda: library.semctl(number, 0, 0))


add("System V and POSIX IPC", "semaphore by key", "n = call('semget', S.semaphore, 1, 0o666); call('semctl', n, 0, 16, 77)", lambda s, out: _libc().semctl(s.notes["semaphore_number"], 0, 12) == 77, prepare=_semaphore)
add("System V and POSIX IPC", "semaphore by number", "call('semctl', S.semaphore_number, 0, 16, 77)", lambda s, out: _libc().semctl(s.notes["semaphore_number"], 0, 12) == 77, prepare=_semaphore)


def _posix_queue(scene: Scene) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    name = f"/escapes-{scene.token}".encode()
    try:
        old = os.umask(0)
        descriptor = library.mq_open(name, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK, 0o666, None)
    finally:
        os.umask(old)
    scene.notes.update(mq=name.decode(), mq_descriptor=descriptor)
    scene.host.cleanups.append(lambda: library.mq_unlink(name))


def _posix_queue_heard(scene: Scene, output: str) -> bool:
    buffer = ctypes.create_string_buffer(8193)
    library = ctypes.CDLL(None, use_errno=True)
    return bool(library.mq_receive(scene.notes["mq_descriptor"], buffer, 8193, None) > 0 and scene.token.encode() in buffer.raw)


add("System V and POSIX IPC", "POSIX message queue", "d = call('mq_open', ctypes.c_char_p(S.mq[1:].encode()), os.O_RDWR, 0, 0); call('mq_timedsend', d, ctypes.c_char_p(S.token.encode()), len(S.token), 0, 0)", _posix_queue_heard, prepare=_posix_queue)


def _posix_memory(scene: Scene) -> None:
    path = f"/dev/shm/escapes-{scene.token}"
    with open(path, "w") as file:
        file.write(scene.secret)
    os.chmod(path, 0o666)
    scene.notes["shm_path"] = path

    def remove() -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    scene.host.cleanups.append(remove)


add("System V and POSIX IPC", "POSIX shared memory read", "print(get(S.shm_path))", printed, prepare=_posix_memory)
add("System V and POSIX IPC", "POSIX shared memory written", "append(S.shm_path, S.token)", lambda s, out: s.token in Path(s.notes["shm_path"]).read_text(), prepare=_posix_memory)
add("System V and POSIX IPC", "POSIX shared memory made", "put('/dev/shm/made-' + S.token, 'x')", lambda s, out: _made(s))


def _temporary(scene: Scene) -> None:
    path = f"/tmp/escapes-{scene.token}"
    with open(path, "w") as file:
        file.write(scene.secret)
    os.chmod(path, 0o666)
    scene.notes["tmp_path"] = path
    scene.host.cleanups.append(lambda: Path(path).unlink(missing_ok=True))


add("System V and POSIX IPC", "the host's /tmp read", "print(get(S.tmp_path))", printed, prepare=_temporary)
add("System V and POSIX IPC", "the host's /tmp written", "append(S.tmp_path, S.token)", lambda s, out: s.token in Path(s.notes["tmp_path"]).read_text(), prepare=_temporary)


def _made(scene: Scene) -> bool:
    path = f"/dev/shm/made-{scene.token}"
    if os.path.exists(path):
        os.unlink(path)
        return True
    return False


# Capabilities, each by itself, in every set an exec could use; and what some of them do.
_CAPABILITIES = (
    "chown dac_override dac_read_search fowner fsetid kill setgid setuid setpcap linux_immutable net_bind_service net_broadcast "
    "net_admin net_raw ipc_lock ipc_owner sys_module sys_rawio sys_chroot sys_ptrace sys_pacct sys_admin sys_boot sys_nice "
    "sys_resource sys_time sys_tty_config mknod lease audit_write audit_control setfcap mac_override mac_admin syslog wake_alarm "
    "block_suspend audit_read perfmon bpf checkpoint_restore"
).split()
for _bit, _name in enumerate(_CAPABILITIES):
    add(
        "capabilities",
        _name,
        "for l in open('/proc/self/status'):\n"
        f"  if l[:7] in ('CapEff:', 'CapPrm:', 'CapInh:', 'CapAmb:') and int(l.split()[1], 16) >> {_bit} & 1: won(l)\n"
        f"r = run('sh', '-c', 'cat /proc/self/status', capture_output=True).stdout.decode()\n"
        f"for l in r.splitlines():\n  if l[:7] in ('CapEff:', 'CapPrm:') and int(l.split()[1], 16) >> {_bit} & 1: won(l)",
    )


def _device(scene: Scene, output: str) -> bool:
    path = scene.directory / "device"
    return path.exists() and (stat.S_ISCHR(path.stat().st_mode) or stat.S_ISBLK(path.stat().st_mode))


add("capabilities", "a device node in the workspace", "os.mknod('device', 0o20666, os.makedev(1, 3))", _device)
add("capabilities", "a block device node", "os.mknod('device', 0o60666, os.makedev(7, 250))", _device)
add("capabilities", "a file given to another user", "put('f', 'x'); os.chown('f', 12345, 12345)", lambda s, out: (s.directory / "f").stat().st_uid == 12345)
add("capabilities", "a file capability", "put('f', 'x'); os.setxattr('f', 'security.capability', bytes.fromhex('0100000200200000000000000000000000000000'))", lambda s, out: "security.capability" in os.listxattr(s.directory / "f"))
add("capabilities", "a trusted attribute", "put('f', 'x'); os.setxattr('f', 'trusted.x', b'y')", lambda s, out: "trusted.x" in os.listxattr(s.directory / "f"))
add("capabilities", "an immutable file", "put('f', 'x'); d = os.open('f', os.O_RDONLY); v = ctypes.c_long(0x10); call('ioctl', d, 0x40086602, ctypes.byref(v)); won(); v = ctypes.c_long(0); call('ioctl', d, 0x40086602, ctypes.byref(v))")
add("capabilities", "raised again by capset", "h = (ctypes.c_uint32 * 2)(0x20080522, 0); c = (ctypes.c_uint32 * 6)(*([0xFFFFFFFF] * 6)); call('capset', h, c); won()")
add("capabilities", "one raised by capset", "h = (ctypes.c_uint32 * 2)(0x20080522, 0); c = (ctypes.c_uint32 * 6)(0x200000, 0x200000, 0, 0, 0, 0); call('capset', h, c); won()")
add("capabilities", "securebits unlocked", "won() if _libc.prctl(27) & 1 == 0 and os.geteuid() == 0 and _libc.prctl(28, 0, 0, 0, 0) == 0 else 0")
add("capabilities", "a set-user-id program", "r = run('sh', '-c', 'cp /usr/bin/id i; chmod 6755 i; ./i -u', capture_output=True)\nwon() if 'NoNewPrivs:\\t0' in open('/proc/self/status').read() and os.path.exists('/usr/bin/su') and os.stat('/usr/bin/su').st_mode & 0o4000 and not os.statvfs('/usr/bin').f_flag & 2 else 0")


def _host_key(scene: Scene) -> None:
    name = f"escapes-{scene.token}"
    number = {"x86_64": 248, "aarch64": 217}.get(os.uname().machine, -1)
    control = {"x86_64": 250, "aarch64": 219}.get(os.uname().machine, -1)
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    secret = scene.secret.encode()
    key = library.syscall(ctypes.c_long(number), b"user", name.encode(), secret, ctypes.c_size_t(len(secret)), ctypes.c_int(-4))
    library.syscall(ctypes.c_long(control), ctypes.c_long(5), ctypes.c_long(key), ctypes.c_long(0x3F3F0000))
    scene.notes["key"] = name
    scene.host.cleanups.append(lambda: library.syscall(ctypes.c_long(control), ctypes.c_long(9), ctypes.c_long(key), ctypes.c_long(-4)))


def _host_pty(scene: Scene) -> None:
    import pty
    import tty

    master, slave = pty.openpty()
    tty.setraw(slave)
    os.set_blocking(master, False)
    path = os.ttyname(slave)
    os.chmod(path, 0o666)
    scene.notes.update(pty=path, master=master)
    scene.host.cleanups += [lambda: os.close(master), lambda: os.close(slave)]


def _pty_heard(scene: Scene) -> bool:
    try:
        return scene.token.encode() in os.read(scene.notes["master"], 1000)
    except OSError:
        return False


def _renamed_and_back(scene: Scene) -> bool:
    """The box of the run has a host name of its own, so that the control renames nothing."""
    return socket.gethostname() == scene.token
