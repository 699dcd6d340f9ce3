"""`fable-exec seatbelt` and `fable-exec boundary`: what they print, and with which status they end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from fable_exec.cli.boundary_command import _status_of
from fable_exec.errors import BoundaryUnproved, ConfinementUnavailable, PolicyError
from fable_exec.seatbelt import render
from tests.cli.typed import the_object, typed_here
from tests.ports import free_port
from tests.seatbelt.boundaries import CASES, Case, place


@pytest.fixture
def host() -> Iterator[Case]:
    with place() as root:
        yield CASES["minimal"](root)


@pytest.fixture
def flags(host: Case, tmp_path: Path) -> list[str]:
    file = tmp_path / "boundary.toml"
    port = free_port()
    roots = ", ".join(f'"{root}"' for root in host.boundary.workspace_roots)
    file.write_text(
        f'workspace_roots = [{roots}]\nprotected_root = "{host.boundary.protected_root}"\nreserved_ports = [{port}]\n'
    )
    return ["--boundary", str(file), "--workspace", str(host.workspace), "--spec", str(host.spec)]


def test_render_prints_the_profile(host: Case, flags: list[str]) -> None:
    finished = typed_here("seatbelt", "render", *flags)
    same = attrs.evolve(host.boundary, reserved_ports=(port_of(flags),))
    assert (finished.returncode, finished.stdout) == (0, render(same, host.workspace, host.spec))


def port_of(flags: list[str]) -> int:
    return int(Path(flags[1]).read_text().rpartition("[")[2].rstrip("]\n"))


def test_decide_answers_with_one_word_and_0(host: Case, flags: list[str]) -> None:
    allowed = typed_here("seatbelt", "decide", *flags, "file-write-data", f"{host.workspace}/x")
    assert (allowed.returncode, allowed.stdout) == (0, b"allow\n")
    denied = typed_here("seatbelt", "decide", *flags, "--json", "file-read-data", str(host.siblings[0]))
    assert (denied.returncode, the_object(denied)["decision"]) == (0, "deny")
    wrong = typed_here("seatbelt", "decide", *flags, "file-read-data", "relative")
    assert (wrong.returncode, wrong.stdout) == (2, b"") and b"absolute path" in wrong.stderr


def test_explain_names_the_rule(flags: list[str]) -> None:
    port = port_of(flags)
    finished = typed_here("seatbelt", "explain", *flags, "--json", "network-bind", f"tcp:127.0.0.1:{port}")
    told = the_object(finished)
    assert (told["decision"], told["rule"]) == ("deny", f'(deny network-bind (local ip "*:{port}"))')
    assert typed_here("seatbelt", "render", *flags).stdout.decode().splitlines()[told["line"] - 1] == told["rule"]
    default = typed_here("seatbelt", "explain", *flags, "sysctl-write")
    assert default.stdout == b"deny: no rule matches, and the default is (deny default)\n"


def test_a_faulty_boundary_is_2_and_names_its_settings(flags: list[str]) -> None:
    Path(flags[1]).write_text('workspace_roots = ["/nowhere"]\nprotected_root = "/nowhere/at/all"\n')
    for argv in (["seatbelt", "render", *flags], ["boundary", "check", *flags[:2]]):
        finished = typed_here(*argv)
        assert (finished.returncode, finished.stdout) == (2, b"")
        assert b"workspace_roots[0]: does not exist" in finished.stderr and b"protected_root: does not exist" in finished.stderr
    by_name = typed_here("boundary", "check", env={"FABLE_EXEC_HOST_RESERVED_PORTS": "x"})
    assert by_name.returncode == 2 and b"FABLE_EXEC_HOST_WORKSPACE_ROOTS: is required" in by_name.stderr


@pytest.mark.requires_ability("confinement")
def test_a_boundary_that_holds_is_proved(host: Case, flags: list[str]) -> None:
    told = the_object(typed_here("boundary", "check", *flags[:2], "--json"))
    assert (told["protected_root"], "probe_sha256" in told) == (str(host.boundary.protected_root), False)
    proved = typed_here("boundary", "check", *flags[:2], "--probe")
    assert proved.returncode == 0, proved.stderr
    assert len(proved.stdout.decode().rpartition("probe_sha256 = ")[2].strip()) == 64
    text = Path(flags[1]).read_text()
    Path(flags[1]).write_text(text.replace(f"[{port_of(flags)}]", "[]"))
    without = typed_here("boundary", "check", *flags[:2], "--probe")
    assert without.returncode == 1 and b"a reserved port that is free" in without.stderr


@pytest.mark.parametrize(
    ("error", "status"),
    [
        *[(BoundaryUnproved("no", finding=finding), finding) for finding in (40, 41, 42, 43)],
        (BoundaryUnproved("no"), 1),
        (ConfinementUnavailable("no"), 1),
        (PolicyError("no"), 2),
    ],
)
def test_the_status_is_what_the_probe_found(error: Exception, status: int) -> None:
    assert _status_of(error) == status
