"""Sandbox sessions of OpenAI's Agents SDK by its own calls: commands, files, what a manifest brings, and what is refused.

Where the SDK is not installed this is skipped. What sessions do is tried by test_openai_agents_sandbox_operations.py, which does
not need it. The SDK ships no suite for sandbox clients.
"""

from __future__ import annotations

import asyncio
import io
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fable_exec import PolicyError
from fable_exec.testing.leaks import nothing_left
from tests.adapters.openai_sandboxes import TERMINALS, agent_of, client_of, sandbox_run, within
from tests.cli.typed import is_running
from tests.hosts import unique_sleep
from tests.waiting import until

pytestmark = [pytest.mark.requires_ability("openai_agents"), pytest.mark.requires_ability("confinement")]


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


@pytest.mark.parametrize("terminal", [False, pytest.param(True, marks=TERMINALS)])
def test_the_exit_code_of_what_goes_on_is_a_plain_number(terminal: bool, place: Path) -> None:
    """Also where the status is a member of our enumeration, which only some ways to write it show as the number."""

    async def ending(session: Any) -> None:
        for text, code in (("true", 0), ("exit 3", 3), ("kill -15 $$", 143), ("no-such-program-here", 127)):
            told = await session.pty_exec_start(text, tty=terminal, yield_time_s=30)
            assert (told.exit_code, type(told.exit_code), told.process_id) == (code, int, None), text
        denied = await session.pty_exec_start("curl", shell=False)
        assert (denied.exit_code, type(denied.exit_code), denied.process_id) == (126, int, None)

    async def late(session: Any) -> None:
        told = await session.pty_exec_start("sleep 600", tty=terminal, yield_time_s=30)
        assert (told.exit_code, type(told.exit_code), told.process_id) == (124, int, None)

    within(client_of(place), ending)
    within(client_of(place, {"limits": {"timeout_seconds": 2, "max_timeout_seconds": 2}}), late)


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


def test_a_state_that_lost_a_granted_path_of_the_host_is_not_continued_without_it(place: Path, tmp_path: Path) -> None:
    """The SDK leaves such a path out where a state is written, and only a run may say again what it is."""
    from agents import Runner
    from agents.sandbox import Manifest, SandboxPathGrant

    granting = Manifest(extra_path_grants=(SandboxPathGrant(path="/granted", host_path=str(tmp_path)),))

    async def act() -> None:
        client = client_of(place)
        session = await client.create()
        await client.delete(session)
        session.state.manifest = session.state.manifest.model_copy(update={"extra_path_grants": granting.extra_path_grants})
        payload = client.serialize_session_state(session.state)
        assert payload["manifest"]["extra_path_grants"] == []
        state = client.deserialize_session_state(payload)
        with pytest.raises(ValueError, match="must be rebound"):
            await client.resume(state)
        with pytest.raises(ValueError, match="runtime_read_paths"):
            config = sandbox_run(client, tmp_path, session_state=state, manifest=granting)
            await Runner.run(agent_of(), "go", run_config=config)

    asyncio.run(act())
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


def test_a_policy_is_a_document_without_what_is_the_sessions_own(place: Path, tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text('allowed_executables = ["sh"]\n')

    async def body(session: Any) -> None:
        assert (await session.exec("echo", "x", shell=False)).exit_code == 126

    within(client_of(place, tmp_path / "policy.toml"), body)
    with pytest.raises(PolicyError, match="workspace"):
        client_of(place, {"workspace": "/srv"})
