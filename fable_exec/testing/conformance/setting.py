"""Where a suite of checks works: the broker under test, a directory for each check, programs that are marked, and examples."""

from __future__ import annotations

import hashlib
import os
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import attrs
import hypothesis
import pytest
from hypothesis import strategies as st

from fable_exec.policy import BrokerPolicy, Confinement, EnvironmentPolicy, Limits
from fable_exec.protocol import CommandResult
from fable_exec.testing.faces import Face, blocking
from fable_exec.testing.processes import alive_with, end_all_with, unique_word

__all__ = ["MAX_OUTPUT_BYTES", "REQUEST_NAMES", "TOKEN", "BrokerSetting", "Desk"]

TOKEN = "the admin's token of the conformance suite"
"""What unlocks writes; its digest is in every policy of the suite."""
MAX_OUTPUT_BYTES = 100_000
REQUEST_NAMES = ("FABLE_A", "FABLE_B", "FABLE_C")
"""Variables that requests may set."""


@attrs.frozen
class Desk:
    """A broker at work for one check, in a directory of its own below the workspace.

    Args:
        broker: the broker under test, with blocking calls.
        workspace: the broker's workspace.
        name: the directory of this check below it.
        python: the interpreter that the policy allows.
        marker: a word in the command line of everything that this check starts.
    """

    broker: Face
    workspace: Path
    name: str
    python: str
    marker: str = attrs.field(factory=unique_word)

    def path(self, name: str) -> str:
        """A path of this check as a request names it."""
        return f"{self.name}/{name}"

    def on_disk(self, name: str) -> Path:
        """The same as the host sees it."""
        return self.workspace / self.name / name

    def argv(self, program: str, *arguments: str) -> list[str]:
        """The command line of a Python program. It ends with the marker, which is no argument of the program's."""
        return [self.python, "-I", "-S", "-c", _BEFORE + program, *arguments, self.marker]

    def run(self, program: str, *arguments: str, **options: Any) -> CommandResult:
        """Run a Python program to its end: `os`, `sys`, `time` and `ARGUMENTS` are there."""
        found: CommandResult = self.broker.execute_command(self.argv(program, *arguments), **options)
        return found

    def left(self) -> list[int]:
        """Living processes of this check. They are ended now, so that a fault of a broker does not stay on the machine."""
        found = alive_with(self.marker)
        end_all_with(self.marker)
        return found


_PHASES_OF_SHRINKING = {hypothesis.Phase.shrink, hypothesis.Phase.explain}
_BEFORE = "import os, sys, time; ARGUMENTS = sys.argv[1:-1]\n"


class BrokerSetting:
    """What a subclass says of its broker, and what the checks work with."""

    python: ClassVar[str] = os.path.realpath(sys.executable)
    """The interpreter that the policies of the suite allow, and the only program that it needs."""
    confinement: ClassVar[Confinement] = Confinement()
    """What commands are confined to. On a host that cannot hold the default, say here what your broker is used with."""
    launch: ClassVar[str] = "auto"
    examples: ClassVar[int] = 100
    """How many inputs each property about requests is tried with."""
    command_examples: ClassVar[int] = 25
    """The same where each takes a command, or a whole run of the state machine."""
    shrink: ClassVar[bool] = True
    """Whether a failure is made small before it is told, which takes up to some minutes where commands run."""

    def make_broker(self, policy: BrokerPolicy) -> Any:
        """The broker under test, under `policy`: an ExecutionBroker or anything with its calls, blocking or asyncio.

        To be given by the subclass. It may be awaitable. The suite closes what it returns.
        """
        raise NotImplementedError("a subclass of BrokerConformance says in make_broker(policy) what is to be tested")

    def policy(self, workspace: Path, **more: Any) -> BrokerPolicy:
        """The policy of a check; `more` are fields that it needs to be different."""
        fields: dict[str, Any] = {
            "workspace": workspace,
            "allowed_executables": (self.python,),
            "write_token_digest": hashlib.sha256(TOKEN.encode()).hexdigest(),
            "max_output_bytes": MAX_OUTPUT_BYTES,
            "confinement": self.confinement,
            "launch": self.launch,
            "environment": EnvironmentPolicy(request_names=REQUEST_NAMES),
            "limits": Limits(timeout_seconds=60, max_timeout_seconds=120),
        }
        return BrokerPolicy(**{**fields, **more})

    @contextmanager
    def opened(self, workspace: Path, *, unlocked: bool = True, **more: Any) -> Iterator[Face]:
        """A broker of the check's own, closed afterwards."""
        with blocking(self.make_broker(self.policy(workspace, **more))) as broker:
            try:
                if unlocked:
                    broker.unlock_writes(TOKEN)
                yield broker
            finally:
                broker.close()

    def desk_at(self, broker: Face, workspace: Path) -> Desk:
        """A place in `workspace` for one check, or one example of it."""
        name = f"check-{uuid.uuid4().hex[:12]}"
        (workspace / name).mkdir(mode=0o700)
        return Desk(broker, workspace, name, self.python)

    @pytest.fixture(scope="class")
    @classmethod
    def _shared(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Face, Path]]:
        """One broker for the checks that need none of their own: to start one takes longer than most of them."""
        workspace = (tmp_path_factory.mktemp("conformance") / "workspace").resolve()
        workspace.mkdir(mode=0o700)
        with cls().opened(workspace) as broker:
            yield broker, workspace

    @pytest.fixture
    def desk(self, _shared: tuple[Face, Path]) -> Iterator[Desk]:
        """The shared broker, unlocked, with a place for this check; nothing of the check is alive afterwards."""
        broker, workspace = _shared
        broker.unlock_writes(TOKEN)
        desk = self.desk_at(broker, workspace)
        try:
            yield desk
        finally:
            assert desk.left() == [], "processes of this check were alive after it"

    @pytest.fixture
    def workspace(self, tmp_path: Path) -> Path:
        """A workspace for a broker of the check's own."""
        workspace = tmp_path.resolve() / "workspace"
        workspace.mkdir(mode=0o700)
        return workspace

    def for_each(self, check: Callable[..., None], examples: int | None = None, **given: st.SearchStrategy[Any]) -> None:
        """Call `check` with values drawn from each strategy, `examples` times, and shrink what fails."""
        hypothesis.given(**given)(self.settings(self.examples if examples is None else examples)(check))()

    def settings(self, examples: int, **more: Any) -> hypothesis.settings:
        """How the properties of this suite are tried."""
        phases = set(hypothesis.Phase) - ({hypothesis.Phase.explain} if self.shrink else _PHASES_OF_SHRINKING)
        return hypothesis.settings(
            max_examples=examples,
            deadline=None,
            phases=[phase for phase in hypothesis.Phase if phase in phases],
            suppress_health_check=[hypothesis.HealthCheck.too_slow],
            **more,
        )
