"""Our sessions beside the SDK's local ones, which are not confined: a table of calls, what each gives, and what it leaves.

The SDK ships no suite for sandbox clients; its own local client says what is expected of one. What differs is written down here.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from fable_exec.testing.leaks import nothing_left
from tests.adapters.openai_sandboxes import client_of

pytestmark = [pytest.mark.requires_ability("openai_agents"), pytest.mark.requires_ability("confinement")]

SCENE = """
rm -rf -- * .hidden
mkdir -p d empty deep/er
echo eins >a; echo zwei >d/f; ln a second
ln -s d/f link; ln -s d dlink; ln -s /etc/hostname out; ln -s /usr outdir; ln -s nowhere dangling; ln -s loop loop
for name in b c e; do echo $name >$name; done
"""
STATE = "find . ! -name . -printf '%y %p %l\\n' | sort; cat a d/f"


def data(text: str) -> io.BytesIO:
    return io.BytesIO(text.encode())


CALLS: dict[str, Callable[[Any], Any]] = {
    "a text": lambda s: s.exec("echo grün; exit 3"),
    "a text and words": lambda s: s.exec("echo", "a b", "$HOME"),
    "words": lambda s: s.exec("cat", "a", shell=False),
    "another shell": lambda s: s.exec("echo $BASH_VERSINFO", shell=["bash", "-c"]),
    "a signal": lambda s: s.exec("kill -9 $$"),
    "no program": lambda s: s.exec("no-such-program-here", shell=False),
    "a timeout": lambda s: s.exec("sleep 600", timeout=0.2),
    "read": lambda s: s.read(Path("a")),
    "read what is not there": lambda s: s.read(Path("gone")),
    "read a directory": lambda s: s.read(Path("d")),
    "read below a file": lambda s: s.read(Path("a/x")),
    "read through a link": lambda s: s.read(Path("dlink/f")),
    "read a link": lambda s: s.read(Path("link")),
    "read a link that leads outside": lambda s: s.read(Path("out")),
    "read a link that leads nowhere": lambda s: s.read(Path("dangling")),
    "read elsewhere": lambda s: s.read(Path("/etc/hostname")),
    "read above": lambda s: s.read(Path("../x")),
    "read the beginning": lambda s: s.read_bounded(Path("a"), max_bytes=2),
    "read the beginning of nothing": lambda s: s.read_bounded(Path("gone"), max_bytes=2),
    "write": lambda s: s.write(Path("new/er/file"), data("x")),
    "write over": lambda s: s.write(Path("a"), data("drei")),
    "write over a directory": lambda s: s.write(Path("d"), data("x")),
    "write through a link": lambda s: s.write(Path("link"), data("drei")),
    "write through a link that leads outside": lambda s: s.write(Path("outdir/x"), data("x")),
    "write elsewhere": lambda s: s.write(Path("/usr/x"), data("x")),
    "create": lambda s: s._write_new_file(Path("new/file"), data("x")),
    "create what is there": lambda s: s._write_new_file(Path("a"), data("x")),
    "create where a link is": lambda s: s._write_new_file(Path("dangling"), data("x")),
    "make a directory": lambda s: s.mkdir("new"),
    "make a directory that is there": lambda s: s.mkdir("d"),
    "make a directory where a file is": lambda s: s.mkdir("a"),
    "make a directory in nothing": lambda s: s.mkdir("new/er"),
    "make directories": lambda s: s.mkdir("new/er", parents=True),
    "list": lambda s: s.ls("."),
    "list through a link": lambda s: s.ls("dlink"),
    "list a file": lambda s: s.ls("a"),
    "list what is not there": lambda s: s.ls("gone"),
    "list outside": lambda s: s.ls("outdir"),
    "remove": lambda s: s.rm("b"),
    "remove an empty directory": lambda s: s.rm("empty"),
    "remove a full directory": lambda s: s.rm("d"),
    "remove a tree": lambda s: s.rm("deep", recursive=True),
    "remove what is not there": lambda s: s.rm("gone"),
    "remove a tree that is not there": lambda s: s.rm("gone", recursive=True),
    "remove a link": lambda s: s.rm("link"),
    "move": lambda s: s.mv("b", "moved"),
    "move over a file": lambda s: s.mv("b", "a"),
    "move over a directory": lambda s: s.mv("b", "d"),
    "move over a link": lambda s: s.mv("b", "link"),
    "move a directory": lambda s: s.mv("d", "moved"),
    "move a link": lambda s: s.mv("link", "moved"),
    "move what is not there": lambda s: s.mv("gone", "moved"),
    "one file": lambda s: s.same_file("a", "second"),
    "two files": lambda s: s.same_file("a", "b"),
    "a link and its file": lambda s: s.same_file("link", "d/f"),
    "a link itself": lambda s: s.same_file("link", "link", follow_symlinks=False),
    "nothing": lambda s: s.same_file("gone", "gone"),
}

OURS: Mapping[str, Any] = {
    "a signal": (137, ""),  # as a shell has it, not minus nine
    "no program": (127, ""),  # theirs is an error of transport, which ends the agent's run
    "remove a link": None,  # the link; theirs removes what it leads to
    "move over a link": "ExecNonZeroError",  # no link is replaced
}
"""What we give where the SDK's local client gives something else, or leaves something else."""


async def outcomes(client: Any) -> dict[str, tuple[Any, str]]:
    """What each call gives, and what is there afterwards."""
    session = await client.create()
    try:
        async with session:
            return {name: await outcome(session, call) for name, call in CALLS.items()}
    finally:
        await client.delete(session)


async def outcome(session: Any, call: Callable[[Any], Any]) -> tuple[Any, str]:
    assert (await session.exec("bash", "-c", SCENE, shell=False)).ok()
    try:
        given = told(await call(session), session.state.manifest.root)
    except Exception as error:
        given = type(error).__name__ if not isinstance(error, FileExistsError) else "FileExistsError"
    return given, (await session.exec(STATE)).stdout.decode()


def told(given: Any, root: str) -> Any:
    """What a call gave, in words that do not depend on the session."""
    if hasattr(given, "exit_code"):
        return given.exit_code, given.stdout.decode()
    if isinstance(given, io.IOBase):
        with given:
            return given.read()
    if isinstance(given, list):
        sizes = {each.path: 0 if each.kind.value == "directory" else each.size for each in given}
        return sorted((each.path.replace(root, ""), each.kind.value, sizes[each.path]) for each in given)
    return given


def test_a_session_gives_what_the_sdks_local_one_gives(tmp_path: Path) -> None:
    from agents.sandbox.sandboxes.unix_local import UnixLocalSandboxClient

    with nothing_left():
        ours = asyncio.run(outcomes(client_of(tmp_path)))
    theirs = asyncio.run(outcomes(UnixLocalSandboxClient()))
    differing = {name: ours[name][0] for name in CALLS if ours[name] != theirs[name]}
    assert differing == dict(OURS)
    assert list(tmp_path.iterdir()) == []
