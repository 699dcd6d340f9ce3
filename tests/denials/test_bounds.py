"""What a command does to its own report: floods, names that are made to be shown, paths that change."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.confinement.places import confined, in_modes, run
from tests.denials.told import PROGRAMS, python, told

pytestmark = pytest.mark.requires_ability("linux")


FLOOD = """
import os
for number in range(10_000):
    try:
        os.mkdir(f"/usr/{number:05}" if number % 2 else "/usr/again")
    except OSError:
        pass
"""


@in_modes()
def test_a_flood_of_refusals_stays_bounded_and_ends(mode: str, workspace: Path) -> None:
    with confined(workspace, mode, allowed_executables=PROGRAMS) as broker:
        result = python(broker, FLOOD, timeout_seconds=100)
        assert run(broker, "true").denials == ()
    assert result.success
    assert len(result.denials) == 64 == len(set(result.denials))
    assert result.denials_omitted == 5_001 - 64
    assert ("mkdir", "/usr/again", "host_writes") in told(result)


@pytest.mark.requires_ability("confinement")
def test_what_a_command_writes_into_its_paths_is_made_safe_and_bounded(workspace: Path) -> None:
    text = """if True:
        import contextlib, os
        for name in ("\\x1b[2J\\n\\u202e", "\\udcff", "/".join(letter * 250 for letter in "xyz")):
            with contextlib.suppress(OSError):
                os.mkdir("/root/" + name)
    """
    with confined(workspace, allowed_executables=PROGRAMS) as broker:
        result = python(broker, text)
        wire = broker.handle({"action": "execute_command", "command": ["python3", "-c", text]})
    assert [each.path for each in result.denials[:2]] == ["/root/\\x1b[2J\\n\\u202e", "/root/\\udcff"]
    assert len(result.denials[2].path) <= 500
    assert [each["path"] for each in wire["denials"]] == [each.path for each in result.denials]
    assert (wire["denials_omitted"], wire["observed"]) == (0, "changes")


SWAP = """
import ctypes, os, sys, threading
inside, outside = sys.argv[1].encode(), sys.argv[2].encode()
size = max(len(inside), len(outside)) + 1
path = ctypes.create_string_buffer(inside, size)
libc = ctypes.CDLL(None, use_errno=True)
going = True
def swap():
    while going:
        ctypes.memmove(path, outside + b"\\0", len(outside) + 1)
        ctypes.memmove(path, inside + b"\\0", len(inside) + 1)
thread = threading.Thread(target=swap); thread.start()
opened = 0
for _ in range(3000):
    handle = libc.open(path, os.O_WRONLY | os.O_CREAT, 0o666)
    if handle >= 0:
        where = os.readlink(f"/proc/self/fd/{handle}").encode()
        opened += where == outside
        os.write(handle, b"swapped")
        os.close(handle)
going = False; thread.join()
print(opened)
"""


@in_modes()
def test_a_path_that_is_swapped_while_it_is_looked_at_opens_nothing(mode: str, workspace: Path, outside: Path) -> None:
    with confined(workspace, mode, unlocked=True, allowed_executables=PROGRAMS) as broker:
        result = python(broker, SWAP, workspace / "inside", outside / "file", timeout_seconds=60)
    assert (result.success, result.stdout) == (True, "0\n")
    assert {each.protection for each in result.denials} <= {"host_writes"}
