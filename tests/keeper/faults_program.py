"""The program of test_faults.py: `... DIRECTORY RUNG EVERY kill | fail ERRNO | halve`.

A whole keeper is run again and again, each time for a new execution in a place of its own: killed at its n-th stop, or with its
n-th call of the file system failing or doing half of its work. After each run the record, the job and the locks are looked at;
"EVERY" leaves out all numbers but each so many-th. Prints JSON: how often each word was the answer.
"""

from __future__ import annotations

import collections
import contextlib
import errno
import itertools
import json
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import pytest

from fable_exec._launcher import wire
from fable_exec.executions.holding import is_held
from fable_exec.keeper import inits, keeper
from fable_exec.keeper.requests import KeepRequest
from fable_exec.supervisor import Supervisor
from fable_exec.supervisor.zygote import KeeperZygote
from tests import hosts
from tests.keeper.scenes import Scene
from tests.statefile.faults_program import HALF_DONE, OF_FILES
from tests.tracing import Act, Alteration, killed_at, told_with
from tests.waiting import until

OF_A_KEEPER = (OF_FILES - {"close"}) | {"mkdir", "mkdirat", "chmod", "mknodat", "mknod", "ftruncate", "utimensat"}
GONE_SECONDS = 30.0


class _Captured(BaseException):
    """What the keeper would have been asked."""


class Run:
    """One execution that a keeper of ours is to keep: what it is asked, and how its traces are found."""

    def __init__(self, directory: Path, supervisor: Supervisor, rung: str) -> None:
        place = directory / uuid.uuid4().hex
        place.mkdir(mode=0o700)
        self.marker = hosts.unique_sleep()
        self.supervisor = supervisor
        self.scene = Scene(supervisor=supervisor, workspace=place, rung=rung)
        script = f"echo ran >>ran; sleep {self.marker} & exec 1>&- 2>&-; exit 3"
        self.spec = self.scene.spec("sh", "-c", script, execution_id=str(uuid.uuid4()), descendant_grace_seconds=0.05)
        self.request = _captured(supervisor, self.spec)

    def prepare(self) -> Act:
        """The keeper, to be run in a child."""
        theirs, ours = wire.socket_pair()

        def keep() -> Any:
            keeper.keep(self.request.to_wire(), theirs)
            with contextlib.suppress(wire.PeerGone):
                return wire.receive(ours)[0]["answer"]

        return keep

    def word(self, *, died: bool) -> str:
        """What is left of it, in one word; what may not be is an AssertionError."""
        directory = self.supervisor.root / str(self.spec.execution_id)
        until(lambda: not is_held(directory / "run.lock"), GONE_SECONDS)
        until(lambda: not hosts.alive_with(self.marker), GONE_SECONDS)
        ran = (self.scene.workspace / "ran").read_text() if (self.scene.workspace / "ran").exists() else ""
        assert ran in ("", "ran\n"), "it ran twice"
        found = self.supervisor.get(str(self.spec.execution_id))
        if found is None:
            assert ran == "", "it ran without a record"
            return "nothing"
        word = found.state.value
        if word != "exited":
            assert died, f"{word} for ever"
            assert ran == "" or word == "running"
            return word
        reason = found.document["termination_reason"]
        assert (reason, found.exit_code) in {("descendants_terminated", 3), ("launch_failed", None)}, found.to_members()
        assert (reason == "launch_failed") == (ran == ""), f"{reason} although it said {ran!r}: {found.document['launch_error']}"
        return str(reason)


def _no_more_processes(*_: object) -> None:
    raise OSError(errno.EAGAIN, "no starter")


def _captured(supervisor: Supervisor, spec: Any) -> KeepRequest:
    def ask(self: KeeperZygote, request: KeepRequest) -> Any:
        raise _Captured(request)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KeeperZygote, "ask", ask)
        try:
            supervisor.start(spec)
        except _Captured as captured:
            found: KeepRequest = captured.args[0]
            return found
    raise AssertionError("nobody was asked")


def kill(fresh: Any, every: int) -> Iterator[str]:
    for stop in itertools.count(1, every):
        run = fresh()
        went_on = killed_at(stop, run.prepare)
        yield run.word(died=went_on)
        if not went_on:
            return


def altered(fresh: Any, every: int, alteration: Alteration, names: frozenset[str]) -> Iterator[str]:
    for number in itertools.count(0, every):
        run = fresh()
        try:
            told = told_with(run.prepare, names, {number: alteration})
        except RuntimeError as error:
            raise AssertionError(f"call {number}: {error}") from error
        try:
            yield run.word(died=False)
        except AssertionError as error:
            raise AssertionError(f"call {number}, {told.calls[number].name}: {told.raised} {told.number}: {error}") from error
        if number >= len(told.calls):
            return


def main() -> None:
    directory, rung, every, way, *errors = sys.argv[1:]
    with pytest.MonkeyPatch.context() as patch, Supervisor(Path(directory, "root")) as supervisor:
        patch.setattr(inits, "make_leaf", lambda name: None)
        patch.setattr(keeper, "fork_starter", _no_more_processes)  # else its child would do most of it, unseen

        def fresh() -> Run:
            return Run(Path(directory), supervisor, rung)

        if way == "kill":
            words = list(kill(fresh, int(every)))
        elif way == "halve":
            words = list(altered(fresh, int(every), Alteration(halved=True), frozenset({*HALF_DONE, "write"})))
        else:
            words = list(altered(fresh, int(every), Alteration(error=getattr(errno, errors[0])), OF_A_KEEPER))
    changes = [word for word, _ in itertools.groupby(words)]
    print(json.dumps({"runs": len(words), "words": collections.Counter(words), "changes": changes}))


if __name__ == "__main__":
    main()
