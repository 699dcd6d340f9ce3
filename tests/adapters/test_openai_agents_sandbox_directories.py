"""Directories of sandbox sessions in OpenAI's Agents SDK: given ones and sessions' own, snapshots, and going on from a state.

Where the SDK is not installed this is skipped. How a workspace is packed is tried by test_archives.py, which does not need it.
"""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fable_exec.testing.leaks import nothing_left
from tests.adapters.openai_sandboxes import agent_of, client_of, kept_in, manifest_of, run_to_the_end, sandbox_run, within
from tests.adapters.scripted_agents import sandbox_patch, tool_call
from tests.adapters.tars import a_file, a_link, tar_of

pytestmark = [pytest.mark.requires_ability("openai_agents"), pytest.mark.requires_ability("confinement")]


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


def test_nothing_is_unpacked_into_a_read_only_session_once_it_is_set_up(place: Path) -> None:
    from agents.sandbox.errors import WorkspaceArchiveWriteError

    async def body(session: Any) -> None:
        with await session.persist_workspace() as archive, pytest.raises(WorkspaceArchiveWriteError, match="read-only"):
            await session.hydrate_workspace(archive)
        assert (await session.exec("ls")).stdout == b"a\n"

    within(client_of(place, read_only=True), body, manifest=manifest_of(a="x"))
