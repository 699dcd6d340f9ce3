"""The launcher itself, the policy and the audit log: ending, stopping, tracing or starving what starts and ends commands.

In the control the target is the run's own victim, for systems without a launcher as well.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from benchmarks.escapes.attempt import Effect, Registry
from benchmarks.escapes.scene import Scene

__all__ = ["ATTEMPTS"]

ATTEMPTS = Registry()
add = ATTEMPTS.add


def _targets(scene: Scene) -> None:
    assert scene.victim
    scene.notes["targets"] = [scene.victim, *scene.host.launchers()]


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except OSError:
        return "Z"


def _hurt(scene: Scene, output: str) -> bool:
    """One of the targets is gone, stopped or traced, or the next command cannot run."""
    for _ in range(5):
        if any(_state(pid) in "ZXTt" for pid in scene.notes["targets"]):
            return True
        time.sleep(0.01)
    return bool(scene.host.broken)


_EACH = (
    "ps = set(S.targets) | ({1} if S.own_pids else set())\np = os.getpid() if S.confined else 0\n"
    "while p > 1:\n  try: p = int(open('/proc/%d/stat' % p).read().rpartition(') ')[2].split()[1])\n  except OSError: break\n"
    "  if p in (1, S.host_pid): break\n  if p > 0 and p != os.getppid(): ps.add(p)\n"
    "for p in sorted(ps):\n  try:\n    {body}\n  except (OSError, OverflowError) as e: print(p, e)\n"
)
_ATTACKS = {
    "KILL": "os.kill(p, 9)",
    "STOP": "os.kill(p, 19)",
    "TERM": "os.kill(p, 15)",
    "INT": "os.kill(p, 2); os.kill(p, 15)",
    "every signal": "[os.kill(p, n) for n in range(1, 65) if n not in (32, 33)]",
    "tgkill": "call('tgkill', p, p, 9)",
    "tkill": "call('tkill', p, 9)",
    "tkill with high bits": "call('tkill', p | 1 << 40, 9)",
    "kill with high bits": "call('kill', p | 1 << 40, 9)",
    "its group": "os.kill(-os.getpgid(p), 9) if os.getpgid(p) not in (os.getpgrp(), os.getpgid(os.getppid())) and (S.confined or p == S.victim and os.getpgid(p) == p) else os.kill(p, 9)",
    "sigqueue": "i = (ctypes.c_int * 32)(9, 0, -1); call('rt_sigqueueinfo', p, 9, i)",
    "pidfd": "call('pidfd_send_signal', call('pidfd_open', p, 0), 9, 0, 0)",
    "a /proc directory as pidfd": "call('pidfd_send_signal', os.open('/proc/%d' % p, os.O_RDONLY), 9, 0, 0)",
    "a thread's /proc directory as pidfd": "call('pidfd_send_signal', os.open('/proc/%d/task/%d' % (p, p), os.O_RDONLY), 9, 0, 0)",
    "F_SETOWN": "import fcntl; a, b = socket.socketpair(); fcntl.fcntl(a, 10, 9); fcntl.fcntl(a, 8, p); fcntl.fcntl(a, 4, 0o20000 | 0o4000); b.send(b'x'); time.sleep(0.01)",
    "F_SETOWN_EX": "import fcntl, struct; a, b = socket.socketpair(); fcntl.fcntl(a, 15, struct.pack('ii', 1, p)); fcntl.fcntl(a, 10, 9); fcntl.fcntl(a, 4, 0o20000 | 0o4000); b.send(b'x'); time.sleep(0.01)",
    "FIOSETOWN": "import fcntl; a, b = socket.socketpair(); fcntl.fcntl(a, 10, 9); v = ctypes.c_int(p); call('ioctl', a.fileno(), 0x8901, ctypes.byref(v)); fcntl.fcntl(a, 4, 0o20000 | 0o4000); b.send(b'x'); time.sleep(0.01)",
    "SIGIO without F_SETSIG": "import fcntl; a, b = socket.socketpair(); v = ctypes.c_int(p); call('ioctl', a.fileno(), 0x8902, ctypes.byref(v)); fcntl.fcntl(a, 4, 0o20000 | 0o4000); b.send(b'x'); time.sleep(0.01)",
    "ptrace attach": "call('ptrace', 16, p, 0, 0); time.sleep(0.02); os.waitpid(p, 0x40000000); call('ptrace', 8, p, 0, 0)",
    "ptrace seize": "call('ptrace', 0x4206, p, 0, 0x100000); call('ptrace', 0x4207, p, 0, 0); time.sleep(0.02)",
    "prlimit of time": "import resource; resource.prlimit(p, resource.RLIMIT_CPU, (0, 0)); resource.prlimit(p, resource.RLIMIT_RTTIME, (0, 0)); won(); os.kill(p, 9)",
    "oom": "put('/proc/%d/oom_score_adj' % p, '1000', 1); os.kill(p, 9)",
    "process_mrelease": "call('process_mrelease', call('pidfd_open', p, 0), 0); os.kill(p, 9)",
    "write to memory": "import re\n    m = open('/proc/%d/maps' % p).read(); d = os.open('/proc/%d/mem' % p, os.O_RDWR)\n    for l in re.findall(r'^([0-9a-f]+)-([0-9a-f]+) rw', m, re.M): os.pwrite(d, b'\\0' * 4096, int(l[0], 16))\n    os.kill(p, 9) if p == S.victim else 0",
    "kill by the shell": "run('kill', '-9', str(p))",
}  # fmt: skip
for _name, _body in _ATTACKS.items():
    add("the launcher itself", _name, _EACH.replace("{body}", _body), _hurt, prepare=_targets, alone=True)


def _broken(scene: Scene, output: str) -> bool:
    return bool(scene.host.broken)


_BREAKS = {
    "an ancestor of the workspace renamed": "if not S.own_pids: os._exit(0)\np = S.ws\nwhile p != '/':\n  try: os.rename(p, p + '-gone'); os.makedirs(S.ws); break\n  except OSError as e: print(p, e)\n  p = os.path.dirname(p)",
    "an ancestor of the workspace in the private directory renamed": "if not S.own_pids: os._exit(0)\nfor b in ('/tmp', '/var/tmp'):\n  for n in os.listdir(b):\n    if S.ws.startswith('/tmp/' + n + '/') or S.ws.startswith('/var/tmp/' + n + '/'):\n      os.rename(b + '/' + n, b + '/gone'); os.makedirs(S.ws)",
    "the memory directory filled": "d = os.open('/dev/shm/fill', os.O_CREAT | os.O_WRONLY)\ntry: os.posix_fallocate(d, 0, 200 << 20)\nexcept OSError: pass",
    "every descriptor of a parent closed": "for n in range(3, 64):\n  try: os.close(n)\n  except OSError: pass",
    "the leader's status hidden by a tracer": "pid = os.getppid(); call('ptrace', 16, pid, 0, 0)",
    "stopped processes left": "for _ in range(5):\n  if os.fork() == 0: os.setsid(); os.kill(os.getpid(), 19); os._exit(0)",
    "processes that ignore every signal left": "for _ in range(5):\n  if os.fork() == 0:\n    os.setsid()\n    for n in range(1, 32):\n      try: signal.signal(n, signal.SIG_IGN)\n      except (OSError, ValueError): pass\n    time.sleep(300)",
}  # fmt: skip
for _name, _code in _BREAKS.items():
    add("the launcher itself", _name, _code, _broken, alone=True, no_control="there is no next command in the control")


def _tree_left(scene: Scene, output: str) -> bool:
    time.sleep(0.05)
    return any(_marker(scene) in _command_line(pid) for pid in os.listdir("/proc") if pid.isdigit())


def _marker(scene: Scene) -> bytes:
    return f"left-{scene.token}".encode()


def _command_line(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


_SLEEP = "['sh', '-c', ': left-' + S.token + '; sleep 20; :']"
_SURVIVALS = {
    "setsid": f"subprocess.Popen({_SLEEP}, start_new_session=True)",
    "double fork": f"if os.fork() == 0:\n  os.setsid()\n  if os.fork() == 0: os.execvp('sh', {_SLEEP})\n  os._exit(0)",
    "a stopped process": f"if os.fork() == 0:\n  os.setsid(); p = subprocess.Popen({_SLEEP}); os.kill(p.pid, 19); os._exit(0)",
    "a subreaper": f"if os.fork() == 0:\n  os.setsid(); _libc.prctl(36, 1, 0, 0, 0); subprocess.Popen({_SLEEP}, start_new_session=True); os.execvp('sh', {_SLEEP})",
    "vfork": "subprocess.Popen(['sh', '-c', 'setsid sh -c \": left-%s; sleep 20; :\" &' % S.token])",
    "PR_SET_PDEATHSIG cleared": f"if os.fork() == 0:\n  os.setsid(); _libc.prctl(1, 0, 0, 0, 0); os.execvp('sh', {_SLEEP})",
}  # fmt: skip
for _name, _code in _SURVIVALS.items():
    add("outliving the command", _name, _code, _tree_left, alone=True)

# Policy and audit log.


def _log(scene: Scene) -> None:
    path = scene.host.outside / "policy.toml"
    if not path.exists():
        path.write_text("workspace = '.'\n")
    if not scene.host.audit_path.exists():
        scene.host.audit_path.write_text('{"first": "line"}\n')
    path.chmod(0o666)
    scene.notes.update(policy=str(path), audit=str(scene.host.audit_path))


def _tampered(name: str) -> Effect:
    def effect(scene: Scene, output: str) -> bool:
        path = Path(scene.notes[name])
        return not path.exists() or scene.token in path.read_text() or not path.stat().st_size

    return effect


for _target in ("policy", "audit"):
    for _name, _code in {
        "append": "append(S.{t}, S.token + '\\n')",
        "rename over": "put('f', S.token); os.rename('f', S.{t})",
        "hard link and append": "os.link(S.{t}, 'alias'); append('alias', S.token)",
        "by /proc/HOST/root": "append('/proc/%d/root%s' % (S.host_pid, S.{t}), S.token)",
        "by /proc/HOST/fd": "for n in os.listdir('/proc/%d/fd' % S.host_pid):\n  l = '/proc/%d/fd/%s' % (S.host_pid, n)\n  try:\n    if os.readlink(l) == S.{t}: append(l, S.token)\n  except OSError: pass\nappend('/proc/%d/root%s' % (S.host_pid, S.{t}), S.token)",
        "by every descriptor": "for p in os.listdir('/proc'):\n  if p.isdigit():\n    try: ns = os.listdir('/proc/%s/fd' % p)\n    except OSError: continue\n    for n in ns:\n      l = '/proc/%s/fd/%s' % (p, n)\n      try:\n        if os.readlink(l) == S.{t}: append(l, S.token)\n      except OSError: pass\nappend(S.{t}, S.token)",
    }.items():
        add(f"{_target} tampering", _name, _code.replace("{t}", _target), _tampered(_target), prepare=_log)
    add(f"{_target} tampering", "truncate", f"os.truncate(S.{_target}, 0)", _tampered(_target), prepare=_log, alone=True)
    add(f"{_target} tampering", "unlink", f"os.unlink(S.{_target})", _tampered(_target), prepare=_log, alone=True)
