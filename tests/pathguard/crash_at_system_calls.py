"""The program of test_crash.py: `... DIRECTORY RESOLVER SCENE` kills a writer with SIGKILL at each of its system calls in turn.

For n = 1, 2, ...: a child runs one write, and is killed at the n-th stop (tests/tracing.py). The workspace is looked at after
each death. Ends when a child came through. Prints JSON.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from fable_exec.pathguard import Workspace, WorkspacePath, is_temporary_name
from tests.tracing import MOST_STOPS, Act, killed_at


def writing(directory: str, resolver: str, scene: str) -> Act:
    workspace = Workspace.open(directory, resolver=resolver)
    write = workspace.create_exclusive if scene == "create" else workspace.write_replace
    return lambda: write(WorkspacePath.parse("f"), b"whole new")


def main() -> None:
    directory, resolver, scene = sys.argv[1:]
    target = Path(directory, "f")
    outcomes: dict[str, int] = {}
    leftovers: list[int] = []
    for stop in range(1, MOST_STOPS):
        target.unlink(missing_ok=True)
        if scene == "replace":
            target.write_bytes(b"whole old")
        went_on = not killed_at(stop, lambda: writing(directory, resolver, scene))
        content = target.read_bytes().decode() if target.exists() else "absent"
        outcomes[content] = outcomes.get(content, 0) + 1
        names = [name for name in os.listdir(directory) if name != "f"]
        assert all(is_temporary_name(name) for name in names), names
        leftovers.append(len(names))
        with Workspace.open(directory, resolver=resolver) as workspace:
            assert workspace.remove_leftovers() == len(names)
        assert [name for name in os.listdir(directory) if name != "f"] == []
        if went_on:
            break
    print(json.dumps({"stops": stop, "outcomes": outcomes, "most_leftovers": max(leftovers), "with_leftover": sum(leftovers)}))


if __name__ == "__main__":
    main()
