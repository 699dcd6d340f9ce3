"""What every test may use: `workspace`, `pid_box`, the ability marker, and the hypothesis profiles quick and deep."""

from __future__ import annotations

import collections
import gc
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest

from tests import abilities, alternating, boxes, turns

hypothesis.settings.register_profile("quick", deadline=None, max_examples=100, print_blob=True)
hypothesis.settings.register_profile(
    "deep", deadline=None, max_examples=100_000, print_blob=True, suppress_health_check=list(hypothesis.HealthCheck)
)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

_missing_abilities: collections.Counter[tuple[str, str]] = collections.Counter()


def pytest_configure(config: pytest.Config) -> None:
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:  # by a shell that does not wait for us, or nohup(1); ours would inherit it
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    if hasattr(config, "workerinput"):  # one of several workers; each has its own directory beside those of the others
        config.pluginmanager.register(turns.Turns(Path(config.getoption("basetemp")).parent))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    return turns.how_many()


@pytest.hookimpl(tryfirst=True)  # before those that are deep are left out
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if left := alternating.leave_to_the_second_run(items):
        config.hook.pytest_deselected(items=left)
    alternating.try_one_way(item for item in items if isinstance(item, pytest.Function))
    items.sort(key=turns.must_be_alone)  # at the end, where nobody has to wait for them; the order is random within both parts
    for item in items:
        for name in _lacking(item):
            item.add_marker(pytest.mark.skip(reason=f"ability {name} is missing: {abilities.missing(name)}"))


def pytest_collection_finish() -> None:
    gc.freeze()  # what was collected stays to the end, and would be gone through with each collection of garbage


def _lacking(item: pytest.Item) -> Iterator[str]:
    names = [str(name) for mark in item.iter_markers("requires_ability") for name in mark.args]
    if "pid_box" in getattr(item, "fixturenames", ()):
        names += ["pid_namespace", "own_pid_max"]
    return (name for name in names if abilities.missing(name))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and isinstance(report.longrepr, tuple):
        before, found, rest = report.longrepr[2].partition("ability ")
        if found and before in ("Skipped: ", ""):
            name, _, reason = rest.partition(" is missing: ")
            _missing_abilities[name, reason] += 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for (name, reason), count in sorted(_missing_abilities.items()):
        kind = "kernel ability" if name in abilities.KERNEL else "ability"
        terminalreporter.write_line(f"skipped {count} for want of the {kind} {name}: {reason}")
    if _kernel_skips() and abilities.abilities_are_required():
        terminalreporter.write_line(
            f"{_kernel_skips()} kernel tests were skipped on a machine that should run them: failed", red=True
        )


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.exitstatus == pytest.ExitCode.OK and _kernel_skips() and abilities.abilities_are_required():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _kernel_skips() -> int:
    return sum(count for (name, _), count in _missing_abilities.items() if name in abilities.KERNEL)


@pytest.fixture(scope="session", autouse=True)
def _own_state_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What tests have quarantined must not lie among the user's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """An empty private directory (0700), named in its resolved form."""
    directory = tmp_path.resolve() / "workspace"
    directory.mkdir(mode=0o700)
    return directory


@pytest.fixture
def pid_box(tmp_path: Path) -> Callable[..., boxes.Finished]:
    """`pid_box(source_or_argv, timeout=60, max_pids=600)`: run it where nothing that it forks can outlive it (tests/boxes.py)."""

    def run(program: str | list[str], timeout: float = 60, max_pids: int = 600, **options: object) -> boxes.Finished:
        return boxes.run_in_pid_box(program, timeout, max_pids, tmp_path, **options)  # type: ignore[arg-type]  # passed on as given

    return run
