"""The locked workspace: whatever runs may read it and change nothing, not even a time or an attribute."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.escapes.attempt import Registry
from benchmarks.escapes.scene import Scene

__all__ = ["ATTEMPTS"]

ATTEMPTS = Registry()


def tree_state(root: Path) -> list[object]:
    """Everything about a tree that a command could change."""
    state: list[object] = []
    for directory, names, files in os.walk(root):
        names.sort()
        for path in (directory, *(os.path.join(directory, name) for name in sorted(names + files))):
            found = os.lstat(path)
            attributes = [(name, os.getxattr(path, name, follow_symlinks=False)) for name in os.listxattr(path, follow_symlinks=False)]
            text = Path(path).read_bytes() if os.path.isfile(path) and not os.path.islink(path) else b""
            state.append((path, found.st_mode, found.st_uid, found.st_gid, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_nlink, attributes, text))
    return state


def _prepare(scene: Scene) -> None:
    path = scene.host.copy_repository(scene.directory / "r")
    (path / "script.sh").write_text("#!/bin/sh\necho changed > file\n")
    (path / "script.sh").chmod(0o755)
    (path / "Makefile").write_text("all:\n\techo changed > file\n")
    scene.notes["tree"] = ""
    _STATES[scene.token] = tree_state(scene.directory)


_STATES: dict[str, list[object]] = {}


def _changed(scene: Scene, output: str) -> bool:
    return tree_state(scene.directory) != _STATES[scene.token]


_WRITES = {
    "write": "put('file', 'x')",
    "append": "append('file', 'x')",
    "create": "put('new', 'x')",
    "unlink": "os.unlink('file')",
    "rename": "os.rename('file', 'other')",
    "mkdir": "os.mkdir('d')",
    "symlink": "os.symlink('x', 'l')",
    "hard link": "os.link('file', 'l')",
    "fifo": "os.mkfifo('p')",
    "truncate": "os.truncate('file', 0)",
    "O_RDONLY with O_TRUNC": "os.open('file', os.O_RDONLY | os.O_TRUNC)",
    "exchange": "call('renameat2', -100, ctypes.c_char_p(b'file'), -100, ctypes.c_char_p(b'script.sh'), 2)",
    "shared mapping": "import mmap; d = os.open('file', os.O_RDWR); m = mmap.mmap(d, 4); m[0:1] = b'X'; m.flush()",
    "a socket": "socket.socket(socket.AF_UNIX).bind('s')",
    "by the absolute path": "put(S.dir + '/r/file', 'x')",
    "by /proc/self/cwd": "put('/proc/self/cwd/file', 'x')",
    "by /proc/self/root": "put('/proc/self/root' + S.dir + '/r/file', 'x')",
    "by /proc/PARENT/cwd": "put('/proc/%d/cwd/%s/r/file' % (os.getppid(), os.path.basename(S.dir)), 'x')",
    "by /proc/HOST/root": "put('/proc/%d/root%s/r/file' % (S.host_pid, S.dir), 'x')",
    "by an open descriptor": "d = os.open('file', os.O_RDONLY); append('/proc/self/fd/%d' % d, 'x')",
    "by an O_PATH descriptor": "d = os.open('file', os.O_PATH); append('/proc/self/fd/%d' % d, 'x')",
    "by an open directory": "d = os.open('.', os.O_RDONLY); os.close(os.open('new', os.O_CREAT | os.O_WRONLY, dir_fd=d))",
    "by every inherited descriptor": "for d in range(64):\n  try: os.close(os.open('workspace/%s/r/file' % os.path.basename(S.dir), os.O_WRONLY | os.O_TRUNC, dir_fd=d))\n  except OSError: pass",
    "by every process's descriptors": "for p in os.listdir('/proc'):\n  if p.isdigit():\n    for n in ('cwd', 'root' + os.path.dirname(S.dir), 'fd/0/workspace'):\n      try: put('/proc/%s/%s/%s/r/file' % (p, n, os.path.basename(S.dir)), 'x', os.O_WRONLY)\n      except OSError: pass",
    "rename from the temporary directory": "import tempfile; t = tempfile.mktemp(); put(t, 'x'); os.rename(t, 'file')",
    "remount": "call('mount', 0, ctypes.c_char_p(S.ws.encode()), 0, 4096 | 32, 0); put('file', 'x')",
    "umount": "call('umount2', ctypes.c_char_p(S.ws.encode()), 2); put('file', 'x')",
    "user namespace and remount": "run('unshare', '-Urm', 'sh', '-c', 'mount -o remount,rw,bind %s; echo x > file' % S.ws)",
    "io_uring": "run(S.bin + '/uring', 'file')",
    "int 0x80": "run(S.bin + '/int80', 'creat', 'file')",
    "a memory file's program": "m = os.memfd_create('p'); os.write(m, b'#!/bin/sh\\necho x > file\\n'); run('/proc/self/fd/%d' % m, pass_fds=[m])",
    "a daemon": "if os.fork() == 0:\n  os.setsid(); put('file', 'x'); os._exit(0)\ntime.sleep(0.05)",
}  # fmt: skip
_METADATA = {
    "chmod": "os.chmod('file', 0o600)",
    "chmod of the directory": "os.chmod('.', 0o700)",
    "fchmod": "os.fchmod(os.open('file', os.O_RDONLY), 0o600)",
    "fchmodat2": "call('fchmodat2', -100, ctypes.c_char_p(b'file'), 0o600, 0)",
    "utime": "os.utime('file', (1, 1))",
    "utime of the directory": "os.utime('.', (1, 1))",
    "futimens": "os.utime(os.open('file', os.O_RDONLY), (1, 1))",
    "touch": "run('touch', 'file')",
    "chown": "os.chown('file', os.getuid(), os.getgid() if os.getuid() else 12345)",
    "chown to itself": "os.chown('file', os.getuid(), os.getgid())",
    "setxattr": "os.setxattr('file', 'user.x', b'x')",
    "setxattrat": "b = ctypes.create_string_buffer(b'x'); a = (ctypes.c_uint64 * 2)(ctypes.addressof(b), 1); call('setxattrat', -100, ctypes.c_char_p(b'file'), 0, ctypes.c_char_p(b'user.y'), a, 16)",
    "inode flags": "d = os.open('file', os.O_RDONLY); v = ctypes.c_long(0x80); call('ioctl', d, 0x40086602, ctypes.byref(v))",
    "inode flags, high bits": "d = os.open('file', os.O_RDONLY); v = ctypes.c_long(0x80); call('ioctl', d, 1 << 40 | 0x40086602, ctypes.byref(v))",
    "project id": "d = os.open('file', os.O_RDONLY); b = ctypes.create_string_buffer((0x40).to_bytes(4, 'little') + bytes(24)); call('ioctl', d, 0x401C5820, b)",
    "inode version": "d = os.open('file', os.O_RDONLY); v = ctypes.c_long(77); call('ioctl', d, 0x40087602, ctypes.byref(v)); w = ctypes.c_long(); call('ioctl', d, 0x80087601, ctypes.byref(w)); os.utime(d, (1, 1)) if False else None",
    "file_setattr": "a = (ctypes.c_uint64 * 3)(0x40, 0, 0); call('file_setattr', -100, ctypes.c_char_p(b'file'), a, 24, 0)",
    "access control list": "run('setfacl', '-m', 'u:12345:r', 'file')",
}  # fmt: skip
_PROGRAMS = {
    "sh": "run('sh', '-c', 'echo x > file')",
    "bash": "run('bash', '-c', 'echo x > file')",
    "perl": "run('perl', '-e', 'open(F, \">file\"); print F 1')",
    "node": "run('node', '-e', 'require(\"fs\").writeFileSync(\"file\", \"x\")')",
    "find -exec": "run('find', '.', '-name', 'file', '-exec', 'sh', '-c', 'echo x > file', ';')",
    "find -delete": "run('find', '.', '-name', 'file', '-delete')",
    "find -fprint": "run('find', '.', '-maxdepth', '0', '-fprint', 'file')",
    "env": "run('env', 'sh', '-c', 'echo x > file')",
    "xargs": "run('sh', '-c', 'echo file | xargs rm')",
    "timeout": "run('timeout', '3', 'sh', '-c', 'echo x > file')",
    "nice": "run('nice', 'sh', '-c', 'echo x > file')",
    "git alias": "run('git', '-c', 'alias.x=!echo x > file', 'x')",
    "git commit": "run('git', '-c', 'user.name=a', '-c', 'user.email=b', 'commit', '-q', '--allow-empty', '-m', 'x')",
    "git checkout": "run('git', 'checkout', '-q', '-b', 'other')",
    "git config": "run('git', 'config', 'user.name', 'x')",
    "git status": "os.utime('file') if False else run('git', 'update-index', '--refresh', '--really-refresh'); run('git', 'add', '-A')",
    "tar --checkpoint-action": "run('tar', '-cf', '/dev/null', '--checkpoint=1', '--checkpoint-action=exec=sh script.sh', '.')",
    "sort -o": "run('sort', '-o', 'file', 'Makefile')",
    "sed w": "run('sed', '-n', 'w file', 'Makefile')",
    "sed -i": "run('sed', '-i', 's/t/x/', 'file')",
    "sed e": "run('sed', '1e sh script.sh', 'file')",
    "awk system": "run('awk', 'BEGIN { system(\"sh script.sh\") }')",
    "awk redirection": "run('awk', 'BEGIN { print \"x\" > \"file\" }')",
    "dd": "run('dd', 'if=/dev/zero', 'of=file', 'count=1', 'status=none')",
    "cp": "run('cp', 'Makefile', 'file')",
    "tee": "run('sh', '-c', 'echo x | tee file')",
    "make": "run('make', '-s')",
    "the workspace's own script": "run('./script.sh')",
    "rm -rf": "run('rm', '-rf', 'file')",
    "patch": "run('sh', '-c', 'printf -- \"--- file\\n+++ file\\n@@ -1 +1 @@\\n-text\\n+x\\n\" | patch -s -p0')",
    "gcc -o": "run('sh', '-c', 'echo \"int main;\" | gcc -w -c -x c -o file -')",
    "python -c": "run('python3', '-c', 'open(\"file\", \"w\")')",
    "flock": "run('flock', 'new', 'true')",
    "split": "run('split', '-l', '1', 'Makefile')",
    "install": "run('install', 'Makefile', 'file')",
    "truncate": "run('truncate', '-s', '0', 'file')",
    "ln": "run('ln', '-sf', 'x', 'file')",
}  # fmt: skip
for _group, _table in (("locked: writes", _WRITES), ("locked: metadata", _METADATA), ("locked: programs and wrappers", _PROGRAMS)):
    for _name, _code in _table.items():
        ATTEMPTS.add(_group, _name, "os.chdir('r')\n" + _code, _changed, prepare=_prepare, locked=True)
