"""One table of behaviours, asked of every door: in this process, under asyncio, and of a broker in a process of its own."""

from __future__ import annotations

import hashlib
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from fable_exec import (
    BrokerGone,
    Confinement,
    Conflict,
    Denied,
    ExecutableDenied,
    InvalidRequest,
    PathDenied,
    PathExists,
    PathIsDirectory,
    PathNotDirectory,
    PathNotFound,
    WritesLocked,
)
from fable_exec.outcome import EndedBy
from fable_exec.protocol import Exited, Output, Started
from tests.doors import DOORS, TOKEN, opened, policy_for

SECRET_BYTES = bytes(range(256)) + "ä€😀".encode()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# The lock


def test_a_broker_starts_locked_and_says_so(locked_door: Any, workspace: Path) -> None:
    found = locked_door.probe()
    assert found.host == "fable-execution-broker"
    assert found.capabilities[:4] == ("execute_command", "inspect_files", "probe_capabilities", "write_file")
    assert (found.writes_enabled, found.workspace) == (False, str(workspace))
    assert found.available_executables == ("bash", "cat", "echo", "false", "python3", "sleep", "true")
    assert found.unresolved_executables == ()
    assert "whole_tree_end" in [applied.protection for applied in found.confinement]


WRITES: dict[str, tuple[str, ...]] = {
    "write_file": ("new.txt", "x"),
    "append": ("there.txt", "x"),
    "edit_file": ("there.txt", "old", "new"),
    "make_directory": ("new",),
    "move_path": ("there.txt", "new.txt"),
    "remove_path": ("there.txt",),
}


def test_while_locked_no_write_request_changes_anything(locked_door: Any, workspace: Path) -> None:
    (workspace / "there.txt").write_text("old")
    for call, arguments in WRITES.items():
        with pytest.raises(WritesLocked, match="workspace writes are locked"):
            getattr(locked_door, call)(*arguments)
        assert ([path.name for path in workspace.iterdir()], call) == (["there.txt"], call)
        assert ((workspace / "there.txt").read_text(), call) == ("old", call)


WRITERS = (["python3", "-c", "open('new', 'w')"], ["bash", "-c", "echo > new"])


def test_while_locked_every_command_runs_and_none_can_write_the_workspace(locked_door: Any, workspace: Path) -> None:
    for command in WRITERS:
        result = locked_door.execute_command(command)
        assert (result.success, "Read-only file system" in result.stderr) == (False, True)
    assert locked_door.execute_command(["python3", "-c", "print(6 * 7)"]).stdout == "42\n"
    assert list(workspace.iterdir()) == []


UNHELD = {"confinement off": {"confinement": Confinement.off()}, "denied by choice": {"locked_commands": "deny"}}


@pytest.mark.parametrize("more", UNHELD.values(), ids=UNHELD)
@pytest.mark.parametrize("kind", sorted(DOORS))
def test_where_the_kernel_does_not_hold_the_lock_only_known_readers_run(kind: str, more: Any, workspace: Path) -> None:
    (workspace / "there.txt").write_text("old")
    programs = ("bash", "cat", "cp", "env", "python3", "find")
    with opened(kind, policy_for(workspace, allowed_executables=programs, **more)) as door:
        for refused in (
            *WRITERS,
            ["cp", "there.txt", "new"],
            ["env", "cp", "there.txt", "new"],
            ["env", "cat", "there.txt"],
            ["find", ".", "-exec", "cp", "{}", "new", ";"],
            ["find", ".", "-fprint", "new"],
        ):
            with pytest.raises(WritesLocked, match="workspace writes are locked"):
                door.execute_command(refused)
        assert door.execute_command(["cat", "there.txt"]).stdout == "old"
        assert door.execute_command(["find", "."]).success
        door.unlock_writes(TOKEN)
        assert door.execute_command(["cp", "there.txt", "new"]).success
    assert sorted(path.name for path in workspace.iterdir()) == ["new", "there.txt"]


def test_only_the_right_token_unlocks_and_locking_locks_again(locked_door: Any) -> None:
    with pytest.raises(Denied, match="invalid write authorization"):
        locked_door.unlock_writes("wrong")
    with pytest.raises(WritesLocked):
        locked_door.unlock_writes("")
    assert not locked_door.probe().writes_enabled
    locked_door.unlock_writes(TOKEN)
    assert locked_door.write_file("a", "1").created
    with pytest.raises(Denied):
        locked_door.unlock_writes("wrong")
    assert locked_door.probe().writes_enabled
    locked_door.lock_writes()
    with pytest.raises(WritesLocked):
        locked_door.write_file("a", "2")


def test_an_unlock_for_some_paths_unlocks_no_others_and_no_command(locked_door: Any, workspace: Path) -> None:
    locked_door.unlock_writes(TOKEN, paths=["docs", "notes.txt"])
    assert locked_door.write_file("docs/a.md", "x").created
    assert locked_door.write_file("notes.txt", "x").created
    for refused in (
        lambda: locked_door.write_file("src/a.py", "x"),
        lambda: locked_door.move_path("docs/a.md", "a.md"),
    ):
        with pytest.raises(WritesLocked):
            refused()
    assert not locked_door.execute_command(["python3", "-c", "open('docs/a.md', 'w')"]).success
    assert not (workspace / "src").exists()
    assert (workspace / "docs/a.md").read_text() == "x"


def test_an_unlock_ends_when_its_time_is_over(locked_door: Any) -> None:
    locked_door.unlock_writes(TOKEN, expires_in_seconds=3600)
    assert locked_door.write_file("a", "x").created
    locked_door.unlock_writes(TOKEN, expires_in_seconds=1e-6)
    with pytest.raises(WritesLocked):
        locked_door.write_file("b", "x")


# Files


def test_what_is_written_is_read_back_to_the_byte(door: Any, workspace: Path) -> None:
    written = door.write_file("sub/dir/data.bin", SECRET_BYTES)
    assert (written.path, written.created, written.total_bytes) == ("sub/dir/data.bin", True, len(SECRET_BYTES))
    found = door.inspect_files("./sub//dir/data.bin")
    assert (found.data, found.path, found.truncated) == (SECRET_BYTES, "sub/dir/data.bin", False)
    assert found.content_hash == written.content_hash == sha256(SECRET_BYTES)
    assert (workspace / "sub/dir/data.bin").read_bytes() == SECRET_BYTES
    assert (workspace / "sub").stat().st_mode & 0o777 == 0o700


def test_a_read_is_cut_at_max_bytes_and_says_so(door: Any) -> None:
    door.write_file("a", "0123456789")
    found = door.inspect_files("a", 4)
    assert (found.data, found.truncated, found.total_bytes, found.content_hash) == (b"0123", True, 10, sha256(b"0123"))
    assert door.inspect_files("a", 10).truncated is False
    assert door.inspect_files("a", 10**9).data == b"0123456789"
    with pytest.raises(InvalidRequest):
        door.inspect_files("a", 0)


def test_a_write_under_a_hash_is_refused_when_the_file_has_changed(door: Any, workspace: Path) -> None:
    first = door.write_file("a", "one").content_hash
    second = door.write_file("a", "two", expected_hash=first).content_hash
    for refused in (
        lambda: door.write_file("a", "three", expected_hash=first),
        lambda: door.append("a", "three", expected_hash=first),
        lambda: door.edit_file("a", "two", "three", expected_hash=first),
    ):
        with pytest.raises(Conflict):
            refused()
    assert (workspace / "a").read_text() == "two"
    assert door.append("a", "!", expected_hash=second).total_bytes == 4
    assert (workspace / "a").read_text() == "two!"


def test_an_edit_needs_exactly_one_place(door: Any, workspace: Path) -> None:
    for content, old in (("abc", "x"), ("abab", "ab"), ("aaa", "aa")):
        door.write_file("a", content)
        with pytest.raises(Conflict):
            door.edit_file("a", old, "new")
        assert (workspace / "a").read_text() == content


def test_an_edit_replaces_the_place_and_keeps_the_mode(door: Any, workspace: Path) -> None:
    door.write_file("run.sh", "echo old\n")
    (workspace / "run.sh").chmod(0o750)
    edited = door.edit_file("run.sh", "old", "new")
    assert (workspace / "run.sh").read_text() == "echo new\n"
    assert edited.content_hash == sha256(b"echo new\n")
    assert (workspace / "run.sh").stat().st_mode & 0o777 == 0o750
    with pytest.raises(InvalidRequest):
        door.edit_file("run.sh", "", "x")


def test_names_are_listed_described_moved_and_removed(door: Any, workspace: Path) -> None:
    assert door.make_directory("d/e").created
    assert not door.make_directory("d/e").created
    assert door.append("d/log", "1").created
    assert door.append("d/log", "2").total_bytes == 2
    (workspace / "d/link").symlink_to("/etc/passwd")
    listed = door.list_directory("d")
    assert [(entry.name, entry.kind, entry.size_bytes) for entry in listed.entries] == [
        ("e", "directory", None),
        ("link", "symlink", None),
        ("log", "file", 2),
    ]
    assert door.list_directory("d", max_entries=1).truncated
    assert door.stat_path("d/link").kind == "symlink"
    with pytest.raises(PathExists):
        door.move_path("d/log", "d/e")
    moved = door.move_path("d/log", "d/renamed")
    assert (moved.source, moved.destination, moved.replaced) == ("d/log", "d/renamed", False)
    door.write_file("other", "x")
    assert door.move_path("other", "d/renamed", replace=True).replaced
    assert door.remove_path("d/link").removed == 1
    with pytest.raises(Exception, match="not empty"):
        door.remove_path("d")
    assert door.remove_path("d", recursive=True).removed == 3
    assert list(workspace.iterdir()) == []


def test_a_search_finds_lines_and_counts_what_it_left_out(door: Any, workspace: Path) -> None:
    door.write_file("a.py", "one\nNeedle here\nneedle\n")
    door.write_file("b.txt", "needle")
    door.write_file("c.bin", b"\0needle")
    found = door.search_files("needle")
    assert [(match.path, match.line, match.column, match.text) for match in found.matches] == [
        ("a.py", 3, 1, "needle"),
        ("b.txt", 1, 1, "needle"),
    ]
    assert (found.files_searched, found.files_skipped, found.truncated) == (2, 1, False)
    assert len(door.search_files("needle", name_pattern="*.py", ignore_case=True).matches) == 2
    assert door.search_files("needle", max_matches=1).truncated
    for query, pattern in (("a\nneedle", None), ("\n", None), ("a\0b", None), ("needle", "src/*.py"), ("needle", "a\0")):
        with pytest.raises(InvalidRequest, match=r"never match|NUL"):
            door.search_files(query, name_pattern=pattern)
    with pytest.raises(PathNotFound):
        door.search_files("needle", "nowhere")


# Paths


OUTSIDE = {
    "../outside": "dotdot",
    "a/../../outside": "dotdot",
    "/etc/passwd": "absolute",
    "..\\outside": "dotdot",
    "a\0b": "nul",
}


def test_a_path_out_of_the_workspace_is_refused_with_its_reason(door: Any, workspace: Path) -> None:
    for path, reason in OUTSIDE.items():
        for ask in (door.inspect_files, lambda path: door.write_file(path, "x"), door.stat_path):
            with pytest.raises(PathDenied) as caught:
                ask(path)
            assert (path, caught.value.reason) == (path, reason)
    assert not (workspace.parent / "outside").exists()


def test_links_lead_nowhere(door: Any, workspace: Path) -> None:
    outside = workspace.parent / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (workspace / "link").symlink_to(outside)
    (workspace / "file").symlink_to(outside / "secret")
    for refused in (
        lambda: door.inspect_files("link/secret"),
        lambda: door.inspect_files("file"),
        lambda: door.write_file("link/secret", "x"),
        lambda: door.write_file("file", "x"),
        lambda: door.list_directory("link"),
        lambda: door.append("file", "x"),
    ):
        with pytest.raises(PathDenied) as caught:
            refused()
        assert caught.value.reason == "symlink"
    assert (outside / "secret").read_text() == "secret"


def test_files_that_others_could_have_written_are_not_read(door: Any, workspace: Path) -> None:
    os.mkfifo(workspace / "fifo")
    (workspace / "one").write_text("x")
    os.link(workspace / "one", workspace / "two")
    (workspace / "open").write_text("x")
    (workspace / "open").chmod(0o666)
    for name, reason in (("fifo", "not-regular"), ("one", "hard-link"), ("open", "writable-by-others")):
        with pytest.raises(PathDenied) as caught:
            door.inspect_files(name)
        assert caught.value.reason == reason


def test_a_backslash_separates_names(door: Any, workspace: Path) -> None:
    assert door.write_file("nested\\file", "x").path == "nested/file"
    assert door.inspect_files("nested\\file").path == "nested/file"
    assert (workspace / "nested/file").read_text() == "x"


def test_names_that_exist_are_used_and_only_portable_ones_are_created(door: Any, workspace: Path) -> None:
    (workspace / "aux.c").write_text("old")
    (workspace / "con").mkdir()
    assert door.inspect_files("aux.c").content == "old"
    assert door.write_file("aux.c", "new").created is False
    assert door.write_file("con/fine.txt", "x").created
    for refused in ("nul.txt", "con/prn", "new./x"):
        with pytest.raises(PathDenied):
            door.write_file(refused, "x")
    assert sorted(path.name for path in workspace.iterdir()) == ["aux.c", "con"]


def test_what_is_not_there_and_what_is_something_else_are_facts_with_their_builtin(door: Any) -> None:
    door.make_directory("d")
    door.write_file("f", "x")
    for kind, builtin, asked in (
        (PathNotFound, FileNotFoundError, lambda: door.inspect_files("nothing")),
        (PathIsDirectory, IsADirectoryError, lambda: door.inspect_files("d")),
        (PathNotDirectory, NotADirectoryError, lambda: door.inspect_files("f/x")),
        (PathNotDirectory, NotADirectoryError, lambda: door.list_directory("f")),
        (PathIsDirectory, IsADirectoryError, lambda: door.write_file("d", "x")),
    ):
        with pytest.raises(kind) as caught:
            asked()
        assert isinstance(caught.value, builtin)


# Commands


def test_a_command_says_what_ran_where_and_how_it_ended(door: Any, workspace: Path) -> None:
    door.make_directory("sub")
    result = door.execute_command(["bash", "-c", "pwd; echo oops >&2; exit 3"], "sub", 20)
    assert (result.exit_code, result.signal, result.outcome, result.success) == (3, None, EndedBy.EXITED, False)
    assert (result.stdout, result.stderr, result.cwd) == (f"{workspace}/sub\n", "oops\n", "sub")
    assert result.command[0] == os.path.realpath(result.command[0])
    assert result.command[1:] == ("-c", "pwd; echo oops >&2; exit 3")
    assert (result.survivors, result.policy_digest) == ((), door.policy.digest)


def test_output_is_exact_whatever_the_bytes(door: Any) -> None:
    program = "import sys; sys.stdout.buffer.write(bytes(range(256))); sys.stderr.buffer.write(b'\\xff\\xfe')"
    result = door.execute_command(["python3", "-c", program])
    assert (result.stdout_raw, result.stderr_raw) == (bytes(range(256)), b"\xff\xfe")
    assert (result.stdout_total_bytes, result.stdout_omitted_bytes) == (256, 0)


def test_input_reaches_the_command_and_no_input_is_the_null_device(door: Any) -> None:
    assert door.execute_command(["cat"], stdin=SECRET_BYTES).stdout_raw == SECRET_BYTES
    assert door.execute_command(["cat"]).stdout_raw == b""


def test_a_signal_is_reported_as_it_was(door: Any) -> None:
    result = door.execute_command(["bash", "-c", "kill -TERM $$"])
    assert (result.exit_code, result.signal, result.outcome) == (-signal.SIGTERM, signal.SIGTERM, EndedBy.SIGNALED)


def test_a_deadline_ends_the_whole_tree_and_keeps_the_output(door: Any) -> None:
    began = time.monotonic()
    result = door.execute_command(["bash", "-c", "echo partial; setsid sleep 600 & wait"], timeout_seconds=0.5)
    assert time.monotonic() - began < 0.5 + 0.3 + 0.5  # the last is for the way through a pipe on a busy machine
    assert (result.exit_code, result.outcome, result.timed_out) == (None, EndedBy.TIMED_OUT, True)
    assert result.stdout == "partial\n"


def test_silence_has_a_deadline_of_its_own(door: Any) -> None:
    result = door.execute_command(["bash", "-c", "echo x; sleep 60"], timeout_seconds=30, idle_timeout_seconds=0.3)
    assert (result.outcome, result.stdout) == (EndedBy.IDLE_TIMED_OUT, "x\n")


def test_a_command_that_leaves_a_child_is_reported_with_it(door: Any) -> None:
    result = door.execute_command(["bash", "-c", "sleep 600 & echo done"])
    assert (result.stdout, result.outcome) == ("done\n", EndedBy.EXITED)
    assert [survivor.name in ("sleep", "bash") for survivor in result.survivors] == [True]  # bash until it has executed sleep


NO_DEADLINES = [(0, None), (-1, None), (3601, None), (float("nan"), None), (float("inf"), None), (1, 0), (True, None)]


def test_a_deadline_is_a_finite_number_of_seconds_within_the_policy(door: Any) -> None:
    for timeout, idle in NO_DEADLINES:
        with pytest.raises(InvalidRequest):
            door.execute_command(["true"], timeout_seconds=timeout, idle_timeout_seconds=idle)


NO_COMMANDS: list[Any] = [[], [""], ["true\0"], ["true", "a\0b"], "true", ["true", 1], ["\ud800"], None]


def test_a_command_is_a_list_of_texts_that_names_a_program(door: Any) -> None:
    for command in NO_COMMANDS:
        with pytest.raises(InvalidRequest):
            door.execute_command(command)


def test_empty_arguments_are_arguments(door: Any) -> None:
    assert door.execute_command(["python3", "-c", "import sys; print(sys.argv[1:])", "", "x"]).stdout == "['', 'x']\n"


def test_only_the_listed_files_run(door: Any, workspace: Path) -> None:
    (workspace / "true").write_text("#!/bin/sh\necho planted\n")
    (workspace / "true").chmod(0o755)
    for name in ("ls", "./true", "bin/true", "../true", "/bin/nothing/true", "/tmp/true", "true/"):
        with pytest.raises(ExecutableDenied):
            door.execute_command([name])


def test_the_registered_file_may_be_named_by_its_absolute_path(door: Any) -> None:
    path = door.execute_command(["true"]).command[0]
    assert door.execute_command([path]).success


NO_DIRECTORIES = {"nothing": PathNotFound, "file": PathNotDirectory, "link": PathDenied, "..": PathDenied, "/": PathDenied}


def test_the_directory_of_a_command_is_checked_like_any_path(door: Any, workspace: Path) -> None:
    (workspace / "file").touch()
    (workspace / "link").symlink_to("/")
    for cwd, kind in NO_DIRECTORIES.items():
        with pytest.raises(kind):
            door.execute_command(["true"], cwd)


def test_variables_of_a_request_are_refused_unless_the_policy_names_them(door: Any) -> None:
    for name in ("FOO", "LD_PRELOAD", "PATH", "HOME"):
        with pytest.raises(Denied, match=name):
            door.execute_command(["true"], env={name: "x"})
    assert door.execute_command(["true"], env={}).success


def test_output_beyond_the_cap_ends_the_command_or_keeps_head_and_tail(door: Any) -> None:
    million = ["python3", "-c", "print('a' * 999_999)"]
    exactly = door.execute_command(million)
    assert (exactly.output_limited, len(exactly.stdout_raw)) == (False, 1_000_000)
    beyond = ["python3", "-c", "import sys; sys.stdout.write('h' * 600_000 + 't' * 600_000)"]
    killed = door.execute_command(beyond)
    assert (killed.outcome, killed.output_limited, killed.success) == (EndedBy.OUTPUT_LIMITED, True, False)
    assert killed.stdout_raw == b"h" * 600_000 + b"t" * 400_000
    kept = door.execute_command(beyond, on_output_limit="truncate")
    assert (kept.outcome, kept.exit_code, kept.output_limited) == (EndedBy.EXITED, 0, True)
    assert kept.stdout_raw == b"h" * 500_000 + b"t" * 500_000
    assert (kept.stdout_total_bytes, kept.stdout_omitted_bytes) == (1_200_000, 200_000)


# Following a command


def test_events_come_in_order_and_hold_every_byte(door: Any) -> None:
    events: list[Any] = []
    program = "import sys, time; sys.stdout.buffer.write(b'\\xff' * 200_000); sys.stdout.flush(); sys.stderr.write('end')"
    result = door.execute_command(["python3", "-c", program], on_event=events.append)
    assert [event.sequence for event in events] == list(range(len(events)))
    assert isinstance(events[0], Started)
    assert events[-1] == Exited(sequence=len(events) - 1, outcome=EndedBy.EXITED, exit_code=0, signal=None)
    for stream, whole in (("stdout", result.stdout_raw), ("stderr", result.stderr_raw)):
        assert b"".join(event.data for event in events if isinstance(event, Output) and event.stream == stream) == whole
    assert len(result.stdout_raw) == 200_000


def test_output_comes_while_the_command_runs(door: Any, workspace: Path) -> None:
    seen = []

    def answer(event: Any) -> None:
        if isinstance(event, Output):
            seen.append(event.data)
            (workspace / "go").touch()  # the command waits for this, so it must still be running

    program = "echo ready; until test -e go; do sleep 0.01; done; echo went"
    result = door.execute_command(["bash", "-c", program], timeout_seconds=20, on_event=answer)
    assert (result.success, seen[0]) == (True, b"ready\n")


def test_an_error_of_the_listener_ends_the_command(door: Any) -> None:
    class Enough(Exception):
        pass

    def stop(event: Any) -> None:
        if isinstance(event, Output):
            raise Enough

    began = time.monotonic()
    with pytest.raises(Enough):
        door.execute_command(["bash", "-c", "echo x; sleep 600"], on_event=stop)
    assert time.monotonic() - began < 3
    assert door.execute_command(["true"]).success


def test_a_started_command_is_fed_followed_and_waited_for(door: Any) -> None:
    with door.start_command(["cat"], keep_stdin_open=True) as started:
        events = started.events()
        assert isinstance(next(events), Started)
        assert started.write_stdin("hello\n") == 6
        first = next(events)
        assert (first.stream, first.data) == ("stdout", b"hello\n")
        started.close_stdin()
        assert [type(event) for event in events] == [Exited]
        assert started.wait().stdout == "hello\n"
        with pytest.raises(Conflict):
            started.write_stdin("more")


def test_a_started_command_can_be_cancelled_and_closing_ends_it(door: Any) -> None:
    with door.start_command(["bash", "-c", "echo up; setsid sleep 600 & sleep 600"]) as started:
        events = started.events()
        next(events), next(events)
        started.cancel()
        assert started.wait().outcome is EndedBy.CANCELLED
    with door.start_command(["sleep", "600"]) as closed:
        pass
    assert closed.wait().outcome is EndedBy.CANCELLED


def test_a_command_that_cannot_be_started_says_so_when_it_is_followed(door: Any, workspace: Path) -> None:
    with door.start_command(["true"], "nowhere") as started:
        with pytest.raises(PathNotFound):
            started.wait()


def test_background_commands_are_known_by_name_and_read_piece_by_piece(door: Any) -> None:
    began = door.start_background(["cat"], keep_stdin_open=True)
    name = began.handle
    assert door.write_stdin(name, "h\u00e9".encode()[:2]).open
    first = door.read_command(name, 5)
    assert (first.running, first.stdout_data) == (True, b"h")  # a character is never handed out in halves
    assert not door.write_stdin(name, "h\u00e9".encode()[2:], close=True).open
    pieces = [b"h"]
    while (piece := door.read_command(name, 5)).running:
        pieces.append(piece.stdout_data)
    assert b"".join([*pieces, piece.stdout_data]).decode() == "h\u00e9"
    assert (piece.result.exit_code, piece.result.stdout) == (0, "h\u00e9")
    assert [(each.handle, each.running) for each in door.list_commands().commands] == [(name, False)]
    assert door.cancel_command(name).cancelled is False
    with pytest.raises(Conflict):
        door.write_stdin(name, "x")


def test_a_background_command_can_be_cancelled_and_an_unknown_name_is_an_error(door: Any) -> None:
    name = door.start_background(["bash", "-c", "setsid sleep 600 & sleep 600"]).handle
    assert door.cancel_command(name).cancelled is True
    ended = door.read_command(name, 5)
    assert (ended.running, ended.result.outcome) == (False, EndedBy.CANCELLED)
    for asked in (door.read_command, door.cancel_command, door.write_stdin):
        with pytest.raises(InvalidRequest):
            asked("command-99")


TOLD = ["python3", "-c", "import sys; exec(sys.stdin.read())"]


def test_input_is_refused_when_writes_were_locked_meanwhile(door: Any, workspace: Path) -> None:
    with door.start_command(TOLD, keep_stdin_open=True) as started:
        door.lock_writes()
        with pytest.raises(WritesLocked):
            started.write_stdin("open('planted', 'w')")
    assert list(workspace.iterdir()) == []


def test_a_command_that_was_started_while_locked_is_fed_and_stays_read_only(locked_door: Any, workspace: Path) -> None:
    with locked_door.start_command(TOLD, keep_stdin_open=True) as started:
        locked_door.unlock_writes(TOKEN)
        started.write_stdin("print(1); open('planted', 'w')")
        started.close_stdin()
        result = started.wait()
    assert (result.stdout, result.success) == ("1\n", False)
    assert list(workspace.iterdir()) == []


# The end


def test_a_closed_broker_refuses_and_closes_again_without_complaint(door: Any) -> None:
    door.close()
    door.close()
    for refused in (lambda: door.probe(), lambda: door.execute_command(["true"]), lambda: door.write_file("a", "x")):
        with pytest.raises(BrokerGone):
            refused()


def test_closing_ends_whatever_runs(door: Any, workspace: Path) -> None:
    command = ["bash", "-c", "echo $$; trap '' TERM; setsid sleep 600 & sleep 600"]
    door.start_background(command)
    started = door.start_command(command)
    events = started.events()
    next(events), next(events)
    began = time.monotonic()
    door.close()
    assert time.monotonic() - began < 4
