"""A file system that is really full: no state is lost, nothing is left behind, and the outcome is recorded all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import disks

PROGRAM = """
    import errno, os, subprocess, sys
    from fable_exec.statefile import *
    from tests.statefile.states import FORM, NEW, OLD, OUTCOME

    def fill():
        with open("ballast", "ab", buffering=0) as ballast:
            for size in (1 << 16, 4096, 512, 1):
                try:
                    while True:
                        ballast.write(bytes(size))
                        os.fsync(ballast.fileno())
                except OSError as error:
                    assert error.errno == errno.ENOSPC

    def use_up_names():
        try:
            for number in range(10_000):
                open(f"name-{number}", "x").close()
        except OSError as error:
            assert error.errno == errno.ENOSPC

    def refused(act):
        try:
            act()
        except OSError as error:
            return errno.errorcode[error.errno]

    def execution(name):
        os.mkdir(name, 0o700)
        return StateFile(name, FORM)

    def write_new():
        with state.locked() as held:
            held.write(NEW)

    def as_read_elsewhere():
        program = "from fable_exec.statefile import *; from tests.statefile.states import FORM; import sys;"
        program += "reading = StateFile(sys.argv[1], FORM).read(); print(reading.document['state'], reading.source.value)"
        return subprocess.run([sys.executable, "-c", program, state.directory], capture_output=True, text=True, check=True).stdout

    state, late = execution("one"), execution("two")
    record = state.terminal_record()
    with state.locked() as held:
        held.write(OLD)
    {"space": fill, "names": use_up_names}[sys.argv[1]]()

    print({refused(write_new) for _ in range(100)}, state.read().document == OLD, sorted(os.listdir("one")))
    print(state.conclude(record, OUTCOME), as_read_elsewhere(), end="")
    print(refused(late.terminal_record), late.read())

    for name in os.listdir("."):
        if name.startswith(("ballast", "name")):
            os.unlink(name)
    with state.locked() as held:
        held.write(held.require().document)
    print(as_read_elsewhere(), end="")
    late.terminal_record().close()
"""
SAID = """\
{'ENOSPC'} True ['.lock', 'state.json', 'terminal.rec']
False exited terminal-record
ENOSPC None
exited state-file
"""


@pytest.mark.requires_ability("userns")
@pytest.mark.parametrize(("what", "options"), [("space", "size=128k"), ("names", "size=1m,nr_inodes=20")])
def test_a_full_disk_loses_neither_the_state_nor_the_outcome(tmp_path: Path, what: str, options: str) -> None:
    """Rows S94 and S95: a hundred failed writes leave no fragment, and the reason is told by its name."""
    answer = disks.on_tmpfs(tmp_path, options, PROGRAM, what)
    assert (answer.stdout, answer.stderr) == (SAID, "")


@pytest.mark.requires_ability("root", "loop_ext4")
@pytest.mark.parametrize("what", ["space", "names"])
def test_a_full_disk_with_a_journal_loses_neither(tmp_path: Path, what: str) -> None:
    (tmp_path / "disk").mkdir()
    answer = disks.on_ext4(tmp_path / "image", tmp_path / "disk", PROGRAM, what)
    assert (answer.stdout, answer.stderr) == (SAID, "")


@pytest.mark.requires_ability("userns")
def test_a_read_only_disk_is_read_and_says_so_when_it_is_to_be_written(tmp_path: Path) -> None:
    program = """
        import errno, os, subprocess
        from fable_exec.statefile import *
        from tests.statefile.states import FORM, NEW, OLD
        os.mkdir("one", 0o700)
        state = StateFile("one", FORM)
        with state.locked() as held:
            held.write(OLD)
        state.terminal_record().close()
        subprocess.run(["mount", "-o", "remount,bind,ro", os.getcwd()], check=True)
        def lock():
            with state.locked():
                pass
        for act in (lock, state.terminal_record):
            try:
                act()
            except OSError as error:
                print(errno.errorcode[error.errno])
        print(state.read().document == OLD)
    """
    answer = disks.on_tmpfs(tmp_path, "size=1m", program)
    assert (answer.stdout, answer.stderr) == ("EROFS\nEROFS\nTrue\n", "")
