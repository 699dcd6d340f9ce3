"""`python -m benchmarks.escapes`: every attempt against every system, each in a world of its own, as one table.

An attempt counts where its control, unconfined and as the same user, had its effect. --write renews README.md and results.json.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs

from benchmarks import machine, peers
from benchmarks.escapes.attempt import Attempt
from benchmarks.escapes.groups import all_attempts
from benchmarks.escapes.report import insert, table, verdicts
from benchmarks.escapes.world import World, run_inside

__all__ = ["COLUMNS", "Column", "main", "performed"]

_SECONDS = 2400


@attrs.frozen
class Column:
    """One system as one user.

    Args:
        control: the user whose control proves an attempt here; root of the machine has none of its own.
        weaker: whether the attempts that are documented as weaker without namespaces may succeed.
    """

    title: str
    system: str
    user: str
    control: str
    ours: bool = True
    weaker: bool = False
    user_namespaces: bool = True

    @property
    def world(self) -> World:
        return World(user=self.user, user_namespaces=self.user_namespaces, peers=str(peers.DIRECTORY))


COLUMNS = (
    Column("root, slots", "slots", "root", "root"),
    Column("root, namespace", "namespace", "root", "root"),
    Column("root, plain", "plain", "root", "root", weaker=True),
    Column("user, slots", "slots", "user", "user"),
    Column("user, namespace", "namespace", "user", "user"),
    Column("user, no user namespaces", "auto", "user", "user", weaker=True, user_namespaces=False),
    Column("root of the machine, slots", "slots", "machine root", "root"),
    Column("bwrap", "bwrap", "user", "user", ours=False),
    Column("sandlock", "sandlock", "user", "user", ours=False),
    Column("codex", "codex", "user", "user", ours=False),
    Column("srt", "srt", "user", "user", ours=False),
)


def performed(world: World, system: str, only: str = "") -> dict[str, Any]:
    """What a worker found: {"results": {attempt: ...}}, or {"skipped": reason}.

    Raises:
        ValueError: a control is asked for where nothing of the machine keeps it in.
    """
    if system == "control" and world.user == "machine root":
        raise ValueError("no control is run as root of the machine")
    try:
        done = run_inside(world, ["-m", "benchmarks.escapes.worker", system, "--only", only], seconds=_SECONDS)
        found: dict[str, Any] = json.loads(done.stdout.strip().rpartition("\n")[2])
    except ValueError:
        return {"skipped": f"the worker ended with {done.returncode}: {done.stderr.strip()[-300:]}"}
    except subprocess.TimeoutExpired:
        return {"skipped": f"not finished after {_SECONDS} s"}
    return found


def main() -> int:
    """Print the table. 1 where something of ours did not hold, or too little was proved to say so."""
    options = _options()
    peers.install()
    attempts = [each for each in all_attempts() if options.only in each.name]
    columns = [each for each in COLUMNS if not options.systems or each.title in options.systems or each.system in options.systems]
    controls = {
        user: _said(performed, World(user=user), "control", options.only) for user in sorted({each.control for each in columns})
    }
    found = {each.title: _said(performed, each.world, each.system, options.only) for each in columns}
    judged = {each.title: verdicts(attempts, controls[each.control], found[each.title]) for each in columns}
    text = table(attempts, columns, judged, found)
    print(text)
    if options.write:
        where = f"{machine.describe(Path('/'))}"
        insert(Path(__file__).with_name("README.md"), text, where)
        results = {"controls": controls, "found": found}
        Path(__file__).with_name("results.json").write_text(
            json.dumps(_without_outputs(results), indent=0, sort_keys=True) + "\n"
        )
    return _status(attempts, columns, judged)


def _said(act: Any, world: World, system: str, only: str) -> dict[str, Any]:
    print(f"== {system} as {world.user}", file=sys.stderr, flush=True)
    found: dict[str, Any] = act(world, system, only)
    if "skipped" in found:
        print(f"   skipped: {found['skipped']}", file=sys.stderr)
    return found


def _status(attempts: list[Attempt], columns: list[Column], judged: dict[str, dict[str, str]]) -> int:
    weaker = {each.name for each in attempts if each.weaker}
    broken = [
        f"{column.title}: {name}"
        for column in columns
        if column.ours
        for name, verdict in judged[column.title].items()
        if verdict == "escaped" and not (column.weaker and name in weaker)
    ]
    for line in broken:
        print(f"ESCAPED {line}", file=sys.stderr)
    silent = [column.title for column in columns if column.ours and not judged[column.title]]
    for title in silent:
        print(f"NOT SHOWN {title}", file=sys.stderr)
    return 1 if broken or silent else 0


def _without_outputs(results: dict[str, Any]) -> dict[str, Any]:
    """Only what is judged: outputs hold times and numbers that change with every run."""
    return {
        kind: {
            title: found if "skipped" in found else {name: _word(each) for name, each in found["results"].items()}
            for title, found in of_kind.items()
        }
        for kind, of_kind in results.items()
    }


def _word(result: dict[str, Any]) -> str:
    return f"skipped: {result['skipped']}" if "skipped" in result else "effect" if result["escaped"] else "none"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="a part of a name or group")
    parser.add_argument("--systems", nargs="*", default=[], help="systems or titles of columns; all without it")
    parser.add_argument("--write", action="store_true", help="renew README.md and results.json")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
