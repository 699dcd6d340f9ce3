"""A broker under one policy on one host, as a structure: its worlds are found by asking the rules that the broker itself asks.

`decide`, `decide_input`, `asks_for_arguments` and `deadlines_of` say what may be done, a real write lock who has unlocked what,
and the compiled plans what the kernel holds. What the model adds is how time goes: a request is let through, a command runs, the
lock may change and the command may be fed meanwhile, then it ends by itself or by its deadline.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum

import attrs

from fable_exec.assurance.model.acts import COMMANDS, WRITES, CommandAct, WriteAct
from fable_exec.assurance.model.exploring import Model, explore
from fable_exec.assurance.model.host import Host
from fable_exec.assurance.model.locking import LockWorld, explore_lock
from fable_exec.assurance.model.ways import Asset
from fable_exec.confine import Support
from fable_exec.decision import Decision, asks_for_arguments, deadlines_of, decide, decide_input
from fable_exec.errors import ConfinementUnavailable, InvalidRequest
from fable_exec.policy import BrokerPolicy

__all__ = ["ATOMS", "PROTECTION_ATOMS", "BrokerWorld", "Phase", "RunningCommand", "broker_model", "explore_broker"]


class Phase(Enum):
    """What the broker is about."""

    IDLE = "idle"
    WRITING = "writing"
    STARTED = "started"
    """A command was let through."""
    RUNNING = "running"
    """It has run for a while."""
    FED = "fed"
    """It was let have input."""
    ENDING = "ending"
    """Its deadline has passed; its whole tree is being ended."""


_ADMITTED_PHASES = (Phase.WRITING, Phase.STARTED, Phase.FED)


@attrs.frozen
class RunningCommand:
    """A command that was let through, and how."""

    act: CommandAct
    read_only: bool
    has_deadline: bool


@attrs.frozen
class BrokerWorld:
    """What matters of a broker at one moment."""

    phase: Phase
    lock: LockWorld
    request: WriteAct | RunningCommand | None = None

    @property
    def command(self) -> RunningCommand | None:
        """The command that is alive, if any."""
        return self.request if isinstance(self.request, RunningCommand) else None


PROTECTION_ATOMS: Mapping[str, str] = {
    "host_writes": "host_writable",
    "host_metadata": "host_metadata_writable",
    "host_reads": "secrets_readable",
    "network": "network_open",
    "host_sockets": "host_sockets_reachable",
    "other_processes": "other_processes_reachable",
    "later_files": "later_files_plantable",
    "kernel_surface": "kernel_interfaces_open",
}
"""What is true of a command when a way that the protection should have cut is open."""

ATOMS: Mapping[str, str] = {
    "idle": "nothing is being done",
    "admitted": "a request was let through just now: a write, a command, input for one",
    "writing": "a request changes the workspace",
    "running": "a command is alive",
    "fed": "it was let have input just now",
    "ending": "its deadline has passed",
    "deadline_armed": "it has a deadline within the policy's limits",
    "listed": "it is on the allow-list, and the file that was listed",
    "interpreter_running": "it is an interpreter or a shell, by whatever name",
    "kernel_readonly": "the kernel keeps the workspace as it is for its whole tree",
    "workspace_writable": "the request, or the command that is alive, can change the workspace",
    "within_scope": "the request changes nothing but what lies below paths that an unlock can be for",
    "protected_writable": "a command can write a name that no path of a request may contain",
    "writes_locked": "no unlock is in force",
    "unlocked": "an unlock is in force, for some paths at least",
    "unlocked_for_paths": "an unlock is in force for some paths only; commands count as locked",
    "admin_authenticated": "the administrator's token brought about the unlock in force",
    "host_writable": "a command can change files outside the workspace",
    "host_metadata_writable": "a command can change modes, times or owners outside the workspace",
    "secrets_readable": "a command can read files of the host that hold credentials",
    "network_open": "a command can reach more of the network than listed ports",
    "host_sockets_reachable": "a command can reach sockets of the host",
    "other_processes_reachable": "a command can see, signal or trace other processes",
    "later_files_plantable": "a command can change what runs later, and nothing looks after it",
    "kernel_interfaces_open": "a command can ask for interfaces of the kernel that ordinary programs do not need",
}
"""What a formula may ask for."""


def broker_model(policy: BrokerPolicy, support: Support) -> Model[BrokerWorld]:
    """Every world that a broker under `policy` can come to, on a host with `support`, from its start."""
    return explore_broker(Host(policy, support))


def explore_broker(host: Host) -> Model[BrokerWorld]:
    """The same of what is known of a host already."""
    rules = _Rules(host)
    start = BrokerWorld(Phase.IDLE, next(iter(rules.lock_moves)))
    return explore(start, rules.moves, rules.labels)


class _Rules:
    """What can happen in a world, and what is true of it."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._policy = host.policy
        self.lock_moves = explore_lock(host.policy)
        self._has_deadline = self._deadline_within_limits()

    # What can happen.

    def moves(self, world: BrokerWorld) -> Iterator[tuple[str, BrokerWorld]]:
        idle = BrokerWorld(Phase.IDLE, world.lock)
        match world.phase:
            case Phase.IDLE:
                yield "nothing happens", world
                yield from self._lock_changes(world)
                yield from self._writes(world.lock)
                yield from self._starts(world.lock)
            case Phase.WRITING:
                yield "it is done", idle
            case Phase.STARTED:
                yield "it ends by itself", idle
                yield from self._lock_changes(attrs.evolve(world, phase=Phase.RUNNING))
                yield "it goes on", attrs.evolve(world, phase=Phase.RUNNING)
            case Phase.RUNNING:
                yield "it ends by itself", idle
                yield self._time_passes(world)
                yield from self._input(world)
            case Phase.FED:
                yield "it ends by itself", idle
                yield self._time_passes(world)
            case Phase.ENDING:
                yield "its whole tree is ended", idle

    def _lock_changes(self, world: BrokerWorld) -> Iterator[tuple[str, BrokerWorld]]:
        return ((event, attrs.evolve(world, lock=lock)) for event, lock in self.lock_moves[world.lock])

    @staticmethod
    def _time_passes(world: BrokerWorld) -> tuple[str, BrokerWorld]:
        assert world.command is not None
        if world.command.has_deadline:
            return "its deadline passes", attrs.evolve(world, phase=Phase.ENDING)
        return "it goes on", world

    def _writes(self, lock: LockWorld) -> Iterator[tuple[str, BrokerWorld]]:
        scope = None if lock.unlocked is None else lock.unlocked.scope
        for act in WRITES:
            facts = attrs.evolve(act.facts, unlock_scope=scope)
            if decide(self._policy, lock.unlocked is not None, False, facts).allowed:
                yield f"{act.name} is let through", BrokerWorld(Phase.WRITING, lock, act)

    def _starts(self, lock: LockWorld) -> Iterator[tuple[str, BrokerWorld]]:
        for act in COMMANDS:
            decision = self._decision(act, lock)
            if decision.allowed and self._host.runs(read_only=decision.read_only):
                started = RunningCommand(act, decision.read_only, self._has_deadline)
                yield f"{act.name} is started", BrokerWorld(Phase.STARTED, lock, started)

    def _input(self, world: BrokerWorld) -> Iterator[tuple[str, BrokerWorld]]:
        command = world.command
        assert command is not None
        if decide_input(self._decision(command.act, world.lock), command.read_only).allowed:
            yield "it is fed", attrs.evolve(world, phase=Phase.FED)

    def _decision(self, act: CommandAct, lock: LockWorld) -> Decision:
        """What the gate would decide; where less holds than is insisted on, nothing is started, whatever was decided."""
        held = not lock.is_whole and self._holds_read_only()
        arguments = act.arguments if asks_for_arguments(self._policy, lock.is_whole, held) else None
        scope = None if lock.unlocked is None else lock.unlocked.scope
        facts = attrs.evolve(act.facts, unlock_scope=scope, arguments=arguments)
        return decide(self._policy, lock.unlocked is not None, held, facts)

    def _holds_read_only(self) -> bool:
        try:
            return self._host.holds_read_only()
        except ConfinementUnavailable:
            return False

    def _deadline_within_limits(self) -> bool:
        """Whether every command gets a deadline, whatever its request asks for."""
        limits = self._policy.limits
        for asked in (None, limits.max_timeout_seconds, 2 * limits.max_timeout_seconds):
            try:
                seconds, _ = deadlines_of(limits, asked, None)
            except InvalidRequest:
                continue
            if not 0 < seconds <= limits.max_timeout_seconds:
                return False
        return True

    # What is true.

    def labels(self, world: BrokerWorld) -> Iterator[str]:
        yield from self._lock_labels(world.lock)
        if world.phase is Phase.IDLE:
            yield "idle"
        if world.phase in _ADMITTED_PHASES:
            yield "admitted"
        if isinstance(world.request, WriteAct):
            yield from ("writing", "workspace_writable", *(["within_scope"] if world.request.in_scope else []))
        elif world.command is not None:
            yield from self._command_labels(world.phase, world.command)

    @staticmethod
    def _lock_labels(lock: LockWorld) -> Iterator[str]:
        if lock.unlocked is None:
            yield "writes_locked"
        else:
            yield "unlocked"
            if not lock.opens_all:
                yield "unlocked_for_paths"
        if lock.authenticated:
            yield "admin_authenticated"

    def _command_labels(self, phase: Phase, command: RunningCommand) -> Iterator[str]:
        radius = self._host.radius(read_only=command.read_only)
        kernel_readonly = command.read_only and not radius[Asset.WORKSPACE].reachable
        writable = command.act.can_write and not kernel_readonly
        facts = {
            "running": True,
            "fed": phase is Phase.FED,
            "ending": phase is Phase.ENDING,
            "deadline_armed": command.has_deadline,
            "listed": command.act.is_listed,
            "interpreter_running": command.act.interprets,
            "kernel_readonly": kernel_readonly,
            "workspace_writable": writable,
            "protected_writable": writable and bool(self._policy.paths.protected),
            **{atom: not radius.is_cut(protection) for protection, atom in PROTECTION_ATOMS.items()},
        }
        return (atom for atom, holds in facts.items() if holds)
