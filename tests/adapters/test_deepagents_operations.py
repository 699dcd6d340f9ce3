"""What the deepagents backend does, without deepagents: the members of its answers, over real brokers."""

from __future__ import annotations

import asyncio
import base64
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fable_exec import AsyncBrokerClient, AsyncExecutionBroker, BrokerPolicy, Confinement
from fable_exec.adapters import BlockingAgentWorkspace, deepagents_operations, walking
from fable_exec.adapters.deepagents_operations import DeepAgentsOperations
from tests.adapters.places import DOORS_BELOW_THE_FACADE, shell_policy
from tests.cli.typed import is_running
from tests.doors import TOKEN
from tests.waiting import until

CONFINED = pytest.mark.requires_ability("confinement")
DOORS = {"asyncio": AsyncExecutionBroker, "asyncio_spawned": AsyncBrokerClient}


@contextmanager
def operations(policy: BrokerPolicy, *, unlocked: bool = True, view: Any = "host", door: str = "asyncio") -> Iterator[Any]:
    broker = DOORS[door](policy)
    with BlockingAgentWorkspace(broker, view=view) as workspace:
        if unlocked:
            workspace.call(lambda _: broker.unlock_writes(TOKEN))
        yield DeepAgentsOperations(workspace)


def marker() -> str:
    return f"7{time.time_ns() % 10**9}"


@CONFINED
@pytest.mark.parametrize("door", DOORS_BELOW_THE_FACADE)
def test_a_command_is_told_as_one_text_and_a_status(door: str, workspace: Path) -> None:
    with operations(shell_policy(workspace), door=door, unlocked=False) as backend:
        assert backend.execute("echo grün; echo schön >&2; exit 3") == {
            "output": "grün\nschön\n",
            "exit_code": 3,
            "truncated": False,
        }
        assert backend.execute("kill -15 $$")["exit_code"] == 143
        assert backend.execute("no-such-program-here")["exit_code"] == 127
        assert type(backend.execute("exit 126")["exit_code"]) is int
        locked = backend.execute("echo x >new")
        assert locked["exit_code"] != 0 and "Read-only" in locked["output"]


@CONFINED
def test_limits_are_told_with_the_output_that_came_before(workspace: Path) -> None:
    with operations(shell_policy(workspace, max_output_bytes=1000)) as backend:
        late = backend.execute("echo before; sleep 60", timeout=1)
        assert (late["exit_code"], late["output"]) == (124, "before\n[ended: timed_out]\n")
        much = backend.execute("yes | head -c 100000")
        assert (much["exit_code"], much["truncated"]) == (137, True)
        assert backend.execute("echo all", timeout=0)["exit_code"] == 0
        assert backend.execute("echo none", timeout=-1)["exit_code"] == 2


def test_what_is_refused_is_a_status_and_a_sentence(workspace: Path) -> None:
    with operations(shell_policy(workspace, confinement=Confinement.off()), unlocked=False) as backend:
        refused = backend.execute("echo hi")
        assert (refused["exit_code"], refused["truncated"]) == (126, False)
        assert type(refused["exit_code"]) is int
        assert "allow-list cannot see inside" in refused["output"]


@CONFINED
def test_a_cancelled_command_is_dead_before_the_cancellation_goes_on(workspace: Path) -> None:
    asleep = marker()

    async def act(backend: DeepAgentsOperations) -> None:
        running = asyncio.ensure_future(backend.execute_cancellably(f"sleep {asleep} & sleep {asleep}"))
        assert await asyncio.to_thread(until, lambda: is_running(asleep))
        running.cancel()
        await asyncio.sleep(0)
        running.cancel()  # as impatient callers do
        with pytest.raises(asyncio.CancelledError):
            await running
        assert not is_running(asleep)
        assert (await backend.execute_cancellably("echo after"))["output"] == "after\n"

    with operations(shell_policy(workspace)) as backend:
        asyncio.run(act(backend))


@CONFINED
def test_a_command_that_is_cancelled_before_it_began_does_not_begin(workspace: Path) -> None:
    async def act(backend: DeepAgentsOperations) -> None:
        running = asyncio.ensure_future(backend.execute_cancellably("echo ran >proof"))
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    with operations(shell_policy(workspace)) as backend:
        asyncio.run(act(backend))
        assert backend.ls(str(workspace)) == {"entries": []}


@CONFINED
def test_commands_run_at_the_same_time(workspace: Path) -> None:
    heard: dict[int, str] = {}
    with operations(shell_policy(workspace)) as backend:

        def run(number: int) -> None:
            heard[number] = backend.execute(f"sleep 0.2; echo {number}")["output"]

        threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert heard == {number: f"{number}\n" for number in range(8)}


@pytest.mark.parametrize("view", ["host", "root"])
def test_files_are_called_as_the_view_does(view: str, workspace: Path) -> None:
    with operations(shell_policy(workspace), view=view) as backend:
        root = backend.workspace.root.rstrip("/")
        assert backend.write(f"{root}/deep/ünï.txt", "eins\nzwei\n") == {"path": f"{root}/deep/ünï.txt"}
        assert (workspace / "deep/ünï.txt").read_text() == "eins\nzwei\n"
        assert backend.ls(f"{root}/") == {"entries": [{"path": f"{root}/deep", "is_dir": True}]}
        assert backend.ls(f"{root}/deep/")["entries"] == [{"path": f"{root}/deep/ünï.txt", "is_dir": False, "size": 10}]
        for pattern in ("**/*.txt", "*.txt"):
            assert backend.glob(pattern) == {
                "matches": [{"path": f"{root}/deep/ünï.txt", "is_dir": False}],
                "truncated": False,
                "truncation_reason": None,
            }
        assert backend.grep("zwei") == {
            "matches": [{"path": f"{root}/deep/ünï.txt", "line": 2, "text": "zwei"}],
            "truncated": False,
        }
        assert backend.delete(f"{root}/deep") == {"path": f"{root}/deep"}
        assert not (workspace / "deep").exists()


@pytest.mark.parametrize(
    ("offset", "limit", "content", "place"),
    [
        (0, 2000, "a\nb\nc\nd\ne\n", {"start_line": 1, "end_line": 5, "total_lines": 5}),
        (0, 2, "a\nb", {"start_line": 1, "end_line": 2, "total_lines": 5, "next_offset": 2}),
        (3, 1, "d", {"start_line": 4, "end_line": 4, "total_lines": 5, "next_offset": 4}),
        (3, 9, "d\ne\n", {"start_line": 4, "end_line": 5, "total_lines": 5}),
        (-3, 1, "a", {"start_line": 1, "end_line": 1, "total_lines": 5, "next_offset": 1}),
        (0, 0, "", {"no_lines_requested": True}),
        (9, -1, "", {"no_lines_requested": True}),
    ],
)
def test_a_text_is_read_by_lines(offset: int, limit: int, content: str, place: dict[str, int], workspace: Path) -> None:
    (workspace / "five").write_text("a\nb\nc\nd\ne\n")
    with operations(shell_policy(workspace), unlocked=False) as backend:
        found = backend.read(f"{workspace}/five", offset, limit)
    assert found == {"file_data": {"content": content, "encoding": "utf-8"}} | place


def test_pages_of_a_text_put_together_are_the_text(workspace: Path) -> None:
    text = "\n".join(f"Zeile {number}" for number in range(2500))
    (workspace / "long").write_text(text)
    with operations(shell_policy(workspace), unlocked=False) as backend:
        pages, offset = [], 0
        while offset is not None:
            page = backend.read(f"{workspace}/long", offset, 100)
            pages.append(page["file_data"]["content"])
            offset = page.get("next_offset")
    assert len(pages) == 25
    assert "\n".join(pages) == text


def test_what_is_no_text_is_read_in_base64_and_the_empty_file_is_a_text(workspace: Path) -> None:
    (workspace / "bytes").write_bytes(bytes(range(256)))
    (workspace / "empty").touch()
    with operations(shell_policy(workspace), unlocked=False) as backend:
        read = backend.read(f"{workspace}/bytes")["file_data"]
        assert (read["encoding"], base64.b64decode(read["content"])) == ("base64", bytes(range(256)))
        assert backend.read(f"{workspace}/empty") == {"file_data": {"content": "", "encoding": "utf-8"}}


def test_a_name_that_is_not_utf8_is_told_as_a_model_can_be_told(workspace: Path) -> None:
    (workspace / os.fsdecode(b"odd\xff")).write_text("within")
    with operations(shell_policy(workspace), unlocked=False) as backend:
        for answer in (backend.ls(str(workspace)), backend.glob("odd*"), backend.grep("within")):
            [paths] = [[each["path"] for each in listed] for listed in answer.values() if isinstance(listed, list)]
            assert paths == [f"{workspace}/odd\ufffd"], answer


def test_a_search_below_a_path_does_not_depend_on_its_spelling(workspace: Path) -> None:
    (workspace / "src/deep").mkdir(parents=True)
    (workspace / "src/deep/a.py").write_text("within")
    with operations(shell_policy(workspace), unlocked=False) as backend:
        for spelling in (f"{workspace}/src", f"{workspace}/./src/", f"/{workspace}//src/."):
            found = backend.grep("within", spelling, "deep/*.py")
            assert [each["path"] for each in found["matches"]] == [f"{workspace}/src/deep/a.py"], spelling


def test_an_edit_replaces_one_place_or_all_and_says_how_many(workspace: Path) -> None:
    fruits = workspace / "fruits"
    fruits.write_text("apple\nbanana\napple")
    with operations(shell_policy(workspace)) as backend:
        assert "multiple" in backend.edit(f"{workspace}/fruits", "apple", "pear")["error"]
        assert "not found" in backend.edit(f"{workspace}/fruits", "cherry", "pear")["error"]
        assert "empty" in backend.edit(f"{workspace}/fruits", "", "pear")["error"]
        assert fruits.read_text() == "apple\nbanana\napple"
        assert backend.edit(f"{workspace}/fruits", "banana\napple", "$1") == {"path": f"{workspace}/fruits", "occurrences": 1}
        assert backend.edit(f"{workspace}/fruits", "apple", "pear", replace_all=True)["occurrences"] == 1
        assert fruits.read_text() == "pear\n$1"


def test_an_edit_that_would_multiply_a_file_beyond_what_is_read_is_refused(workspace: Path) -> None:
    (workspace / "file").write_bytes(b"a" * 1000)
    with operations(shell_policy(workspace, max_output_bytes=1000)) as backend:
        told = backend.edit(f"{workspace}/file", "a", "b" * 1_000_000, replace_all=True)
        assert "1000000000 bytes" in told["error"]
        assert (workspace / "file").read_bytes() == b"a" * 1000
        assert backend.edit(f"{workspace}/file", "a", "b", replace_all=True)["occurrences"] == 1000
        (workspace / "file").write_bytes(b"a" * 500)
        assert backend.edit(f"{workspace}/file", "a", "ab", replace_all=True)["occurrences"] == 500


def test_an_edit_leaves_a_file_as_it_is_that_was_changed_meanwhile(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (workspace / "file").write_text("old")
    with operations(shell_policy(workspace)) as backend:
        read = backend.workspace.read_bytes

        def read_and_lose_the_race(path: str) -> bytes:
            found: bytes = read(path)
            (workspace / "file").write_text("old, and theirs")
            return found

        monkeypatch.setattr(BlockingAgentWorkspace, "read_bytes", lambda _, path: read_and_lose_the_race(path))
        assert backend.edit(f"{workspace}/file", "old", "new")["error"].startswith("conflict: ")
    assert (workspace / "file").read_text() == "old, and theirs"


def test_each_file_of_a_batch_has_its_own_answer_in_deepagents_words(workspace: Path) -> None:
    (workspace / "directory").mkdir()
    (workspace / "link").symlink_to("/etc/passwd")
    large = b"x" * 3_000_000
    with operations(shell_policy(workspace, max_output_bytes=4_000_000)) as backend:
        paths = [f"{workspace}/large", f"{workspace}/directory", "relative", "/etc/passwd", f"{workspace}/link"]
        assert [each["error"] for each in backend.upload([(path, large) for path in paths])] == [
            None, "is_directory", "invalid_path", "permission_denied", "permission_denied",
        ]  # fmt: skip
        answers = backend.download([*paths, f"{workspace}/missing"])
    assert [each["path"] for each in answers] == [*paths, f"{workspace}/missing"]
    assert [each["error"] for each in answers] == [
        None, "is_directory", "invalid_path", "permission_denied", "permission_denied", "file_not_found",
    ]  # fmt: skip
    assert [each["content"] for each in answers] == [large, None, None, None, None, None]


def test_of_a_file_that_is_larger_than_one_read_gives_only_whole_lines_are_shown(workspace: Path) -> None:
    (workspace / "large").write_bytes(("ä" * 99 + "\n").encode() * 10)  # 199 bytes a line, and the read ends within an ä
    with operations(shell_policy(workspace, max_output_bytes=1000)) as backend:
        page = backend.read(f"{workspace}/large", 3, 9)
        assert page["file_data"] == {"content": "\n".join(["ä" * 99] * 2), "encoding": "utf-8"}
        assert {key: page[key] for key in page if key != "file_data"} == {"start_line": 4, "end_line": 5, "next_offset": 5}
        assert "the first 5 lines of a file of 1990 bytes" in backend.read(f"{workspace}/large", 5)["error"]


def test_a_file_that_is_larger_than_one_read_gives_is_otherwise_an_error_and_not_a_part(workspace: Path) -> None:
    (workspace / "line").write_bytes(b"x" * 2000)
    (workspace / "picture.png").write_bytes(b"\xff" * 2000)
    with operations(shell_policy(workspace, max_output_bytes=1000)) as backend:
        for name in ("line", "picture.png"):
            assert "2000 bytes" in backend.read(f"{workspace}/{name}")["error"]
            assert "2000 bytes" in backend.edit(f"{workspace}/{name}", "x", "y", replace_all=True)["error"]
            assert backend.download([f"{workspace}/{name}"])[0]["content"] is None


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\r\nc", "a\nb", "1\n2", b"1\r\n2\r\nc"),
        (b"a\r\nb\r\nc", "a\r\nb", "1\r\n2", b"1\r\n2\r\nc"),
        (b"a\nb\nc", "a\r\nb", "1\r\n2", b"1\n2\nc"),
        (b"a\nb\r\nc", "a\nb", "1\n2", b"1\n2\r\nc"),
        (b"a\rb", "a\rb", "1\rb", b"1\rb"),
    ],
)
def test_an_edit_goes_by_the_ends_of_lines_that_the_file_has(
    before: bytes, old: str, new: str, after: bytes, workspace: Path
) -> None:
    (workspace / "file").write_bytes(before)
    with operations(shell_policy(workspace)) as backend:
        assert backend.edit(f"{workspace}/file", old, new)["occurrences"] == 1
    assert (workspace / "file").read_bytes() == after


def test_a_glob_finds_files_alone_and_says_why_it_is_not_all(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for directory in ("a.d", "b.d"):
        (workspace / directory).mkdir()
        (workspace / directory / "c.d").touch()
    (workspace / "link.d").symlink_to("a.d/c.d")
    with operations(shell_policy(workspace), unlocked=False) as backend:
        whole = backend.glob("*.d")
        assert [each["path"] for each in whole["matches"]] == [f"{workspace}/a.d/c.d", f"{workspace}/b.d/c.d"]
        assert [each["path"] for each in backend.glob("/*/c.d", f"{workspace}/./")["matches"]] == [
            f"{workspace}/a.d/c.d",
            f"{workspace}/b.d/c.d",
        ]
        assert backend.glob("./a.d/*")["matches"] == whole["matches"][:1]
        assert backend.glob("/*.d")["matches"] == []
        monkeypatch.setattr(deepagents_operations, "MAX_MATCHES", 1)
        one = backend.glob("*.d")
        assert (len(one["matches"]), one["truncated"], one["truncation_reason"]) == (1, True, "budget")
        monkeypatch.setattr(walking, "_MAX_SECONDS", 0.0)
        part = backend.glob("*.d")
        assert (part["matches"], part["truncated"], part["truncation_reason"]) == ([], True, "budget")


@pytest.mark.requires_ability("ordinary_user")
def test_a_glob_says_that_a_directory_is_closed_to_it(workspace: Path) -> None:
    (workspace / "open").touch()
    (workspace / "closed").mkdir(mode=0)
    try:
        with operations(shell_policy(workspace), unlocked=False) as backend:
            assert backend.glob("*") == {
                "matches": [{"path": f"{workspace}/open", "is_dir": False}],
                "truncated": True,
                "truncation_reason": "unreadable",
            }
    finally:
        (workspace / "closed").chmod(0o700)


def test_what_is_asked_of_a_workspace_that_is_closed_is_told(workspace: Path) -> None:
    with operations(shell_policy(workspace)) as backend:
        pass
    assert backend.execute("echo hi") == {"output": "the workspace is closed\n", "exit_code": 125, "truncated": False}
    assert asyncio.run(backend.execute_cancellably("echo hi"))["exit_code"] == 125
    assert "the workspace is closed" in backend.ls(str(workspace))["error"]
    assert "the workspace is closed" in backend.glob("*")["error"]


def test_a_cancellation_does_not_wait_for_a_thread(workspace: Path) -> None:
    """A loop has few, and what others run in them may take long."""

    async def act(backend: DeepAgentsOperations) -> None:
        free = threading.Event()
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        busy = asyncio.ensure_future(asyncio.to_thread(free.wait))
        running = asyncio.ensure_future(backend.execute_cancellably("echo ran >proof"))
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        free.set()
        await busy

    with operations(shell_policy(workspace)) as backend:
        asyncio.run(act(backend))


def test_while_writes_are_locked_every_change_is_an_error_and_changes_nothing(workspace: Path) -> None:
    (workspace / "file").write_text("old")
    with operations(shell_policy(workspace), unlocked=False) as backend:
        path = f"{workspace}/file"
        for answer in (backend.write(path, "new"), backend.edit(path, "old", "new"), backend.delete(path)):
            assert answer["error"].startswith("permission_denied: ")
        assert backend.upload([(path, b"new")]) == [{"path": path, "error": "permission_denied"}]
    assert (workspace / "file").read_text() == "old"


def test_matches_are_cut_at_their_number_and_only_then_called_a_part(workspace: Path) -> None:
    for name in ("a.py", "b.py", "c.txt"):
        (workspace / name).write_text("needle (b) | [c]\nhay\nneedle (b) | [c]\n")
    (workspace / "sub").mkdir()
    (workspace / "sub/d.py").write_text("needle (b) | [c]\n")
    with operations(shell_policy(workspace), unlocked=False) as backend:
        assert len(backend.grep("(b) | [c]", str(workspace), "*.py")["matches"]) == 5
        assert [each["path"] for each in backend.grep("needle", None, "sub/*.py")["matches"]] == [f"{workspace}/sub/d.py"]
        assert len(backend.grep("needle", None, "**/*.py")["matches"]) == 5
        whole = backend.grep("needle", None, "*.py", max_count=5)
        assert (len(whole["matches"]), whole["truncated"]) == (5, False)
        part = backend.grep("needle", None, "*.py", max_count=4)
        assert (len(part["matches"]), part["truncated"]) == (4, True)
        for most, is_part in ((7, False), (6, True), (0, True)):
            found = backend.grep("needle", max_count=most)
            assert (len(found["matches"]), found["truncated"]) == (most, is_part)
        assert backend.grep("absent") == {"matches": [], "truncated": False}
        assert len(backend.grep("needle", None, "*.{py,txt}")["matches"]) == 7
        assert [each["path"] for each in backend.grep("needle", f"{workspace}/a.py", "a.*", max_count=1)["matches"]] == [
            f"{workspace}/a.py"
        ]
        assert "pattern" in backend.grep("needle", None, "{a,b}" * 7)["error"]
        assert backend.grep("needle", "/etc")["error"].startswith("permission_denied: ")


def test_what_no_file_can_hold_is_told(workspace: Path) -> None:
    with operations(shell_policy(workspace)) as backend:
        assert "surrogate" in backend.write(f"{workspace}/file", "\ud800")["error"]
        assert backend.ls("'; import os; #")["error"].startswith("invalid_path: ")
        assert backend.read(f"{workspace}/none")["error"].startswith("file_not_found: ")
    assert list(workspace.iterdir()) == []
