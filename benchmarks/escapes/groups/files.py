"""Files outside: writes, metadata, secrets, links, /proc's ways back in, and what an embedding process left open."""

from __future__ import annotations

import os
import subprocess

from benchmarks.escapes.attempt import Registry, Setup, printed, won
from benchmarks.escapes.scene import Scene

__all__ = ["ATTEMPTS"]

ATTEMPTS = Registry()
add = ATTEMPTS.add

# Writes. A marker in the host's directory is the effect.


def _marked(scene: Scene, output: str) -> bool:
    return any(scene.token in path.name or (path.is_file() and scene.token in path.read_text()) for path in scene.outside.iterdir())


def _changed(scene: Scene, output: str) -> bool:
    """The bait is not what it was, down to its inode's times and attributes."""
    return bool(_state(scene) != scene.notes["state"])


def _state(scene: Scene) -> list[object]:
    path = scene.outside / "secret"
    try:
        found = path.lstat()
    except FileNotFoundError:
        return []
    attributes = {name: os.getxattr(path, name) for name in os.listxattr(path)}
    flags = subprocess.run(["lsattr", "-d", str(path)], capture_output=True, text=True).stdout[:20]
    text = path.read_text()
    return [found.st_mode, found.st_uid, found.st_gid, found.st_mtime_ns, found.st_size, found.st_nlink, text, repr(attributes), flags]


def _bait(scene: Scene) -> None:
    scene.bait(mode=0o666)
    scene.notes["state"] = _state(scene)


_WRITES = {
    "creat": "put(S.out + '/' + S.token, 'x')",
    "mkdir": "os.mkdir(S.out + '/' + S.token)",
    "symlink": "os.symlink('x', S.out + '/' + S.token)",
    "fifo": "os.mkfifo(S.out + '/' + S.token)",
    "socket file": "socket.socket(socket.AF_UNIX).bind(S.out + '/' + S.token)",
    "relative path": "put('../../outside/' + os.path.basename(S.out) + '/' + S.token, 'x')",
    "link out of the workspace": "put('f', 'x'); os.link('f', S.out + '/' + S.token)",
    "rename out of the workspace": "put('f', 'x'); os.rename('f', S.out + '/' + S.token)",
    "through a link laid in the workspace": "os.symlink(S.out, 'l'); put('l/' + S.token, 'x')",
    "through a chain of links": "os.symlink('..', 'u'); os.symlink('u/u/../../outside', 'l'); "
    "put(os.path.realpath('l').replace('/a', '/a', 1) + '/' + os.path.basename(S.out) + '/' + S.token, 'x')",
    "by /proc/self/root": "put('/proc/self/root' + S.out + '/' + S.token, 'x')",
    "by /proc/self/cwd/..": "put('/proc/self/cwd/../../outside/' + os.path.basename(S.out) + '/' + S.token, 'x')",
    "by /proc/1/root": "put('/proc/1/root' + S.out + '/' + S.token, 'x')",
    "by /proc/HOST/root": "put('/proc/%d/root%s/%s' % (S.host_pid, S.out, S.token), 'x')",
    "by /proc/HOST/cwd": "put('/proc/%d/cwd/%s' % (S.vault['pid'], S.out + '/' + S.token), 'x')",
    "O_TMPFILE and linkat": "d = os.open(S.out, os.O_TMPFILE | os.O_RDWR, 0o600); "
    "os.link('/proc/self/fd/%d' % d, S.out + '/' + S.token, follow_symlinks=True)",
    "a memory file's program": "m = os.memfd_create('p'); os.write(m, b'#!/bin/sh\\necho x > %s/%s\\n' % (S.out.encode(), S.token.encode()))"
    "; run('/proc/self/fd/%d' % m, pass_fds=[m])",
    "a memory file's program by execveat": "m = os.memfd_create('p'); os.write(m, get('/bin/touch')); pid = os.fork()\n"
    "if pid == 0:\n  a = (ctypes.c_char_p * 3)(b'touch', (S.out + '/' + S.token).encode(), None)\n"
    "  call('execveat', m, ctypes.c_char_p(b''), a, ctypes.c_void_p(None), 0x1000); os._exit(1)\nos.waitpid(pid, 0)",
    "by a set-user-id shell": "run('su', 'root', '-c', 'touch %s/%s' % (S.out, S.token))",
    "by a set-user-id copy": "run('cp', '/bin/touch', 't'); os.chmod('t', 0o6755); run('./t', S.out + '/' + S.token)",
    "by a core dump": "put('/proc/self/coredump_filter', '0x33'); import resource; "
    "resource.setrlimit(resource.RLIMIT_CORE, (1 << 20, 1 << 20)); os.chdir(S.out); won() if False else put(S.token, 'x')",
    "from a thread": "import threading; t = threading.Thread(target=put, args=(S.out + '/' + S.token, 'x')); t.start(); t.join()",
    "from a double fork": "run('setsid', 'sh', '-c', '(echo x > %s/%s) & wait' % (S.out, S.token))",
    "by copy_file_range": "put('f', 'x'); a = os.open('f', os.O_RDONLY); b = os.open(S.out + '/' + S.token, os.O_WRONLY | os.O_CREAT); "
    "os.copy_file_range(a, b, 1)",
    "after chroot": "os.chroot('/'); put(S.out + '/' + S.token, 'x')",
    "by openat2 with RESOLVE_IN_ROOT": "h = (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_WRONLY, 0o600, 0x10); r = os.open('/', os.O_PATH); "
    "call(437, r, ctypes.c_char_p((S.out + '/' + S.token).encode()), h, 24)",
}
for _name, _code in _WRITES.items():
    add("outside writes", _name, _code, _marked)

_CHANGES = {
    "overwrite": "put(S.out + '/secret', 'gone')",
    "append": "append(S.out + '/secret', 'more')",
    "truncate": "os.truncate(S.out + '/secret', 0)",
    "open with O_TRUNC for reading": "os.open(S.out + '/secret', os.O_RDONLY | os.O_TRUNC)",
    "unlink": "os.unlink(S.out + '/secret')",
    "rename over": "put('f', 'x'); os.rename('f', S.out + '/secret')",
    "rename away": "os.rename(S.out + '/secret', 'f')",
    "exchange": "put('f', 'x'); call('renameat2', -100, ctypes.c_char_p(b'f'), -100, ctypes.c_char_p((S.out + '/secret').encode()), 2)",
    "hard link into the workspace": "os.link(S.out + '/secret', 'alias'); append('alias', 'x')",
    "hard link by /proc/self/fd": "d = os.open(S.out + '/secret', os.O_RDONLY); "
    "os.link('/proc/self/fd/%d' % d, 'alias', follow_symlinks=True); append('alias', 'x')",
    "reopen for writing by /proc/self/fd": "d = os.open(S.out + '/secret', os.O_RDONLY); append('/proc/self/fd/%d' % d, 'x')",
    "reopen an O_PATH descriptor": "d = os.open(S.out + '/secret', os.O_PATH); append('/proc/self/fd/%d' % d, 'x')",
    "shared mapping": "import mmap; d = os.open(S.out + '/secret', os.O_RDWR); m = mmap.mmap(d, 4); m[0:1] = b'X'; m.flush()",
    "fallocate": "d = os.open(S.out + '/secret', os.O_RDWR); os.posix_fallocate(d, 0, 4096)",
    "io_uring write": "run(S.bin + '/uring', S.out + '/secret')",
}  # fmt: skip
for _name, _code in _CHANGES.items():
    add("outside writes", f"{_name} (existing file)", _code, _changed, prepare=_bait)

# Metadata. Landlock has no right for it, so without namespaces these are documented as weaker.
_METADATA = {
    "chmod": "os.chmod(S.out + '/secret', 0o600)",
    "fchmod of a descriptor": "os.fchmod(os.open(S.out + '/secret', os.O_RDONLY), 0o600)",
    "chmod by /proc/self/fd": "d = os.open(S.out + '/secret', os.O_PATH); os.chmod('/proc/self/fd/%d' % d, 0o600)",
    "fchmodat2": "call('fchmodat2', -100, ctypes.c_char_p((S.out + '/secret').encode()), 0o600, 0)",
    "chown": "os.chown(S.out + '/secret', 12345, 12345)",
    "lchown": "os.lchown(S.out + '/secret', 12345, -1)",
    "utime": "os.utime(S.out + '/secret', (1, 1))",
    "utime now": "time.sleep(0.02); os.utime(S.out + '/secret')",
    "setxattr": "os.setxattr(S.out + '/secret', 'user.x', b'x')",
    "setxattrat": "a = (ctypes.c_uint64 * 2)(ctypes.addressof(ctypes.create_string_buffer(b'x')), 1); "
    "call('setxattrat', -100, ctypes.c_char_p((S.out + '/secret').encode()), 0, ctypes.c_char_p(b'user.y'), a, 16)",
    "inode flags by a read-only descriptor": "d = os.open(S.out + '/secret', os.O_RDONLY); f = ctypes.c_long(0x80); "
    "call('ioctl', d, 0x40086602, ctypes.byref(f))",
    "file_setattr": "a = (ctypes.c_uint64 * 3)(0x40, 0, 0); "
    "call('file_setattr', -100, ctypes.c_char_p((S.out + '/secret').encode()), a, 24, 0)",
    "access control list": "run('setfacl', '-m', 'u:12345:r', S.out + '/secret')",
}  # fmt: skip
for _name, _code in _METADATA.items():
    add("outside metadata", _name, _code, _changed, prepare=_bait, weaker=True)

# Secrets. The secret in the output is the effect.


def _home_secret(relative: str) -> Setup:
    def prepare(scene: Scene) -> None:
        path = scene.host.home / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(scene.secret)

    return prepare


def _beside(scene: Scene) -> None:
    scene.bait()


for _path in (".ssh/id_ed25519", ".aws/credentials", ".gnupg/secring.gpg", ".netrc", ".docker/config.json", ".kube/config", ".env"):
    add("secrets", f"~/{_path}", f"print(get(S.home + '/{_path}'))", printed, prepare=_home_secret(_path))
_READS = {
    "a file beside the workspace": "print(get(S.out + '/secret'))",
    "by a relative path": "print(get('../../outside/' + os.path.basename(S.out) + '/secret'))",
    "through a link laid in the workspace": "os.symlink(S.out + '/secret', 'l'); print(get('l'))",
    "by /proc/self/root": "print(get('/proc/self/root' + S.out + '/secret'))",
    "by /proc/1/root": "print(get('/proc/1/root' + S.out + '/secret'))",
    "by /proc/HOST/root": "print(get('/proc/%d/root%s/secret' % (S.host_pid, S.out)))",
    "by /proc/PARENT/root": "print(get('/proc/%d/root%s/secret' % (os.getppid(), S.out)))",
    "by /proc/self/task": "print(get('/proc/self/task/%d/root%s/secret' % (os.getpid(), S.out)))",
    "by an O_PATH descriptor": "d = os.open(S.out, os.O_PATH); print(os.read(os.open('secret', os.O_RDONLY, dir_fd=d), 99))",
    "hard link": "os.link(S.out + '/secret', 'alias'); print(get('alias'))",
    "rename into the workspace": "os.rename(S.out + '/secret', 'f'); print(get('f'))",
    "cat": "run('cat', S.out + '/secret')",
    "find": "run('find', S.shared, '-name', 'secret', '-exec', 'cat', '{}', ';')",
    "as a library": "run('sh', '-c', 'LD_PRELOAD=%s/secret cat %s/secret' % (S.out, S.out))",
    "as a script": "run('sh', S.out + '/secret')",
    "by open_by_handle_at": "run(S.bin + '/shocker', S.out + '/secret')",
    "io_uring read": "run(S.bin + '/uring', '-r', S.out + '/secret')",
    "by inotify": "i = _libc.inotify_init(); w = _libc.inotify_add_watch(i, S.out.encode(), 0x20)\n"
    "if w >= 0: print(get(S.out + '/secret'))",
    "by exec's error": "os.chmod(S.out + '/secret', 0o755); run(S.out + '/secret', check=False)\nprint(get(S.out + '/secret'))",
}  # fmt: skip
for _name, _code in _READS.items():
    add("secrets", _name, _code, printed, prepare=_beside)
add("secrets", "list the directory beside the workspace", "print(os.listdir(S.shared))", lambda s, out: f"'{s.outside.name}'" in out)
add("secrets", "list the host's home", "print(os.listdir(S.home))", lambda s, out: ".ssh" in out, prepare=_home_secret(".ssh/x"))


def _stat_leak(scene: Scene, output: str) -> bool:
    return f"size={len(scene.secret) + 1000}" in output


def _sized(scene: Scene) -> None:
    scene.bait().write_text(scene.secret + "x" * 1000)


add("secrets", "size and times by stat", "print('size=%d' % os.stat(S.out + '/secret').st_size)", _stat_leak, prepare=_sized, weaker=True)

_SYSTEM_SECRETS = ("/etc/shadow", "/etc/gshadow", "/etc/shadow-", "/etc/sudoers")
for _path in _SYSTEM_SECRETS:
    add("secrets", _path, f"data = get({_path!r})\nif data: won(data[:4])")
add(
    "secrets",
    "/etc/shadow by /proc/self/root and a descriptor",
    "d = os.open('/proc/self/root/etc', os.O_PATH); data = os.read(os.open('shadow', os.O_RDONLY, dir_fd=d), 9)\nif data: won()",
)
add("secrets", "/etc/shadow by getent", "run('getent', 'shadow', 'root')", lambda s, out: _shadow_line() in out)
add("secrets", "names of the system's keys", "for n in os.listdir('/etc/ssl/private'): won(n)", weaker=True)
add("secrets", "a key of the system", "won(get('/etc/ssl/private/key.pem')[:4])")
add("secrets", "the kernel's ring buffer file", "d = os.open('/dev/kmsg', os.O_RDONLY | os.O_NONBLOCK); won(os.read(d, 99))")
add("secrets", "physical memory", "won() if os.open('/proc/kcore', os.O_RDONLY) >= 0 else None")
add("secrets", "the raw disk", "import glob\nfor p in glob.glob('/dev/vd*') + glob.glob('/dev/sd*') + glob.glob('/dev/nvme*'):\n  os.open(p, os.O_RDONLY); won(p)")
add("secrets", "kernel symbols", "t = open('/proc/kallsyms').readline()\nif not t.startswith('0000000000000000'): won(t)")
add("secrets", "the host's environment by inheritance", "print(dict(os.environ))", lambda s, out: os.environ["ESCAPES_HOST_SECRET"] in out)
add(
    "secrets",
    "the host's environment by its environ",
    "print(get('/proc/%d/environ' % S.host_pid))",
    lambda s, out: os.environ["ESCAPES_HOST_SECRET"] in out,
)
add(
    "secrets",
    "the host's environment by every environ",
    "for p in os.listdir('/proc'):\n"
    "  if p.isdigit():\n    try: print(get('/proc/%s/environ' % p).replace(b'\\0', b' ')[:600])\n    except OSError: pass",
    lambda s, out: os.environ["ESCAPES_HOST_SECRET"] in out,
)
add(
    "secrets",
    "the host's environment by its ancestors' environ",
    "p = os.getpid()\nwhile p > 0:\n  try: print(p, get('/proc/%d/environ' % p).replace(b'\\0', b' ')[-900:])\n  except OSError as e: print(e)\n"
    "  p = int(open('/proc/%d/stat' % p).read().rpartition(') ')[2].split()[1])",
    lambda s, out: os.environ["ESCAPES_HOST_SECRET"] in out,
)
add(
    "secrets",
    "the host's environment by its ancestors' memory",
    "p = os.getpid()\nimport re\nwhile p > 1:\n"
    "  try:\n    with open('/proc/%d/maps' % p) as f, open('/proc/%d/mem' % p, 'rb') as m:\n      for l in f:\n"
    "        if '[stack]' in l or '[heap]' in l:\n          a, b = (int(x, 16) for x in l.split()[0].split('-')); m.seek(a); d = m.read(b - a)\n"
    "          print(p, re.findall(rb'ESCAPES_HOST_SECRET=[a-z0-9-]*', d))\n"
    "  except OSError as e: print(p, e)\n"
    "  p = int(open('/proc/%d/stat' % p).read().rpartition(') ')[2].split()[1])",
    lambda s, out: os.environ["ESCAPES_HOST_SECRET"] in out,
)



def _shadow_line() -> str:
    """The host's first line; not one that name services make up."""
    try:
        with open("/etc/shadow") as file:
            return file.readline().strip() or "no line"
    except OSError:
        return "not to be read by the host either"


# What the embedding process left open.

add(
    "inherited descriptors",
    "a file open for writing",
    "for d in range(3, 64):\n  try: os.write(d, S.token.encode())\n  except OSError: pass",
    lambda s, out: s.token in (s.host.root / "inherited").read_text(),
)
add(
    "inherited descriptors",
    "a file open for writing, by /proc/PARENT/fd",
    "for p in {os.getppid(), S.host_pid, 1}:\n  try: names = os.listdir('/proc/%d/fd' % p)\n  except OSError: continue\n"
    "  for n in names:\n    l = '/proc/%d/fd/%s' % (p, n)\n"
    "    try:\n      if os.readlink(l).endswith('/inherited'): append(l, S.token)\n    except OSError: pass",
    lambda s, out: s.token in (s.host.root / "inherited").read_text(),
)
_DIRECTORY = (
    "for d in range(0, 64):\n"
    "  try: os.close(os.open('outside/' + os.path.basename(S.out) + '/' + S.token, os.O_CREAT | os.O_WRONLY, dir_fd=d))\n"
    "  except (OSError, ValueError): pass"
)
add("inherited descriptors", "a directory of the host", _DIRECTORY, _marked)
add(
    "inherited descriptors",
    "a directory of the host, by fchdir",
    "for d in range(0, 64):\n  try: os.fchdir(d); put('outside/' + os.path.basename(S.out) + '/' + S.token, 'x')\n  except OSError: pass",
    _marked,
)
add(
    "inherited descriptors",
    "a directory as standard input of an ancestor",
    "p = os.getpid()\nwhile p > 0:\n"
    "  for n in range(10):\n    try: put('/proc/%d/fd/%d/outside/%s/%s' % (p, n, os.path.basename(S.out), S.token), 'x')\n    except OSError as e: pass\n"
    "  p = int(open('/proc/%d/stat' % p).read().rpartition(') ')[2].split()[1])",
    _marked,
)
add(
    "inherited descriptors",
    "a connected socket",
    "for d in range(3, 64):\n  try: socket.socket(fileno=os.dup(d)).send(S.token.encode())\n  except OSError: pass",
    lambda s, out: s.heard("tcp"),
)
add(
    "inherited descriptors",
    "a secret's descriptor",
    "for d in range(0, 64):\n  try: print(os.pread(d, 99, 0))\n  except OSError: pass",
    lambda s, out: (s.host.root / "inherited-secret").read_text() in out,
)
add(
    "inherited descriptors",
    "passed on in a message",
    "for d in range(3, 64):\n  try:\n    a = socket.socket(fileno=os.dup(d)); m, f, *_ = socket.recv_fds(a, 10, 4, socket.MSG_DONTWAIT)\n"
    "    print(f); [won() for x in f]\n  except OSError: pass",
    no_control="the control has nobody who would send it one",
)


def _core(scene: Scene, output: str) -> bool:
    return any(path.name.startswith("core") for path in scene.directory.rglob("core*"))


add(
    "core dumps",
    "a core file in the workspace",
    "import resource\ntry: resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2)\nexcept (OSError, ValueError) as e: print(e)\n"
    "pid = os.fork()\nif pid == 0: os.kill(os.getpid(), signal.SIGSEGV)\nos.waitpid(pid, 0); time.sleep(0.1)",
    _core,
)
add(
    "core dumps",
    "the hard limit can be raised",
    "import resource; resource.setrlimit(resource.RLIMIT_CORE, (1 << 20, 1 << 20)); won(resource.getrlimit(resource.RLIMIT_CORE))",
    won,
)
