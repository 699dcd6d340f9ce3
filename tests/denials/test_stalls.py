"""One observer looks at the calls of all commands of a launcher: none can keep it busy, or asleep, at the others' expense."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from fable_exec import CommandResult, ExecutionBroker
from fable_exec._launcher import observed_budget
from fable_exec._launcher.observed_budget import Budget, OverBudget
from fable_exec.outcome import Observed
from tests.bounds import bounds
from tests.confinement.places import confined, in_modes, run
from tests.denials.test_observer_gone import observers_of
from tests.denials.told import PROGRAMS, await_word, told

pytestmark = pytest.mark.requires_ability("linux")
measures_waiting = pytest.mark.parametrize("bound_seconds", bounds(1.0))
"""For a command with one watched call; each of the attacks made it wait for longer, most for more than five times as long."""


@attrs.frozen
class Beside:
    """What became of an attack, and the longest that a command beside it took."""

    attack: CommandResult
    seconds: float


def beside(broker: ExecutionBroker, text: str) -> Beside:
    """Run the attack, which prints a line when it begins, and meanwhile one innocent command after another."""
    run(broker, "true")
    started = broker.start_command(("python3", "-c", text), timeout_seconds=100)
    await_word(started, b"begins")
    longest, ended = 0.0, threading.Event()
    results: list[CommandResult | None] = []
    waiting = threading.Thread(target=lambda: (results.append(started.wait()), ended.set()))
    waiting.start()
    while not ended.is_set():
        began = time.monotonic()
        broker.execute_command(("sh", "-c", "echo x > /tmp/innocent"), timeout_seconds=60)
        longest = max(longest, time.monotonic() - began)
    waiting.join()
    assert results[0] is not None
    return Beside(results[0], longest)


LINKS = """
import contextlib, os
os.mkdir("maze"); os.chdir("maze")
for number in range(900):  # each by way of the next one, and through directories that are not there
    os.symlink("missing/file" if number == 899 else f"x/../l{number + 1}/../" + "y/../" * 780, f"l{number}")
print("begins", flush=True)
with contextlib.suppress(OSError): os.open("l0", os.O_WRONLY | os.O_CREAT)
"""


@measures_waiting
@in_modes()
def test_links_that_lead_through_links_hold_up_nobody(mode: str, bound_seconds: float, workspace: Path) -> None:
    with confined(workspace, mode, unlocked=True, allowed_executables=PROGRAMS) as broker:
        found = beside(broker, LINKS)
    assert found.attack.success, found.attack.stderr
    assert found.seconds < bound_seconds


# Fewer than half of the forty links that the kernel follows: where it has to begin a walk anew it goes on counting (ELOOP).
DEEP = """
import contextlib, os
os.makedirs("/tmp/maze/x"); os.mkdir("/tmp/maze/y"); os.chdir("/tmp/maze")
for number in range(19):
    os.symlink("y/../" * 780 + (f"l{number + 1}" if number < 18 else "x"), f"l{number}")
print("begins", flush=True)
with contextlib.suppress(OSError): os.mkdir("/tmp/maze/l0/" + "z/" * 2000)
"""


@measures_waiting
@in_modes("slots", "namespace")
def test_what_would_take_too_long_to_look_at_is_counted(mode: str, bound_seconds: float, workspace: Path) -> None:
    with confined(workspace, mode, allowed_executables=PROGRAMS) as broker:
        found = beside(broker, DEEP)
    assert found.attack.success, found.attack.stderr
    assert (told(found.attack), found.attack.denials_omitted) == (set(), 1)
    assert found.seconds < bound_seconds


LINGERING = """
import contextlib, ctypes, os, socket, struct, threading, time
libc = ctypes.CDLL(None)
nowhere = struct.pack("=H", socket.AF_INET) + struct.pack("!H", 9) + bytes([127, 0, 0, 1]) + bytes(8)
server = socket.create_server(("127.0.0.1", 0), backlog=4000)
pads = []
with contextlib.suppress(OSError):
    for _ in range(1500): pads.append((socket.create_connection(server.getsockname()), server.accept()))
del pads[-5:]
assert pads
ours = socket.create_connection(server.getsockname()); theirs = server.accept()
ours.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 3))
ours.setblocking(False)
try:
    while True: ours.send(bytes(65536))
except BlockingIOError: pass
print("begins", flush=True)
connecting = threading.Thread(target=lambda: libc.connect(ours.fileno(), nowhere, 16))
connecting.start()
time.sleep(0.004)
os.close(ours.fileno())
connecting.join()
os._exit(0)
"""


@measures_waiting
@in_modes("slots", "namespace")
def test_a_socket_that_lingers_is_not_the_observers_to_close(mode: str, bound_seconds: float, workspace: Path) -> None:
    with confined(workspace, mode, allowed_executables=PROGRAMS) as broker:
        found = beside(broker, LINGERING)
    assert found.attack.success, found.attack.stderr
    assert found.seconds < bound_seconds


MANY = """
import contextlib, os, socket, time
def fill(number):
    kept = []
    with contextlib.suppress(OSError):
        for each in range(19_900):
            kept.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            kept[-1].bind((f"127.0.{number}.{1 + each % 200}", 0))
    return kept
for number in (1, 2):
    reader, writer = os.pipe()
    if os.fork() == 0:
        kept = fill(number); os.write(writer, b"x"); time.sleep(100)
    os.read(reader, 1)
kept = fill(3)
kept.pop().close()
ours = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
print("begins", len(kept), flush=True)
ours.sendto(b"x", ("127.9.0.1", 9))
os._exit(0)
"""


@measures_waiting
@in_modes("slots", "namespace")
def test_a_long_table_of_sockets_is_not_read_to_its_end(mode: str, bound_seconds: float, workspace: Path) -> None:
    with confined(workspace, mode, allowed_executables=PROGRAMS) as broker:
        found = beside(broker, MANY)
    assert (found.attack.success, found.attack.stdout) == (True, "begins 19899\n"), found.attack.stderr
    ended_in_time = {each.protection: each.state for each in found.attack.confinement}["whole_tree_end"] == "active"
    noted = (set(), 1, Observed.CHANGES) if ended_in_time else (set(), 0, Observed.OFF)
    assert (told(found.attack), found.attack.denials_omitted, found.attack.observed) == noted
    assert found.seconds < bound_seconds


@in_modes("slots")
def test_what_a_launcher_asked_too_early_leaves_the_next_command_its_denials(mode: str, workspace: Path) -> None:
    """Six commands end while the observer is stuck, and six others begin in their places: each has what it was refused itself."""

    def each(act: Callable[[int], CommandResult]) -> list[CommandResult]:
        results: dict[int, CommandResult] = {}
        threads = [threading.Thread(target=lambda at=at: results.update({at: act(at)})) for at in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [results[at] for at in range(6)]

    with confined(workspace, mode, allowed_executables=PROGRAMS) as broker:
        run(broker, "true")
        # `read` opens nothing: a call that waited for a stopped observer would wait for ever
        early = [("sh", "-c", f"cd /usr; echo > early{at}; echo refused; read line") for at in range(6)]
        before = [broker.start_command(argv, keep_stdin_open=True) for argv in early]
        for started in before:
            await_word(started, b"refused")
        stopped = observers_of(broker, mode)
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            for started in before:
                started.close_stdin()
                result = started.wait()
                assert result is not None and (result.denials, result.denials_omitted) == ((), 1)
            threading.Timer(1.0, lambda: [os.kill(pid, signal.SIGCONT) for pid in stopped]).start()
            after = each(lambda at: broker.execute_command(("sh", "-c", f"cd /usr; echo > late{at}"), timeout_seconds=60))
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)
    assert [told(result) for result in after] == [{("open for writing", f"/usr/late{at}", "host_writes")} for at in range(6)]


def test_a_budget_is_of_work_on_a_busy_machine_and_of_time_on_a_slow_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observed_budget, "_SECONDS", 60.0)
    busy = Budget()
    time.sleep(0.05)
    busy.check()
    began = time.monotonic()
    with pytest.raises(OverBudget):
        while True:
            busy.check()
    assert time.monotonic() - began < 50, "of work, not of time"
    monkeypatch.setattr(observed_budget, "_SECONDS", 0.1)
    slow = Budget()
    time.sleep(0.11)
    with pytest.raises(OverBudget):
        slow.check()
    monkeypatch.setattr(observed_budget, "_SECONDS", 60.0)
    slow.begin()
    slow.check()
