"""Ordinary programs work under the filters. Each of these was broken by some sandbox: the cases are the field's reports."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from fable_exec.confine import filters
from fable_exec.confine.seccomp import ARCHITECTURES, Rule
from tests.confine.entering import filtered

pytestmark = [
    pytest.mark.requires_ability("linux"),
    pytest.mark.skipif(platform.machine() not in ARCHITECTURES, reason="no table for this machine"),
]

MODES = {"strict": filters.strict(), "plain": filters.plain(), "strict-tcp": filters.strict(inet="tcp")}
both = pytest.mark.parametrize("rules", MODES.values(), ids=MODES)
GIT = {
    "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b.c",
    "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b.c",
}  # fmt: skip


def run(rules: Sequence[Rule], argv: Sequence[str], cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(cwd), "TMPDIR": str(cwd), **GIT, **more}
    done = filtered(rules, argv, cwd=cwd, env=environment)
    assert done.returncode == 0, done.stderr
    return done


def run_python(rules: Sequence[Rule], program: str, cwd: Path, **more: str) -> str:
    (cwd / "program.py").write_text(program)
    return run(rules, [sys.executable, "-I", "program.py"], cwd, **more).stdout.strip()


THREADSAFE = """
import asyncio, threading
async def main():
    loop = asyncio.get_running_loop()
    async def answer(): return 42
    return await asyncio.to_thread(lambda: asyncio.run_coroutine_threadsafe(answer(), loop).result(10))
print(asyncio.run(main()))
"""
SUBPROCESS = """
import asyncio, subprocess, sys
async def main():
    process = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
    out, _ = await process.communicate(b"42")
    return out.decode()
subprocess.run(["true"], check=True)
subprocess.run(["true"], check=True, close_fds=False)
subprocess.run(["true"], check=True, start_new_session=True, cwd="/")
process = subprocess.Popen(["sleep", "60"])
process.terminate()
assert process.wait(30) == -15
print(asyncio.run(main()))
"""
PAIR = """
import socket
for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
    one, other = socket.socketpair(socket.AF_UNIX, kind)
    one.send(b"4"); one.sendall(b"2"); one.sendmsg([b"!"])
    first = other.recv(1)
    one.shutdown(socket.SHUT_WR)
one, other = socket.socketpair()
socket.send_fds(one, [b"x"], [0])
assert socket.recv_fds(other, 1, 1)[1]
print(42)
"""
THREADS = """
import threading, os
results = []
threads = [threading.Thread(target=lambda n=n: results.append(n)) for n in range(40)]
for t in threads: t.start()
for t in threads: t.join()
pid = os.fork()
if pid == 0: os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
print(len(results) + 2)
"""
DATABASE = """
import sqlite3
base = sqlite3.connect("data.db")
base.execute("pragma journal_mode=wal")
base.execute("create table t(x)")
base.executemany("insert into t values (?)", [(n,) for n in range(42)])
base.commit()
print(base.execute("select count(*) from t").fetchone()[0])
"""
FILES = """
import os, shutil, tempfile, time, resource
folder = tempfile.mkdtemp()
path = os.path.join(folder, "f")
open(path, "w").write("42")
os.chmod(path, 0o600); os.utime(path, (1, 1))
try: os.setxattr(path, "user.x", b"y")
except OSError as error: assert error.errno == 95
shutil.copy2(path, path + "2"); shutil.copytree(folder, folder + "c"); shutil.rmtree(folder + "c")
os.nice(1); os.sched_setaffinity(0, os.sched_getaffinity(0)); resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
memory = os.memfd_create("x"); os.write(memory, b"1")
print(open(path + "2").read())
"""


@both
@pytest.mark.parametrize(
    "program",
    [THREADSAFE, SUBPROCESS, PAIR, THREADS, DATABASE, FILES],
    ids=["coroutine from a thread", "subprocesses", "socket pairs", "threads and fork", "sqlite", "files"],
)
def test_a_python_program_works(rules: Sequence[Rule], program: str, workspace: Path) -> None:
    assert run_python(rules, program, workspace) == "42"


POOL = """
import multiprocessing
def double(n): return 2 * n
if __name__ == "__main__":
    context = multiprocessing.get_context("{method}")
    with context.Pool(2) as pool:
        print(sum(pool.map(double, [10, 11])))
"""


@pytest.mark.parametrize(
    ("mode", "method"),
    [("strict", "fork"), ("strict", "spawn"), ("strict", "forkserver"), ("plain", "fork"), ("plain", "spawn")],
)
def test_multiprocessing_works(mode: str, method: str, workspace: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as short:  # the path of a socket has room for 107 bytes
        assert run_python(MODES[mode], POOL.format(method=method), workspace, TMPDIR=short) == "42"


def test_the_fork_server_is_what_plain_mode_gives_up(workspace: Path) -> None:
    """It listens on a socket with a path, and in plain mode such sockets would reach the host's."""
    (workspace / "program.py").write_text(POOL.format(method="forkserver"))
    done = filtered(MODES["plain"], [sys.executable, "-I", "program.py"], cwd=workspace)
    assert done.returncode != 0
    assert "PermissionError: [Errno 13]" in done.stderr


SHELL = """
set -e
diff <(echo 42) <(echo 42)
cat <<END > here
42
END
name=$(mktemp); cp here "$name"; tar cf all.tar here; rm here; tar xf all.tar
sleep 60 & kill $!; wait $! || true
printf '%s\\n' 3 1 2 | sort | head -1 > /dev/null
sed -i s/42/43/ here; sed -i s/43/42/ here
(trap 'exit 0' TERM; kill -TERM $BASHPID; sleep 1)
timeout 5 nice -n 1 env cat "$name"
"""


@both
def test_the_shells_idioms_work(rules: Sequence[Rule], workspace: Path) -> None:
    assert run(rules, ["bash", "-c", SHELL], workspace).stdout.strip() == "42"


@both
@pytest.mark.requires_ability("git")
def test_git_works(rules: Sequence[Rule], workspace: Path) -> None:
    program = """
    set -e
    git init -q -b main project; cd project
    echo 1 > f; git add f; git commit -q -m one
    git checkout -q -b other; echo 2 > f; git commit -q -a -m two; git stash list
    cd ..; git clone -q project copy; cd copy; git worktree add -q ../tree origin/main; git gc -q
    git log --oneline --all | wc -l
    """
    assert run(rules, ["bash", "-c", program], workspace).stdout.strip() == "2"


NODE = """
const {spawnSync, execSync} = require("child_process");
const {Worker} = require("worker_threads");
const done = spawnSync("cat", [], {input: "42"});
if (done.error || done.status !== 0) throw done.error || new Error("status " + done.status);
if (execSync("echo x").toString() !== "x\\n") throw new Error("execSync");
require("fs").readFile(__filename, (error) => {
  if (error) throw error;
  const worker = new Worker("require('worker_threads').parentPort.postMessage(1)", {eval: true});
  worker.on("message", () => console.log(done.stdout.toString()));
});
"""


@both
@pytest.mark.requires_ability("node")
def test_node_works(rules: Sequence[Rule], workspace: Path) -> None:
    (workspace / "program.js").write_text(NODE)
    assert run(rules, ["node", "program.js"], workspace).stdout.strip() == "42"


@both
@pytest.mark.requires_ability("gcc")
def test_a_program_is_built_and_run(rules: Sequence[Rule], workspace: Path) -> None:
    (workspace / "program.c").write_text('#include <stdio.h>\nint main(void) { puts("42"); return 0; }\n')
    assert run(rules, ["sh", "-c", "gcc -o program program.c && ./program"], workspace).stdout.strip() == "42"


@both
def test_a_call_that_is_missing_is_replaced_by_what_came_before_it(rules: Sequence[Rule], workspace: Path) -> None:
    """glibc starts threads by clone3 and falls back on clone; so the answer must be ENOSYS, not EPERM."""
    program = "import threading; t = threading.Thread(target=print, args=(42,)); t.start(); t.join()"
    assert run(rules, [sys.executable, "-I", "-c", program], workspace).stdout.strip() == "42"
