"""Embedding processes of every kind: with closed streams, odd signals, no room for descriptors, many threads, and forks."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fable_exec.runner import Runner
from tests import boxes, hosts
from tests.commands import command, ending, new_runner, shell

RunInBox = Callable[..., boxes.Finished]


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1), (0, 1, 2)])
def test_a_host_whose_standard_streams_are_closed(workspace: Path, mode: str, closed: tuple[int, ...]) -> None:
    program = """
    for descriptor in json.loads(sys.argv[3]):
        os.close(descriptor)
    runner = new_runner(Path(sys.argv[1]), sys.argv[2])
    outcome = runner.run(shell("cat; echo out; echo err >&2; ls /proc/self/fd | wc -l", stdin=b"in\\n"))
    runner.close()
    answer([ending(outcome), outcome.stdout.text(), outcome.stderr.text()])
    os._exit(0)
    """
    found = hosts.answer_of(program, str(workspace), mode, str(list(closed)))
    assert found == [["exited", 0, None], "in\nout\n4\n", "err\n"]


def test_a_host_that_ignores_sigchld_or_reaps_every_child(workspace: Path, mode: str) -> None:
    program = """
    from fable_exec.runner import zygote as zygotes
    signal.signal(signal.SIGCHLD, signal.SIG_IGN if sys.argv[3] == "ignore" else signal.SIG_DFL)
    runner = new_runner(Path(sys.argv[1]), sys.argv[2])
    ends = [ending(runner.run(shell("exit 9")))]
    if sys.argv[3] == "reap":
        zygote = runner._launchers._own().zygote.pid
        os.kill(zygote, 9)
        os.waitpid(-1, 0)
        while runner._launchers._own().zygote.pid == zygote:
            runner.run(shell("true"))  # lost, or taken by a launcher that was about to end
    ends.append(ending(runner.run(shell("exit 9"))))
    zygotes._CLOSE_SECONDS = 600.0  # its end is seen, not waited for so long
    runner.close()
    answer(ends)
    """
    for kind in ("ignore", "reap"):
        assert hosts.answer_of(program, str(workspace), mode, kind) == [["exited", 9, None]] * 2


def test_a_host_with_default_sigpipe_survives_a_command_that_reads_nothing(workspace: Path, mode: str) -> None:
    program = """
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    runner = new_runner(Path(sys.argv[1]), sys.argv[2])
    ends = [ending(runner.run(shell("exec <&-; sleep 0.2; exit 3", stdin=b"x" * 1_000_000))) for _ in range(3)]
    with runner.start(shell("exec <&-; echo ready; sleep 5", open_stdin=True)) as running:
        running.next_event()
        try:
            for _ in range(100):
                running.write_stdin(b"x" * 100_000)
        except BrokenPipeError:
            ends.append("broken")
    runner.close()
    answer([ends, signal.sigpending() == set()])
    """
    assert hosts.answer_of(program, str(workspace), mode) == [[["exited", 3, None]] * 3 + ["broken"], True]


def test_a_host_without_room_for_descriptors_gets_a_typed_failure_and_loses_nothing(workspace: Path, mode: str) -> None:
    program = """
    import errno
    runner = new_runner(Path(sys.argv[1]), sys.argv[2])
    if sys.argv[3] == "started":
        runner.run(shell("true"))
    before = len(os.listdir("/proc/self/fd"))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    seen = set()
    for room in range(12):
        taken = max(map(int, os.listdir("/proc/self/fd"))) + 1
        resource.setrlimit(resource.RLIMIT_NOFILE, (before + room, hard))
        try:
            seen.add(runner.run(shell("exit 5")).exit_code)
        except LaunchFailed as failure:
            # Or what other processes of this user hand over just now is too much for the limit of this one.
            seen.add(failure.stage if failure.errno in (errno.EMFILE, errno.ETOOMANYREFS) else repr(failure))
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        if sys.argv[3] == "started":
            assert len(os.listdir("/proc/self/fd")) == before, room
    ended = ending(runner.run(shell("exit 6")))
    runner.close()
    answer([sorted(map(str, seen)), ended])
    """
    started, ended = hosts.answer_of(program, str(workspace), mode, "started")
    assert (started, ended) == (["5", "descriptors"], ["exited", 6, None])
    fresh, ended = hosts.answer_of(program, str(workspace), mode, "fresh")
    assert ended == ["exited", 6, None] and set(fresh) <= {"5", "descriptors", "launcher"} and "launcher" in fresh


def test_a_launcher_with_a_low_descriptor_limit_takes_only_what_it_can_hold(workspace: Path, mode: str) -> None:
    program = """
    import asyncio
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
    runner = new_runner(Path(sys.argv[1]), sys.argv[2])
    runner.run(shell("true"))
    async def main():
        return await asyncio.gather(*[runner.run_async(shell(f"sleep 0.1; exit {n}")) for n in range(22)])
    codes = [outcome.exit_code for outcome in asyncio.run(main())]
    limit = runner.run(shell("ulimit -n")).stdout.text()
    runner.close()
    answer([codes, limit])
    """
    assert hosts.answer_of(program, str(workspace), mode) == [list(range(22)), "128\n"]


@pytest.mark.alone
def test_more_commands_than_a_launcher_holds_do_not_block_the_loop(workspace: Path, mode: str) -> None:
    """They would go on for ever: a loop that waited for room would never come to cancel them.

    This host may have 2500 descriptors, and so may its launcher, which needs eight for a command and so holds some 300.
    """
    program = """
    import asyncio, attrs
    resource.setrlimit(resource.RLIMIT_NOFILE, (2500, 2500))
    runner = new_runner(Path(sys.argv[1]), sys.argv[2])
    runner.run(shell("true"))
    long = {"LONG": "x" * 20_000}  # ten fill the socket
    async def main():
        sleeper = attrs.evolve(command("sleep", "600"), environment=long)
        endless = [asyncio.create_task(runner.run_async(sleeper)) for _ in range(340)]
        for _ in range(100):
            await asyncio.sleep(0.01)
        for task in endless:
            task.cancel()
        told = await asyncio.gather(*endless, return_exceptions=True)
        brief = attrs.evolve(sleeper, timeout_seconds=2.0)
        tasks = [asyncio.create_task(runner.run_async(brief)) for _ in range(340)]
        return {type(each).__name__ for each in told}, {each.ended_by.value for each in await asyncio.gather(*tasks)}
    cancelled, ends = asyncio.run(main())
    runner.close()
    answer([sorted(cancelled), sorted(ends)])
    """
    if mode == "plain":
        pytest.skip("plain launchers are one process a command: 340 of them are a test of the machine")
    assert hosts.answer_of(program, str(workspace), mode) == [["CancelledError"], ["timed_out"]]


def test_a_big_host(workspace: Path, mode: str) -> None:
    program = """
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    room = min(10_000, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 200)
    memory = bytearray(1 << int(sys.argv[3]))
    memory[::4096] = b"x" * len(memory[::4096])
    descriptors = [os.dup(0) for _ in range(room)]
    stop = threading.Event()
    threads = [threading.Thread(target=stop.wait) for _ in range(50)]
    for thread in threads:
        thread.start()
    runner = new_runner(Path(sys.argv[1]), sys.argv[2])
    ends = [ending(runner.run(shell("ls /proc/self/fd | wc -l; exit 7"))) for _ in range(5)]
    left = len(os.listdir("/proc/self/fd"))
    runner.close()
    stop.set()
    answer([ends, threading.active_count() <= 51])
    """
    assert hosts.answer_of(program, str(workspace), mode, "27", stdin=subprocess.DEVNULL) == [[["exited", 7, None]] * 5, True]


@pytest.mark.deep
def test_a_big_host_of_a_gibibyte(workspace: Path, mode: str) -> None:
    program = """
    memory = bytearray(1 << 30)
    memory[::4096] = b"x" * len(memory[::4096])
    runner = new_runner(Path(sys.argv[1]), sys.argv[2])
    ends = [ending(runner.run(shell("exit 7"))) for _ in range(50)]
    runner.close()
    answer(ends)
    """
    assert hosts.answer_of(program, str(workspace), mode) == [["exited", 7, None]] * 50


def test_a_host_with_a_strange_umask_and_no_writable_temporary_directory(workspace: Path, mode: str, tmp_path: Path) -> None:
    program = """
    os.umask(0o777)
    runner = new_runner(Path(sys.argv[1]), sys.argv[2])
    outcome = runner.run(shell('umask; echo x > "$TMPDIR/x" && cat "$TMPDIR/x"'))
    runner.close()
    os.umask(0o022)
    import tempfile
    tempfile.tempdir = sys.argv[3]
    runner = new_runner(Path(sys.argv[1]), sys.argv[2])
    try:
        runner.run(shell("true"))
        failed = None
    except LaunchFailed as failure:
        failed = [failure.stage, failure.errno]
    runner.close()
    answer([outcome.stdout.text(), failed])
    """
    missing = str(tmp_path / "missing")
    assert hosts.answer_of(program, str(workspace), mode, missing) == ["0022\nx\n", ["private_directory", 2]]


def test_a_host_whose_temporary_directory_is_the_current_one(workspace: Path, mode: str, tmp_path: Path) -> None:
    program = """
    import tempfile
    os.chdir(sys.argv[3])
    tempfile.tempdir = None
    os.environ["TMPDIR"] = "."
    tempfile.gettempdir()
    runner = new_runner(Path(sys.argv[1]), sys.argv[2])
    os.chdir("/")
    outcome = runner.run(shell('echo x > "$TMPDIR/x" && cat "$TMPDIR/x"'))
    runner.close()
    answer([outcome.stdout.text(), os.listdir(sys.argv[3])])
    """
    (tmp_path / "here").mkdir()
    assert hosts.answer_of(program, str(workspace), mode, str(tmp_path / "here")) == ["x\n", []]


def test_a_host_whose_current_directory_is_gone_and_whose_temporary_one_was_there(
    workspace: Path, mode: str, tmp_path: Path
) -> None:
    program = """
    os.chdir(sys.argv[3])
    os.rmdir(sys.argv[3])
    os.environ["TMPDIR"] = "."
    runner = new_runner(Path(sys.argv[1]), sys.argv[2])
    answer(runner.run(shell('echo x > "$TMPDIR/x" && cat "$TMPDIR/x"')).stdout.text())
    runner.close()
    """
    (tmp_path / "here").mkdir()
    assert hosts.answer_of(program, str(workspace), mode, str(tmp_path / "here")) == "x\n"


@pytest.mark.requires_ability("ordinary_user")
def test_a_host_that_has_as_many_processes_as_it_may_is_told_so(workspace: Path, mode: str) -> None:
    program = """
    def tried(more):
        runner = new_runner(Path(sys.argv[1]), sys.argv[2])
        try:
            return ending(runner.run(shell("true")))[0]
        except FableExecError as error:
            return str(error)
        finally:
            runner.close()

    def is_mine(name):
        try:
            return name.isdigit() and os.stat(f"/proc/{name}").st_uid == os.getuid()
        except FileNotFoundError:
            return False

    found = []
    for more in [*range(12, -1, -1)] * 5:  # what else this user runs comes and goes
        mine = sum(map(is_mine, os.listdir("/proc")))
        resource.setrlimit(resource.RLIMIT_NPROC, (mine + more, resource.getrlimit(resource.RLIMIT_NPROC)[1]))
        found.append(tried(more))
        if more == 0 and set(found) != {"exited"}:
            break
    answer(found)
    """
    found = hosts.answer_of(program, str(workspace), mode)
    told = [each for each in found if each != "exited"]
    assert told and all("ulimit -u" in each for each in told), found


def test_a_forked_host_may_use_the_runner_on_both_sides(workspace: Path, mode: str) -> None:
    program = """
    runner = new_runner(Path(sys.argv[1]), sys.argv[2])
    first = ending(runner.run(shell("exit 1")))
    running = runner.start(shell("sleep 0.8; exit 2"))
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        found = ending(runner.run(shell("exit 3")))
        if sys.argv[3] == "closes":
            runner.close()
        os.write(writing, json.dumps(found).encode())
        os._exit(0)
    os.close(writing)
    inside = json.loads(os.read(reading, 999))
    os.waitpid(child, 0)
    answer([first, inside, ending(running.wait()), ending(runner.run(shell("exit 4")))])
    runner.close()
    """
    for kind in ("closes", "just exits"):
        found = hosts.answer_of(program, str(workspace), mode, kind)
        assert found == [["exited", number, None] for number in (1, 3, 2, 4)]


def test_a_fork_while_another_thread_starts_commands_does_not_lock_the_child(workspace: Path, mode: str) -> None:
    program = """
    runner = new_runner(Path(sys.argv[1]), sys.argv[2])
    own = runner._launchers._own()
    runner.run(shell("true"))
    own.lock.__enter__()  # as if another thread were opening a launcher just now
    child = os.fork()
    if child == 0:
        code = runner.run(shell("exit 3")).exit_code
        runner.close()
        os._exit(code)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    own.lock.__exit__(None, None, None)
    answer([status, runner.run(shell("exit 4")).exit_code])
    runner.close()
    """
    assert hosts.answer_of(program, str(workspace), mode) == [3, 4]


def test_a_forked_child_that_keeps_our_descriptors_does_not_keep_our_commands(
    pid_box: RunInBox, workspace: Path, mode: str
) -> None:
    # The copy of the channel in the child hides its end; the launcher must be told in words, and be shut down.
    program = hosts.program_text(
        f"""
        from fable_exec.runner import zygote as zygotes
        from tests import hosts
        runner = new_runner(Path({str(workspace)!r}), {mode!r})
        runner.run(shell("true"))
        running = runner.start(shell("exec sleep 300.5"))
        running.next_event(0.2)
        child = os.fork()
        if child == 0:
            time.sleep(300)
        running.exchange.abandon()
        give_up = time.monotonic() + 30
        while (left := hosts.alive_with("sleep\\0" + "300.5")) and time.monotonic() < give_up:
            pass
        private = runner._launchers._own().zygote.private
        zygotes._CLOSE_SECONDS = 600.0  # its end is seen, not waited for so long
        runner.close()
        print(left, os.path.exists(private))
        os.kill(child, 9)
        """
    )
    environment = {**os.environ, "PYTHONPATH": str(hosts.PROJECT), "ANSWER": "1"}
    done = pid_box([sys.executable, "-c", program], env=environment)
    assert (done.stdout, done.stderr) == ("[] False\n", "")


def test_an_interrupt_in_the_driving_thread_ends_the_tree_first(workspace: Path, mode: str) -> None:
    program = """
    runner = new_runner(Path(sys.argv[1]), sys.argv[2])
    runner.run(shell("true"))
    marker = f"30.{os.getpid()}"
    signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    before = sorted(os.listdir("/proc/self/fd"))
    try:
        runner.run(shell(f"(setsid sleep {marker} &); sleep {marker}"))
        seen = "no interrupt"
    except KeyboardInterrupt:
        from tests import hosts
        seen = hosts.alive_with(marker)
    same = len(os.listdir("/proc/self/fd")) == len(before)
    answer([seen, same, runner.run(shell("exit 4")).exit_code])
    runner.close()
    """
    assert hosts.answer_of(program, str(workspace), mode) == [[], True, 4]


def test_a_signal_handler_may_cancel(workspace: Path, mode: str) -> None:
    program = """
    runner = new_runner(Path(sys.argv[1]), sys.argv[2])
    running = runner.start(shell("sleep 30"))
    signal.signal(signal.SIGALRM, lambda *_: running.cancel())
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    answer(ending(running.wait()))
    runner.close()
    """
    assert hosts.answer_of(program, str(workspace), mode)[0] == "cancelled"


def test_the_host_keeps_its_handlers_its_mask_and_its_threads(workspace: Path, mode: str) -> None:
    program = """
    def state():
        handlers = [str(signal.getsignal(n)) for n in sorted(signal.valid_signals())]
        mask, limits = str(signal.pthread_sigmask(signal.SIG_BLOCK, ())), resource.getrlimit(resource.RLIMIT_NOFILE)
        return handlers, mask, limits, os.getcwd(), threading.active_count(), len(os.listdir("/proc/self/fd"))
    before = state()
    runner = new_runner(Path(sys.argv[1]), sys.argv[2])
    runner.run(shell("exit 4"))
    runner.close()
    answer(state() == before)
    """
    assert hosts.answer_of(program, str(workspace), mode) is True


def test_the_descriptors_of_a_hundred_commands_are_all_given_back(runner: Runner) -> None:
    runner.run(shell("true"))
    before = len(os.listdir("/proc/self/fd"))
    for number in range(100):
        runner.run(command("true", stdin=b"x" if number % 2 else None))
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_closed_runner_says_so(workspace: Path, mode: str) -> None:
    from fable_exec.errors import BrokerGone

    runner = new_runner(workspace, mode)
    assert ending(runner.run(command("true"))) == ("exited", 0, None)
    runner.close()
    runner.close()
    with pytest.raises(BrokerGone):
        runner.run(command("true"))
