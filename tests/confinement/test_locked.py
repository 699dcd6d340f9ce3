"""While writes are locked, wrappers and interpreters run and read, and nothing changes: not a byte, mode or time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fable_exec import ExecutionBroker
from tests.confinement.places import Tree, available, confined, in_modes, repository

pytestmark = pytest.mark.requires_ability("linux", "git")

PROGRAMS = available(
    "awk", "bash", "cat", "chmod", "cp", "env", "find", "git", "ln", "mkdir", "mv", "nice", "node", "perl", "python3", "rm",
    "sed", "sh", "sort", "tar", "tee", "timeout", "touch", "truncate", "xargs",
)  # fmt: skip

ATTEMPTS: dict[str, tuple[str, ...]] = {
    "touch": ("touch", "new"),
    "touch an old file": ("touch", "kept"),
    "rm": ("rm", "-f", "kept"),
    "rm a tree": ("rm", "-rf", "directory"),
    "mv": ("mv", "kept", "moved"),
    "cp": ("cp", "kept", "copy"),
    "ln": ("ln", "kept", "alias"),
    "ln -s": ("ln", "-s", "kept", "link"),
    "mkdir": ("mkdir", "made"),
    "truncate": ("truncate", "-s", "0", "kept"),
    "tee": ("tee", "kept"),
    "chmod a file": ("chmod", "777", "kept"),
    "chmod the workspace": ("chmod", "777", "."),
    "find -exec": ("find", ".", "-name", "kept", "-exec", "sh", "-c", "echo changed > kept", ";"),
    "find -delete": ("find", ".", "-name", "kept", "-delete"),
    "find -fprint": ("find", ".", "-fprint", "kept"),
    "env": ("env", "sh", "-c", "echo changed > kept"),
    "xargs": ("xargs", "sh", "-c", "echo changed > kept"),
    "timeout": ("timeout", "5", "sh", "-c", "echo changed > kept"),
    "nice": ("nice", "sh", "-c", "echo changed > kept"),
    "git -c alias": ("git", "-c", "alias.x=!echo changed > kept", "x"),
    "git config": ("git", "config", "user.name", "changed"),
    "git commit": ("git", "commit", "-q", "--allow-empty", "-m", "changed"),
    "git checkout": ("git", "checkout", "-q", "-b", "changed"),
    "tar --checkpoint-action": (
        "tar", "-cf", "/dev/null", "--checkpoint=1", "--checkpoint-action=exec=sh -c 'echo c > kept'", ".",
    ),
    "tar to a file": ("tar", "-cf", "kept", "directory"),
    "sort -o": ("sort", "-o", "kept", "kept"),
    "sed w": ("sed", "w kept", "directory/inner"),
    "sed -i": ("sed", "-i", "s/kept/changed/", "kept"),
    "awk system": ("awk", 'BEGIN { system("echo changed > kept") }'),
    "awk redirection": ("awk", 'BEGIN { print "changed" > "kept" }'),
    "python": ("python3", "-c", "open('kept', 'w').write('changed')"),
    "python os.utime": ("python3", "-c", "import os; os.utime('kept', (1, 1))"),
    "python setxattr": ("python3", "-c", "import os; os.setxattr('kept', 'user.x', b'1')"),
    "python through /proc/self/fd": (
        "python3", "-c", "import os; d = os.open('kept', os.O_RDONLY); open(f'/proc/self/fd/{d}', 'w').write('changed')",
    ),
    "python through /proc/self/cwd": ("python3", "-c", "open('/proc/self/cwd/kept', 'w').write('changed')"),
    "python futimes of a descriptor": ("python3", "-c", "import os; os.utime(os.open('kept', os.O_RDONLY), (1, 1))"),
    "python in a child of its own session": (
        "python3", "-c",
        "import os, subprocess; subprocess.run(['sh', '-c', 'echo changed > kept'], start_new_session=True, check=True)",
    ),
    "bash": ("bash", "-c", "echo changed > kept"),
    "bash in the background": ("bash", "-c", "(sleep 0.05; echo changed > kept) & wait"),
    "node": ("node", "-e", "require('fs').writeFileSync('kept', 'changed')"),
    "node child": ("node", "-e", "require('child_process').execSync('echo changed > kept')"),
    "perl": ("perl", "-e", "open(F, '>', 'kept') or die; print F 'changed'"),
    "perl unlink": ("perl", "-e", "unlink('kept') or die"),
}  # fmt: skip

READS: dict[str, tuple[str, ...]] = {
    "find -exec": ("find", ".", "-maxdepth", "1", "-name", "kept", "-exec", "cat", "{}", ";"),
    "env": ("env", "cat", "kept"),
    "xargs": ("xargs", "cat", "kept"),
    "timeout": ("timeout", "5", "cat", "kept"),
    "nice": ("nice", "cat", "kept"),
    "git": ("git", "cat-file", "blob", "HEAD:kept"),
    "git alias": ("git", "-c", "alias.x=!cat kept", "x"),
    "tar": ("tar", "-cOf", "-", "kept"),
    "sort": ("sort", "kept"),
    "sed": ("sed", "-n", "p", "kept"),
    "awk": ("awk", "{ print }", "kept"),
    "awk system": ("awk", 'BEGIN { system("cat kept") }'),
    "python": ("python3", "-c", "print(open('kept').read())"),
    "bash": ("bash", "-c", "cat kept"),
    "bash here-document": ("bash", "-c", "cat kept - <<EOF\nmore\nEOF"),
    "node": ("node", "-e", "console.log(require('fs').readFileSync('kept', 'utf8'))"),
    "perl": ("perl", "-ne", "print", "kept"),
    "a temporary file of its own": ("sh", "-c", 'f=$(mktemp) && cp kept "$f" && cat "$f"'),
}


@pytest.fixture
def tree(workspace: Path) -> Iterator[Path]:
    (workspace / "kept").write_text("kept\n")
    (workspace / "directory").mkdir()
    (workspace / "directory" / "inner").write_text("inner\n")
    (workspace / "link").symlink_to("kept")
    repository(workspace)
    yield workspace


def tried(broker: ExecutionBroker, cases: dict[str, tuple[str, ...]]) -> Iterator[tuple[str, int | None, str, str]]:
    for name, argv in cases.items():
        if argv[0] in PROGRAMS:
            result = broker.execute_command(argv, stdin=b"kept\n" if argv[0] in ("xargs", "tee") else None)
            yield name, result.exit_code, result.stdout, result.stderr


@in_modes()
def test_nothing_changes_while_locked(mode: str, tree: Path) -> None:
    before = Tree.of(tree)
    with confined(tree, mode, allowed_executables=PROGRAMS) as broker:
        for name, *_ in tried(broker, ATTEMPTS):
            assert before.changes(Tree.of(tree)) == [], name


@in_modes()
def test_everything_can_read_while_locked(mode: str, tree: Path) -> None:
    with confined(tree, mode, allowed_executables=PROGRAMS) as broker:
        failed = [(name, status, error) for name, status, out, error in tried(broker, READS) if status != 0 or "kept" not in out]
        assert failed == []


@in_modes()
def test_the_same_attempts_change_something_once_unlocked(mode: str, tree: Path) -> None:
    """The control: what is tried above does write."""
    changing = ("touch", "chmod a file", "python", "bash", "find -exec", "sort -o", "tar --checkpoint-action", "git -c alias")
    with confined(tree, mode, unlocked=True, allowed_executables=PROGRAMS) as broker:
        for name in changing:
            (tree / "kept").write_text("kept\n")
            (tree / "kept").chmod(0o644)
            before = Tree.of(tree)
            broker.execute_command(ATTEMPTS[name])
            assert before.changes(Tree.of(tree)), name


@in_modes()
def test_locking_again_takes_writing_away(mode: str, tree: Path) -> None:
    from tests.doors import TOKEN

    with confined(tree, mode, allowed_executables=PROGRAMS) as broker:
        for _ in range(2):
            broker.unlock_writes(TOKEN)
            assert broker.execute_command(("touch", "kept")).success
            broker.lock_writes()
            assert not broker.execute_command(("touch", "kept")).success
