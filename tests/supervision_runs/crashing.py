"""An execution of which processes are killed at a chosen moment (a blow), and what must hold of it afterwards."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

import attrs

from fable_exec.errors import BrokerGone, Conflict, IdentityLost, LaunchFailed
from fable_exec.executions import ExecutionDirectory
from fable_exec.executions.holding import is_held
from fable_exec.statefile import Source
from fable_exec.statefile.records import Condition
from fable_exec.supervisor import Execution, ExecutionSpec, Supervisor
from tests.supervision_runs.blows import Family, Moment, Watch
from tests.supervision_runs.jobs import Evidence, spec_of
from tests.waiting import until

STORIES = ("ends", "leaves a daemon", "is stopped")
LONGEST_SECONDS = 30.0
_TICK_SECONDS = 0.01
_LIFE_SECONDS = 0.15
_STOP_GRACE_SECONDS = 5.0
_LAST_WORD_SECONDS = 10.0
"""Nothing of a job may write any more when its keeper has been dead for so long, however busy the machine."""


@attrs.frozen(kw_only=True)
class Blow:
    """Whom to kill and when: at a moment that the directory shows, or so many seconds after the first one."""

    rung: str
    story: str
    targets: tuple[str, ...]
    moment: Moment | None = None
    seconds: float = 0.0
    seed: int = 0

    def __str__(self) -> str:
        when = f"at {self.moment}" if self.moment else f"after {self.seconds:.4f} s"
        return f"{self.rung}, {self.story}, {'+'.join(self.targets) or 'nobody'} {when} (seed {self.seed})"


@attrs.frozen(kw_only=True)
class Struck:
    """What came of one blow.

    Attributes:
        hit: those who lived and were killed; met: whether the moment came at all.
        end: the reason of the record, or "none" where nothing had been accepted.
        last_word: seconds from the keeper's death to the end of everything of the job; None where the keeper lived.
        faults: what must not be.
        moments: what the directory showed, and in how many seconds.
    """

    hit: tuple[str, ...] = ()
    met: bool = False
    end: str = "fault"
    last_word: float | None = None
    faults: list[str]
    moments: list[Moment] = attrs.field(factory=list)
    seconds: float = 0.0


class Crash:
    """One execution and its blow, in a directory of its own. `rival` asks for the same and for others meanwhile."""

    def __init__(self, directory: Path, blow: Blow, rival: Supervisor) -> None:
        self._blow, self._rival = blow, rival
        self._root = rival.root
        self._chance = random.Random(blow.seed)
        self._workspace = directory / uuid.uuid4().hex
        self._workspace.mkdir(mode=0o700)
        self._name = str(uuid.uuid4())
        self._status = self._chance.randrange(1, 20)
        self._spec = self._new_spec(self._name, _LIFE_SECONDS, self._status)
        self._directory = ExecutionDirectory.of(self._root, self._name)
        self._directory.make()  # so that it can be watched from the first moment on
        self._moments: list[Moment] = []
        self._began = 0.0
        self._faults: list[str] = []

    def _new_spec(self, name: str, seconds: float, status: int) -> ExecutionSpec:
        is_this = name == self._name
        return spec_of(
            self._workspace,
            self._blow.rung,
            execution_id=name,
            seconds=LONGEST_SECONDS if is_this and self._blow.story == "is stopped" else seconds,
            status=status,
            family=is_this and self._blow.story == "leaves a daemon",
            stop_grace_seconds=_STOP_GRACE_SECONDS,
            descendant_grace_seconds=0.2,
            spec_text="what to do",
        )

    def run(self) -> Struck:
        """All of it."""
        watch = Watch(self._directory.path, self._workspace)
        client = self._fork_client()
        family = Family(client)
        try:
            met = self._await_moment(watch, family)
            seconds = time.monotonic() - self._began
            gone = family.kill(self._blow.targets, self._chance)
            hit = tuple(sorted(gone))
            if {"keeper", "starter"} & set(gone) and self._rival.get(self._name) is None:
                gone = {}  # nothing had been accepted: whoever asks now has a whole execution
            acts = [self._ask_again, self._ask_for_another]
            if self._is_unbound(gone) or self._chance.random() < 0.5:
                acts.append(self._recover_at_once)
            rivals = [threading.Thread(target=self._guarded(act)) for act in acts]
            for thread in rivals:
                thread.start()
            last_word = self._await_end(gone)
            for thread in rivals:
                thread.join()
        finally:
            watch.close()
            family.kill(("client",), self._chance)
            os.waitpid(client, 0)
        end = self._judge(gone)
        return Struck(
            hit=hit,
            met=met,
            end=end,
            last_word=last_word,
            faults=self._faults,
            moments=self._moments,
            seconds=seconds,
        )

    def _fork_client(self) -> int:
        """Whoever asks first, and lives until it is killed."""
        pid = os.fork()
        if pid == 0:
            try:
                supervisor = Supervisor(self._root)
                try:
                    supervisor.start(self._spec)
                except (BrokerGone, LaunchFailed):
                    pass
                signal.pause()
            finally:
                os._exit(1)
        return pid

    def _await_moment(self, watch: Watch, family: Family) -> bool:
        """Until the blow's moment; False when the execution ended without it."""
        strike_at = None
        give_up_at = time.monotonic() + LONGEST_SECONDS
        while (now := time.monotonic()) < (give_up_at if strike_at is None else strike_at):
            came = watch.moments(_TICK_SECONDS if strike_at is None else min(_TICK_SECONDS, strike_at - now))
            for moment in came:
                self._began = self._began or time.monotonic()
                self._moments.append(moment)
                if moment == self._blow.moment:
                    return True
                if moment.name == "the job's mark" and self._blow.story == "is stopped":
                    self._ask_for_stop()
            if self._moments:
                family.look()
            if came and strike_at is None and self._blow.moment is None:
                strike_at = now + self._blow.seconds
            if not came and self._is_over() and not is_held(self._directory.run_lock):
                return False
        return strike_at is not None

    def _ask_for_stop(self) -> None:
        try:
            self._rival.request_stop(self._name)
        except IdentityLost:
            pass  # its keeper is dead already

    def _is_over(self) -> bool:
        found = self._rival.get(self._name)
        return found is not None and found.is_over

    # Others, meanwhile.

    def _guarded(self, act: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                act()
            except Exception as error:
                self._faults.append(f"{act.__name__}: {error!r}"[:500])

        return run

    def _is_unbound(self, gone: Mapping[str, float]) -> bool:
        """Whether nobody is left to end a daemon: without a namespace, and with keeper and init both killed."""
        is_daemon = self._blow.story == "leaves a daemon"
        return is_daemon and self._blow.rung == "subreaper" and {"keeper", "init"} <= set(gone)

    def _started(self, spec: ExecutionSpec) -> Execution:
        """As soon as the workspace is free."""
        give_up_at = time.monotonic() + LONGEST_SECONDS
        while True:
            try:
                return self._rival.start(spec)
            except Conflict as error:
                if error.reason != "workspace" or time.monotonic() > give_up_at:
                    raise
                time.sleep(0.001)

    def _ask_again(self) -> None:
        """For the same, as soon as the blow has fallen: it is the same execution, or the first that is accepted."""
        execution = self._started(self._spec)
        if execution.execution_id != self._name:
            self._faults.append("another execution was returned")
        if self._blow.story == "is stopped":
            until(lambda: Evidence.of(self._workspace).runners(self._name) or not is_held(self._directory.run_lock))
            self._ask_for_stop()

    def _ask_for_another(self) -> None:
        """In the same workspace, until it may start there: then nothing of the first may live."""
        another = self._new_spec(str(uuid.uuid4()), 0.01, 3)
        self._started(another)
        ended = self._rival.wait(str(another.execution_id), LONGEST_SECONDS)
        if (ended.is_over, ended.exit_code) != (True, 3):
            self._faults.append(f"the other ended as {ended.to_members()}"[:500])

    def _recover_at_once(self) -> None:
        """Where it says that the end is recorded and that nothing is left, nothing is."""
        told = self._rival.recover()
        now = time.monotonic()
        if not any(each.execution_id == self._name and each.done.value == "recorded" for each in told):
            return
        found = self._rival.get(self._name)
        assert found is not None
        if found.document["descendants"]["remaining_pids"] == []:
            time.sleep(0.05)
            late = Evidence.of(self._workspace).last(self._name) - now
            if late > 0:
                self._faults.append(f"it wrote {late:.3f} s after its end was recorded")

    # Afterwards.

    def _await_end(self, gone: Mapping[str, float]) -> float | None:
        """Until nobody keeps it and nothing of it lives; how long that was after the keeper's death."""
        last_word = None
        if "keeper" in gone:
            until(lambda: not Evidence.is_alive(self._workspace, self._name), LONGEST_SECONDS)
            last_word = max(0.0, time.monotonic() - gone["keeper"])
            if last_word > _LAST_WORD_SECONDS and not self._is_unbound(gone):
                self._faults.append(f"it lived on for {last_word:.3f} s without a keeper")
        until(lambda: not is_held(self._directory.run_lock), LONGEST_SECONDS)
        return last_word

    def _judge(self, gone: Mapping[str, float]) -> str:
        until(lambda: not is_held(self._directory.run_lock), LONGEST_SECONDS)
        evidence = Evidence.of(self._workspace)
        self._faults += evidence.faults()
        with Supervisor(self._root) as fresh:
            fresh.recover()
            before = self._bytes()
            again = [each for each in fresh.recover() if each.execution_id == self._name]
            if again or self._bytes() != before:
                self._faults.append(f"the second recover did something: {again}")
            execution = fresh.start(self._spec)
        if not execution.is_over:
            self._faults.append(f"it was started again, or has not ended: {execution.to_members()}"[:500])
            return "none"
        self._check_record()
        self._check_end(execution, evidence, gone)
        return str(execution.document["termination_reason"])

    def _bytes(self) -> list[str]:
        return [hashlib.sha256((self._directory.path / name).read_bytes()).hexdigest() for name in ("state.json", "terminal.rec")]

    def _check_record(self) -> None:
        """One record, and the state says the same."""
        reading = self._directory.state.read()
        if reading is None or reading.record is not Condition.WHOLE or reading.source is not Source.STATE_FILE:
            self._faults.append(f"the record: {None if reading is None else (reading.record, reading.source)}")

    def _check_end(self, execution: Execution, evidence: Evidence, gone: Mapping[str, float]) -> None:
        """No status is lost where the keeper lived, and none is invented."""
        document = execution.document
        reason, status = document["termination_reason"], document["returncode"]
        runners = evidence.runners(self._name)
        told = f"{reason} {status}, runners {runners}, hit {sorted(gone)}"
        if runners > 1:
            self._faults.append(f"runners: {told}")
        if (reason == "launch_failed") and runners:
            self._faults.append(f"it ran: {told}")
        if status is not None and status >= 0 and not (status == self._status and evidence.says(self._name, "ended")):
            self._faults.append(f"invented: {told}")
        if status is not None and status < 0 and -status not in self._possible_signals(gone):
            self._faults.append(f"invented: {told}")
        if reason == "keeper_lost" and not {"keeper", "starter"} & set(gone):
            self._faults.append(f"its keeper lived: {told}")
        if not {"keeper", "init", "starter"} & set(gone) and (reason, status) != self._whole_end():
            self._faults.append(f"lost: {told}, {document['launch_error']}")

    def _possible_signals(self, gone: Mapping[str, float]) -> set[int]:
        found = {signal.SIGTERM} if self._blow.story == "is stopped" else set()
        return found | ({signal.SIGKILL} if {"keeper", "init", "starter"} & set(gone) else set())

    def _whole_end(self) -> tuple[str, int]:
        return {
            "ends": ("crashed", self._status),
            "leaves a daemon": ("descendants_terminated", self._status),
            "is stopped": ("stopped", -signal.SIGTERM),
        }[self._blow.story]
