"""What people run every day works unlocked under strict confinement. What plain mode cannot do is a short list, and just that."""

from __future__ import annotations

import errno
import io
import os
import pwd
import subprocess
import sys
import tarfile
import textwrap
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest

from fable_exec import CommandResult, EnvironmentPolicy, ExecutionBroker
from tests import abilities
from tests.confinement.places import GIT, available, confined, in_modes, left_on_the_host

pytestmark = pytest.mark.requires_ability("linux", "git")

PROGRAMS = (
    *available(
        "awk", "bash", "cat", "cp", "diff", "du", "find", "gcc", "git", "grep", "head", "ls",
        "make", "mktemp", "mv", "node", "npm", "perl",
        "rm", "sed", "sh", "sort", "sqlite3", "stat", "tail", "tar", "tee", "touch", "tr", "wc", "xargs",
    ),
    sys.executable,
)  # fmt: skip
PYTHON = Path(sys.executable).name
WITHOUT_OUR_PLUGIN = ("-p", "no:fable_exec")
"""Where this project is installed from its tree, that tree is not for confined commands to read."""

THREADSAFE = """
import asyncio
async def main():
    loop = asyncio.get_running_loop()
    async def answer(): return 42
    return await asyncio.to_thread(lambda: asyncio.run_coroutine_threadsafe(answer(), loop).result(10))
assert asyncio.run(main()) == 42
"""
ASYNCIO_CHILD = """
import asyncio
async def main():
    process = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
    out, _ = await process.communicate(b"42")
    assert out == b"42"
asyncio.run(main())
"""
POOL = """
import multiprocessing, sys
def double(number): return number * 2
if __name__ == "__main__":
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
        assert pool.map(double, [1, 2, 3]) == [2, 4, 6]
"""
PIPE = """
import multiprocessing
def say(end): end.send("hello")
if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=say, args=(theirs,))
    child.start()
    assert ours.recv() == "hello"
    child.join()
"""
THREADS = """
import threading
results = []
threads = [threading.Thread(target=results.append, args=(n,)) for n in range(20)]
[t.start() for t in threads]; [t.join() for t in threads]
assert sorted(results) == list(range(20))
"""
EXECUTOR = """
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
if __name__ == "__main__":
    with ThreadPoolExecutor(4) as threads: assert list(threads.map(abs, [-1, -2])) == [1, 2]
    with ProcessPoolExecutor(2) as processes: assert list(processes.map(abs, [-1, -2])) == [1, 2]
"""
SQLITE = """
import sqlite3
with sqlite3.connect("data.db") as database:
    database.execute("pragma journal_mode=wal")
    database.execute("create table t (x)"); database.execute("insert into t values (42)")
assert sqlite3.connect("data.db").execute("select x from t").fetchone() == (42,)
"""
SHARED_MEMORY = """
from multiprocessing import shared_memory
block = shared_memory.SharedMemory(create=True, size=100)
block.buf[0] = 42; block.close(); block.unlink()
"""
AFFINITY = """
import os, threading
ready, done = threading.Event(), threading.Event()
thread = threading.Thread(target=lambda: (ready.set(), done.wait())); thread.start(); ready.wait()
try: os.sched_setaffinity(thread.native_id, os.sched_getaffinity(0))
finally: done.set()
"""
LOOPBACK = """
import socket, threading
server = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=lambda: server.accept()[0].sendall(b"42")).start()
with socket.create_connection(server.getsockname()) as client: assert client.recv(2) == b"42"
"""
UNIX_SERVER = """
import socket, threading
server = socket.socket(socket.AF_UNIX); server.bind("own.sock"); server.listen()
threading.Thread(target=lambda: server.accept()[0].sendall(b"42")).start()
client = socket.socket(socket.AF_UNIX); client.connect("own.sock"); assert client.recv(2) == b"42"
"""
NODE_SPAWN = (
    "const r=require('child_process').spawnSync('sh',['-c','echo 42']);if(r.stdout.toString().trim()!=='42')process.exit(1)"
)
NODE_EXEC = "require('child_process').exec('echo 42',(e,out)=>process.exit(!e&&out.trim()==='42'?0:1))"
NODE_WORKER = (
    "const{Worker}=require('worker_threads');new Worker('require(\"worker_threads\").parentPort.postMessage(42)',{eval:true})"
    ".on('message',m=>process.exit(m===42?0:1))"
)
NODE_HTTP = (
    "const s=require('http').createServer((q,r)=>r.end('42')).listen(0,'127.0.0.1',()=>require('http').get("
    "{port:s.address().port,host:'127.0.0.1'},r=>{process.exit(r.statusCode===200?0:1)}))"
)

EVERYDAY: dict[str, tuple[str, ...]] = {
    "git init": ("bash", "-c", "git init -q made && rm -rf made"),
    "git status": ("git", "status", "--short"),
    "git add": ("git", "add", "-A"),
    "git commit": ("git", "commit", "-q", "--allow-empty", "-m", "work"),
    "git branch": ("git", "branch", "topic"),
    "git switch": ("git", "switch", "-q", "-c", "other"),
    "git stash": ("bash", "-c", "echo more >> main.c && git stash -q && git stash pop -q && git checkout -q main.c"),
    "git diff": ("bash", "-c", "echo >> tests/test_it.py && git diff --stat | grep -q test_it && git checkout -q tests"),
    "git log": ("git", "log", "--oneline"),
    "git merge": (
        "bash", "-c", "git switch -q -c side && git commit -q --allow-empty -m side && git switch -q - && git merge -q side",
    ),
    "git rebase": (
        "bash", "-c", "git switch -q -c base && git commit -q --allow-empty -m b && git switch -q - && git rebase -q base",
    ),
    "git tag": ("git", "tag", "v1"),
    "git clone of a local repository": ("git", "clone", "-q", ".", "clone"),
    "git commit in a clone": ("git", "-C", "clone", "commit", "-q", "--allow-empty", "-m", "there"),
    "git worktree add, commit, remove": (
        "bash", "-c",
        "git worktree add -q tree -b in-tree && git -C tree commit -q --allow-empty -m there && git worktree remove tree",
    ),
    "git gc": ("git", "gc", "-q"),
    "pytest with its cache": (PYTHON, "-m", "pytest", "-q", "-p", "no:randomly", *WITHOUT_OUR_PLUGIN, "tests"),
    "python -m unittest": (PYTHON, "-m", "unittest", "-q", "tests.unit"),
    "python -m venv": (PYTHON, "-m", "venv", "env"),
    "pip install of a local wheel": (
        "bash", "-c",
        "env/bin/python -m pip install -q --no-index tiny-1.0-py3-none-any.whl && env/bin/python -c 'import tiny; tiny.ANSWER'",
    ),
    "python writes byte code": (PYTHON, "-m", "compileall", "-q", "tests"),
    "asyncio run_coroutine_threadsafe": (PYTHON, "-c", THREADSAFE),
    "asyncio subprocess": (PYTHON, "-c", ASYNCIO_CHILD),
    "multiprocessing pool, fork": (PYTHON, "pool.py", "fork"),
    "multiprocessing pool, spawn": (PYTHON, "pool.py", "spawn"),
    "multiprocessing pool, forkserver": (PYTHON, "pool.py", "forkserver"),
    "multiprocessing pipe": (PYTHON, "-c", PIPE),
    "shared memory": (PYTHON, "-c", SHARED_MEMORY),
    "executors": (PYTHON, "executor.py"),
    "threads": (PYTHON, "-c", THREADS),
    "the processors of another thread": (PYTHON, "-c", AFFINITY),
    "python sqlite with a write-ahead log": (PYTHON, "-c", SQLITE),
    "a server on the loopback": (PYTHON, "-c", LOOPBACK),
    "a unix socket of its own": (PYTHON, "-c", UNIX_SERVER),
    "tmpfile of the C library": (PYTHON, "-c", "import ctypes; assert ctypes.CDLL(None).tmpfile()"),
    "tempfile": (PYTHON, "-c", "import tempfile; f = tempfile.NamedTemporaryFile(); f.write(b'x'); tempfile.mkdtemp()"),
    "python subprocess": (PYTHON, "-c", "import subprocess; subprocess.run(['true'], check=True, start_new_session=True)"),
    "npm run of a local script": ("npm", "run", "--silent", "hello"),
    "node": ("node", "-e", "console.log(42)"),
    "node spawnSync": ("node", "-e", NODE_SPAWN),
    "node exec": ("node", "-e", NODE_EXEC),
    "node worker threads": ("node", "-e", NODE_WORKER),
    "node http on the loopback": ("node", "-e", NODE_HTTP),
    "make and gcc": ("make", "-s", "main"),
    "make -j": ("bash", "-c", "make -s clean && make -s -j2 main && ./main"),
    "a heredoc": ("bash", "-c", "cat > heredoc <<EOF\n42\nEOF\ngrep -q 42 heredoc"),
    "a here-string": ("bash", "-c", "grep -q 42 <<< 42"),
    "process substitution": ("bash", "-c", "diff <(echo 42) <(echo 42)"),
    "output process substitution": ("bash", "-c", "echo 42 > >(cat > substituted); wait; sleep 0.1; cat substituted"),
    "a pipeline": ("bash", "-c", "set -o pipefail; seq 1000 | sort -rn | head -1 | grep -q 1000 || test $? = 141"),
    "job control": ("bash", "-c", "sleep 30 & kill %1; wait %1; test $? = 143"),
    "a coprocess": ("bash", "-c", "coproc cat; echo 42 >&${COPROC[1]}; read -r x <&${COPROC[0]}; test $x = 42"),
    "mktemp": ("sh", "-c", 'f=$(mktemp) && echo x > "$f" && d=$(mktemp -d) && touch "$d/y"'),
    "a pseudo-terminal": (PYTHON, "-c", "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(['tty'])))"),
    "the terminal of a pseudo-terminal": (
        PYTHON, "-c",
        "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(['sh', '-c', 'echo 42 > /dev/tty'])))",
    ),
    "a hard-coded /tmp": ("sh", "-c", "echo 42 > /tmp/fixed && grep -q 42 /tmp/fixed"),
    "the home directory": ("sh", "-c", 'echo 42 > "$HOME/file" && grep -q 42 "$HOME/file"'),
    "tar": ("sh", "-c", "tar -czf /dev/null tests && tar -cf all.tar tests && mkdir -p out && tar -xf all.tar -C out"),
    "cp -a": ("cp", "-a", "tests", "copied"),
    "mv": ("sh", "-c", "mkdir from && mv from to && rmdir to"),
    "ln": ("sh", "-c", "ln main.c hard && ln -s main.c soft && rm hard soft"),
    "chmod and touch -d": ("sh", "-c", "chmod 600 main.c && touch -d 2020-01-01 main.c"),
    "grep -r": ("grep", "-rq", "int main", "main.c", "tests", "--include=*.c"),
    "sort": ("sort", "-o", "sorted", "main.c"),
    "find": ("find", "tests", "-name", "*.py", "-exec", "cat", "{}", "+"),
    "xargs": ("bash", "-c", "printf '%s\\n' main.c | xargs -P2 -n1 cat"),
    "sed -i": ("sed", "-i", "s/42/42/", "main.c"),
    "awk": ("awk", "{ print > \"printed\" }", "main.c"),
    "perl -i": ("perl", "-i", "-pe", "s/42/42/", "main.c"),
    "du": ("du", "-sh", "."),
    "sqlite3": ("sqlite3", "other.db", "create table t (x); insert into t values (42); select x from t;"),
    "ps through /proc": ("sh", "-c", "cat /proc/self/status /proc/meminfo /proc/cpuinfo > /dev/null"),
    "the random devices": ("sh", "-c", "head -c 8 /dev/urandom > /dev/null && head -c 8 /dev/zero > /dev/null"),
    "the descriptors of the shell": (
        "bash", "-c", "echo 42 > /dev/stdout; echo 42 > /dev/stderr; cat /dev/stdin; ls /dev/fd > /dev/null",
    ),
}  # fmt: skip

DIFFERENT_IN_PLAIN = {
    "multiprocessing pool, fork",
    "multiprocessing pool, spawn",
    "multiprocessing pool, forkserver",
    "shared memory",
    "executors",
    "the processors of another thread",
    "a server on the loopback",
    "a unix socket of its own",
    "node http on the loopback",
    "a hard-coded /tmp",
    "tmpfile of the C library",
    "a pseudo-terminal",
    "the terminal of a pseudo-terminal",
}
"""Shared memory, /tmp and terminals are the host's there, and without a network of its own no socket may be made."""


@pytest.fixture
def project(workspace: Path) -> Path:
    """A small project of several languages, in a git repository made by the host."""
    (workspace / "main.c").write_text('#include <stdio.h>\nint main(void) { puts("42"); return 0; }\n')
    (workspace / "Makefile").write_text("main: main.c\n\tgcc -o $@ $<\nclean:\n\trm -f main\n")
    (workspace / "package.json").write_text(
        '{"name": "x", "version": "1.0.0", "scripts": {"hello": "node -e 1 && echo hello"}}\n'
    )
    (workspace / ".npmrc").write_text("update-notifier=false\n")  # else npm looks up where it might find a newer one
    (workspace / "tests").mkdir()
    (workspace / "tests" / "test_it.py").write_text("def test_it(tmp_path):\n    (tmp_path / 'x').write_text('x')\n")
    (workspace / "tests" / "unit.py").write_text(
        "import unittest\nclass T(unittest.TestCase):\n    def test_it(self): self.assertTrue(1)\n"
    )
    (workspace / "pool.py").write_text(POOL)
    (workspace / "executor.py").write_text(EXECUTOR)
    with zipfile.ZipFile(workspace / "tiny-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tiny.py", "ANSWER = 42\n")
        wheel.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        wheel.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("tiny-1.0.dist-info/RECORD", "tiny.py,,\ntiny-1.0.dist-info/METADATA,,\ntiny-1.0.dist-info/WHEEL,,\n")
    for arguments in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "first"]):
        subprocess.run(["git", *arguments], cwd=workspace, check=True, env={**os.environ, **GIT})
    return workspace


def told(result: CommandResult) -> str:
    return textwrap.shorten(f"{result.exit_code} {result.outcome.value}: {result.stdout[-200:]} {result.stderr[-400:]}", 600)


def failures(broker: ExecutionBroker) -> dict[str, str]:
    """Every everyday command that did not succeed, or of which something was said to be refused."""
    failed = {}
    for name, argv in EVERYDAY.items():
        if Path(argv[0]).name not in {Path(program).name for program in PROGRAMS} or ("gcc" in name and abilities.missing("gcc")):
            continue
        result = broker.execute_command(argv, timeout_seconds=100, stdin=b"42\n" if "/dev/stdin" in argv[-1] else None)
        if not result.success or result.denials:
            failed[name] = told(result) + (f" {result.denials}" if result.denials else "")
    return failed


def private_of(broker: ExecutionBroker) -> Path:
    """The launcher's private directory."""
    _, commands, _ = broker.command_parts
    return Path(commands.private())


def test_there_are_enough_of_them() -> None:
    assert len(EVERYDAY) >= 45
    assert EVERYDAY.keys() >= DIFFERENT_IN_PLAIN


@pytest.mark.timeout(300)
@in_modes()
def test_everyday_commands_work(mode: str, project: Path) -> None:
    with confined(project, mode, unlocked=True, allowed_executables=PROGRAMS) as broker:
        failed = failures(broker)
        private = private_of(broker)
    if mode == "plain":
        assert failed.keys() == DIFFERENT_IN_PLAIN, failed
    else:
        assert failed == {}
    assert left_on_the_host([str(project), str(private)]) == []
    assert not private.exists()


@in_modes()
@pytest.mark.parametrize(
    "argv", [("lscpu", "--parse"), ("dpkg-query", "--show", "dpkg"), ("rpm", "--query", "rpm")], ids=" ".join
)
def test_processors_and_packages_are_told_of_as_outside(mode: str, argv: tuple[str, ...], workspace: Path) -> None:
    if not available(argv[0]):
        pytest.skip(f"{argv[0]} is not installed")
    outside = subprocess.run(argv, capture_output=True, text=True)
    with confined(workspace, mode, allowed_executables=argv[:1]) as broker:
        result = broker.execute_command(argv)
    assert (result.exit_code, result.stdout, result.stderr) == (outside.returncode, outside.stdout, outside.stderr)


@in_modes()
def test_nothing_of_a_process_can_be_set_through_proc(mode: str, workspace: Path) -> None:
    text = "for name in ('comm', 'oom_score_adj'):\n try: open(f'/proc/self/{name}', 'w')\n except OSError as e: print(e.errno)"
    with confined(workspace, mode) as broker:
        assert broker.execute_command(("python3", "-c", text)).stdout == f"{errno.EACCES}\n" * 2


@in_modes("slots", "namespace")
def test_the_home_of_the_user_database_is_not_there(mode: str, workspace: Path) -> None:
    with suppress(KeyError):
        home = pwd.getpwuid(os.geteuid()).pw_dir
        text = f"import os; print(os.path.exists({home!r}), os.environ['HOME'], os.access(os.environ['HOME'], os.W_OK))"
        with confined(workspace, mode) as broker:
            assert broker.execute_command(("python3", "-c", text)).stdout == "False /home/command True\n"
        return
    pytest.skip("the user database does not have this user")


@in_modes()
def test_an_archive_with_another_owner_is_unpacked_and_tar_says_what_it_could_not(mode: str, workspace: Path) -> None:
    """What docs/reference/confinement.md says of a broker of root's; another user's tar does not try."""
    with tarfile.open(workspace / "archive.tar", "w") as archive:
        member = tarfile.TarInfo("file")
        member.uid = member.gid = os.geteuid() + 1
        member.size = 5
        archive.addfile(member, io.BytesIO(b"text\n"))
    unpack = ("sh", "-c", "rm -f file; tar xf archive.tar; echo $?; cat file")
    as_root = os.geteuid() == 0
    for given, status in (({}, 2 if as_root else 0), ({"TAR_OPTIONS": "--no-same-owner"}, 0)):
        with confined(workspace, mode, unlocked=True, environment=EnvironmentPolicy(set=given)) as broker:
            assert broker.execute_command(unpack).stdout == f"{status}\ntext\n"


@in_modes("slots", "namespace")
def test_dev_tty_is_the_terminal_that_a_command_made_and_none_of_the_hosts(mode: str, workspace: Path) -> None:
    with confined(workspace, mode) as broker:
        text = (
            "import errno, os\ntry: os.open('/dev/tty', os.O_RDWR)\nexcept OSError as error: print(errno.errorcode[error.errno])"
        )
        assert broker.execute_command(("python3", "-c", text)).stdout == "ENXIO\n"
        asked = "import pty; pty.spawn(['bash', '-c', 'read -r line < /dev/tty; echo got $line > /dev/tty'])"
        assert "got yes" in broker.execute_command(("python3", "-c", asked), stdin="yes\n").stdout


@in_modes("slots", "namespace")
def test_shared_memory_is_a_quarter_of_a_gibibyte_and_the_commands_own(mode: str, workspace: Path) -> None:
    with confined(workspace, mode) as broker:
        text = "import os; found = os.statvfs('/dev/shm'); print(found.f_blocks * found.f_frsize, os.listdir('/dev/shm'))"
        assert broker.execute_command(("python3", "-c", text)).stdout == f"{256 * 1024 * 1024} []\n"


@in_modes()
def test_the_own_number_of_a_command_is_found_in_proc_but_in_a_namespace_of_the_launchers(mode: str, workspace: Path) -> None:
    """There /proc is the launcher's, since the host lets nobody mount another: `ps` asks for a number that is not in it."""
    with confined(workspace, mode) as broker:
        text = "import os; print(os.readlink('/proc/self') == str(os.getpid()), os.path.realpath('/proc/self/exe'))"
        same, program = broker.execute_command(("python3", "-c", text)).stdout.split()
    assert (same == "True", "python" in program) == (mode != "namespace", True)
