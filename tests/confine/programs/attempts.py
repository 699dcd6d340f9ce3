"""Try operations on files, sockets and processes, named on standard input as JSON; print the errno of each (0 = it worked)."""

import errno
import fcntl
import json
import os
import socket
import subprocess
import sys


def connect(port):
    with socket.socket() as one:
        one.connect(("127.0.0.1", port))


def bind(port):
    with socket.socket() as one:
        one.bind(("127.0.0.1", port))


def fast_open(port):
    with socket.socket() as one:
        one.sendto(b"x", 0x20000000, ("127.0.0.1", port))


def datagram(port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.sendto(b"x", ("127.0.0.1", port))


def abstract(name):
    with socket.socket(socket.AF_UNIX) as one:
        one.connect("\0" + name)


def pathname(path):
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(path)


def listen_at(path):
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(path)


def write(path, flags=0):
    os.close(os.open(path, os.O_WRONLY | flags))


def read(path):
    with open(path, "rb") as file:
        file.read(1)


def truncate_open(path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def device_ioctl(path):
    """FIONREAD, 0x541B: what a device without it answers is ENOTTY or EINVAL, which is not a refusal."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.ioctl(descriptor, 0x541B, b"\0\0\0\0")
    except OSError as error:
        if error.errno == errno.EACCES:
            raise
    finally:
        os.close(descriptor)


def execute_memory(path):
    memory = os.memfd_create("program")
    with open(path, "rb") as program:
        os.write(memory, program.read())
    subprocess.run([f"/proc/self/fd/{memory}"], pass_fds=[memory], check=True)


ATTEMPTS = {
    "read": read,
    "list": os.listdir,
    "write": write,
    "append": lambda path: write(path, os.O_APPEND),
    "create": lambda path: write(path, os.O_CREAT | os.O_EXCL),
    "truncate": lambda path: os.truncate(path, 0),
    "truncate_open": truncate_open,
    "mkdir": os.mkdir,
    "rmdir": os.rmdir,
    "unlink": os.unlink,
    "symlink": lambda path: os.symlink("x", path),
    "fifo": os.mkfifo,
    "link": os.link,
    "rename": os.rename,
    "execute": lambda path: subprocess.run([path], check=True),
    "execute_memory": execute_memory,
    "reopen": lambda path: write(f"/proc/self/fd/{os.open(path, os.O_RDONLY)}"),
    "device_ioctl": device_ioctl,
    "connect": connect,
    "bind": bind,
    "fast_open": fast_open,
    "datagram": datagram,
    "abstract": abstract,
    "pathname": pathname,
    "listen_at": listen_at,
    "signal": lambda pid: os.kill(pid, 0),
    "memory": lambda pid: os.close(os.open(f"/proc/{pid}/mem", os.O_RDONLY)),
    "chmod": lambda path: os.chmod(path, 0o600),
}

answers = []
for name, *arguments in json.load(sys.stdin):
    try:
        ATTEMPTS[name](*arguments)
        answers.append(0)
    except OSError as error:
        answers.append(error.errno)
print(json.dumps(answers))
