"""What a sandbox session does, without OpenAI's SDK, over real brokers: commands that go on, files, what a session insists on."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from fable_exec import Denied, ExecutableDenied, InvalidRequest, PathDenied, PathError, PathExists, PathNotFound, PolicyError
from fable_exec.adapters.openai_agents_sandbox_background import Told
from fable_exec.adapters.openai_agents_sandbox_operations import SandboxOperations, pack, session_document, unpack
from fable_exec.errors import ShellDenied
from fable_exec.testing.leaks import nothing_left
from tests.adapters.openai_sandboxes import TERMINALS
from tests.cli.typed import is_running
from tests.hosts import unique_sleep
from tests.waiting import until

CONFINED = pytest.mark.requires_ability("confinement")
SHELL: Mapping[str, Any] = {"allowed_executables": ["sh", "script", "sleep"], "max_output_bytes": 1000}


def within(root: Path, body: Callable[[SandboxOperations], Awaitable[Any]], document: Mapping[str, Any] = SHELL) -> Any:
    """What `body` returns, in a session that is closed afterwards and leaves nothing."""

    async def act() -> Any:
        session = await SandboxOperations.open(document, str(root))
        try:
            return await body(session)
        finally:
            await session.close()

    with nothing_left():
        return asyncio.run(act())


async def to_the_end(session: SandboxOperations, told: Told) -> tuple[bytes, int | None]:
    """All that a command said, and its status."""
    said = told.output
    while told.number is not None:
        told = await session.background.feed(told.number, "", wait_seconds=5)
        said += told.output
    return said, told.status


@CONFINED
def test_a_command_that_goes_on_is_asked_what_it_said_until_its_end_was_told(workspace: Path) -> None:
    async def body(session: SandboxOperations) -> None:
        text = "echo grün; echo err >&2; read x <&0 || echo no input; until [ -e go ]; do sleep 0.02; done; echo last; exit 3"
        told = await session.background.start(session.shell_words(text), wait_seconds=0.5)
        assert told.status is None and told.number is not None
        with pytest.raises(InvalidRequest, match="no terminal"):
            await session.background.feed(told.number, "x", wait_seconds=0)
        await session.write(f"{workspace}/go", b"")
        said, status = await to_the_end(session, told)
        assert sorted(said.decode().splitlines()) == ["err", "grün", "last", "no input"]
        assert status == 3
        with pytest.raises(KeyError):
            await session.background.feed(told.number, "", wait_seconds=0)
        quick = await session.background.start(session.shell_words("echo at once; kill -15 $$"), wait_seconds=30)
        assert quick == Told(number=None, output=b"at once\n", status=143)

    within(workspace, body)


@CONFINED
@TERMINALS
def test_with_a_terminal_it_takes_input_and_interrupts(workspace: Path) -> None:
    marked = unique_sleep()

    async def body(session: SandboxOperations) -> None:
        words = session.shell_words(f'test -t 0 && echo a terminal; read x; echo "got $x"; sleep {marked}')
        told = await session.background.start(words, terminal=True, wait_seconds=0.5)
        assert told.number is not None
        said = told.output + (await session.background.feed(told.number, "größer\n", wait_seconds=0.5)).output
        assert await asyncio.to_thread(until, lambda: is_running(marked))
        last = await session.background.feed(told.number, "\x03", wait_seconds=10)
        while last.number is not None:
            said, last = said + last.output, await session.background.feed(last.number, "", wait_seconds=5)
        text = (said + last.output).decode()
        assert "a terminal\r\n" in text and "got größer\r\n" in text
        assert last.status == 130
        assert not is_running(marked)

    within(workspace, body)


@CONFINED
@TERMINALS
def test_a_terminal_takes_long_input_whole(workspace: Path) -> None:
    text = "".join(f"{number}\n" for number in range(30_000))

    async def body(session: SandboxOperations) -> None:
        told = await session.background.start(
            session.shell_words("stty -echo; while read x; do y=$x; done; echo last $y"), terminal=True, wait_seconds=0.5
        )
        assert told.number is not None
        told = await session.background.feed(told.number, f"{text}\x04", wait_seconds=30)
        assert told.output.endswith(b"last 29999\r\n"), told

    within(workspace, body)


@CONFINED
@pytest.mark.deep
def test_input_that_is_not_taken_is_told(workspace: Path) -> None:
    async def body(session: SandboxOperations) -> None:
        deaf = await session.background._started(("sleep", "600"), {}, True)
        told = await session.background.feed(deaf.number, "x" * 1_000_000, wait_seconds=0)
        assert told.output.endswith(b" bytes of input were not taken ...]\n")

    within(workspace, body)


@CONFINED
def test_of_a_command_that_talks_without_an_end_the_latest_is_kept(workspace: Path) -> None:
    async def body(session: SandboxOperations) -> None:
        told = await session.background.start(session.shell_words("seq 1 100000; echo last"), wait_seconds=30)
        first, *rest = told.output.decode().splitlines()
        assert first.startswith("[... ") and first.endswith(" bytes left out ...]")
        assert rest[-2:] == ["100000", "last"] and len(told.output) < 1100
        assert told.status == 0

    within(workspace, body)


@CONFINED
def test_what_is_refused_is_told_as_a_command_that_ended(workspace: Path) -> None:
    async def body(session: SandboxOperations) -> None:
        for words, status in ((["python3"], 126), (["no-such-program-here"], 126), ([], 2)):
            told = await session.background.start(words, wait_seconds=1)
            assert told.number is None and told.output and told.status == status
        no_terminal = await session.background.start(["sh"], terminal=True, wait_seconds=1)
        assert (no_terminal.status, b"script" in no_terminal.output) == (126, True)
        done = await session.execute(["no-such-program-here"])
        assert (done.status, done.stderr_text != "") == (127, True)

    within(workspace, body, {**SHELL, "allowed_executables": ["sh"]})


@CONFINED
def test_a_command_ends_when_nobody_was_told_of_it_when_all_end_and_with_the_session(workspace: Path) -> None:
    first, second, third = unique_sleep(), unique_sleep(), unique_sleep()

    async def body(session: SandboxOperations) -> None:
        starting = asyncio.ensure_future(
            session.background.start(session.shell_words(f"sleep {first} & sleep {first}"), wait_seconds=60)
        )
        assert await asyncio.to_thread(until, lambda: is_running(first))
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert not is_running(first)

        told = await session.background.start(session.shell_words(f"sleep {second} & sleep {second}"), wait_seconds=0.2)
        assert told.number is not None
        polling = asyncio.ensure_future(session.background.feed(told.number, "", wait_seconds=60))
        await asyncio.sleep(0.05)
        polling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await polling
        assert is_running(second)  # its number is known, so it goes on
        await session.background.end_all()
        assert not is_running(second)

        await session.background.start(session.shell_words(f"sleep {third}"), wait_seconds=0.2)
        assert await asyncio.to_thread(until, lambda: is_running(third))

    within(workspace, body)
    assert not is_running(third)


@CONFINED
def test_what_was_heard_while_a_call_was_cancelled_is_told_by_the_next(workspace: Path) -> None:
    async def body(session: SandboxOperations) -> None:
        told = await session.background.start(session.shell_words("sleep 0.3; echo heard; sleep 60"), wait_seconds=0.05)
        assert told.number is not None and told.output == b""
        polling = asyncio.ensure_future(session.background.feed(told.number, "", wait_seconds=60))
        running = session.background._commands[told.number]
        while not running._unsaid:
            await asyncio.sleep(0.01)
        polling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await polling
        assert (await session.background.feed(told.number, "", wait_seconds=0)).output == b"heard\n"

    within(workspace, body)


@CONFINED
def test_commands_and_calls_go_on_side_by_side(workspace: Path) -> None:
    async def body(session: SandboxOperations) -> None:
        started = [
            session.background.start(session.shell_words(f"sleep 0.2; echo {number}"), wait_seconds=30) for number in range(4)
        ]
        done = [session.execute(["sh", "-c", f"echo {number}"]) for number in range(4)]
        assert [told.output for told in await asyncio.gather(*started)] == [b"%d\n" % number for number in range(4)]
        assert [each.stdout for each in await asyncio.gather(*done)] == [b"%d\n" % number for number in range(4)]

    within(workspace, body)


def test_files_are_whole_or_an_error(workspace: Path) -> None:
    at = f"{workspace}/"

    async def body(session: SandboxOperations) -> None:
        await session.write(f"{at}deep/er", "grün".encode())
        assert await session.read(f"{at}deep/er") == "grün".encode()
        await session.write(f"{at}large", b"x" * 3000)
        for read in (session.read(f"{at}large"), session.read_first(f"{at}large", 2000)):
            with pytest.raises(PathError, match="3000 bytes"):
                await read
        assert await session.read_first(f"{at}large", 500) == b"x" * 500
        assert await session.read_first(f"{at}deep/er", 500) == "grün".encode()
        with pytest.raises(PathNotFound):
            await session.make_dir(f"{at}a/b", parents=False)
        await session.make_dir(f"{at}a/b", parents=True)
        await session.make_dir(f"{at}a/b", parents=False)
        (workspace / "link").symlink_to("large")
        listed = {each.path: (each.kind, each.mode & 0o700) for each in await session.list(str(workspace))}
        assert listed[f"{at}a"] == ("directory", 0o700)
        assert listed[f"{at}link"][0] == "symlink"
        with pytest.raises(InvalidRequest, match="no file and no link"):
            await session.move(f"{at}a", f"{at}b")
        await session.move(f"{at}link", f"{at}moved")
        assert (workspace / "moved").is_symlink()
        with pytest.raises(PathDenied):
            await session.read(f"{at}moved")
        await session.remove(f"{at}moved", recursive=False)
        assert (workspace / "large").exists()

    within(workspace, body)


def test_a_file_is_created_by_one_of_all_who_try_at_the_same_time(workspace: Path) -> None:
    at = f"{workspace}/deep/file"

    async def body(session: SandboxOperations) -> list[Any]:
        tried = (session.create(at, b"%d" % number) for number in range(8))
        return await asyncio.gather(*tried, return_exceptions=True)

    results = within(workspace, body)
    assert [result for result in results if not isinstance(result, PathExists)] == [None]
    assert int((workspace / "deep" / "file").read_bytes()) == results.index(None)
    assert [path.name for path in (workspace / "deep").iterdir()] == ["file"]


def test_two_names_are_one_file_by_what_the_file_system_says(workspace: Path) -> None:
    (workspace / "one").write_text("x")
    (workspace / "two").hardlink_to(workspace / "one")
    (workspace / "copy").write_text("x")
    (workspace / "link").symlink_to("one")

    async def body(session: SandboxOperations) -> None:
        for left, right, same in (("one", "two", True), ("one", "copy", False), ("link", "link", False), ("one", "gone", False)):
            assert await session.is_same_file(f"{workspace}/{left}", f"{workspace}/{right}") is same

    within(workspace, body)


@CONFINED
def test_a_session_that_was_locked_writes_nothing_more(workspace: Path) -> None:
    async def body(session: SandboxOperations) -> None:
        await session.write(f"{workspace}/before", b"")
        await session.lock()
        with pytest.raises(Denied, match="locked"):
            await session.write(f"{workspace}/after", b"")
        done = await session.execute(session.shell_words("ls; touch after"))
        assert (done.stdout, done.status != 0) == (b"before\n", True)

    within(workspace, body)


def test_a_cancelled_packing_or_unpacking_has_ended_before_the_cancellation_goes_on(workspace: Path, tmp_path: Path) -> None:
    for number in range(300):
        (workspace / str(number)).write_bytes(b"x")
    (tmp_path / "other").mkdir()

    async def act() -> None:
        with await pack(str(workspace)) as archive:
            for going_on in (unpack(str(tmp_path / "other"), archive), pack(str(workspace))):
                cancelled = asyncio.ensure_future(going_on)
                await asyncio.sleep(0.001)
                cancelled.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await cancelled
        assert len(list((tmp_path / "other").iterdir())) == 300

    with nothing_left():
        asyncio.run(act())


@CONFINED
@pytest.mark.parametrize(
    ("document", "error"),
    [
        ({"allowed_executables": ["python3"]}, ExecutableDenied),
        ({**SHELL, "confinement": {"protections": {"host_reads": "off"}}}, ShellDenied),
        ({**SHELL, "colour": 1}, PolicyError),
    ],
)
def test_no_session_begins_without_a_shell_that_the_kernel_holds(
    document: Mapping[str, Any], error: type[Exception], workspace: Path
) -> None:
    with pytest.raises(error):
        within(workspace, lambda _: asyncio.sleep(0), document)


def test_variables_that_the_policy_does_not_let_requests_set_are_named(workspace: Path) -> None:
    async def body(session: SandboxOperations) -> None:
        session.check_env(["GIVEN"])
        with pytest.raises(Denied, match="LD_PRELOAD"):
            session.check_env(["GIVEN", "LD_PRELOAD"])

    within(workspace, body, {**SHELL, "environment": {"request_names": ["GIVEN"]}})


def test_a_session_in_a_directory_of_its_own_minds_neither_later_files_nor_other_users() -> None:
    given = {"confinement": {"network": "full", "protections": {"host_metadata": "off"}}, "paths": None}
    own = session_document(given, own_directory=True)
    assert own["confinement"] == {"network": "full", "protections": {"host_metadata": "off", "later_files": "off"}}
    assert own["paths"] == {"backslash": "literal", "file_trust": "regular"}
    elsewhere = session_document(given, own_directory=False)
    assert (elsewhere["confinement"], elsewhere["paths"]) == (given["confinement"], {"backslash": "literal"})
    asked = {"confinement": {"protections": {"later_files": "strict"}}}
    assert session_document(asked, own_directory=True)["confinement"]["protections"] == {"later_files": "strict"}


def test_the_variables_of_a_session_may_be_set_unless_the_document_says_which() -> None:
    def names(given: Mapping[str, Any]) -> Any:
        return session_document(given, own_directory=True, variables=["B", "A"])["environment"]["request_names"]

    assert names({}) == names({"environment": {"set": {"X": "y"}}}) == ["A", "B"]
    assert names({"environment": {"request_names": ["C"]}}) == ["C"]


@pytest.mark.parametrize("name", [b"a\\b", b"\xff", b"new\nline", b"a:b"])
def test_an_entry_of_any_name_is_listed(name: bytes, workspace: Path) -> None:
    Path(os.fsdecode(os.path.join(os.fsencode(workspace), name))).write_bytes(b"12345")

    async def body(session: SandboxOperations) -> None:
        (entry,) = await session.list(str(workspace))
        assert (os.path.basename(entry.path), entry.kind, entry.size_bytes) == (os.fsdecode(name), "file", 5)

    within(workspace, body, {**SHELL, "paths": {"backslash": "literal"}})


def test_an_archive_is_a_file_without_a_name(workspace: Path) -> None:
    (workspace / "file").write_bytes(b"x" * 5000)

    async def act() -> bytes:
        with await pack(str(workspace)) as archive:
            assert archive.tell() == 0
            return archive.read()

    with nothing_left():
        data = asyncio.run(act())
    asyncio.run(unpack(str(workspace), io.BytesIO(data), instead=True))
    assert (workspace / "file").read_bytes() == b"x" * 5000
