"""`python -m benchmarks.run [NAME...]`: measure and print; --write renews what benchmarks/README.md and results.json say of it.

Without a name, every module in turn, each in a process of its own, so that none inherits the memory or threads of another.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import machine, report
from benchmarks.lines import PROJECT, environment
from benchmarks.peers import Peers, install
from benchmarks.setting import Setting

__all__ = ["NAMES", "main", "measure"]

HERE = Path(__file__).resolve().parent
NAMES = (
    "execute", "in_flight", "big_host", "output", "probe", "write_frame", "write_file", "inspect_file", "frames", "startup",
    "protocol", "path_safety", "filters", "confined", "pins", "durable_state", "supervision", "tree_digests", "assurance",
    "decisions",
)  # fmt: skip


def measure(name: str, directory: Path, peers: Peers, scale: float = 1.0) -> list[dict[str, Any]]:
    """The figures of one module, as in results.json."""
    module = importlib.import_module(f"benchmarks.figures.{name}")
    with (
        tempfile.TemporaryDirectory(prefix="fable-exec-bench-", dir=directory) as own,
        Setting(Path(own), peers, scale) as setting,
    ):
        return [figure.to_json() for figure in module.measure(setting)]


def _in_own_process(name: str, options: argparse.Namespace) -> list[dict[str, Any]] | None:
    with tempfile.TemporaryDirectory() as scratch:
        answer = Path(scratch) / "figures.json"
        argv = [sys.executable, "-m", "benchmarks.run", name, f"--scale={options.scale}", f"--directory={options.directory}"]
        argv += ["--json", str(answer), *(["--no-peers"] if options.no_peers else [])]
        status = subprocess.run(argv, cwd=PROJECT, env=environment(), stdin=subprocess.DEVNULL).returncode
        if status:
            print(f"{name} ended with status {status}", file=sys.stderr)
            return None
        found: list[dict[str, Any]] = json.loads(answer.read_text())
        return found


def _everything(names: tuple[str, ...], peers: Peers, options: argparse.Namespace) -> dict[str, Any]:
    before, start = machine.load(), time.monotonic()
    figures: list[dict[str, Any]] = []
    failed = []
    for name in names:
        print(f"== {name}", flush=True)
        found = _in_own_process(name, options)
        figures += [{"module": name, **figure} for figure in found or []]
        failed += [name] if found is None else []
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "machine": machine.describe(options.directory),
        "load_before": before,
        "load_after": machine.load(),
        "duration_seconds": round(time.monotonic() - start, 1),
        "scale": options.scale,
        "missing_peers": peers.missing,
        "failed": failed,
        "figures": figures,
    }


def _renewed(earlier: list[dict[str, Any]], run: dict[str, Any]) -> list[dict[str, Any]]:
    """All runs whose figures still stand: of a module those of the last one that measured it."""
    measured = {figure["module"] for figure in run["figures"]}
    kept = [{**each, "figures": [figure for figure in each["figures"] if figure["module"] not in measured]} for each in earlier]
    return [*(each for each in kept if each["figures"]), run]


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *NAMES], metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--scale", type=float, default=1.0, help="share of the rounds; 0.05 is a quick look")
    parser.add_argument("--directory", type=Path, default=Path(tempfile.gettempdir()), help="where files are written")
    parser.add_argument("--no-peers", action="store_true", help="install and measure nobody else")
    parser.add_argument("--write", action="store_true", help="renew what README.md and results.json say of them")
    parser.add_argument("--json", type=Path, metavar="FILE", help="with one name: its figures go there too")
    options = parser.parse_args(arguments)
    options.directory = options.directory.resolve()
    return options


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    # What is started by the library itself gets this environment too.
    os.environ.update(there := environment())
    for name in os.environ.keys() - there.keys():
        del os.environ[name]
    peers = Peers.none("not asked for") if options.no_peers else install()
    for name, reason in peers.missing.items():
        print(f"{name}: skipped: {reason}", file=sys.stderr)
    if len(options.names) == 1 and not options.write:
        rows = measure(options.names[0], options.directory, peers, options.scale)
        print(report.plain(rows), flush=True)
        if options.json:
            options.json.write_text(json.dumps(rows))
        return 0
    names = tuple(options.names) or NAMES
    run = _everything(names, peers, options)
    if options.write:
        kept = HERE / "results.json"
        runs = _renewed(json.loads(kept.read_text("utf-8")), run)
        kept.write_text(json.dumps(runs, indent=1, ensure_ascii=False) + "\n", "utf-8")
        report.write_readme(HERE / "README.md", report.markdown(runs))
    return 1 if run["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
