"""`fable-exec probe`: what a broker under a policy says about itself."""

from __future__ import annotations

import click

from fable_exec.broker import ExecutionBroker
from fable_exec.cli.exits import Exit
from fable_exec.cli.given_policy import given_policy
from fable_exec.cli.showing import at_the_door, one_line, print_object, report
from fable_exec.protocol import ProbeResult, encode_answer, encode_result

__all__ = ["command"]


@click.command("probe", short_help="Tell what a broker offers here.")
@click.option("--workspace", metavar="DIRECTORY", help="The workspace. [default: the policy's, or the current directory]")
@click.option("--policy", "file", metavar="FILE", help="TOML or JSON; flags win. [default: the default policy]")
@click.option("--json", "as_json", is_flag=True, help="Print the wire's result as one object.")
def command(workspace: str | None, file: str | None, as_json: bool) -> int:
    """Tell what a broker offers here: programs, limits, protections.

    Exit status: 0, 1 when no broker can be had here, 2 for wrong usage or a policy with faults.
    """

    def act() -> int:
        with ExecutionBroker(given_policy(file, workspace)) as broker:
            result = broker.probe()
        if as_json:
            print_object(encode_answer(encode_result(result)))
        else:
            _show(result)
        return Exit.OK

    return at_the_door(act, as_json=as_json)


def _show(result: ProbeResult) -> None:
    from rich.table import Table

    table = Table(show_header=False, box=None, pad_edge=False)
    for name, value in _rows(result):
        table.add_row(name, one_line(value))
    report(table)


def _rows(result: ProbeResult) -> list[tuple[str, str]]:
    limits = result.limits
    idle = "none" if limits.idle_timeout_seconds is None else f"{limits.idle_timeout_seconds:g} s"
    protections = [
        (each.protection, f"{each.state}{f' by {each.means}' if each.means else ''}{f' ({each.reason})' if each.reason else ''}")
        for each in result.confinement
    ]
    return [
        ("workspace", result.workspace),
        ("writes", "unlocked" if result.writes_enabled else "locked"),
        ("programs", ", ".join(result.available_executables)),
        ("not found", ", ".join(result.unresolved_executables) or "-"),
        ("actions", ", ".join(result.capabilities)),
        ("timeout", f"{limits.timeout_seconds:g} s, at most {limits.max_timeout_seconds:g} s"),
        ("idle timeout", idle),
        ("output kept", f"{limits.max_output_bytes} bytes of each stream"),
        *protections,
        ("policy", result.policy_digest),
        *(("note", note) for note in result.notes),
    ]
