"""The right supervisor passes the suite, blocking and asyncio, and broken ones do not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from fable_exec import Confinement, Execution, ExecutionSpec, Recovered, Supervisor
from fable_exec.testing import SupervisorConformance, nothing_left

pytestmark = pytest.mark.requires_ability("confinement")


class TestOurs(SupervisorConformance):
    @pytest.fixture(autouse=True)
    def _nothing_is_left(self) -> Iterator[None]:
        with nothing_left():
            yield

    def make_supervisor(self, root: Path) -> Any:
        return Supervisor(root)


class OnALoop:
    """The same with its asyncio calls."""

    def __init__(self, inner: Supervisor) -> None:
        self.inner = inner
        self.start, self.wait = inner.start_async, inner.wait_async

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@pytest.mark.deep
class TestOursOnALoop(TestOurs):
    def make_supervisor(self, root: Path) -> Any:
        return OnALoop(Supervisor(root))


class RunsItAgain(Supervisor):
    """Every request is a new one."""

    def start(self, spec: ExecutionSpec) -> Execution:
        return super().start(attrs.evolve(spec, execution_id=None))


class LosesTheStatus(Supervisor):
    """Ended is ended."""

    def wait(self, execution_id: str, timeout_seconds: float | None = None) -> Execution:
        found = super().wait(execution_id, timeout_seconds)
        return attrs.evolve(found, document={**found.document, "exit_code": 0})


class CutsTheLog(Supervisor):
    """Gives out the first piece."""

    def logs(self, execution_id: str, follow: bool = False) -> Iterator[bytes]:
        for piece in super().logs(execution_id, follow):
            yield piece[:4096]
            return


class RecoversNothing(Supervisor):
    """Says that all is well."""

    def recover(self) -> list[Recovered]:
        return []


BROKEN: dict[type[Supervisor], str] = {
    CutsTheLog: "test_what_a_job_said_is_kept_whole",
    LosesTheStatus: "test_the_end_is_told_exactly",
    RecoversNothing: "test_a_job_whose_keeper_died_is_recovered_once",
    RunsItAgain: "test_the_same_request_is_the_same_execution",
}


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_the_suite_finds_it(kind: type[Supervisor], tmp_path: Path) -> None:
    class Suite(SupervisorConformance):
        confinement = Confinement.off()

        def make_supervisor(self, root: Path) -> Any:
            return kind(root)

    suite = Suite()
    with suite.opened(tmp_path.resolve()) as jobs:
        with pytest.raises(AssertionError):
            getattr(suite, BROKEN[kind])(jobs)
        with Supervisor(jobs.root) as honest:
            honest.recover()
            for each in honest.list():
                honest.wait(each.execution_id, 30)
