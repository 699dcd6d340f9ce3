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
from fable_exec.cli.showing import at_the_door, one_line, print_object, report
from fable_exec.policy import Confinement, load_policy

__all__ = ["command"]


@click.command("doctor", short_help="Tell what holds on this host, why not, and what to do.")
@click.option("--policy", "file", metavar="FILE", help="Judge by what this policy asks for. [default: the default policy]")
@click.option("--confinement", "wanted", type=click.Choice(["strict", "off"]), help="Judge by this instead of the policy's.")
@click.option("--json", "as_json", is_flag=True, help="Print one object.")
def command(file: str | None, wanted: str | None, as_json: bool) -> int:
    """Tell which protections hold on this host, why others do not, and what to do.

    What holds is proved: a confined process tries to break out of a workspace made for it.

    Exit status: 0 when everything that is strictly asked for holds, 1 when not, 2 for wrong usage or a policy with faults.
    """

    def act() -> int:
        sections = examine(Asked(None if file is None else load_policy(file), Confinement.named(wanted) if wanted else None))
        unmet = [each for section in sections for each in section.findings if each.unmet]
        if as_json:
            print_object({"ok": not unmet, "host": _host(), **_members(sections)})
        else:
            _show(sections, unmet)
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


_STYLES = {"active": "green", "degraded": "yellow", "unavailable": "red"}


def _show(sections: Iterable[Section], unmet: list[Finding]) -> None:
    host = Text("  ".join(one_line(word) for word in _host().values()), style="dim")
    report(host, *(_table(section) for section in sections), _verdict(unmet))


def _table(section: Section) -> Table:
    table = Table(title=section.name, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for heading in ("", "asked for", "state", "by", "why not", "what to do"):
        table.add_column(heading, overflow="fold")
    for each in section.findings:
        words = (each.name, each.mode, each.state, each.means, each.reason, each.remedy)
        cells = [Text(one_line(word) or "-") for word in words]
        cells[2].stylize(_STYLES.get(each.state, ""))
        table.add_row(*cells)
    return table


def _verdict(unmet: list[Finding]) -> Text:
    if not unmet:
        return Text("Everything that is strictly asked for holds here.", style="green")
    return Text(f"Strictly asked for, and not held: {', '.join(one_line(each.name) for each in unmet)}.", style="red")
