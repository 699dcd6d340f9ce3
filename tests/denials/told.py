"""What the tests of denials share: the programs that run, and a result's denials as a set."""

from __future__ import annotations

from fable_exec import CommandResult, ExecutionBroker
from fable_exec.calls.handles import CommandHandle
from fable_exec.protocol import Output
from tests.confinement.places import available

PROGRAMS = available("bash", "cat", "git", "python3", "sh", "true", "sleep")
Told = set[tuple[str, str, str]]


def told(result: CommandResult) -> Told:
    """(operation, path or address, protection) of each denial, all of which suggest something."""
    for each in result.denials:
        assert bool(each.path) != bool(each.address) or each.protection in ("kernel_surface", "other_processes"), each
        assert each.suggestion, each
    return {(each.operation, each.path or each.address, each.protection) for each in result.denials}


def python(broker: ExecutionBroker, text: str, *arguments: object, **more: object) -> CommandResult:
    """What comes of a program in Python."""
    return broker.execute_command(("python3", "-c", text, *map(str, arguments)), **more)  # type: ignore[arg-type]  # arguments of a call, passed on as given


def await_word(started: CommandHandle, word: bytes) -> None:
    """Until the command has written `word`: that it was started says only that it will run."""
    written = b""
    for event in started.events():
        written += event.data if isinstance(event, Output) else b""
        if word in written:
            return
    raise AssertionError(f"{word!r} was never written, but {written!r}")
