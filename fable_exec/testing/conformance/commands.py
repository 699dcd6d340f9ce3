"""What a broker must do with a command: hand it over exactly, tell its end exactly, keep its output, leave nothing of it."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from fable_exec.errors import Denied, ExecutableDenied, InvalidRequest, PathDenied
from fable_exec.outcome import EndedBy
from fable_exec.protocol import Exited, Output, Started
from fable_exec.testing.conformance.setting import MAX_OUTPUT_BYTES, REQUEST_NAMES, BrokerSetting, Desk
from fable_exec.testing.strategies import arguments, environments, process_trees
from fable_exec.testing.trees import ProcessTree

__all__ = ["CommandChecks"]

_HOLD_SECONDS = 3.0
_THREADS, _ROUNDS = 6, 4


class CommandChecks(BrokerSetting):
    """From the argument vector to the outcome."""

    def test_the_program_gets_exactly_the_arguments_variables_and_input(self, desk: Desk) -> None:
        def check(given: list[str], variables: dict[str, str], stdin: bytes) -> None:
            program = "import json; print(json.dumps([ARGUMENTS, dict(os.environ), sys.stdin.buffer.read().hex()]))"
            result = desk.run(program, *given, env=variables, stdin=stdin)
            assert result.success, result.stderr
            got_arguments, got_variables, got_stdin = json.loads(result.stdout_raw)
            assert got_arguments == given
            assert {name: got_variables.get(name) for name in REQUEST_NAMES if name in got_variables} == variables
            assert bytes.fromhex(got_stdin) == stdin

        self.for_each(
            check,
            self.command_examples,
            given=arguments(),
            variables=environments(REQUEST_NAMES),
            stdin=st.binary(max_size=100),
        )

    def test_the_environment_of_the_host_stays_with_the_host(self, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FABLE_SECRET_OF_THE_HOST", "a-secret-of-the-host")
        with self.opened(workspace) as broker:
            program = "print(sorted(name for name, value in os.environ.items() if ARGUMENTS[0] in value))"
            result = self.desk_at(broker, workspace).run(program, "a-secret-of-the-host")
        assert (result.stdout, result.success) == ("[]\n", True), "a variable of the host reached a command"

    def test_a_tree_of_processes_ends_with_its_call_and_tells_all(self, desk: Desk) -> None:
        def check(tree: ProcessTree) -> None:
            result = desk.broker.execute_command(tree.argv(desk.marker, self.python), timeout_seconds=60)
            left = desk.left()
            assert left == [], f"{len(left)} processes were alive when the call returned"
            assert (result.outcome, result.exit_code, result.signal) == (EndedBy.EXITED, tree.exit_code, None)
            assert result.success is (tree.exit_code == 0)
            assert (tuple(sorted(result.stdout_raw.splitlines())), result.stderr_raw) == (tree.words, b"")
            if self.launch != "namespace":  # there the end of the leader is the end of all, which nobody outlives
                assert bool(result.survivors) is (tree.staying > 0)

        self.for_each(check, self.command_examples, tree=process_trees())

    def test_who_holds_the_output_open_holds_nobody_up(self, desk: Desk) -> None:
        """A child of the leader keeps both streams, and would leave a file if it were waited for."""
        program = (
            "if os.fork() == 0:\n"
            "    os.setsid()\n"
            "    time.sleep(float(ARGUMENTS[0]))\n"
            "    open(ARGUMENTS[1], 'w')\n"
            "    os._exit(0)\n"
            "print('done', flush=True)\n"
            "os._exit(0)\n"
        )
        result = desk.run(program, str(_HOLD_SECONDS), str(desk.on_disk("outlived")))
        assert desk.left() == [], "a child of the command was alive when the call returned"
        assert (result.stdout, result.outcome, result.exit_code) == ("done\n", EndedBy.EXITED, 0)
        assert not desk.on_disk("outlived").exists(), "the call returned only when a child of the command had ended by itself"

    def test_death_by_a_signal_is_told_as_that(self, desk: Desk) -> None:
        if self.launch == "namespace":
            pytest.skip("the leader is process 1 of its namespace there, and no signal of its own ends it")
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGABRT):
            result = desk.run(f"os.kill(os.getpid(), {int(number)}); time.sleep(60)")
            assert (result.outcome, result.signal, result.exit_code) == (EndedBy.SIGNALED, number, -number)
            assert not result.success

    def test_both_streams_are_kept_whole_and_apart(self, desk: Desk) -> None:
        program = (
            "piece = bytes(range(256))\nfor _ in range(int(ARGUMENTS[0])):\n    os.write(1, piece); os.write(2, piece[::-1])\n"
        )
        pieces = MAX_OUTPUT_BYTES // 256
        result = desk.run(program, str(pieces))
        assert result.success, result.outcome
        assert result.stdout_raw == bytes(range(256)) * pieces
        assert result.stderr_raw == bytes(reversed(range(256))) * pieces

    def test_the_output_cap_is_exact(self, desk: Desk) -> None:
        program = "os.write(1, b'a' * 10); sys.stdout.write('b' * (int(ARGUMENTS[0]) - 20) + 'c' * 10); sys.stdout.flush()"
        whole = b"a" * 10 + b"b" * (MAX_OUTPUT_BYTES - 20) + b"c" * 10
        result = desk.run(program, str(MAX_OUTPUT_BYTES))
        assert (result.success, result.stdout_raw == whole) == (True, True), "output of exactly the cap is not too much"
        more = program + "; time.sleep(60)"
        result = desk.run(more, str(MAX_OUTPUT_BYTES + 1), timeout_seconds=50)
        assert (result.outcome, result.success) == (EndedBy.OUTPUT_LIMITED, False)
        assert (len(result.stdout_raw), result.stdout_omitted_bytes) == (MAX_OUTPUT_BYTES, 1)
        result = desk.run(program, str(MAX_OUTPUT_BYTES + 1000), on_output_limit="truncate")
        assert (result.outcome, result.output_limited, result.success) == (EndedBy.EXITED, True, False)
        assert (result.stdout_raw[:10], result.stdout_raw[-10:]) == (b"a" * 10, b"c" * 10)
        assert result.stdout_total_bytes == MAX_OUTPUT_BYTES + 1000

    def test_a_deadline_ends_the_tree_and_keeps_what_was_said(self, desk: Desk) -> None:
        program = "os.write(1, b'before'); os.fork() or os.setsid(); time.sleep(60)"
        result = desk.run(program, timeout_seconds=2.0)
        assert desk.left() == [], "processes outlived the deadline of their command"
        assert (result.outcome, result.timed_out, result.success) == (EndedBy.TIMED_OUT, True, False)
        assert (result.exit_code, result.stdout) == (None, "before")

    def test_silence_beyond_its_deadline_ends_the_tree_too(self, desk: Desk) -> None:
        result = desk.run("os.write(1, b'before'); os.fork() or os.setsid(); time.sleep(2)", idle_timeout_seconds=0.5)
        assert desk.left() == [], "processes outlived the deadline of their command"
        assert (result.outcome, result.timed_out, result.success) == (EndedBy.IDLE_TIMED_OUT, True, False)

    def test_a_command_works_where_it_is_asked_to(self, desk: Desk) -> None:
        for cwd, place in ((None, desk.workspace), (desk.name, desk.on_disk("."))):
            assert desk.run("print(os.getcwd())", cwd=cwd).stdout == f"{place}\n"

    def test_what_is_refused_never_runs(self, desk: Desk) -> None:
        touch = desk.argv("open(ARGUMENTS[0], 'w')", str(desk.on_disk("ran")))
        refused: list[tuple[type[Exception], Callable[[], Any]]] = [
            (ExecutableDenied, lambda: desk.broker.execute_command(["a-program-that-nobody-allowed", *touch[1:]])),
            (ExecutableDenied, lambda: desk.broker.execute_command(["/bin/sh", "-c", f"> {desk.on_disk('ran')}"])),
            (PathDenied, lambda: desk.broker.execute_command(touch, "..")),
            (InvalidRequest, lambda: desk.broker.execute_command(touch, timeout_seconds=10**6)),
            (InvalidRequest, lambda: desk.broker.execute_command(touch, timeout_seconds=0)),
            (InvalidRequest, lambda: desk.broker.execute_command([])),
            (InvalidRequest, lambda: desk.broker.execute_command([*touch, "a\0b"])),
            ((Denied, InvalidRequest), lambda: desk.broker.execute_command(touch, env={"LD_PRELOAD": "/tmp/x.so"})),  # type: ignore[list-item]  # either is typed
        ]
        for kind, ask in refused:
            with pytest.raises(kind):
                ask()
            assert not desk.on_disk("ran").exists(), "a refused command ran"
        assert desk.broker.execute_command(touch).success
        assert desk.on_disk("ran").exists()

    def test_a_started_command_is_fed_followed_and_cancelled(self, desk: Desk) -> None:
        program = "print(sys.stdin.readline().strip()[::-1], flush=True)\nos.fork() or os.setsid()\ntime.sleep(60)"
        with desk.broker.start_command(desk.argv(program), keep_stdin_open=True) as started:
            events, said = iter(started.events()), b""
            assert isinstance(next(events), Started)
            started.write_stdin("hello\n")
            while said != b"olleh\n":
                event = next(events)
                assert isinstance(event, Output) and event.stream == "stdout", event
                said += event.data
            started.cancel()
            for event in events:
                assert isinstance(event, Exited)
            result = started.wait()
        assert desk.left() == [], "processes outlived the cancel of their command"
        assert (result.outcome, result.stdout, result.success) == (EndedBy.CANCELLED, "olleh\n", False)

    def test_calls_of_several_threads_get_their_own_answers(self, desk: Desk) -> None:
        wrong: list[str] = []

        def call(name: str) -> None:
            for number in range(_ROUNDS):
                word = f"{name}-{number}"
                try:
                    desk.broker.write_file(desk.path(name), word)
                    result = desk.run("print(ARGUMENTS[0]); sys.exit(int(ARGUMENTS[1]))", word, str(number))
                    got = result.stdout.strip(), result.exit_code, desk.broker.inspect_files(desk.path(name)).content
                except Exception as error:
                    wrong.append(f"{word}: {error!r}")
                else:
                    wrong.extend([f"{word} got {got}"] if got != (word, number, word) else [])

        threads = [threading.Thread(target=call, args=(f"thread-{number}",)) for number in range(_THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
