"""`fable-exec audit`: what an audit log is worth."""

from __future__ import annotations

import attrs
import click

from fable_exec.audit import AuditReport, verify_log
from fable_exec.cli.exits import Exit
from fable_exec.cli.inputs import AS_JSON, one_digest
from fable_exec.cli.showing import at_the_door, print_object, say

__all__ = ["command"]


@click.group("audit")
def command() -> None:
    """Verify audit logs."""


@command.command("verify")
@click.option("--head", metavar="DIGEST", callback=one_digest, help="Digest of a line known to be written; finds a cut tail.")
@AS_JSON
@click.argument("file", type=click.UNPROCESSED)
def verify(head: str | None, as_json: bool, file: str) -> int:
    """Tell whether the chain of FILE holds.

    Exit status: 0 when it holds, 1 when it is broken, 2 when it cannot be read.
    """

    def act() -> int:
        report = verify_log(file, expected_head=head)
        if as_json:
            print_object(attrs.asdict(report))
        else:
            say(_told(file, report))
        return Exit.OK if report.ok else Exit.FAILED

    return at_the_door(act, as_json=as_json, status_of=lambda _: Exit.USAGE)


def _told(file: str, report: AuditReport) -> str:
    if not report.ok:
        return f"BROKEN: {file}: line {report.first_bad}: {report.reason}; the {report.lines} before it hold"
    gaps = f", {report.gaps} of them gaps" if report.gaps else ""
    return f"holds: {file}: {report.lines} lines{gaps}, head {report.head.digest}"
