"""The sandbox client in OpenAI's Agents SDK: sessions by its own calls, and sandbox agents whose model reads from a script.

Where the SDK is not installed this is skipped. What sessions do is tried by test_openai_agents_sandbox_operations.py and
test_archives.py, which do not need it. The SDK ships no suite for sandbox clients.
"""

from __future__ import annotations

import asyncio
import base64
import io
import os
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from fable_exec import PolicyError
from fable_exec.testing.leaks import nothing_left
from tests.adapters.scripted_agents import quiet, sandbox_patch, scripted, told, tool_call
from tests.cli.typed import PROJECT, is_running
from tests.hosts import unique_sleep
from tests.waiting import until

pytestmark = [pytest.mark.requires_ability("openai_agents"), pytest.mark.requires_ability("confinement")]

TERMINALS = pytest.mark.skipif(shutil.which("script") is None, reason="script is not installed")
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where sessions make their directories; empty again at the end of every test."""
    (tmp_path / "sessions").mkdir()
    return tmp_path / "sessions"


def client_of(place: Path, *args: Any, **more: Any) -> Any:
    from fable_exec.adapters.openai_agents_sandbox import FableSandboxClient

    return FableSandboxClient(*args, directory=place, **more)


def manifest_of(root: Path | None = None, /, **files: str) -> Any:
    from agents.sandbox import Manifest
    from agents.sandbox.entries import File

    entries = {name: File(content=text.encode()) for name, text in files.items()}
    return Manifest(entries=entries, **({} if root is None else {"root": str(root)}))


def kept_in(directory: Path) -> Any:
    from agents.sandbox import LocalSnapshotSpec

    return LocalSnapshotSpec(base_path=directory)


def within(client: Any, body: Callable[[Any], Awaitable[Any]], *, manifest: Any = None, snapshot: Any = None) -> Any:
    """What `body` returns, in a session that is closed and deleted afterwards, and leaves nothing."""

    async def act() -> Any:
        session = await client.create(manifest=manifest, snapshot=snapshot)
        try:
            async with session:
                return await body(session)
        finally:
            await client.delete(session)

    with nothing_left():
        return asyncio.run(act())


def sandbox_run(client: Any, tmp_path: Path, **more: Any) -> Any:
    from agents.sandbox import SandboxRunConfig

    return quiet(sandbox=SandboxRunConfig(client=client, snapshot=kept_in(tmp_path / "snapshots"), **more))


def agent_of(*turns: Any, **more: Any) -> Any:
    from agents.sandbox import SandboxAgent

    return SandboxAgent(name="scripted", model=scripted(*turns), **more)


def run_to_the_end(client: Any, tmp_path: Path, *turns: Any, **more: Any) -> list[Any]:
    """What the model was told of each call by an agent in a sandbox, which leaves nothing."""
    from agents import Runner

    async def act() -> list[Any]:
        agent = agent_of(*turns, **{"default_manifest": manifest_of(), **more})
        result = await Runner.run(agent, "go", max_turns=len(turns) + 1, run_config=sandbox_run(client, tmp_path))
        assert result.final_output == "done"
        return [item["output"] for item in told(result)]

    with nothing_left():
        return asyncio.run(act())


def said(output: str) -> str:
    """What a command said, of what the SDK tells a model of it."""
    return output.partition("Output:\n")[2]


# Agents


@TERMINALS
def test_an_agent_works_with_the_tools_of_the_sdk(place: Path, tmp_path: Path) -> None:
    patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-eins\n+größer\n*** Add File: deep/b.txt\n+zwei\n*** End Patch\n"
    moved = "*** Begin Patch\n*** Update File: a.txt\n*** Move to: c.txt\n@@\n-größer\n+drei\n"
    moved += "*** Delete File: deep/b.txt\n*** End Patch\n"
    ran, going_on, rest, asked, got, unknown, patched, read, renamed, listed, _, image = run_to_the_end(
        client_of(place),
        tmp_path,
        [tool_call("exec_command", cmd="cat a.txt; echo schön >&2; exit 4")],
        [tool_call("exec_command", cmd="echo first; sleep 1; echo last", yield_time_ms=300)],
        [tool_call("write_stdin", session_id=2, yield_time_ms=20_000)],
        [tool_call("exec_command", cmd="read x; echo got $x", tty=True, yield_time_ms=300)],
        [tool_call("write_stdin", session_id=3, chars="ü\n", yield_time_ms=5000)],
        [tool_call("write_stdin", session_id=99)],
        [sandbox_patch(patch)],
        [tool_call("exec_command", cmd="pwd; cat *.txt b.txt", workdir="deep")],
        [sandbox_patch(moved)],
        [tool_call("exec_command", cmd="cat c.txt; find . -type f", shell="bash")],
        [tool_call("exec_command", cmd=f"echo {PIXEL} | base64 -d >pixel.png")],
        [tool_call("view_image", path="pixel.png")],
        default_manifest=manifest_of(None, **{"a.txt": "eins\n"}),
    )
    assert "exited with code 4" in ran and sorted(said(ran).splitlines()) == ["eins", "schön"]
    assert "session ID 2" in going_on and said(going_on) == "first\n"
    assert "exited with code 0" in rest and said(rest) == "last\n"
    assert "session ID 3" in asked and "got ü" in got
    assert "not found: 99" in unknown
    assert patched == "Updated a.txt\nCreated deep/b.txt"
    assert said(read).startswith(f"{place}/") and said(read).endswith("/deep\nzweizwei")
    assert renamed == "Updated a.txt\nMoved a.txt to c.txt\nDeleted deep/b.txt"
    assert said(listed) == "drei\n./c.txt\n"
    assert base64.b64decode(image[0]["image_url"].partition(",")[2]) == base64.b64decode(PIXEL)
    assert list(place.iterdir()) == []


def test_what_is_denied_is_told_to_the_model_and_the_run_goes_on(place: Path, tmp_path: Path) -> None:
    written, net, shell, patched, outside = run_to_the_end(
        client_of(place),
        tmp_path,
        [tool_call("exec_command", cmd=f"touch /etc/x; ls {tmp_path}; cat /etc/shadow")],
        [tool_call("exec_command", cmd="python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 9))'")],
        [tool_call("exec_command", cmd="true", shell="/bin/zsh")],
        [sandbox_patch("*** Begin Patch\n*** Add File: ../x\n+x\n*** End Patch")],
        [tool_call("exec_command", cmd="true", workdir="/etc")],
    )
    assert "Read-only file system" in written and "root:" not in written
    assert "refused" in net and "exited with code 1" in net
    assert "exited with code 126" in shell and "allow-list" in shell
    assert "must not escape root" in patched
    assert outside.startswith("Invalid workdir")


def test_what_an_agent_left_running_ends_with_its_run(place: Path, tmp_path: Path) -> None:
    marker = unique_sleep()
    (ran,) = run_to_the_end(
        client_of(place),
        tmp_path,
        [tool_call("exec_command", cmd=f"setsid sleep {marker} & sleep {marker}", yield_time_ms=300)],
    )
    assert "running with session ID 1" in ran
    assert not is_running(marker) and list(place.iterdir()) == []


@pytest.mark.parametrize("streamed", [False, True])
def test_a_cancelled_run_leaves_nothing_running_and_no_directory(streamed: bool, place: Path, tmp_path: Path) -> None:
    from agents import Runner

    marker = unique_sleep()

    async def act() -> None:
        agent = agent_of([tool_call("exec_command", cmd=f"setsid sleep {marker} & sleep {marker}", yield_time_ms=30_000)])
        config = sandbox_run(client_of(place), tmp_path)
        if streamed:
            result = Runner.run_streamed(agent, "go", run_config=config)
            running = asyncio.ensure_future(to_its_end(result))
        else:
            running = asyncio.ensure_future(Runner.run(agent, "go", run_config=config))
        assert await asyncio.to_thread(until, lambda: is_running(marker))
        if streamed:
            result.cancel()
        else:
            running.cancel()
        await asyncio.wait({running})
        assert streamed or running.cancelled()
        assert not is_running(marker)
        assert list(place.iterdir()) == []

    with nothing_left():
        asyncio.run(act())


async def to_its_end(result: Any) -> None:
    async for _ in result.stream_events():
        pass


def test_a_run_that_waits_for_an_approval_is_continued_from_its_serialized_state(place: Path, tmp_path: Path) -> None:
    from agents import Runner, RunState
    from agents.sandbox.capabilities import Shell

    def ask_first(tools: Any) -> None:
        async def is_dangerous(context: Any, arguments: dict[str, Any], call_id: str) -> bool:
            return "dangerous" in arguments["cmd"]

        tools.exec_command.needs_approval = is_dangerous

    async def act() -> list[Any]:
        client = client_of(place)
        agent = agent_of(
            [tool_call("exec_command", cmd="echo eins >file; chmod 755 file; ln -s file link")],
            [tool_call("exec_command", cmd="cat link; stat -c %a file; echo dangerous")],
            default_manifest=manifest_of(),
            capabilities=[Shell(configure_tools=ask_first)],
        )
        asked = await Runner.run(agent, "go", run_config=sandbox_run(client, tmp_path))
        assert len(asked.interruptions) == 1 and list(place.iterdir()) == []
        state = await RunState.from_json(agent, asked.to_state().to_json())
        state.approve(state.get_interruptions()[0])
        result = await Runner.run(agent, state, run_config=sandbox_run(client_of(place), tmp_path))
        return [item["output"] for item in told(result)]

    with nothing_left():
        *_, read = asyncio.run(act())
    assert said(read) == "eins\n755\ndangerous\n"
    assert list(place.iterdir()) == []


def test_the_default_shell_reads_no_profile_and_one_that_the_model_names_does(place: Path, tmp_path: Path) -> None:
    kind = "shopt -q login_shell && echo login || echo plain"
    ours, named = run_to_the_end(
        client_of(place, {"allowed_executables": ["bash"]}),
        tmp_path,
        [tool_call("exec_command", cmd=kind)],
        [tool_call("exec_command", cmd=kind, shell="bash")],
    )
    assert (said(ours).strip(), said(named).strip()) == ("plain", "login")


def test_runs_share_a_live_session_and_do_not_end_it(place: Path, tmp_path: Path) -> None:
    from agents import Runner
    from agents.sandbox import SandboxRunConfig

    async def body(session: Any) -> None:
        for turn, want in (("echo eins >>file; cat file", "eins\n"), ("echo zwei >>file; cat file", "eins\nzwei\n")):
            agent = agent_of([tool_call("exec_command", cmd=turn)])
            result = await Runner.run(agent, "go", run_config=quiet(sandbox=SandboxRunConfig(session=session)))
            assert said(told(result)[0]["output"]) == want
        assert await session.running()

    within(client_of(place), body)


def test_agents_at_the_same_time_have_sessions_of_their_own(place: Path, tmp_path: Path) -> None:
    from agents import Runner

    client = client_of(place)

    async def one(number: int) -> str:
        agent = agent_of([tool_call("exec_command", cmd=f"echo {number} >>file; sleep 0.3; cat file")])
        result = await Runner.run(agent, "go", run_config=sandbox_run(client, tmp_path))
        return said(told(result)[0]["output"])

    async def act() -> list[str]:
        return await asyncio.gather(*(one(number) for number in range(3)))

    with nothing_left():
        assert asyncio.run(act()) == ["0\n", "1\n", "2\n"]
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("lazy", [False, True])
def test_skills_are_where_the_sdk_puts_them(lazy: bool, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from agents.sandbox.capabilities import Shell, Skills
    from agents.sandbox.capabilities.skills import LocalDirLazySkillSource
    from agents.sandbox.entries import LocalDir

    (tmp_path / "skills" / "knitting").mkdir(parents=True)
    (tmp_path / "skills" / "knitting" / "SKILL.md").write_text("---\nname: knitting\ndescription: knits\n---\nKnit.\n")
    monkeypatch.chdir(tmp_path)
    source = LocalDir(src=Path("skills"))
    skills = Skills(lazy_from=LocalDirLazySkillSource(source=source)) if lazy else Skills(from_=source)
    turns = [[tool_call("load_skill", skill_name="knitting")]] if lazy else []
    *_, read = run_to_the_end(
        client_of(place),
        tmp_path,
        *turns,
        [tool_call("exec_command", cmd="tail -n 1 .agents/knitting/SKILL.md")],
        capabilities=[skills, Shell()],
    )
    assert said(read) == "Knit.\n"


def test_a_read_only_session_is_set_up_and_then_written_by_nobody(place: Path, tmp_path: Path) -> None:
    ran, patched = run_to_the_end(
        client_of(place, read_only=True),
        tmp_path,
        [tool_call("exec_command", cmd="cat a; echo x >a; touch $TMPDIR/x && echo private")],
        [sandbox_patch("*** Begin Patch\n*** Update File: a\n@@\n-eins\n+zwei\n*** End Patch")],
        default_manifest=manifest_of(a="eins\n"),
    )
    assert {"eins", "private"} <= set(said(ran).splitlines()) and "Read-only file system" in ran
    assert "locked" in patched


def test_nothing_is_unpacked_into_a_read_only_session_once_it_is_set_up(place: Path) -> None:
    from agents.sandbox.errors import WorkspaceArchiveWriteError

    async def body(session: Any) -> None:
        with await session.persist_workspace() as archive, pytest.raises(WorkspaceArchiveWriteError, match="read-only"):
            await session.hydrate_workspace(archive)
        assert (await session.exec("ls")).stdout == b"a\n"

    within(client_of(place, read_only=True), body, manifest=manifest_of(a="x"))


# Sessions


def test_how_a_command_ended_is_a_result_or_an_error_of_the_sdk(place: Path) -> None:
    from agents.sandbox import ErrorCode, ExecTimeoutError

    marker = unique_sleep()

    async def body(session: Any) -> None:
        done = await session.exec("echo", "grün *", "$HOME")
        assert (done.stdout.decode(), done.exit_code, done.ok()) == ("grün * $HOME\n", 0, True)
        for command, code in (("exit 3", 3), ("kill -15 $$", 143), ("no-such-program-here", 127)):
            assert (await session.exec(command)).exit_code == code
        for words, code, why in ((["curl"], 126, b"allow-list"), (["no-such-program-here"], 127, b"not found")):
            done = await session.exec(*words, shell=False)
            assert (done.exit_code, why in done.stderr) == (code, True)
        assert (await session.exec("true", timeout=-1)).exit_code == 2
        limited = await session.exec("yes")
        assert (limited.exit_code, len(limited.stdout)) == (137, 5000)
        with pytest.raises(ExecTimeoutError) as late:
            await session.exec(f"echo before; sleep {marker} & sleep {marker}", timeout=0.7)
        assert late.value.error_code is ErrorCode.EXEC_TIMEOUT and late.value.timeout_s == 0.7
        assert (late.value.context["stdout"], late.value.context["reason"]) == ("before\n", "timed_out")
        assert not is_running(marker)
        with pytest.raises(ValueError, match="one user"):
            await session.exec("true", user="somebody")

    within(client_of(place, {"max_output_bytes": 5000}), body)


def test_a_session_that_does_not_run_says_so(place: Path) -> None:
    from agents.sandbox import ExecTransportError, WorkspaceArchiveReadError, WorkspaceArchiveWriteError
    from agents.sandbox.errors import WorkspaceRootNotFoundError

    async def act() -> None:
        client = client_of(place)
        session = await client.create()
        for work, error in (
            (session.exec("true"), ExecTransportError),
            (session.pty_exec_start("true"), ExecTransportError),
            (session.read(Path("x")), WorkspaceArchiveReadError),
            (session.write(Path("x"), io.BytesIO(b"x")), WorkspaceArchiveWriteError),
        ):
            with pytest.raises(error) as refused:
                await work
            assert "not running" in str(refused.value.__cause__)
        async with session:
            await session._inner._opened.close()
            with pytest.raises(ExecTransportError, match="closed"):
                await session.exec("true")
        async with session:
            assert await session.running()
            shutil.rmtree(session.state.manifest.root)
            with pytest.raises(WorkspaceRootNotFoundError):
                await session.exec("true")
        assert not await session.running()
        await client.delete(session)
        await client.delete(session)

    with nothing_left():
        asyncio.run(act())


def test_a_cancelled_command_is_dead_before_the_cancellation_goes_on(place: Path) -> None:
    marker = unique_sleep()

    async def body(session: Any) -> None:
        running = asyncio.ensure_future(session.exec(f"setsid sleep {marker} & sleep {marker}"))
        assert await asyncio.to_thread(until, lambda: is_running(marker))
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert not is_running(marker)

    within(client_of(place), body)


def test_files_are_the_sdks_with_the_sdks_errors(place: Path) -> None:
    from agents.sandbox import WorkspaceArchiveReadError, WorkspaceArchiveWriteError, WorkspaceReadNotFoundError
    from agents.sandbox.errors import ExecNonZeroError, InvalidManifestPathError, WorkspaceWriteTypeError
    from agents.sandbox.files import EntryKind

    async def body(session: Any) -> None:
        root = Path(session.state.manifest.root)
        large = os.urandom(3_000_000)
        await session.write(Path("deep/ü"), io.BytesIO(large))
        assert (await session.read(root / "deep" / "ü")).read() == large
        assert await session.read_bounded(Path("deep/ü"), max_bytes=10) == large[:10]
        await session.mkdir("a/b", parents=True)
        await session.exec("ln -s deep link; ln -s loop loop; ln -s /etc out; mkfifo fifo; head -c 9000000 /dev/zero >huge")
        kinds = {Path(each.path).name: each.kind for each in await session.ls(".")}
        assert kinds == {
            "a": EntryKind.DIRECTORY, "deep": EntryKind.DIRECTORY, "fifo": EntryKind.OTHER, "huge": EntryKind.FILE,
            "link": EntryKind.SYMLINK, "loop": EntryKind.SYMLINK, "out": EntryKind.SYMLINK,
        }  # fmt: skip
        (inside,) = await session.ls("link")
        assert (inside.size, str(inside.permissions), inside.owner, inside.group) == (3_000_000, "-rw-------", "", "")
        assert (await session.read(Path("link/ü"))).read() == large  # through a link of the workspace
        for work, error in (
            (session.read(Path("gone")), WorkspaceReadNotFoundError),
            (session.read(Path("a")), WorkspaceArchiveReadError),
            (session.read(Path("fifo")), WorkspaceArchiveReadError),
            (session.read(Path("huge")), WorkspaceArchiveReadError),
            (session.read_bounded(Path("huge"), max_bytes=8_500_000), WorkspaceArchiveReadError),
            (session.read(Path("out/passwd")), InvalidManifestPathError),
            (session.read(Path("loop")), InvalidManifestPathError),
            (session.read(Path("/etc/passwd")), InvalidManifestPathError),
            (session.write(Path("out/x"), io.BytesIO(b"x")), InvalidManifestPathError),
            (session.write(Path("a"), io.BytesIO(b"x")), WorkspaceArchiveWriteError),
            (session.write(Path("x"), io.StringIO("x")), WorkspaceWriteTypeError),
            (session.mkdir("c/d"), WorkspaceArchiveWriteError),
            (session.rm("gone"), ExecNonZeroError),
            (session.rm("a"), WorkspaceArchiveWriteError),
            (session.ls("gone"), ExecNonZeroError),
            (session.mv("a", "b"), ExecNonZeroError),
            (session.mv("huge", "deep"), ExecNonZeroError),
        ):
            with pytest.raises(error):
                await work
        await session.rm("gone", recursive=True)
        await session.rm("link")  # the link, not where it leads
        await session.mv("huge", "a/huge")
        await session.rm("a", recursive=True)
        assert await session.same_file("deep/ü", root / "deep/ü") and not await session.same_file(
            "out", "out", follow_symlinks=False
        )
        assert {path.name for path in root.iterdir()} == {"deep", "fifo", "loop", "out"}

    within(client_of(place, {"max_output_bytes": 8_000_000}), body)


def test_archives_are_extracted_by_the_sdk(place: Path, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "file").write_text("grün")
    archive = shutil.make_archive(str(tmp_path / "tree"), "zip", tmp_path / "tree")

    async def body(session: Any) -> None:
        with open(archive, "rb") as data:
            await session.extract("deep/tree.zip", data)
        assert (await session.exec("cat deep/file")).stdout.decode() == "grün"

    within(client_of(place), body)


def test_a_manifest_brings_files_directories_and_variables(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from agents.sandbox import Dir, Manifest, Permissions
    from agents.sandbox.entries import File, LocalDir, LocalFile

    (tmp_path / "given" / "deep").mkdir(parents=True)
    (tmp_path / "given" / "deep" / "file").write_text("given")
    monkeypatch.chdir(tmp_path)
    manifest = Manifest(
        entries={
            "run.sh": File(content=b"#!/bin/sh\necho $GREETING\n"),
            "d": Dir(children={"e": Dir(children={".vscode/tasks.json": File(content=b"{}", permissions=Permissions(owner=6))})}),
            "one": LocalFile(src=Path("given/deep/file")),
            "all": LocalDir(src=Path("given")),
        },
        environment={"value": {"GREETING": "grüß dich"}},
    )

    async def body(session: Any) -> None:
        done = await session.exec("./run.sh; cat one all/deep/file; stat -c %a run.sh d d/e/.vscode/tasks.json one")
        assert done.stdout.decode() == "grüß dich\ngivengiven755\n755\n600\n755\n"
        assert (await session.exec('test -w "$HOME" && test "$HOME" != "$PWD"')).exit_code == 0

    within(client_of(place), body, manifest=manifest)


@pytest.mark.parametrize("sound", [True, False])
def test_a_repository_is_cloned_by_a_confined_git(sound: bool, place: Path, tmp_path: Path) -> None:
    """Without a network, which git is led around by its own setting; the policy's author may say so."""
    from agents.sandbox import Manifest
    from agents.sandbox.entries import GitRepo
    from agents.sandbox.errors import GitCloneError

    git = [
        "git",
        "-c",
        "user.name=x",
        "-c",
        "user.email=x",
        "-c",
        "init.defaultBranch=main",
        "-C",
        str(tmp_path / "owner/name.git"),
    ]
    (tmp_path / "owner/name.git/deep").mkdir(parents=True)
    (tmp_path / "owner/name.git/deep/file").write_text("cloned")
    for step in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run([*git, *step], check=True)
    led = {"url." + f"file://{tmp_path}/.insteadOf": "https://git.invalid/", "safe.directory": "*"} if sound else {}
    settings = {
        f"GIT_CONFIG_{part}_{n}": text
        for n, pair in enumerate(led.items())
        for part, text in zip(("KEY", "VALUE"), pair, strict=True)
    }
    policy = {
        "environment": {"set": {**settings, "GIT_CONFIG_COUNT": str(len(led)), "GIT_TERMINAL_PROMPT": "0"}},
        "confinement": {"runtime_read_paths": [str(tmp_path / "owner")]},
    }
    repository = GitRepo(host="git.invalid", repo="owner/name", ref="main", subpath="deep")

    async def body(session: Any) -> None:
        assert (await session.exec("cat repo/file; ls -A repo")).stdout == b"clonedfile\n"

    def act() -> None:
        within(client_of(place, policy), body, manifest=Manifest(entries={"repo": repository}))

    if sound:
        act()
    else:
        with pytest.raises(GitCloneError, match="clone failed"):
            act()
    assert list(place.iterdir()) == []


def asks_for(what: str) -> Any:
    from agents.sandbox import Dir, Group, Manifest, SandboxPathGrant, User
    from agents.sandbox.entries import File, InContainerMountStrategy, RcloneMountPattern, S3Mount

    mount = S3Mount(bucket="b", mount_strategy=InContainerMountStrategy(pattern=RcloneMountPattern()))
    return {
        "users": lambda: Manifest(users=[User(name="somebody")]),
        "groups": lambda: Manifest(groups=[Group(name="some", users=[])]),
        "group of a file": lambda: Manifest(entries={"d": Dir(children={"f": File(content=b"", group=User(name="some"))})}),
        "grants": lambda: Manifest(extra_path_grants=(SandboxPathGrant(path="/srv"),)),
        "mounts": lambda: Manifest(entries={"d": Dir(children={"m": mount})}),
    }[what]()


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("users", "one user"),
        ("groups", "one user"),
        ("group of a file", "one user"),
        ("grants", "runtime_read_paths"),
        ("mounts", "mounts"),
    ],
)
def test_what_cannot_be_had_is_refused_before_anything_is_made(what: str, why: str, place: Path) -> None:
    from agents.sandbox.errors import MountConfigError

    with pytest.raises((ValueError, MountConfigError), match=why):
        asyncio.run(client_of(place).create(manifest=asks_for(what)))
    with pytest.raises(ValueError, match="no options"):
        asyncio.run(client_of(place).create(options={"image": "x"}))

    async def resumed() -> None:
        client = client_of(place)
        session = await client.create()
        await client.delete(session)
        session.state.manifest = asks_for(what)
        await client.resume(session.state)

    with pytest.raises((ValueError, MountConfigError), match=why):
        asyncio.run(resumed())
    assert list(place.iterdir()) == []


def test_sessions_and_states_of_other_clients_are_refused(place: Path) -> None:
    from agents.sandbox.sandboxes.unix_local import UnixLocalSandboxClient

    async def act() -> None:
        client, local = client_of(place), UnixLocalSandboxClient()
        session = await local.create(options=None)
        try:
            for refused in (client.delete(session), client.resume(session.state)):
                with pytest.raises(TypeError, match="FableSandboxClient"):
                    await refused
        finally:
            await local.delete(session)

    asyncio.run(act())
    assert list(place.iterdir()) == []


@pytest.mark.parametrize(
    ("policy", "manifest", "why"),
    [
        ({"allowed_executables": ["python3"]}, {}, "sh or bash"),
        ({"confinement": {"protections": {"network": "off"}}}, {}, "does not hold network"),
        ({"colour": 1}, {}, "colour"),
        ({"environment": {"request_names": ["A"]}}, {"environment": {"value": {"A": "x", "B": "x"}}}, "'B'"),
    ],
)
def test_a_session_that_cannot_be_held_does_not_start(policy: Any, manifest: Any, why: str, place: Path) -> None:
    from agents.sandbox import Manifest
    from agents.sandbox.errors import WorkspaceStartError

    with pytest.raises(WorkspaceStartError, match=why):
        within(client_of(place, policy), lambda _: asyncio.sleep(0), manifest=Manifest(**manifest))
    assert list(place.iterdir()) == []


def test_an_agent_that_is_to_run_as_somebody_else_is_refused(place: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="run_as"):
        run_to_the_end(client_of(place), tmp_path, run_as="somebody")
    assert list(place.iterdir()) == []


def test_a_policy_is_a_document_without_what_is_the_sessions_own(place: Path, tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text('allowed_executables = ["sh"]\n')

    async def body(session: Any) -> None:
        assert (await session.exec("echo", "x", shell=False)).exit_code == 126

    within(client_of(place, tmp_path / "policy.toml"), body)
    with pytest.raises(PolicyError, match="workspace"):
        client_of(place, {"workspace": "/srv"})


# Directories and snapshots


def test_a_given_directory_stays_and_keeps_what_runs_later(place: Path, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    patched, hooked, ran = run_to_the_end(
        client_of(place),
        tmp_path,
        [sandbox_patch("*** Begin Patch\n*** Add File: new\n+x\n*** End Patch")],
        [sandbox_patch("*** Begin Patch\n*** Add File: .git/hooks/pre-commit\n+x\n*** End Patch")],
        [tool_call("exec_command", cmd="echo x >.git/hooks/post-commit; mkdir .vscode; echo {} >.vscode/tasks.json; ls -A")],
        default_manifest=manifest_of(repository),
    )
    assert patched == "Created new" and "runs-later" in hooked and "Read-only file system" in ran
    assert {path.name for path in repository.iterdir()} == {".git", "new"}
    assert not any("sample" not in path.name for path in (repository / ".git" / "hooks").iterdir())
    assert list(place.iterdir()) == []


def test_in_a_directory_of_its_own_a_session_clones_and_configures_as_it_likes(place: Path) -> None:
    async def body(session: Any) -> None:
        done = await session.exec("git init -q . && git config a.b c && mkdir .vscode && echo x >.git/hooks/pre-commit && ls -A")
        assert (done.exit_code, done.stdout) == (0, b".git\n.vscode\n")
        done = await session.exec("git config a.c d && ls -A .git/hooks | grep -v sample")
        assert (done.exit_code, done.stdout) == (0, b"pre-commit\n")

    within(client_of(place), body)


def test_what_a_session_held_is_there_again_when_it_is_resumed_from_its_state(place: Path, tmp_path: Path) -> None:
    make = "mkdir d; echo grün >d/f; chmod 700 d/f; ln -s /usr/bin/env e; ln -s d/f l"
    make += "; head -c 15000000 /dev/zero >large; touch $'new\\nline'"

    async def act() -> None:
        client = client_of(place)
        session = await client.create(manifest=manifest_of(a="eins"), snapshot=kept_in(tmp_path / "snapshots"))
        async with session:
            assert (await session.exec(f"bash -c {make!r}")).exit_code == 0, make
            await session.exec("rm a")
        payload = client.serialize_session_state(session.state)
        await client.delete(session)
        assert list(place.iterdir()) == []
        other = client_of(place)
        session = await other.resume(other.deserialize_session_state(payload))
        async with session:
            done = await session.exec("cat l; stat -c '%a %s' d/f large; readlink e; ls -b")
            assert done.stdout.decode() == "grün\n700 6\n644 15000000\n/usr/bin/env\nd\ne\nl\nlarge\nnew\\nline\n"
        await other.delete(session)

    with nothing_left():
        asyncio.run(act())
    assert list(place.iterdir()) == []


def test_a_session_that_nobody_ended_is_found_again_by_its_state(place: Path) -> None:
    async def act() -> None:
        client = client_of(place)
        session = await client.create(manifest=manifest_of(a="eins"))
        await session.start()
        await session.exec("echo zwei >a; chmod 777 .")
        await session.shutdown()
        await session.start()
        assert (await session.exec("cat a")).stdout == b"zwei\n"
        payload = client.serialize_session_state(session.state)
        await session.shutdown()
        again = await client.resume(client.deserialize_session_state(payload))
        assert [each.stat().st_mode & 0o777 for each in place.iterdir()] == [0o700]
        async with again:
            assert (await again.exec("cat a")).stdout == b"zwei\n"  # not what the manifest brought
        await client.delete(again)

    with nothing_left():
        asyncio.run(act())
    assert list(place.iterdir()) == []


def test_a_session_that_cannot_start_leaves_the_snapshot_of_the_last_one(place: Path, tmp_path: Path) -> None:
    from agents import Runner

    async def act() -> None:
        client = client_of(place)
        session = await client.create(snapshot=kept_in(tmp_path / "snapshots"))
        async with session:
            await session.exec("echo kept >file")
        await client.delete(session)
        (snapshot,) = (tmp_path / "snapshots").iterdir()
        before = snapshot.read_bytes()
        refusing = client_of(place, {"allowed_executables": ["python3"]})
        state = refusing.deserialize_session_state(client.serialize_session_state(session.state))
        with pytest.raises(Exception, match="sh or bash"):
            await Runner.run(agent_of(), "go", run_config=sandbox_run(refusing, tmp_path, session_state=state))
        assert snapshot.read_bytes() == before

    with nothing_left():
        asyncio.run(act())
    assert list(place.iterdir()) == []


def test_a_session_whose_snapshot_cannot_be_made_says_why(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from agents.sandbox.errors import WorkspaceStopError

    from fable_exec.adapters import archives

    monkeypatch.setattr(archives, "MAX_MEMBERS", 3)
    with pytest.raises(WorkspaceStopError) as stopped:
        within(client_of(place), lambda session: session.exec("touch 1 2 3 4"), snapshot=kept_in(tmp_path / "snapshots"))
    assert "more than 3 entries" in stopped.value.context["message"]
    assert list(place.iterdir()) == [] and not (tmp_path / "snapshots").exists()


def test_a_state_cannot_have_another_directory_taken_or_removed(place: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "precious").touch()

    async def act() -> None:
        client = client_of(place)
        session = await client.create()
        payload = client.serialize_session_state(session.state)
        await client.delete(session)
        payload["manifest"]["root"] = str(victim)
        session = await client.resume(client.deserialize_session_state(payload))
        assert session.state.manifest.root.startswith(f"{place}/")
        async with session:
            assert (await session.exec("ls -A")).stdout == b""
        await client.delete(session)
        (place / Path(session.state.manifest.root).name).symlink_to(victim)
        with pytest.raises(Exception, match="no directory of this user"):
            await client.resume(client.deserialize_session_state(payload))
        (place / Path(session.state.manifest.root).name).unlink()
        session = await client.create()
        session.state.manifest = session.state.manifest.model_copy(update={"root": str(victim)})
        await client.delete(session)
        assert list(place.iterdir()) == []

    with nothing_left():
        asyncio.run(act())
    assert (victim / "precious").exists()


@pytest.mark.parametrize(
    "root",
    ["", "  ", "a\0b", "/" + "x" * 300, "y/" * 3000, "\ud800"],
    ids=["empty", "blank", "NUL", "long", "deep", "not-unicode"],
)
def test_a_root_that_is_no_path_is_an_error_of_the_start_and_no_directory_of_ours(root: str, place: Path) -> None:
    from agents.sandbox import Manifest
    from agents.sandbox.errors import WorkspaceStartError

    async def act() -> None:
        client = client_of(place)
        with pytest.raises(WorkspaceStartError):
            await client.create(manifest=Manifest(root=root))
        session = await client.create()
        payload = client.serialize_session_state(session.state)
        await client.delete(session)
        payload["manifest"]["root"], payload["own_directory"] = root, False
        with pytest.raises(WorkspaceStartError):
            await client.resume(client.deserialize_session_state(payload))

    asyncio.run(act())
    assert list(place.iterdir()) == []


@pytest.mark.requires_ability("root")
def test_a_directory_of_another_user_is_not_taken_for_a_sessions_own(place: Path) -> None:
    async def act() -> None:
        client = client_of(place)
        session = await client.create()
        os.chown(session.state.manifest.root, 12_345, 12_345)
        with pytest.raises(Exception, match="no directory of this user"):
            await client.resume(session.state)
        await client.delete(session)

    asyncio.run(act())


def test_an_archive_that_leads_outside_is_refused_and_the_workspace_stays(place: Path, tmp_path: Path) -> None:
    from agents.sandbox import WorkspaceArchiveWriteError

    from tests.adapters.test_archives import a_file, a_link, tar_of

    async def body(session: Any) -> None:
        await session.exec("echo kept >file")
        for members in ([a_file("../x")], [a_link("d", str(tmp_path)), a_file("d/x")]):
            with pytest.raises(WorkspaceArchiveWriteError):
                await session.hydrate_workspace(io.BytesIO(tar_of(a_file("first"), *members)))
        assert (await session.exec("ls -A")).stdout == b"file\n"
        await session.hydrate_workspace(io.BytesIO(tar_of(a_file("second", b"zwei"))))
        assert (await session.exec("cat *")).stdout == b"kept\nzwei"

    within(client_of(place), body)
    assert not (tmp_path / "x").exists()


def test_what_the_manifest_calls_ephemeral_is_in_no_snapshot_and_made_anew(place: Path, tmp_path: Path) -> None:
    from agents.sandbox import Manifest
    from agents.sandbox.entries import File

    manifest = Manifest(entries={"secret": File(content=b"s3cret", ephemeral=True), "kept": File(content=b"kept")})

    async def act() -> None:
        client = client_of(place)
        session = await client.create(manifest=manifest, snapshot=kept_in(tmp_path / "snapshots"))
        async with session:
            await session.exec("echo changed >secret; echo changed >kept")
        await client.delete(session)
        (snapshot,) = (tmp_path / "snapshots").iterdir()
        assert b"secret" not in snapshot.read_bytes()
        again = await client.resume(session.state)
        async with again:
            assert (await again.exec("cat secret kept")).stdout == b"s3cretchanged\n"
        await client.delete(again)

    asyncio.run(act())
    assert list(place.iterdir()) == []


def test_the_example_runs_and_every_protection_holds() -> None:
    program = [sys.executable, "examples/openai_agents_sandbox.py"]
    done = subprocess.run(program, cwd=PROJECT, env=os.environ | {"PYTHONPATH": str(PROJECT)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("every protection held\n")
