"""A refusal is told with the command that met it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.confinement.places import confined, in_modes, run
from tests.denials.told import PROGRAMS

pytestmark = pytest.mark.requires_ability("linux")


@in_modes()
def test_commands_at_the_same_time_are_told_apart(mode: str, workspace: Path) -> None:
    text = "for n in $(seq 0 19); do mkdir /usr/$0-$n; done"
    with confined(workspace, mode, allowed_executables=PROGRAMS) as broker:
        commands = [broker.start_command(("sh", "-c", text, name)) for name in "abcd"]
        results = [command.wait() for command in commands]
    for name, result in zip("abcd", results, strict=True):
        assert result is not None
        assert {each.path for each in result.denials} == {f"/usr/{name}-{n}" for n in range(20)}


@in_modes()
def test_a_background_child_is_told_with_its_command(mode: str, workspace: Path) -> None:
    with confined(workspace, mode, allowed_executables=PROGRAMS) as broker:
        result = broker.execute_command(
            ("sh", "-c", "(mkdir /usr/child) & (setsid sh -c 'mkdir /usr/far'; true) & wait; sleep 0.1")
        )
        assert run(broker, "true").denials == ()
    assert {each.path for each in result.denials} == {"/usr/child", "/usr/far"}
