"""`fable-exec doctor`: what holds on this host, why not, what to do."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from typing import Any

import attrs
import click
from rich.table import Table
from rich.text import Text

from fable_exec import __version__
from fable_exec.cli.examination import Asked, Finding, Section, examine
from fable_exec.cli.exits import Exit
from fable_exec.cli.given_policy import WORKSPACE, given_policy
from fable_exec.cli.inputs import AS_JSON
from fable_exec.cli.showing import at_the_door, one_line, print_object, report
from fable_exec.policy import Confinement

__all__ = ["command"]


@click.command("doctor", short_help="Tell what holds on this host, why not, and what to do.")
@WORKSPACE
@click.option("--policy", "file", metavar="FILE", help="Judge by what this policy asks for. [default: the default policy]")
@click.option("--confinement", "wanted", type=click.Choice(["strict", "off"]), help="Judge by this instead of the policy's.")
@AS_JSON
def command(workspace: str | None, file: str | None, wanted: str | None, as_json: bool) -> int:
    """Tell which protections hold on this host, why others do not, and what to do.

    What holds is proved: a confined process tries to break out of a workspace made for it.

    Exit status: 0 when everything that is strictly asked for holds, 1 when not, 2 for wrong usage or a policy with faults.
    """

    def act() -> int:
        policy = None if file is None and workspace is None else given_policy(file, workspace)
        asked = Asked(policy, Confinement.named(wanted) if wanted else None)
        sections = examine(asked)
        unmet = [each for section in sections for each in section.findings if each.unmet]
        if as_json:
            print_object({"ok": not unmet, "host": _host(), **_members(sections)})
        else:
            report(
                _header(),
                *(part for section in sections if section.findings for part in _shown(section)),
                _verdict(unmet, asked.off),
            )
        return Exit.FAILED if unmet else Exit.OK

    return at_the_door(act, as_json=as_json)


def _host() -> Mapping[str, str]:
    return {
        "system": platform.system(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "fable_exec": __version__,
    }


def _members(sections: Iterable[Section]) -> dict[str, Any]:
    return {section.name: [_member(section, each) for each in section.findings] for section in sections}


def _member(section: Section, finding: Finding) -> dict[str, str]:
    """As in an outcome's `confinement`, with what to do; a protection is named by the word that outcomes use."""
    members: dict[str, str] = attrs.asdict(finding)
    name = members.pop("name")
    return {"protection" if section.name == "protections" else "name": name, **members}


_WORDS = {"active": ("yes", "green"), "degraded": ("in part", "yellow"), "unavailable": ("no", "red")}
"""For people; JSON has the words of outcomes."""


def _header() -> Text:
    host = _host()
    words = f"{host['system']} {host['kernel']} on {host['machine']}, Python {host['python']}, fable-exec {host['fable_exec']}"
    return Text(one_line(words), style="dim")


def _shown(section: Section) -> tuple[Text, Table]:
    table = Table(show_header=False, box=None, pad_edge=False)
    for overflow in ("ignore", "ignore", "ignore", "fold"):
        table.add_column(overflow=overflow)
    for each in section.findings:
        word, style = _WORDS.get(each.state, (each.state, ""))
        table.add_row(Text(word, style=style), Text(one_line(each.name)), Text(each.mode), Text(one_line(_told(each))))
    return Text(f"\n{section.name}: {section.title}", style="bold"), table


def _told(finding: Finding) -> str:
    """What it is, how it holds or why not, and what to do, in sentences."""
    against = "But" if finding.state == "active" else "Why not"
    parts = (("How", finding.means), (against, finding.reason), ("What to do", finding.remedy))
    return " ".join([finding.what, *(f"{label}: {text}." for label, text in parts if text)])


def _verdict(unmet: list[Finding], off: tuple[str, ...]) -> Text:
    switched_off = f"\nNot asked for, and so not held: {', '.join(off)}." if off else ""
    if not unmet:
        return Text(f"{switched_off}\nEverything that is strictly asked for holds here: commands can run.", style="green")
    if any(each.name == "programs" for each in unmet):
        return Text(f"{switched_off}\nNo broker starts under this policy: it needs a program that can be found.", style="red")
    names = ", ".join(one_line(each.name) for each in unmet)
    remedy = 'Commands are refused until that is mended, or the policy says "degradable" of it.'
    return Text(f"{switched_off}\nStrictly asked for, and not held: {names}. {remedy}", style="red")
