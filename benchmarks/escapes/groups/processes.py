"""Other processes: signals, tracing, memory, descriptors, limits, scheduling, and what /proc tells about them."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path

from benchmarks.escapes.attempt import Effect, Registry, won
from benchmarks.escapes.scene import Scene

__all__ = ["ATTEMPTS"]

ATTEMPTS = Registry()
add = ATTEMPTS.add


def _state_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except OSError:
        return "Z"


def _ended(scene: Scene, output: str) -> bool:
    """The victim was killed or stopped. A signal takes a moment to work."""
    for _ in range(5):
        if _state_of(scene.victim) in "ZXTt":
            return True
        time.sleep(0.002)
    return False


def _victim(scene: Scene) -> None:
    """Make the victim be there."""
    assert scene.victim


_SIGNALS = {
    "kill": "os.kill(S.victim, 9)",
    "kill STOP": "os.kill(S.victim, 19)",
    "tkill": "call('tkill', S.victim, 9)",
    "tgkill": "call('tgkill', S.victim, S.victim, 9)",
    "rt_sigqueueinfo": "i = (ctypes.c_int * 32)(9, 0, -1); call('rt_sigqueueinfo', S.victim, 9, i)",
    "rt_tgsigqueueinfo": "i = (ctypes.c_int * 32)(9, 0, -1); call('rt_tgsigqueueinfo', S.victim, S.victim, 9, i)",
    "pidfd_send_signal": "call('pidfd_send_signal', call('pidfd_open', S.victim, 0), 9, 0, 0)",
    "a /proc directory as pidfd": "call('pidfd_send_signal', os.open('/proc/%d' % S.victim, os.O_RDONLY), 9, 0, 0)",
    "F_SETOWN and SIGIO": "a, b = socket.socketpair(); fcntl.fcntl(a, fcntl.F_SETSIG, 9); fcntl.fcntl(a, fcntl.F_SETOWN, S.victim)\n"
    "fcntl.fcntl(a, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK); b.send(b'x'); time.sleep(0.02)",
    "F_SETOWN_EX and SIGIO": "a, b = socket.socketpair(); fcntl.fcntl(a, 15, struct.pack('ii', 1, S.victim)); fcntl.fcntl(a, fcntl.F_SETSIG, 9)\n"
    "fcntl.fcntl(a, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK); b.send(b'x'); time.sleep(0.02)",
    "FIOSETOWN and SIGIO": "a, b = socket.socketpair(); fcntl.fcntl(a, fcntl.F_SETSIG, 9); p = ctypes.c_int(S.victim)\n"
    "call('ioctl', a.fileno(), 0x8901, ctypes.byref(p)); fcntl.fcntl(a, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK); b.send(b'x'); time.sleep(0.02)",
    "SIOCSPGRP and SIGURG": "a, b = socket.socketpair(); fcntl.fcntl(a, fcntl.F_SETSIG, 9); p = ctypes.c_int(S.victim)\n"
    "call('ioctl', a.fileno(), 0x8902, ctypes.byref(p)); fcntl.fcntl(a, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK); b.send(b'x'); time.sleep(0.02)",
    "the kill command": "run('kill', '-9', str(S.victim))",
    "by name": "for p in os.listdir('/proc'):\n  if p.isdigit():\n    try:\n      if int(p) == S.victim and b'sleep' in get('/proc/%s/comm' % p): os.kill(int(p), 9)\n    except OSError: pass",
    "ptrace and KILL": "call('ptrace', 16, S.victim, 0, 0); os.waitpid(S.victim, 0); call('ptrace', 8, S.victim, 0, 0)",
    "PTRACE_SEIZE and EXITKILL": "call('ptrace', 0x4206, S.victim, 0, 0x100000)",
}  # fmt: skip
for _name, _code in _SIGNALS.items():
    _code = _code if "struct" not in _code else "import struct\n" + _code
    _code = _code if "fcntl" not in _code else "import fcntl\n" + _code
    add("signals", _name, _code, _ended, prepare=_victim)


def _host_killed(scene: Scene, output: str) -> bool:
    return _ended(scene, output)


add(
    "signals",
    "kill(-1)",
    "signal.signal(signal.SIGTERM, signal.SIG_IGN); os.kill(-1, signal.SIGTERM)",
    _host_killed,
    prepare=_victim,
    alone=True,
    no_control="it would end the control itself",
)

# The vault: a process with secrets.


def _told(scene: Scene, output: str) -> bool:
    secret = scene.host.vault_secret
    return secret in output or secret.encode().hex() in output


_LOOKS = {
    "environ": "print(get('/proc/%d/environ' % S.vault['pid']))",
    "mem": "f = open('/proc/%d/mem' % S.vault['pid'], 'rb', 0); f.seek(S.vault['address']); print(f.read(40))",
    "mem by a task": "p = S.vault['pid']; f = open('/proc/%d/task/%d/mem' % (p, p), 'rb', 0); f.seek(S.vault['address']); print(f.read(40))",
    "a descriptor's file": "print(get('/proc/%d/fd/%d' % (S.vault['pid'], S.vault['fd'])))",
    "map_files": "p = '/proc/%d/map_files' % S.vault['pid']\nfor n in os.listdir(p): os.open(p + '/' + n, os.O_RDONLY); print(S.vault['pid'])\n"
    "print(get('/proc/%d/environ' % S.vault['pid']))",
    "process_vm_readv": "b = ctypes.create_string_buffer(40); l = (ctypes.c_uint64 * 2)(ctypes.addressof(b), 40); "
    "r = (ctypes.c_uint64 * 2)(S.vault['address'], 40)\ncall('process_vm_readv', S.vault['pid'], l, 1, r, 1, 0); print(b.raw)",
    "pidfd_getfd": "print(os.pread(call('pidfd_getfd', call('pidfd_open', S.vault['pid'], 0), S.vault['fd'], 0), 40, 0))",
    "gdb": "run('gdb', '-q', '-batch', '-p', str(S.vault['pid']), '-ex', 'x/s %d' % S.vault['address'])",
}
for _name, _code in _LOOKS.items():
    add("memory and descriptors of others", _name, _code, _told, alone=_name == "gdb", seconds=30.0 if _name == "gdb" else 6.0)
add(
    "memory and descriptors of others",
    "PTRACE_PEEKDATA",
    "p = S.vault['pid']; call('ptrace', 16, p, 0, 0); os.waitpid(p, 0)\ntry:\n"
    "  b = ctypes.c_uint64()\n  o = b''\n  for i in range(5): call('ptrace', 2, p, S.vault['address'] + 8 * i, ctypes.byref(b)); o += b.value.to_bytes(8, 'little')\n"
    "  print(o)\nfinally: call('ptrace', 17, p, 0, 0)",
    _told,
)


def _vault_changed(question: str) -> Effect:
    def effect(scene: Scene, output: str) -> bool:
        return scene.token[:8] in scene.host.ask_vault(question)

    return effect


_WRITE = "t = S.token[:8].encode() + b'\\0'"
add(
    "memory and descriptors of others",
    "process_vm_writev",
    _WRITE + "; b = ctypes.create_string_buffer(t); l = (ctypes.c_uint64 * 2)(ctypes.addressof(b), 9); "
    "r = (ctypes.c_uint64 * 2)(S.vault['address'], 9)\ncall('process_vm_writev', S.vault['pid'], l, 1, r, 1, 0)",
    _vault_changed("memory"),
    alone=True,
)
add(
    "memory and descriptors of others",
    "write to mem",
    _WRITE + "; d = os.open('/proc/%d/mem' % S.vault['pid'], os.O_RDWR); os.pwrite(d, t, S.vault['address'])",
    _vault_changed("memory"),
    alone=True,
)
add(
    "memory and descriptors of others",
    "write to a descriptor's file",
    _WRITE + "; append('/proc/%d/fd/%d' % (S.vault['pid'], S.vault['fd']), t)",
    _vault_changed("file"),
    alone=True,
)
add("memory and descriptors of others", "kcmp", "call('kcmp', os.getpid(), S.vault['pid'], 0, 1, 1); won()")
add("memory and descriptors of others", "PTRACE_TRACEME of the parent's child", "call('ptrace', 0, 0, 0, 0); won()")
add(
    "memory and descriptors of others",
    "process_madvise",
    "v = (ctypes.c_uint64 * 2)(S.vault['address'] & ~4095, 4096); call('process_madvise', call('pidfd_open', S.vault['pid'], 0), v, 1, 20, 0); won()",
)
add("memory and descriptors of others", "move_pages", "call('move_pages', S.vault['pid'], 0, 0, 0, 0, 0); won()")
add(
    "memory and descriptors of others",
    "migrate_pages",
    "m = ctypes.c_ulong(1); call('migrate_pages', S.vault['pid'], 8, ctypes.byref(m), ctypes.byref(m)); won()",
)
for _file in ("maps", "stack", "syscall", "wchan", "auxv", "smaps", "personality", "io", "mountinfo"):
    add(
        "/proc of others",
        _file,
        f"d = get('/proc/%d/{_file}' % S.vault['pid'])\nif d: won(d[:40])",
        weaker=_file in ("mountinfo", "wchan"),
    )
for _link in ("cwd", "exe", "root", "ns/mnt"):
    add("/proc of others", f"the link {_link}", f"won(os.readlink('/proc/%d/{_link}' % S.vault['pid']))")
add(
    "/proc of others",
    "command line",
    "print(get('/proc/%d/cmdline' % S.vault['pid']))",
    lambda s, out: "vault.py" in out,
    weaker=True,
)
add("/proc of others", "status", "print(get('/proc/%d/status' % S.vault['pid']))", lambda s, out: f"Pid:\\t{s.host.vault_facts['pid']}" in out, weaker=True)
add(
    "/proc of others",
    "the list of processes",
    "print(' '.join(p for p in os.listdir('/proc') if p.isdigit()))",
    lambda s, out: f" {s.host.vault_facts['pid']} " in f" {out.replace(chr(10), ' ')} ",
    weaker=True,
)
add("/proc of others", "existence by kill(pid, 0)", "os.kill(S.vault['pid'], 0); won()")
add("/proc of others", "existence by getpgid and getsid", "won(os.getpgid(S.vault['pid']), )", weaker=True)
add("/proc of others", "sched_getaffinity", "won(os.sched_getaffinity(S.vault['pid']))", weaker=True)
add("/proc of others", "pidfd_open", "call('pidfd_open', S.vault['pid'], 0); won()", weaker=True)
for _file, _text in (("oom_score_adj", "900"), ("comm", "x"), ("coredump_filter", "0x1"), ("timerslack_ns", "1000"), ("clear_refs", "1"), ("autogroup", "5")):
    add("/proc of others", f"write {_file}", f"put('/proc/%d/{_file}' % S.victim, {_text!r}, os.O_WRONLY); won()", prepare=_victim)


def _limits(scene: Scene, output: str) -> bool:
    return resource.prlimit(scene.victim, resource.RLIMIT_NOFILE)[0] == 123


def _affinity(scene: Scene, output: str) -> bool:
    return os.sched_getaffinity(scene.victim) == {0}


def _priority(scene: Scene, output: str) -> bool:
    return os.getpriority(os.PRIO_PROCESS, scene.victim) == 7


def _policy(scene: Scene, output: str) -> bool:
    return os.sched_getscheduler(scene.victim) in (os.SCHED_BATCH, os.SCHED_IDLE)


_SCHEDULING = {
    "prlimit": ("import resource; resource.prlimit(S.victim, resource.RLIMIT_NOFILE, (123, 1024))", _limits),
    "sched_setaffinity": ("os.sched_setaffinity(S.victim, {0})", _affinity),
    "setpriority": ("os.setpriority(os.PRIO_PROCESS, S.victim, 7)", _priority),
    "renice": ("run('renice', '-n', '7', '-p', str(S.victim))", _priority),
    "sched_setscheduler": ("os.sched_setscheduler(S.victim, os.SCHED_BATCH, os.sched_param(0))", _policy),
    "sched_setattr": ("a = (ctypes.c_uint32 * 14)(56, 3); call('sched_setattr', S.victim, a, 0)", _policy),
    "ioprio_set": ("call('ioprio_set', 1, S.victim, 3 << 13); won() if call('ioprio_get', 1, S.victim) == 3 << 13 else 0", won),
    "setpriority of the user": ("os.setpriority(os.PRIO_USER, 0, 7)", _priority),
    "setpriority of the group": ("os.setpriority(os.PRIO_PGRP, os.getpgid(S.victim), 7)", _priority),
}
for _name, (_code, _effect) in _SCHEDULING.items():
    add("limits and scheduling of others", _name, _code, _effect, prepare=_victim, alone="of the" in _name)
