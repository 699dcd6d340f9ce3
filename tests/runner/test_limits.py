"""Every limit of what a command may use up is enforced, in every launch mode, and leaves the next command alone."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest

from fable_exec.confine import Support, compile_plan
from fable_exec.confine.view import FileView
from fable_exec.errors import ConfinementUnavailable
from fable_exec.outcome import Outcome
from fable_exec.policy import Confinement, Limits, Protections
from fable_exec.runner import Runner
from tests import boxes, hosts
from tests.commands import command, ending, new_runner, python, shell

MIB = 1024 * 1024
LIMITS = Limits(memory_bytes=96 * MIB, processes=40, cpu_seconds=1, file_size_bytes=MIB, open_files=48)
NEEDS = {"slots": ("pid_namespace", "own_proc"), "namespace": ("pid_namespace", "own_proc"), "plain": ("linux", "pidfd")}
HOG = """
kept = []
while True:
    try:
        kept.append(bytes(b"x" * 4194304))
    except MemoryError:
        pass
"""
MANY_HOGS = """
import os, signal
for _ in range(4):
    if os.fork() == 0:
        kept = b"x" * (40 << 20)
        signal.pause()
os.wait()
"""
MANY_PROCESSES = """
import os, signal
for _ in range(60):
    if os.fork() == 0:
        signal.pause()
os.wait()
"""
MANY_THREADS = """
import threading
for _ in range(60):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
threading.Event().wait()
"""
HUGE_FILE = """
import os
file = os.open("huge", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
try:
    while True:
        os.write(file, b"x" * 65536)
except OSError as error:
    print(error.errno, os.fstat(file).st_size)
"""
LEAK = """
import os
held = []
try:
    while True:
        held.append(os.open("/dev/null", os.O_RDONLY))
except OSError as error:
    print(error.errno, 3 + len(held) - 1 < 48)
"""
RAISE = """
import resource
for number in (resource.RLIMIT_CPU, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_DATA):
    soft, hard = resource.getrlimit(number)
    try:
        resource.setrlimit(number, (hard + 1, hard + 1))
        print("raised", number)
    except (ValueError, OSError):
        print(soft, hard)
"""


def every_mode() -> list[object]:
    return [pytest.param(mode, marks=pytest.mark.requires_ability(*needs)) for mode, needs in NEEDS.items()]


@pytest.fixture(params=every_mode())
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


HOW = ("unconfined", "confined")
COVERING = {("slots", "confined"), ("namespace", "unconfined"), ("plain", "confined")}


def slow_in_every_mode() -> pytest.MarkDecorator:
    """Parameters for a test that takes seconds: each mode and both ways once, the rest of their product in the deep form."""
    return pytest.mark.parametrize(
        ("mode", "runner"),
        [
            pytest.param(
                mode, how, marks=[pytest.mark.requires_ability(*needs), *([] if (mode, how) in COVERING else [pytest.mark.deep])]
            )
            for mode, needs in NEEDS.items()
            for how in HOW
        ],
        indirect=True,
    )


@pytest.fixture(params=HOW)
def runner(request: pytest.FixtureRequest, workspace: Path, mode: str) -> Iterator[Runner]:
    """A runner under LIMITS, with and without the other protections."""
    runner = new_runner(workspace, mode, LIMITS, _degradable() if request.param == "confined" else None)
    yield runner
    runner.close()


def _degradable() -> Confinement:
    """All protections, so far as they go in each mode."""
    names = [field.name for field in attrs.fields(Protections)]
    return Confinement(protections=Protections(**dict.fromkeys(names, "degradable")))  # type: ignore[arg-type]  # all are modes


def healthy(runner: Runner) -> bool:
    """Whether the next command finds everything as it should be, and nobody else in its tree."""
    outcome = runner.run(shell("for i in 1 2 3; do sleep 0 & done; wait; echo fine"))
    return (outcome.exit_code, outcome.stdout.raw, outcome.survivors) == (0, b"fine\n", ())


@pytest.mark.parametrize("program", [HOG, MANY_HOGS], ids=["one", "several"])
def test_a_memory_hog_is_memory_limited(runner: Runner, program: str) -> None:
    outcome = runner.run(python(program, timeout_seconds=30))
    assert ending(outcome) == ("memory_limited", None, 9)
    assert outcome.peak_rss_bytes > 96 * MIB
    assert healthy(runner)


def test_memory_that_is_shared_after_a_fork_counts_once(runner: Runner) -> None:
    program = """
import os, signal, time
kept = b"x" * (40 << 20)
children = [os.fork() or signal.pause() for _ in range(5)]
time.sleep(0.5)
for child in children:
    os.kill(child, signal.SIGKILL)
"""
    assert ending(runner.run(python(program))) == ("exited", 0, None)


@slow_in_every_mode()
def test_a_file_that_is_only_read_is_no_memory_of_the_command(runner: Runner, workspace: Path) -> None:
    (workspace / "large").write_bytes(b"x" * (160 * MIB))
    program = """
import mmap, time
with open("large", "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as pages:
    print(sum(pages[at] for at in range(0, len(pages), 4096)))
    time.sleep(0.3)
"""
    outcome = runner.run(python(program))
    assert ending(outcome) == ("exited", 0, None), outcome.stderr.text()


IN_MEMORY = Path("/dev/shm")
READ_A_FILE_IN_MEMORY = """
import mmap, sys, time
with open(sys.argv[1], "rb") as file:
    how = {"prot": mmap.PROT_READ} if sys.argv[2] == "shared" else {"access": mmap.ACCESS_COPY}
    pages = mmap.mmap(file.fileno(), 0, **how)
    print(sum(pages[at] for at in range(0, len(pages), 4096)))
    time.sleep(0.3)
"""
MADE_IN_MEMORY = {
    "anonymous": "pages = mmap.mmap(-1, SIZE)",
    "memfd": "file = os.memfd_create('x'); os.truncate(file, SIZE); pages = mmap.mmap(file, SIZE)",
    "a file": "file = os.open(PATH, os.O_RDWR | os.O_CREAT); os.truncate(file, SIZE); pages = mmap.mmap(file, SIZE)",
    "a file that was removed": (
        "file = os.open(PATH, os.O_RDWR | os.O_CREAT); os.unlink(PATH); os.truncate(file, SIZE);"
        "pages = mmap.mmap(file, SIZE); again = mmap.mmap(file, SIZE, prot=mmap.PROT_READ)"
    ),
}


@pytest.fixture
def file_in_memory() -> Iterator[Path]:
    """A name in a tmpfs, for a file that goes away afterwards."""
    found = [line.split()[2] for line in Path("/proc/mounts").read_text().splitlines() if line.split()[1] == str(IN_MEMORY)]
    if found[-1:] != ["tmpfs"]:
        pytest.skip(f"{IN_MEMORY} is no tmpfs")
    path = IN_MEMORY / f"fable-exec-test-{os.getpid()}"
    yield path
    path.unlink(missing_ok=True)


@pytest.mark.parametrize("how", ["shared", "private"])
def test_a_file_in_memory_that_is_only_read_is_none_either(workspace: Path, mode: str, file_in_memory: Path, how: str) -> None:
    file_in_memory.write_bytes(b"x" * (160 * MIB))
    runner = new_runner(workspace, mode, LIMITS)
    outcome = runner.run(python(READ_A_FILE_IN_MEMORY, str(file_in_memory), how))
    runner.close()
    assert ending(outcome) == ("exited", 0, None), outcome.stderr.text()


@pytest.mark.parametrize("made", MADE_IN_MEMORY)
def test_memory_that_a_command_makes_counts_whatever_it_is_called(
    workspace: Path, mode: str, file_in_memory: Path, made: str
) -> None:
    program = f"""
import mmap, os, time
SIZE, PATH = {120 * MIB}, {str(file_in_memory)!r}
{MADE_IN_MEMORY[made]}
for at in range(0, SIZE, 4096):
    pages[at] = 1
time.sleep(20)
"""
    runner = new_runner(workspace, mode, attrs.evolve(LIMITS, file_size_bytes=None))
    outcome = runner.run(python(program))
    runner.close()
    assert ending(outcome) == ("memory_limited", None, 9), outcome.stderr.text()


@pytest.mark.parametrize("program", [MANY_PROCESSES, MANY_THREADS], ids=["processes", "threads"])
def test_too_many_processes_are_pids_limited(runner: Runner, program: str) -> None:
    outcome = runner.run(python(program, timeout_seconds=30))
    assert ending(outcome) == ("pids_limited", None, 9)
    assert outcome.peak_processes > 40
    assert healthy(runner)


@slow_in_every_mode()
@pytest.mark.parametrize("program", ["while :; do :; done", "for i in 1 2 3; do (while :; do :; done) & done; wait"])
def test_a_cpu_spin_is_ended_by_a_signal(runner: Runner, mode: str, program: str) -> None:
    outcome = runner.run(shell(program, timeout_seconds=60))
    # The first process of a PID namespace does not get SIGXCPU (pid_namespaces(7)): there the kill that follows ends it.
    assert ending(outcome) == ("signaled", None, 9 if mode == "namespace" else 24)
    assert healthy(runner)


@slow_in_every_mode()
def test_who_goes_on_after_the_cpu_signal_is_killed(runner: Runner) -> None:
    program = "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass"
    assert ending(runner.run(python(program, timeout_seconds=60))) == ("signaled", None, 9)
    assert healthy(runner)


def test_a_huge_file_stops_at_the_limit(runner: Runner, workspace: Path, mode: str) -> None:
    outcome = runner.run(python(HUGE_FILE))
    assert (ending(outcome), outcome.stdout.raw) == (("exited", 0, None), b"27 1048576\n")
    # A program that does not ignore SIGXFSZ, as Python does, is ended by it; in a namespace its first process gets the error.
    outcome = runner.run(command("dd", "if=/dev/zero", "of=huge", "bs=64k", "count=40"))
    assert ending(outcome) == (("exited", 1, None) if mode == "namespace" else ("signaled", None, 25))
    assert (workspace / "huge").stat().st_size == MIB
    assert healthy(runner)


def test_a_descriptor_leak_stops_at_the_limit(runner: Runner) -> None:
    outcome = runner.run(python(LEAK))
    assert (ending(outcome), outcome.stdout.raw) == (("exited", 0, None), b"24 True\n")
    assert healthy(runner)


def test_a_large_number_of_descriptors_is_held_too(workspace: Path, mode: str) -> None:
    """The launcher itself lives under it then, and still runs several commands at a time."""
    runner = new_runner(workspace, mode, Limits(open_files=1024))
    try:
        program = "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE))"
        running = [runner.start(shell("sleep 20")) for _ in range(12)]
        assert runner.run(python(program)).stdout.raw == b"(1024, 1024)\n"
        for each in running:
            each.close()
    finally:
        runner.close()


def test_no_limit_can_be_raised_by_the_command(runner: Runner) -> None:
    outcome = runner.run(python(RAISE))
    data = 96 * MIB + 512 * MIB
    assert outcome.stdout.text().splitlines() == ["1 2", f"{MIB} {MIB}", "48 48", f"{data} {data}"]


def test_a_command_that_cannot_be_executed_says_so_under_limits_too(runner: Runner, workspace: Path) -> None:
    broken = workspace / "broken"
    broken.write_bytes(b"\x7fELF nothing else")
    broken.chmod(0o755)
    with pytest.raises(OSError) as caught:
        runner.run(command(str(broken)))
    assert caught.value.errno == 8  # ENOEXEC
    assert healthy(runner)


def test_scripts_and_signals_are_as_without_limits(runner: Runner, workspace: Path) -> None:
    script = workspace / "script"
    script.write_text("#!/bin/sh\necho $0; kill -PIPE $$\n")
    script.chmod(0o755)
    outcome = runner.run(command(str(script)))
    assert outcome.stdout.text() == f"{script}\n"
    assert runner.run(shell("sh -c 'kill -PIPE $$'; echo $?")).stdout.raw == b"141\n"
    listing = runner.run(python("import os; print(sorted(os.listdir('/proc/self/fd')))"))
    assert listing.stdout.raw == b"['0', '1', '2', '3']\n"  # 3 is the listed directory


@pytest.mark.requires_ability("pid_namespace", "own_proc", "own_pid_max")
def test_a_slot_has_room_for_its_processes_however_many_came_before(workspace: Path) -> None:
    runner = new_runner(workspace, "slots", Limits(processes=20))
    try:
        many = "for i in $(seq 700); do /bin/true || exit 9; done; for i in $(seq 18); do sleep 0.2 & done; wait; echo fine"
        for _ in range(2):
            outcome = runner.run(shell(f"cat /proc/sys/kernel/pid_max; {many}"))
            assert (ending(outcome), outcome.stdout.text()) == (("exited", 0, None), "577\nfine\n"), outcome.stderr.text()
        raised = runner.run(shell("echo 4000 >/proc/sys/kernel/pid_max"))
        assert raised.exit_code == 1
    finally:
        runner.close()


KINDS: dict[str, Callable[[Outcome], bool]] = {
    HOG: lambda outcome: outcome.ended_by.value == "memory_limited",
    MANY_PROCESSES: lambda outcome: outcome.ended_by.value == "pids_limited",
    HUGE_FILE: lambda outcome: outcome.stdout.raw.startswith(b"27 "),
    LEAK: lambda outcome: outcome.stdout.raw == b"24 True\n",
    "while True: pass": lambda outcome: outcome.ended_by.value == "signaled",
}


@pytest.mark.parametrize("rounds", [1, pytest.param(20, marks=pytest.mark.deep)])
def test_nothing_leaks_into_the_next_run(workspace: Path, mode: str, rounds: int) -> None:
    """With 20 rounds a hundred runs that are limited alternate with a hundred that must not notice."""
    runner = new_runner(workspace, mode, LIMITS)
    try:
        for _ in range(rounds):
            for program, limited in KINDS.items():
                outcome = runner.run(python(program, timeout_seconds=60))
                assert limited(outcome), (program, outcome)
                assert healthy(runner), program
    finally:
        runner.close()


BOMBS = {"shell": "bomb() { bomb | bomb & }; bomb; sleep 30", "sessions": "while :; do setsid sleep 30 & done"}


@pytest.mark.alone
@pytest.mark.requires_ability("own_proc", "pidfd")
@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("rounds", [1, pytest.param(3, marks=pytest.mark.deep)])
def test_a_fork_storm_is_pids_limited(
    pid_box: Callable[..., boxes.Finished], workspace: Path, mode: str, bomb: str, rounds: int
) -> None:
    program = hosts.program_text(
        """
        from fable_exec.policy import Limits
        runner = new_runner(Path(sys.argv[1]), sys.argv[2], Limits(processes=100))
        found = []
        for _ in range(int(sys.argv[4])):
            outcome = runner.run(shell(sys.argv[3], timeout_seconds=30))
            after = runner.run(shell("for i in 1 2 3; do sleep 0 & done; wait; echo fine"))
            found.append([outcome.ended_by.value, outcome.peak_processes > 100,
                          proved(outcome), after.stdout.text()])
        runner.close()
        left = [name for name in os.listdir("/proc") if name.isdigit() and name not in ("1", str(os.getpid()))]
        answer([found, [Path(f"/proc/{pid}/comm").read_text() for pid in left]])
        """
    )
    environment = {**os.environ, "PYTHONPATH": str(hosts.PROJECT), "ANSWER": "1"}
    argv = [sys.executable, "-c", program, str(workspace), mode, BOMBS[bomb], str(rounds)]
    done = pid_box(argv, timeout=100, max_pids=1400, env=environment)
    assert done.returncode == 0, done.stderr
    found, left = json.loads(done.stdout)
    assert found == [["pids_limited", True, True, "fine\n"]] * rounds
    assert left == []


SUPPORT = Support(user_namespaces=0, root_namespaces=0, own_proc=0, own_pid_max=0, landlock_abi=7, machine="x86_64")


@pytest.mark.parametrize(
    ("mode", "limits", "support", "state", "means", "reason"),
    [
        ("slots", {}, {}, "active", "the policy, which sets no limits", ""),
        ("slots", {"open_files": 64, "file_size_bytes": 1}, {}, "active", "hard limits of each process", ""),
        (
            "slots",
            {"processes": 9},
            {},
            "degraded",
            "pid_max of the slot, sampling of the whole tree",
            "control groups are not used",
        ),
        ("slots", {"processes": 9}, {"own_pid_max": 13}, "degraded", "sampling of the whole tree", "no pid_max for each command"),
        ("slots", {"processes": 9}, {"control_group": "no control"}, "degraded", "pid_max of the slot", "no control"),
        ("plain", {"processes": 9}, {}, "degraded", "sampling of the whole tree", "launch mode plain"),
        ("plain", {"memory_bytes": 1 << 30}, {}, "degraded", "hard limits of each process, sampling", "memory_bytes sampled"),
        ("namespace", {"cpu_seconds": 5}, {}, "degraded", "hard limits of each process, sampling", "cpu_seconds sampled"),
        ("namespace", {"cpu_seconds": 5}, {"own_proc": 1}, "degraded", "hard limits of each process", "not seen"),
    ],
)
def test_what_is_applied_says_the_means_and_what_is_weaker(
    mode: str, limits: dict[str, int], support: dict[str, int], state: str, means: str, reason: str
) -> None:
    plan = compile_plan(
        mode,  # type: ignore[arg-type]  # one of the modes
        attrs.evolve(SUPPORT, **support),  # type: ignore[arg-type]  # a table of both kinds
        _degradable(),
        FileView(workspace="/w", writable=True),
        Limits(**limits),
    )
    applied = next(each for each in plan.applied if each.protection == "resources")
    assert applied.state == state
    assert applied.means.startswith(means)
    assert reason in applied.reason and bool(applied.reason) == (state != "active")


def test_strict_resources_refuse_what_is_only_sampled() -> None:
    strict = Confinement(protections=Protections(resources="strict"))
    view = FileView(workspace="/w", writable=True)
    assert compile_plan("slots", SUPPORT, strict, view, Limits(open_files=64)).command_limits == (("open_files", 64, 64),)
    with pytest.raises(ConfinementUnavailable) as caught:
        compile_plan("slots", SUPPORT, strict, view, Limits(memory_bytes=1 << 30))
    assert caught.value.protection == "resources"


def test_a_plan_without_limits_has_none() -> None:
    plan = compile_plan("slots", SUPPORT, Confinement(), FileView(workspace="/w", writable=True))
    assert (plan.command_limits, plan.watched_limits) == ((), ())
    assert ("mount_proc",) in plan.slot
    assert "resource_limits" not in {step[0] for step in plan.launcher}


def test_every_field_of_the_limits_that_is_a_resource_is_in_the_plan() -> None:
    """Whoever adds a limit of resources adds what enforces it, and a test above."""
    text = compile_plan("slots", SUPPORT, Confinement(), FileView(workspace="/w", writable=True), LIMITS).explain()
    for line in ("launcher: resource_limits", "slot: mount_proc 597", "command: cpu 1 2", "command: open_files 48 48",
                 "watchdog: memory 100663296", "watchdog: processes 40", "watchdog: cpu 1"):  # fmt: skip
        assert line in text
